package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// visited gives the test a table of patients and one of their visits, of which each has up to
// five and some belong to nobody: what is paid is 10 + 2 age but for noise, of which a half is
// that of the patient.
func (w *world) visited(patients int) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`
		CREATE TABLE public.%[1]s_patients (id bigint PRIMARY KEY, name text NOT NULL, weight float8, height float8);
		INSERT INTO public.%[1]s_patients SELECT i, 'p' || i, 70 + i %% 7, 170 + i %% 11 FROM generate_series(1, %[2]d) AS i;
		CREATE TABLE public.%[1]s_v (patient bigint REFERENCES public.%[1]s_patients, day int, age float8, paid float8, doctor int, note text, referred bigint REFERENCES public.%[1]s_patients);
		INSERT INTO public.%[1]s_v
		SELECT p, d, age, 10 + 2 * age + own + random() - 0.5, d %% 3, 'doctor ' || d %% 3
		  FROM (SELECT p, random() - 0.5 AS own FROM generate_series(1, %[2]d) AS p OFFSET 0) AS persons,
		       LATERAL (SELECT d, 5 * random() AS age FROM generate_series(1, 1 + p %% 5) AS d) AS days;
		INSERT INTO public.%[1]s_v SELECT NULL, 0, 0, 1e9, 0, 'nobody' FROM generate_series(1, 50);
		GRANT SELECT ON public.%[1]s_v, public.%[1]s_patients TO dp_sidecar`, w.dataset, patients))
	w.dataset += "_v"
}

