package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"github.com/jackc/pgx/v5"
)

// metric is one row of a score.
type metric struct {
	Metric           string
	Value, Low, High *float64
}

const askScore = `SELECT * FROM dp_score($1::text::uuid, $2)`

func askedScore(conn *pgx.Conn, sql string, args ...any) ([]metric, error) {
	rows, _ := conn.Query(context.Background(), sql, args...)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[metric])
}

func (w *world) mustScore(conn *pgx.Conn, sql string, args ...any) []metric {
	w.Helper()
	out, err := askedScore(conn, sql, args...)
	if err != nil {
		w.Fatalf("%v: %s", err, hint(err))
	}
	return out
}

// lastRelease fits and returns the release.
func (w *world) lastRelease(sql string, args ...any) string {
	w.Helper()
	w.mustRegress(w.analyst, sql, args...)
	return one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, args[0])
}

// truth computes a metric from the rows, as nobody but a superuser may.
func (w *world) truth(metric, release string) float64 {
	w.Helper()
	expression := map[string]string{
		"r2":                      `1 - sum(e * e) / (sum(y * y) - sum(y) ^ 2 / count(*))`,
		"mean_absolute_error":     `avg(abs(e))`,
		"root_mean_squared_error": `sqrt(avg(e * e))`,
		"log_loss":                `avg(-ln(CASE y WHEN 1 THEN p ELSE 1 - p END))`,
		"accuracy":                `avg((y = (p >= 0.5)::int)::int)`,
		"brier_score":             `avg((y - p) ^ 2)`,
	}[metric]
	return one[float64](w, w.super, fmt.Sprintf(`
		SELECT %s FROM (SELECT y, y - z AS e, 1 / (1 + exp(-z)) AS p
		  FROM (SELECT CASE r.request ->> 'target' WHEN 'amount' THEN t.amount ELSE t.insured::int END::float8 AS y, dp_predict(c.coef, ARRAY[t.age, t.region]) AS z
		          FROM public.%s t, dp_int.job r, (SELECT array_agg(coef ORDER BY position) AS coef FROM dp_int.coefficient WHERE release = $1::text::uuid) c
		         WHERE r.release = $1::text::uuid AND t.age IS NOT NULL) z) e`, expression, w.dataset), release)
}

// At eps 300 no figure of 900 scores was further from the table's than a fortieth of what is allowed. At eps 10 one
// of 1,200 had no r2, and one of 1,000 an interval so wide that a figure is shown with fewer digits.
func TestAScoreIsChargedOnceAndKept(t *testing.T) {
	w := newWorld(t, 1000, 1e-4)
	release := w.lastRelease(`SELECT * FROM dp_linear_regress($1, 5, 1e-5, features => '{age,region}')`, w.dataset)
	if asked := one[string](w, w.analyst, `SELECT target || ' by ' || features::text FROM dp.releases WHERE id::text = $1`, release); asked != "amount by {age,region}" {
		t.Errorf("the release is of %s", asked)
	}
	before, entries := w.spent(), w.entries()
	first := w.mustScore(w.analyst, askScore, release, 300.0)
	cost := w.spent() - before
	if names := []string{first[0].Metric, first[1].Metric, first[2].Metric}; !reflect.DeepEqual(names, []string{"r2", "mean_absolute_error", "root_mean_squared_error"}) {
		t.Fatalf("metrics %v", names)
	}
	if cost <= 0 || w.entries() != entries+1 {
		t.Errorf("a score cost %g in %d entries", cost, w.entries()-entries)
	}
	stored := one[[]float64](w, w.analyst, `SELECT array_agg(value ORDER BY metric) FROM dp.scores WHERE release::text = $1`, release)
	shown := rowsOf[metric](w, w.analyst, `SELECT * FROM dp_score($1::text::uuid, 300) ORDER BY metric`, release)
	for k, m := range shown {
		if m.Value == nil || m.Low == nil {
			t.Fatalf("%s has no value or no interval", m.Metric)
		}
		within := 0.0135 * (*m.High - *m.Low) // half a unit of the second digit of a quarter; the ends are rounded too
		if text := fmt.Sprint(*m.Value); len(text) > 8 || *m.Value == stored[k] || math.Abs(*m.Value-stored[k]) > within {
			t.Errorf("%v is shown as %v, %v to %v", stored[k], text, *m.Low, *m.High)
		}
	}
	for _, m := range first {
		if truth := w.truth(m.Metric, release); m.Value == nil || math.Abs(*m.Value-truth) > 0.35*math.Max(1, truth) {
			t.Errorf("%s: %v, in the table %v", m.Metric, m.Value, truth)
		}
	}
	// The same again, by whomever and however it is asked, is free.
	other := w.newAnalyst(w.person + "b")
	for _, conn := range []*pgx.Conn{w.analyst, other} {
		for _, sql := range []string{askScore, `SELECT * FROM dp_score($1::text::uuid, $2, 1e-5)`, `SELECT (dp_score($1::text::uuid, $2)).*`} {
			if again := w.mustScore(conn, sql, release, 300.0); !reflect.DeepEqual(first, again) {
				t.Errorf("%s: %v, first %v", sql, again, first)
			}
		}
	}
	if w.spent()-before != cost || w.entries() != entries+1 {
		t.Errorf("a score that is kept was charged: %g", w.spent()-before-cost)
	}
	// It stands among jobs, releases and scores, and is not the last fit.
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.scores s JOIN dp.releases r ON r.id = s.score AND r.model = 'score' AND r.target = 'amount' AND r.features = '{age,region}' AND r.parameters ->> 'release' = s.release::text
		JOIN dp.jobs j ON j.id = r.job AND j.status = 'done' AND j.model = 'score' AND j.release = r.id WHERE s.release::text = $1 AND s.eps = 300 AND s.delta = 1e-5`, release); n != 3 {
		t.Errorf("%d of 3 metrics in dp.scores", n)
	}
	if last := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset); last != release {
		t.Error("a score is taken for the last release")
	}
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.scores WHERE (ci_low IS NULL OR value IS NULL) <> (why_null IS NOT NULL)`); n != 0 {
		t.Errorf("%d metrics neither have an interval nor say why", n)
	}
	if bad := one[int](w, w.steward, `SELECT count(*)::int FROM dp_verify() WHERE NOT ok`); bad != 0 {
		t.Error("dp_verify finds fault")
	}
}

