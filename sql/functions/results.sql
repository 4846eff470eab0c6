-- Errors of releases, in the usual tables of results: all of it is post-processing, and free.

-- The hint for callers who name no release that they may see. NULL may be what dp_last_release has returned,
-- and a job of the caller's what dp_submit or dp_run has.
CREATE OR REPLACE FUNCTION dp_int.hint_no_release(p_release uuid, p_caller name) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_release IS NULL THEN 'dp_last_release is NULL where you have asked for no fit of a data set of that name, and where it is no longer granted to you. See dp.releases for those of others.'
              WHEN j.release IS NOT NULL THEN format('That is a job. Its release is %s.', j.release)
              WHEN j.id IS NOT NULL THEN 'That is a job, which has no release: see dp_status.'
              ELSE 'See dp.releases, and dp.datasets for what is granted to you.' END
    FROM (SELECT) AS nothing LEFT JOIN dp_int.job j ON j.id = p_release AND j.principal = dp_int.principal_of(p_caller)
$$;

-- The hint for callers who name no job of theirs: it may be a release.
CREATE OR REPLACE FUNCTION dp_int.hint_no_job(p_job uuid, p_caller name) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT CASE r.model WHEN 'score' THEN 'That is a release, of a score: see dp.scores.'
                                       WHEN 'describe' THEN 'That is a release: see dp.descriptions.'
                                       WHEN 'scales' THEN 'That is a release: see dp.suggested_scales.'
                                       WHEN 'moments' THEN 'That is a release: see dp.moments.'
                                       ELSE format('That is a release: SELECT * FROM dp_summary(%L).', r.id) END
                     FROM dp_int.release r
                    WHERE r.id = p_job AND (pg_has_role(p_caller, 'dp_admin', 'USAGE') OR (dp_int.grant_of(r.dataset, p_caller)).dataset IS NOT NULL)), 'See dp.jobs.')
$$;

-- The release, if dp.releases shows it to the caller.
CREATE OR REPLACE FUNCTION dp_int.visible_release(p_release uuid) RETURNS dp_int.release
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r dp_int.release;
  asks CONSTANT name := dp.caller();
BEGIN
  SELECT * INTO r FROM dp_int.release WHERE id = p_release;
  IF NOT FOUND OR NOT pg_has_role(asks, 'dp_admin', 'USAGE') AND (dp_int.grant_of(r.dataset, asks)).dataset IS NULL THEN
    RAISE EXCEPTION 'there is no release % that you may see', coalesce(p_release::text, 'NULL')
      USING ERRCODE = '22023', HINT = dp_int.hint_no_release(p_release, asks);
  END IF;
  RETURN r;
END $$;

-- The same, if it is of a fit: others have no coefficients.
CREATE OR REPLACE FUNCTION dp_int.visible_fit(p_release uuid) RETURNS dp_int.release
LANGUAGE plpgsql STABLE AS $$
DECLARE
  r dp_int.release := dp_int.visible_release(p_release);
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.model m WHERE m.name = r.model) THEN
    RAISE EXCEPTION 'release % is of model "%" and has no coefficients', r.id, r.model
      USING ERRCODE = '22023', HINT = format('Give the release of a fit, see dp_last_release. What this one holds stands in %s.',
        CASE r.model WHEN 'score' THEN 'dp.scores' WHEN 'describe' THEN 'dp.descriptions' WHEN 'scales' THEN 'dp.suggested_scales' ELSE 'dp.moments' END);
  END IF;
  RETURN r;
END $$;

-- The number of decimals shown of a coefficient: two digits of its standard error, or three significant
-- digits of the coefficient where its errors are unknown, because a band is far wider than the errors.
CREATE OR REPLACE FUNCTION dp_int.decimals(p_coef float8, p_error float8) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_error > 0 AND p_error < 'Infinity' THEN 1 - floor(log(p_error)) WHEN p_coef <> 0 AND abs(p_coef) < 'Infinity' THEN 2 - floor(log(abs(p_coef))) ELSE 0 END::int
$$;

CREATE OR REPLACE FUNCTION dp_int.rounded(p float8, p_decimals int) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT round(p::numeric, p_decimals)::float8 $$;

