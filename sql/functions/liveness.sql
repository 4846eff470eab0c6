-- Who is there: sidecars that are alive, callers that still wait.

-- A live sidecar has been heard of lately and its session is there. Who a session
-- belongs to cannot be forged. pg_stat_activity is the same for a whole
-- transaction until its copy is thrown away.
CREATE OR REPLACE FUNCTION dp_int.sidecars_alive() RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  RETURN (
    SELECT count(*)::int
      FROM dp_int.worker w
      JOIN pg_catalog.pg_stat_activity s ON s.pid = w.pid AND s.usename = 'dp_sidecar' AND s.datname = current_database()
     WHERE w.last_seen > clock_timestamp() - interval '15 s');
END $$;

CREATE OR REPLACE FUNCTION dp_int.wait_key(p_job uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(p_job::text, 1685082948) $$;

-- Does the caller of a waited job still wait? Only a loopback session counts.
CREATE OR REPLACE FUNCTION dp_int.awaited(p_job uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  RETURN (
    SELECT EXISTS (
      SELECT FROM pg_catalog.pg_locks l
        JOIN pg_catalog.pg_stat_activity s ON s.pid = l.pid AND s.usename = dp_int.loopback_role()
       WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
         AND (l.classid::bigint << 32) | l.objid::bigint = dp_int.wait_key(p_job)
         AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())));
END $$;

CREATE OR REPLACE FUNCTION dp_int.job_channel(p_job uuid) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'dp_job_' || replace(p_job::text, '-', '') $$;
