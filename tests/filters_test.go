package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// sixFeatures registers a table of six features, with a budget and a grant, and returns
// the data set's name.
func (w *world) sixFeatures(epsilon, delta float64) string {
	w.Helper()
	name := "six_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+name+` AS
		SELECT 3 * random() + a AS y, a, b, c, d, e, f FROM (SELECT random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f FROM generate_series(1, 2000)) AS x`)
	w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{a,b,c,d,e,f}', $3, $4, '{"y": 3}', options => '{"new_population": "a test"}')`, name, "public."+name, epsilon, delta)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	return name
}

// An account of epsilon 4 with a delta gives four requests at eps 1, as one without; a
// refusal says what one costs and what is left, and dp_explain the same before.
func TestAnAccountWithADeltaAddsPureEpsilons(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(4, 1e-6)
	explained := func() map[string]string {
		return w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 1.0, options => '{"fresh": true}')`, name)
	}
	_, err := regress(w.analyst, ask, name, 5.0)
	w.wantError(err, "DP002", "it costs epsilon 5, and 4 is left; it would raise the epsilon spent from 0 to 5, the budget is 4 at delta 1e-06")
	w.wantError(err, "DP002", "at most about 4, or")
	for k := range 4 {
		if said := explained(); said["affordable"] != "yes" || said["epsilon_charged"] != "1" || said["epsilon_remaining_after"] != fmt.Sprint(3-k) {
			t.Errorf("before request %d: %v", k+1, said)
		}
		w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1.0, options => '{"fresh": true}')`, name)
		if spent := one[float64](w, w.analyst, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, name); spent != float64(k+1) {
			t.Errorf("after request %d: %v is spent", k+1, spent)
		}
	}
	if said := explained(); !strings.HasPrefix(said["affordable"], "no") || said["epsilon_charged"] != "1" {
		t.Errorf("after the last: %v", said)
	}
	_, err = regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1.0, options => '{"fresh": true}')`, name)
	w.wantError(err, "DP002", "it costs epsilon 1, and 0 is left; it would raise the epsilon spent from 4 to 5, the budget is 4 at delta 1e-06")
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1)`, name)
	w.wantError(err, "DP002", "and 0 is left")
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// fewDigitsLeft is how a refusal says what is left: six digits at most behind the point, or six digits.
var fewDigitsLeft = regexp.MustCompile(`and (\d+(\.\d{1,6})?|0\.0*\d{1,6}) is left`)

