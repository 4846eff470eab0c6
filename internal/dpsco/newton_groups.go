package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// firstGroupStep is the step of a Newton from which on each group has its own fit. The passes before it
// find coordinates and a start for all groups.
const firstGroupStep = 1

// split gives each group a fit that starts from the one of all rows.
func (a *newtonParts) split(src *mech.Source) {
	all := a.fits[0]
	sizes := a.groups.split(a.groupNoise, all.w, all.p, src)
	a.fits = nil
	for _, size := range sizes {
		a.fits = append(a.fits, all.ofGroup(size))
	}
	if a.Curve.counted() != nil {
		a.countTargets(all.Curve.counted().seen, src)
	}
}

// countTargets releases the histogram of targets of each group and chooses each group's clipping threshold.
// common is the histogram of all rows; nil if it was not visible.
func (a *newtonParts) countTargets(common *magnitude.Histogram, src *mech.Source) {
	counts := make([]*mech.Histogram, len(a.fits))
	for g, f := range a.fits {
		targets := magnitudeCounts(a.shape.N)
		scan(a.parts[g], f.p, f.w, func() func(int, *rowBlock) {
			t, rows := targets.Fork(), newNewtonRows()
			return func(_ int, r *rowBlock) {
				rows.rowBlock = r
				r.count(t, rows.target)
			}
		})
		counts[g] = targets.Merged()
	}
	for g, noisy := range releaseCounts(counts, a.targetNoise, src) {
		f := a.fits[g]
		if common != nil {
			f.Curve = f.knowing(common.OfGroup(noisy, f.targetNoise.NoiseMultiplier*math.Sqrt2, f.n), f.n)
		}
	}
}

// ofGroup returns a copy of the fit for a group.
func (f *newtonFit) ofGroup(size groupSize) *newtonFit {
	g, own := *f, *f.newtonReleases // copies, since Curve may be replaced
	g.newtonReleases = &own
	g.n, g.perRow, g.small, g.grouped = size.rows, f.n/size.rows, size.small, true
	g.p, g.w = mat.DenseCopyOf(f.p), slices.Clone(f.w)
	g.indices = slices.Clone(f.indices)
	return &g
}

// shrinkCurvature moves the curvature of a group toward the most likely multiple of the previous step's
// curvature; for a group's first step that is the curvature of all rows.
func (f *newtonFit) shrinkCurvature() {
	along, size := 0.0, 0.0
	for i := range f.shape.D {
		for j := range f.shape.D {
			along += f.h.At(i, j) * f.before.At(i, j)
			size += square(f.before.At(i, j))
		}
	}
	var likely mat.SymDense
	least := numeric.ClampBetween(seenMultiple*f.hDeviation/math.Sqrt(size), minMultiple, 1)
	likely.ScaleSym(numeric.ClampBetween(along/size, least, 1/minMultiple), f.before)
	f.hNoise, f.hDeviation = shrinkToward(f.h, &likely, f.hDeviation)
}

// minMultiple is the smallest multiple of the previous step's curvature that is considered, and
// 1/minMultiple the largest; the curvature of counts is proportional to their mean. A multiple below
// seenMultiple deviations of its noise is raised to that.
const (
	minMultiple  = 0.02
	seenMultiple = 3
)

// Limits of the correction of a group's mean count. levelDoubts is the number of standard deviations of u
// (see toLevel) that count as noise, surestLevel the largest absolute u that is used (2 is infinitely far),
// farthestLevel the largest move at once, in logarithms, and nearLevel the largest absolute u at which the
// last step is corrected.
const (
	levelDoubts   = 2
	surestLevel   = 1.9
	farthestLevel = 3
	nearLevel     = 0.5
)

// toLevel moves a group of counts to its mean. A Newton step is linear and of bounded length, so that a
// group whose mean is several times smaller or larger than the fit of all rows predicts would not arrive in
// the remaining steps. The sums of counts y and of means m are known, however, from the score, y - m, and
// the curvature, (m + y)/2, along the constant: u is twice the ratio of difference to sum, and the
// logarithm of y/m is 2 atanh(u/2). With u less its noise, the constant moves by that logarithm where this
// is a longer move than the step's, in the same direction.
func (f *newtonFit) toLevel(w []float64) []float64 {
	if !f.seesLevel() {
		return w
	}
	constant, curvature, along := f.p.At(0, 0), f.h.At(0, 0), f.along(w)
	u := constant * f.g.AtVec(0) / curvature
	doubt := math.Hypot(constant*f.gDeviation, u*f.hNoise) / curvature
	known := numeric.ClampBetween(math.Abs(u)-levelDoubts*doubt, 0, surestLevel)
	level := math.Copysign(min(farthestLevel, 2*math.Atanh(known/2)), u)
	if level*along < 0 || math.Abs(level) <= math.Abs(along) {
		return w
	}
	return f.raised(w, level-along)
}

// toLastLevel is toLevel for the last step, whose curvature is the sum of means m, so that u is y/m - 1.
// Where u is larger than nearLevel in size, slopes are off as well and the constant compensates for them,
// so that the fit is left as it is.
func (f *newtonFit) toLastLevel(w []float64) []float64 {
	if !f.seesLevel() {
		return w
	}
	u := f.along(w)
	if math.Abs(u) > nearLevel {
		return w
	}
	return f.raised(w, math.Log1p(u)-u)
}

// seesLevel reports whether the fit is that of a group of counts, with a curvature along the constant.
func (f *newtonFit) seesLevel() bool {
	return f.grouped && f.Curve.counted() != nil && f.shape.Intercept && f.h.At(0, 0) > levelDoubts*f.hNoise
}

// along is the mean change of predictions, weighted by curvature, in a step to w.
func (f *newtonFit) along(w []float64) (sum float64) {
	step := append([]float64(nil), w...)
	floats.Sub(step, f.w)
	for j, v := range linalg.SolveTriangular(f.p, step) {
		sum += f.p.At(0, 0) * f.h.At(0, j) * v / f.h.At(0, 0)
	}
	return sum
}

// raised returns w with by added to the constant, to which no penalty applies, or w if the ball would be
// active then.
func (f *newtonFit) raised(w []float64, by float64) []float64 {
	moved := append([]float64(nil), w...)
	if moved[0] += by; f.inBall(moved) {
		return moved
	}
	return w
}

// finish returns the fit of all rows, or the pooled fits of groups.
func (a *newtonParts) finish() release.Result {
	if a.common == nil {
		return a.fits[0].finish()
	}
	var results []release.Result
	var estimates []estimate
	for _, f := range a.fits {
		r := f.finish()
		results, estimates = append(results, r), append(estimates, f.estimate(r))
	}
	return a.pooled(results, estimates, a.Pool, a.Psi)
}

// estimate returns the group's estimate and its covariance for pooling. The estimate is unshrunk where no
// penalty moves the fit. If the meat was not released, the curvature replaces it: they are equal where the
// model holds. The error that one Newton step may leave is not included: it is a bound rather than a
// variance, and with it a group far from the others would count as unknown.
func (f *newtonFit) estimate(r release.Result) estimate {
	e := estimate{w: f.centre}
	if !f.free() {
		e.w = r.Coefficients
	}
	if f.meat == nil {
		f.meat = f.h
	}
	e.covariance = f.variance(f.influences(f.q), asReleased)
	return e
}
