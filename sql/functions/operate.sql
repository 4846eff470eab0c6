-- Figures for monitoring, and the steward's operations on jobs.

-- Public facts alone: budgets, the queue and the outcomes of jobs, nothing that depends on values. A
-- request that the budget does not cover does not count as a failure.
CREATE OR REPLACE FUNCTION dp_int.figures() RETURNS jsonb
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object(
    'budgets', (SELECT coalesce(jsonb_object_agg(d.name, greatest(1 - a.proven_epsilon / nullif(least(a.epsilon, d.epsilon), 0), 0)::float8), '{}')
                  FROM dp_int.dataset d JOIN dp_int.account a ON a.id = d.account WHERE d.unregistered_at IS NULL),
    'queued', count(*),
    'oldest', coalesce(extract(epoch FROM clock_timestamp() - min(j.created_at)), 0)::float8,
    'running', (SELECT count(*) FROM dp_int.job r WHERE r.lease_until IS NOT NULL AND r.token IS NOT NULL),
    'parked', (SELECT count(*) FROM dp_int.job p WHERE p.lease_until IS NOT NULL AND p.state = 'reading' AND p.sqlstate IS NOT NULL),
    'failures', (SELECT coalesce(jsonb_object_agg(f.sqlstate, f.jobs), '{}')
                   FROM (SELECT sqlstate, count(*) AS jobs FROM dp_int.job WHERE state = 'failed' AND sqlstate <> 'DP002' GROUP BY sqlstate) AS f),
    'sidecars', dp_int.sidecars_alive(),
    'verified', (SELECT jsonb_build_object('ok', o.verified_ok, 'age', extract(epoch FROM clock_timestamp() - o.verified_at)::float8)
                   FROM dp_int.operation o WHERE o.verified_at IS NOT NULL))
    FROM dp_int.job j
   WHERE j.state = 'queued'
$$;

CREATE OR REPLACE FUNCTION public.dp_set_queue_limit(jobs int) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF jobs < 1 THEN
    RAISE EXCEPTION 'a caller must be let queue at least one job, not %', jobs USING ERRCODE = '22023', HINT = 'For instance 1000; NULL sets no limit.';
  END IF;
  UPDATE dp_int.operation SET queue_limit = jobs;
END $$;
COMMENT ON FUNCTION public.dp_set_queue_limit IS
  'Sets how many jobs of one caller may be queued, 1000 at first; NULL: any number. What is queued already stays. For dp_admin.';

CREATE OR REPLACE FUNCTION dp.record_verify(ok boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dp_int.operation
     SET verified_ok = coalesce(record_verify.ok, false), verified_at = clock_timestamp(), verified_by = dp.caller();
END $$;
COMMENT ON FUNCTION dp.record_verify IS
  'Notes for the metrics whether the ledger held, and when: dpsidecar verify calls it. For dp_admin.';

-- Ends all queued jobs of callers who may no longer ask. A job that is just being claimed is refused when
-- it is charged.
CREATE OR REPLACE FUNCTION dp_int.refuse_ungranted(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  refused bigint[];
  j record;
BEGIN
  SELECT array_agg(c.principal) INTO refused
    FROM (SELECT DISTINCT principal FROM dp_int.job WHERE dataset = d.id AND state = 'queued') AS c
   WHERE (dp_int.grant_of(d.id, dp_int.role_of(c.principal))).dataset IS NULL;
  FOR j IN SELECT id, caller FROM dp_int.job WHERE dataset = d.id AND state = 'queued' AND principal = ANY (refused) FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM dp_int.finish_job(j.id, 'failed', '42501', w.message, w.hint) FROM dp_int.why_refused(d, j.caller) AS w;
  END LOOP;
END $$;

-- Ends a job that is charged and takes too long, or can never be read, and identical ones that would only
-- wait for it. Its worker notices at the next heartbeat.
CREATE OR REPLACE FUNCTION public.dp_abandon(job uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  j dp_int.job;
  follower uuid;
  message CONSTANT text := format('abandoned by the steward "%s"', dp.caller());
  unspent CONSTANT text := 'No privacy budget was spent.';
BEGIN
  PERFORM dp_int.refuse_copy();  -- it would refund charges under which the original releases
  PERFORM dp_int.follow_promotion();
  BEGIN
    SELECT * INTO j FROM dp_int.job WHERE id = dp_abandon.job FOR NO KEY UPDATE;
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'somebody''s open transaction holds job %', dp_abandon.job
      USING ERRCODE = '55P03', HINT = 'Its caller may have canceled it without a COMMIT: see pg_locks, end that session with pg_terminate_backend, and call again.';
  END;
  IF j.id IS NULL THEN
    RAISE EXCEPTION 'there is no job %', coalesce(dp_abandon.job::text, 'NULL')
      USING ERRCODE = '22023', HINT = coalesce((SELECT format('That is the release of job %s, which is done: there is nothing to abandon.', r.job) FROM dp_int.release r WHERE r.id = dp_abandon.job), 'See dp.jobs.');
  ELSIF j.finished_at IS NOT NULL THEN
    RETURN format('it was %s already', j.state);
  END IF;
  -- A follower that is just being claimed follows j, and job_claim ends it.
  FOR follower IN SELECT id FROM dp_int.job
                   WHERE dataset = j.dataset AND request_hash = j.request_hash AND state = 'queued' AND NOT fresh AND NOT j.fresh AND id <> j.id
                     FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM dp_int.finish_job(follower, 'failed', 'DP004', message, unspent);
  END LOOP;
  IF j.state = 'reading' THEN
    PERFORM dp_int.finish_job(j.id, 'abandoned', 'DP004', message, 'The privacy budget is spent, and nothing was released.');
    PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), jsonb_build_object('abandon', j.id)) FROM dp_int.dataset d WHERE d.id = j.dataset;
    RETURN 'abandoned; the privacy budget is spent, and nothing will be released';
  END IF;
  PERFORM dp_int.refund_job(j);
  PERFORM dp_int.finish_job(j.id, 'failed', 'DP004', message, unspent);
  RETURN 'abandoned before it read; no privacy budget was spent';
END $$;
COMMENT ON FUNCTION public.dp_abandon IS
  'Ends anybody''s job. One that has begun to read its table has spent its budget: that stays spent, nothing is released, and the ledger records who ended it. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_abandon, public.dp_set_queue_limit, dp.record_verify TO dp_admin;
GRANT EXECUTE ON FUNCTION dp_int.figures, dp_int.schema_version TO dp_sidecar;
