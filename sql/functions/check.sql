-- Checks of the installation, for operators and stewards.

-- Sidecars compare this with their own version, and refuse to work with another.
CREATE OR REPLACE FUNCTION dp_int.schema_version() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT max(version)::int FROM dp_int.schema_migrations $$;

CREATE OR REPLACE FUNCTION public.dp_version() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('dpsidecar %s, schema %s with functions %s on %s', c.version, dp_int.schema_version(), c.fingerprint, current_setting('server_version'))
    FROM dp_int.installed_code c
$$;
COMMENT ON FUNCTION public.dp_version IS 'The version of dpsidecar''s schema in this database, and the fingerprint of its functions and views.';

-- A hash of the current functions, views and triggers, in a form that does not depend on the caller.
CREATE OR REPLACE FUNCTION dp_int.code_hash() RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET intervalstyle = postgres AS $$
  SELECT sha256(convert_to(string_agg(object, E'\n' ORDER BY object COLLATE "C"), 'UTF8'))
    FROM (
      SELECT concat_ws('|', p.oid::regprocedure, p.proowner::regrole, p.prosecdef, p.provolatile, p.proconfig, pg_get_function_result(p.oid), p.prosrc,
                       pg_get_function_sqlbody(p.oid), (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(p.proacl) AS a
                                                         WHERE a::text ~ '^(dp_(analyst|admin|loopback|sidecar))?='))
        FROM pg_catalog.pg_proc p
       WHERE p.pronamespace IN ('dp'::regnamespace, 'dp_int'::regnamespace)
          OR p.pronamespace = 'public'::regnamespace AND p.proowner = 'dp_owner'::regrole
      UNION ALL
      SELECT concat_ws('|', c.oid::regclass, c.relowner::regrole, c.reloptions, pg_get_viewdef(c.oid))
        FROM pg_catalog.pg_class c
       WHERE c.relkind = 'v' AND c.relnamespace IN ('dp'::regnamespace, 'dp_int'::regnamespace)
      UNION ALL
      SELECT concat_ws('|', pg_get_triggerdef(t.oid), t.tgenabled)
        FROM pg_catalog.pg_trigger t
        JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
       WHERE NOT t.tgisinternal AND c.relnamespace = 'dp_int'::regnamespace
    ) AS objects(object)
$$;

-- Does pg_stat_statements count the statements of dp_sidecar? A setting of the role in this database goes before that of
-- the role, of the database, of all roles, and of the server.
CREATE OR REPLACE FUNCTION dp_int.statements_tracked() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM pg_catalog.pg_settings g  -- shows no setting of what is not loaded
     WHERE g.name = 'pg_stat_statements.track'
       AND 'none' <> coalesce((SELECT split_part(setting, '=', 2)
                                 FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS setting
                                WHERE s.setrole IN (0, 'dp_sidecar'::regrole) AND s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
                                  AND split_part(setting, '=', 1) = g.name
                                ORDER BY s.setrole = 0, s.setdatabase = 0
                                LIMIT 1), g.reset_val));
END $$;

-- May a role read the numbers of others' statements in this database?
CREATE OR REPLACE FUNCTION dp_int.sees_statements(p_role oid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM pg_catalog.pg_extension e
                   JOIN pg_catalog.pg_proc p ON p.pronamespace = e.extnamespace AND p.proname = 'pg_stat_statements'
                  WHERE e.extname = 'pg_stat_statements' AND has_schema_privilege(p_role, e.extnamespace, 'USAGE') AND has_function_privilege(p_role, p.oid, 'EXECUTE'))
$$;

