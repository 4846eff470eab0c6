-- The ledger: append-only, one hash chain per account. Nobody but these
-- functions writes it, and they keep the account's totals in the same
-- transaction under the account's row lock.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.ledger (
  id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT ledger_pk PRIMARY KEY,
  account    bigint NOT NULL CONSTRAINT ledger_account REFERENCES dp_int.account,
  seq        bigint NOT NULL,
  kind       text NOT NULL CONSTRAINT ledger_kind CHECK (kind IN ('budget', 'charge', 'refund')),
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  dataset    text NOT NULL,
  caller     name NOT NULL,
  job        uuid,
  event      jsonb NOT NULL,
  epsilon    numeric CONSTRAINT ledger_epsilon CHECK (epsilon < 'Infinity'),
  rho        numeric CONSTRAINT ledger_rho CHECK (rho < 'Infinity'),
  delta      numeric NOT NULL DEFAULT 0 CONSTRAINT ledger_delta CHECK (delta < 1),
  arithmetic text NOT NULL DEFAULT 'exact',
  refunds    bigint CONSTRAINT ledger_refunds REFERENCES dp_int.ledger CONSTRAINT ledger_refunded_once UNIQUE,
  previous   bytea NOT NULL,
  hash       bytea NOT NULL,
  CONSTRAINT ledger_chain UNIQUE (account, seq),
  CONSTRAINT ledger_job CHECK ((kind = 'budget') = (job IS NULL)),
  CONSTRAINT ledger_compensates CHECK ((kind = 'refund') = (refunds IS NOT NULL)),
  CONSTRAINT ledger_sign CHECK (
    CASE kind WHEN 'charge' THEN coalesce(epsilon, 0) >= 0 AND coalesce(rho, 0) >= 0 AND delta >= 0 AND num_nonnulls(epsilon, rho) > 0
              WHEN 'refund' THEN coalesce(epsilon, 0) <= 0 AND coalesce(rho, 0) <= 0 AND delta <= 0
              ELSE epsilon IS NULL AND rho IS NULL AND delta = 0 END)
);
CREATE INDEX ledger_by_job ON dp_int.ledger (job);
COMMENT ON TABLE dp_int.ledger IS
  'Append-only. epsilon: pure DP cost, NULL where the event has none; rho: zCDP cost, likewise. A refund is a row with the opposite signs. All costs are for replacing one record.';

CREATE FUNCTION dp_int.ledger_is_append_only() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = '42501';
END $$;
CREATE TRIGGER ledger_rows_stay BEFORE UPDATE OR DELETE ON dp_int.ledger
  FOR EACH ROW EXECUTE FUNCTION dp_int.ledger_is_append_only();
CREATE TRIGGER ledger_table_stays BEFORE TRUNCATE ON dp_int.ledger
  FOR EACH STATEMENT EXECUTE FUNCTION dp_int.ledger_is_append_only();

-- SHA-256 over the previous hash and every column but id, each written as its
-- byte length, a colon and its text, or '-' where it is NULL. Times are
-- microseconds since 1970.
CREATE FUNCTION dp_int.ledger_hash(e dp_int.ledger) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT sha256(e.previous || convert_to(string_agg(coalesce(octet_length(convert_to(v, 'UTF8')) || ':' || v, '-'), ',' ORDER BY o), 'UTF8'))
      FROM unnest(ARRAY[
        e.account::text, e.seq::text, e.kind, (extract(epoch FROM e.at) * 1000000)::bigint::text, e.dataset, e.caller::text, e.job::text,
        e.event::text, e.epsilon::text, e.rho::text, e.delta::text, e.arithmetic, e.refunds::text]) WITH ORDINALITY AS f(v, o));
END $$;

-- Appends e to its account's chain and moves the totals. The caller of this
-- function holds the account's row lock.
CREATE FUNCTION dp_int.ledger_append(e dp_int.ledger) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  SELECT a.entries + 1, a.head INTO STRICT e.seq, e.previous FROM dp_int.account a WHERE a.id = e.account FOR UPDATE;
  e.id := nextval(pg_get_serial_sequence('dp_int.ledger', 'id'));
  e.at := clock_timestamp();
  e.delta := coalesce(e.delta, 0);
  e.arithmetic := coalesce(e.arithmetic, 'exact');
  e.hash := dp_int.ledger_hash(e);
  INSERT INTO dp_int.ledger OVERRIDING SYSTEM VALUE SELECT e.*;
  UPDATE dp_int.account a
     SET spent_epsilon = a.spent_epsilon + coalesce(e.epsilon, 0),
         spent_rho = a.spent_rho + coalesce(e.rho, 0),
         spent_delta = a.spent_delta + e.delta,
         spends = a.spends + (e.kind <> 'budget')::int,
         entries = e.seq,
         head = e.hash
   WHERE a.id = e.account;
  IF e.kind <> 'budget' THEN
    INSERT INTO dp_int.caller_total (account, caller) VALUES (e.account, e.caller) ON CONFLICT DO NOTHING;
    UPDATE dp_int.caller_total t
       SET epsilon = t.epsilon + coalesce(e.epsilon, 0), rho = t.rho + coalesce(e.rho, 0)
     WHERE t.account = e.account AND t.caller = e.caller;
    PERFORM dp_int.prove(e.account, e.caller);
  END IF;
  RETURN e.id;
END $$;

-- Brings what the accountant proves up to date, for the account and for one
-- caller, or for all callers when p_caller is NULL.
CREATE FUNCTION dp_int.prove(p_account bigint, p_caller name) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE dp_int.account a
     SET proven_epsilon = dp_int.proven(a.accounting, a.spent_epsilon, a.spent_rho, a.delta)
   WHERE a.id = p_account;
  UPDATE dp_int.caller_total t
     SET proven_epsilon = dp_int.proven(a.accounting, t.epsilon, t.rho, a.delta)
    FROM dp_int.account a
   WHERE a.id = p_account AND t.account = a.id AND (p_caller IS NULL OR t.caller = p_caller);
