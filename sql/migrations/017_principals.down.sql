-- By name again, the last that each was known by: what several roles of one name had
-- becomes one's. Entries of the ledger keep the name of their time.
BEGIN;
SET LOCAL ROLE dp_owner;

UPDATE dp_int.release r SET caller = p.name FROM dp_int.principal p WHERE p.id = r.principal AND p.name <> r.caller;
UPDATE dp_int.job j SET caller = p.name FROM dp_int.principal p WHERE p.id = j.principal AND p.name <> j.caller;
UPDATE dp_int.caller_total t SET caller = p.name FROM dp_int.principal p WHERE p.id = t.principal AND p.name <> t.caller;

ALTER TABLE dp_int.release DROP COLUMN principal;
CREATE INDEX release_by_caller ON dp_int.release (caller, released_at DESC);

ALTER TABLE dp_int.job DROP COLUMN principal;
CREATE INDEX job_by_caller ON dp_int.job (caller, created_at);

UPDATE dp_int.caller_total t
   SET spent = s.spent, proven_epsilon = s.proven
  FROM (SELECT account, caller, sum(spent) AS spent, sum(proven_epsilon) AS proven FROM dp_int.caller_total GROUP BY account, caller) AS s
 WHERE t.account = s.account AND t.caller = s.caller;
DELETE FROM dp_int.caller_total t USING dp_int.caller_total o WHERE o.account = t.account AND o.caller = t.caller AND o.principal < t.principal;
ALTER TABLE dp_int.caller_total DROP COLUMN principal, ADD CONSTRAINT caller_total_pk PRIMARY KEY (account, caller);

-- A role that is gone has left nothing to whoever has its name now.
DELETE FROM dp_int.dataset_grant g USING dp_int.principal p
 WHERE p.id = g.principal
   AND NOT EXISTS (SELECT FROM pg_roles r, pg_control_system() s WHERE r.oid = p.role AND p.cluster = s.system_identifier);
UPDATE dp_int.dataset_grant g SET grantee = r.rolname FROM dp_int.principal p JOIN pg_roles r ON r.oid = p.role WHERE p.id = g.principal;
ALTER TABLE dp_int.dataset_grant DROP COLUMN principal, ADD CONSTRAINT dataset_grant_pk PRIMARY KEY (dataset, grantee);

DROP INDEX dp_int.account_relation_by_relid, dp_int.account_relation_by_name;
ALTER TABLE dp_int.account_relation DROP COLUMN child;

DROP TABLE dp_int.principal;

COMMIT;
