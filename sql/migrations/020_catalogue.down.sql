BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.model DROP COLUMN labels, DROP COLUMN description;

COMMIT;
