BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_check_install, public.dp_version;
COMMIT;
