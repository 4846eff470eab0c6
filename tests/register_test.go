package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRegistrationRefuses(t *testing.T) {
	w := newWorld(t, 1, 0)
	fill := strings.NewReplacer("{dataset}", w.dataset, "{table}", "public."+w.dataset)
	const columns = "Its columns are amount, age, region, insured, note; capitals count."
	for _, c := range []struct{ sql, code, says string }{
		{`SELECT dp_register('', '{table}', 'amount', '{age}', 1)`, "22023", "needs a name"},
		{`SELECT dp_register('{dataset}', '{table}', 'amount', '{age}', 1)`, "42710", "registered already"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age,note}', 1)`, "22023", `column "note" has type text`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age,nothing}', 1)`, "42703", `column "nothing"`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age,age}', 1)`, "22023", "twice"},
		{`SELECT dp_register('x', '{table}', 'amount', '{amount}', 1)`, "22023", "twice"},
		{`SELECT dp_register('x', '{table}', 'amount', '{}', 1)`, "22023", "at least one feature"},
		{`SELECT dp_register('x', '{table}', NULL, '{age}', 1)`, "22023", "target"},
		{`SELECT dp_register('x', NULL, 'amount', '{age}', 1)`, "22023", "relation"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 0)`, "22023", "epsilon"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 'NaN')`, "22023", "epsilon"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 'Infinity')`, "22023", "epsilon"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 1)`, "22023", "delta"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 'NaN')`, "22023", "delta"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '{"age": 0}')`, "22023", `scale of "age"`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '{"age": "1 year"}')`, "22023", `a year around June 2021 is {"center": 1622505600, "scale": 31600000}.`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '{"region": 1}')`, "42703", `"region"`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '[]')`, "22023", "JSON object"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '{}', 'zcdp')`, "22023", "delta"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, 0, '{}', 'magic')`, "22023", "accounting"},
		{`SELECT dp_register('x', '{table}', 'amount', '{Age}', 1)`, "42703", columns},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, categories => '{"Region": ["1", "2"]}')`, "42703", columns},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, unit => 'person')`, "42703", "The unit is the column that tells persons apart. " + columns},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, block => 'day', block_width => '1 day', block_origin => '2026-01-01')`, "42703", "in which block a row is. " + columns},
		{`SELECT dp_freeze('{table}', 'Age')`, "42703", columns},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, options => '{"totl": true}')`, "22023", `unknown option "totl"`},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, options => '{"total": 1}')`, "22023", "boolean"},
		{`SELECT dp_register('x', '{table}', 'amount', '{age}', 1, options => '{"account": "nobody"}')`, "22023", "nobody"},
		{`SELECT dp_register('x', 'pg_class', 'reltuples', '{relpages}', 1)`, "42809", "cannot be registered"},
		{`SELECT dp_register('x', 'dp.budget', 'epsilon_total', '{epsilon_spent}', 1)`, "42809", "cannot be registered"},
		{`SELECT dp_set_budget('nothing', 1, 0)`, "22023", "not registered"},
		{`SELECT dp_grant('{dataset}', 'nobody_at_all')`, "42704", "does not exist"},
		{`SELECT dp_grant('{dataset}', 'analyst', -1)`, "22023", "epsilon"},
		{`SELECT dp_revoke('{dataset}', 'steward')`, "22023", "not granted"},
	} {
		_, err := w.steward.Exec(context.Background(), fill.Replace(c.sql))
		if err == nil {
			t.Errorf("%s: no error", c.sql)
			continue
		}
		w.wantError(err, c.code, c.says)
	}
}

func TestRegistrationNamesTheMissingGrant(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, fmt.Sprintf(`CREATE SCHEMA "Sch %[1]s"; CREATE TABLE "Sch %[1]s"."My Table" (y float8, x float8)`, w.dataset))
	refused := func(hints string) {
		t.Helper()
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register('odd', c.oid, 'y', '{x}', 1) FROM pg_class c WHERE relname = 'My Table' AND relnamespace = to_regnamespace($1)`,
			fmt.Sprintf(`"Sch %s"`, w.dataset))
		w.wantError(err, "42501", "may not read")
		if want := strings.ReplaceAll(hints, "{}", fmt.Sprintf(`"Sch %s"`, w.dataset)); hint(err) != want {
			t.Errorf("hint %q, want %q", hint(err), want)
		}
	}
	refused(`As the owner run: GRANT USAGE ON SCHEMA {} TO dp_sidecar; GRANT SELECT ON {}."My Table" TO dp_sidecar;`)
	w.exec(w.super, fmt.Sprintf(`GRANT USAGE ON SCHEMA "Sch %s" TO dp_sidecar`, w.dataset))
	refused(`As the owner run: GRANT SELECT ON {}."My Table" TO dp_sidecar;`)
}

// A view may be renamed columns of one relation and nothing else, unless the
// steward states that it is total.
func TestViewsMustBePlain(t *testing.T) {
	w := newWorld(t, 1, 0)
	register := func(view, options string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => $3)`, view, "public."+view, options)
		return err
	}
	for name, query := range map[string]string{
		"expression": `SELECT amount, 1 / age AS age FROM public.{table}`,
		"cast":       `SELECT amount, region::float8 AS age FROM public.{table}`,
		"filter":     `SELECT amount, age FROM public.{table} WHERE insured`,
		"join":       `SELECT a.amount, b.age FROM public.{table} a JOIN public.{table} b USING (region)`,
		"cross":      `SELECT a.amount, b.age FROM public.{table} a, public.{table} b`,
		"union":      `SELECT amount, age FROM public.{table} UNION ALL SELECT amount, age FROM public.{table}`,
		"distinct":   `SELECT DISTINCT amount, age FROM public.{table}`,
		"limit":      `SELECT amount, age FROM public.{table} LIMIT 10`,
		"aggregate":  `SELECT max(amount) AS amount, age FROM public.{table} GROUP BY age`,
		"window":     `SELECT amount, row_number() OVER () AS age FROM public.{table}`,
		"sample":     `SELECT amount, age FROM public.{table} TABLESAMPLE SYSTEM (50)`,
		"constant":   `SELECT amount, 1.0::float8 AS age FROM public.{table}`,
		"sublink":    `SELECT amount, (SELECT max(age) FROM public.{table}) AS age FROM public.{table}`,
		"values":     `SELECT 1.0::float8 AS amount, 1.0::float8 AS age`,
	} {
		view := w.dataset + "_" + name
		w.exec(w.super, `CREATE VIEW public.`+view+` AS `+strings.ReplaceAll(query, "{table}", w.dataset))
		w.exec(w.super, `GRANT SELECT ON public.`+view+` TO dp_sidecar`)
		w.wantError(register(view, `{}`), "22023", "more than show columns")
	}
	if err := register(w.dataset+"_filter", `{"total": true}`); err != nil {
		t.Errorf("declared total: %v", err)
	}
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s_plain AS SELECT q.amount, q.age FROM (SELECT * FROM public.%[1]s) q ORDER BY q.age`, w.dataset))
	w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s_plain TO dp_sidecar`, w.dataset))
	w.wantError(register(w.dataset+"_plain", `{}`), "22023", "more than show columns")
	w.exec(w.super, fmt.Sprintf(`CREATE OR REPLACE VIEW public.%[1]s_plain AS SELECT q.amount, q.age FROM (SELECT * FROM public.%[1]s) q`, w.dataset))
	if err := register(w.dataset+"_plain", `{}`); err != nil {
		t.Errorf("a plain view: %v", err)
	}
}

