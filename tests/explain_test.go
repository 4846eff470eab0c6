package tests

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// explain returns what dp_explain says; warnings stand under "warning", one a line.
func (w *world) explain(conn *pgx.Conn, sql string, args ...any) map[string]string {
	w.Helper()
	rows, _ := conn.Query(context.Background(), sql, args...)
	said := map[string]string{}
	var property, value string
	if _, err := pgx.ForEachRow(rows, []any{&property, &value}, func() error {
		said[property] = strings.TrimSpace(said[property] + "\n" + value)
		return nil
	}); err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
	return said
}

// simple registers a view with one feature and no scales, and grants it.
func (w *world) simple(name string) string {
	w.Helper()
	w.exec(w.super, `CREATE VIEW public.`+name+` AS SELECT amount, age, insured FROM public.`+w.dataset)
	w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 50, 1e-5)`, name, "public."+name)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	return name
}

func TestExplainForetellsTheChargeAndSpendsNothing(t *testing.T) {
	w := newWorld(t, 8, 1e-5)
	for _, c := range []struct{ explain, call, passes string }{
		{`SELECT * FROM dp_explain('l1', '%s', 0.5, features => '{age}')`, `SELECT * FROM dp_l1_regress('%s', 0.5, features => '{age}')`, ""},
		{`SELECT * FROM dp_explain('l1', '%s', 0.5, options => '{"method": "objective_perturbation"}')`, `SELECT * FROM dp_l1_regress('%s', 0.5, options => '{"method": "objective_perturbation"}')`, ""},
		{`SELECT * FROM dp_explain('linear', '%s', 1, 1e-6, features => '{age}')`, `SELECT * FROM dp_linear_regress('%s', 1, 1e-6, features => '{age}')`, "6"},
		{`SELECT * FROM dp_explain('linear', '%s', 1, options => '{"method": "gd", "steps": 7}')`, `SELECT * FROM dp_linear_regress('%s', 1, method => 'gd', options => '{"steps": 7}')`, "7"},
		{`SELECT * FROM dp_explain('huber', '%s', 0.5, 1e-7, intercept => false)`, `SELECT * FROM dp_huber_regress('%s', 0.5, 1e-7, intercept => false)`, "100"},
		{`SELECT * FROM dp_explain('logistic', '%s', 1, target => 'insured', features => '{age}')`, `SELECT * FROM dp_logistic_regress('%s', 1, target => 'insured', features => '{age}')`, "6"},
	} {
		explain, call := fmt.Sprintf(c.explain, w.dataset), fmt.Sprintf(c.call, w.dataset)
		before := w.entries()
		said := w.explain(w.analyst, explain)
		if w.entries() != before {
			t.Errorf("%s wrote to the ledger", explain)
		}
		for _, property := range []string{"method", "why", "rows", "coefficients", "event", "cost_epsilon", "cost_delta", "cost_rho", "epsilon_remaining", "expected_error", "noise_at_scales:age", "rows_for_10_percent"} {
			if said[property] == "" {
				t.Errorf("%s does not say %s: %v", explain, property, said)
			}
		}
		if strings.Contains(said["noise_at_scales"], "1/(4q(1-q))") != (said["model"] == "logistic") {
			t.Errorf("%s: what rare labels cost: %s", explain, said["noise_at_scales"])
		}
		if strings.Contains(said["noise_at_scales"], "times 1/(q(1-q))") != (said["method"] == "objective_perturbation") {
			t.Errorf("%s: what rare flags cost: %s", explain, said["noise_at_scales"])
		}
		if said["possible"] != "yes" || said["affordable"] != "yes" || said["rows"] != "1000" || said["passes"] != c.passes {
			t.Errorf("%s: %v", explain, said)
		}
		w.mustRegress(w.analyst, call)
		event := one[string](w, w.steward, `SELECT event::text FROM dp.ledger WHERE dataset = $1 AND kind = 'charge' ORDER BY id DESC LIMIT 1`, w.dataset)
		if same := one[bool](w, w.super, `SELECT $1::jsonb = $2::jsonb`, event, said["event"]); !same {
			t.Errorf("%s foretells %s, charged was %s", explain, said["event"], event)
		}
		left := one[float64](w, w.analyst, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, w.dataset)
		if foretold, err := strconv.ParseFloat(said["epsilon_remaining_after"], 64); err != nil || foretold != left {
			t.Errorf("%s foretells %s, left is %v", explain, said["epsilon_remaining_after"], left)
		}
		if again := w.explain(w.analyst, explain); !strings.Contains(again["kept_release"], "at no cost") {
			t.Errorf("%s, asked before: %v", explain, again)
		}
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 0.1, 1e-5)`, w.dataset)
	const kept, fresh = `SELECT * FROM dp_explain('l1', $1, 0.5, features => '{age}')`, `SELECT * FROM dp_explain('l1', $1, 0.5, features => '{age}', options => '{"fresh": true}')`
	if said := w.explain(w.analyst, kept, w.dataset); said["affordable"] != "yes: the answer is kept" {
		t.Errorf("a kept answer needs no budget: %v", said)
	}
	if said := w.explain(w.analyst, fresh, w.dataset); said["kept_release"] != "" || !strings.HasPrefix(said["affordable"], "no: ") {
		t.Errorf("a fresh answer does: %v", said)
	}
}

