BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.release DROP COLUMN read_at, DROP COLUMN rows;
ALTER TABLE dp_int.job DROP COLUMN snapshot_at;
DROP FUNCTION IF EXISTS dp_int.job_read(uuid, uuid, interval, int, timestamptz);

COMMIT;