// registerUnit registers a relation by what stands between its name and its unit.
func (w *world) registerUnit(name, relation, rest string) error {
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, `+rest+`)`, name, "public."+relation)
	return err
}

const visits = `'paid', '{age}', 20, 1e-5, scales => '{"paid": 15, "age": 4}'`

func TestUnitsFromEndToEnd(t *testing.T) {
	w := newWorld(t, 1, 0)
	const patients = 20000
	w.visited(patients)
	if err := w.registerUnit(w.dataset, w.dataset, strings.Replace(visits, "20", "1000", 1)+`, unit => 'patient', max_rows => 4`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	out, _ := w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, w.dataset, 2)
	for i, want := range []float64{10, 2} {
		if math.Abs(out[i].Coef-want) > 0.1 {
			t.Errorf("%v, want %v", out[i], want)
		}
	}
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	// Persons are independent, their visits are not: the standard error of the intercept is at
	// least that of the mean of what is their own, of variance 1/12.
	if e := one[float64](w, w.analyst, `SELECT std_err FROM dp_summary($1) WHERE term = '(intercept)'`, release); e < math.Sqrt(1./12/patients) {
		t.Errorf("a standard error of %v", e)
	}
	facts := one[string](w, w.analyst, `SELECT concat_ws(' ', row_count, unit, max_rows, persons) FROM dp.datasets WHERE dataset = $1`, w.dataset)
	if facts != fmt.Sprint(patients, " patient 4") {
		t.Errorf("%q", facts)
	}
	if p := one[string](w, w.analyst, `SELECT concat_ws(' ', parameters ->> 'rows', parameters ->> 'max_rows') FROM dp.releases WHERE id = $1::uuid`, release); p != fmt.Sprint(patients, " 4") {
		t.Errorf("%q", p)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1)`, w.dataset)
	if v := one[float64](w, w.analyst, `SELECT value FROM dp_describe($1, 10, columns => '{age}') WHERE column_name = 'age' AND statistic = 'mean'`, w.dataset); math.Abs(v-2.5) > 0.1 {
		t.Errorf("a mean age of %v", v)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_huber_regress($1, 1)`, w.dataset)
	if r2 := one[float64](w, w.analyst, `SELECT value FROM dp.scores WHERE release = $1::uuid AND metric = 'r2'`, w.scored(release)); r2 < 0.9 {
		t.Errorf("r2 is %v", r2)
	}
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
}

// A column makes up persons like those of the key if it is unique in every row: not by an index that could not be built
// to its end, not where children inherit from the table, and not any more once its index is gone.
func TestAUnitThatIsNoKeyIsAnotherOne(t *testing.T) {
	w := lonelyWorld(t, 1, 0) // what was charged and is gone refuses others of its system
	w.serve()
	base := w.dataset
	register := func(table, unit string) error {
		return w.registerUnit(base+table, base+table, `'y', '{x}', 20, 1e-5, scales => '{"y": 10, "x": 1}', unit => '`+unit+`'`)
	}
	for table, c := range map[string]struct{ then, by string }{
		"_half":   {`CREATE UNIQUE INDEX CONCURRENTLY ON public.%s (ssn)`, "2"}, // fails, and leaves its index
		"_parent": {`ALTER TABLE public.%s ADD UNIQUE (ssn)`, "1"},
		"_key":    {`ALTER TABLE public.%s ADD CONSTRAINT ` + base + `_ssn UNIQUE (ssn)`, "1"},
	} {
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT i AS id, i / %[2]s AS ssn, 10 * random() AS y, random() AS x FROM generate_series(1, 300) i;
			ALTER TABLE public.%[1]s ADD PRIMARY KEY (id);
			CREATE TABLE public.%[1]s_visits AS SELECT 1 + i %% 300 AS patient, 10 * random() AS y, random() AS x FROM generate_series(1, 600) i;
			ALTER TABLE public.%[1]s_visits ADD FOREIGN KEY (patient) REFERENCES public.%[1]s;
			GRANT SELECT ON public.%[1]s, public.%[1]s_visits TO dp_sidecar`, base+table, c.by))
		if table == "_parent" {
			w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_child () INHERITS (public.%[1]s); INSERT INTO public.%[1]s_child SELECT * FROM public.%[1]s; GRANT SELECT ON public.%[1]s_child TO dp_sidecar`, base+table))
		}
		if _, err := w.super.Exec(context.Background(), fmt.Sprintf(c.then, base+table)); (err != nil) != (table == "_half") {
			t.Fatal(table, err)
		}
		if err := register(table+"_visits", "patient"); err != nil {
			t.Fatal(table, err)
		}
		if err := register(table, "ssn"); table == "_key" {
			if err != nil {
				t.Fatal(err)
			}
		} else {
			w.wantError(err, "22023", "by another unit")
		}
	}
	ask := func() error {
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, base+"_key")
		return err
	}
	for _, name := range []string{"_key", "_key_visits"} {
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, base+name, w.person)
	}
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_key DROP CONSTRAINT %[1]s_ssn; UPDATE public.%[1]s_key SET ssn = ssn / 2`, base))
	w.wantError(ask(), "DP004", "which is none any more")
	if _, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, base+"_key_visits"); err != nil {
		t.Error(err)
	}
	w.exec(w.super, fmt.Sprintf(`UPDATE public.%[1]s_key SET ssn = id; ALTER TABLE public.%[1]s_key ADD CONSTRAINT %[1]s_ssn UNIQUE (ssn)`, base))
	if err := ask(); err != nil {
		t.Error(err)
	}
	// A key that came after the registration has let the visits in, and a foreign key of the column hides nothing.
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_late AS SELECT i AS id, i AS ssn, 10 * random() AS y, random() AS x FROM generate_series(1, 300) i;
		ALTER TABLE public.%[1]s_late ADD PRIMARY KEY (id);
		CREATE TABLE public.%[1]s_late_visits AS SELECT i AS patient, 10 * random() AS y, random() AS x FROM generate_series(1, 300) i;
		ALTER TABLE public.%[1]s_late_visits ADD FOREIGN KEY (patient) REFERENCES public.%[1]s_late;
		CREATE TABLE public.%[1]s_codes AS SELECT i AS ssn FROM generate_series(0, 300) i;
		ALTER TABLE public.%[1]s_codes ADD PRIMARY KEY (ssn);
		GRANT SELECT ON public.%[1]s_late, public.%[1]s_late_visits TO dp_sidecar`, base))
	if err := register("_late", "ssn"); err != nil {
		t.Fatal(err)
	}
	w.wantError(register("_late_visits", "patient"), "22023", "by another unit")
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_late ADD CONSTRAINT %[1]s_lately UNIQUE (ssn)`, base))
	if err := register("_late_visits", "patient"); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, base+"_late", w.person)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_late DROP CONSTRAINT %[1]s_lately; UPDATE public.%[1]s_late SET ssn = ssn / 2`, base))
	late := func() error {
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, base+"_late")
		return err
	}
	w.wantError(late(), "DP004", "which is none any more")
	w.exec(w.super, `SELECT dp_int.rebind_relations()`) // as in a copy that lacks the key
	w.wantError(late(), "DP004", "which is none any more")
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_late ADD FOREIGN KEY (ssn) REFERENCES public.%[1]s_codes`, base))
	w.wantError(late(), "DP004", "which is none any more")
	w.exec(w.super, fmt.Sprintf(`DROP TABLE public.%s_key_visits`, base)) // a data set of the account whose table is gone is no obstacle
	if _, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.9)`, base+"_key"); err != nil {
		t.Error(err)
	}
}

// Patients whom two tables refer to have one budget, whoever was registered first, and their
// own table too: it is spent by questions about any of them.
func TestPersonsOfSeveralTablesHaveOneBudget(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(300)
	base := strings.TrimSuffix(w.dataset, "_v")
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_bills AS SELECT patient AS payer, paid, age FROM public.%[1]s_v WHERE patient IS NOT NULL;
		ALTER TABLE public.%[1]s_bills ADD FOREIGN KEY (payer) REFERENCES public.%[1]s_patients;
		CREATE TABLE public.%[1]s_other AS SELECT * FROM public.%[1]s_v;
		CREATE VIEW public.%[1]s_view AS SELECT patient AS who, doctor, age, paid FROM public.%[1]s_v;
		GRANT SELECT ON public.%[1]s_bills, public.%[1]s_other, public.%[1]s_view TO dp_sidecar`, base))
	register := func(name, rest string) {
		t.Helper()
		if err := w.registerUnit(base+name, base+name, rest); err != nil {
			t.Fatal(err, hint(err))
		}
	}
	register("_v", visits+`, unit => 'patient'`)
	register("_bills", visits+`, unit => 'payer'`)
	register("_patients", `'weight', '{height}', 20, 1e-5, unit => 'id', max_rows => 1`)
	register("_view", visits+`, unit => 'who'`)
	register("_other", visits+`, unit => 'patient'`) // nothing says who they are
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, base+"_bills", w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, base+"_bills")
	for name, spent := range map[string]bool{"_v": true, "_bills": true, "_patients": true, "_view": true, "_other": false} {
		if got := one[bool](w, w.steward, `SELECT epsilon_spent > 0 FROM dp.budget WHERE dataset = $1`, base+name); got != spent {
			t.Errorf("%s: spent %t", name, got)
		}
	}
	// The same people by another unit, or by rows.
	w.wantError(w.registerUnit("x", base+"_v", visits+`, unit => 'doctor'`), "22023", "by another unit")
	w.wantError(w.registerUnit("x", base+"_view", visits+`, unit => 'doctor'`), "22023", "by another unit")
	w.wantError(w.registerUnit("x", base+"_v", visits+`, unit => 'referred'`), "22023", "by another unit") // to the same table
	w.wantError(w.registerUnit("x", base+"_patients", `'weight', '{height}', 20, 1e-5, unit => 'name'`), "22023", "by another unit")
	for _, name := range []string{"_v", "_view", "_patients"} {
		rest := visits
		if name == "_patients" {
			rest = `'weight', '{height}', 20, 1e-5`
		}
		w.wantError(w.registerUnit("x", base+name, rest), "22023", "protects all rows of a person")
	}
	// What was charged by persons stays so.
	for _, name := range []string{"_v", "_bills", "_patients", "_view"} {
		w.exec(w.steward, `SELECT dp_unregister($1)`, base+name)
	}
	w.wantError(w.registerUnit("x", base+"_v", visits), "22023", "protects all rows of a person")
}

