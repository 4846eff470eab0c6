-- Predictions from releases: post-processing, and free.

-- The coefficients of a release in the order asked; the caller may see those that dp.releases shows him.
CREATE OR REPLACE FUNCTION public.dp_coef(release uuid) RETURNS float8[]
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$  -- not STRICT: no release is an error, as with dp_last_release before the first one
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_coef.release);
BEGIN
  RETURN ARRAY(SELECT c.coef FROM dp_int.coefficient c WHERE c.release = r.id ORDER BY c.position);
END $$;
COMMENT ON FUNCTION public.dp_coef IS
  'The coefficients of a release as an array, (intercept) first if it has one: ask once, and give them to dp_predict(coef, features) for every row of a large table.';

-- A prediction of any length. coef has one element more than features when there
-- is an intercept, and it is the first.
CREATE OR REPLACE FUNCTION dp.linear_predictor(coef float8[], features float8[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  shift CONSTANT int := cardinality(coef) - cardinality(features);
  total float8 := 0;
BEGIN
  IF shift NOT IN (0, 1) THEN
    RAISE EXCEPTION '% features, but % coefficients', cardinality(features), cardinality(coef)
      USING ERRCODE = '22023', HINT = 'Give the features in the release''s order, without the intercept; dp.coefficients lists them.';
  ELSIF shift = 1 THEN
    total := coef[1];
  END IF;
  FOR j IN 1 .. cardinality(features) LOOP
    total := total + coef[j + shift] * features[j];
  END LOOP;
  RETURN total;
END $$;
COMMENT ON FUNCTION dp.linear_predictor IS 'What dp_predict(coef, features) does with many features.';

-- A single expression, parsed at creation, which the planner inlines in place of the call. Only the
-- branch that applies is evaluated.
CREATE OR REPLACE FUNCTION public.dp_predict(coef float8[], features float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN pg_catalog.cardinality(coef) = pg_catalog.cardinality(features) + 1 THEN
         CASE pg_catalog.cardinality(features)
           WHEN 1 THEN coef[1] + coef[2] * features[1]
           WHEN 2 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2]
           WHEN 3 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3]
           WHEN 4 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4]
           WHEN 5 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5]
           WHEN 6 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6]
           WHEN 7 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6] + coef[8] * features[7]
           WHEN 8 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6] + coef[8] * features[7] + coef[9] * features[8]
           ELSE dp.linear_predictor(coef, features) END
       ELSE dp.linear_predictor(coef, features) END;
COMMENT ON FUNCTION public.dp_predict(float8[], float8[]) IS
  'A linear prediction from the coefficients that dp_coef returns, put inline by the planner; for a logistic release these are log-odds, for one of counts the logarithm of a mean.';

