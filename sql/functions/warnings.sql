-- Likely oversights in a request, detected from public facts alone. dp_explain lists them, and a caller
-- who is about to spend without having asked dp_explain is warned.

-- The square root of the rho whose epsilon at delta is eps, NULL without one.
CREATE OR REPLACE FUNCTION dp_int.root_of_rho(p_eps float8, p_delta float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT p_eps / (sqrt(p_eps - ln(nullif(p_delta, 0))) + sqrt(-ln(nullif(p_delta, 0))))  -- sqrt(eps - ln delta) - sqrt(-ln delta), without cancellation
$$;

-- The number of rows from which the standard deviation of the noise is expected below a tenth of the
-- scale, in the best case: features that are as large and as independent as their scales, and rows of the
-- largest weight. The factors are from forecasts of the default methods at such features.
CREATE OR REPLACE FUNCTION dp_int.least_rows(p_model text, p_coefficients int, p_eps float8, p_delta float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_delta = 0 THEN 55 * p_coefficients / p_eps
              ELSE CASE WHEN (SELECT labels FROM dp_int.model WHERE name = p_model) THEN greatest(80 * r.root, 130) WHEN dp_int.is_count(p_model) THEN 140 * r.root ELSE 14 * p_coefficients END
                   / dp_int.root_of_rho(p_eps, p_delta) END
    FROM (SELECT sqrt(p_coefficients / 2.0)) AS r(root)
$$;

-- About how many rows the default methods need to find the scales of p_columns columns of numbers. Half as
-- many are the fewest for which they look (hopelessNoise in scales.go); in those they find only columns all of
-- whose values are of about one size. Medians look where they find most (newStagedShares), and take fits in stages.
CREATE OR REPLACE FUNCTION dp_int.rows_for_scales(p_columns int, p_coefficients int, p_eps float8, p_delta float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_delta = 0 THEN greatest(471 * p_columns, 60 * p_coefficients ^ 1.5) / p_eps
              ELSE 30 * sqrt(p_columns) / nullif(sqrt(dp_int.zcdp_rho(p_eps::numeric, p_delta::numeric * 0.9)::float8), 0) END
$$;

-- About how many values each of p_columns columns of numbers needs before its quartiles, or its scale,
-- can be given: within a seventh of values_needed, which follows from the noise
-- (TestADescriptionOfFewRowsIsDoubted).
CREATE OR REPLACE FUNCTION dp_int.least_values(p_model text, p_columns int, p_eps float8, p_delta float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_delta = 0 THEN CASE p_model WHEN 'scales' THEN 530 ELSE 850 END * p_columns / p_eps
              ELSE CASE p_model WHEN 'scales' THEN 78 ELSE 99 END * sqrt(p_columns) / dp_int.root_of_rho(p_eps, p_delta) END
$$;

-- About how many rows a score needs for a 50 % chance of a first value, and of a first interval, with
-- normal residuals and balanced labels: measured on 40 tables each. Both are proportional to the noise of
-- a sum over the rows.
CREATE OR REPLACE FUNCTION dp_int.least_scored(p_model text, p_eps float8, p_delta float8, OUT for_values float8, OUT for_intervals float8)
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_delta = 0 THEN pure[1] / p_eps ELSE normal[1] / r.root END, CASE WHEN p_delta = 0 THEN pure[2] / p_eps ELSE normal[2] / r.root END
    FROM dp_int.root_of_rho(p_eps, p_delta) AS r(root),
         LATERAL (SELECT CASE WHEN m.labels THEN '{8,8}' WHEN dp_int.is_count(m.name) THEN '{50,600}' ELSE '{38,180}' END::float8[] AS normal,
                         CASE WHEN m.labels THEN '{78,78}' WHEN dp_int.is_count(m.name) THEN '{700,9000}' ELSE '{550,2900}' END::float8[] AS pure
                    FROM dp_int.model m WHERE m.name = p_model) AS k
$$;

-- The number of rows from which the default method of a model gives intervals, as far as public facts
-- decide; NULL where they do not. p_sources: columns that the coefficients are made of, the intercept
-- included. Each bound is a ratio of noise to rows, of second moments or of a score, in joint_recipe.go and newton_recipe.go. With
-- fewer rows auto takes a descent, which has no intervals, nor has joint_moments by name (TestWhoSpendsIsToldThatThereWillBeNoInterval).
CREATE OR REPLACE FUNCTION dp_int.rows_for_intervals(p_model text, p_coefficients int, p_sources int, p_eps float8, p_delta float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_model = 'linear' THEN least(moments / 0.03, score / 0.0045, CASE WHEN p_sources < p_coefficients THEN p_sources * score / 0.08 END)
              WHEN p_model = 'huber' THEN least(moments / 0.025, score / 0.006, CASE WHEN p_sources < p_coefficients THEN p_sources * score / 0.08 END)
              WHEN p_model = 'logistic' THEN least(moments / 0.03, greatest(score / 0.0125, moments / 0.12), CASE WHEN p_sources < p_coefficients THEN p_sources * score / 0.06 END) END
    FROM (SELECT sqrt(2 * dp_int.zcdp_rho(p_eps::numeric, p_delta::numeric * 0.9)::float8)) AS b(root),  -- a tenth of delta is kept
         LATERAL (SELECT p_coefficients ^ 1.5 / nullif(root, 0), sqrt(p_coefficients) / nullif(root, 0)) AS noise(moments, score)
$$;

-- The warning that no coefficient of a request will have an interval, for lack of rows and eps, with what it
-- takes; p_of: what p_rows counts, rows or persons. NULL where some may have one, or where the request has none for another reason, such as a penalty.
CREATE OR REPLACE FUNCTION dp_int.no_intervals(p_body jsonb, p_coefficients int, p_groups int, p_rows float8, p_of text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked CONSTANT text := p_body ->> 'model';
  options CONSTANT jsonb := p_body -> 'options';
  eps CONSTANT float8 := p_body ->> 'eps';
  delta CONSTANT float8 := p_body ->> 'delta';
  sources CONSTANT int := jsonb_array_length(p_body -> 'features') + (p_body ->> 'intercept')::boolean::int;
  needed CONSTANT float8 := CASE WHEN p_groups = 0 THEN dp_int.rows_for_intervals(asked, p_coefficients, sources, eps, delta) END;  -- no descent fits groups
  low float8 := eps;  -- too little
  high float8 := 10;  -- enough; an eps above 10 promises little, and is not named
  middle float8;
BEGIN
  IF needed IS NULL OR p_rows IS NULL OR p_rows >= needed OR options ? 'penalty' OR options ? 'whitening' AND (asked <> 'linear' OR options ->> 'whitening' = 'off')
     OR NOT coalesce(options ->> 'method', 'auto') = ANY (CASE asked WHEN 'linear' THEN '{auto,joint_moments}' ELSE '{auto}' END::text[]) THEN
    RETURN NULL;
  ELSIF dp_int.rows_for_intervals(asked, p_coefficients, sources, high, delta) <= p_rows THEN
    FOR i IN 1..12 LOOP
      middle := sqrt(low * high);
      IF dp_int.rows_for_intervals(asked, p_coefficients, sources, middle, delta) <= p_rows THEN high := middle; ELSE low := middle; END IF;
    END LOOP;
    RETURN format('low information: no coefficient will have an interval at eps %s; that takes about %s %s, or eps %s with these, or fewer coefficients', eps, dp_int.two_digits_up(needed), p_of, dp_int.two_digits_up(high));
  END IF;
  RETURN format('low information: no coefficient will have an interval at eps %s; that takes about %s %s, or fewer coefficients', eps, dp_int.two_digits_up(needed), p_of);
END $$;

-- The number of rows from which a fit of the quantile tau lands near it where residuals are small beside the target's scale:
-- fits in stages look how far it is (attainableLevel in l1_staged_shares.go), objective perturbation does not.
CREATE OR REPLACE FUNCTION dp_int.rows_for_quantile(p_options jsonb, p_coefficients int, p_eps float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN o.method = 'objective_perturbation' THEN 'Infinity'
              ELSE greatest(CASE WHEN p_options ? 'weight' THEN 340 / least(o.tau, 1 - o.tau) ELSE 1000 END,
                            CASE o.method WHEN 'auto' THEN 60 * p_coefficients ^ 1.5 END) / p_eps END
    FROM (SELECT coalesce(p_options ->> 'method', 'auto'), (p_options ->> 'tau')::float8) AS o(method, tau)
$$;

-- A positive number with two significant digits, rounded up.
CREATE OR REPLACE FUNCTION dp_int.two_digits_up(p float8) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$ SELECT trim_scale(ceil(p::numeric / unit) * unit) FROM (SELECT 10::numeric ^ (floor(log(p)) - 1)::numeric) AS u(unit) $$;

-- Whether a column's name suggests a calendar year.
CREATE OR REPLACE FUNCTION dp_int.named_like_year(p_column name) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT p_column ~* '(^|_)(year|yob)(_|$)|year$' AND p_column !~* 'per_?year' $$;

-- Columns whose scale seems to be missing, by their names and types: amounts of unknown size, and values
-- far from zero, which need a centre. p_looks: does a fit look for what is not registered?
CREATE OR REPLACE FUNCTION dp_int.warnings_of_unscaled(p_relid oid, p_columns name[], p_scales jsonb, p_intercept boolean, p_looks boolean) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  unscaled text;
  remote name[];
  sought name[];  -- of these, columns that a fit may move to where they lie
  uncentred text;
  advice CONSTANT text := 'A steward registers one, from public knowledge, such as {"center": 2015, "scale": 10} for a year; dates and timestamps count in seconds since 1970, so that those around June 2021, give or take a year, have {"center": 1622505600, "scale": 31600000}';
  dated text;
BEGIN
  SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c.n) FILTER (WHERE NOT p_scales ? c.name::text AND (c.large OR c.far)),
         array_agg(c.name ORDER BY c.n) FILTER (WHERE p_intercept AND c.far AND dp_int.center(p_scales -> c.name::text) = 0 AND NOT c.found),
         array_agg(c.name ORDER BY c.n) FILTER (WHERE p_intercept AND c.far AND dp_int.center(p_scales -> c.name::text) = 0 AND c.found),
         string_agg(quote_ident(c.name), ', ' ORDER BY c.n) FILTER (WHERE NOT p_intercept AND dp_int.center(p_scales -> c.name::text) <> 0),
         string_agg(quote_ident(c.name), ', ' ORDER BY c.n) FILTER (WHERE c.dated AND dp_int.center(p_scales -> c.name::text) <> 0 AND abs(dp_int.center(p_scales -> c.name::text)) < 86400)
    INTO unscaled, remote, sought, uncentred, dated
    FROM (SELECT u.name, u.n, t.oid IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) AS dated, t.category = 'D' OR dp_int.named_like_year(u.name) AND t.category = 'N' AS far, f.found, t.oid IN ('bigint'::regtype, 'numeric'::regtype) AS large
            FROM unnest(p_columns) WITH ORDINALITY AS u(name, n)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = p_relid AND a.attname = u.name AND a.attnum > 0 AND NOT a.attisdropped
            JOIN LATERAL (SELECT b.oid, b.typcategory AS category FROM pg_catalog.pg_type b WHERE b.oid = dp_int.domain_base(a.atttypid)) AS t ON true
            -- Fits look for what lies within two scales of zero (positionBins in standardise.go).
            CROSS JOIN LATERAL (SELECT p_looks AND (NOT p_scales ? u.name::text OR 2 * dp_int.scale_of(p_scales -> u.name::text) > CASE t.category WHEN 'D' THEN 1.7e9 ELSE 2030 END) AS found) AS f) AS c;
  IF unscaled IS NOT NULL AND p_scales ?| p_columns::text[] THEN  -- if all are missing, another message covers it
    RETURN NEXT format('no scale is registered for %s: was it forgotten? The default methods of a fit look for it, for a part of the budget; else it is 1', unscaled);
  END IF;
  IF remote IS NOT NULL THEN
    RETURN NEXT format('%s may lie far from zero, and %s no center: without one %s may be all noise. %s', dp_int.listed(remote),
      CASE cardinality(remote) WHEN 1 THEN 'has' ELSE 'have' END, CASE cardinality(remote) WHEN 1 THEN 'its coefficient' ELSE 'their coefficients' END, advice);
  END IF;
  IF sought IS NOT NULL THEN
    RETURN NEXT format('%s may lie far from zero, and %s no center: the default methods of a fit look for one, and mostly find it from some 10,000 rows on at eps 1, or 20,000 at eps 0.3. Where they do not, %s may be all noise. %s', dp_int.listed(sought),
      CASE cardinality(sought) WHEN 1 THEN 'has' ELSE 'have' END, CASE cardinality(sought) WHEN 1 THEN 'its coefficient' ELSE 'their coefficients' END, advice);
  END IF;
  IF dated IS NOT NULL THEN
    RETURN NEXT format('the center of %s is within a day of 1970: dates and timestamps count in seconds since then. Those around June 2021, give or take a year, have {"center": 1622505600, "scale": 31600000}', dated);
  END IF;
  IF uncentred IS NOT NULL THEN
    RETURN NEXT format('without an intercept the center of %s cannot be taken out: center and scale together are its scale', uncentred);
  END IF;
END $$;

-- Columns as a list for people.
CREATE OR REPLACE FUNCTION dp_int.listed(p_columns name[]) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT string_agg(quote_ident(c), ', ' ORDER BY n) FROM unnest(p_columns) WITH ORDINALITY AS l(c, n) $$;

-- The number of coefficients of a request, of one of its groups.
CREATE OR REPLACE FUNCTION dp_int.coefficients_of(p_body jsonb) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT dp_int.slopes(p_body -> 'features', coalesce(p_body -> 'categories', '{}') || coalesce(p_body -> 'where_level', '{}')) + (p_body ->> 'intercept')::boolean::int
$$;

-- The number of fits in a request, NULL where it is not by groups.
CREATE OR REPLACE FUNCTION dp_int.groups_of(p_body jsonb) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_array_length(coalesce(p_body #> ARRAY['where_level', o.by], p_body #> ARRAY['categories', o.by])), 1) FROM (SELECT p_body #>> '{options,by}') AS o(by) WHERE o.by IS NOT NULL
$$;

-- The columns of a request that should have a scale.
CREATE OR REPLACE FUNCTION dp_int.scaled_columns(d dp_int.dataset, p_body jsonb) RETURNS name[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT c::name FROM (SELECT p_body ->> 'target' WHERE (SELECT m.labels FROM dp_int.model m WHERE m.name = p_body ->> 'model') IS NOT TRUE
                              UNION ALL SELECT jsonb_array_elements_text(p_body -> 'features')) AS t(c)
                WHERE NOT coalesce(p_body -> 'categories' ? c, false) AND NOT dp_int.is_boolean(d.relid, c::name))
$$;

-- Does a fit look for scales that are not registered? (problem.standardise in standardise.go, and fits in stages)
CREATE OR REPLACE FUNCTION dp_int.looks_for_scales(p_body jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT dp_int.is_fit(p_body ->> 'model') AND coalesce(p_body #>> '{options,method}', 'auto') IN ('auto', 'newton', 'joint_moments', 'staged') AND NOT p_body -> 'options' ?| '{radius,penalty}'
$$;

-- What the number of rows of a data set counts.
CREATE OR REPLACE FUNCTION dp_int.counted_in(d dp_int.dataset) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN d.unit IS NULL THEN 'rows' ELSE 'persons' END $$;

-- Warnings of scales that a request has not. d: with the number of rows that it reads as row_count, where that is known;
-- so in the next two functions.
CREATE OR REPLACE FUNCTION dp_int.warnings_of_scales(d dp_int.dataset, p_body jsonb) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked CONSTANT text := p_body ->> 'model';
  target CONSTANT text := p_body ->> 'target';
  options CONSTANT jsonb := p_body -> 'options';
  eps CONSTANT float8 := p_body ->> 'eps';
  columns CONSTANT name[] := dp_int.scaled_columns(d, p_body);
  looks CONSTANT boolean := dp_int.looks_for_scales(p_body);
  needed CONSTANT float8 := dp_int.rows_for_scales(cardinality(CASE WHEN dp_int.is_count(asked) THEN array_remove(columns, target::name) ELSE columns END), dp_int.coefficients_of(p_body), eps, (p_body ->> 'delta')::float8);  -- the target of counts keeps its scale
BEGIN
  IF columns <> '{}' AND NOT d.scales ?| columns::text[] AND asked NOT IN ('describe', 'scales', 'score') THEN
    IF NOT looks THEN
      RETURN NEXT 'no scale is registered, and this request looks for none: all are 1. A steward registers typical magnitudes, from public knowledge';
    ELSIF least(d.row_count, (options ->> 'sample_rows')::float8) < needed THEN
      RETURN NEXT format('no scale is registered, and at eps %s a fit finds them from about %s %s on. A steward registers typical magnitudes, from public knowledge', eps, dp_int.two_digits_up(needed), dp_int.counted_in(d));
    END IF;
    IF options ->> 'method' = 'exponential_mechanism' THEN
      RETURN NEXT 'without scales the exact sampler may not end within the time that a job may take, and the budget would be spent all the same';
    END IF;
  END IF;
  IF looks AND NOT dp_int.is_count(asked) AND target = ANY (columns) AND NOT d.scales ? target AND options ?| '{residual_scale,huber_delta,offset}' THEN
    RETURN NEXT format('no scale is registered for %I, and as the options speak of its unit none is looked for: it is 1', target);
  END IF;
  IF dp_int.is_fit(asked) THEN
    RETURN QUERY SELECT * FROM dp_int.warnings_of_unscaled(d.relid, columns, d.scales, (p_body ->> 'intercept')::boolean, looks);
  END IF;
END $$;

-- Warnings that a request has too few rows for its answer to be of use. p_needed: the rows that a sidecar has found that its
-- error needs, or each of its columns values; NULL where none was asked.
CREATE OR REPLACE FUNCTION dp_int.warnings_of_rows(d dp_int.dataset, p_body jsonb, p_needed float8) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked CONSTANT text := p_body ->> 'model';
  target CONSTANT text := p_body ->> 'target';
  options CONSTANT jsonb := p_body -> 'options';
  eps CONSTANT float8 := p_body ->> 'eps';
  delta CONSTANT float8 := p_body ->> 'delta';
  rows CONSTANT float8 := least(d.row_count, (options ->> 'sample_rows')::float8);  -- that a fit is made of
  coefficients CONSTANT int := dp_int.coefficients_of(p_body);
  groups CONSTANT int := dp_int.groups_of(p_body);
  columns CONSTANT name[] := dp_int.scaled_columns(d, p_body);
  described CONSTANT int := (SELECT count(*) FROM jsonb_array_elements_text(jsonb_build_array(target) || (p_body -> 'features')) AS c
                              WHERE asked IN ('describe', 'scales') AND NOT coalesce(p_body -> 'categories' ? c, false) AND NOT p_body -> 'flags' ? c);  -- columns of numbers
  least CONSTANT float8 := CASE WHEN dp_int.is_fit(asked) THEN coalesce(CASE WHEN groups IS NULL THEN p_needed END, coalesce(groups, 1) * dp_int.least_rows(asked, coefficients, eps, delta))
                                ELSE coalesce(p_needed, dp_int.least_values(asked, described, eps, delta)) END;
  -- rows times eps from which a fit of a quantile in stages looks for that one: as seen in 20,000 rows, at 0.75 to 0.99
  beyond CONSTANT float8 := 200 / least((options ->> 'tau')::float8, 1 - (options ->> 'tau')::float8);
  scored record;  -- the numbers of rows that a score needs
BEGIN
  IF dp_int.is_fit(asked) AND rows < least THEN
    RETURN NEXT format('too few rows for %s coefficients%s at eps %s: noise beyond a tenth of %s is to be expected, and beyond that where flags are rare or features go together%s; ask for more eps or fewer features',
      coefficients, CASE WHEN groups > 1 THEN format(' of each of %s groups', groups) END, eps,
      CASE WHEN d.scales ?| columns::text[] OR columns = '{}' THEN 'the scale' WHEN dp_int.looks_for_scales(p_body) THEN 'a scale, which a fit has to find first,' ELSE '1, as which a scale counts that is not registered,' END,
      CASE WHEN options ? 'weight' THEN ' or most weights are far below max_weight' END);
  END IF;
  IF asked = 'l1' AND (options ->> 'tau')::float8 <> 0.5 AND groups IS NULL AND rows < dp_int.rows_for_quantile(options, coefficients, eps) THEN
    RETURN NEXT format('the quantile %s may come out beyond nearly all rows where residuals are small beside the scale of %I: a scale as large as they are, with a center, helps%s', options ->> 'tau', target,
      CASE WHEN options ->> 'method' = 'objective_perturbation' THEN ', or the method staged' ELSE format(', or about %s %s at eps %s', dp_int.two_digits_up(dp_int.rows_for_quantile(options, coefficients, eps)), dp_int.counted_in(d), eps) END);
  ELSIF asked = 'l1' AND (options ->> 'tau')::float8 <> 0.5 AND groups IS NULL AND rows < beyond / eps THEN
    RETURN NEXT format('the quantile %s comes out nearer to the median: noise hides the %s beyond it; ask for more eps, or about %s %s at eps %s', options ->> 'tau', dp_int.counted_in(d),
      dp_int.two_digits_up(beyond / eps), dp_int.counted_in(d), eps);
  END IF;
  RETURN QUERY SELECT w FROM dp_int.no_intervals(p_body, coefficients, coalesce(groups, 0), rows, dp_int.counted_in(d)) AS w WHERE w IS NOT NULL;
  IF described > 0 AND d.row_count < least THEN
    RETURN NEXT format('too few rows for %s at eps %s: every column of numbers needs about %s values; ask for more eps or fewer columns',
      CASE asked WHEN 'scales' THEN 'scales' ELSE 'quartiles' END, eps, CASE WHEN p_needed IS NULL THEN dp_int.two_digits_up(least) ELSE ceil(least)::numeric END);
  END IF;
  IF asked = 'score' THEN
    scored := dp_int.least_scored((SELECT r.model FROM dp_int.release r WHERE r.id = (p_body ->> 'release')::uuid), eps, delta);
    IF delta = 0 AND target = ANY (columns) AND NOT d.scales ? target THEN  -- the scale has to be found first
      scored.for_values := greatest(scored.for_values, 1500 / eps);
      scored.for_intervals := greatest(scored.for_intervals, scored.for_values);
    END IF;
    IF d.row_count < scored.for_values THEN
      RETURN NEXT format('too few rows for a score at eps %s: noise may hide how far predictions are off, and every value be NULL; about %s %s are needed; ask for more eps', eps, ceil(scored.for_values), dp_int.counted_in(d));
    ELSIF d.row_count < scored.for_intervals THEN
      RETURN NEXT format('too few rows for the intervals of a score at eps %s: noise may leave none; about %s %s are needed, more where tails are heavy; ask for more eps', eps, ceil(scored.for_intervals), dp_int.counted_in(d));
    END IF;
  END IF;
END $$;

-- Warnings of what a request asks for.
CREATE OR REPLACE FUNCTION dp_int.warnings_of_request(d dp_int.dataset, p_body jsonb) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  eps CONSTANT float8 := p_body ->> 'eps';
  target CONSTANT text := p_body ->> 'target';
  declared CONSTANT jsonb := CASE WHEN NOT d.categories ? target AND NOT dp_int.is_boolean(d.relid, target::name) THEN (SELECT jsonb_agg(dp_int.as_float(l::numeric)) FROM jsonb_array_elements_text(d.labels -> target) AS l) END;  -- of these two any labels are values
  asked CONSTANT jsonb := jsonb_build_array(coalesce(p_body #> '{options,negative_label}', '0'), coalesce(p_body #> '{options,positive_label}', '1'));
BEGIN
  IF (SELECT m.labels FROM dp_int.model m WHERE m.name = p_body ->> 'model') AND NOT declared @> asked THEN
    RETURN NEXT format('this request takes %s and %s as the labels of %I, which were declared to be %s and %s: rows with other values say nothing, and where none has one of these, the answer is noise', asked -> 0, asked -> 1, target, declared -> 0, declared -> 1);
  END IF;
  IF dp_int.is_fit(p_body ->> 'model') AND p_body -> 'features' = '[]' THEN
    RETURN NEXT format('no feature is asked for: the fit has an intercept alone, and says nothing of what %I depends on', p_body ->> 'target');
  END IF;
  IF p_body ? 'over' AND upper(dp_int.window_of(p_body -> 'over')) > dp_int.today() THEN
    RETURN NEXT 'the window is not over: rows that come later are not in the answer, and once it is over the same request is charged anew, for all of them';
  END IF;
  IF (p_body ->> 'delta')::float8 * d.row_count > 1 THEN
    RETURN NEXT 'delta is above one in the number of rows: it would allow a method to publish somebody''s row now and then';
  END IF;
  IF eps > 10 THEN
    RETURN NEXT format('eps %s promises little: one person may change the probability of an answer by a factor of e^%s', eps, eps);
  END IF;
END $$;

-- All of them. p_rows: the number of rows to assume while none is published. p_needed: as above.
CREATE OR REPLACE FUNCTION dp_int.warnings(p_dataset bigint, p_body jsonb, p_rows bigint DEFAULT NULL, p_needed float8 DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  d dp_int.dataset;
BEGIN
  SELECT * INTO STRICT d FROM dp_int.dataset WHERE id = p_dataset;
  -- What had no rows is refused, or has got some since: none are known.
  d.row_count := coalesce(nullif(d.row_count, 0), nullif(p_rows, 0), coalesce(d.persons, d.block_rows) * (SELECT upper(b) - lower(b) FROM dp_int.blocks_read(d.id, p_body) AS b));
  RETURN QUERY SELECT * FROM dp_int.warnings_of_scales(d, p_body)
     UNION ALL SELECT * FROM dp_int.warnings_of_rows(d, p_body, p_needed)
     UNION ALL SELECT * FROM dp_int.warnings_of_request(d, p_body);
END $$;

-- Warns about a request that is about to be queued.
CREATE OR REPLACE FUNCTION dp_int.warn(r dp_int.request) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  warning text;
BEGIN
  FOR warning IN SELECT * FROM dp_int.warnings(r.dataset, r.body) LOOP
    RAISE WARNING 'dpsidecar: %', warning USING HINT = 'The request is made all the same, and charged if it is admitted. dp_explain shows warnings first, free.';
  END LOOP;
END $$;