func TestRowLevelSecurityIsRefused(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` ENABLE ROW LEVEL SECURITY`)
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1)`, w.dataset+"_x", "public."+w.dataset)
	w.wantError(err, "22023", "row-level security")
	_, err = regress(w.analyst, ask, w.dataset, 0.5)
	w.wantError(err, "DP004", "row-level security")
	// The way out that the error names is one.
	stored := w.dataset + "_stored"
	w.exec(w.super, fmt.Sprintf(`CREATE MATERIALIZED VIEW public.%s AS SELECT amount, age FROM public.%s`, stored, w.dataset))
	w.wantError(w.register(stored, `{}`), "22023", "row-level security applies to")
	if err := w.register(stored, `{"total": true}`); err != nil {
		t.Error(err)
	}
}

// What was registered and what is read are compared under a lock, before every
// charge.
// Nothing is declared about columns of a relation that is gone, and no column has the name of a coefficient.
func TestWhatIsGoneHasNoColumns(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_i AS SELECT amount, age AS "(intercept)" FROM public.%[1]s; GRANT SELECT ON public.%[1]s_i TO dp_sidecar`, w.dataset))
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1 || '_i', ($1::text || '_i')::regclass, 'amount', ARRAY['(intercept)'], 1)`, w.dataset)
	w.wantError(err, "22023", `two coefficients would be called "(intercept)"`)
	w.exec(w.super, fmt.Sprintf(`DROP TABLE public.%[1]s_i; DROP TABLE public.%[1]s`, w.dataset))
	for _, call := range []string{`SELECT dp_set_categories($1, '{"region": ["1", "2"]}')`, `SELECT dp_set_scales($1, '{"age": 3}')`, `SELECT dp_set_labels($1, '{"region": [1, 2]}')`} {
		_, err := w.steward.Exec(context.Background(), call, w.dataset)
		w.wantError(err, "42P01", fmt.Sprintf(`the relation of data set %q, public.%[1]s, is gone`, w.dataset))
		w.wantError(err, "42P01", "dp_unregister")
	}
}

func TestAChangedRelationIsNotRead(t *testing.T) {
	for name, change := range map[string]string{
		"dropped":       `#DROP TABLE public.%[1]s`,
		"renamed":       `#ALTER TABLE public.%[1]s RENAME TO %[1]s_r`,
		"replaced":      `#ALTER TABLE public.%[1]s RENAME TO %[1]s_r; #CREATE TABLE public.%[1]s AS TABLE public.%[1]s_r; #GRANT SELECT ON public.%[1]s TO dp_sidecar`,
		"revoked":       `#REVOKE SELECT ON public.%[1]s FROM dp_sidecar`,
		"column gone":   `#ALTER TABLE public.%[1]s DROP COLUMN region`,
		"another type":  `#ALTER TABLE public.%[1]s ALTER region TYPE text`,
		"now protected": `#ALTER TABLE public.%[1]s ENABLE ROW LEVEL SECURITY`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			w.script(fmt.Sprintf(change, w.dataset))
			_, err := regress(w.analyst, ask, w.dataset, 0.5)
			w.wantError(err, "DP004", "No privacy budget was spent")
			if grant := fmt.Sprintf(`GRANT SELECT ON public.%s TO dp_sidecar; Then ask again.`, w.dataset); strings.Contains(hint(err), grant) != (name == "revoked") {
				t.Errorf("the hint: %s", hint(err))
			}
			if w.spent() != 0 || w.entries() != 0 {
				t.Errorf("spent %g in %d entries", w.spent(), w.entries())
			}
		})
	}
}

// A column that is added to a table changes nothing for its data set, nor for views of it. A view that was made
// again, or a table, is another relation: kept answers stay, new ones are refused with what to do, and whoever
// registers it again finds what was spent.
func TestARelationThatWasMadeAgain(t *testing.T) {
	w := newWorld(t, 2, 0)
	view := w.dataset + "_v"
	create := fmt.Sprintf(`CREATE VIEW public.%[1]s_v AS SELECT * FROM public.%[1]s; GRANT SELECT ON public.%[1]s_v TO dp_sidecar`, w.dataset)
	register := func(name string) {
		w.exec(w.steward, `SELECT dp_register($1, ('public.' || $1)::regclass, 'amount', '{age}', 2)`, name)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	}
	w.exec(w.super, create)
	register(view)
	w.mustRegress(w.analyst, ask, view, 0.25)
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` ADD COLUMN later int DEFAULT 7`)
	w.mustRegress(w.analyst, ask, view, 0.5)
	w.mustRegress(w.analyst, ask, w.dataset, 0.125)

	gone := []string{
		`DROP VIEW public.` + view + `; ` + create,
		fmt.Sprintf(`DROP VIEW public.%[1]s_v; CREATE TABLE public.%[1]s_too AS TABLE public.%[1]s; DROP TABLE public.%[1]s; ALTER TABLE public.%[1]s_too RENAME TO %[1]s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, w.dataset),
	}
	for i, name := range []string{view, w.dataset} {
		w.exec(w.super, gone[i])
		for _, sql := range []string{ask, `SELECT * FROM dp_explain('l1', $1, $2)`} {
			_, err := w.analyst.Exec(context.Background(), sql, name, 0.375)
			w.wantError(err, "DP004", "it was dropped, renamed or replaced")
			w.wantError(err, "DP004", "dp_register it again and dp_grant it; what was spent stays spent")
		}
		w.mustRegress(w.analyst, ask, name, []float64{0.25, 0.125}[i])
		w.exec(w.steward, `SELECT dp_unregister($1)`, name)
		register(name)
		if w.spent() != 0.875+0.0625*float64(i) {
			t.Errorf("%s: spent %g", name, w.spent())
		}
		w.mustRegress(w.analyst, ask, name, 0.0625)
	}
}

func TestAViewThatChangesItsTableIsNotRead(t *testing.T) {
	w, v := newWorld(t, 1, 0), newWorld(t, 1, 0)
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s_v AS SELECT amount, age FROM public.%[1]s; GRANT SELECT ON public.%[1]s_v TO dp_sidecar`, w.dataset))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1)`, w.dataset+"_v", "public."+w.dataset+"_v")
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_v", w.person)
	w.exec(w.super, fmt.Sprintf(`CREATE OR REPLACE VIEW public.%s_v AS SELECT amount, age FROM public.%s`, w.dataset, v.dataset))
	_, err := regress(w.analyst, ask, w.dataset+"_v", 0.5)
	w.wantError(err, "DP004", "reads relations that it did not read")
}

// A statement that a view is total is about the view as it was: who owns it, or a function in it, cannot
// make another one of it over the same table.
func TestATotalViewThatChangesIsNotRead(t *testing.T) {
	w := newWorld(t, 100, 0)
	run := func(sql string) { w.exec(w.super, strings.ReplaceAll(sql, "{}", "public."+w.dataset)) }
	const (
		below    = `CREATE OR REPLACE VIEW {}_below AS SELECT amount, age, 1 AS k FROM (SELECT p.age, p.amount FROM {} AS p UNION ALL SELECT age, amount FROM {} WHERE false) AS c(age, amount) WHERE age IS NOT NULL OR age IS NULL`
		total    = `CREATE OR REPLACE VIEW {}_total AS SELECT b.amount, {}_f(b.age) AS age FROM {}_below b JOIN (VALUES (1)) AS n(k) USING (k)`
		function = `CREATE OR REPLACE FUNCTION {}_f(x float8) RETURNS float8 IMMUTABLE BEGIN ATOMIC SELECT x / 2; END`
	)
	run(below + ";" + function + ";" + total + "; GRANT SELECT ON {}_total TO dp_sidecar; GRANT EXECUTE ON FUNCTION {}_f TO dp_sidecar")
	name := w.dataset + "_total"
	register := func() {
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => '{"total": true}')`, name, "public."+name)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	}
	eps := 0.5
	read := func() { // a request of its own each time: a kept answer reads nothing
		eps += 0.01
		w.mustRegress(w.analyst, ask, name, eps)
	}
	register()
	read()
	for _, change := range []string{
		`CREATE OR REPLACE VIEW {}_total AS SELECT b.amount, {}_f(b.age) AS age FROM {}_below b JOIN (VALUES (1), (1), (1)) AS n(k) USING (k)`,
		`CREATE OR REPLACE VIEW {}_total AS SELECT o.amount, {}_f(b.age) AS age FROM {}_below b, (SELECT amount FROM {} LIMIT 1) o`,
		`CREATE OR REPLACE VIEW {}_below AS SELECT amount, age, 1 AS k FROM {} WHERE age > 40`,
		`CREATE OR REPLACE FUNCTION {}_f(x float8) RETURNS float8 IMMUTABLE BEGIN ATOMIC SELECT 1 / x; END`,
	} {
		run(change)
		_, err := regress(w.analyst, ask, name, 0.25)
		w.wantError(err, "DP004", "stated to be total")
		run(below + ";" + function + ";" + "\n\n" + total) // undone, with other places in the text
		read()
	}
	run(`ALTER TABLE {} ADD COLUMN more int;` + below + `; ALTER TABLE {} RENAME COLUMN more TO most;` + below)
	read()
	run(`ALTER TABLE {} RENAME COLUMN age TO years; ALTER VIEW {}_below RENAME COLUMN age TO years`)
	read()
	run(`CREATE OR REPLACE VIEW {}_total AS SELECT amount, years AS age FROM {}_below OFFSET 0`)
	_, err := regress(w.analyst, ask, name, 0.25)
	w.wantError(err, "DP004", "stated to be total")
	w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	register()
	read()

	// A data set from before definitions were kept is given the one that it has when functions are put in place.
	w.exec(w.super, `UPDATE dp_int.dataset SET definition = NULL WHERE name = $1 AND unregistered_at IS NULL`, name)
	_, err = regress(w.analyst, ask, name, 0.2)
	w.wantError(err, "DP004", "stated to be total")
}