// Since Postgres 18 a row may refer to a person at a time.
func TestPersonsAtATimeHaveOneBudget(t *testing.T) {
	w := newWorld(t, 1, 0)
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) < 180000 {
		t.Skip("foreign keys have periods since Postgres 18")
	}
	w.exec(w.super, strings.ReplaceAll(`CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA pg_catalog;
		CREATE TABLE public.{}_people (id bigint, valid daterange, weight float8, height float8, PRIMARY KEY (id, valid WITHOUT OVERLAPS));
		CREATE TABLE public.{}_stays (person bigint, stay daterange, age float8, paid float8, FOREIGN KEY (person, PERIOD stay) REFERENCES public.{}_people (id, PERIOD valid));
		CREATE TABLE public.{}_bills (payer bigint, due daterange, age float8, paid float8, FOREIGN KEY (payer, PERIOD due) REFERENCES public.{}_people (id, PERIOD valid));
		INSERT INTO public.{}_people SELECT i, daterange('2026-01-01', '2027-01-01'), i, i FROM generate_series(1, 300) i;
		INSERT INTO public.{}_stays SELECT i, daterange('2026-02-01', '2026-02-03'), i, i FROM generate_series(1, 300) i;
		GRANT SELECT ON public.{}_people, public.{}_stays, public.{}_bills TO dp_sidecar`, "{}", w.dataset))
	for name, rest := range map[string]string{"_people": `'weight', '{height}', 20, 1e-5, unit => 'id', max_rows => 1`, "_stays": visits + `, unit => 'person'`, "_bills": visits + `, unit => 'payer'`} {
		if err := w.registerUnit(w.dataset+name, w.dataset+name, rest); err != nil {
			t.Fatal(err, hint(err))
		}
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_stays", w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset+"_stays")
	for _, name := range []string{"_people", "_stays", "_bills"} {
		if !one[bool](w, w.steward, `SELECT epsilon_spent > 0 FROM dp.budget WHERE dataset = $1`, w.dataset+name) {
			t.Errorf("%s: nothing is spent", name)
		}
	}
	w.wantError(w.registerUnit("x", w.dataset+"_stays", visits), "22023", "protects all rows of a person")
}

