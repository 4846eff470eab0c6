package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// firstGroupPass is the first pilot pass in which each group has a fit of its own. The passes before
// it compute a common whitening and a common start.
const firstGroupPass = pilotPasses - 1

// split gives each group a fit that starts from the common one, with bounds chosen for its released size.
func (a *jointParts) split(src *mech.Source) {
	all := a.fits[0]
	sizes := a.groups.split(a.groupNoise, all.w, all.p, src)
	a.fits = nil
	for g, part := range a.parts {
		a.fits = append(a.fits, all.ofGroup(len(part.Y), sizes[g]))
	}
}

// ofGroup returns a copy of the fit for a group. rows is the true number of its rows, which is private.
func (f *jointFit) ofGroup(rows int, size groupSize) *jointFit {
	g := *f
	g.n, g.perRow, g.small, g.grouped = size.rows, f.n/size.rows, size.small, true
	g.larger *= g.n / f.n
	g.p, g.w, g.spreads = mat.DenseCopyOf(f.p), slices.Clone(f.w), f.spreadsOfColumns()
	g.subgradient = slices.Clone(f.subgradient)
	g.shortened = make([]float64, rows)
	g.nextCuts(firstGroupPass - 1)
	return &g
}

// spreadsOfColumns returns the deviation of each column around its mean, where whitened rows P'x have second moment 1: the
// columns are (P^-1)' times them, of which the first is the constant if there is one.
func (f *jointFit) spreadsOfColumns() []float64 {
	var inverse mat.Dense
	_ = inverse.Inverse(f.p) // an error only reports bad conditioning
	spreads := make([]float64, f.shape.D)
	for j := range spreads {
		spreads[j] = floats.Norm(mat.Col(nil, j, &inverse)[f.first():], 2)
	}
	return spreads
}

// byFeatures returns the matrix from the last coordinates to coefficients, those of a group times the spread of their column
// over all rows: of a direction that varies little in a group the features are those that vary less there than elsewhere.
func (f *jointFit) byFeatures() *mat.Dense {
	if f.spreads == nil {
		return f.p
	}
	a := mat.DenseCopyOf(f.p)
	for j, spread := range f.spreads {
		floats.Scale(spread, a.RawRowView(j))
	}
	return a
}

// shrinkMoments shrinks the second moments of a group toward those of all rows, the identity in
// these coordinates. It returns the standard deviation of the noise that is left in them.
func (f *jointFit) shrinkMoments() (noise float64) {
	one := mat.NewSymDense(f.shape.D, nil)
	for i := range f.shape.D {
		one.SetSym(i, i, 1)
	}
	noise, f.hDeviation = shrinkToward(f.h, one, f.hDeviation)
	return noise
}

// shrunkBy multiplies the pilot step of a group by max(0, 1 - 2 d deviation^2 / |step|^2), the
// positive-part James-Stein rule with twice the noise: the last step is cut, and could not bring
// back a group that noise has moved far away.
func shrunkBy(step []float64, deviation float64) []float64 {
	size := max(floats.Dot(step, step), math.SmallestNonzeroFloat64)
	floats.Scale(max(0, 1-2*float64(len(step))*square(deviation)/size), step)
	return step
}

// finish returns the fit of all rows, or the fits of the groups, pooled if asked.
func (a *jointParts) finish() release.Result {
	if a.common == nil {
		return a.fits[0].finish()
	}
	var results []release.Result
	var estimates []estimate
	for _, f := range a.fits {
		results, estimates = append(results, f.finish()), append(estimates, f.estimate())
	}
	return a.pooled(results, estimates, a.Pool, a.Psi)
}

// estimate returns the estimate from the rows of a group, for pooling: its step keeps the part between its cuts only as
// far as noise does not explain it, as without groups. The sampling variance is that of residuals independent of
// the features; that of the meat, and the middle of the interval, have too much noise for small groups.
func (f *jointFit) estimate() estimate {
	e := estimate{w: f.coefficients(f.correction(f.kept, nil), f.interceptMeans.kept)}
	move := linalg.Times(f.q, f.correction(f.kept, nil))
	variance := square(f.kept.deviation) + f.residuals.ExcessSquare(0)/f.n + square(f.hDeviation)*floats.Dot(move, move)
	spread := mat.DenseCopyOf(f.p)
	e.covariance = mat.NewSymDense(f.shape.D, nil)
	if f.shape.Intercept {
		spread.SetCol(0, make([]float64, f.shape.D)) // the intercept's step replaces the constant's coordinate
		e.covariance.SetSym(0, 0, square(f.interceptMeans.kept.deviation*f.interceptScale)+f.residuals.ExcessSquare(0)/f.n)
	}
	var slopes mat.SymDense
	slopes.SymOuterK(variance, spread)
	e.covariance.AddSym(e.covariance, &slopes)
	return e
}
