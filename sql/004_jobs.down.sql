BEGIN;
SET LOCAL ROLE dp_owner;
DROP VIEW dp_int.stage;
DROP FUNCTION dp_int.job_channel, dp_int.awaited, dp_int.wait_key, dp_int.sidecars_alive;
ALTER TABLE dp_int.job DROP CONSTRAINT job_release;
DROP TABLE dp_int.option, dp_int.model, dp_int.worker, dp_int.coefficient, dp_int.release, dp_int.turnstile, dp_int.job;
COMMIT;
