package dpsco

import (
	"cmp"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Intervals of a Newton are for the coefficients at which the weighted score is zero in the population of
// rows: those of the model where it holds. They include sampling and all noise; everything here is
// post-processing.

// maxOpen is the largest standard deviation of the logarithm of a standard error, due to the noise of the
// curvature, and maxLastStep the largest length of the last step, relative to bend,
// for which intervals are given.
const (
	maxOpen     = 0.45
	maxLastStep = 0.5
)

// Weights shorten the scores of long rows, which moves the fit where the model does not hold. The removed
// part of scores, whose mean length is taken, is estimated from the outer shell of the score: missing is
// the ratio of taken to the mean length in the shell, and the shell's excess, off, is the shell less its
// share of the curvature times the score. The middle of an interval is moved by missPerShell times missing,
// at most maxFactor, times the excess. The standard error includes the variance of that move. shellTilt is
// the relative deviation of the shell's share of the curvature between directions.
//
// Intervals also allow for two biases. Where the model is certain not to hold, all of taken, which is larger
// along long residuals (largerAlong), may point along the outer shell's excess. And rows beyond the limit may differ from all
// others, so that a fraction of taken may point in any direction: partHidden where missing is at least heavyTail,
// falling to 0 at lightTail, and at least whereSeen times partHidden where the model is certain not to
// hold. The fraction is at least partBeyond where the counts above the visible bins stand out by beyondFrom
// + 1 deviations of their noise (labels: beyondFromOfLabels + 1), falling to 0 at one deviation fewer: such
// rows exist, and their distance is not known. The threshold is lower for labels, since histograms of
// scores show fewer of the rows whose label is nearly certain. Counts have other fractions
// (newton_counts.go). The values gave the best results on laws and tables (newton.md).
const (
	missPerShell       = 1.5
	maxFactor          = 3
	shellTilt          = 0.3
	partHidden         = 0.15
	lightTail          = 0.2
	heavyTail          = 0.5
	whereSeen          = 0.5
	partBeyond         = 0.5
	beyondFrom         = 2
	beyondFromOfLabels = 1.5
)

// Assumptions about the rows that histograms may hide there: the expected number, and a cautious one.
var (
	expectedTail    = magnitude.TailAssumption{Deviations: 0, Steepest: 8}
	newtonScoreTail = magnitude.TailAssumption{Deviations: 1, Steepest: 8}
)

// errors writes standard errors and intervals, around the fit with a full last step, or why there are none.
func (f *newtonFit) errors(r *release.Result) {
	why := f.whyNoIntervals()
	if why != "" {
		r.Cut = f.Intervals && !f.free() // with a penalty Intervals is false
	} else {
		why = hide(r, f.a, f.shape.Intercept, f.floored, func() string { return f.whyUncertain(r) })
	}
	if f.grouped && f.floored > 0 {
		why = hiddenDirection // a feature that lies elsewhere in a group goes with the constant, whose error is its own then
	}
	if why != "" {
		withhold(r, f.orScales(why))
		return
	}
	c := f.influences(f.q)
	x := f.extrapolate()
	r.Covariance = f.covariance(c, x)
	var bias *mat.SymDense
	if bias, why = f.weighing(c, x); why != "" {
		withhold(r, f.orScales(cmp.Or(r.WhyNull, why)))
		return
	}
	r.Bias = bias
	if r.Unsettled = f.unsettled(r); r.Unsettled != nil {
		if r.WhyNull = cmp.Or(r.WhyNull, longLastStep); len(r.Unsettled) == f.shape.D {
			withhold(r, f.orScales(longLastStep))
			return
		}
	}
	middle := mat.NewVecDense(f.shape.D, nil)
	middle.MulVec(c, x.off)
	middle.AddScaledVec(mat.NewVecDense(f.shape.D, slices.Clone(f.centre)), x.factor, middle)
	open := f.open()
	for j := range f.shape.D {
		variance := r.Covariance.At(j, j)
		deviation, df := math.Sqrt(variance), f.degrees(variance, c.RawRowView(j), open[j])
		half := numeric.HalfWidth(deviation, df, math.Sqrt(bias.At(j, j)))
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, middle.AtVec(j)-half), append(r.High, middle.AtVec(j)+half)
	}
	withholdUnlessFinite(r)
}

// orScales is why a fit has no intervals: the reason found or, of counts whose rows are far too long for the scales, that.
func (f *newtonFit) orScales(why string) string {
	if f.farScales && f.Intervals && !f.small {
		return farFromScales
	}
	return why
}

