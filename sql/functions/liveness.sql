-- Which sidecars are alive, and which callers still wait for an answer.

-- The time for which a sidecar counts as alive without a heartbeat: three heartbeats. livesFor in package
-- job is the same.
CREATE OR REPLACE FUNCTION dp_int.liveness_period() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '15 s' $$;

-- The number of sidecars that are alive: each has sent a heartbeat within the period, and its session is
-- connected as dp_sidecar, which no other role can imitate. pg_stat_activity does not change within a
-- transaction unless its snapshot is cleared.
CREATE OR REPLACE FUNCTION dp_int.sidecars_alive() RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  RETURN (
    SELECT count(*)::int
      FROM dp_int.worker w
      JOIN pg_catalog.pg_stat_activity s ON s.pid = w.pid AND s.usename = 'dp_sidecar' AND s.datname = current_database()
     WHERE w.last_seen > clock_timestamp() - dp_int.liveness_period());
END $$;

-- The key of the advisory lock that the loopback of a waiting caller holds. The seed of the hash, the
-- bytes 'dpSD', separates it from the locks of other programs on hashed names.
CREATE OR REPLACE FUNCTION dp_int.wait_key(p_job uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(p_job::text, 1685082948) $$;

-- Does the caller of a synchronous job still wait? Then a session of the loopback role holds the job's
-- advisory lock. Locks of other roles' sessions do not count, because anybody can take one with this key.
-- pg_locks shows a key in two halves.
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

-- The channel on which callers who wait for a job are notified.
CREATE OR REPLACE FUNCTION dp_int.job_channel(p_job uuid) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'dp_job_' || replace(p_job::text, '-', '') $$;
