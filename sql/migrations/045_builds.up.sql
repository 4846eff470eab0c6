-- A sidecar says which build it is when it asks for a job, and waits for no steward when it publishes a number of rows.
BEGIN;
SET LOCAL ROLE dp_owner;

-- These take other arguments now.
DROP FUNCTION IF EXISTS dp_int.job_claim(uuid, interval);
DROP FUNCTION IF EXISTS dp_int.counted(bigint, bigint);
DROP FUNCTION IF EXISTS dp_int.rows_for_intervals(text, int, int, int, float8, float8);

COMMIT;
