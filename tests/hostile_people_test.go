package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
)

// seen counts what somebody sees of the data set, its jobs and releases.
func (w *world) seen(conn *pgx.Conn) string {
	w.Helper()
	return one[string](w, conn, `SELECT format('%s data sets, %s budgets, %s jobs, %s releases, last release %s',
		(SELECT count(*) FROM dp.datasets WHERE dataset = $1), (SELECT count(*) FROM dp.budget WHERE dataset = $1), (SELECT count(*) FROM dp.jobs WHERE dataset = $1),
		(SELECT count(*) FROM dp.releases WHERE dataset = $1), dp_last_release($1) IS NOT NULL)`, w.dataset)
}

// Who has a dropped role's name is nobody's heir: neither of grants nor of jobs,
// releases and what was spent. A job left behind is refused, and spends nothing.
func TestADroppedRoleHasNoHeir(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	left := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.2)::text`, w.dataset)
	w.exec(w.super, `REVOKE dp_analyst FROM `+w.person)
	w.exec(w.super, `ALTER ROLE `+w.person+` RENAME TO older`)
	w.exec(w.super, `ALTER ROLE older RENAME TO `+w.person)
	w.exec(w.super, `DROP ROLE `+w.person)
	if err := w.system.Login(context.Background(), w.person, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	heir := w.connect(w.system.URL(w.person))
	none := "0 data sets, 0 budgets, 0 jobs, 0 releases, last release f"
	if seen := w.seen(heir); seen != none {
		t.Errorf("before any answer the heir sees %s", seen)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job that was left is refused", func() bool {
		return one[string](w, w.steward, `SELECT concat(status, ' ', sqlstate) FROM dp.jobs WHERE id = $1`, left) == "failed 42501"
	})
	_, err := regress(heir, ask, w.dataset, 0.1)
	w.wantError(err, "42501", "not granted")
	_, err = heir.Exec(context.Background(), `SELECT dp_cancel($1)`, left)
	w.wantError(err, "22023", "you have no job")
	_, err = heir.Exec(context.Background(), `SELECT * FROM dp_result($1)`, left)
	w.wantError(err, "22023", "you have no job")
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	w.mustRegress(heir, ask, w.dataset, 0.3)
	if seen := w.seen(heir); seen != "1 data sets, 1 budgets, 1 jobs, 1 releases, last release t" {
		t.Errorf("with a grant of his own the heir sees %s", seen)
	}
	// Both are told apart where they have spent.
	w.exec(w.super, `DROP ROLE `+w.person)
	if err := w.system.Login(context.Background(), w.person, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	third := w.connect(w.system.URL(w.person))
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.45)`, w.dataset, w.person)
	w.mustRegress(third, ask, w.dataset, 0.4)
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.caller_total WHERE caller = $1`, w.person); n != 2 {
		t.Errorf("%d totals for two people of one name", n)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
	// A grant to a role that is gone can be taken back by its name.
	w.exec(w.super, `DROP ROLE `+w.person)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	_, err = w.steward.Exec(context.Background(), `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	w.wantError(err, "22023", "not granted")
}

