package tests

import (
	"fmt"
	"testing"
)

// No value of a supported type keeps a job from its release. The first row has
// the extremes that Postgres holds: a numeric of 36,864 digits in base 10000, a
// time before Christ, infinities.
func TestNoValueDecidesWhetherThereIsAnAnswer(t *testing.T) {
	w := newWorld(t, 100, 0)
	table := w.dataset + "_values"
	w.exec(w.super, fmt.Sprintf(`
		CREATE DOMAIN public.%[1]s_domain AS numeric;
		CREATE TABLE public.%[1]s (y %[1]s_domain, x numeric, huge bigint, r real, f float8, d date, ts timestamp, tz timestamptz, b boolean);
		INSERT INTO public.%[1]s VALUES
			(1e131071::numeric + 1e-16383, repeat('9', 131072)::numeric, -9223372036854775808, '-Infinity', 'NaN', '4713-01-01 BC', '-infinity', '294276-12-31 23:59:59Z', NULL),
			('NaN', 1 + 1e-16383, 9223372036854775807, 'NaN', 1e308, 'infinity', '294276-12-31', '4713-01-02 BC', true),
			('-Infinity', 'Infinity', 0, 1e-45, -5e-324, '5874897-12-31', '4713-01-01 BC', 'infinity', false);
		INSERT INTO public.%[1]s SELECT i, i, i, i, i, '2026-01-01'::date + i, '2026-01-01'::date + i, '2026-01-01'::date + i, i %% 2 = 0 FROM generate_series(1, 500) i;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x,huge,r,f,d,ts,tz,b}', 10)`, table, "public."+table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	if out := w.mustRegress(w.analyst, ask, table, 1.0); len(out) != 9 {
		t.Errorf("terms %v", out)
	}
}
