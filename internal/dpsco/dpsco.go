// Package dpsco computes differentially private statistics of a table: regressions, by several methods, the
// accuracy of their predictions, descriptions of columns, and second moments. Each is planned from public
// facts, priced, charged to the ledger, and only then run, once.
//
// Its name is that of the first method, stochastic convex optimisation under differential privacy (DP-SCO).
//
// Files:
//
// Plans, from public facts:
//
//	dpsco, result       plans, their inputs, and their results
//	request, options    options of a request and their defaults
//	regression, problem a model with a loss; the same with a shape and a budget
//	recipes, parts      the table of methods; the estimators and solvers that they are made of
//	expect              forecasts of the error from noise
//	ladder, seconds     when a release is published, and how long a fit takes
//
// Data:
//
//	block, records      passes over the rows; records of one row or of several
//	scaled, weights     conversion to scaled units; weights of rows
//	counts              scaling, offsets and exposures of counts
//	pushdown, *_pushdown  rows that stay in a database, which computes the sums of a pass
//	row_block, scan     rows in the coordinates of a pass, and the releases of a pass
//
// Linear algebra:
//
//	vectors, numeric    columns of numbers; searches, quantiles, shrinkage
//	whiten, triangular  coordinates in which second moments are the identity
//
// Histograms:
//
//	magnitudes          what a histogram shows of sizes, and what its noise may hide
//	scales, standardise the scales of columns without one, and where their values lie
//
// Fits:
//
//	descent, oracle     first-order solvers on private means of row gradients
//	centre              the same on centred columns
//	joint_*             least squares from joint moments of rows and residuals
//	newton, newton_*    logistic, Huber and Poisson fits by private Newton steps
//	aggregate, rangemean  sample and aggregate
//	l1                  median regression: the choice of a method, and its two single mechanisms
//	l1_staged, l1_groups  median regression in private stages; by groups
//	groups              fits by groups
//	intervals           confidence intervals
//
// Scores:
//
//	score, score_*      accuracy of a release's predictions
//
// Descriptions:
//
//	describe, describe_*  descriptions of columns, and scales for them
//	second_moments      released second moments, from which the database fits
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

// ErrParameter marks a public parameter that is never valid (SQLSTATE 22023); ErrInfeasible marks
// parameters that are valid one by one but cannot work with this many rows and columns (SQLSTATE
// DP005).
var (
	ErrParameter  = catalogue.ErrRequest
	ErrInfeasible = errors.New("not possible with these rows, columns, options and budget")
	ErrSpent      = errors.New("dpsco: plan already run")
)

// infeasible wraps a mechanism's error about public parameters in ErrInfeasible.
func infeasible(err error) error {
	return fmt.Errorf("%w: %s", ErrInfeasible, strings.TrimPrefix(err.Error(), mech.ErrParams.Error()+": "))
}

// Shape holds the public facts about a design before it is read: N records and D coefficients. With
// Intercept the first coefficient is that of a constant 1 that Data does not store. With groups
// there are D coefficients for each group.
type Shape struct {
	N, D       int
	Intercept  bool
	GroupCount int // 0: one fit of all rows
}

// Columns returns the number of stored feature columns.
func (s Shape) Columns() int {
	if s.Intercept {
		return s.D - 1
	}
	return s.D
}

// Data is a design stored by columns: X holds Shape.Columns() slices with one value per row, Y the
// target. A missing value is NaN. In fits it makes its row unusable: the row contributes nothing to
// sums and histograms and still counts in N. Group is the group of a row, from 0; any other number
// means no group. Offset is added to the row's prediction, Weight multiplies its contribution
// (proof: weights.md). Every row is one person's record, or rows First[u] to First[u+1]-1 are the
// record of person u, with 1 to MaxRows rows (records.md). Run owns the slices and may overwrite
// them.
type Data struct {
	Shape
	X      [][]float64
	Y      []float64
	Group  []float64 // nil without groups
	Offset []float64 // nil: none
	Weight []float64 // as read, or in [0, 1] once scaled by the largest allowed; nil: every row has weight 1

	Exposure []float64 // of counts, as read; Scaled converts exposures to offsets; nil: none
	First    []int     // N + 1 indices; nil: every row is a record
	MaxRows  int       // public; 0 if every row is a record

	Make func(n int) []float64 // allocates further columns, of n numbers; nil: in memory

	Pushdown *Pushdown // the rows, if they stay in a database; the columns are nil then; nil: in memory
}

// numbers allocates a column of n numbers, all 0.
func (x Data) numbers(n int) []float64 {
	if x.Make == nil {
		return make([]float64, n)
	}
	return x.Make(n)
}

// Algorithm plans a fit from public facts alone: a shape, a budget, and the accountant that prices
// releases for the account in question.
//
// Errors: wraps ErrParameter or ErrInfeasible; the text says which request would be possible.
type Algorithm interface {
	Plan(s Shape, b privacy.Budget, a privacy.Accountant) (*Plan, error)
}

