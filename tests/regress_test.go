package tests

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// gradientModels are all that have penalties, steps and such.
var gradientModels = slices.DeleteFunc(catalogue.Names(), func(model string) bool { return model == "l1" })

// regressable gives the data set 40,000 rows with a signal and a label.
func (w *world) regressable(accounting string, epsilon, delta float64) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`
		ALTER TABLE %[1]q ADD label int;
		TRUNCATE %[1]q;
		INSERT INTO %[1]q (age, region, insured, amount)
		SELECT 20 + 60 * a, 5 * b, c < 0.5, 1000 * (20 * a - 5 * b + 10 * (c < 0.5)::int + 3 * (d + e - 1))
		  FROM (SELECT random() a, random() b, random() c, random() d, random() e FROM generate_series(1, 40000)) AS r;
		UPDATE %[1]q SET label = (amount > 5000)::int`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured,label}', $3, $4, accounting => $5,
		scales => '{"amount": 10000, "age": 50, "region": 3}', labels => '{"label": [0, 1]}')`, w.dataset, "public."+w.dataset, epsilon, delta, accounting)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
}

// The database has the models and options of the catalogue, with its ranges.
func TestTheDatabaseHasTheCatalogue(t *testing.T) {
	w := newWorld(t, 1, 0)
	type row struct {
		Model, Name, Type string
		Minimum, Maximum  float64
		Choices           []string
	}
	var want []row
	for _, m := range catalogue.Models() {
		for _, o := range m.Options {
			want = append(want, row{m.Name, o.Name, string(o.Kind), o.Minimum, o.Maximum, o.Choices})
		}
	}
	rows, _ := w.super.Query(context.Background(), `SELECT model, name, type, minimum, maximum, choices FROM dp_int.option`)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	by := func(a, b row) int { return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Name, b.Name)) }
	slices.SortFunc(want, by)
	slices.SortFunc(got, by)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the database has %v, the catalogue %v", got, want)
	}
}

// An option typed at its default is dropped from the request, so the plan must
// not depend on whether it is typed.
func TestDefaultsAgree(t *testing.T) {
	w := newWorld(t, 1, 0)
	features := []string{"a", "b"}
	rows, _ := w.super.Query(context.Background(), `SELECT model, name, "default" FROM dp_int.option WHERE "default" IS NOT NULL`)
	defer rows.Close()
	tried := 0
	for rows.Next() {
		var model, name string
		var value any
		if err := rows.Scan(&model, &name, &value); err != nil {
			t.Fatal(err)
		}
		if name == "pool" { // of fits by groups alone, refused beside others
			continue
		}
		base := map[string]any{}
		if name == "l1_ratio" {
			base = map[string]any{"penalty": "elastic_net", "lambda": 0.5}
		}
		if name == "aggregator" {
			base = map[string]any{"method": "sample_aggregate"}
		}
		typed := map[string]any{name: value}
		for k, v := range base {
			typed[k] = v
		}
		if got, want := planned(t, model, typed, features), planned(t, model, base, features); got != want {
			t.Errorf("%s, %s = %v: planned %s, by default %s", model, name, value, got, want)
		}
		tried++
	}
	if rows.Err() != nil || tried < 15 {
		t.Errorf("%v; %d defaults", rows.Err(), tried)
	}
}

// planned is what a request releases and with which parameters.
func planned(t *testing.T, model string, options map[string]any, features []string) string {
	algorithm, err := dpsco.Recipe(model, options, features)
	if err != nil {
		t.Fatalf("%s %v: %v", model, options, err)
	}
	budget, accountant := budgetOf(model)
	p, err := algorithm.Plan(table.Shape{N: 10_000, D: 3, Intercept: true}, budget, accountant)
	if err != nil {
		t.Fatalf("%s %v: %v", model, options, err)
	}
	text, _ := json.Marshal([]any{p.Event, p.Parameters})
	return string(text)
}

func budgetOf(model string) (privacy.Budget, privacy.Accountant) {
	if model == "l1" {
		return privacy.Budget{Epsilon: 1}, privacy.PureSum{}
	}
	return privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{}
}

// Every method of every model answers, says how, and costs at most what was asked.
func TestEveryMethodAnswersFromSQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 5000, 1e-3)
	for _, model := range gradientModels {
		target := "amount"
		if catalogue.Classifies(model) {
			target = "label"
		}
		m, _ := catalogue.Find(model)
		for _, o := range m.Options {
			if o.Name != "method" {
				continue
			}
			for _, method := range o.Choices {
				eps := 8.0
				w.mustRegress(w.analyst, fmt.Sprintf(`SELECT * FROM dp_%s_regress($1, $2, target => $3, features => '{age,region,insured}', method => $4,
					options => '{"fresh": true}')`, model), w.dataset, eps, target, method)
				var kind string
				var parameters map[string]any
				if err := w.analyst.QueryRow(context.Background(), `SELECT method, parameters FROM dp.releases WHERE id = dp_last_release($1)`, w.dataset).
					Scan(&kind, &parameters); err != nil {
					t.Fatal(err)
				}
				if kind != method || parameters["rows"] != 40000. || parameters["why"] == "" || parameters["noise_multiplier"] == nil {
					t.Errorf("%s by %s: released by %s with %v", model, method, kind, parameters)
				}
			}
		}
	}
	if ok := one[bool](w, w.steward, `SELECT bool_and(ok) FROM dp_verify()`); !ok {
		t.Error("the ledger does not verify")
	}
}

// Least squares of a known signal, in the table's own units.
func TestCoefficientsComeInTheTablesUnits(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	for _, penalty := range []string{"", `, penalty => 'l2', lambda => 1e-6`, `, penalty => 'l1', lambda => 1e-6`,
		`, penalty => 'elastic_net', lambda => 1e-6`, `, penalty => 'group_l1', lambda => 1e-6, options => '{"groups": [["age"], ["region", "insured"]]}'`} {
		got := w.mustRegress(w.analyst, fmt.Sprintf(`SELECT * FROM dp_linear_regress($1, 20, features => '{age,region,insured}'%s)`, penalty), w.dataset)
		want := []float64{-1000 * 20. / 3, 1000. / 3, -1000, 10000}
		for j, tolerance := range []float64{600, 12, 120, 400} {
			if math.Abs(got[j].Coef-want[j]) > tolerance {
				t.Errorf("%s: %s is %v, want %v", penalty, got[j].Term, got[j].Coef, want[j])
			}
		}
	}
	got := w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 20, target => 'label', features => '{age,region,insured}')`, w.dataset)
	if got[1].Coef <= 0 || got[2].Coef >= 0 || got[3].Coef <= 0 {
		t.Errorf("log-odds %v", got)
	}
	flipped := w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 20, target => 'label', features => '{age,region,insured}',
		options => '{"positive_label": 0, "negative_label": 1}')`, w.dataset)
	if math.Abs(flipped[3].Coef+got[3].Coef) > 0.2*math.Abs(got[3].Coef) {
		t.Errorf("log-odds of 0 are %v, of 1 %v", flipped, got)
	}
}

// The synchronous call, its defaults typed out, and the submitted job are one request.
func TestOneMeaningIsOneRequest(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 10, 1e-5)
	for _, ask := range []string{
		`dp_linear_regress($1, 1)`,
		`dp_linear_regress($1, 1, 1e-6, 'amount', '{age,region,insured,label}', true, 'none', 0, 'auto', '{}')`,
		`dp_linear_regress($1, 1, options => '{"method": "auto", "lambda": 0, "whitening": "auto"}')`,
	} {
		w.mustRegress(w.analyst, `SELECT * FROM `+ask, w.dataset)
	}
	w.mustSubmit(`dp_submit('linear', $1, 1)`)
	w.mustSubmit(`dp_submit('linear', $1, 1, 1e-6, options => '{"method": "auto", "penalty": "none"}')`)
	if n := w.entries(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, method => 'gd', penalty => 'l1', lambda => 0.5)`, w.dataset)
	w.mustSubmit(`dp_submit('linear', $1, 1, options => '{"lambda": 0.5, "penalty": "l1", "method": "gd"}')`)
	if n := w.entries(); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}

