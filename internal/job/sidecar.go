// Package job is the life of a job: claim, plan, charge, pull, run, publish. A
// Sidecar is an ordinary client of Postgres; any number of them share the queue.
package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/sql"
)

// Sidecar works on the jobs of one database until its context ends.
type Sidecar struct {
	Config  *pgxpool.Config // as role dp_sidecar
	Jobs    int             // jobs at a time, each until its public time; 4 when zero
	JobTime time.Duration   // how long one may read and fit; an hour when zero
	Lease   time.Duration   // how long a job stays ours without a heartbeat; 30 s when zero
	Grace   time.Duration   // how long a job may go on after the context ends; 20 s when zero
	Memory  int64           // bytes that a job may need; 0: no limit
	Schema  sql.Schema      // the only one to work with; zero: any
	Watch   Watcher         // told what happens, for operators; nil: nobody
	Version string
	Log     *slog.Logger

	alive      atomic.Int64 // when the database last heard of us, in nanoseconds since 1970
	heard      atomic.Bool  // the session that listens is there; while it is not, it alone says so
	id         string
	ears       *pgx.ConnConfig // of the session that listens
	pool       *pgxpool.Pool
	brief      brief         // statements on the pool
	wake       chan struct{} // a job is queued
	question   chan struct{} // an explanation is asked for
	registered chan struct{} // a data set is, and not yet counted
	renyi      privacy.Renyi // remembers what batches cost

	// What tests replace to see that it is needed.
	runPlan func(context.Context, *dpsco.Plan, dpsco.Data, *mech.Source) ([]float64, error)
	await   func(context.Context, time.Time) error
}

const (
	heartbeat = 5 * time.Second // the database believes a sidecar dead after three
	poll      = time.Second     // how long a lost notification can delay a job
)

// Run connects, reconnects with backoff after every failure, and returns once
// ctx has ended and its jobs are finished or handed back.
//
// Errors: those of an unusable Config; ErrAccess; ErrRole; ErrSchema.
func (s *Sidecar) Run(ctx context.Context) error {
	s.Jobs = orDefault(s.Jobs, 4)
	s.JobTime = orDefault(s.JobTime, time.Hour)
	s.Lease = orDefault(s.Lease, 30*time.Second)
	s.Grace = orDefault(s.Grace, 20*time.Second)
	if s.Watch == nil {
		s.Watch = nobody{}
	}
	if s.runPlan == nil {
		s.runPlan = runPlan
	}
	if s.await == nil {
		s.await = await
	}
	s.id = uuid()
	s.wake, s.question, s.registered = make(chan struct{}, s.Jobs), make(chan struct{}, 1), make(chan struct{}, 1)
	config := s.Config.Copy()
	pin(config.ConnConfig)
	s.ears = config.ConnConfig.Copy()
	arrowio.Tune(config.ConnConfig)
	config.MaxConns = int32(2*s.Jobs + 5) // a reader and a writer for each job, for explanations and for row counts, one to spare
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	defer pool.Close()
	s.pool, s.brief = pool, brief{pool}

	// Jobs outlive ctx by the grace they have to end.
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	if err := s.checkDatabase(ctx, s.brief); refused(err) {
		s.Log.Error("cannot serve", "error", err)
		return err
	}
	for range s.Jobs {
		workers.Go(func() { s.work(ctx, working) })
	}
	workers.Go(func() { s.explainAll(ctx, working) })
	workers.Go(func() { s.countAll(ctx) })
	s.listen(ctx, cancel)
	timer := time.AfterFunc(s.Grace, func() { stop(errShutdown) })
	workers.Wait()
	timer.Stop()
	s.farewell()
	if err := context.Cause(ctx); refused(err) {
		return err
	}
	return nil
}

// work claims and runs jobs one after the other until ctx ends; it sleeps while
// there are none. A claim under way when ctx ends is one of working: the
// database may have granted it already, and the job would wait for its lease.
func (s *Sidecar) work(ctx, working context.Context) {
	for ctx.Err() == nil {
		c, err := s.claim(working)
		switch {
		case err != nil && ctx.Err() == nil:
			s.Log.Log(ctx, s.level(), "claim failed", "error", err)
		case c != nil:
			s.attempt(working, c)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(jitter(poll)):
		}
	}
}

