-- The effect and cost of a request, before anything is spent: a question that a sidecar answers from
-- public facts alone; and a table of all possible calls.

-- The part of dp_explain that runs over the loopback: checks the origin of the call and the request
-- again, and queues the question.
CREATE OR REPLACE FUNCTION dp_int.ask(p_id uuid, p_caller name, p_model text, p_dataset text, p_eps float8, p_delta float8, p_target name,
                           p_features name[], p_intercept boolean, p_options jsonb, p_from jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  PERFORM dp_int.insert_inquiry(p_id, p_caller, dp_int.prepare_submitted(p_caller, p_model, p_dataset, p_eps, p_delta, p_target, p_features, p_intercept, p_options, false));
END $$;

-- The same for dp_explain_score.
CREATE OR REPLACE FUNCTION dp_int.ask_score(p_id uuid, p_caller name, p_release uuid, p_eps float8, p_delta float8, p_over daterange, p_from jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  PERFORM dp_int.refuse_elsewhere(p_from);
  PERFORM dp_int.insert_inquiry(p_id, p_caller, dp_int.prepare_score(p_caller, p_release, p_eps, p_delta, p_over, false));
END $$;

-- Stores a question about a request where sidecars find it.
CREATE OR REPLACE FUNCTION dp_int.insert_inquiry(p_id uuid, p_caller name, r dp_int.request) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF dp_int.sidecars_alive() = 0 THEN
    RAISE EXCEPTION 'no dpsidecar is connected to database "%"', current_database()
      USING ERRCODE = 'DP001', HINT = 'Start one with dpsidecar serve. No privacy budget was spent.';
  END IF;
  PERFORM dp_int.recheck_dataset(r.dataset);
  DELETE FROM dp_int.inquiry WHERE asked_at < clock_timestamp() - interval '10 min';
  INSERT INTO dp_int.inquiry (id, caller, dataset, request, hash)
  VALUES (p_id, p_caller, r.dataset, r.body, CASE WHEN r.fresh THEN '' ELSE r.hash END);  -- a fresh request is not answered by a kept release
  PERFORM pg_notify('dp_jobs', 'inquiry');
END $$;

-- The release of the same coefficients of the same model under the same scales and options, from which
-- dp_explain forecasts the noise: first those that record the noise of coefficients, of these those near
-- enough in eps, of these those that record it of all, then the nearest, of several the latest. Only the newest thousand releases of
-- the model are compared: to compare every one took seconds where there were 100,000. A release without
-- recorded noise is returned without it; NULL where there is no release. Releases are public to all who may
-- ask about their data set. The options that are left out of the comparison choose a method, which the
-- result names, or a number of rows, which it counts.
CREATE OR REPLACE FUNCTION dp_int.former(p_dataset bigint, p_request jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH newest AS MATERIALIZED (
    SELECT n.id, n.job FROM dp_int.release n WHERE n.dataset = p_dataset AND n.model = p_request ->> 'model' ORDER BY n.released_at DESC LIMIT 1000)
  SELECT jsonb_build_object('release', r.id, 'eps', r.eps, 'method', r.method, 'why_null', coalesce(r.why_null, min(c.why_null)), 'rows', r.parameters -> 'rows',
                            'noise_multiplier', r.parameters -> 'noise_multiplier', 'noise', jsonb_object_agg(c.term, c.noise) FILTER (WHERE c.noise > 0))
    FROM newest
    JOIN dp_int.release r ON r.id = newest.id
    JOIN dp_int.job j ON j.id = newest.job
    JOIN dp_int.coefficient c ON c.release = r.id
   WHERE (j.request -> 'target') = (p_request -> 'target') AND (j.request -> 'intercept') = (p_request -> 'intercept')
     AND (j.request -> 'features') @> (p_request -> 'features') AND (j.request -> 'features') <@ (p_request -> 'features')
     AND (j.request -> 'categories', j.request -> 'where_level') IS NOT DISTINCT FROM (p_request -> 'categories', p_request -> 'where_level') AND NOT p_request -> 'options' ? 'by'
     AND (j.request -> 'options') - '{method,residual_scale,sample_rows}'::text[] = (p_request -> 'options') - '{method,residual_scale,sample_rows}'::text[]
     AND dp_int.request_scales(p_dataset, j.request) = dp_int.request_scales(p_dataset, p_request)
   GROUP BY r.id
   ORDER BY bool_or(c.noise > 0) IS NOT TRUE, abs(ln(r.eps) - ln((p_request ->> 'eps')::float8)) > ln(1.5), bool_and(coalesce(c.noise > 0, false)) IS NOT TRUE,
            abs(ln(r.eps) - ln((p_request ->> 'eps')::float8)), r.released_at DESC
   LIMIT 1
$$;

-- How long a caller waits for the answer to a question.
CREATE OR REPLACE FUNCTION dp_int.answer_patience() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '60 s' $$;

-- The time after which a question without an answer is given out again: longer than a sidecar counts rows
-- for one (countTime in package job).
CREATE OR REPLACE FUNCTION dp_int.inquiry_lease() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '30 s' $$;

-- The next question, or NULL. A question that its sidecar has not answered is given out again only while
-- its caller may still wait: one that no sidecar can answer would otherwise return for ever.
CREATE OR REPLACE FUNCTION dp_int.inquiry_take() RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  q dp_int.inquiry;
BEGIN
  UPDATE dp_int.inquiry
     SET taken_at = clock_timestamp()
   WHERE id = (SELECT id FROM dp_int.inquiry
                WHERE answer IS NULL AND asked_at > clock_timestamp() - dp_int.answer_patience() AND coalesce(taken_at < clock_timestamp() - dp_int.inquiry_lease(), true)
                ORDER BY asked_at FOR UPDATE SKIP LOCKED LIMIT 1)
  RETURNING * INTO q;
  RETURN CASE WHEN FOUND THEN
    jsonb_build_object('id', q.id, 'model', q.request ->> 'model', 'request', q.request, 'dataset', dp_int.facts(q.dataset, q.request), 'alone', dp_int.may_be_alone(q.dataset, q.request, q.caller),
                       'former', dp_int.former(q.dataset, q.request), 'scored', dp_int.scored(q.request)) END;
END $$;

CREATE OR REPLACE FUNCTION dp_int.inquiry_answer(p_id uuid, p_answer jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dp_int.inquiry SET answer = p_answer WHERE id = p_id;
  PERFORM pg_notify(dp_int.job_channel(p_id), 'answered');
END $$;

-- The ledger entry that would be charged, from the costs in an answer.
CREATE OR REPLACE FUNCTION dp_int.quoted(p_cost jsonb) RETURNS dp_int.ledger
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  e dp_int.ledger;
BEGIN
  e.epsilon := (p_cost ->> 'epsilon')::numeric;
  e.rho := (p_cost ->> 'rho')::numeric;
  e.delta := coalesce((p_cost ->> 'delta')::numeric, 0);
  e.renyi := ARRAY(SELECT v::numeric FROM jsonb_array_elements_text(p_cost -> 'renyi') WITH ORDINALITY AS c(v, o) ORDER BY o);
  RETURN e;
END $$;

-- The cost of a charge and the budget left after it, by the rules of dp_int.ledger_charge. p_delta: that of the request.
CREATE OR REPLACE FUNCTION dp_int.afterwards(p_dataset bigint, p_caller name, e dp_int.ledger, p_delta float8) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  g dp_int.dataset_grant := dp_int.grant_of(p_dataset, p_caller);
  x dp_int.tally;    -- what e adds
  n dp_int.account;  -- the totals of the block that would be fullest after the charge
  t dp_int.tally;
  own dp_int.tally;  -- the sums of the caller's own charges
  mine dp_int.tally;
  whole numeric;     -- the budget
  proven numeric;
  affordable boolean;
  fits boolean;      -- does its delta fit into the reserve of delta?
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
  e.kind := 'charge';
  x := dp_int.add_entry(ROW(0, 0, 0, 0)::dp_int.tally, a, e);
  n := dp_int.fullest_block(a, e.blocks, x, e.delta);
  whole := least(a.epsilon, d.epsilon);
  property := 'epsilon_remaining';
  value := CASE WHEN dp_int.is_closed(a.accounting, least(a.cap, d.cap), dp_int.tally_of(n)) THEN 0 ELSE dp_int.rounded_down(whole - n.proven_epsilon, whole) END;
  RETURN NEXT;
  IF dp_int.cost(a, e) IS NULL THEN
    RETURN QUERY VALUES ('affordable', format('no: %s accounting cannot state the cost of this method', a.accounting));
    RETURN;
  END IF;
  t := dp_int.add_entry(dp_int.tally_of(n), a, e);
  own := dp_int.tally_of(a.id, dp_int.principal_of(p_caller));
  mine := dp_int.add_entry(own, a, e);
  proven := dp_int.least_epsilon(n, t, n.spent_delta + e.delta);
  property := 'epsilon_charged';
  value := dp_int.shown_increase(n.proven_epsilon, proven, whole)::float8;
  RETURN NEXT;
  property := 'epsilon_remaining_after';
  value := CASE WHEN dp_int.is_closed(a.accounting, least(a.cap, d.cap), t) THEN 0 ELSE dp_int.rounded_down(whole - proven, whole) END;
  RETURN NEXT;
  IF g.epsilon IS NOT NULL THEN
    property := 'my_epsilon_remaining';
    value := CASE WHEN dp_int.is_closed(a.accounting, g.cap, own) THEN 0 ELSE dp_int.rounded_down(g.epsilon - dp_int.least_epsilon(n, own, n.spent_delta), whole) END;
    RETURN NEXT;
    property := 'my_epsilon_remaining_after';
    value := CASE WHEN dp_int.is_closed(a.accounting, g.cap, mine) THEN 0 ELSE dp_int.rounded_down(g.epsilon - dp_int.least_epsilon(n, mine, n.spent_delta + e.delta), whole) END;
    RETURN NEXT;
  END IF;
  property := 'affordable';
  affordable := NOT EXISTS (SELECT FROM dp_int.refusing(a, d, e.blocks, x, '-Infinity'));
  fits := NOT EXISTS (SELECT FROM dp_int.sums_of(a, e.blocks) AS b WHERE b.spent_delta + e.delta > dp_int.reserve(a.delta));
  value := CASE WHEN NOT affordable
                  THEN 'no: the budget of the data set does not cover it'
                WHEN g.epsilon IS NOT NULL AND NOT dp_int.admits(a.accounting, g.epsilon, a.delta, g.cap, mine) THEN 'no: your own limit does not cover it'
                WHEN NOT fits THEN 'no: the part of delta that is kept for methods that spend delta themselves does not cover it'
                ELSE 'yes' END;
  IF value LIKE 'no:%' AND fits THEN
    value := value || coalesce('; eps ' || dp_int.shown_affordable(a, dp_int.affordable_everywhere(a, d, g, own, e, p_delta)) || ' would do', '');
  END IF;
  RETURN NEXT;
END $$;

-- The value of a property in an answer, NULL without it.
CREATE OR REPLACE FUNCTION dp_int.told(p_answer jsonb, p_property text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT p ->> 'value' FROM jsonb_array_elements(p_answer -> 'properties') AS p WHERE p ->> 'property' = p_property $$;

-- The answer to one of the caller's questions; no row while there is none.
CREATE OR REPLACE FUNCTION dp_int.answered(p_caller name, p_id uuid) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  q dp_int.inquiry;
  e dp_int.ledger;  -- the entry that would be charged
  kept uuid;
  charged boolean;  -- is an identical request charged that has no release yet?
BEGIN
  SELECT * INTO q FROM dp_int.inquiry WHERE id = p_id AND caller = p_caller AND answer IS NOT NULL;
  IF NOT FOUND OR (dp_int.grant_of(q.dataset, p_caller)).dataset IS NULL AND NOT pg_has_role(p_caller, 'dp_admin', 'USAGE') THEN
    RETURN;
  END IF;
  DELETE FROM dp_int.inquiry WHERE id = p_id;
  kept := dp_int.kept_release(q.dataset, q.hash);
  charged := kept IS NULL AND EXISTS (SELECT FROM dp_int.job j WHERE j.dataset = q.dataset AND j.request_hash = q.hash AND j.state = 'reading');
  RETURN QUERY SELECT p ->> 'property', p ->> 'value' FROM jsonb_array_elements(q.answer -> 'properties') AS p;
  IF q.answer ? 'cost' THEN
    e := dp_int.quoted(q.answer -> 'cost');
    e.blocks := dp_int.blocks_read(q.dataset, q.request);
    e.event := dp_int.told(q.answer, 'event')::jsonb;
    RETURN QUERY SELECT a.property, CASE WHEN a.property = 'affordable' AND kept IS NOT NULL THEN 'yes: the answer is kept' WHEN a.property = 'affordable' AND charged THEN 'yes: it is charged already' ELSE a.value END
      FROM dp_int.afterwards(q.dataset, p_caller, e, (q.request ->> 'delta')::float8) AS a;
  END IF;
  IF kept IS NOT NULL THEN
    RETURN QUERY SELECT 'kept_release', format('%s: the same request returns it at no cost', kept);
  END IF;
  IF charged THEN
    RETURN QUERY SELECT 'charged_already', 'the same request is charged, and its result is not there yet: asking again waits for it at no further cost'::text;
  END IF;
  RETURN QUERY SELECT 'warning', w
    FROM dp_int.warnings(q.dataset, q.request, dp_int.told(q.answer, 'rows')::bigint, CASE WHEN dp_int.told(q.answer, 'rows_for_10_percent') LIKE 'none%' THEN 'Infinity'
                         ELSE coalesce(dp_int.told(q.answer, 'rows_for_10_percent'), dp_int.told(q.answer, 'values_needed'))::float8 END) AS w;
END $$;

-- Waits for the answer to a question over its loopback connection.
CREATE OR REPLACE FUNCTION dp_int.loopback_answer(p_connection text, p_caller name, p_id uuid) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ask CONSTANT text := format('SELECT * FROM dp_int.answered(%L, %L)', p_caller, p_id);
  patience CONSTANT timestamptz := clock_timestamp() + dp_int.answer_patience();
  asked timestamptz;
BEGIN
  LOOP
    RETURN QUERY SELECT t.property, t.value FROM dp_dblink.dblink(p_connection, ask) AS t(property text, value text);
    IF FOUND THEN
      RETURN;
    ELSIF clock_timestamp() > patience THEN
      RAISE EXCEPTION 'no dpsidecar has answered within a minute'
        USING ERRCODE = 'DP001', HINT = 'Ask again; SELECT * FROM dp_check_install() says whether one is connected. No privacy budget was spent.';
    END IF;
    asked := clock_timestamp();
    LOOP
      EXIT WHEN EXISTS (SELECT FROM dp_dblink.dblink_get_notify(p_connection)) OR clock_timestamp() > asked + interval '1 s';
      PERFORM pg_sleep(0.002);
    END LOOP;
  END LOOP;
END $$;

-- Asks a sidecar by a call of the loopback, and returns its answer.
CREATE OR REPLACE FUNCTION dp_int.ask_sidecar(p_id uuid, p_ask text) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  connection CONSTANT text := dp_int.loopback_open(dp_int.job_channel(p_id));
  code text; message text; hint text;
BEGIN
  PERFORM FROM dp_dblink.dblink(connection, p_ask) AS t(asked text);
  RETURN QUERY SELECT a.property, a.value FROM dp_int.loopback_answer(connection, dp.caller(), p_id) AS a;
  PERFORM dp_int.loopback_release(connection);
EXCEPTION WHEN query_canceled OR OTHERS THEN  -- OTHERS leaves query_canceled out
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
  PERFORM dp_dblink.dblink_disconnect(connection);
  RAISE EXCEPTION '%', message USING ERRCODE = code, HINT = coalesce(nullif(hint, ''), 'No privacy budget was spent.');
END $$;

CREATE OR REPLACE FUNCTION public.dp_explain(model text, dataset text, eps float8, delta float8 DEFAULT NULL, target name DEFAULT NULL, features name[] DEFAULT NULL,
                                  intercept boolean DEFAULT true, options jsonb DEFAULT '{}', where_level jsonb DEFAULT NULL, over daterange DEFAULT NULL) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 30
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
DECLARE
  asked CONSTANT jsonb := dp_int.with_over(dp_int.with_where(dp_explain.options, dp_explain.where_level), dp_explain.over);
  -- Refused here, before there is a connection to close.
  r CONSTANT dp_int.request := dp_int.prepare_submitted(dp.caller(), dp_explain.model, dp_explain.dataset, dp_explain.eps, dp_explain.delta,
                                                        dp_explain.target, dp_explain.features, dp_explain.intercept, asked, false);
  id CONSTANT uuid := gen_random_uuid();
BEGIN
  RETURN QUERY SELECT a.property, a.value
    FROM dp_int.ask_sidecar(id, format('SELECT dp_int.ask(%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)', id, dp.caller(), r.model, dp_explain.dataset, r.eps, dp_explain.delta,
           dp_explain.target, dp_explain.features, dp_explain.intercept, asked, dp_int.here())) AS a;
END $$;
COMMENT ON FUNCTION public.dp_explain IS
  'What a request would do, cost and leave, and how large the error from its noise may be expected to be: from public facts alone, at no cost.';

CREATE OR REPLACE FUNCTION public.dp_explain_score(release uuid, eps float8, delta float8 DEFAULT NULL, over daterange DEFAULT NULL) RETURNS TABLE(property text, value text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER COST 1000000 ROWS 20
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' AS $$
DECLARE
  r CONSTANT dp_int.request := dp_int.prepare_score(dp.caller(), dp_explain_score.release, dp_explain_score.eps, dp_explain_score.delta, dp_explain_score.over, false);
  id CONSTANT uuid := gen_random_uuid();
BEGIN
  RETURN QUERY SELECT a.property, a.value
    FROM dp_int.ask_sidecar(id, format('SELECT dp_int.ask_score(%L, %L, %L, %L, %L, %L, %L)', id, dp.caller(), dp_explain_score.release, r.eps, r.delta, dp_explain_score.over, dp_int.here())) AS a;
END $$;
COMMENT ON FUNCTION public.dp_explain_score IS
  'What dp_score of the same release, eps and delta would cost and leave: from public facts alone, at no cost.';

-- The data sets that the caller may see, those first that he may ask about. label: the first column,
-- target before features, whose labels are registered or implied by its type.
CREATE OR REPLACE FUNCTION dp_int.example_datasets() RETURNS TABLE(name text, relid oid, relation text, target text, features text[], scales jsonb, labels jsonb,
                                                                   epsilon numeric, delta numeric, label text, categories jsonb, over text)
LANGUAGE sql STABLE AS $$
  SELECT d.name, d.relid, format('%I.%I', d.schema_name, d.relation_name), d.target::text, d.features::text[], d.scales, d.labels, d.epsilon, a.delta,
         (SELECT c.name::text FROM unnest(d.target || d.features) WITH ORDINALITY AS c(name, position)
           WHERE d.labels ? c.name::text OR dp_int.is_boolean(d.relid, c.name) AND NOT d.categories ? c.name::text ORDER BY c.position LIMIT 1),
         d.categories,
         CASE WHEN d.block IS NULL THEN '' ELSE format(', over => dp_last(%L, 1)', d.name) END
    FROM dp_int.dataset d
    JOIN dp_int.account a ON a.id = d.account, LATERAL (SELECT d.id IN (SELECT dataset FROM dp_int.my_grant)) AS g(granted)
   WHERE d.unregistered_at IS NULL AND (g.granted OR pg_has_role(dp.caller(), 'dp_admin', 'USAGE'))
   ORDER BY g.granted DESC, d.categories ? d.target::text, d.name  -- only one model can predict a category
$$;

-- An example call of a model that spends a delta, on the first data set with a delta and, where targets
-- are labels, with a column whose labels are known. Where there is none the example is a call of
-- dp_explain, which runs too and says what is missing.
CREATE OR REPLACE FUNCTION dp_int.example_of(p_model text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  classifies CONSTANT boolean := (SELECT m.labels FROM dp_int.model m WHERE m.name = p_model);
  d record;
BEGIN
  SELECT h.* INTO d FROM dp_int.example_datasets() h WHERE h.delta > 0 AND (NOT classifies OR h.label IS NOT NULL) LIMIT 1;
  IF FOUND THEN
    RETURN format('SELECT * FROM dp_%s_regress(%L, 1.0%s%s)', p_model, d.name, CASE WHEN classifies AND d.label <> d.target THEN format(', target => %L', d.label) END, d.over);
  END IF;
  SELECT h.* INTO d FROM dp_int.example_datasets() h LIMIT 1;
  IF NOT FOUND THEN
    RETURN format('SELECT * FROM dp_%s_regress(''claims'', 1.0%s)', p_model, CASE WHEN classifies THEN ', target => ''insured''' END);
  END IF;
  RETURN format('SELECT * FROM dp_explain(%L, %L, 1.0%s%s)', p_model, d.name,
                CASE WHEN classifies AND d.label IS NULL THEN ', options => ''{"positive_label": 1, "negative_label": 0}'''
                     WHEN classifies AND d.label <> d.target THEN format(', target => %L', d.label) END, d.over);
END $$;

-- The example of features by name, as a prediction takes them: of a category the first level, true of a boolean, and of other
-- columns what is typical of them as far as that is registered.
CREATE OR REPLACE FUNCTION dp_int.example_features(p_relid oid, p_features text[], p_scales jsonb, p_categories jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT '{' || coalesce(string_agg(format('%s: %s', to_jsonb(f.name),
           CASE WHEN p_categories ? f.name THEN p_categories -> f.name -> 0 WHEN dp_int.is_boolean(p_relid, f.name::name) THEN 'true' ELSE coalesce(p_scales -> f.name -> 'center', p_scales -> f.name, '1') END), ', ' ORDER BY f.n), '') || '}'
    FROM unnest(p_features) WITH ORDINALITY AS f(name, n)
$$;

-- An example call by groups, on the first data set with a delta, if the model spends one, that has a category or a boolean
-- feature and, where targets are labels, a column whose labels are known. Where there is none the example is a call of
-- dp_explain, which says what is missing; where no data set has groups, a query of the registered categories.
CREATE OR REPLACE FUNCTION dp_int.example_by(p_model text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT CASE WHEN c.complete THEN format('SELECT * FROM dp_%s_regress_by(%L, %L, 1.0, target => %L, features => %L%s)', m.name, h.name, g.name, t.name, f.features, h.over)
                 ELSE format('SELECT * FROM dp_explain(%L, %L, 1.0, target => %L, features => %L, options => %L%s)', m.name, h.name, t.name, f.features,
                             jsonb_build_object('by', g.name) || CASE WHEN m.labels AND h.label IS NULL THEN '{"positive_label": 1, "negative_label": 0}' ELSE '{}' END::jsonb, h.over) END
       FROM dp_int.model m, dp_int.example_datasets() WITH ORDINALITY AS h,
            LATERAL (SELECT CASE WHEN m.labels THEN coalesce(h.label, h.target) ELSE h.target END) AS t(name),
            LATERAL (SELECT coalesce((SELECT min(k) FROM jsonb_object_keys(h.categories) AS k WHERE k <> t.name), (SELECT min(f) FROM unnest(h.features) AS f WHERE f <> t.name AND dp_int.is_boolean(h.relid, f::name)))) AS g(name),
            LATERAL (SELECT array_remove(array_remove(h.features, g.name), t.name)) AS f(features),
            LATERAL (SELECT (m.delta = 0 OR h.delta > 0) AND (NOT m.labels OR h.label IS NOT NULL)) AS c(complete)
      WHERE m.name = p_model AND g.name IS NOT NULL AND (t.name = h.label AND m.labels OR NOT h.categories ? t.name)
      ORDER BY c.complete DESC, h.ordinality LIMIT 1),
    CASE WHEN EXISTS (SELECT FROM dp_int.example_datasets()) THEN format('SELECT dataset, categories FROM dp.datasets /* dp_%s_regress_by needs a category or a boolean column beside its target */', p_model)
         ELSE format('SELECT * FROM dp_%s_regress_by(''claims'', ''region'', 1.0)', p_model) END)
$$;

-- What the examples of dp_help name: the first data set that the caller may see, or one that there might be.
-- fit_features and fit_values: the features of its latest fit, and a value of each; fits: the condition that a
-- release r is a fit.
CREATE OR REPLACE FUNCTION dp_int.example_words() RETURNS TABLE(dataset text, relation text, target text, features text[], scales jsonb, categories text, labels jsonb,
                                                                epsilon numeric, delta numeric, over text, fit_features text[], fit_values text, fits text)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(first.name, 'claims'), coalesce(first.relation, 'public.claims'), coalesce(first.target, 'amount'), asked.features, asked.scales,
         CASE WHEN first.categories <> '{}' THEN format(', categories => %L', first.categories) ELSE '' END, coalesce(first.labels, '{}'),
         coalesce(first.epsilon, 2), coalesce(first.delta, 0), coalesce(first.over, ''),
         fit.features, dp_int.example_features(first.relid, fit.features, asked.scales, coalesce(first.categories, '{}')),
         (SELECT format('r.model IN (%s)', string_agg(quote_literal(m.name), ', ' ORDER BY m.name)) FROM dp_int.model m)
    FROM (SELECT) AS always
    LEFT JOIN (SELECT * FROM dp_int.example_datasets() LIMIT 1) AS first ON true,
    LATERAL (SELECT coalesce(first.features, '{vehicle_value,annual_km,driver_age}'), coalesce(first.scales, '{"amount": 2000, "vehicle_value": 20000, "annual_km": 12000, "driver_age": 40}')) AS asked(features, scales),
    LATERAL (SELECT coalesce((SELECT r.features FROM dp.releases r WHERE r.dataset = first.name AND dp_int.is_fit(r.model) AND NOT r.parameters ? 'by'
                               ORDER BY r.released_at DESC LIMIT 1), asked.features)) AS fit(features)
$$;

-- What a further registration of a data set's people has to say of whom it protects, and over what time.
CREATE OR REPLACE FUNCTION dp_int.example_protection(p_dataset text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT concat(', unit => ' || quote_literal(d.unit), ', max_rows => ' || d.max_rows, ', persons => ' || d.persons, ', block => ' || quote_literal(d.block), ', block_width => ' || quote_literal(a.block_width),
                ', block_origin => ' || quote_literal(a.block_origin), ', block_rows => ' || d.block_rows, ', block_is_fixed => ' || quote_literal(d.block_is_fixed),
                ', options => ' || quote_literal(nullif(d.options - 'new_population', '{}')))
    FROM (SELECT) AS always
    LEFT JOIN (dp_int.dataset d JOIN dp_int.account a ON a.id = d.account) ON d.name = p_dataset AND d.unregistered_at IS NULL
$$;

-- The number of a row is its place.
CREATE OR REPLACE FUNCTION public.dp_help() RETURNS TABLE(name text, does text, example text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT h.name, h.does, h.example
    FROM dp_int.example_words() AS w, LATERAL (VALUES
      (1, NULL, 'dp_explain', 'what a request would do, cost and leave; spends nothing', format('SELECT * FROM dp_explain(''l1'', %L, 1.0%s)', w.dataset, w.over)),
      (2, 'dp_admin', 'dp_register', 'registers a relation, one row a person, with its whole budget', format('SELECT dp_register(%L, %L, %L, %L, 1, %s, scales => %L%s%s)', w.dataset || '_too', w.relation, w.target, w.features, w.delta, w.scales, w.categories, dp_int.example_protection(w.dataset))),
      (3, 'dp_admin', 'dp_grant', 'lets somebody ask', format('SELECT dp_grant(%L, session_user)', w.dataset)),
      (4, 'dp_admin', 'dp.grants', 'who may ask, with which limit, and what each has spent', 'SELECT * FROM dp.grants'),
      (5, 'dp_admin', 'dp_revoke', 'takes a grant back', format('SELECT dp_revoke(%L, session_user)', w.dataset)),
      (6, 'dp_admin', 'dp_set_labels', 'declares which two values of a column are labels, as in {"readmitted": [0, 1]}', format('SELECT dp_set_labels(%L, %L)', w.dataset, w.labels)),
      (7, 'dp_admin', 'dp_set_categories', 'declares the levels of columns that are categories, before the first charge', format('SELECT dp_set_categories(%L, d.categories) FROM dp.datasets d WHERE d.dataset = %L AND NOT EXISTS (SELECT FROM dp.releases r WHERE r.dataset = d.dataset)', w.dataset, w.dataset)),
      (8, 'dp_admin', 'dp_set_scales', 'changes the typical magnitudes of columns, and their centers; grants and releases stay', format('SELECT dp_set_scales(d.dataset, d.scales) FROM dp.datasets d WHERE d.dataset = %L', w.dataset)),
      (9, 'dp_admin', 'dp_set_budget', 'sets the whole budget; what was spent stays spent', format('SELECT dp_set_budget(%L, %s, %s)', w.dataset, w.epsilon, w.delta)),
      (10, 'dp_admin', 'dp_set_placement', 'says where the rows of a data set are while a job works on them', format('SELECT dp_set_placement(d.dataset, d.placement) FROM dp.datasets d WHERE d.dataset = %L', w.dataset)),
      (11, 'dp_admin', 'dp_set_queue_limit', 'how many jobs of one caller may be queued', 'SELECT dp_set_queue_limit(1000)'),
      (12, 'dp_admin', 'dp_unregister', 'ends a data set; what was spent on its people stays spent', format('SELECT dp_unregister(%L)', w.dataset)),
      (13, 'dp_admin', 'dp_abandon', 'ends a job that takes too long: its budget stays spent, and nothing is released', 'SELECT id, dp_abandon(id) FROM dp.jobs WHERE status = ''running'' AND expected_at < now() - interval ''1 hour'''),
      (14, 'dp_admin', 'dp_verify', 'recomputes the ledger and reports what does not fit', 'SELECT * FROM dp_verify()'),
      (15, 'dp_admin', 'dp.ledger', 'every charge, refund and change of a budget', 'SELECT * FROM dp.ledger'),
      (16, NULL, 'dp.datasets', 'what may be asked', 'SELECT * FROM dp.datasets'),
      (17, NULL, 'dp.budget', 'what is left', 'SELECT * FROM dp.budget'),
      (18, NULL, 'dp_blocks', 'what is spent and left of each block of a table that grows', 'SELECT d.dataset, b.* FROM dp.datasets d, dp_blocks(d.dataset) b WHERE d.block IS NOT NULL'),
      (19, NULL, 'dp.blocks', 'the same of all data sets with blocks', 'SELECT * FROM dp.blocks'),
      (20, NULL, 'dp_last', 'the last complete blocks of a table that grows, as a window', 'SELECT dp_last(d.dataset, 28) FROM dp.datasets d WHERE d.block IS NOT NULL LIMIT 1'),
      (21, 'dp_analyst', 'dp_l1_regress', 'median regression, for heavy tails', format('SELECT * FROM dp_l1_regress(%L, 1.0%s)', w.dataset, w.over)),
      (22, 'dp_analyst', 'dp_linear_regress', 'least squares, with penalties, and twelve methods of the literature by name', dp_int.example_of('linear')),
      (23, 'dp_analyst', 'dp_huber_regress', 'robust linear regression', dp_int.example_of('huber')),
      (24, 'dp_analyst', 'dp_logistic_regress', 'log-odds of a label', dp_int.example_of('logistic')),
      (25, 'dp_analyst', 'dp_poisson_regress', 'logarithm of a mean count, of an exposure', dp_int.example_of('poisson')),
      (26, 'dp_analyst', 'dp_l1_regress_by', 'median regression of each group, by a category, for the price of one', dp_int.example_by('l1')),
      (27, 'dp_analyst', 'dp_linear_regress_by', 'least squares of each group, by a category, for the price of one', dp_int.example_by('linear')),
      (28, 'dp_analyst', 'dp_huber_regress_by', 'robust linear regression of each group, by a category, for the price of one', dp_int.example_by('huber')),
      (29, 'dp_analyst', 'dp_logistic_regress_by', 'log-odds of a label of each group, by a category, for the price of one', dp_int.example_by('logistic')),
      (30, 'dp_analyst', 'dp_poisson_regress_by', 'logarithm of a mean count of each group, by a category, for the price of one', dp_int.example_by('poisson')),
      (31, 'dp_analyst', 'dp_last_release', 'your latest release on a data set', format('SELECT dp_last_release(%L)', w.dataset)),
      (32, NULL, 'dp_summary', 'a release as a table of results: errors, tests and intervals', format('SELECT s.* FROM dp.releases r, dp_summary(r.id) s WHERE r.dataset = %L AND %s', w.dataset, w.fits)),
      (33, NULL, 'dp_test', 'are all these coefficients 0? one, or several at once', 'SELECT c.terms[1:1], t.* FROM (SELECT release, array_agg(term) AS terms FROM dp.coefficients WHERE std_err IS NOT NULL AND share IS NULL GROUP BY release) c, dp_test(c.release, c.terms[1:1]) t'),
      (34, NULL, 'dp_covariance', 'the covariance of coefficients', 'SELECT dp_covariance(release) FROM dp.coefficients WHERE std_err IS NOT NULL LIMIT 1'),
      (35, NULL, 'dp_coef', 'coefficients as an array, for predictions on large tables', format('SELECT dp_coef(r.id) FROM dp.releases r WHERE r.dataset = %L AND %s LIMIT 1', w.dataset, w.fits)),
      (36, NULL, 'dp_predict', 'a prediction from a release, free', format('SELECT dp_predict(r.id, %L) FROM dp.releases r WHERE r.dataset = %L AND r.features = %L AND %s AND NOT r.parameters ? ''by'' ORDER BY released_at DESC LIMIT 1', w.fit_values, w.dataset, w.fit_features, w.fits)),
      (37, NULL, 'dp_predict_interval', 'a prediction with its interval, free', format('SELECT p.* FROM dp.releases r, dp_predict_interval(r.id, %L) p WHERE r.dataset = %L AND r.features = %L AND %s AND NOT r.parameters ? ''by'' ORDER BY released_at DESC LIMIT 1', w.fit_values, w.dataset, w.fit_features, w.fits)),
      (38, 'dp_analyst', 'dp_score', 'how well a release predicts, with intervals; charged like a fit', format('SELECT s.* FROM dp_last_release(%L) r, dp_score(r, 0.5) s WHERE r IS NOT NULL', w.dataset)),
      (39, 'dp_analyst', 'dp_submit_score', 'queues a score and returns its job', format('SELECT dp_submit_score(r, 0.5) FROM dp_last_release(%L) r WHERE r IS NOT NULL', w.dataset)),
      (40, NULL, 'dp_explain_score', 'what a score would cost and leave; spends nothing', format('SELECT e.* FROM (SELECT r.id FROM dp.releases r JOIN dp.datasets d USING (dataset) WHERE dataset = %L AND released_at > registered_at AND %s ORDER BY released_at DESC LIMIT 1) r, dp_explain_score(r.id, 0.5) e', w.dataset, w.fits)),
      (41, 'dp_analyst', 'dp_describe', 'what columns hold: means, quartiles, missing values; charged like a fit', format('SELECT * FROM dp_describe(%L, 0.1%s)', w.dataset, w.over)),
      (42, 'dp_analyst', 'dp_scales', 'scales for the columns, read with privacy; charged like a fit', format('SELECT * FROM dp_scales(%L, 0.1%s)', w.dataset, w.over)),
      (43, 'dp_analyst', 'dp_moments', 'sums of all products of two columns, for free fits; charged like a fit', format('SELECT m.* FROM dp.datasets d, dp_moments(d.dataset, 0.2%s) m WHERE d.dataset = %L AND d.default_delta > 0', w.over, w.dataset)),
      (44, NULL, 'dp_linear_from_moments', 'least squares from second moments that were released, free', format('SELECT f.* FROM dp.datasets d JOIN dp.moments m USING (dataset), dp_linear_from_moments(d.dataset, m.over, m.terms[cardinality(m.terms)], ''{}'') f WHERE m.dataset = %L', w.dataset)),
      (45, 'dp_analyst', 'dp_submit', 'queues a request and returns its job', format('SELECT dp_submit(''l1'', %L, 0.5%s)', w.dataset, w.over)),
      (46, 'dp_analyst', 'dp_status', 'where a job stands', 'SELECT s.* FROM dp.jobs j, dp_status(j.id) s'),
      (47, 'dp_analyst', 'dp_result', 'the coefficients of a job that is done', 'SELECT r.* FROM dp.jobs j, dp_result(j.id) r WHERE j.status = ''done'''),
      (48, 'dp_analyst', 'dp_cancel', 'cancels a job unless its budget is spent already', 'SELECT dp_cancel(j.id) FROM dp.jobs j WHERE j.status = ''queued'''),
      (49, 'dp_analyst', 'dp_run', 'submits, commits and waits: for psql and pg_cron', format('CALL dp_run(''l1'', %L, 0.5%s)', w.dataset, w.over)),
      (50, NULL, 'dp.jobs', 'your jobs; for stewards everybody''s', 'SELECT * FROM dp.jobs'),
      (51, NULL, 'dp.releases', 'what was released', 'SELECT * FROM dp.releases'),
      (52, NULL, 'dp.coefficients', 'the coefficients of releases', 'SELECT * FROM dp.coefficients'),
      (53, NULL, 'dp.scores', 'how well releases predict', 'SELECT * FROM dp.scores'),
      (54, NULL, 'dp.descriptions', 'what columns hold', 'SELECT * FROM dp.descriptions'),
      (55, NULL, 'dp.suggested_scales', 'scales that were read from the rows', 'SELECT * FROM dp.suggested_scales'),
      (56, NULL, 'dp.moments', 'second moments that were released', 'SELECT * FROM dp.moments'),
      (57, NULL, 'dp_check_install', 'is everything in place?', 'SELECT * FROM dp_check_install()'),
      (58, NULL, 'dp_version', 'the version of the schema', 'SELECT dp_version()'),
      (59, NULL, 'dp_help', 'this list', 'SELECT * FROM dp_help()')
    ) AS h(place, role, name, does, example)
   WHERE h.role IS NULL OR pg_has_role(dp.caller(), h.role, 'USAGE')
   ORDER BY h.place
$$;
COMMENT ON FUNCTION public.dp_help IS 'What the caller can call, each with an example that runs, on a data set that he may see.';
GRANT EXECUTE ON FUNCTION dp_int.ask, dp_int.ask_score, dp_int.answered TO dp_loopback;
GRANT EXECUTE ON FUNCTION dp_int.inquiry_take, dp_int.inquiry_answer TO dp_sidecar;
GRANT EXECUTE ON FUNCTION public.dp_explain, public.dp_explain_score TO dp_analyst, dp_admin;
GRANT EXECUTE ON FUNCTION public.dp_help TO dp_analyst, dp_admin;
