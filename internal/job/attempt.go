package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/spill"
)

// claim is a job as dp_int.job_claim hands it out.
type claim struct {
	ID      string
	Token   string
	State   string // claimed, or reading if an earlier attempt was lost after its charge
	Attempt int
	Caller  string
	Model   string
	Dataset struct {
		ID       int64
		Name     string
		Schema   string
		Relation string
		Scales   map[string]unit // of the columns of the request
		Flags    []string        // boolean columns of the request
		RowCount *int64          `json:"row_count"` // the last published count: of rows, or of persons if the data set has a unit
		Unit     *string
		MaxRows  int     `json:"max_rows"`
		Persons  *int64  // with a unit: the registered number of persons in the blocks that are read; nil: they are counted
		Rows     *int64  // without a unit: the registered number of rows in the blocks that are read; nil: they are counted
		Block    *string // column that determines the block of time of a row; nil: the data set has no blocks

		BlockType string `json:"block_type"`

		Placement    string   // where the rows may be: auto, memory or database; empty means auto
		Distribution *string  // how the table is distributed over nodes; nil: it is on one node
		Servers      []string // servers of its foreign partitions
		Nodes        int      // number of Citus nodes that share the rows about equally; 0: none

		Accounting string   // pure, zcdp or rdp
		Order      *float64 // order of the Renyi divergence; only under rdp
	}
	Request struct {
		Eps       float64
		Delta     float64
		Target    string
		Features  []string
		Intercept bool
		Options   map[string]any
		Release   string   // the release that is scored; only for a score
		Flags     []string // boolean columns; only for a description
		Whole     []string // columns of whole numbers; only for a description
		Over      []string // the window: its first day and the day after its last; nil without blocks

		Categories map[string][]string // levels of each category column
		WhereLevel map[string][]string `json:"where_level"` // levels of a category whose rows are used, if not all are
	}
	Scored   *scored         // the release to score; nil if the job is not a score
	RowCount *int64          `json:"row_count"`
	Event    json.RawMessage // the event that an earlier attempt charged
	leftOut  int64           // number of rows or persons that a sample leaves out
	Former   *former         // an earlier release of the same coefficients; only for a question of dp_explain

	at   placement   // where the rows of this attempt are; set when the job is planned
	disk *spill.File // the file that holds the rows if they are on disk

	versions []byte // of the functions that the relation called when it was checked first: see recheck

	shards *string // locations of the Citus shards when the transaction began; nil: no table of Citus
	nodes  *nodes  // connections to the nodes that are asked separately; nil: one connection shows all rows
}

func (c *claim) owner() ledger.Owner { return ledger.Owner{Job: c.ID, Token: c.Token} }
func (c *claim) relation() pgx.Identifier {
	return pgx.Identifier{c.Dataset.Schema, c.Dataset.Relation}
}
func (c *claim) reading() bool { return c.State == "reading" }

// columns returns the columns that a regression reads, in this order: target, features, the columns that
// options name (see besides), and the category that divides the rows into groups, if there is one.
func (c *claim) columns() []string {
	columns := append([]string{c.Request.Target}, c.Request.Features...)
	for _, option := range besides {
		if column := c.column(option); column != "" {
			columns = append(columns, column)
		}
	}
	if by := c.by(); by != "" {
		columns = append(columns, by)
	}
	return columns
}

// by returns the category column that divides the rows into groups; empty without groups.
func (c *claim) by() string {
	if c.Scored != nil {
		return c.Scored.Parameters.By
	}
	by, _ := c.Request.Options["by"].(string)
	return by
}

// groups returns the levels that have a fit each; nil if there is one fit of all rows.
func (c *claim) groups() []string {
	groups, _ := c.levels(c.by())
	return groups
}

// besides lists the options that name a column. Their columns are read after the features, in this order.
var besides = []string{catalogue.Exposure, catalogue.Weight, catalogue.Offset}

// column returns the column that an option names; empty if the request does not set the option.
func (c *claim) column(option string) string { return catalogue.ColumnOf(c.Request.Options, option) }

