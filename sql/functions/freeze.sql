-- Columns whose values never change: the trigger that keeps a column unchanged, and the reasons why the
-- values of a column cannot change. freeze.md lists the possible ways of a change, and why each is
-- impossible.

-- The body of the function that the trigger of dp_freeze calls.
CREATE OR REPLACE FUNCTION dp_int.refusal() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT $body$
BEGIN
  RAISE EXCEPTION 'column "%" of % cannot change: its owner froze it', TG_ARGV[0], TG_RELID::pg_catalog.regclass
    USING ERRCODE = '23514', HINT = 'Leave it out of the UPDATE. Privacy budgets are kept for the rows of each block of time, and a row stays in the block that it was written to: see dp_freeze.';
END $body$ $$;

DO $do$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION public.dp_refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS %L', dp_int.refusal());
END $do$;
COMMENT ON FUNCTION public.dp_refuse_change() IS 'Raises: what the triggers of dp_freeze call.';

-- Runs with the rights of its caller. Triggers of the same kind fire in the order of their names. The
-- server clones a trigger of a partitioned table to its partitions, also to later ones, but not a trigger
-- of a table that others inherit.
CREATE OR REPLACE FUNCTION public.dp_freeze(relation regclass, "column" name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  trigger_name CONSTANT name := 'zz_dp_freeze_' || CASE WHEN octet_length(dp_freeze."column") > 50 THEN md5(dp_freeze."column") ELSE dp_freeze."column" END;
  refuse CONSTANT oid := 'public.dp_refuse_change()'::regprocedure;
  kind "char" := (SELECT relkind FROM pg_catalog.pg_class WHERE oid = dp_freeze.relation);
  parent regclass := (SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = dp_freeze.relation ORDER BY inhseqno LIMIT 1);
  generated "char";
  t record;
BEGIN
  SELECT a.attgenerated INTO generated FROM pg_catalog.pg_attribute a WHERE a.attrelid = dp_freeze.relation AND a.attname = dp_freeze."column" AND a.attnum > 0;
  IF kind IS NULL OR kind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION '% is no table', coalesce(dp_freeze.relation::text, 'NULL')
      USING ERRCODE = '42809', HINT = 'Freeze the column of the table that holds the rows. Those of a foreign table change on another server, where no trigger sees it.';
  ELSIF parent IS NOT NULL THEN
    RAISE EXCEPTION '% is a part of %', dp_freeze.relation, parent USING ERRCODE = '42809', HINT = format('Freeze the column of the whole: dp_freeze(%L, %L).', parent, dp_freeze."column");
  ELSIF generated IS NULL THEN
    RAISE EXCEPTION 'column % does not exist in %', coalesce('"' || dp_freeze."column" || '"', 'NULL'), dp_freeze.relation
      USING ERRCODE = '42703', HINT = (SELECT format('Its columns are %s; capitals count.', CASE WHEN length(c.names) > 200 THEN left(c.names, 200) || '...' ELSE c.names END)  -- dp_int.its_columns is not for its callers
                                      FROM (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = dp_freeze.relation AND a.attnum > 0 AND NOT a.attisdropped) AS c(names));
  ELSIF generated <> '' THEN
    RAISE EXCEPTION 'column "%" of % is generated', dp_freeze."column", dp_freeze.relation
      USING ERRCODE = '22023', HINT = 'It changes with the columns that it is generated from: freeze those.';
  END IF;
  IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
    IF EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = dp_freeze.relation) THEN
      RAISE EXCEPTION '% is a table of Citus, whose rows are in shards', dp_freeze.relation
        USING ERRCODE = '0A000', HINT = 'A trigger of the table itself sees no UPDATE of them. Where the column is that of blocks, the steward states why its values do not change, with block_is_fixed.';
    END IF;
  END IF;
  FOR t IN
    WITH RECURSIVE tree(oid, depth) AS (
      SELECT dp_freeze.relation::oid, 0
      UNION
      SELECT i.inhrelid, tree.depth + 1 FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid)
    SELECT tree.oid::regclass AS relation, c.relispartition AND EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = tree.oid AND g.tgname = trigger_name AND g.tgfoid = refuse AND g.tgparentid = 0) AS alone
      FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid ORDER BY alone DESC, tree.depth
  LOOP
    IF t.alone THEN  -- created before the table became a partition: a clone would have the same name
      EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, t.relation);
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.relation AND g.tgname = trigger_name) THEN
      EXECUTE format('CREATE TRIGGER %1$I BEFORE UPDATE ON %2$s FOR EACH ROW WHEN (OLD.%3$I IS DISTINCT FROM NEW.%3$I) EXECUTE FUNCTION public.dp_refuse_change(%3$L)',
                     trigger_name, t.relation, dp_freeze."column");
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.relation AND g.tgname = trigger_name AND g.tgenabled <> 'A') THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.relation, trigger_name);
    END IF;
  END LOOP;
