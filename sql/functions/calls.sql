-- The functions that analysts call. A synchronous call first looks for the kept release in its own
-- snapshot; only a new request goes through the loopback, a connection of this server to itself that
-- commits on its own.

-- The fraction of the server's connections that is in use.
CREATE OR REPLACE FUNCTION dp_int.connections_used() RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  RETURN (SELECT sum(pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database d)
       / (current_setting('max_connections')::float8 - current_setting('superuser_reserved_connections')::float8
          - coalesce(current_setting('reserved_connections', true), '0')::float8);
END $$;

-- Connects. While the server has no free connection it tries again for 30 s, because calls that end free
-- theirs; more often the longer it has waited, so that newcomers are not served first. The server's error is
-- recognised by its English text, or in other languages by the fraction of connections in use.
CREATE OR REPLACE FUNCTION dp_int.loopback_connect(p_connection text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  nap float8;
  waited float8 := 0;  -- in naps
  detail text;
BEGIN
  LOOP
    BEGIN
      PERFORM dp_dblink.dblink_connect(p_connection, 'dp_loop');
      RETURN;
    EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
      GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
      IF detail !~ 'too many|connection slots' AND dp_int.connections_used() < 0.9 THEN
        RAISE;
      ELSIF waited > 30 THEN
        RAISE EXCEPTION 'too many clients: the server has had no connection to spare for 30 s'
          USING ERRCODE = '53300', HINT = 'A call that waits for its answer needs two connections. Ask again, or let the administrator raise max_connections or put a pooler before it; dp_submit and CALL dp_run need one. No privacy budget was spent.';
      END IF;
    END;
    nap := (0.5 + random()) * 0.4 / (1 + waited / 10);
    PERFORM pg_sleep(nap);
    waited := waited + nap;
  END LOOP;
END $$;

-- Closes a loopback connection, unless it is the session's own and at most half of the server's
-- connections are in use: then it is kept, so that the next call need not open another.
CREATE OR REPLACE FUNCTION dp_int.loopback_release(p_connection text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p_connection <> 'dp_loop' OR dp_int.connections_used() > 0.5 THEN
    PERFORM dp_dblink.dblink_disconnect(p_connection);
  END IF;
END $$;

-- May a role, or one that it can become by SET ROLE, call dblink?
CREATE OR REPLACE FUNCTION dp_int.reaches_dblink(p_role oid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM pg_catalog.pg_roles r
      JOIN pg_catalog.pg_extension e ON e.extname = 'dblink' AND has_schema_privilege(r.oid, e.extnamespace, 'USAGE')
      JOIN pg_catalog.pg_proc p ON p.pronamespace = e.extnamespace AND p.proname ~ '^dblink' AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
     WHERE pg_has_role(p_role, r.oid, 'MEMBER'));
END $$;

-- Opens the loopback and listens on a channel. A connection is kept for some seconds
-- when the caller cannot reach dblink to drive it himself.
CREATE OR REPLACE FUNCTION dp_int.loopback_open(p_channel text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  cached CONSTANT text := 'dp_loop';
  listen CONSTANT text := format('SET idle_session_timeout = ''20s''; UNLISTEN *; LISTEN %I', p_channel);
  cache boolean;
  connection text;
BEGIN
  cache := NOT dp_int.reaches_dblink((SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user));
  connection := CASE WHEN cache THEN cached ELSE 'dp_' || gen_random_uuid() END;
  IF cache AND cached = ANY (coalesce(dp_dblink.dblink_get_connections(), '{}')) THEN
    BEGIN
      PERFORM dp_dblink.dblink_exec(connection, listen);
      RETURN connection;
    EXCEPTION WHEN OTHERS THEN  -- the connection timed out, or the server was restarted
      PERFORM dp_dblink.dblink_disconnect(connection);
    END;
  END IF;
  PERFORM dp_int.loopback_connect(connection);
  PERFORM dp_dblink.dblink_exec(connection, listen);
  RETURN connection;
EXCEPTION
  WHEN sqlclient_unable_to_establish_sqlconnection OR undefined_function OR invalid_schema_name OR undefined_object OR insufficient_privilege
    OR undefined_table OR SQLSTATE '2F003' THEN  -- 2F003: the server asked for no password
    RAISE EXCEPTION 'the loopback connection of dpsidecar failed: %', SQLERRM
      USING ERRCODE = 'DP003', HINT = 'Run SELECT * FROM dp_check_install(), or use dp_submit or CALL dp_run, which need no loopback. No privacy budget was spent.';
END $$;

-- The part of a notice that tells the time left.
CREATE OR REPLACE FUNCTION dp.time_left(expected_at timestamptz) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE WHEN expected_at > clock_timestamp() + interval '100 s' THEN format(', about %s min left', round(extract(epoch FROM expected_at - clock_timestamp()) / 60))
            WHEN expected_at > clock_timestamp() + interval '2 s' THEN format(', about %s s left', round(extract(epoch FROM expected_at - clock_timestamp())))
            ELSE '' END;
COMMENT ON FUNCTION dp.time_left IS 'How notices say when a job may be done; nothing where that is not known, or soon.';

-- The outcome of dp_cancel as a sentence.
CREATE OR REPLACE FUNCTION dp.what_became(fate text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN fate LIKE 'too late: %' THEN upper(substr(fate, 11, 1)) || substr(fate, 12)
            WHEN fate LIKE 'it %' THEN 'The job ' || substr(fate, 4)
            WHEN fate LIKE 'a %' THEN 'A' || substr(fate, 2)
            WHEN fate LIKE 'will %' OR fate LIKE 'failed %' THEN 'The job ' || fate
            WHEN fate LIKE 'unknown: %' THEN 'What became of the job is ' || fate
            ELSE 'The job was ' || fate END || '.';
COMMENT ON FUNCTION dp.what_became IS 'How hints say what became of a job whose caller went away.';

-- Waits for a job over its loopback connection; returns its release. A caller who waits for more than a
-- second is told each new stage, and once that the expected time is over. The latter happens at a step of
-- the ladder, which is fixed before the data are read.
CREATE OR REPLACE FUNCTION dp_int.loopback_wait(p_connection text, p_caller name, p_job uuid) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ask CONSTANT text := format('SELECT * FROM dp_int.watch(%L, %L)', p_caller, p_job);
  begun CONSTANT timestamptz := clock_timestamp();
  s record;
  told text;
  expected timestamptz;
  late boolean := false;
  lost_since timestamptz;
  nap float8;
  waited float8;
BEGIN
  LOOP
    SELECT * INTO s FROM dp_dblink.dblink(p_connection, ask)
      AS t(state text, alive boolean, release uuid, sqlstate text, message text, hint text, stage text, expected_at timestamptz);
    expected := coalesce(expected, s.expected_at);
    IF NOT late AND s.expected_at > expected + interval '5 s' THEN
      late := true;
      told := NULL;
    END IF;
    IF s.stage IS DISTINCT FROM told AND clock_timestamp() > begun + interval '0.9 s' THEN
      told := s.stage;
      RAISE NOTICE 'dpsidecar: %', concat(told, CASE WHEN late AND s.expected_at IS NOT NULL THEN ', longer than expected' END, dp.time_left(s.expected_at));
    END IF;
    IF s.state = 'done' THEN
      RETURN s.release;
    ELSIF s.sqlstate IS NOT NULL THEN
      RAISE EXCEPTION '%', s.message USING ERRCODE = s.sqlstate, HINT = s.hint;
    ELSIF s.alive THEN
      lost_since := NULL;
    ELSE
      lost_since := coalesce(lost_since, clock_timestamp());
      IF clock_timestamp() > lost_since + interval '10 s' THEN
        RAISE EXCEPTION 'dpsidecar went away while the job was %', s.state
          USING ERRCODE = 'DP001';  -- call_sidecar adds the fate of the job
      END IF;
    END IF;
    waited := 0;  -- measured by naps, not by the clock, which may be set
    LOOP
      EXIT WHEN waited > 1 OR EXISTS (SELECT FROM dp_dblink.dblink_get_notify(p_connection));
      nap := greatest(0.0005, least(waited / 25, 0.02));  -- the delay is at most a twenty-fifth of the wait
      PERFORM pg_sleep(nap);
      waited := waited + nap;
    END LOOP;
  END LOOP;
END $$;

-- Executes a request that has no kept release: enqueue, wait, fetch. p_enqueue is the loopback's
-- statement that queues the job or returns a release; p_fetch is the format of the statement that fetches
-- a release, with %L for the caller and %L for the release, and returns a label and numbers per row. An
-- end without a hint of its own (a cancel, a lost loopback) cancels the job if nothing is spent yet, and
-- the hint says which of the two happened. A client's cancel may arrive a second time while the first is
-- handled, because the server signals both a process and its group. A missing value arrives as NULL in an
-- array, which the caller's session parses: hence array_nulls.
CREATE OR REPLACE FUNCTION dp_int.call_sidecar(p_caller name, p_job uuid, p_enqueue text, p_fetch text) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE SET array_nulls = on AS $$
DECLARE
  connection text;
  asked boolean := false;
  release uuid;
  code text; message text; hint text := '';
  fate text := 'unknown: see dp.jobs. Unless it was reading already, it is dropped and no privacy budget is spent';
BEGIN
  BEGIN
    BEGIN
      connection := dp_int.loopback_open(dp_int.job_channel(p_job));
      asked := true;
      SELECT t.release INTO release FROM dp_dblink.dblink(connection, p_enqueue) AS t(release uuid);
      IF release IS NULL THEN
        release := dp_int.loopback_wait(connection, p_caller, p_job);
      END IF;
      RETURN QUERY SELECT t.label, t.numbers FROM dp_dblink.dblink(connection, format(p_fetch, p_caller, release)) AS t(label text, numbers float8[]);
      PERFORM dp_int.loopback_release(connection);
      RETURN;
    EXCEPTION WHEN query_canceled OR OTHERS THEN  -- OTHERS leaves query_canceled out
      GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    END;
  EXCEPTION WHEN query_canceled THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
  END;
  -- Until no further signal has come for a while: one that interrupts the question below leaves it without an answer.
  FOR attempt IN 1..10 LOOP
    EXIT WHEN code <> '57014';
    BEGIN
      PERFORM pg_sleep(0.01);
      EXIT;
    EXCEPTION WHEN query_canceled THEN NULL;
    END;
  END LOOP;
  FOR attempt IN 1..10 LOOP
    BEGIN
      IF attempt > 1 OR hint <> '' THEN
        NULL;
      ELSIF asked THEN
        SELECT t.fate INTO fate FROM dp_dblink.dblink(connection, format('SELECT dp_int.cancel(%L, %L)', p_caller, p_job)) AS t(fate text);
      ELSE
        fate := 'not begun; no privacy budget was spent';
      END IF;
      -- Without the lock that the loopback holds nobody waits for the job.
      PERFORM dp_dblink.dblink_disconnect(connection);
      EXIT;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
      NULL;
    END;
  END LOOP;
  RAISE EXCEPTION '%', message USING ERRCODE = code,
    HINT = CASE WHEN hint <> '' THEN hint ELSE concat(CASE code WHEN 'DP001' THEN 'Ask the same again once a dpsidecar is back. ' END, dp.what_became(fate)) END;
END $$;

-- Executes a fit that has no kept release, by dp_int.call_sidecar.
CREATE OR REPLACE FUNCTION dp_int.queue_and_wait(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                            p_features name[], p_intercept boolean, p_options jsonb, p_fetch text) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  job CONSTANT uuid := gen_random_uuid();
BEGIN
  RETURN QUERY SELECT c.label, c.numbers
    FROM dp_int.call_sidecar(p_caller, job,
           format('SELECT dp_int.enqueue(%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)',
             job, p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options, dp_int.here()), p_fetch) c;
END $$;

-- Answers a request, from its kept release if there is one, with a label and numbers per row: term and
-- coefficient, or for groups what dp_int.fetch_groups returns.
CREATE OR REPLACE FUNCTION dp_int.answer(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                            p_features name[], p_intercept boolean, p_options jsonb, p_by_groups boolean) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  r dp_int.request := dp_int.prepare(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options);
  kept uuid := CASE WHEN NOT r.fresh THEN dp_int.kept_release(r.dataset, r.hash) END;
BEGIN
  IF kept IS NULL THEN
    PERFORM dp_int.warn(r);
    RETURN QUERY
    SELECT c.label, c.numbers
      FROM dp_int.queue_and_wait(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options,
                                 CASE WHEN p_by_groups THEN 'SELECT names, numbers FROM dp_int.fetch_groups(%L, %L)'
                                      ELSE 'SELECT term, ARRAY[coef] FROM dp_int.fetch(%L, %L)' END) c;
    kept := dp_int.new_release(r);
  ELSE
    IF p_by_groups THEN
      RETURN QUERY SELECT jsonb_build_array(g.grp, g.term)::text, ARRAY[g.coef, g.share] FROM dp_int.groups(kept) g;
    ELSE
      RETURN QUERY SELECT c.term, ARRAY[c.coef] FROM dp_int.coefficients(kept) c;
    END IF;
    PERFORM dp_int.tell_kept(kept);
  END IF;
  PERFORM dp_int.tell_cut(kept);
  PERFORM dp_int.tell_huber_delta(kept);
  PERFORM dp_int.tell_pooled(kept);
  PERFORM dp_int.tell_missing(kept);
END $$;

-- Returns the sentence that says where scales come from, for callers who cannot register them.
CREATE OR REPLACE FUNCTION dp_int.who_gives_scales() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'Scales are registered by a steward, with dp_set_scales; dp_scales suggests them, for a part of the budget.' $$;

-- Tells callers who read coefficients, a score or a description in a form without the column why_null why
-- figures are missing. For coefficients it gives the reasons of missing intervals, except where the model
-- or the method never has intervals, and where tell_cut says it; that a column is left out is told in any case.
CREATE OR REPLACE FUNCTION dp_int.tell_missing(p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  why CONSTANT text := (SELECT string_agg(DISTINCT f.why_null, '; ')
                          FROM (SELECT m.why_null FROM dp_int.metric m WHERE m.release = p_release
                                UNION ALL SELECT s.why_null FROM dp_int.column_statistic s WHERE s.release = p_release
                                UNION ALL SELECT coalesce(c.why_null, r.why_null) FROM dp_int.release r JOIN dp_int.coefficient c ON c.release = r.id
                                           WHERE r.id = p_release AND c.ci_low IS NULL AND (NOT r.cut AND r.model <> 'l1' OR coalesce(c.why_null, r.why_null) LIKE 'noise hides how large the %')) AS f
                         WHERE f.why_null <> 'this method releases no standard errors');
BEGIN
  IF why IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: not every figure has a value and an interval: %', why
      USING HINT = concat(CASE WHEN EXISTS (SELECT FROM dp_int.metric m WHERE m.release = p_release) THEN format('SELECT metric, why_null FROM dp.scores WHERE score = %L', p_release)
                                 WHEN EXISTS (SELECT FROM dp_int.column_statistic s WHERE s.release = p_release) THEN format('SELECT column_name, statistic, why_null FROM dp.descriptions WHERE release = %L', p_release)
                                 ELSE format('SELECT * FROM dp_summary(%L)', p_release) END || ' says which and why.', CASE WHEN why ~* 'scales that fit|register (its )?scale' THEN ' ' || dp_int.who_gives_scales() END,
                          CASE WHEN EXISTS (SELECT FROM dp_int.release r JOIN dp_int.job j ON j.id = r.job WHERE r.id = p_release AND j.request ? 'where_level')
                            THEN ' Only rows with the levels of where_level count, and the noise is that of all rows: fewer features or more eps help a small part.' END);
  END IF;
END $$;

-- Tells callers who read coefficients that the radius may have cut them; where information is low noise is likely to
-- have carried them there.
CREATE OR REPLACE FUNCTION dp_int.tell_cut(p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r CONSTANT dp_int.release := (SELECT r FROM dp_int.release r WHERE r.id = p_release);
  radius CONSTANT float8 := r.parameters ->> 'radius';
BEGIN
  IF r.cut AND r.why_null LIKE 'low information%' THEN
    RAISE NOTICE 'dpsidecar: the coefficients are as large as the radius allows, as noise makes them with so few rows for this eps'
      USING HINT = format('The radius was %s. Ask with more eps or fewer features.', radius);
  ELSIF r.cut THEN
    RAISE NOTICE 'dpsidecar: the coefficients are as large as the radius allows; ask for a larger one, or give scales that fit'
      USING HINT = format('The radius was %s: for instance options => %L, which is another request. %s', radius, jsonb_build_object('radius', trim_scale(least(1e9, 10 * radius::numeric))), dp_int.who_gives_scales());
  END IF;
END $$;

-- Tells readers of coefficients that these are about a smaller delta of Huber's loss than was asked for.
CREATE OR REPLACE FUNCTION dp_int.tell_huber_delta(p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r CONSTANT dp_int.release := (SELECT r FROM dp_int.release r WHERE r.id = p_release);
  asked CONSTANT float8 := r.parameters ->> 'huber_delta';
BEGIN
  IF r.huber_delta < asked THEN
    RAISE NOTICE 'dpsidecar: the coefficients and their intervals are those of huber_delta %, not %: most residuals are seen to be far smaller',
        concat(dp_int.rounded(r.huber_delta, dp_int.decimals(r.huber_delta, NULL)), CASE WHEN r.parameters ? 'by' THEN ' or more' END), asked
      USING HINT = 'Rows beyond it count for less than was asked for. Where errors are symmetric that changes nothing; where they are not, with more eps huber_delta goes to the one asked for.';
  END IF;
END $$;

-- Tells readers of coefficients by groups that pooling has made the slopes of all groups the same.
CREATE OR REPLACE FUNCTION dp_int.tell_pooled(p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF (SELECT r.parameters ->> 'pool' FROM dp_int.release r WHERE r.id = p_release) IS DISTINCT FROM 'shrink' THEN
    RETURN;  -- and the query below need not be planned
  ELSIF (
      SELECT bool_and(s.n > 1 AND s.largest - s.least <= 1e-9 * s.size) AND max(s.size) > 0
        FROM (SELECT count(*) AS n, min(c.coef) AS least, max(c.coef) AS largest, max(abs(c.coef)) AS size
                FROM dp_int.coefficient c WHERE c.release = p_release AND c.term <> '(intercept)' GROUP BY c.term) AS s) THEN
    RAISE NOTICE 'dpsidecar: all groups have the same slopes: noise and chance explain all by which they differ, so that they were moved to their mean'
      USING HINT = 'That does not say that groups are alike. With more eps they differ; with options => ''{"pool": "none"}'', which is another request, each keeps its own.';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_l1_regress(dataset text, eps float8, target name DEFAULT NULL, features name[] DEFAULT NULL,
                                     intercept boolean DEFAULT true, options jsonb DEFAULT '{}', where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 20
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
BEGIN
  -- Who logged in: neither SET ROLE nor SECURITY DEFINER changes it.
  RETURN QUERY SELECT a.label, a.numbers[1]
    FROM dp_int.answer(dp.caller(), 'l1', dp_l1_regress.dataset, dp_l1_regress.eps, NULL, dp_l1_regress.target, dp_l1_regress.features,
                       dp_l1_regress.intercept, dp_int.with_over(dp_int.with_where(dp_l1_regress.options, dp_l1_regress.where_level), dp_l1_regress.over), false) a;
END $$;
COMMENT ON FUNCTION public.dp_l1_regress IS
  'Median regression under pure eps-differential privacy, made for heavy tails, or with option tau that of another quantile: coefficients in the table''s units, (intercept) first. The same request again returns the same release at no cost.';

-- Options with the arguments of a gradient model, which are keys of options when submitted.
CREATE OR REPLACE FUNCTION dp_int.with_arguments(p_options jsonb, p_method text, p_penalty text, p_lambda float8) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  given record;
BEGIN
  p_options := coalesce(p_options, '{}');
  IF jsonb_typeof(p_options) <> 'object' THEN
    RETURN p_options;  -- refused when the request is checked
  END IF;
  FOR given IN SELECT * FROM (VALUES ('method', to_jsonb(p_method), to_jsonb('auto'::text)), ('penalty', to_jsonb(p_penalty), to_jsonb('none'::text)),
                                     ('lambda', to_jsonb(dp_int.typed(p_lambda)), to_jsonb(0))) AS t(name, value, standard) LOOP
    IF given.value IS DISTINCT FROM given.standard AND p_options ? given.name AND p_options -> given.name IS DISTINCT FROM given.value THEN
      RAISE EXCEPTION '% is given twice, as % and among the options as %', given.name, dp_int.excerpt(coalesce(given.value, 'null')::text),
          dp_int.excerpt((p_options -> given.name)::text)
        USING ERRCODE = '22023', HINT = 'Give it once. No privacy budget was spent.';
    ELSIF NOT p_options ? given.name THEN
      p_options := p_options || jsonb_build_object(given.name, given.value);
    END IF;
  END LOOP;
  RETURN p_options;
END $$;

-- One function for each gradient model; they differ in the name alone.
DO $do$
DECLARE
  m dp_int.model;
  name name;
BEGIN
  FOR m IN SELECT * FROM dp_int.model WHERE delta > 0 LOOP
    name := format('dp_%s_regress', m.name);
    EXECUTE format($fn$
CREATE OR REPLACE FUNCTION public.%1$I(dataset text, eps float8, delta float8 DEFAULT NULL, target name DEFAULT NULL, features name[] DEFAULT NULL,
                                       intercept boolean DEFAULT true, penalty text DEFAULT 'none', lambda float8 DEFAULT 0, method text DEFAULT 'auto',
                                       options jsonb DEFAULT '{}', where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 20
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
BEGIN
  RETURN QUERY SELECT a.label, a.numbers[1]
    FROM dp_int.answer(dp.caller(), %2$L, %1$I.dataset, %1$I.eps, %1$I.delta, %1$I.target, %1$I.features, %1$I.intercept,
                       dp_int.with_arguments(dp_int.with_over(dp_int.with_where(%1$I.options, %1$I.where_level), %1$I.over), %1$I.method, %1$I.penalty, %1$I.lambda), false) a;
END $$$fn$, name, m.name);
    EXECUTE format('COMMENT ON FUNCTION public.%I IS %L', name, m.description || ' The same request again returns the same release at no cost.');
    EXECUTE format('GRANT EXECUTE ON FUNCTION public.%I TO dp_analyst', name);
  END LOOP;
END $do$;

CREATE OR REPLACE FUNCTION public.dp_submit(model text, dataset text, eps float8, delta float8 DEFAULT NULL, target name DEFAULT NULL, features name[] DEFAULT NULL,
                                 intercept boolean DEFAULT true, options jsonb DEFAULT '{}', where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN dp_int.submit_request(dp.caller(), dp_int.prepare_submitted(dp.caller(), dp_submit.model, dp_submit.dataset, dp_submit.eps, dp_submit.delta, dp_submit.target,
                                                                      dp_submit.features, dp_submit.intercept,
                                                                      dp_int.with_over(dp_int.with_where(dp_submit.options, dp_submit.where_level), dp_submit.over), true));
END $$;
COMMENT ON FUNCTION public.dp_submit IS
  'Queues a request in the caller''s transaction and returns its job: follow it with dp_status, read it with dp_result. Rolled back, nothing was asked.';

-- The caller's own job, as dp.jobs shows it.
CREATE OR REPLACE FUNCTION dp_int.my_job(p_job uuid) RETURNS dp.jobs
LANGUAGE plpgsql STABLE AS $$
DECLARE
  j dp.jobs;
BEGIN
  SELECT v.id, v.model, v.dataset, v.eps, v.delta, v.status, v.stage, v.sqlstate, v.error, v.created_at, v.finished_at, v.hint, v.release, v.expected_at, v.caller, v.request INTO j
    FROM dp_int.status v WHERE v.id = p_job AND v.principal = (SELECT me.principal FROM dp_int.me);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'you have no job %', coalesce(p_job::text, 'NULL') USING ERRCODE = '22023', HINT = dp_int.hint_no_job(p_job, dp.caller());
  END IF;
  j.stage := dp_int.with_place(j.id, j.stage);
  RETURN j;
END $$;

CREATE OR REPLACE FUNCTION public.dp_status(job uuid) RETURNS TABLE(status text, stage text, sqlstate text, message text, hint text, expected_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp.jobs := dp_int.my_job(dp_status.job);
BEGIN
  IF j.status IN ('queued', 'running') AND j.sqlstate IS NULL AND dp_int.sidecars_alive() = 0 THEN
    j.sqlstate := 'DP001';
    j.error := format('no dpsidecar is connected to database "%s"', current_database());
    j.hint := 'The job waits for one. ' || CASE (SELECT state FROM dp_int.job o WHERE o.id = j.id)
      WHEN 'reading' THEN 'The privacy budget is spent, once.' ELSE 'No privacy budget was spent.' END;
  END IF;
  RETURN QUERY SELECT j.status, j.stage, j.sqlstate, j.error, j.hint, j.expected_at;
END $$;
COMMENT ON FUNCTION public.dp_status IS 'Where a job of the caller''s stands: queued, running, done, failed or canceled, and what to do about it.';

CREATE OR REPLACE FUNCTION public.dp_result(job uuid) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp.jobs := dp_int.my_job(dp_result.job);
BEGIN
  IF j.release IS NOT NULL THEN
    RETURN QUERY SELECT c.term, c.coef FROM dp_int.fetch(dp.caller(), j.release) c;
  ELSIF j.sqlstate IS NOT NULL THEN
    RAISE EXCEPTION '%', j.error USING ERRCODE = j.sqlstate, HINT = j.hint;
  ELSE
    RAISE EXCEPTION 'job % is %', j.id, j.status USING ERRCODE = '55000',
      HINT = 'Ask again once dp_status says done.' || CASE WHEN EXISTS (SELECT FROM dp_int.job o WHERE o.id = j.id AND o.state = 'queued' AND o.xmin = pg_current_xact_id_if_assigned()::xid) THEN ' This transaction has queued it: it begins when that COMMITs.' ELSE '' END;
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_result IS 'The coefficients of a job of the caller''s that is done, or what another request returned; the error of one that failed.';

CREATE OR REPLACE FUNCTION public.dp_cancel(job uuid) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT dp_int.cancel(dp.caller(), $1) $$;
COMMENT ON FUNCTION public.dp_cancel IS 'Cancels a job of the caller''s unless its budget is spent already, and says what became of the job and of the budget.';

-- The server's message, in its language, for a COMMIT inside a transaction block: a function always runs
-- inside one.
CREATE OR REPLACE FUNCTION dp.commit_refusal() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  COMMIT;
EXCEPTION WHEN invalid_transaction_termination THEN
  RETURN SQLERRM;
END $$;
COMMENT ON FUNCTION dp.commit_refusal IS 'How dp_run knows that it was called inside a transaction block.';

-- Commits, so it can have neither SECURITY DEFINER nor a SET clause: every name is qualified.
CREATE OR REPLACE PROCEDURE public.dp_run(model text, dataset text, eps float8, delta float8 DEFAULT NULL, target name DEFAULT NULL, features name[] DEFAULT NULL,
                               intercept boolean DEFAULT true, options jsonb DEFAULT '{}', INOUT job uuid DEFAULT NULL,
                               where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  s record;
  nap pg_catalog.float8 := 0.001;
  begun CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  told pg_catalog.text;
  expected pg_catalog.timestamptz;
  late pg_catalog.bool := false;
  patience pg_catalog.interval := '0';  -- until a sidecar has been seen
  lost_since pg_catalog.timestamptz;
  fate pg_catalog.text;
  interrupt pg_catalog.text;
BEGIN
  BEGIN
    COMMIT;  -- always refused, for one of two reasons
  EXCEPTION WHEN invalid_transaction_termination THEN
    IF SQLERRM OPERATOR(pg_catalog.=) dp.commit_refusal() THEN
      RAISE EXCEPTION 'dp_run commits, and cannot run inside a transaction block'
        USING ERRCODE = '2D000', HINT = 'Use dp_submit there, and dp_result afterwards. No privacy budget was spent.';
    END IF;
  END;
  job := public.dp_submit(model, dataset, eps, delta, target, features, intercept, options, where_level, over);
  COMMIT;
  LOOP
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;  -- each look sees what others have committed
    BEGIN
      FOR look IN 1..30 LOOP  -- for about a second: a cancel that arrives at a COMMIT cannot be handled, and the job goes on
        PERFORM pg_catalog.pg_sleep(nap);
        SELECT * INTO s FROM public.dp_status(job);
        expected := COALESCE(expected, s.expected_at);
        IF NOT late AND s.expected_at OPERATOR(pg_catalog.>) (expected OPERATOR(pg_catalog.+) '5 s'::pg_catalog.interval) THEN
          late := true;
          told := NULL;
        END IF;
        IF (s.stage OPERATOR(pg_catalog.=) told) IS NOT TRUE AND pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (begun OPERATOR(pg_catalog.+) '0.9 s'::pg_catalog.interval) THEN
          told := s.stage;
          RAISE NOTICE 'dpsidecar: %', pg_catalog.concat(told, CASE WHEN late AND s.expected_at IS NOT NULL THEN ', longer than expected' END, dp.time_left(s.expected_at));
        END IF;
        nap := LEAST(nap OPERATOR(pg_catalog.*) 1.3::pg_catalog.float8, 0.05::pg_catalog.float8);
        EXIT WHEN s.status OPERATOR(pg_catalog.=) 'done' OR s.sqlstate IS NOT NULL;
        lost_since := NULL;
        patience := '10 s';
      END LOOP;
    EXCEPTION WHEN query_canceled THEN
      interrupt := SQLERRM;
    END;
    IF interrupt IS NOT NULL THEN
      FOR attempt IN 1..10 LOOP  -- for the second signal of a client's cancel, see dp_int.call_sidecar
        BEGIN
          PERFORM pg_catalog.pg_sleep(0.01);
          EXIT;
        EXCEPTION WHEN query_canceled THEN NULL;
        END;
      END LOOP;
      FOR attempt IN 1..10 LOOP
        BEGIN
          fate := public.dp_cancel(job);
          EXIT;
        EXCEPTION
          WHEN query_canceled THEN NULL;
          WHEN OTHERS THEN EXIT;  -- as where the job is locked for longer than lock_timeout
        END;
      END LOOP;
      COMMIT;
      RAISE EXCEPTION '%', interrupt USING ERRCODE = '57014', HINT = dp.what_became(COALESCE(fate, 'unknown: see dp.jobs'));
    END IF;
    EXIT WHEN s.status OPERATOR(pg_catalog.=) 'done';
    IF s.sqlstate IS NOT NULL THEN
      lost_since := COALESCE(lost_since, pg_catalog.clock_timestamp());
      IF s.sqlstate OPERATOR(pg_catalog.<>) 'DP001' THEN
        RAISE EXCEPTION '%', s.message USING ERRCODE = s.sqlstate, HINT = s.hint;
      ELSIF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) (lost_since OPERATOR(pg_catalog.+) patience) THEN
        fate := public.dp_cancel(job);  -- a sidecar may have started in the meantime
        COMMIT;
        RAISE EXCEPTION '%', s.message
          USING ERRCODE = 'DP001', HINT = pg_catalog.concat('Start one with dpsidecar serve, or queue the request with dp_submit. ', dp.what_became(fate));
      END IF;
    END IF;
    COMMIT;
  END LOOP;
END $$;
COMMENT ON PROCEDURE public.dp_run IS
  'Submits a request, commits, and waits for its end, without the loopback; for psql and pg_cron. Returns the job; read it with dp_result.';

CREATE OR REPLACE FUNCTION public.dp_last_release(dataset text) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.id
    FROM dp_int.release r
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE d.name = $1 AND d.unregistered_at IS NULL AND r.principal = (SELECT me.principal FROM dp_int.me) AND EXISTS (SELECT FROM dp_int.model m WHERE m.name = r.model)
     AND (dp_int.grant_of(d.id, (SELECT dp.caller()))).dataset IS NOT NULL
   ORDER BY r.released_at DESC
   LIMIT 1
$$;
COMMENT ON FUNCTION public.dp_last_release IS 'The latest release on a data set that the caller asked for, scores and descriptions aside; NULL when there is none since the data set was registered.';
GRANT EXECUTE ON FUNCTION public.dp_l1_regress, public.dp_submit, public.dp_status, public.dp_result, public.dp_cancel, public.dp_last_release TO dp_analyst;
GRANT EXECUTE ON FUNCTION dp.commit_refusal, dp.time_left, dp.what_became TO dp_analyst;
GRANT EXECUTE ON PROCEDURE public.dp_run TO dp_analyst;
