package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

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

	x                           []sqlsum.Expr // features, in scaled units
	y, offset, weight, exposure sqlsum.Expr   // the last three are zero values if there is no such column
	err                         error         // of the first pass that failed
}

// Term is the column of a coefficient: a number or, if Level is above 0, the indicator of that level
// of a category.
type Term struct{ Column, Level int }

// columns returns the number of stored feature columns of the design.
func (x Data) columns() int {
	if x.Pushdown != nil {
		return len(x.Pushdown.Features)
	}
	return len(x.X)
}

// weighted reports whether rows have weights.
func (x Data) weighted() bool {
	return x.Weight != nil || x.Pushdown != nil && x.Pushdown.Weight > 0
}

// hasOffsets reports whether rows have offsets or, of counts, exposures.
func (x Data) hasOffsets() bool {
	none, e := sqlsum.Expr{}, x.Pushdown
	return x.Offset != nil || e != nil && (e.offset != none || e.exposure != none)
}

// express sets the expressions of the columns in scaled units.
func (a Scaled) express(x *Pushdown, shape Shape, maxWeight float64) {
	for j, term := range x.Features {
		if term.Level > 0 {
			x.x = append(x.x, sqlsum.Mul(sqlsum.Sub(sqlsum.Is(term.Column, term.Level), sqlsum.Number(a.centres()[j])), sqlsum.Number(1/a.X[j])))
			continue
		}
		x.x = append(x.x, sqlsum.Column(term.Column, a.centres()[j], a.X[j]))
	}
	x.y = sqlsum.Column(x.Target, a.CentreY, a.Y)
	unit, constant := a.Y, 0.0
	if a.Counts {
		x.y, unit = sqlsum.Count(x.Target, a.Y), 1
		if len(x.Features) == shape.D {
			constant = a.constant()
		}
	}
	if x.Offset > 0 {
		x.offset = sqlsum.Column(x.Offset, a.CentreOffset, unit)
	}
	if constant != 0 {
		x.offset = sqlsum.Sub(x.knownOffset(), sqlsum.Number(constant))
	}
	if x.Exposure > 0 {
		x.exposure = sqlsum.Positive(x.Exposure, a.Exposure)
	}
	if x.Weight > 0 {
		x.weight = sqlsum.Min(sqlsum.Positive(x.Weight, maxWeight), sqlsum.Number(1))
	}
}

// knownOffset returns the offset, or the number 0 without one.
func (x *Pushdown) knownOffset() sqlsum.Expr {
	if x.offset == (sqlsum.Expr{}) {
		return sqlsum.Number(0)
	}
	return x.offset
}

// label replaces the target by the indicator of the positive label.
func (x *Pushdown) label(negative, positive float64) {
	x.y = sqlsum.Label(x.Target, negative, positive)
}

// totals runs a pass. After a failed pass it returns the totals of no rows for all later ones:
// Plan.Run then returns the error, and nothing computed from them is released.
func (x *Pushdown) totals(p sqlsum.Pass) sqlsum.Totals {
	if x.err == nil {
		var t sqlsum.Totals
		if t, x.err = x.Totals(p); x.err == nil {
			return t
		}
	}
	return p.Empty()
}

// tiny is the size below which numbers in expressions are replaced by 0, which keeps derived numbers
// within the range that package sqlsum proves. Lengths are raised to tiny.
const tiny = 0x1p-60

// exprRow is a row in the coordinates of a pass, as expressions. It corresponds to rowBlock.
type exprRow struct {
	z         []sqlsum.Expr
	y, e      sqlsum.Expr // target and residual
	predicted sqlsum.Expr
	square    sqlsum.Expr // squared length of z
	length    sqlsum.Expr // of z, at least tiny
	weight    sqlsum.Expr // the row's weight; the zero value without weights
	exposure  sqlsum.Expr // 1 without exposures
	root      sqlsum.Expr // square root of the weight; 1 without weights
}

