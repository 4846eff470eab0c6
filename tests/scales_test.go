package tests

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const centredScales = `{"cost": {"center": 9000, "scale": 500}, "year": {"center": 2015, "scale": 6}, "age": 50}`

// yearly makes a table of 40,000 rows with a year, registers it with scales and grants it.
// The cost is 9000 + 70 (year - 2015) + 4 (age - 50) and noise of deviation 200.
func (w *world) yearly(scales string) (dataset string) {
	w.Helper()
	dataset = w.dataset + "_yearly"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS
		SELECT 9000 + 70 * (year - 2015) + 4 * (age - 50) + 200 * sqrt(-2 * ln(1 - random())) * cos(6.283185307 * random()) AS cost, year, age, year > 2015 AS late
		  FROM (SELECT 2005 + (i %% 21) AS year, 20 + 60 * random() AS age FROM generate_series(1, 40000) AS i) AS rows;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, dataset))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{year,age,late}', 200, 1e-5, $3)`, dataset, "public."+dataset, scales)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, dataset, w.person)
	return dataset
}

func coefficient(terms []term, name string) float64 {
	for _, t := range terms {
		if t.Term == name {
			return t.Coef
		}
	}
	return math.NaN()
}

// What is fitted around centres is told in the table's units: coefficients, errors,
// predictions with their intervals, and scores.
func TestCentresAreMappedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	dataset := w.yearly(centredScales)
	// Deviations of noise and sampling are below 0.2 a year and 20 at 2015: seven of them are
	// exceeded with probability below 1e-11.
	for _, call := range []string{
		`SELECT * FROM dp_linear_regress($1, 5, features => '{year,age}')`, `SELECT * FROM dp_huber_regress($1, 5, features => '{year,age}')`,
		`SELECT * FROM dp_l1_regress($1, 5, features => '{year,age}')`, `SELECT * FROM dp_linear_regress($1, 5, features => '{year,age}', method => 'gd')`,
	} {
		release := w.lastRelease(call, dataset)
		got := w.mustRegress(w.analyst, call, dataset)
		at := coefficient(got, "(intercept)") + 2015*coefficient(got, "year") + 50*coefficient(got, "age")
		if slope := coefficient(got, "year"); math.Abs(slope-70) > 5 || math.Abs(at-9000) > 150 {
			t.Errorf("%s: %v; at the centre %v", call, got, at)
		}
		if said := one[string](w, w.analyst, `SELECT parameters ->> 'feature_centers' FROM dp.releases WHERE id = $1::text::uuid`, release); said != "[2015, 0]" {
			t.Errorf("%s: centres %s", call, said)
		}
	}
	w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, features => '{year,age}')`, dataset, 6)
	// An interval is some 5 wide, in one of 150 fits 8, where noise makes the residuals look larger; that of a fit around year 0 would be a thousand wide and more.
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, dataset)
	var prediction, low, high, slopeError, interceptError float64
	row := w.analyst.QueryRow(context.Background(), `SELECT prediction, ci_low, ci_high FROM dp_predict_interval($1::text::uuid, '{2018,40}')`, release)
	if err := row.Scan(&prediction, &low, &high); err != nil || math.Abs(prediction-9170) > 30 || !(low < prediction && prediction < high && high-low < 300) {
		t.Errorf("in 2018, at 40: %v, %v to %v: %v", prediction, low, high, err)
	}
	row = w.analyst.QueryRow(context.Background(), `SELECT max(std_err) FILTER (WHERE term = 'year'), max(std_err) FILTER (WHERE term = '(intercept)') FROM dp.coefficients WHERE release = $1::text::uuid`, release)
	if err := row.Scan(&slopeError, &interceptError); err != nil || !(interceptError > 1000*slopeError && interceptError < 3000*slopeError) {
		t.Errorf("standard errors of the year %v, of the intercept %v: %v", slopeError, interceptError, err)
	}
	// Of 350 scores at eps 50 no figure was off by more than .3 %, but at eps 2 one by 6 %: noise sometimes makes residuals look many times larger.
	for _, m := range w.mustScore(w.analyst, askScore, release, 100) {
		exact := one[float64](w, w.super, fmt.Sprintf(`SELECT CASE $2 WHEN 'r2' THEN 1 - sum(e * e) / (sum(cost * cost) - sum(cost) ^ 2 / count(*)) WHEN 'mean_absolute_error' THEN avg(abs(e)) ELSE sqrt(avg(e * e)) END
			FROM (SELECT cost, cost - dp_predict(dp_coef($1::text::uuid), ARRAY[year, age]) AS e FROM public.%s) AS r`, dataset), release, m.Metric)
		if m.Value == nil || math.Abs(*m.Value/exact-1) > 0.05 {
			t.Errorf("%s is %v, in the table %v", m.Metric, m.Value, exact)
		}
	}
	if said := one[string](w, w.analyst, `SELECT parameters ->> 'target_center' FROM dp.releases WHERE dataset = $1 AND model = 'score'`, dataset); said != "9000" {
		t.Errorf("the score's centre is %s", said)
	}
	// A label has none.
	w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 5, target => 'late', features => '{year}')`, dataset)
}

