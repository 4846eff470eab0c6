-- Verification of the ledger: the totals kept by the functions are recomputed from the entries. That the
-- newest entries are all there can only be checked against heads that were kept elsewhere.

-- What a dp_int.tally holds beside spent, added up from the entries: of each principal of an account, and of
-- everybody.
CREATE OR REPLACE FUNCTION dp_int.entry_sums() RETURNS TABLE(account bigint, principal bigint, everybody boolean, epsilon numeric, rest bigint, rest_rho numeric)
LANGUAGE sql STABLE AS $$
  SELECT l.account, j.principal, grouping(j.principal) = 1, coalesce(sum(l.epsilon), 0), sum(dp_int.weight_of_rest(l)),
         coalesce(sum(l.rho) FILTER (WHERE l.epsilon IS NULL), 0)
    FROM dp_int.ledger l
    LEFT JOIN dp_int.job j ON j.id = l.job
   WHERE l.kind <> 'budget'
   GROUP BY GROUPING SETS ((l.account), (l.account, j.principal))
$$;

-- The error in the first of these heads that does not match, NULL if all match.
CREATE OR REPLACE FUNCTION dp_int.missed_head(p_heads jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  form CONSTANT text := 'For instance [{"account": 1, "entry": 7, "head": "the hash in hexadecimal"}], as dpsidecar verify and the log of dpsidecar serve have them.';
  stray jsonb;
BEGIN
  IF jsonb_typeof(p_heads) <> 'array' THEN
    RAISE EXCEPTION 'heads must be a JSON list, not %', dp_int.excerpt(p_heads::text)
      USING ERRCODE = '22023', HINT = form;
  END IF;
  IF p_heads = '[]' THEN
    RAISE EXCEPTION 'the list of heads is empty: there is nothing to hold the chains against' USING ERRCODE = '22023', HINT = form;
  END IF;
  -- A head without an account, an entry or a hash would be compared with nothing, and pass.
  SELECT h INTO stray FROM jsonb_array_elements(p_heads) AS h
   WHERE (jsonb_typeof(h -> 'account'), jsonb_typeof(h -> 'entry'), jsonb_typeof(h -> 'head')) IS DISTINCT FROM ('number', 'number', 'string')
      OR EXISTS (SELECT FROM unnest('{account,entry}'::text[]) AS k, LATERAL (SELECT CASE jsonb_typeof(h -> k) WHEN 'number' THEN (h ->> k)::numeric END) AS n(n) WHERE n NOT BETWEEN 1 AND 9223372036854775807 OR scale(n) > 0) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a head needs an account, an entry and a hash, and % has not', dp_int.excerpt(stray::text) USING ERRCODE = '22023', HINT = form;
  END IF;
  RETURN (
    SELECT CASE
             WHEN l.id IS NOT NULL THEN format('entry %s of account %s is another one: it was changed, or this is another ledger', h.entry, h.account)
             WHEN a.id IS NULL THEN format('account %s is gone', h.account)
             ELSE format('entry %s of account %s is missing: the ledger was cut after entry %s, or is an older copy', h.entry, h.account, a.entries) END
      FROM jsonb_to_recordset(p_heads) AS h(account bigint, entry bigint, head text)
      LEFT JOIN dp_int.account a ON a.id = h.account
      LEFT JOIN dp_int.ledger l ON l.account = h.account AND l.seq = h.entry
     WHERE encode(l.hash, 'hex') IS DISTINCT FROM h.head
     ORDER BY h.account, h.entry
     LIMIT 1);
END $$;

-- The first charge beyond the budget then in force, of its account or of a block of it; the budget in
-- force is the last one that the chain holds before the charge, and its accounting and order are those in
-- which entries count: not the account's row, which is not in the chain. Budgets that do not name the
-- account's epsilon are of versions whose only filter was the cap, and those that name no accounting of
-- versions that had one. NULL where there is no such charge. The order of filter 3 may have been another in
-- its last digits when the charge was admitted, on another processor: what fills it to 1e-12 is let pass.
CREATE OR REPLACE FUNCTION dp_int.overdraft() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT format('entry %s of account %s', s.id, s.account)
      FROM (SELECT l.id, l.account, l.kind, b.*,
                   sum(dp_int.cost_in(b.accounting, b.renyi_order, l.entry)) OVER chain AS spent, sum((l.entry).delta) OVER chain AS spent_delta,
                   bool_or(l.kind <> 'budget' AND dp_int.cost_in(b.accounting, b.renyi_order, l.entry) IS NULL) OVER chain AS unknown,
                   coalesce(sum((l.entry).epsilon) OVER chain, 0) AS pure_epsilon,
                   sum(dp_int.weight_of_rest(l.entry)) OVER chain AS rest,
                   coalesce(sum((l.entry).rho) FILTER (WHERE (l.entry).epsilon IS NULL) OVER chain, 0) AS rest_rho
              FROM (SELECT e.id, e.account, e.seq, e.kind, e AS entry,
                           max(e.seq) FILTER (WHERE e.kind = 'budget' AND e.event ? 'budget') OVER (PARTITION BY e.account ORDER BY e.seq) AS budget
                      FROM dp_int.ledger e) AS l
              JOIN dp_int.account a ON a.id = l.account
              LEFT JOIN dp_int.ledger n ON n.account = l.account AND n.seq = l.budget,
                   LATERAL (SELECT coalesce(n.event #>> '{budget,accounting}', 'pure'), (n.event #>> '{budget,order}')::numeric, (n.event #>> '{budget,account_epsilon}')::numeric,
                                   (n.event #>> '{budget,delta}')::numeric, (n.event #>> '{budget,cap}')::numeric) AS b(accounting, renyi_order, epsilon, delta, cap),
                   LATERAL (SELECT NULL WHERE a.block_width IS NULL
                            UNION ALL
                            SELECT generate_series(lower((l.entry).blocks), upper((l.entry).blocks) - 1) WHERE a.block_width IS NOT NULL) AS g(block)
            WINDOW chain AS (PARTITION BY l.account, g.block ORDER BY l.seq)) AS s
     WHERE s.kind = 'charge'
       AND (NOT s.unknown
            AND CASE WHEN s.epsilon IS NULL THEN s.spent <= s.cap
                     ELSE dp_int.admits(s.accounting, s.epsilon, s.delta, s.cap, ROW(s.spent, s.pure_epsilon, s.rest, s.rest_rho)::dp_int.tally)
                          OR dp_int.admits(s.accounting, s.epsilon, s.delta, s.cap, ROW(s.spent, s.pure_epsilon * (1 - 1e-12), s.rest + 2, s.rest_rho * (1 - 1e-12))::dp_int.tally) END  -- filter 3 alone: 1 needs a rest of 0, 4 of 1
            AND s.spent_delta <= dp_int.reserve(s.delta)) IS NOT TRUE
     ORDER BY s.id
     LIMIT 1);
END $$;

-- The budget in the newest entry of the ledger that registers a data set; NULL where there is none.
CREATE OR REPLACE FUNCTION dp_int.registered_budget(d dp_int.dataset) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT l.event -> 'budget'
    FROM dp_int.ledger l
   WHERE l.account = d.account AND l.dataset = d.name AND l.kind = 'budget' AND l.event -> 'budget' ? 'relation'
   ORDER BY l.seq DESC
   LIMIT 1
$$;

CREATE OR REPLACE FUNCTION public.dp_verify(heads jsonb DEFAULT NULL) RETURNS TABLE(item text, ok boolean, detail text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$  -- compiling takes longer than the queries, which look expensive to the planner
BEGIN
  IF heads IS NOT NULL THEN
    RETURN QUERY SELECT 'every head that was kept outside is in its chain', d.detail IS NULL, d.detail FROM dp_int.missed_head(heads) AS d(detail);
  END IF;

  -- What an account has proven is compared to nine digits, as the orders of filters are computed again: logarithms of
  -- another processor or C library may differ in their last digit.
  RETURN QUERY SELECT c.item, c.detail IS NULL, c.detail FROM (VALUES
    ('every entry carries the hash of its columns and of the entry before it', (
      SELECT format('entry %s of account %s', l.id, l.account)
        FROM dp_int.ledger l
        LEFT JOIN dp_int.ledger p ON p.account = l.account AND p.seq = l.seq - 1
       WHERE l.hash <> dp_int.ledger_hash(l) OR l.previous <> coalesce(p.hash, '') OR (p.id IS NULL) <> (l.seq = 1)
       ORDER BY l.id
       LIMIT 1)),
    ('every account ends where its chain ends, and its totals are the sums of the chain', (
      SELECT format('account %s', a.id)
        FROM dp_int.account a
        LEFT JOIN LATERAL (
          SELECT count(*) AS entries, coalesce(sum(dp_int.cost(a, l)), 0) AS spent, coalesce(sum(l.delta), 0) AS delta,
                 count(*) FILTER (WHERE l.kind <> 'budget') AS spends, (array_agg(l.hash ORDER BY l.seq DESC))[1] AS head
            FROM dp_int.ledger l WHERE l.account = a.id) AS c ON true
        LEFT JOIN dp_int.entry_sums() s ON s.account = a.id AND s.everybody,
             LATERAL (SELECT dp_int.least_epsilon(a, dp_int.tally_of(a), c.delta)) AS p(epsilon)
       WHERE (a.entries, a.spends, a.spent, a.spent_delta, a.head) IS DISTINCT FROM (c.entries, c.spends, c.spent, c.delta, coalesce(c.head, ''))
          OR (a.spent_epsilon, a.rest, a.rest_rho) IS DISTINCT FROM (coalesce(s.epsilon, 0), coalesce(s.rest, 0), coalesce(s.rest_rho, 0))
          OR a.block_width IS NULL AND (a.proven_epsilon BETWEEN p.epsilon * (1 - 1e-9) AND p.epsilon * (1 + 1e-9)) IS NOT TRUE
       ORDER BY a.id
       LIMIT 1)),
    ('what every caller has spent is the sum of their entries', (
      SELECT format('caller "%s" of account %s', coalesce(t.caller, c.caller), coalesce(t.account, c.account))
        FROM dp_int.caller_total t
        FULL JOIN (SELECT l.account, j.principal, min(l.caller::text) AS caller, sum(dp_int.cost(a, l)) AS spent
                     FROM dp_int.ledger l JOIN dp_int.account a ON a.id = l.account LEFT JOIN dp_int.job j ON j.id = l.job
                    WHERE l.kind <> 'budget' GROUP BY l.account, j.principal) AS c USING (account, principal)
        LEFT JOIN (SELECT * FROM dp_int.entry_sums() WHERE NOT everybody) AS s USING (account, principal)
       WHERE (t.spent, t.spent_epsilon, t.rest, t.rest_rho) IS DISTINCT FROM (c.spent, s.epsilon, s.rest, s.rest_rho)
       LIMIT 1)),
    ('no charge went beyond the budget that was in force', dp_int.overdraft()),
    ('every account has the accounting and the budget that its ledger set last', (
      SELECT format('account %s', a.id)
        FROM dp_int.account a
        LEFT JOIN LATERAL (SELECT l.event -> 'budget' AS budget FROM dp_int.ledger l WHERE l.account = a.id AND l.kind = 'budget' AND l.event ? 'budget' ORDER BY l.seq DESC LIMIT 1) AS n ON true
       WHERE n.budget IS NULL
          OR n.budget ? 'account_epsilon'  -- those of before are followed by one of the upgrade
         AND (a.accounting, a.renyi_order, a.epsilon, a.delta, a.cap)
             IS DISTINCT FROM (n.budget ->> 'accounting', (n.budget ->> 'order')::numeric, (n.budget ->> 'account_epsilon')::numeric, (n.budget ->> 'delta')::numeric, (n.budget ->> 'cap')::numeric)
       ORDER BY a.id
       LIMIT 1)),
    ('every charge is of the account that its data set has', (
      SELECT format('entry %s', l.id)
        FROM dp_int.ledger l
        JOIN dp_int.job j ON j.id = l.job
        JOIN dp_int.dataset d ON d.id = j.dataset
       WHERE l.account <> d.account
       ORDER BY l.id
       LIMIT 1)),
    -- Limits of persons ration a budget. The orders of filters are computed again, and may differ in their last digits.
    ('every personal limit is the one that the ledger names, and what its person has spent is what their sums prove', (
      SELECT min(w.detail)
        FROM (SELECT format('grant of data set "%s" to "%s"', d.name, g.grantee)
                FROM dp_int.dataset_grant g
                JOIN dp_int.dataset d ON d.id = g.dataset
                JOIN dp_int.account a ON a.id = d.account
                LEFT JOIN LATERAL (SELECT l.event -> 'grant' AS said FROM dp_int.ledger l
                                    WHERE l.account = d.account AND l.dataset = d.name AND l.kind = 'budget' AND l.event #>> '{grant,grantee}' = g.grantee ORDER BY l.seq DESC LIMIT 1) AS n ON true
               WHERE d.unregistered_at IS NULL
                 AND (n.said IS NOT NULL AND g.epsilon IS DISTINCT FROM (n.said ->> 'epsilon')::numeric
                      -- the ledger has names: of several roles that had this one it does not say whose it is
                      AND NOT EXISTS (SELECT FROM dp_int.dataset_grant o WHERE o.dataset = g.dataset AND o.grantee = g.grantee AND o.principal <> g.principal)
                      OR abs(g.cap - dp_int.cap(a.accounting, a.renyi_order, g.epsilon, a.delta)) > 1e-9 * g.cap)
              UNION ALL
              SELECT format('caller "%s" of account %s', t.caller, t.account)
                FROM dp_int.caller_total t
                JOIN dp_int.account a ON a.id = t.account,
                     LATERAL (SELECT CASE WHEN a.block_width IS NULL THEN a.spent_delta ELSE (SELECT max(b.spent_delta) FROM dp_int.account_block b WHERE b.account = a.id) END) AS v(deltas),
                     LATERAL (SELECT dp_int.least_epsilon(a, ROW(t.spent, t.spent_epsilon, t.rest, t.rest_rho)::dp_int.tally, v.deltas)) AS p(proven)
               WHERE v.deltas <= dp_int.reserve(a.delta) AND (t.proven_epsilon BETWEEN p.proven * (1 - 1e-9) AND p.proven * (1 + 1e-9)) IS NOT TRUE) AS w(detail)))) AS c(item, detail);

  RETURN QUERY SELECT * FROM dp_int.verify_blocks();

  RETURN QUERY SELECT c.item, c.detail IS NULL, c.detail FROM (VALUES
    ('no relation is in two accounts', (
      SELECT min(relation)
        FROM dp_int.account_relation
       WHERE current AND relid <> 0
       GROUP BY relid
      HAVING count(DISTINCT account) > 1
       ORDER BY 1
       LIMIT 1)),
    ('the levels of every category are those that the ledger names', (
      SELECT format('data set "%s"', d.name)
        FROM dp_int.dataset d
       WHERE d.unregistered_at IS NULL
         AND d.categories <> coalesce((SELECT coalesce(l.event -> 'categories', l.event #> '{budget,categories}')
                                         FROM dp_int.ledger l
                                        WHERE l.account = d.account AND l.dataset = d.name AND l.kind = 'budget' AND (l.event ? 'categories' OR l.event -> 'budget' ? 'relation')
                                        ORDER BY l.seq DESC LIMIT 1), '{}')
       ORDER BY d.name
       LIMIT 1)),
    -- Entries of versions that did not record max_rows have no such number.
    ('what tells persons apart is what the ledger names', (
      SELECT format('data set "%s"', d.name)
        FROM dp_int.dataset d, LATERAL dp_int.registered_budget(d) AS b(named)
       WHERE d.unregistered_at IS NULL
         AND ((d.unit_source, d.persons) IS DISTINCT FROM (b.named ->> 'unit', (b.named ->> 'persons')::bigint)
              OR b.named ? 'max_rows' AND d.max_rows IS DISTINCT FROM (b.named ->> 'max_rows')::int)
       ORDER BY d.name
       LIMIT 1)),
    ('the relation of every data set is the one that the ledger names', (
      SELECT format('data set "%s"', d.name)
        FROM dp_int.dataset d, LATERAL dp_int.registered_budget(d) AS b(named)
       WHERE d.unregistered_at IS NULL AND b.named IS NOT NULL
         AND parse_ident(b.named ->> 'relation') IS DISTINCT FROM ARRAY[d.schema_name, d.relation_name]::text[]
       ORDER BY d.name
       LIMIT 1)),
    -- What no account knows could be registered with another budget. What is total may show no table at all.
    ('every account to which something was charged knows its relations', (
      SELECT format('account %s', a.id)
        FROM dp_int.account a
       WHERE dp_int.charged(a.id) AND EXISTS (SELECT FROM dp_int.ledger l WHERE l.account = a.id AND l.kind = 'budget' AND l.event -> 'budget' ? 'relation' AND l.event #>> '{budget,total}' IS DISTINCT FROM 'true')
         AND NOT EXISTS (SELECT FROM dp_int.account_relation r WHERE r.account = a.id)
       ORDER BY a.id
       LIMIT 1)),
    ('every release has its own charge, which was not given back', (
      SELECT format('release %s', r.id)
        FROM dp_int.release r
        LEFT JOIN dp_int.ledger c ON c.id = r.charge
       WHERE c.kind IS DISTINCT FROM 'charge' OR c.job IS DISTINCT FROM r.job OR EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)
       ORDER BY r.released_at
       LIMIT 1)),
    ('every refund gives back all of its own charge, under which nothing had run', (
      SELECT format('entry %s', b.id)
        FROM dp_int.ledger b
        LEFT JOIN dp_int.ledger c ON c.id = b.refunds
        LEFT JOIN dp_int.job j ON j.id = c.job AND j.charge = c.id
       WHERE b.kind = 'refund'
         AND ((c.kind, c.account, c.dataset, c.caller, c.job, c.event, c.epsilon, c.rho, nullif(c.renyi, '{}'), c.renyi_grid, c.delta, c.arithmetic, c.blocks)
              IS DISTINCT FROM ('charge', b.account, b.dataset, b.caller, b.job, b.event, -b.epsilon, -b.rho, (SELECT array_agg(-r ORDER BY o) FROM unnest(b.renyi) WITH ORDINALITY AS n(r, o)),
                                b.renyi_grid, -b.delta, b.arithmetic, b.blocks)
              OR c.seq >= b.seq OR j.id IS NOT NULL)
       ORDER BY b.id
       LIMIT 1)),
    -- By its data set a release is shown, and by the hash of its request it answers again: also the jobs that followed its own.
    ('every release has the data set and the request of its job, and of every job that it answered', (
      SELECT format('release %s', r.id)
        FROM dp_int.release r
        JOIN (SELECT o.id, o.job, true AS own FROM dp_int.release o
              UNION ALL
              SELECT f.release, f.id, false FROM dp_int.job f WHERE f.release IS NOT NULL) AS answered(id, job, own) ON answered.id = r.id
        LEFT JOIN dp_int.job j ON j.id = answered.job
       WHERE (r.dataset, r.request_hash) IS DISTINCT FROM (j.dataset, j.request_hash)
          OR answered.own AND (r.model, r.eps, r.delta, r.principal, r.id) IS DISTINCT FROM (j.model, j.eps, j.delta, j.principal, j.release)
       ORDER BY r.released_at
       LIMIT 1)),
    ('every charge has a job: one that released, one still under way, or one abandoned by name, or it was given back', (
      SELECT format('entry %s', c.id)
        FROM dp_int.ledger c
        LEFT JOIN dp_int.job j ON j.id = c.job
       WHERE c.kind = 'charge'
         AND (j.id IS NULL
              OR NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)
                 AND NOT (j.charge IS NOT DISTINCT FROM c.id AND (j.state IN ('charged', 'reading')
                           OR j.state = 'abandoned' AND EXISTS (SELECT FROM dp_int.ledger b WHERE b.account = c.account AND b.kind = 'budget' AND b.event ->> 'abandon' = j.id::text)
                           OR EXISTS (SELECT FROM dp_int.release r WHERE r.charge = c.id))))
       ORDER BY c.id
       LIMIT 1))) AS c(item, detail);
END $$;
COMMENT ON FUNCTION public.dp_verify IS
  'Recomputes the ledger''s hash chains and totals, and holds releases, charges and jobs against each other, and the chains against heads that were kept outside; detail names the first that is wrong. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_verify TO dp_admin;
