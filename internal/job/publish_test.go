package job_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/job"
	"dpsidecar/sql"
)

// system is a private database with one small table, granted to the analyst.
type system struct {
	*testing.T
	*dev.System
	super, steward, analyst *pgx.Conn
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := &system{T: t, System: s}
	for conn, url := range map[**pgx.Conn]string{&w.super: s.SuperuserURL(), &w.steward: s.StewardURL(), &w.analyst: s.AnalystURL()} {
		if *conn, err = pgx.Connect(context.Background(), url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*conn).Close(context.Background()) })
	}
	w.exec(w.super, `CREATE TABLE small AS SELECT i::float8 AS y, (i % 7)::float8 AS x FROM generate_series(1, 300) i; GRANT SELECT ON small TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register('small', 'small', 'y', '{x}', 100)`)
	w.exec(w.steward, `SELECT dp_grant('small', 'analyst')`)
	return w
}

func (w *system) exec(conn *pgx.Conn, sql string, args ...any) {
	w.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
}

func (w *system) text(conn *pgx.Conn, sql string, args ...any) (v string) {
	w.Helper()
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
	return v
}

func (w *system) submit(eps float64, options string) string {
	w.Helper()
	return w.text(w.analyst, `SELECT dp_submit('l1', 'small', $1, options => $2)::text`, eps, options)
}

func (w *system) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within two minutes: %s", what)
		}
	}
}

// answered asks, and again what has not ended within its time: the machine may have too much
// to do. It returns the job that is done.
func (w *system) answered(what string, eps float64, options string) (id string) {
	w.Helper()
	id = w.submit(eps, options)
	w.until(what, func() bool {
		says := w.status(id)
		if strings.HasPrefix(says, "running charged, out of time") {
			id = w.submit(eps, options)
		}
		return strings.HasPrefix(says, "done")
	})
	return id
}

func (w *system) status(id string) string {
	return w.text(w.analyst, `SELECT concat_ws(' ', status, stage, sqlstate, message, hint) FROM dp_status($1)`, id)
}

// watcher remembers what became of jobs; it is also where the log goes.
type watcher struct {
	mu    sync.Mutex
	ended []string
	log   bytes.Buffer
}

func (w *watcher) Ended(outcome string) {
	w.mu.Lock()
	w.ended = append(w.ended, outcome)
	w.mu.Unlock()
}
func (w *watcher) Pulled(time.Duration) {}
func (w *watcher) Ran(time.Duration)    {}
func (w *watcher) outcomes() []string   { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(w.ended) }
func (w *watcher) logged() string       { w.mu.Lock(); defer w.mu.Unlock(); return w.log.String() }
func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// serve starts a sidecar that a test has changed.
func (w *system) serve(change func(*job.Config)) *watcher {
	w.Helper()
	config, err := pgxpool.ParseConfig(w.URL("dp_sidecar"))
	if err != nil {
		w.Fatal(err)
	}
	seen := new(watcher)
	c := job.Config{Database: config, Schema: sql.Current(), Version: "test", Log: slog.New(slog.NewTextHandler(seen, nil)), Watch: seen, Grace: time.Second}
	change(&c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- job.New(c).Run(ctx) }()
	w.Cleanup(func() { cancel(); <-ended })
	return seen
}

// A panic while data are held kills no sidecar, tells nobody a value, and costs what
// was charged, once.
func TestAPanicParksItsJob(t *testing.T) {
	w := newSystem(t)
	var once, onDisk sync.Once
	unreadable := unreadable(t)
	seen := w.serve(func(c *job.Config) {
		c.Before(func(context.Context) {
			once.Do(func() { panic("the value is 4711") })
			onDisk.Do(func() { unreadable[0]++ })
		})
	})
	id := w.submit(1, `{}`)
	w.until("it is parked", func() bool {
		return strings.Contains(w.status(id), "DP004 a fault in dpsidecar ended the job The privacy budget is spent, once")
	})
	if other := w.submit(2, `{}`); true {
		w.until("the sidecar goes on", func() bool { return strings.HasPrefix(w.status(other), "done") })
	}
	w.until("it is tried again", func() bool { return strings.HasPrefix(w.status(id), "done") })
	if n := w.text(w.steward, `SELECT entries::text FROM dp.budget`); n != "2" {
		t.Errorf("%s entries, want 2", n)
	}
	if !slices.Contains(seen.outcomes(), "panicked") {
		t.Errorf("counted %q", seen.outcomes())
	}
	if log := seen.logged(); !strings.Contains(log, "TestAPanicParksItsJob") || strings.Contains(log, "4711") {
		t.Errorf("logged %s", log)
	}
	if late := w.text(w.super, `SELECT count(*)::text FROM dp_int.job WHERE state <> 'done'`); late != "0" {
		t.Errorf("%s jobs are not done", late)
	}
}

