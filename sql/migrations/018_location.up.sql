-- Where an installation lives, so that a copy of the database knows that it is one.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.location (
  only_row          boolean NOT NULL DEFAULT true CONSTRAINT location_pk PRIMARY KEY CONSTRAINT location_only_row CHECK (only_row),
  installation      uuid NOT NULL DEFAULT gen_random_uuid(),
  system_identifier text,
  database          oid NOT NULL,
  anchor            oid NOT NULL,
  at                timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE dp_int.location IS
  'Where this installation was made or adopted. system_identifier: the cluster''s, NULL where the server does not tell it; database: the database''s OID; anchor: the OID of this table, which no restore keeps. installation: new with every adoption, and the same on standbys.';

-- A copy beside its original has nothing left, also when nothing was spent.
ALTER TABLE dp_int.account DROP CONSTRAINT account_epsilon, ADD CONSTRAINT account_epsilon CHECK (epsilon >= 0 AND epsilon < 'Infinity');

-- They take more arguments now.
DROP FUNCTION IF EXISTS dp_int.enqueue(uuid, name, text, text, float8, float8, name, name[], boolean, jsonb);
DROP FUNCTION IF EXISTS dp_int.ask(uuid, name, text, text, float8, float8, name, name[], boolean, jsonb);
DROP FUNCTION IF EXISTS public.dp_verify();

COMMIT;
