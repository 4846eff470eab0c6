BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP COLUMN definition;

COMMIT;
