package dpsco

import (
	"math"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

// Elsewhere is a design whose rows stay in a database, which adds up what each gives to a pass.
// Its columns are numbered as those of the passes' statements. A row that lacks one of them
// says nothing.
type Elsewhere struct {
	Totals   func(sqlsum.Pass) (sqlsum.Totals, error) // makes a pass
	Target   int
	Features []Term
	Offset   int // 0: none; the target is a column before it
	Weight   int // as Offset
	Exposure int // as Offset

	x                           []sqlsum.Expr // in scaled units
	y, offset, weight, exposure sqlsum.Expr   // nothing in the last three: none
	err                         error         // of the first pass that failed
}

// Term is a coefficient's column: a number or, with a Level above 0, whether a category is at
// that level.
type Term struct{ Column, Level int }

// columns is how many stored feature columns the design has.
func (x Data) columns() int {
	if x.Elsewhere != nil {
		return len(x.Elsewhere.Features)
	}
	return len(x.X)
}

// weighted reports whether rows have weights.
func (x Data) weighted() bool {
	return x.Weight != nil || x.Elsewhere != nil && x.Elsewhere.Weight > 0
}

// express writes columns in scaled units.
func (a Scaled) express(x *Elsewhere, shape Shape, mostWeight float64) {
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
		x.weight = sqlsum.Min(sqlsum.Positive(x.Weight, mostWeight), sqlsum.Number(1))
	}
}

// knownOffset is the offset, or 0.
func (x *Elsewhere) knownOffset() sqlsum.Expr {
	if x.offset == (sqlsum.Expr{}) {
		return sqlsum.Number(0)
	}
	return x.offset
}

// label makes the target one of two labels.
func (x *Elsewhere) label(negative, positive float64) {
	x.y = sqlsum.Label(x.Target, negative, positive)
}

// totals makes a pass. Once one has failed, all are of no rows: Plan.Run then ends with its
// error, and nothing of them leaves.
func (x *Elsewhere) totals(p sqlsum.Pass) sqlsum.Totals {
	if x.err == nil {
		var t sqlsum.Totals
		if t, x.err = x.Totals(p); x.err == nil {
			return t
		}
	}
	return p.Empty()
}

// How rows are expressed: numbers of a size below tiny count as 0, which keeps what is made of
// them within the range that package sqlsum proves. Lengths are not taken for less.
const tiny = 0x1p-60

// exprRow is a row in the coordinates of a pass, as rowBlock has it.
type exprRow struct {
	z         []sqlsum.Expr
	y, e      sqlsum.Expr // target, and residual
	predicted sqlsum.Expr
	square    sqlsum.Expr // of the length of z
	length    sqlsum.Expr // not below tiny
	weight    sqlsum.Expr // of the row; nothing without weights
	exposure  sqlsum.Expr // 1 without
	root      sqlsum.Expr // of the weight; 1 without
}

// row is one in the coordinates of an upper triangular P, with the residual of w.
func (x *Elsewhere) row(p mat.Matrix, w []float64, intercept bool) exprRow {
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

// linear is the sum of w_i x_i.
func linear(x []sqlsum.Expr, w []float64) sqlsum.Expr {
	terms := make([]sqlsum.Expr, len(x))
	for i, e := range x {
		terms[i] = sqlsum.Mul(sqlsum.Number(w[i]), e)
	}
	return sqlsum.Add(terms...)
}

// scaleByWeight is what rowBlock's does.
func (r *exprRow) scaleByWeight() {
	if r.weight == (sqlsum.Expr{}) {
		return
	}
	r.root = sqlsum.Sqrt(r.weight)
	r.e, r.z = sqlsum.Mul(r.e, r.root), multiplied(r.z, r.root)
	r.square = sqlsum.Mul(r.square, r.weight)
	r.length = sqlsum.Max(sqlsum.Number(tiny), sqlsum.Mul(r.length, r.root))
}

// multiplied are numbers times another one.
func multiplied(x []sqlsum.Expr, v sqlsum.Expr) (products []sqlsum.Expr) {
	for _, e := range x {
		products = append(products, sqlsum.Mul(e, v))
	}
	return products
}

// direction is z over its length.
func (r *exprRow) direction() []sqlsum.Expr {
	return multiplied(r.z, sqlsum.Div(sqlsum.Number(1), r.length))
}

// sizesOf are those of magnitudes whose square is given, in units.
func sizesOf(square sqlsum.Expr) sqlsum.Bins { return sqlsum.Bins{Of: square, Edges: squareEdges} }

// squareEdges are the squares of magnitudeEdges.
var squareEdges = func() []float64 {
	edges := make([]float64, magnitudeBins-1)
	for k := range edges {
		edges[k] = math.Ldexp(1, lowestOctave+k)
	}
	return edges
}()

// squareIn is the square of v in a unit.
func squareIn(v sqlsum.Expr, unit float64) sqlsum.Expr {
	return sqlsum.Square(sqlsum.Div(v, sqlsum.Bound(unit)))
}

// momentVector and sumVector are vectors under a contract.
func momentVector(v []sqlsum.Expr, c mech.MomentContract) sqlsum.Vector {
	return sqlsum.Vector{Of: v, Bound: c.Bound, Steps: c.Steps()}
}

func sumVector(v []sqlsum.Expr, c mech.Contract) sqlsum.Vector {
	return sqlsum.Vector{Of: v, Bound: c.Bound, Steps: c.Steps()}
}

// summed, summedMoments and counted are sums that were made elsewhere.
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
	h := mech.NewHistogram(halfOctaves, n, 1)
	h.AddCounted(counts)
	return h
}
