BEGIN;
SET LOCAL ROLE dp_owner;

DROP VIEW IF EXISTS dp.scores;
DROP TABLE dp_int.metric;

COMMIT;
