package tests

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// figure is one row of dp_describe.
type figure struct {
	Column           *string
	Statistic        string
	Value, Low, High *float64
}

// suggestion is one row of dp_scales.
type suggestion struct {
	Column        *string
	Scale, Center *float64
	Note          string
}

const (
	askDescription = `SELECT * FROM dp_describe($1, $2)`
	askScales      = `SELECT * FROM dp_scales($1, $2)`
)

func rowsOf[T any](w *world, conn *pgx.Conn, sql string, args ...any) []T {
	w.Helper()
	rows, _ := conn.Query(context.Background(), sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		w.Fatalf("%s: %v: %s", sql, err, hint(err))
	}
	return out
}

func TestADescriptionIsChargedOnceAndKept(t *testing.T) {
	for _, delta := range []float64{1e-4, 0} {
		w := newWorld(t, 100, delta)
		before, entries := w.spent(), w.entries()
		first := rowsOf[figure](w, w.analyst, askDescription, w.dataset, 20.0)
		cost := w.spent() - before
		if w.entries() != entries+1 || cost > 20 || cost < 16 {
			t.Errorf("spent %v in %d entries", cost, w.entries()-entries) // less than asked for where the account's delta is larger
		}
		if again := rowsOf[figure](w, w.analyst, askDescription, w.dataset, 20.0); !reflect.DeepEqual(again, first) || w.entries() != entries+1 {
			t.Errorf("the same again is %v, not %v", again, first)
		}
		kept := rowsOf[figure](w, w.analyst, `SELECT column_name, statistic, value, ci_low, ci_high FROM dp.descriptions WHERE dataset = $1`, w.dataset)
		if len(kept) != len(first) {
			t.Fatalf("dp.descriptions has %v, not %v", kept, first)
		}
		for i, k := range kept {
			f := first[i]
			if !reflect.DeepEqual(k.Column, f.Column) || k.Statistic != f.Statistic || (k.Value == nil) != (f.Value == nil) || (k.Low == nil) != (f.Low == nil) {
				t.Errorf("dp.descriptions has %v, not %v", k, f)
				continue
			}
			if k.Low != nil {
				within := 0.0126 * (*k.High - *k.Low) // half a unit of the second digit of a quarter; ends of quartiles are rounded outward
				if math.Abs(*k.Value-*f.Value) > within || math.Abs(*k.Low-*f.Low) > 2*within || math.Abs(*k.High-*f.High) > 2*within {
					t.Errorf("%s: %v, %v to %v is shown as %v, %v to %v", k.Statistic, *k.Value, *k.Low, *k.High, *f.Value, *f.Low, *f.High)
				}
			}
		}
		for _, f := range first {
			column := "all"
			if f.Column != nil {
				column = *f.Column
			}
			if f.Value == nil {
				t.Errorf("%s %s is not seen", column, f.Statistic)
				continue
			}
			if want := w.figure(column, f.Statistic); math.Abs(*f.Value-want) > 0.15*math.Max(1, math.Abs(want)) {
				t.Errorf("%s %s is %v, in the table %v", column, f.Statistic, *f.Value, want)
			}
		}
		if bad := one[int](w, w.steward, `SELECT count(*)::int FROM dp_verify() WHERE NOT ok`); bad != 0 {
			t.Error("dp_verify finds fault")
		}
	}
}

// figure computes a statistic from the rows, as nobody but a superuser may.
func (w *world) figure(column, statistic string) float64 {
	w.Helper()
	expression := map[string]string{
		"usable_share": `count(%)::float8 / count(*)`, "mean": `avg(%)::float8`, "true_share": `avg(%::int)::float8`,
		"quartile_1": `percentile_disc(0.25) WITHIN GROUP (ORDER BY %)::float8`, "median": `percentile_disc(0.5) WITHIN GROUP (ORDER BY %)::float8`,
		"quartile_3":     `percentile_disc(0.75) WITHIN GROUP (ORDER BY %)::float8`,
		"complete_share": `avg((num_nulls(amount, age, region, insured) = 0)::int)::float8`,
	}[statistic]
	return one[float64](w, w.super, `SELECT `+strings.ReplaceAll(expression, "%", column)+` FROM public.`+w.dataset)
}

