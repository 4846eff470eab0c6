BEGIN;
SET LOCAL ROLE dp_owner;

COMMENT ON COLUMN dp_int.dataset.definition IS 'Where it is stated to be total: SHA-256 of the views and functions below it as they were then (dp_int.definition).';
UPDATE dp_int.dataset SET definition = NULL WHERE definition IS NOT NULL;  -- an older dpsidecar makes its own

DROP FUNCTION IF EXISTS dp_int.job_recheck(uuid, uuid), dp_int.dataset_recheck(bigint);  -- they return something else

COMMIT;
