-- Tables whose rows are on several nodes: distributed by Citus, or with partitions that are foreign
-- tables. Every node has a snapshot of its own. The conditions that follow for the rows:
-- internal/job/nodes.md.

-- The tables whose rows a relation shows: its base relations; for a partition or child only the table
-- itself and those below it, not its parents.
CREATE OR REPLACE FUNCTION dp_int.shown_relations(p_relid oid) RETURNS TABLE(relid oid, relation text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY
  SELECT b.relid, b.relation
    FROM dp_int.base_relations(p_relid) b
   WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = p_relid) OR b.relid IN (SELECT dp_int.with_children(p_relid));
END $$;

-- The distribution of a relation's rows, table by table; NULL where one snapshot shows all of them, as
-- for reference tables and tables of one shard.
CREATE OR REPLACE FUNCTION dp_int.distribution(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$
DECLARE
  sharded text;
  over_servers text;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
    SELECT string_agg(format('%s by %s of %I', b.relation, CASE p.partmethod WHEN 'h' THEN 'hash' WHEN 'r' THEN 'range' ELSE 'append' END, a.attname), ', ' ORDER BY b.relation)
      INTO sharded
      FROM dp_int.shown_relations(p_relid) b
      JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid AND p.partmethod <> 'n'
      LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = b.relid AND a.attnum = substring(p.partkey FROM ':varattno ([0-9]+)')::int
     WHERE b.relid = p_relid OR NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = b.relid);  -- the distribution of a table is that of its partitions
  END IF;
  SELECT string_agg(DISTINCT format('%s with foreign partitions', b.relation), ', ') INTO over_servers
    FROM dp_int.shown_relations(p_relid) b
    JOIN pg_catalog.pg_inherits i ON i.inhparent = b.relid
    JOIN pg_catalog.pg_class f ON f.oid = i.inhrelid AND f.relkind = 'f';
  RETURN nullif(concat_ws(', ', sharded, over_servers), '');
END $$;

-- The node that has all rows of a table; empty for a reference table of Citus, which every node has.
CREATE OR REPLACE FUNCTION dp_int.node_of(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce((SELECT CASE WHEN p.repmodel = 't' THEN '' WHEN p.partmethod = 'n' AND min(c.groupid) > 0 THEN format('node group %s', min(c.groupid)) END
                     FROM pg_catalog.pg_dist_partition p
                     JOIN pg_catalog.pg_dist_shard s ON s.logicalrelid = p.logicalrelid
                     JOIN pg_catalog.pg_dist_placement c ON c.shardid = s.shardid
                    WHERE p.logicalrelid = p_relid
                    GROUP BY p.repmodel, p.partmethod), 'this node');
END $$;

-- The tables that a view unites (UNION, FULL JOIN), each with its node, where they are on several: each foreign server, and each node of Citus,
-- has a snapshot of its own; NULL where they are on one. Of tables that are joined otherwise each row rests on one row of the
-- first, so that nobody has two. A materialized view is a table of this node, whatever it was made of.
CREATE OR REPLACE FUNCTION dp_int.apart(p_relid oid) RETURNS text
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$
DECLARE
  citus CONSTANT boolean := to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL;
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.relation_tree(p_relid) AS r(oid), LATERAL dp_int.trees_of('pg_catalog.pg_class'::regclass, r.oid) AS t
                  WHERE t.kind = 'view' AND t.tree ~ E'(?<!\\\\):(setOperations (?!<>)|jointype 2 )') THEN  -- 2: FULL JOIN
    RETURN NULL;
  END IF;
  RETURN (
    WITH RECURSIVE shown AS MATERIALIZED (
      SELECT b.relid, b.relation, c.relkind FROM dp_int.shown_relations(p_relid) b JOIN pg_catalog.pg_class c ON c.oid = b.relid),
    named(oid, relkind) AS (  -- what is read by views alone, not below a materialized view
      SELECT c.oid, c.relkind FROM pg_catalog.pg_class c WHERE c.oid = p_relid
      UNION
      SELECT c.oid, c.relkind
        FROM named n
        JOIN pg_catalog.pg_rewrite w ON w.ev_class = n.oid AND n.relkind = 'v'
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass
        JOIN pg_catalog.pg_class c ON c.oid = d.refobjid),
    kept(oid) AS MATERIALIZED (
      SELECT k.relid FROM shown m, LATERAL dp_int.base_relations(m.relid) k WHERE m.relkind = 'm' AND k.relid <> m.relid
      EXCEPT SELECT n.oid FROM named n),
    place AS MATERIALIZED (
      SELECT s.relation, nullif(coalesce('server ' || quote_ident(v.srvname), CASE WHEN citus THEN dp_int.node_of(s.relid) ELSE 'this node' END), '') AS name
        FROM shown s
        LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = s.relid
        LEFT JOIN pg_catalog.pg_foreign_server v ON v.oid = f.ftserver
       WHERE s.relkind IN ('r', 'f', 'm') AND s.relid NOT IN (SELECT k.oid FROM kept k))
    SELECT string_agg(format('%s on %s', p.relation, p.name), ', ' ORDER BY p.relation)
      FROM place p
     WHERE p.name IS NOT NULL
    HAVING count(DISTINCT p.name) > 1);
END $$;

