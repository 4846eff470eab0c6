BEGIN;
SET LOCAL ROLE dp_owner;

DROP TABLE dp_int.installed_code;

COMMIT;
