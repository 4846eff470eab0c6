package tests

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestBadRequestsAreExplained(t *testing.T) {
	w := newWorld(t, 10, 0)
	for _, c := range []struct{ sql, code, says string }{
		{`dp_l1_regress('nothing', 1)`, "42501", `"nothing" does not exist or is not granted`},
		{`dp_l1_regress(NULL, 1)`, "42501", "does not exist"},
		{`dp_l1_regress('%s', 0)`, "22023", "eps must be a positive"},
		{`dp_l1_regress('%s', -1)`, "22023", "eps must be a positive"},
		{`dp_l1_regress('%s', 'NaN')`, "22023", "eps must be a positive"},
		{`dp_l1_regress('%s', 'Infinity')`, "22023", "eps must be a positive"},
		{`dp_l1_regress('%s', NULL)`, "22023", "eps must be a positive"},
		{`dp_l1_regress('%s', 1e-300)`, "22023", "eps must be a number from 1e-10 to 10000, not 1e-300"},
		{`dp_l1_regress('%s', 1e300)`, "22023", "eps must be a number from"},
		{`dp_submit('l1', '%s', 10000.1)`, "22023", "eps must be a number from"},
		{`dp_submit('l1', '%s', 1e4)`, "", ""}, // as far as a sidecar plans
		{`dp_l1_regress('%s', 1, features => '{age,nothing}')`, "42703", `"nothing"`},
		{`dp_l1_regress('%s', 1, features => '{note}')`, "42703", `"note"`},
		{`dp_l1_regress('%s', 1, target => 'note')`, "42703", `"note"`},
		{`dp_l1_regress('%s', 1, features => '{NULL}')`, "42703", "NULL"},
		{`dp_l1_regress('%s', 1, features => '{age,age}')`, "22023", "twice"},
		{`dp_l1_regress('%s', 1, features => '{amount}')`, "22023", "twice"},
		{`dp_l1_regress('%s', 1, features => '{}', intercept => false)`, "22023", "nothing to fit"},
		{`dp_l1_regress('%s', 1, options => '[]')`, "22023", "JSON object"},
		{`dp_l1_regress('%s', 1, options => '{"thetta": 2}')`, "22023", `unknown option "thetta"`},
		{`dp_l1_regress('%s', 1, options => '{"theta": "2"}')`, "22023", `"theta" must be a number`},
		{`dp_l1_regress('%s', 1, options => '{"theta": 1}')`, "22023", "1.05 to 2"},
		{`dp_l1_regress('%s', 1, options => '{"theta": null}')`, "22023", `"theta"`},
		{`dp_l1_regress('%s', 1, options => '{"set": "cube"}')`, "22023", "ball, box"},
		{`dp_l1_regress('%s', 1, options => '{"fresh": 1}')`, "22023", `"fresh"`},
		{`dp_l1_regress('%s', 1, options => '{"pitch": 1e-12}')`, "", ""}, // refused or feasible: the plan's word
		{`dp_submit('l2', '%s', 1)`, "22023", `unknown model "l2" Models are huber, l1, linear, logistic, poisson, and describe, scales and moments.`},
		{`dp_explain('score', '%s', 1)`, "22023", "scores have dp_explain_score and dp_submit_score"},
		{`dp_submit('l1', '%s', 1, 1e-6)`, "22023", "delta must be 0"},
		{`dp_submit('l1', '%s', 1, 'NaN')`, "22023", "delta must be 0"},
		{`dp_linear_regress('%s', 1, options => '[]')`, "22023", "must be a JSON object, not []"},
		{`dp_linear_regress('%s', 1, options => 'null')`, "22023", "must be a JSON object, not null"},
		{`dp_linear_regress('%s', 1, features => '{age}')`, "DP005", "not possible with these rows, columns, options and budget: the budget of this data set has no delta, which this model needs; ask dp_l1_regress"},
		{`dp_status(NULL)`, "22023", "you have no job"},
		{`dp_summary(NULL)`, "22023", "dp_last_release is NULL where"},
		{`dp_score(NULL, 1)`, "22023", "dp_last_release is NULL where"},
		{`dp_cancel(NULL)`, "22023", "you have no job NULL"},
		{`dp_result(gen_random_uuid())`, "22023", "you have no job"},
	} {
		before := w.spent()
		sql := c.sql
		if slices.Contains([]byte(sql), '%') {
			sql = fmt.Sprintf(sql, w.dataset)
		}
		_, err := w.analyst.Exec(context.Background(), `SELECT * FROM `+sql)
		if c.code == "" {
			continue
		}
		if err == nil {
			t.Errorf("%s: no error", sql)
			continue
		}
		w.wantError(err, c.code, c.says)
		if w.spent() != before {
			t.Errorf("%s spent budget", sql)
		}
	}
}

