BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP COLUMN labels;
ALTER TABLE dp_int.coefficient DROP COLUMN covariance, DROP COLUMN bias;

COMMIT;
