BEGIN;
SET LOCAL ROLE dp_owner;

DROP TYPE dp_int.request;
ALTER TABLE dp_int.job DROP CONSTRAINT job_release;
DROP TABLE dp_int.option, dp_int.model, dp_int.worker, dp_int.coefficient, dp_int.release, dp_int.turnstile, dp_int.job;

COMMIT;
