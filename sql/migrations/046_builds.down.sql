BEGIN;
SET LOCAL ROLE dp_owner;

DROP FUNCTION IF EXISTS dp_int.job_claim(uuid, interval, text);
DROP FUNCTION IF EXISTS dp_int.counted(bigint, bigint, boolean);

COMMIT;
