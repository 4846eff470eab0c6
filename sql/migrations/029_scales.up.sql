-- Scales that a steward may change.
BEGIN;
SET LOCAL ROLE dp_owner;

ALTER TABLE dp_int.dataset ADD COLUMN first_scales jsonb;
COMMENT ON COLUMN dp_int.dataset.first_scales IS 'The scales of the registration, where scales are no longer those: requests that name none have these. NULL: they are those.';
COMMENT ON TABLE dp_int.dataset IS
  'One registration. Everything but epsilon, delta, cap, labels, scales, first_scales, row_count and unregistered_at is fixed; epsilon is a limit on what the whole account has spent. default_delta: a request that gives no delta has the model''s default, but at most this; NULL: the model''s.';
-- It takes the request as well now, whose scales are part of the facts.
DROP FUNCTION IF EXISTS dp_int.facts(bigint);

COMMIT;
