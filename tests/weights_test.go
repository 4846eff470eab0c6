package tests

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// The statements of the how-to run as it tells, and find the weighted fit.
func TestTheHowToOfWeightsRuns(t *testing.T) {
	w, people := newReader(t)
	w.runPage("how-to/weights.md", people)
	asked := func(sql string) map[string]float64 {
		got := map[string]float64{}
		for _, term := range w.mustRegress(people["analyst"], sql) {
			got[term.Term] = term.Coef
		}
		return got
	}
	truth := one[[]float64](w, people["superuser"], `
		SELECT ARRAY[regr_slope(income, age), (SELECT regr_slope(income, age) FROM survey)] FROM survey, generate_series(1, weight::int)`)
	got := asked(`SELECT * FROM dp_linear_regress('survey', 2.0, features => '{age,urban}', options => '{"weight": "weight", "max_weight": 3}')`)
	if math.Abs(got["age"]-truth[0]) > .05 || math.Abs(got["age"]-truth[0]) > math.Abs(got["age"]-truth[1]) || math.Abs(got["urban"]-6) > 1 {
		t.Errorf("%v; the weighted slope is %v, the other one %v", got, truth[0], truth[1])
	}
	got = asked(`SELECT * FROM dp_logistic_regress('survey', 2.0, target => 'owner', features => '{age}', options => '{"offset": "prior", "weight": "weight", "max_weight": 3}')`)
	if math.Abs(got["age"]-.03) > .01 || math.Abs(got["(intercept)"]+2) > .5 {
		t.Errorf("%v, the law says -2 and .03", got)
	}
	// Log-odds at an offset are higher by it.
	release := one[string](w, people["analyst"], `SELECT dp_last_release('survey')::text`)
	for function, rounding := range map[string]float64{`SELECT dp_predict($1::uuid, $2::jsonb)`: 1e-9, `SELECT prediction FROM dp_predict_interval($1::uuid, $2::jsonb)`: 0.1} {
		logOdds := func(features string) float64 {
			p := one[float64](w, people["analyst"], function, release, features)
			return math.Log(p / (1 - p))
		}
		if at := logOdds(`{"age": 60, "prior": 1.2}`) - logOdds(`{"age": 60}`); math.Abs(at-1.2) > rounding || math.Abs(logOdds(`{"age": 60, "prior": 0}`)-logOdds(`{"age": 60}`)) > 1e-9 {
			t.Errorf("%s: an offset of 1.2 adds %v", function, at)
		}
	}
	if missing := one[int](w, people["analyst"], `SELECT num_nulls(dp_predict($1::uuid, '{"age": 60, "prior": null}'::jsonb))`, release); missing != 1 {
		t.Error("a prediction without its offset")
	}
	if why := one[string](w, people["analyst"], `SELECT why_null FROM dp_predict_interval($1::uuid, '{"age": 60, "prior": null}'::jsonb)`, release); !strings.HasPrefix(why, "the offset or the exposure is missing") {
		t.Errorf("without its offset there is no interval because %q", why)
	}
	// A release tells of requests with the same weights alone.
	for options, says := range map[string]string{`{"weight": "weight", "max_weight": 3}`: "forecast from release", `{"weight": "weight", "max_weight": 4}`: "not known", `{}`: "not known"} {
		said := all[string](w, people["analyst"], `SELECT value FROM dp_explain('linear', 'survey', 2.0, features => '{age,urban}', options => $1) WHERE property IN ('expected_error', 'noise_at_scales') ORDER BY property`, options)
		if len(said) != 2 || !strings.HasPrefix(said[0], says) || strings.Contains(said[1], "every weight is taken for max_weight") != (options != `{}`) {
			t.Errorf("%s: %q", options, said)
		}
	}
	// No line fits the hump, so each loss has its own best slope, and without weights another: -.725 and -.455. Of 3,000 draws of the table and of the
	// noise at eps 3 the slopes were spread by .0077 and .0049, those of urban by .18 and .13. In a Huber fit of some hundred noise moved the slope by more,
	// in the worst by .06: at eps 10, by less.
	w.exec(people["steward"], `SELECT dp_set_budget('survey', 100, 1e-4)`)
	for model, slope := range map[string]float64{"l1": -.423, "huber": -.305} {
		got = asked(fmt.Sprintf(`SELECT * FROM dp_%s_regress('survey', 10.0, features => '{age,urban}', options => '{"weight": "weight", "max_weight": 3, "offset": "prior"}')`, model))
		if math.Abs(got["age"]-slope) > .12 || math.Abs(got["urban"]-6) > 1.5 {
			t.Errorf("%s: %v, want a slope of %v", model, got, slope)
		}
	}
}

// What cannot be a weight or an offset is refused with what can, before anything is spent.
func TestWeightsThatCannotBe(t *testing.T) {
	w := newWorld(t, 1, 1e-4)
	for ask, says := range map[string]string{
		`dp_linear_regress($1, 1, options => '{"weight": "nothing", "max_weight": 1}')`:                            "not registered",
		`dp_l1_regress($1, 1, options => '{"offset": "amount"}')`:                                                  "target or a feature",
		`dp_huber_regress($1, 1, features => '{age}', options => '{"weight": "age", "max_weight": 1}')`:            "target or a feature",
		`dp_linear_regress($1, 1, options => '{"weight": "age", "max_weight": 1, "offset": "age"}')`:               "named by another option",
		`dp_linear_regress($1, 1, options => '{"weight": "age"}')`:                                                 `needs option "max_weight"`,
		`dp_l1_regress($1, 1, options => '{"max_weight": 2}')`:                                                     `no "weight"`,
		`dp_linear_regress($1, 1, options => '{"weight": "age", "max_weight": 0}')`:                                "a number from",
		`dp_linear_regress($1, 1, options => '{"weight": 3, "max_weight": 1}')`:                                    "must be the name of a registered column",
		`dp_linear_regress($1, 1, options => '{"offset": null}')`:                                                  "must be the name of a registered column",
		`dp_l1_regress($1, 1, options => '{"weight": "age", "max_weight": 1, "method": "exponential_mechanism"}')`: "takes no weights",
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
