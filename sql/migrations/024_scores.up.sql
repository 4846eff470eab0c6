-- How well releases predict: jobs whose release is metrics.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.metric (
  release  uuid NOT NULL CONSTRAINT metric_release REFERENCES dp_int.release,
  position int NOT NULL,
  metric   text NOT NULL,
  value    float8,
  ci_low   float8,
  ci_high  float8,
  why_null text,
  CONSTRAINT metric_pk PRIMARY KEY (release, position)
);
COMMENT ON TABLE dp_int.metric IS
  'What a release of model score holds in the place of coefficients. Its parameters name the release that was scored. why_null: why there is no value or no interval; NULL where there are both.';

COMMIT;
