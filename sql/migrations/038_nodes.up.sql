-- Tables whose rows are on several nodes.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN distribution text;
COMMENT ON COLUMN dp_int.dataset.distribution IS 'How rows are distributed over nodes, at registration; NULL where one snapshot shows them all.';

COMMIT;
