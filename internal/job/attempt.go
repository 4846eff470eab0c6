package job

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

var errUnwanted = errors.New("nobody wants the job any more")

const (
	handBack       = "SELECT dp_int.job_hand_back($1, $2, $3)"
	handBackFor    = "SELECT dp_int.job_hand_back($1, $2, $3, $4, $5)"
	recheckJob     = "SELECT dp_int.job_recheck($1, $2)"
	recheckDataset = "SELECT dp_int.dataset_recheck($1)"
)

// attempt runs one claimed job and records how it ended.
func (s *Sidecar) attempt(working context.Context, c *claim) {
	log := s.log.With("job", c.ID, "dataset", c.Dataset.Name, "model", c.Model, "attempt", c.Attempt)
	log.Info("claimed", "state", c.State)
	if !s.turns.begin(c.ID, c.Token) {
		log.Info("left to the attempt that runs")
		return
	}
	ctx, end := context.WithCancelCause(working)
	defer end(nil)
	leased, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go s.keepLease(ctx, lose, end, c.ID)

	err := s.run(ctx, leased, c)
	if cause := context.Cause(leased); err != nil && cause != nil {
		err = cause
	}
	own := *c // a fit that was left behind may still read c
	own.Token = s.turns.end(c.ID)
	// The record must outlive the shutdown that may have ended the attempt.
	recording, done := context.WithTimeout(context.WithoutCancel(working), 5*time.Second)
	defer done()
	if err := s.record(recording, log, &own, err); err != nil && !errors.Is(ledger.Explain(err), ledger.ErrLost) {
		log.Warn("left to its lease", "error", err)
	}
}

// record reports the end of an attempt to operators and to the database. It returns errors of the database
// only; after one, another sidecar takes the job when the lease has expired.
func (s *Sidecar) record(ctx context.Context, log *slog.Logger, c *claim, err error) error {
	var fail *failure
	var park parked
	switch {
	case err == nil:
		s.config.Watch.Ended("done")
		log.Info("done")
		return nil
	case errors.Is(err, ledger.ErrLost):
		s.config.Watch.Ended("dropped")
		log.Info("dropped", "reason", err)
		return s.autocommit.exec(ctx, handBack, c.ID, c.Token, false) // does nothing where another sidecar has it
	case errors.Is(err, errUnwanted):
		s.config.Watch.Ended("dropped")
		log.Info("dropped", "reason", err)
		// The database drops the job and refunds its charge, unless the job is already gone.
		return s.autocommit.exec(ctx, handBack, c.ID, c.Token, false)
	case errors.As(err, &fail):
		s.config.Watch.Ended(fail.outcome())
		log.Info("failed", "sqlstate", fail.sqlstate, "reason", fail.message)
		return s.autocommit.exec(ctx, "SELECT dp_int.job_fail($1, $2, $3, $4, $5)", c.ID, c.Token, fail.sqlstate, fail.message, fail.hint)
	case errors.Is(err, errOutOfTime):
		s.config.Watch.Ended("out_of_time")
		log.Warn("stopped", "reason", err)
		return s.autocommit.exec(ctx, "SELECT dp_int.job_stop($1, $2)", c.ID, c.Token)
	case errors.As(err, &park):
		s.config.Watch.Ended(park.outcome())
		log.Warn("parked", "reason", park)
		return s.autocommit.exec(ctx, "SELECT dp_int.job_park($1, $2, $3)", c.ID, c.Token, string(park))
	default:
		s.config.Watch.Ended("handed_back")
		log.Warn("handed back", "error", err)
		reason, hint := temporary(err)
		return s.autocommit.exec(ctx, handBackFor, c.ID, c.Token, errors.Is(err, errShutdown), reason, hint)
	}
}

