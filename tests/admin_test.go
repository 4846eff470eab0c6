package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/admin"
	"dpsidecar/internal/install"
	"dpsidecar/internal/job"
	"dpsidecar/internal/localpg"
	"dpsidecar/sql"
)

// Migrations by what they make.
const (
	ledgerVersion    = 12
	jobsVersion      = 13
	unitsVersion     = 28
	placementVersion = 37
)

// sidecar starts one that the test configures; it ends with the test.
func (w *world) sidecar(change func(*job.Config)) (s *job.Sidecar, ended <-chan error) {
	w.Helper()
	config, err := pgxpool.ParseConfig(w.system.URL("dp_sidecar"))
	if err != nil {
		w.Fatal(err)
	}
	c := job.Config{Database: config, Log: slog.New(slog.DiscardHandler), Grace: time.Second}
	change(&c)
	s = job.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { err := s.Run(ctx); done <- err; done <- err }()
	w.Cleanup(func() { cancel(); <-done })
	return s, done
}

func TestOperatorsSeeBudgetsQueueAndJobs(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	metrics := admin.NewMetrics("test")
	s, _ := w.sidecar(func(c *job.Config) { c.Watch, c.Schema = metrics, sql.Current() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go metrics.Serve(t.Context(), l, s)
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(body)
	}
	w.eventually("it is ready", func() bool { code, _ := get("/ready"); return code == 200 })
	w.mustRegress(w.analyst, `SELECT * FROM `+w.call())
	_, err = regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 9, features => '{age}')`, w.dataset)
	w.wantError(err, "DP002", "does not cover this request")
	_, text := get("/metrics")
	for _, absent := range []string{"dpsidecar_verify", "dpsidecar_job_failures_total"} { // nobody has verified; a refused budget is no failure
		if strings.Contains(text, absent) {
			t.Errorf("%s in\n%s", absent, text)
		}
	}
	// Jobs that no worker takes while we look: the table is locked, or the pause lasts.
	w.exec(w.super, `INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, state, token, lease_until, sqlstate, finished_at, charge, row_count)
		SELECT gen_random_uuid(), j.principal, j.caller, j.dataset, j.model, j.eps, j.delta, j.request, j.request_hash, true, false, v.state, v.token::uuid, v.until, v.sqlstate, v.finished, j.charge, j.row_count
		  FROM (SELECT * FROM dp_int.job WHERE state = 'done') j, (VALUES
		    ('failed', NULL, NULL::timestamptz, 'DP004', now()), ('failed', NULL, NULL, 'DP004', now()), ('claimed', gen_random_uuid()::text, now() + interval '1 day', NULL, NULL),
		    ('reading', NULL, now() + interval '1 day', 'DP004', NULL)) v(state, token, until, sqlstate, finished)`)
	figures := []string{
		"dpsidecar_running_jobs 1\n", "dpsidecar_parked_jobs 1\n", "dpsidecar_job_failures_total{sqlstate=\"DP004\"} 2\n", "dpsidecar_sidecars 1\n", "dpsidecar_verify_ok 1\n",
		"dpsidecar_verify_age_seconds 0.",
		fmt.Sprintf("dpsidecar_budget_remaining_ratio{dataset=%q} 0.75\n", w.dataset), "dpsidecar_queue_jobs 0\n", "dpsidecar_queue_age_seconds 0\n",
		"dpsidecar_jobs_total{outcome=\"done\"} 1\n", "dpsidecar_jobs_total{outcome=\"failed\"} 0\n", "dpsidecar_jobs_total{outcome=\"refused\"} 1\n", "dpsidecar_pull_seconds_count 1\n", "dpsidecar_run_seconds_count 1\n",
	}
	lacks := func(want string) bool { return !strings.Contains(text, want) }
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the sidecar counts a job when it knows that it has ended
		w.exec(w.steward, `SELECT dp.record_verify(true)`)
		if _, text = get("/metrics"); !slices.ContainsFunc(figures, lacks) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("no %q in\n%s", figures[slices.IndexFunc(figures, lacks)], text)
			break
		}
	}
	w.exec(w.steward, `SELECT dp.record_verify(false)`)
	if _, text := get("/metrics"); !strings.Contains(text, "dpsidecar_verify_ok 0\n") {
		t.Errorf("a ledger that does not hold:\n%s", text)
	}
	_, err = w.analyst.Exec(context.Background(), `SELECT dp.record_verify(true)`)
	w.wantError(err, "42501", "permission denied")
	// Analysts and stewards have no way to these figures.
	for _, conn := range []string{w.person, "steward"} {
		_, err := w.connect(w.system.URL(conn)).Exec(context.Background(), `SELECT dp_int.figures()`)
		w.wantError(err, "42501", "permission denied")
	}
}

// An old program keeps away from a newer schema, and a new one from an older: at
// the start, and when the schema moves under it.
func TestVersionSkewIsRefused(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	refuses := func(schema sql.Schema, says ...string) {
		t.Helper()
		_, ended := w.sidecar(func(c *job.Config) { c.Schema = schema })
		var err error
		select {
		case err = <-ended:
		case <-time.After(2 * time.Minute):
		}
		for _, text := range says {
			if !errors.Is(err, job.ErrSchema) || !strings.Contains(err.Error(), text) {
				t.Errorf("a program for schema %v ends with %v; no %q", schema, err, text)
			}
		}
	}
	latest := sql.Current()
	refuses(sql.Schema{Version: latest.Version - 1}, fmt.Sprintf("has version %d", latest.Version), fmt.Sprintf("knows %d", latest.Version-1), "upgrade dpsidecar")
	refuses(sql.Schema{Version: latest.Version + 1}, fmt.Sprintf("has version %d", latest.Version), fmt.Sprintf("needs %d", latest.Version+1), "dpsidecar migrate up")
	refuses(sql.Schema{Version: latest.Version, Fingerprint: "0123456789ab"}, "another build", latest.Fingerprint, "0123456789ab", "dpsidecar migrate up")
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := install.Down(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	refuses(latest, "taken down", fmt.Sprintf("needs version %d", latest.Version), "dpsidecar migrate up")
	if _, err := install.Up(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	if alive := one[int](w, w.super, `SELECT dp_int.sidecars_alive()`); alive != 0 {
		t.Errorf("%d of them are alive", alive)
	}
	s, ended := w.sidecar(func(c *job.Config) { c.Schema = sql.Current() })
	w.eventually("it is ready", func() bool { return s.Ready() == nil })
	w.exec(w.super, `UPDATE dp_int.schema_migrations SET version = 9999`)
	select {
	case err := <-ended:
		if !errors.Is(err, job.ErrSchema) || !strings.Contains(err.Error(), "9999") {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it goes on under a newer schema")
	}
}

// Between an upgrade and its next heartbeat a sidecar of before gets no job: it would leave out what it does not know of a request.
func TestAnUpgradeLeavesNoJobToItsFormerSidecar(t *testing.T) {
	t.Parallel()
	for what, upgrade := range map[string]string{
		"functions": `UPDATE dp_int.installed_code SET fingerprint = '0123456789ab'`,
		"tables":    `UPDATE dp_int.schema_migrations SET version = 9999`,
	} {
		t.Run(what, func(t *testing.T) {
			w := lonelyWorld(t, 1, 0)
			s, ended := w.sidecar(func(c *job.Config) { c.Schema = sql.Current() })
			w.eventually("it is ready", func() bool { return s.Ready() == nil })
			w.mustRegress(w.analyst, ask, w.dataset, 0.25)
			entries := w.entries()
			w.exec(w.super, "BEGIN")
			w.exec(w.super, upgrade)
			w.exec(w.super, "COMMIT")
			id := w.submit(0.5, `{}`)
			select {
			case err := <-ended:
				if !errors.Is(err, job.ErrSchema) {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(2 * time.Minute):
				t.Error("it goes on under another schema")
			}
			if state := one[string](w, w.super, `SELECT concat(state, ' ', attempt) FROM dp_int.job WHERE id = $1::text::uuid`, id); state != "queued 0" || w.entries() != entries {
				t.Errorf("the job is %s, and there are %d entries more", state, w.entries()-entries)
			}
		})
	}
}

// The database believes in sessions of dp_sidecar alone. Whoever else serves would
// leave every caller with DP001, so it ends at once.
func TestOnlyDpSidecarServes(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	if err := w.system.Login(context.Background(), "member", "dp_sidecar"); err != nil {
		t.Fatal(err)
	}
	serve := func(url string) (user string, ended <-chan error) {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		_, ended = w.sidecar(func(c *job.Config) { c.Database = config })
		return config.ConnConfig.User, ended
	}
	refuses := func(user string, ended <-chan error) {
		t.Helper()
		select {
		case err := <-ended:
			if !errors.Is(err, job.ErrRole) || !strings.HasSuffix(err.Error(), "connect as dp_sidecar, not as "+user) {
				t.Errorf("as %s: %v", user, err)
			}
		case <-time.After(2 * time.Minute):
			t.Errorf("%s serves", user)
		}
	}
	for _, url := range []string{w.system.SuperuserURL(), w.system.URL("member"), w.system.StewardURL()} {
		refuses(serve(url))
	}
	s, _ := w.sidecar(func(*job.Config) {})
	w.eventually("it is ready", func() bool { return s.Ready() == nil })

	// A database that is away at the start is asked as soon as it is there.
	if err := w.system.Cluster.Halt(localpg.Fast); err != nil {
		t.Fatal(err)
	}
	user, ended := serve(w.system.URL("member"))
	time.Sleep(200 * time.Millisecond)
	if err := w.system.Cluster.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	refuses(user, ended)
}

// What does not fit into memory is refused before it is charged; dp_explain says so.
func TestAJobThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 4, 1e-6)
	dir := t.TempDir()
	s, _ := w.sidecar(func(c *job.Config) { c.Memory, c.SpillDir = 120_000, dir })
	w.eventually("it is ready", func() bool { return s.Ready() == nil })
	_, err := regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1)`, w.dataset) // 1,000 rows of four columns: 144,000 bytes
	w.wantError(err, "DP005", "memory")
	w.wantError(err, "DP005", "No privacy budget was spent")
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.1)`, w.dataset); said["possible"] != "no" || said["sqlstate"] != "DP005" || !strings.Contains(said["hint"], "memory") {
		t.Errorf("dp_explain: %v", said)
	}
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1, features => '{}')`, w.dataset) // 96,000 bytes
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', $1, 0.1, options => '{"sample_rows": 500}')`, w.dataset); said["placement"] != "memory" || said["rows"] != "500" {
		t.Errorf("dp_explain of a sample: %v", said)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1, options => '{"sample_rows": 500}')`, w.dataset)
	if rows := one[string](w, w.analyst, `SELECT parameters ->> 'rows' FROM dp.releases ORDER BY released_at DESC LIMIT 1`); rows != "500" {
		t.Errorf("a sample of %s rows", rows)
	}

	// What keeps no rows in memory has them on disk.
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 1)`, w.dataset); said["placement"] != "disk" {
		t.Errorf("dp_explain: %v", said)
	}
	if fit := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 1)`, w.dataset); len(fit) != 4 {
		t.Errorf("on disk: %v", fit)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain_score(dp_last_release($1), 1)`, w.dataset); said["placement"] != "disk" {
		t.Errorf("dp_explain_score: %v", said)
	}
	w.exec(w.analyst, `SELECT * FROM dp_score(dp_last_release($1), 1)`, w.dataset)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: files with names", left, err)
	}
}

