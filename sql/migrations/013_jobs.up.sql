-- Jobs, releases, coefficients, workers, and what may be asked for.
BEGIN;
SET LOCAL ROLE dp_owner;

-- queued -> claimed -> charged -> reading -> done; failed and canceled are
-- reached before reading only. Past reading the charge stands and the job is
-- tried again until it is done, or a steward has it abandoned.
CREATE TABLE dp_int.job (
  id               uuid NOT NULL CONSTRAINT job_pk PRIMARY KEY,
  seq              bigint GENERATED ALWAYS AS IDENTITY,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  caller           name NOT NULL,
  dataset          bigint NOT NULL CONSTRAINT job_dataset REFERENCES dp_int.dataset,
  model            text NOT NULL,
  eps              float8 NOT NULL,
  delta            float8 NOT NULL,
  request          jsonb NOT NULL,
  request_hash     bytea NOT NULL,
  fresh            boolean NOT NULL,
  waited           boolean NOT NULL,
  state            text NOT NULL DEFAULT 'queued' CONSTRAINT job_state CHECK (state IN
                     ('queued', 'claimed', 'charged', 'reading', 'done', 'failed', 'canceled', 'abandoned')),
  follows          uuid CONSTRAINT job_follows REFERENCES dp_int.job,
  cancel_requested boolean NOT NULL DEFAULT false,
  attempt          int NOT NULL DEFAULT 0,
  worker           uuid,
  token            uuid,
  lease_until      timestamptz,
  charge           bigint CONSTRAINT job_charge REFERENCES dp_int.ledger,
  row_count        bigint,
  plan             jsonb,
  pulled           boolean NOT NULL DEFAULT false,
  expected_at      timestamptz,
  release          uuid,
  sqlstate         text,
  message          text,
  hint             text,
  finished_at      timestamptz,
  CONSTRAINT job_charged CHECK ((state IN ('charged', 'reading')) <= (charge IS NOT NULL AND row_count IS NOT NULL)),
  CONSTRAINT job_released CHECK ((state = 'done') = (release IS NOT NULL)),
  CONSTRAINT job_finished CHECK ((state IN ('done', 'failed', 'canceled', 'abandoned')) = (finished_at IS NOT NULL))
);
CREATE INDEX job_active ON dp_int.job (seq) WHERE state IN ('queued', 'claimed', 'charged', 'reading');
CREATE INDEX job_in_flight ON dp_int.job (dataset, request_hash) WHERE state IN ('claimed', 'charged', 'reading') AND NOT fresh;
CREATE INDEX job_followers ON dp_int.job (follows) WHERE follows IS NOT NULL;
CREATE INDEX job_by_caller ON dp_int.job (caller, created_at);
COMMENT ON TABLE dp_int.job IS
  'waited: somebody holds the job''s advisory lock until it ends, else it is dropped unspent. follows: an identical job in flight whose release this one will take. token fences writers whose lease has run out. pulled: the worker has all rows and fits. expected_at: when it may be done, from public facts.';

-- Claims of one data set pass here one at a time; nothing else locks it.
CREATE TABLE dp_int.turnstile (
  dataset bigint NOT NULL CONSTRAINT turnstile_pk PRIMARY KEY CONSTRAINT turnstile_dataset REFERENCES dp_int.dataset
);
COMMENT ON TABLE dp_int.turnstile IS 'A lock for each data set: of identical requests one is claimed and the others find it.';

CREATE TABLE dp_int.release (
  id           uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT release_pk PRIMARY KEY,
  job          uuid NOT NULL CONSTRAINT release_job REFERENCES dp_int.job CONSTRAINT release_one_per_job UNIQUE,
  charge       bigint NOT NULL CONSTRAINT release_charge REFERENCES dp_int.ledger CONSTRAINT release_one_per_charge UNIQUE,
  dataset      bigint NOT NULL CONSTRAINT release_dataset REFERENCES dp_int.dataset,
  request_hash bytea NOT NULL,
  model        text NOT NULL,
  method       text NOT NULL,
  eps          float8 NOT NULL,
  delta        float8 NOT NULL,
  caller       name NOT NULL,
  parameters   jsonb NOT NULL,
  released_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX release_kept ON dp_int.release (dataset, request_hash, released_at DESC);
CREATE INDEX release_by_caller ON dp_int.release (caller, released_at DESC);
COMMENT ON TABLE dp_int.release IS 'What left, under which charge. Two unique keys: one release a job, one a charge.';

ALTER TABLE dp_int.job ADD CONSTRAINT job_release FOREIGN KEY (release) REFERENCES dp_int.release;

CREATE TABLE dp_int.coefficient (
  release  uuid NOT NULL CONSTRAINT coefficient_release REFERENCES dp_int.release,
  position int NOT NULL,
  term     text NOT NULL,
  coef     float8 NOT NULL,
  band     float8,
  CONSTRAINT coefficient_pk PRIMARY KEY (release, position)
);
COMMENT ON TABLE dp_int.coefficient IS 'Coefficients of a release in the table''s units, in the order asked, (intercept) first. band: without the noise they would have been no further away, in 95 of 100 runs; NULL: not known.';

CREATE TABLE dp_int.worker (
  id        uuid NOT NULL CONSTRAINT worker_pk PRIMARY KEY,
  pid       int NOT NULL,
  version   text NOT NULL,
  last_seen timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE dp_int.worker IS 'Sidecars and their heartbeats; pid is the backend of the session that listens.';

CREATE TABLE dp_int.model (
  name  text CONSTRAINT model_pk PRIMARY KEY,
  delta float8 NOT NULL
);
COMMENT ON TABLE dp_int.model IS 'Models that can be asked for. delta: the default; 0: the model is pure and takes no other.';

-- Options analysts may give, by model. fresh stands with every model.
CREATE TABLE dp_int.option (
  model       text NOT NULL CONSTRAINT option_model REFERENCES dp_int.model,
  name        text NOT NULL,
  type        text NOT NULL CONSTRAINT option_type CHECK (type IN ('number', 'integer', 'string', 'groups')),
  minimum     float8,
  maximum     float8,
  choices     text[],
  "default"   jsonb,
  description text NOT NULL,
  CONSTRAINT option_pk PRIMARY KEY (model, name)
);
COMMENT ON TABLE dp_int.option IS
  'Public parameters a request may carry. minimum and maximum are inclusive; default is what leaving an option out means, NULL where it is computed from public facts.';

CREATE TYPE dp_int.request AS (
  dataset bigint,
  model   text,
  eps     float8,
  delta   float8,
  body    jsonb,
  hash    bytea,
  fresh   boolean
);

COMMIT;
