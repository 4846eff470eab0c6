-- Turning a copy of a database into a database of its own: registrations are bound to the relations of
-- the copy by name, and the ledger records that there are two databases.

-- Why a data set differs from its registration, NULL if it does not: the relation, its kind, its columns,
-- the tables below it.
CREATE OR REPLACE FUNCTION dp_int.unadoptable(d dp_int.dataset) RETURNS text
LANGUAGE plpgsql VOLATILE SET quote_all_identifiers = off AS $$
DECLARE
  kind "char";
  name CONSTANT text := format('%I.%I', d.schema_name, d.relation_name);
  reason text;
BEGIN
  SELECT relkind INTO kind FROM pg_catalog.pg_class WHERE oid = d.relid;
  IF NOT FOUND THEN
    RETURN format('data set "%s": there is no relation %s', d.name, name);
  END IF;
  -- A relation that is not a view is listed among the relations of its account.
  IF (kind = 'v') = EXISTS (SELECT FROM dp_int.account_relation r WHERE r.account = d.account AND r.current AND r.relid = d.relid) THEN
    RETURN format('data set "%s": %s is %s', d.name, name, CASE kind WHEN 'v' THEN 'a view, and was none' ELSE 'no view, and was one' END);
  END IF;
  PERFORM dp_int.recheck_dataset(d.id);
  RETURN NULL;
EXCEPTION WHEN SQLSTATE 'DP004' THEN
  GET STACKED DIAGNOSTICS reason = MESSAGE_TEXT;
  RETURN reason;
END $$;

-- Adopts this database. If the original is still in use, nothing is left to spend here until a steward
-- sets a budget; if it is gone, the remaining budget may be spent here. Returns what is registered and
-- how much of its budget is left. Raises, and changes nothing, where a data set differs from its
-- registration.
CREATE OR REPLACE FUNCTION dp_int.adopt(p_original_is_gone boolean) RETURNS TABLE(dataset text, relation text, epsilon_remaining float8)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  a dp_int.account;
  wrong text;
BEGIN
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  IF dp_int.is_copy() THEN
    PERFORM dp_int.rebind_relations();
    PERFORM dp_int.rebind_roles();
    PERFORM dp_int.move_here();  -- so that the checks below see this database as the location
    SELECT string_agg(p.problem, E'\n' ORDER BY d.name) INTO wrong
      FROM dp_int.dataset d, LATERAL (SELECT dp_int.unadoptable(d)) AS p(problem)
     WHERE d.unregistered_at IS NULL;
    wrong := concat_ws(E'\n', wrong, (SELECT format('%s belongs to several accounts', min(r.relation))
                                        FROM dp_int.account_relation r WHERE r.current AND r.relid <> 0 GROUP BY r.relid HAVING count(DISTINCT r.account) > 1 LIMIT 1));
    IF wrong <> '' THEN
      RAISE EXCEPTION 'this copy cannot be adopted: %', wrong
        USING ERRCODE = 'DP004', HINT = 'Restore what is missing as it was, with the rights of dp_sidecar, or let a steward dp_unregister the data set here. Nothing was changed.';
    END IF;
  ELSIF p_original_is_gone THEN
    RAISE EXCEPTION 'this is the database that dpsidecar was installed in, or the same cluster copied file by file'
      USING ERRCODE = '55000', HINT = 'There is nothing to adopt: it goes on as it is. Where its original goes on too, say --this-is-a-copy.';
  ELSE
    PERFORM dp_int.move_here();
  END IF;
  PERFORM dp_int.end_charged_jobs('this database was copied', 'the original');
  FOR a IN SELECT * FROM dp_int.account ORDER BY id FOR UPDATE LOOP
    IF NOT p_original_is_gone THEN
      -- With blocks proven_epsilon is that of the fullest block, and as a limit would leave something to
      -- emptier ones: so 0.
      UPDATE dp_int.account n SET epsilon = CASE WHEN n.block_width IS NULL THEN least(n.epsilon, n.proven_epsilon) ELSE 0 END, cap = 0 WHERE n.id = a.id RETURNING * INTO a;
    END IF;
    PERFORM dp_int.ledger_budget(a.id, (SELECT d.name FROM dp_int.dataset d WHERE d.account = a.id ORDER BY d.unregistered_at DESC NULLS FIRST, d.id DESC LIMIT 1), session_user,
      jsonb_build_object('adopt', jsonb_build_object(
        'original', CASE WHEN p_original_is_gone THEN 'gone' ELSE 'goes on' END, 'entries', a.entries, 'head', encode(a.head, 'hex'),
        'relations', (SELECT coalesce(jsonb_object_agg(r.relation, r.relid::text), '{}') FROM dp_int.account_relation r WHERE r.account = a.id AND r.current)))
      || CASE WHEN p_original_is_gone THEN '{}' ELSE jsonb_build_object('budget', dp_int.describe_budget(a, a.epsilon, a.delta)) END);
  END LOOP;
  RETURN QUERY
  SELECT d.name, format('%I.%I', d.schema_name, d.relation_name), greatest(least(n.epsilon, d.epsilon) - n.proven_epsilon, 0)::float8
    FROM dp_int.dataset d JOIN dp_int.account n ON n.id = d.account
   WHERE d.unregistered_at IS NULL
   ORDER BY 1;
END $$;
