-- Who may ask about a data set, and how much of its budget.

-- Tells a steward that a grant changes or ends a personal limit, or sets one that limits nothing, or leaves nothing.
CREATE OR REPLACE FUNCTION dp_int.tell_limit(d dp_int.dataset, p_grantee name, p_former numeric, p_limit numeric) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  whole CONSTANT numeric := least(d.epsilon, (SELECT a.epsilon FROM dp_int.account a WHERE a.id = d.account));
  spent text;
BEGIN
  IF p_former <> p_limit THEN
    RAISE NOTICE 'dpsidecar: the personal limit of "%" on data set "%" was epsilon %, and is epsilon % now', p_grantee, d.name, p_former::float8, p_limit::float8
      USING HINT = 'It counts all that was asked before. dp.grants shows every grant.';
  ELSIF p_former IS NOT NULL AND p_limit IS NULL THEN
    RAISE NOTICE 'dpsidecar: the personal limit of "%" on data set "%" was epsilon %, and there is none now', p_grantee, d.name, p_former::float8
      USING HINT = format('If that is not meant: SELECT dp_grant(%L, %L, %s); dp.grants shows every grant.', d.name, p_grantee, p_former::float8);
  END IF;
  IF p_limit > whole THEN
    RAISE NOTICE 'dpsidecar: the personal limit of "%", epsilon %, is above that of data set "%", %, which holds for everybody', p_grantee, p_limit::float8, d.name, whole::float8
      USING HINT = 'A limit below the data set''s leaves something for others.';
  END IF;
  SELECT string_agg(format('"%s" has spent epsilon %s', dp_int.role_of(t.principal), dp_int.shown_epsilon(t.proven_epsilon)), ', ' ORDER BY t.principal) INTO spent
    FROM dp_int.caller_total t
    JOIN dp_int.account a ON a.id = t.account
   WHERE t.account = d.account
     AND (t.proven_epsilon >= p_limit
          OR dp_int.is_closed(a.accounting, dp_int.cap(a.accounting, a.renyi_order, p_limit, a.delta), ROW(t.spent, t.spent_epsilon, t.rest, t.rest_rho)::dp_int.tally))
     AND (dp_int.grant_of(d.id, dp_int.role_of(t.principal))).principal = dp_int.principal_of(p_grantee);
  IF spent IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: nothing is left of the personal limit on data set "%", epsilon %: % of these people', d.name, p_limit::float8, spent
      USING HINT = 'A limit counts all that was asked about these people before, under whatever name. dp_grant sets a higher one; answers that were given before are still given again, free.';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_grant(dataset text, grantee name, epsilon float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  eps numeric;
  own_cap numeric;
  former dp_int.dataset_grant;
  grantee_id bigint;
  lock_timeout CONSTANT text := current_setting('lock_timeout');
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.dataset_of(dp_grant.dataset);  -- raises where there is none
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = dp_grant.grantee) THEN
    RAISE EXCEPTION 'role % does not exist', coalesce('"' || dp_grant.grantee || '"', 'NULL') USING ERRCODE = '42704', HINT = 'Create the role first and make it a member of dp_analyst.';
  END IF;
  -- Before the lock, for which other stewards wait: somebody's first request in an open transaction would hold all of them.
  BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    grantee_id := dp_int.admit_principal(dp_grant.grantee);
    PERFORM set_config('lock_timeout', lock_timeout, true);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'the first request of "%" is in a transaction that is still open', dp_grant.grantee
      USING ERRCODE = '55P03', HINT = 'Let its session COMMIT or ROLLBACK, or end it with pg_terminate_backend, see pg_stat_activity, and grant again.';
  END;
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  d := dp_int.dataset_of(dp_grant.dataset);
  SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account FOR UPDATE;  -- locked before the grant, as in dp_revoke
  IF dp_grant.epsilon IS NOT NULL THEN
    IF NOT (dp_grant.epsilon > 0 AND dp_grant.epsilon < 'Infinity') THEN
      RAISE EXCEPTION 'a personal limit must be a positive finite epsilon, not %', dp_grant.epsilon
        USING ERRCODE = '22023', HINT = 'For instance 1; NULL sets none. dp_revoke takes a grant back.';
    END IF;
    eps := dp_int.exact(dp_grant.epsilon);
    own_cap := dp_int.positive_cap(a, eps, a.delta);
  END IF;
  SELECT * INTO former FROM dp_int.dataset_grant g WHERE g.dataset = d.id AND g.principal = grantee_id;
  INSERT INTO dp_int.dataset_grant (dataset, principal, grantee, epsilon, cap)
  VALUES (d.id, grantee_id, dp_grant.grantee, eps, own_cap)
  ON CONFLICT ON CONSTRAINT dataset_grant_pk DO UPDATE SET grantee = excluded.grantee, epsilon = excluded.epsilon, cap = excluded.cap;
  PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), jsonb_build_object('grant',
    jsonb_build_object('grantee', dp_grant.grantee, 'epsilon', eps)));
  PERFORM dp_int.tell_limit(d, dp_grant.grantee, former.epsilon, eps);
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
    PERFORM FROM dp_int.account a WHERE a.id = d.account AND EXISTS (SELECT FROM dp_int.dataset_grant o WHERE o.dataset = d.id) FOR UPDATE;
    DELETE FROM dp_int.dataset_grant o  -- of the role that has this name, or of a dropped role that had it
     WHERE o.dataset = d.id
       AND (o.principal = dp_int.principal_of(dp_revoke.grantee) OR o.grantee = dp_revoke.grantee AND dp_int.role_of(o.principal) IS NULL);
    IF FOUND THEN
      revoked := true;
      PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), jsonb_build_object('revoke', jsonb_build_object('grantee', dp_revoke.grantee)));
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
GRANT EXECUTE ON FUNCTION public.dp_grant, public.dp_revoke TO dp_admin;