func TestScalesAreSuggested(t *testing.T) {
	w := newWorld(t, 100, 1e-4)
	entries := w.entries()
	got := rowsOf[suggestion](w, w.analyst, askScales, w.dataset, 20.0)
	if again := rowsOf[suggestion](w, w.analyst, askScales, w.dataset, 20.0); !reflect.DeepEqual(again, got) || w.entries() != entries+1 {
		t.Errorf("the same again is %v, not %v", again, got)
	}
	if len(got) != 5 || got[4].Column != nil {
		t.Fatalf("%v", got)
	}
	for j, want := range []struct {
		column       string
		least, scale float64
		boolean      bool
	}{{"amount", 500, 1000, false}, {"age", 50, 50, false}, {"region", 5, 5, false}, {"insured", 1, 1, true}} {
		s := got[j]
		if *s.Column != want.column || s.Scale == nil || *s.Scale < want.least || *s.Scale > want.scale || *s.Center != 0 || strings.Contains(s.Note, "boolean") != want.boolean {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	if note := got[4].Note; !strings.Contains(note, "SELECT dp_set_scales('"+w.dataset+"', '{") || !strings.Contains(note, `"age": 50`) || strings.Contains(note, "insured") {
		t.Errorf("%s", note)
	}
	note := got[4].Note
	w.exec(w.steward, note[strings.Index(note, "SELECT dp_set_scales"):])
	if age := one[float64](w, w.analyst, `SELECT (scales ->> 'age')::float8 FROM dp.datasets WHERE dataset = $1`, w.dataset); age != *got[1].Scale {
		t.Errorf("the scale of age is %v", age)
	}
	if again := rowsOf[suggestion](w, w.analyst, askScales, w.dataset, 20.0); !reflect.DeepEqual(again, got) || w.entries() != entries+1 {
		t.Errorf("under other scales the same again is %v, not %v", again, got)
	}
	kept := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.suggested_scales WHERE dataset = $1 AND suggested_scale > 0 AND suggested_center = 0`, w.dataset)
	if kept != 4 {
		t.Errorf("dp.suggested_scales has %d rows", kept)
	}
}

// Columns are asked for in any order; the target may be among them or not.
func TestSomeColumnsAreDescribed(t *testing.T) {
	w := newWorld(t, 100, 0)
	alone := rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, '{region}')`, w.dataset)
	if len(alone) != 6 || *alone[0].Column != "region" {
		t.Errorf("%v", alone)
	}
	spent := w.spent()
	two := rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, columns => '{insured,age}')`, w.dataset)
	other := rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, columns => '{age,insured}')`, w.dataset)
	if !reflect.DeepEqual(two, other) || w.spent() != spent+5 {
		t.Errorf("%v, then %v", two, other)
	}
	rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, '{age,insured}', fresh => true)`, w.dataset)
	if w.spent() != spent+10 {
		t.Errorf("fresh cost %v", w.spent()-spent-5)
	}
}

// A description that is submitted is the one that is asked for: either is kept for the other.
func TestDescriptionsAreSubmitted(t *testing.T) {
	w := newWorld(t, 100, 0)
	w.exec(w.analyst, `CALL dp_run('scales', $1, 5)`, w.dataset)
	job := one[string](w, w.analyst, `SELECT id::text FROM dp.jobs WHERE dataset = $1 AND model = 'scales' AND status = 'done'`, w.dataset)
	if terms := len(w.mustRegress(w.analyst, `SELECT term, coalesce(coef, 0) FROM dp_result($1)`, job)); terms == 0 {
		t.Error("the result of the job is empty")
	}
	if scales := rowsOf[suggestion](w, w.analyst, `SELECT * FROM dp_scales($1, 5)`, w.dataset); len(scales) != 5 || w.spent() != 5 {
		t.Errorf("%v: %v", w.spent(), scales)
	}
	asked := rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, '{insured,age}')`, w.dataset)
	for _, columns := range []string{`features => '{age,insured}'`, `target => 'insured', features => '{age}'`} {
		w.exec(w.analyst, `CALL dp_run('describe', $1, 5, `+columns+`)`, w.dataset)
	}
	if done := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.jobs WHERE dataset = $1 AND model = 'describe' AND status = 'done'`, w.dataset); done != 3 || w.spent() != 10 {
		t.Errorf("%d descriptions, spent %v", done, w.spent())
	}
	w.exec(w.analyst, `CALL dp_run('describe', $1, 5, target => 'age', features => '{insured}', options => '{"fresh": true}')`, w.dataset)
	if again := rowsOf[figure](w, w.analyst, `SELECT * FROM dp_describe($1, 5, '{insured,age}')`, w.dataset); w.spent() != 15 || len(again) != len(asked) || reflect.DeepEqual(again, asked) {
		t.Errorf("a fresh one: spent %v, %v", w.spent(), again)
	}
}

func TestWhatCannotBeDescribedSpendsNothing(t *testing.T) {
	w := newWorld(t, 1, 0)
	for sql, want := range map[string][2]string{
		`SELECT * FROM dp_describe($1, 0)`:                                                        {"22023", "eps must be a positive"},
		`SELECT * FROM dp_describe($1, NULL)`:                                                     {"22023", "eps must be a positive"},
		`SELECT * FROM dp_describe($1, 0.5, '{note}')`:                                            {"42703", "column \"note\" is not registered"},
		`SELECT * FROM dp_describe($1, 0.5, '{age,NULL}')`:                                        {"42703", "column NULL"},
		`SELECT * FROM dp_describe($1, 0.5, '{age,age}')`:                                         {"22023", `column "age" stands twice`},
		`SELECT * FROM dp_describe($1, 0.5, '{}')`:                                                {"22023", "must be a list"},
		`SELECT * FROM dp_describe($1, 0.5, '{{age},{region}}')`:                                  {"22023", "must be a list"},
		`SELECT * FROM dp_describe($1, 0.5, '{a,b,c,d,e,f}')`:                                     {"22023", "6 features are named"},
		`SELECT * FROM dp_describe($1, 0.5, delta => 1e-6)`:                                       {"22023", "has no delta"},
		`SELECT * FROM dp_scales($1, 0.5, delta => 1e-6)`:                                         {"22023", "has no delta"},
		`SELECT * FROM dp_scales($1, 0.5, columns => '{insured}')`:                                {"22023", "only columns of numbers have a scale, and insured is none"},
		`SELECT * FROM dp_scales($1, 2)`:                                                          {"DP002", ""},
		`SELECT * FROM dp_describe($1 || '_', 0.5)`:                                               {"42501", "does not exist or is not granted"},
		`SELECT * FROM dp_scales($1, 0.5, columns => '{note}')`:                                   {"42703", "column \"note\" is not registered"},
		`SELECT dp_submit('scales', $1, 0.5, where_level => '{"region": ["a"]}')`:                 {"42703", "no category"},
		`SELECT dp_submit('describe', $1, 0.5, intercept => false)`:                               {"22023", "no intercept"},
		`SELECT dp_submit('describe', $1, 0.5, options => '{"tau": 0.5}')`:                        {"22023", "no options but fresh, over, where_level"},
		`SELECT dp_submit('describe', $1, 0.5, options => '{"fresh": 1}')`:                        {"22023", "true or false"},
		`SELECT dp_submit('describe', $1, 0.5, target => 'age', features => '{age}')`:             {"22023", `column "age" stands twice`},
		`SELECT * FROM dp_describe($1, 0.5, where_level => '{"region": ["south"]}')`:              {"42703", "no category"},
		`SELECT * FROM dp_explain('describe', $1, 0.5, options => '{"method": "joint_moments"}')`: {"22023", "no options but"},
	} {
		_, err := w.analyst.Exec(context.Background(), sql, w.dataset)
		w.wantError(err, want[0], want[1])
		if !strings.Contains(hint(err), "budget") {
			t.Errorf("%s: hint %q", sql, hint(err))
		}
	}
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
	_, err := w.steward.Exec(context.Background(), askScales, w.dataset, 0.5)
	w.wantError(err, "42501", "permission denied") // who spends is an analyst
}

// A description is no release of a fit.
func TestADescriptionPredictsNothing(t *testing.T) {
	w := newWorld(t, 10, 0)
	rowsOf[figure](w, w.analyst, askDescription, w.dataset, 1.0)
	if last := one[*string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset); last != nil {
		t.Errorf("the last release is %s", *last)
	}
	release := one[string](w, w.analyst, `SELECT id::text FROM dp.releases WHERE dataset = $1 AND model = 'describe'`, w.dataset)
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_score($1::text::uuid, 1)`, release)
	w.wantError(err, "22023", "predicts nothing")
	for _, sql := range []string{`SELECT dp_predict($1::text::uuid, '{1}'::float8[])`, `SELECT * FROM dp_predict_interval($1::text::uuid, '{1}'::float8[])`,
		`SELECT * FROM dp_summary($1::text::uuid)`, `SELECT dp_coef($1::text::uuid)`, `SELECT dp_covariance($1::text::uuid)`, `SELECT * FROM dp_test($1::text::uuid, '{age}')`} {
		_, err := w.analyst.Exec(context.Background(), sql, release)
		w.wantError(err, "22023", `is of model "describe" and has no coefficients`)
		w.wantError(err, "22023", `What this one holds stands in dp.descriptions.`)
	}
	byJob := w.mustRegress(w.analyst, `SELECT r.term, coalesce(r.coef, 0) FROM dp.jobs j, dp_result(j.id) r WHERE j.release = $1::text::uuid`, release)
	if len(byJob) == 0 || byJob[0].Term != "amount usable_share" {
		t.Errorf("dp_result %v", byJob)
	}
}

