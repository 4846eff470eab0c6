-- Columns whose values are levels, not numbers. The steward registers the levels from public knowledge: a
-- level that was found in the data could be one person's.

-- The levels of a column in canonical form: as text, in their order. Raises where they cannot be levels
-- of the column.
CREATE OR REPLACE FUNCTION dp_int.canonical_levels(p_relid oid, p_column text, p_levels jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kind pg_catalog.pg_type;
  deterministic boolean;
  levels text[];
  bad text;
BEGIN
  SELECT t.* INTO kind
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = dp_int.domain_base(a.atttypid)
   WHERE a.attrelid = p_relid AND a.attname::text = p_column AND a.attnum > 0 AND NOT a.attisdropped;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'category "%" is no column of %', dp_int.excerpt(p_column), p_relid::regclass
      USING ERRCODE = '42703', HINT = dp_int.its_columns(p_relid);
  ELSIF NOT dp_int.has_levels(kind.oid) THEN
    RAISE EXCEPTION 'column "%" has type %, which cannot be a category', p_column, format_type(kind.oid, NULL)
      USING ERRCODE = '22023', HINT = 'Categories are text, varchar, char, enum, boolean, smallint, integer or bigint columns.';
  END IF;
  SELECT coalesce(bool_and(c.collisdeterministic), true) INTO deterministic
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
   WHERE a.attrelid = p_relid AND a.attname::text = p_column;
  IF NOT deterministic THEN
    RAISE EXCEPTION 'column "%" has a nondeterministic collation, and cannot be a category', p_column
      USING ERRCODE = '22023', HINT = 'Levels are compared byte by byte, and this collation takes different bytes for equal. Let its owner give the column another collation, for instance COLLATE "C".';
  ELSIF (kind.typtype = 'e' OR kind.typcategory = 'S') AND getdatabaseencoding() <> 'UTF8' THEN
    RAISE EXCEPTION 'column "%" is text in %, and cannot be a category', p_column, getdatabaseencoding()
      USING ERRCODE = '22023', HINT = 'Categories of text need a database with encoding UTF8: to convert a value could fail, and that would tell of it.';
  END IF;
  IF p_levels = '"enum"' AND kind.typtype = 'e' THEN
    levels := ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = kind.oid ORDER BY e.enumsortorder);
  ELSIF jsonb_typeof(p_levels) <> 'array' OR EXISTS (SELECT FROM jsonb_array_elements(p_levels) AS l WHERE jsonb_typeof(l) NOT IN ('string', 'number', 'boolean')) THEN
    RAISE EXCEPTION 'the levels of category "%" must be a list of strings, numbers or booleans, not %', p_column, dp_int.excerpt(p_levels::text)
      USING ERRCODE = '22023', HINT = 'For instance {"region": ["north", "south", "*"]}: the first is the reference, "*" every other value. For an enum column "enum" means all of its labels.';
  ELSE
    levels := ARRAY(SELECT CASE WHEN kind.oid = 'bpchar'::regtype THEN rtrim(l.level, ' ') ELSE l.level END
                      FROM jsonb_array_elements_text(p_levels) WITH ORDINALITY AS l(level, n) ORDER BY l.n);
  END IF;
  SELECT l INTO bad FROM unnest(levels) AS l
   WHERE l <> '*' AND (octet_length(l) > 200 OR l IS DISTINCT FROM dp_int.canonical_level(kind.oid, l)) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'category "%" cannot have the level "%"', p_column, dp_int.excerpt(bad)
      USING ERRCODE = '22023', HINT = CASE WHEN kind.typtype = 'e' THEN format('Its labels are %s.', (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = kind.oid))
        WHEN kind.oid = 'boolean'::regtype THEN 'Levels of a boolean column are true and false.'
        WHEN kind.typcategory = 'N' THEN format('Levels of this column are whole numbers of type %s, without leading zeros.', format_type(kind.oid, NULL))
        ELSE 'A level has 200 bytes at most.' END;
  END IF;
  SELECT l INTO bad FROM unnest(levels) AS l WHERE l = ANY (dp_int.level_placeholders()) AND kind.typtype <> 'e' LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'category "%" has "%" where a hint leaves its levels to you', p_column, bad
      USING ERRCODE = '22023', HINT = 'In place of it name the levels that there are, from public knowledge, never read from the table; "*" is every other value.';
  END IF;
  SELECT l INTO bad FROM unnest(levels) AS l GROUP BY l HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'category "%" has the level "%" twice', p_column, bad
      USING ERRCODE = '22023', HINT = 'Name every level once; blanks at the end of a char column do not count.';
  ELSIF cardinality(levels) NOT BETWEEN 2 AND 256 THEN
    RAISE EXCEPTION 'category "%" has % level%; it must have 2 to 256', p_column, cardinality(levels), CASE cardinality(levels) WHEN 1 THEN '' ELSE 's' END
      USING ERRCODE = '22023', HINT = 'Name the levels that matter: the last one, "*", stands for every other value.';
  END IF;
  RETURN levels;
