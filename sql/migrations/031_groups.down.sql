BEGIN;
SET LOCAL ROLE dp_owner;

DELETE FROM dp_int.option WHERE type = 'category';
ALTER TABLE dp_int.option DROP CONSTRAINT option_type, ADD CONSTRAINT option_type CHECK (type IN ('number', 'integer', 'string', 'groups'));
ALTER TABLE dp_int.coefficient DROP COLUMN grp, DROP COLUMN share, DROP COLUMN why_null;

COMMIT;