// keepLease renews the lease of a job until ctx ends. It ends the attempt if nobody wants the job any more, and has it lose
// its lease if another sidecar has the job, or the lease expired while the database could not be reached.
func (s *Sidecar) keepLease(ctx context.Context, lose, end context.CancelCauseFunc, job string) {
	expires := time.Now().Add(s.config.Lease)
	tick := time.NewTicker(s.config.Lease / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		beat, done := context.WithTimeout(ctx, s.config.Lease/3)
		var ours *bool // nil: another worker has the job
		err := s.autocommit.QueryRow(beat, "SELECT dp_int.job_beat($1, $2, $3)", job, s.turns.token(job), s.config.Lease).Scan(&ours)
		done()
		switch {
		case err == nil && ours == nil, err != nil && time.Now().After(expires):
			lose(ledger.ErrLost)
		case err == nil && !*ours:
			end(errUnwanted)
			return
		case err == nil:
			expires = asked.Add(s.config.Lease)
		}
	}
}

// turns holds the jobs at which this sidecar has an attempt, and for each the token of its newest claim. An attempt that lost
// its lease goes on to its next step. If the sidecar claims the job again meanwhile, that attempt goes on under the new
// claim: whether its answer is drawn by now must not be seen.
type turns struct {
	mutex sync.Mutex
	of    map[string]string
}

// begin reports whether an attempt at a job begins. If one runs already, that has the token now.
func (t *turns) begin(job, token string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.of == nil {
		t.of = map[string]string{}
	}
	_, running := t.of[job]
	t.of[job] = token
	return !running
}

func (t *turns) token(job string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.of[job]
}

// end ends the attempt at a job, and returns the token of its newest claim.
func (t *turns) end(job string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	token := t.of[job]
	delete(t.of, job)
	return token
}

// read charges the job, unless an earlier attempt has, and then either pulls its columns or prepares the
// statements that sum them in the database. It sends on reads once, right after the point of no return.
func (s *Sidecar) read(ctx context.Context, conn *pgx.Conn, c *claim, src *mech.Source, reads chan<- timetable) (plan *plan.Plan, x table.Data, err error) {
	prepare, resumed := s.charge, c.reading()
	if resumed {
		prepare = s.resume
	}
	plan, n, err := prepare(ctx, conn, c)
	if err != nil {
		return nil, x, err
	}
	reads <- timetable{s.ladder(plan), time.Now()}
	if err := s.publishRowCount(ctx, c, n); err != nil {
		return nil, x, err
	}
	counted := c.Dataset.Rows == nil && c.nodes == nil && (!resumed || c.at == inDatabase) // by charge or checkGrowth
	if err := s.takeSnapshots(ctx, conn, c, counted); err != nil {
		return nil, x, err
	}
	if c.at == inDatabase {
		x, err = s.pushdown(ctx, conn, c, n)
		return plan, x, s.asParked(ctx, c, err, notRead)
	}
	began := time.Now()
	x, err = c.data(ctx, conn, n, src)
	if err != nil {
		return nil, x, s.asParked(ctx, c, err, notRead)
	}
	s.config.Watch.Pulled(time.Since(began))
	return plan, x, s.recheckRead(ctx, c)
}

// recheckRead repeats the check of the relation after the read, before a result of these rows can be
// released: the locks do not prevent that a partition or an inheriting table is added after the first
// check.
func (s *Sidecar) recheckRead(ctx context.Context, c *claim) error {
	if err := s.checkShards(ctx, c); err != nil {
		return err
	}
	if err := s.recheckVersions(ctx, c.versions, recheckJob, c.ID, c.Token); err != nil {
		return refusedAsParked(err)
	}
	if err := s.examineShards(ctx, c.shards, c.Dataset.ID); err != nil {
		return refusedAsParked(err)
	}
	return s.recheckNodes(ctx, c)
}

// recheckVersions repeats the check of a relation and compares the versions of the functions with those of
// an earlier check.
//
// Errors: a *ledger.Refusal.
func (s *Sidecar) recheckVersions(ctx context.Context, earlier []byte, sql string, args ...any) error {
	versions, err := s.recheck(ctx, sql, args...)
	if err == nil && !bytes.Equal(versions, earlier) {
		return &ledger.Refusal{SQLSTATE: "DP004", Message: "a function that the data set was stated to be total with has changed while it was read", Hint: "Ask again. " + nothingSpent}
	}
	return ledger.Explain(err)
}

