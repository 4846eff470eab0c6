-- The persons to whom rows belong, where a person may have several: rows with the same value of one
-- column, the unit, belong to one person. The unit is fixed at registration.

-- The column of a table that a column of a relation shows, through views and to the
-- uppermost parent; no row where a view computes it.
CREATE OR REPLACE FUNCTION dp_int.source_column(p_relid oid, p_column name) RETURNS TABLE(relid oid, attnum int2)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
DECLARE
  kind "char";
  entries int;
  source oid;
  col int2;
BEGIN
  relid := p_relid;
  attnum := (SELECT a.attnum FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attname = p_column AND a.attnum > 0 AND NOT a.attisdropped);
  LOOP
    SELECT c.relkind INTO kind FROM pg_catalog.pg_class c WHERE c.oid = relid;
    EXIT WHEN kind IS NULL OR kind NOT IN ('v', 'm') OR attnum IS NULL;
    -- A query within the view may have columns of the same number: then the column shown cannot be
    -- determined.
    SELECT count(*), min(m[1])::oid, min(m[2])::int2 INTO entries, source, col
      FROM pg_catalog.pg_rewrite w,
           regexp_matches(w.ev_action::text, format(E':resno %s :resname \\S+ :ressortgroupref [0-9]+ :resorigtbl ([0-9]+) :resorigcol ([0-9]+) :resjunk false', attnum), 'g') AS m
     WHERE w.ev_class = relid AND w.ev_type = '1';
    IF entries <> 1 OR source = 0 OR col < 1 THEN
      IF kind = 'v' THEN
        RETURN;
      END IF;
      EXIT;  -- a materialized view stores its own values
    END IF;
    relid := source;
    attnum := col;
  END LOOP;
  LOOP
    SELECT i.inhparent, p.attnum INTO source, col
      FROM pg_catalog.pg_inherits i
      JOIN pg_catalog.pg_attribute a ON a.attrelid = i.inhrelid AND a.attnum = source_column.attnum
      JOIN pg_catalog.pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname AND p.attnum > 0
     WHERE i.inhrelid = relid
     ORDER BY i.inhseqno
     LIMIT 1;
    EXIT WHEN NOT FOUND;
    relid := source;
    attnum := col;
  END LOOP;
  IF attnum IS NOT NULL THEN
    RETURN NEXT;
  END IF;
END $$;

-- The source column as a name; NULL where a view computes the column.
CREATE OR REPLACE FUNCTION dp_int.source_name(p_relid oid, p_column name) RETURNS text
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$
BEGIN
  RETURN (SELECT format('%I.%I.%I', n.nspname, c.relname, a.attname)
            FROM dp_int.source_column(p_relid, p_column) s
            JOIN pg_catalog.pg_class c ON c.oid = s.relid
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_catalog.pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.attnum);
END $$;

-- The number of the source column in its table.
CREATE OR REPLACE FUNCTION dp_int.source_number(p_relid oid, p_column name) RETURNS int2
LANGUAGE sql STABLE AS $$ SELECT s.attnum FROM dp_int.source_column(p_relid, p_column) s $$;

-- A table and all tables that inherit it, partitions among them, directly or through others.
CREATE OR REPLACE FUNCTION dp_int.with_children(p_relid oid) RETURNS SETOF oid
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE heir(relid) AS (
    SELECT p_relid
    UNION
    SELECT i.inhrelid FROM heir h JOIN pg_catalog.pg_inherits i ON i.inhparent = h.relid)
  SELECT heir.relid FROM heir
$$;

-- A column of a table and of all tables that inherit it; each may have a foreign key of its own.
CREATE OR REPLACE FUNCTION dp_int.heirs(p_relid oid, p_attnum int2) RETURNS TABLE(relid oid, attnum int2)
LANGUAGE plpgsql STABLE ROWS 2 AS $$
BEGIN
  RETURN QUERY
  SELECT a.attrelid, a.attnum
    FROM dp_int.with_children(p_relid) AS h(relid)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = h.relid AND NOT a.attisdropped
                                  AND a.attname = (SELECT o.attname FROM pg_catalog.pg_attribute o WHERE o.attrelid = p_relid AND o.attnum = p_attnum);
END $$;

