BEGIN;
SET LOCAL ROLE dp_owner;
DROP VIEW dp.ledger, dp.coefficients, dp.releases, dp.jobs, dp.budget, dp.datasets, dp_int.my_grant;
COMMIT;