// The newest migrations go down and up again on a database at work: what was
// released is there, and asked again it is free.
func TestMigrationsMoveUnderData(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	stop, err := w.system.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	first := w.mustRegress(w.analyst, `SELECT * FROM `+w.call())
	stop()
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	for at := install.Latest(); at > jobsVersion; { // down to the jobs, above the ledger
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := install.Up(context.Background(), config); err != nil || at != install.Latest() {
		t.Fatalf("up again: %d, %v", at, err)
	}
	reader := w.connect(w.system.URL(w.person))
	if again := w.mustRegress(reader, `SELECT * FROM `+w.call()); !reflect.DeepEqual(again, first) {
		t.Errorf("%v, first %v", again, first)
	}
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
	w.spentOnce()
}

// refusesStepDown goes down until a step is refused, which is to be that from a version, with a reason, and up again.
func (w *world) refusesStepDown(version int, says string) {
	w.Helper()
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		w.Fatal(err)
	}
	at := install.Latest()
	for err == nil && at > jobsVersion {
		at, err = install.Down(context.Background(), config)
	}
	if at != version || err == nil || !strings.Contains(err.Error(), says) {
		w.Errorf("down to %d: %v, want %d: %s", at, err, version, says)
	}
	if _, err := install.Up(context.Background(), config); err != nil {
		w.Fatal(err)
	}
}

