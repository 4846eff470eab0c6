-- The ledger proves itself: what the functions keep is recomputed from nothing.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE OR REPLACE VIEW dp.ledger WITH (security_barrier) AS
  SELECT l.id, l.at, l.account, l.seq, l.kind, l.dataset, l.caller::text AS caller, l.job, l.event,
         l.epsilon::float8 AS epsilon, l.rho::float8 AS rho, l.delta::float8 AS delta, l.arithmetic, l.refunds, encode(l.hash, 'hex') AS hash,
         encode(l.previous, 'hex') AS previous
    FROM dp_int.ledger l
   ORDER BY l.id;

CREATE FUNCTION public.dp_verify() RETURNS TABLE(item text, ok boolean, detail text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  item := 'every entry carries the hash of its columns and of the entry before it';
  SELECT format('entry %s of account %s', l.id, l.account) INTO detail
    FROM dp_int.ledger l
    LEFT JOIN dp_int.ledger p ON p.account = l.account AND p.seq = l.seq - 1
   WHERE l.hash <> dp_int.ledger_hash(l) OR l.previous <> coalesce(p.hash, '\x') OR (p.id IS NULL) <> (l.seq = 1)
   ORDER BY l.id
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;

  item := 'every account ends where its chain ends, and its totals are the sums of the chain';
  SELECT format('account %s', a.id) INTO detail
    FROM dp_int.account a
    LEFT JOIN LATERAL (
      SELECT count(*) AS entries, coalesce(sum(l.epsilon), 0) AS epsilon, coalesce(sum(l.rho), 0) AS rho, coalesce(sum(l.delta), 0) AS delta,
             count(*) FILTER (WHERE l.kind <> 'budget') AS spends, (array_agg(l.hash ORDER BY l.seq DESC))[1] AS head
        FROM dp_int.ledger l WHERE l.account = a.id) AS c ON true
   WHERE (a.entries, a.spends, a.spent_epsilon, a.spent_rho, a.spent_delta, a.head)
         IS DISTINCT FROM (c.entries, c.spends, c.epsilon, c.rho, c.delta, coalesce(c.head, '\x'))
      OR a.proven_epsilon <> dp_int.proven(a.accounting, c.epsilon, c.rho, a.delta)
   ORDER BY a.id
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;

  item := 'every caller''s total is the sum of their entries';
  SELECT format('caller "%s" of account %s', coalesce(t.caller, c.caller), coalesce(t.account, c.account)) INTO detail
    FROM dp_int.caller_total t
    FULL JOIN (SELECT l.account, l.caller, coalesce(sum(l.epsilon), 0) AS epsilon, coalesce(sum(l.rho), 0) AS rho
                 FROM dp_int.ledger l WHERE l.kind <> 'budget' GROUP BY l.account, l.caller) AS c USING (account, caller)
   WHERE (t.epsilon, t.rho) IS DISTINCT FROM (c.epsilon, c.rho)
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;

  item := 'no account is spent beyond the largest budget it ever had';
  SELECT format('account %s', a.id) INTO detail
    FROM dp_int.account a
   WHERE a.proven_epsilon > (SELECT max((l.event #>> '{budget,epsilon}')::numeric) FROM dp_int.ledger l WHERE l.account = a.id) * (1 + 1e-9)
   ORDER BY a.id
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;

  item := 'every release has its own charge, which was not given back';
  SELECT format('release %s', r.id) INTO detail
    FROM dp_int.release r
    LEFT JOIN dp_int.ledger c ON c.id = r.charge
   WHERE c.kind IS DISTINCT FROM 'charge' OR c.job IS DISTINCT FROM r.job OR EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)
   ORDER BY r.released_at
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;

  item := 'every charge has a job: one that released, or one still under way, or it was given back';
  SELECT format('entry %s', c.id) INTO detail
    FROM dp_int.ledger c
    LEFT JOIN dp_int.job j ON j.id = c.job
   WHERE c.kind = 'charge'
     AND (j.id IS NULL
          OR NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)
             AND NOT (j.charge IS NOT DISTINCT FROM c.id AND (j.state IN ('charged', 'reading') OR EXISTS (SELECT FROM dp_int.release r WHERE r.charge = c.id))))
   ORDER BY c.id
   LIMIT 1;
  ok := detail IS NULL;
  RETURN NEXT;
END $$;
COMMENT ON FUNCTION public.dp_verify IS
  'Recomputes the ledger''s hash chains and totals, and holds releases, charges and jobs against each other; detail names the first that is wrong. For dp_admin.';

GRANT EXECUTE ON FUNCTION public.dp_verify TO dp_admin;

COMMIT;
