-- Descriptions of some levels: functions that take one argument more now.
BEGIN;
SET LOCAL ROLE dp_owner;

DROP FUNCTION IF EXISTS public.dp_describe(text, float8, name[], float8, boolean, daterange);
DROP FUNCTION IF EXISTS dp_int.enqueue_description(uuid, name, text, text, float8, float8, name[], boolean, daterange, jsonb);

COMMIT;