func TestAnAccountOfRowsStaysOne(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(300)
	if err := w.registerUnit(w.dataset, w.dataset, visits); err != nil {
		t.Fatal(err)
	}
	w.wantError(w.registerUnit("x", w.dataset, visits+`, unit => 'patient'`), "22023", "protects single rows")
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset) // nothing was charged
	if err := w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'patient'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	if err := w.registerUnit(w.dataset, w.dataset, visits); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.wantError(w.registerUnit("x", w.dataset, visits+`, unit => 'patient'`), "22023", "protects single rows")
}

// A table that is made again, or takes another's name over, has the people that its names stand for, and their unit.
func TestATableMadeAgainKeepsItsUnit(t *testing.T) {
	for name, again := range map[string]string{
		"dropped":   `CREATE TABLE public.%[1]s_new AS TABLE public.%[1]s; DROP TABLE public.%[1]s; ALTER TABLE public.%[1]s_new RENAME TO %[1]s`,
		"exchanged": `CREATE TABLE public.%[1]s_new AS TABLE public.%[1]s; ALTER TABLE public.%[1]s RENAME TO %[1]s_old; ALTER TABLE public.%[1]s_new RENAME TO %[1]s`,
	} {
		w := newWorld(t, 1, 0)
		w.visited(300)
		if err := w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'patient'`); err != nil {
			t.Fatal(err)
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
		w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
		w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
		w.exec(w.super, fmt.Sprintf(again+`; CREATE VIEW public.%[1]s_view AS SELECT doctor AS who, age, paid FROM public.%[1]s; GRANT SELECT ON public.%[1]s, public.%[1]s_view TO dp_sidecar`, w.dataset))
		w.wantError(w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'doctor'`), "22023", "by another unit")
		w.wantError(w.registerUnit(w.dataset, w.dataset+"_view", visits+`, unit => 'who'`), "22023", "by another unit")
		if err := w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'patient'`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if spent := one[float64](w, w.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, w.dataset); spent == 0 {
			t.Errorf("%s: a fresh budget", name)
		}
	}
}

func TestBadUnitsAreExplained(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(10)
	w.exec(w.super, fmt.Sprintf(`CREATE COLLATION IF NOT EXISTS public.no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		ALTER TABLE public.%[1]s ADD folded text COLLATE public.no_case, ADD n numeric, ADD f float8, ADD born date;
		CREATE VIEW public.%[1]s_low AS SELECT lower(note) AS who, patient, patient AS again, age, paid FROM public.%[1]s;
		GRANT SELECT ON public.%[1]s_low TO dp_sidecar`, w.dataset))
	for _, c := range []struct{ rest, code, says string }{
		{`, max_rows => 3`, "22023", "max_rows without a unit"},
		{`, persons => 3`, "22023", "persons without a unit"},
		{`, unit => 'nothing'`, "42703", "does not exist"},
		{`, unit => 'n'`, "22023", "cannot tell persons apart"},
		{`, unit => 'f'`, "22023", "cannot tell persons apart"},
		{`, unit => 'born'`, "22023", "cannot tell persons apart"},
		{`, unit => 'folded'`, "22023", "nondeterministic"},
		{`, unit => 'patient', max_rows => 0`, "22023", "max_rows must be from 1 to 1000"},
		{`, unit => 'patient', max_rows => 1001`, "22023", "max_rows must be from 1 to 1000"},
		{`, unit => 'patient', persons => 0`, "22023", "persons must be at least 1"},
	} {
		w.wantError(w.registerUnit("x", w.dataset, visits+c.rest), c.code, c.says)
	}
	// For whole numbers of another type the hint has the statement that serves.
	err := w.registerUnit("x", w.dataset, visits+`, unit => 'n'`)
	said := hint(err)
	w.wantError(err, "22023", "register with unit => 'n_key'")
	w.exec(w.super, said[strings.Index(said, "ALTER TABLE"):strings.Index(said, "; and register")])
	if err := w.registerUnit("x", w.dataset, visits+`, unit => 'n_key'`); err != nil {
		t.Error(err)
	}
	w.exec(w.steward, `SELECT dp_unregister('x')`)
	w.wantError(w.registerUnit("x", w.dataset, `'paid', '{age,doctor}', 1, unit => 'doctor'`), "22023", "is a target or a feature")
	w.wantError(w.registerUnit("x", w.dataset, `'paid', '{age,note}', 1, unit => 'note'`), "22023", "is a target or a feature")
	w.wantError(w.registerUnit("x", w.dataset, `'paid', '{{age},{n}}', 1`), "22023", "not an array of 2 dimensions")
	w.wantError(w.registerUnit("x", w.dataset+"_low", `'paid', '{age}', 1, options => '{"total": true}', unit => 'who'`), "22023", "computed in a view")
	w.wantError(w.registerUnit("x", w.dataset+"_low", `'paid', '{again}', 1, options => '{"total": true}', unit => 'patient'`), "22023", "is a target or a feature")
}

// A registration whose unit is another column by now is not what was registered: nothing is spent.
func TestAUnitThatChangedIsNoticed(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(300)
	view := w.dataset + "_view"
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s AS SELECT patient AS who, age, paid FROM public.%[2]s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, view, w.dataset))
	if err := w.registerUnit(view, view, visits+`, unit => 'who'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, view, w.person)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[2]s ALTER doctor TYPE bigint; CREATE OR REPLACE VIEW public.%[1]s AS SELECT doctor AS who, age, paid FROM public.%[2]s`, view, w.dataset))
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, view)
	w.wantError(err, "DP004", "its unit was")
	if spent := one[float64](w, w.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, view); spent != 0 {
		t.Errorf("spent %v", spent)
	}
}

// A column that takes over the name of the unit is another one: here every row would be a
// person.
func TestAColumnThatTakesTheUnitsNameIsNoticed(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(300)
	if err := w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'patient'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s RENAME patient TO former; ALTER TABLE public.%[1]s ADD COLUMN row_id bigserial; ALTER TABLE public.%[1]s RENAME row_id TO patient`, w.dataset))
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	w.wantError(err, "DP004", "its unit was another column")
}

