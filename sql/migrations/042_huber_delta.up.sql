-- Which delta of Huber's loss the coefficients of a release are about.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.release ADD COLUMN huber_delta float8;
COMMENT ON COLUMN dp_int.release.huber_delta IS 'The delta of the loss that its coefficients minimise, in target scales, of groups the least; NULL without one, and for releases from before this was noted.';
-- It takes one argument more now.
DROP FUNCTION IF EXISTS dp_int.insert_release(dp_int.job, text, int, text, boolean);

COMMIT;
