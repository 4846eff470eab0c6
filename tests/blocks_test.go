package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// admissions registers a table of 200 days with 40 rows each, the last of them yesterday, with a
// budget for every day, and returns the data set's name.
func (w *world) admissions(epsilon, delta float64) string {
	w.Helper()
	name := "admissions_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+name+` AS
		SELECT (now() AT TIME ZONE 'UTC')::date - 200 + i / 40 AS admitted_on, 2 * x + random() AS cost, x AS age FROM (SELECT i, random() AS x FROM generate_series(0, 7999) AS i) AS r`)
	w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{age}', $3, $4, '{"cost": 2, "age": 1}', block => 'admitted_on', block_width => '1 day',
		block_origin => (now() AT TIME ZONE 'UTC')::date - 200, block_is_fixed => 'nobody may update it')`, name, "public."+name, epsilon, delta)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	return name
}

// A table that grows, from its registration to a window's release: each day has the budget to
// itself, the same window is the same release, and verify holds all of it.
func TestWindowsOfBlocks(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.admissions(1, 1e-6)
	const ask = `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`
	day := func(back int) string {
		return one[string](w, w.super, fmt.Sprintf(`SELECT to_char((now() AT TIME ZONE 'UTC')::date - %d, 'YYYY-MM-DD')`, back))
	}
	window := func(from, to int) string { return "[" + day(from) + "," + day(to) + ")" }
	first := w.mustRegress(w.analyst, ask, name, window(40, 10))
	if again := w.mustRegress(w.analyst, ask, name, window(40, 10)); !slices.Equal(again, first) {
		t.Error("the same window is another release")
	}
	if last := one[string](w, w.analyst, `SELECT dp_last($1, 30)::text`, name); last != window(30, 0) {
		t.Errorf("the last 30 blocks: %s", last)
	}
	if rows := one[float64](w, w.analyst, `SELECT (parameters ->> 'rows')::float8 FROM dp.releases WHERE dataset = $1`, name); rows != 30*40 {
		t.Errorf("%v rows are read of 1200", rows)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => dp_last($1, 30))`, name)
	runs := all[string](w, w.analyst, `SELECT concat(block_from, ' ', block_to, ' ', round(epsilon_spent::numeric, 1)) FROM dp_blocks($1)`, name)
	want := []string{day(200) + " " + day(40) + " 0.0", day(40) + " " + day(30) + " 0.4", day(30) + " " + day(10) + " 0.6", day(10) + " " + day(0) + " 0.4", day(0) + " " + day(-1) + " 0.0"}
	if !slices.Equal(runs, want) {
		t.Errorf("blocks: %q, want %q", runs, want)
	}
	said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 0.9, over => $2::text::daterange)`, name, window(50, 20))
	if !strings.HasPrefix(said["affordable"], "no") || said["rows"] != "1200" {
		t.Errorf("explained: %v", said)
	}
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.9, over => $2::text::daterange)`, name, window(50, 20))
	w.wantError(err, "DP002", "is among the fullest")
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.9, over => $2::text::daterange)`, name, window(80, 40))
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
