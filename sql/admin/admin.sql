-- dpsidecar: run once per database by a superuser, or on managed Postgres by
-- the administrator (rds_superuser, cloudsqlsuperuser, azure_pg_admin, ...).
-- Afterwards `dpsidecar install` runs as {{installer}}, which needs CREATEROLE
-- and is no superuser.
SET search_path = pg_catalog, pg_temp;  -- functions of others in public are not called
GRANT CREATE, CONNECT ON DATABASE {{database}} TO {{installer}} WITH GRANT OPTION;
GRANT USAGE, CREATE ON SCHEMA public TO {{installer}} WITH GRANT OPTION;

-- dblink stays in a schema of its own that no analyst can reach.
CREATE SCHEMA IF NOT EXISTS dp_dblink;
REVOKE ALL ON SCHEMA dp_dblink FROM PUBLIC;
-- Somebody else may have made it before: a superuser takes it, and CREATE there from others.
DO $$
DECLARE
  creator oid;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    RETURN;
  ELSIF NOT (SELECT r.rolsuper FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'dp_dblink') THEN
    ALTER SCHEMA dp_dblink OWNER TO CURRENT_USER;
  END IF;
  FOR creator IN SELECT a.grantee FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) AS a WHERE n.nspname = 'dp_dblink' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner ORDER BY a.grantor <> n.nspowner LOOP
    EXECUTE format('REVOKE CREATE ON SCHEMA dp_dblink FROM %s CASCADE', CASE creator WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(creator)) END);
  END LOOP;
END $$;
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA dp_dblink;
GRANT USAGE ON SCHEMA dp_dblink TO {{installer}} WITH GRANT OPTION;

-- Its functions are nobody else's either: a member of pg_read_all_data has USAGE on every schema. Where they
-- are the provider's this changes nothing, and the server warns. dblink_connect_u is for superusers alone.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = 'dp_dblink'::regnamespace AND proname <> 'dblink_connect_u' LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s WITH GRANT OPTION', f, $installer${{installer}}$installer$);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'everybody may execute the functions of dblink who may use its schema: %', SQLERRM;
END $$;

GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO {{installer}} WITH GRANT OPTION;
RESET search_path;
