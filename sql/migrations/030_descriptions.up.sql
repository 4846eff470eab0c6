-- What columns hold, and scales for them: jobs whose release is figures.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.column_statistic (
  release     uuid NOT NULL CONSTRAINT column_statistic_release REFERENCES dp_int.release,
  position    int NOT NULL,
  column_name text,
  statistic   text NOT NULL,
  value       float8,
  ci_low      float8,
  ci_high     float8,
  why_null    text,
  CONSTRAINT column_statistic_pk PRIMARY KEY (release, position)
);
COMMENT ON TABLE dp_int.column_statistic IS
  'What a release of model describe holds in the place of coefficients. column_name is NULL for what is about all columns together. why_null: why there is no value or no interval; NULL where there are both.';

CREATE TABLE dp_int.suggested_scale (
  release     uuid NOT NULL CONSTRAINT suggested_scale_release REFERENCES dp_int.release,
  position    int NOT NULL,
  column_name text NOT NULL,
  scale       float8,
  center      float8,
  note        text NOT NULL,
  CONSTRAINT suggested_scale_pk PRIMARY KEY (release, position)
);
COMMENT ON TABLE dp_int.suggested_scale IS 'What a release of model scales holds in the place of coefficients. scale and center are NULL where noise hides them, and note says so.';

COMMIT;