CREATE OR REPLACE FUNCTION public.dp_check_install() RETURNS TABLE(item text, ok boolean, detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  connection text;
  copy CONSTANT boolean := dp_int.is_copy();
  alive int := dp_int.sidecars_alive();
  tracked CONSTANT boolean := dp_int.statements_tracked();
  r record;
  d dp_int.dataset;
BEGIN
  item := 'the loopback reaches this database, read-write';
  BEGIN
    connection := dp_int.loopback_open('dp_check');
    SELECT * INTO r
      FROM dp_dblink.dblink(connection, format('SELECT current_user, current_database(), current_setting(''transaction_read_only''), dp_int.elsewhere(%L)', dp_int.here()))
        AS t(who name, db name, read_only text, elsewhere text);
    PERFORM dp_dblink.dblink_disconnect(connection);
    ok := r.elsewhere IS NULL AND r.read_only = 'off';
    detail := format('%s on database %s, %s', r.who, r.db,
      CASE WHEN ok THEN 'as it should be'
           WHEN copy THEN 'which is that of the original: dpsidecar adopt leads it here'
           ELSE format('which is %s: run dpsidecar install, with --loopback-host and --loopback-port if they are not 127.0.0.1 and the server''s own', coalesce(r.elsewhere, 'not writable')) END);
  EXCEPTION WHEN OTHERS THEN
    ok := false;
    detail := CASE WHEN copy THEN 'dpsidecar adopt makes it: ' ELSE '' END || SQLERRM;
  END;
  RETURN NEXT;

  item := 'the database is the one that was installed, no copy of it';
  ok := NOT copy;
  detail := CASE WHEN ok THEN 'as it should be' ELSE 'run dpsidecar adopt: until then nothing is answered' END;
  RETURN NEXT;

  item := 'a dpsidecar is connected';
  ok := alive > 0;
  detail := CASE alive WHEN 0 THEN 'start one with dpsidecar serve' ELSE format('%s connected', alive) END;
  RETURN NEXT;

  item := 'only dp_owner reaches dblink';
  SELECT string_agg(rolname, ', ' ORDER BY rolname) INTO detail
    FROM pg_catalog.pg_roles
   WHERE NOT rolsuper AND (rolname IN ('dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar') OR pg_has_role(oid, 'dp_analyst', 'MEMBER') AND NOT pg_has_role(oid, 'dp_owner', 'MEMBER'))
     AND dp_int.reaches_dblink(oid);
  ok := detail IS NULL;
  detail := CASE
    WHEN NOT ok AND to_regprocedure('dp_dblink.dblink(text,text)') IS NULL THEN
      detail || ' may call dblink, and with it a loopback connection that a session keeps: ALTER EXTENSION dblink SET SCHEMA dp_dblink'
    WHEN NOT ok THEN
      detail || ' may call dblink: let a superuser run dpsidecar install, which takes EXECUTE on it from everybody, or take away the role that has USAGE on schema dp_dblink, such as pg_read_all_data. Until then no session of theirs keeps a loopback connection'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = to_regnamespace('dp_dblink') AND p.proname <> 'dblink_connect_u' AND has_function_privilege('public', p.oid, 'EXECUTE')) THEN
      'as it should be; everybody may execute its functions who has USAGE on schema dp_dblink, as pg_read_all_data has: let their owner run the administrator''s script (dpsidecar install --print-sql), and then run dpsidecar install'
    ELSE 'as it should be' END;
  RETURN NEXT;

  item := 'analysts see no numbers of dp_sidecar''s statements';
  SELECT string_agg(CASE analyst.rolname WHEN 'dp_analyst' THEN 'every analyst' ELSE analyst.rolname END, ', ' ORDER BY analyst.rolname <> 'dp_analyst', analyst.rolname) INTO detail
    FROM pg_catalog.pg_roles analyst
   WHERE tracked AND NOT analyst.rolsuper AND pg_has_role(analyst.oid, 'dp_analyst', 'MEMBER') AND NOT pg_has_role(analyst.oid, 'dp_owner', 'MEMBER')
     AND (analyst.rolname = 'dp_analyst' OR NOT dp_int.sees_statements('dp_analyst'::regrole)) AND dp_int.sees_statements(analyst.oid);
  ok := detail IS NULL;
  detail := CASE
    WHEN NOT ok THEN format('%s may read in pg_stat_statements how many rows each of them returned, which is private where there is a unit or block_rows. Let a superuser ALTER ROLE dp_sidecar SET pg_stat_statements.track = ''none'', restart dpsidecar serve, '
      'and SELECT pg_stat_statements_reset(''dp_sidecar''::regrole). Or REVOKE EXECUTE ON FUNCTION pg_stat_statements FROM PUBLIC, and from these roles', detail)
    WHEN tracked THEN 'as far as this database shows; but pg_stat_statements counts them, and whoever may read it in another database of the server sees how many rows they returned. Let a superuser ALTER ROLE dp_sidecar SET pg_stat_statements.track = ''none'''
    ELSE 'as it should be' END;
  RETURN NEXT;

  item := 'the roles dp_* have no rights that they do not need';
  SELECT string_agg(rolname, ', ') INTO detail
    FROM pg_catalog.pg_roles
   WHERE rolname IN ('dp_owner', 'dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar')
     AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR (rolname IN ('dp_owner', 'dp_admin', 'dp_analyst') AND rolcanlogin));
  ok := detail IS NULL;
  detail := coalesce(detail || ': take away SUPERUSER, CREATEROLE, CREATEDB, REPLICATION and BYPASSRLS, and LOGIN but for dp_loopback and dp_sidecar', 'as it should be');
  RETURN NEXT;

  -- Since Postgres 16 whoever with CREATEROLE makes a role may grant it, also one of these names before an installation.
  item := 'dp_sidecar and the loopback are nobody else''s';
  SELECT string_agg(format('%I may become or grant %s', m.rolname, mine.rolname), ', ' ORDER BY m.rolname, mine.rolname) INTO detail
    FROM pg_catalog.pg_roles mine
    JOIN pg_catalog.pg_roles m ON m.oid <> mine.oid AND NOT m.rolsuper AND pg_has_role(m.oid, mine.oid, 'MEMBER') AND NOT pg_has_role(m.oid, 'dp_owner', 'MEMBER')
                              AND NOT (mine.rolname = 'dp_loopback' AND m.rolname ~ '^dp_loopback_[0-9]+$' AND NOT pg_has_role(m.oid, mine.oid, 'MEMBER WITH ADMIN OPTION'))
   WHERE mine.rolname ~ '^dp_(sidecar|loopback(_[0-9]+)?)$';
  ok := detail IS NULL;
  detail := coalesce(detail || '. As dp_sidecar they could read registered tables, as a loopback ask in anybody''s name: REVOKE it from them',
    concat_ws('; ', 'as it should be', (
      SELECT format('beside superusers %s may become dp_owner, who is trusted with everything', string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname))
        FROM pg_catalog.pg_roles m WHERE NOT m.rolsuper AND m.rolname <> 'dp_owner' AND pg_has_role(m.oid, 'dp_owner', 'MEMBER') HAVING count(*) > 0), (
      SELECT format('%s may make stewards', string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname))
        FROM pg_catalog.pg_roles m WHERE NOT m.rolsuper AND NOT pg_has_role(m.oid, 'dp_owner', 'MEMBER') AND pg_has_role(m.oid, 'dp_admin', 'MEMBER WITH ADMIN OPTION') HAVING count(*) > 0)));
  RETURN NEXT;

  -- What somebody else creates there could fit a call of the sidecar, or of dp_owner's, better than ours.
  item := 'nobody else creates anything in the schemas of dpsidecar';
  SELECT string_agg(format('%s in schema %I', creators.names, creators.nspname), ', ' ORDER BY creators.nspname) INTO detail
    FROM (SELECT n.nspname, CASE WHEN has_schema_privilege('public', n.oid, 'CREATE') THEN 'everybody' ELSE string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) END
            FROM pg_catalog.pg_namespace n
            LEFT JOIN pg_catalog.pg_roles m ON NOT m.rolsuper AND has_schema_privilege(m.oid, n.oid, 'CREATE') AND NOT pg_has_role(m.oid, 'dp_owner', 'MEMBER')
                                           AND NOT (n.nspname = 'dp_dblink' AND pg_has_role(m.oid, n.nspowner, 'MEMBER')  -- administrators of a managed server
                                                    AND (SELECT o.rolcreaterole OR o.rolsuper FROM pg_catalog.pg_roles o WHERE o.oid = n.nspowner))
           WHERE n.nspname IN ('dp', 'dp_int', 'dp_dblink')
           GROUP BY n.oid, n.nspname) AS creators(nspname, names)
   WHERE creators.names IS NOT NULL;
  ok := detail IS NULL;
  detail := coalesce(detail || ' can: a function of theirs could run as dp_sidecar or dp_owner. Let a superuser run dpsidecar install, which takes that away', 'as it should be');
  RETURN NEXT;

  item := 'the server tells its system identifier';  -- it tells a copy in another cluster, and whose roles are meant
  SELECT string_agg(role, ', ') INTO detail
    FROM unnest(ARRAY['dp_owner', 'dp_admin', 'dp_analyst', 'dp_sidecar']) AS role
   WHERE NOT has_function_privilege(role, 'pg_catalog.pg_control_system()', 'EXECUTE');
  ok := detail IS NULL;
  detail := coalesce('not to ' || detail || ': GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO PUBLIC. Until then nothing is answered', 'as it should be');
  RETURN NEXT;

  -- An overload that fits a call better would run with the rights of the caller.
  item := 'analysts cannot create functions in schema public, beside dp_*';
  ok := NOT has_schema_privilege('dp_analyst', 'public', 'CREATE');
  SELECT format('they cannot, but %s can: a function of theirs that fits a call of an analyst or a steward better runs with the rights of that caller. If they are not trusted with these rights, give their tables another schema, and REVOKE CREATE ON SCHEMA public', string_agg(creator.rolname, ', ' ORDER BY creator.rolname)) INTO detail
    FROM pg_catalog.pg_roles creator
   WHERE NOT creator.rolsuper AND creator.oid >= 16384 AND NOT pg_has_role(creator.oid, 'dp_owner', 'MEMBER') AND has_schema_privilege(creator.oid, 'public', 'CREATE')
  HAVING count(*) > 0;
  detail := CASE WHEN NOT ok THEN 'they can, and such a function could be called in place of ours: REVOKE CREATE ON SCHEMA public FROM PUBLIC' ELSE coalesce(detail, 'as it should be') END;
  RETURN NEXT;

  -- Readers are logged in there with the keys of their own login, if the server wants it: see dp_int.logs_in_as_reader.
  item := 'no foreign server logs in as who reads it';
  ok := true;
  SELECT format('as far as is known; but %s may make foreign servers: whoever reads a foreign table of one, an analyst or a steward too, can be logged in there and, by it, here. Let them read none of theirs, nor views over them', dp_int.first_few(array_agg(quote_ident(maker.rolname) ORDER BY maker.rolname))) INTO detail
    FROM pg_catalog.pg_roles maker
   WHERE current_setting('server_version_num')::int >= 180000 AND NOT maker.rolsuper AND maker.oid >= 16384 AND NOT pg_has_role(maker.oid, 'dp_owner', 'MEMBER')
     AND EXISTS (SELECT FROM pg_catalog.pg_foreign_data_wrapper w JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler AND h.prosrc = 'postgres_fdw_handler'
                  WHERE has_foreign_data_wrapper_privilege(maker.oid, w.oid, 'USAGE') OR EXISTS (SELECT FROM pg_catalog.pg_foreign_server s WHERE s.srvfdw = w.oid AND s.srvowner = maker.oid))
  HAVING count(*) > 0;
  detail := coalesce(detail, 'as it should be');
  RETURN NEXT;

  item := 'functions and views are those that were installed';
  ok := dp_int.code_hash() IS NOT DISTINCT FROM (SELECT objects FROM dp_int.installed_code);
  detail := CASE WHEN ok THEN 'as it should be' WHEN copy THEN 'a restored copy prints some differently: dpsidecar adopt puts them in place whole' ELSE 'somebody has changed one, or another major version of Postgres prints it differently: run dpsidecar migrate up, which puts them in place whole' END;
  RETURN NEXT;

  item := 'registered relations can be read';
  detail := NULL;
  FOR d IN SELECT n.* FROM dp_int.dataset n WHERE n.unregistered_at IS NULL ORDER BY n.name LOOP
    BEGIN
      PERFORM dp_int.refuse_changed(d);
      IF (d.options ->> 'total')::boolean THEN
        PERFORM dp_int.refuse_other_definition(d.relid, d.definition);
        PERFORM dp_int.refuse_other_parts(d.relid, d.foreign_parts);
      END IF;
    EXCEPTION WHEN OTHERS THEN
      detail := concat_ws('; ', detail, format('%s: %s', d.name, SQLERRM));
    END;
  END LOOP;
  ok := detail IS NULL;
  detail := coalesce(CASE WHEN copy THEN 'dpsidecar adopt binds them to the relations of this database, by name; until then ' ELSE '' END || detail, 'as it should be');
  RETURN NEXT;

  item := 'who owns registered relations';
  ok := true;
  detail := coalesce(CASE WHEN NOT copy THEN dp_int.several_owners(NULL) || ' (superusers are not listed): each could read what dp_sidecar reads of the others, though not unseen, by an index that he makes while a job reads his table. If they do not trust each other, give each a database of his own' END, 'as it should be');
  RETURN NEXT;
END $$;
COMMENT ON FUNCTION public.dp_check_install IS 'Checks the installation item by item and says what to do about what is wrong.';
GRANT EXECUTE ON FUNCTION public.dp_version, public.dp_check_install TO dp_admin, dp_analyst, dp_sidecar;