// row returns a row in the coordinates of the upper triangular P, with the residual of w.
func (x *Pushdown) row(p mat.Matrix, w []float64, intercept bool) exprRow {
	source := x.source(intercept)
	r := exprRow{y: x.y, weight: x.weight, root: sqlsum.Number(1), predicted: x.predict(w, intercept)}
	if r.exposure = x.exposure; r.exposure == (sqlsum.Expr{}) {
		r.exposure = sqlsum.Number(1)
	}
	r.e = sqlsum.Snap(sqlsum.Sub(x.y, r.predicted), tiny)
	for j := range source {
		r.z = append(r.z, sqlsum.Snap(linear(source[:j+1], mat.Col(nil, j, p)[:j+1]), tiny))
	}
	r.square = sumOfSquares(r.z)
	r.length = sqlsum.Max(sqlsum.Number(tiny), sqlsum.Sqrt(r.square))
	return r
}

// linear returns the sum of w_i x_i.
func linear(x []sqlsum.Expr, w []float64) sqlsum.Expr {
	terms := make([]sqlsum.Expr, len(x))
	for i, e := range x {
		terms[i] = sqlsum.Mul(sqlsum.Number(w[i]), e)
	}
	return sqlsum.Add(terms...)
}

// scaleByWeight multiplies the row and its residual by the root of the weight, as
// rowBlock.scaleByWeight does.
func (r *exprRow) scaleByWeight() {
	if r.weight == (sqlsum.Expr{}) {
		return
	}
	r.root = sqlsum.Sqrt(r.weight)
	r.e, r.z = sqlsum.Mul(r.e, r.root), multiplied(r.z, r.root)
	r.square = sqlsum.Mul(r.square, r.weight)
	r.length = sqlsum.Max(sqlsum.Number(tiny), sqlsum.Mul(r.length, r.root))
}

// multiplied returns the products of every x_i and v.
func multiplied(x []sqlsum.Expr, v sqlsum.Expr) (products []sqlsum.Expr) {
	for _, e := range x {
		products = append(products, sqlsum.Mul(e, v))
	}
	return products
}

// direction returns z divided by its length.
func (r *exprRow) direction() []sqlsum.Expr {
	return multiplied(r.z, sqlsum.Div(sqlsum.Number(1), r.length))
}

// sizesOf returns the bins of magnitudes for a magnitude given by its square, in units.
func sizesOf(square sqlsum.Expr) sqlsum.Bins { return sqlsum.Bins{Of: square, Edges: squareEdges} }

// squareEdges holds the squares of magnitude.Edges.
var squareEdges = func() []float64 {
	edges := make([]float64, magnitude.Bins-1)
	for k := range edges {
		edges[k] = math.Ldexp(1, magnitude.LowestOctave+k)
	}
	return edges
}()

// squareIn returns the square of v/unit.
func squareIn(v sqlsum.Expr, unit float64) sqlsum.Expr {
	return sqlsum.Square(sqlsum.Div(v, sqlsum.Bound(unit)))
}

// momentVector and sumVector put a vector under a contract.
func momentVector(v []sqlsum.Expr, c mech.MomentContract) sqlsum.Vector {
	return sqlsum.Vector{Of: v, Bound: c.Bound, Steps: c.Steps()}
}

func sumVector(v []sqlsum.Expr, c mech.Contract) sqlsum.Vector {
	return sqlsum.Vector{Of: v, Bound: c.Bound, Steps: c.Steps()}
}

// summed, summedMoments and counted return accumulators that hold totals computed by the database.
func summed(c mech.Contract, totals []int64) *mech.Sum {
	s := mech.NewSum(c)
	s.AddSummed(totals)
	return s
}

func summedMoments(c mech.MomentContract, totals []int64) *mech.Moments {
	m := mech.NewMoments(c)
	m.AddSummed(totals)
	return m
}

func counted(n int, counts []int64) *mech.Histogram {
	h := mech.NewHistogram(magnitude.HalfOctaves, n, 1)
	h.AddCounted(counts)
	return h
}
