-- The ledger: append-only, one hash chain per account. These functions alone write it, and they update
-- the account's totals in the same transaction under the account's row lock.

CREATE OR REPLACE FUNCTION dp_int.ledger_is_append_only() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = '42501';
END $$;
CREATE OR REPLACE TRIGGER ledger_rows_stay BEFORE UPDATE OR DELETE ON dp_int.ledger
  FOR EACH ROW EXECUTE FUNCTION dp_int.ledger_is_append_only();
CREATE OR REPLACE TRIGGER ledger_table_stays BEFORE TRUNCATE ON dp_int.ledger
  FOR EACH STATEMENT EXECUTE FUNCTION dp_int.ledger_is_append_only();

-- SHA-256 over the previous hash and every column but id, each written as its byte length, a colon and
-- its text, or '-' where it is NULL; blocks come last, and only where there are any. Times are
-- microseconds since 1970.
CREATE OR REPLACE FUNCTION dp_int.ledger_hash(e dp_int.ledger) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT sha256(e.previous || convert_to(string_agg(coalesce(octet_length(convert_to(v, 'UTF8')) || ':' || v, '-'), ',' ORDER BY o), 'UTF8'))
      FROM unnest(ARRAY[
        e.account::text, e.seq::text, e.kind, (extract(epoch FROM e.at) * 1000000)::bigint::text, e.dataset, e.caller::text, e.job::text,
        e.event::text, e.epsilon::text, e.rho::text, e.renyi::text, e.renyi_grid::text, e.delta::text, e.arithmetic,
        e.refunds::text] || CASE WHEN e.blocks IS NOT NULL THEN ARRAY[e.blocks::text] END) WITH ORDINALITY AS f(v, o));
END $$;

-- The cost of an entry in the unit of an accounting, NULL where it has no such cost.
CREATE OR REPLACE FUNCTION dp_int.cost_in(p_accounting text, p_order numeric, e dp_int.ledger) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE p_accounting
    WHEN 'pure' THEN e.epsilon
    WHEN 'zcdp' THEN e.rho
    WHEN 'rdp' THEN e.renyi[array_position(dp_int.renyi_orders(), p_order)] END;
END $$;

CREATE OR REPLACE FUNCTION dp_int.cost(a dp_int.account, e dp_int.ledger) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN dp_int.cost_in(a.accounting, a.renyi_order, e); END $$;

-- Appends e to its account's chain and adds its costs to the totals. The caller holds the lock on the
-- account's row.
CREATE OR REPLACE FUNCTION dp_int.ledger_append(e dp_int.ledger) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  a dp_int.account;
  t dp_int.tally;
  deltas numeric;
  who CONSTANT bigint := (SELECT j.principal FROM dp_int.job j WHERE j.id = e.job);
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = e.account FOR UPDATE;
  deltas := a.spent_delta + coalesce(e.delta, 0);
  e.id := nextval('dp_int.ledger_id_seq');
  e.seq := a.entries + 1;
  e.previous := a.head;
  e.at := clock_timestamp();
  e.delta := coalesce(e.delta, 0);
  e.arithmetic := coalesce(e.arithmetic, 'exact');
  e.hash := dp_int.ledger_hash(e);
  INSERT INTO dp_int.ledger OVERRIDING SYSTEM VALUE SELECT e.*;
  t := dp_int.add_entry(dp_int.tally_of(a), a, e);
  UPDATE dp_int.account
     SET spent = t.spent, spent_epsilon = t.epsilon, rest = t.rest, rest_rho = t.rest_rho,
         spent_delta = deltas,
         proven_epsilon = CASE WHEN a.block_width IS NULL THEN dp_int.least_epsilon(a, t, deltas) ELSE a.proven_epsilon END,
         spends = a.spends + (e.kind <> 'budget')::int,
         entries = e.seq,
         head = e.hash
   WHERE id = a.id;
  IF a.block_width IS NOT NULL AND e.kind <> 'budget' THEN
    PERFORM dp_int.add_to_blocks(a, e);
    deltas := (SELECT max(b.spent_delta) FROM dp_int.account_block b WHERE b.account = a.id AND b.block BETWEEN lower(e.blocks) AND upper(e.blocks) - 1);
  END IF;
  IF e.kind <> 'budget' THEN
    t := dp_int.add_entry(dp_int.tally_of(a.id, who), a, e);
    INSERT INTO dp_int.caller_total AS c (account, principal, caller, spent, spent_epsilon, rest, rest_rho, proven_epsilon)
    VALUES (a.id, who, e.caller, t.spent, t.epsilon, t.rest, t.rest_rho, dp_int.least_epsilon(a, t, deltas))
    ON CONFLICT ON CONSTRAINT caller_total_pk DO UPDATE
      SET spent = excluded.spent, spent_epsilon = excluded.spent_epsilon, rest = excluded.rest, rest_rho = excluded.rest_rho,
          proven_epsilon = excluded.proven_epsilon;
  END IF;
  IF greatest(deltas, deltas - e.delta) > dp_int.reserve(a.delta) THEN
    PERFORM dp_int.prove(a.id);  -- deltas beyond the reserve reduce the delta of the conversion, for every caller
  END IF;
  RETURN e.id;
