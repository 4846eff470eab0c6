-- The steward's operations: register, set budgets, unregister. A registration is resolved to the base
-- relations whose people it shows (relations.sql), and joins their account (population.sql).

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

-- The same with its account locked, before the data set as in every function, and as it is under that lock: while the
-- lock was waited for, the data set may have been changed, or registered again.
CREATE OR REPLACE FUNCTION dp_int.locked_dataset(p_dataset text) RETURNS dp_int.dataset
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  before dp_int.dataset;
  d dp_int.dataset;
BEGIN
  LOOP
    before := dp_int.dataset_of(p_dataset);
    PERFORM FROM dp_int.account WHERE id = before.account FOR UPDATE;
    d := dp_int.dataset_of(p_dataset);
    EXIT WHEN d.id = before.id AND d.account = before.account;
  END LOOP;
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
                    dp_int.shown_epsilon(dp_int.renyi_surplus(a.renyi_order, dp_int.conversion_delta(p_delta))))
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

-- The hint for a column that a relation does not have.
CREATE OR REPLACE FUNCTION dp_int.its_columns(p_relid oid) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE count(*) WHEN 0 THEN 'It has no columns.' ELSE format('Its columns are %s; capitals count.', dp_int.excerpt(string_agg(a.attname, ', ' ORDER BY a.attnum))) END
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped
$$;

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
        USING ERRCODE = '42703', HINT = dp_int.its_columns(p_relid);
    END IF;
  END LOOP;
  PERFORM dp_int.refuse_types(p_relid, p_target, p_features, p_categories, false, NULL);
  IF dp_int.named_twice(p_target || p_features) IS NOT NULL THEN
    RAISE EXCEPTION 'column "%" stands twice among target and features', dp_int.named_twice(p_target || p_features) USING ERRCODE = '22023', HINT = 'Name every column once.';
  END IF;
  PERFORM dp_int.check_scales(p_target || p_features, p_scales, p_categories);
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

-- Raises where the relation of a data set, its columns, unit or blocks are not what was registered, or dp_sidecar may not read it.
CREATE OR REPLACE FUNCTION dp_int.refuse_changed(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.oid = d.relid AND n.nspname = d.schema_name AND c.relname = d.relation_name) THEN
    RAISE EXCEPTION 'it was dropped, renamed or replaced';
  ELSIF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = d.relid AND NOT c.relispopulated) THEN
    RAISE EXCEPTION 'it is a materialized view that holds nothing yet' USING HINT = 'Let its owner REFRESH MATERIALIZED VIEW.';
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
  IF d.person LIKE '% 0' AND EXISTS (SELECT FROM dp_int.referenced(d.relid, d.unit) r
                                      WHERE r.relid = split_part(d.person, ' ', 1)::oid AND NOT dp_int.is_key(r.relid, r.attnum)) THEN
    RAISE EXCEPTION 'its unit, %, was a key or referred to one, which is none any more', d.unit_source
      USING HINT = 'Let the owner of that key make it unique again, by a valid index of a table from which no other inherits, as it was.';
  END IF;
  IF d.block IS NOT NULL THEN
    PERFORM dp_int.recheck_block(d);
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
  code text;
  unknown text;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  PERFORM dp_int.refuse_copy();
  BEGIN
    PERFORM dp_int.refuse_changed(d);
    IF dp_int.check_nodes(d.relid, d.unit, d.options ->> 'rows_stay') IS DISTINCT FROM d.distribution THEN
      RAISE EXCEPTION 'its rows are distributed in another way now: %', coalesce(dp_int.distribution(d.relid), dp_int.apart(d.relid), 'on one node');
    END IF;
    unknown := CASE WHEN d.options ? 'total' AND NOT d.options ?| '{account,new_population}' THEN dp_int.why_unknown(d.relid) END;
    IF unknown IS NOT NULL THEN  -- a relation without the option total has no functions, and is not checked
      RAISE EXCEPTION 'nobody knows whose rows it has: %', unknown;
    ELSIF (d.options ->> 'total')::boolean THEN
      PERFORM dp_int.refuse_other_definition(d.relid, d.definition);
      PERFORM dp_int.refuse_other_parts(d.relid, d.foreign_parts);
    END IF;
    SELECT bool_or(k.account IS DISTINCT FROM d.account AND NOT (k.account IS NULL AND (k.child OR NOT k.own))), bool_and(k.noted) INTO strange, noted
      FROM dp_int.known_relations(d.relid, d.unit) k;
    IF strange THEN
      RAISE EXCEPTION 'it reads relations that it did not read when it was registered, or its unit refers to people of another account';
    ELSIF NOT noted THEN
      -- Another account may have got these relations since: seen under the lock that registrations take.
      LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
      IF EXISTS (SELECT FROM dp_int.known_relations(d.relid, d.unit) k WHERE k.account <> d.account) THEN
        RAISE EXCEPTION 'it reads relations, or its unit refers to people, of another account';
      END IF;
      INSERT INTO dp_int.account_relation (account, relid, relation, child)
      SELECT d.account, k.relid, k.relation, k.child FROM dp_int.known_relations(d.relid, d.unit) k
      ON CONFLICT DO NOTHING;
    END IF;
  EXCEPTION WHEN raise_exception OR insufficient_privilege OR invalid_parameter_value OR undefined_column OR undefined_table OR wrong_object_type THEN
    GET STACKED DIAGNOSTICS changed = MESSAGE_TEXT, remedy = PG_EXCEPTION_HINT, code = RETURNED_SQLSTATE;
    remedy := CASE WHEN code = '42501' AND remedy <> '' THEN remedy || ' Then ask again.'  -- dp_sidecar may not read the relation
                   ELSE concat(CASE WHEN code = 'P0001' THEN nullif(remedy, '') || ' Otherwise: ' END,  -- of the errors about what has changed, one that has a hint of its own
                               'Ask the steward to undo the change, or to dp_unregister the data set, dp_register it again and dp_grant it; what was spent stays spent.',
                               CASE WHEN unknown IS NOT NULL THEN ' It then needs the option account or new_population.'
                                    WHEN code = '22023' AND NOT d.options @> '{"total": true}' AND dp_int.why_not_total(d.relid) IS NOT NULL
                                    THEN ' If every person still has exactly one row, which depends on no other person, and reading never raises an error, it then needs the option {"total": true}.' END) END;
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
    PERFORM dp_int.tell_recounted(a.id, a.proven_epsilon);
  END IF;
  RETURN a;
