BEGIN;
SET LOCAL ROLE dp_owner;

DROP VIEW IF EXISTS dp.moments;
DROP TABLE dp_int.second_moments;

COMMIT;