// Plan is a priced fit. Event is charged before Run; Parameters are public and stored with the
// release. All fields follow from public facts.
//
// For all data, with probability at least 1 - BandMiss, every released coefficient lies within its
// Band of the coefficient that the same fit gives without noise.
type Plan struct {
	Method       string
	ChosenMethod string // the method chosen by auto, from the public facts; empty: Method itself
	Event        privacy.Event
	Parameters   map[string]any
	Arithmetic   string    // mark in the ledger; empty: exact
	Band         []float64 // one number per coefficient; nil: no band is known that holds for all data
	Seconds      float64   // estimated time of Run on one core, for ordinary data
	Passes       int       // number of passes, batches by their share of the rows; 0: Run also sorts, copies or searches rows
	Streams      bool      // Run stores no number per row outside Data but at most StreamColumns columns of Data.Make

	FindsScales  bool // Run looks for the scales of columns that have none
	FindsCentres bool // Run looks for the centres of columns that have none

	Sums       bool // Run accepts Data.Pushdown: a database can compute all sums that it needs
	TooWide    bool // Sums is false only because a statement would return more than sqlsum.MostColumns columns
	InDatabase bool // set after planning: a database makes the passes, which Takes allows for
	Nodes      int  // set with InDatabase: number of database nodes that share the rows; 0 counts as 1

	shape Shape
	run   run
	spent atomic.Bool

	statements int // of one column each, that a database may be asked in addition to its passes

	maxRows  int  // as Data.MaxRows
	allRows  bool // run uses all rows of each record, as in records.md
	firstRow bool // run uses the first row of each record only

	maxWeight float64 // public: weights are divided by it and cut at 1; 0: rows have no weights
}

// StreamColumns bounds the columns that a plan with Streams allocates in addition to those of its Data.
const StreamColumns = 2

// BandMiss bounds the probability that some coefficient lies outside its Band.
const BandMiss = 0.05

// severalRows adapts the plan to records of at most the given number of rows; 0: of one row each. The
// actual numbers are not public, so the estimated time assumes the largest for every record.
//
// Errors: ErrInfeasible if run does not accept such records.
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

// Run releases the D coefficients and estimates of their errors, once. The only errors are ErrSpent,
// that of the context, and those of passes of Data.Pushdown: Run never fails because of the data or
// the noise.
func (p *Plan) Run(ctx context.Context, x Data, src *mech.Source) (Result, error) {
	if x.Shape != p.shape || x.columns() != p.shape.Columns() || (x.Group == nil) != (x.GroupCount == 0) || x.Pushdown != nil && !p.Sums {
		panic(fmt.Sprintf("dpsco: plan for %+v run on %+v with %d columns", p.shape, x.Shape, x.columns()))
	}
	if x.weighted() != (p.maxWeight > 0) {
		panic("dpsco: weights that the plan does not know, or none where it expects them")
	}
	if p.spent.Swap(true) {
		return Result{}, ErrSpent
	}
	r, err := p.run(ctx, x, src)
	if x.Pushdown != nil && x.Pushdown.err != nil {
		return Result{}, x.Pushdown.err
	}
	return r, err
}

// Scaled runs Algorithm in scaled units: before the fit the public centre of every column is
// subtracted and the difference divided by the column's public scale; results are converted back to
// the table's units. X holds one scale per stored column, Y the target's; CentreX and CentreY are
// the centres, nil or 0 for none. A centre requires an intercept, which absorbs it. Flags are the
// stored columns that hold only 0 and 1, FlagY says that the target does. UnscaledX, UnscaledY: columns that hold numbers and have neither
// a registered scale nor a centre; a fit may find their scales. NoScales: none was registered. Memory: as L1.Memory.
// Sources: as Regression.Sources. MaxRows: as Data.MaxRows.
//
// The coefficients of count models are those of a logarithm, so the target's scale shifts the
// intercept only. An exposure enters as the logarithm of its ratio to the typical value Exposure. An
// offset has the unit of the prediction: that of the target, or of log-odds or logarithms for labels
// and counts. A weight enters as its ratio to the largest allowed one, at most 1.
//
// Privacy: that of Algorithm; before it, scaling is a function of one row and public numbers, after
// it, post-processing.
type Scaled struct {
	Algorithm Algorithm
	X         []float64
	Y         float64
	CentreX   []float64
	CentreY   float64
	Flags     []int
	FlagY     bool
	UnscaledX []int
	UnscaledY bool
	NoScales  bool
	Memory    int64
	Sources   int
	MaxRows   int
	Counts    bool
	Exposure  float64 // 0: no exposures

	CentreOffset float64 // public, as CentreX
}

// factual is an algorithm whose plan also depends on whether any scale is registered, on the memory
// that it may use, or on the number of columns that features are made from.
type factual interface {
	withPublicFacts(Scaled) Algorithm
}

// Inner returns Algorithm with the public facts that its plan depends on filled in.
func (a Scaled) Inner() Algorithm {
	if f, ok := a.Algorithm.(factual); ok {
		return f.withPublicFacts(a)
	}
	return a.Algorithm
}

// Plan plans Algorithm and adds the scales to the plan's parameters.
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
		if x.Pushdown != nil {
			a.express(x.Pushdown, s, p.maxWeight)
		} else {
			x.weigh(p.maxWeight)
			a.scale(x)
			a.offset(&x)
		}
		r, err := inner(ctx, x, src)
		r.each(a.withholdBesideNumbers)
		r.each(a.withholdOfRareTarget)
		r.each(a.unscaleResult)
		r.each(a.moveConstant)
		return r, err
	}
	return p, nil
}