// A renamed role is who it was: its limit, its jobs and its grants stay, also those
// of a job that waits.
func TestARenamedRoleStaysWhoItWas(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	waiting := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.4)::text`, w.dataset)
	renamed := w.person + "_renamed"
	rename := func(from, to string) {
		w.exec(w.super, fmt.Sprintf(`ALTER ROLE %s RENAME TO %s`, from, to))
		w.exec(w.super, fmt.Sprintf(`CREATE ROLE %s LOGIN IN ROLE dp_analyst`, from))
	}
	rename(w.person, renamed)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, waiting) == "done" })
	if seen := w.seen(w.analyst); seen != "1 data sets, 1 budgets, 1 jobs, 1 releases, last release t" {
		t.Errorf("under a new name: %s", seen)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.2)
	w.wantError(err, "DP002", `"`+renamed+`"`)
	w.mustRegress(w.analyst, ask, w.dataset, 0.1)
	if row := one[string](w, w.analyst, `SELECT format('%s of %s', my_epsilon_spent, my_epsilon_total) FROM dp.budget WHERE dataset = $1`, w.dataset); row != "0.5 of 0.5" {
		t.Errorf("under a new name: spent %s", row)
	}
	if names := strings.Join(all[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE dataset = $1 AND kind = 'charge' ORDER BY id`, w.dataset), " "); names != renamed+" "+renamed {
		t.Errorf("charged to %s", names)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A copy of the database in another cluster, in which the same OIDs are other people's,
// hands nobody what was another's until a name is bound.
func TestRolesOfAnotherClusterAreNobody(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	w.mustRegress(w.analyst, ask, w.dataset, 0.4)
	lost := w.newAnalyst("lost")
	w.mustRegress(lost, ask, w.dataset, 0.4)
	w.exec(w.super, `UPDATE dp_int.principal SET cluster = cluster + 1`) // as a dump from elsewhere has it
	if seen := w.seen(w.analyst); seen != "0 data sets, 0 budgets, 0 jobs, 0 releases, last release f" {
		t.Errorf("who has the OID here sees %s", seen)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.4)
	w.wantError(err, "42501", "not granted")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.wantError(err, "55000", "dpsidecar adopt")
	w.exec(w.super, `ALTER ROLE lost RENAME TO found`)
	bound := all[string](w, w.super, `SELECT format('%s %s', principal, bound) FROM dp_int.rebind_roles() ORDER BY 1`)
	if want := fmt.Sprintf("[%s t lost f]", w.person); fmt.Sprint(bound) != want {
		t.Errorf("bound %v, want %s", bound, want)
	}
	_, err = regress(w.analyst, ask, w.dataset, 0.2)
	w.wantError(err, "DP002", "from 0.4 to 0.6, the limit is 0.5")
	if seen := w.seen(lost); !strings.HasPrefix(seen, "0 data sets") {
		t.Errorf("who is not bound sees %s", seen)
	}
	w.exec(w.steward, `SELECT dp_grant($1, 'found')`, w.dataset) // a new person, from here on
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

const registerWith = `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => $3)`

// register tries to register a relation in schema public under its own name.
func (w *world) register(relation, options string) error {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s TO dp_sidecar`, relation))
	_, err := w.steward.Exec(context.Background(), registerWith, relation, "public."+relation, options)
	return err
}

// mustShare registers a relation, which must join the account of the data set, whose
// budget is spent.
func (w *world) mustShare(relation, options string) {
	w.Helper()
	if err := w.register(relation, options); err != nil {
		w.Fatalf("%s: %v: %s", relation, err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, relation, w.person)
	_, err := regress(w.analyst, ask, relation, 0.001)
	w.wantError(err, "DP002", "from 1 to 1.001, the budget is 1")
}

// servedWorld has a system of its own with a sidecar, and a budget of 1 that is spent.
func servedWorld(t *testing.T) *world {
	t.Helper()
	w := lonelyWorld(t, 1, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	return w
}

// replaced renames the table, notices that or not, and has a copy in its place.
func (w *world) replaced(notice string) (name string) {
	w.Helper()
	name = w.dataset + "_moved"
	w.script(fmt.Sprintf(`#ALTER TABLE public.%[1]s RENAME TO %[2]s;`, w.dataset, name) + notice +
		fmt.Sprintf(`; #CREATE TABLE public.%[1]s_copy AS TABLE public.%[2]s; #DROP TABLE public.%[2]s; #ALTER TABLE public.%[1]s_copy RENAME TO %[2]s`, w.dataset, name))
	return name
}

// A copy under a name that its table had only between two looks: somebody must say
// whose rows they are.
func TestWhatIsGoneIsAskedFor(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	moved := w.replaced("")
	w.exec(w.super, `CREATE TABLE public.other (amount float8, age float8)`)
	for _, relation := range []string{moved, "other"} {
		err := w.register(relation, "{}")
		w.wantError(err, "22023", fmt.Sprintf("the people of public.%s, which is gone", w.dataset))
		w.wantError(err, "22023", fmt.Sprintf(`people of "%s"`, w.dataset))
	}
	if err := w.register("other", `{"new_population": "who came in 2027"}`); err != nil {
		t.Error(err)
	}
	w.mustShare(moved, fmt.Sprintf(`{"account": "%s"}`, w.dataset))
	// Another table in the old name's place is the account's only when it is registered.
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%s AS SELECT 1.0::float8 AS amount, i::float8 AS age FROM generate_series(1, 100) i; CREATE TABLE public.third (amount float8, age float8)`, w.dataset))
	w.wantError(w.register("third", "{}"), "22023", "may hold the people of")
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.mustShare(w.dataset, "{}")
	if err := w.register("third", "{}"); err != nil {
		t.Error(err)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A view that shows a copy now, or has a table's place and shows a copy, may show the people of before.
func TestAViewThatMovedIsAskedFor(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	view, old := w.dataset+"_v", w.dataset+"_old"
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%s AS SELECT amount, age FROM public.%s`, view, w.dataset))
	w.mustShare(view, "{}")
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.copied AS TABLE public.%[1]s; CREATE OR REPLACE VIEW public.%[2]s AS SELECT amount, age FROM public.copied;
		ALTER TABLE public.%[1]s RENAME TO %[3]s; CREATE VIEW public.%[1]s AS SELECT amount, age FROM public.copied`, w.dataset, view, old))
	for _, relation := range []string{view, w.dataset} {
		w.exec(w.steward, `SELECT dp_unregister($1)`, relation)
		w.wantError(w.register(relation, "{}"), "22023", fmt.Sprintf(`it showed the people of data set "%s"`, relation))
	}
	w.mustShare(view, fmt.Sprintf(`{"account": "%s"}`, w.dataset))
	w.mustShare(w.dataset, "{}")

	// Where the people of what it reads now have an account, the hint names that one, and no new population.
	w.exec(w.super, `CREATE TABLE public.others AS SELECT 1.0::float8 AS amount, 2.0::float8 AS age FROM generate_series(1, 300)`)
	if err := w.register("others", `{"new_population": "a test"}`); err != nil {
		t.Fatal(err)
	}
	account := one[int64](w, w.super, `SELECT account FROM dp_int.dataset WHERE name = 'others'`)
	w.exec(w.steward, `SELECT dp_unregister($1)`, view)
	w.exec(w.super, fmt.Sprintf(`CREATE OR REPLACE VIEW public.%s AS SELECT amount, age FROM public.others`, view))
	err := w.register(view, "{}")
	w.wantError(err, "22023", fmt.Sprintf(`{"account": %d}`, account))
	if strings.Contains(hint(err), "new_population") {
		t.Error(hint(err))
	}
}

// A view that no relation below tells whose it is has one account while it is registered, whatever name it is given.
func TestAViewOfNobodyKnownHasOneAccount(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, fmt.Sprintf(`CREATE FUNCTION public.%[1]s_rows() RETURNS TABLE(amount float8, age float8) LANGUAGE plpgsql STABLE SECURITY DEFINER AS 'BEGIN RETURN QUERY SELECT t.amount, t.age FROM public.%[1]s t; END';
		CREATE VIEW public.%[1]s_made AS SELECT amount, age FROM public.%[1]s_rows(); GRANT SELECT ON public.%[1]s_made TO dp_sidecar`, w.dataset))
	for k, fails := range []bool{false, true} {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"total": true, "new_population": "a test"}')`,
			fmt.Sprintf("%s_made_%d", w.dataset, k), "public."+w.dataset+"_made")
		if fails {
			w.wantError(err, "22023", "these people are registered as "+w.dataset+"_made_0")
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The name that a table had when anything was registered, or checked, is known as its
// people's ever after.
func TestRenamesAreFollowed(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]string{
		"at a registration": `#CREATE TABLE public.%[1]s_o (amount float8, age float8); #GRANT SELECT ON public.%[1]s_o TO dp_sidecar; SELECT dp_register('o', 'public.%[1]s_o', 'amount', '{age}', 1)`,
		"at a recheck":      `#SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = 'v'; #DROP VIEW public.%[1]s_v`,
	} {
		t.Run(name, func(t *testing.T) {
			w := servedWorld(t)
			w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s_v AS SELECT amount, age FROM public.%[1]s; GRANT SELECT ON public.%[1]s_v TO dp_sidecar`, w.dataset))
			w.exec(w.steward, `SELECT dp_register('v', $1::text::regclass, 'amount', '{age}', 1)`, "public."+w.dataset+"_v")
			w.exec(w.super, fmt.Sprintf(`ALTER VIEW public.%[1]s_v SET (security_barrier)`, w.dataset))
			if strings.HasPrefix(name, "at a reg") {
				w.exec(w.super, fmt.Sprintf(`DROP VIEW public.%s_v`, w.dataset))
			}
			w.mustShare(w.replaced(fmt.Sprintf(notice, w.dataset)), "{}")
			if wrong := w.verify(); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

// Two tables that have exchanged their names have not exchanged their people.
func TestExchangedNamesKeepTheirAccounts(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, `CREATE TABLE public.other (amount float8, age float8)`)
	if err := w.register("other", "{}"); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s RENAME TO t; ALTER TABLE public.other RENAME TO %[1]s; ALTER TABLE public.t RENAME TO other`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister('other')`)
	w.mustShare("other", "{}")
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	if err := w.register(w.dataset, "{}"); err != nil {
		t.Fatal(err)
	}
	if spent := w.spent(); spent != 0 {
		t.Errorf("%g is spent of those who had nothing", spent)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// Partitions that are dropped in time ask for no statement.
func TestDroppedPartitionsAreNotAskedFor(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, `CREATE TABLE public.p (amount float8, age float8) PARTITION BY RANGE (age);
		CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (40); CREATE TABLE public.p2 PARTITION OF public.p FOR VALUES FROM (40) TO (100);
		INSERT INTO public.p SELECT i, i % 80 FROM generate_series(1, 500) i; CREATE TABLE public.other (amount float8, age float8)`)
	if err := w.register("p", "{}"); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant('p', $1)`, w.person)
	w.mustRegress(w.analyst, ask, "p", 0.5)
	w.exec(w.super, `DROP TABLE public.p1`)
	if err := w.register("other", "{}"); err != nil {
		t.Error(err, hint(err))
	}
}

// A steward without rights on a table registers a view of it that reads as whoever
// reads it, and that hands each value to whoever watches pg_locks.
func TestAViewThatReadsAsTheSidecarIsRefused(t *testing.T) {
	w := newWorld(t, 1, 0)
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) < 150000 {
		t.Skip("security_invoker came with Postgres 15")
	}
	spy := w.person + "s"
	if err := w.system.Login(context.Background(), spy, "dp_admin"); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, fmt.Sprintf(`CREATE SCHEMA %[1]s AUTHORIZATION %[1]s; GRANT USAGE ON SCHEMA public TO %[1]s`, spy))
	thief := w.connect(w.system.URL(spy))
	_, err := thief.Exec(context.Background(), `SELECT * FROM public.`+w.dataset)
	w.wantError(err, "42501", "permission denied")
	register := `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => $3)`
	for name, sql := range map[string]string{
		"leak":   `CREATE VIEW {me}.{n} WITH (security_invoker) AS SELECT {me}.leak(amount) AS amount, age FROM public.{t}`,
		"filter": `CREATE VIEW {me}.{n} WITH (security_invoker = on) AS SELECT amount, age FROM public.{t} WHERE {me}.leak(age) > 0`,
		"outer":  `CREATE VIEW {me}.plain_inner WITH (security_invoker = true) AS SELECT amount, age FROM public.{t}; CREATE VIEW {me}.{n} WITH (security_invoker) AS SELECT {me}.leak(amount) AS amount, age FROM {me}.plain_inner`,
	} {
		w.exec(thief, strings.ReplaceAll(`CREATE OR REPLACE FUNCTION {me}.leak(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(v::bigint); RETURN v; END $$`, "{me}", spy))
		fill := strings.NewReplacer("{me}", spy, "{n}", name, "{t}", w.dataset)
		if _, err := thief.PgConn().Exec(context.Background(), fill.Replace(sql)+fill.Replace(`; GRANT USAGE ON SCHEMA {me} TO dp_sidecar; GRANT SELECT ON ALL TABLES IN SCHEMA {me} TO dp_sidecar`)).ReadAll(); err != nil {
			t.Fatal(err)
		}
		_, err := thief.Exec(context.Background(), register, w.dataset+name, spy+"."+name, `{"total": true}`)
		w.wantError(err, "22023", "has security_invoker")
	}
	w.exec(thief, fmt.Sprintf(`CREATE VIEW %[1]s.plain WITH (security_invoker) AS SELECT amount, age FROM public.%[2]s; GRANT SELECT ON %[1]s.plain TO dp_sidecar`, spy, w.dataset))
	w.exec(thief, register, w.dataset+"plain", spy+".plain", `{}`)
	// One that comes later is neither counted nor read.
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"plain", w.person)
	w.mustRegress(w.analyst, ask, w.dataset+"plain", 0.25)
	w.exec(thief, fmt.Sprintf(`CREATE OR REPLACE VIEW %[1]s.plain WITH (security_invoker) AS SELECT %[1]s.leak(amount) AS amount, age FROM public.%[2]s`, spy, w.dataset))
	w.exec(w.super, `UPDATE dp_int.dataset SET options = '{"total": true}' WHERE name = $1`, w.dataset+"plain")
	_, err = regress(w.analyst, ask, w.dataset+"plain", 0.5)
	w.wantError(err, "DP004", "has security_invoker")
	w.wantError(err, "DP004", "No privacy budget was spent")
}

