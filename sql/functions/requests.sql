-- Requests of analysts, checked and made canonical: requests of the same meaning are the same request,
-- whoever makes them and however they are submitted.

-- A text of the caller as messages show it, cut to a limited length.
CREATE OR REPLACE FUNCTION dp_int.excerpt(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN length(p_text) > 200 THEN left(p_text, 200) || '...' ELSE p_text END $$;

-- The first name that a list contains twice, NULL if there is none.
CREATE OR REPLACE FUNCTION dp_int.named_twice(p_names name[]) RETURNS name
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.name FROM unnest(p_names) WITH ORDINALITY AS n(name, o) GROUP BY n.name HAVING count(*) > 1 ORDER BY min(n.o) LIMIT 1
$$;

-- Refuses sizes that can only be a mistake, before any further processing.
CREATE OR REPLACE FUNCTION dp_int.check_size(d dp_int.dataset, p_features name[], p_options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  registered CONSTANT int := cardinality(d.features) + 1;
  size CONSTANT int := octet_length(p_options::text);
BEGIN
  IF cardinality(p_features) > registered THEN
    RAISE EXCEPTION '% features are named, and data set "%" has % columns', cardinality(p_features), d.name, registered
      USING ERRCODE = '22023', HINT = 'Name every column once. No privacy budget was spent.';
  ELSIF size > 200000 THEN
    RAISE EXCEPTION 'options of % bytes are too long', size USING ERRCODE = '22023', HINT = 'They hold 200000 bytes at most. No privacy budget was spent.';
  END IF;
END $$;

-- Checks groups of features: every name once, and a feature of the request.
CREATE OR REPLACE FUNCTION dp_int.check_groups(p_groups jsonb, p_features name[]) RETURNS void
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
    RAISE EXCEPTION 'option "groups" must be a list of lists of feature names, every name once, not %', dp_int.excerpt(p_groups::text)
      USING ERRCODE = '22023', HINT = 'For instance [["a", "b"], ["c"]]. No privacy budget was spent.';
  END IF;
  SELECT n INTO stray FROM unnest(names) AS n WHERE n IS NULL OR NOT n = ANY (p_features::text[]) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'option "groups" names %, which is no feature of this request', coalesce('"' || dp_int.excerpt(stray) || '"', 'null')
      USING ERRCODE = '42703', HINT = format('Features are %s. No privacy budget was spent.', array_to_string(p_features, ', '));
  END IF;
END $$;

-- A number as double precision: 0 where it is nearer to 0 than any, of which a cast would raise an error.
CREATE OR REPLACE FUNCTION dp_int.as_float(n numeric) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN abs(n) < 5e-324 THEN 0 ELSE n::float8 END $$;

-- Options in canonical form: without fresh and without values equal to the default, numbers as float8
-- prints them. p_levels: the levels of the target, where it is a category.
CREATE OR REPLACE FUNCTION dp_int.check_options(p_model text, p_options jsonb, p_features name[], p_levels jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
  o dp_int.option;
  clean jsonb := '{}';
  v jsonb;
BEGIN
  IF jsonb_typeof(p_options) <> 'object' THEN
    RAISE EXCEPTION 'options must be a JSON object, not %', dp_int.excerpt(p_options::text)
      USING ERRCODE = '22023', HINT = 'For instance {"radius": 5}. No privacy budget was spent.';
  END IF;
  FOR given IN SELECT key, value, jsonb_typeof(value) AS type FROM jsonb_each(p_options) LOOP
    IF given.key = 'fresh' THEN
      IF given.type <> 'boolean' THEN
        RAISE EXCEPTION 'option "fresh" must be true or false, not %', dp_int.excerpt(given.value::text) USING ERRCODE = '22023', HINT = 'No privacy budget was spent.';
      END IF;
      CONTINUE;
    END IF;
    SELECT * INTO o FROM dp_int.option WHERE model = p_model AND name = given.key;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'unknown option "%" for model "%"', dp_int.excerpt(given.key), p_model
        USING ERRCODE = '22023', HINT = format('Options are %s, where_level, over and fresh. No privacy budget was spent.',
          (SELECT string_agg(name, ', ' ORDER BY name) FROM dp_int.option WHERE model = p_model));
    END IF;
    IF o.type = 'groups' THEN
      PERFORM dp_int.check_groups(given.value, p_features);
    ELSIF o.name IN ('negative_label', 'positive_label') AND p_levels IS NOT NULL THEN
      IF NOT p_levels @> given.value OR given.type <> 'string' THEN
        RAISE EXCEPTION 'option "%" must be a level of the target, not %', o.name, dp_int.excerpt(given.value::text)
          USING ERRCODE = '22023', HINT = format('Its levels are %s. No privacy budget was spent.', dp_int.excerpt(p_levels::text));
      END IF;
    ELSIF given.type <> (CASE o.type WHEN 'integer' THEN 'number' WHEN 'category' THEN 'string' ELSE o.type END)
       OR given.type = 'number' AND NOT (given.value::numeric BETWEEN o.minimum::numeric AND o.maximum::numeric)
       OR o.type = 'integer' AND given.value::numeric <> trunc(given.value::numeric)
       OR o.choices IS NOT NULL AND NOT (given.value #>> '{}') = ANY (o.choices) THEN
      RAISE EXCEPTION 'option "%" must be %, not %', o.name,
          CASE WHEN o.choices IS NOT NULL THEN 'one of ' || array_to_string(o.choices, ', ')
               WHEN o.type = 'category' THEN 'the name of a registered category or boolean column'
               WHEN o.type = 'string' THEN 'the name of a registered column'
               WHEN o.type = 'number' THEN format('a number from %s to %s', o.minimum, o.maximum)
               ELSE format('a whole number from %s to %s', o.minimum, o.maximum) END,
          dp_int.excerpt(given.value::text)
        USING ERRCODE = '22023', HINT = o.description || '. No privacy budget was spent.';
    END IF;
    v := CASE given.type WHEN 'number' THEN to_jsonb(dp_int.as_float(given.value::numeric)) ELSE given.value END;
    IF v IS DISTINCT FROM o."default" THEN
      clean := clean || jsonb_build_object(o.name, v);
    END IF;
  END LOOP;
  PERFORM dp_int.check_penalty(clean);
  PERFORM dp_int.check_weight(clean);
  IF (SELECT labels FROM dp_int.model WHERE name = p_model) AND coalesce(clean -> 'negative_label', '0') = coalesce(clean -> 'positive_label', '1') THEN
    RAISE EXCEPTION 'both labels are %', coalesce(clean -> 'positive_label', '1')
      USING ERRCODE = '22023', HINT = 'Give two values of the target, negative_label and positive_label. No privacy budget was spent.';
  END IF;
  RETURN clean;
END $$;

-- A penalty and its weight come together, as do groups and their penalty.
CREATE OR REPLACE FUNCTION dp_int.check_penalty(p_options jsonb) RETURNS void
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

CREATE OR REPLACE FUNCTION dp_int.check_eps(p_eps float8) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT coalesce(p_eps > 0 AND p_eps < 'Infinity', false) THEN
    RAISE EXCEPTION 'eps must be a positive finite number, not %', coalesce(p_eps::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'eps is the privacy budget of this request, for instance 1.0. No privacy budget was spent.';
  ELSIF p_eps NOT BETWEEN 1e-10 AND 1e4 THEN  -- nor does a sidecar plan for such
    RAISE EXCEPTION 'eps must be a number from 1e-10 to 10000, not %', p_eps
      USING ERRCODE = '22023', HINT = 'eps is the privacy budget of this request, for instance 1.0: up to 1 is a strong promise, and beyond 10 little is promised. No privacy budget was spent.';
  END IF;
END $$;

-- Is a request of this model, or its release, a fit, whose answer is coefficients?
CREATE OR REPLACE FUNCTION dp_int.is_fit(p_model text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM dp_int.model m WHERE m.name = p_model) $$;

-- The options that name a column which is read in addition to target and features, as an object of option
-- and column.
CREATE OR REPLACE FUNCTION dp_int.beside_of(p_model text, p_options jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_object_agg(o.key, p_options -> o.key), '{}')
    FROM unnest(CASE WHEN dp_int.is_count(p_model) THEN '{exposure,weight,offset}' ELSE '{weight,offset}' END::text[]) AS o(key)
   WHERE jsonb_typeof(p_options) = 'object' AND jsonb_typeof(p_options -> o.key) = 'string'
$$;

-- The names of these columns.
CREATE OR REPLACE FUNCTION dp_int.beside_columns(p_model text, p_options jsonb) RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$ SELECT ARRAY(SELECT value::name FROM jsonb_each_text(dp_int.beside_of(p_model, p_options)) ORDER BY key) $$;

-- The hint for a column that is not registered: the columns that may be named.
CREATE OR REPLACE FUNCTION dp_int.columns_hint(d dp_int.dataset, p_column name) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT format('Registered columns are %s. %sNo privacy budget was spent.', array_to_string(d.target || d.features, ', '),
                CASE WHEN d.categories ? p_column::text
                     THEN format('"%s" is a category beside them, for where_level and for fits by groups; a steward who registers the data set again may name it among the features as well. ', p_column) END)
$$;

-- Refuses a date or timestamp as what is counted, as an exposure or as a weight: it would count as seconds since 1970.
-- p_beside: as dp_int.beside_of gives it.
CREATE OR REPLACE FUNCTION dp_int.refuse_dates(p_relid oid, p_model text, p_target name, p_beside jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
BEGIN
  SELECT c.part, c.name, dp_int.domain_base(a.atttypid)::regtype AS kind INTO given
    FROM (SELECT 'target' AS part, p_target AS name WHERE dp_int.is_count(p_model)
          UNION ALL SELECT b.key, b.value FROM jsonb_each_text(p_beside) AS b WHERE b.key IN ('exposure', 'weight')) AS c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = p_relid AND a.attname = c.name AND a.attnum > 0 AND NOT a.attisdropped
   WHERE dp_int.domain_base(a.atttypid) IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '% "%" is a %, not a %', given.part, given.name, given.kind, CASE given.part WHEN 'target' THEN 'count' ELSE 'number' END
      USING ERRCODE = '22023', HINT = CASE given.part WHEN 'target' THEN 'What is counted is a number that is not negative, such as visits or claims. dp_linear_regress and dp_l1_regress fit dates and times.'
                                        ELSE 'It would count as seconds since 1970.' END || ' No privacy budget was spent.';
  END IF;
END $$;

-- Raises unless such a column is registered, holds numbers, and is named by no other part of the request.
CREATE OR REPLACE FUNCTION dp_int.check_beside(d dp_int.dataset, p_target name, p_features name[], p_beside jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given record;
BEGIN
  FOR given IN SELECT key AS option, value AS name FROM jsonb_each_text(p_beside) ORDER BY key LOOP
    IF d.categories ? given.name THEN
      RAISE EXCEPTION '% "%" is a category, not a number', given.option, given.name
        USING ERRCODE = '22023', HINT = CASE given.option WHEN 'exposure' THEN 'An exposure is what was counted over, such as years.' WHEN 'weight' THEN 'A weight is how much a row counts.'
                                          ELSE 'An offset is a part of the prediction that is known.' END || ' No privacy budget was spent.';
    ELSIF NOT given.name = ANY ((d.target || d.features)::text[]) THEN
      RAISE EXCEPTION '% "%" is not registered in data set "%"', given.option, dp_int.excerpt(given.name), d.name
        USING ERRCODE = '42703', HINT = dp_int.columns_hint(d, given.name::name);
    ELSIF given.name = ANY ((p_target || p_features)::text[]) THEN
      RAISE EXCEPTION '% "%" is the target or a feature too', given.option, given.name USING ERRCODE = '22023', HINT = 'Name every column once. No privacy budget was spent.';
    ELSIF EXISTS (SELECT FROM jsonb_each_text(p_beside) AS other WHERE other.key < given.option AND other.value = given.name) THEN
      RAISE EXCEPTION '% "%" is named by another option too', given.option, given.name USING ERRCODE = '22023', HINT = 'Name every column once. No privacy budget was spent.';
    END IF;
  END LOOP;
END $$;

-- A weight and its bound come together.
CREATE OR REPLACE FUNCTION dp_int.check_weight(p_options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_options ? 'weight' AND NOT p_options ? 'max_weight' THEN
    RAISE EXCEPTION 'option "weight" needs option "max_weight"'
      USING ERRCODE = '22023', HINT = 'Weights above it count as that: it is public, so take it from public knowledge, for instance {"weight": "w", "max_weight": 5}. No privacy budget was spent.';
  ELSIF p_options ? 'max_weight' AND NOT p_options ? 'weight' THEN
    RAISE EXCEPTION 'option "max_weight" is given, but no "weight"' USING ERRCODE = '22023', HINT = 'Give both or neither, for instance {"weight": "w", "max_weight": 5}. No privacy budget was spent.';
  ELSIF p_options ?& '{weight,by}' THEN
    RAISE EXCEPTION 'fits by groups take no weights'
      USING ERRCODE = '22023', HINT = 'Leave the weight out, or fit one group at a time with where_level. No privacy budget was spent.';
  END IF;
END $$;

-- Is a request answered at no cost, because it was answered before or is charged?
CREATE OR REPLACE FUNCTION dp_int.paid_for(r dp_int.request) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT r.fresh AND (dp_int.kept_release(r.dataset, r.hash) IS NOT NULL
                          OR EXISTS (SELECT FROM dp_int.job j WHERE j.dataset = r.dataset AND j.request_hash = r.hash AND j.state = 'reading'))
$$;

-- Refuses a delta above the account's: its noise is that of a larger eps, which it costs, and which the caller did not give.
-- p_default: a delta that the request may have all the same, that of one that gives none, below which a steward has lowered the account's since; or NULL.
CREATE OR REPLACE FUNCTION dp_int.refuse_large_delta(d dp_int.dataset, r dp_int.request, p_default float8) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  most CONSTANT float8 := (SELECT a.delta FROM dp_int.account a WHERE a.id = d.account);
BEGIN
  IF most > 0 AND r.delta > most AND r.delta IS DISTINCT FROM p_default AND NOT dp_int.paid_for(r) THEN
    RAISE EXCEPTION 'delta % is above that of data set "%", %: it would cost more epsilon than its eps', r.delta, d.name, most
      USING ERRCODE = '22023', HINT = format('Leave delta out, or give one up to %s; for less noise give a larger eps. No privacy budget was spent.', most);
  END IF;
END $$;

-- The data set of a request. p_spends: false for questions, which stewards may ask without a grant.
CREATE OR REPLACE FUNCTION dp_int.granted_dataset(p_caller name, p_dataset text, p_spends boolean) RETURNS dp_int.dataset
LANGUAGE plpgsql STABLE AS $$
DECLARE
  d dp_int.dataset;
BEGIN
  SELECT * INTO d FROM dp_int.dataset WHERE name = p_dataset AND unregistered_at IS NULL;
  IF NOT FOUND OR (dp_int.grant_of(d.id, p_caller)).dataset IS NULL AND (p_spends OR NOT pg_has_role(p_caller, 'dp_admin', 'USAGE')) THEN
    RAISE EXCEPTION 'data set % does not exist or is not granted to "%"', coalesce('"' || dp_int.excerpt(p_dataset) || '"', 'NULL'), p_caller
      USING ERRCODE = '42501', HINT = 'See dp.datasets for what may be asked, or ask the steward for dp_grant. No privacy budget was spent.';
  END IF;
  RETURN d;
END $$;

-- The delta of a request for a fit: the one given, which the model must admit, or a default.
CREATE OR REPLACE FUNCTION dp_int.requested_delta(m dp_int.model, d dp_int.dataset, p_delta float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF m.delta = 0 AND p_delta <> 0 THEN
    RAISE EXCEPTION 'model "%" is pure: delta must be 0, not %', m.name, p_delta
      USING ERRCODE = '22023', HINT = 'Leave delta out. No privacy budget was spent.';
  ELSIF m.delta > 0 AND NOT (p_delta > 0 AND p_delta < 1) THEN
    RAISE EXCEPTION 'delta must be above 0 and below 1, not %', p_delta
      USING ERRCODE = '22023', HINT = 'delta should be well below one in the number of people, for instance 1e-6. No privacy budget was spent.';
  END IF;
  RETURN coalesce(p_delta, least(m.delta, d.default_delta::float8));
END $$;

-- Raises where a request names a column that is not registered, or one twice. p_place: where the columns stand.
CREATE OR REPLACE FUNCTION dp_int.check_registered(d dp_int.dataset, p_columns name[], p_place text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  c name;
BEGIN
  FOREACH c IN ARRAY p_columns LOOP
    IF c IS NULL OR NOT c = ANY (d.target || d.features) THEN
      RAISE EXCEPTION 'column % is not registered in data set "%"', coalesce('"' || c || '"', 'NULL'), d.name
        USING ERRCODE = '42703', HINT = dp_int.columns_hint(d, c);
    END IF;
  END LOOP;
  c := dp_int.named_twice(p_columns);
  IF c IS NOT NULL THEN
    RAISE EXCEPTION 'column "%" stands twice among %', c, p_place USING ERRCODE = '22023', HINT = 'Name every column once. No privacy budget was spent.';
  END IF;
END $$;

-- Target and features of a request: those given, or those registered, without columns that options name. p_features may be empty
-- where there is an intercept.
CREATE OR REPLACE FUNCTION dp_int.requested_columns(d dp_int.dataset, p_target name, p_features name[], p_beside name[], p_intercept boolean, OUT target name, OUT features name[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF array_ndims(p_features) > 1 THEN
    RAISE EXCEPTION 'features must be a list of names, not an array of % dimensions', array_ndims(p_features) USING ERRCODE = '22023', HINT = 'For instance ''{age,region}''. No privacy budget was spent.';
  END IF;
  target := coalesce(p_target, d.target);
  features := coalesce(p_features, ARRAY(SELECT f FROM unnest(d.features) WITH ORDINALITY AS t(f, position) WHERE f <> target AND NOT f = ANY (p_beside) ORDER BY position));
  PERFORM dp_int.check_registered(d, target || features, 'target and features');
  PERFORM dp_int.refuse_intercept(features, ' No privacy budget was spent.');
  IF cardinality(features) = 0 AND NOT p_intercept THEN
    RAISE EXCEPTION 'nothing to fit: no feature and no intercept' USING ERRCODE = '22023', HINT = 'Name a feature, or keep the intercept. No privacy budget was spent.';
  END IF;
END $$;

-- The request of a fit. p_spends: as dp_int.granted_dataset has it.
CREATE OR REPLACE FUNCTION dp_int.prepare(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name, p_features name[],
                               p_intercept boolean, p_options jsonb, p_spends boolean DEFAULT true) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
DECLARE
  m dp_int.model;
  d dp_int.dataset;
  r dp_int.request;
  target name;
  features name[];
  intercept CONSTANT boolean := coalesce(p_intercept, true);
  options jsonb := coalesce(p_options, '{}');
  clean jsonb;
  chosen jsonb := '{}';  -- the levels that count
  over jsonb;
BEGIN
  PERFORM dp_int.refuse_copy();
  SELECT * INTO m FROM dp_int.model WHERE name = p_model;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'unknown model %', coalesce('"' || dp_int.excerpt(p_model) || '"', 'NULL')
      USING ERRCODE = '22023', HINT = format('Models are %s, and describe, scales and moments. The data set comes after the model; scores have dp_explain_score and dp_submit_score. No privacy budget was spent.', (SELECT string_agg(name, ', ' ORDER BY name) FROM dp_int.model));
  END IF;
  PERFORM dp_int.check_eps(p_eps);
  d := dp_int.granted_dataset(p_caller, p_dataset, p_spends);
  r.dataset := d.id;
  r.model := p_model;
  r.eps := dp_int.typed(p_eps);
  r.delta := dp_int.requested_delta(m, d, dp_int.typed(p_delta));
  r.fresh := coalesce(p_options -> 'fresh' = 'true', false);
  PERFORM dp_int.check_size(d, p_features, p_options);
  SELECT c.target, c.features INTO target, features FROM dp_int.requested_columns(d, p_target, p_features, dp_int.beside_columns(p_model, p_options), intercept) AS c;
  IF jsonb_typeof(options) = 'object' THEN
    chosen := dp_int.canonical_where(d, options -> 'where_level');
    PERFORM dp_int.check_left_levels(features, chosen);
    over := dp_int.canonical_over(d, options -> 'over');
    options := options - '{where_level,over}'::text[];
  END IF;
  PERFORM dp_int.check_beside(d, target, features, dp_int.beside_of(p_model, p_options));
  options := dp_int.with_labels(m, d, target, options);
  clean := dp_int.check_options(p_model, options, features, (d.categories || chosen) -> target::text);
  d := dp_int.with_levels_of(d, clean ->> 'by');
  PERFORM dp_int.check_by(d, target || features, clean ->> 'by');
  IF (clean ->> 'by')::name = ANY (dp_int.beside_columns(p_model, clean)) THEN
    RAISE EXCEPTION '"%" cannot make the groups and be an offset or exposure too', clean ->> 'by'
      USING ERRCODE = '22023', HINT = 'Within a group it is the same for everybody. Name another column, or leave the option out. No privacy budget was spent.';
  END IF;
  r.body := jsonb_build_object('model', p_model, 'eps', r.eps, 'delta', r.delta, 'target', target, 'features', features, 'intercept', intercept, 'options', clean)
            || dp_int.levels_of_request(d, target || features || array_remove(ARRAY[(clean ->> 'by')::name], NULL), chosen);
  r.body := r.body || jsonb_build_object('scales', dp_int.scales_of(d.scales, r.body)) || dp_int.over_of_request(over);
  r.hash := dp_int.request_hash(d.id, r.body);
  PERFORM dp_int.refuse_large_delta(d, r, dp_int.requested_delta(m, d, NULL));
  IF m.labels THEN
    PERFORM dp_int.refuse_unlabelled(d, r, target, options);
  END IF;
  IF NOT dp_int.paid_for(r) THEN
    PERFORM dp_int.refuse_dates(d.relid, p_model, target, dp_int.beside_of(p_model, clean));
  END IF;
  RETURN r;
END $$;

-- The request of dp_submit and dp_explain: of a fit, or by the models describe, scales and moments
-- of dp_describe, dp_scales and dp_moments, with their columns as features. p_spends: as dp_int.granted_dataset has it.
CREATE OR REPLACE FUNCTION dp_int.prepare_submitted(p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                                                 p_features name[], p_intercept boolean, p_options jsonb, p_spends boolean) RETURNS dp_int.request
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_model IN ('describe', 'scales') THEN
    RETURN dp_int.prepare_submitted_description(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options, p_spends);
  ELSIF p_model = 'moments' THEN
    RETURN dp_int.prepare_submitted_moments(p_caller, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options, p_spends);
  END IF;
  RETURN dp_int.prepare(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options, p_spends);
END $$;

-- The release that is returned again for the same request. A release that was read before the end of its
-- window is returned until the window is over: from then on the request means all rows of the window. Of several
-- the one that was charged last, which no clock that was set back changes.
CREATE OR REPLACE FUNCTION dp_int.kept_release(p_dataset bigint, p_hash bytea) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT id FROM dp_int.release WHERE dataset = p_dataset AND request_hash = p_hash AND (upper(dp_int.ran_at_reading(id)) <= dp_int.today()) IS NOT TRUE
     ORDER BY charge DESC LIMIT 1);
END $$;

-- The release of an answer that was made just now; NULL, which the caller is told, where the caller's snapshot or a standby
-- does not show it yet: dp_last_release is an older one there.
CREATE OR REPLACE FUNCTION dp_int.new_release(r dp_int.request) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
  level CONSTANT text := current_setting('transaction_isolation');
  old_snapshot CONSTANT boolean := level IN ('repeatable read', 'serializable');
  release CONSTANT uuid := CASE WHEN NOT old_snapshot THEN dp_int.kept_release(r.dataset, r.hash) END;
BEGIN
  IF release IS NULL THEN
    RAISE NOTICE 'dpsidecar: % does not show the new release yet: dp_last_release and the views of schema dp show older ones',
        CASE WHEN old_snapshot THEN format('this transaction, at isolation level %s,', level) ELSE 'this server' END
      USING HINT = 'A later transaction shows it. Until then dp_score of dp_last_release would be charged for an older one.';
  END IF;
  RETURN release;
END $$;

-- Tells a caller who gets a kept answer which release it is, and of which rows: dp_last_release may name
-- a later release, of another model.
CREATE OR REPLACE FUNCTION dp_int.tell_kept(p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r dp_int.release;
  at text;
  things text;
BEGIN
  SELECT * INTO STRICT r FROM dp_int.release WHERE id = p_release;
  at := to_char(r.released_at, 'YYYY-MM-DD HH24:MI TZ');
  things := (SELECT CASE WHEN d.unit IS NULL THEN 'rows' ELSE 'persons' END FROM dp_int.dataset d WHERE d.id = r.dataset);
  IF r.model = 'score' THEN
    RAISE NOTICE 'dpsidecar: the score of % again, free: it scores release %', at, r.parameters ->> 'release';
  ELSIF r.model IN ('describe', 'scales', 'moments') THEN
    RAISE NOTICE 'dpsidecar: the answer of % again, free: release %', at, p_release
      USING HINT = format('It stands in %s.', CASE r.model WHEN 'describe' THEN 'dp.descriptions' WHEN 'scales' THEN 'dp.suggested_scales' ELSE 'dp.moments' END);
  ELSE
    RAISE NOTICE 'dpsidecar: the answer of % again, free: release %', at, p_release
      USING HINT = format('dp_last_release names the release that was made last. For this one: SELECT * FROM dp_summary(%L).', p_release);
  END IF;
  IF r.read_at IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: it is of % %, as they were on %', r.rows, things, to_char(r.read_at, 'YYYY-MM-DD HH24:MI TZ');
    PERFORM dp_int.tell_growth(r, things);
  END IF;
END $$;

-- Tells a caller who gets a kept answer about the whole table that the table has grown by a tenth or
-- more, by the number published last. The server's estimate (reltuples) depends on the length of rows,
-- and a new count would take too long.
CREATE OR REPLACE FUNCTION dp_int.tell_growth(r dp_int.release, p_things text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  now_has bigint;
BEGIN
  SELECT d.row_count INTO now_has
    FROM dp_int.dataset d
    JOIN dp_int.job j ON j.id = r.job
   WHERE d.id = r.dataset AND d.row_count - r.rows >= r.rows / 10.0 AND d.row_count > r.rows AND NOT j.request ? 'over' AND j.request #> '{options,sample_rows}' IS NULL;
  IF FOUND THEN
    RAISE NOTICE 'dpsidecar: the data set had % % when they were counted last, % more', now_has, p_things, now_has - r.rows
      USING HINT = 'The same request with options => ''{"fresh": true}'' is about those, and is charged anew.';
  END IF;
END $$;

-- Raises where the caller may not queue another job. Calls at the same moment may each find room for one.
CREATE OR REPLACE FUNCTION dp_int.check_queue(p_caller name) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  most CONSTANT int := (SELECT queue_limit FROM dp_int.operation);
BEGIN
  IF (SELECT count(*) FROM (SELECT FROM dp_int.job q WHERE q.state = 'queued' AND q.caller = p_caller LIMIT most) AS queued) >= most THEN
    RAISE EXCEPTION '"%" has % jobs queued, as many as one caller may', p_caller, most
      USING ERRCODE = '53400', HINT = 'Ask again when some of them have ended, or dp_cancel some, see dp.jobs. Stewards set the limit with dp_set_queue_limit. No privacy budget was spent.';
  END IF;
END $$;

-- Inserts the job. A job with a waiting caller is dropped unspent unless its session holds the job's
-- advisory lock; the lock is taken before the row becomes visible.
CREATE OR REPLACE FUNCTION dp_int.insert_job(p_id uuid, p_caller name, r dp_int.request, p_waited boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited)
  VALUES (p_id, dp_int.admit_principal(p_caller), p_caller, r.dataset, r.model, r.eps, r.delta, r.body, r.hash, r.fresh, p_waited);
  PERFORM pg_notify('dp_jobs', 'queued');
END $$;

-- Queues a request that its caller waits for, or returns the kept release, if any.
CREATE OR REPLACE FUNCTION dp_int.enqueue_request(p_id uuid, p_caller name, r dp_int.request) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept CONSTANT uuid := dp_int.kept_release(r.dataset, r.hash);
BEGIN
  IF kept IS NOT NULL AND NOT r.fresh THEN
    RETURN kept;
  END IF;
  IF dp_int.sidecars_alive() = 0 THEN
    RAISE EXCEPTION 'no dpsidecar is connected to database "%"', current_database()
      USING ERRCODE = 'DP001', HINT = 'Start one with dpsidecar serve, or queue the request with dp_submit or dp_submit_score. No privacy budget was spent.';
  END IF;
  PERFORM dp_int.check_queue(p_caller);
  -- If another session holds a lock on this key, by a hash collision or on purpose, the job runs as if
  -- nobody waited for it.
  PERFORM pg_advisory_unlock_all();
  PERFORM dp_int.insert_job(p_id, p_caller, r, pg_try_advisory_lock_shared(dp_int.wait_key(p_id)));
  RETURN NULL;
END $$;

-- The part of a synchronous call that runs over the loopback: on the primary and on a fresh snapshot it
-- checks first the origin of the call, then everything again. Returns the kept release, if any.
CREATE OR REPLACE FUNCTION dp_int.enqueue(p_id uuid, p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                               p_features name[], p_intercept boolean, p_options jsonb, p_from jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  RETURN dp_int.enqueue_request(p_id, p_caller, dp_int.prepare(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options));
END $$;

-- Raises where the caller's own transaction, in which the caller wants to write, is read-only, as it
-- always is on a standby.
CREATE OR REPLACE FUNCTION dp_int.check_writable(p_what text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF current_setting('transaction_read_only')::boolean THEN
    RAISE EXCEPTION '% in a read-only transaction', p_what
      USING ERRCODE = '25006', HINT = CASE WHEN pg_is_in_recovery() THEN 'This server is a standby: connect to the primary.'
        ELSE 'Begin it with BEGIN READ WRITE, or SET default_transaction_read_only = off.' END
        || ' The functions that wait for their answer, such as dp_linear_regress and dp_score, work here too. No privacy budget was spent.';
  END IF;
END $$;

-- Queues a request that nobody waits for, or answers it with the kept release; returns its job.
CREATE OR REPLACE FUNCTION dp_int.submit_request(p_caller name, r dp_int.request) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept CONSTANT uuid := CASE WHEN NOT r.fresh THEN dp_int.kept_release(r.dataset, r.hash) END;
  job CONSTANT uuid := gen_random_uuid();
BEGIN
  PERFORM dp_int.check_writable('a job cannot be queued');
  IF kept IS NULL THEN
    PERFORM dp_int.check_queue(p_caller);
    PERFORM dp_int.warn(r);
  END IF;
  PERFORM dp_int.insert_job(job, p_caller, r, false);
  IF kept IS NOT NULL THEN
    PERFORM dp_int.tell_kept(kept);
    UPDATE dp_int.job j SET state = 'done', release = kept, finished_at = clock_timestamp() WHERE j.id = job;
  END IF;
  RETURN job;
END $$;

-- The stage of one job, with the number of its caller's jobs ahead of it if it is queued. For many jobs
-- at once see dp_int.place.
CREATE OR REPLACE FUNCTION dp_int.with_place(p_job uuid, p_stage text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  ahead bigint;
BEGIN
  IF p_stage = 'queued' THEN
    SELECT count(*) INTO ahead
      FROM dp_int.job j
      JOIN dp_int.job o ON o.caller = j.caller AND o.seq < j.seq
     WHERE j.id = p_job AND o.follows IS NULL
       AND (o.state IN ('queued', 'claimed', 'charged') OR o.state = 'reading' AND o.sqlstate IS NULL);
  END IF;
  RETURN CASE WHEN ahead > 0 THEN format('queued behind %s', ahead) ELSE p_stage END;
END $$;

-- The state of a job for its waiting caller. A job that is still reading and carries a SQLSTATE is parked
-- or stopped, see job_park and job_stop: it keeps its charge.
CREATE OR REPLACE FUNCTION dp_int.watch(p_caller name, p_job uuid) RETURNS TABLE(state text, alive boolean, release uuid, sqlstate text, message text, hint text, stage text,
                                                               expected_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT j.state, j.finished_at IS NOT NULL OR dp_int.sidecars_alive() > 0, j.release, j.sqlstate, j.message, j.hint, dp_int.with_place(j.id, s.stage), s.expected_at
    FROM dp_int.job j JOIN dp_int.stage s ON s.job = j.id
   WHERE j.id = p_job AND j.principal = dp_int.principal_of(p_caller);
END $$;

-- Cancels a job that has not begun to read, and returns the outcome. Such a job is locked, so that the
-- outcome stays true. A job that has begun to read keeps its charge in any case; its row lock is
-- released, because others may wait for it.
CREATE OR REPLACE FUNCTION dp_int.cancel(p_caller name, p_job uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j dp_int.job;
BEGIN
  PERFORM dp_int.check_writable('a job cannot be canceled');
  BEGIN
    SELECT * INTO j FROM dp_int.job WHERE id = p_job AND principal = dp_int.principal_of(p_caller) FOR NO KEY UPDATE;  -- not FOR UPDATE, so that other jobs may begin to follow it
    IF NOT FOUND THEN
      RAISE EXCEPTION 'you have no job %', coalesce(p_job::text, 'NULL') USING ERRCODE = '22023', HINT = dp_int.hint_no_job(p_job, p_caller);
    ELSIF j.state NOT IN ('queued', 'claimed', 'charged') THEN
      RAISE SQLSTATE 'DP000';  -- rolls back to release the lock
    END IF;
  EXCEPTION
    WHEN SQLSTATE 'DP000' THEN NULL;
    WHEN serialization_failure THEN  -- a sidecar has claimed the job since the snapshot of this transaction was taken
      RAISE EXCEPTION 'job % is no longer as this transaction sees it, and was not canceled', p_job
        USING ERRCODE = '40001', HINT = 'Call dp_cancel again in a new transaction, after ROLLBACK if one is open; at isolation level read committed this does not happen.';
  END;
  CASE j.state
    WHEN 'queued' THEN
      PERFORM dp_int.finish_job(p_job, 'canceled', 'DP004', 'canceled by its caller' || CASE WHEN dp_int.sidecars_alive() = 0 THEN ': no dpsidecar was connected' ELSE '' END, 'No privacy budget was spent.');
      RETURN 'canceled before it started; no privacy budget was spent';
    WHEN 'claimed', 'charged' THEN
      UPDATE dp_int.job SET cancel_requested = true WHERE id = p_job;
      -- Identical requests wait for this job. A transaction that has sent NOTIFY cannot PREPARE
      -- TRANSACTION: so the lock ends with the session at the latest.
      PERFORM pg_notify(dp_int.job_channel(p_job), 'canceling');
      RETURN 'will be canceled before it reads; no privacy budget will be spent';
    WHEN 'reading' THEN
      IF j.lease_until IS NULL THEN  -- see dp_int.job_stop
        RETURN 'too late: the privacy budget is spent; the job did not end within its time, and the same request tries again at no further cost';
      END IF;
      RETURN format('too late: the privacy budget is spent; the result will be kept, and the same request%s returns it at no cost', CASE WHEN j.fresh THEN ' without fresh' END);
    WHEN 'done' THEN
      RETURN 'it was done already; the result is kept';
    WHEN 'abandoned' THEN
      RETURN 'a steward abandoned it already; the privacy budget is spent, and nothing was released';
    ELSE
      RETURN j.state || ' already; no privacy budget was spent';
  END CASE;
END $$;

-- Ends a job. Jobs that followed it continue by themselves, see job_claim.
CREATE OR REPLACE FUNCTION dp_int.finish_job(p_job uuid, p_state text, p_sqlstate text, p_message text, p_hint text) RETURNS void
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

-- The content of a release: coefficients, the metrics of a score, the figures of a description, or sums.
CREATE OR REPLACE FUNCTION dp_int.coefficients(p_release uuid) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  SELECT dp_int.full_term(r.parameters ->> 'by', c.grp, c.term), c.coef
    FROM dp_int.coefficient c JOIN dp_int.release r ON r.id = c.release WHERE c.release = p_release ORDER BY c.position;
  IF NOT FOUND THEN
    RETURN QUERY
    SELECT m.metric, m.value FROM dp_int.metrics(p_release) AS m
    UNION ALL
    SELECT concat_ws(' ', f.column_name, f.statistic), f.value FROM dp_int.column_statistic f WHERE f.release = p_release
    UNION ALL
    SELECT s.column_name, s.scale FROM dp_int.suggested_scale s WHERE s.release = p_release
    UNION ALL
    SELECT concat_ws(' * ', m.label::jsonb ->> 0, m.label::jsonb ->> 1), m.numbers[1] FROM dp_int.moments(p_release) AS m;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION dp_int.refuse_ungranted(p_caller name, p_release uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.release r WHERE r.id = p_release AND (dp_int.grant_of(r.dataset, p_caller)).dataset IS NOT NULL) THEN
    RAISE EXCEPTION 'the data set is no longer granted to "%"', p_caller
      USING ERRCODE = '42501',
            HINT = CASE WHEN EXISTS (SELECT FROM dp_int.release r JOIN dp_int.dataset d ON d.id = r.dataset WHERE r.id = p_release AND d.unregistered_at IS NOT NULL)
                        THEN 'Its registration has ended, so that nothing can be granted anew: ask a steward, who sees all releases, or make the request of a data set that is registered, where it is a new one.'
                        ELSE 'Ask the steward for dp_grant: the release is kept, and the same request returns it at no cost.' END;
  END IF;
END $$;

-- Runs over the loopback, because the caller's own snapshot may be too old to show the release.
CREATE OR REPLACE FUNCTION dp_int.fetch(p_caller name, p_release uuid) RETURNS TABLE(term text, coef float8)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_int.refuse_ungranted(p_caller, p_release);
  RETURN QUERY SELECT c.term, c.coef FROM dp_int.coefficients(p_release) c;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.enqueue, dp_int.watch, dp_int.cancel, dp_int.fetch TO dp_loopback;
