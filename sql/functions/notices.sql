-- What stewards are told when they register a data set, set its budget or its scales.

-- Tells a steward who registers scales which ones seem to be missing. A column called weight is most likely one, which
-- has no scale.
CREATE OR REPLACE FUNCTION dp_int.tell_missing_scales(p_relid oid, p_columns name[], p_scales jsonb, p_labels jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  warning text;
BEGIN
  FOR warning IN SELECT * FROM dp_int.warnings_of_unscaled(p_relid, ARRAY(SELECT c FROM unnest(p_columns) AS c WHERE NOT p_labels ? c::text AND c !~* '(^|_)weights?$'), p_scales, true, true) LOOP
    RAISE NOTICE 'dpsidecar: %', warning USING HINT = 'dp_set_scales changes scales and centers; grants and releases stay.';
  END LOOP;
END $$;

-- Tells a steward who registers without any scale what follows from that, at registration.
CREATE OR REPLACE FUNCTION dp_int.tell_unscaled(p_dataset text, p_scales jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_scales = '{}' THEN
    RAISE NOTICE 'dpsidecar: data set "%" is registered without scales: the default methods of fits, and scores, look for them, for 2 to 20 %% of each budget; to everything else every column is about as large as 1', p_dataset
      USING HINT = 'With few rows scales are not found, and dp_explain cannot say what noise will do. Give typical magnitudes from public knowledge, never read from the rows, for instance scales => ''{"cost": 5000, "age": 50}''; boolean columns need none. dp_set_scales sets them, now or later.';
  END IF;
END $$;

-- Tells a steward who sets a budget that it promises little: a large epsilon, or a delta above one in the
-- number of rows or in 10,000. The guarantee is that of the largest budget ever set.
CREATE OR REPLACE FUNCTION dp_int.tell_large_budget(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  epsilon CONSTANT float8 := least(d.epsilon, (SELECT a.epsilon FROM dp_int.account a WHERE a.id = d.account));
  delta CONSTANT float8 := d.delta;
BEGIN
  IF epsilon > 10 THEN
    RAISE NOTICE 'dpsidecar: epsilon % of data set "%" promises little: all answers together may change the odds of a belief about one person by a factor of e^%', epsilon, d.name, epsilon
      USING HINT = 'Up to 1 is a strong promise, many publish with up to 4. dp_set_budget lowers it: once more is spent, nothing takes that back.';
  END IF;
  IF delta * greatest(coalesce(d.row_count, 0), 10000) > 1 THEN
    RAISE NOTICE 'dpsidecar: delta % of data set "%" promises little: it allows a method to publish somebody''s row with this probability', delta, d.name
      USING HINT = 'Choose it far below one in the number of people, as 1e-6 for 10,000 rows. dp_set_budget lowers it: once something is spent, nothing takes that back.';
  END IF;
END $$;

-- Tells a steward who registers people without a delta, and did not ask for pure accounting, what that excludes: after the first charge it is too late.
CREATE OR REPLACE FUNCTION dp_int.tell_no_delta(d dp_int.dataset, p_accounting text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF d.delta = 0 AND p_accounting IS NULL AND dp_int.siblings(d) IS NULL AND NOT dp_int.charged(d.account) THEN
    RAISE NOTICE 'dpsidecar: the budget of data set "%" has no delta: of the models only dp_l1_regress can be asked, and the first charge fixes that', d.name
      USING HINT = 'For the others dp_unregister it before anything is charged, and register it with a delta far below one in the number of people, such as delta => 1e-6 for 10,000 rows: it costs dp_l1_regress nothing. accounting => ''pure'' says that no delta is meant.';
  END IF;
END $$;

-- Who owns the tables below a relation.
CREATE OR REPLACE FUNCTION dp_int.owners_below(p_relid oid) RETURNS oid[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(SELECT DISTINCT c.relowner FROM dp_int.base_relations(p_relid) b JOIN pg_catalog.pg_class c ON c.oid = b.relid);
END $$;

-- Who owns tables below registered relations, superusers left out, without those of one data set; NULL if that is one alone. No lock keeps an owner from
-- making an index while a job reads his table, and the planner runs what that calls as dp_sidecar, which reads them all.
CREATE OR REPLACE FUNCTION dp_int.several_owners(p_without bigint) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT string_agg(DISTINCT owner.rolname, ', ') FILTER (WHERE NOT owner.rolsuper)
    FROM dp_int.dataset d, LATERAL unnest(dp_int.owners_below(d.relid)) AS o
    JOIN pg_catalog.pg_roles owner ON owner.oid = o
   WHERE d.unregistered_at IS NULL AND d.id IS DISTINCT FROM p_without
  HAVING count(DISTINCT owner.oid) > 1
$$;

-- Tells a steward who registers the first tables of another owner what owners can do to each other. Data sets are walked through until all
-- of these owners are found: there may be thousands.
CREATE OR REPLACE FUNCTION dp_int.tell_owners(d dp_int.dataset) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  new_owners oid[] := dp_int.owners_below(d.relid);
  other oid;
  owners text;
BEGIN
  FOR other IN SELECT o.relid FROM dp_int.dataset o WHERE o.unregistered_at IS NULL AND o.id <> d.id LOOP
    EXIT WHEN new_owners = '{}';
    new_owners := ARRAY(SELECT unnest(new_owners) EXCEPT SELECT unnest(dp_int.owners_below(other)));
  END LOOP;
  IF new_owners = '{}' THEN
    RETURN;
  END IF;
  owners := dp_int.several_owners(NULL);
  IF owners <> coalesce(dp_int.several_owners(d.id), '') THEN
    RAISE NOTICE 'dpsidecar: registered tables belong to several owners now (%; superusers are not listed): each could read what dp_sidecar reads of the others, though not unseen', owners
      USING HINT = 'By an index that he makes while a job reads his table: no lock keeps him from it. If they do not trust each other, give each a database of his own.';
  END IF;
END $$;

-- Other data sets of the account of a data set, as messages name them; NULL where there are none.
CREATE OR REPLACE FUNCTION dp_int.siblings(d dp_int.dataset) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT string_agg(format('"%s"', o.name), ', ' ORDER BY o.name) FROM dp_int.dataset o WHERE o.account = d.account AND o.id <> d.id AND o.unregistered_at IS NULL
$$;

-- Tells a steward who registers a data set of people who have a budget already which of the two epsilons holds.
CREATE OR REPLACE FUNCTION dp_int.tell_shared_budget(d dp_int.dataset, a dp_int.account) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF d.epsilon > a.epsilon THEN
    RAISE NOTICE 'dpsidecar: data set "%" shares the budget of %, which is epsilon %: that holds, and not the % that it was registered with', d.name, dp_int.siblings(d), a.epsilon::float8, d.epsilon::float8
      USING HINT = format('SELECT dp_set_budget(%L, %s, %s) raises that of all of them.', d.name, d.epsilon::float8, d.delta::float8);
  ELSIF d.epsilon < a.epsilon THEN
    RAISE NOTICE 'dpsidecar: data set "%" shares the budget of %, which is epsilon %: it can be asked until epsilon % of that is spent, under whatever name', d.name, dp_int.siblings(d), a.epsilon::float8, d.epsilon::float8
      USING HINT = CASE WHEN a.proven_epsilon >= d.epsilon THEN format('SELECT dp_set_budget(%L, %s, %s) lets it be asked until all of that budget is spent.', d.name, a.epsilon::float8, d.delta::float8)
                        ELSE format('SELECT dp_set_budget(%L, %s, %s) lowers that of all of them.', d.name, d.epsilon::float8, d.delta::float8) END;
  END IF;
END $$;

-- Tells a steward who sets a smaller delta that what was spent counts as more. p_former: the epsilon that it counted as before.
CREATE OR REPLACE FUNCTION dp_int.tell_recounted(p_account bigint, p_former numeric) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  a dp_int.account;
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = p_account;
  IF a.proven_epsilon > p_former AND a.proven_epsilon <> 'Infinity' AND dp_int.shown_epsilon(a.proven_epsilon) <> dp_int.shown_epsilon(p_former) THEN
    RAISE NOTICE 'dpsidecar: at delta % what is spent counts as epsilon %, not %', a.delta::float8, dp_int.shown_epsilon(a.proven_epsilon), dp_int.shown_epsilon(p_former) || CASE WHEN a.block_width IS NOT NULL THEN ', in the fullest block' ELSE '' END
      USING HINT = 'The same requests have this epsilon at this delta, and the former one at the former delta.';
  END IF;
END $$;

-- Tells a steward who sets a budget that nothing is left of it, and one who registers people of whom something was spent what is left.
CREATE OR REPLACE FUNCTION dp_int.tell_spent(d dp_int.dataset, p_registered boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  a dp_int.account;
  total numeric;
  spent text;
BEGIN
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
  total := least(a.epsilon, d.epsilon);
  spent := CASE WHEN a.proven_epsilon = 'Infinity' THEN 'more of delta than its budget has' ELSE 'epsilon ' || dp_int.shown_epsilon(a.proven_epsilon, total) END
           || CASE WHEN p_registered THEN ' of these people' ELSE '' END || ' is spent' || CASE WHEN a.block_width IS NOT NULL THEN ' in the fullest block' ELSE '' END;
  IF a.proven_epsilon >= total OR a.block_width IS NULL AND dp_int.is_closed(a.accounting, least(a.cap, d.cap), dp_int.tally_of(a)) THEN
    RAISE NOTICE 'dpsidecar: nothing is left for data set "%": %, and its epsilon is %', d.name, spent, total::float8
      USING HINT = CASE WHEN a.proven_epsilon < total THEN format('Among others that request counts as epsilon %s: with a budget above that there is something left. ', dp_int.shown_epsilon(dp_int.proven(a.accounting, a.renyi_order, a.spent, a.delta, a.spent_delta))) ELSE '' END || 'What is spent stays spent, under whatever name. New requests are refused until dp_set_budget raises the budget, which weakens the promise to these people; '
                   || CASE WHEN p_registered THEN 'answers to requests of a former registration stay in dp.releases, and are not given again.' ELSE 'answers that were given before are still given again, free.' END;
  ELSIF p_registered AND a.proven_epsilon > 0 THEN
    RAISE NOTICE 'dpsidecar: % already: data set "%" has % of its epsilon % left', spent, d.name, dp_int.shown_remaining(total - a.proven_epsilon, total), total::float8
      USING HINT = 'What is spent stays spent, under whatever name.';
  END IF;
END $$;

-- Tells a steward who sets a budget which other data sets of the account it raises, lowers or stops. p_former: the
-- epsilon that the account had.
CREATE OR REPLACE FUNCTION dp_int.tell_siblings(d dp_int.dataset, p_former numeric) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  changed text;
BEGIN
  SELECT string_agg(format('"%s" from %s to %s%s', o.name, least(o.epsilon, p_former)::float8, least(o.epsilon, a.epsilon)::float8,
                           CASE WHEN a.proven_epsilon >= least(o.epsilon, a.epsilon) THEN ', of which nothing is left' END), '; ' ORDER BY o.name) INTO changed
    FROM dp_int.dataset o JOIN dp_int.account a ON a.id = o.account
   WHERE o.account = d.account AND o.id <> d.id AND o.unregistered_at IS NULL AND least(o.epsilon, p_former) <> least(o.epsilon, a.epsilon);
  IF changed IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: this sets the epsilon of other data sets of the same people too: %', changed
      USING HINT = 'An account has the epsilon that was set last for any of its data sets; each of these can be asked up to that and to its own, whichever is smaller.';
  END IF;
END $$;
