package tests

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Whatever the catalogue lets an analyst, the loopback and the sidecar do stands
// here: a new function or table that forgets its rights is noticed.
func TestRightsAreThese(t *testing.T) {
	w := newWorld(t, 1, 0)
	const everybody = "public.dp_freeze" // the owner of a table, with his own rights
	executable := func(role string) []string {
		return all[string](w, w.super, `
			SELECT DISTINCT n.nspname || '.' || p.proname
			  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
			 WHERE (n.nspname IN ('dp', 'dp_int', 'dp_dblink') OR n.nspname = 'public' AND p.proname LIKE 'dp\_%')
			   AND p.prorettype <> 'trigger'::regtype AND has_schema_privilege($1, n.oid, 'USAGE') AND has_function_privilege($1, p.oid, 'EXECUTE')
			 ORDER BY 1`, role)
	}
	for role, may := range map[string][]string{
		w.person:      {"dp.caller", "dp.commit_refusal", "dp.linear_predictor", "dp.no_release", "dp.release_of", "dp.time_left", "dp.what_became", "public.dp_*"},
		"dp_loopback": {"dp_int.answered", "dp_int.ask", "dp_int.ask_score", "dp_int.cancel", "dp_int.elsewhere", "dp_int.enqueue", "dp_int.enqueue_description", "dp_int.enqueue_moments", "dp_int.enqueue_score", "dp_int.fetch", "dp_int.fetch_description", "dp_int.fetch_groups", "dp_int.fetch_moments", "dp_int.fetch_score", "dp_int.watch", everybody},
		"dp_sidecar":  {"dp_int.ask_node", "dp_int.check_shards", "dp_int.nodes_to_ask", "dp_int.why_changed", "dp_int.counted", "dp_int.dataset_recheck", "dp_int.figures", "dp_int.inquiry_*", "dp_int.job_*", "dp_int.schema_version", "dp_int.uncounted", "dp_int.worker_*", "public.dp_check_install", "public.dp_version", everybody},
	} {
		for _, f := range executable(role) {
			if !slices.ContainsFunc(may, func(pattern string) bool { ok, _ := path.Match(pattern, f); return ok }) {
				t.Errorf("%s can call %s", role, f)
			}
		}
	}
	for _, f := range []string{"public.dp_register", "public.dp_set_budget", "public.dp_unregister", "public.dp_grant", "public.dp_revoke", "public.dp_verify", "public.dp_abandon", "public.dp_set_queue_limit", "dp.record_verify"} {
		if slices.Contains(executable(w.person), f) {
			t.Errorf("an analyst can call %s", f)
		}
	}
	for role, tables := range map[string]string{w.person: `{dp.datasets,dp.budget,dp.blocks,dp.jobs,dp.releases,dp.coefficients,dp.scores,dp.descriptions,dp.suggested_scales,dp.moments}`, "dp_loopback": `{}`, "dp_sidecar": `{}`} {
		readable := all[string](w, w.super, `
			SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			 WHERE n.nspname IN ('dp', 'dp_int', 'dp_dblink') AND c.relkind IN ('r', 'v', 'm', 'S', 'p') AND NOT c.oid::regclass::text = ANY ($2::text[])
			   AND (has_table_privilege($1, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') OR has_any_column_privilege($1, c.oid, 'SELECT, INSERT, UPDATE'))`, role, tables)
		if len(readable) > 0 {
			t.Errorf("%s can read or write %v", role, readable)
		}
	}
	// Whatever runs with the owner's rights pins what it resolves names by.
	loose := all[string](w, w.super, `
		SELECT p.oid::regprocedure::text FROM pg_proc p
		 WHERE p.prosecdef AND p.proowner = 'dp_owner'::regrole AND NOT coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)`)
	if len(loose) > 0 {
		t.Errorf("no search_path is pinned on %v", loose)
	}
}

