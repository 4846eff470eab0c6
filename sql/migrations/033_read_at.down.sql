BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset DROP CONSTRAINT dataset_block_fixed;
UPDATE dp_int.dataset SET block_is_fixed = block_fixed_by WHERE block_fixed_by IS NOT NULL;
ALTER TABLE dp_int.dataset DROP COLUMN block_fixed_by;
ALTER TABLE dp_int.release DROP COLUMN read_at, DROP COLUMN rows;
ALTER TABLE dp_int.job DROP COLUMN snapshot_at;
DROP FUNCTION IF EXISTS dp_int.job_read(uuid, uuid, interval, int, timestamptz);

COMMIT;