END $$;
COMMENT ON FUNCTION public.dp_freeze IS
  'Makes every UPDATE that changes a column fail, in a table, its partitions and those that inherit it, now and later; again: nothing more. For the owner of the table.';
GRANT EXECUTE ON FUNCTION public.dp_freeze, public.dp_refuse_change TO PUBLIC;

-- Is a trigger one that dp_freeze made for a column, and unchanged since? Then it depends on its table
-- and its function alone: an operator = from outside the system catalogue would be a third dependency.
CREATE OR REPLACE FUNCTION dp_int.freezes(t pg_catalog.pg_trigger, p_column name) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN t.tgenabled = 'A' AND t.tgfoid = to_regprocedure('public.dp_refuse_change()')
     AND EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
                  WHERE p.oid = t.tgfoid AND p.prosrc = dp_int.refusal() AND l.lanname = 'plpgsql' AND p.proowner = 'dp_owner'::regrole)
     AND starts_with(pg_get_triggerdef(t.oid), format('CREATE TRIGGER %1$I BEFORE UPDATE ON %2$s FOR EACH ROW WHEN ((old.%3$I IS DISTINCT FROM new.%3$I)) EXECUTE FUNCTION public.dp_refuse_change(',
                                                      t.tgname, t.tgrelid::regclass, p_column))
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                      WHERE d.classid = 'pg_catalog.pg_trigger'::regclass AND d.objid = t.oid
                        AND d.refclassid NOT IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_trigger'::regclass)
                        AND (d.refclassid, d.refobjid) <> ('pg_catalog.pg_proc'::regclass, t.tgfoid));
END $$;

-- Can a BEFORE trigger change a column in an UPDATE that does not set it? A row that the UPDATE moves is
-- inserted into another partition, without passing the triggers of its own. p_frozen: only triggers that
-- fire after the one of dp_freeze count.
CREATE OR REPLACE FUNCTION dp_int.set_by_triggers(p_relid oid, p_attnum int2, p_column name, p_frozen boolean) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  moves CONSTANT boolean := EXISTS (
    SELECT FROM dp_int.heirs(p_relid, p_attnum) h
      JOIN pg_catalog.pg_partitioned_table k ON k.partrelid = h.relid
     WHERE EXISTS (SELECT FROM unnest(k.partattrs::int2[]) AS key WHERE key <> h.attnum));
BEGIN
  RETURN EXISTS (
    SELECT FROM dp_int.heirs(p_relid, p_attnum) h
      JOIN pg_catalog.pg_trigger t ON t.tgrelid = h.relid AND t.tgenabled <> 'D' AND t.tgtype & 3 = 3  -- BEFORE, for each row
     WHERE moves AND t.tgtype & 4 > 0  -- INSERT
        OR t.tgtype & 16 > 0           -- UPDATE
           AND t.tgfoid IS DISTINCT FROM to_regprocedure('public.dp_refuse_change()')
           AND (NOT p_frozen OR t.tgname COLLATE "C" > (SELECT max(f.tgname COLLATE "C") FROM pg_catalog.pg_trigger f WHERE f.tgrelid = h.relid AND dp_int.freezes(f, p_column))));
END $$;