-- A number rounded upward or downward. Its text has all digits of a whole number with 16 and more; the cast to numeric has 15.
-- The unit is read from text: as a power of 10 it would be 0 below 1e-16.
CREATE OR REPLACE FUNCTION dp_int.rounded_to(p float8, p_decimals int, p_up boolean) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT (CASE WHEN p_up THEN ceil(n * unit) ELSE floor(n * unit) END / unit)::float8 FROM (SELECT p::text::numeric, ('1e' || p_decimals)::numeric) AS s(n, unit) $$;

-- An end of an interval, which is 0 only where it was.
CREATE OR REPLACE FUNCTION dp_int.rounded_end(p float8, p_decimals int) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p <> 0 AND r.ended = 0 THEN dp_int.rounded(p, dp_int.decimals(p, NULL) - 2) ELSE r.ended END FROM (SELECT dp_int.rounded(p, p_decimals)) AS r(ended) $$;

-- What makes the bias of a fit smaller.
CREATE OR REPLACE FUNCTION dp_int.hint_bias(p_model text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'More eps or more rows make the bias smaller.'
         || CASE p_model WHEN 'linear' THEN ' So does dp_huber_regress mostly, by far where the interval is many times as wide as std_err: it asks about means that rows far out move less.'
              ELSE ' So does the logarithm of a feature that is an amount or a size, in a view.' END
$$;

-- Tells readers of a summary which coefficients have a t that alone would reject 0 while their p_value
-- does not: only p_value allows for bias.
CREATE OR REPLACE FUNCTION dp_int.tell_bias(r dp_int.release) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  terms CONSTANT text := (SELECT dp_int.first_few(array_agg(format('"%s"', dp_int.full_term(r.parameters ->> 'by', c.grp, c.term)) ORDER BY c.position), 12) FROM dp_int.coefficient c
                           WHERE c.release = r.id AND c.p_value > .05 AND abs(c.ci_low + c.ci_high) / 2 > c.std_err * greatest(2, dp_int.t_quantile(least(c.df, 1e6))));
BEGIN
  IF terms IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: t of % counts chance and noise alone; p_value and the interval also allow for the bias of rows that were clipped or weigh less', terms
      USING HINT = 'Go by p_value and the interval. ' || dp_int.hint_bias(r.model);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_summary(release uuid) RETURNS TABLE(term text, coef float8, std_err float8, t float8, p_value float8,
                                                                          ci_low float8, ci_high float8, why_null text)
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_summary.release);
BEGIN
  RETURN QUERY
  SELECT dp_int.full_term(r.parameters ->> 'by', c.grp, c.term), dp_int.rounded(c.coef, s.decimals), dp_int.rounded(c.std_err, s.decimals), dp_int.rounded((c.ci_low + c.ci_high) / 2 / c.std_err, 2),
         dp_int.rounded(c.p_value, dp_int.decimals(c.p_value, NULL)), dp_int.rounded_end(c.ci_low, s.decimals), dp_int.rounded_end(c.ci_high, s.decimals),
         CASE WHEN c.ci_low IS NULL THEN coalesce(c.why_null, r.why_null) END
    FROM dp_int.coefficient c, LATERAL (SELECT dp_int.decimals(c.coef, c.std_err)) AS s(decimals)
   WHERE c.release = r.id
   ORDER BY c.position;
  PERFORM dp_int.tell_cut(r.id);
  PERFORM dp_int.tell_bias(r);
  PERFORM dp_int.tell_huber_delta(r.id);
END $$;
COMMENT ON FUNCTION public.dp_summary IS
  'The table of results of a release, rounded to what its noise leaves meaningful: t is the middle of the 95 % interval over the standard error; dp.coefficients has all digits. Where there is no interval, why_null says why. Free.';

-- The covariance of two coefficients of a release, where a is not before b: it is stored with a, in an
-- array that begins at the first coefficient of the same fit. Fits of different groups have rows and
-- noise of their own, and are uncorrelated.
CREATE OR REPLACE FUNCTION dp_int.covariance(a dp_int.coefficient, b dp_int.coefficient) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN a.covariance IS NULL OR b.covariance IS NULL THEN NULL WHEN a.grp = b.grp THEN a.covariance[cardinality(a.covariance) - (a.position - b.position)] ELSE 0 END
$$;

