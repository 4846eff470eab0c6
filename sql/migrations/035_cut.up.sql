-- Whether a radius may have cut the coefficients of a release.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.release ADD COLUMN cut boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN dp_int.release.cut IS 'Whether a radius may have cut its coefficients, or those of one of its groups.';
-- Releases from before said it in words.
UPDATE dp_int.release r SET cut = true
 WHERE r.why_null LIKE '%as large as the radius allows%'
    OR EXISTS (SELECT FROM dp_int.coefficient c WHERE c.release = r.id AND c.why_null LIKE '%as large as the radius allows%');
-- It takes one argument more now.
DROP FUNCTION IF EXISTS dp_int.insert_release(dp_int.job, text, int, text);

COMMIT;
