-- Fits of each group: one request, one charge and one release, whose coefficients carry the name of their
-- group.

-- The name of a coefficient beside those of other groups. p_by: the category that makes the groups, from
-- the release's parameters; NULL where there are no groups.
CREATE OR REPLACE FUNCTION dp_int.full_term(p_by text, p_grp text, p_term text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_by IS NULL THEN p_term ELSE p_by || '=' || p_grp || ':' || p_term END $$;

-- The data set with the levels of the column that makes the groups: those of a boolean column that is no category are known.
CREATE OR REPLACE FUNCTION dp_int.with_levels_of(d dp_int.dataset, p_by text) RETURNS dp_int.dataset
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_by = ANY ((d.target || d.features)::text[]) AND NOT d.categories ? p_by AND dp_int.is_boolean(d.relid, p_by::name) THEN
    d.categories := d.categories || jsonb_build_object(p_by, '["false", "true"]'::jsonb);
  END IF;
  RETURN d;
END $$;

-- Raises where the column for groups has no levels, or is a column of the fit itself, or gives two coefficients one name.
CREATE OR REPLACE FUNCTION dp_int.check_by(d dp_int.dataset, p_columns name[], p_by text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  able text;
  twice text;
BEGIN
  IF p_by IS NULL THEN
    RETURN;
  ELSIF NOT d.categories ? p_by THEN
    able := (SELECT string_agg(n, ', ' ORDER BY n) FROM (SELECT jsonb_object_keys(d.categories) UNION SELECT c FROM unnest(d.target || d.features) AS c WHERE dp_int.is_boolean(d.relid, c)) AS a(n));
    RAISE EXCEPTION 'groups need a registered category or boolean column, and "%" is none of data set "%"', dp_int.excerpt(p_by), d.name
      USING ERRCODE = '42703', HINT = CASE WHEN able IS NULL THEN 'It has none: a steward registers a category and its levels with dp_register(..., categories => ...), or with dp_set_categories.'
        ELSE format('Such columns: %s.', dp_int.excerpt(able)) END || ' No privacy budget was spent.';
  ELSIF p_by::name = ANY (p_columns) THEN
    RAISE EXCEPTION '"%" cannot make the groups and be target or feature too', p_by
      USING ERRCODE = '22023', HINT = format('Within a group it is the same for everybody. Name %s. No privacy budget was spent.',
        CASE WHEN p_columns[1] = p_by::name THEN 'another target' ELSE 'the features without it: ' || dp_int.excerpt(format('features => %L', array_remove(p_columns[2:], p_by::name))) END);
  ELSIF strpos(d.categories ->> p_by, ':') > 0 THEN  -- where no level has one, names differ
    SELECT dp_int.full_term(p_by, l.level, t.term) INTO twice
      FROM jsonb_array_elements_text(d.categories -> p_by) AS l(level),
           LATERAL (SELECT '(intercept)' UNION ALL SELECT c::text FROM unnest(p_columns[2:]) AS c WHERE NOT d.categories ? c::text
                    UNION ALL SELECT c || '=' || v FROM unnest(p_columns[2:]) AS c, jsonb_array_elements_text(d.categories -> c::text) AS v) AS t(term)
     GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'two coefficients would be called "%"', dp_int.excerpt(twice)
        USING ERRCODE = '22023', HINT = 'A coefficient of a group is called column=level:term. Leave one of the two features out, or show it under another name in a view. No privacy budget was spent.';
    END IF;
  END IF;
END $$;

-- Options with the category that makes the groups.
CREATE OR REPLACE FUNCTION dp_int.with_groups(p_options jsonb, p_by name) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  p_options := coalesce(p_options, '{}');
  IF p_by IS NULL THEN
    RAISE EXCEPTION 'by must name a registered category or boolean column, not NULL'
      USING ERRCODE = '22023', HINT = 'See categories in dp.datasets. The functions without _by make one fit of all rows. No privacy budget was spent.';
  ELSIF jsonb_typeof(p_options) <> 'object' THEN
    RETURN p_options;  -- dp_int.check_options raises the error
  ELSIF p_options ? 'by' AND p_options ->> 'by' IS DISTINCT FROM p_by::text THEN
    RAISE EXCEPTION 'by is given twice, as "%" and among the options as %', p_by, dp_int.excerpt((p_options -> 'by')::text)
      USING ERRCODE = '22023', HINT = 'Give it once. No privacy budget was spent.';
  END IF;
  RETURN p_options || jsonb_build_object('by', p_by);
END $$;

-- The content of a release by groups.
CREATE OR REPLACE FUNCTION dp_int.groups(p_release uuid) RETURNS TABLE(grp text, term text, coef float8, share float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT c.grp, c.term, c.coef, c.share FROM dp_int.coefficient c WHERE c.release = p_release ORDER BY c.position;
END $$;

-- Runs over the loopback, because the caller's own snapshot may be too old to show the release; names are
-- passed as a JSON list.
CREATE OR REPLACE FUNCTION dp_int.fetch_groups(p_caller name, p_release uuid) RETURNS TABLE(names text, numbers float8[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.refuse_ungranted(p_caller, p_release);
  RETURN QUERY SELECT jsonb_build_array(g.grp, g.term)::text, ARRAY[g.coef, g.share] FROM dp_int.groups(p_release) g;
END $$;

-- One more function for each model that fits by groups; they differ in the name, and those of pure models
-- have neither delta nor the arguments of gradient methods.
DO $do$
DECLARE
  m dp_int.model;
  name name;
BEGIN
  FOR m IN SELECT x.* FROM dp_int.model x JOIN dp_int.option o ON o.model = x.name AND o.name = 'by' LOOP
    name := format('dp_%s_regress_by', m.name);
    EXECUTE format($fn$
CREATE OR REPLACE FUNCTION public.%1$I(dataset text, by name, eps float8, %3$s target name DEFAULT NULL, features name[] DEFAULT NULL,
                                       intercept boolean DEFAULT true, %4$s options jsonb DEFAULT '{}', where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL)
RETURNS TABLE(grp text, term text, coef float8, share float8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
BEGIN
  RETURN QUERY SELECT a.label::jsonb ->> 0, a.label::jsonb ->> 1, a.numbers[1], a.numbers[2]
    FROM dp_int.answer(dp.caller(), %2$L, %1$I.dataset, %1$I.eps, %5$s, %1$I.target, %1$I.features, %1$I.intercept,
                       dp_int.with_groups(%6$s, %1$I.by), true) a;
END $$$fn$, name, m.name,
      CASE WHEN m.delta > 0 THEN 'delta float8 DEFAULT NULL,' END,
      CASE WHEN m.delta > 0 THEN $fn$penalty text DEFAULT 'none', lambda float8 DEFAULT 0, method text DEFAULT 'auto',$fn$ END,
      CASE WHEN m.delta > 0 THEN format('%I.delta', name) ELSE 'NULL' END,
      format(CASE WHEN m.delta > 0 THEN 'dp_int.with_arguments(dp_int.with_over(dp_int.with_where(%1$I.options, %1$I.where_level), %1$I.over), %1$I.method, %1$I.penalty, %1$I.lambda)'
        ELSE 'dp_int.with_over(dp_int.with_where(%1$I.options, %1$I.where_level), %1$I.over)' END, name));
    EXECUTE format('COMMENT ON FUNCTION public.%I IS %L', name, 'A fit of each group for the price of one: by names a registered category or boolean column, a group is the rows of a level. ' || m.description);
    EXECUTE format('GRANT EXECUTE ON FUNCTION public.%I TO dp_analyst', name);
  END LOOP;
END $do$;
GRANT EXECUTE ON FUNCTION dp_int.fetch_groups TO dp_loopback;

-- Refuses a release by groups where the coefficients of one fit are needed.
CREATE OR REPLACE FUNCTION dp_int.refuse_groups(r dp_int.release) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF r.parameters ? 'by' THEN
    RAISE EXCEPTION 'release % has a fit of each group, by "%"', r.id, r.parameters ->> 'by'
      USING ERRCODE = '22023', HINT = format('Give the features by name, with the group among them: a JSON object as in {"%s": %s, ...}.', r.parameters ->> 'by',
        (SELECT to_jsonb(c.grp) FROM dp_int.coefficient c WHERE c.release = r.id ORDER BY c.position LIMIT 1));
  END IF;
END $$;

-- The group to which features given by name belong, NULL where the given level is not one.
CREATE OR REPLACE FUNCTION dp_int.group_named(r dp_int.release, p_features jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  category CONSTANT text := r.parameters ->> 'by';
  asked CONSTANT jsonb := (SELECT j.request FROM dp_int.job j WHERE j.id = r.job);
  levels CONSTANT jsonb := asked -> 'categories' -> category;
  fitted CONSTANT jsonb := coalesce(asked #> ARRAY['where_level', category], levels);
  given text;
BEGIN
  IF jsonb_typeof(p_features) <> 'object' OR NOT p_features ? category THEN
    RAISE EXCEPTION 'no value is given for "%", by which this release has groups', category
      USING ERRCODE = '42703', HINT = format('Name the group among the features: {"%s": %s, ...}.', category, fitted -> 0);
  ELSIF jsonb_typeof(p_features -> category) IN ('array', 'object') THEN
    RAISE EXCEPTION 'the group "%" must be one value, not %', category, dp_int.excerpt((p_features -> category)::text)
      USING ERRCODE = '22023', HINT = format('Give the name of a level, as in {"%s": %s, ...}.', category, fitted -> 0);
  END IF;
  given := CASE jsonb_typeof(p_features -> category) WHEN 'number' THEN trim_scale((p_features ->> category)::numeric)::text ELSE p_features ->> category END;
  given := CASE WHEN levels ? given THEN given WHEN given IS NOT NULL AND levels ? '*' THEN '*' END;
  RETURN CASE WHEN fitted ? given THEN given END;
END $$;