// A dump, restored after a rename: OIDs are others', and the name is one that nobody
// knew. Nothing is registered before the accounts know their relations again.
func TestARestoredCopyKnowsItsPeople(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.tool("pg_dump")
	moved := w.dataset + "_moved"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.stays AS TABLE public.%[1]s; ALTER TABLE public.%[1]s RENAME TO %[2]s`, w.dataset, moved))
	if err := w.register("stays", `{"new_population": "others"}`); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s RENAME TO %[1]s_twice`, moved)) // a name that nobody noted
	moved += "_twice"
	w.exec(w.super, fmt.Sprintf(`CREATE SCHEMA dashboard AUTHORIZATION %s`, w.person))
	w.exec(w.analyst, `CREATE MATERIALIZED VIEW dashboard.fits AS SELECT * FROM dp.coefficients`) // which pg_restore, as a superuser, is refused
	dump := filepath.Join(t.TempDir(), "dump")
	w.exec(w.super, `CREATE DATABASE copy`)
	w.run("pg_dump", "-Fc", "-f", dump, w.system.SuperuserURL())
	contents := filepath.Join(t.TempDir(), "contents")
	var left []string
	for line := range strings.Lines(w.run("pg_restore", "-l", dump)) {
		if !strings.Contains(line, "MATERIALIZED VIEW DATA dashboard fits ") {
			left = append(left, line)
		}
	}
	if err := os.WriteFile(contents, []byte(strings.Join(left, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("pg_restore", "--exit-on-error", "-L", contents, "-d", w.system.Cluster.SuperuserURL("copy"), dump)
	v := *w
	v.super = w.connect(w.system.Cluster.SuperuserURL("copy"))
	v.steward = w.connect(strings.Replace(w.system.StewardURL(), "/"+dev.Database, "/copy", 1))
	if name := one[string](&v, v.steward, `SELECT current_database()`); name != "copy" {
		t.Fatal(name)
	}
	for _, relation := range []string{moved, "stays"} {
		v.wantError(v.register(relation, "{}"), "DP003", "dpsidecar adopt")
	}
	config, err := pgx.ParseConfig(w.system.Cluster.SuperuserURL("copy"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = install.Adopt(context.Background(), install.Config{Admin: config}, true)
	v.wantError(err, "DP004", "there is no relation public."+w.dataset)
	v.exec(v.steward, `SELECT dp_unregister($1)`, w.dataset)
	if _, _, err := install.Adopt(context.Background(), install.Config{Admin: config}, true); err != nil {
		t.Fatal(err)
	}
	v.analyst = v.connect(strings.Replace(w.system.URL(w.person), "/"+dev.Database, "/copy", 1))
	v.exec(v.analyst, `REFRESH MATERIALIZED VIEW dashboard.fits`)
	bound := all[string](&v, v.super, `SELECT format('%s %s', relation, relid <> 0) FROM dp_int.account_relation WHERE current ORDER BY 1`)
	want := fmt.Sprintf("[public.%[1]s f public.%[1]s_moved f public.stays t]", w.dataset)
	if fmt.Sprint(bound) != want {
		t.Errorf("bound %v, want %s", bound, want)
	}
	v.wantError(v.register(moved, "{}"), "22023", "may hold the people of")
	v.exec(v.steward, `SELECT dp_unregister('stays')`)
	if err := v.register("stays", "{}"); err != nil {
		t.Error(err, hint(err))
	}
	if err := v.register(moved, fmt.Sprintf(`{"account": "%s"}`, w.dataset)); err != nil {
		t.Error(err, hint(err))
	}
	if spent := one[float64](&v, v.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, moved); spent != 1 {
		t.Errorf("spent %g", spent)
	}
	if wrong := v.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A policy of row-level security chooses rows by those of other tables: their people count as if a view had joined them.
func TestWhomAPolicyLooksAtCounts(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, strings.ReplaceAll(`
		CREATE TABLE public.visits AS SELECT i::float8 AS age, i::float8 AS amount FROM generate_series(1, 900) i;
		CREATE ROLE reader; GRANT SELECT ON public.{}, public.visits TO reader;
		CREATE VIEW public.seen AS SELECT amount, age FROM public.visits WHERE age > 0; ALTER VIEW public.seen OWNER TO reader;
		CREATE POLICY known ON public.visits USING (EXISTS (SELECT FROM public.{} p WHERE p.insured AND p.region = visits.age));
		CREATE FUNCTION public.known(x float8) RETURNS boolean LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM public.{} p WHERE p.region = x); END'`, "{}", w.dataset))
	if err := w.register("seen", `{"total": true}`); err != nil {
		t.Fatal(err, hint(err)) // the policy is not enabled
	}
	w.exec(w.super, `ALTER TABLE public.visits ENABLE ROW LEVEL SECURITY`)
	w.exec(w.steward, `SELECT dp_grant('seen', $1)`, w.person)
	_, err := regress(w.analyst, ask, "seen", 0.5)
	w.wantError(err, "DP004", "No privacy budget was spent")
	w.exec(w.steward, `SELECT dp_unregister('seen')`)
	w.wantError(w.register("seen", `{"total": true}`), "22023", "belong to different accounts")
	w.exec(w.super, `ALTER POLICY known ON public.visits USING (public.known(age))`)
	w.wantError(w.register("seen", `{"total": true}`), "22023", "whose rows it has")
	// Who is exempt from policies reads without them.
	w.exec(w.super, `ALTER TABLE public.visits OWNER TO reader`)
	if err := w.register("seen", `{"total": true}`); err != nil {
		t.Error(err, hint(err))
	}
	recheck := `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = 'seen' AND unregistered_at IS NULL`
	w.exec(w.super, recheck)
	w.exec(w.super, `ALTER TABLE public.visits FORCE ROW LEVEL SECURITY`)
	_, err = w.super.Exec(context.Background(), recheck)
	w.wantError(err, "DP004", "whose rows it has")
}
