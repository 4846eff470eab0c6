-- Callers are served in turn, a lease outlives no clock that is set back, and what
-- operators decide and find has a place.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.job ADD COLUMN served bigint, ADD COLUMN leased_at timestamptz;
COMMENT ON COLUMN dp_int.job.served IS 'From job_served_seq at the latest claim: whose caller was served when.';
COMMENT ON COLUMN dp_int.job.leased_at IS 'When lease_until was set. Without a token, lease_until is a pause: nobody takes the job up before.';
CREATE SEQUENCE dp_int.job_served_seq OWNED BY dp_int.job.served;
CREATE INDEX job_queued ON dp_int.job (caller, follows, seq) WHERE state = 'queued';
CREATE INDEX job_leased ON dp_int.job (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX job_served ON dp_int.job (caller, served DESC) WHERE served IS NOT NULL;
CREATE INDEX job_failed ON dp_int.job (sqlstate) WHERE state = 'failed';

CREATE TABLE dp_int.operation (
  only_row    boolean NOT NULL DEFAULT true CONSTRAINT operation_pk PRIMARY KEY CONSTRAINT operation_only_row CHECK (only_row),
  queue_limit int DEFAULT 1000 CONSTRAINT operation_queue_limit CHECK (queue_limit > 0),
  verified_ok boolean,
  verified_at timestamptz,
  verified_by name
);
COMMENT ON TABLE dp_int.operation IS
  'queue_limit: how many jobs of one caller may be queued, NULL for any number; verified_*: the result of the last dpsidecar verify, when and by whom.';
INSERT INTO dp_int.operation DEFAULT VALUES;

-- It takes other arguments now.
DROP FUNCTION IF EXISTS dp_int.job_hand_back(uuid, uuid, boolean);

COMMIT;
