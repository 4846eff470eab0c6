package tests

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// categorised gives the test a table with a column of every type that can be a category: what
// is paid depends on age and on the levels by known amounts.
func (w *world) categorised(rows int) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`
		CREATE TYPE public.%[1]s_size AS ENUM ('small', 'medium', 'large');
		CREATE DOMAIN public.%[1]s_place AS varchar(20);
		CREATE TABLE public.%[1]s_c AS
		SELECT 20 + 10 * region_effect + 0.5 * age + 4 * (size = 'large')::int - 2 * (code = 2)::int + noise AS paid, age, region, place, letter, size, insured, code,
		       CASE WHEN random() < 1 / (1 + exp(-2 * region_effect + 1)) THEN 'won' ELSE 'lost' END AS outcome
		  FROM (SELECT (20 + 50 * random())::float8 AS age, r.region, r.region::public.%[1]s_place AS place, left(r.region, 1)::char(4) AS letter, r.effect AS region_effect,
		               (ARRAY['small', 'medium', 'large'])[1 + i %% 3]::public.%[1]s_size AS size, i %% 2 = 0 AS insured, (i %% 7 %% 3)::smallint AS code,
		               (random() + random() + random() - 1.5)::float8 AS noise
		          FROM generate_series(1, %[2]d) AS i, (VALUES (0, 'north', 0.0), (1, 'south', 1.0), (2, 'east', 2.0), (3, 'elsewhere', 0.5), (4, NULL, 3.0)) AS r(n, region, effect)
		         WHERE r.n = CASE WHEN i %% 25 = 0 THEN 4 ELSE i %% 4 END) AS rows;
		GRANT SELECT ON public.%[1]s_c TO dp_sidecar`, w.dataset, rows))
	w.dataset += "_c"
}

const everyCategory = `{"region": ["north", "south", "east", "*"], "size": "enum", "insured": ["false", "true"], "code": [0, 1, 2], "outcome": ["lost", "won"]}`

