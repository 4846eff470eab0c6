BEGIN;
SET LOCAL ROLE dp_owner;
REVOKE EXECUTE ON FUNCTION dp_int.schema_version FROM dp_sidecar;
DROP FUNCTION public.dp_abandon, dp_int.figures;
COMMIT;
