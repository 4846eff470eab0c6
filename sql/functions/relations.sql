-- What a registered relation reads: the tables, views, functions and policies below it, whose people it
-- shows, whether reading it can fail or leave rows out, and whether all that has changed since.

-- The tables below a relation: through views and materialized views to the relations that they read,
-- through functions that keep their body as a parse tree (BEGIN ATOMIC), through policies of row-level
-- security to the relations that these read, and through inheritance to every parent and child.
CREATE OR REPLACE FUNCTION dp_int.base_relations(p_relid oid) RETURNS TABLE(relid oid, relation text)
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$  -- names are compared as text
BEGIN
  RETURN QUERY
  SELECT c.oid, format('%I.%I', n.nspname, c.relname)
    FROM dp_int.below(p_relid) b
    JOIN pg_catalog.pg_class c ON b.class = 'pg_catalog.pg_class'::regclass AND c.oid = b.id AND c.relkind IN ('r', 'p', 'f', 'm')
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
END $$;

-- Returns whether policies of row-level security restrict the rows of a table when a relation is read, where
-- p_tree are the relation and all relations that its views name. Policies apply to the owner of the view that
-- names the table or, inside functions, to dp_sidecar; not to superusers, roles with BYPASSRLS and the owner of
-- the table. A table that is read as a partition or child of its parent has the parent's policies. Those of
-- the relation itself do not count: check_relation refuses them, or dp_sidecar is exempt.
CREATE OR REPLACE FUNCTION dp_int.policies_apply(p_table oid, p_relid oid, p_tree oid[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN p_table <> p_relid AND EXISTS (
    SELECT FROM pg_catalog.pg_class c
     WHERE c.oid = p_table AND c.relrowsecurity
       AND CASE WHEN p_table <> ALL (p_tree) THEN NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = p_table)
           ELSE EXISTS (
             SELECT FROM pg_catalog.pg_depend d
               JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND w.oid = d.objid
               JOIN pg_catalog.pg_class v ON v.oid = w.ev_class AND v.oid = ANY (p_tree)
               JOIN pg_catalog.pg_roles o ON o.oid = v.relowner
              WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = p_table
                AND (NOT (o.rolsuper OR o.rolbypassrls OR pg_has_role(o.oid, c.relowner, 'USAGE') AND NOT c.relforcerowsecurity)
                     OR EXISTS (SELECT FROM pg_options_to_table(v.reloptions) WHERE option_name = 'security_invoker' AND option_value::boolean))) END);
END $$;

-- The functions of casts that a parse tree may call without naming them: pg_depend has no entry for them. json is made
-- of a value by a cast of its type, where there is one, and the system's own functions in SQL over any type (text || any,
-- quote_literal) cast it to text when the planner puts their text in the place of a call. The types are those of the
-- tree, of their elements and columns, and those that domains are over.
CREATE OR REPLACE FUNCTION dp_int.hidden_casts(p_tree text) RETURNS SETOF oid
LANGUAGE plpgsql STABLE ROWS 1 AS $$
DECLARE
  targets oid[];
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_cast k WHERE k.castfunc >= 16384 AND k.casttarget IN ('json'::regtype, 'jsonb'::regtype, 'text'::regtype)) THEN
    RETURN;
  END IF;
  SELECT CASE WHEN p_tree LIKE '%{JSON%' OR bool_or(p.proname ~ 'json') THEN ARRAY['json'::regtype, 'jsonb'::regtype]::oid[] END
      || CASE WHEN bool_or(l.lanname = 'sql' AND p.prosqlbody IS NULL) THEN ARRAY['text'::regtype]::oid[] END
    INTO targets
    FROM regexp_matches(p_tree, E'(?<!\\\\):(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS m
    JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid AND p.pronamespace = 'pg_catalog'::regnamespace
    JOIN pg_catalog.pg_language l ON l.oid = p.prolang;
  IF targets IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH RECURSIVE types(id) AS (
    SELECT m[1]::oid FROM regexp_matches(p_tree, E'(?<!\\\\):[a-z_]*type(?:id)? ([0-9]+)', 'g') AS m
    UNION
    SELECT part.id
      FROM types t
      JOIN pg_catalog.pg_type y ON y.oid = t.id,
           LATERAL (SELECT unnest(ARRAY[y.typelem, y.typbasetype]) UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0) AS part(id)
     WHERE part.id <> 0)
  SELECT k.castfunc FROM pg_catalog.pg_cast k JOIN types t ON t.id = k.castsource WHERE k.castfunc >= 16384 AND k.casttarget = ANY (targets);
END $$;

-- What a parse tree may run that pg_depend has no entry for: casts to json and text, and the constraints of a domain that RETURNING names.
CREATE OR REPLACE FUNCTION dp_int.unnamed(p_tree text) RETURNS TABLE(class oid, id oid)
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT 'pg_catalog.pg_proc'::regclass::oid, dp_int.hidden_casts(p_tree)
  UNION ALL
  SELECT 'pg_catalog.pg_type'::regclass::oid, m[1]::oid FROM regexp_matches(p_tree, E'(?<!\\\\):typid ([0-9]+)', 'g') AS m
$$;

-- The types that a type is made of: that of a domain, of elements, of the attributes of a row, of the bounds of a range.
CREATE OR REPLACE FUNCTION dp_int.parts_of_type(p_type oid) RETURNS SETOF oid
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT part FROM pg_catalog.pg_type y, unnest(ARRAY[y.typbasetype, y.typelem]) AS part WHERE y.oid = p_type
  UNION ALL
  SELECT part FROM pg_catalog.pg_range g, unnest(ARRAY[g.rngsubtype, g.rngtypid]) AS part WHERE p_type IN (g.rngtypid, g.rngmultitypid)
  UNION ALL
  SELECT a.atttypid FROM pg_catalog.pg_type y JOIN pg_catalog.pg_attribute a ON a.attrelid = y.typrelid AND a.attnum > 0 WHERE y.oid = p_type
$$;

-- The parse trees of an object: the rules and policies of a relation, the constraints of a domain, the body and the
-- defaults of the arguments of a function. Each has a kind, and class and id under which pg_depend lists what it names.
-- An operator has such entries without a tree, as functions in most languages do. Whoever asks leaves out by their kind
-- those that it is not about, as rules and policies of writing where a relation is read.
CREATE OR REPLACE FUNCTION dp_int.trees_of(p_class oid, p_id oid) RETURNS TABLE(class oid, id oid, kind text, tree text)
LANGUAGE sql STABLE ROWS 2 AS $$
  SELECT 'pg_catalog.pg_rewrite'::regclass::oid, w.oid, CASE w.ev_type WHEN '1' THEN 'view' ELSE 'rule of writing' END, w.ev_action::text
    FROM pg_catalog.pg_rewrite w WHERE p_class = 'pg_catalog.pg_class'::regclass AND w.ev_class = p_id
  UNION ALL
  SELECT 'pg_catalog.pg_policy'::regclass::oid, p.oid, CASE WHEN p.polcmd IN ('r', '*') THEN 'policy' ELSE 'policy of writing' END, p.polqual::text
    FROM pg_catalog.pg_policy p WHERE p_class = 'pg_catalog.pg_class'::regclass AND p.polrelid = p_id
  UNION ALL
  SELECT 'pg_catalog.pg_constraint'::regclass::oid, k.oid, 'constraint', k.conbin::text
    FROM pg_catalog.pg_constraint k WHERE p_class = 'pg_catalog.pg_type'::regclass AND k.contypid = p_id AND k.contypid <> 0  -- as it is: else the planner expects as many as tables have
  UNION ALL
  SELECT p_class, p_id, 'function', t.tree
    FROM pg_catalog.pg_proc p, unnest(ARRAY[p.prosqlbody::text, p.proargdefaults::text]) AS t(tree) WHERE p_class = 'pg_catalog.pg_proc'::regclass AND p.oid = p_id
  UNION ALL
  SELECT p_class, p_id, 'operator', NULL WHERE p_class = 'pg_catalog.pg_operator'::regclass
$$;

-- The objects that an object refers to, and may read or run: those that pg_depend lists (named), and those that it has
-- no entry for. With the kind of the tree that refers to each.
CREATE OR REPLACE FUNCTION dp_int.references_of(p_class oid, p_id oid) RETURNS TABLE(class oid, id oid, kind text, named boolean)
LANGUAGE sql STABLE ROWS 10 AS $$
  SELECT e.class, e.id, t.kind, true
    FROM dp_int.trees_of(p_class, p_id) t,
         LATERAL (SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d WHERE d.classid = t.class AND d.objid = t.id OFFSET 0) AS e(class, id)  -- else all entries are scanned
  UNION ALL
  SELECT u.class, u.id, t.kind, false FROM dp_int.trees_of(p_class, p_id) t, LATERAL dp_int.unnamed(t.tree) u
  UNION ALL  -- the planner puts one in the place of the other, and a negator in the place of NOT
  SELECT p_class, other, 'operator', false FROM pg_catalog.pg_operator o, unnest(ARRAY[o.oprcom, o.oprnegate]) AS other WHERE p_class = 'pg_catalog.pg_operator'::regclass AND o.oid = p_id AND other <> 0
  UNION ALL
  SELECT p_class, y.id, 'type', false FROM dp_int.parts_of_type(p_id) AS y(id) WHERE p_class = 'pg_catalog.pg_type'::regclass
$$;

-- Relations, functions, operators and types below a relation, itself included.
CREATE OR REPLACE FUNCTION dp_int.below(p_relid oid) RETURNS TABLE(class oid, id oid)
LANGUAGE plpgsql STABLE ROWS 20 AS $$
DECLARE
  tree CONSTANT oid[] := ARRAY(SELECT dp_int.relation_tree(p_relid));
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass::oid, p_relid
    UNION
    SELECT step.class, step.id
      FROM reached r, LATERAL (
        SELECT f.class, f.id FROM dp_int.references_of(r.class, r.id) AS f
         WHERE f.kind <> 'policy of writing' AND (f.kind <> 'policy' OR NOT f.named OR dp_int.policies_apply(r.id, p_relid, tree))
        UNION ALL
        SELECT r.class, i.inhparent FROM pg_catalog.pg_inherits i WHERE r.class = 'pg_catalog.pg_class'::regclass AND i.inhrelid = r.id
        UNION ALL
        SELECT r.class, i.inhrelid FROM pg_catalog.pg_inherits i WHERE r.class = 'pg_catalog.pg_class'::regclass AND i.inhparent = r.id) AS step(class, id)
     WHERE step.class IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)
        OR step.class = 'pg_catalog.pg_type'::regclass AND step.id >= 16384)
  SELECT reached.class, reached.id FROM reached;
