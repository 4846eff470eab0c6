-- Scales go back to those of the registration, which requests without scales are made under,
-- and centres into them: what knew none read numbers. Releases stay.
BEGIN;
SET LOCAL ROLE dp_owner;

UPDATE dp_int.dataset d
   SET scales = (SELECT coalesce(jsonb_object_agg(s.key, CASE jsonb_typeof(s.value) WHEN 'object'
                          THEN to_jsonb(abs(coalesce((s.value ->> 'center')::float8, 0)) + (s.value ->> 'scale')::float8) ELSE s.value END), '{}')
                   FROM jsonb_each(coalesce(d.first_scales, d.scales)) AS s);
ALTER TABLE dp_int.dataset DROP COLUMN first_scales;
DROP FUNCTION IF EXISTS dp_int.facts(bigint, jsonb);
COMMENT ON TABLE dp_int.dataset IS
  'One registration. Everything but epsilon, delta, cap, row_count and unregistered_at is fixed; epsilon is a limit on what the whole account has spent. default_delta: a request that gives no delta has the model''s default, but at most this; NULL: the model''s.';

COMMIT;
