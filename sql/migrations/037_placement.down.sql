BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP COLUMN placement;
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb, jsonb, name, int, bigint, name, interval, date, bigint, text, text);
DROP FUNCTION IF EXISTS public.dp_set_placement(text, text);

COMMIT;
