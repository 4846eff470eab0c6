-- Functions and views are no migrations: they are put in place whole, and what was
-- put there is noted here.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.installed_code (
  only_row    boolean NOT NULL DEFAULT true CONSTRAINT installed_code_pk PRIMARY KEY CONSTRAINT installed_code_only_row CHECK (only_row),
  version     text NOT NULL,
  fingerprint text NOT NULL,
  objects     bytea NOT NULL,
  at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE dp_int.installed_code IS
  'version: of the dpsidecar that put functions and views in place; fingerprint: of their files; objects: dp_int.code_hash() afterwards, so that dp_check_install notices what was changed by hand.';

COMMIT;
