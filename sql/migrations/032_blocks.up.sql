-- Tables that grow: a budget for every block of time, and requests about windows of blocks.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.account
  ADD COLUMN block_width interval,
  ADD COLUMN block_origin date,
  ADD CONSTRAINT account_blocks CHECK ((block_width IS NULL) = (block_origin IS NULL));
COMMENT ON COLUMN dp_int.account.block_width IS 'How long a block is, whole days or whole months; NULL: the account has one budget for all time. With blocks, spent and the other sums are those of all entries, and the budget is that of each block, see dp_int.account_block.';
COMMENT ON COLUMN dp_int.account.block_origin IS 'The first day, in UTC, of block 0.';

CREATE TABLE dp_int.account_block (
  account       bigint NOT NULL CONSTRAINT account_block_account REFERENCES dp_int.account,
  block         bigint NOT NULL,
  spent         numeric NOT NULL DEFAULT 0,
  spent_epsilon numeric NOT NULL DEFAULT 0,
  rest          bigint NOT NULL DEFAULT 0,
  rest_rho      numeric NOT NULL DEFAULT 0,
  spent_delta   numeric NOT NULL DEFAULT 0,
  CONSTRAINT account_block_pk PRIMARY KEY (account, block),
  CONSTRAINT account_block_number CHECK (block >= 0),
  CONSTRAINT account_block_spent CHECK (spent >= 0 AND spent_epsilon >= 0 AND rest >= 0 AND rest_rho >= 0 AND spent_delta >= 0)
) WITH (fillfactor = 50);  -- half of a page is for the next versions of its rows, which then need no index entry
COMMENT ON TABLE dp_int.account_block IS
  'What is spent of each block of an account: a dp_int.tally and the deltas of mechanisms, always the sums of the ledger''s entries whose blocks hold this one. A block without a row was never charged.';

ALTER TABLE dp_int.ledger
  ADD COLUMN blocks int8range,
  ADD CONSTRAINT ledger_blocks CHECK (blocks IS NULL OR kind <> 'budget' AND NOT isempty(blocks) AND NOT lower_inf(blocks) AND NOT upper_inf(blocks) AND lower(blocks) >= 0);
COMMENT ON COLUMN dp_int.ledger.blocks IS 'The blocks that a charge or refund is of; NULL where the account has none.';

ALTER TABLE dp_int.dataset
  ADD COLUMN block name,
  ADD COLUMN block_source text,
  ADD COLUMN block_number int2,
  ADD COLUMN block_type text,
  ADD COLUMN block_rows bigint CONSTRAINT dataset_block_rows CHECK (block_rows >= 1),
  ADD COLUMN block_is_fixed text,
  ADD COLUMN block_fixed_by text,
  ADD CONSTRAINT dataset_block CHECK ((block IS NULL) = (block_source IS NULL) AND (block IS NULL) = (block_number IS NULL) AND (block IS NULL) = (block_type IS NULL)
                                      AND num_nonnulls(block_is_fixed, block_fixed_by) = (block IS NOT NULL)::int AND (block IS NOT NULL OR block_rows IS NULL));
COMMENT ON COLUMN dp_int.dataset.block IS 'The column whose day says which block a row is in; NULL: there are no blocks.';
COMMENT ON COLUMN dp_int.dataset.block_source IS 'The column of a table that block was at registration, through views: schema.table.column.';
COMMENT ON COLUMN dp_int.dataset.block_number IS 'The number of that column: another that takes its name over has another.';
COMMENT ON COLUMN dp_int.dataset.block_type IS 'Its type: with another one rows would be in other blocks.';
COMMENT ON COLUMN dp_int.dataset.block_rows IS 'How many rows a block is taken to have, registered in place of counted; NULL: the rows of a window are counted, or there are persons.';
COMMENT ON COLUMN dp_int.dataset.block_is_fixed IS 'Why a row stays in its block, by the word of the steward.';
COMMENT ON COLUMN dp_int.dataset.block_fixed_by IS 'Why it does, as the database found at registration, and finds at every charge: see dp_int.fixed_by.';

-- They take other arguments now.
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb, jsonb, name, int, bigint);
DROP FUNCTION IF EXISTS public.dp_l1_regress(text, float8, name, name[], boolean, jsonb, jsonb);
DO $$ DECLARE m text; BEGIN
  FOREACH m IN ARRAY '{linear,huber,logistic,poisson}'::text[] LOOP
    EXECUTE format('DROP FUNCTION IF EXISTS public.%I(text, float8, float8, name, name[], boolean, text, float8, text, jsonb, jsonb)', 'dp_' || m || '_regress');
    EXECUTE format('DROP FUNCTION IF EXISTS public.%I(text, name, float8, float8, name, name[], boolean, text, float8, text, jsonb, jsonb)', 'dp_' || m || '_regress_by');
  END LOOP;
END $$;
DROP FUNCTION IF EXISTS public.dp_submit(text, text, float8, float8, name, name[], boolean, jsonb, jsonb);
DROP PROCEDURE IF EXISTS public.dp_run(text, text, float8, float8, name, name[], boolean, jsonb, uuid, jsonb);
DROP FUNCTION IF EXISTS public.dp_explain(text, text, float8, float8, name, name[], boolean, jsonb, jsonb);
DROP FUNCTION IF EXISTS public.dp_describe(text, float8, name[], float8, boolean);
DROP FUNCTION IF EXISTS public.dp_scales(text, float8, float8);
DROP FUNCTION IF EXISTS public.dp_score(uuid, float8, float8);
DROP FUNCTION IF EXISTS public.dp_submit_score(uuid, float8, float8);
DROP FUNCTION IF EXISTS public.dp_explain_score(uuid, float8, float8);
DROP FUNCTION IF EXISTS dp_int.helpful_datasets();
DROP FUNCTION IF EXISTS dp_int.prepare_description(name, text, text, float8, float8, name[], boolean, boolean);
DROP FUNCTION IF EXISTS dp_int.enqueue_description(uuid, name, text, text, float8, float8, name[], boolean, jsonb);
DROP FUNCTION IF EXISTS dp_int.describe(name, dp_int.request, text, name[]);
DROP FUNCTION IF EXISTS dp_int.prepare_score(name, uuid, float8, float8);
DROP FUNCTION IF EXISTS dp_int.enqueue_score(uuid, name, uuid, float8, float8, jsonb);
DROP FUNCTION IF EXISTS dp_int.score(name, uuid, float8, float8);
DROP FUNCTION IF EXISTS dp_int.ask_score(uuid, name, uuid, float8, float8, jsonb);
DROP FUNCTION IF EXISTS dp_int.refuse_overdraft(text, name, numeric, dp_int.tally, dp_int.account, dp_int.ledger, numeric);

COMMIT;
