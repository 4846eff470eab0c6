-- Requests may be about some levels of a category: these functions take one argument more.
BEGIN;
SET LOCAL ROLE dp_owner;

DROP FUNCTION IF EXISTS public.dp_l1_regress(text, float8, name, name[], boolean, jsonb);
DROP FUNCTION IF EXISTS public.dp_linear_regress(text, float8, float8, name, name[], boolean, text, float8, text, jsonb);
DROP FUNCTION IF EXISTS public.dp_huber_regress(text, float8, float8, name, name[], boolean, text, float8, text, jsonb);
DROP FUNCTION IF EXISTS public.dp_logistic_regress(text, float8, float8, name, name[], boolean, text, float8, text, jsonb);
DROP FUNCTION IF EXISTS public.dp_submit(text, text, float8, float8, name, name[], boolean, jsonb);
DROP PROCEDURE IF EXISTS public.dp_run(text, text, float8, float8, name, name[], boolean, jsonb, uuid);
DROP FUNCTION IF EXISTS public.dp_explain(text, text, float8, float8, name, name[], boolean, jsonb);

COMMIT;
