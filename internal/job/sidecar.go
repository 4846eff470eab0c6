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
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/sql"
)

// Config configures a sidecar. Zero values mean defaults, except for Database and Log.
type Config struct {
	Database *pgxpool.Config            // connects as role dp_sidecar
	Jobs     int                        // jobs at a time, each until it is published; 4 when zero
	JobTime  time.Duration              // time limit for reading and fitting one job; an hour when zero
	Lease    time.Duration              // time after which another sidecar may take a job without a heartbeat; 30 s when zero
	Grace    time.Duration              // how long a job may go on after the context ends; 20 s when zero
	Memory   int64                      // bytes that a job may need; 0: no limit
	SpillDir string                     // folder for the rows of jobs that need more than Memory; empty: such a job is refused
	Nodes    map[string]*pgx.ConnConfig // servers of foreign partitions that may be queried directly, by name
	Schema   sql.Schema                 // required schema; zero: any
	Watch    Watcher                    // receives events for operators; nil: nobody
	Version  string
	Log      *slog.Logger

	// Replaced in tests; nil: runPlan and sleepUntil.
	runPlan    func(context.Context, *plan.Plan, table.Data, *mech.Source) (release.Result, error)
	sleepUntil func(context.Context, time.Time) error
}

// withDefaults replaces zero values by defaults.
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
	id     string // identifies this sidecar in dp_int.worker

	lastBeat   atomic.Int64    // when the database last accepted a heartbeat, in nanoseconds since 1970
	listening  atomic.Bool     // the session that listens is connected
	listener   *pgx.ConnConfig // connection parameters of that session
	pool       *pgxpool.Pool
	autocommit autocommit    // statements on the pool
	queued     chan struct{} // signals that a job may be queued: wakes one worker, and a worker that finds a job wakes the next
	inquired   chan struct{} // signals that an explanation is asked for
	registered chan struct{} // signals that a data set is registered and not yet counted
	counting   chan struct{} // holds one for each question for which rows are counted
	renyi      privacy.Renyi // caches the cost of batches
	turns      turns         // jobs at which it has an attempt
	drawn      drawn         // answers that are not published yet
}

const (
	heartbeat = 5 * time.Second // time between two heartbeats
	livesFor  = 3 * heartbeat   // how long the database takes a sidecar without heartbeats to be alive: dp_int.liveness_period()
	poll      = time.Second     // longest delay of a job by a lost notification
)

var errShutdown = errors.New("the sidecar is shutting down")

// New returns a sidecar; Run starts it.
func New(c Config) *Sidecar {
	c = c.withDefaults()
	return &Sidecar{
		config: c, log: c.Log, id: uuid(),
		queued: make(chan struct{}, c.Jobs), inquired: make(chan struct{}, 1), registered: make(chan struct{}, 1), counting: make(chan struct{}, explainers-1),
	}
}

// Run connects, reconnects with backoff after every failure, and returns when ctx has ended and its jobs
// are finished or handed back. It may be called once.
//
// Errors: those of an unusable Config.Database; ErrAccess; ErrRole; ErrSchema.
func (s *Sidecar) Run(ctx context.Context) error {
	if err := s.openPool(ctx); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	defer s.pool.Close()

	// Jobs may continue for the grace period after ctx ends. The session that listens goes on as long as they
	// do: callers who wait give up soon after the database takes no sidecar to be alive.
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	serving, end := context.WithCancel(working)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.checkDatabase(ctx, s.autocommit); permanent(err) {
		s.log.Error("cannot serve", "error", err)
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	var workers, services sync.WaitGroup
	for range s.config.Jobs {
		workers.Go(func() { s.work(ctx, working) })
	}
	for range explainers {
		services.Go(func() { s.explainAll(serving, working) })
	}
	services.Go(func() { s.countRegistered(ctx) })
	services.Go(func() { s.listen(serving, cancel) })
	<-ctx.Done()
	timer := time.AfterFunc(s.config.Grace, func() { stop(errShutdown) })
	workers.Wait()
	end()
	services.Wait()
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
	config.MaxConns = int32(2*(s.config.Jobs+explainers+1) + 1) // a reader and a writer for each job, each explanation and row counts, and one to spare
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	s.autocommit = autocommit{s.pool}
	return err
}

// work claims and runs jobs one after the other until ctx ends; it sleeps while there are none. Only one
// worker wakes at a time: workers that wake together would claim the same job, and the winner would wait
// for the others. Claims run under working, which outlives ctx: the database may have granted a claim when
// ctx ends, and the job would then wait until its lease expires.
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

// deregister tells the database that this sidecar ends. If that fails, the database takes it to be alive
// for livesFor.
func (s *Sidecar) deregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.pool.Exec(ctx, "SELECT dp_int.worker_bye($1)", s.id)
}

// uuid returns a random UUID, version 4 of RFC 9562.
func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // does not return an error: if it fails it ends the program
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