// Nor one of which the meaning of its expressions changes: texts of labels, names of a whole row's columns, how texts are searched, and what the
// owner of the database sets for all sessions. Each told an exact number of rows, for an epsilon of nearly 0.
func TestWhatExpressionsMeanIsHeld(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	w.exec(w.super, `CREATE TYPE diagnosis AS ENUM ('flu', 'hiv'); CREATE TEXT SEARCH CONFIGURATION searched (COPY = simple);
		CREATE TYPE place AS (keep boolean, sick boolean); CREATE DOMAIN known AS diagnosis; CREATE TEXT SEARCH DICTIONARY words (TEMPLATE = simple);
		CREATE TABLE visits (amount float8, age float8, keep boolean, sick boolean, d diagnosis, note text, at timestamptz);
		CREATE TABLE stays (amount float8, age float8, k known, p place);
		ALTER TABLE stays ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY few ON stays USING (concat('d:', k) <> 'd:cancelled');
		CREATE VIEW policed AS SELECT amount, age FROM stays;
		CREATE ROLE keeper; GRANT CREATE ON SCHEMA public TO keeper; ALTER TABLE stays OWNER TO keeper; ALTER VIEW policed OWNER TO keeper;
		CREATE VIEW domained AS SELECT amount, age FROM stays WHERE concat('d:', k) <> 'd:cancelled'; CREATE VIEW placed AS SELECT amount, age FROM visits, (SELECT p FROM (VALUES (NULL::place)) AS v(p)) AS s WHERE to_jsonb(s.p) ->> 'keep' IS NULL;
		CREATE VIEW worded AS SELECT amount, age FROM visits WHERE ts_lexize('words', note) <> '{}';
		CREATE VIEW labelled AS SELECT amount, age FROM visits WHERE concat('d:', d) <> 'd:cancelled';
		CREATE VIEW whole AS SELECT amount, age FROM visits v WHERE to_jsonb(v) ->> 'keep' = 'true';
		CREATE VIEW found AS SELECT amount, age FROM visits WHERE NOT to_tsvector('searched', note) @@ 'run';
		CREATE VIEW today AS SELECT amount, age FROM visits WHERE at::date = '2026-06-01';
		CREATE VIEW joined_row AS SELECT j.amount, j.age FROM (visits v JOIN (SELECT 1.0::float8 AS one) s ON true) AS j WHERE to_jsonb(j) ->> 'd' <> 'cancelled';
		CREATE VIEW joined AS SELECT v.amount, s.age FROM visits v JOIN visits s USING (amount)`)
	reads := func(name string) bool {
		_, err := w.super.Exec(context.Background(), `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1`, name)
		if err != nil && !strings.Contains(err.Error(), "stated to be total with has changed") {
			t.Errorf("%s: %v", name, err)
		}
		return err == nil
	}
	views := []string{"labelled", "whole", "found", "today", "policed", "domained", "placed", "worded", "joined", "joined_row"}
	for _, name := range views {
		w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON %s TO dp_sidecar`, name))
		w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, name)
	}
	for _, c := range []struct {
		does, undone string
		held         []string
	}{
		{`ALTER TYPE diagnosis RENAME VALUE 'hiv' TO 'cancelled'`, `ALTER TYPE diagnosis RENAME VALUE 'cancelled' TO 'hiv'`, []string{"labelled", "whole", "policed", "domained", "joined_row"}},
		{`ALTER TYPE place RENAME ATTRIBUTE keep TO other`, `ALTER TYPE place RENAME ATTRIBUTE other TO keep`, []string{"placed"}},
		{`ALTER TEXT SEARCH DICTIONARY words (STOPWORDS = english)`, `ALTER TEXT SEARCH DICTIONARY words (STOPWORDS)`, []string{"worded"}},
		{`ALTER DATABASE dpsidecar SET my.filter = 'run'`, `ALTER DATABASE dpsidecar RESET my.filter`, views},
		{`ALTER TABLE visits RENAME keep TO other; ALTER TABLE visits RENAME sick TO keep`, `ALTER TABLE visits RENAME keep TO sick; ALTER TABLE visits RENAME other TO keep`, []string{"whole"}},
		{`ALTER TEXT SEARCH CONFIGURATION searched ALTER MAPPING FOR asciiword WITH english_stem`, `ALTER TEXT SEARCH CONFIGURATION searched ALTER MAPPING FOR asciiword WITH simple`, []string{"found"}},
		{`ALTER DATABASE dpsidecar SET timezone = 'Asia/Tokyo'`, `ALTER DATABASE dpsidecar RESET timezone`, views},
		{`ALTER ROLE dp_sidecar SET default_text_search_config = 'simple'`, `ALTER ROLE dp_sidecar RESET default_text_search_config`, views},
		{`ALTER DATABASE dpsidecar SET work_mem = '8MB'`, `ALTER DATABASE dpsidecar RESET work_mem`, nil},
		{`ALTER DATABASE dpsidecar SET search_path = app`, `ALTER DATABASE dpsidecar RESET search_path`, nil}, // the role has one
		{`ALTER ROLE dp_sidecar SET pgaudit.log = 'none'`, `ALTER ROLE dp_sidecar RESET pgaudit.log`, nil},
	} {
		w.exec(w.super, c.does)
		for _, name := range views {
			if held := !reads(name); held != slices.Contains(c.held, name) {
				t.Errorf("%s: %s is held back: %v", c.does, name, held)
			}
		}
		w.exec(w.super, c.undone)
		for _, name := range views {
			if !reads(name) {
				t.Errorf("after %s %s is held back", c.undone, name)
			}
		}
	}
}

// Nor is one of which something else that decides which rows it has, or whether reading it raises, changes.
func TestWhatATotalViewIsReadByIsHeld(t *testing.T) {
	w := newWorld(t, 100, 0)
	name := w.dataset + "_held"
	in := strings.NewReplacer("{}", "public."+w.dataset, "{owner}", name+"_owner", "{server}", name+"_server")
	run := func(sql string) { w.Helper(); w.exec(w.super, in.Replace(sql)) }
	read := func() error {
		_, err := w.super.Exec(context.Background(), `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL`, name)
		return err
	}
	run(`CREATE ROLE {owner}; GRANT CREATE ON SCHEMA public TO {owner}; GRANT SELECT ON {} TO {owner};
		CREATE FUNCTION {}_below(x float8, top float8 DEFAULT 1000) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x < top; END;
		CREATE FUNCTION {}_odd(x float8) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN x IS NULL; END';
		CREATE FUNCTION {}_like(x text, y text) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x = y; END;
		CREATE FUNCTION {}_unlike(x text, y text) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x <> y; END;
		CREATE OPERATOR public.=~= (LEFTARG = text, RIGHTARG = text, FUNCTION = {}_like, NEGATOR = OPERATOR(public.<~>));
		CREATE OPERATOR public.<~> (LEFTARG = text, RIGHTARG = text, FUNCTION = {}_unlike, NEGATOR = OPERATOR(public.=~=));
		CREATE AGGREGATE {}_sum(float8) (SFUNC = float8pl, STYPE = float8, INITCOND = '0');
		CREATE DOMAIN {}_years AS float8; CREATE DOMAIN {}_level AS float8; CREATE TYPE {}_pair AS (x {}_level, y int);
		CREATE TYPE {}_kind AS ENUM ('note', 'remark');
		CREATE FOREIGN DATA WRAPPER {server}; CREATE SERVER {server} FOREIGN DATA WRAPPER {server};
		CREATE FOREIGN TABLE {}_far (x float8 OPTIONS (name 'x')) SERVER {server} OPTIONS (name 'far');
		CREATE VIEW {}_inner AS SELECT amount, age, note FROM {} WHERE {}_below(age) AND NOT (note OPERATOR(public.=~=) 'x');
		CREATE VIEW {}_held AS SELECT {}_sum(amount) AS amount, age::{}_years::float8 AS age,
			(jsonb_populate_record(NULL::{}_pair, jsonb_build_object('x', age))).x::float8 + coalesce((SELECT max(x) FROM {}_far WHERE false), 0) AS level
			FROM {}_inner WHERE NOT {}_odd(age) AND split_part(note, ' ', 1)::{}_kind <> 'remark' GROUP BY age;
		ALTER VIEW {}_inner OWNER TO {owner}; GRANT SELECT ON {}_held, {}_far TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => jsonb_build_object('total', true, 'account', $3::text))`, name, "public."+name, w.dataset)
	for _, change := range []struct{ does, undone string }{
		{`CREATE OR REPLACE FUNCTION {}_below(x float8, top float8 DEFAULT 40) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x < top; END`,
			`CREATE OR REPLACE FUNCTION {}_below(x float8, top float8 DEFAULT 1000) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x < top; END`},
		{`ALTER FUNCTION {}_odd COST 1`, `ALTER FUNCTION {}_odd COST 100`},
		{`ALTER FUNCTION {}_odd STRICT`, `ALTER FUNCTION {}_odd CALLED ON NULL INPUT`},
		{`ALTER FUNCTION {}_odd SECURITY DEFINER`, `ALTER FUNCTION {}_odd SECURITY INVOKER`},
		{`ALTER FUNCTION {}_odd VOLATILE`, `ALTER FUNCTION {}_odd IMMUTABLE`},
		{`ALTER FUNCTION {}_odd SET extra_float_digits = 0`, `ALTER FUNCTION {}_odd RESET extra_float_digits`},
		{`CREATE OR REPLACE FUNCTION {}_unlike(x text, y text) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x > y; END`,
			`CREATE OR REPLACE FUNCTION {}_unlike(x text, y text) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x <> y; END`},
		{`CREATE OR REPLACE AGGREGATE {}_sum(float8) (SFUNC = float8mul, STYPE = float8, INITCOND = '0')`, `CREATE OR REPLACE AGGREGATE {}_sum(float8) (SFUNC = float8pl, STYPE = float8, INITCOND = '0')`},
		{`CREATE OR REPLACE AGGREGATE {}_sum(float8) (SFUNC = float8pl, STYPE = float8, INITCOND = '1')`, `CREATE OR REPLACE AGGREGATE {}_sum(float8) (SFUNC = float8pl, STYPE = float8, INITCOND = '0')`},
		{`ALTER DOMAIN {}_years ADD CONSTRAINT young CHECK (VALUE < 40)`, `ALTER DOMAIN {}_years DROP CONSTRAINT young`},
		{`ALTER DOMAIN {}_level ADD CONSTRAINT young CHECK (VALUE < 40) NOT VALID`, `ALTER DOMAIN {}_level DROP CONSTRAINT young`},
		{`ALTER DOMAIN {}_years SET NOT NULL`, `ALTER DOMAIN {}_years DROP NOT NULL`},
		{`ALTER TYPE {}_kind RENAME VALUE 'note' TO 'notice'`, `ALTER TYPE {}_kind RENAME VALUE 'notice' TO 'note'`},
		{`ALTER TABLE {} ENABLE ROW LEVEL SECURITY`, `ALTER TABLE {} DISABLE ROW LEVEL SECURITY`},
		{`ALTER VIEW {}_inner SET (security_barrier)`, `ALTER VIEW {}_inner RESET (security_barrier)`},
		{`ALTER FOREIGN TABLE {}_far OPTIONS (SET name 'farther')`, `ALTER FOREIGN TABLE {}_far OPTIONS (SET name 'far')`},
		{`ALTER FOREIGN TABLE {}_far ALTER x OPTIONS (SET name 'y')`, `ALTER FOREIGN TABLE {}_far ALTER x OPTIONS (SET name 'x')`},
	} {
		if err := read(); err != nil {
			t.Fatalf("before %s: %v", change.does, err)
		}
		run(change.does)
		if err := read(); err == nil {
			t.Errorf("not noticed: %s", change.does)
		} else {
			w.wantError(err, "DP004", "stated to be total")
		}
		run(change.undone)
	}
	for _, harmless := range []string{
		`ALTER FOREIGN TABLE {}_far OPTIONS (ADD fetch_size '1000')`, `ALTER VIEW {}_inner OWNER TO CURRENT_USER`, `ALTER VIEW {}_inner SET (security_barrier = false)`,
		`ALTER TABLE {} ADD COLUMN later {}_kind; ANALYZE {}; REINDEX TABLE {}`, `ALTER FUNCTION {}_odd OWNER TO {owner}`, `ALTER FUNCTION {}_odd RENAME TO ` + w.dataset + `_even`,
		`CREATE FUNCTION {}_later() RETURNS float8 LANGUAGE sql AS 'SELECT 1.0::float8'; CREATE RULE later AS ON INSERT TO {} DO ALSO SELECT {}_later()`, `DROP RULE later ON {}`,
	} {
		run(harmless)
		if err := read(); err != nil {
			t.Errorf("%s: %v", harmless, err)
		}
	}

	// Where policies hide rows, they count, and whom they are applied to.
	run(`ALTER VIEW {}_inner OWNER TO {owner}; CREATE POLICY young ON {} USING (age < 100); ALTER TABLE {} ENABLE ROW LEVEL SECURITY`)
	w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => jsonb_build_object('total', true, 'account', $3::text))`, name, "public."+name, w.dataset)
	for _, change := range []struct{ does, undone string }{
		{`ALTER POLICY young ON {} USING (age < 40)`, `ALTER POLICY young ON {} USING (age < 100)`},
		{`ALTER POLICY young ON {} TO dp_sidecar`, `ALTER POLICY young ON {} TO PUBLIC`},
		{`CREATE POLICY old ON {} AS RESTRICTIVE USING (age > 30)`, `DROP POLICY old ON {}`},
		{`ALTER TABLE {} FORCE ROW LEVEL SECURITY`, `ALTER TABLE {} NO FORCE ROW LEVEL SECURITY`},
		{`ALTER VIEW {}_inner OWNER TO CURRENT_USER`, `ALTER VIEW {}_inner OWNER TO {owner}`},
		{`ALTER FUNCTION {}_odd SECURITY DEFINER`, `ALTER FUNCTION {}_odd SECURITY INVOKER`},
	} {
		change.does, change.undone = strings.ReplaceAll(change.does, "_odd", "_even"), strings.ReplaceAll(change.undone, "_odd", "_even")
		if err := read(); err != nil {
			t.Fatalf("before %s: %v", change.does, err)
		}
		run(change.does)
		if read() == nil {
			t.Errorf("not noticed: %s", change.does)
		}
		run(change.undone)
	}
	if err := read(); err != nil {
		t.Error(err)
	}
}

