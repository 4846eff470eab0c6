-- The steward's operations: register, set budgets, grant. A registration is resolved to the base
-- relations whose people it shows, and joins their account.

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

-- Relations, functions and operators below a relation, itself included.
CREATE OR REPLACE FUNCTION dp_int.below(p_relid oid) RETURNS TABLE(class oid, id oid)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  tree CONSTANT oid[] := ARRAY(SELECT dp_int.relation_tree(p_relid));
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass::oid, p_relid
    UNION
    SELECT step.class, step.id
      FROM reached r, LATERAL (
        SELECT d.refclassid, d.refobjid
          FROM pg_catalog.pg_rewrite w
          JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
         WHERE r.class = 'pg_catalog.pg_class'::regclass AND w.ev_class = r.id
        UNION ALL
        SELECT d.refclassid, d.refobjid
          FROM pg_catalog.pg_depend d
         WHERE r.class <> 'pg_catalog.pg_class'::regclass AND d.classid = r.class AND d.objid = r.id
        UNION ALL
        SELECT d.refclassid, d.refobjid
          FROM pg_catalog.pg_policy p
          JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_policy'::regclass AND d.objid = p.oid
         WHERE r.class = 'pg_catalog.pg_class'::regclass AND p.polrelid = r.id AND p.polcmd IN ('r', '*') AND dp_int.policies_apply(r.id, p_relid, tree)
        UNION ALL
        SELECT r.class, i.inhparent FROM pg_catalog.pg_inherits i WHERE r.class = 'pg_catalog.pg_class'::regclass AND i.inhrelid = r.id
        UNION ALL
        SELECT r.class, i.inhrelid FROM pg_catalog.pg_inherits i WHERE r.class = 'pg_catalog.pg_class'::regclass AND i.inhparent = r.id) AS step(class, id)
     WHERE step.class IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass))
  SELECT reached.class, reached.id FROM reached;
END $$;

-- The reason why a relation may hold people who are not in its base relations, whose account could then
-- not be found; NULL if it cannot. Of the system's own functions those count that execute a text or read
-- data outside of tables: all of these are volatile, or produce XML.
CREATE OR REPLACE FUNCTION dp_int.why_unknown(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    WITH below AS MATERIALIZED (SELECT * FROM dp_int.below(p_relid)),
    trees AS (
      SELECT w.ev_action::text AS tree
        FROM below b
        JOIN pg_catalog.pg_rewrite w ON b.class = 'pg_catalog.pg_class'::regclass AND w.ev_class = b.id AND w.ev_type = '1'
      UNION ALL
      SELECT p.prosqlbody::text FROM below b JOIN pg_catalog.pg_proc p ON b.class = 'pg_catalog.pg_proc'::regclass AND p.oid = b.id
      UNION ALL
      SELECT p.polqual::text
        FROM below b
        JOIN pg_catalog.pg_policy p ON b.class = 'pg_catalog.pg_class'::regclass AND p.polrelid = b.id AND p.polcmd IN ('r', '*')
       WHERE dp_int.policies_apply(b.id, p_relid, ARRAY(SELECT dp_int.relation_tree(p_relid))))
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
        FROM trees, regexp_matches(tree, ':funcid ([0-9]+)', 'g') AS m
        JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid AND p.pronamespace = 'pg_catalog'::regnamespace AND (p.provolatile = 'v' OR p.proname ~ '_to_xml')
      UNION ALL
      SELECT 5, format('it shows %s, which is the system''s own', m[1]::oid::regclass)
        FROM trees, regexp_matches(tree, ':rtekind 0 :relid ([0-9]+)', 'g') AS m
       WHERE m[1]::oid BETWEEN 1 AND 16383
    ) AS reasons(rank, reason)
    ORDER BY rank, reason
    LIMIT 1);
END $$;

-- Every relation on the way, views included.
CREATE OR REPLACE FUNCTION dp_int.relation_tree(p_relid oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE AS $$
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
-- statistics and partition keys.
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
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace)
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
                     ) AS o(class, oid) ON true
        JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.oid  -- has no entries for objects of the system
                                   AND d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)
    ) AS reasons(rank, reason)
    ORDER BY rank, reason
    LIMIT 1);
END $$;

-- Returns the objects that decide which rows reading a relation returns, and whether reading raises an error:
-- the relation itself, all relations, functions and operators that it uses, types with the constraints of
-- domains, and policies of row-level security. Partitions and children are left out: parse trees do not name
-- them, and they are read without policies of their own.
CREATE OR REPLACE FUNCTION dp_int.involved(p_relid oid) RETURNS TABLE(class oid, id oid)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass::oid, p_relid
    UNION
    SELECT step.class, step.id
      FROM reached r, LATERAL (
        SELECT d.refclassid, d.refobjid
          FROM (SELECT 'pg_catalog.pg_rewrite'::regclass, w.oid FROM pg_catalog.pg_rewrite w WHERE r.class = 'pg_catalog.pg_class'::regclass AND w.ev_class = r.id AND w.ev_type = '1'
                UNION ALL SELECT 'pg_catalog.pg_policy'::regclass, p.oid FROM pg_catalog.pg_policy p WHERE r.class = 'pg_catalog.pg_class'::regclass AND p.polrelid = r.id
                UNION ALL SELECT 'pg_catalog.pg_constraint'::regclass, k.oid FROM pg_catalog.pg_constraint k WHERE r.class = 'pg_catalog.pg_type'::regclass AND k.contypid = r.id
                UNION ALL SELECT r.class, r.id WHERE r.class IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)) AS o(class, id)
          JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.id
        UNION ALL  -- the planner may put one in the place of the other
        SELECT r.class, other FROM pg_catalog.pg_operator o, unnest(ARRAY[o.oprcom, o.oprnegate]) AS other WHERE r.class = 'pg_catalog.pg_operator'::regclass AND o.oid = r.id AND other <> 0
        UNION ALL
        SELECT r.class, part FROM pg_catalog.pg_type y, unnest(ARRAY[y.typbasetype, y.typelem]) AS part WHERE r.class = 'pg_catalog.pg_type'::regclass AND y.oid = r.id
        UNION ALL
        SELECT r.class, a.atttypid
          FROM pg_catalog.pg_type y
          JOIN pg_catalog.pg_attribute a ON a.attrelid = y.typrelid AND a.attnum > 0
         WHERE r.class = 'pg_catalog.pg_type'::regclass AND y.oid = r.id) AS step(class, id)
     WHERE step.class IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass, 'pg_catalog.pg_type'::regclass)
       AND step.id >= 16384)  -- no object of the system's own changes
  SELECT reached.class, reached.id FROM reached;
END $$;