func (w *world) registerCategories(categories string) error {
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'paid', '{age,region,size,insured,code,outcome}', 1000, 1e-5,
		scales => '{"paid": 30, "age": 50}', categories => $3)`, w.dataset, "public."+w.dataset, categories)
	return err
}

func TestCategoriesFromEndToEnd(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(20000)
	if err := w.registerCategories(everyCategory); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	out, _ := w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, features => '{age,region,size}')`, w.dataset, 20)
	// Without noise these are the effects; its deviations are below .02 at this budget.
	want := []term{{"(intercept)", 19.4}, {"age", 0.5}, {"region=south", 10}, {"region=east", 20}, {"region=*", 5}, {"size=medium", 0}, {"size=large", 4}}
	for i, c := range out {
		if c.Term != want[i].Term || math.Abs(c.Coef-want[i].Coef) > 0.5 {
			t.Errorf("%v, want %v", c, want[i])
		}
	}
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	for features, expected := range map[string]float64{
		`{"age": 40, "region": "south", "size": "large"}`:     54,
		`{"size": "small", "age": 0, "region": "north"}`:      20,
		`{"age": 10, "region": "atlantis", "size": "medium"}`: 30,
	} {
		for _, call := range []string{`dp_predict($1::uuid, $2::jsonb)`, `dp_predict($1::uuid, $2::text)`, `(SELECT prediction FROM dp_predict_interval($1::uuid, $2::jsonb))`} {
			if got := one[float64](w, w.analyst, `SELECT `+call, release, features); math.Abs(got-expected) > 1 {
				t.Errorf("%s of %s: %v, want %v", call, features, got, expected)
			}
		}
	}
	for _, features := range []string{`{"age": 40, "region": "south", "size": "huge"}`, `{"age": 40, "region": null, "size": "small"}`, `{"age": null, "region": "south", "size": "small"}`} {
		if !one[bool](w, w.analyst, `SELECT dp_predict($1::uuid, $2::jsonb) IS NULL`, release, features) {
			t.Errorf("%s has a prediction", features)
		}
	}
	for features, says := range map[string]string{
		`{"age": 40, "region": ["south"], "size": "small"}`:       "must be one value",
		`{"age": 40, "region": {"south": true}, "size": "small"}`: "must be one value",
		`{"age": [40], "region": "south", "size": "small"}`:       "must be one value",
		`{"age": 1e400, "region": "south", "size": "small"}`:      "out of the range",
		`{"age": "true", "region": "south", "size": "small"}`:     "a boolean is true or false.",
	} {
		_, err := w.analyst.Exec(context.Background(), `SELECT dp_predict($1::uuid, $2::jsonb)`, release, features)
		w.wantError(err, "22023", says)
	}
	if got := one[float64](w, w.analyst, `SELECT dp_predict($1::uuid, '{"age": 1e-400, "region": "north", "size": "small"}'::jsonb)`, release); math.Abs(got-20) > 1 {
		t.Errorf("an age next to 0: %v", got)
	}
	if got := one[float64](w, w.analyst, `SELECT dp_predict($1::uuid, '{40,1,0,0,0,1}')`, release); math.Abs(got-54) > 1 {
		t.Errorf("by position %v", got)
	}
	if p := one[float64](w, w.analyst, `SELECT p_value FROM dp_test($1, '{region=south,region=east}')`, release); p > 1e-6 {
		t.Errorf("two levels together: p = %v", p)
	}
	w.categoriesAreTested(release)
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp_summary($1) WHERE why_null IS NULL`, release); n != len(want) {
		t.Errorf("%d of %d terms have intervals", n, len(want))
	}
	if r2 := one[float64](w, w.analyst, `SELECT value FROM dp.scores WHERE release = $1::uuid AND metric = 'r2'`, w.scored(release)); r2 < 0.9 {
		t.Errorf("r2 is %v", r2)
	}
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
}

// categoriesAreTested checks tests of whole categories, of the release of TestCategoriesFromEndToEnd. It ends with a release of some levels.
func (w *world) categoriesAreTested(release string) {
	w.Helper()
	const test = `SELECT t::text FROM dp_test($1, $2::text::text[]) t`
	same := func(release, terms, levels string) {
		w.Helper()
		const positions = `SELECT dp_int.positions(r, $2::text::text[])::text FROM dp_int.release r WHERE id = $1::uuid`
		if got, want := one[string](w, w.super, positions, release, terms), one[string](w, w.super, positions, release, levels); got != want {
			w.Errorf("the test of %s is of %s, that of its levels of %s", terms, got, want)
		}
	}
	same(release, `{region}`, `{region=south,region=east,region=*}`)
	if got, want := one[string](w, w.analyst, test, release, `{region}`), one[string](w, w.analyst, test, release, `{region=south,region=east,region=*}`); got != want {
		w.Errorf("the test of region is %s, that of its levels %s", got, want)
	}
	same(release, `{age,size,region}`, `{age,size=medium,size=large,region=south,region=east,region=*}`)
	for terms, says := range map[string]string{
		`{region,region=east}`:    "each once",
		`{insured}`:               `"insured"`,
		`{paid,region}`:           `A category stands for all of its levels: region, size.`,
		`{region=north,size}`:     `"region=north"`,
		`{"region=south:region"}`: `"region=south:region"`,
	} {
		_, err := w.analyst.Exec(context.Background(), test, release, terms)
		w.wantError(err, map[bool]string{true: "22023", false: "42703"}[says == "each once"], says)
	}
	w.exec(w.analyst, `SELECT dp_linear_regress($1, 20, features => '{age,region}', where_level => '{"region": ["south", "east", "*"]}')`, w.dataset)
	same(one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset), `{region}`, `{region=east,region=*}`)
	w.exec(w.analyst, `SELECT dp_linear_regress_by($1, 'region', 20, features => '{age,size}', where_level => '{"region": ["north", "south"]}')`, w.dataset)
	same(one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset), `{region=north:size,region=south:age}`, `{region=north:size=medium,region=north:size=large,region=south:age}`)
}

// scored scores a release and returns it. At eps 10 noise alone looks like a far tail in one of a thousand scores, which have no r2 then;
// at this eps it does not.
func (w *world) scored(release string) string {
	w.Helper()
	w.exec(w.analyst, `SELECT * FROM dp_score($1::uuid, 300)`, release)
	return release
}

// A column that is named twice is told as such, with categories too.
func TestAColumnNamedTwiceBesideCategories(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(10)
	for _, features := range []string{"{paid,age,region}", "{age,region,region}"} {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register('twice', $1::text::regclass, 'paid', $2, 1, categories => '{"region": ["north", "south"]}')`, "public."+w.dataset, features)
		w.wantError(err, "22023", "stands twice among target and features")
	}
}

