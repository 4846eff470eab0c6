-- Second moments: a request whose release is the sums of all products of two columns; its job is like any
-- other. linear_from_moments.sql computes least squares fits from them.

-- A request for second moments, checked and made canonical. The first column of numbers is stored as the
-- target, so that columns are read like those of a fit. The matrix does not depend on the target of later
-- fits.
CREATE OR REPLACE FUNCTION dp_int.prepare_moments(p_caller name, p_dataset text, p_eps float8, p_delta float8, p_columns name[], p_fresh boolean,
                                               p_spends boolean, p_over jsonb) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r dp_int.request := dp_int.prepare_description(p_caller, 'moments', p_dataset, p_eps, p_delta, p_columns, p_fresh, p_spends, p_over);
  d dp_int.dataset;
  columns text[] := ARRAY(SELECT jsonb_array_elements_text(jsonb_build_array(r.body -> 'target') || (r.body -> 'features')));
  target text;
BEGIN
  IF r.delta = 0 THEN
    RAISE EXCEPTION 'second moments need a delta above 0' USING ERRCODE = '22023',
      HINT = 'They are released with Gaussian noise; the budget of a data set has a delta if dp_register was given one. No privacy budget was spent.';
  END IF;
  SELECT c INTO target FROM unnest(columns) WITH ORDINALITY AS t(c, n) WHERE NOT coalesce(r.body -> 'categories' ? c, false) ORDER BY n LIMIT 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'second moments need a column of numbers' USING ERRCODE = '22023', HINT = 'What a fit from them predicts is a number. No privacy budget was spent.';
  END IF;
  r.body := (r.body - '{flags,whole}'::text[]) || jsonb_build_object('target', target, 'features', array_remove(columns, target), 'intercept', true, 'options', '{}'::jsonb);
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = r.dataset;
  r.body := r.body || jsonb_build_object('scales', dp_int.scales_of(d.scales, r.body));
  r.hash := dp_int.request_hash(r.dataset, r.body);
  PERFORM dp_int.refuse_large_delta(d, r, CASE WHEN p_delta IS NULL THEN r.delta END);
  RETURN r;
END $$;

-- The same for dp_submit and dp_explain, which have the arguments of a fit.
CREATE OR REPLACE FUNCTION dp_int.prepare_submitted_moments(p_caller name, p_dataset text, p_eps float8, p_delta float8, p_target name, p_features name[], p_intercept boolean,
                                                         p_options jsonb, p_spends boolean DEFAULT true) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  options CONSTANT jsonb := coalesce(p_options, '{}');
BEGIN
  IF p_target IS NOT NULL OR NOT coalesce(p_intercept, true) THEN
    RAISE EXCEPTION 'second moments have no %', CASE WHEN p_target IS NOT NULL THEN 'target' ELSE 'intercept to leave out' END
      USING ERRCODE = '22023', HINT = 'Give their columns as features, that of a later target among them; NULL stands for all. No privacy budget was spent.';
  ELSIF jsonb_typeof(options) <> 'object' OR options - '{fresh,over}'::text[] <> '{}' OR jsonb_typeof(coalesce(options -> 'fresh', 'true')) <> 'boolean' THEN
    RAISE EXCEPTION 'second moments have no options but "over", and "fresh", which is true or false: not %', dp_int.excerpt(options::text)
      USING ERRCODE = '22023', HINT = 'No privacy budget was spent.';
  END IF;
  RETURN dp_int.prepare_moments(p_caller, p_dataset, p_eps, p_delta, p_features, coalesce(options -> 'fresh' = 'true', false), p_spends, options -> 'over');
END $$;

