package tests

import (
	"fmt"
	"testing"
)

// Least squares with rows enough comes with intervals that hold the truth, in the table's
// units, and so does a Huber fit; other fits say why they have none.
func TestFitsHaveIntervals(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,region,insured}')`, w.dataset, 20)
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.coefficients WHERE release = dp_last_release($1)
		AND ci_low < ci_high AND std_err > 0 AND df >= 1 AND p_value BETWEEN 0 AND 1 AND why_null IS NULL`, w.dataset); n != 4 {
		t.Fatalf("%d of 4 coefficients have an interval", n)
	}
	// region is 5 b rounded to an integer, of which the best line has 17/18 of the slope. An
	// interval of nine widths misses the truth with a probability far below 1e-6.
	for term, truth := range map[string]float64{"age": 1000. * 20 / 60, "region": -1000 * 17. / 18, "insured": 10_000} {
		if !one[bool](w, w.analyst, `SELECT abs($2 - (ci_low + ci_high) / 2) < 9 * (ci_high - ci_low) FROM dp.coefficients WHERE release = dp_last_release($1) AND term = $3`, w.dataset, truth, term) {
			t.Errorf("%s: %s", term, one[string](w, w.analyst, `SELECT format('%s to %s', ci_low, ci_high) FROM dp.coefficients WHERE release = dp_last_release($1) AND term = $2`, w.dataset, term))
		}
	}
	w.withIntervals(w.analyst, `SELECT * FROM dp_huber_regress($1, $2, 1e-5)`, w.dataset, 5)
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.coefficients WHERE release = dp_last_release($1) AND ci_low < ci_high AND std_err > 0 AND why_null IS NULL`, w.dataset); n != 5 {
		t.Errorf("%d of 5 coefficients of a Huber fit have an interval", n)
	}
	for _, call := range []string{`dp_huber_regress('%s', 5, method => 'gd')`, `dp_linear_regress('%s', 5, method => 'gd')`, `dp_linear_regress('%s', 5, penalty => 'l2', lambda => 0.1)`} {
		w.mustRegress(w.analyst, `SELECT * FROM `+fmt.Sprintf(call, w.dataset))
		if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.coefficients WHERE release = dp_last_release($1) AND (why_null IS NULL OR ci_low IS NOT NULL OR p_value IS NOT NULL)`, w.dataset); n != 0 {
			t.Errorf("%s: %d coefficients neither have an interval nor say why", call, n)
		}
	}
}
