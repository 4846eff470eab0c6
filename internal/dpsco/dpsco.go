// Package dpsco is differentially private stochastic convex optimisation: it fits
// regressions. An Algorithm is planned from public facts, priced, charged to the ledger,
// and only then run.
//
// What stands where:
//
//	dpsco, result       plans, what they are made for, and what they release
//	ladder, seconds     when a release is published, and how long a fit takes, from public facts
//	request, options    what a request may hold, and its defaults
//	recipes             the table of methods
//	regression, problem a model with a loss, and that on a shape and a budget
//	parts               the estimators and solvers that recipes are made of, with their defaults
//	records, block      records of one row or of several, and passes over them
//	weights             rows that count as much as a column says
//	descent, oracle     first-order solvers on private means of row gradients
//	whiten              the same in coordinates in which second moments are the identity
//	elsewhere, *_elsewhere  the same for rows that stay in a database
//	row_block, scan, magnitudes, triangular, intervals  what fits in few passes share
//	joint_*             least squares from joint moments of rows and residuals
//	newton_*            logistic, Huber and Poisson fits by private Newton steps
//	aggregate, rangemean  sample and aggregate
//	l1                  median regression: the choice of a method, and its two single mechanisms
//	l1_staged           median regression in private stages
//	score_*             how well a release predicts
//	describe_*          what columns hold, and scales for them
//	second_moments      products of columns, for fits that the database makes
//	groups              fits by groups
//	expect              the error to expect from noise, from public facts
package dpsco

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// ErrParameter marks a public parameter that is not usable at all (SQLSTATE
// 22023); ErrInfeasible marks parameters that are fine one by one but cannot
// work with this many rows and columns (SQLSTATE DP005).
var (
	ErrParameter  = catalogue.ErrRequest
	ErrInfeasible = errors.New("not possible with these rows, columns, options and budget")
	ErrSpent      = errors.New("dpsco: plan already run")
)

// infeasible passes on what a mechanism says of public parameters.
func infeasible(err error) error {
	return fmt.Errorf("%w: %s", ErrInfeasible, strings.TrimPrefix(err.Error(), mech.ErrParams.Error()+": "))
}

// Shape is what is public about a design before it is read: N records and D
// coefficients. With Intercept the first coefficient belongs to a constant 1
// that Data does not store. With Levels there are D for each group.
type Shape struct {
	N, D      int
	Intercept bool
	Levels    int // 0: one fit of all rows
}

// Columns returns the number of stored feature columns.
func (s Shape) Columns() int {
	if s.Intercept {
		return s.D - 1
	}
	return s.D
}

// Data is a design by columns: X holds Shape.Columns() slices of a value a row, Y the
// target. A value that is missing in the table is NaN. Level says to which group a row
// belongs, from 0; any number that is none of them is no group. Offset, where there is one,
// is a known part of what is predicted. Weight, where there is one, is what a row counts
// (proof: weights.md). Every row is one person's, or rows First[u] to
// First[u+1] are person u's, one to MaxRows of them: see records.md. Run owns the slices
// and may overwrite them.
type Data struct {
	Shape
	X      [][]float64
	Y      []float64
	Level  []float64 // nil without Levels
	Offset []float64 // nil: none
	Weight []float64 // as read, and once Scaled has seen it within [0, 1]; nil: every row counts 1

	Exposure []float64 // of counts, as read: Scaled makes offsets of it; nil: none
	First    []int     // N + 1 of them; nil: every row is a record
	MaxRows  int       // public; 0 where every row is a record

	Make func(n int) []float64 // makes numbers a row beside the columns; nil: in memory

	Elsewhere *Elsewhere // where the rows are, which have no columns here then; nil: here
}

// numbers makes one number for each of n rows, all 0.
func (x Data) numbers(n int) []float64 {
	if x.Make == nil {
		return make([]float64, n)
	}
	return x.Make(n)
}

// Algorithm plans a fit from public facts alone: a shape, a budget, and the
// accountant that prices releases on the account in question.
//
// Errors: wraps ErrParameter or ErrInfeasible; the text says what would do.
type Algorithm interface {
	Plan(s Shape, b privacy.Budget, a privacy.Accountant) (*Plan, error)
}

// Plan is a priced fit. Event is charged before Run; Parameters are public and
// stored with the release. All of it follows from public facts.
//
// Whatever the data, but for a probability of BandMiss the released coefficients
// all lie within Band of those that the same fit without its noise would have.
type Plan struct {
	Method     string
	Runs       string // what Method auto takes, from the public facts; empty: Method itself
	Event      privacy.Event
	Parameters map[string]any
	Arithmetic string    // mark in the ledger; empty: exact
	Band       []float64 // one a coefficient; nil: none is known that holds for all data
	Seconds    float64   // about how long Run takes on one core, where data are ordinary
	Passes     int       // how often Run sums something over all rows, batches by their share of them; 0: it also sorts, copies or searches them
	Streams    bool      // Run keeps no number a row beside its Data but those that Data.Make makes, StreamColumns of them at most

	Sums       bool // Run takes Data.Elsewhere: all that it reads of rows are sums that a database can make
	TooWide    bool // it would, but a statement returns no more than sqlsum.MostColumns of them
	InDatabase bool // set once it is known: the passes are made in a database, which Takes allows for
	Nodes      int  // as InDatabase: how many nodes of it share the rows; 0 is one

	shape Shape
	run   run
	spent atomic.Bool

	maxRows  int  // as Data.MaxRows
	allRows  bool // run takes all rows of each record, as records.md says
	firstRow bool // run reads the first row of each record alone

	maxWeight float64 // public: a row weighs its ratio to this, 1 at most; 0: rows have no weights
}