// maxWeight returns the largest weight that a row may have; 0 without weights.
func (c *claim) maxWeight() float64 {
	most, _ := c.Request.Options[catalogue.MaxWeight].(float64)
	return most
}

// filters returns the columns that only decide whether a row is used.
func (c *claim) filters() (names []string) {
	columns := c.columns()
	for _, name := range slices.Sorted(maps.Keys(c.Request.WhereLevel)) {
		if !slices.Contains(columns, name) {
			names = append(names, name)
		}
	}
	return names
}

// pull returns the request that reads the job's columns, for the given number of rows or persons.
func (c *claim) pull(rows int64) arrowio.Request {
	filters := c.filters()
	return arrowio.Request{
		Relation: c.relation(), Columns: append(c.columns(), filters...), Filters: len(filters),
		Levels: c.Request.Categories, Only: c.Request.WhereLevel, Rows: rows, Where: c.window(), Make: c.disk.Make,
	}
}

// window returns the window of time whose rows are read; nil for all rows. Its blocks are the ones charged:
// the database derives both from the same request.
func (c *claim) window() *arrowio.Window {
	if c.Dataset.Block == nil {
		return nil
	}
	return &arrowio.Window{Column: *c.Dataset.Block, Type: c.Dataset.BlockType, From: c.Request.Over[0], To: c.Request.Over[1]}
}

// levels returns the levels of a category whose rows are used. ok reports whether column is a category.
func (c *claim) levels(column string) (levels []string, ok bool) {
	if levels, ok = c.Request.WhereLevel[column]; ok {
		return levels, ok
	}
	levels, ok = c.Request.Categories[column]
	return levels, ok
}

// terms returns the names of a fit's coefficients.
func (c *claim) terms() []string {
	slopes := c.slopes()
	if c.Request.Intercept {
		return append([]string{"(intercept)"}, slopes...)
	}
	return slopes
}

// slopes returns the terms of all features.
func (c *claim) slopes() (terms []string) {
	for _, f := range c.Request.Features {
		terms = append(terms, c.slopesOf(f)...)
	}
	return terms
}

// isFlag reports whether the terms of a feature are always 0 or 1 by registration: those of boolean columns
// and of categories.
func (c *claim) isFlag(feature string) bool {
	_, category := c.levels(feature)
	return category || slices.Contains(c.Dataset.Flags, feature)
}

// slopesOf returns the terms of a feature: its name or, for a category, one term for every level but the
// first.
func (c *claim) slopesOf(feature string) []string {
	levels, ok := c.levels(feature)
	if !ok {
		return []string{feature}
	}
	var terms []string
	for _, level := range levels[1:] {
		terms = append(terms, feature+"="+level)
	}
	return terms
}

// sources returns the number of columns that a row of the design is made from, the intercept's included.
func (c *claim) sources() int {
	if c.Request.Intercept {
		return 1 + len(c.Request.Features)
	}
	return len(c.Request.Features)
}

// sampled returns how many of n rows or persons are fitted. All of them are read; sampled stores the number
// left out in the claim.
func (c *claim) sampled(n int64) int64 {
	fitted := n
	if sample, ok := c.Request.Options[catalogue.SampleRows].(float64); ok && sample < float64(n) {
		fitted = int64(sample)
	}
	c.leftOut = n - fitted
	return fitted
}

// options returns the options that the algorithm takes. Categories in them are replaced: a label by its
// position among the levels of the target, a category in a group by its terms.
func (c *claim) options() map[string]any {
	options := maps.Clone(c.Request.Options)
	delete(options, catalogue.SampleRows)
	for _, name := range []string{"negative_label", "positive_label"} {
		if label, ok := options[name].(string); ok {
			options[name] = c.position(label)
		}
	}
	if groups, ok := options["groups"].([]any); ok {
		options["groups"] = c.expandGroups(groups)
	}
	return options
}

// position returns the index of a level among those of the target.
func (c *claim) position(level string) float64 {
	levels, _ := c.levels(c.Request.Target)
	return float64(slices.Index(levels, level))
}

