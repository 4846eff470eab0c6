BEGIN;
SET LOCAL ROLE dp_owner;

DROP FUNCTION IF EXISTS dp_int.job_claim(uuid, interval, text);
DROP FUNCTION IF EXISTS dp_int.counted(bigint, bigint, boolean);
DROP FUNCTION IF EXISTS dp_int.rows_for_intervals(text, int, int, float8, float8);

COMMIT;