-- The probability for log-odds z. NULL and NaN are returned unchanged; without the test, least would
-- replace NaN by 700.
CREATE OR REPLACE FUNCTION dp_int.probability(z float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN z <> 'NaN' THEN 1 / (1 + exp(greatest(least(-z, 700), -700))) ELSE z END $$;  -- exp raises an error on overflow

-- The mean whose logarithm is z; NULL and NaN are returned unchanged.
CREATE OR REPLACE FUNCTION dp_int.mean_count(z float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN z <> 'NaN' THEN exp(greatest(least(z, 700), -700)) ELSE z END $$;

-- The prediction of a model with the linear predictor z.
CREATE OR REPLACE FUNCTION dp_int.response(p_model text, z float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN (SELECT m.labels FROM dp_int.model m WHERE m.name = p_model) THEN dp_int.probability(z)
              WHEN dp_int.is_count(p_model) THEN dp_int.mean_count(z)
              ELSE z END
$$;

-- The prediction of a release, by the coefficients of a group; the group is '' in a release without
-- groups. p_known: the offset and the logarithm of the exposure, added to the linear predictor. The
-- number of features is checked here, because dp.linear_predictor cannot tell one feature too many from a
-- model without an intercept.
CREATE OR REPLACE FUNCTION dp_int.prediction(r dp_int.release, p_grp text, p_features float8[], p_known float8) RETURNS float8
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
  w CONSTANT float8[] := ARRAY(SELECT c.coef FROM dp_int.coefficient c WHERE c.release = r.id AND c.grp = p_grp ORDER BY c.position);
  terms CONSTANT text[] := ARRAY(SELECT c.term FROM dp_int.coefficient c WHERE c.release = r.id AND c.grp = p_grp AND c.term <> '(intercept)' ORDER BY c.position);
BEGIN
  IF cardinality(p_features) <> cardinality(terms) THEN
    RAISE EXCEPTION '% feature%, but % coefficient% beside the intercept', cardinality(p_features), CASE cardinality(p_features) WHEN 1 THEN '' ELSE 's' END,
        cardinality(terms), CASE cardinality(terms) WHEN 1 THEN '' ELSE 's' END
      USING ERRCODE = '22023', HINT = CASE WHEN terms = '{}' THEN 'This release has no features: give an empty array, ''{}''.'
                                  ELSE format('Give the features in the release''s order, without the intercept: %s.', dp_int.excerpt(array_to_string(terms, ', '))) END;
  END IF;
  BEGIN
    RETURN dp_int.response(r.model, dp.linear_predictor(w, p_features) + p_known);
  EXCEPTION WHEN numeric_value_out_of_range THEN
    RAISE EXCEPTION 'the prediction is beyond the range of float8' USING ERRCODE = '22003', HINT = 'A feature is far too large, or too small.';
  END;
END $$;

CREATE OR REPLACE FUNCTION public.dp_predict(release uuid, features float8[]) RETURNS float8
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_predict.release);
BEGIN
  IF features IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM dp_int.refuse_groups(r);
  RETURN dp_int.prediction(r, '', dp_predict.features, 0);
END $$;
COMMENT ON FUNCTION public.dp_predict(uuid, float8[]) IS
  'A prediction from a release, in the target''s units; for a logistic one the probability of the positive label, for one of counts the mean count of an exposure of 1; where there was an offset, at offset 0. features in the release''s order, without the intercept.';

-- The release of a text that does not look like one: for the name of a data set that the caller may see, where to find it.
CREATE OR REPLACE FUNCTION dp.no_release(release text) RETURNS uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM dp_int.dataset d WHERE d.name = no_release.release AND d.unregistered_at IS NULL
                                             AND (pg_has_role(dp.caller(), 'dp_admin', 'USAGE') OR (dp_int.grant_of(d.id, dp.caller())).dataset IS NOT NULL)) THEN
    RAISE EXCEPTION '"%" is a data set, and here a release is wanted', no_release.release
      USING ERRCODE = '22023', HINT = format('dp_last_release(%L) is your latest fit of it; dp.releases has all.', no_release.release);
  END IF;
  RETURN no_release.release::uuid;
END $$;
COMMENT ON FUNCTION dp.no_release IS 'How dp_predict says what is wrong where it is given the name of a data set.';

CREATE OR REPLACE FUNCTION dp.release_of(release text) RETURNS uuid
LANGUAGE sql STABLE
RETURN CASE WHEN release ~ '^[0-9A-Fa-f-]{36}$' THEN release::uuid ELSE dp.no_release(release) END;
COMMENT ON FUNCTION dp.release_of IS 'A release that is written as text.';

-- Without this overload a release written as a literal would match both uuid and float8[].
CREATE OR REPLACE FUNCTION public.dp_predict(release text, features float8[]) RETURNS float8
LANGUAGE sql STABLE
RETURN public.dp_predict(dp.release_of(release), features);
COMMENT ON FUNCTION public.dp_predict(text, float8[]) IS 'The same for a release written as text.';

-- The value of a feature that is a number or a boolean; NULL where it is null.
CREATE OR REPLACE FUNCTION dp_int.feature_number(p_name text, p_value jsonb) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(p_value) = 'number' AND abs(p_value::numeric) > 1.7976931348623157e308 THEN
    RAISE EXCEPTION 'feature "%" is out of the range of double precision: %', p_name, dp_int.excerpt(p_value::text) USING ERRCODE = '22023', HINT = 'Give a number between -1.7e308 and 1.7e308.';
  ELSIF jsonb_typeof(p_value) NOT IN ('number', 'boolean', 'null') THEN
    RAISE EXCEPTION 'feature "%" must be a number, not %', p_name, dp_int.excerpt(p_value::text) USING ERRCODE = '22023', HINT = 'Only a category takes the name of a level; a boolean is true or false. A date or timestamp is in seconds since 1970: extract(epoch FROM timestamptz ''2026-01-31'').';
  END IF;
  RETURN CASE jsonb_typeof(p_value) WHEN 'number' THEN dp_int.as_float(p_value::numeric) WHEN 'boolean' THEN p_value::boolean::int END;
END $$;

-- The columns of a release's offset and exposure, as an object of option and column.
CREATE OR REPLACE FUNCTION dp_int.known_columns(r dp_int.release) RETURNS jsonb
LANGUAGE sql STABLE AS $$ SELECT dp_int.beside_of(r.model, (SELECT j.request -> 'options' FROM dp_int.job j WHERE j.id = r.job)) - 'weight' $$;

-- The part of the linear predictor without a coefficient, from features given by name: the offset, and
-- the logarithm of the exposure. 0 where neither is named; NULL where one is null, or the exposure is not
-- above 0.
CREATE OR REPLACE FUNCTION dp_int.known_part(r dp_int.release, p_features jsonb) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known record;
  total float8 := 0;
BEGIN
  FOR known IN SELECT c.key AS option, dp_int.feature_number(c.value, p_features -> c.value) AS value FROM jsonb_each_text(dp_int.known_columns(r)) AS c WHERE p_features ? c.value LOOP
    total := total + CASE WHEN known.option = 'offset' THEN known.value WHEN known.value > 0 THEN ln(known.value) END;
  END LOOP;
  RETURN total;
END $$;

-- Features given by name, in the order and coding of the release's coefficients; NULL where one is NULL
-- or not a level. The category that makes the groups, offset and exposure are not among them.
CREATE OR REPLACE FUNCTION dp_int.feature_values(r dp_int.release, p_features jsonb) RETURNS float8[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked CONSTANT jsonb := (SELECT j.request FROM dp_int.job j WHERE j.id = r.job);
  names CONSTANT text[] := ARRAY(SELECT f FROM jsonb_array_elements_text(asked -> 'features') WITH ORDINALITY AS n(f, o) ORDER BY o);
  stray text;
  f text;
  v jsonb;
  row_values float8[] := '{}';
  more float8[];
BEGIN
  IF p_features IS NULL THEN
    RETURN NULL;
  ELSIF jsonb_typeof(p_features) <> 'object' THEN
    RAISE EXCEPTION 'features by name must be a JSON object, not %', dp_int.excerpt(p_features::text)
      USING ERRCODE = '22023', HINT = CASE WHEN names = '{}' THEN 'This release has no features: give an empty object, ''{}''.' ELSE format('This release has the features %s.', array_to_string(names, ', ')) END;
  END IF;
  p_features := p_features - coalesce(r.parameters ->> 'by', '')  -- it selects the coefficients
                           - ARRAY(SELECT value FROM jsonb_each_text(dp_int.known_columns(r)));
  SELECT coalesce((SELECT k FROM jsonb_object_keys(p_features) AS k WHERE NOT k = ANY (names) LIMIT 1), (SELECT n FROM unnest(names) AS n WHERE NOT p_features ? n LIMIT 1)) INTO stray;
  IF stray IS NOT NULL THEN
    RAISE EXCEPTION '% "%"', CASE WHEN p_features ? stray THEN 'this release has no feature' ELSE 'no value is given for feature' END, dp_int.excerpt(stray)
      USING ERRCODE = '42703', HINT = format('%s%s.', CASE WHEN names <> '{}' THEN 'Name each of its features once: ' || array_to_string(names, ', ')
                                                        WHEN r.parameters ? 'by' THEN 'This release has no features: name the group alone' ELSE 'This release has no features: name none' END,
        (SELECT string_agg(format('; and, if you like, its %s, %s', c.key, c.value), '' ORDER BY c.key) FROM jsonb_each_text(dp_int.known_columns(r)) AS c));
  END IF;
  FOREACH f IN ARRAY names LOOP
    v := p_features -> f;
    IF jsonb_typeof(v) IN ('array', 'object') THEN
      RAISE EXCEPTION 'feature "%" must be one value, not %', f, dp_int.excerpt(v::text) USING ERRCODE = '22023', HINT = 'Give a number, or of a category the name of a level.';
    ELSIF asked -> 'categories' ? f THEN
      more := dp_int.level_values(asked -> 'categories' -> f, coalesce(asked #> ARRAY['where_level', f], asked -> 'categories' -> f), v);
    ELSIF v IN ('"false"', '"true"') AND dp_int.is_boolean((SELECT d.relid FROM dp_int.dataset d WHERE d.id = r.dataset), f::name) THEN
      more := ARRAY[(v = '"true"')::int];  -- in quotes, as groups are shown
    ELSE
      more := ARRAY[dp_int.feature_number(f, v)];
    END IF;
    row_values := row_values || more;
  END LOOP;
  RETURN row_values;
END $$;

-- The indicator values of a category for its coefficients: 1 for the value's level, 0 for the others,
-- without the first level of the request (the reference); NULL where the value is at none of the
-- request's levels.
CREATE OR REPLACE FUNCTION dp_int.level_values(p_levels jsonb, p_left jsonb, p_value jsonb) RETURNS float8[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(CASE WHEN p_left ? own.level THEN (l.level = own.level)::int::float8 END ORDER BY l.n)
    FROM jsonb_array_elements_text(p_left) WITH ORDINALITY AS l(level, n),
         LATERAL (SELECT CASE jsonb_typeof(p_value) WHEN 'number' THEN trim_scale(p_value::numeric)::text ELSE p_value #>> '{}' END) AS given(value),
         LATERAL (SELECT CASE WHEN p_levels ? given.value THEN given.value WHEN given.value IS NOT NULL AND p_levels ? '*' THEN '*' END) AS own(level)
   WHERE l.n > 1
$$;

CREATE OR REPLACE FUNCTION public.dp_predict(release uuid, features jsonb) RETURNS float8
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_predict.release);
BEGIN
  IF dp_predict.features IS NULL THEN
    RETURN NULL;
  ELSIF r.parameters ? 'by' THEN
    RETURN dp_int.prediction(r, dp_int.group_named(r, dp_predict.features), dp_int.feature_values(r, dp_predict.features), dp_int.known_part(r, dp_predict.features));
  END IF;
  RETURN dp_int.prediction(r, '', dp_int.feature_values(r, dp_predict.features), dp_int.known_part(r, dp_predict.features));
END $$;
COMMENT ON FUNCTION public.dp_predict(uuid, jsonb) IS
  'The same with features by name, for instance {"age": 40, "region": "south"}: of a category its level, also of the one that makes a release''s groups. They may name the columns of offset and exposure too. NULL where a value is null or of no level.';

-- Without this overload features written as a literal would match both float8[] and jsonb.
CREATE OR REPLACE FUNCTION public.dp_predict(release uuid, features text) RETURNS float8
LANGUAGE sql STABLE
RETURN CASE WHEN strpos(features, ':') > 0 THEN public.dp_predict(release, features::jsonb) ELSE public.dp_predict(release, features::float8[]) END;
COMMENT ON FUNCTION public.dp_predict(uuid, text) IS 'The same for features written as text, an array or a JSON object.';

CREATE OR REPLACE FUNCTION public.dp_predict(release text, features text) RETURNS float8
LANGUAGE sql STABLE
RETURN public.dp_predict(dp.release_of(release), features);
COMMENT ON FUNCTION public.dp_predict(text, text) IS 'The same for release and features written as text.';
GRANT EXECUTE ON FUNCTION public.dp_coef, public.dp_predict(float8[], float8[]), public.dp_predict(uuid, float8[]), public.dp_predict(text, float8[]),
  public.dp_predict(uuid, jsonb), public.dp_predict(uuid, text), public.dp_predict(text, text), dp.linear_predictor, dp.release_of, dp.no_release TO dp_analyst, dp_admin;
