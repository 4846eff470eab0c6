-- dpsidecar: run once per database by a superuser, or on managed Postgres by
-- the administrator (rds_superuser, cloudsqlsuperuser, azure_pg_admin, ...).
-- Afterwards `dpsidecar install` runs as {{installer}}, which needs CREATEROLE
-- and is no superuser.
GRANT CREATE, CONNECT ON DATABASE {{database}} TO {{installer}} WITH GRANT OPTION;
GRANT USAGE, CREATE ON SCHEMA public TO {{installer}} WITH GRANT OPTION;

-- dblink stays in a schema of its own that no analyst can reach.
CREATE SCHEMA IF NOT EXISTS dp_dblink;
REVOKE ALL ON SCHEMA dp_dblink FROM PUBLIC;
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA dp_dblink;
GRANT USAGE ON SCHEMA dp_dblink TO {{installer}} WITH GRANT OPTION;
GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO {{installer}} WITH GRANT OPTION;