END $$;

-- Does a function of the system's own take a type by its OID, as the input functions of domains and rows do? Then
-- no entry names that type, and what its constraints call.
CREATE OR REPLACE FUNCTION dp_int.takes_a_type(p_types oidvector) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT 'cstring'::regtype = ANY (p_types::oid[]) AND 'oid'::regtype = ANY (p_types::oid[]) $$;

-- The reason why a relation may hold people who are not in its base relations, whose account could then
-- not be found; NULL if it cannot. Of the system's own functions those count that execute a text or read
-- data outside of tables: all of these are volatile, produce XML, tell of the server's state, or try an input.
CREATE OR REPLACE FUNCTION dp_int.why_unknown(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  relations CONSTANT oid[] := ARRAY(SELECT dp_int.relation_tree(p_relid));
BEGIN
  RETURN (
    WITH below AS MATERIALIZED (SELECT * FROM dp_int.below(p_relid)),
    trees(text) AS (
      SELECT t.tree FROM below b, LATERAL dp_int.trees_of(b.class, b.id) AS t
       WHERE t.kind NOT LIKE '% of writing' AND (t.kind <> 'policy' OR dp_int.policies_apply(b.id, p_relid, relations)))
    SELECT reason FROM (
      SELECT 1, 'it shows no table' WHERE NOT EXISTS (SELECT FROM dp_int.base_relations(p_relid))
      UNION ALL
      SELECT 2, format('%s is a foreign table', c.oid::regclass)
        FROM below b JOIN pg_catalog.pg_class c ON b.class = 'pg_catalog.pg_class'::regclass AND c.oid = b.id AND c.relkind = 'f'
      UNION ALL
      SELECT 3, format('what function %s reads is not known: it has no BEGIN ATOMIC', p.oid::regprocedure)
        FROM below b JOIN pg_catalog.pg_proc p ON b.class = 'pg_catalog.pg_proc'::regclass AND p.oid = b.id AND p.prosqlbody IS NULL
      UNION ALL
      SELECT 4, format('what function %s reads is not known', p.oid::regprocedure)
        FROM trees t, regexp_matches(t.text, ':funcid ([0-9]+)', 'g') AS m
        JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid AND p.pronamespace = 'pg_catalog'::regnamespace AND (p.provolatile = 'v' OR p.proname ~ '_to_xml|^pg_(stat_|input_)' OR dp_int.takes_a_type(p.proargtypes))
      UNION ALL
      SELECT 5, format('it shows %s, which is the system''s own', m[1]::oid::regclass)
        FROM trees t, regexp_matches(t.text, ':rtekind 0 :relid ([0-9]+)', 'g') AS m
       WHERE m[1]::oid BETWEEN 1 AND 16383
    ) AS reasons(rank, reason)
    ORDER BY rank, reason
    LIMIT 1);
END $$;

-- Every relation on the way, views included.
CREATE OR REPLACE FUNCTION dp_int.relation_tree(p_relid oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE ROWS 10 AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(relid) AS (
    SELECT p_relid
    UNION
    SELECT d.refobjid
      FROM reached r
      JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.relid
      JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
                                 AND d.refclassid = 'pg_catalog.pg_class'::regclass)
  SELECT relid FROM reached;
END $$;

-- Views and materialized views on the way that are not plain. A view is plain when its parse tree holds
-- column references over one relation and nothing else: the node types must be on a positive list, and no
-- FROM may have a filter (which may be a mere boolean column) or leave children out with ONLY.
CREATE OR REPLACE FUNCTION dp_int.derived_views(p_relid oid) RETURNS TABLE(relid oid, description text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  WITH views AS MATERIALIZED (  -- otherwise the planner searches the rules of the system's own views first
    SELECT c.oid, format('%s %I.%I', CASE c.relkind WHEN 'm' THEN 'materialized view' ELSE 'view' END, n.nspname, c.relname) AS description, w.ev_action::text AS parsed
      FROM dp_int.relation_tree(p_relid) AS t(oid)
      JOIN pg_catalog.pg_class c ON c.oid = t.oid AND c.relkind IN ('v', 'm')
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid AND w.ev_type = '1')
  SELECT v.oid, v.description
    FROM views v
   WHERE (SELECT bool_or(node NOT IN ('QUERY', 'RTE', 'RANGETBLENTRY', 'RTEPERMISSIONINFO', 'ALIAS', 'TARGETENTRY', 'VAR', 'FROMEXPR', 'RANGETBLREF'))
              OR count(*) FILTER (WHERE node = 'RANGETBLREF') <> count(*) FILTER (WHERE node = 'QUERY')
            FROM regexp_matches(v.parsed, E'(?<!\\\\)\\{([A-Z_]+)|:quals (?!<>)', 'g') AS m, coalesce(m[1], 'filter') AS node)
      OR EXISTS (SELECT FROM string_to_table(v.parsed, ':rtekind 0 :relid ') WITH ORDINALITY AS r(entry, n)  -- older servers list the view itself
                  WHERE n > 1 AND split_part(entry, ' ', 1) <> v.oid::text AND split_part(entry, ':inh ', 2) LIKE 'false%');
END $$;

-- The reason why one person's values could make reading the relation raise an error, drop or repeat a
-- row, or change its number of rows; NULL when they cannot. A materialized view is judged like the view
-- that defines it: rows that its definition omits are missing from it too, although reading it evaluates
-- nothing below it. The rows in a single partition or child depend on their values. Another server
-- decides the rows of a foreign table. The planner of any query may run the functions in indexes,
-- statistics, partition keys and, unless constraint_exclusion is off, in constraints. (Those of a superuser's in
-- constraints, as extensions have them, are nobody's attack.)
CREATE OR REPLACE FUNCTION dp_int.why_not_total(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$  -- planning it takes far longer than executing it
DECLARE
  derived CONSTANT boolean := (SELECT relkind IN ('v', 'm') FROM pg_catalog.pg_class WHERE oid = p_relid);
BEGIN
  RETURN (
    WITH RECURSIVE tree AS (
      SELECT c.oid, c.relrowsecurity, format('%I.%I', n.nspname, c.relname) AS relation
        FROM (SELECT p_relid UNION SELECT dp_int.relation_tree(p_relid) WHERE derived) AS t(oid)
        JOIN pg_catalog.pg_class c ON c.oid = t.oid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace),
    read(oid, relkind) AS (  -- the relations that are read with it; those below a materialized view are not
      SELECT c.oid, c.relkind FROM pg_catalog.pg_class c WHERE c.oid = p_relid
      UNION
      SELECT c.oid, c.relkind
        FROM read r
        JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid AND r.relkind = 'v'
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
                                   AND d.refclassid = 'pg_catalog.pg_class'::regclass
        JOIN pg_catalog.pg_class c ON c.oid = d.refobjid),
    stored(oid, relkind, relation) AS (
      SELECT r.oid, r.relkind, t.relation FROM read r JOIN tree t ON t.oid = r.oid
      UNION
      SELECT c.oid, c.relkind, format('%I.%I', n.nspname, c.relname)
        FROM stored s
        JOIN pg_catalog.pg_inherits i ON i.inhparent = s.oid
        JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace),
    trees(class, id, tree) AS (
      SELECT o.* FROM stored s
        JOIN LATERAL (SELECT 'pg_catalog.pg_class'::regclass, i.indexrelid, concat(i.indexprs, i.indpred) FROM pg_catalog.pg_index i WHERE i.indrelid = s.oid
                      UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::regclass, e.oid, e.stxexprs::text FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = s.oid
                      UNION ALL SELECT 'pg_catalog.pg_class'::regclass, k.partrelid, k.partexprs::text FROM pg_catalog.pg_partitioned_table k WHERE k.partrelid = s.oid
                      UNION ALL SELECT 'pg_catalog.pg_constraint'::regclass, k.oid, k.conbin::text FROM pg_catalog.pg_constraint k WHERE k.conrelid = s.oid AND k.contype = 'c'
                     ) AS o(class, id, tree) ON o.tree <> '')
    SELECT reason FROM (
      SELECT 1, format('row-level security applies to %s', relation)
        FROM tree
       WHERE relrowsecurity
         AND NOT (oid = p_relid AND (SELECT rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = 'dp_sidecar'))
      UNION ALL
      SELECT 2, format('%s does more than show columns of one relation', v.description)
        FROM dp_int.derived_views(p_relid) v
       WHERE derived
      UNION ALL
      SELECT 3, format('%s is a partition or child of %s', t.relation, i.inhparent::regclass)
        FROM tree t
        JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.oid
      UNION ALL
      SELECT 4, format('%s is a foreign table', relation) FROM stored WHERE relkind = 'f'
      UNION ALL
      SELECT 5, format('column %I of %s is computed when it is read', a.attname, s.relation)
        FROM stored s
        JOIN pg_catalog.pg_attribute a ON a.attrelid = s.oid AND a.attgenerated = 'v'
      UNION ALL
      SELECT 6, format('%s calls %s', pg_describe_object(d.classid, d.objid, 0), pg_describe_object(d.refclassid, d.refobjid, 0))
        FROM stored s
        JOIN LATERAL (SELECT 'pg_catalog.pg_class'::regclass, s.oid
                      UNION ALL SELECT 'pg_catalog.pg_class'::regclass, i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = s.oid
                      UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::regclass, e.oid FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = s.oid
                      UNION ALL SELECT 'pg_catalog.pg_constraint'::regclass, k.oid FROM pg_catalog.pg_constraint k WHERE k.conrelid = s.oid AND k.contype = 'c'
                     ) AS o(class, oid) ON true
        JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.oid  -- has no entries for objects of the system
                                   AND d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)
       WHERE o.class <> 'pg_catalog.pg_constraint'::regclass
          OR (SELECT NOT u.rolsuper
                FROM pg_catalog.pg_roles u
               WHERE u.oid = CASE d.refclassid WHEN 'pg_catalog.pg_proc'::regclass THEN (SELECT p.proowner FROM pg_catalog.pg_proc p WHERE p.oid = d.refobjid)
                                               ELSE (SELECT p.oprowner FROM pg_catalog.pg_operator p WHERE p.oid = d.refobjid) END)
      UNION ALL
      SELECT 6, format('%s calls %s', pg_describe_object(o.class, o.id, 0), pg_describe_object('pg_catalog.pg_proc'::regclass, f.oid, 0))
        FROM trees o
        JOIN LATERAL dp_int.hidden_casts(o.tree) AS f(oid) ON true
       WHERE (SELECT EXISTS (SELECT FROM pg_catalog.pg_cast k WHERE k.castfunc >= 16384))
      UNION ALL  -- to see whether a cast to a domain checks anything, the planner plans its constraints, and runs what they call with constants
      SELECT 6, format('%s calls the constraints of %s', pg_describe_object(o.class, o.id, 0), pg_describe_object('pg_catalog.pg_type'::regclass, y.oid, 0))
        FROM trees o
        JOIN LATERAL regexp_matches(o.tree, E'(?<!\\\\):(?:resulttype|typid) ([0-9]+)', 'g') AS m ON true
        JOIN pg_catalog.pg_type y ON y.oid = m[1]::oid AND y.typtype = 'd' AND y.oid >= 16384
       WHERE o.class <> 'pg_catalog.pg_constraint'::regclass
    ) AS reasons(rank, reason)
    ORDER BY rank, reason
    LIMIT 1);
END $$;

-- Returns the objects that decide which rows reading a relation returns, and whether reading raises an error:
-- the relation itself, all relations, functions and operators that it uses, types with the constraints of
-- domains, and policies of row-level security. Partitions and children are left out: parse trees do not name
-- them, and they are read without policies of their own.
CREATE OR REPLACE FUNCTION dp_int.involved(p_relid oid) RETURNS TABLE(class oid, id oid)
LANGUAGE plpgsql STABLE ROWS 20 AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass::oid, p_relid
    UNION
    SELECT f.class, f.id
      FROM reached r, LATERAL dp_int.references_of(r.class, r.id) AS f
     WHERE f.kind <> 'rule of writing'
       AND f.class IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass, 'pg_catalog.pg_type'::regclass)
       AND f.id >= 16384)  -- no object of the system's own changes
  SELECT reached.class, reached.id FROM reached;
END $$;

-- Removes from a parse tree the positions in the source text, and the list of the column names that a table
-- had when the tree was made, unless the statement gives the columns names of its own.
CREATE OR REPLACE FUNCTION dp_int.without_places(p_tree text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT regexp_replace(regexp_replace(p_tree, E'(?<!\\\\):[a-z_]*(location|stmt_len|list_start|list_end) -?[0-9]+', '', 'g'),
                        E'(?<!\\\\):alias (<>|\\{ALIAS :aliasname (?:[^ \\\\]|\\\\.)+ :colnames <>\\}) :eref \\{ALIAS (?:[^\\\\}]|\\\\.)*\\} :rtekind 0 ', E':alias \\1 :rtekind 0 ', 'g')
$$;

-- What a foreign table reads: its server, itself, its options and those of its columns.
CREATE OR REPLACE FUNCTION dp_int.stands_for(f pg_catalog.pg_foreign_table) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(f.ftserver, f.ftrelid, (SELECT array_agg(o ORDER BY o) FROM unnest(f.ftoptions) AS o WHERE o !~ '^(fetch_size|batch_size|use_remote_estimate|async_capable|analyze_sampling)='),
                           (SELECT array_agg(concat(a.attnum, ' ', a.attfdwoptions) ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = f.ftrelid AND a.attfdwoptions IS NOT NULL))
$$;

-- The foreign tables among the partitions and children that reading a relation reads, and what each stands for. They come
-- and go, so that the digest leaves them out.
CREATE OR REPLACE FUNCTION dp_int.foreign_parts(p_relid oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(f.ftrelid, dp_int.stands_for(f)), '{}')
    FROM (SELECT DISTINCT h.relid FROM dp_int.involved(p_relid) v, LATERAL dp_int.with_children(v.id) AS h(relid) WHERE v.class = 'pg_catalog.pg_class'::regclass AND h.relid <> v.id) AS x
    JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = x.relid
$$;

-- Raises unless the foreign parts of a relation that was stated to be total are those of then, unchanged, or others from
-- the same servers, each of another table there, which no foreign table that is named stands for either: whose rows they
-- are was stated, and that each person has one.
CREATE OR REPLACE FUNCTION dp_int.refuse_other_parts(p_relid oid, p_parts jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  parts CONSTANT jsonb := dp_int.foreign_parts(p_relid);
  found text;
BEGIN
  IF p_parts IS NULL THEN
    RAISE EXCEPTION 'nobody knows which foreign tables it was stated to be total with';
  END IF;
  SELECT p.key::oid::regclass INTO found FROM jsonb_each(parts) AS p JOIN jsonb_each(p_parts) AS o USING (key) WHERE p.value <> o.value ORDER BY p.key LIMIT 1;
  IF found IS NOT NULL THEN
    RAISE EXCEPTION 'the foreign table % stands for another one than when its rows were stated to be of no other people', found;
  END IF;
  SELECT p.key::oid::regclass INTO found FROM jsonb_each(parts) AS p
   WHERE NOT p_parts ? p.key AND NOT EXISTS (SELECT FROM jsonb_each(p_parts) AS o WHERE o.value -> 0 = p.value -> 0) ORDER BY p.key LIMIT 1;
  IF found IS NOT NULL THEN
    RAISE EXCEPTION 'the foreign table % came later, from a server of which nothing was stated', found;
  END IF;
  SELECT string_agg(t.part::regclass::text, ' and ' ORDER BY t.part) INTO found
    FROM (SELECT f.ftrelid, x.stated, jsonb_build_array(f.ftserver,
                   CASE WHEN n.schema_name IS NULL AND n.table_name IS NULL AND dp_int.stands_for(f) -> 2 <> 'null' AND h.prosrc IS DISTINCT FROM 'postgres_fdw_handler' THEN dp_int.stands_for(f) -> 2
                        ELSE jsonb_build_array(coalesce(n.schema_name, s.nspname::text), coalesce(n.table_name, c.relname::text)) END)
            FROM (SELECT p.key::oid, p_parts ? p.key FROM jsonb_each(parts) AS p
                  UNION ALL SELECT v.id, true FROM dp_int.involved(p_relid) AS v WHERE v.class = 'pg_catalog.pg_class'::regclass) AS x(relid, stated)
            JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = x.relid
            JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid
            JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
            JOIN pg_catalog.pg_foreign_server e ON e.oid = f.ftserver
            JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = e.srvfdw
            LEFT JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler,
                 LATERAL (SELECT max(o.option_value) FILTER (WHERE o.option_name = 'schema_name'), max(o.option_value) FILTER (WHERE o.option_name = 'table_name') FROM pg_options_to_table(f.ftoptions) AS o) AS n(schema_name, table_name)
         ) AS t(part, stated, place)
   GROUP BY t.place HAVING count(*) > 1 AND NOT bool_and(t.stated) LIMIT 1;
  IF found IS NOT NULL THEN
    RAISE EXCEPTION 'the foreign tables % show the same rows', found;
  END IF;
END $$;

-- Returns a SHA-256 of the definitions of all objects of dp_int.involved: views, functions with the defaults of
-- their arguments, aggregates, operators, types and constraints of domains, policies of row-level security with
-- the owners to whom they apply, the options of foreign tables, labels, the names of columns where a row is used
-- as a whole, configurations of text search, and settings of the database. Views and functions with BEGIN ATOMIC enter
-- as parse trees without positions, other functions as their text, so that putting an earlier definition back
-- with CREATE OR REPLACE restores the hash; not that of a view with a join if one of its tables has other columns by
-- then, all of which its tree lists. Trees refer to tables by OID and to columns by number, so that
-- renaming these does not change it otherwise. A change of what the hash covers needs a
-- migration like 048, or data sets registered before it are refused.
CREATE OR REPLACE FUNCTION dp_int.definition(p_relid oid) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN (
    WITH RECURSIVE involved AS MATERIALIZED (SELECT * FROM dp_int.involved(p_relid)),
    relations AS MATERIALIZED (SELECT c.* FROM involved v JOIN pg_catalog.pg_class c ON v.class = 'pg_catalog.pg_class'::regclass AND c.oid = v.id),
    functions AS MATERIALIZED (SELECT p.* FROM involved v JOIN pg_catalog.pg_proc p ON v.class = 'pg_catalog.pg_proc'::regclass AND p.oid = v.id),
    trees AS MATERIALIZED (
      SELECT c.oid, c.reloptions, dp_int.without_places(w.ev_action::text) AS tree FROM relations c JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid AND w.ev_type = '1'),
    hidden AS MATERIALIZED (SELECT c.oid, c.relforcerowsecurity FROM relations c WHERE c.relrowsecurity AND dp_int.policies_apply(c.oid, p_relid, ARRAY(SELECT dp_int.relation_tree(p_relid)))),
    used(type) AS (  -- types of columns and of whole rows, which no dependency names, with the types that they are made of; a join lists all columns, used or not, and is a row (2249) where its alias is
      SELECT m[1]::oid
        FROM (SELECT t.tree FROM trees t
              UNION ALL SELECT f.prosqlbody::text FROM functions f
              UNION ALL SELECT p.polqual::text FROM hidden h JOIN pg_catalog.pg_policy p ON p.polrelid = h.oid AND p.polcmd IN ('r', '*')) AS x(tree),
             LATERAL (SELECT CASE WHEN x.tree ~ E'(?<!\\\\):varattno 0 :vartype 2249 ' THEN x.tree ELSE regexp_replace(x.tree, E'(?<!\\\\):joinaliasvars \\(.*?\\) :joinleftcols', '', 'g') END) AS y(tree),
             LATERAL regexp_matches(y.tree, E'(?<!\\\\):vartype ([0-9]+)', 'g') AS m
       WHERE m[1]::oid >= 16384
      UNION
      SELECT y.part FROM used, LATERAL dp_int.parts_of_type(used.type) AS y(part) WHERE y.part >= 16384),
    types AS MATERIALIZED (
      SELECT y.* FROM pg_catalog.pg_type y WHERE y.oid IN (SELECT v.id FROM involved v WHERE v.class = 'pg_catalog.pg_type'::regclass UNION ALL SELECT used.type FROM used)),
    parts(part) AS (
      SELECT jsonb_build_array('view', oid, tree, (SELECT array_agg(o.option_name ORDER BY o.option_name) FROM pg_options_to_table(reloptions) AS o WHERE CASE WHEN o.option_name LIKE 'security%' THEN o.option_value::boolean END)) FROM trees
      UNION ALL
      SELECT jsonb_build_array('function', oid, prolang, prokind, proisstrict, prosecdef, provolatile, procost, proconfig, probin, prosrc, dp_int.without_places(prosqlbody::text), dp_int.without_places(proargdefaults::text)) FROM functions
      UNION ALL
      SELECT jsonb_build_array('aggregate', f.oid, a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid, a.aggdeserialfn::oid, a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid,
                               a.aggfinalextra, a.aggmfinalextra, a.aggsortop, a.aggtranstype, a.aggmtranstype, a.agginitval, a.aggminitval)
        FROM functions f JOIN pg_catalog.pg_aggregate a ON a.aggfnoid = f.oid
      UNION ALL
      SELECT jsonb_build_array('operator', o.oid, o.oprcode::oid, o.oprcom, o.oprnegate) FROM involved v JOIN pg_catalog.pg_operator o ON v.class = 'pg_catalog.pg_operator'::regclass AND o.oid = v.id
      UNION ALL
      SELECT jsonb_build_array('domain', oid, typnotnull) FROM types WHERE typtype = 'd'
      UNION ALL
      SELECT jsonb_build_array('check', y.oid, dp_int.without_places(k.conbin::text)) FROM types y JOIN pg_catalog.pg_constraint k ON k.contypid = y.oid AND k.contype = 'c'
      UNION ALL
      SELECT jsonb_build_array('row', y.oid, (SELECT array_agg(a.attname || ' ' || a.atttypid ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0))
        FROM types y JOIN pg_catalog.pg_class c ON c.oid = y.typrelid AND c.relkind = 'c'
      UNION ALL  -- a text may be no label, and a label a text
      SELECT jsonb_build_array('enum', y.oid, (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = y.oid))
        FROM types y WHERE y.typtype = 'e'
      UNION ALL  -- a whole row may be taken for an object with the names of its columns
      SELECT jsonb_build_array('names', w.oid, (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped))
        FROM types y JOIN pg_catalog.pg_class w ON w.oid = y.typrelid AND w.relkind <> 'c'
      UNION ALL
      SELECT jsonb_build_array('text search', x.id, (SELECT array_agg(concat_ws(' ', m.maptokentype, m.mapseqno, d.dicttemplate, d.dictinitoption) ORDER BY m.maptokentype, m.mapseqno)
                                                       FROM pg_catalog.pg_ts_config_map m JOIN pg_catalog.pg_ts_dict d ON d.oid = m.mapdict WHERE m.mapcfg = x.id))
        FROM (SELECT DISTINCT f.id FROM involved v, LATERAL dp_int.references_of(v.class, v.id) AS f WHERE f.class = 'pg_catalog.pg_ts_config'::regclass) AS x
      UNION ALL
      SELECT jsonb_build_array('dictionary', d.oid, d.dicttemplate, d.dictinitoption)
        FROM (SELECT DISTINCT f.id FROM involved v, LATERAL dp_int.references_of(v.class, v.id) AS f WHERE f.class = 'pg_catalog.pg_ts_dict'::regclass) AS x
        JOIN pg_catalog.pg_ts_dict d ON d.oid = x.id
      UNION ALL  -- what ALTER DATABASE and ALTER ROLE make expressions of time, text and names mean
      SELECT jsonb_build_array('setting', g.setting)
        FROM (SELECT DISTINCT ON (n.name) n.name, o.setting
                FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS o(setting), LATERAL lower(split_part(o.setting, '=', 1)) AS n(name)
               WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
                 AND s.setrole IN (0, (SELECT u.oid FROM pg_catalog.pg_roles u WHERE u.rolname = 'dp_sidecar'))
               ORDER BY n.name, s.setrole = 0, s.setdatabase = 0) AS g  -- a role's setting goes before a database's
       WHERE g.name LIKE '%.%' AND g.name !~ '^(pg_stat_statements|pg_stat_monitor|pg_stat_kcache|pgaudit|auto_explain|citus)[.]'
          OR g.name IN ('timezone', 'timezone_abbreviations', 'intervalstyle', 'default_text_search_config', 'search_path', 'bytea_output', 'xmloption', 'xmlbinary', 'transform_null_equals', 'array_nulls', 'quote_all_identifiers', 'gin_fuzzy_search_limit', 'lc_time', 'lc_monetary', 'lc_numeric')
      UNION ALL
      SELECT jsonb_build_array('policy', h.oid, h.relforcerowsecurity, p.polpermissive, (SELECT array_agg(r ORDER BY r) FROM unnest(p.polroles) AS r), dp_int.without_places(p.polqual::text))
        FROM hidden h LEFT JOIN pg_catalog.pg_policy p ON p.polrelid = h.oid AND p.polcmd IN ('r', '*')
      UNION ALL
      SELECT jsonb_build_array('owner', o.oid, o.owner)
        FROM (SELECT oid, relowner FROM relations UNION ALL SELECT oid, proowner FROM functions WHERE prosecdef) AS o(oid, owner) WHERE EXISTS (SELECT FROM hidden)
      UNION ALL  -- how a foreign table is read is no matter
      SELECT '["foreign"]' || dp_int.stands_for(f) FROM relations c JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid
      UNION ALL
      SELECT jsonb_build_array('generated', c.oid, a.attnum, dp_int.without_places(d.adbin::text))
        FROM relations c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attgenerated = 'v' JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum)
    SELECT sha256(convert_to(coalesce(string_agg(part::text, E'\n' ORDER BY part::text COLLATE "C"), ''), getdatabaseencoding())) FROM parts);
END $$;

-- Raises if the objects with which a relation was stated to be total have changed.
CREATE OR REPLACE FUNCTION dp_int.refuse_other_definition(p_relid oid, p_definition bytea) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF dp_int.definition(p_relid) IS DISTINCT FROM p_definition THEN
    RAISE EXCEPTION 'what it was stated to be total with has changed: a view, function, operator, type, policy of row-level security or foreign table below it, or a setting of the database';
  END IF;
END $$;

-- Returns a SHA-256 of the row versions (xmin) of all functions that reading a relation calls, and of foreign servers. No lock keeps
-- these from being replaced. If the hash is the same before and after a read, none was replaced in
-- between, not even one that was put back.
CREATE OR REPLACE FUNCTION dp_int.function_versions(p_relid oid) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT sha256(convert_to(coalesce(string_agg(concat(x.oid, ' ', x.version), ',' ORDER BY x.oid, x.version), ''), 'UTF8'))
      FROM dp_int.involved(p_relid) v,
           LATERAL (SELECT p.oid, p.xmin::text FROM pg_catalog.pg_proc p WHERE v.class = 'pg_catalog.pg_proc'::regclass AND p.oid = v.id
                    UNION ALL SELECT k.oid, k.xmin::text FROM pg_catalog.pg_constraint k WHERE v.class = 'pg_catalog.pg_type'::regclass AND k.contypid = v.id
                    UNION ALL SELECT k.oid, k.xmin::text FROM pg_catalog.pg_cast k WHERE v.class = 'pg_catalog.pg_proc'::regclass AND k.castfunc = v.id
                    UNION ALL SELECT e.oid, e.xmin::text FROM pg_catalog.pg_foreign_table f JOIN pg_catalog.pg_foreign_server e ON e.oid = f.ftserver WHERE v.class = 'pg_catalog.pg_class'::regclass AND f.ftrelid = v.id) AS x(oid, version));
END $$;

-- Stores the hash of the present definitions for registered data sets with the option total that have none:
-- they were registered before hashes were stored, or a migration found that theirs still held. The statement that they
-- are total is taken to be about the present definitions, because no earlier ones are known. In the same way it says what a
-- person of a unit is.
CREATE OR REPLACE FUNCTION dp_int.bring_definitions() RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE dp_int.dataset d SET definition = coalesce(d.definition, dp_int.definition(d.relid)), foreign_parts = coalesce(d.foreign_parts, dp_int.foreign_parts(d.relid))
   WHERE (d.definition IS NULL OR d.foreign_parts IS NULL) AND d.unregistered_at IS NULL AND (d.options ->> 'total')::boolean;
  UPDATE dp_int.dataset d SET person = dp_int.person_of(d.relid, d.unit) WHERE d.person IS NULL AND d.unit IS NOT NULL AND d.unregistered_at IS NULL
$$;

-- The first view with security_invoker, when any view on the way is not plain, else NULL. Such a view
-- reads with the rights of its reader, here dp_sidecar, so that functions in it would run on values that
-- its owner may not read.
CREATE OR REPLACE FUNCTION dp_int.reads_as_sidecar(p_relid oid) RETURNS oid
LANGUAGE plpgsql STABLE AS $$
DECLARE
  invoker CONSTANT oid := (
    SELECT c.oid
      FROM dp_int.relation_tree(p_relid) AS t(oid)
      JOIN pg_catalog.pg_class c ON c.oid = t.oid AND c.reloptions IS NOT NULL
     WHERE EXISTS (SELECT FROM pg_options_to_table(c.reloptions) WHERE option_name = 'security_invoker' AND option_value::boolean)
     ORDER BY c.oid
     LIMIT 1);
BEGIN
  RETURN CASE WHEN invoker IS NOT NULL AND EXISTS (SELECT FROM dp_int.derived_views(p_relid)) THEN invoker END;
END $$;

-- A function below a relation that takes a type by its OID, NULL where there is none: dp_int.definition cannot cover that type.
CREATE OR REPLACE FUNCTION dp_int.hides_a_type(p_relid oid) RETURNS regprocedure
LANGUAGE sql STABLE AS $$
  SELECT p.oid::regprocedure
    FROM dp_int.involved(p_relid) v, LATERAL dp_int.trees_of(v.class, v.id) AS t, regexp_matches(t.tree, E'(?<!\\\\):funcid ([0-9]+)', 'g') AS m
    JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid AND dp_int.takes_a_type(p.proargtypes)
   WHERE t.kind <> 'rule of writing' LIMIT 1
$$;

-- The base type of a domain, also through other domains.
CREATE OR REPLACE FUNCTION dp_int.domain_base(p_type oid) RETURNS oid
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE base(oid, typtype, typbasetype) AS (
    SELECT oid, typtype, typbasetype FROM pg_catalog.pg_type WHERE oid = p_type
    UNION ALL
    SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
  SELECT oid FROM base WHERE typtype <> 'd'
$$;

-- A column below a relation whose values come from another node, and are held against the constraints of a domain
-- when they arrive; NULL where there is none. dp_int.definition does not cover these. Where a job reads the columns of
-- a table alone, it casts them before they leave their node; but not under what a view computes.
CREATE OR REPLACE FUNCTION dp_int.checked_on_arrival(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  remote oid[] := ARRAY(SELECT c.oid FROM dp_int.base_relations(p_relid) b JOIN pg_catalog.pg_class c ON c.oid = b.relid AND c.relkind = 'f');
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
    remote := remote || ARRAY(SELECT b.relid FROM dp_int.base_relations(p_relid) b JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid);
  END IF;
  RETURN (
    WITH RECURSIVE types(relid, name, id) AS (
      SELECT a.attrelid, a.attname, a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = ANY (remote) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
      UNION
      SELECT t.relid, t.name, part FROM types t, LATERAL dp_int.parts_of_type(t.id) AS part WHERE part >= 16384)
    SELECT format('column %I of %s', t.name, t.relid::regclass)
      FROM types t
      JOIN pg_catalog.pg_type y ON y.oid = t.id AND y.typtype = 'd'
     WHERE y.typnotnull OR EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contypid = y.oid)
     ORDER BY t.relid::regclass::text, t.name
     LIMIT 1);
END $$;

-- A foreign server below a relation that may log in as whoever reads it, dp_sidecar; NULL where there is none. Since
-- Postgres 18 postgres_fdw logs in with the keys of its session's own login where the server or, unless the server says
-- no, a user mapping has use_scram_passthrough; and whoever is at the other end can pass that login on to this server.
-- Nobody but its owner sees what is in a mapping. Superusers, and who may become dp_owner, are trusted with it.
CREATE OR REPLACE FUNCTION dp_int.logs_in_as_reader(p_relid oid) RETURNS name
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('server_version_num')::int < 180000 OR NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_table) THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT s.srvname
      FROM dp_int.base_relations(p_relid) b
      JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = b.relid
      JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
      JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
      JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler AND h.prosrc = 'postgres_fdw_handler'
      JOIN pg_catalog.pg_roles o ON o.oid = s.srvowner AND NOT o.rolsuper AND NOT pg_has_role(o.oid, 'dp_owner', 'MEMBER')
     WHERE NOT EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) AS p WHERE p.option_name = 'use_scram_passthrough' AND NOT p.option_value::boolean)
     ORDER BY s.srvname
     LIMIT 1);
END $$;

-- The schema of an enum, or of a domain over one, that a column of a relation on nodes of Citus has and dp_sidecar may not
-- use; NULL if there is none. The coordinator writes the type's name into what it asks the nodes.
CREATE OR REPLACE FUNCTION dp_int.closed_to_nodes(p_relid oid) RETURNS name
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT min(n.nspname::text)
      FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_type e ON e.oid = dp_int.domain_base(a.atttypid) AND e.typtype = 'e'
      JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
      JOIN pg_catalog.pg_namespace n ON n.oid IN (e.typnamespace, y.typnamespace)
     WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND NOT has_schema_privilege('dp_sidecar', n.oid, 'USAGE')
       AND EXISTS (SELECT FROM dp_int.base_relations(p_relid) b JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid));
END $$;

-- Checks the relation as the sidecar will read it: its kind, the rows that it shows, the roles that may
-- read it.
CREATE OR REPLACE FUNCTION dp_int.check_relation(p_relid oid, p_total boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  c pg_catalog.pg_class;
  schema_name name;
  reason text;
  invoker oid;
  server name;
  closed name;
BEGIN
  SELECT * INTO c FROM pg_catalog.pg_class WHERE oid = p_relid;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the relation does not exist' USING ERRCODE = '42P01';
  END IF;
  SELECT nspname INTO schema_name FROM pg_catalog.pg_namespace WHERE oid = c.relnamespace;
  IF c.relkind NOT IN ('r', 'p', 'f', 'm', 'v') OR c.relpersistence = 't' OR schema_name IN ('pg_catalog', 'information_schema', 'dp', 'dp_int') THEN
    RAISE EXCEPTION '% cannot be registered', p_relid::regclass
      USING ERRCODE = '42809', HINT = 'Register a table, partitioned table, materialized view, foreign table or view that outlives the session.';
  END IF;
  IF c.relrowsecurity AND NOT (SELECT rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = 'dp_sidecar') THEN
    RAISE EXCEPTION '% is refused: row-level security hides rows from dp_sidecar', p_relid::regclass
      USING ERRCODE = '22023', HINT = 'Let its owner disable row-level security, or register a materialized view of it with options {"total": true}, which states that every person has exactly one row there, which depends on no other person, and reading never raises an error.';
  END IF;
  invoker := CASE WHEN c.relkind IN ('v', 'm') THEN dp_int.reads_as_sidecar(p_relid) END;
  IF invoker IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: view % has security_invoker, and does more than show columns of one relation', p_relid::regclass, invoker::regclass
      USING ERRCODE = '22023',
            HINT = format('It would read with the rights of dp_sidecar, which may read every registered table, and could show its owner what he may not read. As its owner run: ALTER VIEW %s RESET (security_invoker).', invoker::regclass);
  END IF;
  IF p_total AND dp_int.hides_a_type(p_relid) IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: it calls %, to which a type is given by its number', p_relid::regclass, dp_int.hides_a_type(p_relid)
      USING ERRCODE = '22023', HINT = 'What a type checks decides whether reading raises an error, and a number may be any type''s: name the type in a cast.';
  END IF;
  reason := CASE WHEN p_total THEN dp_int.checked_on_arrival(p_relid) END;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: % is of a domain with constraints, which are checked when rows come from another node', p_relid::regclass, reason
      USING ERRCODE = '22023', HINT = 'An error, and functions of the constraints, which would run as dp_sidecar, could depend on a value. Give the column the type that the domain is over.';
  END IF;
  server := CASE WHEN p_total AND c.relkind <> 'm' THEN dp_int.logs_in_as_reader(p_relid) END;
  IF server IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: its foreign server % may log in as dp_sidecar, and what is there could pass that login on to this server', p_relid::regclass, quote_ident(server)
      USING ERRCODE = '22023',
            HINT = format('As the owner of the server run: ALTER SERVER %I OPTIONS (%s use_scram_passthrough ''false''). Then no user mapping can say otherwise.', server,
                          (SELECT CASE WHEN EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) WHERE option_name = 'use_scram_passthrough') THEN 'SET' ELSE 'ADD' END FROM pg_catalog.pg_foreign_server s WHERE s.srvname = server));
  END IF;
  reason := dp_int.why_not_total(p_relid);
  IF reason IS NOT NULL AND NOT p_total THEN
    RAISE EXCEPTION '% is refused: %', p_relid::regclass, reason
      USING ERRCODE = '22023',
            HINT = 'Register the whole table: of its categories a request may be about some levels, with where_level => ''{"region": ["south"]}''. Or state with options {"total": true} that every person has exactly one row (with a unit: has rows in it), that no row depends on another person, and that reading never raises an error, whatever the values; the ledger records the statement. The reason: the number of rows is public, and a filter, a join or a partition key can drop or repeat a person''s row; an expression, a function or another server can raise an error on a person''s values.';
  END IF;
  IF NOT (has_schema_privilege('dp_sidecar', c.relnamespace, 'USAGE') AND has_table_privilege('dp_sidecar', p_relid, 'SELECT')) THEN
    RAISE EXCEPTION 'dp_sidecar may not read %', p_relid::regclass
      USING ERRCODE = '42501',
            HINT = concat('As the owner run: ', CASE WHEN NOT has_schema_privilege('dp_sidecar', c.relnamespace, 'USAGE') THEN format('GRANT USAGE ON SCHEMA %I TO dp_sidecar; ', schema_name) END,
                          CASE WHEN NOT has_table_privilege('dp_sidecar', p_relid, 'SELECT') THEN format('GRANT SELECT ON %I.%I TO dp_sidecar;', schema_name, c.relname) END);
  END IF;
  closed := dp_int.closed_to_nodes(p_relid);
  IF closed IS NOT NULL THEN
    RAISE EXCEPTION 'dp_sidecar may not use the labels of a column of %, whose type is in schema %', p_relid::regclass, quote_ident(closed)
      USING ERRCODE = '42501', HINT = format('Its rows are on nodes of Citus, which are asked by the name of the type. As the owner of the schema run: GRANT USAGE ON SCHEMA %I TO dp_sidecar;', closed);
  END IF;
END $$;