// So does one while a result is made ready for the database.
func TestAPanicOfAPublicationParksItsJob(t *testing.T) {
	w := newSystem(t)
	var once sync.Once
	w.serve(func(c *job.Config) {
		c.Change(func(r *release.Result) { once.Do(func() { r.Low, r.High = []float64{4711}, nil }) })
	})
	id := w.submit(1, `{}`)
	w.until("it is parked", func() bool {
		return strings.Contains(w.status(id), "DP004 a fault in dpsidecar ended the job The privacy budget is spent, once")
	})
	other := w.submit(2, `{}`)
	w.until("the sidecar goes on", func() bool { return strings.HasPrefix(w.status(other), "done") })
}

// unreadable are numbers on a disk that fails: to touch them is a fault.
func unreadable(t *testing.T) []byte {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, 1, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED) // beyond the file's end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mapped) })
	return mapped
}

// What is not done at the last step ends there, charged once, and is tried again, free,
// when the same is asked again: also what was asked for afresh.
func TestAJobEndsWithinItsTime(t *testing.T) {
	for _, options := range []string{`{}`, `{"fresh": true}`} {
		w := newSystem(t)
		w.serve(func(c *job.Config) {
			var tries atomic.Int32
			c.Jobs, c.JobTime = 1, time.Second
			c.Before(func(ctx context.Context) {
				if tries.Add(1) == 1 {
					<-ctx.Done()
				}
			})
		})
		id := w.submit(1, options)
		w.until("it ends", func() bool {
			return strings.HasPrefix(w.status(id), "running charged, out of time DP004 the job did not end within its time, 00:00:0")
		})
		if says := w.status(id); !strings.Contains(says, "The privacy budget is spent, once: the same request tries again at no further cost.") {
			t.Errorf("its caller is told %q", says)
		}
		w.answered("the slot is free", 2, `{}`)
		time.Sleep(time.Second)
		if says := w.status(id); !strings.HasPrefix(says, "running charged, out of time") {
			t.Errorf("by itself it is %q", says)
		}
		again := w.answered("the same request is answered", 1, options)
		if n := w.text(w.steward, `SELECT entries || ' for ' || epsilon_spent FROM dp.budget`); n != "2 for 3" {
			t.Errorf("%s: %s, want 2 for 3", options, n)
		}
		if same := w.text(w.super, `SELECT count(DISTINCT release)::text FROM dp_int.job WHERE id IN ($1, $2)`, id, again); same != "1" {
			t.Errorf("%s releases", same)
		}
		if wrong := w.text(w.steward, `SELECT count(*)::text FROM dp_verify() WHERE NOT ok`); wrong != "0" {
			t.Error("verify finds something")
		}
	}
}

// A steward ends for good what ended at its last step.
func TestWhatIsOutOfTimeCanBeAbandoned(t *testing.T) {
	w := newSystem(t)
	w.serve(func(c *job.Config) {
		c.JobTime = time.Second
		c.Before(func(ctx context.Context) { <-ctx.Done() })
	})
	id := w.submit(1, `{}`)
	w.until("it ends", func() bool { return strings.Contains(w.status(id), "out of time") })
	if says := w.text(w.steward, `SELECT dp_abandon($1)`, id); says != "abandoned; the privacy budget is spent, and nothing will be released" {
		t.Error(says)
	}
	if wrong := w.text(w.steward, `SELECT count(*)::text FROM dp_verify() WHERE NOT ok`); wrong != "0" {
		t.Error("verify finds something")
	}
}

