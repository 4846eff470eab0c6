BEGIN;
SET LOCAL ROLE dp_owner;
DROP FUNCTION public.dp_predict(text, float8[]), public.dp_predict(uuid, float8[]), public.dp_predict(float8[], float8[]), public.dp_coef;
DROP FUNCTION dp.linear_predictor;
COMMIT;
