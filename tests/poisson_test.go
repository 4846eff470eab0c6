package tests

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
)

// counted gives the data set 60,000 policies: claims by the year, of a known rate that rises
// with age, and two years of one that say nothing.
func (w *world) counted() {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`
		ALTER TABLE %[1]q ADD claims int, ADD years float8;
		TRUNCATE %[1]q;
		INSERT INTO %[1]q (age, region, insured, amount, years, claims)
		SELECT 20 + 60 * a, 5 * b, b < 0.5, 0, 0.1 + 0.9 * c,
		       -- the Poisson law of a mean below 1, to four claims
		       (d > exp(-m))::int + (d > exp(-m) * (1 + m))::int + (d > exp(-m) * (1 + m + m^2 / 2))::int + (d > exp(-m) * (1 + m + m^2 / 2 + m^3 / 6))::int
		  FROM (SELECT a, b, c, d, (0.1 + 0.9 * c) * exp(-2.5 + 0.03 * (20 + 60 * a) - 0.2 * 5 * b) AS m
		          FROM (SELECT random() a, random() b, random() c, random() d FROM generate_series(1, 60000)) AS r) AS r;
		UPDATE %[1]q SET years = NULL WHERE ctid IN (SELECT ctid FROM %[1]q LIMIT 100);
		UPDATE %[1]q SET claims = -1000 WHERE ctid IN (SELECT ctid FROM %[1]q WHERE years IS NOT NULL LIMIT 100);
		UPDATE %[1]q SET years = 0 WHERE ctid IN (SELECT ctid FROM %[1]q WHERE years IS NOT NULL LIMIT 100)`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'claims', '{age,region,years}', 200, 1e-4, scales => '{"age": 50, "region": 3}')`, w.dataset, "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
}

const askClaims = `SELECT * FROM dp_poisson_regress($1, $2, options => '{"exposure": "years"}')`

// A Poisson regression with an exposure finds the law, in the table's units; the exposure is no
// feature by default, and everything else of a release serves it.
func TestPoissonRegression(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.counted()
	got, eps := w.withIntervals(w.analyst, askClaims, w.dataset, 8)
	want := []struct {
		term    string
		coef, d float64
	}{{"(intercept)", -2.5, .45}, {"age", 0.03, .006}, {"region", -0.2, .085}} // seven deviations of 18 runs, .055, .0008 and .0095, and what rounding the region takes
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for j, c := range want {
		if got[j].Term != c.term || math.Abs(got[j].Coef-c.coef) > c.d {
			t.Errorf("%v, want %v", got[j], c)
		}
	}
	conn, heard := w.listening(w.person) // noise is larger than that of least squares with as many rows
	w.exec(conn, `SELECT dp_submit('poisson', $1, 0.01, options => '{"exposure": "years"}')`, w.dataset)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "too few rows for 3 coefficients at eps 0.01") {
		t.Errorf("of 60,000 rows at eps 0.01: %q", said)
	}
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	rate := math.Exp(got[0].Coef + 40*got[1].Coef + 2*got[2].Coef)
	if v := one[float64](w, w.analyst, `SELECT dp_predict($1::text, '{40,2}')`, release); math.Abs(v/rate-1) > 1e-9 {
		t.Errorf("predicts %v claims a year, want %v", v, rate)
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT dp_predict($1::uuid, '{"age": 40, "region": 2, "exposure": 0.5}'::jsonb)`, release)
	w.wantError(err, "42703", "Name each of its features once: age, region; and, if you like, its exposure, years.")
	var prediction, low, high float64
	var why *string
	if err := w.analyst.QueryRow(context.Background(), `SELECT * FROM dp_predict_interval($1::text, '{40,2}')`, release).Scan(&prediction, &low, &high, &why); err != nil {
		t.Fatal(err)
	}
	if law := math.Exp(-2.5 + .03*40 - .4); !(0 < low && low < prediction && prediction < high && high < 2*law && low > law/2) {
		t.Errorf("predicts %v (%v to %v), the law says %v", prediction, low, high, law)
	}
	for name, m := range map[string][2]float64{"deviance_explained": {.02, .25}, "mean_deviance": {.2, 1}} {
		for _, s := range w.mustScore(w.analyst, askScore, release, 50.) { // at eps 5 noise alone may look like a far tail, which hides a figure
			if s.Metric == name && !(s.Value != nil && *s.Value > m[0] && *s.Value < m[1]) {
				t.Errorf("%s: %v", name, s.Value)
			}
		}
	}
	entries := w.entries()
	w.mustRegress(w.analyst, `SELECT * FROM dp_poisson_regress($1, $2, features => '{age,region}', options => '{"exposure": "years"}')`, w.dataset, eps)
	if w.entries() != entries {
		t.Error("features that are the default are another request")
	}
	without := w.mustRegress(w.analyst, `SELECT * FROM dp_poisson_regress($1, $2, features => '{age,region}')`, w.dataset, eps)
	if w.entries() != entries+1 || without[0].Coef > got[0].Coef-.3 {
		t.Errorf("without exposure %v, with it %v", without, got)
	}
	if ok := one[bool](w, w.steward, `SELECT bool_and(ok) FROM dp_verify()`); !ok {
		t.Error("the ledger does not verify")
	}
}

