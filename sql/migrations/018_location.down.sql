BEGIN;
SET LOCAL ROLE dp_owner;

-- Without its location a copy would take itself for the original.
DO $$ BEGIN
  IF EXISTS (SELECT FROM dp_int.location l JOIN pg_database d ON d.datname = current_database()
              WHERE l.anchor <> 'dp_int.location'::regclass OR l.database <> d.oid OR l.system_identifier <> (SELECT system_identifier::text FROM pg_control_system()))
     AND current_setting('dp.discard_ledger', true) IS DISTINCT FROM 'yes' THEN
    RAISE EXCEPTION 'this database is a copy of the one that dpsidecar was installed in'
      USING ERRCODE = '55000', HINT = 'Run dpsidecar adopt first.';
  END IF;
END $$;

DROP TABLE dp_int.location;
-- Accounts of a copy may have an epsilon of 0; new ones may not.
ALTER TABLE dp_int.account DROP CONSTRAINT account_epsilon, ADD CONSTRAINT account_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity') NOT VALID;

COMMIT;
