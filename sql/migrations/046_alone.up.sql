-- A budget admits, as the only charge, normal noise whose rho exceeds its cap. So sums tell whether all they
-- hold is one such charge: in rest it counts once, and every other charge without a pure epsilon twice.
BEGIN;
SET LOCAL ROLE dp_owner;

COMMENT ON TYPE dp_int.tally IS
  'Sums of charges. spent: in the unit of the account''s accounting; epsilon: of those that have a pure epsilon; rest: 1 for each that has none and was to be the only one, 2 for each other that has none; rest_rho: the rho of these.';

-- Only after a step down are there any that count once.
CREATE VIEW dp_int.once AS
  SELECT l.account, l.blocks, j.principal, CASE l.kind WHEN 'charge' THEN 1 ELSE -1 END AS weight
    FROM dp_int.ledger l
    LEFT JOIN dp_int.job j ON j.id = l.job
   WHERE l.kind <> 'budget' AND l.event ? 'only';
UPDATE dp_int.account a SET rest = 2 * a.rest - coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = a.id), 0);
UPDATE dp_int.account_block b SET rest = 2 * b.rest - coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = b.account AND o.blocks @> b.block), 0);
UPDATE dp_int.caller_total t SET rest = 2 * t.rest - coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = t.account AND o.principal = t.principal), 0);
DROP VIEW dp_int.once;

-- The older one counts otherwise. Without it nothing is charged until the functions of this version are in
-- place: a charge in between, which waits for this transaction, fails unspent. So does a refund, which may wait within
-- the older function itself, and is made again.
DROP FUNCTION IF EXISTS dp_int.ledger_append(dp_int.ledger);
DROP FUNCTION IF EXISTS dp_int.add_entry(dp_int.tally, dp_int.account, dp_int.ledger);
-- It is a function now.
DROP VIEW IF EXISTS dp_int.entry_sums;

COMMIT;
