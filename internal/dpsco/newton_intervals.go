package dpsco

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Intervals of a Newton are about the coefficients that make the weighted score zero in the
// population that rows are drawn from: those of the model where it holds. They hold
// sampling and all noise; everything here is post-processing.

// What the noise of the curvature may make of a standard error, as the deviation of its
// logarithm, and how long the last step may be beside the reach of the curvature.
const (
	mostOpen     = 0.3
	mostLastStep = 0.5
)

// Long rows weigh less in the fit, which moves it where the model does not hold. Intervals
// allow for two biases. One is what the outer shell of the score shows and, by shownNoise
// deviations, what its noise hides there, times missPerShell times what weights take away beside
// what is in the shell; shellItself is added to that ratio. The other is hiddenBias times all
// that is taken away, for rows beyond the limit that are unlike all others: none of it
// where the ratio is below lightTail, all of it from heavyTail on.
// There are no intervals where both together are above mostBias standard errors, nor where all
// that is taken away might move a coefficient by mostHidden of them, the ratio is above
// leastInShell and the lengths' tail has an index below leastIndex. The figures did best on laws
// and three tables (newton.md).
const (
	missPerShell = 2.5
	shellItself  = 0.3
	shownNoise   = 0.7
	hiddenBias   = 0.3
	lightTail    = 0.3
	heavyTail    = 0.7
	mostBias     = 10
	mostHidden   = 10
	leastInShell = 0.7
	leastIndex   = 2.75
)

// leastIndexOfCounts is that of counts, whose lengths have the tail of the exponential of a
// prediction, also where the model holds.
const leastIndexOfCounts = 2.3

// scoresHide is what a histogram is taken to hide there.
var scoresHide = cautious{deviations: 1, steepest: 8}

// errors writes what the releases say of the errors of the coefficients, around the fit
// with a full last step.
func (f *newtonFit) errors(r *Result) {
	if why := f.whyNoIntervals(); why != "" {
		r.Cut = f.Intervals && !f.free() // a penalty has none
		r.withhold(why)
		return
	}
	c := f.influences(f.q)
	r.Covariance = f.covariance(c)
	bias, why := f.weighing(c, r.Covariance)
	if why != "" {
		r.withhold(why)
		return
	}
	r.Bias = bias
	for j := range f.shape.D {
		variance := r.Covariance.At(j, j)
		deviation, df := math.Sqrt(variance), f.degrees(variance, c.RawRowView(j))
		half := halfWidth(deviation, df, math.Sqrt(bias.At(j, j)))
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, f.centre[j]-half), append(r.High, f.centre[j]+half)
	}
	if slices.ContainsFunc(slices.Concat(r.StdErr, r.DF, r.Low, r.High), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		r.withhold("the noise leaves no numbers")
	}
}

// weighing is the square of what intervals allow for the weights of rows, or why these
// may have moved the fit too far.
func (f *newtonFit) weighing(c *mat.Dense, covariance *mat.SymDense) (bias *mat.SymDense, why string) {
	cut, missing := f.cut()
	shown, hidden := f.shownBias(c, missing), mat.NewSymDense(f.shape.D, nil)
	hidden.SymOuterK(square(hiddenBias*clampBetween((missing-lightTail)/(heavyTail-lightTail), 0, 1)*cut), c)
	for j := range f.shape.D {
		deviation := math.Sqrt(covariance.At(j, j))
		switch {
		case cut*floats.Norm(c.RawRowView(j), 2) > mostHidden*deviation && missing > leastInShell && f.heavy():
			return nil, "a few long rows may carry the coefficients"
		case math.Sqrt(shown.At(j, j))+math.Sqrt(hidden.At(j, j)) > mostBias*deviation:
			return nil, "long rows count less in the fit, and may have moved it too far for an interval; ask for more eps, or give scales that fit"
		}
	}
	shown.AddSym(shown, hidden)
	return shown, ""
}