-- May anybody but superusers, the owner included, UPDATE a column of a table?
CREATE OR REPLACE FUNCTION dp_int.updatable(p_relid oid, p_attnum int2) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM pg_catalog.pg_roles r
                  WHERE NOT r.rolsuper AND r.rolname <> 'pg_write_all_data' AND pg_has_role(r.oid, 'pg_write_all_data', 'MEMBER'))
      OR EXISTS (
      WITH RECURSIVE reaching(relid) AS (  -- an UPDATE of another parent reaches the rows of its children without rights on these
        SELECT h.relid FROM dp_int.heirs(p_relid, p_attnum) AS h
        UNION
        SELECT i.inhparent FROM reaching r JOIN pg_catalog.pg_inherits i ON i.inhrelid = r.relid)
    SELECT FROM reaching h
      JOIN pg_catalog.pg_class c ON c.oid = h.relid
      JOIN pg_catalog.pg_roles owner ON owner.oid = c.relowner
      JOIN pg_catalog.pg_attribute a ON a.attrelid = h.relid AND NOT a.attisdropped
           AND a.attname = (SELECT o.attname FROM pg_catalog.pg_attribute o WHERE o.attrelid = p_relid AND o.attnum = p_attnum)
     WHERE owner.rolsuper  -- jobs that load the table may run with his rights
        OR EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s WHERE s.srrelid = h.relid)
        OR EXISTS (SELECT FROM (SELECT * FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner)))
                                UNION ALL SELECT * FROM aclexplode(a.attacl)) AS x
                     LEFT JOIN pg_catalog.pg_roles r ON r.oid = x.grantee  -- no role: the grant is to PUBLIC
                    WHERE x.privilege_type = 'UPDATE' AND r.rolsuper IS NOT true));
END $$;

-- The expression of a generated column, if it is the same in all tables that inherit the table, consists
-- of columns, constants and the system's own functions and operators alone, and uses no time zone but UTC
-- (the rules of others change). NULL otherwise.
CREATE OR REPLACE FUNCTION dp_int.generation(p_relid oid, p_attnum int2) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT CASE WHEN count(*) = count(e.expression) AND count(DISTINCT e.expression) = 1 THEN min(e.expression) END
      FROM dp_int.heirs(p_relid, p_attnum) h
      JOIN pg_catalog.pg_attribute a ON a.attrelid = h.relid AND a.attnum = h.attnum
      LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = h.relid AND d.adnum = h.attnum AND a.attgenerated = 's'
           AND NOT EXISTS (SELECT FROM regexp_matches(d.adbin::text, E'(?<!\\\\)\\{([A-Z_]+)', 'g') AS node WHERE node[1] NOT IN ('VAR', 'CONST', 'FUNCEXPR', 'OPEXPR', 'RELABELTYPE'))
           AND NOT EXISTS (SELECT FROM regexp_matches(d.adbin::text, E':\\w*(?:func|op|type|coll)\\w* ([0-9]+)', 'g') AS part WHERE part[1]::bigint >= 16384)
           AND NOT EXISTS (SELECT FROM regexp_matches(d.adbin::text, ':varattno (-?[0-9]+)', 'g') AS part WHERE part[1]::int < 1)
      LEFT JOIN LATERAL pg_get_expr(d.adbin, d.adrelid) AS e(expression) ON replace(e.expression, 'AT TIME ZONE ''UTC''', '') !~* 'AT TIME ZONE|timezone');
END $$;

-- The columns of its table from which a generated column is computed.
CREATE OR REPLACE FUNCTION dp_int.generated_from(p_relid oid, p_attnum int2) RETURNS SETOF name
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT a.attname
    FROM pg_catalog.pg_attrdef d, regexp_matches(d.adbin::text, ':varattno ([0-9]+)', 'g') AS part, pg_catalog.pg_attribute a
   WHERE d.adrelid = p_relid AND d.adnum = p_attnum AND a.attrelid = p_relid AND a.attnum = part[1]::int
$$;

