BEGIN;
REVOKE SELECT ON dp_int.schema_migrations FROM dp_owner;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_check_install, public.dp_version, dp_int.schema_version;
COMMIT;
