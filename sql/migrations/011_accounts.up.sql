-- Accounts, data sets and grants. A budget belongs to the people in a set of
-- base relations (an account), not to a name (a data set).
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.account (
  id             bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT account_pk PRIMARY KEY,
  accounting     text NOT NULL CONSTRAINT account_accounting CHECK (accounting IN ('pure', 'zcdp', 'rdp')),
  renyi_order    numeric,
  epsilon        numeric NOT NULL CONSTRAINT account_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  delta          numeric NOT NULL CONSTRAINT account_delta CHECK (delta >= 0 AND delta < 1),
  cap            numeric NOT NULL CONSTRAINT account_cap CHECK (cap >= 0 AND cap < 'Infinity'),
  spent          numeric NOT NULL DEFAULT 0,
  spent_delta    numeric NOT NULL DEFAULT 0,
  proven_epsilon numeric NOT NULL DEFAULT 0,
  spends         bigint NOT NULL DEFAULT 0,
  entries        bigint NOT NULL DEFAULT 0,
  head           bytea NOT NULL DEFAULT '\x',
  CONSTRAINT account_mode CHECK ((accounting = 'pure') = (delta = 0) AND (accounting = 'rdp') = (renyi_order IS NOT NULL)),
  CONSTRAINT account_spent CHECK (spent >= 0 AND spent_delta >= 0)
);
COMMENT ON TABLE dp_int.account IS
  'One budget per population. epsilon, delta: the cap in force; cap: the same in the unit of the accounting, which is epsilon (pure), rho (zcdp) or the Renyi divergence of order renyi_order (rdp). spent, spent_delta: running totals, always the sum of the ledger; proven_epsilon: what the accountant makes of them. spends: charges and refunds; entries and head: length and last hash of the account''s ledger chain.';

-- By OID and by name, so that renaming does not escape, nor dropping and creating again.
CREATE TABLE dp_int.account_relation (
  account  bigint NOT NULL CONSTRAINT account_relation_account REFERENCES dp_int.account,
  relid    oid NOT NULL,
  relation text NOT NULL,
  current  boolean NOT NULL DEFAULT true,
  CONSTRAINT account_relation_pk PRIMARY KEY (account, relid, relation)
);
COMMENT ON TABLE dp_int.account_relation IS
  'Base relations whose people an account protects. current is false once a steward has declared the population of a relation to be new.';

CREATE TABLE dp_int.dataset (
  id              bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT dataset_pk PRIMARY KEY,
  name            text NOT NULL CONSTRAINT dataset_name CHECK (name <> '' AND octet_length(name) <= 200),
  account         bigint NOT NULL CONSTRAINT dataset_account REFERENCES dp_int.account,
  relid           oid NOT NULL,
  schema_name     name NOT NULL,
  relation_name   name NOT NULL,
  target          name NOT NULL,
  features        name[] NOT NULL,
  scales          jsonb NOT NULL,
  options         jsonb NOT NULL,
  epsilon         numeric NOT NULL CONSTRAINT dataset_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  delta           numeric NOT NULL CONSTRAINT dataset_delta CHECK (delta >= 0 AND delta < 1),
  cap             numeric NOT NULL,
  row_count       bigint,
  registered_by   name NOT NULL,
  registered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  unregistered_at timestamptz
);
CREATE UNIQUE INDEX dataset_active_name ON dp_int.dataset (name) WHERE unregistered_at IS NULL;
COMMENT ON TABLE dp_int.dataset IS
  'One registration. Everything but epsilon, delta, cap, row_count and unregistered_at is fixed; epsilon is a limit on what the whole account has spent.';

CREATE TABLE dp_int.dataset_grant (
  dataset bigint NOT NULL CONSTRAINT dataset_grant_dataset REFERENCES dp_int.dataset,
  grantee name NOT NULL,
  epsilon numeric CONSTRAINT dataset_grant_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  cap     numeric CONSTRAINT dataset_grant_cap CHECK ((cap IS NULL) = (epsilon IS NULL)),
  CONSTRAINT dataset_grant_pk PRIMARY KEY (dataset, grantee)
);
COMMENT ON TABLE dp_int.dataset_grant IS
  'Who may ask. epsilon is the personal limit of each person the grant covers, NULL for none; cap is the same in the account''s unit.';

CREATE TABLE dp_int.caller_total (
  account        bigint NOT NULL CONSTRAINT caller_total_account REFERENCES dp_int.account,
  caller         name NOT NULL,
  spent          numeric NOT NULL DEFAULT 0,
  proven_epsilon numeric NOT NULL DEFAULT 0,
  CONSTRAINT caller_total_pk PRIMARY KEY (account, caller),
  CONSTRAINT caller_total_spent CHECK (spent >= 0)
);
COMMENT ON TABLE dp_int.caller_total IS 'What each caller has spent of an account: the sum of their ledger entries.';

COMMIT;
