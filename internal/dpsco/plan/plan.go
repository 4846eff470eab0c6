// Package plan has what all algorithms share before and while they run: checks of a request, the noise that its budget
// pays for, plans with their prices, and the times at which a release may become visible. A plan follows from public
// facts alone.
//
// Files:
//
//	plan            algorithms, plans, and their one run
//	request         checks of requests, and noise by their budget
//	ladder          when a release is published
package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// ErrParameter marks a public parameter that is never valid (SQLSTATE 22023); ErrInfeasible marks
// parameters that are valid one by one but cannot work with this many rows and columns (SQLSTATE
// DP005). ErrAlreadyRun is returned by a second Run of a plan: its event is charged once, and pays for one release.
var (
	ErrParameter  = catalogue.ErrRequest
	ErrInfeasible = errors.New("not possible with these rows, columns, options and budget")
	ErrAlreadyRun = errors.New("dpsco: plan already run")
)

// Infeasible wraps a mechanism's error about public parameters in ErrInfeasible.
func Infeasible(err error) error {
	return fmt.Errorf("%w: %s", ErrInfeasible, strings.TrimPrefix(err.Error(), mech.ErrParams.Error()+": "))
}

// Algorithm plans a fit from public facts alone: a shape, a budget, and the accountant that prices
// releases for the account in question.
//
// Errors: wraps ErrParameter or ErrInfeasible; the text says which request would be possible.
type Algorithm interface {
	Plan(s table.Shape, b privacy.Budget, a privacy.Accountant) (*Plan, error)
}

// RunFunc computes and releases a fit of x.
type RunFunc = func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error)

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
	TooWide    bool // Sums is false only because a statement would return more than sqlsum allows
	InDatabase bool // set after planning: a database makes the passes, which Duration allows for
	Nodes      int  // set with InDatabase: number of database nodes that share the rows; 0 counts as 1

	Shape      table.Shape // of the data that Run accepts
	AllRows    bool        // Run uses all rows of each record, as in ../records.md
	FirstRow   bool        // Run uses the first row of each record only
	MaxWeight  float64     // public: weights are divided by it and cut at 1; 0: rows have no weights
	Statements int         // of one column each, that a database may be asked in addition to its passes

	run     RunFunc
	maxRows int // as Data.MaxRows
	spent   atomic.Bool
}

// StreamColumns bounds the columns that a plan with Streams allocates in addition to those of its Data.
const StreamColumns = 2

// BandMiss bounds the probability that some coefficient lies outside its Band.
const BandMiss = 0.05

// WithRun sets what Run does, and returns the plan.
func (p *Plan) WithRun(f RunFunc) *Plan {
	p.run = f
	return p
}

// Wrap replaces what Run does by outer of it.
func (p *Plan) Wrap(outer func(inner RunFunc) RunFunc) { p.run = outer(p.run) }

// SeveralRows adapts the plan to records of at most the given number of rows; 0: of one row each. The
// actual numbers are not public, so the estimated time assumes the largest for every record.
//
// Errors: ErrInfeasible if Run does not accept such records.
func (p *Plan) SeveralRows(most int) error {
	switch {
	case most == 0:
		return nil
	case !p.AllRows && !p.FirstRow:
		return fmt.Errorf("%w: this takes tables with one row a person only", ErrInfeasible)
	}
	p.Parameters["max_rows"], p.maxRows = most, most
	if !p.FirstRow {
		p.Seconds *= float64(most)
	}
	return nil
}

// Run releases the D coefficients and estimates of their errors, once. The only errors are ErrAlreadyRun,
// that of the context, and those of passes of Data.Pushdown: Run never fails because of the data or
// the noise.
func (p *Plan) Run(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
	if x.Shape != p.Shape || x.FeatureColumns() != p.Shape.Columns() || (x.Group == nil) != (x.GroupCount == 0) || x.Pushdown != nil && !p.Sums {
		panic(fmt.Sprintf("dpsco: plan for %+v run on %+v with %d columns", p.Shape, x.Shape, x.FeatureColumns()))
	}
	if x.Weighted() != (p.MaxWeight > 0) {
		panic("dpsco: weights that the plan does not know, or none where it expects them")
	}
	if p.spent.Swap(true) {
		return release.Result{}, ErrAlreadyRun
	}
	r, err := p.run(ctx, x, src)
	if x.Pushdown != nil && x.Pushdown.Err() != nil {
		return release.Result{}, x.Pushdown.Err()
	}
	return r, err
}
