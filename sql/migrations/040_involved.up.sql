-- The digest of what a relation was stated to be total with covers more. It is made anew where the one that was kept
-- still holds; where it does not, the data set stays refused.
BEGIN;
SET LOCAL ROLE dp_owner;

COMMENT ON COLUMN dp_int.dataset.definition IS 'Where it is stated to be total: SHA-256 of what decided which rows reading it returns, as it was then (dp_int.definition).';
DO $$
BEGIN
  IF to_regprocedure('dp_int.definition(oid)') IS NOT NULL THEN
    UPDATE dp_int.dataset SET definition = NULL WHERE definition = dp_int.definition(relid);
  END IF;
END $$;

DROP FUNCTION IF EXISTS dp_int.job_recheck(uuid, uuid), dp_int.dataset_recheck(bigint);  -- they return something else

COMMIT;
