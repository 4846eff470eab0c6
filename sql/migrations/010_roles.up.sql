-- Roles are cluster-wide: a neighbouring database may have made them already.
-- No password stands in a migration; `dpsidecar install` sets them.
BEGIN;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_owner') THEN
    CREATE ROLE dp_owner NOLOGIN;
    COMMENT ON ROLE dp_owner IS 'dpsidecar: owns schemas dp and dp_int; nobody logs in as it';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_admin') THEN
    CREATE ROLE dp_admin NOLOGIN;
    COMMENT ON ROLE dp_admin IS 'dpsidecar: privacy officers; they register data sets, set budgets, read the ledger';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_analyst') THEN
    CREATE ROLE dp_analyst NOLOGIN;
    COMMENT ON ROLE dp_analyst IS 'dpsidecar: analysts; they ask for releases on data sets granted to them';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_loopback') THEN
    CREATE ROLE dp_loopback LOGIN;
    COMMENT ON ROLE dp_loopback IS 'dpsidecar: how a synchronous call enqueues outside its caller''s transaction';
    ALTER ROLE dp_loopback SET search_path = pg_catalog;
    ALTER ROLE dp_loopback SET statement_timeout = '5s';
    ALTER ROLE dp_loopback SET lock_timeout = '3s';
    ALTER ROLE dp_loopback SET idle_in_transaction_session_timeout = '5s';
    ALTER ROLE dp_loopback SET idle_session_timeout = '10min';
    ALTER ROLE dp_loopback SET default_transaction_isolation = 'read committed';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_sidecar') THEN
    CREATE ROLE dp_sidecar LOGIN;
    COMMENT ON ROLE dp_sidecar IS 'dpsidecar: the sidecar; it reads registered tables and advances jobs through functions';
    ALTER ROLE dp_sidecar SET search_path = pg_catalog;
    -- breaks the deadlock of a caller that holds a lock the pull needs
    ALTER ROLE dp_sidecar SET lock_timeout = '5s';
  END IF;

  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    IF current_setting('server_version_num')::int >= 160000 THEN
      EXECUTE 'GRANT dp_owner TO CURRENT_USER WITH INHERIT TRUE, SET TRUE';
    ELSE
      GRANT dp_owner TO CURRENT_USER;
    END IF;
  END IF;

  EXECUTE format('GRANT CREATE, CONNECT ON DATABASE %I TO dp_owner', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO dp_loopback, dp_sidecar', current_database());
  GRANT USAGE, CREATE ON SCHEMA public TO dp_owner;
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dp_dblink') THEN
    GRANT USAGE ON SCHEMA dp_dblink TO dp_owner;
    GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO dp_owner;
  END IF;
END $$;

ALTER SCHEMA dp_int OWNER TO dp_owner;
GRANT SELECT ON dp_int.schema_migrations TO dp_owner;  -- it is the installer's
SET LOCAL ROLE dp_owner;
-- The global form: the per-schema form cannot take back the built-in default.
ALTER DEFAULT PRIVILEGES FOR ROLE dp_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
CREATE SCHEMA dp;
COMMENT ON SCHEMA dp IS 'dpsidecar: data sets, budgets, jobs, releases, coefficients, ledger';
COMMENT ON SCHEMA dp_int IS 'dpsidecar: internals; nothing here is for people';
GRANT USAGE ON SCHEMA dp TO dp_analyst, dp_admin;
GRANT USAGE ON SCHEMA dp_int TO dp_loopback, dp_sidecar;

COMMIT;