// listen holds the session that makes this sidecar alive: it sends heartbeats
// and turns notifications into wake-ups. It ends everything once the database is
// none to work with.
func (s *Sidecar) listen(ctx context.Context, cancel context.CancelCauseFunc) {
	for failures := 0; ctx.Err() == nil; failures++ {
		started := time.Now()
		err := s.session(ctx)
		s.heard.Store(false)
		if refused(err) {
			s.Log.Error("cannot serve any more", "error", err)
			cancel(err)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > time.Minute {
			failures = 0
		}
		delay := backoff(failures)
		s.Log.Warn("no connection to the database", "host", s.ears.Host, "port", s.ears.Port, "database", s.ears.Database, "user", s.ears.User,
			"error", err, "retry_in", delay)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

func (s *Sidecar) session(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(context.WithoutCancel(ctx), conn)
	s.heard.Store(true)
	s.Log.Info("connected", "worker", s.id, "database", s.ears.Database)
	ring(s.registered)
	s.ring()
	ring(s.question)
	for next := time.Now().Add(heartbeat); ; {
		n, err := waitUntil(ctx, conn, next)
		switch {
		case err == nil && n.Payload == "registered":
			ring(s.registered)
		case err == nil && n.Payload == "inquiry":
			ring(s.question)
		case err == nil:
			s.ring()
		case ctx.Err() != nil || conn.IsClosed():
			return err
		default: // the deadline: time for a heartbeat
			if err := s.beat(ctx, conn); err != nil {
				return err
			}
			next = time.Now().Add(heartbeat)
		}
	}
}

// connect opens the session that listens and sends its first heartbeat.
func (s *Sidecar) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	limited, done := context.WithTimeout(ctx, patience)
	defer done()
	if conn, err = pgx.ConnectConfig(limited, s.ears); err != nil {
		return nil, access(err)
	}
	if err = checkRole(limited, conn); err == nil {
		_, err = conn.Exec(limited, "LISTEN dp_jobs")
	}
	if err == nil {
		err = s.beat(ctx, conn)
	}
	if err != nil {
		hangUp(context.WithoutCancel(ctx), conn)
		return nil, err
	}
	return conn, nil
}

// hangUp closes a connection that may hang.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, done := context.WithTimeout(ctx, time.Second)
	defer done()
	conn.Close(ctx)
}

func (s *Sidecar) beat(ctx context.Context, conn *pgx.Conn) error {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	if err := s.checkSchema(ctx, conn); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT dp_int.worker_beat($1, $2, $3)", s.id, conn.PgConn().PID(), s.Version)
	if err == nil {
		s.alive.Store(time.Now().UnixNano())
	}
	return err
}

func (s *Sidecar) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.pool.Exec(ctx, "SELECT dp_int.worker_bye($1)", s.id) // the heartbeat ends it otherwise
}

// level is that of a worker's failure: while the database is away, the session
// that listens reports it.
func (s *Sidecar) level() slog.Level {
	if s.heard.Load() {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// ring wakes every worker that sleeps.
func (s *Sidecar) ring() {
	for range s.Jobs {
		ring(s.wake)
	}
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// countAll counts what was registered, beside the session that listens: a long
// count delays no heartbeat. It ends with ctx.
func (s *Sidecar) countAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.registered:
		}
		todo, err := s.uncounted(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("row counts failed", "error", err)
		}
		for _, d := range todo {
			if _, err := s.rows(ctx, d.Dataset, pgx.Identifier{d.Schema, d.Relation}); err != nil && ctx.Err() == nil {
				s.Log.Warn("row count failed", "dataset_id", d.Dataset, "error", err)
			}
		}
	}
}

type uncounted struct {
	Dataset          int64
	Schema, Relation string
}

// uncounted returns the data sets whose number of rows is not published.
func (s *Sidecar) uncounted(ctx context.Context) ([]uncounted, error) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	rows, _ := s.pool.Query(ctx, "SELECT dataset, schema_name, relation_name FROM dp_int.uncounted()")
	return pgx.CollectRows(rows, pgx.RowToStructByPos[uncounted])
}

func backoff(failures int) time.Duration {
	return jitter(min(100*time.Millisecond<<min(failures, 10), 5*time.Second))
}

// jitter returns between d/2 and d, so that sidecars do not move in step.
func jitter(d time.Duration) time.Duration {
	var b [1]byte
	rand.Read(b[:])
	return d/2 + d/2*time.Duration(b[0])/255
}

func orDefault[T int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it would crash the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

var errShutdown = errors.New("the sidecar is shutting down")
