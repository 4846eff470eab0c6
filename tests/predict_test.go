package tests

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A prediction is the sum that the coefficients say, by every way to ask for it.
func TestPredictionsFollowTheCoefficients(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	for name, c := range map[string]struct {
		call     string
		features string // of one row, as an array
		link     func(float64) float64
	}{
		"linear":       {`SELECT * FROM dp_linear_regress('%s', 1)`, "{30,2,1}", nil},
		"no intercept": {`SELECT * FROM dp_linear_regress('%s', 1, features => '{age,region}', intercept => false)`, "{30,2}", nil},
		"intercept":    {`SELECT * FROM dp_linear_regress('%s', 1, features => '{}')`, "{}", nil},
		"logistic": {`SELECT * FROM dp_logistic_regress('%s', 1, target => 'insured', features => '{region,age}')`, "{3,40}",
			func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }},
	} {
		t.Run(name, func(t *testing.T) {
			out := w.mustRegress(w.analyst, fmt.Sprintf(c.call, w.dataset))
			x := one[[]float64](w, w.analyst, `SELECT $1::text::float8[]`, c.features)
			want := 0.0
			if len(out) > len(x) {
				want = out[0].Coef
			}
			for j, v := range x {
				want += out[len(out)-len(x)+j].Coef * v
			}
			release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
			if got := one[float64](w, w.analyst, `SELECT dp_predict(dp_coef($1), $2::text::float8[])`, release, c.features); !near(got, want) {
				t.Errorf("dp_predict(coef) is %v, want %v", got, want)
			}
			if c.link != nil {
				want = c.link(want)
			}
			for _, sql := range []string{
				fmt.Sprintf(`SELECT dp_predict('%s', '%s')`, release, c.features),
				fmt.Sprintf(`SELECT dp_predict('%s'::uuid, '%s'::float8[])`, release, c.features),
				fmt.Sprintf(`SELECT dp_predict('%s', '%s'::float8[])`, release, c.features),
				fmt.Sprintf(`SELECT dp_predict(dp_last_release('%s'), '%s')`, w.dataset, c.features),
			} {
				if got := one[float64](w, w.analyst, sql); !near(got, want) {
					t.Errorf("%s is %v, want %v", sql, got, want)
				}
			}
			more := strings.Replace(c.features, "{", "{1,", 1)
			for _, sql := range []string{`SELECT dp_predict($1::text, $2::text)`, `SELECT prediction FROM dp_predict_interval($1::text, $2::text)`} {
				_, err := w.analyst.Exec(context.Background(), sql, release, strings.Replace(more, ",}", "}", 1)) // as if the first were the intercept's
				w.wantError(err, "22023", fmt.Sprintf("%s, but %s beside the intercept", several(len(x)+1, "feature"), several(len(x), "coefficient")))
				if len(x) == 0 {
					w.wantError(err, "22023", "This release has no features: give an empty array, '{}'.")
				}
			}
			if len(x) == 0 {
				for features, says := range map[string]string{`{"age": 30}`: "This release has no features: name none.", `["age"]`: "This release has no features: give an empty object, '{}'."} {
					_, err := w.analyst.Exec(context.Background(), `SELECT dp_predict($1::uuid, $2::jsonb)`, release, features)
					w.wantError(err, map[bool]string{true: "42703", false: "22023"}[features[0] == '{'], says)
				}
				if got := one[float64](w, w.analyst, `SELECT dp_predict($1::uuid, '{}'::jsonb)`, release); !near(got, want) {
					t.Errorf("without features, by name: %v, want %v", got, want)
				}
			}
		})
	}
	if w.entries() != 4 {
		t.Errorf("%d entries after 4 releases: predictions are free", w.entries())
	}
}

