BEGIN;
SET LOCAL ROLE dp_owner;

DROP INDEX dp_int.job_waiting, dp_int.job_stopped;
-- A sidecar of before takes up what has a lease alone.
UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE state = 'reading' AND lease_until IS NULL;
ALTER TABLE dp_int.job DROP COLUMN first_step, DROP COLUMN last_step;
ALTER TABLE dp_int.job RENAME COLUMN read_at TO expected_at;
ALTER TABLE dp_int.job ADD COLUMN pulled boolean NOT NULL DEFAULT false;
COMMENT ON TABLE dp_int.job IS
  'waited: somebody holds the job''s advisory lock until it ends, else it is dropped unspent. follows: an identical job in flight whose release this one will take. token fences writers whose lease has run out. pulled: the worker has all rows and fits. expected_at: when it may be done, from public facts.';

COMMIT;
