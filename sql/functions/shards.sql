-- The tables on the nodes of Citus in which the rows of a distributed table are. They belong to the table's
-- owner, who may log in to a worker, or have the coordinator run a statement there, and change one of them.
-- Nothing of that is in the catalogue of the coordinator: the nodes are asked.

-- The statement that tells what tables are on a node, by their names, and functions: of each table its kind,
-- whether policies hide rows of it, a hash of its columns with the types under domains, another table that inherits
-- from it, and an object that reading it may run; of each function that is no superuser's a hash.
CREATE OR REPLACE FUNCTION dp_int.ask_node(p_tables text[], p_functions jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $outer$
  SELECT format($ask$
    WITH tables AS MATERIALIZED (
      SELECT n.name, c.oid AS id, c.relkind AS kind
        FROM pg_catalog.unnest(%L::pg_catalog.text[]) AS n(name)
        JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(n.name)),
    casts AS MATERIALIZED (
      SELECT 1 AS one
        FROM pg_catalog.pg_cast k
        JOIN pg_catalog.pg_proc p ON p.oid = k.castfunc
        JOIN pg_catalog.pg_roles o ON o.oid = p.proowner AND NOT o.rolsuper
       WHERE k.casttarget IN ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype, 'pg_catalog.text'::pg_catalog.regtype)
       LIMIT 1)
    SELECT pg_catalog.jsonb_build_object(
      'tables', (
        SELECT pg_catalog.jsonb_object_agg(t.name, pg_catalog.jsonb_build_object(
          'kind', t.kind,
          'hidden', pg_catalog.row_security_active(t.id),
          'columns', (
            SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.format('%%L %%L.%%L %%s%%s', a.attname, n.nspname, b.name, b.kind, a.attgenerated), ',' ORDER BY a.attname::pg_catalog.text COLLATE pg_catalog."C"))
              FROM pg_catalog.pg_attribute a,
                   LATERAL (WITH RECURSIVE base(name, schema, kind, under) AS (
                              SELECT y.typname, y.typnamespace, y.typtype, y.typbasetype FROM pg_catalog.pg_type y WHERE y.oid = a.atttypid
                              UNION ALL
                              SELECT y.typname, y.typnamespace, y.typtype, y.typbasetype FROM base b JOIN pg_catalog.pg_type y ON y.oid = b.under WHERE b.kind = 'd')
                            SELECT b.name, b.schema, b.kind FROM base b WHERE b.kind <> 'd') AS b
              JOIN pg_catalog.pg_namespace n ON n.oid = b.schema
             WHERE a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped),
          'child', (
            SELECT i.inhrelid
              FROM pg_catalog.pg_inherits i
             WHERE i.inhparent = t.id AND t.kind IN ('r', 'p') AND NOT EXISTS (SELECT FROM tables o WHERE o.id = i.inhrelid)
             LIMIT 1),
          'runs', coalesce((
            SELECT pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0)
              FROM (SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, t.id
                    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = t.id
                    UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, e.oid FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = t.id) AS o(class, id)
              JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.id
                                         AND d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass)
             LIMIT 1), (
            SELECT 'a cast'
              FROM casts
             WHERE EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = t.id AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
                OR EXISTS (SELECT FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = t.id AND e.stxexprs IS NOT NULL)
                OR EXISTS (SELECT FROM pg_catalog.pg_partitioned_table k WHERE k.partrelid = t.id AND k.partexprs IS NOT NULL)), (
            SELECT pg_catalog.pg_describe_object('pg_catalog.pg_type'::pg_catalog.regclass, y.oid, 0)  -- its constraints: see why_not_total
              FROM (SELECT pg_catalog.concat(i.indexprs, i.indpred) FROM pg_catalog.pg_index i WHERE i.indrelid = t.id
                    UNION ALL SELECT e.stxexprs::pg_catalog.text FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = t.id
                    UNION ALL SELECT k.partexprs::pg_catalog.text FROM pg_catalog.pg_partitioned_table k WHERE k.partrelid = t.id) AS o(tree),
                   pg_catalog.regexp_matches(o.tree, E'(?<!\\\\):(?:resulttype|typid) ([0-9]+)', 'g') AS m
              JOIN pg_catalog.pg_type y ON y.oid = m[1]::pg_catalog.oid AND y.typtype = 'd' AND y.oid >= 16384
             LIMIT 1))))
          FROM tables t),
      'functions', (
        SELECT pg_catalog.jsonb_object_agg(f.name, f.hash)
          FROM (SELECT pg_catalog.format('%%L.%%L(%%s)', q.schema, q.name, (
                         SELECT pg_catalog.string_agg(pg_catalog.format('%%L.%%L', n.nspname, y.typname), ',' ORDER BY a.place)
                           FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY AS a(type, place)
                           JOIN pg_catalog.pg_type y ON y.oid = a.type
                           JOIN pg_catalog.pg_namespace n ON n.oid = y.typnamespace)),
                       CASE WHEN NOT o.rolsuper THEN
                         pg_catalog.md5(pg_catalog.concat_ws('|', l.lanname, p.prokind, p.proisstrict, p.prosecdef, p.provolatile, p.proconfig, p.probin, p.prosrc, pg_catalog.pg_get_function_sqlbody(p.oid))) END
                  FROM pg_catalog.jsonb_to_recordset(%L::pg_catalog.jsonb) AS q(schema pg_catalog.text, name pg_catalog.text)
                  JOIN pg_catalog.pg_namespace n ON n.nspname = q.schema::pg_catalog.name
                  JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid AND p.proname = q.name::pg_catalog.name
                  JOIN pg_catalog.pg_language l ON l.oid = p.prolang
                  JOIN pg_catalog.pg_roles o ON o.oid = p.proowner) AS f(name, hash)))::pg_catalog.text
  $ask$, p_tables, p_functions)
