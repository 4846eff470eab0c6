-- Tables that grow. A block is a stretch of time: a column of the table determines the block of every
-- row, and each block has the whole budget to itself. A request reads a window, one or more consecutive
-- blocks, and is charged to each of them (internal/ledger/blocks.md). Days are UTC days everywhere.

-- The current day, by a public clock.
CREATE OR REPLACE FUNCTION dp_int.today() RETURNS date
LANGUAGE sql VOLATILE AS $$ SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date $$;

-- The number of whole months in an interval.
CREATE OR REPLACE FUNCTION dp_int.months(p_width interval) RETURNS int
LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(year FROM p_width) * 12 + extract(month FROM p_width))::int $$;

-- The number of the block that a day is in, from 0 at the origin.
CREATE OR REPLACE FUNCTION dp_int.block_of(p_origin date, p_width interval, p_day date) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT floor(CASE WHEN dp_int.months(p_width) = 0 THEN (p_day - p_origin) / extract(day FROM p_width)
                    ELSE (dp_int.months(make_interval(years => extract(year FROM p_day)::int - extract(year FROM p_origin)::int,
                                                      months => extract(month FROM p_day)::int - extract(month FROM p_origin)::int))
                          - (extract(day FROM p_day) < extract(day FROM p_origin))::int)::numeric / dp_int.months(p_width) END)::bigint
$$;

-- The first day of a block, which is the day after the last one of the block before.
CREATE OR REPLACE FUNCTION dp_int.block_start(p_origin date, p_width interval, p_block bigint) RETURNS date
LANGUAGE sql IMMUTABLE AS $$ SELECT (p_origin + p_width * p_block::float8)::date $$;

-- A day as requests and literals write it, whatever the DateStyle.
CREATE OR REPLACE FUNCTION dp_int.day_text(p_day date) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT to_char(p_day, 'YYYY-MM-DD') $$;

-- Registration

-- The type beneath a column, as format_type writes it.
CREATE OR REPLACE FUNCTION dp_int.column_type(p_relid oid, p_column name) RETURNS text
LANGUAGE sql STABLE SET quote_all_identifiers = off AS $$
  SELECT format_type(dp_int.domain_base(a.atttypid), NULL)
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attname = p_column AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- Checks the column that determines the block of a row, and returns the table column that it shows; NULL
-- where there are no blocks.
CREATE OR REPLACE FUNCTION dp_int.check_block_column(p_relid oid, p_block name) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kind text;
  source text;
BEGIN
  IF p_block IS NULL THEN
    RETURN NULL;
  END IF;
  kind := dp_int.column_type(p_relid, p_block);
  source := dp_int.source_name(p_relid, p_block);
  IF kind IS NULL THEN
    RAISE EXCEPTION 'column "%" does not exist in %', p_block, p_relid::regclass
      USING ERRCODE = '42703', HINT = 'The block is the column whose day says in which block a row is. ' || dp_int.its_columns(p_relid);
  ELSIF kind NOT IN ('date', 'timestamp without time zone', 'timestamp with time zone') THEN
    RAISE EXCEPTION 'column "%" has type %, which tells no day', p_block, kind
      USING ERRCODE = '22023', HINT = 'A block is a date, timestamp or timestamptz column. Of others let the table have a stored generated column.';
  ELSIF source IS NULL THEN
    RAISE EXCEPTION 'block "%" of % is computed in a view', p_block, p_relid::regclass
      USING ERRCODE = '22023', HINT = 'A block is a column of a table, as a view shows it. Give the table a stored generated column.';
  END IF;
  RETURN source;
END $$;