// Pure requests and others share an account, and dp_explain says which are affordable.
func TestPureRequestsAndOthersShareAnAccount(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(4, 1e-6)
	for _, c := range []struct {
		model, call string
		eps         float64
		ok          bool
	}{
		{"l1", "dp_l1_regress", 1, true},
		{"linear", "dp_linear_regress", 1, true},
		{"l1", "dp_l1_regress", 1.001, true},
		{"l1", "dp_l1_regress", .999, false},
		{"linear", "dp_linear_regress", 1.01, false},
		{"linear", "dp_linear_regress", .3, true},
		{"huber", "dp_huber_regress", 4, false},
	} {
		said := w.explain(w.analyst, `SELECT * FROM dp_explain($1, $2, $3)`, c.model, name, c.eps)
		if (said["affordable"] == "yes") != c.ok {
			t.Errorf("%v: affordable %s", c, said["affordable"])
		}
		_, err := regress(w.analyst, fmt.Sprintf(`SELECT * FROM %s($1, $2)`, c.call), name, c.eps)
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
		if named := regexp.MustCompile(`at most about [0-9.]+`).FindString(hint(err)); err != nil && (named == "" || !strings.HasSuffix(said["affordable"], "; eps "+named+" would do")) {
			t.Errorf("%v: affordable %s, and the refusal says %s", c, said["affordable"], hint(err))
		}
		if err != nil && !fewDigitsLeft.MatchString(err.Error()) {
			t.Errorf("%v: what is left has more digits than mean anything: %v", c, err)
		}
		if c.model == "huber" {
			w.wantError(err, "DP002", "(added to what was asked before, it costs the ")
		}
		left := one[float64](w, w.analyst, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, name)
		if c.ok && said["epsilon_remaining_after"] != fmt.Sprint(left) {
			t.Errorf("%v: left is %v, foretold was %s", c, left, said["epsilon_remaining_after"])
		}
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
	other := newWorld(t, 1, 0)
	name = other.sixFeatures(4, 1e-6)
	other.mustRegress(other.analyst, ask, name, 3.0)
	_, err := regress(other.analyst, `SELECT * FROM dp_linear_regress($1, 0.1)`, name)
	other.wantError(err, "DP002", "and 1 is left")
	other.wantError(err, "DP002", "no eps would do beside what was asked with others: ask dp_l1_regress, or ask the steward")
	large := newWorld(t, 1, 0)
	name = large.sixFeatures(4, 1e-6)
	large.exec(large.steward, `SELECT dp_set_budget($1, 4, 1e-9)`, name) // a request that gives none has 1e-6 still
	_, err = regress(large.analyst, `SELECT * FROM dp_linear_regress($1, 3.9)`, name)
	large.wantError(err, "DP002", "Ask with a smaller delta, at most 1e-09, or with a smaller eps at this delta, at most about 3.")
	large.mustRegress(large.analyst, `SELECT * FROM dp_linear_regress($1, 0.1)`, name)
}

// The first fit of an account has the noise that normal noise alone needs, and can take the whole budget; a
// later one has that of a fit among others. dp_explain foretells both.
func TestTheFirstFitHasLessNoise(t *testing.T) {
	alone, among := privacy.Alone{}, privacy.Concentrated{}
	ratio := func(eps, delta float64) float64 {
		b := privacy.Budget{Epsilon: eps, Delta: delta - privacy.Reserve(delta)}
		z, err := privacy.Calibrate(alone, b, func(z float64) (privacy.Event, error) { return privacy.Gaussian{NoiseMultiplier: z}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return z * math.Sqrt(2*privacy.ZCDPRho(b.Epsilon, b.Delta))
	}
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(4, 1e-6)
	noise := func(call string, args ...any) (foretold, had float64) {
		said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, $2, options => '{"fresh": true}')`, name, args[0])
		if first := one[int64](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = $1`, name) == 0; said["affordable"] != "yes" || strings.HasPrefix(said["first_request"], "yes") != first {
			t.Errorf("%v: affordable %s, first %s", args, said["affordable"], said["first_request"])
		}
		w.mustRegress(w.analyst, call, append([]any{name}, args...)...)
		left := one[float64](w, w.analyst, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, name)
		if said["epsilon_remaining_after"] != fmt.Sprint(left) {
			t.Errorf("%v: %v is left, and %s was foretold", args, left, said["epsilon_remaining_after"])
		}
		foretold, err := strconv.ParseFloat(said["noise_multiplier"], 64)
		if err != nil {
			t.Errorf("%v: noise %q", args, said["noise_multiplier"])
		}
		return foretold, one[float64](w, w.analyst, `SELECT (parameters ->> 'noise_multiplier')::float8 FROM dp.releases WHERE dataset = $1 ORDER BY released_at DESC LIMIT 1`, name)
	}
	const fit = `SELECT * FROM dp_linear_regress($1, $2, options => '{"fresh": true}')`
	saidFirst, first := noise(fit, 1.0)
	if spent := one[float64](w, w.analyst, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, name); spent != 1 {
		t.Errorf("a first fit at eps 1 spends %v", spent)
	}
	saidSecond, second := noise(fit, 1.0)
	rhos := one[[]float64](w, w.super, `SELECT array_agg(rho::float8 ORDER BY id) FROM dp_int.ledger WHERE kind = 'charge' AND dataset = $1`, name)
	if want := ratio(1, 1e-6); math.Abs(math.Sqrt(rhos[1]/rhos[0])-want) > 1e-6 || math.Abs(first/second-want) > .01 || math.Abs(saidFirst/first-1) > 1e-4 || math.Abs(saidSecond/second-1) > 1e-4 {
		t.Errorf("noise %v (foretold %v), then %v (foretold %v), for a rho of %v: a ratio of %v, not %v", first, saidFirst, second, saidSecond, rhos, first/second, want)
	}
	whole := newWorld(t, 1, 0)
	name = whole.sixFeatures(1, 1e-6)
	whole.mustRegress(whole.analyst, fit, name, 1.0)
	_, err := regress(whole.analyst, `SELECT * FROM dp_l1_regress($1, 0.01)`, name)
	whole.wantError(err, "DP002", "and 0 is left")
	_, err = regress(whole.analyst, fit, name, 0.01)
	whole.wantError(err, "DP002", "and 0 is left")
	event, err := privacy.UnmarshalEvent([]byte(one[string](whole, whole.super, `SELECT event::text FROM dp_int.ledger WHERE kind = 'charge' AND dataset = $1`, name)))
	if err != nil {
		t.Fatal(err)
	}
	only, _ := event.(privacy.Only)
	a, err1 := alone.Epsilon(only.Event, .9e-6)
	b, err2 := among.Epsilon(only.Event, .9e-6)
	if err1 != nil || err2 != nil || a > 1 || b < 1.05 {
		t.Errorf("alone it proves epsilon %v, %v, among others %v, %v", a, err1, b, err2)
	}
	if wrong := append(w.verify(), whole.verify()...); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A fit is planned to be alone only where it can be: of two first ones at once the later is planned again as one among
// others, and in fresh blocks a fit of somebody with a limit has the price that his limit is held against.
func TestNoiseIsOnlyLessWhereItMayBeAlone(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(1, 1e-6)
	holder := w.connect(w.system.SuperuserURL())
	w.exec(holder, `BEGIN`)
	w.exec(holder, `SELECT FROM dp_int.account a JOIN dp_int.dataset d ON d.account = a.id WHERE d.name = $1 FOR UPDATE OF a`, name)
	for _, eps := range []float64{.6, .7} {
		w.exec(w.analyst, `SELECT dp_submit('linear', $1, $2)`, name, eps)
	}
	w.eventually("both wait for the account", func() bool {
		return one[int](w, w.super, `SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%job_charge%'`) == 2
	})
	w.exec(holder, `COMMIT`)
	w.eventually("both are answered", func() bool {
		return one[int](w, w.analyst, `SELECT count(*)::int FROM dp.jobs WHERE dataset = $1 AND status = 'done'`, name) == 2
	})
	if left := one[string](w, w.analyst, `SELECT concat_ws(' ', epsilon_spent > 0.95, epsilon_remaining) FROM dp.budget WHERE dataset = $1`, name); !strings.HasPrefix(left, "t 0.0") {
		t.Errorf("after two requests that fit if one is alone no more: %s", left)
	}

	blocks := newWorld(t, 1, 0)
	name = blocks.admissions(1, 1e-6)
	blocks.exec(blocks.steward, `SELECT dp_grant($1, $2, 1)`, name, blocks.person)
	const ask = `SELECT * FROM dp_linear_regress($1, 0.69, over => $2::text::daterange)`
	for _, window := range []string{blocks.window(60, 30), blocks.window(30, 0)} {
		if said := blocks.explain(blocks.analyst, `SELECT * FROM dp_explain('linear', $1, 0.69, over => $2::text::daterange)`, name, window); said["affordable"] != "yes" {
			t.Errorf("%s: affordable %s", window, said["affordable"])
		}
		blocks.mustRegress(blocks.analyst, ask, name, window)
	}
	for _, x := range []*world{w, blocks} {
		if wrong := x.verify(); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
}

// Where what is left of epsilon cannot be asked for at any eps, nothing is said to be left.
func TestNothingIsLeftThatNobodyCanAskFor(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(1, 1e-6)
	said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 1)`, name)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, name)
	if left := one[string](w, w.analyst, `SELECT concat_ws(' ', epsilon_spent, epsilon_remaining) FROM dp.budget WHERE dataset = $1`, name); left != "1 0" || said["epsilon_remaining_after"] != "0" {
		t.Errorf("spent and left: %s; foretold: %s", left, said["epsilon_remaining_after"])
	}
	_, err := regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.001)`, name)
	w.wantError(err, "DP002", "and 0 is left")
	if strings.Contains(hint(err), "no eps would do") || !strings.Contains(hint(err), "Ask the steward for dp_set_budget") {
		t.Errorf("the hint is %q", hint(err))
	}
	// A steward is told, by a lower limit on a larger budget as well.
	steward, heard := w.hearingHints("steward")
	w.exec(steward, `SELECT dp_set_budget($1, 1.05)`, name)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "nothing is left for data set") || !strings.Contains(said, "Among others that request counts as epsilon 1.0") {
		t.Errorf("the steward hears %q", said)
	}
	w.exec(steward, `SELECT dp_set_budget($1, 4)`, name)
	w.exec(steward, `SELECT dp_grant($1, $2, 1.05)`, name, w.person)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "nothing is left of the personal limit") {
		t.Errorf("the steward hears %q", said)
	}
	if left := one[string](w, w.analyst, `SELECT concat_ws(' ', my_epsilon_spent, my_epsilon_remaining) FROM dp.budget WHERE dataset = $1`, name); left != "1 0" {
		t.Errorf("of a limit spent and left: %s", left)
	}
	// More than the budget is refused, as foretold, although its noise without the exact bound would keep within it.
	more := newWorld(t, 1, 0)
	name = more.sixFeatures(1, 1e-6)
	if said := more.explain(more.analyst, `SELECT * FROM dp_explain('linear', $1, 1.05)`, name); !strings.HasPrefix(said["affordable"], "no") {
		t.Errorf("eps 1.05 of 1: affordable %s", said["affordable"])
	}
	_, err = regress(more.analyst, `SELECT * FROM dp_linear_regress($1, 1.05)`, name)
	more.wantError(err, "DP002", "it costs epsilon 1.05")

	blocks := newWorld(t, 1, 0)
	name = blocks.admissions(1, 1e-6)
	// Somebody with a limit takes all of it, and the window, with the noise of one among others.
	blocks.exec(blocks.steward, `SELECT dp_grant($1, $2, 1)`, name, blocks.person)
	blocks.mustRegress(blocks.analyst, `SELECT * FROM dp_linear_regress($1, 1, over => $2::text::daterange)`, name, blocks.window(100, 90))
	if left := one[string](blocks, blocks.analyst, `SELECT concat_ws(' ', epsilon_spent, epsilon_remaining, my_epsilon_remaining) FROM dp.budget WHERE dataset = $1`, name); left != "1 0 0" {
		t.Errorf("spent and left of the fullest block, and of the limit: %s", left)
	}
	_, err = regress(blocks.analyst, `SELECT * FROM dp_linear_regress($1, 1.5, over => $2::text::daterange)`, name, blocks.window(80, 70))
	if blocks.wantError(err, "DP002", "does not cover it either"); strings.Contains(hint(err), "at most about") {
		t.Errorf("the hint is %q", hint(err))
	}
	blocks.exec(blocks.steward, `SELECT dp_grant($1, $2)`, name, blocks.person)
	blocks.mustRegress(blocks.analyst, `SELECT * FROM dp_linear_regress($1, 1, over => $2::text::daterange)`, name, blocks.window(40, 10))
	if left := all[string](blocks, blocks.analyst, `SELECT concat_ws(' ', epsilon_spent, epsilon_remaining) FROM dp_blocks($1)`, name); !slices.Equal(left, []string{"0 1", "1 0", "0 1", "1 0", "0 1"}) {
		t.Errorf("blocks: %q", left)
	}
}