// StreamColumns is how many columns a plan that streams makes beside those of its Data.
const StreamColumns = 2

// BandMiss is the probability with which a Band does not hold.
const BandMiss = 0.05

// severalRows makes the plan one for records of up to so many rows; 0: of one each. How many
// there are is not public: the time is that of the most.
//
// Errors: ErrInfeasible where run is not known to take such records.
func (p *Plan) severalRows(most int) error {
	switch {
	case most == 0:
		return nil
	case !p.allRows && !p.firstRow:
		return fmt.Errorf("%w: this takes tables with one row a person only", ErrInfeasible)
	}
	p.Parameters["max_rows"], p.maxRows = most, most
	if !p.firstRow {
		p.Seconds *= float64(most)
	}
	return nil
}

// Run releases the D coefficients, once, and what is known of their errors. The
// only errors are ErrSpent, the context's own and those of Data.Elsewhere's passes: nothing
// here fails because of data or draw.
func (p *Plan) Run(ctx context.Context, x Data, src *mech.Source) (Result, error) {
	if x.Shape != p.shape || x.columns() != p.shape.Columns() || (x.Level == nil) != (x.Levels == 0) || x.Elsewhere != nil && !p.Sums {
		panic(fmt.Sprintf("dpsco: plan for %+v run on %+v with %d columns", p.shape, x.Shape, x.columns()))
	}
	if x.weighted() != (p.maxWeight > 0) {
		panic("dpsco: weights that the plan does not know, or none where it expects them")
	}
	if p.spent.Swap(true) {
		return Result{}, ErrSpent
	}
	r, err := p.run(ctx, x, src)
	if x.Elsewhere != nil && x.Elsewhere.err != nil {
		return Result{}, x.Elsewhere.err
	}
	return r, err
}

// Scaled runs Algorithm in scaled units: from every column its public centre is taken, and
// the rest divided by its public scale, before the fit; what is released comes back in the
// table's units. X holds one scale per stored column, Y the target's; CentreX and CentreY
// are the centres, nil or 0 for none. A centre needs an intercept, which takes it up again.
// Flags are the stored columns that hold 0 and 1 alone. Unknown: no scale was registered. Memory: as L1.Memory. Sources: as
// Regression.Sources. MaxRows: as Data.MaxRows.
// Of counts, whose coefficients are those of a logarithm, the target's scale moves the
// constant alone, and of Data.Exposure the logarithms of the ratios to a typical Exposure are
// taken. An offset is in the units of predictions, which are those of the target or, of
// labels and counts, logarithms. A weight counts as its ratio to the largest one, at most 1.
//
// Privacy: that of Algorithm; scaling is a function of one row and public
// numbers before it, post-processing after it.
type Scaled struct {
	Algorithm Algorithm
	X         []float64
	Y         float64
	CentreX   []float64
	CentreY   float64
	Flags     []int
	Unknown   bool
	Memory    int64
	Sources   int
	MaxRows   int
	Counts    bool
	Exposure  float64 // 0: there are none

	CentreOffset float64 // from public knowledge, as CentreX
}

// factual is an algorithm whose plan depends on whether any scale is known at all, on the
// memory that it may take, or on how many columns rows are made from.
type factual interface {
	withPublicFacts(Scaled) Algorithm
}

// Inner is Algorithm, told of what it depends on.
func (a Scaled) Inner() Algorithm {
	if f, ok := a.Algorithm.(factual); ok {
		return f.withPublicFacts(a)
	}
	return a.Algorithm
}

// Plan plans Algorithm; the scales stand in the plan's parameters.
func (a Scaled) Plan(s Shape, b privacy.Budget, accountant privacy.Accountant) (*Plan, error) {
	if len(a.X) != s.Columns() || a.CentreX != nil && len(a.CentreX) != len(a.X) {
		panic("dpsco: one scale per stored column, and one centre or none")
	}
	if a.centred() && !s.Intercept {
		panic("dpsco: a centre without an intercept")
	}
	p, err := a.Inner().Plan(s, b, accountant)
	if err != nil {
		return nil, err
	}
	p.Parameters["target_scale"], p.Parameters["feature_scales"] = a.Y, a.X
	if err := p.severalRows(a.MaxRows); err != nil {
		return nil, err
	}
	if a.Exposure != 0 {
		p.Parameters["exposure_scale"] = a.Exposure
	}
	if a.CentreOffset != 0 {
		p.Parameters["offset_center"] = a.CentreOffset
	}
	if a.centred() {
		p.Parameters["target_center"], p.Parameters["feature_centers"] = a.CentreY, a.centres()
	}
	a.unscaleBand(p.Band)
	inner := p.run
	p.run = func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
		if x.Elsewhere != nil {
			a.express(x.Elsewhere, s, p.maxWeight)
		} else {
			x.weigh(p.maxWeight)
			a.scale(x)
			a.offset(&x)
		}
		r, err := inner(ctx, x, src)
		r.each(a.withholdBesideNumbers)
		r.each(a.unscaleResult)
		r.each(a.moveConstant)
		return r, err
	}
	return p, nil
}
