BEGIN;
SET LOCAL ROLE dp_owner;

DROP TABLE dp_int.operation;
DROP INDEX dp_int.job_queued, dp_int.job_leased, dp_int.job_served, dp_int.job_failed;
ALTER TABLE dp_int.job DROP COLUMN served, DROP COLUMN leased_at;

COMMIT;
