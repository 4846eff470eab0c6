package dpsco

import (
	"context"
	"fmt"
	"sync/atomic"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

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
	TooWide    bool // Sums is false only because a statement would return more than sqlsum.MaxColumns columns
	InDatabase bool // set after planning: a database makes the passes, which Duration allows for
	Nodes      int  // set with InDatabase: number of database nodes that share the rows; 0 counts as 1

	shape table.Shape
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

// Run releases the D coefficients and estimates of their errors, once. The only errors are ErrAlreadyRun,
// that of the context, and those of passes of Data.Pushdown: Run never fails because of the data or
// the noise.
func (p *Plan) Run(ctx context.Context, x table.Data, src *mech.Source) (Result, error) {
	if x.Shape != p.shape || x.FeatureColumns() != p.shape.Columns() || (x.Group == nil) != (x.GroupCount == 0) || x.Pushdown != nil && !p.Sums {
		panic(fmt.Sprintf("dpsco: plan for %+v run on %+v with %d columns", p.shape, x.Shape, x.FeatureColumns()))
	}
	if x.Weighted() != (p.maxWeight > 0) {
		panic("dpsco: weights that the plan does not know, or none where it expects them")
	}
	if p.spent.Swap(true) {
		return Result{}, ErrAlreadyRun
	}
	r, err := p.run(ctx, x, src)
	if x.Pushdown != nil && x.Pushdown.Err() != nil {
		return Result{}, x.Pushdown.Err()
	}
	return r, err
}
