package tests

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/job"
	"dpsidecar/sql"
)

// owner is somebody with a schema of their own, mal, whose functions leave a trace
// in the server's log when they run as dp_sidecar, whatever becomes of the transaction.
func (w *world) owner() *pgx.Conn {
	w.Helper()
	if err := w.system.Login(context.Background(), "mallory", "dp_analyst"); err != nil {
		w.Fatal(err)
	}
	w.exec(w.super, `CREATE SCHEMA mal AUTHORIZATION mallory`)
	m := w.connect(w.system.URL("mallory"))
	w.exec(m, `GRANT USAGE ON SCHEMA mal TO PUBLIC;
		CREATE FUNCTION mal.run() RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN IF session_user = 'dp_sidecar' THEN RAISE LOG 'the owner runs as dp_sidecar'; END IF; RETURN true; END $$;
		CREATE FUNCTION mal.plan() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN mal.run(); END $$;
		CREATE TABLE mal.t AS SELECT i::float8 AS y, i::float8 AS x FROM generate_series(1, 500) i;
		CREATE VIEW mal.v AS SELECT y, x FROM mal.t;
		GRANT SELECT ON mal.t, mal.v TO dp_sidecar`)
	return m
}

func (w *world) registerFor(dataset, relation, options string, people ...string) {
	w.Helper()
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 100, options => $3)`, dataset, relation, options)
	for _, p := range people {
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, dataset, p)
	}
}

// logged reports whether the server's log says something.
func (w *world) logged(what string) bool {
	w.Helper()
	text, err := os.ReadFile(w.system.Cluster.LogFile())
	if err != nil {
		w.Fatal(err)
	}
	return strings.Contains(string(text), what)
}

// idle waits until no session of the sidecar's has anything to do.
func (w *world) idle() {
	w.Helper()
	w.eventually("the sidecar is idle", func() bool {
		return one[bool](w, w.super, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND state <> 'idle')`)
	})
}

func (w *world) serve() (stop func()) {
	w.Helper()
	stop, err := w.system.Serve(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return stop
}

// serveBehind starts a sidecar behind a proxy, and with a lease that soon runs out.
func (w *world) serveBehind() *proxy {
	w.Helper()
	config, err := pgxpool.ParseConfig(w.system.URL("dp_sidecar"))
	if err != nil {
		w.Fatal(err)
	}
	through := newProxy(w, net.JoinHostPort(config.ConnConfig.Host, fmt.Sprint(config.ConnConfig.Port)))
	config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", uint16(through.port())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := job.New(job.Config{Database: config, Schema: sql.Current(), Version: "test", Log: slog.New(slog.DiscardHandler), Lease: 5 * time.Second, Grace: time.Second})
	go func() { ended <- s.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-ended })
	w.eventually("the sidecar is alive", func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) == 1 })
	return through
}

func (w *world) jobState(id string) string {
	w.Helper()
	return one[string](w, w.super, `SELECT state FROM dp_int.job WHERE id = $1`, id)
}

const trace = "the owner runs as dp_sidecar"

