-- Columns that are categories, and their levels.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN categories jsonb NOT NULL DEFAULT '{}' CONSTRAINT dataset_categories CHECK (jsonb_typeof(categories) = 'object');
COMMENT ON COLUMN dp_int.dataset.categories IS
  'Levels of the columns that are categories, public and in their order: the first is the reference. Fixed with the first charge; every request has its own copy.';
-- They take more arguments now.
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb);
DROP FUNCTION IF EXISTS dp_int.check_columns(oid, name, name[], jsonb);
DROP FUNCTION IF EXISTS dp_int.check_labels(name, name[], jsonb);
DROP FUNCTION IF EXISTS dp_int.check_options(text, jsonb, name[]);

COMMIT;