-- Raises where a table of Citus cannot be read at all: a single shard registered as a table, because its
-- people would get a budget of their own; shards that may share a person; and shards with several copies,
-- because after the failure of a node the rows of two copies could be read.
CREATE OR REPLACE FUNCTION dp_int.refuse_shards(p_relid oid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  t record;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN;
  END IF;
  FOR t IN
    SELECT b.relation, p.partmethod, pg_catalog.relation_is_a_known_shard(b.relid::regclass) AS is_shard,
           p.partmethod <> 'n' AND EXISTS (SELECT FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement c ON c.shardid = s.shardid
                                            WHERE s.logicalrelid = b.relid GROUP BY s.shardid HAVING count(*) > 1) AS copied
      FROM dp_int.base_relations(p_relid) b
      LEFT JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid
     ORDER BY b.relation
  LOOP
    IF t.is_shard THEN
      RAISE EXCEPTION '% is a shard of a distributed table', t.relation USING ERRCODE = '22023', HINT = 'Register the distributed table.';
    ELSIF t.partmethod NOT IN ('h', 'n') THEN
      RAISE EXCEPTION '% is distributed by %, where nothing keeps a person in one shard', t.relation, CASE t.partmethod WHEN 'r' THEN 'range' ELSE 'append' END
        USING ERRCODE = '22023', HINT = 'Distribute it by hash of the column that tells persons apart: SELECT create_distributed_table(...).';
    ELSIF t.copied THEN
      RAISE EXCEPTION '% has several copies of a shard', t.relation
        USING ERRCODE = '22023', HINT = 'Where a node fails in mid-statement, rows of two copies could be added up. Distribute it with citus.shard_replication_factor = 1, and replicate the nodes.';
    END IF;
  END LOOP;
END $$;

-- Checks the preconditions for a relation on several nodes, and returns the distribution of its rows. No
-- single snapshot shows the rows of all nodes: a row that moves from one to another while a job reads
-- could be read twice. With a unit all rows of a person are protected together, wherever they are.
-- Without one the steward vouches that rows stay in place, because no engine prevents deleting a row and
-- inserting it elsewhere.
CREATE OR REPLACE FUNCTION dp_int.check_nodes(p_relid oid, p_unit name, p_rows_stay text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  how CONSTANT text := coalesce(dp_int.distribution(p_relid), CASE WHEN p_unit IS NULL THEN dp_int.apart(p_relid) END);
BEGIN
  PERFORM dp_int.refuse_shards(p_relid);
  IF p_rows_stay IS NOT NULL AND how IS NULL THEN
    RAISE EXCEPTION 'option "rows_stay" is about rows on several nodes, and those of % are on one', p_relid::regclass USING ERRCODE = '22023', HINT = 'Leave it out.';
  ELSIF btrim(p_rows_stay) = '' THEN
    RAISE EXCEPTION 'option "rows_stay" says nothing' USING ERRCODE = '22023', HINT = 'State why no row moves to another node while a job reads.';
  ELSIF how IS NOT NULL AND p_unit IS NULL AND p_rows_stay IS NULL THEN
    RAISE EXCEPTION 'the rows of % are on several nodes, and no one snapshot shows them all: %', p_relid::regclass, how
      USING ERRCODE = '22023',
            HINT = 'A row that moves to another node while a job reads, as one does that is deleted and inserted again with another value of the column by which it is distributed, could count twice. State why that does not happen with options => ''{"rows_stay": "patient numbers are never reused or changed"}'': the ledger records the statement. Or name the column that tells persons apart as unit: all rows of a person are protected together then, wherever they are.';
  END IF;
  RETURN how;
END $$;

-- The servers of a partitioned table's foreign partitions, which a sidecar may query directly; NULL where
-- there are none, or where a partition has another wrapper than postgres_fdw.
CREATE OR REPLACE FUNCTION dp_int.foreign_servers(p_relid oid) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_agg(DISTINCT s.srvname)
    FROM pg_catalog.pg_partition_tree(p_relid) t
    JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = t.relid
    JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
    JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  HAVING bool_and(w.fdwname = 'postgres_fdw')
$$;

-- The number of Citus nodes that hold a relation's rows, for the table on the fewest nodes; 0 without
-- distributed tables.
CREATE OR REPLACE FUNCTION dp_int.sharing_nodes(p_relid oid) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN 0;
  END IF;
  RETURN (SELECT coalesce(min(t.nodes), 0)
            FROM (SELECT count(DISTINCT c.groupid)
                    FROM dp_int.base_relations(p_relid) b
                    JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relid AND p.partmethod = 'h'
                    JOIN pg_catalog.pg_dist_shard s ON s.logicalrelid = b.relid
                    JOIN pg_catalog.pg_dist_placement c ON c.shardid = s.shardid
                   GROUP BY b.relid) AS t(nodes));
END $$;

-- The current node of each shard of a data set's tables; NULL without Citus. The rows of a shard that
-- moves while a job reads are in none of the job's snapshots, or in two: then the sums read are
-- discarded.
CREATE OR REPLACE FUNCTION dp_int.job_shards(p_dataset bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT string_agg(concat_ws(' ', s.shardid, c.placementid, c.groupid), ',' ORDER BY s.shardid, c.placementid)
            FROM dp_int.dataset d
            JOIN LATERAL dp_int.base_relations(d.relid) b ON true
            JOIN pg_catalog.pg_dist_shard s ON s.logicalrelid = b.relid
            JOIN pg_catalog.pg_dist_placement c ON c.shardid = s.shardid
           WHERE d.id = p_dataset);
END $$;
GRANT EXECUTE ON FUNCTION dp_int.job_shards TO dp_sidecar;