-- Checks the arguments of a registration that define blocks. Each block lasts whole days, or whole months
-- from a day that all months have, which makes the borders exact.
CREATE OR REPLACE FUNCTION dp_int.check_blocks(p_relid oid, p_block name, p_width interval, p_origin date, p_rows bigint, p_is_fixed text, p_unit name, p_persons bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  days CONSTANT numeric := extract(day FROM p_width);
  months CONSTANT int := dp_int.months(p_width);
BEGIN
  IF p_block IS NULL THEN
    IF num_nonnulls(p_width, p_origin, p_rows, p_is_fixed) > 0 THEN
      RAISE EXCEPTION '% without a block', CASE WHEN p_width IS NOT NULL THEN 'block_width' WHEN p_origin IS NOT NULL THEN 'block_origin' WHEN p_rows IS NOT NULL THEN 'block_rows' ELSE 'block_is_fixed' END
        USING ERRCODE = '22023', HINT = 'Name the column whose day says in which block a row is, for instance block => ''admitted_on''.';
    END IF;
    RETURN NULL;
  ELSIF p_width IS NULL OR p_origin IS NULL THEN
    RAISE EXCEPTION 'a block needs a block_width and a block_origin'
      USING ERRCODE = '22023', HINT = 'For instance block_width => ''1 day'', block_origin => ''2026-01-01'', the first day, in UTC, whose rows are ever read.';
  ELSIF NOT (p_width > '0' AND p_width = make_interval(days => days::int, months => months) AND (days = 0 OR months = 0) AND days >= 0 AND months >= 0) THEN
    RAISE EXCEPTION 'block_width must be whole days or whole months, not %', p_width
      USING ERRCODE = '22023', HINT = 'For instance ''1 day'', ''7 days'' or ''1 month''.';
  ELSIF p_width > interval '100 years' THEN
    RAISE EXCEPTION 'block_width can be 100 years at most, not %', p_width USING ERRCODE = '22023', HINT = 'Where rows of all time have one budget, register without a block.';
  ELSIF NOT isfinite(p_origin) OR extract(year FROM p_origin) NOT BETWEEN 1 AND 9999 OR months > 0 AND extract(day FROM p_origin) > 28 THEN
    RAISE EXCEPTION 'block_origin cannot be %', p_origin
      USING ERRCODE = '22023', HINT = 'It is the first day of the first block, of the years 1 to 9999; of months it is one of the first 28 days.';
  ELSIF p_rows < 1 OR p_rows IS NOT NULL AND p_unit IS NOT NULL THEN
    RAISE EXCEPTION '%', CASE WHEN p_rows < 1 THEN format('block_rows must be at least 1, not %s', p_rows) ELSE 'block_rows goes with single rows, and here a unit tells persons apart' END
      USING ERRCODE = '22023', HINT = 'It is how many rows a block is taken to have, public, in place of how many there are. With a unit give persons: how many persons a block is taken to have.';
  ELSIF greatest(p_rows, p_persons) > 2147483647 THEN
    RAISE EXCEPTION '% must be at most 2147483647, not %', CASE WHEN p_unit IS NULL THEN 'block_rows' ELSE 'persons' END, greatest(p_rows, p_persons)
      USING ERRCODE = '22023', HINT = 'It is how many a block is taken to have, and a window may have 10000 blocks.';
  ELSIF p_unit IS NOT NULL AND p_persons IS NULL THEN
    RAISE EXCEPTION 'a unit and blocks need persons, how many persons a block is taken to have'
      USING ERRCODE = '22023', HINT = 'How many persons a window has depends on who is in several of its blocks, and is not public. Give a number from public knowledge: where there are fewer, empty records stand in for them; where there are more, some are left out at random.';
  ELSIF p_is_fixed !~ '[^[:space:]]' THEN
    RAISE EXCEPTION 'the reason in block_is_fixed is blank' USING ERRCODE = '22023', HINT = 'State why rows stay in their blocks, or leave it out: then the database is asked.';
  END IF;
  RETURN dp_int.check_block_column(p_relid, p_block);
END $$;

-- The reason, known to the database, why the values of a block column cannot change; NULL where the
-- steward vouches for that, or without blocks.
CREATE OR REPLACE FUNCTION dp_int.why_block_stays(p_relid oid, p_block name, p_is_fixed text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  reason text;
BEGIN
  IF p_block IS NULL OR p_is_fixed IS NOT NULL THEN
    RETURN NULL;
  END IF;
  reason := dp_int.block_fixed_by(p_relid, p_block);
  IF reason IS NULL THEN
    RAISE EXCEPTION 'nothing keeps rows of % in their blocks: column "%" can be updated', p_relid::regclass, p_block
      USING ERRCODE = '22023',
            HINT = CASE WHEN dp_int.mixes_rows(p_relid) THEN 'Rows of the view are joined, combined or compared. State with block_is_fixed why a row stays in its block, and why rows of one block do not depend on rows of another: the ledger records the statement.'
              ELSE format('A row that moves to another block has two budgets. %s why its values do not change with block_is_fixed => ''it is the day of the insert, and nobody updates it'': the ledger records the statement.',
                          coalesce((SELECT format('As the owner of the table run: SELECT dp_freeze(%L, %L); or state', s.relid::regclass, a.attname)
                                      FROM dp_int.source_column(p_relid, p_block) s
                                      JOIN pg_catalog.pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.attnum
                                     WHERE NOT dp_int.of_citus(s.relid)), 'State')) END;
  END IF;
  RETURN reason;
END $$;

-- Raises where the block column of a data set is not the one by which its blocks were formed at
-- registration.
CREATE OR REPLACE FUNCTION dp_int.recheck_block(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF dp_int.check_block_column(d.relid, d.block) <> d.block_source THEN
    RAISE EXCEPTION 'its blocks were by %', d.block_source;
  ELSIF dp_int.source_number(d.relid, d.block) <> d.block_number OR dp_int.column_type(d.relid, d.block) <> d.block_type THEN
    RAISE EXCEPTION 'its blocks were by another column % than the one of that name now', d.block_source;
  ELSIF d.block_fixed_by IS NOT NULL THEN
    PERFORM dp_int.refuse_unfixed(d.relid, d.block, d.block_fixed_by);
  END IF;
  PERFORM dp_int.refuse_mixed_rows(d.account, d.relid);
END $$;

-- Was anything ever charged for a data set, whether refunded or not?
CREATE OR REPLACE FUNCTION dp_int.ever_charged(p_dataset bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM dp_int.job j JOIN dp_int.ledger l ON l.job = j.id WHERE j.dataset = p_dataset AND l.kind = 'charge')
$$;

-- Raises where an account has other blocks than a registration, or only one of the two has blocks.
-- Unregistered data sets count if they were ever charged.
CREATE OR REPLACE FUNCTION dp_int.refuse_other_blocks(p_account bigint, p_source text, p_width interval, p_origin date) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  a dp_int.account;
  o dp_int.dataset;
BEGIN
  SELECT * INTO a FROM dp_int.account WHERE id = p_account;
  SELECT * INTO o FROM dp_int.dataset d
   WHERE d.account = p_account AND (d.unregistered_at IS NULL OR dp_int.ever_charged(d.id))
     AND (d.block_source, dp_int.months(a.block_width), extract(day FROM a.block_width), a.block_origin)
         IS DISTINCT FROM (p_source, dp_int.months(p_width), extract(day FROM p_width), p_origin)  -- the interval 1 month equals 30 days
   ORDER BY d.id LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'these people''s account has %', CASE WHEN o.block_source IS NULL THEN 'one budget for all time'
        ELSE format('a budget for every block of %s from %s on, by %s', a.block_width, dp_int.day_text(a.block_origin), o.block_source) END
      USING ERRCODE = '22023',
            HINT = CASE WHEN p_source IS NULL THEN format('What reads rows of all blocks would be charged to none. Register it with the same block, block_width => %L and block_origin => %L.', a.block_width, dp_int.day_text(a.block_origin))
                        WHEN o.block_source IS NULL THEN 'An account has blocks, or none, for ever once it was charged: what was charged without blocks read rows of any. Before that, dp_unregister its data sets and register all of them with the same block.'
                        ELSE 'All data sets of an account have the same blocks. Register it with these.' END
                   || format(CASE WHEN o.unregistered_at IS NULL THEN ' Data set "%s" has the account too.' ELSE ' Data set "%s" had the account, and was charged before it was unregistered.' END, o.name);
  END IF;
END $$;

-- Can a row of a view, or whether it is there, depend on another row than its source row, as with joins, subqueries,
-- windows, aggregates, DISTINCT, LIMIT, the place of a row in its table, and policies of row-level security that read
-- tables? Not if the view is over one relation and its parse tree, and that of each policy that applies below it, is
-- made of nodes that compute from the columns of one row, with functions of the system's own that read nothing else.
CREATE OR REPLACE FUNCTION dp_int.mixes_rows(p_relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  of_one_row CONSTANT text[] := '{VAR,CONST,FUNCEXPR,NAMEDARGEXPR,OPEXPR,DISTINCTEXPR,NULLIFEXPR,SCALARARRAYOPEXPR,BOOLEXPR,RELABELTYPE,COERCEVIAIO,ARRAYCOERCEEXPR,CONVERTROWTYPEEXPR,COLLATE,COLLATEEXPR,CASE,CASEEXPR,WHEN,CASEWHEN,'
    'CASETESTEXPR,ARRAY,ARRAYEXPR,ROW,ROWEXPR,ROWCOMPARE,ROWCOMPAREEXPR,COALESCE,COALESCEEXPR,MINMAX,MINMAXEXPR,NULLTEST,BOOLEANTEST,COERCETODOMAIN,COERCETODOMAINVALUE,SUBSCRIPTINGREF,FIELDSELECT,SQLVALUEFUNCTION,XMLEXPR,'
    'JSONCONSTRUCTOREXPR,JSONISPREDICATE,JSONVALUEEXPR,JSONFORMAT,JSONRETURNING,JSONEXPR,JSONBEHAVIOR}';
  of_a_view CONSTANT text[] := of_one_row || '{QUERY,RTE,RANGETBLENTRY,RTEPERMISSIONINFO,ALIAS,TARGETENTRY,FROMEXPR,RANGETBLREF,SORTGROUPCLAUSE,ROWMARKCLAUSE}';
BEGIN
  RETURN EXISTS (
    WITH trees(tree, allowed) AS MATERIALIZED (
      SELECT t.tree, CASE t.kind WHEN 'view' THEN of_a_view ELSE of_one_row END
        FROM dp_int.relation_tree(p_relid) AS r(oid), LATERAL dp_int.trees_of('pg_catalog.pg_class'::regclass, r.oid) AS t
       WHERE t.kind = 'view' OR t.kind = 'policy' AND dp_int.policies_apply(r.oid, p_relid, ARRAY(SELECT dp_int.relation_tree(p_relid)))
      UNION ALL
      SELECT t.tree, of_one_row FROM dp_int.involved(p_relid) v, LATERAL dp_int.trees_of(v.class, v.id) AS t WHERE t.kind = 'constraint')
    SELECT FROM trees
     WHERE (SELECT bool_or(m[1] <> ALL (allowed)) OR count(*) FILTER (WHERE m[1] = 'RANGETBLREF') <> count(*) FILTER (WHERE m[1] = 'QUERY')
              FROM regexp_matches(tree, E'(?<!\\\\)\\{([A-Z_]+)', 'g') AS m)
        OR tree ~ E'(?<!\\\\):(distinctClause|groupClause|groupingSets|windowClause|setOperations|limitCount|limitOffset|tablesample) (?!<>)'
        OR tree ~ E'(?<!\\\\):varattno -'  -- a system column, such as the place of a row
        OR EXISTS (SELECT FROM dp_int.hidden_casts(tree))
        OR EXISTS (SELECT FROM regexp_matches(tree, E'(?<!\\\\):opno ([0-9]+)', 'g') AS m WHERE m[1]::bigint >= 16384)
        OR EXISTS (SELECT FROM regexp_matches(tree, E'(?<!\\\\):(?:func|opfunc)id ([0-9]+)', 'g') AS m
                     JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid
                    WHERE p.oid >= 16384 OR p.proname ~ '_to_xml|^pg_' OR dp_int.takes_a_type(p.proargtypes)
                       OR p.provolatile = 'v' AND p.proname NOT IN ('clock_timestamp', 'timeofday', 'random', 'random_normal', 'gen_random_uuid')));
END $$;

-- Raises where a view of an account's rows can assign them other blocks than the account's other data
-- sets do. A row must have one block, or rows charged to one block are read under another. Unregistered
-- data sets count if they were charged.
CREATE OR REPLACE FUNCTION dp_int.refuse_mixed_rows(p_account bigint, p_relid oid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  o dp_int.dataset;
BEGIN
  FOR o IN SELECT * FROM dp_int.dataset d WHERE d.account = p_account AND d.relid <> p_relid ORDER BY d.id LOOP
    IF (dp_int.mixes_rows(p_relid) OR dp_int.mixes_rows(o.relid))
       AND (o.unregistered_at IS NULL OR EXISTS (SELECT FROM dp_int.job j WHERE j.dataset = o.id AND j.charge IS NOT NULL)) THEN
      RAISE EXCEPTION 'a row could have another block here than in data set "%": a view, or a policy of row-level security, joins, combines or compares rows', o.name
        USING ERRCODE = '22023', HINT = 'Blocks of such a view are its own, and no other relation can have its account. Where a view is of one table, row by row, it can.';
    END IF;
  END LOOP;
END $$;

-- The same for views that are gone, or were created again, by the kind of view that the ledger records at
-- registration.
CREATE OR REPLACE FUNCTION dp_int.refuse_formerly_mixed(p_account bigint, p_relid oid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  former text;
BEGIN
  SELECT l.dataset INTO former FROM dp_int.ledger l
   WHERE l.account = p_account AND l.kind = 'budget' AND l.event #> '{budget,mixes_rows}' = 'true' AND l.event #>> '{budget,relation}' <> p_relid::regclass::text
     AND EXISTS (SELECT FROM dp_int.ledger c WHERE c.account = p_account AND c.kind = 'charge' AND c.dataset = l.dataset)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a row could have another block here than it had in data set "%": a view joined or combined rows', former
      USING ERRCODE = '22023', HINT = 'The account was charged by the blocks of that view, and no other relation can have it.';
  END IF;
END $$;

-- Raises where a block column or unit is not the column by which the account was charged, but another one
-- that has its name now. A table that was created again is recognised by its names alone.
CREATE OR REPLACE FUNCTION dp_int.refuse_renamed(p_account bigint, p_relid oid, p_column name, p_is_block boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  source CONSTANT text := dp_int.source_name(p_relid, p_column);
  s record;
  o record;
BEGIN
  SELECT * INTO s FROM dp_int.source_column(p_relid, p_column);
  SELECT d.name, CASE WHEN p_is_block THEN d.block_number ELSE d.unit_number END AS number, CASE WHEN p_is_block THEN d.block_type END AS type INTO o
    FROM dp_int.dataset d
   WHERE d.account = p_account AND dp_int.charged(p_account) AND CASE WHEN p_is_block THEN d.block_source ELSE d.unit_source END = source
   ORDER BY d.id DESC LIMIT 1;
  IF o.type <> dp_int.column_type(p_relid, p_column)
     OR o.number > 0 AND o.number <> s.attnum AND EXISTS (SELECT FROM dp_int.account_relation r WHERE r.account = p_account AND r.current AND r.relid = s.relid) THEN
    RAISE EXCEPTION '% was another column, or had another type, when data set "%" was registered', source, o.name
      USING ERRCODE = '22023', HINT = format('By the new one %s that was charged would be another. Let its owner give the column of then its name and type back.', CASE WHEN p_is_block THEN 'the block of a row' ELSE 'a person' END);
  END IF;
END $$;

-- Tells the steward what the budget of a data set with blocks protects.
CREATE OR REPLACE FUNCTION dp_int.tell_blocks(p_dataset text, p_unit name, p_one_block boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RAISE NOTICE 'dpsidecar: the budget of data set "%" is that of every block, and protects %', p_dataset,
      CASE WHEN p_unit IS NULL THEN 'every row, for all time' WHEN p_one_block THEN 'all rows of a person, for all time, by your statement that they are in one block'
           ELSE 'all rows that a person has in one block, for all time' END
    USING HINT = CASE WHEN p_unit IS NULL THEN 'Whoever has rows in several blocks is protected row by row. Name the column that tells persons apart as unit, to have the rows of a block protected together.'
                      WHEN p_one_block THEN 'Whoever has rows in several blocks all the same has that budget once for each.'
                      ELSE 'Whoever has rows in several blocks has that budget once for each. Where a person''s block is the same in all rows, as the day of enrolment is, state so with options {"one_block_a_person": "why"}: then all rows are protected together.' END;
END $$;

-- Windows

-- Options with the window that was given as a range.
CREATE OR REPLACE FUNCTION dp_int.with_over(p_options jsonb, p_over daterange) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given CONSTANT jsonb := dp_int.window_json(p_over);
BEGIN
  IF given IS NULL OR jsonb_typeof(p_options) <> 'object' THEN
    RETURN p_options;  -- dp_int.check_options refuses a value that is not an object
  ELSIF p_options ? 'over' AND p_options -> 'over' <> given THEN
    RAISE EXCEPTION 'over is given twice, as % and among the options as %', p_over, dp_int.excerpt((p_options -> 'over')::text)
      USING ERRCODE = '22023', HINT = 'Give it once. No privacy budget was spent.';
  END IF;
  RETURN coalesce(p_options, '{}') || jsonb_build_object('over', given);
END $$;

-- A window as requests store it: its first day, and the day after its last.
CREATE OR REPLACE FUNCTION dp_int.window_json(p_over daterange) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF isempty(p_over) OR lower_inf(p_over) OR upper_inf(p_over) OR NOT isfinite(lower(p_over)) OR NOT isfinite(upper(p_over))
     OR lower(p_over) < '0001-01-01' OR upper(p_over) > '9999-12-31' THEN
    RAISE EXCEPTION 'over must be a window with two ends, of the years 1 to 9999, not %', p_over
      USING ERRCODE = '22023', HINT = 'For instance daterange(''2026-10-01'', ''2026-11-01''), the last day not among them. No privacy budget was spent.';
  END IF;
  RETURN CASE WHEN p_over IS NOT NULL THEN jsonb_build_array(dp_int.day_text(lower(p_over)), dp_int.day_text(upper(p_over))) END;
END $$;

-- The two days of a window as options give it.
CREATE OR REPLACE FUNCTION dp_int.window_of(p_over jsonb) RETURNS daterange
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(p_over) = 'array' AND jsonb_array_length(p_over) = 2 AND concat_ws(' ', p_over ->> 0, p_over ->> 1) ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN
    RETURN daterange(make_date(left(p_over ->> 0, 4)::int, substr(p_over ->> 0, 6, 2)::int, right(p_over ->> 0, 2)::int),
                     make_date(left(p_over ->> 1, 4)::int, substr(p_over ->> 1, 6, 2)::int, right(p_over ->> 1, 2)::int));
  END IF;
  RAISE datetime_field_overflow;
EXCEPTION WHEN datetime_field_overflow OR data_exception THEN
  RAISE EXCEPTION 'option "over" must be a list of two days, the second after the first, not %', dp_int.excerpt(p_over::text)
    USING ERRCODE = '22023', HINT = 'For instance ["2026-10-01", "2026-11-01"], the last day not among them. No privacy budget was spent.';
END $$;

-- The window that options name, checked and made canonical; NULL where there are no blocks. It may extend
-- to the end of the running block, whose rows are still arriving.
CREATE OR REPLACE FUNCTION dp_int.canonical_over(d dp_int.dataset, p_over jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  a dp_int.account;
  asked daterange;
  running bigint;  -- the block of today
  first bigint;
  last bigint;
  ending CONSTANT text := ' No privacy budget was spent.';
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
  IF d.block IS NULL THEN
    IF p_over IS NOT NULL THEN
      RAISE EXCEPTION 'data set "%" has no blocks, and no windows over them', d.name
        USING ERRCODE = '22023', HINT = 'Leave over out, or let a steward register the table with a block, before anything is charged to its account.' || ending;
    END IF;
    RETURN NULL;
  ELSIF p_over IS NULL THEN
    RAISE EXCEPTION 'data set "%" has a budget for every block: a request needs a window', d.name
      USING ERRCODE = '22023', HINT = format('For instance over => dp_last(%L, 1), the last complete block of %s.', d.name, a.block_width) || ending;
  END IF;
  asked := dp_int.window_of(p_over);
  IF isempty(asked) THEN
    RAISE EXCEPTION 'the window % has no day', p_over USING ERRCODE = '22023', HINT = 'Its second day is the one after its last.' || ending;
  END IF;
  running := dp_int.block_of(a.block_origin, a.block_width, dp_int.today());
  first := dp_int.block_of(a.block_origin, a.block_width, lower(asked));
  last := dp_int.block_of(a.block_origin, a.block_width, upper(asked) - 1);
  IF first < 0 THEN
    RAISE EXCEPTION 'the blocks of data set "%" begin on %, and this window before', d.name, dp_int.day_text(a.block_origin)
      USING ERRCODE = '22023', HINT = 'Earlier rows are never read.' || ending;
  ELSIF last > running THEN
    RAISE EXCEPTION 'the window ends on %, after the block that runs now', dp_int.day_text(upper(asked))
      USING ERRCODE = '22023', HINT = format('A window may end on %s at the latest; dp_last(%L, 1) is the last complete block. Days are those of UTC.',
        dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, running + 1)), d.name) || ending;
  ELSIF asked <> daterange(dp_int.block_start(a.block_origin, a.block_width, first), dp_int.block_start(a.block_origin, a.block_width, last + 1)) THEN
    RAISE EXCEPTION 'the window from % to % does not begin and end with a block', dp_int.day_text(lower(asked)), dp_int.day_text(upper(asked))
      USING ERRCODE = '22023', HINT = format('Blocks are of %s from %s on. The nearest window around it is daterange(''%s'', ''%s'').', a.block_width, dp_int.day_text(a.block_origin),
        dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, first)), dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, last + 1))) || ending;
  ELSIF last - first >= 10000 THEN
    RAISE EXCEPTION 'the window has % blocks, and may have 10000', last - first + 1 USING ERRCODE = '22023', HINT = 'Ask about a shorter one.' || ending;
  END IF;
  RETURN dp_int.window_json(asked);
END $$;

-- The entry of a request for its window; empty without one, so that the hash of a request without a
-- window does not change.
CREATE OR REPLACE FUNCTION dp_int.over_of_request(p_over jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_over IS NULL THEN '{}' ELSE jsonb_build_object('over', p_over) END $$;

-- The blocks that a request reads. NULL where its account has no blocks, and where it got blocks after
-- the request was made: such a request is not charged.
CREATE OR REPLACE FUNCTION dp_int.blocks_read(p_dataset bigint, p_request jsonb) RETURNS int8range
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN a.block_width IS NOT NULL THEN
           int8range(dp_int.block_of(a.block_origin, a.block_width, lower(w.days)), dp_int.block_of(a.block_origin, a.block_width, upper(w.days))) END
    FROM dp_int.dataset d
    JOIN dp_int.account a ON a.id = d.account,
         LATERAL (SELECT CASE WHEN p_request ? 'over' THEN dp_int.window_of(p_request -> 'over') END) AS w(days)
   WHERE d.id = p_dataset
$$;

CREATE OR REPLACE FUNCTION public.dp_last(dataset text, blocks int) RETURNS daterange
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.granted_dataset(dp.caller(), dp_last.dataset, false);
  a dp_int.account;
  running bigint;
  ending CONSTANT text := ' No privacy budget was spent.';  -- it stands among the arguments of requests
BEGIN
  IF d.block IS NULL THEN
    RAISE EXCEPTION 'data set "%" has no blocks', d.name USING ERRCODE = '22023', HINT = 'Requests about it are about all of its rows: leave over out.' || ending;
  ELSIF (dp_last.blocks BETWEEN 1 AND 10000) IS NOT TRUE THEN
    RAISE EXCEPTION 'blocks must be from 1 to 10000, not %', coalesce(dp_last.blocks::text, 'NULL') USING ERRCODE = '22023', HINT = 'For instance 28.' || ending;
  END IF;
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
  running := dp_int.block_of(a.block_origin, a.block_width, dp_int.today());
  IF running < 1 THEN
    RAISE EXCEPTION 'no block of data set "%" is complete yet', d.name
      USING ERRCODE = '55000', HINT = format('The first one is over on %s, in UTC.', dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, 1))) || ending;
  END IF;
  RETURN daterange(dp_int.block_start(a.block_origin, a.block_width, greatest(running - dp_last.blocks, 0)), dp_int.block_start(a.block_origin, a.block_width, running));
END $$;
COMMENT ON FUNCTION public.dp_last IS
  'The last blocks of a data set that are complete by the clock, as a window for over: fewer where there are not as many yet.';

-- The ledger

-- The account with its totals replaced by those of one block.
CREATE OR REPLACE FUNCTION dp_int.at_block(a dp_int.account, b dp_int.account_block) RETURNS dp_int.account
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF a.block_width IS NOT NULL THEN
    a.spent := b.spent;
    a.spent_epsilon := b.spent_epsilon;
    a.rest := b.rest;
    a.rest_rho := b.rest_rho;
    a.spent_delta := b.spent_delta;
    a.proven_epsilon := dp_int.least_epsilon(a, dp_int.tally_of(a), a.spent_delta);
  END IF;
  RETURN a;
END $$;

-- The sums that blocks have, among the given ones or all, each with the first block that has them; without
-- blocks, the account's own totals as those of one block. A filter that admits some sums admits smaller
-- ones: so wherever any are refused, the first that are, by this order, are exceeded by no others.
CREATE OR REPLACE FUNCTION dp_int.sums_of(a dp_int.account, p_blocks int8range DEFAULT NULL) RETURNS SETOF dp_int.account_block
LANGUAGE plpgsql STABLE AS $$
DECLARE
  lo CONSTANT bigint := coalesce(lower(p_blocks), 0);
  hi CONSTANT bigint := coalesce(upper(p_blocks) - 1, 9223372036854775807);
BEGIN
  IF a.block_width IS NOT NULL THEN
    RETURN QUERY
    SELECT DISTINCT ON (t.spent, t.spent_epsilon, t.rest_rho, t.spent_delta, least(t.rest, 2)) t.*
      FROM dp_int.account_block t
     WHERE t.account = a.id AND t.block BETWEEN lo AND hi
     ORDER BY t.spent DESC, t.spent_epsilon DESC, t.rest_rho DESC, t.spent_delta DESC, least(t.rest, 2) DESC, t.block;
    IF NOT FOUND THEN
      RETURN NEXT ROW(a.id, lo, 0, 0, 0, 0, 0)::dp_int.account_block;
    END IF;
  ELSE
    RETURN NEXT ROW(a.id, NULL, a.spent, a.spent_epsilon, a.rest, a.rest_rho, a.spent_delta)::dp_int.account_block;
  END IF;
END $$;

-- The sums, of all that blocks have, for which the filters of the account or of the data set do not admit the costs x, or the
-- reserve its deltas, fullest first.
CREATE OR REPLACE FUNCTION dp_int.refusing(a dp_int.account, d dp_int.dataset, p_blocks int8range, x dp_int.tally, p_delta numeric) RETURNS SETOF dp_int.account_block
LANGUAGE plpgsql STABLE AS $$
DECLARE
  order_a CONSTANT numeric := CASE WHEN a.block_width IS NOT NULL THEN dp_int.order_of_limit(a.accounting, a.epsilon, a.delta) END;
  order_d CONSTANT numeric := CASE WHEN d.epsilon = a.epsilon THEN order_a WHEN a.block_width IS NOT NULL THEN dp_int.order_of_limit(a.accounting, d.epsilon, a.delta) END;
  reserve CONSTANT numeric := dp_int.reserve(a.delta);
BEGIN
  RETURN QUERY
  SELECT b.account, b.block, b.spent, b.spent_epsilon, b.rest, b.rest_rho, b.spent_delta
    FROM dp_int.sums_of(a, p_blocks) WITH ORDINALITY AS b(account, block, spent, spent_epsilon, rest, rest_rho, spent_delta, place),
         LATERAL (SELECT ROW(b.spent + x.spent, b.spent_epsilon + x.epsilon, b.rest + x.rest, b.rest_rho + x.rest_rho)::dp_int.tally) AS v(t)
   WHERE (dp_int.admits_at(a.accounting, a.epsilon, a.delta, a.cap, v.t, order_a)
          AND dp_int.admits_at(a.accounting, d.epsilon, a.delta, d.cap, v.t, order_d)
          AND b.spent_delta + p_delta <= reserve) IS NOT TRUE
   ORDER BY b.place;
END $$;

-- Of these sums those that are not exceeded: for every other one of these has at least its value in every sum.
CREATE OR REPLACE FUNCTION dp_int.not_exceeded(p_sums dp_int.account_block[]) RETURNS SETOF dp_int.account_block
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  front dp_int.account_block[] := '{}';
  t dp_int.account_block;
BEGIN
  FOR t IN SELECT * FROM unnest(p_sums) AS s ORDER BY s.spent DESC, s.spent_epsilon DESC, s.rest_rho DESC, s.spent_delta DESC, least(s.rest, 2) DESC, s.block LOOP
    IF NOT EXISTS (SELECT FROM unnest(front) AS f WHERE t.spent <= f.spent AND t.spent_epsilon <= f.spent_epsilon AND t.rest_rho <= f.rest_rho
                                                    AND t.spent_delta <= f.spent_delta AND (t.rest <= f.rest OR f.rest > 1)) THEN
      front := front || t;
      RETURN NEXT t;
    END IF;
  END LOOP;
END $$;

-- Of these sums, which sums_of orders, enough to find the largest epsilon that any of those not exceeded proves once x and p_delta
-- are added (internal/ledger/blocks.md). One of the sums proves an epsilon; what the filters of a little less admit proves less, and
-- is left out with all that it exceeds. The next one is that which is furthest from being admitted.
CREATE OR REPLACE FUNCTION dp_int.near_the_fullest(a dp_int.account, p_sums dp_int.account_block[], x dp_int.tally, p_delta numeric) RETURNS dp_int.account_block[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  near dp_int.account_block[] := p_sums;
  most CONSTANT numeric := (SELECT max(t.spent_epsilon) + x.epsilon FROM unnest(p_sums) AS t);
  s dp_int.account_block;
  best numeric := -1;
  proven numeric;
  low numeric;
  cap numeric;
  rho numeric;
  o numeric;
  mixes boolean;
BEGIN
  IF (SELECT max(t.spent_delta) + greatest(p_delta, 0) > dp_int.reserve(a.delta) FROM unnest(p_sums) AS t) THEN
    RETURN p_sums;  -- these have conversions at several deltas
  END IF;
  WHILE cardinality(near) > 4 LOOP
    s := near[1];
    proven := dp_int.least_epsilon(a, ROW(s.spent + x.spent, s.spent_epsilon + x.epsilon, s.rest + x.rest, s.rest_rho + x.rest_rho)::dp_int.tally, s.spent_delta + p_delta);
    EXIT WHEN proven <= best;
    IF proven = 0 THEN  -- of the first of all, whose spent is the largest: filter 2 may prove nothing of any
      RETURN CASE WHEN dp_int.proven(a.accounting, a.renyi_order, s.spent + x.spent, a.delta, s.spent_delta + p_delta) = 0 THEN ARRAY[s] ELSE near END;
    END IF;
    best := proven;
    low := best - 1e-9 * (best + most) - 1e-20;
    cap := dp_int.cap(a.accounting, a.renyi_order, low, a.delta);
    o := coalesce(dp_int.order_of_limit(a.accounting, low, a.delta), 1);
    rho := CASE WHEN a.accounting = 'zcdp' AND EXISTS (SELECT FROM unnest(near) AS t WHERE t.rest + x.rest = 1 AND t.spent_epsilon + x.epsilon = 0)
                THEN dp_int.noise_rho(low, dp_int.conversion_delta(a.delta), dp_int.zcdp_rho(low, dp_int.conversion_delta(a.delta))) END;
    mixes := a.accounting = 'zcdp' AND o * cap <= low;  -- else filter 3 admits pure epsilons that filter 1 does not, which least_epsilon does not use
    near := ARRAY(
      SELECT t
        FROM unnest(near) AS t,
             LATERAL (SELECT least(o * (t.spent + x.spent - cap),
                                   CASE WHEN a.accounting <> 'pure' AND t.rest + x.rest = 0 THEN t.spent_epsilon + x.epsilon - low END,
                                   CASE WHEN a.accounting = 'zcdp' AND t.rest + x.rest = 1 AND t.spent_epsilon + x.epsilon = 0 THEN o * (t.rest_rho + x.rest_rho - rho) END,
                                   CASE WHEN mixes THEN t.spent_epsilon + x.epsilon + o * (t.rest_rho + x.rest_rho - cap) END)) AS g(excess)
       WHERE g.excess > 0
       ORDER BY g.excess DESC);
  END LOOP;
  RETURN CASE WHEN near = '{}' THEN ARRAY[s] ELSE near END;  -- not empty but by rounding
END $$;

-- The account with the totals of the block, among the given ones or all, that proves the largest epsilon once x and p_delta are
-- added to each.
CREATE OR REPLACE FUNCTION dp_int.fullest_block(a dp_int.account, p_blocks int8range, x dp_int.tally, p_delta numeric) RETURNS dp_int.account
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT dp_int.at_block(a, b)
      FROM dp_int.not_exceeded(dp_int.near_the_fullest(a, ARRAY(SELECT s FROM dp_int.sums_of(a, p_blocks) AS s), x, p_delta)) AS b
     ORDER BY dp_int.least_epsilon(a, ROW(b.spent + x.spent, b.spent_epsilon + x.epsilon, b.rest + x.rest, b.rest_rho + x.rest_rho)::dp_int.tally, b.spent_delta + p_delta) DESC
     LIMIT 1);
END $$;

-- The largest proven epsilon among these blocks, or among all where none are given.
CREATE OR REPLACE FUNCTION dp_int.fullest_epsilon(a dp_int.account, p_blocks int8range DEFAULT NULL) RETURNS numeric
LANGUAGE sql STABLE AS $$ SELECT (dp_int.fullest_block(a, p_blocks, ROW(0, 0, 0, 0)::dp_int.tally, 0)).proven_epsilon $$;

-- Adds a charge or a refund to every block of its window, and updates the proven epsilon of the account,
-- the largest over all blocks. The caller holds the lock on the account's row.
CREATE OR REPLACE FUNCTION dp_int.add_to_blocks(a dp_int.account, e dp_int.ledger) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  t CONSTANT dp_int.tally := dp_int.add_entry(ROW(0, 0, 0, 0)::dp_int.tally, a, e);
  lo CONSTANT bigint := lower(e.blocks);
  hi CONSTANT bigint := upper(e.blocks) - 1;
BEGIN
  INSERT INTO dp_int.account_block (account, block)
  SELECT a.id, g FROM generate_series(lo, hi) AS g
   WHERE NOT EXISTS (SELECT FROM dp_int.account_block o WHERE o.account = a.id AND o.block = g);
  UPDATE dp_int.account_block b
     SET spent = b.spent + t.spent, spent_epsilon = b.spent_epsilon + t.epsilon, rest = b.rest + t.rest, rest_rho = b.rest_rho + t.rest_rho,
         spent_delta = b.spent_delta + e.delta
   WHERE b.account = a.id AND b.block BETWEEN lo AND hi;
  UPDATE dp_int.account n
     SET proven_epsilon = CASE e.kind WHEN 'charge' THEN greatest(a.proven_epsilon, dp_int.fullest_epsilon(a, e.blocks)) ELSE dp_int.fullest_epsilon(a) END
   WHERE n.id = a.id;
END $$;

-- About the largest eps with which the request of e would be admitted in all of its blocks; NULL where
-- that is not known. own: the sums of the caller's own charges; p_delta: that of the request.
CREATE OR REPLACE FUNCTION dp_int.affordable_everywhere(a dp_int.account, d dp_int.dataset, g dp_int.dataset_grant, own dp_int.tally, e dp_int.ledger, p_delta float8) RETURNS numeric
LANGUAGE sql STABLE AS $$
  SELECT least(dp_int.affordable(a, a.epsilon, a.cap, b.t, e, p_delta), dp_int.affordable(a, d.epsilon, d.cap, b.t, e, p_delta), dp_int.affordable(a, g.epsilon, g.cap, ARRAY[own], e, p_delta))
    FROM (SELECT array_agg(ROW(s.spent, s.spent_epsilon, s.rest, s.rest_rho)::dp_int.tally) FROM dp_int.sums_of(a, e.blocks) AS s) AS b(t)
$$;

-- The text about a block that does not cover a request; NULL without blocks.
CREATE OR REPLACE FUNCTION dp_int.name_block(a dp_int.account, b dp_int.account_block) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT format('Of its blocks the one from %s until before %s is among the fullest: see dp_blocks, and ask about a window without the full ones.',
                dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, b.block)), dp_int.day_text(dp_int.block_start(a.block_origin, a.block_width, b.block + 1)))
   WHERE a.block_width IS NOT NULL