// longRowsDecide is why counts have no intervals where a few rows, far from all others, determine the fit.
const longRowsDecide = "a few long rows, far from all others, may carry the coefficients"

// weighing returns the matrix of squared biases that intervals allow for, due to the weights of rows, or
// why there are no intervals of counts: a few long rows determine the fit, and the model is certain not to
// hold.
func (f *newtonFit) weighing(c *mat.Dense, x extrapolation) (bias *mat.SymDense, why string) {
	if f.Curve.counted() != nil && x.certain > 0 && f.indexOfCounts() < heavyIndex {
		return nil, longRowsDecide + logarithms
	}
	taken := f.taken(newtonScoreTail)
	shown, hidden := f.shownBias(c, taken, x), mat.NewSymDense(f.shape.D, nil)
	hidden.SymOuterK(square(f.pull(taken, f.missing(newtonScoreTail), x)+f.takenUnseen(newtonScoreTail)), c)
	shown.AddSym(shown, hidden)
	if f.perLength > 0 && f.shape.Intercept {
		shown.SymRankOne(shown, square(f.pullOfConstant(taken, x)), c.ColView(0))
	}
	return shown, ""
}

// pull bounds the length of the mean of the removed part of scores in any direction, besides the bias along
// the outer shell.
func (f *newtonFit) pull(taken, missing float64, x extrapolation) float64 {
	if f.perLength > 0 {
		return f.pullOfCounts(taken, x)
	}
	from := float64(beyondFrom)
	if f.ofLabels() {
		from = beyondFromOfLabels
	}
	part := partHidden * max(numeric.ClampBetween((missing-lightTail)/(heavyTail-lightTail), 0, 1), whereSeen*x.certain)
	return taken * max(part, partBeyond*numeric.ClampBetween(f.beyondSight()-from, 0, 1))
}

// beyondSight is the number of standard deviations by which the counts above the highest visible bin stand
// out of their noise, for scores and for row lengths of the first pass together.
func (f *newtonFit) beyondSight() float64 {
	return (f.scores.StandsOut() + f.firstLengths.StandsOut()) / math.Sqrt2
}

// tailIndex is the tail index of lengths, the mean of those of the histograms of scores and of lengths.
func (f *newtonFit) tailIndex() float64 {
	return (f.scores.Index(intervalTail) + f.lengths.Index(intervalTail)) / 2
}

// longLastStep is why there are no intervals where the fit before the last step is far from the minimum.
const longLastStep = "the last step is too long to say how much is left; ask for more eps, or give scales that fit"

// logarithms is advice for counts, whose mean is the exponential of a sum: it has no bound for a row a
// hundred times larger than most.
const logarithms = "; give the logarithm of a feature that is an amount or a size"

// whyLongStep is longLastStep, for counts with advice.
func (f *newtonFit) whyLongStep() string {
	if f.Curve.counted() != nil {
		return longLastStep + logarithms
	}
	return longLastStep
}

// Why there are no intervals where noise masks the rows of a label: it is rare, or not a value of the target
// (0 where the target has 1 and 2), or features foretell nearly every label, which leaves few surprising rows, or weights are small.
const (
	hiddenLabel   = "noise hides the rows of a label: it is too rare for this budget, or no value of the target, or the features tell the labels nearly apart; ask for more eps, or name the labels that the target has"
	hiddenWeights = "noise hides the rows of a label: it is rare, or weights are far below max_weight; ask for more eps, or give a max_weight that fits"
)

// whyNoIntervals says why the releases allow no intervals of any coefficient; empty if they do, except for
// hidden directions.
func (f *newtonFit) whyNoIntervals() string {
	switch {
	case !f.Intervals:
		return cmp.Or(f.WhyNull, noErrors)
	case f.small:
		return smallGroup
	case f.tooLong:
		return farFromScales
	case !f.free():
		return cutByRadius
	case f.rareLabel && f.weights < 1:
		return hiddenWeights
	case f.rareLabel:
		return hiddenLabel
	}
	return ""
}

// whyUncertain says why the releases allow no intervals of the coefficients outside hidden directions;
// empty if they do.
func (f *newtonFit) whyUncertain(r *release.Result) string {
	open := 0.0
	for j, deviation := range f.open() {
		if !r.Hides(j) {
			open = max(open, deviation)
		}
	}
	switch {
	case !f.arrives, f.falls, floats.Norm(f.lastMove(), 2) > maxLastStep*f.bend()*math.Sqrt(f.mean), math.Abs(f.stretched-1) > maxStretch:
		return f.whyLongStep()
	case open >= maxOpen:
		return "noise leaves the curvature too uncertain; ask for more eps, or leave out rare or nearly redundant features"
	case !f.scoresAreKnown:
		return "noise hides how long rows are; ask for more eps, or give scales that fit"
	}
	return ""
}

