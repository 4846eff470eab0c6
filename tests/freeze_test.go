package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// What keeps rows in their blocks is found at registration, and looked for before each job; the
// steward's word stands in where nothing is found.
func TestRowsStayInTheirBlocks(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.dataset + "_days"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s (day date, cost float8, age float8) PARTITION BY RANGE (day);
		CREATE TABLE public.%[1]s_old PARTITION OF public.%[1]s FOR VALUES FROM (MINVALUE) TO ('2027-01-01');
		INSERT INTO public.%[1]s SELECT '2026-01-01'::date + i / 100, i %% 7, i %% 5 FROM generate_series(0, 999) AS i;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, name))
	register := func(rest string) error {
		_, err := w.steward.Exec(context.Background(), fmt.Sprintf(`SELECT dp_register('%[1]s', '%[1]s', 'cost', '{age}', 2, 1e-6, '{"cost": 5, "age": 5}', block => 'day', block_width => '1 day', block_origin => '2026-01-01'%s)`, name, rest))
		return err
	}
	err := register(``)
	w.wantError(err, "22023", "nothing keeps rows")
	if !strings.Contains(hint(err), fmt.Sprintf("dp_freeze('public.%s', 'day')", name)) {
		t.Error(hint(err))
	}
	freeze := `SELECT dp_freeze('public.` + name + `', 'day')`
	w.exec(w.super, freeze)
	if err := register(``); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	if by := one[string](w, w.analyst, `SELECT block_is_fixed FROM dp.datasets WHERE dataset = $1`, name); by != "trigger" {
		t.Errorf("kept by %q", by)
	}
	ask := func(eps float64) error {
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, over => '[2026-01-01,2026-01-11)')`, name, eps)
		return err
	}
	refused := func(eps float64) {
		w.wantError(ask(eps), "DP004", `its column "day" can change now: what kept it was the trigger of dp_freeze`)
		w.wantError(ask(eps), "DP004", "SELECT dp_freeze(")
	}
	w.exec(w.super, `ALTER TABLE public.`+name+`_old DISABLE TRIGGER zz_dp_freeze_day`)
	refused(0.1)
	w.exec(w.super, freeze)
	if err := ask(0.1); err != nil {
		t.Error(err, hint(err))
	}
	if over := one[string](w, w.analyst, `SELECT concat_ws(' ', over, rows) FROM dp.releases WHERE dataset = $1`, name); over != "[2026-01-01,2026-01-11) 1000" {
		t.Errorf("the release is of %s", over)
	}
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_new PARTITION OF public.%[1]s DEFAULT; DROP TRIGGER zz_dp_freeze_day ON public.%[1]s; SELECT dp_freeze('public.%[1]s', 'day'); ALTER TABLE public.%[1]s_new ENABLE REPLICA TRIGGER zz_dp_freeze_day`, name))
	refused(0.11)
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
	w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	if err := register(`, block_is_fixed => 'the load never updates'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	if err := ask(0.12); err != nil {
		t.Error("with the steward's word:", err)
	}
}