// What the owner of a registered relation puts in its place is looked at before
// anything of it runs, on every way to it.
func TestTheOwnerOfARelationRunsNothing(t *testing.T) {
	t.Parallel()
	const swap = `ALTER TABLE mal.t RENAME TO gone; CREATE VIEW mal.t AS SELECT y, x FROM mal.gone WHERE mal.run() AND mal.plan(); GRANT SELECT ON mal.t TO dp_sidecar`
	counted := func(w *world) {
		w.eventually("counted", func() bool { return one[bool](w, w.steward, `SELECT bool_and(row_count IS NOT NULL) FROM dp.datasets`) })
	}
	for name, attack := range map[string]func(w *world, m *pgx.Conn){
		"asking": func(w *world, m *pgx.Conn) {
			w.registerFor("m", "mal.t", `{}`, "mallory")
			w.serve()
			counted(w)
			w.exec(m, swap)
			_, err := regress(m, ask, "m", 0.5)
			w.wantError(err, "DP004", "dropped, renamed or replaced")
		},
		"asking for a view": func(w *world, m *pgx.Conn) {
			w.registerFor("m", "mal.v", `{}`, "mallory")
			w.serve()
			counted(w)
			w.exec(m, `CREATE OR REPLACE VIEW mal.v AS SELECT y, x FROM mal.t WHERE mal.run() AND mal.plan()`)
			_, err := regress(m, ask, "m", 0.5)
			w.wantError(err, "DP004", "more than show columns")
		},
		"going on with a job": func(w *world, m *pgx.Conn) {
			w.registerFor("m", "mal.t", `{}`, "mallory")
			one[string](w, m, `SELECT dp_submit('l1', 'm', 0.5, options => '{"method": "exponential_mechanism"}')::text`)
			id, _ := w.abandon(reading)
			w.exec(m, swap)
			w.serve()
			w.eventually("it is parked", func() bool {
				return one[string](w, m, `SELECT coalesce(sqlstate, '') FROM dp_status($1)`, id) == "DP004"
			})
		},
		"a domain in an index": func(w *world, m *pgx.Conn) {
			w.exec(m, `CREATE DOMAIN mal.d AS float8 CHECK (mal.plan())`)
			w.registerFor("m", "mal.t", `{}`, "mallory")
			w.serve()
			counted(w)
			for _, sql := range []string{
				`CREATE INDEX i ON mal.t ((x::mal.d)); DROP STATISTICS IF EXISTS mal.s`,
				`CREATE STATISTICS mal.s ON (x::mal.d), y FROM mal.t; DROP INDEX mal.i`,
			} {
				w.exec(m, sql)
				_, err := regress(m, ask, "m", 0.5)
				w.wantError(err, "DP004", "calls the constraints of type mal.d")
			}
		},
		"registration, explaining": func(w *world, m *pgx.Conn) { // both count
			w.registerFor("m", "mal.t", `{}`, "mallory")
			w.exec(m, `BEGIN`)
			w.exec(m, swap)
			answer, asker := make(chan error, 1), w.connect(w.system.URL("mallory"))
			w.serve()
			go func() {
				var why string
				err := asker.QueryRow(context.Background(), `SELECT value FROM dp_explain('l1', 'm', 0.5) WHERE property = 'reason'`).Scan(&why)
				if err == nil && !strings.Contains(why, "dropped, renamed or replaced") {
					err = fmt.Errorf("dp_explain says %q", why)
				}
				answer <- err
			}()
			w.eventually("both wait for mallory", func() bool { return one[int](w, w.super, `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 2 })
			w.exec(m, `COMMIT`)
			if err := <-answer; err != nil {
				w.Error(err)
			}
		},
		// Stated as total, so that a constraint is no reason to refuse it: the planner does not look at constraints.
		"a constraint": func(w *world, m *pgx.Conn) {
			w.exec(w.super, `ALTER DATABASE dpsidecar SET constraint_exclusion = on`)
			w.serve()
			for _, how := range []struct{ name, arguments, over string }{
				{"persons", `unit => 'who'`, ``},
				{"pulled", `block => 'day', block_width => '1 day', block_origin => '2026-01-01'`, `, over => '[2026-01-03,2026-01-13)'`},
				{"summed", `block => 'day', block_width => '1 day', block_origin => '2026-01-01', placement => 'database'`, `, over => '[2026-01-03,2026-01-13)'`},
			} {
				w.exec(m, strings.ReplaceAll(`CREATE TABLE mal.{} (day date NOT NULL, who int, y float8, x float8); CREATE TABLE mal.{}_child (CHECK (mal.plan())) INHERITS (mal.{});
					INSERT INTO mal.{}_child SELECT date '2026-01-01' + i % 20, i, i, i FROM generate_series(1, 500) i; SELECT public.dp_freeze('mal.{}', 'day'); GRANT SELECT ON mal.{} TO dp_sidecar`, "{}", how.name))
				register := `SELECT dp_register($1, ('mal.' || $1)::regclass, 'y', '{x}', 100, 1e-6, scales => '{"y": 1, "x": 1}', options => $2, ` + how.arguments + `)`
				_, err := w.steward.Exec(context.Background(), register, how.name, `{}`)
				w.wantError(err, "22023", "constraint "+how.name+"_child_check on table mal."+how.name+"_child calls function mal.plan()")
				w.exec(w.steward, register, how.name, `{"total": true}`)
				w.exec(w.steward, `SELECT dp_grant($1, 'mallory')`, how.name)
				w.mustRegress(m, `SELECT * FROM dp_linear_regress($1, 1`+how.over+`)`, how.name)
			}
			w.eventually("persons are counted", func() bool {
				return one[bool](w, w.steward, `SELECT row_count = 500 FROM dp.datasets WHERE dataset = 'persons'`)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 10, 0)
			attack(w, w.owner())
			w.idle()
			if w.logged(trace) {
				t.Error("a function of the owner's ran as dp_sidecar")
			}
		})
	}
	t.Run("declared total", func(t *testing.T) { // the trace is seen where one is left
		w := lonelyWorld(t, 10, 0)
		m := w.owner()
		w.exec(m, `CREATE OR REPLACE VIEW mal.v AS SELECT y, x FROM mal.t WHERE mal.run()`)
		w.registerFor("m", "mal.v", `{"total": true, "new_population": "a test's"}`)
		w.serve()
		counted(w)
		if !w.logged(trace) {
			t.Error("no trace of a function that ran")
		}
	})
}

// What functions of a view leave in a session does not outlive the read.
func TestASessionKeepsNothingOfWhatItRead(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	m := w.owner()
	w.exec(m, `CREATE FUNCTION mal.leave() RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
		  IF NOT EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'left') THEN
		    EXECUTE 'PREPARE "left" AS SELECT 1';
		  ELSIF (SELECT prepare_time < now() FROM pg_prepared_statements WHERE name = 'left') THEN
		    RAISE LOG 'an earlier read left a statement';
		  END IF;
		  PERFORM pg_advisory_lock(424242);
		  RETURN true;
		END $$;
		CREATE OR REPLACE VIEW mal.v AS SELECT y, x FROM mal.t WHERE (SELECT mal.leave())`)
	w.registerFor("m", "mal.v", `{"total": true, "new_population": "a test's"}`, w.person)
	w.serve()
	for i := range 4 {
		w.mustRegress(w.analyst, ask, "m", 0.25*float64(1+i))
	}
	w.idle()
	w.eventually("no advisory lock is left", func() bool {
		return one[int](w, w.super, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 424242`) == 0
	})
	if w.logged("an earlier read left a statement") {
		t.Error("a prepared statement is left")
	}
}

// Partitions that come between the check and the read are noticed before anything
// leaves: the locks of a reader do not keep them away.
func TestAPartitionOfOthersThatComesLateIsNotReleased(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.exec(w.super, `CREATE TABLE parts (y float8, x float8) PARTITION BY RANGE (x);
		CREATE TABLE ours PARTITION OF parts FOR VALUES FROM (0) TO (1000); INSERT INTO parts SELECT i, i FROM generate_series(1, 500) i;
		CREATE TABLE theirs (y float8, x float8); INSERT INTO theirs SELECT 7, 2000 FROM generate_series(1, 400);
		GRANT SELECT ON parts, theirs TO dp_sidecar`)
	for _, name := range []string{"parts", "theirs"} {
		w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'y', '{x}', 100, 1e-6)`, name)
	}
	w.exec(w.steward, `SELECT dp_grant('parts', $1)`, w.person)
	through := w.serveBehind()
	for charges, placement := range []string{"memory", "database"} {
		w.exec(w.steward, `SELECT dp_set_placement('parts', $1)`, placement)
		attached := make(chan error, 1)
		through.set(atReading, func() {
			attached <- runAs(w.system.SuperuserURL(), `ALTER TABLE parts ATTACH PARTITION theirs FOR VALUES FROM (1000) TO (3000)`)
		})
		fit := func() error {
			_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress('parts', $1)`, 0.5+float64(charges))
			return err
		}
		w.wantError(fit(), "DP004", "reads relations that it did not read when it was registered")
		if err := <-attached; err != nil {
			t.Fatal(err)
		}
		if n := one[int](w, w.super, `SELECT count(*) FROM dp_int.release`); n != charges {
			t.Errorf("%s: there is a release", placement)
		}
		w.exec(w.super, `ALTER TABLE parts DETACH PARTITION theirs`)
		w.eventually("the job goes on", func() bool { return fit() == nil })
		if n := one[int](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = 'parts'`); n != charges+1 {
			t.Errorf("%s: %d entries, want %d", placement, n, charges+1)
		}
	}
}

// Passes in the database count the rows that have a value in every column, and a partition that comes late may double them. All the same
// only the number of rows decides what is told: the table has twice its rows whether or not one of them says something.
func TestALatePartitionTellsNoNull(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	through := w.serveBehind()
	var states []string
	for _, c := range []struct{ name, value string }{{"complete", "0"}, {"gaps", "NULL"}} {
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE %[1]s (y float8, x float8, day int) PARTITION BY RANGE (day);
			CREATE TABLE %[1]s_now PARTITION OF %[1]s FOR VALUES FROM (0) TO (1000); INSERT INTO %[1]s SELECT i, i, i FROM generate_series(1, 500) i;
			CREATE TABLE %[1]s_later (y float8, x float8, day int); INSERT INTO %[1]s_later SELECT CASE WHEN i = 100 THEN %[2]s ELSE 7 END, i, 2000 + i FROM generate_series(1, 500) i;
			GRANT SELECT ON %[1]s, %[1]s_later TO dp_sidecar`, c.name, c.value))
		w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'y', '{x}', 100, 1e-6)`, c.name)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, c.name, w.person)
		w.exec(w.steward, `SELECT dp_set_placement($1, 'database')`, c.name)
		attached := make(chan error, 1)
		through.set(atReading, func() {
			attached <- runAs(w.system.SuperuserURL(), fmt.Sprintf(`ALTER TABLE %[1]s ATTACH PARTITION %[1]s_later FOR VALUES FROM (1000) TO (3000)`, c.name))
		})
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, c.name, 0.5)
		w.wantError(err, "DP004", "twice the rows")
		if err := <-attached; err != nil {
			t.Fatal(err)
		}
		states = append(states, one[string](w, w.super, `SELECT concat_ws(' ', state, message) FROM dp_int.job ORDER BY id DESC LIMIT 1`))
	}
	if states[0] != states[1] {
		t.Errorf("with the value: %s; without: %s", states[0], states[1])
	}
	if n := one[int](w, w.super, `SELECT count(*) FROM dp_int.release`); n != 0 {
		t.Errorf("%d releases", n)
	}
}

// Settings of the server, the database or the role do not reach the sidecar where
// its work rests on others.
func TestSettingsOfTheDatabaseChangeNothing(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.slowView("slow", 3)
	wanted := map[string]string{"synchronous_commit": "on", "transaction_isolation": "read committed", "transaction_read_only": "off", "statement_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0", "lock_timeout": "5s"}
	hostile := map[string]string{"synchronous_commit": "off", "default_transaction_isolation": "serializable", "default_transaction_read_only": "on", "statement_timeout": "2s",
		"idle_in_transaction_session_timeout": "1s", "idle_session_timeout": "1s", "standard_conforming_strings": "off"}
	for name, value := range map[string]string{"transaction_timeout": "2s", "restrict_nonsystem_relation_kind": "view, foreign-table"} { // not every server has them
		if neutral := one[*string](w, w.super, `SELECT current_setting($1, true)`, name); neutral != nil {
			wanted[name], hostile[name] = *neutral, value
		}
	}
	// Sessions on workers of Citus, which pin nothing, have the settings of the role.
	config := one[string](w, w.super, `SELECT setconfig::text FROM pg_db_role_setting WHERE setrole = 'dp_sidecar'::regrole AND setdatabase = 0`)
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"} {
		if has := strings.Contains(config, name+"=0"); has != (hostile[name] != "") {
			t.Errorf("%s of dp_sidecar: %s", name, config)
		}
	}
	for name, value := range hostile {
		w.exec(w.super, fmt.Sprintf(`ALTER ROLE dp_sidecar IN DATABASE dpsidecar SET %s = '%s'`, name, value))
	}
	// The sessions tell themselves: those that work on jobs, and the one that listens.
	w.exec(w.super, `CREATE TABLE seen (relation text, name text, value text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN INSERT INTO public.seen SELECT TG_TABLE_NAME, name, current_setting(name, true) FROM unnest(TG_ARGV) AS name; RETURN NULL; END $$`)
	var names []string
	for name := range wanted {
		names = append(names, "'"+name+"'")
	}
	for _, table := range []string{"job", "worker"} {
		w.exec(w.super, fmt.Sprintf(`CREATE TRIGGER see AFTER INSERT OR UPDATE ON dp_int.%s FOR EACH ROW WHEN (session_user = 'dp_sidecar') EXECUTE FUNCTION see(%s)`,
			table, strings.Join(names, ", ")))
	}
	w.serve()
	w.mustRegress(w.analyst, ask, "slow", 0.5) // three seconds
	// The reader is idle in its transaction while the charge waits for the account.
	w.exec(w.super, `BEGIN`)
	w.exec(w.super, `SELECT FROM dp_int.account FOR UPDATE`)
	id := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	onlooker := w.connect(w.system.SuperuserURL())
	w.eventually("the charge waits", func() bool {
		return one[bool](w, onlooker, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'job_charge')`)
	})
	time.Sleep(1500 * time.Millisecond)
	w.exec(w.super, `COMMIT`)
	w.eventually("the job is done", func() bool { return w.jobState(id) == "done" })
	if n := one[int](w, w.super, `SELECT max(attempt) FROM dp_int.job`); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	for _, table := range []string{"job", "worker"} {
		for name, value := range wanted {
			if got := all[string](w, w.super, `SELECT DISTINCT value FROM seen WHERE relation = $1 AND name = $2`, table, name); !slices.Equal(got, []string{value}) {
				t.Errorf("sessions that write dp_int.%s have %s = %q, want %s", table, name, got, value)
			}
		}
	}
}

