package tests

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/localpg"
)

// Where people call from. Each context asks for the same thing in all the ways
// it has, and spends once.

// call is a quick request, as text that needs no parameter.
func (w *world) call() string {
	return fmt.Sprintf(`dp_l1_regress('%s', 0.25, features => '{age}')`, w.dataset)
}

// spentOnce checks that all that was asked cost one release.
func (w *world) spentOnce() {
	w.Helper()
	if w.spent() != 0.25 || w.entries() != 1 {
		w.Errorf("spent %g in %d entries, want 0.25 in 1", w.spent(), w.entries())
	}
}

func TestFromPsql(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	w := newWorld(t, 1, 0)
	run := func(args ...string) string {
		var said strings.Builder // notices and errors
		command := exec.Command(psql, append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", w.system.URL(w.person)}, args...)...)
		command.Stderr = &said
		out, err := command.Output()
		if err != nil {
			t.Fatalf("psql %q: %v\n%s", args, err, &said)
		}
		return string(out)
	}
	first := run("-At", "-c", `SELECT * FROM `+w.call())
	if !strings.HasPrefix(first, "(intercept)|") || !strings.Contains(first, "\nage|") {
		t.Errorf("psql shows %q", first)
	}
	for _, args := range [][]string{
		{"-At", "--single-transaction", "-c", `SELECT * FROM ` + w.call()},
		{"-At", "-c", `BEGIN`, "-c", `SELECT * FROM ` + w.call(), "-c", `ROLLBACK`},
		{"-At", "-v", "FETCH_COUNT=1", "-c", `SELECT * FROM ` + w.call()}, // through a cursor
	} {
		if again := run(args...); again != first {
			t.Errorf("psql %q shows %q, first %q", args, again, first)
		}
	}
	job := strings.TrimSpace(run("-At", "-c", fmt.Sprintf(`CALL dp_run('l1', '%s', 0.25, features => '{age}')`, w.dataset)))
	if result := run("-At", "-c", fmt.Sprintf(`SELECT * FROM dp_result('%s')`, job)); result != first {
		t.Errorf("dp_run gives %q, first %q", result, first)
	}
	if shown := run("-c", `\df+ dp_l1_regress`); !strings.Contains(shown, "Median regression") {
		t.Errorf(`\df+ shows %q`, shown)
	}
	w.spentOnce()
}

// The modes of pgx are those of other drivers: the simple protocol, the extended
// one with unnamed statements, and statements that are prepared once and, like
// JDBC's from the sixth execution on, run under a plan that the server keeps.
func TestFromEveryProtocol(t *testing.T) {
	w := newWorld(t, 1, 0)
	const sql = `SELECT * FROM dp_l1_regress($1, $2, features => '{age}')`
	var first []term
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeCacheStatement,
	} {
		for range 7 {
			out := w.mustRegress(w.analyst, sql, mode, w.dataset, 0.25)
			if first == nil {
				first = out
			}
			if !reflect.DeepEqual(out, first) {
				t.Errorf("%v: %v, first %v", mode, out, first)
			}
		}
	}
	if _, err := w.analyst.Prepare(context.Background(), "kept", sql); err != nil {
		t.Fatal(err)
	}
	for _, plans := range []string{"auto", "force_generic_plan", "force_custom_plan"} {
		w.exec(w.analyst, `SET plan_cache_mode = `+plans)
		if out := w.mustRegress(w.analyst, "kept", w.dataset, 0.25); !reflect.DeepEqual(out, first) {
			t.Errorf("%s: %v, first %v", plans, out, first)
		}
	}
	w.spentOnce()
}

func TestFromAReadOnlyRole(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, `ALTER ROLE `+w.person+` SET default_transaction_read_only = on`)
	reader := w.connect(w.system.URL(w.person))
	if out := w.mustRegress(reader, `SELECT * FROM `+w.call()); len(out) != 2 {
		t.Errorf("got %v", out)
	}
	if said := w.explain(reader, `SELECT * FROM dp_explain('l1', $1, 0.1)`, w.dataset); said["possible"] != "yes" {
		t.Errorf("dp_explain: %v", said)
	}
	w.spentOnce()
}