// expandGroups replaces the name of a category in groups by the category's terms.
func (c *claim) expandGroups(groups []any) (expanded []any) {
	for _, group := range groups {
		var terms []any
		names, _ := group.([]any)
		for _, name := range names {
			text, _ := name.(string)
			for _, term := range c.slopesOf(text) {
				terms = append(terms, term)
			}
		}
		expanded = append(expanded, terms)
	}
	return expanded
}

func (c *claim) shape(n int64) dpsco.Shape {
	if c.describes() {
		return dpsco.Shape{N: int(n), D: len(c.Request.Features)}
	}
	return dpsco.Shape{N: int(n), D: len(c.terms()), Intercept: c.Request.Intercept, Levels: len(c.groups())}
}

func (c *claim) budget() privacy.Budget {
	return privacy.Budget{Epsilon: c.Request.Eps, Delta: c.Request.Delta}
}

// plan returns the plan of the job for n rows. It depends on public facts only.
func (s *Sidecar) plan(c *claim, n int64) (*dpsco.Plan, error) {
	if c.Scored != nil {
		return s.planScore(c, n)
	}
	if c.describes() {
		return s.planDescription(c, n)
	}
	algorithm, err := c.algorithm()
	if err != nil {
		return nil, err
	}
	algorithm.Memory, algorithm.MaxRows = s.samplerMemory(c, n), c.Dataset.MaxRows
	plan, err := algorithm.Plan(c.shape(n), c.budget(), s.accountant(c))
	if err != nil {
		return nil, err
	}
	c.nameLabels(plan)
	if sample, ok := c.Request.Options[catalogue.SampleRows]; ok {
		plan.Parameters[catalogue.SampleRows] = sample
		plan.LeavesOut(c.leftOut)
	}
	return plan, nil
}

// nameLabels writes the labels of a category into the parameters that are stored with the release.
func (c *claim) nameLabels(p *dpsco.Plan) {
	for _, name := range []string{"negative_label", "positive_label"} {
		if label, ok := c.Request.Options[name].(string); ok {
			p.Parameters[name] = label
		}
	}
}

// accountant returns the accountant of the data set's accounting.
func (s *Sidecar) accountant(c *claim) privacy.Accountant {
	switch c.Dataset.Accounting {
	case "pure":
		return privacy.PureSum{}
	case "rdp":
		return privacy.AtOrder{Order: *c.Dataset.Order, Renyi: &s.renyi}
	}
	return privacy.Concentrated{}
}

// claimNext claims the next job of the queue; nil if there is none.
func (s *Sidecar) claimNext(ctx context.Context) (*claim, error) {
	var text []byte
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.job_claim($1, $2)", s.id, s.config.Lease).Scan(&text); err != nil || text == nil {
		return nil, err
	}
	c := new(claim)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("claimed job: %w", err)
	}
	return c, nil
}

// failure ends a job before any row was read. The analyst sees all of its fields.
type failure struct{ sqlstate, message, hint string }

func (f *failure) Error() string { return f.message }

// outcome returns the outcome for operators' counters. A request that the budget does not cover is refused,
// not failed.
func (f *failure) outcome() string {
	if f.sqlstate == "DP002" {
		return "refused"
	}
	return "failed"
}

// parked ends an attempt at a charged job that could not be read or fitted this time. The job keeps its
// charge, pauses, and is tried again under it (dp_int.job_park). The text is the reason; analysts see it,
// so it must not depend on the data.
type parked string

func (p parked) Error() string { return string(p) }

func (p parked) outcome() string {
	if p == fitPanicked {
		return "panicked"
	}
	return "parked"
}

var errUnwanted = errors.New("nobody wants the job any more")

const (
	handBack       = "SELECT dp_int.job_hand_back($1, $2, $3)"
	handBackFor    = "SELECT dp_int.job_hand_back($1, $2, $3, $4, $5)"
	recheckJob     = "SELECT dp_int.job_recheck($1, $2)"
	recheckDataset = "SELECT dp_int.dataset_recheck($1)"
)