// What dp_explain and a refusal say of a budget adds up to the last digit, and a fresh budget can be asked for all that it has.
func TestShownBudgetsAddUp(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(9, 1e-6)
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 12)`, name)
	if w.wantError(err, "DP002", "and 9 is left"); !strings.Contains(hint(err), "at most about 9, or") {
		t.Errorf("the hint is %q", hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2, 8)`, name, w.person)
	for k, eps := range []float64{.37, .41, 1.7, .2, 2.3, .05} {
		said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, $2)`, name, eps)
		if one[bool](w, w.super, `SELECT $1::numeric - $2::numeric <> $3::numeric`, said["epsilon_remaining"], said["epsilon_charged"], said["epsilon_remaining_after"]) {
			t.Errorf("%v: %s less %s is not %s", eps, said["epsilon_remaining"], said["epsilon_charged"], said["epsilon_remaining_after"])
		}
		if mine := one[string](w, w.analyst, `SELECT my_epsilon_remaining::text FROM dp.budget WHERE dataset = $1`, name); mine != said["my_epsilon_remaining"] {
			t.Errorf("%v: dp.budget has %s, dp_explain %s", eps, mine, said["my_epsilon_remaining"])
		}
		w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, name, eps)
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, name, []float64{8.2, 9.5}[k%2]+float64(k)/100)
		w.wantError(err, "DP002", "does not cover this request")
		n := regexp.MustCompile(`costs epsilon ([0-9.]+).*, and ([0-9.]+) is left; .* from ([0-9.]+) to ([0-9.]+), the (?:limit|budget) is ([0-9.]+)`).FindStringSubmatch(err.Error())
		if len(n) == 0 || one[bool](w, w.super, `SELECT $1::numeric + $3::numeric <> $4::numeric OR $2::numeric + $3::numeric <> $5::numeric`, n[1], n[2], n[3], n[4], n[5]) {
			t.Errorf("%v does not add up: %q", err, n)
		}
	}
}

// A first request takes no more of a budget, or of a limit, than its eps: where with less noise it would, it has that of one
// among others, and what is said to be left can be asked for.
func TestAFirstRequestLeavesTheRest(t *testing.T) {
	const all, less = 1e-6, 1e-7 // deltas of requests
	for _, k := range []struct {
		budget, limit, eps, delta, left float64
		first                           bool
	}{
		{1, 0, .5, all, .5, true}, {1, 0, .9, all, .1, true}, {1, 0, .926, all, .074, false}, {1, 0, .95, all, .05, false}, {1, 0, 1, all, 0, true},
		{4, 0, 3.9, all, .1, false}, {4, 1, .95, all, .05, false}, {4, 1, 1, all, 0, true},
		{1, 0, .5, less, .555, true}, {1, 0, 1.05, less, .049, false}, {4, 0, 3.9, less, .448, true},
	} {
		w := newWorld(t, 1, 0)
		name := w.sixFeatures(k.budget, 1e-6)
		if k.limit > 0 {
			w.exec(w.steward, `SELECT dp_grant($1, $2, $3)`, name, w.person, k.limit)
		}
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, $2, $3)`, name, k.eps, k.delta); said["affordable"] != "yes" || strings.HasPrefix(said["first_request"], "yes") != k.first {
			t.Errorf("%v: affordable %s, first %s", k, said["affordable"], said["first_request"])
		}
		w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, $3)`, name, k.eps, k.delta)
		left := one[float64](w, w.analyst, `SELECT coalesce(my_epsilon_remaining, epsilon_remaining)::float8 FROM dp.budget WHERE dataset = $1`, name)
		if math.Abs(left-k.left) > 1e-2*k.left+1e-5 {
			t.Errorf("%v: %v is left", k, left)
		}
		if k.left > 0 {
			w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, name, left)
		}
		if wrong := w.verify(); len(wrong) > 0 {
			t.Errorf("%v: %q", k, wrong)
		}
	}
	// Nor of a lower limit of another data set of the same people.
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(1, 1e-6)
	w.exec(w.steward, one[string](w, w.super, `SELECT format('SELECT dp_register(%L, %L::regclass, %L, %L, 0.54, 1e-6, scales => %L)', name || '_less', relid::regclass, target, features, scales) FROM dp_int.dataset WHERE name = $1`, name))
	w.exec(w.steward, `SELECT dp_grant($1 || '_less', $2)`, name, w.person)
	w.exec(w.steward, `SELECT dp_set_budget($1, 1)`, name)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.5)`, name)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1 || '_less', (SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1 || '_less'))`, name)
}

// A delta above the account's is refused, however it is asked for, before anything is spent; an answer that was given before is
// given again.
func TestADeltaAboveTheBudgetsIsRefused(t *testing.T) {
	w := newWorld(t, 20, 1e-6)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, 1e-6)`, w.dataset)
	described := `SELECT count(*) FROM dp_describe($1, 0.5, delta => 1e-6, fresh => $2)`
	w.exec(w.analyst, described, w.dataset, false)
	spent := w.spent()
	for _, call := range []string{
		`dp_linear_regress($1, 1, 0.5)`, `dp_describe($1, 0.3, delta => 0.5)`, `dp_scales($1, 0.3, 0.5)`, `dp_moments($1, 0.3, 0.5)`, `dp_score(dp_last_release($1), 0.3, 0.5)`,
		`dp_submit('huber', $1, 0.3, 0.5)`, `dp_submit('moments', $1, 0.3, 0.5)`, `dp_submit_score(dp_last_release($1), 0.3, 0.5)`, `dp_explain('linear', $1, 0.3, 0.5)`,
		`dp_explain('describe', $1, 0.3, 0.5)`, `dp_explain_score(dp_last_release($1), 0.3, 0.5)`,
	} {
		if _, err := w.analyst.Exec(context.Background(), `SELECT * FROM `+call, w.dataset); err == nil {
			t.Errorf("%s is admitted", call)
		} else {
			w.wantError(err, "22023", `delta 0.5 is above that of data set "`+w.dataset+`", 1e-06: it would cost more epsilon than its eps`)
			w.wantError(err, "22023", "give one up to 1e-06; for less noise give a larger eps. No privacy budget was spent.")
		}
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 20, 1e-9)`, w.dataset)
	w.exec(w.analyst, described, w.dataset, false)
	_, err := w.analyst.Exec(context.Background(), described, w.dataset, true)
	w.wantError(err, "22023", "above that of data set")
	w.exec(w.steward, `SELECT dp_set_budget($1, 20, 1e-6)`, w.dataset)
	if now := w.spent(); now != spent {
		t.Errorf("%v is spent, and %v was", now, spent)
	}
}

// A request that gives no delta gets what its data set was registered with, at most 1e-6,
// and is the same request after the delta was set anew.
func TestARequestWithoutADeltaGetsWhatThereIs(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.sixFeatures(3, 1e-8)
	given := func() float64 {
		return one[float64](w, w.analyst, `SELECT delta FROM dp.releases WHERE dataset = $1 ORDER BY released_at DESC LIMIT 1`, name)
	}
	first := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1.0)`, name)
	if given() != 1e-8 {
		t.Errorf("delta %v", given())
	}
	if shown := one[string](w, w.analyst, `SELECT concat_ws(' ', epsilon_spent, epsilon_remaining) FROM dp.budget WHERE dataset = $1`, name); shown != "1 2" { // it is 0.99999999996
		t.Errorf("spent and left after a request at eps 1 are %s", shown)
	}
	if shown := one[string](w, w.super, `SELECT concat_ws(' ', dp_int.rounded_up(0.00123456789, 0.01), dp_int.rounded_down(0.00123456789, 0.01), dp_int.rounded_up('Infinity', 1), dp_int.rounded_down(-1, 0), dp_int.rounded_up(0.60000000000000004, 1), dp_int.rounded_down(0.39999999999999996, 1))`); shown != "0.0012346 0.0012345 Infinity 0 0.6 0.4" {
		t.Errorf("rounded outward: %s", shown)
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 3, 1e-9)`, name)
	if again := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1.0)`, name); !slices.Equal(again, first) {
		t.Error("it is another request now")
	}
	if said := one[float64](w, w.analyst, `SELECT default_delta FROM dp.datasets WHERE dataset = $1`, name); said != 1e-8 {
		t.Errorf("dp.datasets says %v", said)
	}
	large := "large_" + w.dataset
	w.exec(w.super, `CREATE VIEW public.`+large+` AS SELECT amount, age FROM public.`+w.dataset)
	if said := one[float64](w, w.super, `SELECT (dp_int.prepare($1, 'linear', $2, 1, NULL, NULL, NULL, NULL, NULL)).delta`, w.person, w.dataset); said != 1e-6 {
		t.Errorf("without a delta in the data set: %v", said)
	}
}