-- The element of the allowance for bias for the two; NULL where there is none, 0 between groups.
CREATE OR REPLACE FUNCTION dp_int.bias(a dp_int.coefficient, b dp_int.coefficient) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN a.grp = b.grp THEN a.bias[cardinality(a.bias) - (a.position - b.position)] ELSE 0 END
$$;

-- Raises, with the reason why a release has no covariance, and with a remedy.
CREATE OR REPLACE FUNCTION dp_int.refuse_without_covariance(r dp_int.release) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  options CONSTANT jsonb := (SELECT coalesce(j.request -> 'options', '{}') FROM dp_int.job j WHERE j.id = r.job);
BEGIN
  IF r.why_null IS NOT NULL THEN
    RAISE EXCEPTION 'release % has no standard errors: %', r.id, r.why_null
      USING ERRCODE = '55000', HINT = CASE WHEN r.model <> 'l1' AND (options ? 'penalty' OR NOT coalesce(options ->> 'method', 'auto') = ANY ('{auto,joint_moments,newton}'))
                                           THEN 'The default method without a penalty has them where rows, budget and tails allow. ' ELSE '' END || 'dp_summary shows what this release has; asking anew is charged.';
  ELSIF EXISTS (SELECT FROM dp_int.coefficient c WHERE c.release = r.id AND c.covariance IS NULL AND c.why_null IS NULL) THEN
    RAISE EXCEPTION 'release % is from before dpsidecar kept the covariance of coefficients', r.id
      USING ERRCODE = '55000', HINT = 'dp_summary tests each of its coefficients alone. The option {"fresh": true} asks for another release, which is charged.';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_covariance(release uuid) RETURNS float8[]
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_covariance.release);
BEGIN
  PERFORM dp_int.refuse_without_covariance(r);
  RETURN (
    SELECT array_agg((SELECT array_agg(CASE WHEN o.position <= c.position THEN dp_int.covariance(c, o) ELSE dp_int.covariance(o, c) END ORDER BY o.position)
                        FROM dp_int.coefficient o WHERE o.release = r.id) ORDER BY c.position)
      FROM dp_int.coefficient c WHERE c.release = r.id);
END $$;
COMMENT ON FUNCTION public.dp_covariance IS
  'The covariance of the coefficients of a release, sampling and noise together, as a matrix in the order of dp_coef: that of the middles of their intervals; 0 between groups, NULL where a coefficient has none. Free.';

-- The categories among the features of a release, by the names that dp_test knows them by, each with its coefficients: as
-- the request had them, for the data set may have others by now. In a release by groups each group has its own.
CREATE OR REPLACE FUNCTION dp_int.category_terms(r dp_int.release) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(t.name, t.terms), '{}')
    FROM (SELECT dp_int.full_term(r.parameters ->> 'by', c.grp, f.key) AS name, jsonb_agg(dp_int.full_term(r.parameters ->> 'by', c.grp, c.term) ORDER BY c.position) AS terms
            FROM dp_int.job j, jsonb_each(j.request -> 'categories') AS f, jsonb_array_elements_text(f.value) AS l(level), dp_int.coefficient c
           WHERE j.id = r.job AND c.release = r.id AND c.term = f.key || '=' || l.level
           GROUP BY 1) AS t
$$;

