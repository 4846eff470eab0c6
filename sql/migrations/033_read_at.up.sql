-- When the rows of a release were read, and how many there were.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.job ADD COLUMN snapshot_at timestamptz;
COMMENT ON COLUMN dp_int.job.snapshot_at IS 'As of when the attempt that reads sees the rows: the beginning of its transaction.';
ALTER TABLE dp_int.release ADD COLUMN read_at timestamptz, ADD COLUMN rows bigint;
COMMENT ON COLUMN dp_int.release.read_at IS 'As of when its rows were read; NULL: it is from before this was noted.';
COMMENT ON COLUMN dp_int.release.rows IS 'The public number of rows, or of persons, that it was made for; NULL: it is from before this was noted.';
-- It takes one argument more now.
DROP FUNCTION IF EXISTS dp_int.job_read(uuid, uuid, interval, int);

COMMIT;
