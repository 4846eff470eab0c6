-- The accountant: the value of a budget in its account's unit, the epsilon proved for a total, the
-- filters, and who may ask.

-- Conversions. A divergence r of order a > 1 leaves, at delta, an epsilon of
--   r + ln(1 - 1/a) - (ln a + ln delta)/(a - 1)
-- (Canonne, Kamath & Steinke 2020, Proposition 12), and rho-zCDP is r = rho a at
-- every order. Any order is valid, so an order that float8 finds costs nothing
-- but budget; the bound itself is evaluated in numeric, from above.

-- reserve returns the tenth of a delta that is kept for the deltas of mechanisms; the rest serves the
-- conversion. Costs arrive as the shortest decimal of a float64, which may lie below the float64 by a
-- relative 2^-53; the factors 1e-15 here and below cover that.
CREATE OR REPLACE FUNCTION dp_int.reserve(delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT delta * 0.1 $$;

-- The delta that the conversion may use: 0.9 delta, or delta less spent_delta where that is smaller
-- because delta was lowered; at most 0 when the deltas of mechanisms have used up delta.
CREATE OR REPLACE FUNCTION dp_int.conversion_delta(delta numeric, spent_delta numeric DEFAULT 0) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT least(delta * 0.9, delta - spent_delta * (1 + 1e-15)) * (1 - 1e-15) $$;

-- Grid 1 of Renyi orders; package privacy has the same.
CREATE OR REPLACE FUNCTION dp_int.renyi_orders() RETURNS numeric[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY[
    1.25,1.5,1.75,2,2.25,2.5,2.75,3,3.25,3.5,3.75,4,4.25,4.5,4.75,5,5.25,5.5,5.75,6,6.25,6.5,6.75,7,7.25,7.5,7.75,8,8.25,8.5,8.75,9,
    9.25,9.5,9.75,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,
    49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,69,75,81,87,94,102,110,119,128,138,149,161,174,188,203,219,237,256,276,299,323,348,
    376,406,439,474,512,553,597,645,697,753,813,878,948,1024]
$$;

-- The term that the conversion adds to a divergence, rounded upward: logarithms have 60 decimals, and
-- 1e-50 covers their errors for every a - 1 >= 1e-9.
CREATE OR REPLACE FUNCTION dp_int.renyi_surplus(p_order numeric, p_delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT round(ln(1 - 1 / a) - (ln(a) + ln(delta)) / (a - 1), 50) + 1e-50
    FROM (SELECT p_order + round(0.0, 60), p_delta + round(0.0, 60)) AS v(a, delta)
$$;

-- About the best order for rho-zCDP at delta, and for the largest rho that fits
-- epsilon at delta. With x = a - 1 the derivative of the bound has the sign of
-- rho + (ln(1 + x) + ln(delta))/x^2, which changes once.
CREATE OR REPLACE FUNCTION dp_int.order_for_rho(rho float8, delta float8) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lo float8 := 1e-9;
  hi float8 := 1e15;
  x float8;
BEGIN
  FOR i IN 1..50 LOOP
    x := sqrt(lo * hi);
    IF rho + (ln(1 + x) + ln(delta)) / (x * x) < 0 THEN lo := x; ELSE hi := x; END IF;
  END LOOP;
  RETURN 1 + x::numeric;
END $$;

CREATE OR REPLACE FUNCTION dp_int.order_for_epsilon(epsilon float8, delta float8) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lo float8 := 1e-9;
  hi float8 := 1e15;
  x float8;
  rho float8;
BEGIN
  FOR i IN 1..50 LOOP
    x := sqrt(lo * hi);
    -- 2 atanh(1/(2x + 1)) is ln(1 + 1/x), and has its digits also where 1 + 1/x has none of 1/x: of a tiny epsilon they decide.
    rho := (epsilon + CASE WHEN x > 1 THEN 2 * atanh(1 / (2 * x + 1)) ELSE ln(1 + 1 / x) END + (ln(1 + x) + ln(delta)) / x) / (1 + x);
    IF rho + (ln(1 + x) + ln(delta)) / (x * x) < 0 THEN lo := x; ELSE hi := x; END IF;
  END LOOP;
  RETURN 1 + x::numeric;
END $$;

-- The largest rho, rounded downward, whose epsilon at delta is at most p_epsilon, or 0. The last factor
-- outweighs the effect of an order that slightly misses the best one.
CREATE OR REPLACE FUNCTION dp_int.zcdp_rho(p_epsilon numeric, p_delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT greatest(0, trunc((p_epsilon - dp_int.renyi_surplus(a, p_delta)) / a * (1 - 1e-18), 50))
    FROM dp_int.order_for_epsilon(p_epsilon::float8, p_delta::float8) AS a
$$;

-- The order of the grid nearest to 1 + sqrt(ln(1/delta)/rho), which is close to the best order for a
-- budget spent on Gaussian noise.
CREATE OR REPLACE FUNCTION dp_int.recommended_order(p_epsilon numeric, p_delta numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  rho CONSTANT numeric := dp_int.zcdp_rho(p_epsilon, p_delta);
  best CONSTANT float8 := CASE WHEN rho > 0 THEN 1 + sqrt(-ln(p_delta::float8) / rho::float8) ELSE 'Infinity' END;
BEGIN
  RETURN (SELECT a FROM unnest(dp_int.renyi_orders()) AS a ORDER BY abs(a::float8 - least(best, 1e9)), a LIMIT 1);
END $$;

-- A budget in the accountant's own unit, rounded downward: epsilon, rho or the
-- divergence of one order; 0 when it leaves nothing to spend, NULL where there is no budget.
CREATE OR REPLACE FUNCTION dp_int.cap(p_accounting text, p_order numeric, p_epsilon numeric, p_delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_accounting
    WHEN 'pure' THEN p_epsilon
    WHEN 'zcdp' THEN dp_int.zcdp_rho(p_epsilon, dp_int.conversion_delta(p_delta)) * (1 - 1e-15)
    WHEN 'rdp' THEN CASE WHEN p_epsilon IS NOT NULL THEN greatest(0, p_epsilon - dp_int.renyi_surplus(p_order, dp_int.conversion_delta(p_delta))) * (1 - 1e-15) END END
$$;

-- The epsilon that the accountant proves for a total in its unit and a total of deltas, rounded upward.
CREATE OR REPLACE FUNCTION dp_int.proven(p_accounting text, p_order numeric, p_spent numeric, p_delta numeric, p_spent_delta numeric DEFAULT 0) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  delta CONSTANT numeric := dp_int.conversion_delta(p_delta, p_spent_delta);
  a numeric := p_order;
  divergence numeric := p_spent * (1 + 1e-15);
BEGIN
  IF p_accounting = 'pure' THEN RETURN p_spent; END IF;
  IF delta <= 0 THEN RETURN 'Infinity'; END IF;
  IF p_spent = 0 THEN RETURN 0; END IF;
  IF p_accounting = 'zcdp' THEN
    a := dp_int.order_for_rho(p_spent::float8, delta::float8);
    divergence := divergence * a;
  END IF;
  RETURN greatest(0, divergence + dp_int.renyi_surplus(a, delta));
END $$;

-- Is this event of the kind that is to be the only charge of its account, privacy.Only: normal noise on all rows, any number
-- of times, and nothing else?
CREATE OR REPLACE FUNCTION dp_int.is_only(p_event jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT p_event ? 'only' AND NOT EXISTS (SELECT FROM jsonb_path_query(p_event, '$.** ? (@.type() == "object").keyvalue().key') AS k
                      WHERE k #>> '{}' NOT IN ('only', 'compose', 'repeat', 'count', 'event', 'gaussian', 'noise_multiplier'))
$$;

-- Mills' ratio of x >= 1, the normal tail beyond x over the density at x, rounded upward or downward: the
-- continued fraction 1/(x + 1/(x + 2/(x + ...))), which is above the ratio after an even number of steps
-- and below after an odd one. The number of steps leaves a relative error below 1e-17.
CREATE OR REPLACE FUNCTION dp_int.mills_ratio(x numeric, upward boolean) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  steps CONSTANT int := 2 * ceil(200 / (x * x) + 10)::int + CASE WHEN upward THEN 0 ELSE 1 END;
  t numeric := x;
BEGIN
  FOR k IN REVERSE steps..1 LOOP
    t := x + k / t;
  END LOOP;
  RETURN 1 / t;
END $$;

-- The delta that discrete normal noise of this rho leaves at epsilon if nothing else is released, rounded
-- upward: normal, the trade-off function of a Gaussian with mu^2 = 2 rho (Balle & Wang 2018, Theorem 8),
-- written as density(a) (ratio(a) - ratio(a + mu)) with Mills' ratio and a = epsilon/mu - mu/2, and
-- 2^-35 mu^2 because the noise is discrete (internal/mech/rounding.md). slope: how fast normal falls as
-- epsilon grows. It is not evaluated for a < 1, nor for mu^2 > 128: then it is 1. Numbers have 60 decimals,
-- exp 16 digits at least, and mu > 1e-20, so that a relative 1e-14 covers the errors of all of them.
CREATE OR REPLACE FUNCTION dp_int.noise_delta(p_rho numeric, p_epsilon numeric, OUT delta numeric, OUT normal numeric, OUT slope numeric)
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  mu CONSTANT numeric := sqrt(2 * p_rho * (1 + 1e-15) + round(0.0, 60)) + 1e-50;
  a numeric;
  density numeric;
BEGIN
  delta := 1;
  normal := 1;
  IF p_rho < 1e-40 OR p_rho > 64 OR p_epsilon < mu + mu * mu / 2 THEN
    RETURN;
  END IF;
  a := (p_epsilon + round(0.0, 60)) / mu - mu / 2;
  density := CASE WHEN a < 22 THEN exp(-a * a / 2) / sqrt(2 * 3.14159265358979323846264338327950288419716939937510 + round(0.0, 60)) ELSE 1e-100 END;
  slope := density * dp_int.mills_ratio(a + mu, false);
  normal := (density * dp_int.mills_ratio(a, true) - slope) * (1 + 1e-14);
  delta := normal + mu * mu / 34359738368;
END $$;

-- The least epsilon that noise_delta proves for this rho at delta, rounded upward; NULL where it proves none
-- below p_above, at which Newton's method begins: in the logarithm of the normal part, which is concave in
-- epsilon, so that every step ends on the safe side.
CREATE OR REPLACE FUNCTION dp_int.noise_epsilon(p_rho numeric, p_delta numeric, p_above numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lowest CONSTANT numeric := sqrt(2 * p_rho * (1 + 1e-15) + round(0.0, 60)) + p_rho * (1 + 1e-15) + 1e-49;  -- mu + mu^2/2
  proved numeric;
  tried numeric := round(p_above, 60);
  n record;
BEGIN
  FOR i IN 1..20 LOOP
    n := dp_int.noise_delta(p_rho, tried);
    EXIT WHEN n.delta > p_delta OR proved - tried < 1e-11 * tried;
    proved := tried;
    tried := greatest(lowest, round(proved + ln(n.normal / (p_delta - n.delta + n.normal)) * n.normal / n.slope, 60));
  END LOOP;
  RETURN proved;
END $$;

-- About the largest rho, rounded downward, of which noise_delta proves epsilon at delta; p_cap, that of
-- zcdp_rho, where it proves none that is larger.
CREATE OR REPLACE FUNCTION dp_int.noise_rho(p_epsilon numeric, p_delta numeric, p_cap numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lo numeric := p_cap;
  hi numeric := p_cap * 2;
BEGIN
  FOR i IN 1..20 LOOP
    IF (dp_int.noise_delta((lo + hi) / 2, p_epsilon)).delta <= p_delta THEN lo := (lo + hi) / 2; ELSE hi := (lo + hi) / 2; END IF;
  END LOOP;
  RETURN lo;
END $$;

-- Filters. An account admits a charge while at least one of these conditions holds for all charges in
-- force, the new one included; each was fixed with the budget:
--   1. all have a pure epsilon, and their sum is at most epsilon
--   2. spent <= cap, in the unit of the accounting
--   3. under zcdp: the sum of the epsilons of charges that have one, plus order * rho of the others, is
--      at most order * cap, at the one order by which cap was converted
--   4. under zcdp: there is only one, of normal noise and planned to be the only one, and its own delta at epsilon is at
--      most that of the conversion
-- In addition the deltas of mechanisms must fit the reserve. The four together give the same guarantee
-- as 2 alone (internal/ledger/filters.md). Where p_cap is 0, only 1 can admit anything that costs. The
-- order is computed again at each call, to about 1e-13; the factor 1 - 1e-12 covers that error.
CREATE OR REPLACE FUNCTION dp_int.admits(p_accounting text, p_epsilon numeric, p_delta numeric, p_cap numeric, t dp_int.tally) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN dp_int.admits_at(p_accounting, p_epsilon, p_delta, p_cap, t, NULL); END $$;

-- The same, with the order of filter 3 where it is known: NULL has it computed. For who asks about many sums.
CREATE OR REPLACE FUNCTION dp_int.admits_at(p_accounting text, p_epsilon numeric, p_delta numeric, p_cap numeric, t dp_int.tally, p_order numeric) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  a numeric;
BEGIN
  IF t.spent <= p_cap OR p_accounting <> 'pure' AND t.rest = 0 AND t.epsilon <= p_epsilon THEN
    RETURN true;
  ELSIF p_accounting <> 'zcdp' OR p_cap <= 0 THEN
    RETURN false;
  ELSIF t.rest = 1 AND t.epsilon = 0 THEN
    RETURN (dp_int.noise_delta(t.rest_rho, p_epsilon)).delta <= dp_int.conversion_delta(p_delta);  -- 3 would be 2 here
  ELSIF t.rest_rho > p_cap THEN
    RETURN false;
  END IF;
  a := coalesce(p_order, dp_int.order_for_epsilon(p_epsilon::float8, dp_int.conversion_delta(p_delta)::float8));
  RETURN t.epsilon + a * t.rest_rho <= a * p_cap * (1 - 1e-12);
END $$;

-- Does a limit of this cap admit nothing more at any eps, whatever the epsilon says that is left? So where normal noise alone
-- exceeds the cap, and in a copy that was left no budget.
CREATE OR REPLACE FUNCTION dp_int.is_closed(p_accounting text, p_cap numeric, t dp_int.tally) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT p_accounting <> 'pure' AND t.rest > 0 AND (p_cap <= 0 OR t.epsilon = 0 AND t.spent > p_cap) $$;

-- The order of filter 3 of a limit, NULL where there is none.
CREATE OR REPLACE FUNCTION dp_int.order_of_limit(p_accounting text, p_epsilon numeric, p_delta numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_accounting = 'zcdp' THEN dp_int.order_for_epsilon(p_epsilon::float8, dp_int.conversion_delta(p_delta)::float8) END
$$;

-- Approximately the order of filter 3 for the least epsilon that admits these sums. With x = a - 1, the
-- filter's limit order * cap is then a (-ln(delta) - ln(a))/x^2, which falls as a grows.
CREATE OR REPLACE FUNCTION dp_int.order_for_mixture(epsilon float8, rho float8, delta float8) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  lo float8 := 1e-9;
  hi float8 := 1e15;
  x float8;
BEGIN
  FOR i IN 1..50 LOOP
    x := sqrt(lo * hi);
    IF epsilon / (1 + x) + rho <= -(ln(1 + x) + ln(delta)) / (x * x) THEN lo := x; ELSE hi := x; END IF;
  END LOOP;
  RETURN 1 + lo::numeric;
END $$;

-- The least epsilon, rounded upward, whose filters would admit the sums t at the account's delta;
-- infinite when the deltas of mechanisms use up that delta.
CREATE OR REPLACE FUNCTION dp_int.least_epsilon(a dp_int.account, t dp_int.tally, p_spent_delta numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  delta CONSTANT numeric := dp_int.conversion_delta(a.delta, p_spent_delta);
  best numeric := dp_int.proven(a.accounting, a.renyi_order, t.spent, a.delta, p_spent_delta);
  o numeric;
BEGIN
  IF a.accounting = 'pure' OR delta <= 0 THEN
    RETURN best;
  ELSIF t.rest = 0 THEN
    RETURN least(best, t.epsilon);
  ELSIF a.accounting = 'zcdp' AND t.rest = 1 AND t.epsilon = 0 THEN
    best := least(best, dp_int.noise_epsilon(t.rest_rho, delta, best));
  ELSIF a.accounting = 'zcdp' AND t.epsilon > 0 THEN
    o := dp_int.order_for_mixture(t.epsilon::float8, t.rest_rho::float8, delta::float8);
    best := least(best, greatest(0, (t.epsilon + o * t.rest_rho) * (1 + 1e-15) + dp_int.renyi_surplus(o, delta)));
  ELSE
    RETURN best;
  END IF;
  IF best > a.epsilon AND p_spent_delta <= dp_int.reserve(a.delta) AND dp_int.admits(a.accounting, a.epsilon, a.delta, a.cap, t) THEN
    RETURN a.epsilon;  -- the two orders, or the roots, differ in their last digits
  END IF;
  RETURN best;
END $$;

-- What an entry adds to rest: 0 where it has a pure epsilon; of a charge 1 where it was to be the only one,
-- else 2; less than 0 for a refund.
CREATE OR REPLACE FUNCTION dp_int.weight_of_rest(e dp_int.ledger) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN e.epsilon IS NOT NULL THEN 0
              ELSE CASE e.kind WHEN 'charge' THEN 1 WHEN 'refund' THEN -1 ELSE 0 END * CASE WHEN dp_int.is_only(e.event) THEN 1 ELSE 2 END END
$$;

-- The sums t with one more entry: a charge adds its costs, a refund subtracts them.
CREATE OR REPLACE FUNCTION dp_int.add_entry(t dp_int.tally, a dp_int.account, e dp_int.ledger) RETURNS dp_int.tally
LANGUAGE sql IMMUTABLE AS $$
  SELECT t.spent + coalesce(dp_int.cost(a, e), 0), t.epsilon + coalesce(e.epsilon, 0),
         t.rest + dp_int.weight_of_rest(e),
         t.rest_rho + CASE WHEN e.epsilon IS NOT NULL THEN 0 ELSE coalesce(e.rho, 0) END
$$;

CREATE OR REPLACE FUNCTION dp_int.tally_of(a dp_int.account) RETURNS dp_int.tally
LANGUAGE sql IMMUTABLE AS $$ SELECT a.spent, a.spent_epsilon, a.rest, a.rest_rho $$;

CREATE OR REPLACE FUNCTION dp_int.tally_of(p_account bigint, p_principal bigint) RETURNS dp_int.tally
LANGUAGE plpgsql STABLE AS $$
DECLARE
  t dp_int.tally;
BEGIN
  SELECT c.spent, c.spent_epsilon, c.rest, c.rest_rho INTO t FROM dp_int.caller_total c WHERE c.account = p_account AND c.principal = p_principal;
  RETURN CASE WHEN t IS NULL THEN ROW(0, 0, 0, 0)::dp_int.tally ELSE t END;
END $$;

-- The number that a person typed: for 0.2::real, which arrives as 0.20000000298023224, it is 0.2. That is
-- so for every float8 that is the real nearest to a decimal of six digits; others are returned as they
-- are. The cast of real to numeric rounds to six digits.
CREATE OR REPLACE FUNCTION dp_int.typed(x float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF abs(x) BETWEEN 1e-30 AND 1e30 AND x::real = x AND x::real::numeric::real = x::real THEN
    RETURN x::real::numeric::float8;
  END IF;
  RETURN x;
END $$;

-- The decimal that a person typed: the shortest text that reads back as this float8.
CREATE OR REPLACE FUNCTION dp_int.exact(x float8) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT SET extra_float_digits = 1 AS $$ SELECT dp_int.typed(x)::text::numeric $$;

-- The principal of a role of this cluster, NULL where there is none yet.
CREATE OR REPLACE FUNCTION dp_int.principal_of(p_role name) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT p.id
      FROM dp_int.principal p
      JOIN pg_catalog.pg_roles r ON r.oid = p.role
     WHERE r.rolname = p_role AND p.cluster = (SELECT system_identifier FROM pg_control_system()));
END $$;

-- The name that a principal's role has now, NULL when the role is gone.
CREATE OR REPLACE FUNCTION dp_int.role_of(p_principal bigint) RETURNS name
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT r.rolname
      FROM dp_int.principal p
      JOIN pg_catalog.pg_roles r ON r.oid = p.role
     WHERE p.id = p_principal AND p.cluster = (SELECT system_identifier FROM pg_control_system()));
END $$;

-- The principal of a role that asks or is granted something; creates it if it is new, and updates its
-- name. Another principal recorded under this name belongs to a role that has been renamed or dropped. In
-- a copy in another cluster no principals are created until those of the original are bound to roles,
-- because they may be the same people.
CREATE OR REPLACE FUNCTION dp_int.admit_principal(p_role name) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  here CONSTANT bigint := (SELECT system_identifier FROM pg_control_system());
  known CONSTANT bigint := dp_int.principal_of(p_role);
BEGIN
  IF EXISTS (SELECT FROM dp_int.principal WHERE id = known AND name = p_role) THEN
    RETURN known;
  ELSIF EXISTS (SELECT FROM dp_int.principal WHERE cluster <> here AND role IS NOT NULL) THEN
    RAISE EXCEPTION 'this is a copy of another cluster''s database, whose roles are not bound to this one''s'
      USING ERRCODE = '55000', HINT = 'Let its administrator run dpsidecar adopt, which binds them by name. No privacy budget was spent.';
  END IF;
  UPDATE dp_int.principal p
     SET name = coalesce(dp_int.role_of(p.id), p.name), role = CASE WHEN dp_int.role_of(p.id) IS NOT NULL THEN p.role END
   WHERE p.cluster = here AND (p.id = known OR p.name = p_role AND p.role IS NOT NULL);
  INSERT INTO dp_int.principal (cluster, role, name)
  SELECT here, r.oid, r.rolname FROM pg_catalog.pg_roles r WHERE r.rolname = p_role
  ON CONFLICT ON CONSTRAINT principal_role DO NOTHING;
  RETURN dp_int.principal_of(p_role);
EXCEPTION WHEN lock_not_available THEN
  RAISE EXCEPTION 'the first request of "%" is in a transaction that is still open', p_role
    USING ERRCODE = '55P03', HINT = 'End that transaction, and ask again. No privacy budget was spent.';
END $$;

-- Binds the principals that came with a copy from another cluster to the roles that have their names
-- here; one without such a role is bound to no role from then on.
CREATE OR REPLACE FUNCTION dp_int.rebind_roles() RETURNS TABLE(principal name, bound boolean)
LANGUAGE sql VOLATILE AS $$
  UPDATE dp_int.principal p
     SET cluster = here.id, role = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = p.name AND p.role IS NOT NULL)
    FROM (SELECT system_identifier AS id FROM pg_control_system()) AS here
   WHERE p.cluster <> here.id
  RETURNING p.name, p.role IS NOT NULL
$$;

-- The grant by which a caller may ask: a grant to a role covers its members; a grant that names the
-- caller takes precedence over a group's.
CREATE OR REPLACE FUNCTION dp_int.grant_of(p_dataset bigint, p_caller name) RETURNS dp_int.dataset_grant
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT g
      FROM dp_int.dataset_grant g
      JOIN dp_int.principal p ON p.id = g.principal AND p.cluster = (SELECT system_identifier FROM pg_control_system())
      JOIN pg_catalog.pg_roles r ON r.oid = p.role
      JOIN pg_catalog.pg_roles c ON c.rolname = p_caller
     WHERE g.dataset = p_dataset AND pg_has_role(c.oid, r.oid, 'USAGE')
     ORDER BY r.oid <> c.oid, g.epsilon DESC NULLS FIRST
     LIMIT 1);
END $$;