// A view that somebody else owns asks in the name of whoever reads it.
func TestFromAView(t *testing.T) {
	w := newWorld(t, 1, 0)
	view := "fit_of_" + w.dataset
	w.exec(w.super, `CREATE VIEW public.`+view+` AS SELECT term, coef FROM `+w.call())
	w.exec(w.super, `GRANT SELECT ON public.`+view+` TO dp_analyst`)
	first := w.mustRegress(w.analyst, `SELECT * FROM `+view)
	other := w.newAnalyst(w.person + "b")
	for range 3 {
		if again := w.mustRegress(other, `SELECT * FROM `+view); !reflect.DeepEqual(again, first) {
			t.Errorf("%v, first %v", again, first)
		}
	}
	if rows := w.mustRegress(w.analyst, `SELECT v.term, o.coef FROM `+view+` v JOIN `+view+` o USING (term)`); len(rows) != 2 {
		t.Errorf("the view joined with itself: %v", rows)
	}
	if caller := one[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE dataset = $1 AND kind = 'charge'`, w.dataset); caller != w.person {
		t.Errorf("charged to %s", caller)
	}
	w.spentOnce()
}

// One call a column, one call a row: both before anything is kept.
func TestFromCompositesAndLaterals(t *testing.T) {
	for name, sql := range map[string]string{
		"(f()).*":     `SELECT (%s).*`,
		"LATERAL":     `SELECT r.* FROM generate_series(1, 5) g, LATERAL %s r WHERE g = 5`,
		"correlated":  `SELECT r.term, r.coef FROM generate_series(1, 5) g, LATERAL (SELECT * FROM %s) r WHERE g = 1`,
		"CTE twice":   `WITH f AS NOT MATERIALIZED (SELECT * FROM %s) SELECT a.term, b.coef FROM f a JOIN f b USING (term)`,
		"with a self": `SELECT a.term, a.coef FROM %[1]s a, %[1]s b WHERE a.term = b.term`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			for range 2 {
				if out := w.mustRegress(w.analyst, fmt.Sprintf(sql, w.call())); len(out) != 2 {
					t.Errorf("got %v", out)
				}
			}
			w.spentOnce()
		})
	}
}

// Superset runs a query once for its columns, with LIMIT 1, and once for the
// rows; Tableau asks for the columns of a subquery first, and aggregates it.
func TestFromDashboards(t *testing.T) {
	for name, queries := range map[string][]string{
		"Superset": {`SELECT * FROM (SELECT * FROM %s) AS virtual_table LIMIT 1`, `SELECT term AS term, coef AS coef FROM (SELECT * FROM %s) AS virtual_table LIMIT 1000`},
		"Tableau": {`SELECT * FROM (SELECT * FROM %s) "Custom SQL Query" LIMIT 0`,
			`SELECT "Custom SQL Query"."term" AS "term", SUM("Custom SQL Query"."coef") AS "sum:coef:ok" FROM (SELECT * FROM %s) "Custom SQL Query" GROUP BY 1`,
			`BEGIN; DECLARE "SQL_CUR1" CURSOR WITH HOLD FOR SELECT * FROM (SELECT * FROM %s) "Custom SQL Query"; FETCH 100 IN "SQL_CUR1"; COMMIT; CLOSE "SQL_CUR1"`},
		"Metabase": {`SELECT "source"."term" AS "term", "source"."coef" AS "coef" FROM (SELECT * FROM %s) AS "source" LIMIT 1048575`,
			`SELECT count(*) AS count FROM (SELECT * FROM %s) AS "source"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			for range 2 {
				for _, sql := range queries {
					if _, err := w.analyst.PgConn().Exec(context.Background(), fmt.Sprintf(sql, w.call())).ReadAll(); err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
				}
			}
			w.spentOnce()
		})
	}
}

