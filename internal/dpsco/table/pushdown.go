package table

import "dpsidecar/internal/sqlsum"

// Pushdown is a design whose rows stay in a database, which computes the sums of every pass (aggregate pushdown).
// Columns are numbered as in the statements of the passes. A row with a missing value in one of them
// is unusable: it contributes nothing.
type Pushdown struct {
	Totals   func(sqlsum.Pass) (sqlsum.Totals, error) // runs a pass
	Target   int
	Features []Term
	Offset   int // column number, above that of the target; 0: none
	Weight   int // as Offset
	Exposure int // as Offset

	Row Expressions // of a row, which a fit sets and changes

	err error // of the first pass that failed
}

// Expressions are the columns of a row as expressions of a statement, in scaled units.
type Expressions struct {
	X                           []sqlsum.Expr // features
	Y, Offset, Weight, Exposure sqlsum.Expr   // the last three are zero values if there is no such column
}

// Term is the column of a coefficient: a number or, if Level is above 0, the indicator of that level
// of a category.
type Term struct{ Column, Level int }

// FeatureColumns returns the number of stored feature columns of the design.
func (x Data) FeatureColumns() int {
	if x.Pushdown != nil {
		return len(x.Pushdown.Features)
	}
	return len(x.X)
}

// Weighted reports whether rows have weights.
func (x Data) Weighted() bool {
	return x.Weight != nil || x.Pushdown != nil && x.Pushdown.Weight > 0
}

// HasOffsets reports whether rows have offsets or, of counts, exposures.
func (x Data) HasOffsets() bool {
	none, e := sqlsum.Expr{}, x.Pushdown
	return x.Offset != nil || e != nil && (e.Row.Offset != none || e.Row.Exposure != none)
}

// Query runs a pass. After a failed pass it returns the totals of no rows for all later ones:
// a plan that was run then returns Err, and nothing computed from them is released.
func (x *Pushdown) Query(p sqlsum.Pass) sqlsum.Totals {
	if x.err == nil {
		var t sqlsum.Totals
		if t, x.err = x.Totals(p); x.err == nil {
			return t
		}
	}
	return p.Empty()
}

// Err returns the error of the first pass that failed; nil: none did.
func (x *Pushdown) Err() error { return x.err }
