-- One sum an account again. What only another filter admitted stays spent: where that is
-- beyond the cap, nothing is left.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP COLUMN default_delta;
ALTER TABLE dp_int.caller_total DROP COLUMN spent_epsilon, DROP COLUMN rest, DROP COLUMN rest_rho;
ALTER TABLE dp_int.account DROP COLUMN spent_epsilon, DROP COLUMN rest, DROP COLUMN rest_rho;
DROP TYPE dp_int.tally CASCADE;  -- functions are gone before, but those that somebody put there by hand

COMMIT;