// A foreign key that comes later says that two accounts are of the same people.
func TestALaterReferenceToAnotherAccountIsNoticed(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(300)
	base := strings.TrimSuffix(w.dataset, "_v")
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_v DROP CONSTRAINT %[1]s_v_patient_fkey`, base))
	for name, rest := range map[string]string{"_v": visits + `, unit => 'patient'`, "_patients": `'weight', '{height}', 20, 1e-5, unit => 'id'`} {
		if err := w.registerUnit(base+name, base+name, rest); err != nil {
			t.Fatal(err, hint(err))
		}
	}
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s_v ADD FOREIGN KEY (patient) REFERENCES public.%[1]s_patients`, base))
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset)
	w.wantError(err, "DP004", "people of another account")
}

// Neither plan, price, forecast nor message says how many rows persons have: a table with the
// same persons and twenty times the rows has the same.
func TestNothingPublicTellsTheNumberOfRows(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(2000)
	many := w.dataset + "_many"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[2]s AS SELECT v.* FROM public.%[1]s v, generate_series(1, 20); GRANT SELECT ON public.%[2]s TO dp_sidecar`, w.dataset, many))
	tell := func(relation string) (says []string) {
		name := "same_name_" + w.dataset
		if err := w.registerUnit(name, relation, visits+`, unit => 'patient'`); err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		for _, model := range []string{"linear", "l1", "huber", "linear"} {
			says = append(says, one[string](w, w.analyst, `SELECT string_agg(property || '=' || value, E'\n') FROM dp_explain($1, $2, 1)`, model, name))
			if len(says) == 3 {
				w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1, delta => 1e-6)`, name)
			}
		}
		release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, name)
		says = append(says, one[string](w, w.super, `SELECT concat_ws(' ', r.parameters, j.first_step, j.last_step) FROM dp_int.release r JOIN dp_int.job j ON j.id = r.job WHERE r.id = $1::uuid`, release),
			one[string](w, w.steward, `SELECT concat_ws(' ', rho, epsilon, event) FROM dp.ledger WHERE dataset = $1 AND kind = 'charge' ORDER BY id DESC LIMIT 1`, name))
		w.exec(w.steward, `SELECT dp_unregister($1)`, name)
		for i := range says {
			says[i] = strings.ReplaceAll(says[i], release, "release")
		}
		return says
	}
	few, more := tell(w.dataset), tell(many)
	for i, a := range few {
		if i == 3 { // which tells of the noise that the release had, as it was released
			continue
		}
		if a != more[i] {
			t.Errorf("%s\n\nof more rows:\n\n%s", a, more[i])
		}
	}
}

