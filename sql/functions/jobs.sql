-- The life of a job, one function a step. Each takes the token that the claim gave to the worker, and
-- does nothing once another worker has claimed the job and thereby replaced the token.

-- A sidecar's heartbeat. Workers that have been silent for a day are forgotten. Any login can fill the server's queue of
-- notifications, by listening in a transaction that stays open. Once that ends the server lets go of what all have read
-- when somebody asks how full the queue is; until then every NOTIFY fails, and with it every step of a job.
CREATE OR REPLACE FUNCTION dp_int.worker_beat(p_worker uuid, p_pid int, p_version text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp_int.refuse_copy();  -- the jobs of a copy are the original's
  SELECT pg_notification_queue_usage();
  DELETE FROM dp_int.worker WHERE last_seen < clock_timestamp() - interval '1 day';
  INSERT INTO dp_int.worker (id, pid, version) VALUES (p_worker, p_pid, p_version)
  ON CONFLICT ON CONSTRAINT worker_pk DO UPDATE SET pid = excluded.pid, version = excluded.version, last_seen = clock_timestamp();
$$;

-- Ends the record of a sidecar that shuts down, which no longer counts as alive.
CREATE OR REPLACE FUNCTION dp_int.worker_bye(p_worker uuid) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM dp_int.worker WHERE id = p_worker
$$;

-- Ends jobs that are charged. Their charges stand: another server may release, or have released, under
-- them, and one charge pays for one release. Whoever locks both locks jobs before accounts, and accounts in
-- their order, as dp_revoke does: a worker that fails its job holds it, and waits for the account.
CREATE OR REPLACE FUNCTION dp_int.end_charged_jobs(p_when text, p_other text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ended CONSTANT uuid[] := ARRAY(SELECT o.id FROM dp_int.job o WHERE o.state IN ('charged', 'reading') ORDER BY o.seq FOR NO KEY UPDATE);
  j record;
BEGIN
  PERFORM FROM dp_int.account a
    WHERE a.id IN (SELECT d.account FROM dp_int.job o JOIN dp_int.dataset d ON d.id = o.dataset WHERE o.id = ANY (ended))
    ORDER BY a.id FOR UPDATE;
  FOR j IN SELECT o.id, d.account, d.name FROM dp_int.job o JOIN dp_int.dataset d ON d.id = o.dataset WHERE o.id = ANY (ended) ORDER BY o.seq LOOP
    PERFORM dp_int.finish_job(j.id, 'abandoned', 'DP004', format('it was under way when %s', p_when),
      format('The privacy budget is spent: %s may have released the result. Ask again, which is charged again.', p_other));
    PERFORM dp_int.ledger_budget(j.account, j.name, session_user, jsonb_build_object('abandon', j.id));
  END LOOP;
END $$;

-- Ends the jobs that a former primary may have finished, the first time that it is called after a promotion.
CREATE OR REPLACE FUNCTION dp_int.follow_promotion() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF dp_int.promoted() THEN
    PERFORM FROM dp_int.location FOR UPDATE;
    IF dp_int.promoted() THEN  -- no other session has done it in the meantime
      PERFORM dp_int.end_charged_jobs('a standby was promoted', 'the former primary');
      UPDATE dp_int.location SET timeline = dp_int.timeline();
    END IF;
  END IF;
END $$;

-- The job that a token still owns, its row locked. Raises 55000 when it is lost, also by the promotion of a
-- standby, and DP003 in a copy of the database, which a sidecar may reach in the middle of a job: the
-- original would release under the same charge too.
CREATE OR REPLACE FUNCTION dp_int.own_job(p_job uuid, p_token uuid) RETURNS dp_int.job
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  j dp_int.job;
BEGIN
  PERFORM dp_int.refuse_copy();
  SELECT * INTO j FROM dp_int.job WHERE id = p_job AND token = p_token FOR NO KEY UPDATE;  -- not FOR UPDATE, so that other jobs may begin to follow it
  IF NOT FOUND OR dp_int.promoted() THEN
    RAISE EXCEPTION 'job % is no longer this worker''s', p_job USING ERRCODE = '55000';
  END IF;
  RETURN j;
END $$;

-- Refunds the charge of a job, if there is one and nothing was read under it.
CREATE OR REPLACE FUNCTION dp_int.refund_job(j dp_int.job) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF j.state = 'charged' THEN
    PERFORM dp_int.ledger_refund(j.charge);
    UPDATE dp_int.job SET charge = NULL, row_count = NULL, plan = NULL, state = 'claimed' WHERE id = j.id;
  END IF;
END $$;

-- Is the job canceled, or the caller who waited for it gone?
CREATE OR REPLACE FUNCTION dp_int.unwanted(j dp_int.job) RETURNS boolean
LANGUAGE sql VOLATILE AS $$ SELECT j.cancel_requested OR j.waited AND NOT dp_int.awaited(j.id) $$;

-- Ends an unwanted job before anything was read, and gives its charge back.
CREATE OR REPLACE FUNCTION dp_int.drop_job(j dp_int.job) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM dp_int.refund_job(j);
  PERFORM dp_int.finish_job(j.id, 'canceled', 'DP004',
    CASE WHEN j.cancel_requested THEN 'canceled by its caller' ELSE 'its caller went away' END, 'No privacy budget was spent.');
END $$;

-- Completes a job with its release, and every identical job that waits for it (follows it), directly or
-- through others. A follower whose row another transaction has locked is left to job_claim, so that
-- nobody can delay a release, and so are those beyond a thousand. The job ends at p_at, or at its creation if that is later. A follower that
-- was asked for after the end of its window continues by itself if the release was read before that end,
-- as kept_release does not return such a release either.
CREATE OR REPLACE FUNCTION dp_int.complete_job(p_job uuid, p_release uuid, p_at timestamptz DEFAULT clock_timestamp()) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  follower dp_int.job;
BEGIN
  UPDATE dp_int.job
     SET state = 'done', release = p_release, sqlstate = NULL, message = NULL, hint = NULL,
         follows = NULL, worker = NULL, token = NULL, lease_until = NULL, finished_at = greatest(p_at, created_at)
   WHERE id = p_job;
  PERFORM pg_notify(dp_int.job_channel(p_job), 'done');
  FOR follower IN SELECT * FROM dp_int.job WHERE follows = p_job LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED LOOP
    IF (follower.created_at AT TIME ZONE 'UTC')::date >= upper(dp_int.ran_at_reading(p_release)) THEN
      UPDATE dp_int.job SET follows = NULL WHERE id = follower.id;
      PERFORM pg_notify('dp_jobs', 'queued');
    ELSE
      PERFORM dp_int.complete_job(follower.id, p_release, p_at);
    END IF;
  END LOOP;
END $$;

-- May the charge of a request be alone in every sum that it is held against? So where nothing is charged to the account,
-- with blocks to those that it reads. A limit of the caller adds up over all blocks: there a fit that is alone in its
-- blocks would cost more of the limit. Nor is it alone where normal noise of what is left of a limit's epsilon would not
-- be admitted after it: it would take more of the limit than it proves.
CREATE OR REPLACE FUNCTION dp_int.may_be_alone(p_dataset bigint, p_request jsonb, p_caller name) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  a dp_int.account;
  g CONSTANT dp_int.dataset_grant := dp_int.grant_of(p_dataset, p_caller);
  eps CONSTANT numeric := p_request ->> 'eps';
  asked numeric;   -- the part of delta for the conversion, of the request
  kept numeric;    -- of the account
  rho numeric;
  proven numeric;  -- the epsilon that is spent then
BEGIN
  SELECT n.* INTO STRICT a FROM dp_int.account n JOIN dp_int.dataset d ON d.account = n.id WHERE d.id = p_dataset;
  IF a.accounting <> 'zcdp' OR (p_request ->> 'delta')::numeric = 0 OR a.block_width IS NOT NULL AND g.epsilon IS NOT NULL
     OR EXISTS (SELECT FROM dp_int.sums_of(a, dp_int.blocks_read(p_dataset, p_request)) AS s WHERE s.rest > 0 OR s.spent_epsilon > 0) THEN
    RETURN false;
  END IF;
  asked := dp_int.conversion_delta((p_request ->> 'delta')::numeric);
  kept := dp_int.conversion_delta(a.delta);
  proven := eps;
  IF asked < kept THEN
    rho := dp_int.noise_rho(eps, asked, dp_int.zcdp_rho(eps, asked));
    proven := dp_int.least_epsilon(a, ROW(rho, 0, 1, rho)::dp_int.tally, 0);
  END IF;
  RETURN NOT EXISTS (SELECT FROM (SELECT a.epsilon, a.cap UNION ALL SELECT g.epsilon, g.cap
                                  UNION ALL SELECT o.epsilon, o.cap FROM dp_int.dataset o WHERE o.account = a.id AND o.unregistered_at IS NULL) AS l(epsilon, cap)
                      WHERE proven < l.epsilon AND (dp_int.noise_delta(greatest(0, l.cap - dp_int.zcdp_rho(l.epsilon - proven, kept)), eps)).delta <= asked);
END $$;

-- The public facts about a data set from which sidecars plan jobs and explanations. The scales are those
-- of the request: a job that was charged is tried again under its own. persons and rows are the
-- registered numbers, where those replace a count, for all blocks that the request reads.
CREATE OR REPLACE FUNCTION dp_int.facts(p_dataset bigint, p_request jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('id', d.id, 'name', d.name, 'schema', d.schema_name, 'relation', d.relation_name, 'scales', dp_int.request_scales(d.id, p_request),
                            'flags', ARRAY(SELECT c FROM unnest(d.target || d.features) AS c WHERE dp_int.is_boolean(d.relid, c)), 'unit', d.unit, 'max_rows', d.max_rows, 'persons', d.persons * w.blocks, 'rows', d.block_rows * w.blocks, 'row_count', d.row_count,
                            'block', d.block, 'block_type', d.block_type, 'accounting', a.accounting, 'order', a.renyi_order, 'placement', d.placement, 'distribution', d.distribution,
                            'servers', CASE WHEN d.distribution IS NOT NULL THEN dp_int.foreign_servers(d.relid) END, 'nodes', CASE WHEN d.distribution IS NOT NULL THEN dp_int.sharing_nodes(d.relid) END, 'citus', to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL)
    FROM dp_int.dataset d JOIN dp_int.account a ON a.id = d.account,
         LATERAL (SELECT coalesce(upper(b) - lower(b), 1) FROM dp_int.blocks_read(d.id, p_request) AS b) AS w(blocks)
   WHERE d.id = p_dataset
$$;

-- Locks the account of a data set, or returns false where it would have to wait.
CREATE OR REPLACE FUNCTION dp_int.lock_account(p_dataset bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM dp_int.account a JOIN dp_int.dataset d ON d.account = a.id WHERE d.id = p_dataset FOR UPDATE OF a NOWAIT;
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- The holder of the lock on an account, in words for messages, and what helps. The account's row names the
-- transaction that locks it, and pg_locks the session of that transaction; a prepared transaction has none.
-- A charge locks in a subtransaction, which pg_locks does not know any more once that is over: then it is
-- the only session that locks a row of accounts, or nobody knows.
CREATE OR REPLACE FUNCTION dp_int.held_by(p_dataset bigint, OUT holder text, OUT remedy text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  s record;
BEGIN
  WITH named AS (
    SELECT l.pid
      FROM dp_int.dataset d
      JOIN dp_int.account n ON n.id = d.account
      JOIN pg_catalog.pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = n.xmax
     WHERE d.id = p_dataset
     LIMIT 1),
  locking AS (
    SELECT DISTINCT l.pid
      FROM pg_catalog.pg_locks l
     WHERE l.locktype = 'relation' AND l.relation = 'dp_int.account'::regclass AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
       AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock') AND l.pid IS DISTINCT FROM pg_backend_pid())
  SELECT h.pid, a.usename, pg_has_role(r.oid, 'dp_sidecar', 'USAGE') AND NOT r.rolsuper AS sidecar INTO s
    FROM (SELECT pid FROM named UNION ALL SELECT min(pid) FROM locking WHERE NOT EXISTS (SELECT FROM named) HAVING count(*) = 1) AS h
    LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = h.pid
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid;
  holder := CASE WHEN NOT FOUND THEN 'an open transaction'
                 WHEN s.pid IS NULL THEN 'a prepared transaction, see pg_prepared_xacts'
                 WHEN s.sidecar THEN format('the charge of another job, in session %s of "%s"', s.pid, s.usename)
                 ELSE format('the open transaction of session %s, of "%s"', s.pid, s.usename) END;
  remedy := CASE WHEN s.sidecar THEN 'Jobs of these people are charged one after another: ask again.'
                 WHEN holder = 'an open transaction' THEN 'Ask again. If it lasts, somebody called dp_grant or the like without a COMMIT: see pg_locks, and end that session with pg_terminate_backend.'
                 ELSE 'Somebody called dp_grant or the like without a COMMIT: COMMIT or ROLLBACK there, or end that session with pg_terminate_backend, and ask again.' END;
END $$;

-- Callers with jobs that are queued, or suspended and due, in the order in which they are served: first
-- those with the fewest running jobs, among these first the one who was served longest ago. Both are
-- public facts, as is required, because everybody can observe the order. The recursion skips through the
-- index from caller to caller, so that the cost does not grow with the number of jobs.
CREATE OR REPLACE FUNCTION dp_int.callers_in_turn() RETURNS SETOF name
LANGUAGE sql VOLATILE AS $$
  WITH RECURSIVE waiting(caller) AS (
    (SELECT q.caller FROM dp_int.job q WHERE q.state = 'queued' ORDER BY q.caller LIMIT 1)
    UNION ALL
    SELECT (SELECT q.caller FROM dp_int.job q WHERE q.state = 'queued' AND q.caller > w.caller ORDER BY q.caller LIMIT 1)
      FROM waiting w WHERE w.caller IS NOT NULL)
  SELECT w.caller
    FROM (SELECT caller FROM waiting WHERE caller IS NOT NULL
          UNION SELECT p.caller FROM dp_int.job p WHERE p.lease_until IS NOT NULL AND p.lease_until < clock_timestamp() AND p.state = 'reading' AND p.sqlstate IS NOT NULL) AS w
   ORDER BY (SELECT count(*) FROM dp_int.job r WHERE r.lease_until IS NOT NULL AND r.token IS NOT NULL AND r.caller = w.caller),
            (SELECT s.served FROM dp_int.job s WHERE s.caller = w.caller AND s.served IS NOT NULL ORDER BY s.served DESC LIMIT 1) NULLS FIRST, w.caller
$$;

-- Jobs that have ended, or stopped at their last step, while others still follow them (wait for their
-- release).
CREATE OR REPLACE FUNCTION dp_int.idle_leaders() RETURNS TABLE(id uuid, ended boolean)
LANGUAGE sql VOLATILE AS $$
  WITH RECURSIVE leader(id) AS (
    (SELECT f.follows FROM dp_int.job f WHERE f.follows IS NOT NULL ORDER BY f.follows LIMIT 1)
    UNION ALL
    SELECT (SELECT f.follows FROM dp_int.job f WHERE f.follows > l.id ORDER BY f.follows LIMIT 1)
      FROM leader l WHERE l.id IS NOT NULL)
  SELECT j.id, j.finished_at IS NOT NULL FROM leader l JOIN dp_int.job j ON j.id = l.id
   WHERE j.finished_at IS NOT NULL OR j.state = 'reading' AND j.lease_until IS NULL
$$;

-- Makes jobs due again that stopped at their last step although others follow them: jobs that got a
-- follower while they stopped, or whose row was locked when one came.
CREATE OR REPLACE FUNCTION dp_int.wake_followed() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  leader uuid;
BEGIN
  FOR leader IN SELECT l.id FROM dp_int.idle_leaders() AS l WHERE NOT l.ended LOOP
    UPDATE dp_int.job SET leased_at = clock_timestamp(), lease_until = clock_timestamp()
     WHERE id = (SELECT j.id FROM dp_int.job j WHERE j.id = leader AND j.state = 'reading' AND j.lease_until IS NULL FOR NO KEY UPDATE SKIP LOCKED);
  END LOOP;
END $$;

-- The next job, its row locked, or NULL: one whose lease ran out; else a follower whose leader has ended
-- without a release; else a job of the caller whose turn it is, suspended jobs before queued ones, so
-- that asking again does not jump the queue of others.
CREATE OR REPLACE FUNCTION dp_int.next_job() RETURNS dp_int.job
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  j dp_int.job;
  whose name;
  leader uuid;
BEGIN
  SELECT q.* INTO j
    FROM dp_int.job q
   WHERE q.state IN ('claimed', 'charged', 'reading') AND q.lease_until < clock_timestamp() AND q.sqlstate IS NULL
   ORDER BY q.seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
  IF FOUND THEN RETURN j; END IF;
  FOR leader IN SELECT l.id FROM dp_int.idle_leaders() AS l WHERE l.ended LOOP
    SELECT q.* INTO j FROM dp_int.job q WHERE q.follows = leader AND q.state = 'queued' ORDER BY q.seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN RETURN j; END IF;
  END LOOP;
  FOR whose IN SELECT dp_int.callers_in_turn() LOOP
    SELECT q.* INTO j
      FROM dp_int.job q
     WHERE q.lease_until IS NOT NULL AND q.lease_until < clock_timestamp() AND q.state = 'reading' AND q.sqlstate IS NOT NULL AND q.caller = whose
     ORDER BY q.seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN RETURN j; END IF;
    SELECT q.* INTO j
      FROM dp_int.job q
     WHERE q.state = 'queued' AND q.caller = whose AND q.follows IS NULL AND coalesce(q.lease_until < clock_timestamp(), true)
     ORDER BY q.follows, q.seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;  -- the order of the index
    IF FOUND THEN RETURN j; END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Leases and pauses end by the server's clock. Where that was set back each restarts, so that none
-- becomes longer than its full length.
CREATE OR REPLACE FUNCTION dp_int.shorten_leases() RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE dp_int.job
     SET lease_until = clock_timestamp() + (lease_until - leased_at), leased_at = clock_timestamp()
   WHERE id IN (SELECT id FROM dp_int.job WHERE lease_until IS NOT NULL AND leased_at > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED)
$$;

-- Does somebody else's work answer j? Of identical requests one runs and the others follow it; also a fresh one is followed,
-- once it reads. Else j is completed with a kept release, if there is one. The caller has locked the turnstile of the data
-- set. A running job may publish at any moment, so the search for one comes before the search for a kept release: otherwise
-- the release could appear between the two. If the job ends without a release after j has begun to follow it, next_job
-- returns j again.
CREATE OR REPLACE FUNCTION dp_int.follow_or_complete(j dp_int.job) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  leader uuid;
  kept uuid;
BEGIN
  SELECT id INTO leader
    FROM dp_int.job
   WHERE dataset = j.dataset AND request_hash = j.request_hash AND state IN ('claimed', 'charged', 'reading') AND NOT fresh AND id <> j.id
   LIMIT 1;
  IF NOT FOUND THEN
    SELECT id INTO leader FROM dp_int.job WHERE dataset = j.dataset AND request_hash = j.request_hash AND state = 'reading' AND fresh LIMIT 1;
  END IF;
  IF FOUND THEN
    UPDATE dp_int.job SET state = 'queued', follows = leader, worker = NULL, token = NULL, lease_until = NULL WHERE id = j.id;
    -- A parked or stopped leader is tried again at once, because somebody asks for it.
    UPDATE dp_int.job SET leased_at = clock_timestamp(), lease_until = clock_timestamp()
     WHERE id = (SELECT id FROM dp_int.job WHERE id = leader AND state = 'reading' AND sqlstate IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED);
    RETURN true;
  END IF;
  kept := dp_int.kept_release(j.dataset, j.request_hash);
  IF kept IS NOT NULL THEN
    PERFORM dp_int.complete_job(j.id, kept);
  END IF;
  RETURN kept IS NOT NULL;
END $$;

-- Claims the next job, or returns NULL. Callers are served in turn, and each caller's jobs in the order
-- in which they were asked for. A job whose lease ran out is claimed again. Before reading its charge is
-- refunded; once reading has begun it is tried again under the same charge with the same number of rows,
-- but parked after the fourth sidecar that ended while it worked on it. Jobs that need no worker
-- (canceled, or answered by a kept release) are ended on the way, at most a hundred per call, so that
-- their ends are soon committed.
--
-- p_build: the schema version and the fingerprint of functions with which the sidecar works; NULL: any. One
-- of another build gets no job, in the very transaction that would give it one: it would leave out what it
-- does not know of a request, such as a window or a unit, between an upgrade and its next heartbeat.
CREATE OR REPLACE FUNCTION dp_int.job_claim(p_worker uuid, p_lease interval, p_build text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  j dp_int.job;
  leader dp_int.job;
  passed bigint;  -- the data set whose turnstile row this claim has locked
BEGIN
  IF dp_int.is_copy() THEN
    RETURN NULL;  -- the original and the copy would both release under one charge
  ELSIF p_build <> (SELECT concat_ws(' ', dp_int.schema_version(), c.fingerprint) FROM dp_int.installed_code c) THEN
    RETURN NULL;
  END IF;
  PERFORM dp_int.follow_promotion();
  PERFORM dp_int.shorten_leases();
  PERFORM dp_int.wake_followed();
  FOR settled IN 1..100 LOOP
    j := dp_int.next_job();
    IF j.id IS NULL THEN
      RETURN NULL;
    END IF;
    IF j.state = 'reading' AND j.token IS NOT NULL AND j.attempt >= 4 THEN
      PERFORM dp_int.job_park(j.id, j.token, 'the job is not finished: the sidecars that worked on it ended before they could finish it');
      CONTINUE;
    END IF;
    IF j.state = 'charged' AND NOT dp_int.lock_account(j.dataset) THEN  -- its charge cannot be refunded while the account is locked
      UPDATE dp_int.job SET token = NULL, leased_at = clock_timestamp(), lease_until = clock_timestamp() + interval '1 s' WHERE id = j.id;
      CONTINUE;
    END IF;
    IF j.state <> 'reading' THEN
      IF dp_int.unwanted(j) THEN
        PERFORM dp_int.drop_job(j);
        CONTINUE;
      END IF;
      PERFORM dp_int.refund_job(j);
      IF j.attempt >= 5 THEN
        PERFORM dp_int.finish_job(j.id, 'failed', 'DP004', coalesce(j.message, 'five attempts ended before they could read'),
          coalesce(j.hint, 'See the sidecars'' logs. No privacy budget was spent.'));
        CONTINUE;
      END IF;
      SELECT * INTO leader FROM dp_int.job WHERE id = j.follows;
      IF leader.state = 'abandoned' THEN
        PERFORM dp_int.finish_job(j.id, 'failed', leader.sqlstate, leader.message, 'No privacy budget was spent.');
        CONTINUE;
      END IF;
      IF j.fresh AND dp_int.resume_stopped(j) THEN
        CONTINUE;
      END IF;
      IF NOT j.fresh THEN
        EXIT WHEN passed <> j.dataset;  -- at most one turnstile per claim: two claims that take two could wait for each other
        passed := j.dataset;
        PERFORM FROM dp_int.turnstile WHERE dataset = j.dataset FOR UPDATE;
        IF dp_int.follow_or_complete(j) THEN
          CONTINUE;
        END IF;
      END IF;
      IF j.follows IS NOT NULL THEN  -- from now on it is no follower, and waits for its caller's turn
        UPDATE dp_int.job SET follows = NULL WHERE id = j.id;
        CONTINUE;
      END IF;
    END IF;
    UPDATE dp_int.job
       SET state = CASE state WHEN 'reading' THEN state ELSE 'claimed' END, attempt = attempt + 1, worker = p_worker, token = gen_random_uuid(),
           served = nextval('dp_int.job_served_seq'), leased_at = clock_timestamp(), lease_until = clock_timestamp() + p_lease, sqlstate = NULL, message = NULL, hint = NULL
     WHERE id = j.id
    RETURNING * INTO j;
    RETURN jsonb_build_object(
      'id', j.id, 'token', j.token, 'state', j.state, 'attempt', j.attempt, 'model', j.model, 'request', j.request,
      'scored', dp_int.scored(j.request), 'dataset', dp_int.facts(j.dataset, j.request), 'alone', dp_int.may_be_alone(j.dataset, j.request, dp_int.role_of(j.principal)), 'row_count', j.row_count, 'event', (SELECT event FROM dp_int.ledger WHERE id = j.charge));
  END LOOP;
  PERFORM pg_notify('dp_jobs', 'queued');
  RETURN NULL;
END $$;

-- Renews the lease. Returns false once the job has ended or nobody wants it: the worker stops. NULL once another worker has it.
CREATE OR REPLACE FUNCTION dp_int.job_beat(p_job uuid, p_token uuid, p_lease interval) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job;
BEGIN
  UPDATE dp_int.job SET leased_at = clock_timestamp(), lease_until = clock_timestamp() + p_lease WHERE id = p_job AND token = p_token RETURNING * INTO j;
  IF NOT FOUND AND EXISTS (SELECT FROM dp_int.job WHERE id = p_job AND finished_at IS NULL) THEN
    RETURN NULL;
  END IF;
  RETURN FOUND AND (j.state = 'reading' OR NOT dp_int.unwanted(j));
END $$;

-- Raises DP004 where the relation that the worker has locked differs from its registration, and 55000
-- when another worker has the job. It does not lock the job's row: that writes to disk, and would take
-- from the time until the first step. Returns dp_int.function_versions where the relation was stated to be
-- total, else NULL: other relations call no functions.
CREATE OR REPLACE FUNCTION dp_int.job_recheck(p_job uuid, p_token uuid) RETURNS bytea
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job;
BEGIN
  SELECT * INTO j FROM dp_int.job WHERE id = p_job AND token = p_token;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'job % is no longer this worker''s', p_job USING ERRCODE = '55000';
  END IF;
  RETURN dp_int.dataset_recheck(j.dataset);
END $$;

-- The same check for a data set whose rows are only counted.
CREATE OR REPLACE FUNCTION dp_int.dataset_recheck(p_dataset bigint) RETURNS bytea
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.recheck_dataset(p_dataset);
  RETURN (SELECT dp_int.function_versions(d.relid) FROM dp_int.dataset d WHERE d.id = p_dataset AND (d.options ->> 'total')::boolean);
END $$;

-- Refuses to charge a request under scales or categories that a steward has changed since it was made. A
-- score has those of its release, and passes. Called under the lock of the account, which dp_set_scales and
-- dp_set_categories take too.
CREATE OR REPLACE FUNCTION dp_int.refuse_outdated_request(j dp_int.job) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  d dp_int.dataset;
  grouped CONSTANT text := j.request #>> '{options,by}';
  columns CONSTANT name[] := array_remove(ARRAY[(j.request ->> 'target')::name, grouped::name] || ARRAY(SELECT f::name FROM jsonb_array_elements_text(j.request -> 'features') AS f), NULL);
  changed text;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = j.dataset;
  IF j.request -> 'scales' <> dp_int.scales_of(d.scales, j.request) THEN
    changed := 'scales';
  ELSIF j.model <> 'score' AND j.request -> 'categories' IS DISTINCT FROM
        dp_int.levels_of_request(dp_int.with_levels_of(d, grouped), columns, coalesce(j.request -> 'where_level', '{}')) -> 'categories' THEN
    changed := 'categories';
  END IF;
  IF changed IS NOT NULL THEN
    RAISE EXCEPTION 'the % of data set "%" were changed after this was asked', changed, d.name
      USING ERRCODE = 'DP004', HINT = format('Ask again: the request is then made under the %s that dp.datasets shows now. No privacy budget was spent.', changed);
  END IF;
END $$;

-- claimed -> charged. The worker holds a snapshot and locks on the relation, so that the relation checked
-- here is the one it will read. Returns false when the job was unwanted and has been ended. Raises,
-- without a charge, DP002, DP004, DP005 or 42501; 40001 when the account has another accounting or order
-- than the plan was made for; and 55P03 when the account is locked, whereupon the job is handed back for
-- a while.
CREATE OR REPLACE FUNCTION dp_int.job_charge(p_job uuid, p_token uuid, p_row_count bigint, p_event jsonb,
                                  p_epsilon numeric, p_rho numeric, p_delta numeric, p_plan jsonb,
                                  p_renyi numeric[] DEFAULT NULL, p_renyi_grid int DEFAULT NULL, p_arithmetic text DEFAULT 'exact',
                                  p_accounting text DEFAULT NULL, p_order numeric DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
  a dp_int.account;
  e dp_int.ledger;
  charge_id bigint;
  held record;  -- who holds the account
  lock_timeout CONSTANT text := current_setting('lock_timeout');
BEGIN
  IF j.state <> 'claimed' THEN
    RAISE EXCEPTION 'job % is %, not claimed', p_job, j.state USING ERRCODE = '55000';
  END IF;
  IF dp_int.unwanted(j) THEN
    PERFORM dp_int.drop_job(j);
    RETURN false;
  END IF;
  PERFORM dp_int.recheck_dataset(j.dataset);
  e.job := j.id;
  e.event := p_event;
  e.epsilon := p_epsilon;
  e.rho := p_rho;
  e.renyi := p_renyi;
  e.renyi_grid := p_renyi_grid;
  e.delta := p_delta;
  e.arithmetic := p_arithmetic;
  BEGIN
    PERFORM set_config('lock_timeout', CASE WHEN j.attempt > 1 THEN '500ms' ELSE '3s' END, true);
    charge_id := dp_int.ledger_charge(j.dataset, e);
    PERFORM set_config('lock_timeout', lock_timeout, true);
  EXCEPTION WHEN lock_not_available THEN
    SELECT * INTO held FROM dp_int.held_by(j.dataset);
    RAISE EXCEPTION 'the account of data set "%" is held by %', (SELECT name FROM dp_int.dataset WHERE id = j.dataset), held.holder
      USING ERRCODE = '55P03', HINT = held.remedy || ' No privacy budget was spent.';
  END;
  SELECT n.* INTO STRICT a FROM dp_int.account n JOIN dp_int.dataset d ON d.account = n.id WHERE d.id = j.dataset;  -- ledger_charge has locked it
  IF p_accounting IS NOT NULL AND (p_accounting, p_order) IS DISTINCT FROM (a.accounting, a.renyi_order) THEN
    RAISE EXCEPTION 'the accounting of job % has changed since it was claimed', p_job USING ERRCODE = '40001';
  END IF;
  PERFORM dp_int.refuse_outdated_request(j);
  UPDATE dp_int.job SET state = 'charged', charge = charge_id, row_count = p_row_count, plan = p_plan WHERE id = p_job;
  RETURN true;
END $$;

-- The ledger entry of a job's charge, which was the newest of its account when it was appended. The
-- sidecar writes it to its log, outside of the database.
CREATE OR REPLACE FUNCTION dp_int.job_head(p_job uuid) RETURNS TABLE(account bigint, entry bigint, head text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT l.account, l.seq, encode(l.hash, 'hex') FROM dp_int.job j JOIN dp_int.ledger l ON l.id = j.charge WHERE j.id = p_job;
END $$;

-- charged -> reading, committed before the COPY is sent: the point of no return. A retry passes here
-- again under its old charge. Returns false when the job was unwanted: its charge has been refunded.
--
-- From now on effects that depend on values may become visible at public times alone: at step k of a
-- ladder, k from 0 to p_last_step, which is p_first_step * growth^k from now (dp_int.ladder). p_snapshot: the time of the
-- snapshot in which this attempt sees the rows.
CREATE OR REPLACE FUNCTION dp_int.job_read(p_job uuid, p_token uuid, p_first_step interval DEFAULT '0', p_last_step int DEFAULT 0, p_snapshot timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
BEGIN
  IF j.state = 'reading' THEN
    PERFORM dp_int.recheck_dataset(j.dataset);
    UPDATE dp_int.job SET read_at = clock_timestamp(), snapshot_at = p_snapshot, first_step = p_first_step, last_step = p_last_step WHERE id = p_job;
    RETURN true;
  END IF;
  IF j.state <> 'charged' THEN
    RAISE EXCEPTION 'job % is %, not charged', p_job, j.state USING ERRCODE = '55000';
  END IF;
  IF dp_int.unwanted(j) THEN
    PERFORM dp_int.drop_job(j);
    RETURN false;
  END IF;
  UPDATE dp_int.job SET state = 'reading', read_at = clock_timestamp(), snapshot_at = p_snapshot, first_step = p_first_step, last_step = p_last_step WHERE id = p_job;
  RETURN true;
END $$;

-- The time of step k of the ladder of a job that is reading.
CREATE OR REPLACE FUNCTION dp_int.step(j dp_int.job, k int) RETURNS timestamptz
LANGUAGE sql STABLE AS $$ SELECT j.read_at + j.first_step * power(l.growth, k) FROM dp_int.ladder l $$;

-- A JSON array of numbers, NULL for anything else.
CREATE OR REPLACE FUNCTION dp_int.numbers(p jsonb) RETURNS float8[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(p) = 'array' THEN ARRAY(SELECT v::float8 FROM jsonb_array_elements_text(p) WITH ORDINALITY AS e(v, o) ORDER BY o) END
$$;

-- Records the release of a job that is reading, with the time of the step of its ladder, not the time of
-- this call.
CREATE OR REPLACE FUNCTION dp_int.insert_release(j dp_int.job, p_method text, p_step int, p_why_null text, p_cut boolean DEFAULT false, p_huber_delta float8 DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  new_release uuid;
BEGIN
  IF j.state <> 'reading' OR (p_step BETWEEN 0 AND j.last_step) IS NOT TRUE THEN
    RAISE EXCEPTION 'job % is %, not reading, or step % of its ladder is beyond %', j.id, j.state, p_step, j.last_step USING ERRCODE = '55000';
  END IF;
  INSERT INTO dp_int.release (job, charge, dataset, request_hash, model, method, eps, delta, principal, caller, parameters, released_at, why_null, read_at, rows, cut, huber_delta)
  VALUES (j.id, j.charge, j.dataset, j.request_hash, j.model, p_method, j.eps, j.delta, j.principal, j.caller, j.plan, dp_int.step(j, p_step), p_why_null, j.snapshot_at, j.row_count, p_cut, p_huber_delta)
  RETURNING id INTO new_release;
  RETURN new_release;
END $$;

-- reading -> done: release, coefficients and the job's end in one transaction. In a fit by groups
-- p_groups and p_shares hold the group of every coefficient and the fraction of rows in it.
CREATE OR REPLACE FUNCTION dp_int.job_publish(p_job uuid, p_token uuid, p_method text, p_terms text[], p_coefs float8[], p_bands float8[] DEFAULT NULL,
                                   p_step int DEFAULT 0, p_errors jsonb DEFAULT NULL, p_groups text[] DEFAULT NULL, p_shares float8[] DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
  new_release uuid := dp_int.insert_release(j, p_method, p_step, p_errors ->> 'why_null', coalesce((p_errors ->> 'cut')::boolean, false), (p_errors ->> 'huber_delta')::float8);
BEGIN
  IF cardinality(p_terms) <> cardinality(p_coefs) THEN
    RAISE EXCEPTION 'job % has % coefficients for % terms', p_job, cardinality(p_coefs), cardinality(p_terms) USING ERRCODE = '55000';
  END IF;
  INSERT INTO dp_int.coefficient (release, position, term, coef, band, std_err, df, ci_low, ci_high, p_value, covariance, bias, noise, grp, share, why_null)
  SELECT new_release, c.position, c.term, c.coef, c.band, c.std_err, c.df, c.low, c.high, c.p_value,
         dp_int.numbers(p_errors -> 'covariance' -> c.position::int - 1), dp_int.numbers(p_errors -> 'bias' -> c.position::int - 1), c.noise,
         coalesce(c.grp, ''), c.share, p_errors -> 'why_nulls' ->> c.position::int - 1
    FROM unnest(p_terms, p_coefs, p_bands, dp_int.numbers(p_errors -> 'std_err'), dp_int.numbers(p_errors -> 'df'), dp_int.numbers(p_errors -> 'low'),
                dp_int.numbers(p_errors -> 'high'), dp_int.numbers(p_errors -> 'p_value'), dp_int.numbers(p_errors -> 'noise'), p_groups, p_shares)
           WITH ORDINALITY AS c(term, coef, band, std_err, df, low, high, p_value, noise, grp, share, position);
  PERFORM dp_int.complete_job(j.id, new_release, dp_int.step(j, p_step));
  RETURN new_release;
END $$;

-- Ends a job for which nothing was read; a charge is refunded. A job that nobody wants any more is
-- canceled, even if its worker met an error, because its caller was told so.
CREATE OR REPLACE FUNCTION dp_int.job_fail(p_job uuid, p_token uuid, p_sqlstate text, p_message text, p_hint text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
BEGIN
  IF j.state NOT IN ('claimed', 'charged') THEN
    RAISE EXCEPTION 'job % is %, and can no longer fail', p_job, j.state USING ERRCODE = '55000';
  END IF;
  IF dp_int.unwanted(j) THEN
    PERFORM dp_int.drop_job(j);
    RETURN;
  END IF;
  PERFORM dp_int.refund_job(j);
  PERFORM dp_int.finish_job(j.id, 'failed', p_sqlstate, p_message, p_hint);
END $$;

-- Hands back a job that its worker could not end. Before reading, its charge is refunded and the job is
-- queued again, five attempts at most: at once, or after a pause if there is a reason that may last,
-- which its status then shows. A job that nobody wants any more ends here. Once reading has begun another
-- worker tries it: at once if this one shuts down (p_leaving), else after a pause; after the fourth
-- attempt the job is parked.
CREATE OR REPLACE FUNCTION dp_int.job_hand_back(p_job uuid, p_token uuid, p_leaving boolean, p_reason text DEFAULT NULL, p_hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
BEGIN
  IF j.state = 'reading' AND j.attempt >= 4 AND NOT p_leaving THEN
    PERFORM dp_int.job_park(p_job, p_token, 'the job is not finished: the sidecars that worked on it could not finish it so far');
  ELSIF j.state = 'reading' THEN
    UPDATE dp_int.job
       SET token = NULL, leased_at = clock_timestamp(), lease_until = clock_timestamp() + CASE WHEN p_leaving THEN interval '0' ELSE dp_int.pause(j.attempt) END
     WHERE id = j.id;
  ELSIF dp_int.unwanted(j) THEN
    PERFORM dp_int.drop_job(j);
  ELSE
    PERFORM dp_int.refund_job(j);
    UPDATE dp_int.job
       SET state = 'queued', attempt = attempt - p_leaving::int, worker = NULL, token = NULL, message = p_reason, hint = p_hint, leased_at = clock_timestamp(),
           lease_until = CASE WHEN p_reason IS NOT NULL AND j.attempt < 5 THEN clock_timestamp() + dp_int.pause(j.attempt) END
     WHERE id = j.id;
  END IF;
  PERFORM pg_notify('dp_jobs', 'queued');
END $$;

-- The pause after p_attempt attempts: 1 s after the first, doubled after each further one, 5 minutes at
-- most.
CREATE OR REPLACE FUNCTION dp_int.pause(p_attempt int) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT least(interval '5 min', interval '0.5 s' * 2 ^ least(p_attempt, 12)) $$;

-- Parks a job that is charged and may have read values, but could not be read or fitted this time. It
-- keeps its charge, pauses, and is tried again by itself; its callers get an error that says so, in words
-- that do not depend on the data.
CREATE OR REPLACE FUNCTION dp_int.job_park(p_job uuid, p_token uuid, p_message text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
BEGIN
  PERFORM dp_int.suspend_job(j, p_message, format('The privacy budget is spent, once: the job is tried again by itself, and the same request%s returns its result at no further cost. If it cannot end, a steward ends it for good with dp_abandon.',
    CASE WHEN j.fresh THEN ' without fresh' END), clock_timestamp() + dp_int.pause(j.attempt));
END $$;

-- Stops a job that has no release at the last step of its ladder. It keeps its charge, and is tried again
-- under it only when the same is asked again: if it restarted by itself it might occupy a worker for
-- ever.
CREATE OR REPLACE FUNCTION dp_int.job_stop(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET IntervalStyle = 'postgres' AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
BEGIN
  PERFORM dp_int.suspend_job(j, format('the job did not end within its time, %s', date_trunc('milliseconds', dp_int.step(j, j.last_step) - j.read_at)),
    'The privacy budget is spent, once: the same request tries again at no further cost. Larger scales or residual_scale, fewer features or another method take less time, and are another request. A steward ends the job for good with dp_abandon.', NULL);
END $$;

-- Suspends a job that is reading until p_until, or where that is NULL until the same is asked again. Jobs
-- that follow it fail with the same message; a caller who asks again follows it again. Of one that is tried again by itself
-- a thousand fail at a time: more could take longer than the statement may.
CREATE OR REPLACE FUNCTION dp_int.suspend_job(j dp_int.job, p_message text, p_hint text, p_until timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  follower uuid;
BEGIN
  IF j.state <> 'reading' THEN
    RAISE EXCEPTION 'job % is %, not reading', j.id, j.state USING ERRCODE = '55000';
  END IF;
  UPDATE dp_int.job SET token = NULL, sqlstate = 'DP004', message = p_message, hint = p_hint, leased_at = clock_timestamp(), lease_until = p_until WHERE id = j.id;
  PERFORM pg_notify(dp_int.job_channel(j.id), 'parked');
  FOR follower IN SELECT id FROM dp_int.job WHERE follows = j.id LIMIT CASE WHEN p_until IS NOT NULL THEN 1000 END FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM dp_int.finish_job(follower, 'failed', 'DP004', p_message, p_hint);
  END LOOP;
END $$;

-- Is there an identical fresh job that was stopped at its last step? Then j follows it, and it is tried
-- again under its charge. job_claim finds the leaders of jobs that are not fresh.
CREATE OR REPLACE FUNCTION dp_int.resume_stopped(j dp_int.job) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  stopped uuid;
BEGIN
  SELECT id INTO stopped
    FROM dp_int.job
   WHERE dataset = j.dataset AND request_hash = j.request_hash AND state = 'reading' AND fresh AND lease_until IS NULL
   ORDER BY seq
     FOR NO KEY UPDATE SKIP LOCKED
   LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE dp_int.job SET state = 'queued', follows = stopped, worker = NULL, token = NULL, lease_until = NULL WHERE id = j.id;
  UPDATE dp_int.job SET leased_at = clock_timestamp(), lease_until = clock_timestamp() WHERE id = stopped;
  RETURN true;
END $$;

-- Data sets whose rows, or persons where there is a unit, are to be counted. The number is public, and is
-- counted at registration and by every job unless it was registered. With blocks every window has a
-- number of its own.
CREATE OR REPLACE FUNCTION dp_int.uncounted() RETURNS TABLE(dataset bigint, schema_name name, relation_name name, unit name)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT id, schema_name, relation_name, unit FROM dp_int.dataset WHERE row_count IS NULL AND unregistered_at IS NULL AND block IS NULL
$$;

-- Publishes the number of rows or persons of a data set. A job has passed the point of no return when it does so, and
-- does not wait (p_wait): where a steward's open transaction holds the data set, a later job publishes its number.
CREATE OR REPLACE FUNCTION dp_int.counted(p_dataset bigint, p_row_count bigint, p_wait boolean) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT FROM dp_int.dataset WHERE id = p_dataset AND p_wait FOR NO KEY UPDATE;
  UPDATE dp_int.dataset SET row_count = p_row_count
   WHERE id = (SELECT id FROM dp_int.dataset WHERE id = p_dataset AND persons IS NULL AND block IS NULL AND row_count IS DISTINCT FROM p_row_count FOR NO KEY UPDATE SKIP LOCKED);
$$;
GRANT EXECUTE ON FUNCTION dp_int.worker_beat, dp_int.worker_bye, dp_int.job_claim, dp_int.job_beat, dp_int.job_recheck, dp_int.dataset_recheck, dp_int.job_charge, dp_int.job_head, dp_int.job_read,
  dp_int.job_publish, dp_int.job_fail, dp_int.job_hand_back, dp_int.job_park, dp_int.job_stop, dp_int.uncounted, dp_int.counted TO dp_sidecar;