func TestBadCategoriesAreExplained(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(10)
	many := func(n int) string {
		levels := make([]string, n)
		for i := range levels {
			levels[i] = fmt.Sprintf(`"l%d"`, i)
		}
		return "[" + strings.Join(levels, ", ") + "]"
	}
	w.exec(w.super, fmt.Sprintf(`CREATE COLLATION IF NOT EXISTS public.no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		ALTER TABLE public.%s ADD "region=south" float8, ADD folded text COLLATE public.no_case, ADD born date`, w.dataset))
	for _, c := range []struct{ categories, code, says string }{
		{`[]`, "22023", "JSON object"},
		{`{"nothing": ["a", "b"]}`, "42703", "no column"},
		{`{"born": ["a", "b"]}`, "22023", "cannot be a category"},
		{`{"folded": ["a", "b"]}`, "22023", "nondeterministic"},
		{`{"region": "enum"}`, "22023", "must be a list"},
		{`{"region": {"a": 1}}`, "22023", "must be a list"},
		{`{"region": [null, "a"]}`, "22023", "must be a list"},
		{`{"region": ["a", ["b"]]}`, "22023", "must be a list"},
		{`{"region": ["a", "a"]}`, "22023", "twice"},
		{`{"letter": ["a", "a "]}`, "22023", "twice"},
		{`{"region": ["*", "*"]}`, "22023", "twice"},
		{`{"region": ["a"]}`, "22023", "2 to 256"},
		{`{"region": []}`, "22023", "2 to 256"},
		{`{"region": ` + many(257) + `}`, "22023", "2 to 256"},
		{`{"region": ` + many(256) + `, "place": ` + many(256) + `, "letter": ` + many(256) + `, "outcome": ` + many(256) + `}`, "22023", "may have 1000"},
		{`{"region": ["a", "` + strings.Repeat("b", 201) + `"]}`, "22023", "200 bytes"},
		{`{"size": ["small", "huge"]}`, "22023", "small, medium, large"},
		{`{"insured": ["yes", "no"]}`, "22023", "true and false"},
		{`{"code": ["01", "2"]}`, "22023", "whole numbers"},
		{`{"code": [1, 40000]}`, "22023", "whole numbers"},
		{`{"code": [1, 2.5]}`, "22023", "whole numbers"},
		{`{"age": [1, 2]}`, "22023", "cannot be a category"},
	} {
		w.wantError(w.registerCategories(c.categories), c.code, c.says)
	}
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register('x', $1::text::regclass, 'paid', '{region,"region=south"}', 1, categories => $2)`, "public."+w.dataset, everyCategory)
	w.wantError(err, "22023", "two coefficients")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_register('x', $1::text::regclass, 'paid', '{region}', 1, scales => '{"region": 2}', categories => $2)`, "public."+w.dataset, everyCategory)
	w.wantError(err, "22023", "is a category")
	w.wantError(w.registerCategories(`{}`), "22023", "categories =>")
}