// A client that sends eps, delta or lambda as a real asks what it wrote: 0.2::real becomes 0.20000000298 on its way
// to a function of float8, which was another request, and charged a second time.
func TestARealIsTheDecimalThatWasWritten(t *testing.T) {
	w := newWorld(t, 10, 1e-3)
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.2)`, w.dataset)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.7, 1e-7, penalty => 'l2', lambda => 0.1)`, w.dataset)
	w.exec(w.analyst, `SELECT * FROM dp_describe($1, 0.1, delta => 1e-6)`, w.dataset)
	w.exec(w.analyst, `SELECT dp_score(dp_last_release($1), 0.1, 1e-6)`, w.dataset)
	entries := w.entries()
	for _, sql := range []string{
		`dp_l1_regress($1, 0.2::real)`, `dp_l1_regress($1, 0.2::numeric)`, `dp_l1_regress($1, '0.2')`, `dp_submit('l1', $1, 0.2::real)`,
		`dp_linear_regress($1, 0.7::real, 1e-7::real, penalty => 'l2', lambda => 0.1::real)`,
		`dp_describe($1, 0.1::real, delta => 1e-6::real)`, `dp_score(dp_last_release($1), 0.1::real, 1e-6::real)`,
	} {
		w.exec(w.analyst, `SELECT * FROM `+sql, w.dataset)
		if w.entries() != entries {
			t.Fatalf("%s is charged", sql)
		}
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.3::real)`, w.dataset); said["cost_epsilon"] != "0.3" {
		t.Errorf("%v", said)
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 9.7::real, 0.0003::real)`, w.dataset)
	if got := one[string](w, w.steward, `SELECT epsilon_total || ' ' || delta_total FROM dp.budget WHERE dataset = $1`, w.dataset); got != "9.7 0.0003" {
		t.Errorf("budget %s", got)
	}
	// All other numbers stay what they are.
	for _, x := range []string{"0.2", "1", "0.123046875", "0.20000000298023227", "0.3333333432674408", "1e-300", "1e+300", "5e-324", "NaN", "Infinity", "-0.5"} {
		if got := one[string](w, w.super, `SELECT dp_int.typed($1::text::float8)::text`, x); got != x {
			t.Errorf("%s became %s", x, got)
		}
	}
}

// Whatever the values are, the answer is a valid private one: finite numbers,
// the charge that was asked, no word about the data.
func TestAwkwardDataGetAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1000, 0)
	for name, query := range map[string]string{
		"one row":       `SELECT 1.0::float8 AS y, 2.0::float8 AS x`,
		"two rows":      `SELECT i::float8 AS y, i::float8 AS x FROM generate_series(1, 2) i`,
		"all null":      `SELECT i::float8 AS y, NULL::float8 AS x FROM generate_series(1, 500) i`,
		"null target":   `SELECT NULL::float8 AS y, i::float8 AS x FROM generate_series(1, 500) i`,
		"constant":      `SELECT i::float8 AS y, 3.0::float8 AS x FROM generate_series(1, 500) i`,
		"zeros":         `SELECT 0.0::float8 AS y, 0.0::float8 AS x FROM generate_series(1, 500) i`,
		"huge":          `SELECT 1e308::float8 AS y, -1e308::float8 AS x FROM generate_series(1, 500) i`,
		"one huge":      `SELECT (CASE i WHEN 7 THEN 1e308 ELSE i END)::float8 AS y, (CASE i WHEN 7 THEN -1e308 ELSE i END)::float8 AS x FROM generate_series(1, 500) i`,
		"tiny":          `SELECT 5e-324::float8 AS y, -5e-324::float8 AS x FROM generate_series(1, 500) i`,
		"infinite":      `SELECT 'Infinity'::float8 AS y, '-Infinity'::float8 AS x FROM generate_series(1, 500) i`,
		"nan":           `SELECT 'NaN'::float8 AS y, i::float8 AS x FROM generate_series(1, 500) i`,
		"large numeric": `SELECT 1e400::numeric AS y, i::numeric AS x FROM generate_series(1, 500) i`,
		"dates":         `SELECT i::float8 AS y, (CASE i WHEN 1 THEN 'infinity' ELSE '2026-01-01'::date + i END)::date AS x FROM generate_series(1, 500) i`,
		"booleans":      `SELECT i % 2 = 0 AS y, i % 3 = 0 AS x FROM generate_series(1, 500) i`,
		"domain":        `SELECT i::float8 AS y, i::%s_domain AS x FROM generate_series(1, 500) i`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1000, 0)
			table := w.dataset + "_d"
			if name == "domain" {
				w.exec(w.super, fmt.Sprintf(`CREATE DOMAIN %s_domain AS int CHECK (VALUE > 0)`, w.dataset))
				query = fmt.Sprintf(query, w.dataset)
			}
			w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%s AS %s`, table, query))
			w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s TO dp_sidecar`, table))
			w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 100)`, table, "public."+table)
			w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
			for _, method := range []string{"exponential_mechanism", "objective_perturbation"} {
				out, err := regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1, options => jsonb_build_object('method', $2::text))`, table, method)
				if err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				for _, c := range out {
					if math.IsNaN(c.Coef) || math.IsInf(c.Coef, 0) {
						t.Errorf("%s: %v", method, out)
					}
				}
			}
			if spent := one[float64](w, w.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, table); spent != 2 {
				t.Errorf("spent %g, want 2", spent)
			}
		})
	}
	t.Run("no rows", func(t *testing.T) {
		table := w.dataset + "_none"
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (y float8, x float8); GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 100)`, table, "public."+table)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
		conn, heard := w.listening(w.person)
		for range 2 { // then it is known that there are none: no warning of too few rows goes before the refusal
			_, err := regress(conn, ask, table, 1.0)
			w.wantError(err, "DP005", "No privacy budget was spent")
		}
		if said := heard(); len(said) != 0 {
			t.Errorf("heard %q", said)
		}
	})
}

func TestNamesMayBeOdd(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.super, fmt.Sprintf(`
		CREATE SCHEMA "S'%[1]s"; GRANT USAGE ON SCHEMA "S'%[1]s" TO dp_sidecar;
		CREATE TABLE "S'%[1]s"."a ""b"" \c" ("Größe, \" float8, "x'); DROP TABLE y; --" float8, "{}" int);
		INSERT INTO "S'%[1]s"."a ""b"" \c" SELECT i, i, i FROM generate_series(1, 100) i;
		GRANT SELECT ON "S'%[1]s"."a ""b"" \c" TO dp_sidecar`, w.dataset))
	name := `it's "odd" \ ` + w.dataset
	w.exec(w.steward, `SELECT dp_register($1, c.oid, 'Größe, \', ARRAY['x''); DROP TABLE y; --', '{}'], 10) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relname = 'a "b" \c' AND nspname = $2`, name, "S'"+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	out := w.mustRegress(w.analyst, ask, name, 1.0)
	if out[1].Term != `x'); DROP TABLE y; --` || out[2].Term != "{}" {
		t.Errorf("terms %v", out)
	}
	out = w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1, features => ARRAY['{}']::name[])`, name)
	if len(out) != 2 {
		t.Errorf("terms %v", out)
	}
}

// The caller's settings change how values are printed on their way through the
// loopback, but not what is asked.
func TestOutputSettingsDoNotMatter(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.1234567890123456)
	w.exec(w.analyst, `SET extra_float_digits = -15; SET DateStyle = 'German'; SET IntervalStyle = 'sql_standard'; SET bytea_output = 'escape'; SET standard_conforming_strings = off; SET search_path = pg_temp, public`)
	w.mustRegress(w.analyst, ask, w.dataset, 0.1234567890123456)
	if w.entries() != 1 {
		t.Errorf("%d entries, want 1", w.entries())
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.25, options => '{"radius": 7.123456789012345}')`, w.dataset)
	if eps := one[float64](w, w.steward, `SELECT sum(epsilon) FROM dp.ledger WHERE dataset = $1`, w.dataset); eps != 0.3734567890123456 {
		t.Errorf("charged %v", eps)
	}
}

