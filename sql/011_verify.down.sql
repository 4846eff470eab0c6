BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_verify;
DROP VIEW dp.ledger;
CREATE VIEW dp.ledger WITH (security_barrier) AS
  SELECT l.id, l.at, l.account, l.seq, l.kind, l.dataset, l.caller::text AS caller, l.job, l.event,
         l.epsilon::float8 AS epsilon, l.rho::float8 AS rho, l.delta::float8 AS delta, l.arithmetic, l.refunds, encode(l.hash, 'hex') AS hash
    FROM dp_int.ledger l
   ORDER BY l.id;
COMMENT ON VIEW dp.ledger IS 'Every charge, refund and change of a budget; one hash chain an account. For dp_admin.';
GRANT SELECT ON dp.ledger TO dp_admin;
COMMIT;