// Without an intercept there is nothing that could take a centre up again.
func TestWithoutAnInterceptThereIsNoCentre(t *testing.T) {
	w := newWorld(t, 1, 0)
	dataset := w.yearly(centredScales)
	const call = `SELECT * FROM dp_explain('linear', $1, 5, features => '{year,age}', intercept => false)`
	said := w.explain(w.analyst, call, dataset)
	if !strings.Contains(said["warning"], "center of cost, year cannot be taken out") || said["feature_scales"] != "[2021,50]" || said["target_scale"] != "9500" || said["feature_centers"] != "" {
		t.Errorf("%v", said)
	}
	got := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 20, features => '{year,age}', intercept => false)`, dataset)
	if at := 2015*coefficient(got, "year") + 50*coefficient(got, "age"); math.Abs(at-9000) > 500 {
		t.Errorf("%v: %v at the centre", got, at)
	}
}

// Changed scales leave grants, releases and what was spent; a fit under them is another
// request, and those of before are found again under theirs.
func TestScalesCanBeChanged(t *testing.T) {
	w := newWorld(t, 1, 0)
	dataset := w.yearly(`{"cost": 10000, "year": 2000, "age": 50}`)
	const call = `SELECT * FROM dp_linear_regress($1, 1, features => '{year}')`
	spent := func() float64 {
		return one[float64](w, w.analyst, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, dataset)
	}
	first := w.mustRegress(w.analyst, call, dataset)
	byAge := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, target => 'age', features => '{late}')`, dataset)
	// Under the scales of the registration a request has the identity that it always had.
	if same := one[bool](w, w.super, `SELECT bool_and(request_hash = sha256(convert_to((request - 'scales')::text, 'UTF8'))) FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1`, dataset); !same {
		t.Error("scales that were never changed are part of the identity of requests")
	}
	before := spent()
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"year": {"scale": 6.0, "center": 2015}, "late": 1}')`, dataset)
	if got := one[string](w, w.analyst, `SELECT scales::text FROM dp.datasets WHERE dataset = $1`, dataset); got != `{"age": 50, "cost": 10000, "late": 1, "year": {"scale": 6.0, "center": 2015}}` {
		t.Errorf("scales are %s", got)
	}
	second := w.mustRegress(w.analyst, call, dataset)
	after := spent()
	if reflect.DeepEqual(first, second) || after <= before {
		t.Errorf("under other scales %v again, spent %v and %v", second, before, after)
	}
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"year": {"center": 2015.0, "scale": 6}, "late": null, "age": 50.0}')`, dataset)
	if !reflect.DeepEqual(w.mustRegress(w.analyst, call, dataset), second) {
		t.Error("the same scales, written otherwise, are another request")
	}
	if !reflect.DeepEqual(w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, target => 'age', features => '{late}')`, dataset), byAge) {
		t.Error("a request whose columns have the scales of before is another one")
	}
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"year": 2000}')`, dataset)
	if !reflect.DeepEqual(w.mustRegress(w.analyst, call, dataset), first) || spent() != after {
		t.Error("under the scales of before the kept answer is not found")
	}
	// All of it stands in the ledger, with who did it.
	said := all[string](w, w.steward, `SELECT caller || ': ' || (event ->> 'scales') FROM dp.ledger WHERE dataset = $1 AND event ? 'scales' ORDER BY id`, dataset)
	steward := one[string](w, w.steward, `SELECT session_user::text`)
	if len(said) != 3 || said[0] != steward+`: {"age": 50, "cost": 10000, "late": 1, "year": {"scale": 6.0, "center": 2015}}` {
		t.Errorf("the ledger says %q", said)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Errorf("dp_verify: %v", wrong)
	}
}