END $$;

-- Charges a job, or raises DP002 and charges nothing. The filters are those of
-- fully adaptive composition: the sum of epsilon under pure accounting; the sum
-- of rho under zCDP (Feldman & Zrnic 2021; Whitehouse et al. 2023).
CREATE FUNCTION dp_int.ledger_charge(p_dataset bigint, p_caller name, p_job uuid, p_event jsonb,
                                     p_epsilon numeric, p_rho numeric, p_delta numeric) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  g dp_int.dataset_grant;
  mine dp_int.caller_total;
  cost numeric;
  entry dp_int.ledger;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account FOR UPDATE;
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;  -- its limit, as of the lock
  g := dp_int.grant_of(p_dataset, p_caller);
  IF g.dataset IS NULL OR d.unregistered_at IS NOT NULL THEN
    RAISE EXCEPTION 'data set "%" is no longer granted to "%"', d.name, p_caller
      USING ERRCODE = '42501', HINT = 'Ask the steward for dp_grant. No privacy budget was spent.';
  END IF;
  cost := CASE a.accounting WHEN 'pure' THEN p_epsilon ELSE p_rho END;
  IF cost IS NULL OR NOT (cost >= 0 AND cost < 'Infinity') OR NOT coalesce(p_delta >= 0 AND p_delta < 1, false) THEN
    RAISE EXCEPTION 'data set "%" has % accounting, which cannot price this mechanism', d.name, a.accounting
      USING ERRCODE = 'DP005', HINT = 'Choose another method. No privacy budget was spent.';
  END IF;
  IF p_delta > 0 THEN
    RAISE EXCEPTION 'data set "%" has no delta to spare for this mechanism', d.name
      USING ERRCODE = 'DP002', HINT = 'Choose a method without a delta of its own. No privacy budget was spent.';
  END IF;
  SELECT * INTO mine FROM dp_int.caller_total t WHERE t.account = a.id AND t.caller = p_caller;
  IF a.accounting = 'pure' THEN
    PERFORM dp_int.refuse_overdraft(d.name, 'the data set', least(a.epsilon, d.epsilon), a.spent_epsilon, cost, 0);
    PERFORM dp_int.refuse_overdraft(d.name, format('"%s"', p_caller), g.epsilon, coalesce(mine.epsilon, 0), cost, 0);
  ELSE
    PERFORM dp_int.refuse_overdraft(d.name, 'the data set', least(a.rho, d.rho), a.spent_rho, cost, a.delta);
    PERFORM dp_int.refuse_overdraft(d.name, format('"%s"', p_caller), g.rho, coalesce(mine.rho, 0), cost, a.delta);
  END IF;
  entry.account := a.id;
  entry.kind := 'charge';
  entry.dataset := d.name;
  entry.caller := p_caller;
  entry.job := p_job;
  entry.event := p_event;
  entry.epsilon := p_epsilon;
  entry.rho := p_rho;
  entry.delta := p_delta;
  RETURN dp_int.ledger_append(entry);
END $$;

-- cap, spent, cost: epsilon when delta = 0, else rho at that delta. cap NULL: no limit.
CREATE FUNCTION dp_int.refuse_overdraft(p_dataset text, whose text, cap numeric, spent numeric, cost numeric, delta numeric) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  remaining text;
BEGIN
  IF cap IS NULL OR spent + cost <= cap THEN RETURN; END IF;
  remaining := greatest(cap - spent, 0)::float8;
  IF delta = 0 THEN
    RAISE EXCEPTION 'privacy budget of % on "%" is exhausted: epsilon % of % is left, this request costs %',
                    whose, p_dataset, remaining, cap::float8, cost::float8
      USING ERRCODE = 'DP002',
            HINT = format('%s No privacy budget was spent. Requests answered before can still be repeated at no cost.',
                          CASE WHEN cap > spent THEN 'Ask with eps at most ' || remaining || ', or ask the steward for dp_set_budget.'
                               ELSE 'Ask the steward for dp_set_budget.' END);
  END IF;
  RAISE EXCEPTION 'privacy budget of % on "%" is exhausted: rho % of % is left at delta %, this request costs %',
                  whose, p_dataset, remaining, cap::float8, delta::float8, cost::float8
    USING ERRCODE = 'DP002',
          HINT = 'Ask with a smaller eps, or ask the steward for dp_set_budget. No privacy budget was spent. Requests answered before can still be repeated at no cost.';
END $$;

-- Gives a charge back, once: the unique key on refunds sees to it.
CREATE FUNCTION dp_int.ledger_refund(p_charge bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  entry dp_int.ledger;
BEGIN
  SELECT * INTO STRICT entry FROM dp_int.ledger WHERE id = p_charge AND kind = 'charge';
  entry.kind := 'refund';
  entry.refunds := p_charge;
  entry.epsilon := -entry.epsilon;
  entry.rho := -entry.rho;
  entry.delta := -entry.delta;
  RETURN dp_int.ledger_append(entry);
END $$;

-- Records a budget: what it was set to, for which data set, by whom.
CREATE FUNCTION dp_int.ledger_budget(p_account bigint, p_dataset text, p_caller name, p_event jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  entry dp_int.ledger;
BEGIN
  entry.account := p_account;
  entry.kind := 'budget';
  entry.dataset := p_dataset;
  entry.caller := p_caller;
  entry.event := p_event;
  RETURN dp_int.ledger_append(entry);
END $$;

COMMIT;