// A request that is charged and waits for its result is not charged again, and dp_explain says so.
func TestExplainKnowsWhatIsChargedAlready(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.75)
	w.exec(w.super, `ALTER TABLE dp_int.release DISABLE TRIGGER USER`)
	w.exec(w.super, `DELETE FROM dp_int.coefficient c USING dp_int.release r, dp_int.dataset d WHERE c.release = r.id AND d.id = r.dataset AND d.name = $1`, w.dataset)
	w.exec(w.super, `UPDATE dp_int.job j SET state = 'reading', release = NULL, finished_at = NULL, sqlstate = 'DP004', message = 'out of time' FROM dp_int.dataset d WHERE d.id = j.dataset AND d.name = $1`, w.dataset)
	w.exec(w.super, `DELETE FROM dp_int.release r USING dp_int.dataset d WHERE d.id = r.dataset AND d.name = $1`, w.dataset)
	said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.75)`, w.dataset)
	if said["affordable"] != "yes: it is charged already" || !strings.Contains(said["charged_already"], "at no further cost") {
		t.Errorf("%v", said)
	}
	if said = w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.75, options => '{"fresh": true}')`, w.dataset); said["charged_already"] != "" || !strings.HasPrefix(said["affordable"], "no") {
		t.Errorf("fresh: %v", said)
	}
	w.mustRegress(w.analyst, ask, w.dataset, 0.75)
	if spent := w.spent(); spent != 0.75 {
		t.Errorf("spent %g", spent)
	}
}

