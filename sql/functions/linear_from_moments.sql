-- Least squares fits from released second moments: post-processing, and free. Matrices are arrays by
-- rows.

-- Eigenvalues of a symmetric matrix, and its eigenvectors as columns, by cyclic Jacobi rotations, until
-- the off-diagonal elements are at the level of rounding.
CREATE OR REPLACE FUNCTION dp_int.eigen(p_matrix float8[], p_size int, OUT eigenvalues float8[], OUT vectors float8[])
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  a float8[] := p_matrix;
  n CONSTANT int := p_size;
  diagonal float8;
  rest float8;
  theta float8; t float8; c float8; s float8; u float8; w float8;
BEGIN
  vectors := ARRAY(SELECT (i = k)::int::float8 FROM generate_series(1, n) AS i, generate_series(1, n) AS k ORDER BY i, k);
  FOR sweep IN 1..50 LOOP
    SELECT sum(v * v) FILTER (WHERE (o - 1) % (n + 1) = 0), coalesce(sum(v * v) FILTER (WHERE (o - 1) % (n + 1) <> 0), 0) INTO diagonal, rest FROM unnest(a) WITH ORDINALITY AS e(v, o);
    EXIT WHEN rest <= 1e-30 * diagonal;
    FOR p IN 1..n - 1 LOOP
      FOR q IN p + 1..n LOOP
        CONTINUE WHEN a[(p - 1) * n + q] = 0;
        theta := (a[(q - 1) * n + q] - a[(p - 1) * n + p]) / (2 * a[(p - 1) * n + q]);
        t := CASE WHEN abs(theta) > 1e150 THEN 0.5 / theta ELSE CASE WHEN theta < 0 THEN -1 ELSE 1 END / (abs(theta) + sqrt(theta * theta + 1)) END;
        c := 1 / sqrt(t * t + 1);
        s := t * c;
        FOR k IN 1..n LOOP
          u := a[(k - 1) * n + p];
          w := a[(k - 1) * n + q];
          a[(k - 1) * n + p] := c * u - s * w;
          a[(k - 1) * n + q] := s * u + c * w;
          u := vectors[(k - 1) * n + p];
          w := vectors[(k - 1) * n + q];
          vectors[(k - 1) * n + p] := c * u - s * w;
          vectors[(k - 1) * n + q] := s * u + c * w;
        END LOOP;
        FOR k IN 1..n LOOP
          u := a[(p - 1) * n + k];
          w := a[(q - 1) * n + k];
          a[(p - 1) * n + k] := c * u - s * w;
          a[(q - 1) * n + k] := s * u + c * w;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
  eigenvalues := ARRAY(SELECT a[(k - 1) * n + k] FROM generate_series(1, n) AS k ORDER BY k);
END $$;

-- The matrix with the given eigenvectors and the replaced eigenvalues p_values, times a vector.
CREATE OR REPLACE FUNCTION dp_int.eigen_times(p_vectors float8[], p_values float8[], p_vector float8[]) RETURNS float8[]
LANGUAGE sql IMMUTABLE AS $$
  WITH size AS (SELECT cardinality(p_values) AS n),
       along AS (SELECT k, p_values[k] * sum(p_vectors[(i - 1) * n + k] * p_vector[i]) AS v FROM size, generate_series(1, n) AS i, generate_series(1, n) AS k GROUP BY k)
  SELECT array_agg(r.v ORDER BY r.i) FROM (SELECT i, sum(p_vectors[(i - 1) * n + k] * along.v) AS v FROM size, generate_series(1, n) AS i, along GROUP BY i) AS r
$$;

