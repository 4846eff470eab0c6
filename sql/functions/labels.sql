-- The values of a column that are labels, for models whose target takes one of two values. A caller who
-- guesses them wrongly fits noise: a row with any other value contributes nothing.

CREATE OR REPLACE FUNCTION dp_int.check_labels(p_target name, p_features name[], p_labels jsonb, p_categories jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  l record;
BEGIN
  IF jsonb_typeof(p_labels) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'labels must be a JSON object' USING ERRCODE = '22023', HINT = 'For instance {"income": [0, 1]}, the negative label first.';
  END IF;
  FOR l IN SELECT key, value FROM jsonb_each(p_labels) LOOP
    IF NOT l.key = ANY ((p_target || p_features)::text[]) THEN
      RAISE EXCEPTION 'labels of "%", which is neither target nor feature', l.key USING ERRCODE = '42703', HINT = 'Labels are named by registered columns.';
    ELSIF p_categories ? l.key THEN
      IF jsonb_typeof(l.value) <> 'array' OR jsonb_array_length(l.value) <> 2 OR l.value -> 0 = l.value -> 1 OR NOT p_categories -> l.key @> l.value THEN
        RAISE EXCEPTION 'labels of category "%" must be two of its levels, not %', l.key, dp_int.excerpt(l.value::text)
          USING ERRCODE = '22023', HINT = format('For instance %s, the negative label first.', jsonb_build_object(l.key, jsonb_build_array(p_categories -> l.key -> 0, p_categories -> l.key -> 1)));
      END IF;
    ELSIF jsonb_typeof(l.value) <> 'array' OR jsonb_array_length(l.value) <> 2 OR l.value -> 0 = l.value -> 1
       OR EXISTS (SELECT FROM jsonb_array_elements(l.value) AS v WHERE jsonb_typeof(v) <> 'number' OR NOT v::numeric BETWEEN -1e300 AND 1e300) THEN
      RAISE EXCEPTION 'labels of "%" must be two different numbers, not %', l.key, dp_int.excerpt(l.value::text)
        USING ERRCODE = '22023', HINT = 'For instance {"income": [0, 1]}, the negative label first. A boolean column needs none.';
    END IF;
  END LOOP;
END $$;

-- Is the type of a column, or the base type of its domain, boolean?
CREATE OR REPLACE FUNCTION dp_int.is_boolean(p_relid oid, p_column name) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT dp_int.domain_base(a.atttypid) = 'boolean'::regtype
                     FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attname = p_column AND a.attnum > 0 AND NOT a.attisdropped), false)
$$;