// Whether a backslash in a literal is one decides no check: where old applications need
// standard_conforming_strings off, views, units, windows and the ledger are what they are elsewhere.
func TestBackslashesInLiteralsDoNotMatter(t *testing.T) {
	w := newWorld(t, 1, 0)
	admissions := w.admissions(1, 1e-6)
	view := "shown_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.visits_`+w.dataset+` (patient int, cost float8, age float8);
		CREATE VIEW public.`+view+` AS SELECT cost, age, patient FROM public.visits_`+w.dataset+`; GRANT SELECT ON public.`+view+` TO dp_sidecar`)
	w.exec(w.super, `CREATE FUNCTION public.read_`+w.dataset+`() RETURNS SETOF public.`+w.dataset+` LANGUAGE sql STABLE AS 'SELECT * FROM public.`+w.dataset+`';
		CREATE VIEW public.hidden_`+w.dataset+` AS SELECT amount, age FROM public.read_`+w.dataset+`(); GRANT SELECT ON public.hidden_`+w.dataset+` TO dp_sidecar`)
	for _, conn := range []*pgx.Conn{w.steward, w.analyst} {
		w.exec(conn, `SET standard_conforming_strings = off; SET escape_string_warning = off`)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.5, over => $2::text::daterange)`, admissions, w.window(10, 3))
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, "hidden_"+w.dataset, "public.hidden_"+w.dataset)
	w.wantError(err, "22023", "it is not known whose rows it has")
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{age}', 1, 1e-6, unit => 'patient')`, view, "public."+view)
	if wrong := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(wrong) > 0 {
		t.Errorf("verify: %q", wrong)
	}
}

// Checks that developers switch on for their own functions find nothing in those of a job.
func TestJobsUnderPLpgSQLsOwnChecks(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.analyst, `SET plpgsql.extra_errors = 'all'`)
	id := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.eventually("the job is done", func() bool {
		return one[string](w, w.analyst, `SELECT status FROM dp_status($1::text::uuid)`, id) == "done"
	})
	if terms := w.mustRegress(w.analyst, `SELECT * FROM dp_result($1::text::uuid)`, id); len(terms) < 2 {
		t.Errorf("%v", terms)
	}
	w.exec(w.analyst, `CALL dp_run('l1', '`+w.dataset+`', 0.5)`)
}
