-- Accounts, data sets and grants. A budget belongs to the people in a set of
-- base relations (an account), not to a name (a data set).
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.account (
  id             bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT account_pk PRIMARY KEY,
  accounting     text NOT NULL CONSTRAINT account_accounting CHECK (accounting IN ('pure', 'zcdp')),
  epsilon        numeric NOT NULL CONSTRAINT account_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  delta          numeric NOT NULL CONSTRAINT account_delta CHECK (delta >= 0 AND delta < 1),
  rho            numeric CONSTRAINT account_rho CHECK (rho >= 0 AND rho < 'Infinity'),
  spent_epsilon  numeric NOT NULL DEFAULT 0,
  spent_rho      numeric NOT NULL DEFAULT 0,
  spent_delta    numeric NOT NULL DEFAULT 0,
  proven_epsilon numeric NOT NULL DEFAULT 0,
  spends         bigint NOT NULL DEFAULT 0,
  entries        bigint NOT NULL DEFAULT 0,
  head           bytea NOT NULL DEFAULT '\x',
  CONSTRAINT account_mode CHECK ((accounting = 'zcdp') = (rho IS NOT NULL) AND (accounting = 'zcdp') = (delta > 0)),
  CONSTRAINT account_spent CHECK (spent_epsilon >= 0 AND spent_rho >= 0 AND spent_delta >= 0)
);
COMMENT ON TABLE dp_int.account IS
  'One budget per population. epsilon, delta: the cap in force; rho: the same as zCDP. spent_*: running totals, always the sum of the ledger; proven_epsilon: what the accountant makes of them at delta. spends: charges and refunds; entries and head: length and last hash of the account''s ledger chain.';

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
  rho             numeric,
  row_count       bigint,
  registered_by   name NOT NULL,
  registered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  unregistered_at timestamptz
);
CREATE UNIQUE INDEX dataset_active_name ON dp_int.dataset (name) WHERE unregistered_at IS NULL;
COMMENT ON TABLE dp_int.dataset IS
  'One registration. Everything but epsilon, delta, rho, row_count and unregistered_at is fixed; epsilon is a limit on what the whole account has spent.';

CREATE TABLE dp_int.dataset_grant (
  dataset bigint NOT NULL CONSTRAINT dataset_grant_dataset REFERENCES dp_int.dataset,
  grantee name NOT NULL,
  epsilon numeric CONSTRAINT dataset_grant_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  rho     numeric,
  CONSTRAINT dataset_grant_pk PRIMARY KEY (dataset, grantee)
);
COMMENT ON TABLE dp_int.dataset_grant IS
  'Who may ask. epsilon is the personal limit of each person the grant covers, NULL for none; rho is the same as zCDP.';

CREATE TABLE dp_int.caller_total (
  account        bigint NOT NULL CONSTRAINT caller_total_account REFERENCES dp_int.account,
  caller         name NOT NULL,
  epsilon        numeric NOT NULL DEFAULT 0,
  rho            numeric NOT NULL DEFAULT 0,
  proven_epsilon numeric NOT NULL DEFAULT 0,
  CONSTRAINT caller_total_pk PRIMARY KEY (account, caller),
  CONSTRAINT caller_total_spent CHECK (epsilon >= 0 AND rho >= 0)
);
COMMENT ON TABLE dp_int.caller_total IS 'What each caller has spent of an account: the sum of their ledger entries.';

-- Conversions between zCDP and (epsilon, delta): Canonne, Kamath & Steinke 2020,
-- Corollary 13. Every order gives a valid bound, so a search that stops early
-- only costs budget, never privacy; the last factor covers rounding.
CREATE FUNCTION dp_int.zcdp_epsilon(rho float8, delta float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  golden CONSTANT float8 := (sqrt(5.0::float8) - 1) / 2;
  lo float8 := ln(1e-4::float8);  -- log(a - 1)
  hi float8 := ln(1e9::float8);
  p float8; q float8; fp float8; fq float8;
BEGIN
  IF rho = 0 THEN RETURN 0; END IF;
  p := hi - golden * (hi - lo);  fp := dp_int.zcdp_epsilon_at(rho, delta, exp(p));
  q := lo + golden * (hi - lo);  fq := dp_int.zcdp_epsilon_at(rho, delta, exp(q));
  FOR i IN 1..70 LOOP
    IF fp <= fq THEN
      hi := q;  q := p;  fq := fp;
      p := hi - golden * (hi - lo);  fp := dp_int.zcdp_epsilon_at(rho, delta, exp(p));
    ELSE
      lo := p;  p := q;  fp := fq;
      q := lo + golden * (hi - lo);  fq := dp_int.zcdp_epsilon_at(rho, delta, exp(q));
    END IF;
  END LOOP;
  RETURN greatest(0, least(fp, fq)) * (1 + 1e-12::float8);
END $$;

CREATE FUNCTION dp_int.zcdp_epsilon_at(rho float8, delta float8, a1 float8) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT AS
$$ SELECT rho * (1 + a1) + ln(a1 / (1 + a1)) - (ln(1 + a1) + ln(delta)) / a1 $$;

CREATE FUNCTION dp_int.zcdp_rho(epsilon float8, delta float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lo float8 := 0;
  hi float8 := 1;
  mid float8;
BEGIN
  WHILE dp_int.zcdp_epsilon(hi, delta) <= epsilon LOOP hi := 2 * hi; END LOOP;
  FOR i IN 1..60 LOOP
    mid := (lo + hi) / 2;
    IF dp_int.zcdp_epsilon(mid, delta) <= epsilon THEN lo := mid; ELSE hi := mid; END IF;
  END LOOP;
  RETURN lo;
END $$;

-- The decimal a person typed: the shortest text that reads back as this float8.
CREATE FUNCTION dp_int.exact(x float8) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT SET extra_float_digits = 1 AS $$ SELECT x::text::numeric $$;

CREATE FUNCTION dp_int.zcdp_cap(epsilon numeric, delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS
$$ SELECT CASE WHEN delta > 0 THEN dp_int.exact(dp_int.zcdp_rho(epsilon::float8, delta::float8)) END $$;

-- What the accountant proves of totals: epsilon itself, or that of rho at delta.
CREATE FUNCTION dp_int.proven(p_accounting text, p_epsilon numeric, p_rho numeric, p_delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_accounting WHEN 'pure' THEN p_epsilon ELSE dp_int.exact(dp_int.zcdp_epsilon(p_rho::float8, p_delta::float8)) END
$$;

-- One rule for who may ask: a grant to a role covers its members; a grant that
-- names the caller wins over a group's.
CREATE FUNCTION dp_int.grant_of(p_dataset bigint, p_caller name) RETURNS dp_int.dataset_grant
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT g
      FROM dp_int.dataset_grant g
      JOIN pg_catalog.pg_roles r ON r.rolname = g.grantee
      JOIN pg_catalog.pg_roles c ON c.rolname = p_caller
     WHERE g.dataset = p_dataset AND pg_has_role(c.oid, r.oid, 'USAGE')
     ORDER BY g.grantee <> p_caller, g.epsilon DESC NULLS FIRST
     LIMIT 1);
END $$;

COMMIT;
