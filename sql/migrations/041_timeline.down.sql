BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.location DROP COLUMN timeline;

COMMIT;