// A data set that one may not see and one that is not there look the same, and
// a grant taken back takes the releases with it.
func TestWhatIsNotGrantedIsNotThere(t *testing.T) {
	w := newWorld(t, 10, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.eventually("done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done" })
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)

	said := map[string]bool{}
	for _, name := range []string{w.dataset, "nothing_at_all"} {
		_, err := regress(w.analyst, ask, name, 0.5)
		w.wantError(err, "42501", "does not exist or is not granted")
		said[strings.ReplaceAll(err.Error(), name, "")] = true
	}
	if len(said) != 1 {
		t.Errorf("two answers: %v", said)
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, job)
	w.wantError(err, "42501", "no longer granted")
	for _, sql := range []string{
		`SELECT count(*) FROM dp.datasets WHERE dataset = '` + w.dataset + `'`, `SELECT count(*) FROM dp.budget WHERE dataset = '` + w.dataset + `'`,
		`SELECT count(*) FROM dp.releases WHERE id = '` + release + `'`, `SELECT count(*) FROM dp.coefficients WHERE release = '` + release + `'`,
		`SELECT count(dp_last_release('` + w.dataset + `'))`,
	} {
		if n := one[int64](w, w.analyst, sql); n != 0 {
			t.Errorf("%s: %d", sql, n)
		}
	}
}

// Casts, domains, operators and defaults of the caller's own run as the caller.
func TestCastsOfTheCallersRunAsTheCaller(t *testing.T) {
	w := newWorld(t, 10, 0)
	var heard []string
	config := w.analyst.Config()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { heard = append(heard, n.Message) }
	conn := w.connectConfig(config)
	w.exec(w.super, fmt.Sprintf(`CREATE SCHEMA s%[1]s AUTHORIZATION %[1]s`, w.person))
	for _, sql := range []string{
		`CREATE TYPE s{me}.evil AS (x text)`,
		`CREATE FUNCTION s{me}.tell(s{me}.evil) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'as %', current_user; RETURN ($1).x; END $$`,
		`CREATE FUNCTION s{me}.tell(s{me}.evil, int) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'as %', current_user; RETURN ($1).x::jsonb; END $$`,
		`CREATE CAST (s{me}.evil AS text) WITH FUNCTION s{me}.tell(s{me}.evil) AS IMPLICIT`,
		`CREATE DOMAIN s{me}.odd AS float8 CHECK (current_user = '{me}')`,
		`SELECT * FROM dp_l1_regress(ROW('{dataset}')::s{me}.evil, 0.5::s{me}.odd)`,
		`SELECT * FROM dp_l1_regress('{dataset}', 0.5, options => s{me}.tell(ROW('{"radius": 7}')::s{me}.evil, 1))`,
	} {
		w.exec(conn, strings.NewReplacer("{me}", w.person, "{dataset}", w.dataset).Replace(sql))
	}
	if len(heard) == 0 || slices.ContainsFunc(heard, func(s string) bool { return strings.HasPrefix(s, "as ") && s != "as "+w.person }) {
		t.Errorf("heard %q", heard)
	}
	if w.spent() != 1 {
		t.Errorf("spent %g, want 1", w.spent())
	}
}

