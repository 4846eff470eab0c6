package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/sqlsum"
)

// Passes of a Newton over rows that stay in a database. The contribution of a row is the one that
// newton_rows.go computes, and each Vector is brought within its contract once more by itself.

// exprCurve is a curve whose losses a database can compute.
type exprCurve interface {
	curve
	// lossesOf returns the expressions of the values that score writes.
	lossesOf(r *exprRow) exprLosses
	// firstOf changes a row as first does.
	firstOf(r *exprRow)
}

// exprLosses holds the expressions of the columns of newtonRows.
type exprLosses struct{ score, most, tail, model, robust sqlsum.Expr }

// lossesOf implements exprCurve.
func (logisticCurve) lossesOf(r *exprRow) exprLosses {
	p := sigmoidOf(r.predicted)
	score := sqlsum.Sub(r.y, p)
	one := sqlsum.Number(1)
	model := sqlsum.Mul(p, sqlsum.Max(sqlsum.Sub(one, p), sqlsum.Number(0)))
	return exprLosses{
		score: score, tail: sqlsum.Abs(score), most: sqlsum.Max(p, sqlsum.Sub(one, p)), model: model,
		robust: sqlsum.Add(sqlsum.Mul(sqlsum.Number(1-residualCurvature), model), sqlsum.Mul(sqlsum.Number(residualCurvature), sqlsum.Square(score))),
	}
}

// sigmoidOf is the sigmoid of log-odds, which are clipped at +-100 (by sqlsum.Exp).
func sigmoidOf(z sqlsum.Expr) sqlsum.Expr {
	power := sqlsum.Exp(sqlsum.Mul(sqlsum.Number(-1), z))
	return sqlsum.Div(sqlsum.Number(1), sqlsum.Add(sqlsum.Number(1), power))
}

// firstOf implements exprCurve.
func (logisticCurve) firstOf(r *exprRow) { r.e = sqlsum.Sub(r.y, sigmoidOf(r.predicted)) }

// lossesOf implements exprCurve.
func (c huberCurve) lossesOf(r *exprRow) exprLosses {
	delta, size := sqlsum.Bound(c.delta), sqlsum.Abs(r.e)
	return exprLosses{
		score: sqlsum.Clamp(r.e, c.delta), most: delta, tail: delta,
		model:  sqlsum.IfBelow(delta, size, sqlsum.Number(0), sqlsum.Number(1)),
		robust: sqlsum.Div(delta, sqlsum.Max(delta, size)),
	}
}

// firstOf implements exprCurve.
func (huberCurve) firstOf(*exprRow) {}

// lossesOf implements exprCurve.
func (c poissonCurve) lossesOf(r *exprRow) exprLosses {
	y, mean := sqlsum.Min(r.y, sqlsum.Bound(c.cut)), r.mean()
	score := sqlsum.Sub(y, mean)
	return exprLosses{
		score: score, tail: sqlsum.Abs(score), most: sqlsum.Max(mean, sqlsum.Sub(sqlsum.Bound(c.cut), mean)),
		model: mean, robust: sqlsum.Mul(sqlsum.Number(0.5), sqlsum.Add(mean, y)),
	}
}

// mean is the mean of a count, clamped to [e^-40, e^40].
func (r *exprRow) mean() sqlsum.Expr {
	most := sqlsum.Exp(sqlsum.Number(farthestMean))
	least := sqlsum.Exp(sqlsum.Number(-farthestMean))
	return sqlsum.Max(least, sqlsum.Min(most, sqlsum.Mul(r.exposure, sqlsum.Exp(r.predicted))))
}

// firstOf implements exprCurve.
func (poissonCurve) firstOf(r *exprRow) {
	root := sqlsum.Sqrt(r.mean())
	r.e, r.z = sqlsum.Div(r.y, root), multiplied(r.z, root)
	r.length, r.square = sqlsum.Mul(r.length, root), sqlsum.Mul(r.square, sqlsum.Square(root))
}

// queryFirst makes the first pass in the database.
func (f *newtonFit) queryFirst(x *table.Pushdown) newtonFirst {
	r := newExprRow(x, f.p, f.w, f.shape.Intercept)
	f.Curve.(exprCurve).firstOf(&r)
	r.scaleByWeight()
	p := sqlsum.Pass{
		Moments: []sqlsum.Vector{momentVector(r.pilotVector(f.Bound, f.Curve.firstCut()), f.firstContract())},
		Counts:  []sqlsum.Bins{sizesOf(r.square)},
	}
	if c := f.Curve.counted(); c != nil {
		p.Counts = append(p.Counts, sizesOf(squareIn(r.y, c.unit)))
	}
	totals := x.Query(p)
	seen := newtonFirst{moments: summedMoments(f.firstContract(), totals.Moments[0]), lengths: counted(f.shape.N, totals.Counts[0])}
	if len(p.Counts) > 1 {
		seen.targets = counted(f.shape.N, totals.Counts[1])
	}
	return seen
}

