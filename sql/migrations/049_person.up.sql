-- What a person of a unit was when a data set was registered. Of those that are registered dp_int.bring_definitions says it.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN person text;
COMMENT ON COLUMN dp_int.dataset.person IS 'With a unit: what a person was at registration (dp_int.person_of).';

COMMIT;
