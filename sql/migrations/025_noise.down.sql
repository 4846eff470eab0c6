BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient DROP COLUMN noise;
DROP FUNCTION IF EXISTS dp_int.prepare(name, text, text, float8, float8, name, name[], boolean, jsonb, boolean);

COMMIT;
