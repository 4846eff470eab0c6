-- 100,000 claims: lognormal vehicle values, distances and ages; Pareto noise
-- with tail index 1.5, so its variance is infinite. setseed makes every run alike.
SELECT setseed(0.2);
CREATE FUNCTION pg_temp.normal() RETURNS float8 LANGUAGE sql VOLATILE AS
$$ SELECT sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) $$;

CREATE TABLE claims AS
SELECT vehicle_value, annual_km, driver_age,
       round((500 + 0.05 * vehicle_value + 0.04 * annual_km - 6 * driver_age
              + 600 * ((1 - random()) ^ (-1 / 1.5) - 2 ^ (1 / 1.5)))::numeric, 2)::float8 AS claim_cost
  FROM (SELECT round(exp(9.7 + 0.5 * pg_temp.normal())) AS vehicle_value,
               round(exp(9.3 + 0.4 * pg_temp.normal())) AS annual_km,
               round(exp(3.75 + 0.25 * pg_temp.normal())) AS driver_age
          FROM generate_series(1, 100000)
        OFFSET 0) AS customer;

COMMENT ON TABLE claims IS 'Insurance claims of the dpsidecar demo; one row is one customer';