// A step down below units would leave a data set whose persons have several rows as one whose rows are a person's each, and up again
// single rows are all that it protects. Nothing is forgotten by it, and up again all is as it was.
func TestNoStepDownForgetsWhoIsAPerson(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 1e-5)
	w.visited(50)
	if err := w.registerUnit(w.dataset, w.dataset, visits+`, unit => 'patient', max_rows => 4`); err != nil {
		t.Fatal(err, hint(err))
	}
	w.refusesStepDown(unitsVersion, "all rows of a person")
	if said := one[string](w, w.steward, `SELECT concat_ws(' ', unit, max_rows, protects) FROM dp.datasets WHERE dataset = $1`, w.dataset); said != "patient 4 all rows of a person" {
		t.Errorf("up again it is %q", said)
	}
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
}

// Nor does one forget where rows may be: of a data set whose rows stay in the database they would leave it, up again.
func TestNoStepDownForgetsWhereRowsStay(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 1e-5)
	for _, placement := range []string{"database", "memory"} {
		w.exec(w.steward, `SELECT dp_set_placement($1, $2)`, w.dataset, placement)
		w.refusesStepDown(placementVersion, "where its steward has said")
		if got := one[string](w, w.steward, `SELECT placement FROM dp.datasets WHERE dataset = $1`, w.dataset); got != placement {
			t.Errorf("up again its placement is %q, not %q", got, placement)
		}
	}
	w.exec(w.steward, `SELECT dp_set_placement($1, 'auto')`, w.dataset)
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	for at := install.Latest(); at >= placementVersion; {
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
}

