package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Whatever stands in a method, a penalty, a group or a label is data: refused by
// its name, with the words of the database's checks, and nothing is spent.
func TestArgumentsOfModelsInjectNothing(t *testing.T) {
	w := newWorld(t, 10, 1e-5)
	for _, c := range []struct{ arguments, code, says string }{
		{`method => 'gd''; DROP TABLE dp_int.ledger; --'`, "22023", `"method" must be one of`},
		{`method => ''`, "22023", `"method"`},
		{`method => NULL`, "22023", `"method"`},
		{`method => 'exponential_mechanism'`, "22023", `"method"`},
		{`method => 'GD'`, "22023", `"method"`},
		{`penalty => '{"fresh": true}'`, "22023", `"penalty"`},
		{`penalty => 'l1"}'', lambda', lambda => 1`, "22023", `"penalty"`},
		{`penalty => 'l1'`, "22023", "needs a lambda"},
		{`lambda => 1`, "22023", "no penalty"},
		{`penalty => 'l1', lambda => 'NaN'`, "22023", `"lambda"`},
		{`penalty => 'l1', lambda => 'Infinity'`, "22023", `"lambda"`},
		{`penalty => 'l1', lambda => -1`, "22023", `"lambda"`},
		{`penalty => 'l1', lambda => 1e300`, "22023", `"lambda"`},
		{`penalty => 'l1', lambda => NULL`, "22023", `"lambda"`},
		{`penalty => 'group_l1', lambda => 1`, "22023", "come together"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": []}'`, "22023", "list of lists"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [[]]}'`, "22023", "list of lists"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": "age"}'`, "22023", "list of lists"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": {"age": 1}}'`, "22023", "list of lists"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["age", "age"]]}'`, "22023", "every name once"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["age"], ["age"]]}'`, "22023", "every name once"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["age"], [null]]}'`, "22023", "every name once"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [[["age"]]]}'`, "42703", "no feature"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["age\"]]}''; DROP TABLE dp_int.ledger; --"]]}'`, "42703", "no feature"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["amount"]]}'`, "42703", "no feature"},
		{`penalty => 'group_l1', lambda => 1, options => '{"groups": [["note"]]}'`, "42703", "no feature"},
		{`penalty => 'l1', lambda => 1, options => '{"penalty": "l2"}'`, "22023", "given twice"},
		{`method => 'gd', options => '{"method": "svrg"}'`, "22023", "given twice"},
		{`options => '{"Method": "gd"}'`, "22023", `unknown option "Method"`},
		{`options => '{"seed": 1}'`, "22023", `unknown option "seed"`},
		{`options => '{"noise_multiplier": 0}'`, "22023", `unknown option`},
		{`options => '{"rows": 1}'`, "22023", `unknown option`},
		{`options => '{"positive_label": 1}'`, "22023", `unknown option`}, // logistic's alone
		{`options => '{"steps": 1.5}'`, "22023", `"steps"`},
		{`options => '{"steps": 1e400}'`, "22023", `"steps"`},
		{`options => '{"clip": {"$gt": 0}}'`, "22023", `"clip"`},
		{`options => '{"fresh": "true"}'`, "22023", `"fresh"`},
		{`options => '[{"fresh": true}]'`, "22023", "JSON object"},
		{`options => 'null'`, "22023", "JSON object"},
		{`options => '{"clip": "\u0000"}'`, "22P05", ""},
		{`options => ('{"groups": ' || repeat('[', 6000) || repeat(']', 6000) || '}')::jsonb`, "", ""}, // as deep as the server's stack lets it be
		{`options => jsonb_build_object(repeat('x', 1000000), 1)`, "22023", "too long"},
		{`delta => 0`, "22023", "delta"},
		{`delta => 1`, "22023", "delta"},
		{`delta => 'NaN'`, "22023", "delta"},
		{`target => 'age"; DROP TABLE dp_int.ledger; --'`, "42703", "not registered"},
		{`features => '{"age) FROM x; --"}'`, "42703", "not registered"},
		{`features => '{{age,region},{insured,age}}'`, "22023", "list of names"},
		{`features => '{ctid}'`, "42703", "not registered"},
	} {
		sql := fmt.Sprintf(`SELECT * FROM dp_linear_regress('%s', 0.5, %s)`, w.dataset, c.arguments)
		_, err := w.analyst.Exec(context.Background(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			t.Errorf("%.120s: %v, want an error", c.arguments, err)
			continue
		}
		if c.code != "" && (pg.Code != c.code || !strings.Contains(pg.Message+pg.Hint, c.says)) {
			t.Errorf("%.120s: %s %.200s (HINT: %.200s), want %s with %q", c.arguments, pg.Code, pg.Message, pg.Hint, c.code, c.says)
		}
		if c.code == "22023" && !strings.Contains(pg.Hint, "No privacy budget was spent") && c.says != "list of lists" {
			t.Errorf("%.120s: hint %.200q does not say that nothing was spent", c.arguments, pg.Hint)
		}
	}
	for _, labels := range []string{`{"positive_label": 1, "negative_label": 1}`, `{"negative_label": 1}`, `{"positive_label": "1"}`, `{"positive_label": 1e301}`, `{"positive_label": [1]}`, `{"positive_label": "yes"}`} {
		_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_logistic_regress($1, 0.5, target => 'insured', features => '{age}', options => $2)`, w.dataset, labels)
		w.wantError(err, "22023", "label")
		w.wantError(err, "22023", "No privacy budget was spent")
	}
	if w.spent() != 0 || w.entries() != 0 {
		t.Errorf("spent %g in %d entries, want nothing", w.spent(), w.entries())
	}
	if tables := one[int64](w, w.super, `SELECT count(*) FROM pg_class WHERE oid = 'dp_int.ledger'::regclass`); tables != 1 {
		t.Error("the ledger is gone")
	}
}

// Columns with hostile names are still only columns, also in groups.
func TestGroupsOfOddNames(t *testing.T) {
	w := newWorld(t, 10, 0)
	table := w.dataset + "_odd"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (y float8, "a""], [""b" float8, "'); DROP TABLE x; --" float8, "\" float8);
		INSERT INTO public.%[1]s SELECT random(), random(), random(), random() FROM generate_series(1, 1000); GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', ARRAY['a"], ["b', '''); DROP TABLE x; --', '\'], 10, 1e-5)`, table, "public."+table)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	out := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, method => 'gd', penalty => 'group_l1', lambda => 0.01,
		options => jsonb_build_object('steps', 3, 'groups', jsonb_build_array(jsonb_build_array('a"], ["b'), jsonb_build_array('\', '''); DROP TABLE x; --'))))`, table)
	if len(out) != 4 || out[1].Term != `a"], ["b` || out[2].Term != `'); DROP TABLE x; --` || out[3].Term != `\` {
		t.Errorf("terms %v", out)
	}
}