func TestScoresOfLabels(t *testing.T) {
	w := newWorld(t, 1000, 1e-4)
	release := w.lastRelease(`SELECT * FROM dp_logistic_regress($1, 5, 1e-5, target => 'insured', features => '{age,region}', options => '{"positive_label": 1, "negative_label": 0}')`, w.dataset)
	got := w.mustScore(w.analyst, askScore, release, 300.0) // none is hidden by chance, as in TestAScoreIsChargedOnceAndKept
	if len(got) != 3 {
		t.Fatalf("%v", got)
	}
	for _, m := range got {
		if truth := w.truth(m.Metric, release); m.Value == nil || math.Abs(*m.Value-truth) > 0.1 || m.Low == nil || *m.Low > *m.Value || *m.Value > *m.High {
			t.Errorf("%+v, in the table %v", m, truth)
		}
	}
}

// A pure account pays for a mean absolute error, exactly its eps; rows with a NULL are left
// out, not counted as zero. Of 100 scores at eps 40 none was off by more than .5 %; at this eps none is hidden by chance either.
func TestScoresOnAPureAccount(t *testing.T) {
	w := newWorld(t, 1000, 0)
	w.exec(w.super, fmt.Sprintf(`UPDATE public.%s SET age = NULL WHERE region = 6`, w.dataset))
	release := w.lastRelease(`SELECT * FROM dp_l1_regress($1, 20, features => '{age,region}')`, w.dataset)
	before := w.spent()
	got := w.mustScore(w.analyst, askScore, release, 300.0)
	if len(got) != 1 || got[0].Metric != "mean_absolute_error" || got[0].Value == nil {
		t.Fatalf("%v", got)
	}
	if truth := w.truth("mean_absolute_error", release); math.Abs(*got[0].Value-truth) > 0.25*truth {
		t.Errorf("%v, in the table %v", *got[0].Value, truth)
	}
	if cost := w.spent() - before; math.Abs(cost-300) > 1e-9 {
		t.Errorf("it cost %g, not 300", cost)
	}
	_, err := askedScore(w.analyst, `SELECT * FROM dp_score($1::text::uuid, 1, 1e-6)`, release)
	w.wantError(err, "22023", "delta must be 0")
}