// refusingPublications serves with a database that refuses all publications, until its trigger "refuse" is dropped. It returns how
// many answers were drawn.
func (w *system) refusingPublications() (draws *atomic.Int32) {
	draws = new(atomic.Int32)
	w.serve(func(c *job.Config) { c.Before(func(context.Context) { draws.Add(1) }) })
	w.exec(w.super, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200'; END $$;
		CREATE TRIGGER refuse AFTER INSERT ON dp_int.coefficient FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	return draws
}

// Whoever can make the database refuse a publication does not have the job drawn again: its one charge pays for one draw.
func TestWhatCannotBePublishedIsNotDrawnAgain(t *testing.T) {
	w := newSystem(t)
	draws := w.refusingPublications()
	id := w.submit(1, `{}`)
	attempts := func() int {
		n, err := strconv.Atoi(w.text(w.super, `SELECT attempt::text FROM dp_int.job WHERE id = $1::text::uuid`, id))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.until("it is tried again, also where it was parked", func() bool { return attempts() >= 5 })
	w.exec(w.super, `DROP TRIGGER refuse ON dp_int.coefficient`)
	w.until("it is done", func() bool { return strings.HasPrefix(w.status(id), "done") })
	if n := draws.Load(); n != 1 {
		t.Errorf("%d draws for one charge", n)
	}
	if w.text(w.super, `SELECT (r.read_at < j.read_at - interval '1 s')::text FROM dp_int.release r JOIN dp_int.job j ON j.id = r.job WHERE j.id = $1::text::uuid`, id) != "true" {
		t.Error("the release is said to be of the rows of a later attempt")
	}
	other := w.submit(2, `{}`)
	w.until("others are done", func() bool { return strings.HasPrefix(w.status(other), "done") })
	if n := draws.Load(); n != 2 {
		t.Errorf("%d draws for two charges", n)
	}
}

// stepAfter waits until a step of a job that reads has passed, at least so long after now, and returns the times of the next ones.
func (w *system) stepAfter(id string, least time.Duration) (next []time.Time) {
	w.Helper()
	w.until("it reads", func() bool {
		return w.text(w.super, `SELECT (state = 'reading')::text FROM dp_int.job WHERE id = $1::text::uuid`, id) == "true"
	})
	rows, err := w.super.Query(context.Background(), `SELECT dp_int.step(j, k) FROM dp_int.job j, generate_series(0, j.last_step) k
		WHERE j.id = $1::text::uuid AND dp_int.step(j, k) > clock_timestamp() + $2::interval ORDER BY 1`, id, least)
	if err == nil {
		next, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
	}
	if err != nil || len(next) < 4 {
		w.Fatalf("%v: %d steps", err, len(next))
	}
	time.Sleep(time.Until(next[0].Add(20 * time.Millisecond)))
	return next[1:]
}

// Whoever chooses the moment at which a lease is lost does not see whether the fit had ended by then: it goes on to its next step.
func TestAnAttemptThatLosesItsLeaseEndsAtAStep(t *testing.T) {
	w := newSystem(t)
	ended := make(chan time.Time, 1)
	w.serve(func(c *job.Config) {
		c.Jobs, c.Lease = 1, time.Second
		c.Before(func(ctx context.Context) { <-ctx.Done(); ended <- time.Now() })
	})
	id := w.submit(1, `{}`)
	next := w.stepAfter(id, 2*time.Second)
	w.exec(w.super, `UPDATE dp_int.job SET token = gen_random_uuid() WHERE id = $1::text::uuid`, id)
	if at := <-ended; at.Before(next[0]) || at.After(next[2]) {
		t.Errorf("it ends at %v, its steps are at %v", at, next[:3])
	}
}

// A sidecar that claims a job at which it has an attempt already does not begin another one: that one publishes, under the
// new claim.
func TestASidecarHasOneAttemptAtAJob(t *testing.T) {
	w := newSystem(t)
	var draws atomic.Int32
	finish := make(chan struct{})
	w.serve(func(c *job.Config) {
		c.Jobs, c.Lease = 2, time.Second
		c.Before(func(ctx context.Context) {
			if draws.Add(1) == 1 {
				select {
				case <-finish:
				case <-ctx.Done():
				}
			}
		})
	})
	id := w.submit(1, `{}`)
	w.stepAfter(id, 4*time.Second) // the next one is two seconds away
	w.until("another attempt has it", func() bool {
		w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() - interval '1 s' WHERE id = $1::text::uuid AND attempt = 1`, id)
		w.exec(w.super, `SELECT pg_notify('dp_jobs', 'queued')`)
		return w.text(w.super, `SELECT (attempt = 2)::text FROM dp_int.job WHERE id = $1::text::uuid`, id) == "true"
	})
	claimed := w.text(w.super, `SELECT clock_timestamp()::text`)
	time.Sleep(200 * time.Millisecond)
	close(finish)
	w.until("it is done", func() bool { return strings.HasPrefix(w.status(id), "done") })
	if n := draws.Load(); n != 1 {
		t.Errorf("%d draws for one charge", n)
	}
	if w.text(w.super, `SELECT (read_at < $2::text::timestamptz)::text FROM dp_int.release WHERE job = $1::text::uuid`, id, claimed) != "true" {
		t.Error("it was read again")
	}
}

// A standby that is promoted without the charge has the job queued: it is charged again, and drawn by the plan of that charge.
func TestAnAnswerIsForTheChargeItWasDrawnFor(t *testing.T) {
	w := newSystem(t)
	draws := w.refusingPublications()
	id := w.submit(1, `{}`)
	w.until("it is tried again", func() bool {
		return w.text(w.super, `SELECT (attempt >= 2)::text FROM dp_int.job WHERE id = $1::text::uuid`, id) == "true"
	})
	promoted := w.text(w.super, `SELECT clock_timestamp()::text`)
	w.exec(w.super, `UPDATE dp_int.job SET state = 'queued', charge = NULL, row_count = NULL, plan = NULL, token = NULL, worker = NULL, lease_until = NULL, attempt = 0`)
	w.exec(w.super, `DROP TRIGGER refuse ON dp_int.coefficient`)
	w.until("it is done", func() bool { return strings.HasPrefix(w.status(id), "done") })
	if n := draws.Load(); n != 2 {
		t.Errorf("%d draws for two charges", n)
	}
	if w.text(w.super, `SELECT (read_at > $2::text::timestamptz)::text FROM dp_int.release WHERE job = $1::text::uuid`, id, promoted) != "true" {
		t.Error("what was drawn for the lost charge is published")
	}
}

// early is how many jobs could be seen to end before the time that they say, and
// strays those that say another time than a step of their ladder.
const (
	early  = `SELECT count(*)::text FROM seen s JOIN dp_int.job j ON j.id = s.job WHERE s.at < j.finished_at`
	strays = `SELECT count(*)::text FROM dp_int.job j JOIN dp_int.release r ON r.id = j.release
		WHERE j.finished_at <> r.released_at OR NOT j.finished_at = ANY (SELECT dp_int.step(j, k) FROM generate_series(0, j.last_step) k)`
)

func (w *system) watchEnds() {
	w.exec(w.super, `CREATE TABLE seen (job uuid, at timestamptz);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO public.seen VALUES (NEW.id, clock_timestamp()); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER UPDATE ON dp_int.job FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL) EXECUTE FUNCTION see()`)
}

// Jobs end at steps of their ladder, and not before; a late one at a later step. A
// sidecar that publishes at once is noticed.
func TestJobsEndAtPublicTimes(t *testing.T) {
	w := newSystem(t)
	w.watchEnds()
	w.serve(func(c *job.Config) {
		var tries atomic.Int32
		c.Before(func(context.Context) {
			if tries.Add(1) == 3 {
				time.Sleep(500 * time.Millisecond)
			}
		})
	})
	var last string
	for i := range 4 {
		last = w.submit(1+float64(i), `{}`)
		w.until("done", func() bool { return strings.HasPrefix(w.status(last), "done") })
	}
	if n := w.text(w.super, early); n != "0" {
		t.Errorf("%s jobs end before their time", n)
	}
	if n := w.text(w.super, strays); n != "0" {
		t.Errorf("%s jobs end beside their ladders", n)
	}
	if late := w.text(w.super, `SELECT (finished_at > read_at + first_step)::text FROM dp_int.job WHERE eps = 3`); late != "true" {
		t.Error("a late job ends at the first step")
	}
	if first := w.text(w.super, `SELECT count(DISTINCT first_step)::text FROM dp_int.job`); first != "1" {
		t.Errorf("identical plans have %s ladders", first)
	}
}

// On a busy machine jobs may end after their first step all the same, so that many are tried.
func TestPublishingAtOnceIsNoticed(t *testing.T) {
	w := newSystem(t)
	w.watchEnds()
	w.serve(func(c *job.Config) { c.PublishAtOnce() })
	for i := range 400 {
		id := w.submit(0.1+float64(i)/10_000, `{}`) // the budget is enough for all
		w.until("done", func() bool { return strings.HasPrefix(w.status(id), "done") })
		if w.text(w.super, early) != "0" {
			return
		}
	}
	t.Error("not noticed")
}

// How long a silent sidecar is believed alive stands in the database and in Go.
func TestTheDatabaseAgreesHowLongASidecarLives(t *testing.T) {
	w := newSystem(t)
	if s := w.text(w.super, `SELECT extract(epoch FROM dp_int.liveness_period())::int::text`); s != strconv.Itoa(int(job.LivesFor.Seconds())) {
		t.Errorf("the database says %s s, Go %v", s, job.LivesFor)
	}
}
