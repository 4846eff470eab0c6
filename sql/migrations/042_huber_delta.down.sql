BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.release DROP COLUMN huber_delta;
DROP FUNCTION IF EXISTS dp_int.insert_release(dp_int.job, text, int, text, boolean, float8);

COMMIT;