func TestAScoreThatIsRefusedSpendsNothing(t *testing.T) {
	w := newWorld(t, 3, 0)
	release := w.lastRelease(ask, w.dataset, 1.0)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 2.5)`, w.dataset, w.person)
	w.mustScore(w.analyst, askScore, release, 0.5)
	scored := one[string](w, w.analyst, `SELECT score::text FROM dp.scores LIMIT 1`)
	if err := w.system.Login(context.Background(), w.person+"x", "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	stranger := w.connect(w.system.URL(w.person + "x"))
	before, entries := w.spent(), w.entries()
	const nothing = "No privacy budget was spent"
	refused := func(conn *pgx.Conn, code, says, sql string, args ...any) {
		t.Helper()
		_, err := askedScore(conn, sql, args...)
		w.wantError(err, code, says)
		w.wantError(err, code, nothing)
	}
	refused(stranger, "22023", "you may score", askScore, release, 0.5)
	refused(w.analyst, "22023", "you may score", askScore, "00000000-0000-0000-0000-000000000000", 0.5)
	refused(w.analyst, "22023", "no release NULL", `SELECT * FROM dp_score(NULL, 1)`)
	refused(w.analyst, "22023", "itself a score", askScore, scored, 0.5)
	refused(w.analyst, "DP002", "limit of", askScore, release, 1.2)
	for _, eps := range []string{"0", "-1", "'NaN'", "'Infinity'", "NULL"} {
		refused(w.analyst, "22023", "eps must be", `SELECT * FROM dp_score($1::text::uuid, `+eps+`)`, release)
	}
	refused(w.analyst, "22023", "eps is", askScore, release, 1e5)
	refused(w.analyst, "22023", "delta must be 0", `SELECT * FROM dp_score($1::text::uuid, 1, 'NaN')`, release)
	const set = `UPDATE dp_int.coefficient SET coef = $2 WHERE release = $1::text::uuid AND position = 2`
	finite := one[float64](w, w.super, `SELECT coef FROM dp_int.coefficient WHERE release = $1::text::uuid AND position = 2`, release)
	for _, coef := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w.exec(w.super, set, release, coef)
		refused(w.analyst, "22023", "no finite number", askScore, release, 0.25)
	}
	w.exec(w.super, set, release, finite)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	refused(w.analyst, "DP002", "budget of data set", askScore, release, 1.6)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%s RENAME COLUMN age TO years`, w.dataset))
	refused(w.analyst, "DP004", "", askScore, release, 0.25)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%s RENAME COLUMN years TO age`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	refused(w.analyst, "42501", "no longer registered", askScore, release, 0.25)
	if spent := one[float64](w, w.super, `SELECT sum(epsilon)::float8 FROM dp.ledger WHERE kind <> 'budget' AND dataset = $1`, w.dataset); spent != before || w.entriesOf() != entries {
		t.Errorf("spent %g in %d entries, before %g in %d", spent, w.entriesOf(), before, entries)
	}
}

// Scores are seen by those who see the release, and kept from everybody else.
func TestScoresAreForWhoMaySeeTheRelease(t *testing.T) {
	w := newWorld(t, 10, 0)
	release := w.lastRelease(ask, w.dataset, 1.0)
	w.mustScore(w.analyst, askScore, release, 0.5)
	if n := one[int64](w, w.steward, `SELECT count(*) FROM dp.scores WHERE release::text = $1`, release); n != 1 {
		t.Errorf("the steward sees %d metrics", n)
	}
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	if n := one[int64](w, w.analyst, `SELECT count(*) FROM dp.scores WHERE release::text = $1`, release); n != 0 {
		t.Errorf("who lost the grant sees %d metrics", n)
	}
	_, err := askedScore(w.analyst, askScore, release, 0.5)
	w.wantError(err, "22023", "you may score")
}

// entriesOf counts charges and refunds, also of a data set that is unregistered.
func (w *world) entriesOf() int64 {
	w.Helper()
	return one[int64](w, w.super, `SELECT count(*) FROM dp.ledger WHERE kind <> 'budget' AND dataset = $1`, w.dataset)
}

// A score can be queued, followed and canceled as a fit can; asking for it while it runs
// follows the job, and afterwards it is free.
func TestAScoreCanBeSubmitted(t *testing.T) {
	w := newWorld(t, 10, 0)
	release := w.lastRelease(ask, w.dataset, 1.0)
	job := one[string](w, w.analyst, `SELECT dp_submit_score($1::text::uuid, 0.5)::text`, release)
	w.eventually("the score is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done" })
	spent := w.spent()
	got := w.mustScore(w.analyst, askScore, release, 0.5)
	byJob := w.mustRegress(w.analyst, `SELECT term, coalesce(coef, 0) FROM dp_result($1::text::uuid)`, job)
	rounding := .01 * math.Abs(byJob[0].Coef) // three digits
	if got[0].Low != nil {                    // in none of 2,700 scores at so little eps
		rounding = 0.0135 * (*got[0].High - *got[0].Low) // half a unit of the second digit of a quarter; the ends are rounded too
	}
	if len(byJob) != 1 || byJob[0].Term != got[0].Metric || got[0].Value != nil && math.Abs(byJob[0].Coef-*got[0].Value) > rounding {
		t.Errorf("dp_result %v, dp_score %v", byJob, got)
	}
	again := one[string](w, w.analyst, `SELECT dp_submit_score($1::text::uuid, 0.5)::text`, release)
	if status := one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, again); status != "done" || w.spent() != spent {
		t.Errorf("submitted again: %s, spent %g of %g", status, w.spent(), spent)
	}
	w.exec(w.analyst, `BEGIN`)
	canceled := one[string](w, w.analyst, `SELECT dp_submit_score($1::text::uuid, 0.25)::text`, release)
	if fate := one[string](w, w.analyst, `SELECT dp_cancel($1)`, canceled); fate != "canceled before it started; no privacy budget was spent" {
		t.Error(fate)
	}
	w.exec(w.analyst, `COMMIT`)
	if w.spent() != spent {
		t.Errorf("spent %g of %g", w.spent(), spent)
	}
}

// A sidecar that ends between the charge and the release of a score, or before, takes
// nothing with it: the job goes on, charged once.
func TestAnAbandonedScoreGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      step
		entries int64
	}{
		"claimed": {claimed, 1},
		"charged": {charged, 3}, // charge, refund, charge
		"reading": {reading, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 1.5, 0) // no room for a second charge
			stop, err := w.system.Serve(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			release := w.lastRelease(ask, w.dataset, 1.0)
			stop()
			submitted := one[string](w, w.analyst, `SELECT dp_submit_score($1::text::uuid, 0.5)::text`, release)
			job, token := w.abandon(c.at)
			if job != submitted {
				t.Fatalf("claimed %s, submitted %s", job, submitted)
			}
			if _, err := w.system.Serve(context.Background()); err != nil {
				t.Fatal(err)
			}
			w.eventually("the score is done", func() bool {
				return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done"
			})
			if w.spent() != 1.5 || w.entries() != 1+c.entries {
				t.Errorf("spent %g in %d entries, want 1.5 in %d", w.spent(), w.entries(), 1+c.entries)
			}
			if got := w.mustScore(w.analyst, askScore, release, 0.5); len(got) != 1 || w.spent() != 1.5 {
				t.Errorf("%v", got)
			}
			_, err = w.connect(w.system.URL("dp_sidecar")).Exec(context.Background(), `SELECT dp_int.job_publish_score($1, $2, 'forged', 0, '[]')`, job, token)
			w.wantError(err, "55000", "no longer this worker's")
			if bad := one[int](w, w.steward, `SELECT count(*)::int FROM dp_verify() WHERE NOT ok`); bad != 0 {
				t.Error("dp_verify finds fault")
			}
		})
	}
}

// What a score releases comes at a step of its ladder, as the coefficients of a fit do.
func TestAScoreEndsAtAStepOfItsLadder(t *testing.T) {
	w := newWorld(t, 10, 0)
	release := w.lastRelease(ask, w.dataset, 1.0)
	w.mustScore(w.analyst, askScore, release, 0.5)
	if n := one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job j, dp_int.release r, generate_series(0, j.last_step) k
		WHERE j.model = 'score' AND j.caller = $1 AND r.job = j.id AND r.released_at = dp_int.step(j, k) AND j.finished_at = r.released_at`, w.person); n != 1 {
		t.Error("a score ended at no step")
	}
}