-- Are two values of a column's type equal only if they are stored alike? The trigger of dp_freeze compares by the
-- type's =, by which the intervals 1 month and 30 days are equal, and the numerics 1 and 1.0.
CREATE OR REPLACE FUNCTION dp_int.equal_is_identical(p_relid oid, p_column name) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE t.oid WHEN 'text'::regtype THEN c.collisdeterministic WHEN 'varchar'::regtype THEN c.collisdeterministic
              ELSE t.oid IN ('boolean'::regtype, 'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'oid'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'uuid'::regtype, 'bytea'::regtype) END
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
   WHERE a.attrelid = p_relid AND a.attname = p_column
$$;

-- Is a relation a table of Citus? Its rows are in shards, and its own triggers fire for none of them.
CREATE OR REPLACE FUNCTION dp_int.of_citus(p_relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
    RETURN false;
  END IF;
  RETURN EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = p_relid);
END $$;

-- The reasons why the values of a column cannot change once they are written, through plain views; no row
-- where they can change, or no reason is known. In a view that does more than show columns, or under a policy of
-- row-level security that reads tables, a row may come to show another row's value or take its place. An identity column is no reason: UPDATE ... SET id = DEFAULT gives it a
-- new value.
CREATE OR REPLACE FUNCTION dp_int.fixed_by(p_relid oid, p_column name) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  s record;
  expression text;
BEGIN
  SELECT c.relid, c.attnum, a.attname, a.attgenerated INTO s
    FROM dp_int.source_column(p_relid, p_column) c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.relid AND a.attnum = c.attnum
   WHERE NOT EXISTS (SELECT FROM dp_int.derived_views(p_relid)) AND NOT dp_int.mixes_rows(p_relid);
  IF NOT FOUND OR EXISTS (SELECT FROM dp_int.heirs(s.relid, s.attnum) h
                            JOIN pg_catalog.pg_class c ON c.oid = h.relid
                            JOIN pg_catalog.pg_attribute a ON a.attrelid = h.relid AND a.attnum = h.attnum
                           WHERE c.relkind NOT IN ('r', 'p') OR a.attgenerated <> s.attgenerated) THEN
    RETURN;
  ELSIF s.attgenerated <> '' THEN
    expression := dp_int.generation(s.relid, s.attnum);
    IF expression IS NOT NULL AND NOT EXISTS (SELECT FROM dp_int.generated_from(s.relid, s.attnum) AS g(source) WHERE NOT EXISTS (SELECT FROM dp_int.fixed_by(s.relid, g.source) AS f(reason) WHERE f.reason <> 'trigger' OR dp_int.equal_is_identical(s.relid, g.source))) THEN
      RETURN NEXT 'generated column: ' || expression;
    END IF;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM dp_int.heirs(s.relid, s.attnum) h
                   JOIN pg_catalog.pg_class c ON c.oid = h.relid AND c.relkind = 'r'
                  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = h.relid AND dp_int.freezes(t, s.attname)))
     AND NOT dp_int.set_by_triggers(s.relid, s.attnum, s.attname, true) AND NOT dp_int.of_citus(s.relid) THEN
    RETURN NEXT 'trigger';
  END IF;
  IF NOT dp_int.updatable(s.relid, s.attnum) AND NOT dp_int.set_by_triggers(s.relid, s.attnum, s.attname, false) THEN
    RETURN NEXT 'no UPDATE rights';
  END IF;
END $$;

-- The first of these reasons, NULL where there is none.
CREATE OR REPLACE FUNCTION dp_int.block_fixed_by(p_relid oid, p_column name) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT f.reason FROM dp_int.fixed_by(p_relid, p_column) WITH ORDINALITY AS f(reason, n) ORDER BY f.n LIMIT 1 $$;

-- Raises where the values of a column can change although they could not at registration.
CREATE OR REPLACE FUNCTION dp_int.refuse_unfixed(p_relid oid, p_column name, p_reason text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.fixed_by(p_relid, p_column) AS f(reason) WHERE f.reason = p_reason) THEN
    RAISE EXCEPTION 'its column "%" can change now: what kept it was %', p_column, CASE p_reason WHEN 'trigger' THEN 'the trigger of dp_freeze' WHEN 'no UPDATE rights' THEN 'that nobody had the right to UPDATE it' ELSE p_reason END
      USING HINT = CASE WHEN p_reason = 'trigger' THEN
        (SELECT format('If no row was given another value since, the owner of the table runs: SELECT dp_freeze(%L, %L);', s.relid::regclass, a.attname)
           FROM dp_int.source_column(p_relid, p_column) s JOIN pg_catalog.pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.attnum) ELSE '' END;
  END IF;
END $$;
