-- What an analyst asks, checked and made canonical: the same meaning is the same
-- request, whoever types it and however it is submitted.
BEGIN;
SET LOCAL ROLE dp_owner;

INSERT INTO dp_int.model (name, delta) VALUES ('l1', 0), ('linear', 1e-6), ('logistic', 1e-6), ('huber', 1e-6);

INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description) VALUES
  ('l1', 'theta', 'number', 1.05, 2, NULL, '2', 'Moments the residuals have: 2 for a bounded second moment, less for heavier tails'),
  ('l1', 'iota', 'number', 1e-9, 1e9, NULL, NULL, 'Inverse truncation scale of a residual, in units of 1 / the target''s scale'),
  ('l1', 'radius', 'number', 1e-6, 1e9, NULL, '10', 'Radius of the set of coefficients, in scaled units'),
  ('l1', 'pitch', 'number', 1e-12, 1e6, NULL, NULL, 'Spacing of the public grid of coefficients, in scaled units'),
  ('l1', 'set', 'string', NULL, NULL, '{ball,box}', '"ball"', 'Shape of the set of coefficients'),
  ('l1', 'residual_scale', 'number', 1e-9, 1e9, NULL, '1', 'Typical residual in units of the target''s scale, from public knowledge'),
  ('l1', 'method', 'string', NULL, NULL, '{auto,exponential_mechanism,objective_perturbation}', '"auto"', 'Mechanism; auto decides from rows, columns and eps'),
  ('l1', 'clip', 'number', 1e-9, 1e9, NULL, NULL, 'Objective perturbation: bound on the norm of one person''s gradient'),
  ('l1', 'smoothing', 'number', 1e-9, 1e9, NULL, NULL, 'Objective perturbation: width over which the absolute loss is smoothed, in scaled units');

-- The three gradient models share their options but for a method of least squares and the last ones.
INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description)
SELECT m.name, o.name, o.type, o.minimum, o.maximum, CASE WHEN m.name = 'linear' THEN o.choices ELSE array_remove(o.choices, 'joint_moments') END,
       o."default", o.description
  FROM dp_int.model m, (VALUES
  ('method', 'string', NULL::float8, NULL::float8,
   '{auto,joint_moments,catoni,trimmed,ksu,ksu_axis,sample_aggregate,spgd_clip,spgd_kamath,spgd_holland,svrg,svrg_pp,accmd,gd}'::text[], '"auto"'::jsonb,
   'Algorithm; auto decides from public facts'),
  ('penalty', 'string', NULL, NULL, '{none,l1,l2,elastic_net,group_l1}', '"none"', 'Penalty on the coefficients but the intercept, in scaled units'),
  ('lambda', 'number', 0, 1e9, NULL, '0', 'Weight of the penalty'),
  ('l1_ratio', 'number', 0, 1, NULL, '0.5', 'Elastic net: share of the l1 norm'),
  ('groups', 'groups', NULL, NULL, NULL, NULL, 'Group l1: lists of feature names, for instance [["a", "b"], ["c"]]'),
  ('radius', 'number', 1e-6, 1e9, NULL, '10', 'Radius of the ball of coefficients, in scaled units'),
  ('residual_scale', 'number', 1e-9, 1e9, NULL, NULL, 'Typical residual in units of the target''s scale, from public knowledge'),
  ('feature_norm', 'number', 1e-9, 1e9, NULL, NULL, 'Length of a row of scaled features beyond which it weighs less'),
  ('clip', 'number', 1e-9, 1e9, NULL, NULL, 'Bound on the norm of one person''s gradient'),
  ('moment', 'number', 1e-12, 1e12, NULL, NULL, 'Second moment of one coordinate of a gradient, from public knowledge'),
  ('truncation', 'number', 1e-9, 1e9, NULL, NULL, 'catoni, spgd_holland: scale of a gradient''s coordinate; ksu: distance from the centre at which gradients are cut'),
  ('range', 'number', 1e-9, 1e9, NULL, NULL, 'trimmed, spgd_kamath, ksu: width of the interval that holds a gradient''s coordinate'),
  ('trim', 'integer', 1, 1e9, NULL, NULL, 'trimmed: records cut off at either end'),
  ('steps', 'integer', 1, 500, NULL, NULL, 'Iterations'),
  ('step_size', 'number', 1e-9, 1e9, NULL, NULL, 'Step size, in scaled units'),
  ('batch', 'integer', 1, 1e12, NULL, NULL, 'Rows of a batch; all rows, but for svrg under rdp accounting'),
  ('blocks', 'integer', 1, 1e6, NULL, NULL, 'sample_aggregate, spgd_kamath: disjoint blocks'),
  ('whitening', 'string', NULL, NULL, '{auto,on,off}', '"auto"', 'Whether a part of the budget is spent on the second moments of the features')
  ) AS o(name, type, minimum, maximum, choices, "default", description)
 WHERE m.delta > 0;