// random draws histories for the model below: sequences of charges by two people, one of
// whom has a limit, of refunds and of new budgets.
type random struct {
	*world
	rng        *rand.Rand
	accounting string
	renyi      *privacy.Renyi
	decided    map[string]int // admissions by the filter that alone allowed them
}

// standing is a charge that was not given back.
type standing struct {
	owner  ledger.Owner
	event  privacy.Event
	person int
}

func isOnly(e privacy.Event) bool {
	_, only := e.(privacy.Only)
	return only
}

// limit is what the model holds sums against.
type limit struct{ epsilon, delta, order float64 }

// holds says for each filter how much of it these events fill, 1 being all.
func (r *random) holds(l limit, events []privacy.Event) map[string]float64 {
	var epsilon, rho, restRho, divergence float64
	for _, e := range events {
		c, err := privacy.Price(e)
		if err != nil {
			r.Fatal(err)
		}
		epsilon, rho = epsilon+c.Epsilon, rho+c.Rho
		if math.IsInf(c.Epsilon, 1) {
			restRho += c.Rho
		}
		if r.accounting == "rdp" {
			curve, _ := r.renyi.Curve(e)
			divergence += curve[slices.Index(privacy.Orders(), l.order)]
		}
	}
	delta := l.delta * .9
	alone := math.Inf(1)
	if len(events) == 1 && isOnly(events[0]) {
		alone = privacy.NoiseEpsilon(2*rho, delta) / l.epsilon
	}
	switch r.accounting {
	case "pure":
		return map[string]float64{"pure": epsilon / l.epsilon}
	case "rdp":
		floor := privacy.RenyiEpsilon(0, l.order, delta)
		return map[string]float64{"pure": epsilon / l.epsilon, "renyi": divergence / (l.epsilon - floor)}
	}
	pure := 0.0
	for _, e := range events {
		if c, _ := privacy.Price(e); !math.IsInf(c.Epsilon, 1) {
			pure += c.Epsilon
		}
	}
	cap, order := privacy.ZCDPRho(l.epsilon, delta), privacy.ZCDPOrder(l.epsilon, delta)
	return map[string]float64{"pure": epsilon / l.epsilon, "rho": rho / cap, "mixture": (pure/order + restRho) / cap, "alone": alone}
}