// queryStep makes the pass of step t in the database.
func (f *newtonFit) queryStep(t int, x *table.Pushdown) newtonSums {
	last := t == f.last()
	r := newExprRow(x, f.p, f.w, f.shape.Intercept)
	l := f.Curve.(exprCurve).lossesOf(&r)
	own := l.weigh(r.weight, f.common)
	weight := f.weightOf(&r, l)
	if c, ok := f.Curve.(huberCurve); ok {
		weight = c.straightenOf(&r, &l, weight, f.bound)
	}
	p := sqlsum.Pass{Sums: []sqlsum.Vector{sumVector(f.scoreVector(t, &r, l, weight), f.scoreContract(t))}}
	curvature := l.robust
	if last {
		curvature = l.model
	} else {
		size := sqlsum.Bound(f.Curve.size())
		p.Counts = []sqlsum.Bins{sizesOf(sqlsum.Mul(sqlsum.Square(sqlsum.Div(l.tail, size)), r.square)), sizesOf(sqlsum.Mul(l.robust, r.square))}
		if f.huber() {
			p.Counts = append(p.Counts, sizesOf(squareIn(r.e, f.delta)))
		}
	}
	if own != (sqlsum.Expr{}) {
		curvature = sqlsum.Mul(curvature, own)
	}
	p.Moments = []sqlsum.Vector{momentVector(f.curvatureVector(&r, curvature, weight), f.curvatureContract())}
	meat := last && f.Intervals
	if meat {
		given := multiplied(r.z, sqlsum.Snap(sqlsum.Mul(sqlsum.Mul(weight, l.score), sqlsum.Number(1/f.limit)), tiny))
		p.Moments = append(p.Moments, momentVector(given, f.curvatureContract()))
	}
	totals := x.Query(p)
	seen := newtonSums{score: summed(f.scoreContract(t), totals.Sums[0]), curvature: summedMoments(f.curvatureContract(), totals.Moments[0])}
	if meat {
		seen.meat = summedMoments(f.curvatureContract(), totals.Moments[1])
	}
	if !last {
		seen.sizes, seen.lengths = counted(f.shape.N, totals.Counts[0]), counted(f.shape.N, totals.Counts[1])
		if len(p.Counts) > 2 {
			seen.residuals = counted(f.shape.N, totals.Counts[2])
		}
	}
	return seen
}

// weigh multiplies losses as weighLosses does, and returns the row's weight over its bounding weight.
func (l *exprLosses) weigh(weight sqlsum.Expr, common float64) (own sqlsum.Expr) {
	if weight == (sqlsum.Expr{}) {
		return own
	}
	bounding := sqlsum.Max(sqlsum.Bound(common), weight)
	l.score = sqlsum.Mul(l.score, weight)
	for _, v := range []*sqlsum.Expr{&l.most, &l.tail, &l.model, &l.robust} {
		*v = sqlsum.Mul(*v, bounding)
	}
	return sqlsum.Div(weight, bounding)
}

// weightOf is the weight of a row in score and curvature, as newtonRows.weigh computes it.
func (f *newtonFit) weightOf(r *exprRow, l exprLosses) sqlsum.Expr {
	bound := sqlsum.Div(sqlsum.Bound(f.bound), r.length)
	score := sqlsum.Div(sqlsum.Bound(f.limit), sqlsum.Mul(r.length, l.most))
	curvature := sqlsum.Div(sqlsum.Square(bound), sqlsum.Max(l.model, sqlsum.Number(tiny)))
	least := sqlsum.Square(sqlsum.Number(tiny))
	return sqlsum.Max(sqlsum.Min(sqlsum.Number(1), sqlsum.Min(score, curvature)), least)
}

// straightenOf changes losses as straighten does, and returns the changed weight.
func (c huberCurve) straightenOf(r *exprRow, l *exprLosses, weight sqlsum.Expr, bound float64) sqlsum.Expr {
	delta := sqlsum.Bound(c.delta)
	beyond, steep := sqlsum.Div(sqlsum.Max(delta, sqlsum.Abs(r.e)), delta), sqlsum.Div(l.most, delta)
	line := sqlsum.Mul(sqlsum.Div(sqlsum.Square(sqlsum.Div(sqlsum.Bound(bound), r.length)), steep), beyond)
	curvature := sqlsum.Div(steep, beyond)
	l.model, l.robust = sqlsum.IfBelow(line, weight, curvature, l.model), sqlsum.IfBelow(line, weight, curvature, l.robust)
	return sqlsum.Min(line, weight)
}

// scoreVector is the contribution of addScore in step t, shell by shell.
func (f *newtonFit) scoreVector(t int, r *exprRow, l exprLosses, weight sqlsum.Expr) (v []sqlsum.Expr) {
	shells := f.shells(t)
	size := sqlsum.Mul(r.length, l.most)
	inner := sqlsum.Number(0)
	for k := range shells {
		outer := weight
		if k < shells-1 {
			outer = sqlsum.Min(weight, sqlsum.Div(sqlsum.Bound(f.limit*shellEdge(k, shells)), size))
		}
		unit := sqlsum.Number(1 / (f.limit * math.Sqrt(shellWidth(k, shells))))
		part := outer
		if k > 0 {
			part = sqlsum.Sub(outer, inner)
		}
		v = append(v, multiplied(r.z, sqlsum.Snap(sqlsum.Mul(sqlsum.Mul(part, l.score), unit), tiny))...)
		inner = outer
	}
	return v
}

// curvatureVector is the contribution of addCurvature.
func (f *newtonFit) curvatureVector(r *exprRow, curvature, weight sqlsum.Expr) []sqlsum.Expr {
	bound := sqlsum.Bound(f.bound)
	within := sqlsum.Min(sqlsum.Sqrt(sqlsum.Mul(weight, curvature)), sqlsum.Div(bound, r.length))
	return multiplied(r.z, sqlsum.Div(within, bound))
}
