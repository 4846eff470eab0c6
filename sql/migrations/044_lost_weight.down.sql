BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.second_moments DROP COLUMN lost, DROP COLUMN lost_noise;
DROP FUNCTION IF EXISTS dp_int.job_publish_moments(uuid, uuid, text, int, text[], float8[], float8, float8, float8, float8);

COMMIT;
