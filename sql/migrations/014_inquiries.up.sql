-- Questions about what a request would do.
BEGIN;
SET LOCAL ROLE dp_owner;

-- Nothing here is worth keeping: a question that is lost is asked again.
CREATE UNLOGGED TABLE dp_int.inquiry (
  id       uuid NOT NULL CONSTRAINT inquiry_pk PRIMARY KEY,
  asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  taken_at timestamptz,
  caller   name NOT NULL,
  dataset  bigint NOT NULL CONSTRAINT inquiry_dataset REFERENCES dp_int.dataset,
  request  jsonb NOT NULL,
  hash     bytea NOT NULL,
  answer   jsonb
);
COMMENT ON TABLE dp_int.inquiry IS 'Questions of dp_explain that wait for a sidecar, and their answers until they are fetched.';

COMMIT;