// Whoever asks for a score that noise would hide is told before anything is spent, of values and else of intervals.
func TestAScoreOfFewRowsIsDoubted(t *testing.T) {
	for delta, eps := range map[float64][2]float64{1e-4: {0.05, 0.5}, 0: {0.05, 1}} {
		w := newWorld(t, 20, delta)
		release := w.lastRelease(`SELECT * FROM dp_l1_regress($1, 1, features => '{age}')`, w.dataset)
		conn, heard := w.listening(w.person)
		for i, says := range []string{"every value be NULL", "the intervals of a score"} {
			if said := w.explain(w.analyst, `SELECT * FROM dp_explain_score($1::text::uuid, $2)`, release, eps[i])["warning"]; !strings.Contains(said, says) {
				t.Errorf("delta %v, eps %v: %q", delta, eps[i], said)
			}
			w.mustScore(conn, askScore, release, eps[i])
			if said := strings.Join(heard(), "\n"); !strings.Contains(said, says) {
				t.Errorf("delta %v, eps %v: %q", delta, eps[i], said)
			}
		}
		if said := w.explain(w.analyst, `SELECT * FROM dp_explain_score($1::text::uuid, 8)`, release)["warning"]; said != "" {
			t.Errorf("delta %v, eps 8: %q", delta, said)
		}
	}
}

