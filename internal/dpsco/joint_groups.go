package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// firstGroupPass is the pilot pass of a JointMoments from which on each group has a fit of
// its own; those before whiten and find a start for all.
const firstGroupPass = pilotPasses - 1

// split releases the sizes of groups and gives each a fit that starts from the one of all
// rows, with the bounds that its size calls for.
func (a *jointParts) split(src *mech.Source) {
	x, all := a.parts[0], a.fits[0]
	released := releaseGroupSizes(x, a.groupNoise, src)
	sizes := sizesToUse(released, x.N, a.groupNoise)
	a.common = &commonFit{w: slices.Clone(all.w), p: mat.DenseCopyOf(all.p)}
	a.parts, a.fits = x.byGroup(), nil
	for g, part := range a.parts {
		a.common.shares = append(a.common.shares, clampBetween(released[g]/float64(x.N), 0, 1))
		a.fits = append(a.fits, all.ofGroup(part.N, sizes[g], released[g]))
	}
}

// commonFit is that of all rows, from which those of groups start.
type commonFit struct {
	w      []float64
	p      *mat.Dense
	shares []float64
}

// ofGroup is a copy of the fit for a group that has rows, which is not public, and is taken
// to have size of them.
func (f *jointFit) ofGroup(rows int, size, released float64) *jointFit {
	g := *f
	g.n, g.perRow, g.grouped = size, f.n/size, true
	g.small = released < leastKnownGroup*math.Sqrt2*f.groupNoise.NoiseMultiplier
	g.p, g.w = mat.DenseCopyOf(f.p), slices.Clone(f.w)
	g.subgradient = slices.Clone(f.subgradient)
	g.shortened = make([]float64, rows)
	g.nextCuts(firstGroupPass - 1)
	return &g
}

// leastKnownGroup is how many deviations of the noise on its size a group must have for
// intervals: they take the size for the number of its rows.
const leastKnownGroup = 10

// shrinkMoments moves the second moments of a group toward those of all rows, which are 1 in
// these coordinates, as far as noise explains that they differ. Their deviation becomes that
// of what they are estimates of; it returns that of the noise that is left in them.
func (f *jointFit) shrinkMoments() (noise float64) {
	expected, distance := square(f.hDeviation)*f.d*(f.d+1)/2, 0.0
	for i := range f.shape.D {
		for j := range f.shape.D {
			distance += square(f.h.At(i, j) - unitMatrix(i, j))
		}
	}
	keep := max(0, 1-expected/distance)
	for i := range f.shape.D {
		for j := i; j < f.shape.D; j++ {
			f.h.SetSym(i, j, unitMatrix(i, j)+keep*(f.h.At(i, j)-unitMatrix(i, j)))
		}
	}
	noise = keep * f.hDeviation
	f.hDeviation *= math.Sqrt(max(keep, min(1, 2/math.Sqrt(f.d*(f.d+1)))))
	return noise
}

func unitMatrix(i, j int) float64 {
	if i == j {
		return 1
	}
	return 0
}

// shrunkBy scales a step by what noise of a deviation on each coordinate leaves of it
// (James & Stein, positive part).
func shrunkBy(step []float64, deviation float64) []float64 {
	size := max(floats.Dot(step, step), math.SmallestNonzeroFloat64)
	floats.Scale(max(0, 1-float64(len(step))*square(deviation)/size), step)
	return step
}

// finish returns the fit of all rows, or those of groups, which are pooled if that was asked for.
func (a *jointParts) finish() Result {
	if a.common == nil {
		return a.fits[0].finish()
	}
	groups, estimates := make([]Group, len(a.fits)), make([]estimate, len(a.fits))
	for g, f := range a.fits {
		groups[g] = Group{a.common.shares[g], f.finish()}
		estimates[g] = f.estimate()
	}
	if a.Pool {
		for g, w := range pool(estimates, a.common.p, a.common.w) {
			groups[g].Coefficients = w
		}
	}
	return Result{Groups: groups}
}

// estimate is what the rows of a group say, without shrinkage. Where the meat was not
// released, their sampling is taken for that of rows that are independent of residuals, and
// what lies between both cuts for noise where noise explains it.
func (f *jointFit) estimate() estimate {
	if f.meat != nil {
		return estimate{w: f.coefficients(f.correction(f.outer, 1), f.outerLevel), covariance: f.covariance(f.influences())}
	}
	e := estimate{w: f.coefficients(f.correction(f.kept, 1), f.keptLevel)}
	move := times(f.q, f.correction(f.kept, 1))
	variance := square(f.kept.deviation) + f.residuals.excessSquare(0)/f.n + square(f.hDeviation)*floats.Dot(move, move)
	spread := mat.DenseCopyOf(f.p)
	e.covariance = mat.NewSymDense(f.shape.D, nil)
	if f.shape.Intercept {
		spread.SetCol(0, make([]float64, f.shape.D)) // the level takes the constant's place
		e.covariance.SetSym(0, 0, square(f.keptLevel.deviation*f.levelScale)+f.residuals.excessSquare(0)/f.n)
	}
	var slopes mat.SymDense
	slopes.SymOuterK(variance, spread)
	e.covariance.AddSym(e.covariance, &slopes)
	return e
}
