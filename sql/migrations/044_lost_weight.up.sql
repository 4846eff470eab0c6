-- How much weight rows of second moments lose by being shortened.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.second_moments ADD COLUMN lost float8, ADD COLUMN lost_noise float8;
COMMENT ON COLUMN dp_int.second_moments.lost IS 'The sum over rows without a missing value of the weight that each loses by being shortened to bound; NULL for releases from before this was released.';
COMMENT ON COLUMN dp_int.second_moments.lost_noise IS 'The standard deviation of its noise.';
-- It returns a column more now.
DROP FUNCTION IF EXISTS dp_int.solve_moments(float8[], int, float8, float8, int);
-- It takes two arguments more now.
DROP FUNCTION IF EXISTS dp_int.job_publish_moments(uuid, uuid, text, int, text[], float8[], float8, float8);

COMMIT;
