-- What is known of the errors of coefficients, sampling and noise together.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient ADD COLUMN std_err float8, ADD COLUMN df float8, ADD COLUMN ci_low float8, ADD COLUMN ci_high float8, ADD COLUMN p_value float8;
ALTER TABLE dp_int.release ADD COLUMN why_null text;
COMMENT ON COLUMN dp_int.release.why_null IS 'Why its coefficients have no interval; NULL where they have one.';
UPDATE dp_int.release SET why_null = 'it is from before dpsidecar gave intervals';
-- It takes more arguments now.
DROP FUNCTION IF EXISTS dp_int.job_publish(uuid, uuid, text, text[], float8[], float8[], int);

COMMIT;
