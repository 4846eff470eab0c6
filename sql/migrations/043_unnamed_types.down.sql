BEGIN;
SET LOCAL ROLE dp_owner;

-- The digests stay, as 040 says. The former function takes one argument less.
DROP FUNCTION IF EXISTS dp_int.refuse_strangers(oid, name, bigint);

COMMIT;
