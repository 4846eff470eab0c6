BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_verify;
COMMIT;
