BEGIN;
SET LOCAL ROLE dp_owner;

DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb, jsonb, name, int, bigint);
DROP FUNCTION IF EXISTS dp_int.known_relations(oid, name);
DROP FUNCTION IF EXISTS dp_int.account_of(oid, jsonb, name);
DROP FUNCTION IF EXISTS dp_int.refuse_strangers(oid, name);
DROP FUNCTION IF EXISTS dp_int.uncounted();
ALTER TABLE dp_int.dataset DROP COLUMN unit, DROP COLUMN max_rows, DROP COLUMN persons, DROP COLUMN unit_source, DROP COLUMN unit_number;

COMMIT;