-- The part of a synchronous request that runs over the loopback.
CREATE OR REPLACE FUNCTION dp_int.enqueue_moments(p_id uuid, p_caller name, p_dataset text, p_eps float8, p_delta float8, p_columns name[], p_fresh boolean,
                                               p_over daterange, p_from jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  RETURN dp_int.enqueue_request(p_id, p_caller, dp_int.prepare_moments(p_caller, p_dataset, p_eps, p_delta, p_columns, p_fresh, true, dp_int.window_json(p_over)));
END $$;

-- The content of a release, one row for each pair of terms: both terms as a JSON array, their sum of
-- products, and the standard deviation of its noise.
CREATE OR REPLACE FUNCTION dp_int.moments(p_release uuid) RETURNS TABLE(label text, numbers float8[])
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(a.term, b.term)::text, ARRAY[m.sums[(a.i - 1) * (2 * cardinality(m.terms) - a.i) / 2 + b.i], m.noise * CASE WHEN a.i = b.i THEN 1 ELSE sqrt(0.5) END]
    FROM dp_int.second_moments m, unnest(m.terms) WITH ORDINALITY AS a(term, i), unnest(m.terms) WITH ORDINALITY AS b(term, i)
   WHERE m.release = p_release AND a.i <= b.i
   ORDER BY a.i, b.i
$$;

-- Runs over the loopback, because the caller's own snapshot may be too old to show the release.
CREATE OR REPLACE FUNCTION dp_int.fetch_moments(p_caller name, p_release uuid) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.refuse_ungranted(p_caller, p_release);
  RETURN QUERY SELECT * FROM dp_int.moments(p_release);
END $$;

CREATE OR REPLACE FUNCTION public.dp_moments(dataset text, eps float8, delta float8 DEFAULT NULL, columns name[] DEFAULT NULL, fresh boolean DEFAULT false,
                                             over daterange DEFAULT NULL)
RETURNS TABLE(term text, other_term text, sum float8, noise float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 30
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
DECLARE
  r CONSTANT dp_int.request := dp_int.prepare_moments(dp.caller(), dp_moments.dataset, dp_moments.eps, dp_moments.delta, dp_moments.columns, dp_moments.fresh, true,
                                                             dp_int.window_json(dp_moments.over));
  kept CONSTANT uuid := CASE WHEN NOT r.fresh THEN dp_int.kept_release(r.dataset, r.hash) END;
  job CONSTANT uuid := gen_random_uuid();
BEGIN
  IF kept IS NOT NULL THEN
    RETURN QUERY SELECT m.label::jsonb ->> 0, m.label::jsonb ->> 1, m.numbers[1], m.numbers[2] FROM dp_int.moments(kept) AS m;
    PERFORM dp_int.tell_kept(kept);
    RETURN;
  END IF;
  PERFORM dp_int.warn(r);
  RETURN QUERY
  SELECT c.label::jsonb ->> 0, c.label::jsonb ->> 1, c.numbers[1], c.numbers[2]
    FROM dp_int.call_sidecar(dp.caller(), job, format('SELECT dp_int.enqueue_moments(%L, %L, %L, %L, %L, %L, %L, %L, %L)', job, dp.caller(), dp_moments.dataset, dp_moments.eps,
                                                       dp_moments.delta, dp_moments.columns, r.fresh, dp_moments.over, dp_int.here()),
                             'SELECT label, numbers FROM dp_int.fetch_moments(%L, %L)') AS c;
  PERFORM dp_int.new_release(r);
END $$;
COMMENT ON FUNCTION public.dp_moments IS
  'The sums over rows of all products of two columns, in units of their scales, from which dp_linear_from_moments fits any target to any features at no cost. It is charged like a fit; the same again returns the same at no cost.';

-- reading -> done for second moments, as job_publish does it for a fit.
CREATE OR REPLACE FUNCTION dp_int.job_publish_moments(p_job uuid, p_token uuid, p_method text, p_step int, p_terms text[], p_sums float8[], p_noise float8, p_bound float8, p_lost float8, p_lost_noise float8) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
  new_release uuid := dp_int.insert_release(j, p_method, p_step, NULL);
BEGIN
  INSERT INTO dp_int.second_moments (release, terms, sums, noise, bound, lost, lost_noise) VALUES (new_release, p_terms, p_sums, p_noise, p_bound, p_lost, p_lost_noise);
  PERFORM dp_int.complete_job(j.id, new_release, dp_int.step(j, p_step));
  RETURN new_release;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.enqueue_moments, dp_int.fetch_moments TO dp_loopback;
GRANT EXECUTE ON FUNCTION dp_int.job_publish_moments TO dp_sidecar;
GRANT EXECUTE ON FUNCTION public.dp_moments TO dp_analyst;