$$;

CREATE OR REPLACE FUNCTION public.dp_blocks(dataset text) RETURNS TABLE(block_from date, block_to date, epsilon_spent float8, epsilon_remaining float8)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.granted_dataset(dp.caller(), dp_blocks.dataset, false);
  a dp_int.account;
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
  RETURN QUERY
  WITH known AS (
    SELECT g.block, coalesce(b.spent, 0) AS spent, coalesce(b.spent_epsilon, 0) AS spent_epsilon, coalesce(b.rest, 0) AS rest, coalesce(b.rest_rho, 0) AS rest_rho,
           coalesce(b.spent_delta, 0) AS spent_delta
      FROM generate_series(0, greatest(dp_int.block_of(a.block_origin, a.block_width, dp_int.today()),
                                       (SELECT max(m.block) FROM dp_int.account_block m WHERE m.account = a.id))) AS g(block)
      LEFT JOIN dp_int.account_block b ON b.account = a.id AND b.block = g.block),
  proven AS (
    SELECT k.*, n.proven_epsilon, dp_int.is_closed(a.accounting, least(a.cap, d.cap), dp_int.tally_of(n)) AS closed
      FROM (SELECT DISTINCT spent, spent_epsilon, rest, rest_rho, spent_delta FROM known) AS k,
           dp_int.at_block(a, ROW(a.id, 0, k.spent, k.spent_epsilon, k.rest, k.rest_rho, k.spent_delta)::dp_int.account_block) AS n),
  runs AS (
    SELECT k.block, p.proven_epsilon, p.closed, k.block - row_number() OVER (PARTITION BY p.proven_epsilon, p.closed ORDER BY k.block) AS run
      FROM known k JOIN proven p USING (spent, spent_epsilon, rest, rest_rho, spent_delta))
  SELECT dp_int.block_start(a.block_origin, a.block_width, min(r.block)), dp_int.block_start(a.block_origin, a.block_width, max(r.block) + 1),
         dp_int.rounded_up(r.proven_epsilon, least(a.epsilon, d.epsilon)), CASE WHEN r.closed THEN 0 ELSE dp_int.rounded_down(least(a.epsilon, d.epsilon) - r.proven_epsilon, least(a.epsilon, d.epsilon)) END
    FROM runs r
   GROUP BY r.proven_epsilon, r.closed, r.run
   ORDER BY 1;
