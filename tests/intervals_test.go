package tests

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
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

var namedEps = regexp.MustCompile(`that takes about [0-9]+ (?:rows|persons), or eps ([0-9.]+) with these`)

// That no coefficient will have an interval, for lack of rows and eps, follows from public facts: dp_explain says so, and who
// spends is warned, a little below the eps from which on a plan allows them, and not a little above. So does a release.
func TestWhoSpendsIsToldThatThereWillBeNoInterval(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := "few_" + w.dataset
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', 1000, 1e-4, accounting => 'zcdp', scales => '{"amount": 500, "age": 40}', categories => '{"region": ["0", "1", "2", "3", "4", "5", "6"]}')`, name, "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	for _, c := range []struct {
		model, arguments      string
		coefficients, sources int
		options               string
	}{
		{"linear", `target => 'amount', features => '{age}'`, 2, 2, ""},
		{"linear", `target => 'amount', features => '{age,region}'`, 8, 3, `"method": "joint_moments"`}, // rows of few columns
		{"huber", `target => 'amount', features => '{age,insured}'`, 3, 3, ""},
		{"huber", `target => 'amount', features => '{age,region}'`, 8, 3, ""},
		{"logistic", `target => 'insured', features => '{age}'`, 2, 2, ""},
		{"logistic", `target => 'insured', features => '{age,region}'`, 8, 3, ""},
	} {
		low, high := 0.01, 200.
		for range 40 {
			middle := math.Sqrt(low * high)
			if one[float64](w, w.super, `SELECT dp_int.rows_for_intervals($1, $2, $3, $4, 1e-5)`, c.model, c.coefficients, c.sources, middle) <= 1000 {
				high = middle
			} else {
				low = middle
			}
		}
		for share, lacks := range map[float64]bool{0.98: true, 1.02: false} {
			eps := share * high
			request := fmt.Sprintf(`'%s', '%s', %v, 1e-5, %s, options => '{%s}'`, c.model, name, eps, c.arguments, c.options)
			said := w.explain(w.analyst, `SELECT * FROM dp_explain(`+request+`)`)
			if strings.Contains(said["warning"], "no coefficient will have an interval") != lacks {
				t.Errorf("%s: %v", request, said)
			}
			if found := namedEps.FindStringSubmatch(said["warning"]); found != nil {
				if named, err := strconv.ParseFloat(found[1], 64); err != nil || !(named >= high && named < 1.15*high) {
					t.Errorf("%s: eps %v is named, and %v is enough", request, named, high)
				}
			} else if lacks && high < 10 {
				t.Errorf("%s: no eps is named: %s", request, said["warning"])
			}
			conn, heard := w.listening(w.person)
			w.exec(conn, `CALL dp_run(`+request+`)`)
			if told := strings.Contains(strings.Join(heard(), "\n"), "no coefficient will have an interval"); told != lacks {
				t.Errorf("%s: heard %q", request, heard())
			}
			const last = `FROM dp.coefficients WHERE release = dp_last_release($1)`
			if lacks && one[int](w, w.analyst, `SELECT count(ci_low)::int `+last, name) > 0 {
				t.Errorf("%s has intervals", request)
			}
			// A feature that noise seems to hide is named instead, by chance, which also happens where there is no lack.
			if why := strings.Join(all[string](w, w.analyst, `SELECT DISTINCT coalesce(why_null, 'an interval') `+last, name), "; "); strings.Contains(why, "low information") && !lacks || lacks && !strings.Contains(why, "low information") && !strings.HasPrefix(why, "noise hides") {
				t.Errorf("%s: %q", request, why)
			}
		}
	}
	// What was asked for is no lack of rows.
	for _, options := range []string{`"method": "gd"`, `"penalty": "l2", "lambda": 0.1`, `"whitening": "off"`, `"by": "region"`} {
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 0.1, 1e-5, features => '{age}', options => '{`+options+`}')`, name); strings.Contains(said["warning"], "interval") {
			t.Errorf("%s: %v", options, said)
		}
	}
}

// Of a table of visits it is persons that are too few.
func TestTooFewPersonsForIntervals(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(2000)
	name := "persons_" + w.dataset
	if err := w.registerUnit(name, w.dataset, visits+`, unit => 'patient', max_rows => 4`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 0.1)`, name); said["persons"] == "" || !strings.Contains(said["warning"], "persons, or fewer coefficients") && !strings.Contains(said["warning"], "persons, or eps") {
		t.Errorf("%v", said)
	}
}
