-- Descriptions of columns, and scales for them: requests whose release is a list of figures instead of
-- coefficients; their jobs are like any other.

-- Those of the given columns whose type is one of p_types, or a domain over one.
CREATE OR REPLACE FUNCTION dp_int.columns_of(p_relid oid, p_columns name[], p_types regtype[]) RETURNS name[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
    SELECT n.name
      FROM unnest(p_columns) WITH ORDINALITY AS n(name, o)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = p_relid AND a.attname = n.name
     WHERE dp_int.domain_base(a.atttypid) = ANY (p_types)
     ORDER BY n.o)
$$;

-- A request for a description, checked and made canonical. Its columns are stored as those of a fit, the
-- first as the target, so that they are read in the same way. It names no scales, because a description
-- does not depend on them. flags: the boolean columns; whole: those that are described in whole numbers,
-- integers and, in seconds, dates and timestamps. p_spends: as in dp_int.granted_dataset. p_where: the levels that count.
CREATE OR REPLACE FUNCTION dp_int.prepare_description(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_columns name[], p_fresh boolean,
                                                   p_spends boolean DEFAULT true, p_over jsonb DEFAULT NULL, p_where jsonb DEFAULT NULL) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  d dp_int.dataset;
  budget_delta float8;
  usual float8;  -- the delta of a request that gives none: what the steward has set since does not change it
  r dp_int.request;
  asked name[];
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.check_eps(p_eps);
  p_eps := dp_int.typed(p_eps);
  p_delta := dp_int.typed(p_delta);
  d := dp_int.granted_dataset(p_caller, p_dataset, p_spends);
  PERFORM dp_int.check_size(d, p_columns, '{}');
  SELECT a.delta INTO STRICT budget_delta FROM dp_int.account a WHERE a.id = d.account;
  usual := CASE WHEN budget_delta = 0 THEN 0 ELSE least(1e-6, d.default_delta::float8) END;
  r.delta := coalesce(p_delta, usual);
  IF NOT (r.delta >= 0 AND r.delta < 1) OR r.delta > 0 AND budget_delta = 0 THEN
    RAISE EXCEPTION '%', CASE WHEN budget_delta = 0 THEN format('the budget of data set "%s" has no delta: delta must be 0, not %s', d.name, p_delta)
                              ELSE format('delta must be at least 0 and below 1, not %s', p_delta) END
      USING ERRCODE = '22023',
            HINT = CASE WHEN budget_delta = 0 AND p_model = 'moments' THEN 'Second moments are released with Gaussian noise, and need one: the budget of a data set has a delta if dp_register was given one.'
                        ELSE 'Leave delta out.' END || ' No privacy budget was spent.';
  ELSIF array_ndims(p_columns) > 1 OR cardinality(p_columns) = 0 THEN
    RAISE EXCEPTION 'columns must be a list of names' USING ERRCODE = '22023', HINT = 'For instance ''{age,region}''; NULL stands for all of them. No privacy budget was spent.';
  END IF;
  PERFORM dp_int.check_registered(d, coalesce(p_columns, '{}'), 'the columns');
  asked := ARRAY(SELECT n.name FROM unnest(d.target || array_remove(d.features, d.target)) WITH ORDINALITY AS n(name, o) WHERE p_columns IS NULL OR n.name = ANY (p_columns) ORDER BY n.o);
  r.dataset := d.id;
  r.model := p_model;
  r.eps := p_eps;
  r.fresh := coalesce(p_fresh, false);
  r.body := jsonb_build_object('model', p_model, 'eps', p_eps, 'delta', r.delta, 'target', asked[1], 'features', asked[2:], 'intercept', false,
    'flags', dp_int.columns_of(d.relid, asked, '{boolean}'), 'whole', dp_int.columns_of(d.relid, asked, '{smallint,integer,bigint,date,timestamp,timestamptz}'))
            || dp_int.levels_of_request(d, asked, dp_int.canonical_where(d, p_where)) || dp_int.over_of_request(dp_int.canonical_over(d, p_over));
  IF p_model = 'scales' AND NOT EXISTS (SELECT FROM unnest(asked) AS n WHERE NOT r.body -> 'flags' ? n AND NOT d.categories ? n) THEN
    RAISE EXCEPTION 'only columns of numbers have a scale, and % none', array_to_string(asked, ', ') || CASE cardinality(asked) WHEN 1 THEN ' is' ELSE ' are' END
      USING ERRCODE = '22023', HINT = 'Booleans and categories need no scale; dp_describe tells how often their values are there. No privacy budget was spent.';
  END IF;
  r.hash := sha256(convert_to(r.body::text, 'UTF8'));
  IF p_model <> 'moments' THEN  -- whose request is not complete
    PERFORM dp_int.refuse_large_delta(d, r, CASE WHEN p_delta IS NULL THEN usual END);
  END IF;
  RETURN r;