END $$;
COMMENT ON FUNCTION public.dp_blocks IS
  'What is spent and left of each block of a data set, from its first to the one that runs: equal ones that follow each other in one row. No row without blocks.';

-- In this file, not with the other views, because it uses functions.
CREATE OR REPLACE VIEW dp.blocks WITH (security_barrier) AS
  SELECT d.name AS dataset, b.block_from AS "from", b.block_to AS "to", b.epsilon_spent, b.epsilon_remaining
    FROM dp_int.dataset d
    LEFT JOIN dp_int.my_grant g ON g.dataset = d.id,
         public.dp_blocks(d.name) AS b
   WHERE d.unregistered_at IS NULL AND d.block IS NOT NULL
     AND (pg_has_role((SELECT dp.caller()), 'dp_admin', 'USAGE') OR g.dataset IS NOT NULL)
   ORDER BY d.name, b.block_from;
COMMENT ON VIEW dp.blocks IS 'The blocks of data sets that have a budget for each, equal ones that follow each other in one row: from the first day to the one after the last.';
COMMENT ON COLUMN dp.blocks.dataset IS 'The registered name of the data set';
COMMENT ON COLUMN dp.blocks."from" IS 'The first day, in UTC, of equal blocks that follow each other';
COMMENT ON COLUMN dp.blocks."to" IS 'The day after the last day of these blocks';
COMMENT ON COLUMN dp.blocks.epsilon_spent IS 'What is spent of each of these blocks; rounded upward to six decimals, of a budget below 1 to six digits';
COMMENT ON COLUMN dp.blocks.epsilon_remaining IS 'What is left of each, rounded downward in the same way';
GRANT SELECT ON dp.blocks TO dp_analyst, dp_admin;

