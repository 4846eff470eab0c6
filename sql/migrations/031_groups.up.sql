-- Releases that hold a fit of each group.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient ADD COLUMN grp text NOT NULL DEFAULT '', ADD COLUMN share float8, ADD COLUMN why_null text;
COMMENT ON COLUMN dp_int.coefficient.grp IS 'The level whose rows the fit is of, by the category that the release''s parameters name under by; empty where they name none.';
COMMENT ON COLUMN dp_int.coefficient.share IS 'The share of rows that the group was taken to have, with noise; NULL: no group.';
COMMENT ON COLUMN dp_int.coefficient.why_null IS 'Why a coefficient of a group has no interval; NULL: it has one, or the release says why there are none.';
COMMENT ON COLUMN dp_int.coefficient.covariance IS
  'Its covariance with each coefficient of its fit up to itself, by position, of the middles of their intervals; NULL: not known.';
COMMENT ON COLUMN dp_int.coefficient.bias IS
  'Its row, up to itself, of a matrix B: a sum of middles of intervals of a fit with weights c has a bias of at most sqrt(c'' B c); NULL: none.';
ALTER TABLE dp_int.option DROP CONSTRAINT option_type, ADD CONSTRAINT option_type CHECK (type IN ('number', 'integer', 'string', 'groups', 'category'));
-- It takes more arguments now.
DROP FUNCTION IF EXISTS dp_int.job_publish(uuid, uuid, text, text[], float8[], float8[], int, jsonb);

COMMIT;