-- The column by which rows of a foreign key name what they refer to: its only one, or since Postgres 18 the one beside
-- a period, as in FOREIGN KEY (patient, PERIOD stay). NULL where there are more.
CREATE OR REPLACE FUNCTION dp_int.referring(k pg_catalog.pg_constraint) RETURNS int2
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE cardinality(k.conkey) WHEN 1 THEN k.conkey[1] WHEN 2 THEN CASE WHEN (to_jsonb(k) ->> 'conperiod')::boolean THEN k.conkey[1] END END
$$;

-- The tables to which a unit refers by such foreign keys, step by step. A reference to the table
-- itself names another row's person, and is not followed.
CREATE OR REPLACE FUNCTION dp_int.referenced(p_relid oid, p_unit name) RETURNS TABLE(step int, relid oid, attnum int2)
LANGUAGE plpgsql STABLE ROWS 2 SET jit = off AS $$  -- the planner takes the recursion for long, and every request goes through it
BEGIN
  RETURN QUERY
  WITH RECURSIVE reached(step, relid, attnum) AS (
    SELECT 0, s.relid, s.attnum FROM dp_int.source_column(p_relid, p_unit) s
    UNION
    SELECT r.step + 1, k.confrelid, k.confkey[1]
      FROM reached r
     CROSS JOIN LATERAL dp_int.heirs(r.relid, r.attnum) h
      JOIN pg_catalog.pg_constraint k ON k.conrelid = h.relid AND k.contype = 'f' AND dp_int.referring(k) = h.attnum AND k.confrelid <> r.relid
     WHERE r.step < 16)
  SELECT r.step, r.relid, r.attnum FROM reached r;
END $$;

-- The relations with the persons of a registration: its base relations and, with a unit, those to which
-- the unit refers. own: a base relation.
CREATE OR REPLACE FUNCTION dp_int.population(p_relid oid, p_unit name) RETURNS TABLE(relid oid, relation text, own boolean)
LANGUAGE plpgsql STABLE SET quote_all_identifiers = off AS $$
BEGIN
  RETURN QUERY
  SELECT b.relid, b.relation, true FROM dp_int.base_relations(p_relid) b
  UNION
  SELECT c.oid, format('%I.%I', n.nspname, c.relname), false
    FROM dp_int.referenced(p_relid, p_unit) r
    JOIN pg_catalog.pg_class c ON c.oid = r.relid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE p_unit IS NOT NULL AND c.oid NOT IN (SELECT b.relid FROM dp_int.base_relations(p_relid) b);
END $$;

-- Is a column unique in all rows that a query of the table reads? An index that could not be built to its end is not
-- kept to, and one of a table does not hold for the children that inherit from it.
CREATE OR REPLACE FUNCTION dp_int.is_key(p_relid oid, p_attnum int2) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = p_relid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = p_attnum)
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhparent WHERE h.inhparent = p_relid AND c.relkind <> 'p')
$$;

-- The definition of a person of a unit, as a text that is equal for equal definitions: a row of the table
-- to which the unit refers, or of which it is a key, or else a value of the unit.
CREATE OR REPLACE FUNCTION dp_int.person_of(p_relid oid, p_unit name) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT format('%s %s', r.relid, CASE WHEN dp_int.is_key(r.relid, r.attnum) THEN 0 ELSE r.attnum END)
            FROM dp_int.referenced(p_relid, p_unit) r
           ORDER BY r.step DESC, r.relid
           LIMIT 1);
END $$;

-- Checks the unit and returns the table column that it shows, NULL where every row is a person. Equal
-- values of a unit must have equal bytes.
CREATE OR REPLACE FUNCTION dp_int.check_unit(p_relid oid, p_unit name, p_max_rows int, p_persons bigint, p_columns name[]) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kind oid;
  deterministic boolean;
  source text;