// A release of objective perturbation carries the band that dp_explain told, around
// the coefficients; one of the exponential mechanism carries none.
func TestCoefficientsCarryTheBandOfTheirNoise(t *testing.T) {
	w := newWorld(t, 100, 0)
	for method, known := range map[string]bool{"objective_perturbation": true, "exponential_mechanism": false} {
		options := fmt.Sprintf(`{"method": %q}`, method)
		foretold := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 1, features => '{age}', options => $2)`, w.dataset, options)
		w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1, features => '{age}', options => $2)`, w.dataset, options)
		for _, term := range []string{"(intercept)", "age"} {
			got := one[*float64](w, w.analyst, `SELECT CASE WHEN noise_low < coef AND coef < noise_high AND abs(noise_low + noise_high - 2 * coef) <= 1e-9 * (noise_high - noise_low)
				THEN (noise_high - noise_low) / 2 END FROM dp.coefficients WHERE release = dp_last_release($1) AND term = $2`, w.dataset, term)
			if told, ok := foretold["noise_band:"+term]; ok != known || (got != nil) != known || known && strconv.FormatFloat(*got, 'g', 3, 64) != told {
				t.Errorf("%s, %s: a band of %v, dp_explain said %q", method, term, got, told)
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(math.Abs(a)+math.Abs(b)) }

func TestPredictionsWithManyFeaturesAndWithNone(t *testing.T) {
	w := newWorld(t, 1, 0)
	for n := range 20 {
		for _, intercept := range []int{0, 1} {
			got := one[float64](w, w.analyst, `SELECT dp_predict(ARRAY(SELECT i::float8 FROM generate_series(1, $1::int + $2::int) i), ARRAY(SELECT i::float8 FROM generate_series(1, $1::int) i))`,
				n, intercept)
			want := 0.0
			for j := 1; j <= n; j++ {
				want += float64((j + intercept) * j)
			}
			if got != want+float64(intercept) {
				t.Errorf("%d features, intercept %d: %v, want %v", n, intercept, got, want+float64(intercept))
			}
		}
	}
	for _, n := range []int{1, 12} {
		if !one[bool](w, w.analyst, `SELECT dp_predict(array_fill(1::float8, ARRAY[$1::int + 1]), array_fill(NULL::float8, ARRAY[$1::int])) IS NULL`, n) {
			t.Errorf("a missing feature among %d gives a prediction", n)
		}
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT dp_predict('{1,2}'::float8[], '{1,2,3}'::float8[])`)
	w.wantError(err, "22023", "3 features, but 2 coefficients")
}

// A missing feature is no small number: it leaves nothing to predict, also where predictions are kept within what exp can take.
func TestWhatIsMissingHasNoPrediction(t *testing.T) {
	w := newWorld(t, 10, 1e-5)
	for _, ask := range []string{`dp_linear_regress($1, 1, features => '{age,insured}')`, `dp_logistic_regress($1, 1, target => 'insured', features => '{age,region}')`,
		`dp_poisson_regress($1, 1, target => 'region', features => '{age,insured}')`} {
		terms := w.mustRegress(w.analyst, `SELECT * FROM `+ask, w.dataset)
		release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
		for _, huge := range []string{`{Infinity,1}`, `{1,-Infinity}`, `{Infinity,-Infinity}`, `{1e101,1}`, `{-1e300,1}`, `{1e308,1e308}`} {
			if why := one[string](w, w.analyst, `SELECT why_null FROM dp_predict_interval($1::uuid, $2::text) WHERE ci_low IS NULL`, release, huge); why != "a feature is infinite or beyond 1e100" {
				t.Errorf("%s: the interval at %s is missing because %q", ask, huge, why)
			}
		}
		if slopes := one[float64](w, w.analyst, `SELECT abs(c[2]) + abs(c[3]) FROM dp_coef($1) AS c`, release); slopes > 4 {
			_, err := w.analyst.Exec(context.Background(), `SELECT dp_predict($1::uuid, '{1.7e308,1.7e308}'::text)`, release)
			w.wantError(err, "22003", "beyond the range of float8")
		}
		if terms[2].Term == "insured" { // a boolean may stand in quotes, as that of a group
			if !one[bool](w, w.analyst, `SELECT dp_predict($1::uuid, '{"age": 40, "insured": true}'::jsonb) = dp_predict($1::uuid, '{"age": 40, "insured": "true"}'::jsonb)`, release) {
				t.Errorf("%s: a boolean in quotes is another", ask)
			}
		}
		byName := fmt.Sprintf(`{"%s": 40, "%s": null}`, terms[1].Term, terms[2].Term)
		for features, missing := range map[string]string{`{40,NULL}`: "IS NULL", `{NULL,1}`: "IS NULL", `{40,NaN}`: "= 'NaN'", byName: "IS NULL"} {
			if !one[bool](w, w.analyst, `SELECT dp_predict($1::uuid, $2::text) `+missing+` AND i.prediction `+missing+` AND num_nulls(i.ci_low, i.ci_high) = 2 AND i.why_null = 'a feature is missing, or has a value that is no level'
				FROM dp_predict_interval($1::uuid, $2::text) AS i`, release, features) {
				t.Errorf("%s: %s is predicted as %v", ask, features, one[string](w, w.analyst, `SELECT coalesce(dp_predict($1::uuid, $2::text)::text, 'NULL')`, release, features))
			}
		}
	}
}

// Who may not see a release does not get at it by predicting.
func TestPredictionsAreForWhoMaySeeTheRelease(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1, features => '{age}')`, w.dataset)
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	stranger := w.newAnalyst(w.person + "b")
	want := one[float64](w, stranger, `SELECT dp_predict($1, '{50}')`, release)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person+"b")
	for _, sql := range []string{`SELECT dp_predict($1, '{50}')`, `SELECT dp_predict($1::uuid, '{50}')`, `SELECT dp_coef($1)`} {
		_, err := stranger.Exec(context.Background(), sql, release)
		w.wantError(err, "22023", "no release")
		_, err = w.analyst.Exec(context.Background(), sql, one[string](w, w.super, `SELECT gen_random_uuid()::text`))
		w.wantError(err, "22023", "no release")
	}
	if got := one[float64](w, w.steward, `SELECT dp_predict($1, '{50}')`, release); got != want {
		t.Errorf("the steward gets %v, want %v", got, want)
	}
	for _, sql := range []string{`SELECT dp_predict(NULL, '{50}')`, `SELECT dp_predict(NULL::uuid, '{50}')`, `SELECT dp_predict(NULL::uuid, '{50}'::float8[])`, `SELECT dp_predict(NULL::uuid, '{"age": 50}'::jsonb)`, `SELECT dp_predict(NULL::text, '{50}'::float8[])`, `SELECT dp_coef(NULL)`} {
		_, err := w.analyst.Exec(context.Background(), sql)
		w.wantError(err, "22023", "no release NULL")
	}
	for _, kind := range []string{"float8[]", "jsonb", "text"} {
		if !one[bool](w, w.analyst, `SELECT dp_predict($1::uuid, NULL::`+kind+`) IS NULL`, release) {
			t.Errorf("features that are a null %s give a prediction", kind)
		}
	}
}

