BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient DROP COLUMN noise;

COMMIT;