// Since Postgres 18 a column may be computed when it is read. How, is part of what was stated; a partition's own way
// counts where that partition alone is read.
func TestColumnsThatAreComputedWhenRead(t *testing.T) {
	w := newWorld(t, 100, 0)
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) < 180000 {
		t.Skip("generated columns are virtual since Postgres 18")
	}
	name := w.dataset + "_v"
	run := func(sql string) { w.exec(w.super, strings.ReplaceAll(sql, "{}", "public."+name)) }
	run(`CREATE TABLE {} (amount float8, age float8, twice float8 GENERATED ALWAYS AS (age * 2)) PARTITION BY RANGE (age);
		CREATE TABLE {}_1 PARTITION OF {} FOR VALUES FROM (0) TO (100); INSERT INTO {} SELECT i, i % 100 FROM generate_series(1, 500) i; GRANT SELECT ON {} TO dp_sidecar`)
	register := func(options string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{twice}', 100, options => $3)`, name, "public."+name, options)
		return err
	}
	w.wantError(register(`{}`), "22023", "column twice of public."+name+" is computed when it is read")
	if err := register(`{"total": true}`); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	run(`ALTER TABLE {}_1 ALTER COLUMN twice SET EXPRESSION AS (1 / (age - 5))`)
	w.mustRegress(w.analyst, ask, name, 0.5)
	run(`ALTER TABLE ONLY {} ALTER COLUMN twice SET EXPRESSION AS (1 / (age - 5))`)
	_, err := regress(w.analyst, ask, name, 0.25)
	w.wantError(err, "DP004", "stated to be total")
	run(`ALTER TABLE ONLY {} ALTER COLUMN twice SET EXPRESSION AS (age * 2)`)
	w.mustRegress(w.analyst, ask, name, 0.25)
}

