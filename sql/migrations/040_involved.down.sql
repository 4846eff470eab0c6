BEGIN;
SET LOCAL ROLE dp_owner;

COMMENT ON COLUMN dp_int.dataset.definition IS 'Where it is stated to be total: SHA-256 of the views and functions below it as they were then (dp_int.definition).';
-- The digests stay. An older dpsidecar finds others, and refuses those data sets until they are registered again: it
-- could not tell which of them have changed since they were stated to be total.

DROP FUNCTION IF EXISTS dp_int.job_recheck(uuid, uuid), dp_int.dataset_recheck(bigint);  -- they return something else

COMMIT;
