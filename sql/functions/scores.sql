-- Scores, which measure how well a release predicts the rows of its data set: requests whose release is a
-- list of metrics instead of coefficients; their jobs are like any other.

-- A request for a score, checked and made canonical. Its columns are those of the request that was
-- released, and so are its scales (dp_int.request_scales), and its window where none is given. p_spends:
-- as in dp_int.prepare.
CREATE OR REPLACE FUNCTION dp_int.prepare_score(p_caller name, p_release uuid, p_eps float8, p_delta float8, p_over daterange, p_spends boolean DEFAULT true) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  scored dp_int.release;
  d dp_int.dataset;
  budget_delta float8;
  usual float8;  -- the delta of a score for which none is given
  r dp_int.request;
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.check_eps(p_eps);
  p_eps := dp_int.typed(p_eps);
  p_delta := dp_int.typed(p_delta);
  SELECT * INTO scored FROM dp_int.release WHERE id = p_release;
  IF NOT FOUND OR (dp_int.grant_of(scored.dataset, p_caller)).dataset IS NULL AND (p_spends OR NOT pg_has_role(p_caller, 'dp_admin', 'USAGE')) THEN
    RAISE EXCEPTION 'there is no release % that you may score', coalesce(p_release::text, 'NULL')
      USING ERRCODE = '22023', HINT = dp_int.hint_no_release(p_release, p_caller) || ' No privacy budget was spent.';
  ELSIF scored.model IN ('describe', 'scales', 'moments') THEN
    RAISE EXCEPTION 'release % is % and predicts nothing', p_release, CASE scored.model WHEN 'moments' THEN 'of second moments' ELSE 'a description' END USING ERRCODE = '22023', HINT = 'Give the release of a fit, see dp_last_release. No privacy budget was spent.';
  ELSIF scored.model = 'score' THEN
    RAISE EXCEPTION 'release % is itself a score', p_release
      USING ERRCODE = '22023', HINT = format('Its metrics stand in dp.scores. It scores release %s. No privacy budget was spent.', scored.parameters ->> 'release');
  END IF;
  IF EXISTS (SELECT FROM dp_int.coefficient c WHERE c.release = p_release AND c.coef IN ('NaN', 'Infinity', '-Infinity')) THEN
    RAISE EXCEPTION 'release % predicts nothing: a coefficient of it is no finite number', p_release
      USING ERRCODE = '22023', HINT = 'dp.coefficients shows them. Fit again with other scales, a smaller radius or another method, and score that release. No privacy budget was spent.';
  END IF;
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = scored.dataset;
  IF d.unregistered_at IS NOT NULL THEN
    RAISE EXCEPTION 'data set "%", of which release % was made, is no longer registered', d.name, p_release
      USING ERRCODE = '42501', HINT = 'Its rows cannot be read any more, also if another data set has the name now: fit that one, and score its release. No privacy budget was spent.';
  END IF;
  SELECT a.delta INTO STRICT budget_delta FROM dp_int.account a WHERE a.id = d.account;
  usual := CASE WHEN budget_delta = 0 THEN 0 WHEN scored.delta > 0 THEN scored.delta ELSE least(1e-6, budget_delta) END;
  r.delta := coalesce(p_delta, usual);
  IF NOT (r.delta >= 0 AND r.delta < 1) OR r.delta > 0 AND budget_delta = 0 THEN
    RAISE EXCEPTION '%', CASE WHEN budget_delta = 0 THEN format('the budget of data set "%s" has no delta: delta must be 0, not %s', d.name, p_delta)
                              ELSE format('delta must be at least 0 and below 1, not %s', p_delta) END
      USING ERRCODE = '22023', HINT = 'Leave delta out. No privacy budget was spent.';
  END IF;
  r.dataset := d.id;
  r.model := 'score';
  r.eps := p_eps;
  r.fresh := false;
  SELECT j.request - '{options,scales}'::text[] || dp_int.scored_options(scored.model, j.request -> 'options') || jsonb_build_object('model', r.model, 'eps', r.eps, 'delta', r.delta, 'release', p_release)
    INTO STRICT r.body FROM dp_int.job j WHERE j.id = scored.job;
  r.body := r.body || dp_int.over_of_request(dp_int.canonical_over(d, coalesce(dp_int.window_json(p_over), r.body -> 'over')));
  r.hash := sha256(convert_to(r.body::text, 'UTF8'));
  PERFORM dp_int.refuse_large_delta(d, r, usual);
  RETURN r;
END $$;

