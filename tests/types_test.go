package tests

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// hinted are the statements that the hint of a refused type names: those of the owner, and
// those of the steward.
var hinted = regexp.MustCompile(`(CREATE VIEW .*? TO dp_sidecar;)|(SELECT dp_register\(.*?\);)`)

// named are the levels that a steward names in place of those of hints.
var named = strings.NewReplacer("<level>", "a level", "<negative value>", "stays", "<positive value>", "leaves")

// follow runs what the hint of a refused registration names, and returns how many statements
// of each person there were. Statements with levels that the steward is to name are refused until he has named them.
func (w *world) follow(hint string) (owner, steward int) {
	w.Helper()
	for _, m := range hinted.FindAllStringSubmatch(hint, -1) {
		conn := w.steward
		if m[1] != "" {
			conn, owner = w.super, owner+1
		} else {
			steward++
		}
		statement := named.Replace(m[0])
		if statement != m[0] {
			_, err := conn.PgConn().Exec(context.Background(), m[0]).ReadAll()
			w.wantError(err, "22023", "leaves its levels to you")
		}
		if _, err := conn.PgConn().Exec(context.Background(), statement).ReadAll(); err != nil {
			w.Errorf("%s: %v", statement, err)
		}
	}
	return owner, steward
}

// Every type that a column can have is one that a model can use, or it is refused with
// statements that show what one can use and register it, or with a way to say it otherwise.
func TestEveryTypeCanBeRegisteredOrIsRefusedWithAWayOut(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, fmt.Sprintf(`
		CREATE SCHEMA "%[1]s types"; GRANT USAGE ON SCHEMA "%[1]s types" TO public; SET search_path = "%[1]s types";
		CREATE TYPE size AS ENUM ('small', 'large'); CREATE TYPE place AS (zip varchar, "Spot" point); CREATE DOMAIN price AS money;
		CREATE TYPE hours AS RANGE (subtype = time); CREATE DOMAIN prices AS price[]; CREATE TYPE letters AS RANGE (subtype = text); RESET search_path`, w.dataset))
	types := all[string](w, w.super, `SELECT format_type(oid, NULL) FROM pg_type
		WHERE typtype IN ('b', 'r', 'm', 'e', 'd', 'c') AND typnamespace IN ('pg_catalog'::regnamespace, to_regnamespace($1)) AND NOT EXISTS (
		  SELECT FROM pg_class c JOIN pg_type row ON row.oid = c.reltype  -- tables of the system, of which some have columns of types that no other can
		   WHERE c.relkind <> 'c' AND pg_type.oid IN (row.oid, row.typarray)) AND typelem <> 'cstring'::regtype
		ORDER BY oid`, fmt.Sprintf(`"%s types"`, w.dataset))
	general := 0
	for i, name := range types {
		table, dataset := fmt.Sprintf(`"%s types"."T %d"`, w.dataset, i), fmt.Sprintf("it's %s %d", w.dataset, i)
		if _, err := w.super.Exec(context.Background(), fmt.Sprintf(`CREATE TABLE %[1]s (y float8, "X" %[2]s, z int); GRANT SELECT ON %[1]s TO dp_sidecar`, table, name)); err != nil {
			t.Errorf("no table has a column of type %s: %v", name, err)
			continue
		}
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'y', '{X,z}', 1, 1e-6, scales => '{"y": 3, "z": 4}')`, dataset, table)
		if err == nil {
			continue
		}
		w.wantError(err, "22023", "which no model can use")
		if !strings.Contains(hint(err), "dp_register(") {
			general++
			if !strings.Contains(hint(err), "ALTER TABLE "+table) {
				t.Errorf("%s: %s", name, hint(err))
			}
			if name == "json" {
				w.exec(w.super, fmt.Sprintf(`ALTER TABLE %s ALTER COLUMN "X" TYPE jsonb`, table))
			}
			continue
		}
		if _, steward := w.follow(strings.Split(hint(err), "If it is text of numbers")[0]); steward != 1 {
			t.Errorf("%s: %s", name, hint(err))
		}
		_, err = w.steward.Exec(context.Background(), `SELECT dp_unregister($1)`, dataset)
		if err != nil {
			t.Errorf("%s is not registered: %v", name, err)
		}
		if _, numbers, ok := strings.Cut(hint(err), "If it is text of numbers"); ok {
			w.follow(numbers)
		}
	}
	if general > 20 || len(types) < 100 {
		t.Errorf("of %d types %d have no view that serves", len(types), general)
	}
}

// The hint for columns of text says whose levels are to be named, for every statement of it, and a value that a hint has in place
// of a level is one where it is a label of an enum, whose labels are known.
func TestHintsOfTextSayWhatToNameInPlaceOfLevels(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := "public." + w.dataset + "_t"
	w.exec(w.super, fmt.Sprintf(`CREATE TYPE public.%[2]s_e AS ENUM ('<level>', 'b'); CREATE TABLE %[1]s (y float8, region text, ward text, stay money, kind public.%[2]s_e); GRANT SELECT ON %[1]s TO dp_sidecar`, table, w.dataset))
	const level, two = ` In place of "<level>" name the levels that there are, from public knowledge`, ` In place of "<negative value>" and "<positive value>" name the two values, from public knowledge`
	for _, c := range []struct {
		target, features string
		says             []string
	}{
		{"y", "{region}", []string{level}}, {"y", "{stay,region}", []string{level}}, {"region", "{y}", []string{two}}, {"region", "{y,ward}", []string{level, two}}, {"y", "{stay}", nil},
	} {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register('x', $1::text::regclass, $2, $3, 1)`, table, c.target, c.features)
		w.wantError(err, "22023", "which no model can use")
		for _, sentence := range []string{level, two} {
			if strings.Contains(hint(err), sentence) != slices.Contains(c.says, sentence) {
				t.Errorf("%s of %s: %s", c.target, c.features, hint(err))
			}
		}
	}
	w.exec(w.steward, `SELECT dp_register('e_' || $1, $2::text::regclass, 'y', '{kind}', 1, categories => '{"kind": "enum"}')`, w.dataset, table)
	_, err := w.steward.Exec(context.Background(), `SELECT dp_set_categories('e_' || $1, '{"kind": "enum", "region": ["north", "<level>"]}')`, w.dataset)
	w.wantError(err, "22023", `category "region" has "<level>"`)
}

