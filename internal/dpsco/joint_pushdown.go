package dpsco

import (
	"slices"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

// The passes of a JointMoments over rows that stay in a database. The contributions are those of
// joint_rows.go, and the database brings each Vector into its contract once more.

// pilotVector returns a row's contribution to the joint moments, as addPilot computes it.
func (r *exprRow) pilotVector(bound, cut float64) []sqlsum.Expr {
	inverse := sqlsum.Div(sqlsum.Number(1), sqlsum.Max(r.length, sqlsum.Bound(bound)))
	last := sqlsum.Mul(sqlsum.Mul(inverse, sqlsum.Number(bound*residualWeight/cut)), sqlsum.Clamp(r.e, cut))
	return append(multiplied(r.z, inverse), last)
}

// queryPilot runs pilot pass t in the database.
func (f *jointFit) queryPilot(t int, x *table.Pushdown) jointPilot {
	f.wide = mat.DenseCopyOf(f.p)
	r := newExprRow(x, f.p, f.w, f.shape.Intercept)
	r.scaleByWeight()
	p := sqlsum.Pass{
		Moments: []sqlsum.Vector{momentVector(r.pilotVector(f.bound, f.cut), f.pilotContract())},
		Counts:  []sqlsum.Bins{sizesOf(squareIn(r.e, f.Scale)), sizesOf(r.square)},
	}
	if t == pilotPasses-1 {
		p.Counts = append(p.Counts, sizesOf(sqlsum.Mul(squareIn(r.e, f.Scale), r.square)))
	}
	totals := x.Query(p)
	seen := jointPilot{
		moments:   summedMoments(f.pilotContract(), totals.Moments[0]),
		residuals: counted(f.shape.N, totals.Counts[0]), lengths: counted(f.shape.N, totals.Counts[1]),
	}
	if t == pilotPasses-1 {
		seen.products = counted(f.shape.N, totals.Counts[2])
	}
	return seen
}

// minStep is a lower bound for a row's weight in the step, to stay within the range that package
// sqlsum proves.
const minStep = 0x1p-40

// stepWeight returns a row's weight in the step, as computed by weigh; f.wide are the coordinates of
// the last pilot pass.
func (f *jointFit) stepWeight(x *table.Pushdown) sqlsum.Expr {
	before := newExprRow(x, f.wide, f.w, f.shape.Intercept)
	before.scaleByWeight()
	shortened := sqlsum.Div(sqlsum.Bound(f.bound), sqlsum.Max(before.length, sqlsum.Bound(f.bound)))
	kept := sqlsum.Square(sqlsum.Max(shortened, sqlsum.Number(minStep)))
	return sqlsum.Max(sqlsum.Add(kept, sqlsum.Mul(sqlsum.Number(f.restored), sqlsum.Sub(sqlsum.Number(1), kept))), sqlsum.Number(minStep))
}

// parts returns v cut at the inner length, and the rest up to the outer one, each in its unit.
func (c cuts) parts(v sqlsum.Expr) (inner, rest sqlsum.Expr) {
	unit, unitRest := c.units()
	inner = sqlsum.Clamp(v, c.inner)
	rest = sqlsum.Sub(sqlsum.Clamp(v, c.outer), inner)
	return sqlsum.Mul(inner, sqlsum.Number(1/unit)), sqlsum.Mul(rest, sqlsum.Number(1/unitRest))
}

// queryStep runs the pass of the step in the database.
func (f *jointFit) queryStep(x *table.Pushdown) jointStep {
	r := newExprRow(x, f.stepCoordinates(), f.w, f.shape.Intercept)
	r.scaleByWeight()
	direction := r.direction()
	size := sqlsum.Mul(sqlsum.Mul(f.stepWeight(x), r.e), r.length)
	inner, rest := f.stepCuts.parts(size)
	p := sqlsum.Pass{Sums: []sqlsum.Vector{sumVector(slices.Concat(multiplied(direction, inner), multiplied(direction, rest)), f.stepContract())}}
	intercept := sqlsum.Mul(r.e, r.root)
	if f.shape.Intercept {
		inner, rest := f.interceptCuts.parts(intercept)
		p.Sums = append(p.Sums, sumVector([]sqlsum.Expr{inner, rest}, f.interceptContract()))
	}
	if f.Meat {
		meat := multiplied(direction, sqlsum.Mul(sqlsum.Clamp(size, f.stepCuts.outer), sqlsum.Number(1/f.stepCuts.outer)))
		if f.shape.Intercept {
			meat = append(meat, sqlsum.Mul(sqlsum.Clamp(intercept, f.interceptCuts.outer), sqlsum.Number(1/f.interceptCuts.outer)))
		}
		p.Moments = append(p.Moments, momentVector(meat, f.meatContract()))
	}
	totals := x.Query(p)
	seen := jointStep{step: summed(f.stepContract(), totals.Sums[0])}
	if f.shape.Intercept {
		seen.intercept = summed(f.interceptContract(), totals.Sums[1])
	}
	if f.Meat {
		seen.meat = summedMoments(f.meatContract(), totals.Moments[0])
	}
	return seen
}