// notRead parks a job if the server did not return its rows.
const notRead parked = "the data set could not be read"

const nothingSpent = "No privacy budget was spent."

// fitPanicked parks a job whose fit panicked. The panic does not end the program: it would
// end the jobs of others too, and after a restart the same job would do it again.
const fitPanicked parked = "a fault in dpsidecar ended the job"

// attempt runs one claimed job and records how it ended.
func (s *Sidecar) attempt(working context.Context, c *claim) {
	log := s.log.With("job", c.ID, "dataset", c.Dataset.Name, "model", c.Model, "attempt", c.Attempt)
	log.Info("claimed", "state", c.State)
	ctx, cancel := context.WithCancelCause(working)
	defer cancel(nil)
	go s.keepLease(ctx, cancel, c)

	err := s.run(ctx, c)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	// The record must outlive the shutdown that may have ended the attempt.
	recording, done := context.WithTimeout(context.WithoutCancel(working), 5*time.Second)
	defer done()
	if err := s.record(recording, log, c, err); err != nil && !errors.Is(ledger.Explain(err), ledger.ErrLost) {
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
		return nil
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
		reason, hint := passing(err)
		return s.autocommit.exec(ctx, handBackFor, c.ID, c.Token, errors.Is(err, errShutdown), reason, hint)
	}
}

// keepLease renews the lease until ctx ends. It cancels the attempt if another sidecar has the job, nobody
// wants it, or the lease expired while the database could not be reached.
func (s *Sidecar) keepLease(ctx context.Context, cancel context.CancelCauseFunc, c *claim) {
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
		var ours bool
		err := s.autocommit.QueryRow(beat, "SELECT dp_int.job_beat($1, $2, $3)", c.ID, c.Token, s.config.Lease).Scan(&ours)
		done()
		switch {
		case err == nil && ours:
			expires = asked.Add(s.config.Lease)
		case err == nil:
			cancel(errUnwanted)
			return
		case time.Now().After(expires):
			cancel(ledger.ErrLost)
			return
		}
	}
}