// A fit that nothing was charged for is refused once its scales are taken back. One that was
// charged is tried again under those that it was charged with.
func TestJobsKeepTheirScales(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	submit := func(eps float64) string {
		return one[string](w, w.analyst, `SELECT dp_submit('l1', $1, $2, features => '{age}', options => '{"method": "objective_perturbation"}')::text`, w.dataset, eps)
	}
	hand := w.worker()
	submit(0.5)
	read, token := hand.claim()
	hand.read(read, token)
	queued := submit(0.25)
	other := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 1, target => 'age', features => '{region}')::text`, w.dataset)
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"amount": {"center": 500, "scale": 300}}')`, w.dataset)
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, read)
	claim := one[string](w, hand.conn, `SELECT dp_int.job_claim(gen_random_uuid(), '0 s', NULL)::text`)
	if got := one[string](w, w.super, `SELECT $1::jsonb ->> 'id' || ' ' || ($1::jsonb #>> '{dataset,scales}')`, claim); got != read+` {"age": 40, "amount": 500}` {
		t.Errorf("claimed again: %s", got)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("all jobs have ended", func() bool {
		return one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job WHERE finished_at IS NULL`) == 0
	})
	if state := []string{w.jobState(read), w.jobState(queued), w.jobState(other)}; !slices.Equal(state, []string{"done", "failed", "done"}) {
		t.Errorf("jobs are %v", state)
	}
	if got := one[string](w, w.super, `SELECT concat_ws(' ', sqlstate, message, hint) FROM dp_int.job WHERE id = $1`, queued); !strings.Contains(got, "DP004 the scales") || !strings.Contains(got, "No privacy budget was spent") {
		t.Errorf("%s", got)
	}
	if w.spent() != 1.5 {
		t.Errorf("spent %v", w.spent())
	}
}

func TestScalesThatAreNone(t *testing.T) {
	w := newWorld(t, 1, 0)
	for scales, c := range map[string]struct{ code, says string }{
		`[]`:                                     {"22023", "JSON object"},
		`{"nobody": 1}`:                          {"42703", "Scales are named by registered columns: amount, age"},
		`{"nobody": null}`:                       {"42703", "neither target nor feature"},
		`{"age": 0}`:                             {"22023", "positive number, not 0"},
		`{"age": "40"}`:                          {"22023", "positive number"},
		`{"age": {"center": 40}}`:                {"22023", "not left out"},
		`{"age": {"center": "x", "scale": 1}}`:   {"22023", `center of "age" must be a number`},
		`{"age": {"center": 1e101, "scale": 1}}`: {"22023", `center of "age"`},
		`{"age": {"centre": 40, "scale": 1}}`:    {"22023", `has "centre"`},
		`{"age": {"center": 40, "scale": 1, "max": 3}}`: {"22023", `has "max"`},
	} {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_set_scales($1, $2)`, w.dataset, scales)
		w.wantError(err, c.code, c.says)
		if !strings.Contains(scales, "null") {
			_, err = w.steward.Exec(context.Background(), `SELECT dp_register('other', $1::text::regclass, 'amount', '{age}', 1, scales => $2)`, "public."+w.dataset, scales)
			w.wantError(err, c.code, c.says)
		}
	}
	_, err := w.steward.Exec(context.Background(), `SELECT dp_set_scales('nothing', '{}')`)
	w.wantError(err, "22023", "not registered")
	_, err = w.analyst.Exec(context.Background(), `SELECT dp_set_scales($1, '{}')`, w.dataset)
	w.wantError(err, "42501", "dp_set_scales")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_set_scales($1, NULL)`, w.dataset)
	w.wantError(err, "22023", "JSON object")
}

// Scales that look forgotten are named to the steward who registers, and to whoever asks.
func TestScalesThatLookForgotten(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := w.dataset + "_odd"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (amount float8, model_year int, km_per_year int, seen date, income numeric, flag boolean); GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	steward, heard := w.listening(one[string](w, w.steward, `SELECT session_user::text`))
	w.exec(steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{model_year,km_per_year,seen,income,flag}', 1, scales => '{"amount": 10, "model_year": 10}')`, table, "public."+table)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "no scale is registered for seen, income:") || !strings.Contains(said, "model_year may lie far from zero, and has no center: without one its coefficient may be all noise") ||
		!strings.Contains(said, "seen may lie far from zero, and has no center: the default methods of a fit look for one") {
		t.Errorf("said %s", said)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	warnings := func(call string) string {
		return strings.Join(all[string](w, w.analyst, `SELECT value FROM `+fmt.Sprintf(call, table)+` WHERE property = 'warning'`), "\n")
	}
	if said := warnings(`dp_explain('l1', '%s', 1)`); !strings.Contains(said, "no scale is registered for seen, income:") || !strings.Contains(said, "model_year may lie far") || !strings.Contains(said, "look for one") {
		t.Errorf("warned of %s", said)
	}
	if said := warnings(`dp_explain('l1', '%s', 1, options => '{"radius": 5}')`); !strings.Contains(said, "model_year, seen may lie far from zero, and have no center: without one their coefficients may be all noise") {
		t.Errorf("where nothing is looked for: %s", said)
	}
	if said := warnings(`dp_explain('l1', '%s', 1, features => '{km_per_year,flag}')`); strings.Contains(said, "scale is registered") || strings.Contains(said, "center") {
		t.Errorf("warned of %s", said)
	}
	w.exec(steward, `SELECT dp_set_scales($1, '{"model_year": 2000}')`, table) // a scale with which fits find it
	if said := heard(); !strings.Contains(said[len(said)-1], "model_year, seen may lie far from zero, and have no center: the default methods of a fit look for one") {
		t.Errorf("said %q", said)
	}
	before := len(heard())
	w.exec(steward, `SELECT dp_set_scales($1, '{"model_year": {"center": 2015, "scale": 10}, "seen": {"center": 1.5e9, "scale": 1e8}, "income": 50000}')`, table)
	if said := warnings(`dp_explain('l1', '%s', 1)`); strings.Contains(said, "scale is registered") || strings.Contains(said, "center") || len(heard()) != before {
		t.Errorf("warned of %s, said %q", said, heard())
	}
	// A date in years, as the example for a year has it, is 33 minutes after the beginning of 1970.
	w.exec(steward, `SELECT dp_set_scales($1, '{"model_year": {"center": 2015, "scale": 10}, "seen": {"center": 2015, "scale": 10}, "income": 50000}')`, table)
	if said := heard(); !strings.Contains(said[len(said)-1], "the center of seen is within a day of 1970") {
		t.Errorf("said %q", said)
	}
}

