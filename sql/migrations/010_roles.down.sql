BEGIN;

REVOKE SELECT ON dp_int.schema_migrations FROM dp_owner;
SET LOCAL ROLE dp_owner;
DROP SCHEMA dp;
REVOKE ALL ON SCHEMA dp_int FROM dp_loopback, dp_sidecar;
ALTER DEFAULT PRIVILEGES FOR ROLE dp_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
RESET ROLE;
ALTER SCHEMA dp_int OWNER TO CURRENT_USER;

DO $$
DECLARE
  r name;
BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM dp_owner, dp_loopback, dp_sidecar', current_database());
  REVOKE ALL ON SCHEMA public FROM dp_owner;
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dp_dblink') THEN
    REVOKE ALL ON SCHEMA dp_dblink FROM dp_owner;
    REVOKE ALL ON FOREIGN DATA WRAPPER dblink_fdw FROM dp_owner;
  END IF;
  -- A role stays as long as another database or a table's grants still name it.
  FOREACH r IN ARRAY ARRAY['dp_loopback', 'dp_sidecar', 'dp_analyst', 'dp_admin', 'dp_owner'] LOOP
    BEGIN
      EXECUTE format('DROP ROLE %I', r);
    EXCEPTION WHEN dependent_objects_still_exist THEN
      RAISE NOTICE 'role % stays: other objects depend on it', r;
    END;
  END LOOP;
END $$;

COMMIT;
