-- The digest of what a relation was stated to be total with covers labels, names of columns, text search and settings. It is made anew where
-- the one that was kept still holds; where it does not, the data set stays refused.
BEGIN;
SET LOCAL ROLE dp_owner;

DO $$
BEGIN
  IF to_regprocedure('dp_int.definition(oid)') IS NOT NULL THEN
    UPDATE dp_int.dataset SET definition = NULL WHERE definition = dp_int.definition(relid);
  END IF;
END $$;

ALTER TABLE dp_int.dataset ADD COLUMN foreign_parts jsonb;
COMMENT ON COLUMN dp_int.dataset.foreign_parts IS 'Where it is stated to be total: the foreign tables among its partitions and children as they were then, and what each stood for (dp_int.foreign_parts).';

COMMIT;
