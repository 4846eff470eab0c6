-- Where the rows of a data set are while jobs work on them.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN placement text NOT NULL DEFAULT 'auto' CONSTRAINT dataset_placement CHECK (placement IN ('auto', 'memory', 'database'));
COMMENT ON COLUMN dp_int.dataset.placement IS 'Where rows are while a job works on them: memory (or the sidecar''s disk), database (only sums leave it), auto (memory where they fit).';
-- It takes one argument more now.
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb, jsonb, name, int, bigint, name, interval, date, bigint, text);

COMMIT;