// admits is the model's decision, and whether it is too close to tell.
func (r *random) admits(l limit, events []privacy.Event) (ok, close bool) {
	best, filter, others := math.Inf(1), "", 0
	for name, filled := range r.holds(l, events) {
		close = close || math.Abs(filled-1) < 1e-9
		if filled <= 1 {
			others++
		}
		if filled < best {
			best, filter = filled, name
		}
	}
	if others == 1 {
		r.decided[filter]++
	}
	return best <= 1, close
}

// event is one of a size that fits some ten times into a budget, more or less; taste says
// how many of them are pure. Where few are, the first one often fits just once, if it is normal noise.
func (r *random) event(epsilon, taste float64, first bool) privacy.Event {
	if first && r.accounting != "pure" && taste < .2 && r.rng.IntN(3) > 0 {
		rho := privacy.ZCDPRho(epsilon, 1e-6) * (.98 + .2*r.rng.Float64())
		each := privacy.Gaussian{NoiseMultiplier: 1 / math.Sqrt(rho)}
		noise := privacy.Compose{each, privacy.Repeat{Count: 1, Event: each}}
		return []privacy.Event{privacy.Only{Event: noise}, privacy.Only{Event: noise}, noise, privacy.ZCDP{Rho: rho}}[r.rng.IntN(4)]
	}
	size := epsilon * math.Exp(-3.5*r.rng.Float64())
	if r.rng.Float64() < taste || r.accounting == "pure" {
		return []privacy.Event{privacy.Pure{Epsilon: size}, privacy.BoundedRange{Epsilon: size}, privacy.Compose{privacy.Pure{Epsilon: size / 2}, privacy.Pure{Epsilon: size / 4}}}[r.rng.IntN(3)]
	}
	rho := privacy.ZCDPRho(epsilon, 1e-6) * math.Exp(-3.5*r.rng.Float64())
	var noise privacy.Event = privacy.Gaussian{NoiseMultiplier: 1 / math.Sqrt(2*rho)}
	if r.rng.IntN(4) == 0 {
		return privacy.Only{Event: noise} // planned when nothing was charged, and charged after others
	}
	return []privacy.Event{noise, privacy.ZCDP{Rho: rho}, privacy.Compose{noise, privacy.Pure{Epsilon: size / 4}}}[r.rng.IntN(3)]
}