BEGIN
  IF p_unit IS NULL THEN
    IF p_max_rows IS NOT NULL OR p_persons IS NOT NULL THEN
      RAISE EXCEPTION '% without a unit', CASE WHEN p_max_rows IS NOT NULL THEN 'max_rows' ELSE 'persons' END
        USING ERRCODE = '22023', HINT = 'Name the column that tells persons apart, for instance unit => ''patient_id''.';
    END IF;
    RETURN NULL;
  END IF;
  SELECT dp_int.domain_base(a.atttypid), coalesce(l.collisdeterministic, true) INTO kind, deterministic
    FROM pg_catalog.pg_attribute a
    LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
   WHERE a.attrelid = p_relid AND a.attname = p_unit AND a.attnum > 0 AND NOT a.attisdropped;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'column "%" does not exist in %', p_unit, p_relid::regclass
      USING ERRCODE = '42703', HINT = 'The unit is the column that tells persons apart. ' || dp_int.its_columns(p_relid);
  ELSIF kind NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'uuid'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'bytea'::regtype) THEN
    RAISE EXCEPTION 'column "%" has type %, which cannot tell persons apart', p_unit, format_type(kind, NULL)
      USING ERRCODE = '22023', HINT = concat('A unit is a smallint, integer, bigint, uuid, text, varchar, char or bytea column. Of other types different bytes can be equal; a key of several columns can be one stored generated column.',
        CASE WHEN kind IN ('real'::regtype, 'double precision'::regtype, 'numeric'::regtype) AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = p_relid AND c.relkind IN ('r', 'p'))
             THEN format(' So can whole numbers: as the owner run ALTER TABLE %1$s ADD %2$I bigint GENERATED ALWAYS AS (%3$I::bigint) STORED; and register with unit => %2$L.', p_relid::regclass, left(p_unit, 50) || '_key', p_unit) END);
  ELSIF NOT deterministic THEN
    RAISE EXCEPTION 'column "%" has a nondeterministic collation, and cannot tell persons apart', p_unit
      USING ERRCODE = '22023', HINT = 'Persons are told apart byte by byte, and this collation takes different bytes for equal. Let its owner give the column another collation, for instance COLLATE "C".';
  ELSIF NOT coalesce(p_max_rows, 8) BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'max_rows must be from 1 to 1000, not %', p_max_rows
      USING ERRCODE = '22023', HINT = 'So many complete rows of a person take part, at random where there are more; 8, the default, is nearly as good as all.';
  ELSIF p_persons < 1 THEN
    RAISE EXCEPTION 'persons must be at least 1, not %', p_persons
      USING ERRCODE = '22023', HINT = 'It is how many persons there are taken to be, public, in place of how many there are. Leave it out to have them counted.';
  END IF;
  source := dp_int.source_name(p_relid, p_unit);
  IF source IS NULL THEN
    RAISE EXCEPTION 'unit "%" of % is computed in a view', p_unit, p_relid::regclass
      USING ERRCODE = '22023', HINT = 'A unit is a column of a table, as a view shows it. Give the table a stored generated column.';
  ELSIF EXISTS (SELECT FROM unnest(p_columns) AS c WHERE c = p_unit OR dp_int.source_name(p_relid, c) = source) THEN
    RAISE EXCEPTION 'unit "%" is a target or a feature too', p_unit
      USING ERRCODE = '22023', HINT = 'What tells persons apart predicts nothing about others: leave it out of target and features.';
  END IF;
  RETURN source;
END $$;

-- Does a relation show rows of a table by one of the names that an account knows it by? A table that was
-- created again is recognised by these alone. p_source: a column of the table, in the form of
-- dp_int.source_name.
CREATE OR REPLACE FUNCTION dp_int.shows_source(p_account bigint, p_relid oid, p_source text) RETURNS boolean
LANGUAGE sql STABLE SET quote_all_identifiers = off AS $$
  SELECT EXISTS (
    SELECT FROM dp_int.base_relations(p_relid) b
      JOIN dp_int.account_relation k ON k.account = p_account AND k.relation = b.relation
      JOIN dp_int.account_relation s ON s.account = p_account AND (s.relation = k.relation OR s.relid = k.relid AND s.relid <> 0)
     WHERE s.relation = (SELECT format('%I.%I', n[1], n[2]) FROM parse_ident(p_source) AS n))
$$;