// Whoever must hide how many persons there are registers a number.
func TestANumberOfPersonsIsKept(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(1000)
	for _, n := range []int{400, 5000} {
		name := fmt.Sprintf("%s_%d", w.dataset, n)
		if err := w.registerUnit(name, w.dataset, visits+fmt.Sprintf(`, unit => 'patient', persons => %d`, n)); err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		out := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 5)`, name)
		if len(out) != 2 {
			t.Errorf("%v", out)
		}
		if got := one[string](w, w.analyst, `SELECT concat(row_count, ' ', (SELECT r.rows FROM dp.releases r WHERE r.dataset = d.dataset)) FROM dp.datasets d WHERE dataset = $1`, name); got != fmt.Sprint(n, " ", n) {
			t.Errorf("%s persons, want %d", got, n)
		}
	}
}

// Through partitions and a view of them.
func TestUnitsThroughPartitions(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(2000)
	name := w.dataset + "_p"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_t (day int, patient bigint, age float8, paid float8, PRIMARY KEY (patient, day)) PARTITION BY LIST (day);
		CREATE TABLE public.%[1]s_1 PARTITION OF public.%[1]s_t FOR VALUES IN (1, 2);
		CREATE TABLE public.%[1]s_2 PARTITION OF public.%[1]s_t DEFAULT;
		INSERT INTO public.%[1]s_t SELECT day, patient, age, paid FROM public.%[2]s WHERE patient IS NOT NULL;
		CREATE VIEW public.%[1]s AS SELECT * FROM public.%[1]s_t;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, name, w.dataset))
	if err := w.registerUnit(name, name, visits+`, unit => 'patient'`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	out := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 10)`, name)
	if math.Abs(out[1].Coef-2) > 0.5 {
		t.Errorf("%v", out)
	}
	if n := one[int](w, w.analyst, `SELECT row_count::int FROM dp.datasets WHERE dataset = $1`, name); n != 2000 {
		t.Errorf("%d persons", n)
	}
	if event := one[json.RawMessage](w, w.steward, `SELECT event -> 'budget' FROM dp.ledger WHERE dataset = $1 AND event ? 'budget'`, name); !strings.Contains(string(event), `"unit": "public.`+name+`_t.patient"`) {
		t.Errorf("the ledger says %s", event)
	}
}