// The target of a logistic regression may be one of two levels: they are named as they are.
func TestACategoryIsALabel(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(20000)
	if err := w.registerCategories(everyCategory); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	ask := `SELECT * FROM dp_logistic_regress($1, 20, target => 'outcome', features => '{region}', options => $2)`
	_, err := regress(w.analyst, ask, w.dataset, `{}`)
	w.wantError(err, "22023", `{"outcome": ["lost", "won"]}`)
	for options, says := range map[string]string{
		`{"positive_label": "won", "negative_label": "drawn"}`: "must be a level",
		`{"positive_label": 1, "negative_label": 0}`:           "must be a level",
		`{"positive_label": "won", "negative_label": "won"}`:   "both labels",
	} {
		_, err := regress(w.analyst, ask, w.dataset, options)
		w.wantError(err, "22023", says)
	}
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 20, target => 'outcome', features => '{region}')`, w.dataset)
	w.wantError(err, "22023", "is a category")
	if w.entries() != 0 {
		t.Fatalf("%d entries", w.entries())
	}
	// A boolean category has the labels that a boolean has.
	for options, same := range map[string]string{`{}`: `{"negative_label": "false", "positive_label": "true"}`, `{"negative_label": true, "positive_label": false}`: `{"negative_label": "true", "positive_label": "false"}`} {
		for _, o := range []string{options, same} {
			w.exec(w.analyst, `SELECT dp_explain('logistic', $1, 1, target => 'insured', features => '{age}', options => $2)`, w.dataset, o)
		}
		if n := one[int](w, w.super, `SELECT count(DISTINCT (dp_int.prepare($1, 'logistic', $2, 1, NULL, 'insured', '{age}', true, o::jsonb)).hash) FROM unnest($3::text[]) AS o`, w.person, w.dataset, []string{options, same}); n != 1 {
			t.Errorf("%s is another request than %s", options, same)
		}
	}
	w.exec(w.steward, `SELECT dp_set_labels($1, '{"insured": [true, false]}')`, w.dataset)
	categories := one[string](w, w.steward, `SELECT categories::text FROM dp.datasets WHERE dataset = $1`, w.dataset)
	for _, c := range []struct{ removed, want string }{{"insured", `[1, 0]`}, {"", `["true", "false"]`}} {
		w.exec(w.steward, `SELECT dp_set_categories($1, $2::jsonb - $3)`, w.dataset, categories, c.removed)
		if got := one[string](w, w.super, `SELECT labels ->> 'insured' FROM dp_int.dataset WHERE name = $1`, w.dataset); got != c.want {
			t.Errorf("labels of a boolean, not a category: %q: %s, want %s", c.removed, got, c.want)
		}
	}
	w.exec(w.steward, `SELECT dp_set_labels($1, '{}')`, w.dataset)
	// One that lacks a level has none by itself.
	w.exec(w.steward, `SELECT dp_set_categories($1, jsonb_set($2, '{insured}', '["true", "*"]'))`, w.dataset, categories)
	_, err = regress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 20, target => 'insured', features => '{age}')`, w.dataset)
	w.wantError(err, "22023", `the labels of target "insured" are not known`)
	w.exec(w.steward, `SELECT dp_set_categories($1, $2)`, w.dataset, categories)
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"insured": null}')`, w.dataset) // none to take away
	out := w.mustRegress(w.analyst, ask, w.dataset, `{"positive_label": "won", "negative_label": "lost"}`)
	for i, want := range []float64{-1, 2, 4, 1} { // log-odds 2 effect - 1; far more than 6 deviations of noise and sampling are allowed
		if math.Abs(out[i].Coef-want) > 0.8 {
			t.Errorf("%v, want %v", out[i], want)
		}
	}
	w.exec(w.steward, `SELECT dp_set_labels($1, '{"outcome": ["lost", "won"]}')`, w.dataset)
	if again := w.mustRegress(w.analyst, ask, w.dataset, `{}`); again[1] != out[1] || w.entries() != 1 {
		t.Errorf("declared labels are not the options: %v and %v, %d entries", again, out, w.entries())
	}
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	if p := one[float64](w, w.analyst, `SELECT dp_predict($1::uuid, '{"region": "east"}'::jsonb)`, release); p < 0.8 || p > 0.99 {
		t.Errorf("the probability in the east is %v", p)
	}
	if label := one[string](w, w.analyst, `SELECT parameters ->> 'positive_label' FROM dp.releases WHERE id = $1::uuid`, release); label != "won" {
		t.Errorf("the release names label %q", label)
	}
	if a := one[float64](w, w.analyst, `SELECT value FROM dp.scores WHERE release = $1::uuid AND metric = 'accuracy'`, w.scored(release)); a < 0.7 {
		t.Errorf("accuracy %v", a)
	}
}

