-- Types of columns. A view can convert a column whose type no model can use: these functions return
-- suitable expressions, none of which raises an error for any value.

-- Can a column of this type, which is no domain, be a target or a feature without levels?
CREATE OR REPLACE FUNCTION dp_int.is_number(p_type oid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT p_type IN ('boolean'::regtype, 'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'real'::regtype, 'double precision'::regtype,
                    'numeric'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
$$;

-- Can a column of this type, which is no domain, be a category?
CREATE OR REPLACE FUNCTION dp_int.has_levels(p_type oid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT p_type IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'boolean'::regtype, 'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
      OR EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = p_type AND t.typtype = 'e')
$$;

-- What the statements of hints have where a steward is to name levels. They are refused as levels, so that such a statement
-- registers nothing before they are replaced.
CREATE OR REPLACE FUNCTION dp_int.level_placeholders() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$ SELECT '{<level>,<negative value>,<positive value>}'::text[] $$;

-- The sentence of a hint that says what belongs in place of them; empty where its statements have none.
CREATE OR REPLACE FUNCTION dp_int.in_place_of(p_statements text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT concat(CASE WHEN p_statements LIKE '%"<level>"%' THEN ' In place of "<level>" name the levels that there are, from public knowledge, never read from the table.' END,
                CASE WHEN p_statements LIKE '%"<negative value>"%' THEN ' In place of "<negative value>" and "<positive value>" name the two values, from public knowledge, never read from the table.' END)
$$;

-- The expressions by which a view can convert the values of p_expression for a model: each with a name,
-- and with levels where it is a category. No row where no conversion is known. p_levels: levels named by
-- the steward, for text.
CREATE OR REPLACE FUNCTION dp_int.shown_as(p_type oid, p_expression text, p_name text, p_levels jsonb) RETURNS TABLE(expression text, name text, levels jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kind pg_catalog.pg_type;
  stem CONSTANT text := CASE WHEN octet_length(p_name) > 50 THEN left(p_name, 12) ELSE p_name END;  -- leaves room for what is appended
BEGIN
  SELECT t.* INTO STRICT kind FROM pg_catalog.pg_type t WHERE t.oid = dp_int.domain_base(p_type);
  IF p_levels IS NULL AND dp_int.is_number(kind.oid) THEN
    RETURN QUERY SELECT p_expression, p_name, NULL::jsonb;
  ELSIF dp_int.has_levels(kind.oid) THEN
    RETURN QUERY SELECT p_expression, p_name, coalesce(p_levels, CASE kind.typtype WHEN 'e' THEN '"enum"'::jsonb ELSE '["<level>", "*"]' END);
  ELSIF p_levels IS NOT NULL AND dp_int.is_number(kind.oid)
     OR kind.oid IN ('uuid'::regtype, 'inet'::regtype, 'cidr'::regtype, 'macaddr'::regtype, 'macaddr8'::regtype, '"char"'::regtype, 'name'::regtype, 'xid'::regtype, 'xid8'::regtype, 'cid'::regtype, 'tid'::regtype) THEN
    RETURN QUERY SELECT p_expression || '::text', p_name, coalesce(p_levels, '["<level>", "*"]');
  ELSIF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = kind.typrelid AND c.relkind = 'c') THEN  -- a view on a field of a table's row type would depend on that table
    RETURN QUERY SELECT s.* FROM pg_catalog.pg_attribute a, LATERAL dp_int.shown_as(a.atttypid, format('(%s).%I', p_expression, a.attname), stem || '_' || a.attname, NULL) s
                  WHERE a.attrelid = kind.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
  ELSE
    RETURN QUERY SELECT s.* FROM dp_int.parts_of(kind, p_expression) WITH ORDINALITY AS p(type, expression, suffix, n), LATERAL dp_int.shown_as(p.type, p.expression, CASE p.suffix WHEN '' THEN p_name ELSE stem || p.suffix END, NULL) s ORDER BY p.n;
  END IF;
END $$;

-- The parts of values of a type that is neither a number nor has levels: their types, their expressions,
-- and the suffixes for the column's name.
CREATE OR REPLACE FUNCTION dp_int.parts_of(p_kind pg_catalog.pg_type, p_expression text) RETURNS TABLE(type oid, expression text, suffix text)
LANGUAGE sql STABLE AS $$
  SELECT part.type::oid, format(part.template, p_expression), part.suffix
    FROM (VALUES
      ('money'::regtype, 'numeric'::regtype, '%s::numeric', ''),
      ('interval'::regtype, 'numeric'::regtype, 'extract(epoch FROM %s)', ''),
      ('time'::regtype, 'numeric'::regtype, 'extract(epoch FROM %s)', ''),
      ('timetz'::regtype, 'numeric'::regtype, 'extract(epoch FROM %s)', ''),
      ('point'::regtype, 'double precision'::regtype, '(%s)[0]', '_x'),
      ('point'::regtype, 'double precision'::regtype, '(%s)[1]', '_y'),
      ('box'::regtype, 'point'::regtype, '(%s)[0]', '_upper'),
      ('box'::regtype, 'point'::regtype, '(%s)[1]', '_lower'),
      ('lseg'::regtype, 'point'::regtype, '(%s)[0]', '_from'),
      ('lseg'::regtype, 'point'::regtype, '(%s)[1]', '_to'),
      ('circle'::regtype, 'point'::regtype, 'center(%s)', ''),
      ('circle'::regtype, 'double precision'::regtype, 'radius(%s)', '_radius'),
      ('path'::regtype, 'integer'::regtype, 'npoints(%s)', '_points'),
      ('polygon'::regtype, 'integer'::regtype, 'npoints(%s)', '_points'),
      ('polygon'::regtype, 'box'::regtype, 'box(%s)', ''),
      ('bytea'::regtype, 'integer'::regtype, 'octet_length(%s)', '_bytes'),
      ('xml'::regtype, 'integer'::regtype, 'octet_length(%s::text)', '_bytes'),
      ('bit'::regtype, 'bigint'::regtype, 'bit_count(%s)', '_ones'),
      ('varbit'::regtype, 'bigint'::regtype, 'bit_count(%s)', '_ones'),
      ('tsvector'::regtype, 'integer'::regtype, 'length(%s)', '_words'),
      ('tsquery'::regtype, 'integer'::regtype, 'numnode(%s)', '_nodes'),
      ('pg_lsn'::regtype, 'numeric'::regtype, '%s - ''0/0''::pg_lsn', ''),
      ('jsonb'::regtype, 'numeric'::regtype, 'CASE jsonb_typeof(%1$s -> ''field'') WHEN ''number'' THEN (%1$s -> ''field'')::numeric END', '_field')
    ) AS part(whole, type, template, suffix)
   WHERE part.whole = p_kind.oid
  UNION ALL
  SELECT 'bigint'::regtype, p_expression || '::oid::bigint', '' WHERE p_kind.typcategory = 'N' AND (p_kind.oid = 'oid'::regtype OR p_kind.typname LIKE 'reg%' AND p_kind.typnamespace = 'pg_catalog'::regnamespace)
  UNION ALL
  SELECT r.rngsubtype, format(bound.template, p_expression), bound.suffix
    FROM pg_catalog.pg_range r, (VALUES ('lower(%s)', '_lower'), ('upper(%s)', '_upper')) AS bound(template, suffix)
   WHERE p_kind.oid IN (r.rngtypid, r.rngmultitypid)
  UNION ALL
  SELECT p_kind.typelem, format('(%s)[0]', p_expression), '_0' WHERE p_kind.oid IN ('oidvector'::regtype, 'int2vector'::regtype)
  UNION ALL
  SELECT p_kind.typelem, format('(%s)[1]', p_expression), '_1' WHERE p_kind.typsubscript = 'pg_catalog.array_subscript_handler'::regproc AND p_kind.typlen = -1 AND p_kind.typcategory = 'A' AND p_kind.oid NOT IN ('oidvector'::regtype, 'int2vector'::regtype)
  UNION ALL
  SELECT 'integer'::regtype, format('cardinality(%s)', p_expression), '_count' WHERE p_kind.typsubscript = 'pg_catalog.array_subscript_handler'::regproc AND p_kind.typlen = -1 AND p_kind.typcategory = 'A' AND p_kind.oid NOT IN ('oidvector'::regtype, 'int2vector'::regtype)
$$;

-- Raises where a category of a registration, or a column that is not one, has a type that cannot be used
-- as such. p_call: the arguments of dp_register, for the statement in the hint; NULL in other calls.
-- Other errors in the arguments are reported elsewhere.
CREATE OR REPLACE FUNCTION dp_int.refuse_types(p_relid oid, p_target name, p_features name[], p_categories jsonb, p_of_categories boolean, p_call jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given CONSTANT jsonb := CASE jsonb_typeof(p_categories) WHEN 'object' THEN p_categories ELSE '{}' END;
  bad record;
BEGIN
  SELECT c.name, c.kind INTO bad
    FROM dp_int.registered_columns(p_relid, p_target, p_features, given) c
   WHERE given ? c.name::text = p_of_categories AND NOT CASE WHEN p_of_categories THEN dp_int.has_levels(c.kind) ELSE dp_int.is_number(c.kind) END
   ORDER BY c.n
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'column "%" has type %, which %', bad.name, format_type(bad.kind, NULL), CASE WHEN p_of_categories THEN 'cannot be a category' ELSE 'no model can use' END
      USING ERRCODE = '22023', HINT = dp_int.way_out(p_relid, p_target, p_features, given, bad.name, p_call);
  END IF;
END $$;

-- The columns that a registration names, with their types beneath domains, in its order. No row where it
-- names a column that does not exist.
CREATE OR REPLACE FUNCTION dp_int.registered_columns(p_relid oid, p_target name, p_features name[], p_categories jsonb) RETURNS TABLE(name name, kind oid, n bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  names CONSTANT name[] := p_target || p_features || ARRAY(SELECT k::name FROM jsonb_object_keys(p_categories) AS k WHERE NOT k = ANY ((p_target || p_features)::text[]));
BEGIN
  IF EXISTS (SELECT FROM unnest(names) AS c WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attname = c AND a.attnum > 0 AND NOT a.attisdropped)) THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT a.attname, dp_int.domain_base(a.atttypid), c.n
    FROM unnest(names) WITH ORDINALITY AS c(name, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = p_relid AND a.attname = c.name AND a.attnum > 0 AND NOT a.attisdropped;
END $$;

-- The hint for a column of a type that no model can use, as statements that can be executed.
CREATE OR REPLACE FUNCTION dp_int.way_out(p_relid oid, p_target name, p_features name[], p_categories jsonb, p_bad name, p_call jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$
DECLARE
  relation text;
  view text;
  kind oid;
  shown jsonb;
  numbers jsonb;
  said text;
  two jsonb;  -- the levels of a target of text: two labels, those that the call names or their places
BEGIN
  two := CASE WHEN jsonb_typeof(p_call -> 'labels' -> p_target::text) = 'array' THEN p_call -> 'labels' -> p_target::text ELSE '["<negative value>", "<positive value>"]' END;
  SELECT format('%I.%I', n.nspname, c.relname), (
         SELECT format('%I.%I', n.nspname, v.name)
           FROM (SELECT (CASE WHEN octet_length(c.relname) > 50 THEN left(c.relname, 12) ELSE c.relname::text END || '_dp' || coalesce(nullif(i, 1)::text, ''))::name AS name, i FROM generate_series(1, 100) AS i) AS v
          WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.relname = v.name AND o.relnamespace = c.relnamespace) ORDER BY v.i LIMIT 1)
    INTO relation, view
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_relid;
  SELECT c.kind INTO kind FROM dp_int.registered_columns(p_relid, p_target, p_features, p_categories) c WHERE c.name = p_bad;
  SELECT jsonb_agg(jsonb_build_object('source', c.source, 'expression', c.expression, 'levels', CASE WHEN c.labels THEN two ELSE c.levels END, 'labels', c.labels, 'place', c.n, 'same', c.same,
                                      'name', CASE c.among WHEN 1 THEN c.name ELSE (CASE WHEN octet_length(c.name) > 55 THEN left(c.name, 12) ELSE c.name::text END || '_' || c.among)::name END) ORDER BY c.n, c.part) INTO shown
    FROM (SELECT c.name AS source, c.n, s.n AS part, s.expression, s.levels, s.name::name AS name, e.same, v.labels,
                 row_number() OVER (PARTITION BY s.name::name ORDER BY e.same DESC, c.n, s.n) AS among  -- a column of the relation keeps its name
            FROM dp_int.registered_columns(p_relid, p_target, p_features, p_categories) c,
                 LATERAL dp_int.shown_as(c.kind, quote_ident(c.name), c.name, p_categories -> c.name::text) WITH ORDINALITY AS s(expression, name, levels, n),
                 LATERAL (SELECT s.expression = quote_ident(s.name)) AS e(same),
                 LATERAL (SELECT c.name = p_target AND s.levels = '["<level>", "*"]') AS v(labels)) AS c;
  IF NOT EXISTS (SELECT FROM jsonb_array_elements(shown) AS s WHERE s ->> 'source' = p_bad) THEN
    RETURN CASE WHEN kind = 'json'::regtype AND (SELECT relkind IN ('r', 'p') FROM pg_catalog.pg_class WHERE oid = p_relid)
      THEN format('Reading a field of json can raise an error, reading one of jsonb cannot. As the owner of %s run: ALTER TABLE %s ALTER COLUMN %I TYPE jsonb; and register again to see the view that serves. Or leave the column out.', relation, relation, p_bad)
      ELSE format('Leave the column out. Or give the table a stored generated column with what a model can use of it: smallint, integer, bigint, real, double precision, numeric, boolean, date or timestamp, or text or an enum as a category. As the owner of the table: ALTER TABLE %s ADD COLUMN ... GENERATED ALWAYS AS (... %I ...) STORED;', relation, p_bad) END;
  ELSIF dp_int.has_levels(kind) AND kind NOT IN (SELECT t.oid FROM pg_catalog.pg_type t WHERE t.typtype = 'e') THEN
    numbers := (SELECT jsonb_agg(CASE s ->> 'source' WHEN p_bad THEN s || jsonb_build_object('same', false, 'levels', NULL, 'labels', false, 'expression',
                  format('CASE WHEN left(%1$I, 30) COLLATE "C" ~ ''^-?[0-9]{1,9}([.][0-9]{1,9})?$'' THEN left(%1$I, 30)::numeric END', p_bad)) ELSE s END)
                  FROM jsonb_array_elements(shown) AS s);
    said := format('%s %s If it is text of numbers: %s',
                   CASE WHEN p_bad = p_target THEN 'If it has two values, which dp_logistic_regress is to tell apart, name both, the negative one first.'
                        ELSE 'If it is a category, name its levels; "*" is every other value.' END,
                   dp_int.register_statements(relation, view, p_target, p_features, shown, p_call), dp_int.register_statements(relation, view, p_target, p_features, numbers, p_call));
  ELSE
    said := dp_int.register_statements(relation, view, p_target, p_features, shown, p_call);
  END IF;
  RETURN said || dp_int.in_place_of(said)
         || CASE kind WHEN 'jsonb'::regtype THEN ' In place of field name the field.' ELSE '' END;
END $$;

-- The statements that register these columns: where they are not the relation's own columns, by a view
-- that shows them.
CREATE OR REPLACE FUNCTION dp_int.register_statements(p_relation text, p_view text, p_target name, p_features name[], p_shown jsonb, p_call jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN bool_and((s ->> 'same')::boolean) THEN 'Run: ' || dp_int.register_statement(p_relation, p_target, p_features, p_shown, p_call)
    ELSE format('Show it in a view as something that a model can use. As the owner of %1$s run: CREATE VIEW %2$s AS SELECT %3$s FROM %1$s; GRANT SELECT ON %2$s TO dp_sidecar; Then register the view: %4$s Its option states that every person has %5$s there and that reading raises no error; these expressions raise none.',
      p_relation, p_view,
      coalesce(quote_ident(p_call ->> 'unit') || ', ', '') || coalesce(quote_ident(p_call ->> 'block') || ', ', '')
        || string_agg(CASE WHEN (s ->> 'same')::boolean THEN s ->> 'expression' ELSE format('%s AS %I', s ->> 'expression', s ->> 'name') END, ', ' ORDER BY n),
      dp_int.register_statement(p_view, p_target, p_features, p_shown, jsonb_set(coalesce(p_call, '{}'), '{options}', coalesce(p_call -> 'options', '{}') || '{"total": true}')),
      CASE WHEN p_call ? 'unit' THEN 'rows' ELSE 'exactly one row' END) END
    FROM jsonb_array_elements(p_shown) WITH ORDINALITY AS e(s, n)
$$;

-- The call of dp_register for a view that shows these columns in place of the columns of a call.
CREATE OR REPLACE FUNCTION dp_int.register_statement(p_relation text, p_target name, p_features name[], p_shown jsonb, p_call jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
  WITH shown AS (
    SELECT s ->> 'source' AS source, s ->> 'name' AS name, nullif(s -> 'levels', 'null') AS levels, (s ->> 'labels')::boolean AS labels, row_number() OVER (PARTITION BY s ->> 'source' ORDER BY n) AS part, n
      FROM jsonb_array_elements(p_shown) WITH ORDINALITY AS e(s, n)),
  used AS (SELECT * FROM shown WHERE source <> p_target OR part = 1),  -- a target is one column
  renamed AS (
    SELECT key, jsonb_object_agg(name, value) AS value
      FROM (SELECT a.key, u.name, o.value
              FROM jsonb_each(p_call) AS a, jsonb_each(CASE jsonb_typeof(a.value) WHEN 'object' THEN a.value ELSE '{}' END) AS o
              JOIN used u ON u.source = o.key AND u.levels IS NULL
             WHERE a.key IN ('scales', 'labels')
            UNION ALL SELECT 'labels', name, levels FROM used WHERE labels) AS r(key, name, value)
     GROUP BY key)
  SELECT format('SELECT dp_register(%s);', string_agg(argument, ', ' ORDER BY place))
    FROM (
      SELECT 1, format('%L, %L, target => %L', coalesce(p_call ->> 'dataset', 'name'), p_relation, (SELECT name FROM used WHERE source = p_target))
      UNION ALL SELECT 2, format('features => %L', (SELECT array_agg(name ORDER BY n) FROM used WHERE source = ANY (p_features::text[]) AND source <> p_target))
      UNION ALL SELECT 3, format('epsilon => %s', coalesce(p_call ->> 'epsilon', '1'))
      UNION ALL SELECT 4, format('categories => %L', jsonb_object_agg(name, levels)) FROM used WHERE levels IS NOT NULL HAVING count(*) > 0
      UNION ALL SELECT 5, format('%I => %L', key, value) FROM renamed
      UNION ALL SELECT 6, format('%I => %L', key, value) FROM jsonb_each_text(p_call) WHERE key NOT IN ('dataset', 'epsilon', 'scales', 'labels') AND value NOT IN ('{}', '0')
    ) AS arguments(place, argument)
$$;
