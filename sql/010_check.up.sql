-- Is everything in place? For whoever installs, and for whoever wonders.
BEGIN;
GRANT SELECT ON dp_int.schema_migrations TO dp_owner;  -- it is the installer's
SET LOCAL ROLE dp_owner;

-- A sidecar of another version keeps away.
CREATE FUNCTION dp_int.schema_version() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT max(version)::int FROM dp_int.schema_migrations $$;

CREATE FUNCTION public.dp_version() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('dpsidecar schema %s on %s', dp_int.schema_version(), current_setting('server_version'))
$$;
COMMENT ON FUNCTION public.dp_version IS 'The version of dpsidecar''s schema in this database.';

CREATE FUNCTION public.dp_check_install() RETURNS TABLE(item text, ok boolean, detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  connection text;
  alive int := dp_int.sidecars_alive();
  r record;
BEGIN
  item := 'the loopback reaches this database as dp_loopback, read-write';
  BEGIN
    connection := dp_int.loopback_open('dp_check');
    SELECT * INTO r
      FROM dp_dblink.dblink(connection, 'SELECT current_user, current_database(), pg_is_in_recovery(), current_setting(''transaction_read_only''), (SELECT oid FROM pg_database WHERE datname = current_database())')
        AS t(who name, db name, recovering boolean, read_only text, db_oid oid);
    PERFORM dp_dblink.dblink_disconnect(connection);
    ok := r.who = 'dp_loopback' AND NOT r.recovering AND r.read_only = 'off'
      AND r.db_oid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database());
    detail := format('%s on database %s, %s', r.who, r.db, CASE WHEN ok THEN 'as it should be' ELSE 'not this database, or not writable: check the options of server dp_loop' END);
  EXCEPTION WHEN OTHERS THEN
    ok := false;
    detail := SQLERRM;
  END;
  RETURN NEXT;

  item := 'a dpsidecar is connected';
  ok := alive > 0;
  detail := CASE alive WHEN 0 THEN 'start one with dpsidecar serve' ELSE format('%s connected', alive) END;
  RETURN NEXT;

  item := 'only dp_owner reaches dblink';
  SELECT string_agg(rolname, ', ') INTO detail
    FROM pg_catalog.pg_roles
   WHERE NOT rolsuper AND rolname IN ('dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar')
     AND EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_extension e ON e.extnamespace = n.oid
                  WHERE e.extname = 'dblink' AND has_schema_privilege(pg_roles.oid, n.oid, 'USAGE'));
  ok := detail IS NULL;
  detail := coalesce(detail || ' can drive a cached loopback: move dblink to schema dp_dblink', 'as it should be');
  RETURN NEXT;

  item := 'roles have no more than they need';
  SELECT string_agg(rolname, ', ') INTO detail
    FROM pg_catalog.pg_roles
   WHERE rolname IN ('dp_owner', 'dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar')
     AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR (rolname IN ('dp_owner', 'dp_admin', 'dp_analyst') AND rolcanlogin));
  ok := detail IS NULL;
  detail := coalesce(detail || ' can do too much', 'as it should be');
  RETURN NEXT;

  -- An overload that fits a call better would run as whoever calls.
  item := 'not everybody can put functions beside dp_*';
  ok := NOT has_schema_privilege('dp_analyst', 'public', 'CREATE');
  detail := CASE WHEN ok THEN 'as it should be' ELSE 'analysts may create in schema public: REVOKE CREATE ON SCHEMA public FROM PUBLIC' END;
  RETURN NEXT;

  item := 'registered relations can be read';
  detail := NULL;
  FOR r IN SELECT d.name, d.relid, d.options FROM dp_int.dataset d WHERE d.unregistered_at IS NULL ORDER BY d.name LOOP
    BEGIN
      PERFORM dp_int.check_relation(r.relid, coalesce((r.options ->> 'total')::boolean, false));
    EXCEPTION WHEN OTHERS THEN
      detail := concat_ws('; ', detail, format('%s: %s', r.name, SQLERRM));
    END;
  END LOOP;
  ok := detail IS NULL;
  detail := coalesce(detail, 'as it should be');
  RETURN NEXT;
END $$;
COMMENT ON FUNCTION public.dp_check_install IS 'Checks the installation item by item and says what to do about what is wrong.';

GRANT EXECUTE ON FUNCTION public.dp_version, public.dp_check_install TO dp_admin, dp_analyst, dp_sidecar;

COMMIT;