END $$;

-- The same for dp_submit and dp_explain, which have the arguments of a fit: target and features name the
-- columns.
CREATE OR REPLACE FUNCTION dp_int.prepare_submitted_description(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name, p_features name[],
                                                             p_intercept boolean, p_options jsonb, p_spends boolean) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  options CONSTANT jsonb := coalesce(p_options, '{}');
  known CONSTANT text[] := '{fresh,over,where_level}';
BEGIN
  IF NOT coalesce(p_intercept, true) THEN
    RAISE EXCEPTION 'a description has no intercept to leave out' USING ERRCODE = '22023', HINT = 'No privacy budget was spent.';
  ELSIF jsonb_typeof(options) <> 'object' OR options - known <> '{}' OR jsonb_typeof(coalesce(options -> 'fresh', 'true')) <> 'boolean' THEN
    RAISE EXCEPTION 'model "%" has no options but %, of which fresh is true or false: not %', p_model, array_to_string(known, ', '), dp_int.excerpt(options::text)
      USING ERRCODE = '22023', HINT = 'No privacy budget was spent.';
  END IF;
  RETURN dp_int.prepare_description(p_caller, p_model, p_dataset, p_eps, p_delta, CASE WHEN p_target IS NULL THEN p_features ELSE p_target || ARRAY(SELECT unnest(p_features)) END,
                                    coalesce(options -> 'fresh' = 'true', false), p_spends, options -> 'over', options -> 'where_level');
END $$;

