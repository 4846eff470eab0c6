package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

// express sets the expressions of the columns in scaled units.
func (a Scaled) express(x *table.Pushdown, shape table.Shape, maxWeight float64) {
	for j, term := range x.Features {
		if term.Level > 0 {
			x.Row.X = append(x.Row.X, sqlsum.Mul(sqlsum.Sub(sqlsum.Is(term.Column, term.Level), sqlsum.Number(a.centres()[j])), sqlsum.Number(1/a.X[j])))
			continue
		}
		x.Row.X = append(x.Row.X, sqlsum.Column(term.Column, a.centres()[j], a.X[j]))
	}
	x.Row.Y = sqlsum.Column(x.Target, a.CentreY, a.Y)
	unit, constant := a.Y, 0.0
	if a.Counts {
		x.Row.Y, unit = sqlsum.Count(x.Target, a.Y), 1
		if len(x.Features) == shape.D {
			constant = a.constant()
		}
	}
	if x.Offset > 0 {
		x.Row.Offset = sqlsum.Column(x.Offset, a.CentreOffset, unit)
	}
	if constant != 0 {
		x.Row.Offset = sqlsum.Sub(knownOffset(x), sqlsum.Number(constant))
	}
	if x.Exposure > 0 {
		x.Row.Exposure = sqlsum.Positive(x.Exposure, a.Exposure)
	}
	if x.Weight > 0 {
		x.Row.Weight = sqlsum.Min(sqlsum.Positive(x.Weight, maxWeight), sqlsum.Number(1))
	}
}

// knownOffset returns the offset, or the number 0 without one.
func knownOffset(x *table.Pushdown) sqlsum.Expr {
	if x.Row.Offset == (sqlsum.Expr{}) {
		return sqlsum.Number(0)
	}
	return x.Row.Offset
}

// expressLabels replaces the target by the indicator of the positive label.
func expressLabels(x *table.Pushdown, negative, positive float64) {
	x.Row.Y = sqlsum.Label(x.Target, negative, positive)
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

// newExprRow returns a row in the coordinates of the upper triangular P, with the residual of w.
func newExprRow(x *table.Pushdown, p mat.Matrix, w []float64, intercept bool) exprRow {
	source := regressors(x, intercept)
	r := exprRow{y: x.Row.Y, weight: x.Row.Weight, root: sqlsum.Number(1), predicted: predictionOf(x, w, intercept)}
	if r.exposure = x.Row.Exposure; r.exposure == (sqlsum.Expr{}) {
		r.exposure = sqlsum.Number(1)
	}
	r.e = sqlsum.Snap(sqlsum.Sub(x.Row.Y, r.predicted), tiny)
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
