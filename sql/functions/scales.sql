-- Scales and centres: public units in which columns enter a fit. {"year": {"center": 2015,
-- "scale": 10}} counts a year from 2015 in tens; a plain number is a scale around 0.

-- Raises where scales are not usable in a fit.
CREATE OR REPLACE FUNCTION dp_int.check_scales(p_columns name[], p_scales jsonb, p_categories jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  s record;
  part text;
BEGIN
  IF jsonb_typeof(p_scales) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'scales must be a JSON object' USING ERRCODE = '22023', HINT = 'For instance {"amount": 1000, "age": 40, "year": {"center": 2015, "scale": 10}}.';
  END IF;
  FOR s IN SELECT key, value, CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE jsonb_build_object('scale', value) END AS parts FROM jsonb_each(p_scales) LOOP
    IF NOT s.key = ANY (p_columns::text[]) THEN
      RAISE EXCEPTION 'scale for "%", which is neither target nor feature', dp_int.excerpt(s.key) USING ERRCODE = '42703', HINT = format('Scales are named by registered columns: %s.', dp_int.excerpt(array_to_string(p_columns, ', ')));
    END IF;
    IF p_categories ? s.key THEN
      RAISE EXCEPTION 'scale for "%", which is a category', s.key USING ERRCODE = '22023', HINT = format('Its levels are 0 or 1 each: leave the scale out. Where one is registered, dp_set_scales(..., %L) takes it away.', format('{%s: null}', to_json(s.key)));
    END IF;
    SELECT k INTO part FROM jsonb_object_keys(s.parts) AS k WHERE k NOT IN ('center', 'scale') LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'scale of "%" has "%"; it may have center and scale', s.key, dp_int.excerpt(part)
        USING ERRCODE = '22023', HINT = 'For instance {"center": 2015, "scale": 10}: a year around 2015, give or take ten.';
    END IF;
    IF jsonb_typeof(s.parts -> 'scale') IS DISTINCT FROM 'number' OR NOT ((s.parts -> 'scale')::numeric BETWEEN 1e-100 AND 1e100) THEN
      RAISE EXCEPTION 'scale of "%" must be a positive number%, not %', s.key, CASE WHEN jsonb_typeof(s.parts -> 'scale') = 'number' AND s.parts -> 'scale' > '0' THEN ' from 1e-100 to 1e100' ELSE '' END,
          coalesce(dp_int.excerpt((s.parts -> 'scale')::text), 'left out')
        USING ERRCODE = '22023', HINT = 'A scale is a typical magnitude of the column, or with a center of its distance from that, from public knowledge: 10, or {"center": 2015, "scale": 10}. Dates and timestamps count in seconds since 1970: a year around June 2021 is {"center": 1622505600, "scale": 31600000}.';
    END IF;
    IF s.parts ? 'center' AND (jsonb_typeof(s.parts -> 'center') <> 'number' OR NOT ((s.parts -> 'center')::numeric BETWEEN -1e100 AND 1e100)) THEN
      RAISE EXCEPTION 'center of "%" must be a number%, not %', s.key, CASE jsonb_typeof(s.parts -> 'center') WHEN 'number' THEN ' from -1e100 to 1e100' ELSE '' END, dp_int.excerpt((s.parts -> 'center')::text)
        USING ERRCODE = '22023', HINT = 'A center is a typical value of the column, from public knowledge. Dates and timestamps count in seconds since 1970.';
    END IF;
  END LOOP;
END $$;

-- The centre of a registered column, 0 where it has none.
CREATE OR REPLACE FUNCTION dp_int.center(p_scale jsonb) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE jsonb_typeof(p_scale) WHEN 'object' THEN coalesce(dp_int.as_float((p_scale ->> 'center')::numeric), 0) ELSE 0 END $$;

-- The canonical form of a scale. Without an intercept a fit cannot compensate for a centre: then the
-- column keeps its zero, and its scale is |center| + scale.
CREATE OR REPLACE FUNCTION dp_int.canonical_scale(p_scale jsonb, p_intercept boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  center CONSTANT float8 := dp_int.center(p_scale);
  scale CONSTANT float8 := CASE jsonb_typeof(p_scale) WHEN 'object' THEN p_scale ->> 'scale' ELSE p_scale #>> '{}' END;
BEGIN
  IF center = 0 OR NOT p_intercept THEN
    RETURN to_jsonb(abs(center) + scale);
  END IF;
  RETURN jsonb_build_object('center', center, 'scale', scale);
END $$;

-- The scales among p_scales that apply to a request: those of its columns, in canonical form. Targets of
-- models for labels have none; targets that are counts, and exposures, are measured from 0. An offset
-- keeps its centre. Weights are not scaled.
CREATE OR REPLACE FUNCTION dp_int.scales_of(p_scales jsonb, p_request jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(s.key, dp_int.canonical_scale(s.value, (p_request ->> 'intercept')::boolean
                                                                            AND (p_request -> 'features' ? s.key OR s.key = p_request #>> '{options,offset}' OR NOT dp_int.is_count(p_request ->> 'model')))), '{}')
    FROM jsonb_each(p_scales) AS s
   WHERE p_request -> 'features' ? s.key
      OR s.key = ANY (array_remove(dp_int.beside_columns(p_request ->> 'model', p_request -> 'options')::text[], p_request #>> '{options,weight}'))
      OR s.key = p_request ->> 'target' AND NOT EXISTS (SELECT FROM dp_int.model m WHERE m.name = p_request ->> 'model' AND m.labels)
$$;

-- The scales at registration, restricted to a request: those of requests that name none.
CREATE OR REPLACE FUNCTION dp_int.first_scales(p_dataset bigint, p_request jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT dp_int.scales_of(coalesce(d.first_scales, d.scales), p_request) FROM dp_int.dataset d WHERE d.id = p_dataset
$$;

-- The scales of a fit: those under which its request was made; for a score, those of the release that it
-- scores.
CREATE OR REPLACE FUNCTION dp_int.request_scales(p_dataset bigint, p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  fitted CONSTANT jsonb := CASE p_request ->> 'model' WHEN 'score'
    THEN (SELECT j.request FROM dp_int.release r JOIN dp_int.job j ON j.id = r.job WHERE r.id = (p_request ->> 'release')::uuid) ELSE p_request END;
BEGIN
  RETURN coalesce(fitted -> 'scales', dp_int.first_scales(p_dataset, fitted));
END $$;

-- The hash that identifies a request. Scales are part of it only where they differ from those of the
-- registration.
CREATE OR REPLACE FUNCTION dp_int.request_hash(p_dataset bigint, p_request jsonb) RETURNS bytea
LANGUAGE sql STABLE AS $$
  SELECT sha256(convert_to((CASE WHEN p_request -> 'scales' = dp_int.first_scales(p_dataset, p_request) THEN p_request - 'scales' ELSE p_request END)::text, 'UTF8'))
$$;

CREATE OR REPLACE FUNCTION public.dp_set_scales(dataset text, scales jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  d dp_int.dataset := dp_int.locked_dataset(dp_set_scales.dataset);
  given CONSTANT jsonb := dp_set_scales.scales;
BEGIN
  PERFORM dp_int.refuse_copy();
  PERFORM dp_int.refuse_gone(d);
  PERFORM dp_int.check_scales(d.target || d.features, CASE jsonb_typeof(given) WHEN 'object'
    THEN (SELECT coalesce(jsonb_object_agg(s.key, CASE s.value WHEN 'null' THEN '1' ELSE s.value END), '{}') FROM jsonb_each(given) AS s) ELSE given END,
    (SELECT coalesce(jsonb_object_agg(c.key, c.value), '{}') FROM jsonb_each(d.categories) AS c WHERE given -> c.key IS DISTINCT FROM 'null'));
  UPDATE dp_int.dataset n
     SET scales = (SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}') FROM jsonb_each(n.scales || given) AS s WHERE s.value <> 'null'),
         first_scales = coalesce(n.first_scales, n.scales)
   WHERE n.id = d.id
  RETURNING * INTO d;
  PERFORM dp_int.ledger_budget(d.account, d.name, dp.caller(), jsonb_build_object('scales', d.scales));
  PERFORM dp_int.tell_missing_scales(d.relid, d.target || d.features, d.scales, d.labels || d.categories);
END $$;
COMMENT ON FUNCTION public.dp_set_scales IS
  'Changes the scales and centers of the columns that it names, null takes one away: public knowledge, recorded in the ledger. Grants and releases stay. A fit under other scales is another request, which is charged; one that is queued is refused, and one that is charged ends under its own. For dp_admin.';
GRANT EXECUTE ON FUNCTION public.dp_set_scales TO dp_admin;
