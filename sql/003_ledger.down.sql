BEGIN;
SET LOCAL ROLE dp_owner;
DO $$
BEGIN
  IF EXISTS (SELECT FROM dp_int.ledger) AND coalesce(current_setting('dp.discard_ledger', true), '') <> 'yes' THEN
    RAISE EXCEPTION 'the ledger has entries, and going down would lose them'
      USING HINT = 'Archive dp.ledger first, then run PGOPTIONS=''-c dp.discard_ledger=yes'' dpsidecar migrate down.';
  END IF;
END $$;
DROP FUNCTION dp_int.ledger_budget, dp_int.ledger_refund, dp_int.refuse_overdraft, dp_int.affordable, dp_int.refuse_delta, dp_int.delta_fits, dp_int.ledger_charge,
  dp_int.prove, dp_int.ledger_append, dp_int.cost, dp_int.ledger_hash;
DROP TABLE dp_int.ledger;
DROP FUNCTION dp_int.ledger_is_append_only;
COMMIT;