// history plays one, and returns the first thing about which database and model differ.
func (r *random) history() string {
	epsilon, taste := []float64{.4, 1, 4}[r.rng.IntN(3)], []float64{1, .9, .5, .1}[r.rng.IntN(4)]
	delta := 1e-6
	if r.accounting == "pure" {
		delta = 0
	}
	r.exec(r.steward, `SELECT dp_unregister($1)`, r.dataset)
	r.exec(r.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', $3, $4, accounting => $5, options => '{"new_population": "another history"}')`,
		r.dataset, "public."+r.dataset, epsilon, delta, r.accounting)
	people := []string{r.person, r.person + "_b"}
	personal := limit{epsilon * .6, delta, 0}
	r.exec(r.steward, `SELECT dp_grant($1, $2)`, r.dataset, people[0])
	r.exec(r.steward, `SELECT dp_grant($1, $2, $3)`, r.dataset, people[1], personal.epsilon)
	account := limit{epsilon, delta, 0}
	if r.accounting == "rdp" {
		account.order = one[float64](r.world, r.super, `SELECT renyi_order FROM dp.datasets WHERE dataset = $1`, r.dataset)
		personal.order = account.order
	}
	var stand []standing
	for range 40 {
		switch k := r.rng.IntN(20); {
		case k < 3 && len(stand) > 0:
			i := r.rng.IntN(len(stand))
			r.exec(r.super, giveBack, stand[i].owner.Job, stand[i].owner.Token)
			stand = slices.Delete(stand, i, i+1)
		case k == 3:
			account.epsilon = epsilon * (.7 + .6*r.rng.Float64())
			r.exec(r.steward, `SELECT dp_set_budget($1, $2, $3)`, r.dataset, account.epsilon, delta)
			if r.accounting == "rdp" && len(stand) == 0 {
				account.order = one[float64](r.world, r.super, `SELECT renyi_order FROM dp.datasets WHERE dataset = $1`, r.dataset)
				personal.order = account.order
			}
		default:
			next := standing{event: r.event(account.epsilon, taste, len(stand) == 0), person: r.rng.IntN(2)}
			var all, own []privacy.Event
			for _, s := range append(slices.Clone(stand), next) {
				all = append(all, s.event)
				if s.person == next.person {
					own = append(own, s.event)
				}
			}
			ok, close := r.admits(account, all)
			if next.person == 1 {
				ok1, close1 := r.admits(personal, own)
				ok, close = ok && ok1, close || close1
			}
			owner, err := chargeAs(context.Background(), r.super, r.super, r.dataset, people[next.person], ledger.Entry{Event: next.event, Rows: 1000})
			var no *ledger.Refusal
			if err != nil && !(errors.As(err, &no) && no.SQLSTATE == "DP002") {
				return err.Error()
			}
			if (err == nil) != ok && !close {
				return fmt.Sprintf("%s, epsilon %v: model %v, database %v, after %d charges of which %d are the caller's: %#v", r.accounting, account.epsilon, ok, err, len(all)-1, len(own)-1, r.holds(account, all))
			}
			if err == nil {
				next.owner = owner
				stand = append(stand, next)
			}
		}
		if proven := one[float64](r.world, r.super, `SELECT proven_epsilon::float8 FROM dp_int.account WHERE id = (SELECT account FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL)`, r.dataset); proven > 1.3*epsilon {
			return fmt.Sprintf("%v is proven of budgets up to %v", proven, 1.3*epsilon)
		}
	}
	return ""
}

