-- The digests stay, as 040 says.
BEGIN;
COMMIT;