// Levels are fixed with the first charge; every request has its own copy of them.
func TestCategoriesAreFixedByTheFirstCharge(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(1000)
	if err := w.registerCategories(everyCategory); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	fewer := `{"region": ["north", "*"], "size": "enum", "outcome": ["lost", "won"]}`
	steward, heard := w.hearingHints("steward")
	w.exec(steward, `SELECT dp_set_categories($1, $2)`, w.dataset, fewer)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, `replaces all categories; no longer one: "code", "insured" HINT: If that is not meant: SELECT dp_set_categories('`+w.dataset+`', '{"code": ["0", "1", "2"], "size":`) {
		t.Errorf("two are left out: %q", said)
	}
	const noRegion = `{"size": "enum", "outcome": ["won", "lost"]}`
	_, err := w.steward.Exec(context.Background(), `SELECT dp_set_categories($1, $2)`, w.dataset, noRegion)
	w.wantError(err, "22023", `replaces all categories: "region" is left out, and without levels no model can use it`)
	statement := regexp.MustCompile(`SELECT dp_set_categories.*;`).FindString(hint(err))
	w.exec(w.steward, statement)
	if got := one[bool](w, w.analyst, `SELECT categories -> 'region' = '["north", "*"]' AND categories -> 'outcome' = '["won", "lost"]' FROM dp.datasets WHERE dataset = $1`, w.dataset); !got {
		t.Errorf("%s is not what it says", statement)
	}
	if got := one[string](w, w.analyst, `SELECT categories #>> '{size,1}' FROM dp.datasets WHERE dataset = $1`, w.dataset); got != "medium" {
		t.Errorf("dp.datasets shows %q", got)
	}
	out := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, features => '{region}')`, w.dataset)
	if len(out) != 2 || out[1].Term != "region=*" {
		t.Errorf("%v", out)
	}
	for _, categories := range []string{everyCategory, noRegion} {
		_, err = w.steward.Exec(context.Background(), `SELECT dp_set_categories($1, $2)`, w.dataset, categories)
		w.wantError(err, "55000", "fixed since its first charge")
	}
	_, err = w.analyst.Exec(context.Background(), `SELECT dp_set_categories($1, $2)`, w.dataset, everyCategory)
	w.wantError(err, "42501", "dp_set_categories")
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
	// Who changes them behind the ledger's back is found.
	w.exec(w.super, `UPDATE dp_int.dataset SET categories = '{}' WHERE name = $1`, w.dataset)
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) != 1 || !strings.Contains(bad[0], "levels of every category") {
		t.Errorf("dp_verify finds %q", bad)
	}
	w.exec(w.super, `UPDATE dp_int.dataset SET categories = $2 WHERE name = $1`, w.dataset, `{"region": ["north", "*"], "size": ["small", "medium", "large"], "outcome": ["won", "lost"]}`)
	// A label that was renamed is another level: the data set is not what was registered.
	w.exec(w.super, fmt.Sprintf(`ALTER TYPE public.%s_size RENAME VALUE 'large' TO 'huge'`, strings.TrimSuffix(w.dataset, "_c")))
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, features => '{size}')`, w.dataset)
	w.wantError(err, "DP004", "cannot have the level")
}

// dp_explain counts a coefficient for every level but the first, and asks for no scale of a category.
func TestExplainCountsLevels(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(1000)
	if err := w.registerCategories(everyCategory); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	explained := `SELECT count(*)::int FROM dp_explain('linear', $1, 1, features => '{region,size}') WHERE property = $2`
	if n := one[int](w, w.analyst, `SELECT value::int FROM dp_explain('linear', $1, 1, features => '{region,size}') WHERE property = 'coefficients'`, w.dataset); n != 6 {
		t.Errorf("%d coefficients", n)
	}
	if n := one[int](w, w.analyst, explained, w.dataset, "noise_at_scales:region=east"); n != 1 {
		t.Errorf("%d lines for a level", n)
	}
}