-- The part of a synchronous description that runs over the loopback.
CREATE OR REPLACE FUNCTION dp_int.enqueue_description(p_id uuid, p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_columns name[],
                                                   p_fresh boolean, p_where jsonb, p_over daterange, p_from jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  RETURN dp_int.enqueue_request(p_id, p_caller, dp_int.prepare_description(p_caller, p_model, p_dataset, p_eps, p_delta, p_columns, p_fresh, true, dp_int.window_json(p_over), p_where));
END $$;

-- The content of a description in the form that call_sidecar passes on: texts as a JSON array, and
-- numbers.
CREATE OR REPLACE FUNCTION dp_int.description(p_release uuid) RETURNS TABLE(label text, numbers float8[])
LANGUAGE sql STABLE AS $$
  SELECT e.label, e.numbers
    FROM (SELECT f.position, jsonb_build_array(f.column_name, f.statistic)::text, ARRAY[f.value, f.ci_low, f.ci_high] FROM dp_int.column_statistic f WHERE f.release = p_release
          UNION ALL
          SELECT s.position, jsonb_build_array(s.column_name, s.note)::text, ARRAY[s.scale, s.center] FROM dp_int.suggested_scale s WHERE s.release = p_release) AS e(position, label, numbers)
   ORDER BY e.position
$$;

-- Runs over the loopback, because the caller's own snapshot may be too old to show the release.
CREATE OR REPLACE FUNCTION dp_int.fetch_description(p_caller name, p_release uuid) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.refuse_ungranted(p_caller, p_release);
  RETURN QUERY SELECT * FROM dp_int.description(p_release);
END $$;

-- p_delta: as the caller gave it, for what a request without one may have (dp_int.refuse_large_delta).
CREATE OR REPLACE FUNCTION dp_int.describe(p_caller name, r dp_int.request, p_dataset text, p_delta float8, p_columns name[], p_where jsonb, p_over daterange) RETURNS TABLE(label text, numbers float8[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept CONSTANT uuid := CASE WHEN NOT r.fresh THEN dp_int.kept_release(r.dataset, r.hash) END;
  job CONSTANT uuid := gen_random_uuid();
BEGIN
  IF kept IS NOT NULL THEN
    RETURN QUERY SELECT * FROM dp_int.description(kept);
    PERFORM dp_int.tell_kept(kept);
    PERFORM dp_int.tell_missing(kept);
    RETURN;
  END IF;
  PERFORM dp_int.warn(r);
  RETURN QUERY
  SELECT c.label, c.numbers
    FROM dp_int.call_sidecar(p_caller, job, format('SELECT dp_int.enqueue_description(%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)', job, p_caller, r.model, p_dataset, r.eps, p_delta,
                                                   p_columns, r.fresh, p_where, p_over, dp_int.here()),
                             'SELECT label, numbers FROM dp_int.fetch_description(%L, %L)') AS c;
  PERFORM dp_int.tell_missing(dp_int.new_release(r));
END $$;

-- The number of decimals shown of a statistic and its interval: two digits of its standard error, taken
-- as a quarter of the interval's width, or where there is none five significant digits of the statistic. A mean
-- has none where its tail is heavy, and then two digits of half of p_spread, the distance between the quartiles. A statistic
-- that equals an end of its interval, as a quartile that many rows equal, keeps the digits with which it was
-- released, which are few.
CREATE OR REPLACE FUNCTION dp_int.decimals_described(p_statistic text, p_value float8, p_low float8, p_high float8, p_spread float8) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(CASE WHEN p_low < p_high THEN dp_int.decimals(p_value, (p_high - p_low) / 4) WHEN p_statistic = 'mean' THEN dp_int.decimals(p_value, p_spread / 2) ELSE dp_int.decimals(p_value, NULL) + 2 END,
                  CASE WHEN p_value IN (p_low, p_high) THEN scale(p_value::numeric) END)
$$;

-- A statistic and its interval, rounded so. The interval of a median may reach far to one side alone, where noise hides the
-- quartiles, and would take all digits of the others with it: there each end has those of its own side, and the
-- statistic those of the narrower one. (That of a share may end at 0 or 1, close to it, for it ends there in any case.) The
-- ends of a quartile are rounded outward: there may be a value that many rows have.
CREATE OR REPLACE FUNCTION dp_int.rounded_described(p_statistic text, p_numbers float8[], p_spread float8) RETURNS float8[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_statistic IN ('quartile_1', 'median', 'quartile_3') AND narrower > 0 AND wider > 20 * narrower
              THEN ARRAY[dp_int.rounded(v, dp_int.decimals(v, narrower / 2)), dp_int.rounded_to(low, dp_int.decimals(low, (v - low) / 2), false), dp_int.rounded_to(high, dp_int.decimals(high, (high - v) / 2), true)]
              WHEN p_statistic IN ('quartile_1', 'median', 'quartile_3')
              THEN ARRAY[dp_int.rounded(v, d.decimals), dp_int.rounded_to(low, d.decimals, false), dp_int.rounded_to(high, d.decimals, true)]
              ELSE ARRAY[dp_int.rounded(v, d.decimals), dp_int.rounded(low, d.decimals), dp_int.rounded(high, d.decimals)] END
    FROM (SELECT p_numbers[1], p_numbers[2], p_numbers[3], least(p_numbers[1] - p_numbers[2], p_numbers[3] - p_numbers[1]), greatest(p_numbers[1] - p_numbers[2], p_numbers[3] - p_numbers[1])) AS n(v, low, high, narrower, wider),
         LATERAL (SELECT dp_int.decimals_described(p_statistic, v, low, high, p_spread)) AS d(decimals)
$$;

CREATE OR REPLACE FUNCTION public.dp_describe(dataset text, eps float8, columns name[] DEFAULT NULL, delta float8 DEFAULT NULL, fresh boolean DEFAULT false,
                                              where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL)
RETURNS TABLE(column_name text, statistic text, value float8, ci_low float8, ci_high float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 30
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
DECLARE
  r CONSTANT dp_int.request := dp_int.prepare_description(dp.caller(), 'describe', dp_describe.dataset, dp_describe.eps, dp_describe.delta, dp_describe.columns, dp_describe.fresh,
                                                              true, dp_int.window_json(dp_describe.over), dp_describe.where_level);
BEGIN
  RETURN QUERY
  SELECT d.label ->> 0, d.label ->> 1, s.numbers[1], s.numbers[2], s.numbers[3]
    FROM (SELECT c.position, c.label::jsonb AS label, c.numbers,
                 max(c.numbers[1]) FILTER (WHERE c.label::jsonb ->> 1 = 'quartile_3') OVER columns - max(c.numbers[1]) FILTER (WHERE c.label::jsonb ->> 1 = 'quartile_1') OVER columns AS spread
            FROM dp_int.describe(dp.caller(), r, dp_describe.dataset, dp_describe.delta, dp_describe.columns, dp_describe.where_level, dp_describe.over) WITH ORDINALITY AS c(label, numbers, position)
          WINDOW columns AS (PARTITION BY c.label::jsonb ->> 0)) AS d,
         LATERAL (SELECT dp_int.rounded_described(d.label ->> 1, d.numbers, d.spread)) AS s(numbers)
   ORDER BY d.position;
END $$;
COMMENT ON FUNCTION public.dp_describe IS
  'What columns hold: usable values, mean, median and quartiles, or the share of true, and complete rows, with 95 % intervals, rounded to what they leave meaningful; dp.descriptions has all digits, and says why where there is no interval. It is charged like a fit; the same again returns the same at no cost.';

-- The entry of dp_set_scales for a scale and a centre.
CREATE OR REPLACE FUNCTION dp_int.scale_entry(p_scale float8, p_center float8) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_center = 0 THEN to_jsonb(p_scale) ELSE jsonb_build_object('center', p_center, 'scale', p_scale) END $$;

-- COMMENT and GRANT name this function with its argument types: during an upgrade the signature of an
-- older version exists as well, until the installation drops it.
CREATE OR REPLACE FUNCTION public.dp_scales(dataset text, eps float8, delta float8 DEFAULT NULL, columns name[] DEFAULT NULL, where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL)
RETURNS TABLE(column_name text, suggested_scale float8, suggested_center float8, note text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
DECLARE
  r CONSTANT dp_int.request := dp_int.prepare_description(dp.caller(), 'scales', dp_scales.dataset, dp_scales.eps, dp_scales.delta, dp_scales.columns, false,
                                                              true, dp_int.window_json(dp_scales.over), dp_scales.where_level);
  seen jsonb := '{}';
BEGIN
  FOR column_name, suggested_scale, suggested_center, note IN
    SELECT d.label::jsonb ->> 0, d.numbers[1], d.numbers[2], d.label::jsonb ->> 1
      FROM dp_int.describe(dp.caller(), r, dp_scales.dataset, dp_scales.delta, dp_scales.columns, dp_scales.where_level, dp_scales.over) AS d LOOP
    IF suggested_scale IS NOT NULL AND NOT r.body -> 'flags' ? column_name AND NOT coalesce(r.body -> 'categories' ? column_name, false) THEN
      seen := seen || jsonb_build_object(column_name, dp_int.scale_entry(suggested_scale, suggested_center));
    END IF;
    RETURN NEXT;
  END LOOP;
  column_name := NULL;
  suggested_scale := NULL;
  suggested_center := NULL;
  note := CASE seen WHEN '{}' THEN 'nothing was seen that a steward could register'
                    ELSE format('a steward registers these: SELECT dp_set_scales(%L, %L)', dp_scales.dataset, seen) END;
  RETURN NEXT;
END $$;
COMMENT ON FUNCTION public.dp_scales(text, float8, float8, name[], jsonb, daterange) IS
  'Scales for the columns of a data set, and centres for those far from 0, read from the rows with differential privacy; the last note is the statement that registers them. It is charged like a fit; the same again returns the same at no cost.';

-- reading -> done for a description, as job_publish does it for a fit. p_entries is a list of objects, of
-- figures or of scales.
CREATE OR REPLACE FUNCTION dp_int.job_publish_description(p_job uuid, p_token uuid, p_method text, p_step int, p_entries jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job := dp_int.own_job(p_job, p_token);
  new_release uuid := dp_int.insert_release(j, p_method, p_step, NULL);
BEGIN
  IF j.model = 'describe' THEN
    INSERT INTO dp_int.column_statistic (release, position, column_name, statistic, value, ci_low, ci_high, why_null)
    SELECT new_release, e.position, e.entry ->> 'column', e.entry ->> 'statistic', (e.entry ->> 'value')::float8, (e.entry ->> 'ci_low')::float8,
           (e.entry ->> 'ci_high')::float8, e.entry ->> 'why_null'
      FROM jsonb_array_elements(p_entries) WITH ORDINALITY AS e(entry, position);
  ELSE
    INSERT INTO dp_int.suggested_scale (release, position, column_name, scale, center, note)
    SELECT new_release, e.position, e.entry ->> 'column', (e.entry ->> 'scale')::float8, (e.entry ->> 'center')::float8, e.entry ->> 'note'
      FROM jsonb_array_elements(p_entries) WITH ORDINALITY AS e(entry, position);
  END IF;
  PERFORM dp_int.complete_job(j.id, new_release, dp_int.step(j, p_step));
  RETURN new_release;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.enqueue_description, dp_int.fetch_description TO dp_loopback;
GRANT EXECUTE ON FUNCTION dp_int.job_publish_description TO dp_sidecar;
GRANT EXECUTE ON FUNCTION public.dp_describe, public.dp_scales(text, float8, float8, name[], jsonb, daterange) TO dp_analyst;
