-- What the catalogue says of a model beside its default delta.
BEGIN;
SET LOCAL ROLE dp_owner;

DELETE FROM dp_int.option;
DELETE FROM dp_int.model;  -- the catalogue fills both
ALTER TABLE dp_int.model ADD COLUMN labels boolean NOT NULL, ADD COLUMN description text NOT NULL;
COMMENT ON TABLE dp_int.model IS
  'Models that can be asked for. delta: the default; 0: the model is pure and takes no other. labels: the target is one of two public labels.';

COMMIT;