// owned runs a program as the user that the cluster runs as: servers refuse root.
func (w *world) owned(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if info, err := os.Stat(w.system.Cluster.Dir()); err == nil && os.Geteuid() == 0 {
		s := info.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.Uid, Gid: s.Gid}}
	}
	return cmd
}

// folder makes a directory that the cluster's user owns.
func (w *world) folder() string {
	w.Helper()
	dir, err := os.MkdirTemp("", "dpsidecar-test-")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// give hands a folder and what is in it to the cluster's user.
func (w *world) give(dir string) {
	w.Helper()
	if os.Geteuid() != 0 {
		return
	}
	info, err := os.Stat(w.system.Cluster.Dir())
	if err != nil {
		w.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(s.Uid), int(s.Gid))
	}); err != nil {
		w.Fatal(err)
	}
}

// Through a pool in transaction mode, where clients share sessions: each is
// charged as who they are.
func TestFromPgBouncer(t *testing.T) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed")
	}
	w := newWorld(t, 1, 0)
	other := w.person + "b"
	w.newAnalyst(other)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := w.folder()
	var users strings.Builder
	for _, person := range []string{w.person, other} {
		u, err := url.Parse(w.system.URL(person))
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		fmt.Fprintf(&users, "%q %q\n", person, password)
	}
	for name, text := range map[string]string{
		"users": users.String(),
		"ini": fmt.Sprintf("[databases]\n%s = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = %s/users\npool_mode = transaction\ndefault_pool_size = 2\nlogfile = %[4]s/log\n",
			dev.Database, w.system.Cluster.Port(), port, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.give(dir)
	bouncer := w.owned(program, "-q", filepath.Join(dir, "ini"))
	if err := bouncer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bouncer.Process.Kill(); bouncer.Wait() })
	w.eventually("pgbouncer listens", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	pooled := func(person string) *pgx.Conn {
		through := strings.Replace(w.system.URL(person), fmt.Sprintf(":%d/", w.system.Cluster.Port()), fmt.Sprintf(":%d/", port), 1)
		return w.connect(through + "&default_query_exec_mode=simple_protocol")
	}
	var first []term
	for range 3 {
		for _, conn := range []*pgx.Conn{pooled(w.person), pooled(other), pooled(w.person)} {
			out := w.mustRegress(conn, `SELECT * FROM `+w.call())
			if first == nil {
				first = out
			}
			if !reflect.DeepEqual(out, first) {
				t.Errorf("%v, first %v", out, first)
			}
		}
	}
	w.spentOnce()
	w.mustRegress(pooled(other), `SELECT * FROM dp_l1_regress('`+w.dataset+`', 0.125, features => '{age}')`)
	if callers := all[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE dataset = $1 AND kind = 'charge' ORDER BY id`, w.dataset); !reflect.DeepEqual(callers, []string{w.person, other}) {
		t.Errorf("charged to %v", callers)
	}
}

// On a hot standby the loopback points at the primary, where the job runs.
func TestFromAHotStandby(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	w.tool("pg_basebackup")
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	reader := w.on(w.clone("-R", "-d", w.system.Cluster.SuperuserURL("postgres"))).analyst
	if !one[bool](w, reader, `SELECT pg_is_in_recovery()`) {
		t.Fatal("the standby is a primary")
	}
	first := w.mustRegress(reader, `SELECT * FROM `+w.call())
	for range 3 {
		if again := w.mustRegress(reader, `SELECT * FROM `+w.call()); !reflect.DeepEqual(again, first) {
			t.Errorf("%v, first %v", again, first)
		}
	}
	if there := w.mustRegress(w.analyst, `SELECT * FROM `+w.call()); !reflect.DeepEqual(there, first) {
		t.Errorf("the primary says %v, the standby %v", there, first)
	}
	if said := w.explain(reader, `SELECT * FROM dp_explain('l1', $1, 0.1)`, w.dataset); said["possible"] != "yes" {
		t.Errorf("dp_explain: %v", said)
	}
	w.spentOnce()
}

// The page on schedules runs as it tells, with pg_cron; so do a call, a job and a procedure
// that ask the same. What is scheduled runs when the server starts again: pg_cron knows no
// other time that comes within a minute.
func TestThePageOnSchedulesRuns(t *testing.T) {
	t.Parallel()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	probe := &world{T: t, system: s}
	if super := probe.connect(s.SuperuserURL()); !one[bool](probe, super, `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_cron')`) {
		t.Skip("pg_cron is not installed (Debian: postgresql-15-cron)")
	}
	s, err = dev.Start(context.Background(), dev.Options{Settings: map[string]string{
		"shared_preload_libraries": "pg_cron", "cron.database_name": dev.Database, "cron.use_background_workers": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := worldIn(t, s, 1, 0)
	w.awayFromMidnight()
	if _, err := s.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, `CREATE TABLE public.claims AS TABLE public.`+w.dataset+`; GRANT SELECT ON public.claims TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register('claims', 'claims', 'amount', '{age}', 1, 0, '{"amount": 500, "age": 40}'), dp_grant('claims', 'analyst')`)
	w.runPage("how-to/scheduled-refresh.md", w.people())
	w.exec(w.super, `GRANT USAGE ON SCHEMA cron TO `+w.person)
	// Who waits needs a sidecar, which comes back some time after the server.
	w.exec(w.super, `CREATE FUNCTION public.once_served(x float8) RETURNS float8 LANGUAGE plpgsql SECURITY DEFINER AS
		'BEGIN WHILE dp_int.sidecars_alive() = 0 LOOP PERFORM pg_sleep(0.1); END LOOP; RETURN x; END'`)
	for _, command := range []string{
		fmt.Sprintf(`SELECT dp_submit('l1', '%s', 0.25, features => '{age}')`, w.dataset),
		fmt.Sprintf(`CALL dp_run('l1', '%s', once_served(0.25), features => '{age}')`, w.dataset),
		strings.Replace(`SELECT * FROM `+w.call(), "0.25", "once_served(0.25)", 1),
	} {
		w.exec(w.analyst, `SELECT cron.schedule('@reboot', $1)`, command)
	}
	w.exec(w.super, `UPDATE cron.job SET schedule = '@reboot'; UPDATE cron.job SET command = replace(command, '0.3', '0.31') WHERE jobname LIKE 'admissions%'`)
	if err := s.Cluster.Restart(context.Background(), localpg.Fast); err != nil {
		t.Fatal(err)
	}
	w.super, w.steward, w.analyst = w.connect(s.SuperuserURL()), w.connect(s.StewardURL()), w.connect(s.URL(w.person))
	ended := func(how string) []string {
		return all[string](w, w.super, `SELECT command || ': ' || coalesce(return_message, '') FROM cron.job_run_details WHERE status = $1`, how)
	}
	w.eventually("pg_cron has run everything", func() bool { return len(ended("succeeded")) >= 5 || len(ended("failed")) > 0 })
	if f := ended("failed"); len(f) > 0 {
		t.Errorf("failed: %q", f)
	}
	w.eventually("all jobs are done", func() bool {
		return one[int64](w, w.steward, `SELECT count(*) FROM dp.jobs WHERE status <> 'done'`) == 0
	})
	w.spentOnce()
	analyst := w.connect(s.AnalystURL())
	shown := one[string](w, analyst, `SELECT concat_ws(' ', count(*), min(v.rows), bool_and(v.over = dp_last('admissions', 28)), bool_and(r.eps = 0.31)) FROM dashboard.admissions v JOIN dp.releases r USING (read_at)`)
	if shown != "3 14000 t t" {
		t.Errorf("the dashboard shows %q", shown)
	}
}