// lastMove is the last step in whitened coordinates.
func (f *newtonFit) lastMove() []float64 {
	move := append([]float64(nil), f.centre...)
	floats.Sub(move, f.w)
	return linalg.SolveTriangular(f.a, move)
}

// influences is the matrix from the last score to the coefficients, a row for each: P H^-1 where q whitens
// H.
func (f *newtonFit) influences(q *mat.Dense) *mat.Dense {
	c := mat.NewDense(f.shape.D, f.shape.D, nil)
	c.Mul(f.p, q)
	c.Mul(c, q.T())
	return c
}

// variance is the covariance of the estimates with the given influences, due to sampling, to the noise of
// the last score, extrapolated as x says, and to the noise of the curvature.
func (f *newtonFit) variance(c *mat.Dense, x extrapolation) *mat.SymDense {
	spread := f.spread(x)
	// Noise E of the curvature moves the estimates by C E (QD), where D is the last step and what extrapolation adds to it.
	moved := f.lastMove()
	if x.factor != 0 {
		off := mat.NewVecDense(f.shape.D, nil)
		off.MulVec(f.q.T(), x.off)
		floats.AddScaled(moved, x.factor, off.RawVector().Data)
	}
	qd := mat.NewVecDense(f.shape.D, linalg.Times(f.q, moved))
	scale := square(f.hDeviation) / 2
	for j := range f.shape.D {
		spread.SetSym(j, j, spread.At(j, j)+scale*mat.Dot(qd, qd))
	}
	spread.SymRankOne(spread, scale, qd)
	return linalg.Sandwich(c, spread)
}

// covariance is variance plus the squares of the error that one Newton step may leave, which is a bound in
// every direction.
func (f *newtonFit) covariance(c *mat.Dense, x extrapolation) *mat.SymDense {
	d, move, total := f.shape.D, f.lastMove(), f.variance(c, x)
	var left mat.SymDense
	left.SymOuterK(square(floats.Dot(move, move)/2/f.bend())/f.mean, f.a)
	total.AddSym(total, &left)
	total.SymRankOne(total, square(f.stretched-1), mat.NewVecDense(d, f.centre))
	for j, alone := range f.leftAlone() {
		total.SetSym(j, j, total.At(j, j)+square(alone))
	}
	return total
}

// degrees are the degrees of freedom of the variance of an estimate with the given influence, from the
// noise of the meat and of the curvature (Satterthwaite): two over the variance of the logarithm of the
// variance. open is the part of the curvature, as the standard deviation of the logarithm of the standard
// error.
func (f *newtonFit) degrees(variance float64, influence []float64, open float64) float64 {
	meat := math.Sqrt2 * square(f.limit) * f.meatNoise.NoiseMultiplier / f.n * floats.Dot(influence, influence) / f.n
	return max(1, 2/(square(meat/variance)+square(2*open)))
}

// spread is the covariance of the last score, extrapolated as x says, due to sampling and noise.
func (f *newtonFit) spread(x extrapolation) *mat.SymDense {
	spread := linalg.PositivePart(f.meat)
	spread.ScaleSym(x.sampling/f.n, spread)
	for j := range f.shape.D {
		spread.SetSym(j, j, spread.At(j, j)+x.noise*square(f.gDeviation)+x.step)
	}
	return spread
}

// open is the standard deviation, for each coefficient, of the logarithm of the standard error due to the
// noise of the curvature, to first order: an error E of the curvature H changes the variance u'Su by
// -2 u'E (H^-1 Su).
func (f *newtonFit) open() (deviations []float64) {
	c, spread := f.influences(f.q), f.spread(asReleased)
	for j := range f.shape.D {
		u, su := c.RowView(j), mat.NewVecDense(f.shape.D, nil)
		su.MulVec(spread, u)
		w, q := mat.NewVecDense(f.shape.D, nil), mat.NewVecDense(f.shape.D, nil)
		q.MulVec(f.q.T(), su)
		w.MulVec(f.q, q)
		moved := square(f.hDeviation) / 2 * (mat.Dot(u, u)*mat.Dot(w, w) + square(mat.Dot(u, w)))
		deviations = append(deviations, math.Sqrt(moved)/mat.Dot(u, su))
	}
	return deviations
}
