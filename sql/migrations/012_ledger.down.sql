BEGIN;
SET LOCAL ROLE dp_owner;

DO $$
BEGIN
  IF EXISTS (SELECT FROM dp_int.ledger) AND coalesce(current_setting('dp.discard_ledger', true), '') <> 'yes' THEN
    RAISE EXCEPTION 'the ledger has entries, and going down would lose them'
      USING HINT = 'Archive dp.ledger first, then run PGOPTIONS=''-c dp.discard_ledger=yes'' dpsidecar migrate down.';
  END IF;
END $$;
DROP TABLE dp_int.ledger;

COMMIT;
