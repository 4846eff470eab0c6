// Package job is the life of a job: claim, plan, charge, pull, run, publish. A
// Sidecar is an ordinary client of Postgres; any number of them share the queue.
package job

import (
	"cmp"
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

// Config says how a sidecar works. Its zero values are defaults, but for Database and Log.
type Config struct {
	Database *pgxpool.Config            // as role dp_sidecar
	Jobs     int                        // jobs at a time, each until its public time; 4 when zero
	JobTime  time.Duration              // how long one may read and fit; an hour when zero
	Lease    time.Duration              // how long a job stays ours without a heartbeat; 30 s when zero
	Grace    time.Duration              // how long a job may go on after the context ends; 20 s when zero
	Memory   int64                      // bytes that a job may need; 0: no limit
	SpillDir string                     // folder for rows that need more; empty: such a job is refused
	Nodes    map[string]*pgx.ConnConfig // servers of foreign partitions that may be asked directly, by their names
	Schema   sql.Schema                 // the only one to work with; zero: any
	Watch    Watcher                    // told what happens, for operators; nil: nobody
	Version  string
	Log      *slog.Logger

	// What tests replace to see that it is needed; nil: runPlan and sleepUntil.
	runPlan    func(context.Context, *dpsco.Plan, dpsco.Data, *mech.Source) (dpsco.Result, error)
	sleepUntil func(context.Context, time.Time) error
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.Jobs = cmp.Or(c.Jobs, 4)
	c.JobTime = cmp.Or(c.JobTime, time.Hour)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 20*time.Second)
	if c.Watch == nil {
		c.Watch = noWatcher{}
	}
	if c.runPlan == nil {
		c.runPlan = runPlan
	}
	if c.sleepUntil == nil {
		c.sleepUntil = sleepUntil
	}
	return c
}

// Sidecar works on the jobs of one database until its context ends.
type Sidecar struct {
	config Config
	log    *slog.Logger
	id     string // of this sidecar in dp_int.worker

	lastBeat   atomic.Int64    // when the database last took a heartbeat, in nanoseconds since 1970
	listening  atomic.Bool     // the session that listens is connected
	listener   *pgx.ConnConfig // how that session connects
	pool       *pgxpool.Pool
	autocommit autocommit    // statements on the pool
	queued     chan struct{} // a job may be queued: wakes one worker, and whoever finds one wakes the next
	inquired   chan struct{} // an explanation is asked for
	registered chan struct{} // a data set is registered, and not yet counted
	renyi      privacy.Renyi // remembers what batches cost
}

const (
	heartbeat = 5 * time.Second // between signs of life to the database
	livesFor  = 3 * heartbeat   // how long the database believes a silent sidecar alive: dp_int.liveness_period()
	poll      = time.Second     // how long a lost notification can delay a job
)

var errShutdown = errors.New("the sidecar is shutting down")

// New returns a sidecar that Run starts.
func New(c Config) *Sidecar {
	c = c.withDefaults()
	return &Sidecar{
		config: c, log: c.Log, id: uuid(),
		queued: make(chan struct{}, c.Jobs), inquired: make(chan struct{}, 1), registered: make(chan struct{}, 1),
	}
}

// Run connects, reconnects with backoff after every failure, and returns once
// ctx has ended and its jobs are finished or handed back. It is called once.
//
// Errors: those of an unusable Config.Database; ErrAccess; ErrRole; ErrSchema.
func (s *Sidecar) Run(ctx context.Context) error {
	if err := s.openPool(ctx); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	defer s.pool.Close()

	// Jobs outlive ctx by the grace they have to end.
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	if err := s.checkDatabase(ctx, s.autocommit); permanent(err) {
		s.log.Error("cannot serve", "error", err)
		return err
	}
	for range s.config.Jobs {
		workers.Go(func() { s.work(ctx, working) })
	}
	workers.Go(func() { s.explainAll(ctx, working) })
	workers.Go(func() { s.countRegistered(ctx) })
	s.listen(ctx, cancel)
	timer := time.AfterFunc(s.config.Grace, func() { stop(errShutdown) })
	workers.Wait()
	timer.Stop()
	s.deregister()
	if err := context.Cause(ctx); permanent(err) {
		return err
	}
	return nil
}

// openPool prepares the connections of the workers and of the session that listens.
func (s *Sidecar) openPool(ctx context.Context) (err error) {
	config := s.config.Database.Copy()
	pinSettings(config.ConnConfig)
	s.listener = config.ConnConfig.Copy()
	arrowio.Tune(config.ConnConfig)
	config.MaxConns = int32(2*s.config.Jobs + 5) // a reader and a writer for each job, for explanations and for row counts, one to spare
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	s.autocommit = autocommit{s.pool}
	return err
}

// work claims and runs jobs one after the other until ctx ends; it sleeps while
// there are none. One worker wakes at a time: all of them at once would claim the same
// job, and whoever gets it would wait for the others. Claims run under working, which
// outlives ctx: the database may have granted one already when ctx ends, and the job would
// wait until its lease is over.
func (s *Sidecar) work(ctx, working context.Context) {
	for ctx.Err() == nil {
		c, err := s.claimNext(working)
		switch {
		case err != nil && ctx.Err() == nil:
			s.log.Log(ctx, s.level(), "claim failed", "error", err)
		case c != nil:
			signal(s.queued)
			s.attempt(working, c)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.queued:
		case <-time.After(jitter(poll)):
		}
	}
}

// deregister tells the database that this sidecar ends. Where that fails, it is believed
// alive for livesFor.
func (s *Sidecar) deregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.pool.Exec(ctx, "SELECT dp_int.worker_bye($1)", s.id)
}

// uuid returns a random UUID, version 4 of RFC 9562.
func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it would crash the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