// enter locks the relation of a job, has the database check that it is the registered one, and opens the
// nodes that the job queries: nothing is asked about the relation before the check.
//
// Errors: a failure if the relation is refused or cannot be read.
func (s *Sidecar) enter(ctx context.Context, conn *pgx.Conn, c *claim) (err error) {
	if err := s.settle(ctx, conn, c); err != nil {
		return err
	}
	if c.versions, err = s.lockChecked(ctx, conn, c.relation(), recheckJob, c.ID, c.Token); err != nil {
		return err
	}
	if err := s.examineShards(ctx, c.shards, c.Dataset.ID); err != nil {
		return asFailure(err)
	}
	return s.open(ctx, conn, c)
}

// open opens transactions on the servers of foreign partitions, if the job asks them directly. conn has
// locked the relation.
func (s *Sidecar) open(ctx context.Context, conn *pgx.Conn, c *claim) (err error) {
	if len(c.Dataset.Servers) == 0 || c.Dataset.Placement == string(inMemory) || c.Dataset.MaxRows > 0 {
		return nil
	}
	if c.nodes, err = s.openNodes(ctx, conn, c.relation()); err != nil || c.nodes == nil {
		return err
	}
	return c.nodes.describe(ctx, conn, c.pull(0))
}

// count returns the number of rows of a job, or of persons if there is a unit.
func (c *claim) count(ctx context.Context, conn *pgx.Conn) (int64, error) {
	if c.nodes != nil && c.Dataset.Rows == nil {
		return c.nodes.count(ctx, c.pull(0))
	}
	return c.persons().count(ctx, conn, c.relation())
}

// charge counts the rows, plans the fit, charges it and passes the point of no return.
func (s *Sidecar) charge(ctx context.Context, conn *pgx.Conn, c *claim) (*plan.Plan, int64, error) {
	if err := s.enter(ctx, conn, c); err != nil {
		return nil, 0, err
	}
	n, err := c.count(ctx, conn)
	if err != nil {
		return nil, 0, relationFailure(err)
	}
	if c.versions != nil { // without functions the locks hold what was counted
		if err := s.recheckVersions(ctx, c.versions, recheckJob, c.ID, c.Token); err != nil {
			return nil, 0, asFailure(err)
		}
	}
	n = c.sampled(c.atLeast(n))
	if err := c.persons().describe(ctx, conn, c.relation()); err != nil {
		return nil, 0, relationFailure(err)
	}
	if _, err := arrowio.Describe(ctx, conn, c.pull(n)); err != nil {
		return nil, 0, relationFailure(err)
	}
	plan, head, err := s.planAndCharge(ctx, c, n)
	switch {
	case err != nil:
		return nil, 0, asFailure(err)
	case head == nil:
		return nil, 0, errUnwanted
	}
	// If the owner of the database has no access to the log, this line can prove later that the newest
	// entries of the ledger were removed: see dpsidecar verify --expect.
	s.log.Info("charged", "job", c.ID, "dataset", c.Dataset.Name, "account", head.Account, "entry", head.Entry, "head", head.Hash)
	switch wanted, err := s.begin(ctx, conn, c, plan); {
	case err != nil:
		return nil, 0, ledger.Explain(err)
	case !wanted:
		return nil, 0, errUnwanted
	}
	return plan, n, nil
}

// planAndCharge plans a job of n rows and charges it; the head is nil if nobody wants the job any more. A charge that is
// refused although it was planned to be alone in its account is planned once more, as one among others: another
// may have been charged first. If it is too much, the refusal then says what it costs among others.
//
// Errors: those of check and of ledger.Charge.
func (s *Sidecar) planAndCharge(ctx context.Context, c *claim, n int64) (*plan.Plan, *ledger.Head, error) {
	for {
		plan, at, err := s.check(c, n)
		if err == nil && c.disk == nil {
			err = s.makeRoom(c, at, n)
		}
		if err != nil {
			return nil, nil, err
		}
		c.at = at
		head, err := ledger.Charge(ctx, s.autocommit, c.owner(), ledger.Entry{
			Event: plan.Event, Rows: n, Parameters: plan.Parameters, Arithmetic: plan.Arithmetic, Accounting: c.Dataset.Accounting, Order: c.Dataset.Order,
		})
		if refusal := new(ledger.Refusal); !c.Alone || !errors.As(err, &refusal) || refusal.SQLSTATE != "DP002" {
			return plan, head, err
		}
		c.Alone = false
	}
}