-- The options of a released request that a score of the release keeps: those that name further columns of
-- the rows.
CREATE OR REPLACE FUNCTION dp_int.scored_options(p_model text, p_options jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN kept = '{}' THEN kept ELSE jsonb_build_object('options', kept || CASE WHEN kept ? 'weight' THEN jsonb_build_object('max_weight', p_options -> 'max_weight') ELSE '{}' END) END
    FROM dp_int.beside_of(p_model, p_options) AS kept
$$;

-- The part of a synchronous score that runs over the loopback.
CREATE OR REPLACE FUNCTION dp_int.enqueue_score(p_id uuid, p_caller name, p_release uuid, p_eps float8, p_delta float8, p_over daterange, p_from jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  RETURN dp_int.enqueue_request(p_id, p_caller, dp_int.prepare_score(p_caller, p_release, p_eps, p_delta, p_over));
END $$;

CREATE OR REPLACE FUNCTION dp_int.metrics(p_release uuid) RETURNS TABLE(metric text, value float8, ci_low float8, ci_high float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  SELECT m.metric, m.value, m.ci_low, m.ci_high FROM dp_int.metric m WHERE m.release = p_release ORDER BY m.position;
END $$;

-- Runs over the loopback, because the caller's own snapshot may be too old to show the release.
CREATE OR REPLACE FUNCTION dp_int.fetch_score(p_caller name, p_release uuid) RETURNS TABLE(metric text, value float8, ci_low float8, ci_high float8)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.refuse_ungranted(p_caller, p_release);
  RETURN QUERY SELECT * FROM dp_int.metrics(p_release);
END $$;

CREATE OR REPLACE FUNCTION dp_int.score(p_caller name, p_release uuid, p_eps float8, p_delta float8, p_over daterange)
RETURNS TABLE(metric text, value float8, ci_low float8, ci_high float8)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  r dp_int.request := dp_int.prepare_score(p_caller, p_release, p_eps, p_delta, p_over);
  kept uuid := dp_int.kept_release(r.dataset, r.hash);
  job uuid := gen_random_uuid();
BEGIN
  IF kept IS NOT NULL THEN
    RETURN QUERY SELECT * FROM dp_int.metrics(kept);
    PERFORM dp_int.tell_kept(kept);
    PERFORM dp_int.tell_missing(kept);
    RETURN;
  END IF;
  PERFORM dp_int.warn(r);
  RETURN QUERY
  SELECT c.label, c.numbers[1], c.numbers[2], c.numbers[3]
    FROM dp_int.call_sidecar(p_caller, job, format('SELECT dp_int.enqueue_score(%L, %L, %L, %L, %L, %L, %L)', job, p_caller, p_release, r.eps, r.delta, p_over, dp_int.here()),
                             'SELECT metric, ARRAY[value, ci_low, ci_high] FROM dp_int.fetch_score(%L, %L)') AS c;
  PERFORM dp_int.tell_missing(dp_int.new_release(r));
END $$;

CREATE OR REPLACE FUNCTION public.dp_score(release uuid, eps float8, delta float8 DEFAULT NULL, over daterange DEFAULT NULL) RETURNS TABLE(metric text, value float8, ci_low float8, ci_high float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 3
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
BEGIN
  RETURN QUERY
  SELECT s.metric, dp_int.rounded(s.value, d.decimals), dp_int.rounded(s.ci_low, d.decimals), dp_int.rounded(s.ci_high, d.decimals)
    FROM dp_int.score(dp.caller(), dp_score.release, dp_score.eps, dp_score.delta, dp_score.over) AS s, LATERAL (SELECT dp_int.decimals(s.value, (s.ci_high - s.ci_low) / 4)) AS d(decimals);
END $$;
COMMENT ON FUNCTION public.dp_score IS
  'How well a release predicts the rows that its data set has now, or those of a window, with 95 % intervals, rounded to what they leave meaningful; dp.scores has all digits, and says why where there is no interval. It is charged like a fit; the same again returns the same at no cost.';

CREATE OR REPLACE FUNCTION public.dp_submit_score(release uuid, eps float8, delta float8 DEFAULT NULL, over daterange DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN dp_int.submit_request(dp.caller(), dp_int.prepare_score(dp.caller(), dp_submit_score.release, dp_submit_score.eps, dp_submit_score.delta, dp_submit_score.over));
END $$;
COMMENT ON FUNCTION public.dp_submit_score IS
  'Queues a score in the caller''s transaction and returns its job: follow it with dp_status; once it is done, the same dp_score returns it at no cost.';

-- The facts about the scored release that a sidecar needs; NULL for requests that are not scores.
CREATE OR REPLACE FUNCTION dp_int.scored(p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT jsonb_build_object('model', r.model, 'parameters', r.parameters,
                              'coefficients', (SELECT jsonb_agg(c.coef ORDER BY c.position) FROM dp_int.coefficient c WHERE c.release = r.id))
      FROM dp_int.release r
     WHERE p_request ->> 'model' = 'score' AND r.id = (p_request ->> 'release')::uuid);
END $$;

-- reading -> done for a score, as job_publish does it for a fit. p_metrics is a list of
-- objects with metric, value, ci_low, ci_high and why_null.
CREATE OR REPLACE FUNCTION dp_int.job_publish_score(p_job uuid, p_token uuid, p_method text, p_step int, p_metrics jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
  new_release uuid := dp_int.insert_release(j, p_method, p_step, NULL);
BEGIN
  INSERT INTO dp_int.metric (release, position, metric, value, ci_low, ci_high, why_null)
  SELECT new_release, m.position, m.entry ->> 'metric', (m.entry ->> 'value')::float8, (m.entry ->> 'ci_low')::float8, (m.entry ->> 'ci_high')::float8, m.entry ->> 'why_null'
    FROM jsonb_array_elements(p_metrics) WITH ORDINALITY AS m(entry, position);
  PERFORM dp_int.complete_job(j.id, new_release, dp_int.step(j, p_step));
  RETURN new_release;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.enqueue_score, dp_int.fetch_score TO dp_loopback;
GRANT EXECUTE ON FUNCTION dp_int.job_publish_score TO dp_sidecar;
GRANT EXECUTE ON FUNCTION public.dp_score, public.dp_submit_score TO dp_analyst;