-- Removes from a parse tree the positions in the source text, and the list of the column names that a table
-- had when the tree was made, unless the statement gives the columns names of its own.
CREATE OR REPLACE FUNCTION dp_int.without_places(p_tree text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT regexp_replace(regexp_replace(p_tree, E'(?<!\\\\):[a-z_]*(location|stmt_len|list_start|list_end) -?[0-9]+', '', 'g'),
                        E'(?<!\\\\):alias (<>|\\{ALIAS :aliasname (?:[^ \\\\]|\\\\.)+ :colnames <>\\}) :eref \\{ALIAS (?:[^\\\\}]|\\\\.)*\\} :rtekind 0 ', E':alias \\1 :rtekind 0 ', 'g')
$$;

-- Returns a SHA-256 of the definitions of all objects of dp_int.involved: views, functions with the defaults of
-- their arguments, aggregates, operators, types and constraints of domains, policies of row-level security with
-- the owners to whom they apply, and the options of foreign tables. Views and functions with BEGIN ATOMIC enter
-- as parse trees without positions, other functions as their text, so that putting an earlier definition back
-- with CREATE OR REPLACE restores the hash. Trees refer to tables by OID and to columns by number, so that
-- renaming these does not change it. A change of what the hash covers needs a
-- migration like 040, or data sets registered before it are refused.
CREATE OR REPLACE FUNCTION dp_int.definition(p_relid oid) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    WITH involved AS MATERIALIZED (SELECT * FROM dp_int.involved(p_relid)),
    relations AS MATERIALIZED (SELECT c.* FROM involved v JOIN pg_catalog.pg_class c ON v.class = 'pg_catalog.pg_class'::regclass AND c.oid = v.id),
    functions AS MATERIALIZED (SELECT p.* FROM involved v JOIN pg_catalog.pg_proc p ON v.class = 'pg_catalog.pg_proc'::regclass AND p.oid = v.id),
    types AS MATERIALIZED (SELECT y.* FROM involved v JOIN pg_catalog.pg_type y ON v.class = 'pg_catalog.pg_type'::regclass AND y.oid = v.id),
    trees AS MATERIALIZED (
      SELECT c.oid, c.reloptions, dp_int.without_places(w.ev_action::text) AS tree FROM relations c JOIN pg_catalog.pg_rewrite w ON w.ev_class = c.oid AND w.ev_type = '1'),
    hidden AS MATERIALIZED (SELECT c.oid, c.relforcerowsecurity FROM relations c WHERE c.relrowsecurity AND dp_int.policies_apply(c.oid, p_relid, ARRAY(SELECT dp_int.relation_tree(p_relid)))),
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
      UNION ALL  -- a text may be no label
      SELECT jsonb_build_array('enum', oid, (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = y.oid))
        FROM types y WHERE typtype = 'e' AND EXISTS (SELECT FROM trees WHERE tree LIKE '%{COERCEVIAIO%')
      UNION ALL
      SELECT jsonb_build_array('policy', h.oid, h.relforcerowsecurity, p.polpermissive, (SELECT array_agg(r ORDER BY r) FROM unnest(p.polroles) AS r), dp_int.without_places(p.polqual::text))
        FROM hidden h LEFT JOIN pg_catalog.pg_policy p ON p.polrelid = h.oid AND p.polcmd IN ('r', '*')
      UNION ALL
      SELECT jsonb_build_array('owner', o.oid, o.owner)
        FROM (SELECT oid, relowner FROM relations UNION ALL SELECT oid, proowner FROM functions WHERE prosecdef) AS o(oid, owner) WHERE EXISTS (SELECT FROM hidden)
      UNION ALL  -- how a foreign table is read is no matter
      SELECT jsonb_build_array('foreign', f.ftserver, f.ftrelid, (SELECT array_agg(o ORDER BY o) FROM unnest(f.ftoptions) AS o WHERE o !~ '^(fetch_size|batch_size|use_remote_estimate|async_capable|analyze_sampling)='),
                               (SELECT array_agg(concat(a.attnum, ' ', a.attfdwoptions) ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = f.ftrelid AND a.attfdwoptions IS NOT NULL))
        FROM relations c JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid
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
    RAISE EXCEPTION 'what it was stated to be total with has changed: a view, function, operator, type, policy of row-level security or foreign table below it';
  END IF;
END $$;

-- Returns a SHA-256 of the row versions (xmin) of all functions that reading a relation calls. No lock keeps a
-- function from being replaced. If the hash is the same before and after a read, no function was replaced in
-- between, not even one that was put back.
CREATE OR REPLACE FUNCTION dp_int.function_versions(p_relid oid) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT sha256(convert_to(coalesce(string_agg(concat(p.oid, ' ', p.xmin), ',' ORDER BY p.oid), ''), 'UTF8'))
      FROM dp_int.involved(p_relid) v
      JOIN pg_catalog.pg_proc p ON v.class = 'pg_catalog.pg_proc'::regclass AND p.oid = v.id);
END $$;

-- Stores the hash of the present definitions for registered data sets with the option total that have none:
-- they were registered before hashes were stored. The statement that they are total is taken to be about the
-- present definitions, because no earlier ones are known.
UPDATE dp_int.dataset d SET definition = dp_int.definition(d.relid)
 WHERE d.definition IS NULL AND d.unregistered_at IS NULL AND (d.options ->> 'total')::boolean;

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

-- Checks a name and returns the active data set.
CREATE OR REPLACE FUNCTION dp_int.dataset_of(p_dataset text) RETURNS dp_int.dataset
LANGUAGE plpgsql STABLE AS $$
DECLARE
  d dp_int.dataset;
BEGIN
  SELECT * INTO d FROM dp_int.dataset WHERE name = p_dataset AND unregistered_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'data set % is not registered', coalesce('"' || p_dataset || '"', 'NULL')
      USING ERRCODE = '22023', HINT = 'See dp.datasets, or register it with dp_register.';
  END IF;
  RETURN d;
END $$;

-- Raises where the relation of a data set is gone: nothing can be declared about its columns.
CREATE OR REPLACE FUNCTION dp_int.refuse_gone(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = d.relid) THEN
    RAISE EXCEPTION 'the relation of data set "%", %, is gone: it was dropped, or replaced', d.name, format('%I.%I', d.schema_name, d.relation_name)
      USING ERRCODE = '42P01', HINT = 'dp_unregister the data set; where the relation was made again, dp_register it again and dp_grant it: what was spent stays spent. Nothing was changed.';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION dp_int.check_budget(p_epsilon float8, p_delta float8) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT coalesce(p_epsilon > 0 AND p_epsilon < 'Infinity', false) THEN
    RAISE EXCEPTION 'epsilon must be a positive finite number, not %', coalesce(p_epsilon::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'epsilon is the whole budget of the data set, for instance 2.';
  END IF;
  IF NOT coalesce(p_delta >= 0 AND p_delta < 1, false) THEN
    RAISE EXCEPTION 'delta must be at least 0 and below 1, not %', coalesce(p_delta::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'delta = 0 means pure accounting; with n people a delta far below 1/n is usual.';
  END IF;
END $$;

-- Raises where accounting and budget are incompatible. rdp accounting of samples relies on a theorem
-- about normal noise; the additional cost of discrete noise is proved up to epsilon 20.
CREATE OR REPLACE FUNCTION dp_int.check_accounting(p_accounting text, p_epsilon float8, p_delta float8) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM dp_int.check_budget(p_epsilon, p_delta);
  IF p_accounting NOT IN ('pure', 'zcdp', 'rdp') THEN
    RAISE EXCEPTION 'there is no accounting "%"', p_accounting USING ERRCODE = '22023', HINT = 'pure needs delta = 0, zcdp and rdp need delta > 0.';
  ELSIF (p_accounting = 'pure') <> (p_delta = 0) THEN
    RAISE EXCEPTION '% accounting does not go with delta %', p_accounting, p_delta
      USING ERRCODE = '22023', HINT = 'pure needs delta = 0, zcdp and rdp need delta > 0. Before the first charge dp_unregister and dp_register choose another accounting; the first charge fixes it.';
  ELSIF p_accounting = 'rdp' AND p_epsilon > 20 THEN
    RAISE EXCEPTION 'epsilon % is too large for rdp accounting', p_epsilon
      USING ERRCODE = '22023', HINT = 'Give at most 20, or choose zcdp accounting.';
  END IF;
END $$;

-- A budget in the account's unit; raises where nothing would be left to spend.
CREATE OR REPLACE FUNCTION dp_int.positive_cap(a dp_int.account, p_epsilon numeric, p_delta numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  cap CONSTANT numeric := dp_int.cap(a.accounting, a.renyi_order, p_epsilon, p_delta);
BEGIN
  IF cap = 0 THEN
    RAISE EXCEPTION 'epsilon % at delta % leaves nothing to spend under % accounting', p_epsilon::float8, p_delta::float8, a.accounting
      USING ERRCODE = '22023', HINT = CASE a.accounting WHEN 'rdp'
        THEN format('With the account''s Renyi order, %s, epsilon must be above %s.', trim_scale(a.renyi_order),
                    dp_int.renyi_surplus(a.renyi_order, dp_int.conversion_delta(p_delta))::float8)
        ELSE 'Give a larger epsilon.' END;
  END IF;
  RETURN cap;
END $$;

-- Are target and features a name and a list of names?
CREATE OR REPLACE FUNCTION dp_int.check_names(p_target name, p_features name[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF array_ndims(p_features) > 1 THEN
    RAISE EXCEPTION 'features must be a list of names, not an array of % dimensions', array_ndims(p_features) USING ERRCODE = '22023', HINT = 'For instance ''{age,region}''.';
  ELSIF p_target IS NULL OR coalesce(cardinality(p_features), 0) = 0 OR array_position(p_features, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'a data set needs a target and at least one feature'
      USING ERRCODE = '22023', HINT = 'For instance dp_register(''claims'', ''claims'', ''amount'', ''{age,region}'', 10).';
  END IF;
END $$;

-- Raises where a registration names columns that do not exist, or types or scales that no
-- model can use. Categories are checked already.
CREATE OR REPLACE FUNCTION dp_int.check_columns(p_relid oid, p_target name, p_features name[], p_scales jsonb, p_categories jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  c name;
BEGIN
  FOREACH c IN ARRAY p_target || p_features LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attname = c AND a.attnum > 0 AND NOT a.attisdropped) THEN
      RAISE EXCEPTION 'column "%" does not exist in %', c, p_relid::regclass
        USING ERRCODE = '42703', HINT = E'Column names are case-sensitive here: give them as \\d shows them.';
    END IF;
  END LOOP;
  PERFORM dp_int.refuse_types(p_relid, p_target, p_features, p_categories, false, NULL);
  IF dp_int.named_twice(p_target || p_features) IS NOT NULL THEN
    RAISE EXCEPTION 'column "%" stands twice among target and features', dp_int.named_twice(p_target || p_features) USING ERRCODE = '22023', HINT = 'Name every column once.';
  END IF;
  PERFORM dp_int.check_scales(p_target || p_features, p_scales, p_categories);
END $$;

-- The base type of a domain, also through other domains.
CREATE OR REPLACE FUNCTION dp_int.domain_base(p_type oid) RETURNS oid
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE base(oid, typtype, typbasetype) AS (
    SELECT oid, typtype, typbasetype FROM pg_catalog.pg_type WHERE oid = p_type
    UNION ALL
    SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
  SELECT oid FROM base WHERE typtype <> 'd'
$$;

-- Checks the relation as the sidecar will read it: its kind, the rows that it shows, the roles that may
-- read it.
CREATE OR REPLACE FUNCTION dp_int.check_relation(p_relid oid, p_total boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  c pg_catalog.pg_class;
  schema_name name;
  reason text;
  invoker oid;
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
  reason := dp_int.why_not_total(p_relid);
  IF reason IS NOT NULL AND NOT p_total THEN
    RAISE EXCEPTION '% is refused: %', p_relid::regclass, reason
      USING ERRCODE = '22023',
            HINT = 'Register the whole table: of its categories a request may be about some levels, with where_level => ''{"region": ["south"]}''. Or state with options {"total": true} that every person has exactly one row, that no row depends on another person, and that reading never raises an error, whatever the values; the ledger records the statement. The reason: the number of rows is public, and a filter, a join or a partition key can drop or repeat a person''s row; an expression, a function or another server can raise an error on a person''s values.';
  END IF;
  IF NOT (has_schema_privilege('dp_sidecar', c.relnamespace, 'USAGE') AND has_table_privilege('dp_sidecar', p_relid, 'SELECT')) THEN
    RAISE EXCEPTION 'dp_sidecar may not read %', p_relid::regclass
      USING ERRCODE = '42501',
            HINT = concat('As the owner run: ', CASE WHEN NOT has_schema_privilege('dp_sidecar', c.relnamespace, 'USAGE') THEN format('GRANT USAGE ON SCHEMA %I TO dp_sidecar; ', schema_name) END,
                          CASE WHEN NOT has_table_privilege('dp_sidecar', p_relid, 'SELECT') THEN format('GRANT SELECT ON %I.%I TO dp_sidecar;', schema_name, c.relname) END);
  END IF;
END $$;

-- In a copy of a database: binds registrations and the accounts' relations to the relations of the same
-- name here, or to OID 0 where no relation has any of the names: then it is gone.
CREATE OR REPLACE FUNCTION dp_int.rebind_relations() RETURNS void
LANGUAGE plpgsql VOLATILE SET quote_all_identifiers = off AS $$
DECLARE
  known dp_int.account_relation[];
BEGIN
  WITH named AS MATERIALIZED (
    SELECT r.*, c.oid
      FROM dp_int.account_relation r
      LEFT JOIN dp_int.named_relations() c ON c.name = r.relation AND NOT EXISTS (  -- a registered relation has taken the name over
        SELECT FROM dp_int.dataset d
         WHERE d.unregistered_at IS NULL AND d.relid <> r.relid AND format('%I.%I', d.schema_name, d.relation_name) = r.relation))
  SELECT array_agg(ROW(n.account, coalesce(n.oid, o.oid, 0), n.relation, n.current, n.child)::dp_int.account_relation) INTO known
    FROM named n
    LEFT JOIN LATERAL (  -- by another name of the same relation
      SELECT max(o.oid::bigint)::oid AS oid FROM named o WHERE o.account = n.account AND o.relid = n.relid AND n.relid <> 0) AS o ON true;
  DELETE FROM dp_int.account_relation;
  INSERT INTO dp_int.account_relation
  SELECT k.account, k.relid, k.relation, bool_or(k.current), bool_and(k.child) FROM unnest(known) k GROUP BY k.account, k.relid, k.relation;
  UPDATE dp_int.dataset d
     SET relid = coalesce((SELECT c.oid FROM dp_int.named_relations() c WHERE c.name = format('%I.%I', d.schema_name, d.relation_name)), 0);
  UPDATE dp_int.dataset d SET unit_number = dp_int.source_number(d.relid, d.unit) WHERE d.unit IS NOT NULL;  -- a restored dump renumbers columns
  UPDATE dp_int.dataset d SET block_number = coalesce(dp_int.source_number(d.relid, d.block), 0) WHERE d.block IS NOT NULL;
  UPDATE dp_int.dataset d SET definition = dp_int.definition(d.relid) WHERE d.definition IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION dp_int.named_relations() RETURNS TABLE(oid oid, name text)
LANGUAGE sql STABLE SET quote_all_identifiers = off AS $$
  SELECT c.oid, format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
$$;

-- Records the current names of known relations, so that each stays known by all names that it ever had,
-- even when it is dropped and created again.
CREATE OR REPLACE FUNCTION dp_int.follow_renames() RETURNS void
LANGUAGE sql VOLATILE AS $$
  INSERT INTO dp_int.account_relation (account, relid, relation, child)
  SELECT r.account, r.relid, c.name, bool_and(r.child)
    FROM dp_int.account_relation r
    JOIN dp_int.named_relations() c ON c.oid = r.relid
   WHERE r.current
   GROUP BY r.account, r.relid, c.name
  ON CONFLICT DO NOTHING
$$;

-- The relations of a relation's population, each with the account that knows it by its OID, else by its
-- name; NULL where no account does. child: a partition or child; noted: known under this OID and name;
-- own: read, not only referred to by the unit.
CREATE OR REPLACE FUNCTION dp_int.known_relations(p_relid oid, p_unit name) RETURNS TABLE(relid oid, relation text, child boolean, account bigint, noted boolean, own boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH base AS MATERIALIZED (
    SELECT b.relid, b.relation, b.own, b.relid <> p_relid AND EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = b.relid) AS child
      FROM dp_int.population(p_relid, p_unit) b),
  by_oid AS MATERIALIZED (
    SELECT b.relid, r.account, bool_or(r.relation = b.relation) AS noted
      FROM base b
      JOIN dp_int.account_relation r ON r.current AND r.relid = b.relid
     GROUP BY b.relid, r.account)
  SELECT b.relid, b.relation, b.child, o.account, o.noted, b.own
    FROM base b
    JOIN by_oid o ON o.relid = b.relid
  UNION
  SELECT b.relid, b.relation, b.child, r.account, false, b.own
    FROM base b
    LEFT JOIN dp_int.account_relation r ON r.current AND r.relation = b.relation
   WHERE b.relid NOT IN (SELECT o.relid FROM by_oid o);
END $$;

-- The account that the option account gives: its number, or the name of a data set, also of one that was
-- unregistered. Raises where data sets of that name have, or had, different accounts. An account to which nothing
-- was ever charged counts only while a data set has it.
CREATE OR REPLACE FUNCTION dp_int.named_account(p_account jsonb) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  dataset CONSTANT text := p_account #>> '{}';
  found bigint[];
BEGIN
  IF jsonb_typeof(p_account) = 'number' THEN
    SELECT array_agg(a.id) INTO found FROM dp_int.account a WHERE a.id = p_account::numeric;
    IF found IS NULL THEN
      RAISE EXCEPTION 'there is no account %', p_account USING ERRCODE = '22023', HINT = 'dp.ledger shows the number of each account, and its data sets. Without quotes it is a number, and with quotes the name of a data set.';
    END IF;
    RETURN found[1];
  END IF;
  SELECT array_agg(DISTINCT d.account ORDER BY d.account) INTO found FROM dp_int.dataset d WHERE d.name = dataset AND NOT dp_int.unused(d.account);
  IF cardinality(found) > 1 THEN
    RAISE EXCEPTION 'the name "%" is that of % accounts', dataset, CASE cardinality(found) WHEN 2 THEN 'two' ELSE cardinality(found)::text END
      USING ERRCODE = '22023',
            HINT = format('Give the number of the account in place of the name, as in options {"account": %s}: %s. dp.ledger shows what was spent of each.', found[1],
                          (SELECT string_agg(format('%s is of %s, registered %s', a.id, r.relations, r.at), '; ' ORDER BY a.id)
                             FROM dp_int.account a,
                                  LATERAL (SELECT string_agg(DISTINCT format('%I.%I', d.schema_name, d.relation_name), ', ') AS relations, to_char(min(d.registered_at), 'YYYY-MM-DD HH24:MI TZ') AS at
                                             FROM dp_int.dataset d WHERE d.account = a.id AND d.name = dataset) AS r
                            WHERE a.id = ANY (found)));
  END IF;
  RETURN coalesce(found[1], (SELECT d.account FROM dp_int.dataset d WHERE d.name = dataset ORDER BY d.id DESC LIMIT 1), (dp_int.dataset_of(dataset)).account);
END $$;

-- Was nothing ever charged to an account, and does no data set have it? Nothing can be charged to it then, and
-- its people may be given to another.
CREATE OR REPLACE FUNCTION dp_int.unused(p_account bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN NOT dp_int.charged(p_account) AND NOT EXISTS (SELECT FROM dp_int.dataset d WHERE d.account = p_account AND d.unregistered_at IS NULL);
END $$;

-- The one account of these relations, NULL when no account knows them. Where the steward names one, unused ones
-- do not count.
CREATE OR REPLACE FUNCTION dp_int.account_of(p_relid oid, p_options jsonb, p_unit name) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  named CONSTANT bigint := CASE WHEN p_options ? 'account' THEN dp_int.named_account(p_options -> 'account') END;
  found bigint[];
  idle text;  -- data sets of other accounts to which nothing was charged
BEGIN
  SELECT array_agg(DISTINCT known.account) INTO found
    FROM (SELECT k.account FROM dp_int.known_relations(p_relid, p_unit) k WHERE k.account IS NOT NULL AND (named IS NULL OR NOT dp_int.unused(k.account))
          UNION ALL
          SELECT named WHERE named IS NOT NULL) AS known;
  IF cardinality(found) > 1 THEN
    SELECT string_agg(format('"%s"', d.name), ' and ' ORDER BY d.id) INTO idle
      FROM dp_int.dataset d WHERE d.account = ANY (found) AND d.account <> named AND d.unregistered_at IS NULL AND NOT dp_int.charged(d.account);
    RAISE EXCEPTION 'the relations below % belong to different accounts', p_relid::regclass
      USING ERRCODE = '22023', HINT = coalesce(format('Nothing was charged for %s: an account that was never charged is left for the one that is named, once its data sets are unregistered. Call dp_unregister first.', idle),
        'One registration cannot show the people of two accounts. Register the tables one by one; where a unit refers to a table, that one first.');
  END IF;
  RETURN found[1];
END $$;

-- Relations of charged accounts that are gone: their OID does not exist or was declared to be a new population's,
-- and none of their names belongs to a relation that the account knows. Their people may return in a relation
-- under another name. Partitions do not count, because they come and go with their table.
CREATE OR REPLACE FUNCTION dp_int.gone_relations() RETURNS TABLE(account bigint, relation text)
LANGUAGE sql STABLE AS $$
  SELECT r.account, CASE WHEN EXISTS (SELECT FROM dp_int.named_relations() n WHERE n.name = r.relation) THEN 'an earlier ' ELSE '' END || r.relation
    FROM dp_int.account_relation r
   WHERE NOT r.child
     AND NOT EXISTS (SELECT FROM dp_int.account_relation o JOIN pg_catalog.pg_class c ON c.oid = o.relid WHERE o.account = r.account AND o.relid = r.relid AND o.current)
     AND NOT EXISTS (
       SELECT FROM dp_int.account_relation s
         JOIN dp_int.account_relation o ON o.account = s.account AND o.relation = s.relation AND o.current
         JOIN pg_catalog.pg_class c ON c.oid = o.relid
        WHERE s.account = r.account AND s.relid = r.relid AND (s.relid <> 0 OR s.relation = r.relation))
     AND dp_int.charged(r.account)
$$;

-- Raises where a relation may hold people of an existing account although the steward has not stated
-- whose people it holds. Where a function reads the data, the tables beside it do not determine whose
-- data it reads, even if they are known.
CREATE OR REPLACE FUNCTION dp_int.refuse_strangers(p_relid oid, p_unit name) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  reason CONSTANT text := dp_int.why_unknown(p_relid);
  gone text;
  names text;
BEGIN
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION '% is refused: it is not known whose rows it has: %', p_relid::regclass, reason
      USING ERRCODE = '22023', HINT = 'If a data set of the same people is registered, name it with options {"account": "name"}. Otherwise state with {"new_population": "why"} that these are other people; the ledger records the statement.';
  ELSIF EXISTS (SELECT FROM dp_int.known_relations(p_relid, p_unit) k WHERE k.account IS NULL AND NOT k.child) THEN
    SELECT string_agg(DISTINCT g.relation, ', '), string_agg(DISTINCT format('"%s" (account %s)', d.name, d.account), ', ') INTO gone, names
      FROM dp_int.gone_relations() g
      LEFT JOIN dp_int.dataset d ON d.account = g.account;
    IF gone IS NOT NULL THEN
      RAISE EXCEPTION '% is refused: it may hold the people of %, which is gone and for which budget was spent', p_relid::regclass, gone
        USING ERRCODE = '22023',
              HINT = format('If it shows people of %s, name that data set, or the account by its number, with options {"account": ...}. If the table that is gone was created again under its name, register that one first. Otherwise state with {"new_population": "why"} that these are other people; the ledger records the statement.', names);
    END IF;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION dp_int.check_register_options(p_options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  o record;
BEGIN
  IF jsonb_typeof(p_options) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'options must be a JSON object' USING ERRCODE = '22023', HINT = 'For instance {"total": true}.';
  END IF;
  FOR o IN SELECT key, jsonb_typeof(value) AS type FROM jsonb_each(p_options) LOOP
    IF o.key NOT IN ('total', 'account', 'new_population', 'one_block_a_person', 'rows_stay') THEN
      RAISE EXCEPTION 'unknown option "%"', o.key USING ERRCODE = '22023', HINT = 'dp_register knows total, account, new_population, one_block_a_person and rows_stay.';
    ELSIF o.type <> ALL (CASE o.key WHEN 'total' THEN '{boolean}' WHEN 'account' THEN '{string,number}' ELSE '{string}' END::text[]) THEN
      RAISE EXCEPTION 'option "%" must be a %', o.key, CASE o.key WHEN 'total' THEN 'boolean' WHEN 'account' THEN 'string or number' ELSE 'string' END
        USING ERRCODE = '22023', HINT = 'total: true states that every person has exactly one row, which depends on no other person, and reading never raises an error; account: the name of a data set of the same people, or the number of their account; new_population: your statement why these are other people; one_block_a_person: your statement why all rows of a person are in one block; rows_stay: your statement why no row moves from one node to another while a job reads.';
    END IF;
  END LOOP;
  SELECT e.key INTO o FROM jsonb_each_text(p_options) AS e WHERE e.key IN ('new_population', 'one_block_a_person', 'rows_stay') AND e.value !~ '[^[:space:]]' LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the reason in option "%" is blank', o.key
      USING ERRCODE = '22023', HINT = 'The ledger records it as your statement. Write why that is so, for instance {"new_population": "the people of 2027, none of whom was there before"}, or leave the option out.';
  END IF;
  IF p_options ? 'account' AND p_options ? 'new_population' THEN
    RAISE EXCEPTION 'account and new_population contradict each other' USING ERRCODE = '22023', HINT = 'Give one of the two.';
  END IF;
END $$;

-- Raises where a data set differs from its registration. Called under locks that prevent later changes.
-- Partitions added since join the account, and new names are recorded.
CREATE OR REPLACE FUNCTION dp_int.recheck_dataset(p_dataset bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  d dp_int.dataset;
  strange boolean;
  noted boolean;
  changed text;
  remedy text;  -- where the error has one of its own
  unknown text;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  PERFORM dp_int.refuse_copy();
  BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.oid = d.relid AND n.nspname = d.schema_name AND c.relname = d.relation_name) THEN
      RAISE EXCEPTION 'it was dropped, renamed or replaced';
    END IF;
    PERFORM dp_int.check_relation(d.relid, coalesce((d.options ->> 'total')::boolean, false));
    IF dp_int.canonical_categories(d.relid, d.target || d.features, d.categories) <> d.categories THEN
      RAISE EXCEPTION 'the levels of its categories mean something else now';
    END IF;
    PERFORM dp_int.check_columns(d.relid, d.target, d.features, d.scales, d.categories);
    IF dp_int.check_unit(d.relid, d.unit, d.max_rows, d.persons, d.target || d.features) <> d.unit_source THEN
      RAISE EXCEPTION 'its unit was %', d.unit_source;
    ELSIF dp_int.source_number(d.relid, d.unit) <> d.unit_number THEN
      RAISE EXCEPTION 'its unit was another column % than the one of that name now', d.unit_source;
    END IF;
    IF d.block IS NOT NULL THEN
      PERFORM dp_int.recheck_block(d);
    END IF;
    IF dp_int.check_nodes(d.relid, d.unit, d.options ->> 'rows_stay') IS DISTINCT FROM d.distribution THEN
      RAISE EXCEPTION 'its rows are distributed in another way now: %', coalesce(dp_int.distribution(d.relid), 'on one node');
    END IF;
    unknown := CASE WHEN d.options ? 'total' AND NOT d.options ?| '{account,new_population}' THEN dp_int.why_unknown(d.relid) END;
    IF unknown IS NOT NULL THEN  -- a relation without the option total has no functions, and is not checked
      RAISE EXCEPTION 'nobody knows whose rows it has: %', unknown;
    ELSIF (d.options ->> 'total')::boolean THEN
      PERFORM dp_int.refuse_other_definition(d.relid, d.definition);
    END IF;
    SELECT bool_or(k.account IS DISTINCT FROM d.account AND NOT (k.account IS NULL AND (k.child OR NOT k.own))), bool_and(k.noted) INTO strange, noted
      FROM dp_int.known_relations(d.relid, d.unit) k;
    IF strange THEN
      RAISE EXCEPTION 'it reads relations that it did not read when it was registered, or its unit refers to people of another account';
    ELSIF NOT noted THEN
      INSERT INTO dp_int.account_relation (account, relid, relation, child)
      SELECT d.account, k.relid, k.relation, k.child FROM dp_int.known_relations(d.relid, d.unit) k
      ON CONFLICT DO NOTHING;
    END IF;
  EXCEPTION WHEN raise_exception OR insufficient_privilege OR invalid_parameter_value OR undefined_column OR undefined_table OR wrong_object_type THEN
    GET STACKED DIAGNOSTICS changed = MESSAGE_TEXT, remedy = PG_EXCEPTION_HINT;
    remedy := CASE WHEN SQLERRM LIKE 'dp_sidecar may not read %' THEN remedy || ' Then ask again.'
                   ELSE concat(CASE WHEN SQLERRM LIKE 'its column % can change now%' THEN nullif(remedy, '') || ' Otherwise: ' END, 'Ask the steward to undo the change, or to dp_unregister the data set, dp_register it again and dp_grant it; what was spent stays spent.',
                               CASE WHEN unknown IS NOT NULL THEN ' It then needs the option account or new_population.'
                                    WHEN SQLERRM LIKE '% is refused: %' THEN ' If every person still has exactly one row, which depends on no other person, and reading never raises an error, it then needs the option {"total": true}.' END) END;
    RAISE EXCEPTION 'data set "%" is not what was registered: %', d.name, changed
      USING ERRCODE = 'DP004', HINT = remedy || ' No privacy budget was spent.';
  END;
END $$;

-- Was anything ever charged to the account? Then its accounting is fixed.
CREATE OR REPLACE FUNCTION dp_int.charged(p_account bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM dp_int.ledger l WHERE l.account = p_account AND l.kind = 'charge');
END $$;

-- Sets the budget of an account, or creates it when a.id is NULL. Its Renyi order is chosen for the
-- budget until the first charge, and fixed from then on.
CREATE OR REPLACE FUNCTION dp_int.keep_account(a dp_int.account, p_accounting text, p_epsilon numeric, p_delta numeric) RETURNS dp_int.account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fixed CONSTANT boolean := a.id IS NOT NULL AND dp_int.charged(a.id);
BEGIN
  a.accounting := p_accounting;
  a.epsilon := p_epsilon;
  a.delta := p_delta;
  IF NOT fixed THEN
    a.renyi_order := CASE p_accounting WHEN 'rdp' THEN dp_int.recommended_order(p_epsilon, p_delta) END;
    a.cap := dp_int.positive_cap(a, p_epsilon, p_delta);
  ELSE
    a.cap := dp_int.cap(a.accounting, a.renyi_order, p_epsilon, p_delta);
  END IF;
  IF a.id IS NULL THEN
    INSERT INTO dp_int.account AS n (accounting, renyi_order, epsilon, delta, cap)
    VALUES (a.accounting, a.renyi_order, a.epsilon, a.delta, a.cap)
    RETURNING * INTO a;
  ELSE
    UPDATE dp_int.account n
       SET accounting = a.accounting, renyi_order = a.renyi_order, epsilon = a.epsilon, delta = a.delta, cap = a.cap
     WHERE n.id = a.id;
    PERFORM dp_int.prove(a.id);
  END IF;
  RETURN a;
END $$;

-- The event of a ledger entry that sets a budget: the data set's, and its account's, as an epsilon and as
-- a cap in the unit of the accounting, all valid from this entry on.
CREATE OR REPLACE FUNCTION dp_int.describe_budget(a dp_int.account, p_epsilon numeric, p_delta numeric) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('accounting', a.accounting, 'order', a.renyi_order, 'epsilon', p_epsilon, 'delta', p_delta, 'cap', a.cap, 'account_epsilon', a.epsilon))
$$;

CREATE OR REPLACE FUNCTION public.dp_register(dataset text, relation regclass, target name, features name[], epsilon float8, delta float8 DEFAULT 0,
                                   scales jsonb DEFAULT '{}', accounting text DEFAULT NULL, options jsonb DEFAULT '{}', labels jsonb DEFAULT '{}',
                                   categories jsonb DEFAULT NULL, unit name DEFAULT NULL, max_rows int DEFAULT NULL, persons bigint DEFAULT NULL,
                                   block name DEFAULT NULL, block_width interval DEFAULT NULL, block_origin date DEFAULT NULL, block_rows bigint DEFAULT NULL,
                                   block_is_fixed text DEFAULT NULL, placement text DEFAULT 'auto') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET jit = off SET quote_all_identifiers = off AS $$
DECLARE
  call jsonb;
  levels jsonb;
  source text;
  block_source text;
  distribution text;
  total boolean;
  mode text := coalesce(dp_register.accounting, CASE WHEN dp_register.delta > 0 THEN 'zcdp' ELSE 'pure' END);
  eps numeric;
  del numeric;
  a dp_int.account;
  account_id bigint;
  alone boolean;
  own_cap numeric;
BEGIN
  PERFORM dp_int.refuse_copy();
  IF coalesce(dp_register.dataset, '') = '' OR octet_length(dp_register.dataset) > 200 THEN
    RAISE EXCEPTION 'a data set needs a name of at most 200 bytes' USING ERRCODE = '22023', HINT = 'For instance ''claims''.';
  END IF;
  PERFORM dp_int.check_accounting(mode, dp_register.epsilon, dp_register.delta);
  PERFORM dp_int.check_register_options(dp_register.options);
  PERFORM dp_int.check_placement(dp_register.placement, dp_register.unit, dp_register.block_rows);
  IF dp_register.relation IS NULL THEN
    RAISE EXCEPTION 'a data set needs a relation' USING ERRCODE = '22023', HINT = 'For instance ''public.claims''.';
  END IF;
  -- Registrations and changes of budgets are rare: executing one at a time prevents races between
  -- accounts. A snapshot older than the lock would not show the changes of the preceding one.
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    RAISE EXCEPTION 'dp_register needs isolation level read committed, not %', current_setting('transaction_isolation')
      USING ERRCODE = '25001', HINT = 'Begin with: BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
  PERFORM dp_int.check_names(dp_register.target, dp_register.features);
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  IF dp_register.options ? 'one_block_a_person' AND (dp_register.block IS NULL OR dp_register.unit IS NULL) THEN
    RAISE EXCEPTION 'option "one_block_a_person" is about a unit and blocks' USING ERRCODE = '22023', HINT = 'Give unit and block, or leave it out.';
  END IF;
  total := coalesce((dp_register.options ->> 'total')::boolean, false);
  PERFORM dp_int.check_relation(dp_register.relation, total);
  distribution := dp_int.check_nodes(dp_register.relation, dp_register.unit, dp_register.options ->> 'rows_stay');
  source := dp_int.check_unit(dp_register.relation, dp_register.unit, dp_register.max_rows, dp_register.persons, dp_register.target || dp_register.features);
  block_source := dp_int.check_blocks(dp_register.relation, dp_register.block, dp_register.block_width, dp_register.block_origin, dp_register.block_rows,
                                      dp_register.block_is_fixed, dp_register.unit, dp_register.persons);
  call := jsonb_strip_nulls(jsonb_build_object('dataset', dp_register.dataset, 'epsilon', dp_register.epsilon, 'delta', dp_register.delta, 'scales', dp_register.scales,
                                               'accounting', dp_register.accounting, 'options', dp_register.options, 'labels', dp_register.labels,
                                               'unit', dp_register.unit, 'max_rows', dp_register.max_rows, 'persons', dp_register.persons,
                                               'block', dp_register.block, 'block_width', dp_register.block_width, 'block_origin', dp_register.block_origin,
                                               'block_rows', dp_register.block_rows, 'block_is_fixed', dp_register.block_is_fixed,
                                               'placement', nullif(dp_register.placement, 'auto')));
  PERFORM dp_int.refuse_types(dp_register.relation, dp_register.target, dp_register.features, dp_register.categories, true, call);
  levels := dp_int.canonical_categories(dp_register.relation, dp_register.target || dp_register.features, dp_register.categories);
  PERFORM dp_int.refuse_types(dp_register.relation, dp_register.target, dp_register.features, levels, false, call);
  PERFORM dp_int.check_columns(dp_register.relation, dp_register.target, dp_register.features, dp_register.scales, levels);
  PERFORM dp_int.refuse_intercept(dp_register.target || dp_register.features);
  PERFORM dp_int.check_labels(dp_register.target, dp_register.features, dp_register.labels, levels);
  PERFORM dp_int.refuse_labels_of_boolean(dp_register.relation, l.key::name, l.value) FROM jsonb_each(dp_register.labels) AS l WHERE NOT levels ? l.key;
  IF EXISTS (SELECT FROM dp_int.dataset d WHERE d.name = dp_register.dataset AND d.unregistered_at IS NULL) THEN
    RAISE EXCEPTION 'data set "%" is registered already', dp_register.dataset
      USING ERRCODE = '42710', HINT = 'Change its budget with dp_set_budget, or dp_unregister it first: what was spent stays spent.';
  END IF;

  eps := dp_int.exact(dp_register.epsilon);
  del := dp_int.exact(dp_register.delta);
  PERFORM dp_int.follow_renames();
  account_id := dp_int.account_of(dp_register.relation, dp_register.options, dp_register.unit);
  IF NOT dp_register.options ?| '{account,new_population}' THEN
    PERFORM dp_int.refuse_strangers(dp_register.relation, dp_register.unit);
  ELSIF dp_register.options ? 'account' THEN  -- unused accounts of these people are left for the one that is named
    UPDATE dp_int.account_relation r SET current = false
      FROM dp_int.population(dp_register.relation, dp_register.unit) b
     WHERE r.account <> account_id AND r.current AND (r.relid = b.relid OR r.relation = b.relation) AND dp_int.unused(r.account);
  END IF;
  SELECT * INTO a FROM dp_int.account WHERE id = account_id FOR UPDATE;
  alone := NOT EXISTS (SELECT FROM dp_int.dataset d WHERE d.account = a.id AND d.unregistered_at IS NULL);
  IF a.id IS NOT NULL AND dp_register.options ? 'new_population' THEN
    IF NOT alone THEN
      RAISE EXCEPTION 'these people are registered under another name' USING ERRCODE = '22023', HINT = 'dp_unregister every data set of the account first.';
    END IF;
    UPDATE dp_int.account_relation r SET current = false
      FROM dp_int.population(dp_register.relation, dp_register.unit) b
     WHERE r.account = a.id AND (r.relid = b.relid OR r.relation = b.relation);
    a := NULL;
  END IF;
  PERFORM dp_int.refuse_other_unit(a.id, dp_register.relation, dp_register.unit, source);
  PERFORM dp_int.refuse_other_blocks(a.id, block_source, dp_register.block_width, dp_register.block_origin);
  PERFORM dp_int.refuse_renamed(a.id, dp_register.relation, dp_register.unit, false);
  PERFORM dp_int.refuse_renamed(a.id, dp_register.relation, dp_register.block, true);
  IF dp_register.block IS NOT NULL THEN
    PERFORM dp_int.refuse_mixed_rows(a.id, dp_register.relation);
    PERFORM dp_int.refuse_formerly_mixed(a.id, dp_register.relation);
  END IF;
  IF a.accounting <> mode AND (NOT alone OR dp_int.charged(a.id)) THEN
    RAISE EXCEPTION 'these people''s account has % accounting', a.accounting
      USING ERRCODE = '22023', HINT = format('Accounting is fixed with the first charge, and by other data sets of theirs. Register with accounting => %L, delta => %s.', a.accounting, a.delta::float8);
  ELSIF alone THEN
    a := dp_int.keep_account(a, mode, eps, del);
  ELSIF a.delta <> del THEN
    RAISE EXCEPTION 'these people''s account has delta %', a.delta::float8 USING ERRCODE = '22023', HINT = 'Register with the same delta.';
  END IF;
  UPDATE dp_int.account n SET block_width = dp_register.block_width, block_origin = dp_register.block_origin WHERE n.id = a.id RETURNING * INTO a;
  own_cap := dp_int.positive_cap(a, eps, del);
  INSERT INTO dp_int.account_relation (account, relid, relation, child)
  SELECT a.id, k.relid, k.relation, bool_and(k.child) FROM dp_int.known_relations(dp_register.relation, dp_register.unit) k GROUP BY k.relid, k.relation
  ON CONFLICT ON CONSTRAINT account_relation_pk DO UPDATE SET current = true, child = account_relation.child AND excluded.child;
  INSERT INTO dp_int.dataset (name, account, relid, schema_name, relation_name, target, features, scales, labels, categories, options, epsilon, delta, cap, default_delta, registered_by,
                              unit, max_rows, persons, unit_source, unit_number, row_count,
                              block, block_source, block_number, block_type, block_rows, block_is_fixed, block_fixed_by, placement, distribution, definition)
  SELECT dp_register.dataset, a.id, c.oid, n.nspname, c.relname, dp_register.target, dp_register.features, dp_register.scales,
         dp_register.labels, levels, dp_register.options, eps, del, own_cap, nullif(del, 0), session_user,
         dp_register.unit, CASE WHEN dp_register.unit IS NOT NULL THEN coalesce(dp_register.max_rows, 8) END, dp_register.persons, source, dp_int.source_number(dp_register.relation, dp_register.unit),
         CASE WHEN dp_register.block IS NULL THEN dp_register.persons END,
         dp_register.block, block_source, dp_int.source_number(dp_register.relation, dp_register.block), dp_int.column_type(dp_register.relation, dp_register.block),
         dp_register.block_rows, dp_register.block_is_fixed, dp_int.why_block_stays(dp_register.relation, dp_register.block, dp_register.block_is_fixed),
         dp_register.placement, distribution, CASE WHEN total THEN dp_int.definition(dp_register.relation) END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.oid = dp_register.relation;
  INSERT INTO dp_int.turnstile SELECT d.id FROM dp_int.dataset d WHERE d.name = dp_register.dataset AND d.unregistered_at IS NULL;
  PERFORM dp_int.ledger_budget(a.id, dp_register.dataset, session_user, jsonb_build_object('budget',
    dp_int.describe_budget(a, eps, del) || jsonb_build_object('relation', dp_register.relation::text) || dp_register.options
      || CASE WHEN dp_register.block IS NOT NULL AND dp_int.mixes_rows(dp_register.relation) THEN '{"mixes_rows": true}' ELSE '{}' END::jsonb
      || CASE WHEN levels = '{}' THEN '{}' ELSE jsonb_build_object('categories', levels) END
      || jsonb_strip_nulls(jsonb_build_object('distribution', distribution, 'unit', source, 'persons', dp_register.persons, 'max_rows', CASE WHEN source IS NOT NULL THEN coalesce(dp_register.max_rows, 8) END,
           'block', (SELECT dp_int.describe_blocks(a, d) FROM dp_int.dataset d WHERE d.name = dp_register.dataset AND d.unregistered_at IS NULL)))));
  IF dp_register.unit IS NULL THEN
    PERFORM dp_int.tell_several_rows(dp_register.relation);
  END IF;
  IF total AND dp_int.mixes_rows(dp_register.relation) THEN
    RAISE NOTICE 'dpsidecar: the rows of data set "%" are joined, combined or compared before they are read: by your statement "total" no row depends on another person', dp_register.dataset
      USING HINT = 'A row may show what is public, or its own person''s. An average over others, a rank, or another person''s values in it would cost these more than is booked: then dp_unregister it before anything is charged.';
  END IF;
  IF dp_register.block IS NOT NULL THEN
    PERFORM dp_int.tell_blocks(dp_register.dataset, dp_register.unit, dp_register.options ? 'one_block_a_person');
    IF dp_register.block_origin > dp_int.today() THEN
      RAISE NOTICE 'dpsidecar: the first block of data set "%" begins on %, which is to come: no row of before is ever read, and nothing can be asked until then', dp_register.dataset, dp_register.block_origin
        USING HINT = 'If that is not meant, dp_unregister it and register it with an earlier block_origin, before anything is charged.';
    END IF;
  END IF;
  PERFORM dp_int.tell_large_budget(dp_int.dataset_of(dp_register.dataset));
  PERFORM dp_int.tell_shared_budget(dp_int.dataset_of(dp_register.dataset), a);
  PERFORM dp_int.tell_unscaled(dp_register.dataset, dp_register.scales);
  PERFORM dp_int.tell_placement(dp_int.dataset_of(dp_register.dataset));
  PERFORM pg_notify('dp_jobs', 'registered');
  PERFORM dp_int.notice_scales(dp_register.relation, dp_register.target || dp_register.features, dp_register.scales, dp_register.labels || levels);
END $$;
COMMENT ON FUNCTION public.dp_register IS
  'Registers a relation, one row a person or, with a unit, all rows with one value of that column, with its target, features, whole budget (epsilon, delta; delta = 0: pure), public scales, the labels of columns that are targets of dp_logistic_regress, and the levels of columns that are categories. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_set_budget(dataset text, epsilon float8, delta float8) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  former numeric;  -- the account's epsilon
  eps numeric;
  del numeric;
BEGIN
  PERFORM dp_int.refuse_copy();  -- adopt may set the budget to what is spent
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  d := dp_int.dataset_of(dp_set_budget.dataset);
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account FOR UPDATE;
  PERFORM dp_int.check_accounting(a.accounting, dp_set_budget.epsilon, dp_set_budget.delta);
  eps := dp_int.exact(dp_set_budget.epsilon);
  del := dp_int.exact(dp_set_budget.delta);
  IF del <> a.delta AND EXISTS (SELECT FROM dp_int.dataset o WHERE o.account = a.id AND o.id <> d.id AND o.unregistered_at IS NULL) THEN
    RAISE EXCEPTION 'another data set shows the same people with delta %', a.delta::float8 USING ERRCODE = '22023', HINT = 'Keep its delta.';
  END IF;
  former := a.epsilon;
  a := dp_int.keep_account(a, a.accounting, eps, del);
  UPDATE dp_int.dataset SET epsilon = eps, delta = del, cap = a.cap WHERE id = d.id;
  -- With another delta, or another order, the limits in the account's unit change too.
  UPDATE dp_int.dataset o SET cap = dp_int.cap(a.accounting, a.renyi_order, o.epsilon, o.delta)
   WHERE o.account = a.id AND o.id <> d.id AND o.unregistered_at IS NULL;
  UPDATE dp_int.dataset_grant g SET cap = dp_int.cap(a.accounting, a.renyi_order, g.epsilon, del)
    FROM dp_int.dataset o
   WHERE o.account = a.id AND o.unregistered_at IS NULL AND g.dataset = o.id AND g.epsilon IS NOT NULL;
  PERFORM dp_int.ledger_budget(a.id, d.name, session_user, jsonb_build_object('budget', dp_int.describe_budget(a, eps, del)));
  PERFORM dp_int.tell_large_budget(dp_int.dataset_of(d.name));
  PERFORM dp_int.tell_siblings(d, former);
END $$;
COMMENT ON FUNCTION public.dp_set_budget IS
  'Sets the whole budget of a data set and of the people in it. What is spent stays spent: lowering it below that leaves nothing. The guarantee is the largest budget ever set. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_unregister(dataset text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset := dp_int.dataset_of(dp_unregister.dataset);
BEGIN  -- also in a copy: adopt refuses a data set whose relation is not there
  PERFORM FROM dp_int.account WHERE id = d.account FOR UPDATE;  -- locked before the data set, as in every function
  UPDATE dp_int.dataset SET unregistered_at = clock_timestamp() WHERE id = d.id;
  PERFORM dp_int.ledger_budget(d.account, d.name, session_user, '{"unregister": {}}');
END $$;
COMMENT ON FUNCTION public.dp_unregister IS
  'Takes a data set''s name away. The ledger, what was spent, and the releases stay, for those to whom it is granted until dp_revoke; registering the same people again inherits what was spent. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_grant(dataset text, grantee name, epsilon float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  eps numeric;
  own_cap numeric;
BEGIN
  PERFORM dp_int.refuse_copy();
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  d := dp_int.dataset_of(dp_grant.dataset);
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = dp_grant.grantee) THEN
    RAISE EXCEPTION 'role % does not exist', coalesce('"' || dp_grant.grantee || '"', 'NULL') USING ERRCODE = '42704', HINT = 'Create the role first and make it a member of dp_analyst.';
  END IF;
  IF dp_grant.epsilon IS NOT NULL THEN
    IF NOT (dp_grant.epsilon > 0 AND dp_grant.epsilon < 'Infinity') THEN
      RAISE EXCEPTION 'a personal limit must be a positive finite epsilon, not %', dp_grant.epsilon
        USING ERRCODE = '22023', HINT = 'For instance 1; NULL sets none. dp_revoke takes a grant back.';
    END IF;
    eps := dp_int.exact(dp_grant.epsilon);
    SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
    own_cap := dp_int.positive_cap(a, eps, a.delta);
  END IF;
  INSERT INTO dp_int.dataset_grant (dataset, principal, grantee, epsilon, cap)
  VALUES (d.id, dp_int.admit_principal(dp_grant.grantee), dp_grant.grantee, eps, own_cap)
  ON CONFLICT ON CONSTRAINT dataset_grant_pk DO UPDATE SET grantee = excluded.grantee, epsilon = excluded.epsilon, cap = excluded.cap;
  PERFORM dp_int.ledger_budget(d.account, d.name, session_user, jsonb_build_object('grant',
    jsonb_build_object('grantee', dp_grant.grantee, 'epsilon', eps)));
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r  -- a superuser is a member of every role
                  WHERE (r.rolname = dp_grant.grantee OR NOT r.rolsuper) AND pg_has_role(r.oid, dp_grant.grantee, 'USAGE') AND pg_has_role(r.oid, 'dp_analyst', 'USAGE')) THEN
    RAISE NOTICE 'dpsidecar: "%" is granted data set "%", but neither it nor a member of it may call the functions that ask', dp_grant.grantee, d.name
      USING HINT = format('An administrator of the roles runs: GRANT dp_analyst TO %I;', dp_grant.grantee);
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_grant IS
  'Lets a role and its members ask on a data set, optionally with a personal limit for each of them. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_revoke(dataset text, grantee name) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset;
  g dp_int.dataset_grant;
  revoked boolean := false;
  groups text := '';
BEGIN
  PERFORM dp_int.refuse_copy();  -- whose grants and jobs these are is known when roles are bound
  IF NOT EXISTS (SELECT FROM dp_int.dataset o WHERE o.name = dp_revoke.dataset) THEN
    PERFORM dp_int.dataset_of(dp_revoke.dataset);  -- raises
  END IF;
  FOR d IN SELECT o.* FROM dp_int.dataset o WHERE o.name = dp_revoke.dataset ORDER BY o.account, o.id LOOP  -- former ones too: their grants show their releases
    DELETE FROM dp_int.dataset_grant o  -- of the role that has this name, or of a dropped role that had it
     WHERE o.dataset = d.id
       AND (o.principal = dp_int.principal_of(dp_revoke.grantee) OR o.grantee = dp_revoke.grantee AND dp_int.role_of(o.principal) IS NULL);
    IF FOUND THEN
      revoked := true;
      PERFORM dp_int.ledger_budget(d.account, d.name, session_user, jsonb_build_object('revoke', jsonb_build_object('grantee', dp_revoke.grantee)));
      PERFORM dp_int.refuse_ungranted(d);
    END IF;
    g := dp_int.grant_of(d.id, dp_revoke.grantee);
    CONTINUE WHEN g.dataset IS NULL;
    groups := format(' "%s" has access as a member of "%s": dp_revoke(%L, %L) ends that for all its members.', dp_revoke.grantee, dp_int.role_of(g.principal), d.name, dp_int.role_of(g.principal));
    IF revoked AND d.unregistered_at IS NULL THEN
      RAISE NOTICE 'dpsidecar: "%" may still ask data set "%" as a member of "%", %', dp_revoke.grantee, d.name, dp_int.role_of(g.principal),
          CASE WHEN g.epsilon IS NULL THEN 'without a personal limit' ELSE format('with a personal limit of epsilon %s', g.epsilon::float8) END
        USING HINT = format('dp_revoke(%L, %L) ends that for all members, and dp_grant(%L, %L, ...) sets a limit for this one.', d.name, dp_int.role_of(g.principal), d.name, dp_revoke.grantee);
    ELSIF revoked THEN
      RAISE NOTICE 'dpsidecar: "%" still sees releases of a former data set "%" as a member of "%"', dp_revoke.grantee, d.name, dp_int.role_of(g.principal)
        USING HINT = format('dp_revoke(%L, %L) ends that for all members.', d.name, dp_int.role_of(g.principal));
    END IF;
  END LOOP;
  IF NOT revoked THEN
    RAISE EXCEPTION 'data set "%" is not granted to "%"', dp_revoke.dataset, dp_revoke.grantee
      USING ERRCODE = '22023', HINT = 'A grant to a group is taken back from the group.' || groups;
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_revoke IS
  'Takes a grant back, also of data sets that had the name and were unregistered, whose releases it shows: jobs not yet charged are refused. What was spent stays spent. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_register, public.dp_set_budget, public.dp_unregister, public.dp_grant, public.dp_revoke TO dp_admin;