// check plans a job of n rows and decides where the rows go.
//
// Errors: a failure if this sidecar cannot run the job.
func (s *Sidecar) check(c *claim, n int64) (*plan.Plan, placement, error) {
	if n < 1 {
		return nil, "", c.noRows()
	}
	if twice := c.namedTwice(); twice != "" {
		return nil, "", &failure{"22023", "column " + strconv.Quote(twice) + " is named twice", "Name every column once. " + nothingSpent}
	}
	plan, err := s.plan(c, n)
	if err != nil {
		return nil, "", planFailure(err)
	}
	at, err := s.place(c, plan, n)
	plan.InDatabase, plan.Nodes = at == inDatabase, c.Dataset.Nodes
	return plan, at, errors.Join(err, s.checkTime(plan))
}

// begin passes the point of no return: from here on the charge stands, because the job may have read
// values. It sends the database the steps of the job's ladder and the time of conn's snapshot, which the
// first statement of its transaction (Lock) has taken. It returns false if nobody wants the job any more: its
// charge has then been refunded.
func (s *Sidecar) begin(ctx context.Context, conn *pgx.Conn, c *claim, plan *plan.Plan) (wanted bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.transaction_timestamp()").Scan(&c.snapshot); err != nil {
		return false, err
	}
	l := s.ladder(plan)
	err = s.autocommit.QueryRow(ctx, "SELECT dp_int.job_read($1, $2, $3, $4, $5)", c.ID, c.Token, l.First, l.Last, c.snapshot).Scan(&wanted)
	return wanted, err
}

// resume plans a job that an earlier attempt has charged, with the number of rows of that charge, and passes
// the point of no return again.
func (s *Sidecar) resume(ctx context.Context, conn *pgx.Conn, c *claim) (*plan.Plan, int64, error) {
	if published := c.Dataset.RowCount; published != nil {
		c.sampled(*published)
	}
	plan, err := s.planCharged(c)
	if err != nil {
		return nil, 0, err
	}
	at, err := s.place(c, plan, *c.RowCount)
	if err == nil {
		err = s.makeRoom(c, at, *c.RowCount)
	}
	if err != nil {
		return nil, 0, parked("this dpsidecar has too little memory, or room on disk, for what another one charged, or its rows may be somewhere else now")
	}
	c.at, plan.InDatabase, plan.Nodes = at, at == inDatabase, c.Dataset.Nodes
	if s.checkTime(plan) != nil {
		return nil, 0, parked("this dpsidecar gives jobs too little time for what another one charged")
	}
	if err := s.enter(ctx, conn, c); err != nil {
		return nil, 0, s.failureAsParked(ctx, c, err)
	}
	if _, err := s.begin(ctx, conn, c, plan); err != nil { // a job that is reading is always wanted
		return nil, 0, refusedAsParked(ledger.Explain(err))
	}
	if at == inDatabase {
		err = s.checkGrowth(ctx, conn, c, *c.RowCount)
	}
	return plan, *c.RowCount, err
}

// planCharged plans a job for what an earlier attempt has charged. Whether that was alone in its account
// when it was planned is known by its event only.
func (s *Sidecar) planCharged(c *claim) (*plan.Plan, error) {
	event, err := privacy.UnmarshalEvent(c.Event)
	if err != nil {
		return nil, parked(otherCharge)
	}
	why := parked("this version of dpsidecar cannot plan what another one charged, and cannot finish the job")
	for _, c.Alone = range []bool{false, true} {
		plan, err := s.plan(c, *c.RowCount)
		switch {
		case err != nil:
		case sameEvent(event, plan.Event):
			return plan, nil
		default:
			why = otherCharge
		}
	}
	return nil, why
}

const otherCharge parked = "this version of dpsidecar would spend other than what was charged, and cannot finish the job"

// sameEvent compares the contents of two events by their JSON.
func sameEvent(a, b privacy.Event) bool {
	x, errX := privacy.MarshalEvent(a)
	y, errY := privacy.MarshalEvent(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