func TestExplainSaysWhyNot(t *testing.T) {
	w := newWorld(t, 8, 1e-5)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 1.5)`, w.dataset, w.person)
	for _, c := range []struct{ sql, property, says string }{
		{`SELECT * FROM dp_explain('l1', '%s', 2)`, "affordable", "your own limit"},
		{`SELECT * FROM dp_explain('l1', '%s', 20)`, "affordable", "the data set"},
		{`SELECT * FROM dp_explain('l1', '%s', 20)`, "warning", "promises little"},
		{`SELECT * FROM dp_explain('l1', '%s', 0.1)`, "my_epsilon_remaining_after", "1."},
		{`SELECT * FROM dp_explain('l1', '%s', 0.3, options => '{"method": "exponential_mechanism", "radius": 1e9, "pitch": 1e-9}')`, "reason", "pitch"},
		{`SELECT * FROM dp_explain('l1', '%s', 0.3, options => '{"method": "exponential_mechanism", "radius": 1e9, "pitch": 1e-9}')`, "sqlstate", "DP005"},
		{`SELECT * FROM dp_explain('linear', '%s', 0.01)`, "warning", "too few rows"},
		{`SELECT * FROM dp_explain('linear', '%s', 1, options => '{"sample_rows": 20}')`, "warning", "too few rows"},
		{`SELECT * FROM dp_explain('linear', '%s', 0.01, features => '{region}', options => '{"weight": "age", "max_weight": 70}')`, "warning", "or most weights are far below max_weight"},
		{`SELECT * FROM dp_explain('l1', '%s', 1.5, features => '{age}', options => '{"tau": 0.9}')`, "warning", "the quantile 0.9 comes out nearer to the median: noise hides the rows beyond it; ask for more eps, or about 1400 rows at eps 1.5"},
		{`SELECT * FROM dp_explain('l1', '%s', 0.5, features => '{age}', options => '{"tau": 0.9}')`, "warning", "the quantile 0.9 may come out beyond nearly all rows where residuals are small beside the scale of amount: a scale as large as they are, with a center, helps, or about 2000 rows at eps 0.5"},
		{`SELECT * FROM dp_explain('l1', '%s', 1.5, features => '{age}', options => '{"tau": 0.1, "weight": "region", "max_weight": 5}')`, "warning", "or about 2300 rows at eps 1.5"},
		{`SELECT * FROM dp_explain('l1', '%s', 2, features => '{age}', options => '{"tau": 0.9, "method": "objective_perturbation"}')`, "warning", "with a center, helps, or the method staged"},
		{`SELECT * FROM dp_explain('l1', '%s', 1, features => '{}')`, "warning", "no feature is asked for: the fit has an intercept alone, and says nothing of what amount depends on"},
		{`SELECT * FROM dp_explain('linear', '%s', 1, options => '{"method": "trimmed"}')`, "expected_error", "no release of these coefficients tells"},
		{`SELECT * FROM dp_explain('linear', '%s', 9, features => '{age}', options => '{"method": "sample_aggregate", "aggregator": "centre"}')`, "rows_for_10_percent", "no number of rows does"},
		{`SELECT * FROM dp_explain('linear', '%s', 1, options => '{"trim": 5}')`, "reason", "another method: trimmed"},
		{`SELECT * FROM dp_explain('linear', '%s', 1, options => '{"trim": 5}')`, "sqlstate", "22023"},
		{`SELECT * FROM dp_explain('linear', '%s', 0.3)`, "expected_duration", "under 0.1s"},
	} {
		if said := w.explain(w.analyst, fmt.Sprintf(c.sql, w.dataset)); !strings.Contains(said[c.property], c.says) {
			t.Errorf("%s: %s says %q, want %q: %v", c.sql, c.property, said[c.property], c.says, said)
		}
	}
	loose := newWorld(t, 8, 0.01)
	if said := loose.explain(loose.analyst, `SELECT * FROM dp_explain('linear', $1, 0.3, 0.01)`, loose.dataset); !strings.Contains(said["warning"], "delta is above one") {
		t.Errorf("delta 0.01 of 1000 rows, and yet: %v", said)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.3)`, w.dataset); strings.Contains(said["warning"], "every scale") {
		t.Errorf("scales are registered, and yet: %v", said)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('logistic', $1, 0.3, target => 'insured', features => '{age}')`, w.dataset); strings.Contains(said["warning"], "label") {
		t.Errorf("a label with scale 1, and yet: %v", said)
	}
	for _, options := range []string{`{"tau": 0.9}`, `{"tau": 0.5, "method": "objective_perturbation"}`} {
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 1.2, features => '{age}', options => $2)`, w.dataset, options); strings.Contains(said["warning"], "beyond nearly all rows") {
			t.Errorf("%s: the fit looks how far the quantile is, and yet: %v", options, said)
		}
	}
	bare := w.simple("bare_" + w.dataset)
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.3)`, bare); !strings.Contains(said["warning"], "no scale is registered") || said["rows"] != "1000" {
		t.Errorf("no scale is registered: %v", said)
	}
	for property, value := range w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 1)`, bare) {
		known := strings.HasPrefix(property, "noise_at_scales:") || property == "rows_for_10_percent" || property == "way_left"
		if known || property == "noise_at_scales" && !strings.HasPrefix(value, "not known") || strings.Contains(value, "a tenth of the scale") {
			t.Errorf("no scale is registered, and yet: %s %s", property, value)
		}
	}
	for _, options := range []string{`{"penalty": "l2", "lambda": 0.1}`, `{"radius": 5}`, `{"method": "gd"}`} {
		said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 1, options => $2)`, bare, options)
		if !strings.Contains(said["noise_at_scales"], "columns without a registered scale count as 1 here") || said["noise_at_scales:age"] == "" || !strings.Contains(said["warning"], "looks for none: all are 1") {
			t.Errorf("%s: nothing is looked for, and yet: %v", options, said)
		}
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 3)`, bare); strings.Contains(said["warning"], "no scale is registered") {
		t.Errorf("a fit finds scales, and yet: %v", said)
	}
	flags := "flags_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+flags+` AS SELECT i % 2 = 0 AS yes, i % 3 = 0 AS insured, 'north' AS region FROM generate_series(1, 1000) AS i`)
	w.exec(w.super, `GRANT SELECT ON public.`+flags+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'yes', '{insured,region}', 10, 1e-6, categories => '{"region": ["north", "south"]}')`, flags, "public."+flags)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, flags, w.person)
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('logistic', $1, 3)`, flags); strings.Contains(said["warning"], "no scale") || said["noise_at_scales:insured"] == "" || said["noise_at_scales:region=south"] == "" {
		t.Errorf("flags and categories want no scales, and yet: %v", said)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('poisson', $1, 3)`, flags); said["possible"] != "yes" || strings.Contains(said["warning"], "no scale") {
		t.Errorf("nor do counts of flags and categories alone, and yet: %v", said)
	}
	for _, c := range []struct{ sql, code, says string }{
		{`SELECT * FROM dp_explain('l1', 'nothing', 1)`, "42501", "does not exist"},
		{`SELECT * FROM dp_explain('l2', '%s', 1)`, "22023", "unknown model"},
		{`SELECT * FROM dp_explain('l1', '%s', -1)`, "22023", "positive"},
		{`SELECT * FROM dp_explain('l1', '%s', 1, options => '{"colour": 1}')`, "22023", "unknown option"},
	} {
		_, err := w.analyst.Exec(context.Background(), strings.ReplaceAll(c.sql, "%s", w.dataset))
		w.wantError(err, c.code, c.says)
	}
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
}

// The default method says what it takes, which depends on rows, budget and coefficients.
func TestExplainSaysWhatAutoTakes(t *testing.T) {
	w := newWorld(t, 200, 1e-5)
	for _, c := range []struct{ request, method string }{
		{`'linear', $1, 20, features => '{age}'`, "auto (joint_moments)"},
		{`'linear', $1, 0.1`, "auto (centred descent)"},
		{`'linear', $1, 0.1, features => '{age}'`, "auto (gd)"},
		{`'huber', $1, 20, features => '{age}'`, "auto (newton)"},
		{`'logistic', $1, 20, target => 'insured', features => '{age}'`, "auto (newton)"},
		{`'logistic', $1, 0.1, target => 'insured'`, "auto (accmd)"},
		{`'huber', $1, 1, options => '{"whitening": "on"}'`, "auto (whitened descent)"},
		{`'linear', $1, 1, options => '{"method": "gd"}'`, "gd"},
	} {
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain(`+c.request+`)`, w.dataset); said["method"] != c.method {
			t.Errorf("%s: method %q, want %q: %v", c.request, said["method"], c.method, said)
		}
	}
}

