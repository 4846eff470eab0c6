-- Relations with several rows a person.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset
  ADD COLUMN unit name,
  ADD COLUMN max_rows int CONSTRAINT dataset_max_rows CHECK (max_rows BETWEEN 1 AND 1000),
  ADD COLUMN persons bigint CONSTRAINT dataset_persons CHECK (persons >= 1),
  ADD COLUMN unit_source text,
  ADD COLUMN unit_number int2,
  ADD CONSTRAINT dataset_unit CHECK ((unit IS NULL) = (max_rows IS NULL) AND (unit IS NULL) = (unit_source IS NULL) AND (unit IS NOT NULL OR persons IS NULL));
COMMENT ON COLUMN dp_int.dataset.unit IS 'The column that tells persons apart; NULL: every row is a person''s.';
COMMENT ON COLUMN dp_int.dataset.max_rows IS 'How many complete rows of a person take part, at random where there are more.';
COMMENT ON COLUMN dp_int.dataset.persons IS 'How many persons there are taken to be, registered in place of counted; NULL: they are counted.';
COMMENT ON COLUMN dp_int.dataset.unit_source IS 'The column of a table that unit was at registration, through views: schema.table.column.';
COMMENT ON COLUMN dp_int.dataset.unit_number IS 'The number of that column: another that takes its name over has another.';
-- They take more arguments now, or return more columns.
DROP FUNCTION IF EXISTS public.dp_register(text, regclass, name, name[], float8, float8, jsonb, text, jsonb, jsonb, jsonb);
DROP FUNCTION IF EXISTS dp_int.known_relations(oid);
DROP FUNCTION IF EXISTS dp_int.account_of(oid, jsonb);
DROP FUNCTION IF EXISTS dp_int.refuse_strangers(oid);
DROP FUNCTION IF EXISTS dp_int.uncounted();

COMMIT;
