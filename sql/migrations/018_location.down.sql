BEGIN;
SET LOCAL ROLE dp_owner;

DROP TABLE dp_int.location;
-- Accounts of a copy may have an epsilon of 0; new ones may not.
ALTER TABLE dp_int.account DROP CONSTRAINT account_epsilon, ADD CONSTRAINT account_epsilon CHECK (epsilon > 0 AND epsilon < 'Infinity') NOT VALID;

COMMIT;