// What a release tells of its noise forecasts that of the same coefficients at a similar
// budget, in proportion. It does so for no other budget, features, model or method.
func TestExplainForecastsFromARelease(t *testing.T) {
	w := newWorld(t, 200, 1e-5)
	const call = `SELECT * FROM dp_linear_regress($1, 50, method => 'joint_moments', features => '{age}')`
	w.mustRegress(w.analyst, call, w.dataset)
	noise := one[float64](w, w.super, `SELECT noise FROM dp_int.coefficient c JOIN dp_int.release r ON r.id = c.release JOIN dp_int.dataset d ON d.id = r.dataset WHERE d.name = $1 AND term = 'age'`, w.dataset)
	said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 40, features => '{age}', options => '{"method": "joint_moments"}')`, w.dataset)
	if expected, err := strconv.ParseFloat(said["expected_error:age"], 64); err != nil || !(expected/noise > 1.15 && expected/noise < 1.3) || !strings.Contains(said["expected_error"], "at eps 50") {
		t.Errorf("noise %v, and %v", noise, said)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 48, features => '{age}')`, w.dataset); said["expected_error:age"] == "" || !strings.Contains(said["expected_error"], "where the fit finds the scales and centers") {
		t.Errorf("auto takes joint_moments, and age has no center: %v", said)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, method => 'gd', features => '{age,region}')`, w.dataset)
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 20, features => '{age,region}')`, w.dataset); !strings.Contains(said["expected_error"], "the method at this budget is joint_moments, and release") {
		t.Errorf("a release of gd, and auto takes joint_moments: %v", said)
	}
	for _, other := range []string{
		`SELECT * FROM dp_explain('linear', $1, 20, features => '{age}', options => '{"method": "joint_moments"}')`,
		`SELECT * FROM dp_explain('linear', $1, 40, options => '{"method": "joint_moments"}')`,
		`SELECT * FROM dp_explain('linear', $1, 40, features => '{age}', options => '{"method": "gd"}')`,
		`SELECT * FROM dp_explain('huber', $1, 40, features => '{age}')`,
		`SELECT * FROM dp_explain('linear', $1, 40, features => '{age}', options => '{"method": "joint_moments", "penalty": "l2", "lambda": 0.1}')`,
		`SELECT * FROM dp_explain('linear', $1, 40, features => '{age}', intercept => false, options => '{"method": "joint_moments"}')`,
	} {
		if said := w.explain(w.analyst, other, w.dataset); said["expected_error:age"] != "" || !strings.HasPrefix(said["expected_error"], "not known") {
			t.Errorf("%s: %v", other, said)
		}
	}
}

