-- Where an installation lives also says since which promotion.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.location ADD COLUMN timeline int;
COMMENT ON COLUMN dp_int.location.timeline IS 'The timeline of the write-ahead log on which jobs run, a new one with every promotion of a standby; NULL where the server does not tell it.';

COMMIT;