-- The releases of second moments of a data set that contain the given columns. There may be several of
-- the same window. Releases of equal likeness have the same columns, scales and bound, so that their sums
-- can be added.
CREATE OR REPLACE FUNCTION dp_int.moments_of(p_dataset bigint, p_columns name[])
RETURNS TABLE(release uuid, likeness jsonb, over daterange, noise float8, released_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT r.id, j.request - '{eps,delta,over}'::text[], CASE WHEN j.request ? 'over' THEN dp_int.window_of(j.request -> 'over') END, m.noise, r.released_at
    FROM dp_int.second_moments m
    JOIN dp_int.release r ON r.id = m.release
    JOIN dp_int.job j ON j.id = r.job
   WHERE r.dataset = p_dataset AND (j.request -> 'features') || (j.request -> 'target') ?& p_columns::text[]
$$;

-- The window of a release that was read before the end of that window, NULL for others. The earlier of
-- the read and the charge counts: a job tried again after the window's end has the number of rows of
-- before its charge.
CREATE OR REPLACE FUNCTION dp_int.ran_at_reading(p_release uuid) RETURNS daterange
LANGUAGE sql STABLE AS $$
  SELECT w.days
    FROM dp_int.release r
    JOIN dp_int.job j ON j.id = r.job
    JOIN dp_int.ledger l ON l.id = r.charge,
         LATERAL (SELECT CASE WHEN j.request ? 'over' THEN dp_int.window_of(j.request -> 'over') END) AS w(days)
   WHERE r.id = p_release AND least(r.read_at, l.at) < upper(w.days)::timestamp AT TIME ZONE 'UTC'
$$;

-- The releases of one likeness that together cover a window, each row of the table being in exactly one
-- of them: of all such sets the one with the least variance of noise. Of releases of the same window it takes the latest of
-- those whose noise is at most 1.25 times the least: at equal eps the first of an account has a little less than others. NULL
-- if there is none. Releases that were read before the end of their window are used only if p_early, and
-- only where no other release is of the same window.
CREATE OR REPLACE FUNCTION dp_int.moments_cover(p_dataset bigint, p_columns name[], p_likeness jsonb, p_over daterange, p_early boolean, OUT releases uuid[], OUT variance float8)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  m record;
  sums float8[] := ARRAY[0];  -- by number of days from the window's begin: the least variance of releases that cover them,
  latest uuid[];              -- the last of these releases,
  since int[];                -- and the day on which it begins
  day int := upper(p_over) - lower(p_over);
BEGIN
  IF p_over IS NULL THEN
    SELECT ARRAY[o.release], o.noise * o.noise INTO releases, variance
      FROM (SELECT c.*, min(c.noise) OVER () AS least FROM dp_int.moments_of(p_dataset, p_columns) AS c WHERE c.likeness = p_likeness AND c.over IS NULL) AS o
     ORDER BY o.noise > 1.25 * o.least, o.released_at DESC LIMIT 1;
    RETURN;
  END IF;
  sums := sums || array_fill(NULL::float8, ARRAY[day]);
  latest := array_fill(NULL::uuid, ARRAY[day]);
  since := array_fill(NULL::int, ARRAY[day]);
  FOR m IN SELECT DISTINCT ON (upper(o.over), lower(o.over)) o.release, lower(o.over) - lower(p_over) AS first, upper(o.over) - lower(p_over) AS after, o.noise * o.noise AS variance
             FROM (SELECT c.*, e.early, min(c.noise) OVER (PARTITION BY c.over, e.early) AS least
                     FROM dp_int.moments_of(p_dataset, p_columns) AS c, LATERAL (SELECT dp_int.ran_at_reading(c.release) IS NOT NULL) AS e(early)
                    WHERE c.likeness = p_likeness AND c.over <@ p_over AND (p_early OR NOT e.early)) AS o
            ORDER BY upper(o.over), lower(o.over), o.early, o.noise > 1.25 * o.least, o.released_at DESC LOOP
    IF sums[m.first + 1] + m.variance < coalesce(sums[m.after + 1], 'Infinity') THEN
      sums[m.after + 1] := sums[m.first + 1] + m.variance;
      latest[m.after] := m.release;
      since[m.after] := m.first;
    END IF;
  END LOOP;
  variance := sums[day + 1];
  WHILE variance IS NOT NULL AND day > 0 LOOP
    releases := latest[day] || releases;
    day := since[day];
  END LOOP;
END $$;

-- Raises, with the reason why no second moments cover a window.
CREATE OR REPLACE FUNCTION dp_int.refuse_uncovered(d dp_int.dataset, p_columns name[], p_over daterange) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  hint CONSTANT text := CASE WHEN EXISTS (SELECT FROM dp_int.second_moments m JOIN dp_int.release r ON r.id = m.release JOIN dp_int.dataset e ON e.id = r.dataset WHERE e.name = d.name AND e.id <> d.id)
                             THEN 'Those of a former registration of the name are not used. ' ELSE '' END || 'See dp.moments for what there is, and release what is missing with dp_moments or CALL dp_run(''moments'', ...). This question is free.';
  missing text;
BEGIN
  IF NOT EXISTS (SELECT FROM dp_int.moments_of(d.id, p_columns) AS m WHERE (m.over IS NULL) = (p_over IS NULL)) THEN
    RAISE EXCEPTION 'no second moments of data set "%" hold %', d.name, array_to_string(p_columns, ', ') USING ERRCODE = '55000', HINT = hint;
  END IF;
  SELECT string_agg(g.gap::text, ', ' ORDER BY g.gap) INTO missing
    FROM (SELECT gap FROM unnest(datemultirange(p_over) - coalesce((SELECT range_agg(m.over) FROM dp_int.moments_of(d.id, p_columns) AS m WHERE m.over <@ p_over), '{}')) AS gap ORDER BY gap LIMIT 20) AS g;
  IF missing IS NULL THEN
    RAISE EXCEPTION 'no second moments of % that can be added up cover %', array_to_string(p_columns, ', '), p_over
      USING ERRCODE = '55000', HINT = 'Those that do have other columns or scales in other parts of it, or count rows twice: release all of it with the same columns and scales, see dp.moments. This question is free.';
  END IF;
  RAISE EXCEPTION 'no second moments of % cover %', array_to_string(p_columns, ', '), missing USING ERRCODE = '55000', HINT = hint;
END $$;

-- The releases from which a fit is computed: first by whether their scales are those in force, then by
-- whether their windows were over when read, then by the variance of their noise. Also returns their
-- likeness and that variance.
CREATE OR REPLACE FUNCTION dp_int.choose_moments(d dp_int.dataset, p_columns name[], p_over daterange, OUT releases uuid[], OUT variance float8, OUT likeness jsonb)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT c.releases, c.variance, k.likeness INTO releases, variance, likeness
    FROM (SELECT DISTINCT m.likeness FROM dp_int.moments_of(d.id, p_columns) AS m) AS k, unnest('{false,true}'::boolean[]) AS early,
         LATERAL dp_int.moments_cover(d.id, p_columns, k.likeness, p_over, early) AS c
   WHERE c.variance IS NOT NULL
   ORDER BY k.likeness -> 'scales' <> dp_int.scales_of(d.scales, k.likeness), early, c.variance LIMIT 1;
  IF NOT FOUND THEN
    PERFORM dp_int.refuse_uncovered(d, p_columns, p_over);
  END IF;
END $$;

-- The terms of a column in second moments of a likeness.
CREATE OR REPLACE FUNCTION dp_int.terms_of(p_likeness jsonb, p_column text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE AS $$
  SELECT p_column WHERE NOT coalesce(p_likeness -> 'categories' ? p_column, false)
  UNION ALL
  SELECT * FROM (SELECT p_column || '=' || l.level FROM jsonb_array_elements_text(p_likeness -> 'categories' -> p_column) WITH ORDINALITY AS l(level, n) WHERE l.n > 1 ORDER BY l.n) AS t
$$;

-- The sums of the products of some terms over several releases, as a full matrix.
CREATE OR REPLACE FUNCTION dp_int.sum_moments(p_releases uuid[], p_terms text[]) RETURNS float8[]
LANGUAGE sql STABLE AS $$
  WITH held AS (SELECT terms, cardinality(terms) AS size FROM dp_int.second_moments WHERE release = p_releases[1]),
       total AS (SELECT array_agg(t.sum ORDER BY t.o) AS sums
                   FROM (SELECT e.o, sum(e.v) FROM dp_int.second_moments m, unnest(m.sums) WITH ORDINALITY AS e(v, o) WHERE m.release = ANY (p_releases) GROUP BY e.o) AS t(o, sum)),
       place AS (SELECT w.o, array_position(held.terms, w.term) AS i FROM held, unnest(p_terms) WITH ORDINALITY AS w(term, o))
  SELECT array_agg(total.sums[(least(a.i, b.i) - 1) * (2 * held.size - least(a.i, b.i)) / 2 + greatest(a.i, b.i)] ORDER BY a.o, b.o)
    FROM held, total, place a, place b
$$;

-- A least squares fit from second moments of (1, x_1 ... x_k, y), the last being y. p_noise is the
-- standard deviation of the noise on the diagonal; off the diagonal it is smaller by a factor sqrt(2).
-- With p_ridge NULL the estimate b is shrunk according to the noise: it minimises |g - H b|^2 + noise^2
-- (k + 2) |b|^2, for coefficients whose squares add up to about 1. A ridge is a penalty per row. The
-- interval is about the estimate a without shrinkage: covariance is that of a, by rows, noise the part of
-- it caused by the noise, and sampling that of rows if none belong to one person. Up to p_alike records may
-- belong to one person and be equal, which multiplies the variance of their sum by at most p_alike.
CREATE OR REPLACE FUNCTION dp_int.solve_moments(p_sums float8[], p_size int, p_noise float8, p_ridge float8, p_alike int,
                                             OUT b float8[], OUT a float8[], OUT covariance float8[], OUT noise float8[], OUT sampling float8[], OUT why_null text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n CONSTANT int := p_size - 1;
  h CONSTANT float8[] := ARRAY(SELECT p_sums[(i - 1) * p_size + k] FROM generate_series(1, n) AS i, generate_series(1, n) AS k ORDER BY i, k);
  g CONSTANT float8[] := ARRAY(SELECT p_sums[i * p_size] FROM generate_series(1, n) AS i ORDER BY i);
  half CONSTANT float8 := p_noise * p_noise / 2;
  e record;
  length float8;    -- squared length of (a, -1)
  inverse float8[]; -- the inverse of H times a
  spread float8;    -- variance of the residuals
BEGIN
  SELECT * INTO e FROM dp_int.eigen(h, n);
  b := dp_int.eigen_times(e.vectors, ARRAY(SELECT dp_int.shrunk_inverse(v, p_noise * p_noise * p_size, p_ridge * greatest(p_sums[1], 1)) FROM unnest(e.eigenvalues) WITH ORDINALITY AS l(v, o) ORDER BY o), g);
  IF (SELECT min(v) FROM unnest(e.eigenvalues) AS v) <= 2 * p_noise * sqrt(p_size) THEN
    why_null := 'noise hides some direction of the features; sum more blocks, or moments with more eps, or leave out rare or nearly redundant features';
    RETURN;
  END IF;
  a := dp_int.eigen_times(e.vectors, ARRAY(SELECT 1 / v FROM unnest(e.eigenvalues) WITH ORDINALITY AS l(v, o) ORDER BY o), g);
  inverse := dp_int.eigen_times(e.vectors, ARRAY(SELECT 1 / v FROM unnest(e.eigenvalues) WITH ORDINALITY AS l(v, o) ORDER BY o), a);
  length := 1 + (SELECT sum(v * v) FROM unnest(a) AS v);
  -- The fit adapts to the noise, which lowers the sum of squared residuals: the expected reduction is
  -- added back.
  SELECT (greatest(0, p_sums[p_size * p_size] - sum(a[i] * g[i])) + half * (length * (SELECT sum(1 / v) FROM unnest(e.eigenvalues) AS v) + sum(a[i] * inverse[i])))
         / greatest(p_sums[1] - n, 1) INTO spread FROM generate_series(1, n) AS i;
  SELECT array_agg(p_alike * c.of_rows + c.by_noise ORDER BY i, k), array_agg(c.by_noise ORDER BY i, k), array_agg(c.of_rows ORDER BY i, k) INTO covariance, noise, sampling
    FROM generate_series(1, n) AS i, generate_series(1, n) AS k,
         LATERAL (SELECT sum(w.v * spread / l.v), sum(w.v * half * length / (l.v * l.v)) + half * inverse[i] * inverse[k]
                    FROM unnest(e.eigenvalues) WITH ORDINALITY AS l(v, o), LATERAL (SELECT e.vectors[(i - 1) * n + l.o] * e.vectors[(k - 1) * n + l.o]) AS w(v)) AS c(of_rows, by_noise);
END $$;

-- The factor used instead of 1/v for an eigenvalue v.
CREATE OR REPLACE FUNCTION dp_int.shrunk_inverse(v float8, p_noise float8, p_ridge float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_ridge IS NULL AND v > 0 THEN v / (v * v + p_noise) WHEN greatest(v, 0) + p_ridge > 0 THEN 1 / (greatest(v, 0) + p_ridge) ELSE 0 END
$$;

-- The rows of the linear map from scaled coefficients to coefficients in the table's units: the factor of
-- a term, and for the intercept also the contributions of the centres.
CREATE OR REPLACE FUNCTION dp_int.units_of_terms(p_scales jsonb, p_target text, p_terms text[]) RETURNS TABLE(i int, weights float8[])
LANGUAGE sql IMMUTABLE AS $$
  WITH unit AS (SELECT t.o, dp_int.scale_of(p_scales -> p_target) / CASE t.o WHEN 1 THEN 1 ELSE dp_int.scale_of(p_scales -> t.term) END AS scale, dp_int.center(p_scales -> t.term) AS center
                  FROM unnest(p_terms) WITH ORDINALITY AS t(term, o))
  SELECT row.o::int, array_agg(CASE WHEN u.o = row.o THEN u.scale WHEN row.o = 1 THEN -u.scale * u.center ELSE 0 END ORDER BY u.o) FROM unit AS row, unit AS u GROUP BY row.o
$$;

-- The scale of a registered column, 1 where it has none.
CREATE OR REPLACE FUNCTION dp_int.scale_of(p_scale jsonb) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce((CASE jsonb_typeof(p_scale) WHEN 'object' THEN p_scale ->> 'scale' ELSE p_scale #>> '{}' END)::float8, 1) $$;

-- The columns of a fit from second moments, the target last, checked.
CREATE OR REPLACE FUNCTION dp_int.moment_columns(d dp_int.dataset, p_target name, p_features name[]) RETURNS name[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  target CONSTANT name := coalesce(p_target, d.target);
  columns CONSTANT name[] := coalesce(p_features, array_remove(d.features, target)) || target;
  c name;
BEGIN
  PERFORM dp_int.check_size(d, p_features, '{}');
  IF array_ndims(p_features) > 1 OR (SELECT count(*) <> count(DISTINCT n) FROM unnest(columns) AS n) THEN
    RAISE EXCEPTION 'features must be a list of names, every column once and the target not among them' USING ERRCODE = '22023', HINT = 'For instance ''{age,region}''. This question is free.';
  END IF;
  FOREACH c IN ARRAY columns LOOP
    IF c IS NULL OR NOT c = ANY (d.target || d.features) THEN
      RAISE EXCEPTION 'column % is not registered in data set "%"', coalesce('"' || c || '"', 'NULL'), d.name
        USING ERRCODE = '42703', HINT = format('Registered columns are %s. This question is free.', array_to_string(d.target || d.features, ', '));
    END IF;
  END LOOP;
  IF d.categories ? target::text THEN
    RAISE EXCEPTION 'target "%" is a category, which least squares cannot predict', target USING ERRCODE = '22023', HINT = 'Choose a target of numbers. This question is free.';
  END IF;
  RETURN columns;
END $$;

-- Says that moments of these columns were released later than those that are used, which have less noise.
CREATE OR REPLACE FUNCTION dp_int.tell_later(d dp_int.dataset, p_columns name[], p_used uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  used CONSTANT dp_int.release := (SELECT r FROM dp_int.release r WHERE r.id = p_used);
  later timestamptz;
BEGIN
  SELECT max(o.released_at) INTO later FROM dp_int.moments_of(d.id, p_columns) AS o WHERE o.over IS NULL AND o.released_at > used.released_at;
  IF later IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: this is of the moments that were read at %; those that were released later, the last at %, have more noise and are not used', used.read_at, later
      USING HINT = format('For the rows of now ask for moments afresh, with eps %s or more.', used.eps);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION public.dp_linear_from_moments(dataset text, over daterange DEFAULT NULL, target name DEFAULT NULL, features name[] DEFAULT NULL, ridge float8 DEFAULT NULL)
RETURNS TABLE(term text, coef float8, std_err float8, ci_low float8, ci_high float8, noise float8, why_null text)
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 100000 ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d CONSTANT dp_int.dataset := dp_int.granted_dataset(dp.caller(), dp_linear_from_moments.dataset, false);
  columns name[];
  m record;
  terms text[];
  sums float8[];
  fit record;
  lost record;
BEGIN
  IF NOT dp_linear_from_moments.ridge BETWEEN 0 AND 1e300 THEN
    RAISE EXCEPTION 'ridge must be a number from 0 on, not %', dp_linear_from_moments.ridge USING ERRCODE = '22023', HINT = 'Leave it out: then noise decides. This question is free.';
  END IF;
  PERFORM dp_int.canonical_over(d, dp_int.window_json(dp_linear_from_moments.over));
  columns := dp_int.moment_columns(d, dp_linear_from_moments.target, dp_linear_from_moments.features);
  SELECT * INTO m FROM dp_int.choose_moments(d, columns, dp_linear_from_moments.over);
  terms := '(intercept)'::text || ARRAY(SELECT t FROM unnest(columns) WITH ORDINALITY AS c(name, n), LATERAL dp_int.terms_of(m.likeness, c.name::text) WITH ORDINALITY AS t(t, o) ORDER BY c.n, t.o);
  sums := dp_int.sum_moments(m.releases, terms);
  SELECT * INTO fit FROM dp_int.solve_moments(sums, cardinality(terms), sqrt(m.variance), dp_linear_from_moments.ridge,
                                              CASE WHEN d.unit IS NULL OR d.options ? 'one_block_a_person' THEN 1 ELSE cardinality(m.releases) END);
  lost := dp_int.lost_weight(m.releases);
  PERFORM dp_int.tell_shortened(lost.told, lost.told_noise, sums[1], lost.former);
  IF NOT lost.former THEN
    PERFORM dp_int.tell_weight(d, lost.rows, sums[1] + greatest(lost.told, 0), sqrt(m.variance + lost.told_noise ^ 2));
  END IF;
  PERFORM dp_int.tell_early(m.releases);
  IF dp_linear_from_moments.over IS NULL THEN
    PERFORM dp_int.tell_later(d, columns, m.releases[1]);
  END IF;
  RETURN QUERY
  SELECT terms[u.i], v.coef, sqrt(v.variance), i.ends[1], i.ends[2], sqrt(v.by_noise), fit.why_null
    FROM dp_int.units_of_terms(m.likeness -> 'scales', terms[cardinality(terms)], terms[:cardinality(terms) - 1]) AS u,
         LATERAL (SELECT dp_int.inner_product(u.weights, fit.b) + s.center, dp_int.inner_product(u.weights, fit.a) + s.center,
                         dp_int.quadratic_form(fit.covariance, u.weights), dp_int.quadratic_form(fit.noise, u.weights), dp_int.quadratic_form(fit.sampling, u.weights)
                    FROM (SELECT CASE u.i WHEN 1 THEN dp_int.center(m.likeness -> 'scales' -> terms[cardinality(terms)]) ELSE 0 END) AS s(center)) AS v(coef, middle, variance, by_noise, sampling),
         LATERAL (SELECT greatest(v.sampling * dp_int.shortening_bias(lost.shortened, lost.noise, sums[1]),
                                 CASE WHEN u.i = 1 THEN (u.weights[1] * dp_int.intercept_bias(m.releases, lost.shortened, sums[1])) ^ 2 END)) AS shortening(bias),
         LATERAL (SELECT dp_int.confidence_interval(v.middle, nullif(v.variance, 0), shortening.bias, greatest(sums[1] - cardinality(terms), 1))) AS i(ends)
   ORDER BY u.i;
END $$;
COMMENT ON FUNCTION public.dp_linear_from_moments IS
  'Least squares from second moments that were released: any target and features among their columns, over any window that their blocks make up. Coefficients in the table''s units, shrunk by what noise explains unless a ridge is given; std_err: sampling and noise together, noise: its part. Free.';

CREATE OR REPLACE FUNCTION dp_int.inner_product(a float8[], b float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT sum(t.x * t.y) FROM unnest(a, b) AS t(x, y) $$;

-- w' M w.
CREATE OR REPLACE FUNCTION dp_int.quadratic_form(p_matrix float8[], w float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT sum(m.v * w[(m.o - 1) / cardinality(w) + 1] * w[(m.o - 1) % cardinality(w) + 1]) FROM unnest(p_matrix) WITH ORDINALITY AS m(v, o)
$$;

-- The weight that rows of these releases lose by being shortened, with the standard deviation of its noise, and the public
-- number of rows. Releases from before that weight was released (former; told is the part of the others) lose at most what
-- is missing from the sum of weights, to missing values and to empty records too.
CREATE OR REPLACE FUNCTION dp_int.lost_weight(p_releases uuid[], OUT shortened float8, OUT noise float8, OUT told float8, OUT told_noise float8, OUT former boolean, OUT rows float8)
LANGUAGE sql STABLE AS $$
  SELECT sum(coalesce(m.lost, n.rows - m.sums[1])), sqrt(sum(coalesce(m.lost_noise, m.noise) ^ 2)), sum(coalesce(m.lost, 0)), sqrt(sum(coalesce(m.lost_noise, 0) ^ 2)), bool_or(m.lost IS NULL), sum(n.rows)
    FROM dp_int.release r
    JOIN dp_int.second_moments m ON m.release = r.id,
         LATERAL (SELECT (r.parameters ->> 'rows')::float8) AS n(rows)
   WHERE r.id = ANY (p_releases)
$$;

-- The square of the bias that intervals allow for because rows were shortened, beside the sampling variance of a coefficient:
-- five times the lost share of weight, less one deviation of its noise, in standard deviations of the residuals where a
-- feature varies by one. The bias is that of weighted rows, which sums do not bound (second_moments.md).
CREATE OR REPLACE FUNCTION dp_int.shortening_bias(p_shortened float8, p_noise float8, p_weight float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT (5 * greatest(p_shortened - p_noise, 0)) ^ 2 / greatest(p_weight, 1)
$$;

-- The bias of the intercept, in scaled units of the target, that intervals allow for where targets are what makes rows long, as
-- costs are that few rows have: all lie on one side, so that the lost weight counts with two and a half times the length
-- to which rows are shortened.
CREATE OR REPLACE FUNCTION dp_int.intercept_bias(p_releases uuid[], p_shortened float8, p_weight float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT 2.5 * max(m.bound) * greatest(p_shortened, 0) / greatest(p_weight, 1) FROM dp_int.second_moments m WHERE m.release = ANY (p_releases)
$$;

-- Tells where shortening surely took a two-hundredth of the weight of rows, and where releases are from before that was known.
CREATE OR REPLACE FUNCTION dp_int.tell_shortened(p_told float8, p_noise float8, p_weight float8, p_former boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_told > 2 * p_noise AND p_told > 0.005 * p_weight THEN
    RAISE NOTICE 'dpsidecar: about % %% of the weight of rows is lost, because they are longer than scales allow and were shortened', dp_int.rounded(100 * p_told / greatest(p_weight + p_told, 1), 1)
      USING HINT = 'Coefficients lean toward those of the other rows; intervals are wider by what that may be. With larger scales, or centers where values lie, fewer rows are shortened; dp_linear_regress does not need that.';
  END IF;
  IF p_former THEN
    RAISE NOTICE 'dpsidecar: some of these second moments are from before it was released how much weight rows lose by being shortened: intervals suppose that all missing weight is lost so, and are wide'
      USING HINT = 'dp_moments with fresh => true releases them again, and is charged.';
  END IF;
END $$;

-- Tells where missing values have reduced the total weight of rows, with what they lose by being shortened, by more than a
-- twentieth, beyond three standard deviations of the noise. Empty records that pad a registered number of rows have weight 0.
CREATE OR REPLACE FUNCTION dp_int.tell_weight(d dp_int.dataset, p_rows float8, p_weight float8, p_noise float8) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_weight + 3 * p_noise < 0.95 * p_rows THEN
    RAISE NOTICE 'dpsidecar: about % %% of % do not count: %a value is missing',
        round((100 * least(1 - p_weight / p_rows, 1))::numeric), CASE WHEN d.unit IS NULL THEN 'rows' ELSE 'persons' END,
        CASE WHEN coalesce(d.persons, d.block_rows) IS NOT NULL THEN 'there are fewer than the ' || p_rows || ' that are registered, or ' ELSE '' END
      USING HINT = 'The fit is of the others. dp_moments with columns that are rarely NULL counts more of them.';
  END IF;
END $$;

-- Tells which releases were read before their windows were over.
CREATE OR REPLACE FUNCTION dp_int.tell_early(p_releases uuid[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  early text;
BEGIN
  SELECT string_agg(w.days::text, ', ' ORDER BY w.days) INTO early FROM unnest(p_releases) AS r(id), dp_int.ran_at_reading(r.id) AS w(days);
  IF early IS NOT NULL THEN
    RAISE NOTICE 'dpsidecar: the second moments of % were read before that was over, and may lack rows that came later', early
      USING HINT = 'Once it is over, dp_moments with fresh => true releases them again, and is charged.';
  END IF;
END $$;
GRANT EXECUTE ON FUNCTION public.dp_linear_from_moments TO dp_analyst, dp_admin;