INSERT INTO dp_int.option (model, name, type, minimum, maximum, "default", description) VALUES
  ('huber', 'huber_delta', 'number', 1e-9, 1e9, '1', 'Residual beyond which the loss is linear, in units of the target''s scale'),
  ('logistic', 'negative_label', 'number', -1e300, 1e300, '0', 'Value of the target that counts as 0'),
  ('logistic', 'positive_label', 'number', -1e300, 1e300, '1', 'Value of the target that counts as 1; any other value says nothing');

CREATE TYPE dp_int.request AS (
  dataset bigint,
  model   text,
  eps     float8,
  delta   float8,
  body    jsonb,
  hash    bytea,
  fresh   boolean
);

-- Groups of features, checked: every name once, and one of the request's.
CREATE FUNCTION dp_int.check_groups(p_groups jsonb, p_features name[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  names text[];
  stray text;
BEGIN
  IF jsonb_typeof(p_groups) = 'array' AND NOT EXISTS (
       SELECT FROM jsonb_array_elements(p_groups) AS g WHERE jsonb_typeof(g) <> 'array' OR g = '[]') THEN
    SELECT array_agg(f #>> '{}') INTO names FROM jsonb_array_elements(p_groups) AS g, jsonb_array_elements(g) AS f;
  END IF;
  IF names IS NULL OR (SELECT count(*) <> count(DISTINCT n) FROM unnest(names) AS n) THEN
    RAISE EXCEPTION 'option "groups" must be a list of lists of feature names, every name once, not %', p_groups
      USING ERRCODE = '22023', HINT = 'For instance [["a", "b"], ["c"]]. No privacy budget was spent.';
  END IF;
  SELECT n INTO stray FROM unnest(names) AS n WHERE n IS NULL OR NOT n = ANY (p_features::text[]) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'option "groups" names %, which is no feature of this request', coalesce('"' || stray || '"', 'null')
      USING ERRCODE = '42703', HINT = format('Features are %s. No privacy budget was spent.', array_to_string(p_features, ', '));
  END IF;
END $$;

-- Options without fresh and without what leaving them out means anyway, their
-- numbers as float8 prints them.
CREATE FUNCTION dp_int.check_options(p_model text, p_options jsonb, p_features name[]) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
  o dp_int.option;
  clean jsonb := '{}';
  v jsonb;
BEGIN
  IF jsonb_typeof(p_options) <> 'object' THEN
    RAISE EXCEPTION 'options must be a JSON object, not %', p_options
      USING ERRCODE = '22023', HINT = 'For instance {"radius": 5}. No privacy budget was spent.';
  END IF;
  FOR given IN SELECT key, value, jsonb_typeof(value) AS type FROM jsonb_each(p_options) LOOP
    IF given.key = 'fresh' THEN
      IF given.type <> 'boolean' THEN
        RAISE EXCEPTION 'option "fresh" must be true or false, not %', given.value USING ERRCODE = '22023', HINT = 'No privacy budget was spent.';
      END IF;
      CONTINUE;
    END IF;
    SELECT * INTO o FROM dp_int.option WHERE model = p_model AND name = given.key;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'unknown option "%" for model "%"', given.key, p_model
        USING ERRCODE = '22023', HINT = format('Options are %s and fresh. No privacy budget was spent.',
          (SELECT string_agg(name, ', ' ORDER BY name) FROM dp_int.option WHERE model = p_model));
    END IF;
    IF o.type = 'groups' THEN
      PERFORM dp_int.check_groups(given.value, p_features);
    ELSIF given.type <> (CASE o.type WHEN 'integer' THEN 'number' ELSE o.type END)
       OR given.type = 'number' AND NOT (given.value::numeric BETWEEN o.minimum::numeric AND o.maximum::numeric)
       OR o.type = 'integer' AND given.value::numeric <> trunc(given.value::numeric)
       OR o.choices IS NOT NULL AND NOT (given.value #>> '{}') = ANY (o.choices) THEN
      RAISE EXCEPTION 'option "%" must be %, not %', o.name,
          CASE WHEN o.choices IS NOT NULL THEN 'one of ' || array_to_string(o.choices, ', ')
               WHEN o.type = 'number' THEN format('a number from %s to %s', o.minimum, o.maximum)
               ELSE format('a whole number from %s to %s', o.minimum, o.maximum) END,
          given.value
        USING ERRCODE = '22023', HINT = o.description || '. No privacy budget was spent.';
    END IF;
    v := CASE given.type WHEN 'number' THEN to_jsonb(given.value::float8) ELSE given.value END;
    IF v IS DISTINCT FROM o."default" THEN
      clean := clean || jsonb_build_object(o.name, v);
    END IF;
  END LOOP;
  PERFORM dp_int.check_penalty(clean);
  IF p_model = 'logistic' AND coalesce(clean -> 'negative_label', '0') = coalesce(clean -> 'positive_label', '1') THEN
    RAISE EXCEPTION 'both labels are %', coalesce(clean -> 'positive_label', '1')
      USING ERRCODE = '22023', HINT = 'Give two values of the target, negative_label and positive_label. No privacy budget was spent.';
  END IF;
  RETURN clean;
END $$;

-- A penalty and its weight come together, as do groups and their penalty.
CREATE FUNCTION dp_int.check_penalty(p_options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_options ? 'penalty' <> p_options ? 'lambda' THEN
    RAISE EXCEPTION '%', CASE WHEN p_options ? 'penalty' THEN format('penalty %s needs a lambda above 0', p_options -> 'penalty')
                              ELSE format('lambda is %s, but there is no penalty', p_options -> 'lambda') END
      USING ERRCODE = '22023', HINT = 'Give both or neither. No privacy budget was spent.';
  ELSIF p_options ? 'groups' <> coalesce(p_options ->> 'penalty' = 'group_l1', false) THEN
    RAISE EXCEPTION 'penalty "group_l1" and option "groups" come together'
      USING ERRCODE = '22023', HINT = 'For instance penalty group_l1 and options {"groups": [["a", "b"], ["c"]]}. No privacy budget was spent.';
  END IF;
END $$;

CREATE FUNCTION dp_int.prepare(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name, p_features name[],
                               p_intercept boolean, p_options jsonb) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  m dp_int.model;
  d dp_int.dataset;
  r dp_int.request;
  target name;
  features name[];
  c name;
BEGIN
  SELECT * INTO m FROM dp_int.model WHERE name = p_model;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'unknown model %', coalesce('"' || p_model || '"', 'NULL')
      USING ERRCODE = '22023', HINT = format('Models are %s. No privacy budget was spent.', (SELECT string_agg(name, ', ' ORDER BY name) FROM dp_int.model));
  END IF;
  IF NOT coalesce(p_eps > 0 AND p_eps < 'Infinity', false) THEN
    RAISE EXCEPTION 'eps must be a positive finite number, not %', coalesce(p_eps::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'eps is the privacy budget of this request, for instance 1.0. No privacy budget was spent.';
  END IF;
  r.delta := coalesce(p_delta, m.delta);
  IF m.delta = 0 AND r.delta <> 0 THEN
    RAISE EXCEPTION 'model "%" is pure: delta must be 0, not %', p_model, p_delta
      USING ERRCODE = '22023', HINT = 'Leave delta out. No privacy budget was spent.';
  ELSIF m.delta > 0 AND NOT (r.delta > 0 AND r.delta < 1) THEN
    RAISE EXCEPTION 'delta must be above 0 and below 1, not %', p_delta
      USING ERRCODE = '22023', HINT = 'delta should be well below one in the number of people, for instance 1e-6. No privacy budget was spent.';
  END IF;
  SELECT * INTO d FROM dp_int.dataset WHERE name = p_dataset AND unregistered_at IS NULL;
  IF NOT FOUND OR (dp_int.grant_of(d.id, p_caller)).dataset IS NULL THEN
    RAISE EXCEPTION 'data set % does not exist or is not granted to "%"', coalesce('"' || p_dataset || '"', 'NULL'), p_caller
      USING ERRCODE = '42501', HINT = 'See dp.datasets for what may be asked, or ask the steward for dp_grant. No privacy budget was spent.';
  END IF;
  IF array_ndims(p_features) > 1 THEN
    RAISE EXCEPTION 'features must be a list of names, not %', p_features USING ERRCODE = '22023', HINT = 'For instance ''{age,region}''. No privacy budget was spent.';
  END IF;
  target := coalesce(p_target, d.target);
  features := coalesce(p_features, array_remove(d.features, target));
  FOREACH c IN ARRAY target || features LOOP
    IF c IS NULL OR NOT c = ANY (d.target || d.features) THEN
      RAISE EXCEPTION 'column % is not registered in data set "%"', coalesce('"' || c || '"', 'NULL'), d.name
        USING ERRCODE = '42703', HINT = format('Registered columns are %s. No privacy budget was spent.', array_to_string(d.target || d.features, ', '));
    END IF;
  END LOOP;
  IF (SELECT count(*) <> count(DISTINCT f) FROM unnest(target || features) AS f) THEN
    RAISE EXCEPTION 'a column stands twice among target and features' USING ERRCODE = '22023', HINT = 'Name every column once. No privacy budget was spent.';
  END IF;
  IF cardinality(features) = 0 AND NOT coalesce(p_intercept, true) THEN
    RAISE EXCEPTION 'nothing to fit: no feature and no intercept' USING ERRCODE = '22023', HINT = 'Name a feature, or keep the intercept. No privacy budget was spent.';
  END IF;
  r.dataset := d.id;
  r.model := p_model;
  r.eps := p_eps;
  r.fresh := coalesce(p_options -> 'fresh' = 'true', false);
  r.body := jsonb_build_object('model', p_model, 'eps', p_eps, 'delta', r.delta, 'target', target, 'features', features,
                               'intercept', coalesce(p_intercept, true), 'options', dp_int.check_options(p_model, coalesce(p_options, '{}'), features));
  r.hash := sha256(convert_to(r.body::text, 'UTF8'));
  RETURN r;
END $$;

CREATE FUNCTION dp_int.kept_release(p_dataset bigint, p_hash bytea) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT id FROM dp_int.release WHERE dataset = p_dataset AND request_hash = p_hash ORDER BY released_at DESC LIMIT 1);
END $$;

-- Inserts the job. A waited job is dropped unspent unless its session keeps the
-- job's advisory lock; the lock is taken before the row can be seen.
CREATE FUNCTION dp_int.insert_job(p_id uuid, p_caller name, r dp_int.request, p_waited boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO dp_int.job (id, caller, dataset, model, eps, delta, request, request_hash, fresh, waited)
  VALUES (p_id, p_caller, r.dataset, r.model, r.eps, r.delta, r.body, r.hash, r.fresh, p_waited);
  PERFORM pg_notify('dp_jobs', 'queued');
END $$;

-- The loopback's half of a synchronous call: everything is checked again here,
-- on the primary and on a fresh snapshot. Returns the kept release, if any.
CREATE FUNCTION dp_int.enqueue(p_id uuid, p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                               p_features name[], p_intercept boolean, p_options jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  r dp_int.request := dp_int.prepare(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options);
  kept uuid := dp_int.kept_release(r.dataset, r.hash);
BEGIN
  IF kept IS NOT NULL AND NOT r.fresh THEN
    RETURN kept;
  END IF;
  IF dp_int.sidecars_alive() = 0 THEN
    RAISE EXCEPTION 'no dpsidecar is connected to database "%"', current_database()
      USING ERRCODE = 'DP001', HINT = 'Start one with dpsidecar serve, or queue the request with dp_submit. No privacy budget was spent.';
  END IF;
  -- A lock held by somebody else on this key can only mean a hash collision or
  -- mischief: then the job runs as if nobody needed to wait for it.
  PERFORM pg_advisory_unlock_all();
  PERFORM dp_int.insert_job(p_id, p_caller, r, pg_try_advisory_lock_shared(dp_int.wait_key(p_id)));
  RETURN NULL;
END $$;

-- What a waiting caller needs to know. A job that is still reading and carries a
-- SQLSTATE could not be read this time: it is spent, and will be tried again.
CREATE FUNCTION dp_int.watch(p_caller name, p_job uuid) RETURNS TABLE(state text, alive boolean, release uuid, sqlstate text, message text, hint text, stage text,
                                                               expected_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT j.state, j.finished_at IS NOT NULL OR dp_int.sidecars_alive() > 0, j.release, j.sqlstate, j.message, j.hint, s.stage, s.expected_at
    FROM dp_int.job j JOIN dp_int.stage s ON s.job = j.id
   WHERE j.id = p_job AND j.caller = p_caller;
END $$;

-- Cancels what is not spent. Returns what became of the job. What it says of a job
-- that is not spent holds because the job is locked; of one that is, it needs no
-- lock and keeps none, for others may wait for that job.
CREATE FUNCTION dp_int.cancel(p_caller name, p_job uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job;
BEGIN
  BEGIN
    SELECT * INTO j FROM dp_int.job WHERE id = p_job AND caller = p_caller FOR NO KEY UPDATE;  -- others may follow it
    IF NOT FOUND THEN
      RAISE EXCEPTION 'you have no job %', p_job USING ERRCODE = '22023', HINT = 'See dp.jobs.';
    ELSIF j.state NOT IN ('queued', 'claimed', 'charged') THEN
      RAISE SQLSTATE 'DP000';  -- gives the lock back
    END IF;
  EXCEPTION WHEN SQLSTATE 'DP000' THEN NULL;
  END;
  CASE j.state
    WHEN 'queued' THEN
      PERFORM dp_int.finish_job(p_job, 'canceled', 'DP004', 'canceled by its caller', 'No privacy budget was spent.');
      RETURN 'canceled before it started; no privacy budget was spent';
    WHEN 'claimed', 'charged' THEN
      UPDATE dp_int.job SET cancel_requested = true WHERE id = p_job;
      RETURN 'will be canceled before it reads; no privacy budget will be spent';
    WHEN 'reading' THEN
      RETURN format('too late: the privacy budget is spent; the result will be kept, and the same request%s returns it at no cost', CASE WHEN j.fresh THEN ' without fresh' END);
    WHEN 'done' THEN
      RETURN 'it was done already; the result is kept';
    WHEN 'abandoned' THEN
      RETURN 'a steward abandoned it already; the privacy budget is spent, and nothing was released';
    ELSE
      RETURN j.state || ' already; no privacy budget was spent';
  END CASE;
END $$;

-- The end of a job. Jobs that followed it go on by themselves, see job_claim.
CREATE FUNCTION dp_int.finish_job(p_job uuid, p_state text, p_sqlstate text, p_message text, p_hint text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE dp_int.job
     SET state = p_state, sqlstate = p_sqlstate, message = p_message, hint = p_hint,
         follows = NULL, worker = NULL, token = NULL, lease_until = NULL, finished_at = clock_timestamp()
   WHERE id = p_job;
  PERFORM pg_notify(dp_int.job_channel(p_job), p_state);
  IF EXISTS (SELECT FROM dp_int.job WHERE follows = p_job) THEN
    PERFORM pg_notify('dp_jobs', 'queued');
  END IF;
END $$;

CREATE FUNCTION dp_int.coefficients(p_release uuid) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  SELECT c.term, c.coef FROM dp_int.coefficient c WHERE c.release = p_release ORDER BY c.position;
END $$;

-- The loopback fetches what the caller's own snapshot may be too old to show.
CREATE FUNCTION dp_int.fetch(p_caller name, p_release uuid) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT c.*
    FROM dp_int.release r, dp_int.coefficients(r.id) c
   WHERE r.id = p_release AND (dp_int.grant_of(r.dataset, p_caller)).dataset IS NOT NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the data set is no longer granted to "%"', p_caller
      USING ERRCODE = '42501', HINT = 'Ask the steward for dp_grant: the release is kept, and the same request returns it at no cost.';
  END IF;
END $$;

GRANT EXECUTE ON FUNCTION dp_int.enqueue, dp_int.watch, dp_int.cancel, dp_int.fetch TO dp_loopback;

COMMIT;
