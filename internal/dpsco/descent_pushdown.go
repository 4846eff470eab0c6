package dpsco

import (
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

// The passes of a Descent over rows that stay in a database.

// sums reports whether the descent needs only sums that a database can compute: clipped gradients,
// over all rows, of a loss that can be expressed in SQL.
func (d Descent) sums() bool {
	if _, clipped := d.Mean.(mean.Clip); !clipped {
		return false
	}
	for _, u := range d.Solver.Uses() {
		if u.Batch > 0 {
			return false
		}
	}
	switch d.Loss.(type) {
	case loss.Squared, loss.Logistic, loss.Huber:
		return true
	}
	return false
}

// derivativeOf returns the derivative of the loss with respect to the prediction.
func derivativeOf(l loss.Loss, predicted, y sqlsum.Expr) sqlsum.Expr {
	switch l := l.(type) {
	case rowItself: // 1 for a row that has a target; rows left out by where_level have none
		return sqlsum.IfBelow(predicted, y, sqlsum.Number(1), sqlsum.Number(1))
	case loss.Logistic:
		return sqlsum.Sub(sigmoidOf(predicted), y)
	case loss.Huber:
		return sqlsum.Clamp(sqlsum.Sub(predicted, y), l.Delta)
	}
	return sqlsum.Sub(predicted, y)
}

// source returns the regressors that the coefficients multiply, including the constant.
func (x *Pushdown) source(intercept bool) []sqlsum.Expr {
	if intercept {
		return append([]sqlsum.Expr{sqlsum.Number(1)}, x.x...)
	}
	return x.x
}

// predict returns the prediction <x, w> plus the offset.
func (x *Pushdown) predict(w []float64, intercept bool) sqlsum.Expr {
	return sqlsum.Add(linear(x.source(intercept), w), x.knownOffset())
}

// ask adds up the row gradients in the database, under contract c.
func (g gradients) ask(c mech.Contract, leverage float64) *mech.Sum {
	x, intercept := g.data.Pushdown, g.data.Intercept
	derivative := derivativeOf(g.loss, x.predict(g.w, intercept), x.y)
	if g.anchor != nil {
		derivative = sqlsum.Sub(derivative, derivativeOf(g.loss, x.predict(g.anchor, intercept), x.y))
	}
	source := x.source(intercept)
	if leverage > 0 {
		length := sqlsum.Sqrt(sumOfSquares(source))
		if x.weight != (sqlsum.Expr{}) {
			length = sqlsum.Mul(length, sqlsum.Sqrt(x.weight))
		}
		limit := sqlsum.Bound(leverage)
		derivative = sqlsum.Mul(derivative, sqlsum.Div(limit, sqlsum.Max(limit, length)))
	}
	if x.weight != (sqlsum.Expr{}) {
		derivative = sqlsum.Mul(derivative, x.weight)
	}
	given := multiplied(source, sqlsum.Snap(derivative, tiny))
	return summed(c, x.totals(sqlsum.Pass{Sums: []sqlsum.Vector{sumVector(given, c)}}).Sums[0])
}

// sumOfSquares returns the squared Euclidean length of v.
func sumOfSquares(v []sqlsum.Expr) sqlsum.Expr {
	squares := make([]sqlsum.Expr, len(v))
	for j, e := range v {
		squares[j] = sqlsum.Square(e)
	}
	return sqlsum.Add(squares...)
}

// queryMoments adds up the second moments of the weighted rows in the database, as secondMoments does
// in memory.
func (x *Pushdown) queryMoments(c mech.MomentContract, intercept bool) *mech.Moments {
	rows := x.source(intercept)
	if x.weight != (sqlsum.Expr{}) {
		rows = multiplied(rows, sqlsum.Sqrt(x.weight))
	}
	return summedMoments(c, x.totals(sqlsum.Pass{Moments: []sqlsum.Vector{momentVector(rows, c)}}).Moments[0])
}

// times replaces the rows x by P x.
func (x *Pushdown) times(p mat.Matrix, intercept bool) {
	source := x.source(intercept)
	x.x = nil
	for j := range source {
		x.x = append(x.x, sqlsum.Snap(linear(source, mat.Row(nil, j, p)), tiny))
	}
}