// read charges the job, unless an earlier attempt has, and then either pulls its columns or prepares the
// statements that sum them in the database. It sends on reads once, right after the point of no return.
func (s *Sidecar) read(ctx context.Context, conn *pgx.Conn, c *claim, src *mech.Source, reads chan<- timetable) (plan *dpsco.Plan, x dpsco.Data, err error) {
	prepare := s.charge
	if c.reading() {
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
	if c.at == inDatabase {
		x, err = s.elsewhere(ctx, conn, c, n)
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
	return refusedAsParked(s.recheckVersions(ctx, c.versions, recheckJob, c.ID, c.Token))
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

// refusedAsParked parks a charged job if the database refuses its relation.
func refusedAsParked(err error) error {
	var refusal *ledger.Refusal
	if errors.As(err, &refusal) {
		return parked(refusal.Message)
	}
	return err
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
func (s *Sidecar) charge(ctx context.Context, conn *pgx.Conn, c *claim) (*dpsco.Plan, int64, error) {
	if err := s.settle(ctx, conn, c); err != nil {
		return nil, 0, err
	}
	var err error
	if c.versions, err = s.lockChecked(ctx, conn, c.relation(), recheckJob, c.ID, c.Token); err != nil {
		return nil, 0, err
	}
	if err := s.open(ctx, conn, c); err != nil {
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
	plan, at, err := s.check(c, n)
	if err == nil {
		err = s.makeRoom(c, at, n)
	}
	if err != nil {
		return nil, 0, err
	}
	c.at = at
	head, err := ledger.Charge(ctx, s.autocommit, c.owner(), ledger.Entry{
		Event: plan.Event, Rows: n, Parameters: plan.Parameters, Arithmetic: plan.Arithmetic, Accounting: c.Dataset.Accounting, Order: c.Dataset.Order,
	})
	switch {
	case err != nil:
		return nil, 0, asFailure(err)
	case head == nil:
		return nil, 0, errUnwanted
	}
	// If the owner of the database has no access to the log, this line can prove later that the newest
	// entries of the ledger were removed: see dpsidecar verify --expect.
	s.log.Info("charged", "job", c.ID, "dataset", c.Dataset.Name, "account", head.Account, "entry", head.Entry, "head", head.Hash)
	var wanted bool
	if err := s.begin(ctx, conn, c, plan, &wanted); err != nil {
		return nil, 0, ledger.Explain(err)
	}
	if !wanted {
		return nil, 0, errUnwanted
	}
	return plan, n, nil
}

// noRows returns the failure of a job whose table or window is empty.
func (c *claim) noRows() *failure {
	if w := c.window(); w != nil {
		return &failure{"DP005", fmt.Sprintf("there are no rows from %s to %s, the last day not among them", w.From, w.To),
			"Ask about a window that has some. Where days may be empty, a steward registers block_rows, how many rows a block is taken to have: then every window can be asked about. " + nothingSpent}
	}
	return &failure{"DP005", "there are no rows", "Ask again once the table has some. " + nothingSpent}
}

// check plans a job of n rows and decides where the rows go.
//
// Errors: a failure if this sidecar cannot run the job.
func (s *Sidecar) check(c *claim, n int64) (*dpsco.Plan, placement, error) {
	if n < 1 {
		return nil, "", c.noRows()
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
// first statement of its transaction (Lock) has taken.
func (s *Sidecar) begin(ctx context.Context, conn *pgx.Conn, c *claim, plan *dpsco.Plan, wanted *bool) error {
	var snapshot time.Time
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.transaction_timestamp()").Scan(&snapshot); err != nil {
		return err
	}
	l := s.ladder(plan)
	return s.autocommit.QueryRow(ctx, "SELECT dp_int.job_read($1, $2, $3, $4, $5)", c.ID, c.Token, l.First, l.Last, snapshot).Scan(wanted)
}

// asFailure turns a refusal of the database, before which nothing was spent, into a failure of the job.
// Other errors are returned as ledger.Explain returns them.
func asFailure(err error) error {
	var refusal *ledger.Refusal
	if errors.As(ledger.Explain(err), &refusal) {
		return &failure{refusal.SQLSTATE, refusal.Message, refusal.Hint}
	}
	return ledger.Explain(err)
}

// planFailure returns the failure of a job that cannot be planned.
func planFailure(err error) error {
	if errors.Is(err, dpsco.ErrParameter) {
		return &failure{"22023", err.Error(), nothingSpent}
	}
	return &failure{"DP005", err.Error(), nothingSpent}
}

// resume plans a job that an earlier attempt has charged, with the number of rows of that charge, and locks
// its relation, which the database checks in begin.
func (s *Sidecar) resume(ctx context.Context, conn *pgx.Conn, c *claim) (*dpsco.Plan, int64, error) {
	if published := c.Dataset.RowCount; published != nil {
		c.sampled(*published)
	}
	plan, err := s.plan(c, *c.RowCount)
	if err != nil {
		return nil, 0, parked("this version of dpsidecar cannot plan what another one charged, and cannot finish the job")
	}
	event, err := privacy.UnmarshalEvent(c.Event)
	if err != nil || !sameEvent(event, plan.Event) {
		return nil, 0, parked("this version of dpsidecar would spend other than what was charged, and cannot finish the job")
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
	if err := s.settle(ctx, conn, c); err != nil {
		return nil, 0, err
	}
	if err := arrowio.Lock(ctx, conn, c.relation()); err != nil {
		return nil, 0, s.asParked(ctx, c, err, "the data set cannot be read now")
	}
	if err := s.open(ctx, conn, c); err != nil {
		return nil, 0, s.asUnreachable(ctx, c, err)
	}
	if c.versions, err = s.recheck(ctx, recheckJob, c.ID, c.Token); err != nil {
		return nil, 0, refusedAsParked(ledger.Explain(err))
	}
	var wanted bool // always true for a job that is reading
	err = refusedAsParked(ledger.Explain(s.begin(ctx, conn, c, plan, &wanted)))
	if err == nil && at == inDatabase {
		err = s.checkGrowth(ctx, conn, c)
	}
	return plan, *c.RowCount, err
}

// sameEvent compares the contents of two events by their JSON.
func sameEvent(a, b privacy.Event) bool {
	x, errX := privacy.MarshalEvent(a)
	y, errY := privacy.MarshalEvent(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// relationFailure returns the failure of a job whose relation cannot be read, before anything is spent. The
// server's message is dropped, because it could quote a value. An error of the connection is returned
// unchanged, and the job is tried again.
func relationFailure(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, arrowio.ErrUnsupportedType):
		return &failure{"DP004", "a column of the data set has a type that no model can use", "Ask the steward to register again. " + nothingSpent}
	case !errors.As(err, &pg) || goingDown(pg):
		return err
	case pg.Code == "55P03":
		return &failure{"DP004", "the relation of the data set is locked",
			"Somebody, perhaps this very transaction, holds a lock that excludes readers. Commit and ask again. " + nothingSpent}
	}
	return &failure{"DP004", "the data set cannot be read", "Ask the steward to see dp_check_install and the server's log. " + nothingSpent}
}

// asParked returns message, which parks the job, if the server refuses to read the relation; the cause,
// which may depend on values, is only logged. An error of the connection or of a cancelled attempt is
// returned unchanged, and the job is tried again at once.
func (s *Sidecar) asParked(ctx context.Context, c *claim, err error, message parked) error {
	var pg *pgconn.PgError
	switch {
	case ctx.Err() == nil && errors.As(err, &pg) && nodeLost(pg):
		message = unreachable
	case ctx.Err() != nil || pg == nil || goingDown(pg):
		return err
	}
	s.log.Error("cannot read", "job", c.ID, "dataset", c.Dataset.Name, "sqlstate", pg.Code)
	return message
}

// asUnreachable parks a charged job if one of its nodes cannot be opened.
func (s *Sidecar) asUnreachable(ctx context.Context, c *claim, err error) error {
	var fail *failure
	if errors.As(err, &fail) {
		s.log.Error("cannot read", "job", c.ID, "dataset", c.Dataset.Name, "reason", fail.message)
		return unreachable
	}
	return s.asParked(ctx, c, err, unreachable)
}

// goingDown reports whether the server ended the statement or the session for reasons that do not concern
// the statement: an operator's intervention (class 57), the connection (08), or a limit on the time of
// transactions (25P03, 25P04).
func goingDown(pg *pgconn.PgError) bool {
	return pg.Code[:2] == "57" || pg.Code[:2] == "08" || pg.Code == "25P03" || pg.Code == "25P04"
}

// nodeLost reports whether the server could not reach another one: a worker of Citus or the server of a
// foreign table. An error of class 08 cannot be about the sidecar's own connection, since the server could
// not send it. An immediate retry would fail again.
func nodeLost(pg *pgconn.PgError) bool { return pg.Code[:2] == "08" }

// passing returns a reason and a hint for the job's callers if err is an obstacle that may last for a
// while: a lock held by an open transaction, or a server without free connections, memory or disk space.
// Such a job pauses before it is tried again. For any other error both are nil.
func passing(err error) (reason, hint *string) {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return nil, nil
	case pg.Code[:2] == "53":
		pg = &pgconn.PgError{Message: "the server has no connection, memory or disk to spare for this job", Hint: "Ask again later, or let the administrator see the server's log. " + nothingSpent}
	case nodeLost(pg):
		pg = &pgconn.PgError{Message: string(unreachable), Hint: "Ask again later, or let the administrator see the server's log. " + nothingSpent}
	case pg.Code != "55P03":
		return nil, nil
	case pg.Hint == "": // the reason is the server's own message
		pg = &pgconn.PgError{Message: "somebody's open transaction holds what this job needs", Hint: "See pg_locks, and ask again once it has ended. " + nothingSpent}
	}
	return &pg.Message, &pg.Hint
}