// What cannot be an exposure is refused with what can, before anything is spent.
func TestExposuresThatCannotBe(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.counted()
	for ask, says := range map[string]string{
		`dp_poisson_regress($1, 1, options => '{"exposure": "nothing"}')`:                          "not registered",
		`dp_poisson_regress($1, 1, options => '{"exposure": "claims"}')`:                           "target or a feature",
		`dp_poisson_regress($1, 1, features => '{age,years}', options => '{"exposure": "years"}')`: "target or a feature",
		`dp_poisson_regress($1, 1, options => '{"exposure": 3}')`:                                  "must be the name of a registered column",
		`dp_linear_regress($1, 1, options => '{"exposure": "years"}')`:                             "unknown option",
		`dp_poisson_regress($1, 1, method => 'gd')`:                                                "must be one of auto, newton",
	} {
		_, err := regress(w.analyst, `SELECT * FROM `+ask, w.dataset)
		code := "22023"
		if says == "not registered" {
			code = "42703"
		}
		w.wantError(err, code, says)
	}
	if n := w.spent(); n != 0 {
		t.Errorf("spent %v", n)
	}
}

// A date or a time is no count, also under a domain.
func TestADateIsNoCount(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := w.dataset
	w.exec(w.super, fmt.Sprintf(`CREATE DOMAIN public.%[1]s_day AS date; ALTER TABLE %[1]s ADD seen %[1]s_day DEFAULT '2024-05-01', ADD at timestamptz DEFAULT '2024-05-01'`, table))
	w.exec(w.steward, `SELECT dp_unregister($1)`, table)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,seen,at}', 200, 1e-4)`, table, "public."+table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	for column, kind := range map[string]string{"seen": "date", "at": "timestamp with time zone"} {
		_, err := regress(w.analyst, `SELECT * FROM dp_poisson_regress($1, 1, target => $2, features => '{age}')`, table, column)
		w.wantError(err, "22023", fmt.Sprintf(`target "%s" is a %s, not a count`, column, kind))
	}
	for option, ask := range map[string]string{
		"exposure": `SELECT * FROM dp_poisson_regress($1, 1, features => '{age}', options => '{"exposure": "seen"}')`,
		"weight":   `SELECT * FROM dp_l1_regress($1, 1, features => '{age}', options => '{"weight": "seen", "max_weight": 5}')`,
	} {
		_, err := regress(w.analyst, ask, table)
		w.wantError(err, "22023", option+` "seen" is a date, not a number`)
	}
	if n := w.spent(); n != 0 {
		t.Errorf("spent %v", n)
	}
}

// The statements of the how-to run as it tells.
func TestTheHowToOfCountsRuns(t *testing.T) {
	w, people := newReader(t)
	w.runPage("how-to/counts.md", people)
	// These are eight standard errors and more: .0009, .0065 and .03 were released.
	for term, truth := range map[string]float64{"age": -0.01, "power": 0.05, "urban": 0.4} {
		coef := one[float64](w, people["analyst"], `SELECT coef FROM dp.coefficients WHERE release = dp_last_release('policies') AND term = $1`, term)
		if math.Abs(coef-truth) > map[string]float64{"age": .008, "power": .055, "urban": .25}[term] {
			t.Errorf("%s is %v, not %v", term, coef, truth)
		}
	}
	ratio := one[float64](w, people["analyst"], `SELECT dp_predict(r, '{"age": 40, "power": 6, "urban": true, "years": 0.5}'::jsonb) / dp_predict(r, '{"age": 40, "power": 6, "urban": true}'::jsonb) FROM dp_last_release('policies') r`)
	if math.Abs(ratio-0.5) > 1e-9 {
		t.Errorf("half a year has %v of the claims of one", ratio)
	}
}