// Where few rows with a flag have one of the labels, noise moves its coefficient too far to be forecast, and dp_explain says
// so beside the figures of the others. Seven of ten such releases tell of the others and not of the flag: all of 20 fail to in
// one run of 10^10.
func TestExplainSaysWhichCoefficientItCannotForecast(t *testing.T) {
	w := newWorld(t, 1, 1e-5)
	table := w.dataset + "_rare"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS
		SELECT random() AS x, i %% 50 = 0 AS vip, CASE WHEN i %% 50 = 0 THEN i %% 1000 = 0 ELSE i %% 49 = 3 END AS left_us FROM generate_series(1, 20000) AS i;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'left_us', '{x,vip}', 1000, 1e-5, '{"x": 1}')`, table, "public."+table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	var said map[string]string
	for range 20 {
		w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 1, options => '{"fresh": true}')`, table)
		said = w.explain(w.analyst, `SELECT * FROM dp_explain('logistic', $1, 0.9)`, table)
		if x, err := strconv.ParseFloat(said["expected_error:x"], 64); err == nil && x > 0 && strings.HasPrefix(said["expected_error:vip"], "not known: noise or the last step") {
			return
		}
	}
	t.Errorf("%v", said)
}

// Of another Huber loss a release tells nothing: its noise is another.
func TestExplainForecastsOfTheSameLossAlone(t *testing.T) {
	w := newWorld(t, 40, 1e-5)
	w.mustRegress(w.analyst, `SELECT * FROM dp_huber_regress($1, 12.5, features => '{age}')`, w.dataset)
	for options, from := range map[string]string{`{"residual_scale": 2}`: "release ", `{"huber_delta": 0.1}`: "no release of these coefficients"} {
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain('huber', $1, 10, features => '{age}', options => $2)`, w.dataset, options); !strings.Contains(said["expected_error"], from) {
			t.Errorf("%s: %v", options, said)
		}
	}
}

// A steward may ask about every data set, but spends on none that is not granted to him; an
// analyst may do neither without a grant.
func TestStewardsMayExplain(t *testing.T) {
	w := newWorld(t, 8, 1e-5)
	const explain = `SELECT * FROM dp_explain('linear', $1, 1)`
	if said := w.explain(w.steward, explain, w.dataset); said["possible"] != "yes" || said["affordable"] != "yes" {
		t.Errorf("%v", said)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	const explainScore, score = `SELECT e.* FROM dp.releases r, dp_explain_score(r.id, 1) e WHERE r.dataset = $1`, `SELECT s.* FROM dp.releases r, dp_score(r.id, 1) s WHERE r.dataset = $1`
	if said := w.explain(w.steward, explainScore, w.dataset); said["model"] != "score" || said["affordable"] != "yes" {
		t.Errorf("%v", said)
	}
	for _, sql := range []string{`SELECT dp_submit('linear', $1, 1)`, score} {
		_, err := w.steward.Exec(context.Background(), sql, w.dataset)
		w.wantError(err, "42501", "permission denied")
	}
	for name, asks := range map[string]bool{w.person + "b": false, w.person + "c": true} {
		other := w.newAnalyst(name)
		w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, name)
		if asks {
			w.exec(w.super, `GRANT dp_admin TO `+name)
			w.explain(other, explain, w.dataset)
			w.explain(other, explainScore, w.dataset)
			_, err := other.Exec(context.Background(), score, w.dataset)
			w.wantError(err, "22023", "you may score")
		} else {
			_, err := other.Exec(context.Background(), explain, w.dataset)
			w.wantError(err, "42501", "not granted")
		}
		_, err := other.Exec(context.Background(), `SELECT dp_submit('linear', $1, 1)`, w.dataset)
		w.wantError(err, "42501", "not granted")
	}
}

func TestExplainWithoutASidecar(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	start := time.Now()
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_explain('l1', $1, 1)`, w.dataset)
	w.wantError(err, "DP001", "dpsidecar serve")
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("failed after %v", took)
	}
	// A question for which nobody can be waiting any more is not taken up: what no sidecar can
	// answer would come back for ever.
	for age, taken := range map[string]bool{"30 s": true, "70 s": false} {
		w.exec(w.super, `INSERT INTO dp_int.inquiry (id, asked_at, caller, dataset, request, hash)
			SELECT gen_random_uuid(), clock_timestamp() - $1::text::interval, 'somebody', id, '{"model": "l1", "eps": 1, "target": "amount", "features": ["age"], "intercept": true, "options": {}}', '' FROM dp_int.dataset`, age)
		if got := one[bool](w, w.super, `SELECT dp_int.inquiry_take() IS NOT NULL`); got != taken {
			t.Errorf("asked %s ago: taken %v", age, got)
		}
	}
}

