package dpsco

import (
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/table"
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

// regressors returns the regressors that the coefficients multiply, including the constant.
func regressors(x *table.Pushdown, intercept bool) []sqlsum.Expr {
	if intercept {
		return append([]sqlsum.Expr{sqlsum.Number(1)}, x.Row.X...)
	}
	return x.Row.X
}

// predictionOf returns the prediction <x, w> plus the offset.
func predictionOf(x *table.Pushdown, w []float64, intercept bool) sqlsum.Expr {
	return sqlsum.Add(linear(regressors(x, intercept), w), knownOffset(x))
}

// ask adds up the row gradients in the database, under contract c.
func (g gradients) ask(c mech.Contract, leverage float64) *mech.Sum {
	x, intercept := g.data.Pushdown, g.data.Intercept
	derivative := derivativeOf(g.loss, predictionOf(x, g.w, intercept), x.Row.Y)
	if g.anchor != nil {
		derivative = sqlsum.Sub(derivative, derivativeOf(g.loss, predictionOf(x, g.anchor, intercept), x.Row.Y))
	}
	source := regressors(x, intercept)
	if leverage > 0 {
		length := sqlsum.Sqrt(sumOfSquares(source))
		if x.Row.Weight != (sqlsum.Expr{}) {
			length = sqlsum.Mul(length, sqlsum.Sqrt(x.Row.Weight))
		}
		limit := sqlsum.Bound(leverage)
		derivative = sqlsum.Mul(derivative, sqlsum.Div(limit, sqlsum.Max(limit, length)))
	}
	if x.Row.Weight != (sqlsum.Expr{}) {
		derivative = sqlsum.Mul(derivative, x.Row.Weight)
	}
	given := multiplied(source, sqlsum.Snap(derivative, tiny))
	return summed(c, x.Query(sqlsum.Pass{Sums: []sqlsum.Vector{sumVector(given, c)}}).Sums[0])
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
func queryMoments(x *table.Pushdown, c mech.MomentContract, intercept bool) *mech.Moments {
	rows := regressors(x, intercept)
	if x.Row.Weight != (sqlsum.Expr{}) {
		rows = multiplied(rows, sqlsum.Sqrt(x.Row.Weight))
	}
	return summedMoments(c, x.Query(sqlsum.Pass{Moments: []sqlsum.Vector{momentVector(rows, c)}}).Moments[0])
}

// expressTimes replaces the rows x by P x.
func expressTimes(x *table.Pushdown, p mat.Matrix, intercept bool) {
	source := regressors(x, intercept)
	x.Row.X = nil
	for j := range source {
		x.Row.X = append(x.Row.X, sqlsum.Snap(linear(source, mat.Row(nil, j, p)), tiny))
	}
}
