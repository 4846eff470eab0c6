-- Predictions from what was released: post-processing, free.

-- The coefficients of a release in the order asked; the caller may see what
-- dp.releases shows him.
CREATE OR REPLACE FUNCTION public.dp_coef(release uuid) RETURNS float8[]
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_release(dp_coef.release);
BEGIN
  RETURN ARRAY(SELECT c.coef FROM dp_int.coefficient c WHERE c.release = r.id ORDER BY c.position);
END $$;
COMMENT ON FUNCTION public.dp_coef IS
  'The coefficients of a release as an array, (intercept) first if it has one: ask once, and give them to dp_predict(coef, features) for every row of a large table.';

-- A prediction of any length. coef has one element more than features when there
-- is an intercept, and it is the first.
CREATE OR REPLACE FUNCTION dp.linear_predictor(coef float8[], features float8[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  shift CONSTANT int := cardinality(coef) - cardinality(features);
  total float8 := 0;
BEGIN
  IF shift NOT IN (0, 1) THEN
    RAISE EXCEPTION '% features, but % coefficients', cardinality(features), cardinality(coef)
      USING ERRCODE = '22023', HINT = 'Give the features in the release''s order, without the intercept; dp.coefficients lists them.';
  ELSIF shift = 1 THEN
    total := coef[1];
  END IF;
  FOR j IN 1 .. cardinality(features) LOOP
    total := total + coef[j + shift] * features[j];
  END LOOP;
  RETURN total;
END $$;
COMMENT ON FUNCTION dp.linear_predictor IS 'What dp_predict(coef, features) does with many features.';

-- One expression, parsed here once and for all, which the planner puts in the
-- place of the call. Only the branch that fits is evaluated.
CREATE OR REPLACE FUNCTION public.dp_predict(coef float8[], features float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN pg_catalog.cardinality(coef) = pg_catalog.cardinality(features) + 1 THEN
         CASE pg_catalog.cardinality(features)
           WHEN 1 THEN coef[1] + coef[2] * features[1]
           WHEN 2 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2]
           WHEN 3 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3]
           WHEN 4 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4]
           WHEN 5 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5]
           WHEN 6 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6]
           WHEN 7 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6] + coef[8] * features[7]
           WHEN 8 THEN coef[1] + coef[2] * features[1] + coef[3] * features[2] + coef[4] * features[3] + coef[5] * features[4] + coef[6] * features[5] + coef[7] * features[6] + coef[8] * features[7] + coef[9] * features[8]
           ELSE dp.linear_predictor(coef, features) END
       ELSE dp.linear_predictor(coef, features) END;
COMMENT ON FUNCTION public.dp_predict(float8[], float8[]) IS
  'A linear prediction from the coefficients that dp_coef returns, put inline by the planner; for a logistic release these are log-odds.';

-- The probability of log-odds z.
CREATE OR REPLACE FUNCTION dp_int.probability(z float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT 1 / (1 + exp(greatest(least(-z, 700), -700))) $$;  -- exp raises on what overflows

CREATE OR REPLACE FUNCTION public.dp_predict(release uuid, features float8[]) RETURNS float8
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  z CONSTANT float8 := dp.linear_predictor(public.dp_coef(dp_predict.release), dp_predict.features);
BEGIN
  IF (SELECT m.labels FROM dp_int.release r JOIN dp_int.model m ON m.name = r.model WHERE r.id = dp_predict.release) THEN
    RETURN dp_int.probability(z);
  END IF;
  RETURN z;
END $$;
COMMENT ON FUNCTION public.dp_predict(uuid, float8[]) IS
  'A prediction from a release, in the target''s units; for a logistic one the probability of the positive label. features in the release''s order, without the intercept.';

-- A release written as a literal would fit uuid and float8[] alike.
CREATE OR REPLACE FUNCTION public.dp_predict(release text, features float8[]) RETURNS float8
LANGUAGE sql STABLE STRICT
RETURN public.dp_predict(release::uuid, features);
COMMENT ON FUNCTION public.dp_predict(text, float8[]) IS 'The same for a release written as text.';
GRANT EXECUTE ON FUNCTION public.dp_coef, public.dp_predict(float8[], float8[]), public.dp_predict(uuid, float8[]), public.dp_predict(text, float8[]),
  dp.linear_predictor TO dp_analyst, dp_admin;
