-- The ledger: append-only, one hash chain per account. Its functions alone write it,
-- and they keep the account's totals in the same transaction under the account's row lock.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.ledger (
  id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT ledger_pk PRIMARY KEY,
  account    bigint NOT NULL CONSTRAINT ledger_account REFERENCES dp_int.account,
  seq        bigint NOT NULL,
  kind       text NOT NULL CONSTRAINT ledger_kind CHECK (kind IN ('budget', 'charge', 'refund')),
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  dataset    text NOT NULL,
  caller     name NOT NULL,
  job        uuid,
  event      jsonb NOT NULL,
  epsilon    numeric CONSTRAINT ledger_epsilon CHECK (epsilon < 'Infinity'),
  rho        numeric CONSTRAINT ledger_rho CHECK (rho < 'Infinity'),
  renyi      numeric[],
  renyi_grid int,
  delta      numeric NOT NULL DEFAULT 0 CONSTRAINT ledger_delta CHECK (delta < 1),
  arithmetic text NOT NULL DEFAULT 'exact' CONSTRAINT ledger_arithmetic CHECK (arithmetic IN ('exact', 'float64-grid')),
  refunds    bigint CONSTRAINT ledger_refunds REFERENCES dp_int.ledger CONSTRAINT ledger_refunded_once UNIQUE,
  previous   bytea NOT NULL,
  hash       bytea NOT NULL,
  CONSTRAINT ledger_chain UNIQUE (account, seq),
  CONSTRAINT ledger_job CHECK ((kind = 'budget') = (job IS NULL)),
  CONSTRAINT ledger_compensates CHECK ((kind = 'refund') = (refunds IS NOT NULL)),
  CONSTRAINT ledger_curve CHECK (num_nonnulls(renyi, renyi_grid) <> 1 AND
    (renyi IS NULL OR renyi_grid = 1 AND array_ndims(renyi) = 1 AND array_lower(renyi, 1) = 1 AND array_length(renyi, 1) = 126)),
  CONSTRAINT ledger_sign CHECK (
    CASE kind WHEN 'charge' THEN least(epsilon, rho, delta, 0) = 0 AND coalesce(0 <= ALL (renyi), true) AND num_nonnulls(epsilon, rho, renyi) > 0
              WHEN 'refund' THEN greatest(epsilon, rho, delta, 0) = 0 AND coalesce(0 >= ALL (renyi), true)
              ELSE num_nonnulls(epsilon, rho, renyi) = 0 AND delta = 0 END)
);
CREATE INDEX ledger_by_job ON dp_int.ledger (job);
COMMENT ON TABLE dp_int.ledger IS
  'Append-only. epsilon, rho: pure DP and zCDP cost; renyi: cost at each Renyi order of grid renyi_grid; NULL where the event has none. delta comes on top of each. arithmetic: what the release rests on. A refund is a row with the opposite signs. All costs are for replacing one record.';

COMMIT;
