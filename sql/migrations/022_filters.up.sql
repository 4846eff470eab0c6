-- Accounts keep every sum that one of their filters adds up, beside the one in their own
-- unit. What was charged before is added up from the entries, which have every price.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TYPE dp_int.tally AS (
  spent    numeric,
  epsilon  numeric,
  rest     bigint,
  rest_rho numeric
);
COMMENT ON TYPE dp_int.tally IS
  'Sums of charges. spent: in the unit of the account''s accounting; epsilon: of those that have a pure epsilon; rest: how many have none; rest_rho: the rho of these.';

ALTER TABLE dp_int.account
  ADD COLUMN spent_epsilon numeric NOT NULL DEFAULT 0 CONSTRAINT account_spent_epsilon CHECK (spent_epsilon >= 0),
  ADD COLUMN rest bigint NOT NULL DEFAULT 0 CONSTRAINT account_rest CHECK (rest >= 0),
  ADD COLUMN rest_rho numeric NOT NULL DEFAULT 0 CONSTRAINT account_rest_rho CHECK (rest_rho >= 0);
UPDATE dp_int.account a
   SET spent_epsilon = s.epsilon, rest = s.rest, rest_rho = s.rest_rho
  FROM (SELECT l.account, coalesce(sum(l.epsilon), 0) AS epsilon, coalesce(sum(l.rho) FILTER (WHERE l.epsilon IS NULL), 0) AS rest_rho,
               coalesce(sum(CASE l.kind WHEN 'charge' THEN 1 ELSE -1 END) FILTER (WHERE l.epsilon IS NULL), 0) AS rest
          FROM dp_int.ledger l WHERE l.kind <> 'budget' GROUP BY l.account) AS s
 WHERE s.account = a.id;
COMMENT ON TABLE dp_int.account IS
  'One budget per population. epsilon, delta: the cap in force; cap: the same in the unit of the accounting, which is epsilon (pure), rho (zcdp) or the Renyi divergence of order renyi_order (rdp). spent, spent_epsilon, rest, rest_rho: a dp_int.tally of all charges, always the sum of the ledger; spent_delta: of the deltas of mechanisms; proven_epsilon: the least epsilon whose filters would have admitted them. spends: charges and refunds; entries and head: length and last hash of the account''s ledger chain.';

ALTER TABLE dp_int.caller_total
  ADD COLUMN spent_epsilon numeric NOT NULL DEFAULT 0 CONSTRAINT caller_total_spent_epsilon CHECK (spent_epsilon >= 0),
  ADD COLUMN rest bigint NOT NULL DEFAULT 0 CONSTRAINT caller_total_rest CHECK (rest >= 0),
  ADD COLUMN rest_rho numeric NOT NULL DEFAULT 0 CONSTRAINT caller_total_rest_rho CHECK (rest_rho >= 0);
UPDATE dp_int.caller_total t
   SET spent_epsilon = s.epsilon, rest = s.rest, rest_rho = s.rest_rho
  FROM (SELECT l.account, j.principal, coalesce(sum(l.epsilon), 0) AS epsilon, coalesce(sum(l.rho) FILTER (WHERE l.epsilon IS NULL), 0) AS rest_rho,
               coalesce(sum(CASE l.kind WHEN 'charge' THEN 1 ELSE -1 END) FILTER (WHERE l.epsilon IS NULL), 0) AS rest
          FROM dp_int.ledger l JOIN dp_int.job j ON j.id = l.job WHERE l.kind <> 'budget' GROUP BY l.account, j.principal) AS s
 WHERE s.account = t.account AND s.principal = t.principal;
COMMENT ON TABLE dp_int.caller_total IS
  'What each principal has spent of an account: the sums of their ledger entries, a dp_int.tally, and what these prove. caller: the name at the first.';

-- What was asked without a delta must find its answer again: it had 1e-6.
ALTER TABLE dp_int.dataset ADD COLUMN default_delta numeric;
UPDATE dp_int.dataset d SET default_delta = d.delta
 WHERE d.delta > 0 AND NOT EXISTS (SELECT FROM dp_int.job j WHERE j.dataset = d.id AND j.delta = 1e-6);
COMMENT ON TABLE dp_int.dataset IS
  'One registration. Everything but epsilon, delta, cap, row_count and unregistered_at is fixed; epsilon is a limit on what the whole account has spent. default_delta: a request that gives no delta has the model''s default, but at most this; NULL: the model''s.';

-- An older one knows nothing of the new sums. Without it nothing is charged until the functions
-- that do are in place: a charge in between, which waits for this transaction, fails unspent.
DROP FUNCTION IF EXISTS dp_int.ledger_append(dp_int.ledger);

-- They take other arguments now.
DROP FUNCTION IF EXISTS dp_int.refuse_overdraft(text, name, numeric, numeric, numeric, numeric, dp_int.account, dp_int.ledger, numeric);
DROP FUNCTION IF EXISTS dp_int.affordable(dp_int.account, numeric, dp_int.ledger);

COMMIT;
