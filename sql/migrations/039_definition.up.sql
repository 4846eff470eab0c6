-- What a statement that a relation is total was about.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN definition bytea;
COMMENT ON COLUMN dp_int.dataset.definition IS 'Where it is stated to be total: SHA-256 of the views and functions below it as they were then (dp_int.definition).';

COMMIT;