func newRandom(t *testing.T, w *world, accounting string, seed uint64) *random {
	if err := w.system.Login(context.Background(), w.person+"_b", "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	return &random{w, rand.New(rand.NewPCG(31, seed)), accounting, new(privacy.Renyi), map[string]int{}}
}

// The database admits what a model in float64 admits, whoever charges, gives back and sets
// budgets; each filter is the only one that allows something.
func TestFiltersAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	for accounting, filters := range map[string][]string{"pure": {"pure"}, "zcdp": {"pure", "rho", "mixture", "alone"}, "rdp": {"pure", "renyi"}} {
		r := newRandom(t, w, accounting, 1)
		for range 24 {
			if wrong := r.history(); wrong != "" {
				t.Fatal(wrong)
			}
		}
		for _, f := range filters {
			if r.decided[f] < 5 {
				t.Errorf("%s: filter %s decided %d times", accounting, f, r.decided[f])
			}
		}
		w.wantSums()
		if wrong := r.verify(); len(wrong) > 0 { // reads the whole ledger, of all histories
			t.Fatal(strings.Join(wrong, "; "))
		}
	}
}

func TestTheModelCatchesMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct{ function, was, is string }{
		"filters are mixed":              {"admits_at", "t.rest = 0 AND t.epsilon <= p_epsilon", "t.rest_rho <= p_cap AND t.epsilon <= p_epsilon"},
		"the rest is forgotten":          {"admits_at", "t.rest = 0 AND ", ""},
		"the mixture has all of epsilon": {"admits_at", "a * t.rest_rho <= a * p_cap", "a * t.rest_rho <= p_epsilon"},
		"refunds of the rest are lost":   {"weight_of_rest", "WHEN 'refund' THEN -1", "WHEN 'refund' THEN 0"},
		"alone beside pure epsilons":     {"admits_at", "t.rest = 1 AND t.epsilon = 0 THEN", "t.rest = 1 THEN"},
		"two are alone":                  {"admits_at", "t.rest = 1 AND t.epsilon = 0 THEN", "t.rest <= 2 AND t.epsilon = 0 THEN"},
		"any event is the only one":      {"weight_of_rest", "WHEN dp_int.is_only(e.event) THEN 1", "WHEN true THEN 1"},
		"half of mu":                     {"noise_delta", "sqrt(2 * p_rho *", "sqrt(0.5 * p_rho *"},
		"rho of the rest is not added":   {"add_entry", "ELSE coalesce(e.rho, 0) END", "ELSE 0 END"},
		"a limit of everybody's sums":    {"ledger_charge", "own := dp_int.tally_of(a.id, j.principal)", "own := dp_int.tally_of(a)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 1, 0)
			r := newRandom(t, w, "zcdp", 2)
			body := one[string](w, w.super, `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1 AND pronamespace = 'dp_int'::regnamespace`, m.function)
			mutant := strings.Replace(body, m.was, m.is, 1)
			if mutant == body {
				t.Fatal("the function has another text by now")
			}
			w.exec(w.super, mutant)
			for range 30 {
				wrong := r.history()
				if wrong == "" {
					wrong = strings.Join(r.verify(), "; ")
				}
				if wrong != "" {
					t.Log(wrong)
					return
				}
			}
			t.Error("not caught")
		})
	}
}

