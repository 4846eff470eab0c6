BEGIN;
SET LOCAL ROLE dp_owner;

DROP VIEW IF EXISTS dp.descriptions, dp.suggested_scales;
DROP TABLE dp_int.column_statistic;
DROP TABLE dp_int.suggested_scale;

COMMIT;
