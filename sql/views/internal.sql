-- Views that the public ones and the functions build on, and the function by which all of them know who asks.

-- Who asks, or reads a view of dpsidecar: who logged in. Not within ANALYZE, VACUUM, CREATE INDEX, REINDEX, CLUSTER
-- and REFRESH MATERIALIZED VIEW, unless he runs them on what is his: there functions of an owner run with the owner's
-- rights, while session_user is who runs the command, and in an autovacuum worker the first superuser. The server
-- refuses CLOSE there, as it could close what the other reads; elsewhere this closes a cursor of its own, also in
-- read-only transactions and on a standby, and leaves nothing in the transaction. (UNLISTEN is refused there too; but
-- where the session listens, a transaction with it cannot be prepared.) In the functions that run as dp_owner who is
-- the owner cannot be seen: these refuse in any case. With the rights of its caller, and for everybody, because views
-- call it.
CREATE OR REPLACE FUNCTION dp.caller() RETURNS name
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own refcursor;
BEGIN
  IF current_user <> session_user THEN
    -- One name, as pg_stat_statements would count each as a statement of its own; another where a cursor of the caller's has it.
    own := (SELECT 'dpsidecar: who asks' WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_cursors c WHERE c.name = 'dpsidecar: who asks'));
    OPEN own FOR SELECT;
    EXECUTE format('CLOSE %I', own);
  END IF;
  RETURN session_user;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION 'dpsidecar answers nobody within ANALYZE, VACUUM, CREATE INDEX, REINDEX, CLUSTER and REFRESH MATERIALIZED VIEW, which run functions of owners in the session of somebody else'
    USING ERRCODE = '42501', HINT = 'Ask outside of them. A materialized view may show views of schema dp, such as dp.coefficients, but not dp.blocks, where its owner makes and refreshes it, logged in as such and not by SET ROLE. No privacy budget was spent.';
END $$;
COMMENT ON FUNCTION dp.caller IS 'Whose requests, grants and jobs are meant: who logged in.';
GRANT EXECUTE ON FUNCTION dp.caller TO PUBLIC;

CREATE OR REPLACE VIEW dp_int.rounding AS
  SELECT d.id AS dataset, CASE WHEN b.epsilon > 0 AND b.epsilon < 1 THEN ('1e' || 5 - floor(log(b.epsilon)))::numeric ELSE 1e6 END AS per
    FROM dp_int.dataset d
    JOIN dp_int.account a ON a.id = d.account
   CROSS JOIN LATERAL (SELECT least(a.epsilon, d.epsilon)) AS b(epsilon);
COMMENT ON VIEW dp_int.rounding IS 'How many units an epsilon has to which views round, as dp_int.rounded_outward does: six digits of a budget below 1, six decimals of a larger one.';

CREATE OR REPLACE VIEW dp_int.ladder AS SELECT 1.5::float8 AS growth;
COMMENT ON VIEW dp_int.ladder IS 'The ratio of consecutive steps of the ladder of a job, ladderGrowth of the sidecar. A view, because views call no function.';

-- The stage of a job, in words and times that do not depend on values. While a job reads, the time is the
-- next step of its ladder: the least k for which first_step * growth^k after read_at is in the future.
CREATE OR REPLACE VIEW dp_int.stage AS
  SELECT j.id AS job,
         CASE WHEN j.state = 'queued' AND j.follows IS NOT NULL THEN 'waiting for an identical request'
              WHEN j.state = 'claimed' THEN 'planning'
              WHEN j.state = 'reading' AND j.sqlstate IS NOT NULL AND j.lease_until IS NULL THEN 'charged, out of time'
              WHEN j.state = 'reading' AND j.sqlstate IS NOT NULL THEN 'charged, waiting to read'
              WHEN j.state = 'reading' THEN 'charged, running'
              ELSE j.state END AS stage,
         CASE WHEN j.state = 'reading' AND j.sqlstate IS NULL THEN j.read_at + j.first_step * power(l.growth, least(n.k, j.last_step)) END AS expected_at
    FROM dp_int.job j
   CROSS JOIN dp_int.ladder l
   CROSS JOIN LATERAL (
     SELECT extract(epoch FROM clock_timestamp() - j.read_at)::float8 / nullif(extract(epoch FROM j.first_step), 0)::float8 AS passed) AS t
   CROSS JOIN LATERAL (
     SELECT CASE WHEN t.passed > 1 THEN ceil(ln(t.passed) / ln(l.growth)) ELSE 0 END AS k) AS n;
COMMENT ON VIEW dp_int.stage IS 'The stage of every job, as dp.jobs and waiting callers show it but for the number of jobs ahead, and when it may be done.';

-- Computed in one pass over all active jobs: join it for many jobs. For a single one
-- dp_int.with_place counts the jobs before it, which costs less.
CREATE OR REPLACE VIEW dp_int.place AS
  SELECT id AS job, count(*) OVER (PARTITION BY caller ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ahead
    FROM dp_int.job
   WHERE follows IS NULL AND (state IN ('queued', 'claimed', 'charged') OR state = 'reading' AND sqlstate IS NULL);
COMMENT ON VIEW dp_int.place IS 'How many jobs of the same caller are ahead of each that is active. Callers are served in turn.';

CREATE OR REPLACE VIEW dp_int.status AS
  SELECT j.id, j.model, d.name AS dataset, j.eps, j.delta,
         CASE WHEN j.state IN ('claimed', 'charged', 'reading') THEN 'running' ELSE j.state END AS status,
         s.stage, j.sqlstate, j.message AS error, j.created_at, j.finished_at, j.hint, j.release, s.expected_at, j.caller::text AS caller, j.request, j.principal
    FROM dp_int.job j
    JOIN dp_int.stage s ON s.job = j.id
    JOIN dp_int.dataset d ON d.id = j.dataset;
COMMENT ON VIEW dp_int.status IS 'What dp.jobs shows, but for the number of jobs ahead.';

CREATE OR REPLACE VIEW dp_int.me AS
  SELECT p.id AS principal
    FROM dp_int.principal p
    JOIN pg_catalog.pg_roles r ON r.oid = p.role
   WHERE r.rolname = (SELECT dp.caller()) AND p.cluster = (SELECT system_identifier FROM pg_control_system());
COMMENT ON VIEW dp_int.me IS 'dp_int.principal_of for whoever is logged in.';

CREATE OR REPLACE VIEW dp_int.my_grant AS
  SELECT DISTINCT ON (g.dataset) g.dataset, g.epsilon, g.cap
    FROM dp_int.dataset_grant g
    JOIN dp_int.principal p ON p.id = g.principal AND p.cluster = (SELECT system_identifier FROM pg_control_system())
    JOIN pg_catalog.pg_roles r ON r.oid = p.role
   WHERE pg_has_role((SELECT dp.caller()), r.oid, 'USAGE')
   ORDER BY g.dataset, r.rolname <> (SELECT dp.caller()), g.epsilon DESC NULLS FIRST;
COMMENT ON VIEW dp_int.my_grant IS 'dp_int.grant_of for whoever is logged in.';