END $$;

-- A level in the text form that values of the type are compared with; NULL where no value can equal it.
CREATE OR REPLACE FUNCTION dp_int.canonical_level(p_kind oid, p_level text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN p_kind = 'boolean'::regtype THEN CASE WHEN p_level IN ('true', 'false') THEN p_level END
    WHEN p_kind IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN
      CASE WHEN p_level ~ '^-?[0-9]{1,19}$' AND p_level::numeric BETWEEN -2::numeric ^ (8 * t.typlen - 1) AND 2::numeric ^ (8 * t.typlen - 1) - 1 THEN (p_level::numeric)::text END
    WHEN t.typtype = 'e' THEN (SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = p_kind AND e.enumlabel::text = p_level)
    ELSE p_level END
    FROM pg_catalog.pg_type t WHERE t.oid = p_kind
$$;

-- The categories of a registration in canonical form. Raises where they cannot be those of the relation,
-- or where two coefficients would have one name.
CREATE OR REPLACE FUNCTION dp_int.canonical_categories(p_relid oid, p_columns name[], p_categories jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
  clean jsonb := '{}';
  total int;
  twice text;
BEGIN
  IF p_categories IS NULL THEN
    RETURN clean;
  ELSIF jsonb_typeof(p_categories) <> 'object' THEN
    RAISE EXCEPTION 'categories must be a JSON object, not %', dp_int.excerpt(p_categories::text)
      USING ERRCODE = '22023', HINT = 'For instance {"region": ["north", "south", "*"], "sex": "enum"}.';
  END IF;
  FOR given IN SELECT key, value FROM jsonb_each(p_categories) LOOP
    clean := clean || jsonb_build_object(given.key, dp_int.canonical_levels(p_relid, given.key, given.value));
  END LOOP;
  SELECT sum(jsonb_array_length(value)) INTO total FROM jsonb_each(clean);
  IF total > 1000 THEN
    RAISE EXCEPTION 'the categories have % levels; all together they may have 1000', total
      USING ERRCODE = '22023', HINT = 'Name the levels that matter: "*" stands for every other value.';
  END IF;
  SELECT t INTO twice
    FROM (SELECT DISTINCT c::text FROM unnest(p_columns) AS c  -- check_columns tells of a column that is named twice
          UNION ALL SELECT key || '=' || level FROM jsonb_each(clean), jsonb_array_elements_text(value) AS level) AS terms(t)
   GROUP BY t HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'two coefficients would be called "%"', dp_int.excerpt(twice)
      USING ERRCODE = '22023', HINT = 'A level''s coefficient is called column=level. Rename the column, or show it under another name in a view.';
  END IF;
  RETURN clean;
END $$;

-- Raises where a column has the name of a coefficient that is there already.
CREATE OR REPLACE FUNCTION dp_int.refuse_intercept(p_columns name[], p_unspent text DEFAULT '') RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF '(intercept)' = ANY (p_columns) THEN
    RAISE EXCEPTION 'two coefficients would be called "(intercept)"'
      USING ERRCODE = '22023', HINT = 'Rename the column, or show it under another name in a view.' || p_unspent;
  END IF;
END $$;

-- The part of a request that fixes the levels of its columns and the levels to which where_level
-- restricts it; empty where no column is a category, so that the hashes of such requests are independent
-- of categories.
CREATE OR REPLACE FUNCTION dp_int.levels_of_request(d dp_int.dataset, p_columns name[], p_where jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN count(*) = 0 THEN '{}' ELSE jsonb_build_object('categories', jsonb_object_agg(key, value)) END
      || CASE WHEN p_where = '{}' THEN '{}' ELSE jsonb_build_object('where_level', p_where) END
    FROM jsonb_each(d.categories)
   WHERE key = ANY (p_columns::text[]) OR p_where ? key
$$;

-- The levels to which where_level restricts a request, by column and in the order of the registration.
-- Raises where they are not levels.
CREATE OR REPLACE FUNCTION dp_int.canonical_where(d dp_int.dataset, p_where jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
  clean jsonb := '{}';
  stray text;
BEGIN
  IF p_where IS NULL THEN
    RETURN clean;
  ELSIF jsonb_typeof(p_where) <> 'object' THEN
    RAISE EXCEPTION 'where_level must be a JSON object, not %', dp_int.excerpt(p_where::text)
      USING ERRCODE = '22023', HINT = 'For instance {"region": ["south"]}. No privacy budget was spent.';
  END IF;
  FOR given IN SELECT key, value FROM jsonb_each(p_where) LOOP
    IF NOT d.categories ? given.key THEN
      RAISE EXCEPTION 'where_level names "%", which is no category of data set "%"', dp_int.excerpt(given.key), d.name
        USING ERRCODE = '42703', HINT = format('%s. No privacy budget was spent.', CASE
          WHEN given.key = ANY ((d.target || d.features)::text[]) AND dp_int.is_boolean(d.relid, given.key::name) THEN format('A boolean column has levels where a steward registers it as a category: categories => %L', jsonb_build_object(given.key, '["false", "true"]'::jsonb) || d.categories)
          WHEN d.categories = '{}' THEN 'It has none: a steward registers columns with their levels'
          ELSE (SELECT 'Categories are ' || string_agg(c, ', ' ORDER BY c) FROM jsonb_object_keys(d.categories) AS c) END);
    ELSIF jsonb_typeof(given.value) <> 'array' OR given.value = '[]' THEN
      RAISE EXCEPTION 'where_level needs a list of levels of "%", not %', given.key, dp_int.excerpt(given.value::text)
        USING ERRCODE = '22023', HINT = format('For instance %s. No privacy budget was spent.', dp_int.excerpt(jsonb_build_object(given.key,
          jsonb_build_array(CASE WHEN d.categories -> given.key @> given.value AND given.value <> '[]' THEN given.value ELSE d.categories -> given.key -> 0 END))::text));
    END IF;
    SELECT l #>> '{}' INTO stray FROM jsonb_array_elements(given.value) AS l WHERE NOT d.categories -> given.key ? coalesce(l #>> '{}', '') OR jsonb_typeof(l) IN ('null', 'array', 'object') LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'category "%" has no level %', given.key, coalesce('"' || dp_int.excerpt(stray) || '"', 'null')
        USING ERRCODE = '22023', HINT = format('Its levels are %s. No privacy budget was spent.', dp_int.excerpt((d.categories -> given.key)::text));
    END IF;
    clean := clean || jsonb_build_object(given.key, (SELECT jsonb_agg(l ORDER BY n) FROM jsonb_array_elements(d.categories -> given.key) WITH ORDINALITY AS t(l, n)
                                                      WHERE l #>> '{}' IN (SELECT jsonb_array_elements_text(given.value))));
  END LOOP;
  RETURN clean;
END $$;

-- Raises where where_level leaves features one level, so that they would be constant.
CREATE OR REPLACE FUNCTION dp_int.check_left_levels(p_features name[], p_where jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  single CONSTANT name[] := ARRAY(SELECT f FROM unnest(p_features) WITH ORDINALITY AS u(f, n) WHERE jsonb_array_length(p_where -> f::text) = 1 ORDER BY n);
  others CONSTANT name[] := ARRAY(SELECT f FROM unnest(p_features) WITH ORDINALITY AS u(f, n) WHERE NOT f = ANY (single) ORDER BY n);
BEGIN
  IF single <> '{}' THEN
    RAISE EXCEPTION 'where_level leaves % one level', CASE cardinality(single) WHEN 1 THEN format('feature "%s"', single[1]) ELSE format('each of the features %s', dp_int.listed(single)) END
      USING ERRCODE = '22023', HINT = format('What has one level is the same in all rows that count. Name the other features: %s. No privacy budget was spent.', dp_int.excerpt(format('features => %L', others)));
  END IF;
END $$;

-- Options with the argument where_level, which is a key of options when submitted.
CREATE OR REPLACE FUNCTION dp_int.with_where(p_options jsonb, p_where jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_where IS NULL OR jsonb_typeof(p_options) <> 'object' THEN
    RETURN p_options;
  ELSIF p_options ? 'where_level' AND p_options -> 'where_level' <> p_where THEN
    RAISE EXCEPTION 'where_level is given twice, as % and among the options as %', dp_int.excerpt(p_where::text), dp_int.excerpt((p_options -> 'where_level')::text)
      USING ERRCODE = '22023', HINT = 'Give it once. No privacy budget was spent.';
  END IF;
  RETURN coalesce(p_options, '{}') || jsonb_build_object('where_level', p_where);
END $$;

-- The number of coefficients of the features, without the intercept. p_categories: the levels of each
-- category in the request.
CREATE OR REPLACE FUNCTION dp_int.slopes(p_features jsonb, p_categories jsonb) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(sum(CASE WHEN p_categories ? f THEN jsonb_array_length(p_categories -> f) - 1 ELSE 1 END), 0)::int FROM jsonb_array_elements_text(p_features) AS f
$$;

CREATE OR REPLACE FUNCTION public.dp_set_categories(dataset text, categories jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.locked_dataset(dp_set_categories.dataset);
  clean jsonb;
  known jsonb;   -- the labels, in the form that these categories have
  whole text;    -- the statement that keeps the categories that are left out
  omitted text;
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.refuse_gone(d);
  IF EXISTS (SELECT FROM dp_int.job j WHERE j.dataset = d.id AND j.charge IS NOT NULL) THEN
    RAISE EXCEPTION 'the categories of data set "%" are fixed since its first charge', d.name
      USING ERRCODE = '55000', HINT = 'What was released speaks of these levels. dp_unregister the data set and dp_register it with others: what was spent stays spent. Nothing was changed.';
  END IF;
  clean := dp_int.canonical_categories(d.relid, d.target || d.features, dp_set_categories.categories);
  whole := format('SELECT dp_set_categories(%L, %L);', d.name, d.categories || clean);
  SELECT c.name INTO omitted FROM dp_int.registered_columns(d.relid, d.target, d.features, '{}') c
   WHERE d.categories ? c.name::text AND NOT clean ? c.name::text AND NOT dp_int.is_number(c.kind) ORDER BY c.n LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'dp_set_categories replaces all categories: "%" is left out, and without levels no model can use it', omitted
      USING ERRCODE = '22023', HINT = format('With the levels that it has: %s Nothing was changed.', whole);
  END IF;
  PERFORM dp_int.check_columns(d.relid, d.target, d.features, d.scales, clean);
  known := dp_int.canonical_labels(d.relid, d.labels, clean);  -- a boolean column may be a category now, or be none any more
  PERFORM dp_int.check_labels(d.target, d.features, known, clean);
  UPDATE dp_int.dataset SET categories = clean, labels = known WHERE id = d.id;
  PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), jsonb_build_object('categories', clean));
  SELECT string_agg(format('"%s"', k), ', ' ORDER BY k) INTO omitted FROM jsonb_object_keys(d.categories) AS k WHERE NOT clean ? k;
  IF omitted IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: dp_set_categories replaces all categories; no longer one: %', omitted USING HINT = format('If that is not meant: %s', whole);
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_set_categories IS
  'Declares which columns of a data set are categories and their levels, for instance {"region": ["north", "south", "*"]}: public knowledge, never read from the data. Replaces what was declared, before the first charge. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_categories TO dp_admin;
