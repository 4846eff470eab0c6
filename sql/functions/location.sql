-- Whether this is the database that dpsidecar was installed in, or a copy of it; and whether the loopback
-- reaches the database that it was opened in, or another one.

-- The cluster's identity, NULL where the server does not reveal it. Everybody may execute
-- pg_control_system unless that right has been revoked.
CREATE OR REPLACE FUNCTION dp_int.system_identifier() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT s.system_identifier FROM pg_catalog.pg_control_system() AS s);
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- The timeline of this server's write-ahead log, NULL on a standby and where the server does not reveal it.
-- Everybody may execute the two functions unless that right has been revoked.
CREATE OR REPLACE FUNCTION dp_int.timeline() RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- Was a standby promoted to be this server, since jobs last ran here? Then jobs may be under way that the
-- former primary has finished: the last of what it committed may not have come here.
CREATE OR REPLACE FUNCTION dp_int.promoted() RETURNS boolean
LANGUAGE sql VOLATILE AS $$ SELECT EXISTS (SELECT FROM dp_int.location l WHERE l.timeline <> dp_int.timeline()) $$;

-- The role with which the loopback logs in, one for each database of a cluster.
CREATE OR REPLACE FUNCTION dp_int.loopback_role() RETURNS name
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT substr(option, length('user=') + 1)::name
            FROM pg_catalog.pg_user_mappings AS m, unnest(m.umoptions) AS option
           WHERE m.srvname = 'dp_loop' AND m.usename = 'dp_owner' AND option LIKE 'user=%');
END $$;

-- The server and database in which this is executed. started, the time at which the server started,
-- differs between servers whose files are copies of one another, and between a standby and its primary.
CREATE OR REPLACE FUNCTION dp_int.here() RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN jsonb_build_object(
    'system', dp_int.system_identifier(),
    'database', (SELECT oid::text FROM pg_catalog.pg_database WHERE datname = current_database()),
    'anchor', 'dp_int.location'::regclass::oid::text,
    'installation', (SELECT installation FROM dp_int.location),
    'started', extract(epoch FROM pg_postmaster_start_time()),
    'standby', pg_is_in_recovery());
END $$;

-- Returns whether this database is a copy. That is so also if no location is recorded although there are
-- accounts: it was left out of a dump, or lost. False on a standby of the recorded location.
CREATE OR REPLACE FUNCTION dp_int.is_copy() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM dp_int.location AS l
     WHERE l.anchor <> 'dp_int.location'::regclass
        OR l.database <> (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
        OR l.system_identifier <> dp_int.system_identifier())
      OR NOT EXISTS (SELECT FROM dp_int.location) AND EXISTS (SELECT FROM dp_int.account);
END $$;

CREATE OR REPLACE FUNCTION dp_int.refuse_copy() RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF dp_int.is_copy() THEN
    RAISE EXCEPTION 'database "%" is a copy of the one that dpsidecar was installed in', current_database()
      USING ERRCODE = 'DP003', HINT = 'Let its administrator run dpsidecar adopt, which binds what is registered to the relations of this database. No privacy budget was spent.';
  END IF;
END $$;

-- Records the location of the installation: the first time, and as long as nothing is registered, for
-- then a copy is equivalent to the original. A database without a recorded location in which the names of
-- known relations all belong to other OIDs was restored from a dump: it is a copy.
CREATE OR REPLACE FUNCTION dp_int.record_location() RETURNS void
LANGUAGE plpgsql VOLATILE SET quote_all_identifiers = off AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.location)
     AND (SELECT bool_and(c.oid <> r.relid) FROM dp_int.account_relation r JOIN dp_int.named_relations() c ON c.name = r.relation) THEN
    INSERT INTO dp_int.location (database, anchor) VALUES (0, 0);
  ELSIF NOT EXISTS (SELECT FROM dp_int.location) OR dp_int.is_copy() AND NOT EXISTS (SELECT FROM dp_int.account) THEN
    PERFORM dp_int.move_here();
  END IF;
  UPDATE dp_int.location SET timeline = dp_int.timeline() WHERE timeline IS NULL;
END $$;

CREATE OR REPLACE FUNCTION dp_int.move_here() RETURNS void
LANGUAGE sql VOLATILE AS $$
  DELETE FROM dp_int.location;
  INSERT INTO dp_int.location (system_identifier, database, anchor, timeline)
  SELECT dp_int.system_identifier(), oid, 'dp_int.location'::regclass, dp_int.timeline() FROM pg_catalog.pg_database WHERE datname = current_database();
$$;

-- Executed through the loopback: the reason why it does not lead to the right database, NULL if it does.
-- p_from is the dp_int.here() of the session that opened it. From a primary it must lead to the same
-- database, from a standby to that of its primary.
CREATE OR REPLACE FUNCTION dp_int.elsewhere(p_from jsonb) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  here CONSTANT jsonb := dp_int.here();
BEGIN
  RETURN CASE
    WHEN p_from IS NULL OR p_from ->> 'system' <> here ->> 'system' THEN 'a database of another cluster'
    WHEN p_from ->> 'database' IS DISTINCT FROM here ->> 'database' OR p_from ->> 'anchor' IS DISTINCT FROM here ->> 'anchor' THEN 'another database of this cluster'
    WHEN p_from -> 'installation' IS DISTINCT FROM here -> 'installation' THEN 'a database of which this one is a copy'
    WHEN (here ->> 'standby')::boolean THEN 'a standby'
    WHEN NOT (p_from ->> 'standby')::boolean AND p_from -> 'started' IS DISTINCT FROM here -> 'started' THEN 'another server, with a copy of this one''s files'
    WHEN session_user IS DISTINCT FROM dp_int.loopback_role() THEN 'this database as a role that is not its own'
  END;
END $$;

CREATE OR REPLACE FUNCTION dp_int.refuse_elsewhere(p_from jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  where_it_is CONSTANT text := dp_int.elsewhere(p_from);
BEGIN
  IF where_it_is IS NOT NULL THEN
    RAISE EXCEPTION 'the loopback connection of dpsidecar reaches %', where_it_is
      USING ERRCODE = 'DP003',
            HINT = 'Let its administrator run dpsidecar install, or dpsidecar adopt where this database is a copy: they make the loopback reach it. No privacy budget was spent.';
  END IF;
END $$;
GRANT EXECUTE ON FUNCTION dp_int.elsewhere TO dp_loopback;
