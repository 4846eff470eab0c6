-- Who may ask about a data set, and how much of its budget.

CREATE OR REPLACE FUNCTION public.dp_grant(dataset text, grantee name, epsilon float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d dp_int.dataset;
  a dp_int.account;
  eps numeric;
  own_cap numeric;
BEGIN
  PERFORM dp_int.refuse_copy();
  LOCK TABLE dp_int.account_relation IN SHARE ROW EXCLUSIVE MODE;
  d := dp_int.dataset_of(dp_grant.dataset);
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = dp_grant.grantee) THEN
    RAISE EXCEPTION 'role % does not exist', coalesce('"' || dp_grant.grantee || '"', 'NULL') USING ERRCODE = '42704', HINT = 'Create the role first and make it a member of dp_analyst.';
  END IF;
  IF dp_grant.epsilon IS NOT NULL THEN
    IF NOT (dp_grant.epsilon > 0 AND dp_grant.epsilon < 'Infinity') THEN
      RAISE EXCEPTION 'a personal limit must be a positive finite epsilon, not %', dp_grant.epsilon
        USING ERRCODE = '22023', HINT = 'For instance 1; NULL sets none. dp_revoke takes a grant back.';
    END IF;
    eps := dp_int.exact(dp_grant.epsilon);
    SELECT * INTO STRICT a FROM dp_int.account WHERE id = d.account;
    own_cap := dp_int.positive_cap(a, eps, a.delta);
  END IF;
  INSERT INTO dp_int.dataset_grant (dataset, principal, grantee, epsilon, cap)
  VALUES (d.id, dp_int.admit_principal(dp_grant.grantee), dp_grant.grantee, eps, own_cap)
  ON CONFLICT ON CONSTRAINT dataset_grant_pk DO UPDATE SET grantee = excluded.grantee, epsilon = excluded.epsilon, cap = excluded.cap;
  PERFORM dp_int.ledger_budget(d.account, d.name, session_user, jsonb_build_object('grant',
    jsonb_build_object('grantee', dp_grant.grantee, 'epsilon', eps)));
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
  d dp_int.dataset := dp_int.dataset_of(dp_revoke.dataset);
BEGIN
  PERFORM dp_int.refuse_copy();  -- whose grants and jobs these are is known when roles are bound
  DELETE FROM dp_int.dataset_grant g  -- of the role that has this name, or of a dropped role that had it
   WHERE g.dataset = d.id
     AND (g.principal = dp_int.principal_of(dp_revoke.grantee) OR g.grantee = dp_revoke.grantee AND dp_int.role_of(g.principal) IS NULL);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'data set "%" is not granted to "%"', d.name, dp_revoke.grantee USING ERRCODE = '22023', HINT = 'A grant to a group is taken back from the group.';
  END IF;
  PERFORM dp_int.ledger_budget(d.account, d.name, session_user, jsonb_build_object('revoke', jsonb_build_object('grantee', dp_revoke.grantee)));
  PERFORM dp_int.refuse_ungranted(d);
END $$;
COMMENT ON FUNCTION public.dp_revoke IS 'Takes a grant back: jobs not yet charged are refused. What was spent stays spent. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_grant, public.dp_revoke TO dp_admin;