// A partition that comes later is none of what was stated, whatever it is.
func TestPartitionsOfATotalViewComeAndGo(t *testing.T) {
	w := newWorld(t, 100, 0)
	name := w.dataset + "_all"
	run := func(sql string) {
		w.exec(w.super, strings.NewReplacer("{}", "public."+name, "{server}", name+"_server").Replace(sql))
	}
	run(`CREATE TABLE {}_parts (amount float8, age float8) PARTITION BY RANGE (age);
		CREATE TABLE {}_1 PARTITION OF {}_parts FOR VALUES FROM (0) TO (40);
		CREATE FOREIGN DATA WRAPPER {server}; CREATE SERVER {server} FOREIGN DATA WRAPPER {server};
		CREATE FOREIGN TABLE {}_far PARTITION OF {}_parts FOR VALUES FROM (80) TO (90) SERVER {server};
		CREATE VIEW {} AS SELECT amount + 1 AS amount, age FROM {}_parts; GRANT SELECT ON {} TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => '{"total": true, "new_population": "a test", "rows_stay": "a test"}')`, name, "public."+name)
	for _, change := range []string{
		`CREATE TABLE {}_2 PARTITION OF {}_parts FOR VALUES FROM (40) TO (80)`,
		`ALTER TABLE {}_2 ENABLE ROW LEVEL SECURITY`,
		`CREATE FOREIGN TABLE {}_farther PARTITION OF {}_parts FOR VALUES FROM (90) TO (100) SERVER {server}`,
		`ALTER TABLE {}_parts DETACH PARTITION {}_1`,
	} {
		run(change)
		w.exec(w.super, `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1`, name)
	}
}

// Foreign partitions that were there when a view was stated to be total stand for what they did, and those that come later are of the same
// servers, each of another table: else people of another account are read, or each of them several times.
func TestForeignPartitionsStandForWhatWasStated(t *testing.T) {
	w := newWorld(t, 100, 0)
	name := w.dataset + "_all"
	run := func(sql string) {
		w.Helper()
		w.exec(w.super, strings.NewReplacer("{}", "public."+name, "{server}", name+"_server").Replace(sql))
	}
	read := func() error {
		_, err := w.super.Exec(context.Background(), `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1`, name)
		return err
	}
	run(`CREATE TABLE {}_parts (amount float8, age float8) PARTITION BY RANGE (age);
		CREATE FOREIGN DATA WRAPPER {server}; CREATE SERVER {server} FOREIGN DATA WRAPPER {server}; CREATE SERVER {server}_2 FOREIGN DATA WRAPPER {server};
		CREATE FOREIGN TABLE {}_far PARTITION OF {}_parts FOR VALUES FROM (80) TO (90) SERVER {server} OPTIONS (table_name 'claims');
		CREATE FOREIGN TABLE {}_file PARTITION OF {}_parts FOR VALUES FROM (90) TO (100) SERVER {server} OPTIONS (filename 'claims');
		CREATE FOREIGN TABLE {}_named (amount float8, age float8) SERVER {server} OPTIONS (table_name 'old_claims');
		CREATE VIEW {} AS SELECT amount + 1 AS amount, age FROM {}_parts UNION ALL SELECT amount, age FROM {}_named; GRANT SELECT ON {} TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => '{"total": true, "new_population": "a test", "rows_stay": "a test"}')`, name, "public."+name)
	for _, c := range []struct{ does, undone, says string }{
		{`ALTER FOREIGN TABLE {}_far OPTIONS (SET table_name 'patients')`, `ALTER FOREIGN TABLE {}_far OPTIONS (SET table_name 'claims')`, "stands for another one"},
		{`ALTER FOREIGN TABLE {}_far ALTER age OPTIONS (column_name 'years')`, `ALTER FOREIGN TABLE {}_far ALTER age OPTIONS (DROP column_name)`, "stands for another one"},
		{`ALTER FOREIGN TABLE {}_far OPTIONS (fetch_size '9')`, `ALTER FOREIGN TABLE {}_far OPTIONS (DROP fetch_size)`, ""},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server}_2`, `DROP FOREIGN TABLE {}_more`, "a server of which nothing was stated"},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server} OPTIONS (table_name 'claims')`, `DROP FOREIGN TABLE {}_more`, "show the same rows"},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server} OPTIONS (schema_name 'public', table_name 'claims')`, `DROP FOREIGN TABLE {}_more`, "show the same rows"},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server} OPTIONS (filename 'claims')`, `DROP FOREIGN TABLE {}_more`, "show the same rows"},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server} OPTIONS (table_name 'old_claims', schema_name 'public')`, `DROP FOREIGN TABLE {}_more`, "show the same rows"},
		{`CREATE FOREIGN TABLE {}_more PARTITION OF {}_parts FOR VALUES FROM (0) TO (9) SERVER {server} OPTIONS (table_name 'claims_of_1999')`, `DROP FOREIGN TABLE {}_more`, ""},
		{`ALTER TABLE {}_parts ATTACH PARTITION {}_named FOR VALUES FROM (0) TO (9)`, `ALTER TABLE {}_parts DETACH PARTITION {}_named`, "show the same rows"},
		{`ALTER TABLE {}_parts DETACH PARTITION {}_far`, `ALTER TABLE {}_parts ATTACH PARTITION {}_far FOR VALUES FROM (80) TO (90)`, ""},
	} {
		run(c.does)
		if err := read(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.does, err)
		}
		run(c.undone)
		if err := read(); err != nil {
			t.Fatalf("%s: %v", c.undone, err)
		}
	}
}

// Partitions attached after registration join the account, and their people are read.
func TestPartitionsAddedLaterBelong(t *testing.T) {
	w := newWorld(t, 1, 0)
	p := w.dataset + "_p"
	w.exec(w.super, fmt.Sprintf(`
		CREATE TABLE public.%[1]s (amount float8, age float8) PARTITION BY RANGE (age);
		CREATE TABLE public.%[1]s1 PARTITION OF public.%[1]s FOR VALUES FROM (0) TO (40);
		INSERT INTO public.%[1]s SELECT i, i %% 40 FROM generate_series(1, 500) i;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, p))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1)`, p, "public."+p)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, p, w.person)
	w.eventually("the first partition is counted", func() bool {
		return one[bool](w, w.steward, `SELECT row_count IS NOT DISTINCT FROM 500 FROM dp.datasets WHERE dataset = $1`, p)
	})
	w.exec(w.super, fmt.Sprintf(`
		CREATE TABLE public.%[1]s2 PARTITION OF public.%[1]s FOR VALUES FROM (40) TO (100);
		INSERT INTO public.%[1]s2 SELECT i, 40 + i %% 40 FROM generate_series(1, 500) i;
		GRANT SELECT ON public.%[1]s2 TO dp_sidecar`, p))
	w.mustRegress(w.analyst, ask, p, 1.0)
	if n := one[int64](w, w.analyst, `SELECT row_count FROM dp.datasets WHERE dataset = $1`, p); n != 1000 {
		t.Errorf("row count %d, want 1000", n)
	}
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, p+"2", "public."+p+"2")
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, p+"2", w.person)
	_, err := regress(w.analyst, ask, p+"2", 0.1)
	w.wantError(err, "DP002", "")
}

// What another server stores may refuse to be read because of one row.
func TestForeignTablesMustBeStatedTotal(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, strings.ReplaceAll(`
		CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far;
		CREATE FOREIGN TABLE {}_far (y float8, x float8) SERVER far;
		CREATE VIEW {}_view AS SELECT y, x FROM {}_far;
		CREATE TABLE {}_parts (y float8, x float8) PARTITION BY RANGE (x);
		CREATE TABLE {}_near PARTITION OF {}_parts FOR VALUES FROM (0) TO (1);
		CREATE FOREIGN TABLE {}_part PARTITION OF {}_parts FOR VALUES FROM (1) TO (2) SERVER far;
		GRANT SELECT ON {}_far, {}_view, {}_parts, {}_near TO dp_sidecar`, "{}", "public."+w.dataset))
	register := `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1, options => $3)`
	for _, relation := range []string{"_far", "_view", "_parts"} {
		_, err := w.steward.Exec(context.Background(), register, w.dataset+relation, "public."+w.dataset+relation, "{}")
		w.wantError(err, "22023", "is a foreign table")
	}
	_, err := w.steward.Exec(context.Background(), register, w.dataset+"_near", "public."+w.dataset+"_near", "{}")
	w.wantError(err, "22023", "is a partition or child of")
	for _, relation := range []string{"_far", "_near"} { // with the far part, nobody knows whose rows these are
		_, err := w.steward.Exec(context.Background(), register, w.dataset+relation, "public."+w.dataset+relation, `{"total": true}`)
		w.wantError(err, "22023", "whose rows it has")
		w.exec(w.steward, register, w.dataset+relation, "public."+w.dataset+relation, `{"total": true, "new_population": "a test's"}`)
	}
}

// Values from another server are held against the constraints of a domain when they arrive, which may be anything since
// it was stated that reading raises no error, and functions of the owner's.
func TestNothingIsCheckedOnArrival(t *testing.T) {
	w := lonelyWorld(t, 1, 0)
	w.exec(w.super, strings.ReplaceAll(`
		CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far;
		CREATE DOMAIN public.free AS float8;
		CREATE DOMAIN public.over AS public.free;
		CREATE DOMAIN public.deep AS float8;
		CREATE TYPE public.pair AS (a float8, b public.deep[]);
		CREATE FOREIGN TABLE {}_far (y float8, x public.over, more public.pair) SERVER far;
		CREATE VIEW {}_view AS SELECT y, x + 1 AS x FROM {}_far;
		GRANT SELECT ON {}_far, {}_view TO dp_sidecar`, "{}", "public."+w.dataset))
	register := func(relation, options string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1, options => $3)`, w.dataset+relation, "public."+w.dataset+relation, options)
		return err
	}
	if err := register("_view", `{"total": true, "new_population": "a test's"}`); err != nil {
		t.Errorf("a domain without constraints: %v", err)
	}
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset+"_view")
	for _, constraint := range []struct{ does, undoes string }{
		{`ALTER DOMAIN public.free ADD CONSTRAINT few CHECK (VALUE < 9) NOT VALID`, `ALTER DOMAIN public.free DROP CONSTRAINT few`},
		{`ALTER DOMAIN public.deep ADD CONSTRAINT few CHECK (VALUE < 9) NOT VALID`, `ALTER DOMAIN public.deep DROP CONSTRAINT few`},
	} {
		w.exec(w.super, constraint.does)
		for _, relation := range []string{"_far", "_view"} {
			w.wantError(register(relation, `{"total": true, "new_population": "a test's"}`), "22023", "of a domain with constraints")
		}
		w.exec(w.super, constraint.undoes)
	}
}