// Of identical jobs that are claimed at once one is charged, whatever the
// database's default isolation is.
func TestIdenticalJobsCostOneUnderRepeatableRead(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.exec(w.super, `ALTER DATABASE dpsidecar SET default_transaction_isolation = 'repeatable read'`)
	through := w.serveBehind()
	// The charge that comes first waits for the other, if there is one.
	through.set(atPlanned, func() {
		for range 1000 {
			if runAs(w.system.SuperuserURL(), `DO $$ BEGIN ASSERT EXISTS (SELECT FROM dp_int.ledger WHERE kind = 'charge') OR EXISTS (SELECT FROM dp_int.job WHERE follows IS NOT NULL); END $$`) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	w.exec(w.super, `BEGIN`)
	w.exec(w.super, `SELECT FROM dp_int.turnstile FOR UPDATE`)
	for range 2 {
		one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	}
	onlooker := w.connect(w.system.SuperuserURL())
	w.eventually("both are being claimed", func() bool {
		return one[int](w, onlooker, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'job_claim'`) == 2
	})
	w.exec(w.super, `COMMIT`)
	w.eventually("both are done", func() bool { return one[int](w, w.super, `SELECT count(*) FROM dp_int.job WHERE state = 'done'`) == 2 })
	if w.spent() != 0.5 || w.entries() != 1 {
		t.Errorf("spent %g in %d entries, want 0.5 in 1", w.spent(), w.entries())
	}
}

// slowToCount registers a view, sleeper, that takes so many seconds to count or to read.
func (w *world) slowToCount(seconds int) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.sleeper AS SELECT amount AS y, age AS x FROM public.%s WHERE (SELECT pg_sleep(%d) IS NOT NULL); GRANT SELECT ON sleeper TO dp_sidecar`,
		w.dataset, seconds))
	w.registerFor("sleeper", "sleeper", `{"total": true, "account": "`+w.dataset+`"}`, w.person)
}

const sleeping = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND wait_event = 'PgSleep')`

// A job that is canceled while it counts is gone with the next heartbeat, long
// before its lease runs out.
func TestAJobCanceledWhileItCountsIsDropped(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.slowToCount(300)
	w.exec(w.super, `UPDATE dp_int.dataset SET row_count = 1000`)
	w.serve()
	id := one[string](w, w.analyst, `SELECT dp_submit('l1', 'sleeper', 0.5)::text`)
	w.eventually("it counts", func() bool { return one[bool](w, w.super, sleeping) })
	one[string](w, w.analyst, `SELECT dp_cancel($1)`, id)
	w.within(beforeItsLease, "it is canceled", func() bool { return w.jobState(id) == "canceled" })
	w.eventually("the count has ended", func() bool { return !one[bool](w, w.super, sleeping) })
}

// The statements of a sidecar that is gone end on the server too.
func TestStatementsOfALostSidecarEnd(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	through := w.serveBehind()
	w.slowToCount(300)
	w.eventually("it counts", func() bool { return one[bool](w, w.super, sleeping) })
	through.listener.Close()
	through.cut()
	w.within(time.Minute, "the count has ended", func() bool { return !one[bool](w, w.super, sleeping) })
}

// While a sidecar that stops lets its jobs end, the database takes it to be alive: callers who wait for such a job would
// give up otherwise.
func TestASidecarThatStopsIsAliveUntilItsJobsEnd(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	config, err := pgxpool.ParseConfig(w.system.URL("dp_sidecar"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := job.New(job.Config{Database: config, Schema: sql.Current(), Version: "test", Log: slog.New(slog.DiscardHandler), Grace: time.Minute})
	go func() { ended <- s.Run(ctx) }()
	alive := func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) == 1 }
	w.eventually("it is alive", alive)
	w.slowToCount(15)
	answer := make(chan error, 1)
	go func() { _, err := regress(w.analyst, ask, "sleeper", 0.5); answer <- err }()
	w.eventually("it reads", func() bool {
		return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM dp_int.job WHERE state = 'reading')`)
	})
	stop()
	for waiting := true; waiting; {
		select {
		case err := <-answer:
			if err != nil {
				t.Error(err)
			}
			waiting = false
		case <-time.After(100 * time.Millisecond):
			if !alive() && one[bool](w, w.super, `SELECT bool_and(finished_at IS NULL) FROM dp_int.job`) {
				t.Fatal("the job runs, and the database takes its sidecar to be gone")
			}
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.eventually("it is gone", func() bool { return !alive() })
}

// A long count of rows keeps the sidecar from nothing else.
func TestASlowCountStopsNoHeartbeat(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.serve()
	w.slowToCount(300)
	w.eventually("it counts", func() bool { return one[bool](w, w.super, sleeping) })
	began := one[time.Time](w, w.super, `SELECT clock_timestamp()`)
	w.eventually("heartbeats go on", func() bool {
		return one[bool](w, w.super, `SELECT max(last_seen) > $1 FROM dp_int.worker`, began)
	})
	if !one[bool](w, w.super, sleeping) {
		t.Error("the count has ended")
	}
}

// A job that is past the point of no return does not wait for a steward's open transaction to publish a number of rows. It would
// be tried again and again, and be parked.
func TestNoStewardHoldsAJobThatReads(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.serve()
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
	w.exec(w.super, `INSERT INTO public.`+w.dataset+` SELECT * FROM public.`+w.dataset+` LIMIT 5`)
	holder := w.connect(w.system.StewardURL())
	w.exec(holder, `BEGIN`)
	w.exec(holder, `SELECT dp_set_placement($1, 'memory')`, w.dataset)
	w.mustRegress(w.analyst, ask, w.dataset, 0.125)
	if n := one[int](w, w.super, `SELECT max(attempt) FROM dp_int.job`); n != 1 {
		t.Errorf("%d attempts", n)
	}
	w.exec(holder, `ROLLBACK`)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	if n := one[int64](w, w.steward, `SELECT row_count FROM dp.datasets WHERE dataset = $1`, w.dataset); n != 1005 {
		t.Errorf("%d rows are published", n)
	}
}

// The number of rows that a job has published while a long count ran is the newer one, and stays.
func TestALongCountReplacesNoNewerOne(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.serve()
	w.slowToCount(3)
	w.eventually("it counts", func() bool { return one[bool](w, w.super, sleeping) })
	w.exec(w.super, `SELECT dp_int.counted(id, 999, true) FROM dp_int.dataset WHERE name = 'sleeper'`)
	w.eventually("the count has ended", func() bool { return !one[bool](w, w.super, sleeping) })
	w.idle()
	time.Sleep(200 * time.Millisecond) // between its end and what it may write
	w.idle()
	if n := one[int64](w, w.steward, `SELECT row_count FROM dp.datasets WHERE dataset = 'sleeper'`); n != 999 {
		t.Errorf("%d rows, want 999", n)
	}
}

// Connections on which nothing comes any more are given up, and others opened.
func TestConnectionsThatHangAreGivenUp(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.serve()
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	stopped := all[int](w, w.super, `SELECT pid FROM pg_stat_activity WHERE usename = 'dp_sidecar'`)
	t.Cleanup(func() {
		for _, pid := range stopped {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	id := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	for deadline := time.Now().Add(3 * time.Minute); w.jobState(id) != "done" || one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) != 1; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after three minutes the job is %s", w.jobState(id))
		}
	}
}

// An account whose accounting moves between a claim and its charge is charged by
// the new one, so that any sidecar can go on with the job.
func TestAnOrderThatMovesUnderAClaimIsNotCharged(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 1e-6)
	w.registerAgain("rdp", 1, 1e-6)
	through := w.serveBehind()
	moved := make(chan error, 1)
	through.set(atPlanned, func() {
		moved <- runAs(w.system.StewardURL(), fmt.Sprintf(`SELECT dp_set_budget('%s', 5, 1e-6)`, w.dataset))
		through.set(atReading, through.cut)
	})
	id := one[string](w, w.analyst, `SELECT dp_submit('linear', $1, 0.5, 1e-7, options => '{"method": "gd", "steps": 5}')::text`, w.dataset)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is done", func() bool { return w.jobState(id) == "done" })
	if n := w.entries(); n != 1 {
		t.Errorf("%d entries, want one charge", n)
	}
}