// Questions for which rows are counted keep no other waiting, and are answered in time.
func TestALongCountKeepsNoQuestionWaiting(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.serve()
	w.slowToCount(300)
	answers := make(chan string, 4)
	for range cap(answers) {
		conn := w.connect(w.system.URL(w.person))
		go func() {
			var said string
			if err := conn.QueryRow(context.Background(), `SELECT string_agg(value, '; ') FROM dp_explain('l1', 'sleeper', 1)`).Scan(&said); err != nil {
				said = err.Error()
			}
			answers <- said
		}()
	}
	w.eventually("rows are counted for two questions and for the registration", func() bool {
		return one[int](w, w.super, `SELECT count(*) FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND wait_event = 'PgSleep'`) == 3
	})
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 1)`, w.dataset); said["possible"] != "yes" {
		t.Errorf("%v", said)
	}
	if len(answers) > cap(answers)-2 {
		t.Error("the others are answered first")
	}
	for range cap(answers) {
		if said := <-answers; !strings.Contains(said, "not counted yet") {
			t.Error(said)
		}
	}
}

// Whoever else may ask about the data set does not see the answer to a question.
func TestAnswersBelongToWhoAsked(t *testing.T) {
	w := newWorld(t, 1, 0)
	loop := w.loopback()
	id := one[string](w, w.super, `SELECT gen_random_uuid()::text`)
	w.exec(loop, `SELECT dp_int.ask($1, $2, 'l1', $3, 0.5, NULL, NULL, NULL, true, '{}', $4)`, id, w.person, w.dataset, one[string](w, w.super, `SELECT dp_int.here()::text`))
	w.eventually("the answer is there", func() bool {
		return one[bool](w, w.super, `SELECT answer IS NOT NULL FROM dp_int.inquiry WHERE id = $1`, id)
	})
	w.newAnalyst(w.person + "b")
	if n := one[int64](w, loop, `SELECT count(*) FROM dp_int.answered($1, $2)`, w.person+"b", id); n != 0 {
		t.Errorf("somebody else reads %d rows", n)
	}
	if n := one[int64](w, loop, `SELECT count(*) FROM dp_int.answered($1, $2)`, w.person, id); n == 0 {
		t.Error("the caller reads nothing")
	}
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.inquiry WHERE id = $1`, id); n != 0 {
		t.Error("a fetched answer is kept")
	}
}

// mustRun executes a statement and returns how many rows it has.
func (w *world) mustRun(conn *pgx.Conn, sql string) int64 {
	w.Helper()
	tag, err := conn.Exec(context.Background(), sql)
	if err != nil {
		w.Errorf("%s: %v: %s", sql, err, hint(err))
	}
	return tag.RowsAffected()
}

// The examples of fits run as they are printed on whatever a person may ask about: they take
// a data set with a delta and a target whose labels are known, and where there is none they
// ask, which spends nothing.
func TestHelpExamplesOfFits(t *testing.T) {
	w := newWorld(t, 50, 0)
	example := func(model string) string {
		w.Helper()
		text := one[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name = $1`, "dp_"+model+"_regress")
		w.mustRun(w.analyst, text)
		return text
	}
	for _, c := range []struct{ prepare, linear, logistic string }{
		{`SELECT dp_grant($1, $2)`,
			`SELECT * FROM dp_explain('linear', '%s', 1.0)`, `SELECT * FROM dp_explain('logistic', '%s', 1.0, target => 'insured')`},
		{`SELECT dp_revoke($1, $2); SELECT dp_register('z_' || $1, 'public.bare_' || $1, 'amount', '{age,region}', 50, 1e-5); SELECT dp_grant('z_' || $1, $2)`,
			`SELECT * FROM dp_linear_regress('z_%s', 1.0)`, `SELECT * FROM dp_explain('logistic', 'z_%s', 1.0, options => '{"positive_label": 1, "negative_label": 0}')`},
		{`SELECT dp_grant($1, $2)`,
			`SELECT * FROM dp_linear_regress('z_%s', 1.0)`, `SELECT * FROM dp_explain('logistic', '%s', 1.0, target => 'insured')`},
		{`SELECT dp_set_labels('z_' || $1, '{"region": [1, 2]}')`,
			`SELECT * FROM dp_linear_regress('z_%s', 1.0)`, `SELECT * FROM dp_logistic_regress('z_%s', 1.0, target => 'region')`},
	} {
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS public.bare_%[1]s AS SELECT amount, age, region FROM public.%[1]s; GRANT SELECT ON public.bare_%[1]s TO dp_sidecar`, w.dataset))
		for _, sql := range splitStatements(c.prepare) {
			w.exec(w.steward, strings.NewReplacer("$1", "'"+w.dataset+"'", "$2", "'"+w.person+"'", "'public.bare_' || $1", "'public.bare_"+w.dataset+"'").Replace(sql))
		}
		for model, want := range map[string]string{"linear": c.linear, "logistic": c.logistic} {
			if text := example(model); text != strings.ReplaceAll(want, "%s", w.dataset) {
				t.Errorf("%s: %s", model, text)
			}
		}
	}
}