// A sidecar that ends between the charge and the release of a description, or before, takes
// nothing with it: the job goes on, charged once.
func TestAnAbandonedDescriptionGoesOn(t *testing.T) {
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
			w := lonelyWorld(t, 0.5, 0) // no room for a second charge
			submitted := one[string](w, w.super, `SELECT dp_int.submit_request($2, dp_int.prepare_description($2, 'describe', $1, 0.5, NULL, NULL, false))::text`, w.dataset, w.person)
			job, token := w.abandon(c.at)
			if job != submitted {
				t.Fatalf("claimed %s, submitted %s", job, submitted)
			}
			if _, err := w.system.Serve(context.Background()); err != nil {
				t.Fatal(err)
			}
			w.eventually("the description is done", func() bool {
				return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done"
			})
			if w.spent() != 0.5 || w.entries() != c.entries {
				t.Errorf("spent %g in %d entries, want 0.5 in %d", w.spent(), w.entries(), c.entries)
			}
			if got := rowsOf[figure](w, w.analyst, askDescription, w.dataset, 0.5); len(got) != 18 || w.spent() != 0.5 {
				t.Errorf("%d figures", len(got))
			}
			_, err := w.connect(w.system.URL("dp_sidecar")).Exec(context.Background(), `SELECT dp_int.job_publish_description($1, $2, 'forged', 0, '[]')`, job, token)
			w.wantError(err, "55000", "no longer this worker's")
			if bad := one[int](w, w.steward, `SELECT count(*)::int FROM dp_verify() WHERE NOT ok`); bad != 0 {
				t.Error("dp_verify finds fault")
			}
		})
	}
}

