-- What operators watch.
BEGIN;
SET LOCAL ROLE dp_owner;

-- Public facts alone: budgets and the queue, nothing of any value.
CREATE FUNCTION dp_int.figures() RETURNS jsonb
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object(
    'budgets', (SELECT coalesce(jsonb_object_agg(d.name, greatest(1 - a.proven_epsilon / least(a.epsilon, d.epsilon), 0)::float8), '{}')
                  FROM dp_int.dataset d JOIN dp_int.account a ON a.id = d.account WHERE d.unregistered_at IS NULL),
    'queued', count(*),
    'oldest', coalesce(extract(epoch FROM clock_timestamp() - min(j.created_at)), 0)::float8)
    FROM dp_int.job j
   WHERE j.state = 'queued'
$$;

GRANT EXECUTE ON FUNCTION dp_int.figures, dp_int.schema_version TO dp_sidecar;

COMMIT;
