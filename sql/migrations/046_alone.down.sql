-- Every charge without a pure epsilon counts once again. What was admitted because it was alone stays spent:
-- where that is beyond the cap, nothing is left.
BEGIN;
SET LOCAL ROLE dp_owner;

COMMENT ON TYPE dp_int.tally IS
  'Sums of charges. spent: in the unit of the account''s accounting; epsilon: of those that have a pure epsilon; rest: how many have none; rest_rho: the rho of these.';

CREATE VIEW dp_int.once AS
  SELECT l.account, l.blocks, j.principal, CASE l.kind WHEN 'charge' THEN 1 ELSE -1 END AS weight
    FROM dp_int.ledger l
    LEFT JOIN dp_int.job j ON j.id = l.job
   WHERE l.kind <> 'budget' AND l.epsilon IS NULL;
UPDATE dp_int.account a SET rest = coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = a.id), 0);
UPDATE dp_int.account_block b SET rest = coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = b.account AND o.blocks @> b.block), 0);
UPDATE dp_int.caller_total t SET rest = coalesce((SELECT sum(o.weight) FROM dp_int.once o WHERE o.account = t.account AND o.principal = t.principal), 0);
DROP VIEW dp_int.once;

COMMIT;