// wantSums holds the sums of every account against the events of the charges that stand.
func (w *world) wantSums() {
	w.Helper()
	ctx := context.Background()
	rows, _ := w.super.Query(ctx, `SELECT c.account, c.event::text FROM dp_int.ledger c WHERE c.kind = 'charge' AND NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)`)
	type sums struct{ rest, epsilon, rho float64 }
	want := map[int64]sums{}
	for rows.Next() {
		var account int64
		var text string
		if err := rows.Scan(&account, &text); err != nil {
			w.Fatal(err)
		}
		e, err := privacy.UnmarshalEvent([]byte(text))
		if err != nil {
			w.Fatal(err)
		}
		c, err := privacy.Price(e)
		if err != nil {
			w.Fatal(err)
		}
		s := want[account]
		if math.IsInf(c.Epsilon, 1) {
			weight := 2.
			if isOnly(e) {
				weight = 1
			}
			want[account] = sums{s.rest + weight, s.epsilon, s.rho + c.Rho}
		} else {
			want[account] = sums{s.rest, s.epsilon + c.Epsilon, s.rho}
		}
	}
	if rows.Err() != nil {
		w.Fatal(rows.Err())
	}
	for account, s := range want {
		if !one[bool](w, w.super, `SELECT rest = $2 AND abs(spent_epsilon - $3::float8::numeric) <= 1e-9 AND abs(rest_rho - $4::float8::numeric) <= 1e-9 FROM dp_int.account WHERE id = $1`,
			account, s.rest, s.epsilon, s.rho) {
			w.Errorf("account %d: want %+v, has %s", account, s, one[string](w, w.super, `SELECT concat(rest, ' ', spent_epsilon, ' ', rest_rho) FROM dp_int.account WHERE id = $1`, account))
		}
	}
}

// Charges that come at once, some of which are pure, are admitted one after the other: what
// stands together satisfies one filter.
func TestConcurrentChargesSatisfyOneFilter(t *testing.T) {
	w := newWorld(t, 4, 1e-6)
	cap := privacy.ZCDPRho(4, .9e-6)
	var all sync.WaitGroup
	var pure, noisy atomic.Int64
	for k := range 16 {
		admin, worker := w.connect(w.system.SuperuserURL()), w.connect(w.system.URL("dp_sidecar"))
		all.Go(func() {
			event, count := privacy.Event(privacy.Pure{Epsilon: 1}), &pure
			if k%2 == 1 {
				event, count = privacy.ZCDP{Rho: cap / 8}, &noisy
			}
			_, err := chargeAs(context.Background(), admin, worker, w.dataset, w.person, ledger.Entry{Event: event, Rows: 1000})
			var no *ledger.Refusal
			switch {
			case err == nil:
				count.Add(1)
			case !errors.As(err, &no) || no.SQLSTATE != "DP002":
				t.Error(err)
			}
		})
	}
	all.Wait()
	order := privacy.ZCDPOrder(4, .9e-6)
	p, n := float64(pure.Load()), float64(noisy.Load())
	if !(n == 0 && p <= 4) && !(p == 0 && n <= 8) && p+order*n*cap/8 > order*cap {
		t.Errorf("%v pure charges and %v others stand", p, n)
	}
	if p+n < 3 {
		t.Errorf("only %v and %v were admitted", p, n)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