// The examples of predictions name their features, those of the latest fit, and give each a value that it may have.
func TestHelpPredictsByName(t *testing.T) {
	w := newWorld(t, 50, 1e-5)
	name := "a_" + w.dataset // it comes first
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT 30 + age AS paid, age, year, (ARRAY['north', 'it''s south'])[1 + i %% 2] AS region, random() < 0.5 AS member, i AS "it's" FROM (SELECT i, 50 * random() AS age, 2000 + i %% 20 AS year FROM generate_series(1, 2000) AS i) AS rows;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, name))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'paid', '{age,year,region,member,it''s}', 50, 1e-5, scales => '{"paid": 50, "age": 40, "year": {"center": 2010, "scale": 10}}', categories => '{"region": ["it''s south", "north"]}')`, name, "public."+name)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	for _, c := range []struct{ fit, want string }{
		{``, `{"age": 40, "year": 2010, "region": "it''s south", "member": true, "it''s": 1}`},
		{`SELECT dp_l1_regress($1, 5, features => '{region,age,member}')`, `{"region": "it''s south", "age": 40, "member": true}`},
		{`SELECT dp_l1_regress($1, 5, features => '{}')`, `{}`},
		{`SELECT dp_l1_regress_by($1, 'member', 5, features => '{age}')`, `{}`},
	} {
		if c.fit != "" {
			w.exec(w.analyst, c.fit, name)
		}
		for _, example := range all[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name LIKE 'dp_predict%'`) {
			if n := w.mustRun(w.analyst, example); !strings.Contains(example, "(r.id, '"+c.want+"')") || (n == 1) != (c.fit != "") {
				t.Errorf("%d rows of %s, want %s", n, example, c.want)
			}
		}
	}
	if by := one[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name = 'dp_l1_regress_by'`); !strings.Contains(by, "'region'") {
		t.Error(by)
	}
	w.exec(w.steward, `SELECT dp_unregister($1), dp_register($1 || '_b', $2::text::regclass, 'paid', '{age,member}', 50, 1e-5, options => jsonb_build_object('account', $1))`, name, "public."+name)
	w.exec(w.steward, `SELECT dp_grant($1 || '_b', $2)`, name, w.person)
	if by := one[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name = 'dp_l1_regress_by'`); by != `SELECT * FROM dp_l1_regress_by('`+name+`_b', 'member', 1.0, target => 'paid', features => '{age}')` {
		t.Error(by)
	}
}

// Examples of fits by groups call them wherever they can, and ask where something is missing: a delta, or labels.
func TestHelpExamplesOfFitsByGroups(t *testing.T) {
	w := newWorld(t, 50, 0)
	a := "a_" + w.dataset // it comes first
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT 30 + i AS paid, i AS age, i %% 2 AS region FROM generate_series(1, 500) i; GRANT SELECT ON public.%[1]s TO dp_sidecar`, a))
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	for _, c := range []struct {
		register string
		want     map[string]string
	}{
		{`SELECT dp_register($1, $2::text::regclass, 'paid', '{age}', 50)`, map[string]string{
			"l1":       `SELECT dataset, categories FROM dp.datasets /* dp_l1_regress_by needs a category or a boolean column beside its target */`,
			"logistic": `SELECT dataset, categories FROM dp.datasets /* dp_logistic_regress_by needs a category or a boolean column beside its target */`}},
		{`SELECT dp_register($1, $2::text::regclass, 'paid', '{age}', 50, categories => '{"region": [0, 1]}')`, map[string]string{
			"l1":       `SELECT * FROM dp_l1_regress_by('A', 'region', 1.0, target => 'paid', features => '{age}')`,
			"linear":   `SELECT * FROM dp_explain('linear', 'A', 1.0, target => 'paid', features => '{age}', options => '{"by": "region"}')`,
			"logistic": `SELECT * FROM dp_explain('logistic', 'A', 1.0, target => 'paid', features => '{age}', options => '{"by": "region", "negative_label": 0, "positive_label": 1}')`}},
		{`SELECT dp_register($1, $2::text::regclass, 'paid', '{age}', 50, 1e-5, categories => '{"region": [0, 1]}', labels => '{"age": [1, 2]}')`, map[string]string{
			"linear":   `SELECT * FROM dp_linear_regress_by('A', 'region', 1.0, target => 'paid', features => '{age}')`,
			"logistic": `SELECT * FROM dp_logistic_regress_by('A', 'region', 1.0, target => 'age', features => '{}')`}},
	} {
		w.exec(w.steward, c.register, a, "public."+a)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, a, w.person)
		for model, want := range c.want {
			text := one[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name = $1`, "dp_"+model+"_regress_by")
			if text != strings.ReplaceAll(want, "'A'", "'"+a+"'") {
				t.Errorf("%s: %s", model, text)
			}
			if !strings.Contains(c.register, "1e-5") && model != "l1" { // nothing is charged
				w.mustRun(w.analyst, text)
			}
		}
		if !strings.Contains(c.register, "1e-5") {
			w.exec(w.steward, `SELECT dp_unregister($1)`, a)
			continue
		}
		for model := range c.want {
			w.mustRun(w.analyst, one[string](w, w.analyst, `SELECT example FROM dp_help() WHERE name = $1`, "dp_"+model+"_regress_by"))
		}
	}
}