-- A label of a boolean column in the form that it has elsewhere: where the column is a category, a level; else 0 or 1. What is
-- neither false nor true stays as it is.
CREATE OR REPLACE FUNCTION dp_int.label_of_boolean(p_label jsonb, p_category boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_label IN ('false', 'true', '"false"', '"true"', '0', '1')
              THEN CASE WHEN p_category THEN to_jsonb((p_label #>> '{}' IN ('true', '1'))::text) ELSE to_jsonb((p_label #>> '{}' IN ('true', '1'))::int) END
              ELSE p_label END
$$;

-- Declared labels with those of boolean columns in that form.
CREATE OR REPLACE FUNCTION dp_int.canonical_labels(p_relid oid, p_labels jsonb, p_categories jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN jsonb_typeof(p_labels) = 'object'
              THEN (SELECT coalesce(jsonb_object_agg(l.key, CASE WHEN jsonb_typeof(l.value) = 'array' AND dp_int.is_boolean(p_relid, l.key::name)
                                                                 THEN (SELECT jsonb_agg(dp_int.label_of_boolean(v.label, p_categories ? l.key) ORDER BY v.n) FROM jsonb_array_elements(l.value) WITH ORDINALITY AS v(label, n))
                                                                 ELSE l.value END), '{}')
                      FROM jsonb_each(CASE jsonb_typeof(p_labels) WHEN 'object' THEN p_labels ELSE '{}' END) AS l)
              ELSE p_labels END
$$;

-- Refuses labels that a boolean column cannot hold, with which every row would contribute nothing.
-- p_ending: the end of the hint.
CREATE OR REPLACE FUNCTION dp_int.refuse_labels_of_boolean(p_relid oid, p_column name, p_labels jsonb, p_ending text DEFAULT '') RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT p_labels <@ '[0, 1]' AND dp_int.is_boolean(p_relid, p_column) THEN
    RAISE EXCEPTION 'labels of boolean column "%" must be false and true, not %', p_column, dp_int.excerpt(p_labels::text)
      USING ERRCODE = '22023', HINT = 'They need not be given. To have the log-odds of false declare [true, false], or ask with options {"negative_label": true, "positive_label": false}.' || p_ending;
  END IF;
END $$;

-- The options of a request with the labels that its target was registered with, or that its type has, unless
-- it gives its own. Of a model that takes none, the options as they are: it cannot predict a category.
CREATE OR REPLACE FUNCTION dp_int.with_labels(m dp_int.model, d dp_int.dataset, p_target name, p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  options jsonb := p_options;
  known jsonb := d.labels -> p_target::text;
  category CONSTANT boolean := d.categories ? p_target::text;
BEGIN
  IF NOT m.labels AND category THEN
    RAISE EXCEPTION 'target "%" is a category, which model "%" cannot predict', p_target, m.name
      USING ERRCODE = '22023', HINT = 'dp_logistic_regress predicts which of two levels a row has. No privacy budget was spent.';
  ELSIF NOT m.labels OR jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
    RETURN options;
  ELSIF dp_int.is_boolean(d.relid, p_target) THEN
    options := options || (SELECT coalesce(jsonb_object_agg(o.key, dp_int.label_of_boolean(o.value, category)), '{}') FROM jsonb_each(options) AS o WHERE o.key IN ('negative_label', 'positive_label'));
    known := coalesce(known, CASE WHEN d.categories -> p_target::text @> '["false", "true"]' THEN '["false", "true"]'::jsonb END);
  END IF;
  options := CASE WHEN known IS NULL THEN options ELSE jsonb_build_object('negative_label', known -> 0, 'positive_label', known -> 1) || options END;
  IF NOT category THEN
    PERFORM dp_int.refuse_labels_of_boolean(d.relid, p_target, jsonb_build_array(coalesce(options -> 'negative_label', '0'), coalesce(options -> 'positive_label', '1')), ' No privacy budget was spent.');
  END IF;
  RETURN options;
END $$;

-- Refuses a request whose labels nobody has named. Releases kept and jobs charged without named labels
-- remain valid.
CREATE OR REPLACE FUNCTION dp_int.refuse_unlabelled(d dp_int.dataset, r dp_int.request, p_target name, p_options jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  levels CONSTANT jsonb := d.categories -> p_target::text;
BEGIN
  IF p_options ?& '{negative_label,positive_label}' OR dp_int.is_boolean(d.relid, p_target) AND levels IS NULL
     OR dp_int.paid_for(r) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION 'the labels of target "%" are not known', p_target
    USING ERRCODE = '22023',
          HINT = format('Only a boolean target needs none. Name the two values that the column has, the negative one first: in the request, for instance options %L, or let a steward declare them: dp_set_labels(%L, %L). Rows with any other value say nothing: where none has one of these, the answer is noise, and is charged. No privacy budget was spent.',
                        jsonb_build_object('negative_label', coalesce(levels -> 0, '0'), 'positive_label', coalesce(levels -> 1, '1')), d.name,
                        d.labels || jsonb_build_object(p_target, jsonb_build_array(coalesce(levels -> 0, '0'), coalesce(levels -> 1, '1'))));
END $$;

CREATE OR REPLACE FUNCTION public.dp_set_labels(dataset text, labels jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.locked_dataset(dp_set_labels.dataset);
  former jsonb;  -- what was declared for columns that are not named now
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.refuse_gone(d);
  dp_set_labels.labels := dp_int.canonical_labels(d.relid, dp_set_labels.labels, d.categories);
  PERFORM dp_int.check_labels(d.target, d.features, dp_set_labels.labels, d.categories);
  PERFORM dp_int.refuse_labels_of_boolean(d.relid, l.key::name, l.value) FROM jsonb_each(dp_set_labels.labels) AS l WHERE NOT d.categories ? l.key;
  SELECT n.labels - ARRAY(SELECT jsonb_object_keys(dp_set_labels.labels)) INTO former FROM dp_int.dataset n WHERE n.id = d.id FOR UPDATE;
  UPDATE dp_int.dataset SET labels = dp_set_labels.labels WHERE id = d.id;
  IF former <> '{}' THEN
    RAISE NOTICE 'dpsidecar: labels are no longer declared for %: dp_set_labels replaces all that were', dp_int.listed(ARRAY(SELECT jsonb_object_keys(former)::name))
      USING HINT = format('If that is not meant: SELECT dp_set_labels(%L, %L);', d.name, former || dp_set_labels.labels);
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_set_labels IS
  'Declares which two values of a column are labels, the negative one first, for instance {"income": [0, 1]}: public knowledge, which dp_logistic_regress needs of a target that is not boolean. Replaces what was declared; kept answers stay. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_labels TO dp_admin;