// Nor does one lose what was paid for: what is no coefficient stood in tables of its own, and up again the same request was
// given an empty answer, free.
func TestNoStepDownLosesWhatWasReleased(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 60, 1e-5)
	name := "'" + w.dataset + "'"
	for _, kind := range []struct {
		version   int
		says, ask string
	}{ // each newer than those before
		{24, "scores have been released", `SELECT coalesce(value::text, metric) FROM dp_score(dp_last_release(` + name + `), 3)`},
		{26, "a data set has categories", `SELECT categories::text FROM dp.datasets WHERE dataset = 'regions'`},
		{30, "descriptions have been released", `SELECT coalesce(value::text, statistic) FROM dp_describe(` + name + `, 3, '{age}')`},
		{31, "fits by groups have been released", `SELECT grp || term || coef FROM dp_linear_regress_by('regions', 'region', 5, features => '{age}')`},
		{34, "second moments have been released", `SELECT sum::text FROM dp_moments(` + name + `, 3)`},
	} {
		stop, err := w.system.Serve(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if kind.version == 26 {
			w.exec(w.steward, `SELECT dp_register('regions', $1::text::regclass, 'amount', '{age,region}', 60, 1e-5, '{"amount": 500, "age": 40}', categories => '{"region": ["0", "*"]}')`, w.dataset)
			w.exec(w.steward, `SELECT dp_grant('regions', $1)`, w.person)
		}
		analyst := w.connect(w.system.URL(w.person))
		w.mustRegress(analyst, `SELECT * FROM dp_linear_regress(`+name+`, 3, features => '{age}')`)
		first := all[string](w, analyst, kind.ask)
		stop()
		spent := w.spent()
		w.refusesStepDown(kind.version, kind.says)
		w.steward = w.connect(w.system.StewardURL())
		if again := all[string](w, w.connect(w.system.URL(w.person)), kind.ask); len(first) == 0 || !slices.Equal(again, first) || w.spent() != spent {
			t.Errorf("up again %q, first %q", again, first)
		}
	}
}

// Down past the jobs, what was released is gone and its charge stays: as
// docs/how-to/upgrade.md says, dp_verify keeps saying so, and asking again is paid for.
func TestGoingBackLosesReleases(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	stop, err := w.system.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w.mustRegress(w.analyst, `SELECT * FROM `+w.call())
	stop()
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	for at := install.Latest(); at > ledgerVersion; {
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := install.Up(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	w.spentOnce()
	// Whose a charge was is known by its job alone.
	bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`)
	if len(bad) != 2 || !strings.HasPrefix(bad[0], "what every caller has spent") || !strings.HasPrefix(bad[1], "every charge has a job") {
		t.Errorf("the ledger: %q", bad)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.mustRegress(w.connect(w.system.URL(w.person)), `SELECT * FROM `+w.call())
	if w.spent() != 0.5 {
		t.Errorf("spent %g", w.spent())
	}
}
