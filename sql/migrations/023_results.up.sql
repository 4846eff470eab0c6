-- What tests and intervals of combinations of coefficients are made of, and which values of
-- a column are labels.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient ADD COLUMN covariance float8[], ADD COLUMN bias float8[];
COMMENT ON COLUMN dp_int.coefficient.covariance IS
  'Its covariance with each coefficient up to itself, by position, of the middles of their intervals; NULL: not known.';
COMMENT ON COLUMN dp_int.coefficient.bias IS
  'Its row, up to itself, of a matrix B: a sum of middles of intervals with weights c has a bias of at most sqrt(c'' B c); NULL: none.';
ALTER TABLE dp_int.dataset ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN dp_int.dataset.labels IS 'By column: which of its values are labels, the negative one first.';
-- It takes one argument more now.
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb);

COMMIT;
