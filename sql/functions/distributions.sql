-- The distributions that tests and intervals of releases need and Postgres lacks.
-- tests/distributions_test.go compares them with another library.

-- ln(1 + x), accurate to all digits also where x is small (Kahan).
CREATE OR REPLACE FUNCTION dp_int.log1p(x float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN s.u = 1 THEN x ELSE ln(s.u) * x / (s.u - 1) END FROM (SELECT 1 + x) AS s(u) $$;

-- The remainder of Stirling's formula for ln Gamma(x), x >= 10: its series up to x^-11.
CREATE OR REPLACE FUNCTION dp_int.stirling_rest(x float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
  SELECT (1 / 12.0::float8 - s.y * (1 / 360.0::float8 - s.y * (1 / 1260.0::float8 - s.y * (1 / 1680.0::float8 - s.y * (1 / 1188.0::float8 - s.y * 691 / 360360.0::float8))))) / x
    FROM (SELECT 1 / (x * x)) AS s(y)
$$;

-- ln Gamma(x) for positive x.
CREATE OR REPLACE FUNCTION dp_int.log_gamma(x float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  steps float8 := 0;
BEGIN
  WHILE x < 10 LOOP
    steps := steps + ln(x);
    x := x + 1;
  END LOOP;
  RETURN (x - 0.5) * ln(x) - x + ln(2 * pi()) / 2 + dp_int.stirling_rest(x) - steps;
END $$;

-- ln B(a, b) for positive a and b, without differences of large terms that cancel.
CREATE OR REPLACE FUNCTION dp_int.log_beta(a float8, b float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  large CONSTANT float8 := greatest(a, b);
  small CONSTANT float8 := least(a, b);
BEGIN
  IF large < 10 THEN
    RETURN dp_int.log_gamma(a) + dp_int.log_gamma(b) - dp_int.log_gamma(a + b);
  END IF;
  RETURN dp_int.log_gamma(small) - (large - 0.5) * dp_int.log1p(small / large) - small * ln(large + small) + small
    + dp_int.stirling_rest(large) - dp_int.stirling_rest(large + small);
END $$;

-- The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
CREATE OR REPLACE FUNCTION dp_int.beta_fraction(x float8, a float8, b float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  c float8 := 1;
  d float8 := 1 / (1 - (a + b) * x / (a + 1));
  h float8 := d;
  m float8 := 0;
  step float8;
  change float8 := 0;
BEGIN
  WHILE abs(change - 1) > 1e-15 AND m < 100000 LOOP
    m := m + 1;
    step := m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d := 1 / (1 + step * d);
    c := 1 + step / c;
    h := h * c * d;
    step := -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d := 1 / (1 + step * d);
    c := 1 + step / c;
    change := c * d;
    h := h * change;
  END LOOP;
  RETURN h;
END $$;

-- The probability that F with p and q degrees of freedom exceeds f. With p = 1 it is the two-sided tail
-- probability of sqrt(f) under the t distribution with q degrees of freedom.
CREATE OR REPLACE FUNCTION dp_int.f_survival(f float8, p float8, q float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  a CONSTANT float8 := q / 2;
  b CONSTANT float8 := p / 2;
  odds CONSTANT float8 := p * f / q;
  front float8;
BEGIN
  IF f <= 0 THEN
    RETURN 1;
  END IF;
  front := -(a + b) * dp_int.log1p(odds) + b * ln(odds) - dp_int.log_beta(a, b);
  front := CASE WHEN front > -700 THEN exp(front) ELSE 0 END;  -- exp raises an error on underflow
  IF 1 / (1 + odds) < (a + 1) / (a + b + 2) THEN
    RETURN front * dp_int.beta_fraction(1 / (1 + odds), a, b) / a;
  END IF;
  RETURN 1 - front * dp_int.beta_fraction(odds / (1 + odds), b, a) / b;
END $$;

-- The 97.5 % quantile of the t distribution, by Newton's method from below, which converges because the
-- tail is convex.
CREATE OR REPLACE FUNCTION dp_int.t_quantile(df float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  t float8 := 1.95996398454005;
  step float8 := 1;
BEGIN
  FOR i IN 1 .. 100 LOOP
    EXIT WHEN step < 1e-14 * t;
    step := (dp_int.f_survival(t * t, 1, df) - 0.05) / 2
      / exp(-(df + 1) / 2 * dp_int.log1p(t * t / df) - ln(df) / 2 - dp_int.log_beta(df / 2, 0.5));
    t := t + step;
  END LOOP;
  RETURN t;
END $$;

-- The normal distribution function for z from -8 to 8 (Marsaglia 2004); beyond, 0 or 1.
CREATE OR REPLACE FUNCTION dp_int.normal_cdf(z float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  term float8 := z;
  total float8 := z;
  k float8 := 1;
BEGIN
  IF abs(z) > 8 THEN
    RETURN (sign(z) + 1) / 2;
  END IF;
  WHILE abs(term) > 1e-17 LOOP
    k := k + 2;
    term := term * z * z / k;
    total := total + term;
  END LOOP;
  RETURN 0.5 + total * exp(-z * z / 2) / sqrt(2 * pi());
END $$;

-- The 95 % quantile of |N(bias, 1)|, by Newton's method from below.
CREATE OR REPLACE FUNCTION dp_int.biased_quantile(bias float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  c float8 := greatest(1.95996398454005, bias + 1.64485362695147);
  step float8 := 1;
BEGIN
  IF bias > 8 THEN
    RETURN c;  -- the other tail is negligible
  END IF;
  FOR i IN 1 .. 100 LOOP
    EXIT WHEN step < 1e-13;
    step := (0.95 - dp_int.normal_cdf(c - bias) + dp_int.normal_cdf(-c - bias)) * sqrt(2 * pi()) / (exp(-0.5 * (c - bias) * (c - bias)) + exp(-0.5 * (c + bias) * (c + bias)));
    c := c + step;
  END LOOP;
  RETURN c;
END $$;