// heavy reports whether lengths have a tail so heavy that what it hides cannot be bounded.
func (f *newtonFit) heavy() bool {
	if f.Curve.counted() != nil {
		return f.tailIndex() < leastIndexOfCounts
	}
	return f.tailIndex() < leastIndex
}

// tailIndex is the exponent of the tail of lengths: the mean of what scores and curvatures
// show of it.
func (f *newtonFit) tailIndex() float64 {
	return (f.scores.index(intervalsHide) + f.lengths.index(intervalsHide)) / 2
}

// whyNoIntervals says why the releases do not carry intervals; empty if they do.
func (f *newtonFit) whyNoIntervals() string {
	switch {
	case !f.Intervals:
		return cmp.Or(f.WhyNull, noErrors)
	case f.small:
		return smallGroup
	case !f.free():
		return cutByRadius
	case f.floored > 0:
		return hiddenDirection(f.a, f.shape.Intercept)
	case floats.Norm(f.lastMove(), 2) > mostLastStep*f.Curve.reach()*math.Sqrt(f.mean):
		return "the last step is too long to say how much is left; ask for more eps, or give scales that fit"
	case f.open() >= mostOpen:
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
	return solveTriangular(f.a, move)
}

// influences say how the last score enters the coefficients, a row for each: P H^-1 where
// q whitens H.
func (f *newtonFit) influences(q *mat.Dense) *mat.Dense {
	c := mat.NewDense(f.shape.D, f.shape.D, nil)
	c.Mul(f.p, q)
	c.Mul(c, q.T())
	return c
}

// covariance is that of the estimates with the given influences: of sampling, of the noise
// of the last score and of the curvature, and what one Newton step leaves.
func (f *newtonFit) covariance(c *mat.Dense) *mat.SymDense {
	d := f.shape.D
	move, spread := f.lastMove(), f.spread()
	// What the noise E of the curvature moves: C E (QD).
	qd := mat.NewVecDense(d, times(f.q, move))
	scale := square(f.hDeviation) / 2
	for j := range d {
		spread.SetSym(j, j, spread.At(j, j)+scale*mat.Dot(qd, qd))
	}
	spread.SymRankOne(spread, scale, qd)
	total := sandwich(c, spread)
	var left mat.SymDense
	left.SymOuterK(square(floats.Dot(move, move)/2/f.Curve.reach())/f.mean, f.a)
	total.AddSym(total, &left)
	return total
}

// degrees are the degrees of freedom that the noise of the meat leaves a variance of the
// estimate with a given influence (Satterthwaite).
func (f *newtonFit) degrees(variance float64, influence []float64) float64 {
	meat := math.Sqrt2 * square(f.limit) * f.meatNoise.NoiseMultiplier / f.n
	return max(1, 2*square(variance*f.n/(meat*floats.Dot(influence, influence))))
}

// spread is the covariance of the last score: of sampling and of its noise.
func (f *newtonFit) spread() *mat.SymDense {
	spread := positivePart(f.meat)
	spread.ScaleSym(1/f.n, spread)
	for j := range f.shape.D {
		spread.SetSym(j, j, spread.At(j, j)+square(f.gDeviation))
	}
	return spread
}

// open is how much the noise of the curvature moves the standard error of a coefficient, at
// most, as the deviation of its logarithm, to first order: an error E of the curvature H changes
// the variance u'Su by -2 u'E (H^-1 Su).
func (f *newtonFit) open() float64 {
	c, spread, most := f.influences(f.q), f.spread(), 0.0
	for j := range f.shape.D {
		u, su := c.RowView(j), mat.NewVecDense(f.shape.D, nil)
		su.MulVec(spread, u)
		w, q := mat.NewVecDense(f.shape.D, nil), mat.NewVecDense(f.shape.D, nil)
		q.MulVec(f.q.T(), su)
		w.MulVec(f.q, q)
		moved := square(f.hDeviation) / 2 * (mat.Dot(u, u)*mat.Dot(w, w) + square(mat.Dot(u, w)))
		most = max(most, math.Sqrt(moved)/mat.Dot(u, su))
	}
	return most
}