-- Raises where an account cannot protect persons as a registration defines them in addition to those that
-- it protects already. Unregistered data sets count if they were ever charged.
CREATE OR REPLACE FUNCTION dp_int.refuse_other_unit(p_account bigint, p_relid oid, p_unit name, p_source text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  o dp_int.dataset;
BEGIN
  FOR o IN SELECT * FROM dp_int.dataset d WHERE d.account = p_account AND (d.unregistered_at IS NULL OR dp_int.ever_charged(d.id)) ORDER BY d.id LOOP
    IF (o.unit IS NULL) <> (p_unit IS NULL) THEN
      RAISE EXCEPTION 'these people''s account protects %', CASE WHEN o.unit IS NULL THEN 'single rows' ELSE 'all rows of a person' END
        USING ERRCODE = '22023',
              HINT = CASE WHEN p_unit IS NULL THEN 'Register it with the column that tells persons apart as unit; where that is its key, with max_rows => 1.'
                          ELSE 'An account is of rows or of persons for ever once it was charged. Before that, dp_unregister its data sets and register all of them with a unit; where that is the key of a table, with max_rows => 1.' END
                     || format(CASE WHEN o.unregistered_at IS NULL THEN ' Data set "%s" has the account too.' ELSE ' Data set "%s" had the account, and was charged before it was unregistered.' END, o.name);
    ELSIF p_unit IS NOT NULL AND o.unit_source <> p_source
          AND (EXISTS (SELECT FROM dp_int.base_relations(o.relid) b JOIN dp_int.base_relations(p_relid) n ON n.relid = b.relid) OR dp_int.shows_source(p_account, p_relid, o.unit_source))
       OR p_unit IS NOT NULL AND dp_int.person_of(o.relid, o.unit) <> dp_int.person_of(p_relid, p_unit)
          AND EXISTS (SELECT FROM dp_int.population(o.relid, o.unit) b JOIN dp_int.population(p_relid, p_unit) n ON n.relid = b.relid) THEN
      RAISE EXCEPTION 'data set "%" shows the same people by another unit, %', o.name, o.unit_source
        USING ERRCODE = '22023', HINT = 'Two units on the same people are two guarantees, of which none follows from the other. Register with the same unit.';
    END IF;
  END LOOP;
END $$;

-- Tells a steward that a person may have several rows, because a key of several columns often contains a
-- person, and a column that is not unique often refers to one: but where it is a column of the data set, as a code
-- is, or the steward states that every person has one row.
CREATE OR REPLACE FUNCTION dp_int.tell_several_rows(p_relid oid, p_columns name[], p_total boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  key text;
  refers text;
  example name;  -- the column of the relation that shows the first of them; NULL where it shows none
BEGIN
  SELECT format('%s (%s)', b.relation, (SELECT string_agg(a.attname, ', ' ORDER BY k.n)
                                          FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
                                          JOIN pg_catalog.pg_attribute a ON a.attrelid = b.relid AND a.attnum = k.attnum)) INTO key
    FROM dp_int.base_relations(p_relid) b
    JOIN pg_catalog.pg_index i ON i.indrelid = b.relid AND i.indisprimary AND i.indnkeyatts > 1
   ORDER BY b.relid
   LIMIT 1;
  IF FOUND THEN
    RAISE WARNING 'the primary key of % has several columns: can a person have several rows?', key
      USING HINT = 'Single rows are protected. If a person can have several, dp_unregister it and name the column that tells persons apart: unit => ''patient_id''.';
  ELSIF NOT p_total THEN
    SELECT string_agg(format('%s refers to %s by %I', r.relation, r.target, r.name), ', ' ORDER BY r.n), min(r.shown) FILTER (WHERE r.n = 1) INTO refers, example
      FROM (SELECT b.relation, k.confrelid::regclass AS target, a.attname AS name, row_number() OVER (ORDER BY b.relation, a.attnum) AS n,
                   (SELECT min(o.attname) FROM pg_catalog.pg_attribute o, dp_int.source_column(p_relid, o.attname) AS s
                     WHERE o.attrelid = p_relid AND o.attnum > 0 AND NOT o.attisdropped AND s.relid = b.relid AND s.attnum = a.attnum) AS shown
              FROM dp_int.base_relations(p_relid) b
              JOIN pg_catalog.pg_constraint k ON k.conrelid = b.relid AND k.contype = 'f' AND k.conparentid = 0 AND dp_int.referring(k) IS NOT NULL AND k.confrelid <> k.conrelid
              JOIN pg_catalog.pg_attribute a ON a.attrelid = b.relid AND a.attnum = k.conkey[1]
             WHERE NOT dp_int.is_key(b.relid, a.attnum)
               AND NOT EXISTS (SELECT FROM unnest(p_columns) AS c, dp_int.source_column(p_relid, c) AS s WHERE s.relid = b.relid AND s.attnum = a.attnum)) AS r
     WHERE r.n <= 3;
    IF refers IS NOT NULL THEN
      RAISE NOTICE 'dpsidecar: %: can a person have several rows?', refers
        USING HINT = format('Single rows are protected. If a person can have several, dp_unregister it and name the column that tells persons apart%s. If what it refers to is no person, such as a shop or a region, nothing is to be done.',
                             coalesce(': unit => ' || quote_literal(example), ', which it must show'));
    END IF;
  END IF;
END $$;
