-- Whoever asks or is granted something is known by the OID of the role, and by its
-- name for display only. Roles of before are those that have the names now. Entries of the
-- ledger stay as they are: the job of a charge says whose it is.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.principal (
  id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT principal_pk PRIMARY KEY,
  cluster bigint NOT NULL,
  role    oid,
  name    name NOT NULL,
  CONSTRAINT principal_role UNIQUE (cluster, role)
);
COMMENT ON TABLE dp_int.principal IS
  'Roles that have asked or were granted something. role: the OID in the cluster of this system identifier, NULL when no role had the name as it was bound; in another cluster it is nobody''s until dpsidecar adopt has bound it by name. name: when it was last heard of, for display.';
INSERT INTO dp_int.principal (cluster, role, name)
SELECT h.system_identifier, r.oid, n.name
  FROM pg_control_system() h,
       (SELECT grantee FROM dp_int.dataset_grant UNION SELECT caller FROM dp_int.caller_total
        UNION SELECT caller FROM dp_int.job UNION SELECT caller FROM dp_int.release) AS n(name)
  LEFT JOIN pg_roles r ON r.rolname = n.name;

ALTER TABLE dp_int.dataset_grant ADD COLUMN principal bigint CONSTRAINT dataset_grant_principal REFERENCES dp_int.principal;
UPDATE dp_int.dataset_grant g SET principal = p.id FROM dp_int.principal p WHERE p.name = g.grantee;
ALTER TABLE dp_int.dataset_grant ALTER COLUMN principal SET NOT NULL,
  DROP CONSTRAINT dataset_grant_pk, ADD CONSTRAINT dataset_grant_pk PRIMARY KEY (dataset, principal);
COMMENT ON TABLE dp_int.dataset_grant IS
  'Who may ask; grantee is the name that the grant was given to. epsilon is the personal limit of each person the grant covers, NULL for none; cap is the same in the account''s unit.';

ALTER TABLE dp_int.caller_total ADD COLUMN principal bigint CONSTRAINT caller_total_principal REFERENCES dp_int.principal;
UPDATE dp_int.caller_total t SET principal = p.id FROM dp_int.principal p WHERE p.name = t.caller;
ALTER TABLE dp_int.caller_total ALTER COLUMN principal SET NOT NULL,
  DROP CONSTRAINT caller_total_pk, ADD CONSTRAINT caller_total_pk PRIMARY KEY (account, principal);
COMMENT ON TABLE dp_int.caller_total IS 'What each principal has spent of an account: the sum of their ledger entries. caller: the name at the first.';

ALTER TABLE dp_int.job ADD COLUMN principal bigint CONSTRAINT job_principal REFERENCES dp_int.principal;
UPDATE dp_int.job j SET principal = p.id FROM dp_int.principal p WHERE p.name = j.caller;
ALTER TABLE dp_int.job ALTER COLUMN principal SET NOT NULL;
DROP INDEX dp_int.job_by_caller;
CREATE INDEX job_by_principal ON dp_int.job (principal, created_at);

ALTER TABLE dp_int.release ADD COLUMN principal bigint CONSTRAINT release_principal REFERENCES dp_int.principal;
UPDATE dp_int.release r SET principal = p.id FROM dp_int.principal p WHERE p.name = r.caller;
ALTER TABLE dp_int.release ALTER COLUMN principal SET NOT NULL;
DROP INDEX dp_int.release_by_caller;
CREATE INDEX release_by_principal ON dp_int.release (principal, released_at DESC);

-- Renames are followed from here on.
ALTER TABLE dp_int.account_relation ADD COLUMN child boolean NOT NULL DEFAULT false;
UPDATE dp_int.account_relation r
   SET child = true
  FROM pg_inherits i
 WHERE i.inhrelid = r.relid AND EXISTS (SELECT FROM dp_int.account_relation o WHERE o.account = r.account AND o.relid = i.inhparent)
   AND NOT EXISTS (SELECT FROM dp_int.dataset d WHERE d.relid = r.relid);
INSERT INTO dp_int.account_relation (account, relid, relation, child)
SELECT r.account, r.relid, format('%I.%I', n.nspname, c.relname), bool_and(r.child)
  FROM dp_int.account_relation r
  JOIN pg_class c ON c.oid = r.relid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE r.current
 GROUP BY r.account, r.relid, n.nspname, c.relname
ON CONFLICT DO NOTHING;
CREATE INDEX account_relation_by_relid ON dp_int.account_relation (relid) WHERE current;
CREATE INDEX account_relation_by_name ON dp_int.account_relation (relation) WHERE current;
COMMENT ON TABLE dp_int.account_relation IS
  'Base relations whose people an account protects, under every name that each was seen with; relid is 0 for what a copy of the database came without. current is false once a steward has declared the population of a relation to be new. child: it came as a partition or child of another.';

-- What needs a statement now, and has none, is not counted before it has one.
UPDATE dp_int.dataset d
   SET row_count = NULL
  FROM pg_class c
 WHERE c.oid = d.relid AND d.unregistered_at IS NULL AND NOT coalesce((d.options ->> 'total')::boolean, false)
   AND (c.relkind IN ('m', 'v') OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid));

COMMIT;
