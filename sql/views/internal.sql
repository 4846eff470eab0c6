-- What views for people are made of.

-- Where a job stands, in words that depend on no value.
CREATE OR REPLACE VIEW dp_int.stage AS
  SELECT j.id AS job,
         CASE WHEN j.state = 'queued' AND j.follows IS NOT NULL THEN 'waiting for an identical request'
              WHEN j.state = 'queued' THEN (
                SELECT CASE count(*) WHEN 0 THEN 'queued' ELSE format('queued behind %s', count(*)) END
                  FROM dp_int.job o WHERE o.seq < j.seq AND o.follows IS NULL AND o.state IN ('queued', 'claimed', 'charged', 'reading'))
              WHEN j.state = 'claimed' THEN 'planning'
              WHEN j.state = 'reading' AND j.sqlstate IS NOT NULL THEN 'charged, waiting to read'
              WHEN j.state = 'reading' AND NOT j.pulled THEN 'charged, pulling'
              WHEN j.state = 'reading' THEN 'charged, fitting'
              ELSE j.state END AS stage,
         CASE WHEN j.state = 'reading' AND j.sqlstate IS NULL THEN j.expected_at END AS expected_at
    FROM dp_int.job j;
COMMENT ON VIEW dp_int.stage IS 'The stage of every job, as dp.jobs and waiting callers show it, and when it may be done.';

CREATE OR REPLACE VIEW dp_int.me AS
  SELECT p.id AS principal
    FROM dp_int.principal p
    JOIN pg_catalog.pg_roles r ON r.oid = p.role
   WHERE r.rolname = session_user AND p.cluster = (SELECT system_identifier FROM pg_control_system());
COMMENT ON VIEW dp_int.me IS 'dp_int.principal_of for whoever is logged in.';

CREATE OR REPLACE VIEW dp_int.my_grant AS
  SELECT DISTINCT ON (g.dataset) g.dataset, g.epsilon
    FROM dp_int.dataset_grant g
    JOIN dp_int.principal p ON p.id = g.principal AND p.cluster = (SELECT system_identifier FROM pg_control_system())
    JOIN pg_catalog.pg_roles r ON r.oid = p.role
   WHERE pg_has_role(session_user, r.oid, 'USAGE')
   ORDER BY g.dataset, r.rolname <> session_user, g.epsilon DESC NULLS FIRST;
COMMENT ON VIEW dp_int.my_grant IS 'dp_int.grant_of for whoever is logged in.';