// Columns of the view in a hint have names of their own: where parts of a column would be called like another column, or names that
// are cut alike.
func TestTheViewOfAHintHasNamesOfItsOwn(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := w.dataset + "_named"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (y float8, sc int[], sc_1 int, "time in hospital before the first operation of this patient" interval, "time in hospital before the second operation of a patient" int[],
		"time in hospital before the third operation of the patient" int[]); GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	for k, features := range []string{"sc,sc_1", "sc_1,sc", `"time in hospital before the first operation of this patient","time in hospital before the second operation of a patient","time in hospital before the third operation of the patient"`} {
		name := fmt.Sprintf("%s_%d", table, k)
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'y', $3::text::name[], 1)`, name, "public."+table, "{"+features+"}")
		w.wantError(err, "22023", "which no model can use")
		if owner, steward := w.follow(hint(err)); owner != 1 || steward != 1 {
			t.Error(hint(err))
		}
		w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	}
}

// A target of text has two labels, not levels with a remainder: the hint names their places, or the labels that the call has.
func TestTheHintOfATargetOfTextNamesTwoLabels(t *testing.T) {
	w := newWorld(t, 10, 1e-5)
	table := w.dataset + "_churn"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT CASE i %% 2 WHEN 0 THEN 'stays' ELSE 'leaves' END AS churn, i AS age FROM generate_series(1, 100) i; GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	for k, labels := range []string{`{}`, `{"churn": ["stays", "leaves"]}`} {
		name := fmt.Sprintf("%s_%d", table, k)
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'churn', '{age}', 10, 1e-5, labels => $3)`, name, "public."+table, labels)
		w.wantError(err, "22023", "which no model can use")
		category := strings.Split(hint(err), "If it is text of numbers")[0]
		if !strings.Contains(category, "name both, the negative one first") || strings.Contains(category, "*") || strings.Contains(category, "<level>") || strings.Contains(category, "<negative value>") == strings.Contains(labels, "churn") {
			t.Errorf("%s: %s", labels, category)
		}
		if _, steward := w.follow(category); steward != 1 {
			t.Errorf("%s: %s", labels, category)
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		said := w.explain(w.analyst, `SELECT * FROM dp_explain('logistic', $1, 5)`, name)
		if got := one[string](w, w.steward, `SELECT concat(labels -> 'churn' ->> 0, ', ', labels -> 'churn' ->> 1) FROM dp.datasets WHERE dataset = $1`, name); got != "stays, leaves" || said["possible"] != "yes" {
			t.Errorf("%s: the labels are %s, %v", labels, got, said)
		}
	}
}

