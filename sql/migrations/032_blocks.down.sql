BEGIN;
SET LOCAL ROLE dp_owner;

-- An account with blocks would go on as one for all time, whose entries have lost a column of their hash.
DO $$ BEGIN
  IF EXISTS (SELECT FROM dp_int.account WHERE block_width IS NOT NULL) AND current_setting('dp.discard_ledger', true) IS DISTINCT FROM 'yes' THEN
    RAISE EXCEPTION 'the budget of a data set is one for every block of time, which an older dpsidecar does not know'
      USING ERRCODE = '55000', HINT = 'Stay with this version. Nothing was changed.';
  END IF;
END $$;

ALTER TABLE dp_int.dataset DROP COLUMN block, DROP COLUMN block_source, DROP COLUMN block_number, DROP COLUMN block_type, DROP COLUMN block_rows, DROP COLUMN block_is_fixed, DROP COLUMN block_fixed_by;
ALTER TABLE dp_int.ledger DROP COLUMN blocks;
DROP TABLE dp_int.account_block CASCADE;  -- functions are gone before, but those that somebody put there by hand
ALTER TABLE dp_int.account DROP COLUMN block_width, DROP COLUMN block_origin;

COMMIT;