// Rows that a function makes are of people whom nobody knows.
func TestAViewOverNoTableNeedsAnAccount(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.dataset + "_rows"
	w.exec(w.super, `CREATE VIEW public.`+name+` AS SELECT x::float8 AS y, x::float8 FROM generate_series(1, 9) AS rows(x)`)
	w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
	register := `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1, options => $3)`
	_, err := w.steward.Exec(context.Background(), register, name, "public."+name, `{"total": true}`)
	w.wantError(err, "22023", "shows no table")
	w.exec(w.steward, register, name, "public."+name, `{"total": true, "account": "`+w.dataset+`"}`)
	w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	w.exec(w.steward, register, name, "public."+name, `{"total": true, "new_population": "made up"}`)
}

// Nor is it known of a function whose people it reads when the table beside it is.
func TestAKnownTableVouchesForNoFunction(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, strings.ReplaceAll(`
		CREATE TABLE public.few AS SELECT i::float8 AS age, i::float8 AS amount FROM generate_series(1, 9) i;
		CREATE VIEW public.seen AS SELECT amount, age FROM public.few WHERE age > 0;
		CREATE FUNCTION public.reads(i float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT amount FROM public.{} OFFSET i LIMIT 1); END';
		CREATE VIEW public.hidden AS SELECT public.reads(amount) AS amount, age FROM public.few`, "{}", w.dataset))
	for relation, options := range map[string]string{"few": "{}", "seen": `{"total": true}`} {
		if err := w.register(relation, options); err != nil {
			t.Fatal(err, hint(err))
		}
	}
	w.wantError(w.register("hidden", `{"total": true}`), "22023", "whose rows it has")
	w.exec(w.super, `CREATE OR REPLACE VIEW public.seen AS SELECT public.reads(amount) AS amount, age FROM public.few`)
	w.exec(w.steward, `SELECT dp_grant('seen', $1)`, w.person)
	_, err := regress(w.analyst, ask, "seen", 0.5)
	w.wantError(err, "DP004", "whose rows it has")
	w.wantError(err, "DP004", "No privacy budget was spent")
}

