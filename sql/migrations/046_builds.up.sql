-- A sidecar says which build it is when it asks for a job, and waits for no steward when it publishes a number of rows.
BEGIN;
SET LOCAL ROLE dp_owner;

-- They take one argument more now.
DROP FUNCTION IF EXISTS dp_int.job_claim(uuid, interval);
DROP FUNCTION IF EXISTS dp_int.counted(bigint, bigint);

COMMIT;
