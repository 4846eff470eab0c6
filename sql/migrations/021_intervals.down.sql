BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.release DROP COLUMN why_null;
ALTER TABLE dp_int.coefficient DROP COLUMN std_err, DROP COLUMN df, DROP COLUMN ci_low, DROP COLUMN ci_high, DROP COLUMN p_value;

COMMIT;