// Two stewards at once cannot give the same people two accounts: whoever waited
// for the other sees what he has done.
func TestRegistrationNeedsAFreshSnapshot(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, `CREATE TABLE public.`+w.dataset+`_twice (y float8, x float8)`)
	w.exec(w.super, `GRANT SELECT ON public.`+w.dataset+`_twice TO dp_sidecar`)
	register := `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1)`
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		w.exec(w.steward, `BEGIN ISOLATION LEVEL `+level)
		_, err := w.steward.Exec(context.Background(), register, "second", "public."+w.dataset+"_twice")
		w.wantError(err, "25001", "READ COMMITTED")
		w.exec(w.steward, `ROLLBACK`)
	}
	other := w.connect(w.system.StewardURL())
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, register, w.dataset+"_first", "public."+w.dataset+"_twice")
	done := make(chan error)
	go func() {
		_, err := other.Exec(context.Background(), register, w.dataset+"_second", "public."+w.dataset+"_twice")
		done <- err
	}()
	w.eventually("the other waits", func() bool {
		return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'dp_int.account_relation'::regclass)`)
	})
	w.exec(w.steward, `COMMIT`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := one[int64](w, w.super, `SELECT count(DISTINCT account) FROM dp_int.dataset WHERE name LIKE $1 || '\_%'`, w.dataset); n != 1 {
		t.Errorf("%d accounts", n)
	}
}

// The planner may run what indexes, statistics, partition keys and constraints call, whatever the query: also a cast that
// text || any and quote_literal make, which nothing names. What a superuser made may be called in constraints.
func TestFunctionsBelowATableMustBeStated(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, `CREATE FUNCTION public.`+w.dataset+`_f(float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1; END $$`)
	w.exec(w.super, strings.NewReplacer("{}", "public."+w.dataset, "{p}", w.person).Replace(`
		CREATE FUNCTION {}_h(float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1; END $$; ALTER FUNCTION {}_h(float8) OWNER TO {p};
		CREATE TYPE {}_color AS ENUM ('a'); CREATE DOMAIN {}_shade AS {}_color; CREATE TYPE {}_row AS (c {}_color);
		CREATE DOMAIN {}_checked AS float8 CHECK (VALUE > {}_h(1)); CREATE DOMAIN {}_unchecked AS float8; CREATE TYPE {}_pair AS (c {}_checked);
		CREATE FUNCTION {}_cast({}_color) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN 'b'; END $$;
		CREATE CAST ({}_color AS text) WITH FUNCTION {}_cast({}_color)`))
	for what, sql := range map[string]string{
		"index":      `CREATE INDEX {}_index_i ON {}_index ((x + {}_f(1)))`,
		"predicate":  `CREATE INDEX {}_predicate_i ON {}_predicate (x) WHERE x > {}_f(1)`,
		"statistics": `CREATE STATISTICS {}_statistics_s ON (x + {}_f(1)) FROM {}_statistics`,
		"partition":  `DROP TABLE {}_partition; CREATE TABLE {}_partition (y float8, x float8) PARTITION BY RANGE ((x + {}_f(1)))`,
		"operator": `CREATE OPERATOR public.{@} (FUNCTION = {}_g, LEFTARG = float8, RIGHTARG = float8);
			CREATE INDEX {}_operator_i ON {}_operator ((x OPERATOR(public.{@}) 1::float8))`,
		"check":              `CREATE TABLE {}_check_child (CHECK ({}_h(1) > 0)) INHERITS ({}_check)`,
		"cast":               `CREATE INDEX {}_cast_i ON {}_cast (('c'::text || 'a'::{}_color))`,
		"cast_before":        `CREATE INDEX {}_cast_before_i ON {}_cast_before (('a'::{}_shade || 'c'::text))`,
		"cast_where":         `CREATE INDEX {}_cast_where_i ON {}_cast_where (x) WHERE quote_literal('a'::{}_color) <> ''`,
		"cast_column":        `CREATE STATISTICS {}_cast_column_s ON (x::int::text || quote_nullable(('a'::{}_color))) FROM {}_cast_column`,
		"cast_check":         `ALTER TABLE {}_cast_check ADD CHECK ('c'::text || 'a'::{}_color <> 'd')`,
		"domain":             `CREATE INDEX {}_domain_i ON {}_domain ((x::{}_checked))`,
		"domain_later":       `CREATE INDEX {}_domain_later_i ON {}_domain_later ((x::{}_unchecked))`,
		"domain_where":       `CREATE INDEX {}_domain_where_i ON {}_domain_where (x) WHERE x::{}_checked > 1`,
		"domain_array":       `CREATE INDEX {}_domain_array_i ON {}_domain_array ((ARRAY[x]::{}_checked[]))`,
		"domain_row":         `CREATE INDEX {}_domain_row_i ON {}_domain_row ((ROW(x)::{}_pair))`,
		"domain_statistics":  `CREATE STATISTICS {}_domain_statistics_s ON (x::{}_checked), y FROM {}_domain_statistics`,
		"domain_partition":   `DROP TABLE {}_domain_partition; CREATE TABLE {}_domain_partition (y float8, x float8) PARTITION BY RANGE ((x::{}_checked))`,
		"domain_child":       `CREATE TABLE {}_domain_child_c () INHERITS ({}_domain_child); CREATE INDEX {}_domain_child_i ON {}_domain_child_c ((x::{}_checked))`,
		"plain_domain":       `ALTER TABLE {}_plain_domain ALTER x TYPE {}_checked; CREATE INDEX {}_plain_domain_i ON {}_plain_domain (abs(x)) WHERE x > 1`,
		"plain_domain_check": `ALTER TABLE {}_plain_domain_check ADD CHECK (x::{}_checked < 1e9)`,
		"plain_system":       `CREATE INDEX {}_plain_system_i ON {}_plain_system ((x::int::information_schema.cardinal_number))`,
		"plain":              `CREATE INDEX {}_plain_i ON {}_plain ((abs(x) + 1)) WHERE x > 1`,
		"plain_check":        `ALTER TABLE {}_plain_check ADD CHECK (abs(x) < 1e9 AND 'c'::text || 1 <> 'd')`,
		"plain_anyone":       `ALTER TABLE {}_plain_anyone ADD CHECK ({}_f(1) > 0)`,
		"plain_enum":         `ALTER TABLE {}_plain_enum ADD CHECK ('a'::{}_color = ANY (enum_range(NULL::{}_color)))`,
	} {
		w.exec(w.super, `CREATE OR REPLACE FUNCTION public.`+w.dataset+`_g(float8, float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT $1'`)
		name := w.dataset + "_" + what
		script := `CREATE TABLE {}_` + what + ` (y float8, x float8); ` + sql + `; GRANT SELECT ON {}_` + what + ` TO dp_sidecar`
		script = strings.NewReplacer("{@}", "@@!", "{}_f", "public."+w.dataset+"_f", "{}_g", "public."+w.dataset+"_g",
			"INDEX {}", "INDEX "+w.dataset, "{}", "public."+w.dataset).Replace(script)
		if _, err := w.super.PgConn().Exec(context.Background(), script).ReadAll(); err != nil {
			t.Fatalf("%v\n%s", err, script)
		}
		register := `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1, options => $3)`
		_, err := w.steward.Exec(context.Background(), register, name, "public."+name, `{}`)
		if strings.HasPrefix(what, "plain") {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		w.wantError(err, "22023", " calls ")
		w.exec(w.steward, register, name, "public."+name, `{"total": true}`)
	}
}

// A table made again is known by its name, however a session writes names.
func TestANameIsKnownHoweverItIsQuoted(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 1)
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.script(fmt.Sprintf(`#DROP TABLE public.%[1]s; #CREATE TABLE public.%[1]s (amount float8, age float8); #GRANT SELECT ON public.%[1]s TO dp_sidecar`, w.dataset))
	w.exec(w.steward, `SET quote_all_identifiers = on`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1)`, w.dataset, "public."+w.dataset)
	if spent := w.spent(); spent != 1 {
		t.Errorf("spent %g, want 1", spent)
	}
}

// What a filter, a join, an aggregate or a partition key made of a table has a number
// of rows that may follow one person's values: the steward states that it does not,
// the ledger keeps that, and until then nothing is counted. The account is the table's.
func TestWhatIsDerivedNeedsAStatement(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	for name, c := range map[string]struct{ sql, says string }{
		"filter":     {`CREATE MATERIALIZED VIEW {}_{n} AS SELECT amount, age FROM {} WHERE age > 40`, "materialized view public.{}_{n} does more than show columns"},
		"join":       {`CREATE MATERIALIZED VIEW {}_{n} AS SELECT a.amount, b.age FROM {} a JOIN {} b USING (note)`, "does more than show columns"},
		"aggregate":  {`CREATE MATERIALIZED VIEW {}_{n} AS SELECT max(amount) AS amount, age FROM {} GROUP BY age`, "does more than show columns"},
		"expression": {`CREATE MATERIALIZED VIEW {}_{n} AS SELECT 1 / age AS amount, age FROM {}`, "does more than show columns"},
		"viewed":     {`CREATE MATERIALIZED VIEW {}_m AS SELECT amount, age FROM {} WHERE insured; CREATE VIEW {}_{n} AS SELECT amount, age FROM {}_m`, "materialized view public.{}_m does more than show columns"},
		"of_a_view":  {`CREATE VIEW {}_f AS SELECT amount, age FROM {} WHERE insured; CREATE MATERIALIZED VIEW {}_{n} AS SELECT amount, age FROM {}_f`, "view public.{}_f does more than show columns"},
		"only":       {`CREATE VIEW {}_{n} AS SELECT amount, age FROM ONLY {}`, "does more than show columns"},
		"child":      {`CREATE TABLE {}_{n} () INHERITS ({}); INSERT INTO {}_{n} (amount, age) VALUES (1, 1)`, "is a partition or child of public.{}"},
		"over_child": {`CREATE TABLE {}_c () INHERITS ({}); INSERT INTO {}_c (amount, age) VALUES (1, 1); CREATE VIEW {}_{n} AS SELECT amount, age FROM {}_c`, "is a partition or child of public.{}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			fill := strings.NewReplacer("{}", w.dataset, "{n}", name)
			if _, err := w.super.PgConn().Exec(context.Background(), fill.Replace(c.sql)).ReadAll(); err != nil {
				t.Fatal(err)
			}
			relation := w.dataset + "_" + name
			err := w.register(relation, "{}")
			w.wantError(err, "22023", fill.Replace(c.says))
			w.wantError(err, "22023", `{"total": true}`)
			if n := one[int64](&w, w.super, `SELECT count(*) FROM dp_int.dataset WHERE name = $1`, relation); n != 0 {
				t.Error("it is registered")
			}
			w.mustShare(relation, `{"total": true}`)
			if said := one[string](&w, w.steward, `SELECT event #>> '{budget,total}' FROM dp.ledger WHERE dataset = $1 AND event ? 'budget'`, relation); said != "true" {
				t.Errorf("the ledger says %q", said)
			}
		})
	}
	for name, sql := range map[string]string{
		"columns": `CREATE MATERIALIZED VIEW {}_{n} AS SELECT age, amount FROM {}`,
		"twice":   `CREATE MATERIALIZED VIEW {}_first AS SELECT q.age, q.amount FROM (SELECT * FROM {}) q; CREATE MATERIALIZED VIEW {}_{n} AS SELECT amount, age FROM {}_first`,
	} {
		if _, err := w.super.PgConn().Exec(context.Background(), strings.NewReplacer("{}", w.dataset, "{n}", name).Replace(sql)).ReadAll(); err != nil {
			t.Fatal(err)
		}
		w.mustShare(w.dataset+"_"+name, "{}")
	}
}