// The expressions of those views raise no error, whatever the values are: the job reads the
// extremes of each type and has its release.
func TestWhatHintsShowRaisesNoError(t *testing.T) {
	w := newWorld(t, 100, 0)
	for name, c := range map[string]struct {
		kind   string
		values []string // besides NULL
	}{
		"money":      {"money", []string{"-92233720368547758.08", "92233720368547758.07"}},
		"interval":   {"interval", []string{"178000000 years", "-178000000 years", "178000000 years 2147483647 days 2147483647:59:59.999999", "-178000000 years -2147483648 days"}},
		"time":       {"time", []string{"00:00", "24:00"}},
		"timetz":     {"timetz", []string{"00:00+15:59:59", "24:00-15:59:59"}},
		"numrange":   {"numrange", []string{"empty", "(,)", "[-Infinity,NaN]", "[1e131071,2e131071)"}},
		"daterange":  {"daterange", []string{"empty", "(,)", "[-infinity,infinity]", "[4713-01-01 BC,5874897-12-30]"}},
		"tsrange":    {"tsrange", []string{"empty", "(,)", "[-infinity,infinity]"}},
		"int8range":  {"int8range", []string{"empty", "[-9223372036854775808,9223372036854775806]"}},
		"multirange": {"nummultirange", []string{"{}", "{(,)}", "{[1,2],[3,4]}"}},
		"array":      {"money[]", []string{"{}", "{NULL}", "{{1,2},{3,4}}", "[5:6]={7,8}", "{-92233720368547758.08}"}},
		"texts":      {"text[]", []string{"{}", "{NULL}", "{a,b}"}},
		"point":      {"point", []string{"(Infinity,NaN)", "(1e308,-1e308)"}},
		"box":        {"box", []string{"((Infinity,-Infinity),(NaN,1e308))"}},
		"circle":     {"circle", []string{"<(1e308,NaN),Infinity>"}},
		"polygon":    {"polygon", []string{"((1e308,1e308),(-1e308,-1e308),(NaN,Infinity))"}},
		"jsonb":      {"jsonb", []string{`null`, `1`, `[]`, `{"field": "x"}`, `{"field": null}`, `{"field": 1e131071}`, `{"field": -1e-16383}`, `{"field": {}}`}},
		"uuid":       {"uuid", []string{"ffffffff-ffff-ffff-ffff-ffffffffffff"}},
		"inet":       {"inet", []string{"::1/0", "255.255.255.255"}},
		"char":       {`"char"`, []string{"", `\377`}},
		"bytea":      {"bytea", []string{"", `\x00ff`}},
		"xml":        {"xml", []string{"", "text", `<?xml version="1.0"?><a/>`}},
		"bits":       {"varbit", []string{"", strings.Repeat("1", 100000)}},
		"lsn":        {"pg_lsn", []string{"0/0", "FFFFFFFF/FFFFFFFF"}},
		"oid":        {"oid", []string{"4294967295", "0"}},
		"text":       {"text", []string{"", "1.5", "1e400", "NaN", "-", "1.", "１", "1\n", strings.Repeat("9", 100000), "\x01", "999999999.999999999"}},
		"char(9)":    {"char(9)", []string{"", "1", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, system: w.system, super: w.super, steward: w.steward, analyst: w.analyst, person: w.person, dataset: w.dataset}
			table := fmt.Sprintf(`%s "of" %s`, w.dataset, name)
			w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (y float8, x %[2]s); INSERT INTO public.%[1]s (y) SELECT i FROM generate_series(1, 100) i; GRANT SELECT ON public.%[1]s TO dp_sidecar`,
				pgx.Identifier{table}.Sanitize(), c.kind))
			for _, v := range c.values {
				w.exec(w.super, fmt.Sprintf(`INSERT INTO public.%s VALUES (1, $1::text::%s)`, pgx.Identifier{table}.Sanitize(), c.kind), v)
			}
			_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, to_regclass($2), 'y', '{x}', 10)`, table, "public."+pgx.Identifier{table}.Sanitize())
			w.wantError(err, "22023", "which no model can use")
			_, numbers, isText := strings.Cut(hint(err), "If it is text of numbers: ")
			if !isText {
				numbers = hint(err)
			}
			if owner, steward := w.follow(numbers); owner != 1 || steward != 1 {
				t.Fatal(hint(err))
			}
			w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
			w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1)`, table)
		})
	}
}

// A hint has the table's own columns and the arguments that were given, under their new
// names; what can be read as it is stays as it is.
func TestTheHintOfARefusedTypeIsComplete(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := "public." + w.dataset + "_v"
	w.exec(w.super, fmt.Sprintf(`CREATE TYPE public.%[2]s_ward AS ENUM ('day', 'night');
		CREATE TABLE %[1]s (cost money, "Age" int, region text, stay daterange, zip numeric, "Person" int, ward public.%[2]s_ward, seen boolean); GRANT SELECT ON %[1]s TO dp_sidecar`, table, w.dataset))
	for _, c := range []struct{ arguments, view, call string }{
		{`target => 'cost', features => '{Age}', epsilon => 4`,
			`SELECT cost::numeric AS cost, "Age" FROM {t};`, `target => 'cost', features => '{Age}', epsilon => 4, options => '{"total": true}');`},
		{`target => 'cost', features => '{Age,stay,region}', epsilon => 4, delta => 1e-6, scales => '{"cost": 900, "stay": 3}', categories => '{"region": ["a", "*"]}'`,
			`SELECT cost::numeric AS cost, "Age", lower(stay) AS stay_lower, upper(stay) AS stay_upper, region FROM {t};`,
			`features => '{Age,stay_lower,stay_upper,region}', epsilon => 4, categories => '{"region": ["a", "*"]}', scales => '{"cost": 900, "stay_lower": 3, "stay_upper": 3}', delta => '0.000001', options => '{"total": true}');`},
		{`target => 'Age', features => '{seen}', epsilon => 4, categories => '{"zip": ["1010", "*"]}'`,
			`SELECT "Age", seen, zip::text AS zip FROM {t};`, `features => '{seen}', epsilon => 4, categories => '{"zip": ["1010", "*"]}', options => '{"total": true}');`},
		{`target => 'stay', features => '{Age}', epsilon => 4, options => '{"new_population": "it''s"}'`,
			`SELECT lower(stay) AS stay_lower, upper(stay) AS stay_upper, "Age" FROM {t};`, `target => 'stay_lower', features => '{Age}', epsilon => 4, options => '{"total": true, "new_population": "it''s"}');`},
		{`target => 'cost', features => '{seen}', epsilon => 4, unit => 'Person', max_rows => 3`,
			`SELECT "Person", cost::numeric AS cost, seen FROM {t};`, `epsilon => 4, unit => 'Person', options => '{"total": true}', max_rows => '3');`},
		{`target => 'Age', features => '{ward}', epsilon => 4, labels => '{"Age": [0, 1]}'`, ``, `target => 'Age', features => '{ward}', epsilon => 4, categories => '{"ward": "enum"}', labels => '{"Age": [0, 1]}');`},
	} {
		_, err := w.steward.Exec(context.Background(), fmt.Sprintf(`SELECT dp_register('%s v', '%s', %s)`, w.dataset, table, c.arguments))
		if view := strings.ReplaceAll(c.view, "{t}", table); !strings.Contains(hint(err), view) || !strings.Contains(hint(err), c.call) {
			t.Errorf("%s: %v\n%s\nwant %s\n%s", c.arguments, err, hint(err), view, c.call)
			continue
		}
		w.follow(hint(err))
		w.exec(w.steward, fmt.Sprintf(`SELECT dp_unregister('%s v')`, w.dataset))
	}
}

// The page on a real table runs as it tells.
func TestThePageOnARealTableRuns(t *testing.T) {
	t.Parallel()
	w, people := newReader(t)
	w.runPage("how-to/real-table.md", people)
	// Ten of the deviations that its noise and sampling have at this budget, and more.
	for term, truth := range map[string]float64{"year": 70, "days": 800, "age": 12, "region=south": 200, "region=*": 500} {
		if coef := one[float64](w, people["analyst"], `SELECT coef FROM dp.coefficients c JOIN dp.releases r ON r.id = c.release WHERE r.dataset = 'visits' AND r.model = 'linear' AND c.term = $1
			AND EXISTS (SELECT FROM dp.coefficients o WHERE o.release = r.id AND o.term = 'region=*')`, term); math.Abs(coef-truth) > 60 {
			t.Errorf("%s is %v, not %v", term, coef, truth)
		}
	}
	if days := all[float64](w, people["analyst"], `SELECT coef FROM dp.coefficients c JOIN dp.releases r ON r.id = c.release WHERE r.dataset = 'visits' AND c.grp <> '' AND c.term = 'days'`); len(days) != 3 || slices.ContainsFunc(days, func(v float64) bool { return math.Abs(v-800) > 100 }) {
		t.Errorf("a day costs %v", days)
	}
	if age := one[float64](w, people["analyst"], `SELECT coef FROM dp.coefficients c JOIN dp.releases r ON r.id = c.release WHERE r.dataset = 'visits' AND r.model = 'poisson' AND c.term = 'age'`); math.Abs(age-0.02) > 0.01 {
		t.Errorf("a year makes %v more tests", age)
	}
}