// What a row of no level says is nothing, in every model, and one that is of "*" counts.
func TestCategoriesServeEveryModel(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(20000)
	if err := w.registerCategories(everyCategory); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	terms := []string{"(intercept)", "age", "region=south", "region=east", "region=*"}
	for _, call := range []string{
		`dp_l1_regress($1, 20, features => '{age,region}')`,
		`dp_huber_regress($1, 20, features => '{age,region}')`,
		`dp_linear_regress($1, 20, features => '{age,region}', penalty => 'group_l1', lambda => 0.0001, options => '{"groups": [["region"], ["age"]]}')`,
	} {
		out := w.mustRegress(w.analyst, `SELECT * FROM `+call, w.dataset)
		var names []string
		for _, c := range out {
			names = append(names, c.Term)
		}
		if !slices.Equal(names, terms) || math.Abs(out[3].Coef-20) > 4 || math.Abs(out[2].Coef-10) > 4 || math.Abs(out[4].Coef-5) > 4 {
			t.Errorf("%s: %v", call, out)
		}
	}
}

// The page on categories runs as it tells.
func TestThePageOnCategoriesRuns(t *testing.T) {
	w, people := runPageWithIntervals(t, "how-to/categories.md")
	// Six of the deviations that its noise and sampling have at this budget, and more.
	for term, truth := range map[string]float64{"age": 6, "region=south": 150, "region=east": 300, "kind=surgery": 900, "kind=intensive": 2500} {
		if coef := one[float64](w, people["analyst"], `SELECT coef FROM dp.coefficients c JOIN dp.releases r ON r.id = c.release WHERE r.dataset = 'visits' AND r.model = 'linear' AND c.term = $1 ORDER BY r.released_at LIMIT 1`, term); math.Abs(coef-truth) > 100 {
			t.Errorf("%s is %v, not %v", term, coef, truth)
		}
	}
}