// Who waits, who is alive and what is done cannot be forged by locks, names and
// notifications, which anybody may use.
func TestLocksAndNotificationsForgeNothing(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	for _, sql := range []string{`SET application_name = 'dpsidecar'`, `LISTEN dp_jobs`, `NOTIFY dp_jobs, 'queued'`} {
		w.exec(w.analyst, sql)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.5)
	w.wantError(err, "DP001", "No privacy budget was spent")

	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.exec(w.super, `UPDATE dp_int.job SET waited = true WHERE id = $1`, job)
	w.exec(w.analyst, `SELECT pg_advisory_lock(hashtextextended($1, 1685082948)), pg_advisory_lock_shared(hashtextextended($1, 1685082948))`, job)
	if one[bool](w, w.super, `SELECT dp_int.awaited($1)`, job) {
		t.Error("an analyst's lock counts as a caller who waits")
	}
	w.exec(w.analyst, fmt.Sprintf(`NOTIFY "dp_job_%s", 'done'`, strings.ReplaceAll(job, "-", "")))
	if status := one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job); status != "queued" {
		t.Errorf("the job is %s", status)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is dropped: nobody waits", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "canceled" })
	if w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

// Where everybody may create in schema public an overload could stand before ours.
func TestCheckInstallNoticesAnOpenPublicSchema(t *testing.T) {
	w := newWorld(t, 1, 0)
	check := `SELECT ok FROM dp_check_install() WHERE item LIKE 'analysts cannot create functions%'`
	w.exec(w.super, `BEGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC`)
	if !one[bool](w, w.super, check) {
		t.Error("not ok")
	}
	w.exec(w.super, `CREATE ROLE app_of_tables; GRANT CREATE ON SCHEMA public TO app_of_tables`)
	if who := one[string](w, w.super, strings.Replace(check, "ok", "ok || ' ' || detail", 1)); !strings.HasPrefix(who, "true they cannot, but app_of_tables can: ") {
		t.Error(who)
	}
	w.exec(w.super, `GRANT CREATE ON SCHEMA public TO PUBLIC`)
	if one[bool](w, w.super, check) {
		t.Error("not noticed")
	}
	w.exec(w.super, `ROLLBACK`)
}

// What would have every request refused is noticed too: a missing right on the system identifier, and a change of what a data
// set was stated to be total with.
func TestCheckInstallNoticesWhatIsRefused(t *testing.T) {
	w := newWorld(t, 1, 0)
	check := func(item string) string {
		return one[string](w, w.super, `SELECT ok || ' ' || detail FROM dp_check_install() WHERE item = $1`, item)
	}
	view := w.dataset + "_total"
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s AS SELECT amount, age + 1 AS age FROM public.%[2]s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, view, w.dataset))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, view, "public."+view)
	w.exec(w.super, `BEGIN`)
	const identity, readable = "the server tells its system identifier", "registered relations can be read"
	if said := check(identity); said != "true as it should be" {
		t.Error(said)
	}
	if said := check(readable); strings.Contains(said, view) {
		t.Error(said)
	}
	w.exec(w.super, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	w.exec(w.super, fmt.Sprintf(`CREATE OR REPLACE VIEW public.%s AS SELECT amount, age + 2 AS age FROM public.%s`, view, w.dataset))
	if said := check(identity); !strings.HasPrefix(said, "false not to dp_owner, dp_admin, dp_analyst, dp_sidecar") {
		t.Error(said)
	}
	if said := check(readable); !strings.HasPrefix(said, "false ") || !strings.Contains(said, view+": what it was stated to be total with has changed") {
		t.Error(said)
	}
	w.exec(w.super, `ROLLBACK`)
	for change, said := range map[string]string{
		`RENAME TO elsewhere`:                 w.dataset + ": it was dropped, renamed or replaced",
		`ALTER age TYPE text`:                 w.dataset + `: column "age"`,
		`RENAME COLUMN region TO region_code`: w.dataset + `: column "region" does not exist`,
	} {
		w.exec(w.super, `BEGIN`)
		w.exec(w.super, fmt.Sprintf(`DROP VIEW public.%s; ALTER TABLE public.%s %s`, view, w.dataset, change))
		if got := check(readable); !strings.HasPrefix(got, "false ") || !strings.Contains(got, said) {
			t.Errorf("%s: %s", change, got)
		}
		w.exec(w.super, `ROLLBACK`)
	}
}

// Who could read registered tables of others is named.
func TestCheckInstallNamesOwners(t *testing.T) {
	w := newWorld(t, 1, 0)
	check := func() string {
		return one[string](w, w.super, `SELECT ok || ' ' || detail FROM dp_check_install() WHERE item = 'who owns registered relations'`)
	}
	if said := check(); strings.Contains(said, w.person) {
		t.Error(said)
	}
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` OWNER TO `+w.person)
	if said := check(); !strings.HasPrefix(said, "true ") || !strings.Contains(said, w.person) || strings.Contains(said, "postgres") {
		t.Error(said)
	}
	// Who registers is told when an owner comes, and not again.
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` OWNER TO postgres; CREATE TABLE public.`+w.dataset+`_other AS SELECT 1 AS a, 2 AS b; ALTER TABLE public.`+w.dataset+`_other OWNER TO `+w.person+`; GRANT SELECT ON public.`+w.dataset+`_other TO dp_sidecar`)
	for k, told := range []bool{true, false} {
		conn, heard := w.listeningAt(w.system.StewardURL())
		w.exec(conn, `SELECT dp_register($1, $2::text::regclass, 'a', '{b}', 1)`, fmt.Sprint("other_", k), "public."+w.dataset+"_other")
		if said := strings.Join(heard(), "\n"); strings.Contains(said, "belong to several owners") != told || told && !strings.Contains(said, w.person) {
			t.Errorf("%d: %s", k, said)
		}
	}
	for k := range 2 {
		w.exec(w.steward, `SELECT dp_unregister($1)`, fmt.Sprint("other_", k))
	}
	w.exec(w.super, `DROP TABLE public.`+w.dataset+`_other`)
}

