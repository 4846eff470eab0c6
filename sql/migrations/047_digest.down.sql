-- The digests stay, as 040 says.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP COLUMN IF EXISTS foreign_parts;

COMMIT;
