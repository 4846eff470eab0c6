-- When a job may be seen to end: at steps of a ladder that is known before it reads.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.job RENAME COLUMN expected_at TO read_at;
ALTER TABLE dp_int.job ADD COLUMN first_step interval, ADD COLUMN last_step int;
-- The view of before knows the column that goes; views/internal.sql puts the new one in place.
DO $$ BEGIN
  IF to_regclass('dp_int.stage') IS NOT NULL THEN
    CREATE OR REPLACE VIEW dp_int.stage AS SELECT j.id AS job, j.state AS stage, j.read_at AS expected_at FROM dp_int.job j;
  END IF;
END $$;
ALTER TABLE dp_int.job DROP COLUMN pulled;
COMMENT ON TABLE dp_int.job IS
  'waited: somebody holds the job''s advisory lock until it ends, else it is dropped unspent. follows: an identical job in flight whose release this one will take. token fences writers whose lease has run out. read_at: when reading began; it ends at read_at + first_step * 1.5^k, k from 0 to last_step, public times all. lease_until NULL while reading: it ended at its last step without a release, and is tried again when it is asked for.';

CREATE INDEX job_waiting ON dp_int.job (dataset, request_hash) WHERE state = 'queued' AND NOT fresh;
CREATE INDEX job_stopped ON dp_int.job (dataset, request_hash) WHERE state = 'reading' AND fresh;

-- They take other arguments now.
DROP FUNCTION IF EXISTS dp_int.job_read(uuid, uuid, interval);
DROP FUNCTION IF EXISTS dp_int.job_publish(uuid, uuid, text, text[], float8[], float8[]);
DROP FUNCTION IF EXISTS dp_int.complete_job(uuid, uuid);

COMMIT;