$outer$;

-- The nodes that hold rows of a data set, with the names of its tables there, each with that of the table that
-- the coordinator knows, and the functions that reading it calls, where it was stated to be total. Reference tables
-- have a copy on each node: they are read from that on the coordinator, unless other tables are read with them.
CREATE OR REPLACE FUNCTION dp_int.nodes_to_ask(p_dataset bigint) RETURNS TABLE(host text, port int, here boolean, shards jsonb, functions jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d dp_int.dataset;
  one_node boolean;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  one_node := NOT EXISTS (SELECT FROM dp_int.base_relations(d.relid) b JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid AND NOT (p.partmethod = 'n' AND p.repmodel = 't'));
  RETURN QUERY
  SELECT n.nodename::text, n.nodeport, n.groupid = 0,
         jsonb_object_agg(CASE WHEN m.nspname = 'public' THEN 'public.' ELSE '' END || pg_catalog.shard_name(b.relid::regclass, s.shardid), b.relation),
         CASE WHEN (d.options ->> 'total')::boolean THEN
           (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('schema', fm.nspname, 'name', f.proname)), '[]')
              FROM dp_int.involved(d.relid) v
              JOIN pg_catalog.pg_proc f ON v.class = 'pg_catalog.pg_proc'::regclass AND f.oid = v.id
              JOIN pg_catalog.pg_namespace fm ON fm.oid = f.pronamespace) END
    FROM dp_int.base_relations(d.relid) b
    JOIN pg_catalog.pg_class c ON c.oid = b.relid
    JOIN pg_catalog.pg_namespace m ON m.oid = c.relnamespace
    JOIN pg_catalog.pg_dist_shard s ON s.logicalrelid = b.relid
    JOIN pg_catalog.pg_dist_placement p ON p.shardid = s.shardid
    JOIN pg_catalog.pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
   WHERE NOT one_node OR p.groupid = 0
      OR NOT EXISTS (SELECT FROM pg_catalog.pg_dist_placement h WHERE h.shardid = s.shardid AND h.groupid = 0)
   GROUP BY n.nodename, n.nodeport, n.groupid;
END $$;