-- The positions of terms in a release; a category stands for the coefficients of all its levels.
CREATE OR REPLACE FUNCTION dp_int.positions(r dp_int.release, p_terms text[]) RETURNS int[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known CONSTANT text[] := ARRAY(SELECT dp_int.full_term(r.parameters ->> 'by', c.grp, c.term) FROM dp_int.coefficient c WHERE c.release = r.id ORDER BY c.position);
  categories CONSTANT jsonb := dp_int.category_terms(r);
  terms CONSTANT text[] := ARRAY(SELECT coalesce(l.term, t.term) FROM unnest(p_terms) WITH ORDINALITY AS t(term, n) LEFT JOIN LATERAL jsonb_array_elements_text(categories -> t.term) WITH ORDINALITY AS l(term, n) ON true ORDER BY t.n, l.n);
  all_known CONSTANT text := dp_int.first_few(known, 12)
    || coalesce('. A category stands for all of its levels: ' || nullif(dp_int.first_few(ARRAY(SELECT k FROM jsonb_object_keys(categories) AS k ORDER BY array_position(known, categories -> k ->> 0)), 12), ''), '');
  stray text;
BEGIN
  IF coalesce(cardinality(p_terms), 0) = 0 OR (SELECT count(*) <> count(DISTINCT t) FROM unnest(terms) AS t) THEN
    RAISE EXCEPTION 'a test needs the names of coefficients, each once' USING ERRCODE = '22023', HINT = format('This release has %s.', all_known);
  END IF;
  SELECT t INTO stray FROM unnest(terms) AS t WHERE NOT t = ANY (known) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'this release has no coefficient "%"', dp_int.excerpt(stray) USING ERRCODE = '42703', HINT = format('It has %s.', all_known);
  END IF;
  RETURN ARRAY(SELECT array_position(known, t.term) FROM unnest(terms) WITH ORDINALITY AS t(term, n) ORDER BY t.n);
END $$;

-- The Cholesky factor: the lower triangular L with L L' = p_matrix, a correlation matrix of p_n terms
-- given by its rows one after the other; NULL where it is singular up to rounding.
CREATE OR REPLACE FUNCTION dp_int.cholesky(p_matrix float8[], p_n int) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  l float8[] := array_fill(0::float8, ARRAY[p_n * p_n]);
  v float8;
BEGIN
  FOR i IN 1 .. p_n LOOP
    FOR j IN 1 .. i LOOP
      v := p_matrix[(i - 1) * p_n + j];
      FOR k IN 1 .. j - 1 LOOP
        v := v - l[(i - 1) * p_n + k] * l[(j - 1) * p_n + k];
      END LOOP;
      IF j < i THEN
        l[(i - 1) * p_n + j] := v / l[(j - 1) * p_n + j];
      ELSIF v < 1e-10 THEN
        RETURN NULL;
      ELSE
        l[(i - 1) * p_n + i] := sqrt(v);
      END IF;
    END LOOP;
  END LOOP;
  RETURN l;
END $$;

-- L^-1 times a matrix with as many rows as L; the matrix and the product are given by their columns one
-- after the other.
CREATE OR REPLACE FUNCTION dp_int.solve_lower(l float8[], p_columns float8[], p_n int) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  z float8[] := p_columns;
  v float8;
BEGIN
  FOR c IN 0 .. cardinality(z) / p_n - 1 LOOP
    FOR i IN 1 .. p_n LOOP
      v := z[c * p_n + i];
      FOR k IN 1 .. i - 1 LOOP
        v := v - l[(i - 1) * p_n + k] * z[c * p_n + k];
      END LOOP;
      z[c * p_n + i] := v / l[(i - 1) * p_n + i];
    END LOOP;
  END LOOP;
  RETURN z;
END $$;

-- An upper bound of the largest eigenvalue of a positive semidefinite matrix, too large by a relative
-- ln(p_n) / 128 at most: the 128th root of the trace of the 128th power.
CREATE OR REPLACE FUNCTION dp_int.largest_eigenvalue(p_matrix float8[], p_n int) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  m float8[] := p_matrix;
  trace float8 := (SELECT sum(m[(i - 1) * p_n + i]) FROM generate_series(1, p_n) AS i);
  logarithm float8 := 0;  -- of the factor by which the power of p_matrix exceeds m
BEGIN
  IF NOT trace > 0 OR p_n = 1 THEN
    RETURN greatest(trace, 0);
  END IF;
  FOR squaring IN 1 .. 7 LOOP
    m := ARRAY(SELECT v / trace FROM unnest(m) WITH ORDINALITY AS u(v, o) ORDER BY o);
    logarithm := 2 * (logarithm + ln(trace));
    m := ARRAY(SELECT (SELECT sum(m[(i - 1) * p_n + k] * m[(k - 1) * p_n + j]) FROM generate_series(1, p_n) AS k)
                 FROM generate_series(1, p_n) AS i, generate_series(1, p_n) AS j ORDER BY i, j);
    trace := (SELECT sum(m[(i - 1) * p_n + i]) FROM generate_series(1, p_n) AS i);
  END LOOP;
  RETURN exp((logarithm + ln(trace)) / 128);
END $$;

-- The largest possible squared length of a bias in the metric of the inverse of p_correlation, if the
-- square of the bias in the direction of any weights c is at most c' p_bias c. Both matrices are in
-- standard errors, row by row. NULL where the correlation is singular.
CREATE OR REPLACE FUNCTION dp_int.longest_bias(p_correlation float8[], p_bias float8[], p_n int) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  l CONSTANT float8[] := dp_int.cholesky(p_correlation, p_n);
  half CONSTANT float8[] := dp_int.solve_lower(l, p_bias, p_n);  -- rows serve as columns, because p_bias is symmetric
BEGIN
  RETURN dp_int.largest_eigenvalue(
    dp_int.solve_lower(l, ARRAY(SELECT half[(j - 1) * p_n + i] FROM generate_series(1, p_n) AS i, generate_series(1, p_n) AS j ORDER BY i, j), p_n), p_n);
END $$;

-- The p value of a test of q terms with the statistic W, whose covariance has v degrees of freedom and
-- whose bias has a squared length of at most p_bias in its metric. By Hotelling, W (v - q + 1) / (v q)
-- has the F distribution with q and v - q + 1 degrees of freedom. A bias lengthens the vector by at most
-- its own length (triangle inequality), which is subtracted first.
CREATE OR REPLACE FUNCTION dp_int.wald_p(p_w float8, p_bias float8, q int, v float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT dp_int.f_survival(power(greatest(sqrt(p_w) - sqrt(p_bias), 0), 2) * (v - q + 1) / (v * q), q, v - q + 1)
$$;

-- The coefficients at some positions, in standard errors: the middles of their intervals, their
-- correlations and their allowances for bias, as matrices row by row, and the least of their degrees of
-- freedom.
CREATE OR REPLACE FUNCTION dp_int.in_standard_errors(p_release uuid, p_positions int[], OUT t float8[], OUT correlation float8[], OUT bias float8[], OUT df float8)
LANGUAGE sql STABLE AS $$
  WITH tested AS MATERIALIZED (
    SELECT p.n, c AS whole, (c.ci_low + c.ci_high) / 2 / c.std_err AS t, c.std_err, c.df
      FROM unnest(p_positions) WITH ORDINALITY AS p(position, n)
      JOIN dp_int.coefficient c ON c.release = p_release AND c.position = p.position),
  pairs AS MATERIALIZED (
    SELECT i.n AS i, j.n AS j, dp_int.covariance(a.later, a.earlier) / i.std_err / j.std_err AS covariance, coalesce(dp_int.bias(a.later, a.earlier), 0) / i.std_err / j.std_err AS bias
      FROM tested i, tested j,
           LATERAL (SELECT CASE WHEN (i.whole).position > (j.whole).position THEN i.whole ELSE j.whole END AS later,
                           CASE WHEN (i.whole).position > (j.whole).position THEN j.whole ELSE i.whole END AS earlier) AS a)
  SELECT ARRAY(SELECT x.t FROM tested x ORDER BY x.n), ARRAY(SELECT CASE WHEN i = j THEN 1 ELSE covariance END FROM pairs ORDER BY i, j),
         ARRAY(SELECT p.bias FROM pairs p ORDER BY i, j), (SELECT min(x.df) FROM tested x)
$$;

-- dp_test without rounding.
CREATE OR REPLACE FUNCTION dp_int.wald_test(r dp_int.release, p_terms text[], OUT statistic float8, OUT df float8, OUT p_value float8)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  picked int[] := dp_int.positions(r, p_terms);
  q CONSTANT int := cardinality(picked);
  x record;
  least_df float8;
  w float8;
  longest float8;
  unknown record;
BEGIN
  PERFORM dp_int.refuse_without_covariance(r);
  SELECT dp_int.full_term(r.parameters ->> 'by', c.grp, c.term) AS term, c.why_null INTO unknown FROM dp_int.coefficient c WHERE c.release = r.id AND c.position = ANY (picked) AND c.covariance IS NULL LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'coefficient "%" has no standard error: %', unknown.term, unknown.why_null
      USING ERRCODE = '55000', HINT = 'Name those that have one: dp_summary shows which, of a category the levels.';
  END IF;
  x := dp_int.in_standard_errors(r.id, picked);
  SELECT sum(z * z) INTO w FROM unnest(dp_int.solve_lower(dp_int.cholesky(x.correlation, q), x.t, q)) AS z;
  IF w IS NULL THEN
    RAISE EXCEPTION 'the covariance of these coefficients is singular: up to rounding one follows from the others'
      USING ERRCODE = '55000', HINT = 'Test fewer of them at once.';
  ELSIF x.df <= q - 1 THEN
    RAISE EXCEPTION 'with % degrees of freedom % coefficients cannot be tested at once', round(x.df::numeric, 1), q
      USING ERRCODE = '55000', HINT = 'Test fewer of them at once.';
  END IF;
  least_df := least(x.df, 1e8);  -- a larger number makes no difference
  df := CASE WHEN least_df < 1e6 THEN least_df - q + 1 ELSE 1e6 END;  -- 1e6: a fit has no more, and its variance counts as known
  statistic := w * df / (least_df * q);
  IF q = 1 THEN
    p_value := (SELECT c.p_value FROM dp_int.coefficient c WHERE c.release = r.id AND c.position = picked[1]);
  ELSE
    -- Fits of groups are independent, and each may have its own bias.
    SELECT sum(dp_int.longest_bias(s.correlation, s.bias, cardinality(s.t))) INTO longest
      FROM (SELECT array_agg(c.position) AS positions FROM dp_int.coefficient c WHERE c.release = r.id AND c.position = ANY (picked) GROUP BY c.grp) AS g,
           dp_int.in_standard_errors(r.id, g.positions) AS s;
    p_value := dp_int.wald_p(w, longest, q, least_df);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_test(release uuid, terms text[]) RETURNS TABLE(statistic float8, df float8, p_value float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1000 ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r CONSTANT dp_int.release := dp_int.visible_fit(dp_test.release);
  w record;
BEGIN
  SELECT * INTO w FROM dp_int.wald_test(r, dp_test.terms);
  -- F of 1 and df degrees of freedom has longer tails than that of more: what it would reject, any would.
  IF w.p_value > .05 AND w.statistic > dp_int.t_quantile(least(w.df, 1e6)) ^ 2 THEN
    RAISE NOTICE 'dpsidecar: statistic counts chance and noise alone; p_value also allows for the bias of rows that were clipped or weigh less'
      USING HINT = 'Go by p_value. ' || dp_int.hint_bias(r.model);
  END IF;
  RETURN QUERY SELECT dp_int.rounded(w.statistic, 2), dp_int.rounded(w.df, 1), dp_int.rounded(w.p_value, dp_int.decimals(w.p_value, NULL));
END $$;
COMMENT ON FUNCTION public.dp_test IS
  'Tests that all of these coefficients of a release are 0 (Wald); a category stands for those of all its levels. statistic is compared with the F distribution of as many degrees of freedom as there are coefficients, and of df. p_value allows for the least favourable bias that the intervals allow for; of one term it is that of dp_summary. Free.';

-- A 95 % interval around p_middle for an estimate whose variance is estimated with p_df degrees of
-- freedom, and whose squared bias is at most p_bias.
CREATE OR REPLACE FUNCTION dp_int.confidence_interval(p_middle float8, p_variance float8, p_bias float8, p_df float8) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  deviation CONSTANT float8 := sqrt(p_variance);
  half CONSTANT float8 := dp_int.biased_quantile(sqrt(greatest(p_bias, 0)) / deviation) * deviation * dp_int.t_quantile(least(p_df, 1e6)) / 1.95996398454005;
BEGIN
  RETURN ARRAY[p_middle - half, p_middle + half];
END $$;

-- w' M w for a symmetric matrix, of which each position holds its row up to the diagonal.
CREATE OR REPLACE FUNCTION dp_int.row_product(p_row float8[], w float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT w[cardinality(p_row)] * sum(m.v * w[m.k] * CASE WHEN m.k < cardinality(p_row) THEN 2 ELSE 1 END) FROM unnest(p_row) WITH ORDINALITY AS m(v, k)
$$;

-- dp_int.prediction with its interval. Features beyond 1e100 get none: products of two of them may
-- overflow, which raises an error. The prediction is NULL where it overflows.
CREATE OR REPLACE FUNCTION dp_int.prediction_interval(r dp_int.release, p_grp text, p_features float8[], p_known float8,
                                                      OUT prediction float8, OUT ci_low float8, OUT ci_high float8, OUT why_null text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  w float8[] := p_features;
  s record;
  ends float8[];
BEGIN
  BEGIN
    prediction := dp_int.prediction(r, p_grp, p_features, p_known);
  EXCEPTION WHEN numeric_value_out_of_range THEN
    why_null := 'the prediction is beyond the range of float8';
  END;
  why_null := CASE WHEN p_known IS NULL THEN 'the offset or the exposure is missing, or the exposure is not above 0'
                   WHEN EXISTS (SELECT FROM unnest(p_features) AS f WHERE abs(f) > 1e100 AND f <> 'NaN') THEN 'a feature is infinite or beyond 1e100'
                   WHEN why_null IS NOT NULL THEN why_null
                   WHEN prediction IS NULL OR 'NaN' = ANY (p_features) THEN 'a feature is missing, or has a value that is no level' END;
  IF why_null IS NOT NULL THEN
    RETURN;
  END IF;
  IF (SELECT count(*) FROM dp_int.coefficient c WHERE c.release = r.id AND c.grp = p_grp) > cardinality(p_features) THEN
    w := 1::float8 || p_features;
  END IF;
  SELECT sum(w[c.place] * (c.ci_low + c.ci_high) / 2) AS middle, sum(dp_int.row_product(c.covariance, w)) AS variance,
         sum(dp_int.row_product(c.bias, w)) AS bias, min(c.df) AS df, bool_or(c.covariance IS NULL) AS unknown, min(c.why_null) AS why_null INTO s
    FROM (SELECT x.*, row_number() OVER (ORDER BY x.position) AS place FROM dp_int.coefficient x WHERE x.release = r.id AND x.grp = p_grp) AS c;
  why_null := CASE WHEN coalesce(s.why_null, r.why_null) IS NOT NULL THEN coalesce(s.why_null, r.why_null)
                   WHEN s.unknown THEN 'it is from before dpsidecar kept the covariance of coefficients'
                   WHEN 0 = ALL (w) THEN 'without an intercept nothing is uncertain where all features are 0'
                   WHEN NOT s.variance > 0 OR s.variance IN ('NaN', 'Infinity') THEN 'rounding leaves no variance of this prediction' END;
  IF why_null IS NULL THEN
    ends := dp_int.confidence_interval(s.middle + p_known, s.variance, coalesce(s.bias, 0), s.df);
    ci_low := dp_int.response(r.model, ends[1]);
    ci_high := dp_int.response(r.model, ends[2]);
  END IF;
END $$;

-- A prediction, or an end of its interval, rounded to two digits of its standard error, taken as a
-- quarter of the interval's width; or to two digits of its distance to a bound of the model's predictions
-- (0 for counts and probabilities, 1 for probabilities) where that is less, because near a bound
-- intervals are short on one side. Where there is no interval, to five digits of its own, or for a
-- probability of its distance to 1.
CREATE OR REPLACE FUNCTION dp_int.shown_prediction(p_model text, p float8, p_width float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_width IS NULL THEN dp_int.rounded(p, dp_int.decimals(least(p, CASE WHEN m.labels THEN 1 - p END), NULL) + 2)
              ELSE dp_int.rounded(p, dp_int.decimals(p, least(p_width / 4, CASE WHEN m.labels OR dp_int.is_count(m.name) THEN p END, CASE WHEN m.labels THEN 1 - p END))) END
    FROM dp_int.model m WHERE m.name = p_model
$$;

-- dp_int.prediction_interval, rounded.
CREATE OR REPLACE FUNCTION dp_int.shown_interval(r dp_int.release, p_grp text, p_features float8[], p_known float8) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT dp_int.shown_prediction(r.model, p.prediction, p.ci_high - p.ci_low), dp_int.shown_prediction(r.model, p.ci_low, p.ci_high - p.ci_low),
         dp_int.shown_prediction(r.model, p.ci_high, p.ci_high - p.ci_low), p.why_null
    FROM dp_int.prediction_interval(r, p_grp, p_features, p_known) AS p
$$;

CREATE OR REPLACE FUNCTION public.dp_predict_interval(release uuid, features float8[]) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 5000 ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_predict_interval.release);
BEGIN
  PERFORM dp_int.refuse_groups(r);
  RETURN QUERY SELECT p.* FROM dp_int.shown_interval(r, '', dp_predict_interval.features, 0) AS p;
END $$;
COMMENT ON FUNCTION public.dp_predict_interval(uuid, float8[]) IS
  'What dp_predict gives, with a 95 % confidence interval, rounded to what it leaves meaningful: of the mean target, the probability of the positive label, or the mean count of an exposure of 1, among people with these features, not of one person''s target. Where there is none, why_null says why. Free.';

-- Without this overload a release written as a literal would match both uuid and text.
CREATE OR REPLACE FUNCTION public.dp_predict_interval(release text, features float8[]) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT p.prediction, p.ci_low, p.ci_high, p.why_null FROM public.dp_predict_interval(dp.release_of(release), features) p;
END;
COMMENT ON FUNCTION public.dp_predict_interval(text, float8[]) IS 'The same for a release written as text.';

CREATE OR REPLACE FUNCTION public.dp_predict_interval(release uuid, features jsonb) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 5000 ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r dp_int.release := dp_int.visible_fit(dp_predict_interval.release);
BEGIN
  RETURN QUERY SELECT p.*
    FROM dp_int.shown_interval(r, CASE WHEN r.parameters ? 'by' THEN dp_int.group_named(r, dp_predict_interval.features) ELSE '' END,
           dp_int.feature_values(r, dp_predict_interval.features), dp_int.known_part(r, dp_predict_interval.features)) AS p;
END $$;
COMMENT ON FUNCTION public.dp_predict_interval(uuid, jsonb) IS 'The same with features by name, for instance {"age": 40, "region": "south"}: of a category its level.';

-- Without this overload features written as a literal would match both float8[] and jsonb.
CREATE OR REPLACE FUNCTION public.dp_predict_interval(release uuid, features text) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
  IF pg_catalog.strpos(dp_predict_interval.features, ':') OPERATOR(pg_catalog.>) 0 THEN
    RETURN QUERY SELECT p.* FROM public.dp_predict_interval(dp_predict_interval.release, dp_predict_interval.features::pg_catalog.jsonb) AS p;
  ELSE
    RETURN QUERY SELECT p.* FROM public.dp_predict_interval(dp_predict_interval.release, dp_predict_interval.features::pg_catalog.float8[]) AS p;
  END IF;
END $$;
COMMENT ON FUNCTION public.dp_predict_interval(uuid, text) IS 'The same for features written as text, an array or a JSON object.';

CREATE OR REPLACE FUNCTION public.dp_predict_interval(release text, features text) RETURNS TABLE(prediction float8, ci_low float8, ci_high float8, why_null text)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT p.prediction, p.ci_low, p.ci_high, p.why_null FROM public.dp_predict_interval(dp.release_of(release), features) p;
END;
COMMENT ON FUNCTION public.dp_predict_interval(text, text) IS 'The same for release and features written as text.';
GRANT EXECUTE ON FUNCTION public.dp_summary, public.dp_covariance, public.dp_test, public.dp_predict_interval(uuid, float8[]), public.dp_predict_interval(text, float8[]),
  public.dp_predict_interval(uuid, jsonb), public.dp_predict_interval(uuid, text), public.dp_predict_interval(text, text) TO dp_analyst, dp_admin;