// The planner puts dp_predict(coef, features) inline, and asks for the
// coefficients once: that is what makes it fit for large tables.
func TestPredictIsInlined(t *testing.T) {
	w := newWorld(t, 10, 1e-5)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	w.exec(w.super, `GRANT SELECT ON public.`+w.dataset+` TO `+w.person)
	sql := `SELECT sum(dp_predict(m.coef, ARRAY[age, region, insured::int])) FROM public.` + w.dataset +
		`, (SELECT dp_coef(dp_last_release('` + w.dataset + `')) AS coef OFFSET 0) m`
	plan := strings.Join(all[string](w, w.analyst, `EXPLAIN VERBOSE `+sql), "\n")
	if strings.Contains(plan, "dp_predict") || !strings.Contains(plan, "cardinality") || strings.Count(plan, "Output: dp_coef(") != 1 {
		t.Errorf("not inline:\n%s", plan)
	}
	w.exec(w.super, `CREATE TEMP TABLE many AS SELECT random() AS a, random() AS b, random() AS c FROM generate_series(1, 20000)`)
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	for _, sql := range []string{
		`SELECT count(dp_predict(m.coef, ARRAY[a, b, c])) FROM many, (SELECT dp_coef('` + release + `') AS coef OFFSET 0) m`,
		`SELECT count(dp_predict('` + release + `'::uuid, ARRAY[a, b, c])) FROM many`,
	} {
		start := time.Now()
		one[int64](w, w.super, sql)
		t.Logf("%v for 20,000 rows: %s", time.Since(start).Round(time.Millisecond), sql)
	}
}

func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