END $$;

-- Updates the proven epsilon of an account after a change of its budget.
CREATE OR REPLACE FUNCTION dp_int.prove(p_account bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  a dp_int.account;
  deltas numeric;  -- the deltas of mechanisms, with blocks those of the block with the largest sum
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = p_account;
  deltas := CASE WHEN a.block_width IS NULL THEN a.spent_delta ELSE coalesce((SELECT max(b.spent_delta) FROM dp_int.account_block b WHERE b.account = a.id), 0) END;
  UPDATE dp_int.account n
     SET proven_epsilon = CASE WHEN a.block_width IS NULL THEN dp_int.least_epsilon(a, dp_int.tally_of(a), deltas) ELSE dp_int.fullest_epsilon(a) END
   WHERE n.id = a.id;
  UPDATE dp_int.caller_total t
     SET proven_epsilon = dp_int.least_epsilon(a, ROW(t.spent, t.spent_epsilon, t.rest, t.rest_rho)::dp_int.tally, deltas)
   WHERE t.account = a.id;
END $$;

-- Initialises the filters of accounts whose budget was set by a version without filters: their sums are
-- computed from the ledger, and an entry records that all filters of their budget hold from here on. An
-- account of a copy that was left no budget has none by any filter.
CREATE OR REPLACE FUNCTION dp_int.bring_filters() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  a dp_int.account;
BEGIN
  FOR a IN SELECT n.* FROM dp_int.account n
            WHERE n.entries > 0 AND (SELECT l.event #> '{budget,account_epsilon}' FROM dp_int.ledger l
                                      WHERE l.account = n.id AND l.kind = 'budget' AND l.event ? 'budget' ORDER BY l.seq DESC LIMIT 1) IS NULL
            ORDER BY n.id FOR UPDATE LOOP
    UPDATE dp_int.account n SET spent_epsilon = s.epsilon, rest = s.rest, rest_rho = s.rest_rho
      FROM dp_int.entry_sums() AS s WHERE n.id = a.id AND s.account = a.id AND s.everybody;
    UPDATE dp_int.caller_total t SET spent_epsilon = s.epsilon, rest = s.rest, rest_rho = s.rest_rho
      FROM dp_int.entry_sums() AS s WHERE t.account = a.id AND s.account = a.id AND NOT s.everybody AND s.principal = t.principal;
    PERFORM dp_int.prove(a.id);
    IF (SELECT l.event ? 'adopt' FROM dp_int.ledger l WHERE l.account = a.id AND l.kind = 'budget' AND l.event ? 'budget' ORDER BY l.seq DESC LIMIT 1) THEN
      UPDATE dp_int.account n SET epsilon = least(n.epsilon, n.proven_epsilon), cap = 0 WHERE n.id = a.id RETURNING * INTO a;
    END IF;
    PERFORM dp_int.ledger_budget(a.id, (SELECT d.name FROM dp_int.dataset d WHERE d.account = a.id ORDER BY d.unregistered_at DESC NULLS FIRST, d.id DESC LIMIT 1), session_user,
      jsonb_build_object('upgrade', jsonb_build_object('filters', 'all'), 'budget', dp_int.describe_budget(a, a.epsilon, a.delta)));
  END LOOP;
  -- After a step down an older version may have proven more of what is alone.
  PERFORM dp_int.prove(n.id) FROM dp_int.account n
    WHERE EXISTS (SELECT FROM dp_int.caller_total t WHERE t.account = n.id AND t.rest = 1) OR EXISTS (SELECT FROM dp_int.account_block b WHERE b.account = n.id AND b.rest = 1);
END $$;

-- Why somebody's job on a data set that was unregistered, or is no longer granted, is refused.
CREATE OR REPLACE FUNCTION dp_int.why_refused(d dp_int.dataset, p_caller name, OUT message text, OUT hint text)
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN d.unregistered_at IS NULL THEN format('data set "%s" is no longer granted to "%s"', d.name, p_caller)
              ELSE format('data set "%s" is no longer registered as it was when this was asked', d.name) END,
         CASE WHEN d.unregistered_at IS NULL THEN 'Ask the steward for dp_grant.'
              ELSE 'Ask the steward whether it is registered again, and granted: then ask anew.' END || ' No privacy budget was spent.'
$$;

-- Charges e, with its job, event, costs and arithmetic given, to the principal of its job, or raises
-- DP002 and charges nothing. The filters are those of fully adaptive composition: costs add up, in every
-- unit that they have, to at most a cap fixed with the budget, and deltas to at most the reserve. Neither
-- is traded for the other, nor one Renyi order for another, and dp_int.admits alone decides (Rogers et
-- al. 2016; Feldman & Zrnic 2021; Whitehouse et al. 2023; internal/ledger/filters.md). With blocks the
-- filters are those of each block that the job reads, independently of the sums of other blocks
-- (internal/ledger/blocks.md).
CREATE OR REPLACE FUNCTION dp_int.ledger_charge(p_dataset bigint, e dp_int.ledger) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  g dp_int.dataset_grant;
  j dp_int.job;
  caller name;   -- the current name of the role
  cost numeric;
  own dp_int.tally;         -- the sums of the caller's own charges, over all blocks
  within boolean;           -- does the caller's own limit admit the charge?
  b dp_int.account_block;   -- the fullest that does not
  n dp_int.account;         -- the account with the totals of a block
  l record;                 -- why nothing may be asked; a limit, and the sums compared with it
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account FOR UPDATE;
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;  -- read after the account was locked: its limit is current
  SELECT * INTO STRICT j FROM dp_int.job WHERE id = e.job;
  caller := dp_int.role_of(j.principal);
  g := dp_int.grant_of(p_dataset, caller);
  IF g.dataset IS NULL OR d.unregistered_at IS NOT NULL THEN
    SELECT * INTO l FROM dp_int.why_refused(d, coalesce(caller, j.caller));
    RAISE EXCEPTION '%', l.message USING ERRCODE = '42501', HINT = l.hint;
  END IF;
  e.account := a.id;
  e.kind := 'charge';
  e.dataset := d.name;
  e.caller := caller;
  cost := dp_int.cost(a, e);
  IF cost IS NULL OR NOT (cost >= 0 AND cost < 'Infinity') OR NOT coalesce(e.delta >= 0 AND e.delta < 1, false) THEN
    RAISE EXCEPTION 'data set "%" has % accounting, which cannot state the cost of this method', d.name, a.accounting
      USING ERRCODE = 'DP005', HINT = 'Choose another method. No privacy budget was spent.';
  END IF;
  e.blocks := dp_int.blocks_read(p_dataset, j.request);
  IF (a.block_width IS NULL) <> (e.blocks IS NULL) OR isempty(e.blocks) THEN
    RAISE EXCEPTION 'the account of data set "%" has other blocks than when this was asked', d.name USING ERRCODE = 'DP004', HINT = 'Ask again. No privacy budget was spent.';
  END IF;
  own := dp_int.tally_of(a.id, j.principal);
  within := g.epsilon IS NULL OR dp_int.admits(a.accounting, g.epsilon, a.delta, g.cap, dp_int.add_entry(own, a, e));
  IF within THEN
    SELECT * INTO b FROM dp_int.refusing(a, d, e.blocks, dp_int.add_entry(ROW(0, 0, 0, 0)::dp_int.tally, a, e), e.delta) LIMIT 1;
  ELSE
    SELECT * INTO b FROM dp_int.sums_of(a, e.blocks) LIMIT 1;
  END IF;
  IF FOUND THEN
    n := dp_int.at_block(a, b);
    PERFORM dp_int.refuse_delta(d.name, n, e.delta);
    FOR l IN SELECT * FROM (VALUES (NULL::name, a.epsilon, a.cap, dp_int.tally_of(n)), (NULL, d.epsilon, d.cap, dp_int.tally_of(n)), (caller, g.epsilon, g.cap, own)) AS v(whose, epsilon, cap, t)
              WHERE v.epsilon IS NOT NULL ORDER BY v.whose NULLS FIRST, v.epsilon LOOP
      IF NOT dp_int.admits(a.accounting, l.epsilon, a.delta, l.cap, dp_int.add_entry(l.t, a, e)) THEN
        PERFORM dp_int.refuse_overdraft(d.name, l.whose, l.epsilon, l.t, n, e, dp_int.affordable_everywhere(a, d, g, own, e, j.delta),
                                        CASE WHEN l.whose IS NULL THEN dp_int.name_block(a, b) END,
                                        CASE WHEN l.whose IS NULL AND dp_int.affordable(n, g.epsilon, g.cap, ARRAY[own], e, j.delta) = 0
                                             THEN format('The limit of "%s", epsilon %s, does not cover it either, nor any smaller eps: ask the steward for dp_set_budget, and for a higher limit with dp_grant(%L, %L, ...)', caller, g.epsilon::float8, d.name, caller) END);
      END IF;
    END LOOP;
    RAISE EXCEPTION 'data set "%" does not cover this request', d.name USING ERRCODE = 'DP002';  -- not reached: the loop raises
  END IF;
  RETURN dp_int.ledger_append(e);
END $$;

-- Does a further delta of mechanisms fit into its reserve? Where a steward has lowered the reserve below
-- the deltas already spent, not even 0 does.
CREATE OR REPLACE FUNCTION dp_int.delta_fits(a dp_int.account, delta numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT a.spent_delta + delta <= dp_int.reserve(a.delta) $$;

-- What a refused caller can have all the same. A request of a former registration is another one.
CREATE OR REPLACE FUNCTION dp_int.hint_repeats(p_dataset text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT format('Requests answered %s can still be repeated at no cost.',
                CASE WHEN EXISTS (SELECT FROM dp_int.dataset d WHERE d.name = p_dataset AND d.unregistered_at IS NOT NULL) THEN 'since its last registration' ELSE 'before' END)
$$;

CREATE OR REPLACE FUNCTION dp_int.refuse_delta(p_dataset text, a dp_int.account, delta numeric) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  remaining CONSTANT numeric := dp_int.reserve(a.delta) - a.spent_delta;
BEGIN
  IF dp_int.delta_fits(a, delta) THEN RETURN; END IF;
  RAISE EXCEPTION 'the delta of data set "%" does not cover this request: %', p_dataset,
    CASE WHEN remaining < 0 THEN 'it was set below what earlier requests have spent of it'
         ELSE format('a tenth of it is kept for methods that spend delta themselves; of that tenth %s is left, and this request needs %s', remaining::float8, delta::float8) END
    USING ERRCODE = 'DP002',
          HINT = CASE WHEN remaining < 0 THEN 'Ask' ELSE 'Ask with a smaller delta or with a method that spends no delta itself, or ask' END
                 || ' the steward for dp_set_budget. No privacy budget was spent. ' || dp_int.hint_repeats(p_dataset);
END $$;

-- About the largest eps with which the request of e would be admitted after the charges of each of these sums: the largest
-- over the filters, 0 when none has room but for last digits. NULL where that is not known, or without a budget. p_delta: that of the request.
CREATE OR REPLACE FUNCTION dp_int.affordable(a dp_int.account, p_epsilon numeric, p_cap numeric, sums dp_int.tally[], e dp_int.ledger, p_delta float8) RETURNS numeric
LANGUAGE plpgsql STABLE AS $$
DECLARE
  o CONSTANT numeric := CASE WHEN a.accounting = 'zcdp' AND p_cap > 0 THEN dp_int.order_for_epsilon(p_epsilon::float8, dp_int.conversion_delta(a.delta)::float8) END;
BEGIN
  IF a.accounting <> 'pure' AND e.event ? 'approx' OR p_epsilon IS NULL THEN
    RETURN NULL;  -- with a smaller eps sample_aggregate would form other blocks of rows
  END IF;
  RETURN (
    SELECT CASE
             WHEN a.accounting = 'pure' THEN min(greatest(0, p_cap - t.spent))
             WHEN e.epsilon IS NOT NULL THEN
               CASE WHEN a.accounting = 'zcdp' OR bool_and(t.rest = 0) THEN min(greatest(v.alone, sqrt(CASE WHEN e.event ? 'bounded_range' THEN 8 ELSE 2 END * v.room), o * v.mixed)) END
             WHEN a.accounting = 'zcdp' AND p_delta = a.delta AND bool_and(t.rest = 0 AND t.epsilon = 0) THEN p_epsilon
             WHEN a.accounting = 'zcdp' AND p_delta > 0 THEN dp_int.proven('zcdp', NULL, min(greatest(v.room, v.mixed)), p_delta::numeric) END
      FROM unnest(sums) AS t,
           LATERAL (SELECT CASE WHEN t.rest = 0 THEN dp_int.room(p_epsilon, t.epsilon) END,                    -- of filter 1, an epsilon
                           CASE WHEN a.accounting = 'zcdp' THEN dp_int.room(p_cap, t.spent) END,               -- of filter 2, a rho
                           dp_int.room(p_cap, t.rest_rho + t.epsilon / o)) AS v(alone, room, mixed));          -- of filter 3, a rho
END $$;

-- The room below a cap: 0 where only last digits are left.
CREATE OR REPLACE FUNCTION dp_int.room(p_cap numeric, p_spent numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_cap - p_spent > 1e-9 * p_cap THEN p_cap - p_spent WHEN p_spent IS NOT NULL THEN 0 END $$;

-- The largest eps that would be admitted, as messages show it; NULL where it is not known, or 0.
CREATE OR REPLACE FUNCTION dp_int.shown_affordable(a dp_int.account, p_eps numeric) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_eps > 0 AND a.accounting = 'pure' THEN 'at most ' || p_eps::float8
              WHEN p_eps > 0 THEN 'at most about ' || trim_scale(trunc(p_eps, 1 - floor(log(p_eps))::int)) END
$$;

-- An epsilon rounded upward or downward: to six digits of a budget below 1, to six decimals of a larger one, but for errors of
-- float8 arithmetic in costs. Views call no function, and dp_int.rounding does the same for them.
CREATE OR REPLACE FUNCTION dp_int.rounded_outward(epsilon numeric, budget numeric, upward boolean) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN upward THEN ceil(round(epsilon * u.per, 6)) ELSE floor(round(greatest(epsilon, 0) * u.per, 6)) END / u.per
    FROM (SELECT CASE WHEN budget > 0 AND budget < 1 THEN ('1e' || 5 - floor(log(budget)))::numeric ELSE 1e6 END) AS u(per)
$$;

-- An epsilon of what is spent, and one of what remains, as dp_explain and dp_blocks show them.
CREATE OR REPLACE FUNCTION dp_int.rounded_up(epsilon numeric, budget numeric) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT dp_int.rounded_outward(epsilon, budget, true)::float8 $$;

CREATE OR REPLACE FUNCTION dp_int.rounded_down(epsilon numeric, budget numeric) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT dp_int.rounded_outward(epsilon, budget, false)::float8 $$;

-- By how much the epsilon spent grows, so that it adds up with both as shown; where both are shown as the same, rounded up. NULL
-- where no epsilon is proven any more, as the delta is below what was spent of it.
CREATE OR REPLACE FUNCTION dp_int.shown_increase(p_before numeric, p_after numeric, budget numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_before = 'Infinity' THEN NULL WHEN grown > 0 THEN grown ELSE dp_int.rounded_outward(p_after - p_before, p_after - p_before, true) END
    FROM (SELECT dp_int.rounded_outward(p_after, budget, true) - dp_int.rounded_outward(p_before, budget, true)) AS g(grown)
$$;

-- The same in messages; of an epsilon that is shown alone, with itself in place of the budget.
CREATE OR REPLACE FUNCTION dp_int.shown_epsilon(epsilon numeric, budget numeric DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT trim_scale(dp_int.rounded_outward(epsilon, coalesce(budget, epsilon), true))::text $$;

CREATE OR REPLACE FUNCTION dp_int.shown_remaining(epsilon numeric, budget numeric) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT trim_scale(dp_int.rounded_outward(epsilon, budget, false))::text $$;

-- Raises DP002: the filters of a limit of p_epsilon do not admit e after the charges t. Sums have units
-- that are not shown to people: the message gives the epsilon that they prove. Without a caller the limit
-- is the data set's. p_eps: the eps that every limit would admit, NULL where it is not known. p_block:
-- the text about the block that does not cover the request, a then holding the totals of that block; NULL
-- without blocks. p_both: the remedy where the caller's own limit has no room for any eps either, else NULL.
CREATE OR REPLACE FUNCTION dp_int.refuse_overdraft(p_dataset text, p_caller name, p_epsilon numeric, t dp_int.tally, a dp_int.account,
                                        e dp_int.ledger, p_eps numeric, p_block text, p_both text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  before_epsilon CONSTANT numeric := dp_int.least_epsilon(a, t, a.spent_delta);
  after_epsilon CONSTANT numeric := dp_int.least_epsilon(a, dp_int.add_entry(t, a, e), a.spent_delta + e.delta);
  -- A request that takes the whole budget leaves a few last digits of it.
  left_epsilon CONSTANT numeric := CASE WHEN p_epsilon - before_epsilon > 1e-9 * p_epsilon AND NOT dp_int.is_closed(a.accounting, dp_int.cap(a.accounting, a.renyi_order, p_epsilon, a.delta), t)
                                        THEN p_epsilon - before_epsilon ELSE 0 END;
  remedy text := 'ask the steward for dp_set_budget';
  -- Under zCDP the eps of a request is more than what it adds to the epsilon spent, once something is spent, or where its delta is below the budget's.
  most CONSTANT text := dp_int.shown_affordable(a, p_eps)
    || CASE WHEN p_eps > left_epsilon * 1.02 THEN format(' (%s, it costs the %s left)', CASE WHEN t.spent > 0 THEN 'added to what was asked before' ELSE 'at its delta, below the budget''s' END, dp_int.shown_remaining(left_epsilon, p_epsilon)) ELSE '' END;
  asked_delta CONSTANT numeric := (SELECT delta FROM dp_int.job WHERE id = e.job);
  asked_eps CONSTANT numeric := (SELECT eps FROM dp_int.job WHERE id = e.job);
  why CONSTANT text := CASE WHEN after_epsilon - before_epsilon <= asked_eps * 1.001 OR after_epsilon = 'Infinity' THEN ''
                            WHEN asked_delta > a.delta THEN format(' rather than its eps %s, as it asks for a delta of %s and is counted at the budget''s', asked_eps::float8, asked_delta::float8)
                            WHEN t.spent > 0 THEN format(' rather than its eps %s, as it is added up with what was asked before', asked_eps::float8)
                            ELSE format(' rather than its eps %s, as a part of delta is kept for methods that spend it themselves', asked_eps::float8) END;
BEGIN
  IF p_caller IS NOT NULL THEN
    remedy := format('ask the steward for a higher limit: dp_grant(%L, %L, ...)', p_dataset, p_caller);
  END IF;
  remedy := CASE WHEN p_both IS NOT NULL THEN p_both
                 WHEN left_epsilon = 0 THEN 'A' || substr(remedy, 2)
                 WHEN asked_delta > a.delta THEN concat('Ask with a smaller delta, at most ', a.delta::float8, ', ', 'or with a smaller eps at this delta, ' || most || ', ', 'or ', remedy)
                 WHEN p_eps = 0 THEN concat('With this method no eps would do beside what was asked with others: ', CASE WHEN t.rest = 0 THEN 'ask dp_l1_regress, or ' END, remedy)
                 WHEN a.accounting = 'pure' THEN format('Ask with eps %s, or %s', dp_int.shown_affordable(a, p_eps), remedy)
                 ELSE concat('Ask with a smaller eps, ', most || ', ', 'or ', remedy) END;
  RAISE EXCEPTION '%', format(
    CASE WHEN p_caller IS NULL THEN 'the budget of data set "%2$s" does not cover this request: it costs epsilon %7$s%9$s, and %8$s is left; it would raise the epsilon spent from %3$s to %4$s, the budget is %5$s%6$s'
         ELSE 'the limit of "%1$s" on data set "%2$s" does not cover this request: it costs epsilon %7$s%9$s, and %8$s is left; it would raise the epsilon spent by "%1$s" from %3$s to %4$s, the limit is %5$s%6$s' END,
    p_caller, p_dataset, dp_int.shown_epsilon(before_epsilon, p_epsilon), dp_int.shown_epsilon(after_epsilon, p_epsilon), p_epsilon::float8, ' at delta ' || nullif(a.delta, 0)::float8,
    trim_scale(dp_int.shown_increase(before_epsilon, after_epsilon, p_epsilon)), dp_int.shown_remaining(left_epsilon, p_epsilon), why)
    USING ERRCODE = 'DP002', HINT = remedy || concat('. ', p_block || ' ') || 'No privacy budget was spent. ' || dp_int.hint_repeats(p_dataset);
END $$;

-- Refunds a charge, at most once: the unique key on refunds enforces it.
CREATE OR REPLACE FUNCTION dp_int.ledger_refund(p_charge bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  entry dp_int.ledger;
BEGIN
  SELECT * INTO STRICT entry FROM dp_int.ledger WHERE id = p_charge AND kind = 'charge';
  entry.kind := 'refund';
  entry.refunds := p_charge;
  entry.epsilon := -entry.epsilon;
  entry.rho := -entry.rho;
  entry.renyi := (SELECT array_agg(-r ORDER BY o) FROM unnest(entry.renyi) WITH ORDINALITY AS c(r, o));
  entry.delta := -entry.delta;
  RETURN dp_int.ledger_append(entry);
END $$;

-- Records a budget: its value, its data set, and who set it.
CREATE OR REPLACE FUNCTION dp_int.ledger_budget(p_account bigint, p_dataset text, p_caller name, p_event jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  entry dp_int.ledger;
BEGIN
  entry.account := p_account;
  entry.kind := 'budget';
  entry.dataset := p_dataset;
  entry.caller := p_caller;
  entry.event := p_event;
  -- A transaction that has sent NOTIFY cannot PREPARE TRANSACTION: so the lock on the account, which
  -- every charge needs, ends with the steward's session at the latest.
  PERFORM pg_notify('dp_ledger', '');
  RETURN dp_int.ledger_append(entry);
END $$;
