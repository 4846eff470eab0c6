BEGIN;
SET LOCAL ROLE dp_owner;

DROP TABLE dp_int.inquiry;

COMMIT;