// A grant taken back while the job reads: its result is withheld, in words, and kept.
func TestAGrantTakenBackWhileWaiting(t *testing.T) {
	w := newWorld(t, 1, 0)
	slow := w.dataset + "_slow"
	hold, release := w.heldView(slow)
	hold()
	ended := make(chan error)
	go func() {
		_, err := regress(w.analyst, ask, slow, 1)
		ended <- err
	}()
	w.eventually("the job reads", func() bool {
		return one[bool](w, w.steward, `SELECT EXISTS (SELECT FROM dp.jobs WHERE dataset = $1 AND stage LIKE 'charged%')`, slow)
	})
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, slow, w.person)
	release()
	w.wantError(<-ended, "42501", "the release is kept")
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, slow, w.person)
	w.mustRegress(w.analyst, ask, slow, 1)
}

// No lock holds a function that a total view calls. One that was another while the rows were counted or read, and is what it
// was again, is noticed all the same: nothing is released or published of such rows.
func TestAFunctionThatIsAnotherWhileItIsReadIsNoticed(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 1e-6)
	const is, was = `CREATE OR REPLACE FUNCTION public.shown(x float8) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x > 0; END`, `CREATE OR REPLACE FUNCTION public.shown(x float8) RETURNS boolean IMMUTABLE BEGIN ATOMIC SELECT x > 40; END`
	w.exec(w.super, is)
	w.exec(w.super, `CREATE VIEW public.total AS SELECT amount, age FROM public.`+w.dataset+` WHERE public.shown(age); GRANT SELECT ON public.total TO dp_sidecar`)
	through := w.serveBehind()
	owner := w.connect(w.system.SuperuserURL())
	back := make(chan bool)
	through.set(atChecked, func() {
		w.exec(owner, was)
		through.set(atCounted, func() { w.exec(owner, is); close(back) })
	})
	w.exec(w.steward, `SELECT dp_register('total', 'total', 'amount', '{age}', 100, 1e-6, '{"amount": 500, "age": 40}', options => '{"total": true}')`)
	w.exec(w.steward, `SELECT dp_grant('total', $1)`, w.person)
	<-back
	w.eventually("counted", func() bool {
		w.exec(w.super, `NOTIFY dp_jobs, 'registered'`)
		return one[bool](w, w.steward, `SELECT row_count IS NOT NULL FROM dp.datasets WHERE dataset = 'total'`)
	})
	if n := one[int](w, w.steward, `SELECT row_count::int FROM dp.datasets WHERE dataset = 'total'`); n != 1000 {
		t.Errorf("%d rows are published, want 1000", n)
	}
	for i, placement := range []string{"memory", "database"} {
		w.exec(w.steward, `SELECT dp_set_placement('total', $1)`, placement)
		through.set(atReading, func() {
			w.exec(owner, was)
			through.set(map[string]moment{"memory": atCopying, "database": atSummed}[placement], func() { w.exec(owner, is) })
		})
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress('total', $1)`, 1+float64(i)/10)
		w.wantError(err, "DP004", "stated to be total")
		w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress('total', $1)`, 1+float64(i)/10) // under the same charge
	}
	// A number of rows that was counted then is not charged, and is in no release.
	through.set(atClaimed, func() {
		through.set(atChecked, func() {
			w.exec(owner, was)
			through.set(atCounted, func() { w.exec(owner, is) })
		})
	})
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress('total', 1.5)`)
	w.wantError(err, "DP004", "No privacy budget was spent")
	if spent := one[int](w, w.super, `SELECT count(*) FROM dp_int.ledger WHERE kind <> 'budget'`); spent != 2 {
		t.Errorf("%d entries, want 2", spent)
	}
}