// A request may be about some levels: other rows say nothing, and their number stays.
func TestWhereLevel(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(20000)
	if err := w.registerCategories(`{"region": ["north", "south", "east", "*"], "size": "enum", "code": [0, 1, 2], "letter": ["n", "s", "*"], "outcome": ["lost", "won"]}`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	same := []string{
		`SELECT * FROM dp_linear_regress($1, 20, features => '{age,size}', where_level => '{"region": ["east", "south"]}')`,
		`SELECT * FROM dp_linear_regress($1, 20, features => '{age,size}', options => '{"where_level": {"region": ["south", "east", "south"]}}')`,
		`SELECT r.* FROM dp_submit('linear', $1, 20, features => '{age,size}', where_level => '{"region": ["south", "east"]}') j, dp_result(j) r`,
	}
	out := w.mustRegress(w.analyst, same[0], w.dataset)
	// Half of these rows have 30, half 40, less what codes take; with the others it would be 28. Residuals of 5 in 9,600 rows give the intercept, 45 years from their middle, a deviation of .16.
	if math.Abs(out[0].Coef-34.4) > 1.4 || math.Abs(out[3].Coef-4) > 0.5 {
		t.Errorf("of two levels: %v", out)
	}
	for _, again := range same[1:] {
		if got := w.mustRegress(w.analyst, again, w.dataset); got[0] != out[0] || w.entries() != 1 {
			t.Errorf("%s is another request: %v, %d entries", again, got, w.entries())
		}
	}
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	if r2 := one[float64](w, w.analyst, `SELECT value FROM dp.scores WHERE release = $1::uuid AND metric = 'root_mean_squared_error'`, w.scored(release)); r2 > 5.6 {
		t.Errorf("scored on other rows: the error is %v", r2) // 5.1 in these rows, 7.5 in all
	}
	// Of a feature the levels that count remain, "*" means what it did, and the first is the reference.
	out = w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 20, features => '{age,region}', where_level => '{"region": ["south", "*"]}')`, w.dataset)
	if len(out) != 3 || out[2].Term != "region=*" || math.Abs(out[2].Coef+5) > 0.8 || math.Abs(out[0].Coef-30.8) > 0.8 {
		t.Errorf("a feature of two levels: %v", out)
	}
	release = one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	for features, known := range map[string]bool{`{"age": 40, "region": "south"}`: true, `{"age": 40, "region": "atlantis"}`: true, `{"age": 40, "region": "north"}`: false} {
		if one[bool](w, w.analyst, `SELECT dp_predict($1::uuid, $2::jsonb) IS NOT NULL`, release, features) != known {
			t.Errorf("%s: a prediction is wrong", features)
		}
	}
	// In all models; a category that is neither target nor feature filters too, and so do two.
	for _, call := range []string{
		`dp_l1_regress($1, 20, features => '{age}', where_level => '{"letter": ["s"]}')`,
		`dp_huber_regress($1, 20, features => '{age}', where_level => '{"letter": ["s"], "size": ["small", "medium"]}')`,
	} {
		if out := w.mustRegress(w.analyst, `SELECT * FROM `+call, w.dataset); math.Abs(out[0].Coef-30) > 3 {
			t.Errorf("%s: %v", call, out)
		}
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 5, target => 'outcome', features => '{age}', where_level => '{"region": ["east"]}', options => '{"negative_label": "lost", "positive_label": "won"}')`, w.dataset)
	w.exec(w.analyst, `CALL dp_run('linear', $1, 20, features => '{age,size}', where_level => '{"region": ["east", "south"]}')`, w.dataset)
	conn, heard := w.hearingHints(w.person)
	w.exec(conn, `SELECT * FROM dp_logistic_regress($1, 0.3, target => 'insured', features => '{age}', where_level => '{"region": ["east"]}')`, w.dataset)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "Only rows with the levels of where_level count") {
		t.Errorf("heard %q", said)
	}
	if said := one[string](w, w.analyst, `SELECT value FROM dp_explain('linear', $1, 1, features => '{age}', where_level => '{"region": ["east"]}') WHERE property = 'where_level'`, w.dataset); !strings.Contains(said, `{"region":["east"]}`) {
		t.Errorf("dp_explain says %s", said)
	}
	entries := w.entries()
	for _, c := range []struct{ where, code, says string }{
		{`[]`, "22023", "JSON object"},
		{`{"age": [1]}`, "42703", "Categories are code, letter, outcome, region, size"},
		{`{"nothing": ["a"]}`, "42703", "no category"},
		{`{"insured": [true]}`, "42703", `categories => '{"code": ["0", "1", "2"], "size": ["small", "medium", "large"], "letter": ["n", "s", "*"], "region": ["north", "south", "east", "*"], "insured": ["false", "true"], "outcome": ["lost", "won"]}'`},
		{`{"region": "south"}`, "22023", "list of levels"},
		{`{"size": "small"}`, "22023", `For instance {"size": ["small"]}.`},
		{`{"size": "tiny"}`, "22023", `For instance {"size": ["`},
		{`{"region": []}`, "22023", "list of levels"},
		{`{"region": ["south", "soutth"]}`, "22023", `no level "soutth"`},
		{`{"region": [null]}`, "22023", "no level null"},
		{`{"region": [["south"]]}`, "22023", "no level"},
		{`{"size": ["small"]}`, "22023", "Name the other features: features => '{age}'."},
	} {
		for _, call := range []string{`SELECT * FROM dp_linear_regress($1, 1, features => '{age,size}', where_level => $2)`, `SELECT dp_submit('linear', $1, 1, features => '{age,size}', where_level => $2)`,
			`SELECT * FROM dp_explain('linear', $1, 1, features => '{age,size}', where_level => $2)`} {
			_, err := w.analyst.Exec(context.Background(), call, w.dataset, c.where)
			w.wantError(err, c.code, c.says)
			w.wantError(err, c.code, "No privacy budget was spent")
		}
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress($1, 1, where_level => '{"region": ["south"]}', options => '{"where_level": {"region": ["east"]}}')`, w.dataset)
	w.wantError(err, "22023", "given twice")
	_, err = w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress($1, 1, features => '{region,age,size}', where_level => '{"region": ["south"], "size": ["small"]}')`, w.dataset)
	w.wantError(err, "22023", "each of the features region, size one level")
	w.wantError(err, "22023", "features => '{age}'")
	if w.entries() != entries {
		t.Errorf("%d entries, %d before", w.entries(), entries)
	}
	// The view with the filter is refused, and told of this.
	view := w.dataset + "_south"
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%s AS SELECT * FROM public.%s WHERE region = 'south'; GRANT SELECT ON public.%[1]s TO dp_sidecar`, view, w.dataset))
	_, err = w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'paid', '{age}', 1)`, view, "public."+view)
	w.wantError(err, "22023", `where_level => '{"region": ["south"]}'`)
}