// Every example of dp_help runs, for the person it is shown to, and all that he
// can call is there.
func TestHelpExamplesRun(t *testing.T) {
	w := newWorld(t, 50, 1e-5)
	w.simple("a_" + w.dataset) // it comes first, and its fits are quick
	for role, conn := range map[string]*pgx.Conn{"dp_analyst": w.analyst, "dp_admin": w.steward} {
		rows, _ := conn.Query(context.Background(), `SELECT name, example FROM dp_help()`)
		help, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Example string }])
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		if role == "dp_admin" {
			w.exec(conn, `BEGIN`) // what one gives the next takes back
		}
		for _, h := range help {
			named[h.Name] = true
			if rows := w.mustRun(conn, h.Example); rows == 0 && strings.HasPrefix(h.Name, "dp_predict") && role == "dp_analyst" {
				t.Errorf("%s: no row", h.Example)
			}
		}
		if role == "dp_admin" {
			w.exec(conn, `ROLLBACK`)
		}
		// What the owner of a table runs, on it, is told where a column must be frozen.
		for _, name := range all[string](w, w.super, `SELECT DISTINCT proname::text FROM pg_proc
			WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'dp\_%' AND proname NOT IN ('dp_freeze', 'dp_refuse_change') AND has_function_privilege($1, oid, 'EXECUTE')`, role) {
			if !named[name] {
				t.Errorf("dp_help does not tell %s of %s", role, name)
			}
		}
		for _, name := range all[string](w, w.super, `SELECT 'dp.' || relname FROM pg_class
			WHERE relnamespace = 'dp'::regnamespace AND relkind = 'v' AND has_table_privilege($1, oid, 'SELECT')`, role) {
			if !named[name] {
				t.Errorf("dp_help does not tell %s of %s", role, name)
			}
		}
	}
}

// The example of dp_register says whom the account protects, and over what time, as the data set does whose people it registers again.
func TestTheExampleOfRegisterProtectsAsBefore(t *testing.T) {
	w := lonelyWorld(t, 1, 0) // dp_help is about the first data set of all
	registered := w.dataset
	w.visited(300)
	if err := w.registerUnit("a_persons", w.dataset, visits+`, unit => 'patient', max_rows => 4, options => '{"new_population": "these are patients"}'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_unregister($1)`, registered)
	for _, name := range []string{"a_persons", w.admissions(1, 1e-5)} {
		w.mustRun(w.steward, one[string](w, w.steward, `SELECT example FROM dp_help() WHERE name = 'dp_register'`))
		if protects := all[string](w, w.steward, `SELECT DISTINCT concat(protects, block_width) FROM dp.datasets WHERE dataset IN ($1, $1 || '_too')`, name); len(protects) != 1 {
			t.Errorf("%s: %q", name, protects)
		}
		if n := one[int](w, w.steward, `SELECT count(*)::int FROM dp.datasets WHERE dataset IN ($1, $1 || '_too')`, name); n != 2 {
			t.Errorf("%s: %d data sets", name, n)
		}
		w.exec(w.steward, `SELECT dp_unregister(dataset) FROM dp.datasets WHERE dataset IN ($1, $1 || '_too')`, name)
	}
}