// Fits of a table none of whose columns has a scale find them, whatever the sizes of the columns are, where rows are
// pulled and where they stay in the database. A huber_delta is told in the table's units. Scores find them as well. At a tenth
// of the eps of the fits, of 600 of each model, no coefficient was off by more than .9 %.
func TestFitsOfATableWithoutScales(t *testing.T) {
	w := newWorld(t, 1000, 1e-5)
	table := w.dataset + "_sizes"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT 4e4 * (1 + 2 * a - b + (i %% 2) + 0.3 * (random() + random() - 1)) AS y, 3e6 * a AS large, 2e-4 * b AS small, i %% 2 AS half
		FROM (SELECT i, random() + random() AS a, random() - random() AS b FROM generate_series(1, 20000) AS i) AS rows;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	steward, said := w.listening(one[string](w, w.steward, `SELECT session_user::text`))
	w.exec(steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{large,small,half}', 1000, 1e-5)`, table, "public."+table)
	if all := strings.Join(said(), "\n"); !strings.Contains(all, "the default methods of fits, and scores, look for them") {
		t.Errorf("the steward is told %q", all)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	want := map[string]float64{"(intercept)": 4e4, "large": 8e4 / 3e6, "small": -4e4 / 2e-4, "half": 4e4}
	for _, placement := range []string{"memory", "database"} {
		w.exec(w.steward, `SELECT dp_set_placement($1, $2)`, table, placement)
		for k, model := range []string{"linear", "huber", "l1"} {
			if model == "l1" && placement == "database" {
				continue // takes more from rows than sums
			}
			conn, heard := w.listening(w.person)
			eps := 50 + float64(k)/10 + float64(len(placement))/100
			terms := w.mustRegress(conn, `SELECT * FROM dp_`+model+`_regress($1, $2)`, table, eps)
			for term, value := range want {
				if got := coefficient(terms, term); math.Abs(got/value-1) > 0.1 {
					t.Errorf("%s, %s: %s is %v, not %v", model, placement, term, got, value)
				}
			}
			if told := strings.Join(heard(), "\n"); strings.Contains(told, "scale") || strings.Contains(told, "huber_delta") {
				t.Errorf("%s, %s: %q", model, placement, told)
			}
			if model == "huber" {
				delta := one[float64](w, w.analyst, `SELECT huber_delta FROM dp.releases WHERE dataset = $1 AND eps = $2`, table, eps)
				if told := one[bool](w, w.analyst, `SELECT parameters ? 'huber_delta' FROM dp.releases WHERE dataset = $1 AND eps = $2`, table, eps); told || delta < 1e3 || delta > 4e5 {
					t.Errorf("%s: huber_delta %v, of the plan: %v", placement, delta, told)
				}
			}
		}
	}
	conn, heard := w.listening(w.person)
	w.exec(w.steward, `SELECT dp_set_placement($1, 'auto')`, table)
	release := one[string](w, w.analyst, `SELECT id::text FROM dp.releases WHERE dataset = $1 AND model = 'linear' LIMIT 1`, table)
	exact := map[string]float64{"r2": 0.986, "mean_absolute_error": 4000, "root_mean_squared_error": 4900} // residuals are 12,000 times the sum of two uniform numbers, less 1
	for _, m := range w.mustScore(conn, askScore, release, 100) {
		if m.Value == nil || m.Low == nil || math.Abs(*m.Value/exact[m.Metric]-1) > 0.05 {
			t.Errorf("%s is %v, from %v to %v", m.Metric, m.Value, m.Low, m.High)
		}
	}
	if told := strings.Join(heard(), "\n"); strings.Contains(told, "scale") {
		t.Errorf("of a score: %q", told)
	}
	w.exec(conn, `SELECT * FROM dp_linear_regress($1, 5, options => '{"radius": 10}')`, table)
	if told := strings.Join(heard(), "\n"); !strings.Contains(told, "this request looks for none: all are 1.") {
		t.Errorf("with a radius: %q", told)
	}
}
