-- The digest of what a relation was stated to be total with holds the settings that are in force, and no types of columns that a join
-- does not use. It is made anew where the one that was kept still holds, as in 047. The lock waits for registrations that are open;
-- those in between, before the functions of this version are in place, fail.
BEGIN;
SET LOCAL ROLE dp_owner;

LOCK TABLE dp_int.dataset IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
  IF to_regprocedure('dp_int.definition(oid)') IS NOT NULL THEN
    UPDATE dp_int.dataset SET definition = NULL WHERE definition = dp_int.definition(relid);
  END IF;
END $$;
DROP FUNCTION IF EXISTS dp_int.definition(oid);

COMMIT;