// What a description releases comes at a step of its ladder, as the coefficients of a fit do.
func TestADescriptionEndsAtAStepOfItsLadder(t *testing.T) {
	w := newWorld(t, 10, 0)
	rowsOf[figure](w, w.analyst, askDescription, w.dataset, 0.5)
	rowsOf[suggestion](w, w.analyst, askScales, w.dataset, 0.5)
	if n := one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job j, dp_int.release r, generate_series(0, j.last_step) k
		WHERE j.model IN ('describe', 'scales') AND j.caller = $1 AND r.job = j.id AND r.released_at = dp_int.step(j, k) AND j.finished_at = r.released_at`, w.person); n != 2 {
		t.Errorf("%d of 2 ended at a step", n)
	}
}

// dp_explain says beforehand what a description would cost and leave, as it does for fits.
func TestADescriptionIsExplained(t *testing.T) {
	w := newWorld(t, 2, 0)
	for _, model := range []string{"describe", "scales"} {
		said := map[string]string{}
		for _, p := range rowsOf[struct{ Property, Value string }](w, w.analyst, `SELECT * FROM dp_explain($2, $1, 0.5)`, w.dataset, model) {
			said[p.Property] = p.Value
		}
		if said["possible"] != "yes" || said["cost_epsilon"] != "0.5" || said["epsilon_remaining_after"] != "1.5" || said["affordable"] != "yes" || said["method"] != "quantiles_laplace" || said["rank_error"] == "" {
			t.Errorf("%s: %v", model, said)
		}
	}
	rowsOf[struct{ Property, Value string }](w, w.steward, `SELECT * FROM dp_explain('describe', $1, 0.5, features => '{age}')`, w.dataset)
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
}

// Where no quartile can be given, dp_explain and whoever is about to spend are told, by a bound
// that is near the one that follows from the noise.
func TestADescriptionOfFewRowsIsDoubted(t *testing.T) {
	for _, delta := range []float64{0, 1e-9, 1e-5} {
		w := newWorld(t, 20, delta)
		for _, model := range []string{"describe", "scales"} {
			for _, eps := range []float64{0.05, 0.5, 4} {
				needed := one[float64](w, w.analyst, `SELECT value::float8 FROM dp_explain($2, $1, $3, features => '{age,region}') WHERE property = 'values_needed'`, w.dataset, model, eps)
				about := one[float64](w, w.super, `SELECT dp_int.least_values($1, 2, $2, $3)`, model, eps, min(delta, 1e-6))
				if about < needed*6/7 || about > needed*8/7 {
					t.Errorf("%s at eps %v, delta %v: about %.0f of %.0f", model, eps, delta, about, needed)
				}
			}
		}
		conn, heard := w.listening(w.person)
		w.exec(conn, `SELECT * FROM dp_describe($1, 0.05, columns => '{age}')`, w.dataset)
		if said := strings.Join(heard(), "\n"); !strings.Contains(said, "too few rows for quartiles at eps 0.05: every column of numbers needs about") {
			t.Errorf("of 1,000 rows at eps 0.05: %q", said)
		}
	}
}

// A category is described by the shares of its levels, needs no scale, and keeps no number from one.
func TestLevelsAreDescribed(t *testing.T) {
	w := newWorld(t, 100, 1e-4)
	table := w.dataset + "_sites"
	w.exec(w.super, `CREATE TABLE public.`+table+` AS SELECT i AS n, CASE i % 4 WHEN 0 THEN 'north' WHEN 1 THEN NULL ELSE 'south' END AS site FROM generate_series(1, 2000) i`)
	w.exec(w.super, `GRANT SELECT ON public.`+table+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'n', '{site}', 100, 1e-4, categories => '{"site": ["north", "south", "*"]}')`, table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	want := map[string]float64{"usable_share": 0.75, "share of north": 1. / 3, "share of south": 2. / 3, "share of *": 0}
	for _, columns := range []*string{nil, new(string)} {
		ask := askDescription
		if columns != nil {
			ask = `SELECT * FROM dp_describe($1, $2, '{site}')`
		}
		seen := 0
		for _, f := range rowsOf[figure](w, w.analyst, ask, table, 20.0) {
			if f.Column == nil || *f.Column != "site" {
				continue
			}
			if seen++; f.Value == nil || math.Abs(*f.Value-want[f.Statistic]) > 0.05 {
				t.Errorf("%s: %v, want %v", f.Statistic, f.Value, want[f.Statistic])
			}
		}
		if seen != len(want) {
			t.Errorf("%d figures of the category", seen)
		}
	}
	// Of the south alone, which half of the rows are: shares are of all rows.
	want = map[string]float64{"n usable_share": 0.5, "n mean": 1000, "site usable_share": 0.5, "site share of south": 1, "all complete_share": 0.5}
	for _, ask := range []string{`SELECT * FROM dp_describe($1, 20, '{n}', where_level => '{"site": ["south"]}')`, `SELECT * FROM dp_describe($1, 20, where_level => '{"site": ["south"]}')`} {
		for _, f := range rowsOf[figure](w, w.analyst, ask, table) {
			column := "all"
			if f.Column != nil {
				column = *f.Column
			}
			share, asked := want[column+" "+f.Statistic]
			if asked && (f.Value == nil || math.Abs(*f.Value-share) > 0.05*max(1, share)) || column == "site" && !asked {
				t.Errorf("%s: %s %s is %v, want %v", ask, column, f.Statistic, f.Value, share)
			}
		}
	}
	if n := one[int](w, w.analyst, `SELECT count(DISTINCT release)::int FROM dp.descriptions JOIN dp.releases r ON r.id = release WHERE r.dataset = $1 AND r.where_level = '{"site": ["south"]}' AND dp.descriptions.where_level = r.where_level`, table); n != 2 {
		t.Errorf("%d of 2 descriptions of levels say so", n)
	}
	entries := func() int64 {
		return one[int64](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = $1`, table)
	}
	before := entries()
	w.exec(w.analyst, `CALL dp_run('describe', $1, 20, target => 'n', where_level => '{"site": ["south"]}')`, table)
	if entries() != before {
		t.Error("a submitted description of levels is another request")
	}
	if said := one[string](w, w.analyst, `SELECT value FROM dp_explain('describe', $1, 1, where_level => '{"site": ["south"]}') WHERE property = 'where_level'`, table); !strings.Contains(said, `{"site":["south"]}`) {
		t.Errorf("dp_explain says %s", said)
	}
	few := rowsOf[suggestion](w, w.analyst, `SELECT * FROM dp_scales($1, 20, columns => '{n}', where_level => '{"site": ["*"]}')`, table)
	if len(few) != 2 || few[0].Scale != nil || !strings.Contains(few[0].Note, "too few values") {
		t.Errorf("scales of levels that no row has: %+v", few)
	}
	before = entries()
	w.exec(w.analyst, `CALL dp_run('scales', $1, 20, features => '{n}', where_level => '{"site": ["*"]}')`, table)
	if _, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_scales($1, 20, columns => '{site}')`, table); entries() != before {
		t.Errorf("%d entries for scales that nobody needs", entries()-before)
	} else {
		w.wantError(err, "22023", "Booleans and categories need no scale")
	}
	got := rowsOf[suggestion](w, w.analyst, askScales, table, 20.0)
	if len(got) != 3 || got[0].Scale == nil || *got[0].Scale != 2000 && *got[0].Scale != 1000 || got[1].Note != "a category: it needs no scale" || strings.Contains(got[2].Note, `"site"`) {
		t.Errorf("%+v", got)
	}
}

// The moments of a day and identifiers are described in whole numbers, and prices with the gaps between them. With so much eps
// each interval holds the table's own quartile but with a probability far below 1e-6.
func TestNumbersFarFromZeroAreDescribed(t *testing.T) {
	w := newWorld(t, 100, 1e-4)
	table := w.dataset + "_sales"
	w.exec(w.super, `CREATE TABLE public.`+table+` AS SELECT (ARRAY[4.99, 5.49, 5.99, 7.99])[1 + i % 4]::numeric(12, 2) AS price, 98000000 + i % 901 AS id,
		'2026-11-15 00:00:00+00'::timestamptz + i * interval '24 s' AS sold FROM generate_series(0, 3603) i`)
	w.exec(w.super, `GRANT SELECT ON public.`+table+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'price', '{id,sold}', 100, 1e-4)`, table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	rowsOf[figure](w, w.analyst, askDescription, table, 20.0)
	const midnight = 1794700800.0
	for _, f := range rowsOf[figure](w, w.analyst, `SELECT column_name, statistic, value, ci_low, ci_high FROM dp.descriptions WHERE dataset = $1 AND statistic = 'median'`, table) {
		want := map[string][3]float64{"price": {5.49, 5.99, 1}, "id": {98000450, 98000450, 200}, "sold": {midnight + 43224, midnight + 43248, 20000}}[*f.Column]
		if f.Low == nil || *f.Low > want[0] || *f.High < want[1] || *f.High-*f.Low > want[2] || *f.Low == *f.High {
			t.Errorf("%s: %v", *f.Column, f)
		} else if t.Logf("%s: %v in [%v, %v]", *f.Column, *f.Value, *f.Low, *f.High); *f.Column != "price" && *f.Value != math.Trunc(*f.Value) {
			t.Errorf("the median of %s is %v", *f.Column, *f.Value)
		}
	}
}

// The page on describing runs as it tells, and sees what its table is made with.
func TestThePageOnDescribingRuns(t *testing.T) {
	w, people := newReader(t)
	w.runPage("how-to/describe.md", people)
	for statistic, truth := range map[string]float64{"cost median": 800, "year median": 2014, "age median": 53, "urgent true_share": 0.3, "region share of south": 0.5} {
		// Five half widths, each of 1.96 deviations or more, miss with a probability far below 1e-6. Where many years are equal the interval is one of them.
		if !one[bool](w, people["analyst"], `SELECT bool_and(abs($2 - (ci_low + ci_high) / 2) <= 2.5 * (ci_high - ci_low)) FROM dp.descriptions WHERE where_level IS NULL AND column_name || ' ' || statistic = $1`, statistic, truth) {
			t.Errorf("%s is far from %v", statistic, truth)
		}
	}
	if n := one[int](w, people["analyst"], `SELECT count(*)::int FROM dp.suggested_scales WHERE column_name = 'year' AND suggested_center BETWEEN 2005 AND 2025`); n != 1 {
		t.Error("the year has no centre")
	}
}

// What has no value arrives, whether or not the caller's session reads NULL in arrays. At eps 0.0001 rows are far too few for
// quartiles: 13 of 18 figures were missing in each of 40 draws.
func TestADescriptionArrivesWithoutArrayNulls(t *testing.T) {
	w := newWorld(t, 2, 1e-6)
	w.exec(w.analyst, `SET array_nulls = off`)
	const missing = `SELECT count(*) FROM dp_describe($1, 0.0001) WHERE value IS NULL OR ci_low IS NULL`
	if one[int64](w, w.analyst, missing, w.dataset) == 0 {
		t.Error("every figure has a value and an interval: this tests nothing")
	}
}