// The rows that a score is said to need are about those at which half of fits with normal residuals, balanced labels or
// counts have a first value: few have one with half as many, most with twice as many. Likewise of
// intervals, whose number grows slowly. Seeds are fixed.
func TestTheRowsThatAScoreNeeds(t *testing.T) {
	const draws = 12
	w, mean := newWorld(t, 1, 0), map[string]float64{"poisson": math.Log(4)}
	for model, delta := range map[string]float64{"linear": 1e-6, "logistic": 1e-6, "poisson": 1e-6, "l1": 0} {
		need := rowsOf[struct{ Values, Intervals float64 }](w, w.super, `SELECT * FROM dp_int.least_scored($1, 1, $2)`, model, delta)[0]
		a := score.Metrics{Coefficients: []float64{mean[model]}, Labels: model == "logistic", Counts: model == "poisson", Positive: 1}
		var accountant privacy.Accountant = privacy.PureSum{}
		if delta > 0 {
			accountant = privacy.Concentrated{}
		}
		r, src := rand.New(rand.NewPCG(5, 5)), mechtest.Source(t, 5)
		counted := func(rows float64) (values, intervals int) {
			for range draws {
				x := table.Data{Shape: table.Shape{N: int(rows), D: 1, Intercept: true}, Y: make([]float64, int(rows))}
				for i := range x.Y {
					switch u := r.Float64(); model {
					case "logistic":
						x.Y[i] = math.Round(u)
					case "poisson":
						for p := math.Exp(-4); u > p; p *= 4 / x.Y[i] {
							u -= p
							x.Y[i]++
						}
					default:
						x.Y[i] = r.NormFloat64()
					}
				}
				p, err := a.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: delta}, accountant)
				if err != nil {
					t.Fatal(err)
				}
				result, err := p.Run(t.Context(), x, src)
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(result.Metrics, func(m release.Metric) bool { return m.Value != nil }) {
					values++
				}
				if slices.ContainsFunc(result.Metrics, func(m release.Metric) bool { return m.Low != nil }) {
					intervals++
				}
			}
			return values, intervals
		}
		few, _ := counted(need.Values / 2)
		many, _ := counted(need.Values * 2)
		_, fewIntervals := counted(need.Intervals / 2)
		_, manyIntervals := counted(need.Intervals * 2)
		t.Logf("%s: values %d, %d; intervals %d, %d", model, few, many, fewIntervals, manyIntervals)
		if few > draws/3 || many < draws*2/3 || fewIntervals > draws/3 || manyIntervals < draws/3 {
			t.Errorf("%s: of %d with half and twice the rows, %d and %d have a value, %d and %d an interval", model, draws, few, many, fewIntervals, manyIntervals)
		}
	}
}

// What a score would cost is told beforehand, free; what dp_score refuses is refused alike.
func TestExplainScoreForetellsTheCharge(t *testing.T) {
	w := newWorld(t, 50, 1e-4)
	for _, fit := range []string{`SELECT * FROM dp_l1_regress($1, 1, features => '{age}')`, `SELECT * FROM dp_logistic_regress($1, 1, target => 'insured', features => '{age}')`} {
		release := w.lastRelease(fit, w.dataset)
		before := w.entries()
		const explain = `SELECT * FROM dp_explain_score($1::text::uuid, 0.5)`
		said := w.explain(w.analyst, explain, release)
		if w.entries() != before || said["possible"] != "yes" || said["affordable"] != "yes" || said["model"] != "score" || strings.Contains(said["warning"], "too few rows") == strings.Contains(fit, "logistic") {
			t.Errorf("%s: %v", fit, said)
		}
		w.mustScore(w.analyst, askScore, release, 0.5)
		if left := one[float64](w, w.analyst, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, w.dataset); said["epsilon_remaining_after"] != strconv.FormatFloat(left, 'g', -1, 64) {
			t.Errorf("%s: foretold %s, left is %v", fit, said["epsilon_remaining_after"], left)
		}
		if again := w.explain(w.analyst, explain, release); !strings.Contains(again["kept_release"], "at no cost") {
			t.Errorf("%s, asked before: %v", fit, again)
		}
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_explain_score(gen_random_uuid(), 1)`)
	w.wantError(err, "22023", "you may score")
	_, err = w.analyst.Exec(context.Background(), `SELECT * FROM dp_explain_score(dp_last_release($1), 1, 2)`, w.dataset)
	w.wantError(err, "22023", "below 1")
}
