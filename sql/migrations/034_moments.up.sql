-- Second moments of rows: jobs whose release is sums of products.
BEGIN;
SET LOCAL ROLE dp_owner;

CREATE TABLE dp_int.second_moments (
  release uuid NOT NULL CONSTRAINT second_moments_release REFERENCES dp_int.release CONSTRAINT second_moments_pk PRIMARY KEY,
  terms   text[] NOT NULL,
  sums    float8[] NOT NULL,
  noise   float8 NOT NULL,
  bound   float8 NOT NULL,
  CONSTRAINT second_moments_triangle CHECK (cardinality(sums) = cardinality(terms) * (cardinality(terms) + 1) / 2)
);
COMMENT ON TABLE dp_int.second_moments IS
  'What a release of model moments holds in the place of coefficients: sums over rows of the products of two terms in scaled units, row by row of the upper triangle. noise: the standard deviation that noise gives a sum on the diagonal; off it, over the root of 2. bound: rows count as if they were at most as long.';

COMMIT;