-- What is wrong with the tables on a node, by what it answered and what the coordinator knows; NULL if nothing is.
CREATE OR REPLACE FUNCTION dp_int.why_changed(p_shards jsonb, p_here jsonb, p_there jsonb, p_total boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT wrong
    FROM (SELECT s.shard || CASE
                   WHEN f.facts IS NULL THEN ' is not there'
                   WHEN f.facts -> 'kind' <> k.facts -> 'kind' THEN ' is another kind of relation'
                   WHEN (f.facts ->> 'hidden')::boolean THEN ' hides rows by row-level security'
                   WHEN f.facts -> 'columns' IS DISTINCT FROM k.facts -> 'columns' THEN ' has other columns'
                   WHEN f.facts ->> 'child' IS NOT NULL THEN ' has a child that is none of its shards'
                   WHEN NOT p_total AND f.facts ->> 'runs' IS NOT NULL THEN ' may run ' || (f.facts ->> 'runs') END
            FROM jsonb_each_text(p_shards) AS s(shard, relation),
                 LATERAL (SELECT p_there -> 'tables' -> s.shard) AS f(facts),
                 LATERAL (SELECT p_here -> 'tables' -> s.relation) AS k(facts)
          UNION ALL
          SELECT 'function ' || f.name || ' is another one'
            FROM jsonb_each_text(nullif(p_there -> 'functions', 'null')) AS f(name, hash)
           WHERE f.hash <> coalesce(p_here -> 'functions' ->> f.name, '')) AS w(wrong)
   WHERE wrong IS NOT NULL
   ORDER BY wrong
   LIMIT 1
$$;

-- Raises where the tables on the nodes are not what the coordinator has in its catalogue: then reading them
-- could run what a table's owner made on a node, as dp_sidecar. It must be called as dp_sidecar, as whom the
-- coordinator logs in to the nodes. Raises 08006 where a node cannot be reached.
CREATE OR REPLACE FUNCTION dp_int.check_shards(p_dataset bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n record;
  known text;
  wrong text;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN;
  END IF;
  PERFORM set_config('citus.override_table_visibility', 'off', true);  -- shards on this node are in pg_class too
  FOR n IN
    WITH asked AS MATERIALIZED (
      SELECT t.*, dp_int.ask_node(ARRAY(SELECT jsonb_object_keys(t.shards)), coalesce(t.functions, '[]')) AS question FROM dp_int.nodes_to_ask(p_dataset) t),
    answered AS MATERIALIZED (
      SELECT r.*
        FROM (SELECT array_agg(host) AS hosts, array_agg(port) AS ports, array_agg(question) AS questions FROM asked WHERE NOT here HAVING count(*) > 0) a,
             LATERAL pg_catalog.master_run_on_worker(a.hosts, a.ports, a.questions, true) r)
    SELECT a.*, r.success, r.result FROM asked a LEFT JOIN answered r ON r.node_name = a.host AND r.node_port = a.port ORDER BY a.host, a.port
  LOOP
    IF n.here THEN
      EXECUTE n.question INTO n.result;
    ELSIF NOT n.success AND n.result LIKE 'failed to connect%' THEN
      RAISE EXCEPTION 'node %:% cannot be reached', n.host, n.port USING ERRCODE = '08006';
    ELSIF NOT n.success THEN
      RAISE EXCEPTION 'node %:% does not tell what is on it: %', n.host, n.port, n.result USING ERRCODE = 'DP004', HINT = 'The coordinator asks it as dp_sidecar, with master_run_on_worker. Let an administrator see why not. No privacy budget was spent.';
    END IF;
    EXECUTE dp_int.ask_node(ARRAY(SELECT DISTINCT relation FROM jsonb_each_text(n.shards) AS s(shard, relation)), coalesce(n.functions, '[]')) INTO known;
    wrong := dp_int.why_changed(n.shards, known::jsonb, n.result::jsonb, n.functions IS NOT NULL);
    IF wrong IS NOT NULL THEN
      RAISE EXCEPTION 'on node %:% %', n.host, n.port, wrong
        USING ERRCODE = 'DP004', HINT = 'The coordinator has it otherwise, and reading it could run what somebody made on that node. Let the owner of the table put it right there, or make the table anew. No privacy budget was spent.';
    END IF;
  END LOOP;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.ask_node, dp_int.nodes_to_ask, dp_int.why_changed, dp_int.check_shards TO dp_sidecar;
