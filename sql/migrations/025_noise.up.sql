-- What noise does to coefficients, as far as a release tells.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.coefficient ADD COLUMN noise float8;
COMMENT ON COLUMN dp_int.coefficient.noise IS 'Standard deviation that the noise alone gives the coefficient, made of what was released; NULL: not known.';
-- It takes one argument more now.
DROP FUNCTION IF EXISTS dp_int.prepare(name, text, text, float8, float8, name, name[], boolean, jsonb);

COMMIT;