END $$;

-- The event of a ledger entry that sets a budget: the data set's, and its account's, as an epsilon and as
-- a cap in the unit of the accounting, all valid from this entry on.
CREATE OR REPLACE FUNCTION dp_int.describe_budget(a dp_int.account, p_epsilon numeric, p_delta numeric) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('accounting', a.accounting, 'order', a.renyi_order, 'epsilon', p_epsilon, 'delta', p_delta, 'cap', a.cap, 'account_epsilon', a.epsilon))
$$;

-- The hint for a registration whose accounting or delta is not that of the account which the people have. Before the first
-- charge the data sets of the account can be registered again with another.
CREATE OR REPLACE FUNCTION dp_int.way_to_delta(a dp_int.account, p_accounting text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN dp_int.charged(a.id) THEN format('All data sets of these people have one accounting, fixed since the first charge, and one delta. Register with %s.', same.arguments)
              ELSE format('Nothing was charged yet. Before the first charge dp_unregister and dp_register choose another for all data sets of these people: dp_unregister %s, then dp_register and dp_grant each again, as this one, with the delta%s that all are to have. Or keep theirs, and register this one with %s.',
                          (SELECT string_agg(format('"%s"', d.name), ', ' ORDER BY d.name) FROM dp_int.dataset d WHERE d.account = a.id AND d.unregistered_at IS NULL),
                          CASE WHEN p_accounting = 'rdp' OR a.accounting = 'rdp' THEN ' and the accounting' END, same.arguments) END
    FROM (SELECT format('accounting => %L, delta => %s%s', a.accounting, a.delta::float8, CASE a.accounting WHEN 'pure' THEN ', which of the models only dp_l1_regress can use' END)) AS same(arguments)
$$;

-- Checks the arguments of a registration, before its relation is looked at.
CREATE OR REPLACE FUNCTION dp_int.check_registration(d dp_int.dataset, p_accounting text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coalesce(d.name, '') = '' OR octet_length(d.name) > 200 THEN
    RAISE EXCEPTION 'a data set needs a name of at most 200 bytes' USING ERRCODE = '22023', HINT = 'For instance ''claims''.';
  END IF;
  PERFORM dp_int.check_accounting(p_accounting, d.epsilon::float8, d.delta::float8);
  PERFORM dp_int.check_register_options(d.options);
  PERFORM dp_int.check_placement(d.placement, d.unit, d.block_rows);
  IF d.relid IS NULL THEN
    RAISE EXCEPTION 'a data set needs a relation' USING ERRCODE = '22023', HINT = 'For instance ''public.claims''.';
  ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN  -- a snapshot older than the lock of dp_register would not show the preceding registration
    RAISE EXCEPTION 'dp_register needs isolation level read committed, not %', current_setting('transaction_isolation')
      USING ERRCODE = '25001', HINT = 'Begin with: BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
  PERFORM dp_int.check_names(d.target, d.features);
  IF d.options ? 'one_block_a_person' AND (d.block IS NULL OR d.unit IS NULL) THEN
    RAISE EXCEPTION 'option "one_block_a_person" is about a unit and blocks' USING ERRCODE = '22023', HINT = 'Give unit and block, or leave it out.';
  END IF;
END $$;

-- A registration whose relation is checked, with what follows from it: everything but account and cap. p_call: the
-- arguments, for statements in hints.
CREATE OR REPLACE FUNCTION dp_int.resolve_registration(d dp_int.dataset, p_width interval, p_origin date, p_call jsonb) RETURNS dp_int.dataset
LANGUAGE plpgsql STABLE AS $$
DECLARE
  total CONSTANT boolean := coalesce((d.options ->> 'total')::boolean, false);
  columns CONSTANT name[] := d.target || d.features;
BEGIN
  PERFORM dp_int.check_relation(d.relid, total);
  d.distribution := dp_int.check_nodes(d.relid, d.unit, d.options ->> 'rows_stay');
  d.unit_source := dp_int.check_unit(d.relid, d.unit, d.max_rows, d.persons, columns);
  d.block_source := dp_int.check_blocks(d.relid, d.block, p_width, p_origin, d.block_rows, d.block_is_fixed, d.unit, d.persons);
  PERFORM dp_int.refuse_types(d.relid, d.target, d.features, d.categories, true, p_call);
  d.categories := dp_int.canonical_categories(d.relid, columns, d.categories);
  PERFORM dp_int.refuse_types(d.relid, d.target, d.features, d.categories, false, p_call);
  PERFORM dp_int.check_columns(d.relid, d.target, d.features, d.scales, d.categories);
  PERFORM dp_int.refuse_intercept(columns);
  d.labels := dp_int.canonical_labels(d.relid, d.labels, d.categories);
  PERFORM dp_int.check_labels(d.target, d.features, d.labels, d.categories);
  PERFORM dp_int.refuse_labels_of_boolean(d.relid, l.key::name, l.value) FROM jsonb_each(d.labels) AS l WHERE NOT d.categories ? l.key;
  IF EXISTS (SELECT FROM dp_int.dataset o WHERE o.name = d.name AND o.unregistered_at IS NULL) THEN
    RAISE EXCEPTION 'data set "%" is registered already', d.name
      USING ERRCODE = '42710', HINT = 'dp_set_budget changes its budget, dp_set_scales its scales, dp_set_labels its labels and, before the first charge, dp_set_categories its categories. To change anything else dp_unregister it, dp_register it again and dp_grant it again: grants do not go over to another registration, and what was spent stays spent.';
  END IF;
  SELECT n.nspname, c.relname INTO STRICT d.schema_name, d.relation_name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = d.relid;
  d.max_rows := CASE WHEN d.unit IS NOT NULL THEN coalesce(d.max_rows, 8) END;
  d.unit_number := dp_int.source_number(d.relid, d.unit);
  d.person := dp_int.person_of(d.relid, d.unit);
  d.row_count := CASE WHEN d.block IS NULL THEN d.persons END;
  d.block_number := dp_int.source_number(d.relid, d.block);
  d.block_type := dp_int.column_type(d.relid, d.block);
  d.block_fixed_by := dp_int.why_block_stays(d.relid, d.block, d.block_is_fixed);
  d.definition := CASE WHEN total THEN dp_int.definition(d.relid) END;
  d.foreign_parts := CASE WHEN total THEN dp_int.foreign_parts(d.relid) END;
  d.default_delta := nullif(d.delta, 0);
  d.registered_by := dp.caller();
  RETURN d;
END $$;

-- The account of a registration's people, locked, with the registration's budget where no other data set has it.
CREATE OR REPLACE FUNCTION dp_int.choose_account(d dp_int.dataset, p_accounting text, p_width interval, p_origin date) RETURNS dp_int.account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  a dp_int.account;
  account_id bigint;
  alone boolean;  -- does no other data set have it?
BEGIN
  PERFORM dp_int.follow_renames();
  account_id := dp_int.account_of(d.relid, d.options, d.unit);
  IF NOT d.options ?| '{account,new_population}' THEN
    PERFORM dp_int.refuse_strangers(d.relid, d.unit, account_id);
  ELSIF d.options ? 'account' THEN  -- unused accounts of these people are left for the one that is named
    UPDATE dp_int.account_relation r SET current = false
      FROM dp_int.population(d.relid, d.unit) b
     WHERE r.account <> account_id AND r.current AND (r.relid = b.relid OR r.relation = b.relation) AND dp_int.unused(r.account);
  END IF;
  SELECT * INTO a FROM dp_int.account WHERE id = account_id FOR UPDATE;
  alone := NOT EXISTS (SELECT FROM dp_int.dataset o WHERE o.account = a.id AND o.unregistered_at IS NULL);
  IF d.options ? 'new_population' THEN
    IF a.id IS NOT NULL AND NOT alone OR EXISTS (SELECT FROM dp_int.dataset o WHERE o.relid = d.relid AND o.unregistered_at IS NULL) THEN
      RAISE EXCEPTION 'these people are registered as %', (
        SELECT string_agg(quote_ident(o.name), ', ' ORDER BY o.name) FROM dp_int.dataset o WHERE (o.account = a.id OR o.relid = d.relid) AND o.unregistered_at IS NULL)
        USING ERRCODE = '22023', HINT = 'dp_unregister every data set of the account first.';
    END IF;
    UPDATE dp_int.account_relation r SET current = false
      FROM dp_int.population(d.relid, d.unit) b
     WHERE r.account = a.id AND (r.relid = b.relid OR r.relation = b.relation);
    a := NULL;
  END IF;
  PERFORM dp_int.refuse_other_unit(a.id, d.relid, d.unit, d.unit_source);
  PERFORM dp_int.refuse_other_blocks(a.id, d.block_source, p_width, p_origin);
  PERFORM dp_int.refuse_renamed(a.id, d.relid, d.unit, false);
  PERFORM dp_int.refuse_renamed(a.id, d.relid, d.block, true);
  IF d.block IS NOT NULL THEN
    PERFORM dp_int.refuse_mixed_rows(a.id, d.relid);
    PERFORM dp_int.refuse_formerly_mixed(a.id, d.relid);
  END IF;
  IF a.accounting <> p_accounting AND (NOT alone OR dp_int.charged(a.id)) THEN
    RAISE EXCEPTION 'these people''s account has % accounting', a.accounting
      USING ERRCODE = '22023', HINT = dp_int.way_to_delta(a, p_accounting);
  ELSIF alone THEN
    a := dp_int.keep_account(a, p_accounting, d.epsilon, d.delta);
  ELSIF a.delta <> d.delta THEN
    RAISE EXCEPTION 'these people''s account has delta %', a.delta::float8 USING ERRCODE = '22023', HINT = dp_int.way_to_delta(a, p_accounting);
  END IF;
  UPDATE dp_int.account n SET block_width = p_width, block_origin = p_origin WHERE n.id = a.id RETURNING * INTO a;
  RETURN a;
END $$;

-- Writes a registration with its account: a row that shows its relations to be the account's, and the entry of the ledger.
CREATE OR REPLACE FUNCTION dp_int.insert_registration(d dp_int.dataset, a dp_int.account) RETURNS dp_int.dataset
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  d.cap := dp_int.positive_cap(a, d.epsilon, d.delta);
  INSERT INTO dp_int.account_relation (account, relid, relation, child)
  SELECT a.id, k.relid, k.relation, bool_and(k.child) FROM dp_int.known_relations(d.relid, d.unit) k GROUP BY k.relid, k.relation
  ON CONFLICT ON CONSTRAINT account_relation_pk DO UPDATE SET current = true, child = account_relation.child AND excluded.child;
  INSERT INTO dp_int.dataset (name, account, relid, schema_name, relation_name, target, features, scales, labels, categories, options, epsilon, delta, cap, default_delta, registered_by,
                              unit, max_rows, persons, unit_source, unit_number, person, row_count,
                              block, block_source, block_number, block_type, block_rows, block_is_fixed, block_fixed_by, placement, distribution, definition, foreign_parts)
  VALUES (d.name, a.id, d.relid, d.schema_name, d.relation_name, d.target, d.features, d.scales, d.labels, d.categories, d.options, d.epsilon, d.delta, d.cap, d.default_delta, d.registered_by,
          d.unit, d.max_rows, d.persons, d.unit_source, d.unit_number, d.person, d.row_count,
          d.block, d.block_source, d.block_number, d.block_type, d.block_rows, d.block_is_fixed, d.block_fixed_by, d.placement, d.distribution, d.definition, d.foreign_parts)
  RETURNING * INTO d;
  INSERT INTO dp_int.turnstile VALUES (d.id);
  -- What has become a key since its registration lets others into the account, and so must stay one.
  UPDATE dp_int.dataset o SET person = dp_int.person_of(o.relid, o.unit)
   WHERE o.account = a.id AND o.unregistered_at IS NULL AND o.person NOT LIKE '% 0' AND dp_int.person_of(o.relid, o.unit) LIKE '% 0';
  PERFORM dp_int.ledger_budget(a.id, d.name, dp.caller(), jsonb_build_object('budget',
    dp_int.describe_budget(a, d.epsilon, d.delta) || jsonb_build_object('relation', d.relid::regclass::text) || d.options
      || CASE WHEN d.block IS NOT NULL AND dp_int.mixes_rows(d.relid) THEN '{"mixes_rows": true}' ELSE '{}' END::jsonb
      || CASE WHEN d.categories = '{}' THEN '{}' ELSE jsonb_build_object('categories', d.categories) END
      || jsonb_strip_nulls(jsonb_build_object('distribution', d.distribution, 'unit', d.unit_source, 'persons', d.persons, 'max_rows', d.max_rows, 'block', dp_int.describe_blocks(a, d)))));
  RETURN d;
END $$;

-- Tells the steward what follows from a registration, and what may not be meant.
CREATE OR REPLACE FUNCTION dp_int.tell_registration(d dp_int.dataset, a dp_int.account) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  total CONSTANT boolean := coalesce((d.options ->> 'total')::boolean, false);
BEGIN
  IF d.unit IS NULL THEN
    PERFORM dp_int.tell_several_rows(d.relid, d.target || d.features || ARRAY(SELECT k::name FROM jsonb_object_keys(d.categories) AS k), total);
  END IF;
  IF total AND dp_int.mixes_rows(d.relid) THEN
    RAISE NOTICE 'dpsidecar: the rows of data set "%" are joined, combined or compared before they are read: by your statement "total" no row depends on another person', d.name
      USING HINT = 'A row may show what is public, or its own person''s. An average over others, a rank, or another person''s values in it would cost these more than is booked: then dp_unregister it before anything is charged.';
  END IF;
  IF d.block IS NOT NULL THEN
    PERFORM dp_int.tell_blocks(d.name, d.unit, d.options ? 'one_block_a_person');
    IF a.block_origin > dp_int.today() THEN
      RAISE NOTICE 'dpsidecar: the first block of data set "%" begins on %, which is to come: no row of before is ever read, and nothing can be asked until then', d.name, a.block_origin
        USING HINT = 'If that is not meant, dp_unregister it and register it with an earlier block_origin, before anything is charged.';
    END IF;
  END IF;
  PERFORM dp_int.tell_large_budget(d);
  PERFORM dp_int.tell_shared_budget(d, a);
  PERFORM dp_int.tell_spent(d, true);
  PERFORM dp_int.tell_owners(d);
  PERFORM dp_int.tell_unscaled(d.name, d.scales);
  PERFORM dp_int.tell_placement(d);
  PERFORM dp_int.tell_missing_scales(d.relid, d.target || d.features, d.scales, d.labels || d.categories);
END $$;

CREATE OR REPLACE FUNCTION public.dp_register(dataset text, relation regclass, target name, features name[], epsilon float8, delta float8 DEFAULT 0,
                                   scales jsonb DEFAULT '{}', accounting text DEFAULT NULL, options jsonb DEFAULT '{}', labels jsonb DEFAULT '{}',
                                   categories jsonb DEFAULT NULL, unit name DEFAULT NULL, max_rows int DEFAULT NULL, persons bigint DEFAULT NULL,
                                   block name DEFAULT NULL, block_width interval DEFAULT NULL, block_origin date DEFAULT NULL, block_rows bigint DEFAULT NULL,
                                   block_is_fixed text DEFAULT NULL, placement text DEFAULT 'auto') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET jit = off SET quote_all_identifiers = off AS $$
DECLARE
  mode CONSTANT text := coalesce(dp_register.accounting, CASE WHEN dp_register.delta > 0 THEN 'zcdp' ELSE 'pure' END);
  d dp_int.dataset;
  a dp_int.account;
BEGIN
  PERFORM dp_int.refuse_copy();
  d.name := dp_register.dataset;
  d.relid := dp_register.relation;
  d.target := dp_register.target;
  d.features := dp_register.features;
  d.epsilon := dp_int.exact(dp_register.epsilon);
  d.delta := dp_int.exact(dp_register.delta);
  d.scales := dp_register.scales;
  d.options := dp_register.options;
  d.labels := dp_register.labels;
  d.categories := dp_register.categories;
  d.unit := dp_register.unit;
  d.max_rows := dp_register.max_rows;
  d.persons := dp_register.persons;
  d.block := dp_register.block;
  d.block_rows := dp_register.block_rows;
  d.block_is_fixed := dp_register.block_is_fixed;
  d.placement := dp_register.placement;
  PERFORM dp_int.check_registration(d, mode);
  -- Registrations and changes of budgets are rare: executing one at a time prevents races between accounts.
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  d := dp_int.resolve_registration(d, dp_register.block_width, dp_register.block_origin, jsonb_strip_nulls(jsonb_build_object(
    'dataset', dp_register.dataset, 'epsilon', dp_register.epsilon, 'delta', dp_register.delta, 'scales', dp_register.scales, 'accounting', dp_register.accounting,
    'options', dp_register.options, 'labels', dp_register.labels, 'unit', dp_register.unit, 'max_rows', dp_register.max_rows, 'persons', dp_register.persons,
    'block', dp_register.block, 'block_width', dp_register.block_width, 'block_origin', dp_register.block_origin, 'block_rows', dp_register.block_rows,
    'block_is_fixed', dp_register.block_is_fixed, 'placement', nullif(dp_register.placement, 'auto'))));
  a := dp_int.choose_account(d, mode, dp_register.block_width, dp_register.block_origin);
  d := dp_int.insert_registration(d, a);
  PERFORM pg_notify('dp_jobs', 'registered');
  PERFORM dp_int.tell_registration(d, a);
  PERFORM dp_int.tell_no_delta(d, dp_register.accounting);
END $$;
COMMENT ON FUNCTION public.dp_register IS
  'Registers a relation, one row a person or, with a unit, all rows with one value of that column, with its target, features, whole budget (epsilon, delta; delta = 0: pure), public scales, the labels of columns that are targets of dp_logistic_regress, and the levels of columns that are categories. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_set_budget(dataset text, epsilon float8, delta float8 DEFAULT NULL) RETURNS void
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
  PERFORM dp_int.check_accounting(a.accounting, dp_set_budget.epsilon, coalesce(dp_set_budget.delta, a.delta::float8));
  eps := dp_int.exact(dp_set_budget.epsilon);
  del := coalesce(dp_int.exact(dp_set_budget.delta), a.delta);
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
  PERFORM dp_int.ledger_budget(a.id, d.name, dp.caller(), jsonb_build_object('budget', dp_int.describe_budget(a, eps, del)));
  PERFORM dp_int.tell_large_budget(dp_int.dataset_of(d.name));
  PERFORM dp_int.tell_siblings(d, former);
  PERFORM dp_int.tell_spent(dp_int.dataset_of(d.name), false);
END $$;
COMMENT ON FUNCTION public.dp_set_budget IS
  'Sets the whole budget of a data set and of the people in it; delta NULL stays what it is. What is spent stays spent: lowering it below that leaves nothing. The guarantee is the largest budget ever set. For dp_admin.';

CREATE OR REPLACE FUNCTION public.dp_unregister(dataset text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.locked_dataset(dp_unregister.dataset);
  granted CONSTANT text := (SELECT string_agg(format('"%s"', dp_int.role_of(g.principal)), ', ' ORDER BY dp_int.role_of(g.principal)) FROM dp_int.dataset_grant g WHERE g.dataset = d.id AND dp_int.role_of(g.principal) IS NOT NULL);
BEGIN  -- also in a copy: adopt refuses a data set whose relation is not there
  UPDATE dp_int.dataset SET unregistered_at = clock_timestamp() WHERE id = d.id;
  PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), '{"unregister": {}}');
  IF granted IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: data set "%" can no longer be asked by those to whom it was granted (%): they still see its releases', d.name, granted
      USING HINT = 'Grants and kept answers do not go over to another registration: there, dp_grant them again, and the same request is a new one, which is charged. dp_revoke takes the releases away too.';
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_unregister IS
  'Takes a data set''s name away. The ledger, what was spent, and the releases stay, for those to whom it is granted until dp_revoke; registering the same people again inherits what was spent. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_register, public.dp_set_budget, public.dp_unregister TO dp_admin;