-- Verification

-- The checks of blocks in dp_verify: every entry adds its costs to each block of its window.
CREATE OR REPLACE FUNCTION dp_int.verify_blocks() RETURNS TABLE(item text, ok boolean, detail text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT c.item, c.detail IS NULL, c.detail FROM (VALUES
    ('what every block has spent is the sum of the entries that are of it', (
      SELECT format('block %s of account %s', coalesce(b.block, s.block), coalesce(b.account, s.account))
        FROM dp_int.account_block b
        FULL JOIN (SELECT l.account, g.block, sum(dp_int.cost(a, l)) AS spent, coalesce(sum(l.epsilon), 0) AS spent_epsilon,
                          sum(dp_int.weight_of_rest(l)) AS rest,
                          coalesce(sum(l.rho) FILTER (WHERE l.epsilon IS NULL), 0) AS rest_rho, sum(l.delta) AS spent_delta
                     FROM dp_int.ledger l
                     JOIN dp_int.account a ON a.id = l.account,
                          generate_series(lower(l.blocks), upper(l.blocks) - 1) AS g(block)
                    GROUP BY l.account, g.block) AS s ON (s.account, s.block) = (b.account, b.block)
       WHERE (b.spent, b.spent_epsilon, b.rest, b.rest_rho, b.spent_delta) IS DISTINCT FROM (s.spent, s.spent_epsilon, s.rest, s.rest_rho, s.spent_delta)
       ORDER BY 1
       LIMIT 1)),
    -- The orders of filters are computed again, and may differ in their last digits.
    ('what is proven of an account with blocks is that of its fullest block', (
      SELECT format('account %s', a.id)
        FROM dp_int.account a, LATERAL (SELECT dp_int.fullest_epsilon(a)) AS f(epsilon)
       WHERE a.block_width IS NOT NULL AND (a.proven_epsilon BETWEEN f.epsilon * (1 - 1e-9) AND f.epsilon * (1 + 1e-9)) IS NOT TRUE
       ORDER BY a.id
       LIMIT 1)),
    ('every charge of an account with blocks is of those that its job reads, and no other has any', (
      SELECT format('entry %s', l.id)
        FROM dp_int.ledger l
        JOIN dp_int.account a ON a.id = l.account
        LEFT JOIN dp_int.job j ON j.id = l.job
       WHERE l.kind <> 'budget'
         AND CASE WHEN a.block_width IS NULL THEN l.blocks IS NOT NULL ELSE l.blocks IS NULL OR l.blocks IS DISTINCT FROM dp_int.blocks_read(j.dataset, j.request) END
       ORDER BY l.id
       LIMIT 1)),
    ('what makes blocks is what the ledger names', (
      SELECT format('data set "%s"', d.name)
        FROM dp_int.dataset d
        JOIN dp_int.account a ON a.id = d.account
       WHERE d.unregistered_at IS NULL
         AND dp_int.describe_blocks(a, d) IS DISTINCT FROM dp_int.registered_budget(d) -> 'block'
       ORDER BY d.name
       LIMIT 1))) AS c(item, detail);
END $$;

-- The description of blocks in the ledger's entry of a registration; NULL without blocks.
CREATE OR REPLACE FUNCTION dp_int.describe_blocks(a dp_int.account, d dp_int.dataset) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('column', d.block_source, 'type', d.block_type, 'months', dp_int.months(a.block_width), 'days', extract(day FROM a.block_width),
                                              'origin', dp_int.day_text(a.block_origin), 'rows', d.block_rows, 'is_fixed', d.block_is_fixed, 'fixed_by', d.block_fixed_by))
   WHERE a.block_width IS NOT NULL
$$;
GRANT EXECUTE ON FUNCTION public.dp_last, public.dp_blocks TO dp_analyst, dp_admin;