// mustSubmit waits for the end of a job, which must be a result.
func (w *world) mustSubmit(call string) {
	w.Helper()
	job := one[string](w, w.analyst, `SELECT `+call+`::text`, w.dataset)
	w.eventually("the job is done", func() bool {
		return one[string](w, w.analyst, `SELECT status FROM dp_status($1::text::uuid)`, job) == "done"
	})
	w.mustRegress(w.analyst, `SELECT * FROM dp_result($1::text::uuid)`, job)
}

func TestBadRegressionsAreExplained(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 10, 1e-5)
	for _, c := range []struct{ call, code, says string }{
		{`dp_linear_regress('%s', 1, 0)`, "22023", "delta must be above 0"},
		{`dp_linear_regress('%s', 1, 1)`, "22023", "delta must be above 0"},
		{`dp_linear_regress('%s', 1, 'NaN')`, "22023", "delta must be above 0"},
		{`dp_linear_regress('%s', 1, method => 'magic')`, "22023", "one of auto, joint_moments"},
		{`dp_linear_regress('%s', 1, method => NULL)`, "22023", `"method"`},
		{`dp_linear_regress('%s', 1, penalty => 'l1')`, "22023", "needs a lambda"},
		{`dp_linear_regress('%s', 1, lambda => 0.1)`, "22023", "there is no penalty"},
		{`dp_linear_regress('%s', 1, penalty => 'l1', lambda => -1)`, "22023", `"lambda"`},
		{`dp_linear_regress('%s', 1, penalty => 'l1', lambda => 'NaN')`, "22023", `"lambda"`},
		{`dp_linear_regress('%s', 1, penalty => 'group_l1', lambda => 1)`, "22023", "groups"},
		{`dp_linear_regress('%s', 1, penalty => 'l1', lambda => 1, options => '{"groups": [["age"]]}')`, "22023", "groups"},
		{`dp_linear_regress('%s', 1, penalty => 'group_l1', lambda => 1, options => '{"groups": [["age"], ["age"]]}')`, "22023", "every name once"},
		{`dp_linear_regress('%s', 1, penalty => 'group_l1', lambda => 1, options => '{"groups": [["agee"]]}')`, "42703", `"agee"`},
		{`dp_linear_regress('%s', 1, penalty => 'group_l1', lambda => 1, options => '{"groups": "age"}')`, "22023", "list of lists"},
		{`dp_linear_regress('%s', 1, penalty => 'group_l1', lambda => 1, options => '{"groups": [[1]]}')`, "42703", `"1"`},
		{`dp_linear_regress('%s', 1, method => 'gd', options => '{"method": "catoni"}')`, "22023", "given twice"},
		{`dp_linear_regress('%s', 1, options => '{"steps": 2.5}')`, "22023", "whole number"},
		{`dp_linear_regress('%s', 1, options => '{"steps": 0}')`, "22023", "whole number"},
		{`dp_linear_regress('%s', 1, options => '{"positive_label": 1}')`, "22023", "unknown option"},
		{`dp_logistic_regress('%s', 1, target => 'label', features => '{age}', options => '{"positive_label": 3, "negative_label": 3}')`, "22023", "both labels"},
		{`dp_linear_regress('%s', 1, options => '{"batch": 1000000}', method => 'spgd_kamath', features => '{age}')`, "", ""},
		{`dp_linear_regress('%s', 1, options => '{"trim": 5}')`, "22023", `option "trim" does nothing with method "auto"`},
		{`dp_linear_regress('%s', 1, options => '{"l1_ratio": 0.2}')`, "22023", "choose another penalty: elastic_net"},
		{`dp_linear_regress('%s', 1, options => '{"l1_ratio": 0.5, "whitening": "auto"}')`, "", ""}, // what leaving them out means
		{`dp_linear_regress('%s', 0.001, method => 'sample_aggregate')`, "DP005", "eps"},
		{`dp_linear_regress('%s', 8, method => 'sample_aggregate', options => '{"aggregator": "centre", "blocks": 99999}')`, "DP005", "blocks is 99999"},
		{`dp_linear_regress('%s', 8, 1e-10, method => 'sample_aggregate', options => '{"aggregator": "centre"}')`, "DP005", "delta of at least 1e-09"},
		{`dp_submit('linear', '%s', 1, 0)`, "22023", "delta must be above 0"},
	} {
		before := w.entries()
		_, err := w.analyst.Exec(context.Background(), fmt.Sprintf(`SELECT * FROM `+c.call, w.dataset))
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %v", c.call, err)
			}
			continue
		}
		w.wantError(err, c.code, c.says)
		if w.entries() != before || strings.Contains(err.Error(), "bad parameter") {
			t.Errorf("%s: spent, or %v", c.call, err)
		}
	}
}