// Categories hold through views and partitions, as other features do.
func TestCategoriesThroughViewsAndPartitions(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.categorised(2000)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_parts (LIKE public.%[1]s) PARTITION BY LIST (code);
		CREATE TABLE public.%[1]s_part0 PARTITION OF public.%[1]s_parts FOR VALUES IN (0);
		CREATE TABLE public.%[1]s_part1 PARTITION OF public.%[1]s_parts DEFAULT;
		INSERT INTO public.%[1]s_parts SELECT * FROM public.%[1]s;
		CREATE VIEW public.%[1]s_view AS SELECT paid, age, place AS lives_in, code AS coded, outcome FROM public.%[1]s_parts;
		GRANT SELECT ON public.%[1]s_parts, public.%[1]s_view TO dp_sidecar`, w.dataset))
	for relation, columns := range map[string][2]string{"_parts": {"place", "code"}, "_view": {"lives_in", "coded"}} {
		name := w.dataset + relation
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'paid', ARRAY['age', $3]::name[], 50, 1e-5, scales => '{"paid": 30, "age": 50}',
			categories => jsonb_build_object($3::text, '["north", "south", "*"]'::jsonb, $4::text, '[0, 1, 2]'::jsonb))`, name, "public."+name, columns[0], columns[1])
		if err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		out := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 20, where_level => jsonb_build_object($2::text, '[0, 1]'::jsonb))`, name, columns[1])
		if len(out) != 4 || out[2].Term != columns[0]+"=south" || math.Abs(out[2].Coef-10) > 2 {
			t.Errorf("%s: %v", relation, out)
		}
	}
}

// What waits while a steward changes the levels of its columns is refused; what asks about other columns is not.
func TestAQueuedJobHasTheCategoriesOfToday(t *testing.T) {
	w := lonelyWorld(t, 1, 0)
	w.categorised(2000)
	if err := w.registerCategories(`{"region": ["north", "*"], "size": "enum", "outcome": ["lost", "won"]}`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	submit := func(call string) string { return one[string](w, w.analyst, `SELECT `+call+`::text`, w.dataset) }
	outdated := []string{
		submit(`dp_submit('linear', $1, 1, features => '{age,region}')`),
		submit(`dp_submit('linear', $1, 1, features => '{age,code}')`),
		submit(`dp_submit('linear', $1, 1, features => '{age}', options => '{"where_level": {"region": ["north"]}}')`),
		submit(`dp_submit('linear', $1, 1, features => '{age}', options => '{"by": "region"}')`),
		submit(`dp_submit('describe', $1, 1, target => 'region')`),
	}
	kept := []string{
		submit(`dp_submit('linear', $1, 1, features => '{age,size}')`),
		submit(`dp_submit('linear', $1, 1, features => '{age}', options => '{"by": "insured"}')`),
		submit(`dp_submit('moments', $1, 1, features => '{paid,age}')`),
	}
	w.exec(w.steward, `SELECT dp_set_categories($1, '{"region": ["north", "south", "*"], "size": "enum", "outcome": ["lost", "won"], "code": [0, 1, 2]}')`, w.dataset)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("all jobs have ended", func() bool {
		return one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1 AND j.finished_at IS NULL`, w.dataset) == 0
	})
	for _, job := range outdated {
		if got := one[string](w, w.super, `SELECT concat_ws(' ', sqlstate, message, hint) FROM dp_int.job WHERE id = $1`, job); !strings.Contains(got, "DP004 the categories") || !strings.Contains(got, "No privacy budget was spent") {
			t.Errorf("a job under levels that are no longer declared: %s", got)
		}
	}
	for _, job := range kept {
		if state := w.jobState(job); state != "done" {
			t.Errorf("a job whose levels stayed is %s: %s", state, one[string](w, w.super, `SELECT concat_ws(' ', sqlstate, message, hint) FROM dp_int.job WHERE id = $1`, job))
		}
	}
	if charges := one[int](w, w.super, `SELECT count(charge)::int FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1`, w.dataset); charges != len(kept) {
		t.Errorf("%d jobs were charged", charges)
	}
}