// What becomes a partition, or is filtered, after it was registered is neither counted
// nor read before there is a statement.
func TestWhatBecomesDerivedIsNotCounted(t *testing.T) {
	w := newWorld(t, 1, 0)
	known := func() bool {
		return one[bool](w, w.steward, `SELECT row_count IS NOT NULL FROM dp.datasets WHERE dataset = $1`, w.dataset)
	}
	w.eventually("counted as it was registered", known)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_parent (LIKE public.%[1]s); ALTER TABLE public.%[1]s INHERIT public.%[1]s_parent; UPDATE dp_int.dataset SET row_count = NULL WHERE name = '%[1]s'`, w.dataset))
	_, err := regress(w.analyst, ask, w.dataset, 0.5)
	w.wantError(err, "DP004", "is a partition or child of")
	w.wantError(err, "DP004", "No privacy budget was spent")
	_, err = w.super.Exec(context.Background(), `SELECT dp_int.dataset_recheck(id) FROM dp_int.dataset WHERE name = $1`, w.dataset)
	w.wantError(err, "DP004", "is a partition or child of")
	if known() || w.entries() != 0 {
		t.Errorf("counted: %v, %d entries", known(), w.entries())
	}
}

// A function may show anybody. One that keeps its body as a parse tree tells whom; of
// others, and of foreign tables, somebody must say.
func TestAFunctionsPeopleAreKnownOrAskedFor(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	for _, c := range []struct{ name, sql, says string }{
		{"atomic", `CREATE FUNCTION {}_{n}_f() RETURNS TABLE (amount float8, age float8) BEGIN ATOMIC SELECT amount, age FROM {}; END; CREATE VIEW {}_{n} AS SELECT * FROM {}_{n}_f()`, ""},
		{"nested", `CREATE FUNCTION {}_{n}_f() RETURNS TABLE (amount float8, age float8) BEGIN ATOMIC SELECT * FROM {}_atomic_f(); END; CREATE MATERIALIZED VIEW {}_{n} AS SELECT * FROM {}_{n}_f()`, ""},
		{"sql", `CREATE FUNCTION {}_{n}_f() RETURNS TABLE (amount float8, age float8) LANGUAGE sql AS 'SELECT amount, age FROM public.{}'; CREATE MATERIALIZED VIEW {}_{n} AS SELECT * FROM {}_{n}_f()`, "function public.{}_sql_f() reads is not known"},
		{"scalar", `CREATE TABLE {}_one AS SELECT i FROM generate_series(1, 9) i; CREATE FUNCTION {}_{n}_f(i int) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT amount FROM public.{} OFFSET i LIMIT 1); END'; CREATE VIEW {}_{n} AS SELECT {}_{n}_f(i) AS amount, {}_{n}_f(i) AS age FROM {}_one`, "is not known: it has no BEGIN ATOMIC"},
		{"xml", `CREATE TABLE {}_two AS SELECT 1 AS i; CREATE MATERIALIZED VIEW {}_{n} AS SELECT 1.0::float8 AS amount, length(query_to_xml('SELECT * FROM public.{}', true, true, '')::text)::float8 AS age FROM {}_two`, "query_to_xml"},
		{"json", `CREATE TYPE {}_range AS RANGE (subtype = int4); CREATE TABLE {}_four AS SELECT {}_range(i, i + 1) AS r FROM generate_series(1, 9) i; CREATE FUNCTION {}_{n}_f(r {}_range) RETURNS json STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT to_json(amount) FROM public.{} OFFSET lower(r) LIMIT 1); END';
			CREATE CAST ({}_range AS json) WITH FUNCTION {}_{n}_f({}_range); CREATE VIEW {}_{n} AS SELECT to_json(r)::text::float8 AS amount, 1::float8 AS age FROM {}_four`, "_json_f(public.{}_range) reads is not known: it has no BEGIN ATOMIC"},
		{"text", `CREATE TYPE {}_hue AS ENUM ('a'); CREATE TABLE {}_eleven AS SELECT 'a'::{}_hue AS c, i FROM generate_series(1, 9) i; CREATE FUNCTION {}_{n}_f(c {}_hue) RETURNS text STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT amount FROM public.{} LIMIT 1); END';
			CREATE CAST ({}_hue AS text) WITH FUNCTION {}_{n}_f({}_hue); CREATE VIEW {}_{n} AS SELECT ('' || c)::float8 AS amount, i::float8 AS age FROM {}_eleven`, "_text_f(public.{}_hue) reads is not known: it has no BEGIN ATOMIC"},
		// What pg_depend has no entry for.
		{"negator", `CREATE TABLE {}_five AS SELECT i FROM generate_series(1, 9) i; CREATE SCHEMA {}_ops; CREATE FUNCTION {}_{n}_f(i int, j int) RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT amount > 3 FROM public.{} OFFSET i LIMIT 1); END';
			CREATE OPERATOR {}_ops.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4ne, NEGATOR = OPERATOR({}_ops.!===)); CREATE OPERATOR {}_ops.!=== (LEFTARG = int, RIGHTARG = int, FUNCTION = {}_{n}_f, NEGATOR = OPERATOR({}_ops.===));
			CREATE VIEW {}_{n} AS SELECT (NOT (i OPERATOR({}_ops.===) 0))::int::float8 AS amount, i::float8 AS age FROM {}_five`, "_negator_f(integer,integer) reads is not known: it has no BEGIN ATOMIC"},
		{"domain", `CREATE TABLE {}_six AS SELECT i FROM generate_series(1, 9) i; CREATE FUNCTION {}_{n}_f(i int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM set_config(''own.v'', (SELECT amount::text FROM public.{} OFFSET i LIMIT 1), false); RETURN true; END';
			CREATE DOMAIN {}_{n}_d AS int CHECK ({}_{n}_f(VALUE)); CREATE VIEW {}_{n} AS SELECT CASE WHEN i::{}_{n}_d IS NOT NULL THEN current_setting('own.v')::float8 END AS amount, i::float8 AS age FROM {}_six`, "_domain_f(integer) reads is not known: it has no BEGIN ATOMIC"},
		{"bounds", `CREATE TABLE {}_seven AS SELECT i FROM generate_series(1, 9) i; CREATE TYPE {}_{n}_r AS RANGE (subtype = {}_domain_d);
			CREATE VIEW {}_{n} AS SELECT CASE WHEN format('[%s,%s]', i, i)::{}_{n}_r IS NOT NULL THEN current_setting('own.v')::float8 END AS amount, i::float8 AS age FROM {}_seven`, "_domain_f(integer) reads is not known: it has no BEGIN ATOMIC"},
		{"checked", `CREATE TABLE {}_nine AS SELECT i FROM generate_series(1, 9) i; CREATE DOMAIN {}_{n}_d AS int CHECK (set_config('own.v', query_to_xml(format('SELECT amount FROM public.{} OFFSET %s LIMIT 1', VALUE), true, false, '')::text, false) IS NOT NULL);
			CREATE VIEW {}_{n} AS SELECT CASE WHEN i::{}_{n}_d IS NOT NULL THEN length(current_setting('own.v'))::float8 END AS amount, i::float8 AS age FROM {}_nine`, "query_to_xml"},
		{"standard", `CREATE TABLE {}_ten AS SELECT i FROM generate_series(1, 9) i; CREATE FUNCTION {}_{n}_f(i int, t text DEFAULT query_to_xml('SELECT * FROM public.{}', true, true, '')::text) RETURNS float8 STABLE BEGIN ATOMIC SELECT ascii(substr(t, i, 1))::float8; END;
			CREATE VIEW {}_{n} AS SELECT {}_{n}_f(i) AS amount, i::float8 AS age FROM {}_ten`, "query_to_xml"},
		{"catalog", `CREATE TABLE {}_three AS SELECT 1 AS i; CREATE MATERIALIZED VIEW {}_{n} AS SELECT o.i::float8 AS amount, s.staattnum::float8 AS age FROM {}_three o, pg_statistic s`, "pg_statistic"},
	} {
		fill := strings.NewReplacer("{}", w.dataset, "{n}", c.name)
		if _, err := w.super.PgConn().Exec(context.Background(), fill.Replace(c.sql)).ReadAll(); err != nil {
			t.Fatal(err)
		}
		if c.says != "" {
			w.wantError(w.register(w.dataset+"_"+c.name, `{"total": true}`), "22023", fill.Replace(c.says))
			w.wantError(w.register(w.dataset+"_"+c.name, `{"total": true}`), "22023", "new_population")
			w.mustShare(w.dataset+"_"+c.name, `{"total": true, "account": "`+w.dataset+`"}`)
		} else {
			w.mustShare(w.dataset+"_"+c.name, `{"total": true}`)
		}
	}

	// A type that is handed over by its number may be any: no statement is about it.
	w.exec(w.super, strings.NewReplacer("{}", w.dataset).Replace(`CREATE VIEW public.{}_number AS
		SELECT CASE WHEN domain_in(textout(i::text), (SELECT max(oid) FROM pg_type WHERE typtype = 'd'), -1) IS NOT NULL THEN 1.0::float8 END AS amount, i::float8 AS age FROM public.{}_six`))
	w.wantError(w.register(w.dataset+"_number", `{"total": true, "account": "`+w.dataset+`"}`), "22023", "to which a type is given by its number")
}