// A pure account has no delta; a Renyi account takes batches at their amplified
// price, a zCDP account does not.
func TestAccountsPriceMethodsTheirWay(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("pure", 5, 0)
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	w.wantError(err, "DP005", "the budget of this data set has no delta, which this model needs")

	noise := map[string]float64{}
	for _, accounting := range []string{"zcdp", "rdp"} {
		w := newWorld(t, 1, 0)
		w.regressable(accounting, 5, 1e-5)
		w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, method => 'spgd_clip', options => '{"batch": 400, "steps": 100}')`, w.dataset)
		noise[accounting] = one[float64](w, w.analyst, `SELECT (parameters ->> 'noise_multiplier')::float8 FROM dp.releases WHERE id = dp_last_release($1)`, w.dataset)
	}
	if !(noise["rdp"] < noise["zcdp"]/5) {
		t.Errorf("noise multipliers %v: no amplification", noise)
	}
}

// A request for a whole budget is admitted, in either kind of account.
func TestAWholeBudgetCanBeSpentAtOnce(t *testing.T) {
	for _, accounting := range []string{"zcdp", "rdp"} {
		for _, method := range []string{"auto", "spgd_clip"} {
			w := newWorld(t, 1, 0)
			w.regressable(accounting, 1, 1e-6)
			options := "{}"
			if method == "spgd_clip" && accounting == "rdp" {
				options = `{"batch": 400}`
			}
			w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, 1e-6, method => $2, options => $3::text::jsonb)`, w.dataset, method, options)
			_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1, 1e-6, method => $2)`, w.dataset, method)
			w.wantError(err, "DP002", "does not cover this request")
		}
	}
}