// A foreign key may be declared on partitions or children one by one.
func TestReferencesOfPartitionsTellWhoPersonsAre(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(100)
	base := strings.TrimSuffix(w.dataset, "_v")
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_t (age float8, patient bigint, paid float8) PARTITION BY LIST (patient);
		CREATE TABLE public.%[1]s_1 (patient bigint REFERENCES public.%[1]s_patients, age float8, paid float8);
		ALTER TABLE public.%[1]s_t ATTACH PARTITION public.%[1]s_1 DEFAULT;
		GRANT SELECT ON public.%[1]s_t TO dp_sidecar`, base))
	for name, rest := range map[string]string{"_t": visits + `, unit => 'patient'`, "_patients": `'weight', '{height}', 20, 1e-5, unit => 'id'`} {
		if err := w.registerUnit(base+name, base+name, rest); err != nil {
			t.Fatal(err, hint(err))
		}
	}
	if n := one[int](w, w.super, `SELECT count(DISTINCT account)::int FROM dp_int.dataset WHERE name = ANY ($1)`, []string{base + "_t", base + "_patients"}); n != 1 {
		t.Errorf("%d accounts of the same persons", n)
	}
}

// A key of several columns often has a person among them.
func TestAKeyOfSeveralColumnsIsWarnedOf(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.visited(10)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_k (patient bigint, day int, age float8, paid float8, PRIMARY KEY (patient, day)); GRANT SELECT ON public.%[1]s_k TO dp_sidecar`, w.dataset))
	for rest, want := range map[string]string{visits: "the primary key of public." + w.dataset + "_k (patient, day) has several columns", visits + `, unit => 'patient'`: ""} {
		steward, heard := w.listeningAt(w.system.StewardURL())
		if _, err := steward.Exec(context.Background(), `SELECT dp_register('k', $1::text::regclass, `+rest+`)`, "public."+w.dataset+"_k"); err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_unregister('k')`)
		if all := strings.Join(heard(), "\n"); !strings.Contains(all, want) || want == "" && strings.Contains(all, "key") {
			t.Errorf("%s: heard %q", rest, all)
		}
	}
}

// A column that is not unique and refers to other rows often names a person; a code that is a feature, or a statement that every
// person has one row, is no oversight.
func TestAReferenceThatIsNotUniqueIsAskedAbout(t *testing.T) {
	w := newWorld(t, 1, 0)
	table := "public." + w.dataset + "_v"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s_p (id bigint PRIMARY KEY); CREATE TABLE public.%[1]s_r (id int PRIMARY KEY);
		CREATE TABLE %[2]s (id bigserial PRIMARY KEY, person bigint REFERENCES public.%[1]s_p, detail bigint UNIQUE REFERENCES public.%[1]s_p, region int REFERENCES public.%[1]s_r, before bigint REFERENCES %[2]s, age float8, paid float8);
		CREATE VIEW %[2]s_renamed AS SELECT person AS who, region AS area, age, paid FROM %[2]s; CREATE VIEW %[2]s_without AS SELECT age, paid FROM %[2]s;
		GRANT SELECT ON %[2]s, %[2]s_renamed, %[2]s_without TO dp_sidecar`, w.dataset, table))
	person := fmt.Sprintf("%[1]s refers to public.%[2]s_p by person", table, w.dataset)
	region := fmt.Sprintf("%[1]s refers to public.%[2]s_r by region", table, w.dataset)
	hints := map[string]string{table: ": unit => 'person'.", table + "_renamed": ": unit => 'who'.", table + "_without": ", which it must show."}
	for _, c := range []struct{ relation, rest, want string }{
		{table + "_without", `'paid', '{age}', 1`, "dpsidecar: " + person + ", " + region + ": can a person have several rows?"},
		{table, `'paid', '{age}', 1`, "dpsidecar: " + person + ", " + region + ": can a person have several rows?"},
		{table, `'paid', '{age,region}', 1`, "dpsidecar: " + person + ": can a person have several rows?"},
		{table + "_renamed", `'paid', '{age,area}', 1`, "dpsidecar: " + person + ": can a person have several rows?"},
		{table, `'paid', '{age}', 1, categories => '{"region": ["1", "2"]}'`, "dpsidecar: " + person + ": can a person have several rows?"},
		{table, `'paid', '{age}', 1, options => '{"total": true}'`, ""},
		{table, `'paid', '{age}', 1, unit => 'person'`, ""},
	} {
		steward, heard := w.hearingHints("steward")
		w.exec(steward, `BEGIN`)
		w.exec(steward, `SELECT dp_register('v_' || $1, $2::text::regclass, `+c.rest+`)`, w.dataset, c.relation)
		w.exec(steward, `ROLLBACK`)
		if said := strings.Join(heard(), "\n"); !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, "refers to") || c.want != "" && !strings.Contains(said, hints[c.relation]) {
			t.Errorf("%s: heard %q", c.rest, said)
		}
	}
}
