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
	mostOpen     = 0.45
	mostLastStep = 0.5
)

// Long rows weigh less in the fit, which moves it where the model does not hold. So the middle
// of an interval is moved by what the outer shell of the score says of the scores that weights take
// away: missPerShell times what is missing beside what is in the shell, mostFactor times the shell
// at most. Its standard error holds what that adds. shellTilt is how much the shell's part of the
// curvature may differ between directions.
//
// Intervals allow for two biases besides, parts of all that weights take away. Where the model is certain not to hold,
// partAlong of it may pull as the outer shell says. And rows beyond the limit may be unlike all others: partHidden of it may
// pull in any direction, none of it where what is missing is below lightTail, all from heavyTail on, whereSeen of it at
// least where the model is certain not to hold; and partBeyond where rows beyond all that histograms show stand out by as many
// deviations of their noise as beyondFrom and one more, of labels beyondFromOfLabels: they are there, and nothing tells how far away.
// Histograms of scores show fewer of those whose label is nearly certain. Of counts both are other parts (newton_counts.go).
// The figures did best on laws and tables (newton.md).
const (
	missPerShell       = 1.5
	mostFactor         = 3
	shellTilt          = 0.3
	partAlong          = 0.7
	partHidden         = 0.2
	lightTail          = 0.2
	heavyTail          = 0.5
	whereSeen          = 0.5
	partBeyond         = 0.5
	beyondFrom         = 2
	beyondFromOfLabels = 1.5
)

// What histograms are taken to hide there: as expected, and with caution.
var (
	expected   = cautious{deviations: 0, steepest: 8}
	scoresHide = cautious{deviations: 1, steepest: 8}
)

// errors writes what the releases say of the errors of the coefficients, around the fit
// with a full last step.
func (f *newtonFit) errors(r *Result) {
	why := f.whyNoIntervals()
	if why != "" {
		r.Cut = f.Intervals && !f.free() // a penalty has none
	} else {
		why = r.hide(f.a, f.shape.Intercept, f.floored, func() string { return f.whyUncertain(r) })
	}
	if why != "" {
		r.withhold(why)
		return
	}
	c := f.influences(f.q)
	x := f.extrapolate()
	r.Covariance = f.covariance(c, x)
	var bias *mat.SymDense
	bias, why = f.weighing(c, x)
	if f.stillFar(r) {
		why = f.whyLongStep()
	}
	if why != "" {
		r.withhold(cmp.Or(r.WhyNull, why))
		return
	}
	r.Bias = bias
	middle := mat.NewVecDense(f.shape.D, nil)
	middle.MulVec(c, x.off)
	middle.AddScaledVec(mat.NewVecDense(f.shape.D, slices.Clone(f.centre)), x.factor, middle)
	open := f.open()
	for j := range f.shape.D {
		variance := r.Covariance.At(j, j)
		deviation, df := math.Sqrt(variance), f.degrees(variance, c.RawRowView(j), open[j])
		half := halfWidth(deviation, df, math.Sqrt(bias.At(j, j)))
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, middle.AtVec(j)-half), append(r.High, middle.AtVec(j)+half)
	}
	if slices.ContainsFunc(slices.Concat(r.StdErr, r.DF, r.Low, r.High), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		r.withhold("the noise leaves no numbers")
	}
}

// weighing is the square of what intervals allow for the weights of rows, or why these
// may have moved a fit of counts too far: a few long rows carry it, and the model is certain not to hold.
func (f *newtonFit) weighing(c *mat.Dense, x extrapolation) (bias *mat.SymDense, why string) {
	if f.Curve.counted() != nil && x.certain > 0 && f.indexOfCounts() < heavyIndex {
		return nil, fewLongRows + logarithms
	}
	taken := f.taken(scoresHide)
	shown, hidden := f.shownBias(c, taken, x), mat.NewSymDense(f.shape.D, nil)
	hidden.SymOuterK(square(f.pull(taken, f.missing(scoresHide), x)+f.takenUnseen(scoresHide)), c)
	shown.AddSym(shown, hidden)
	if f.perLength > 0 && f.shape.Intercept {
		shown.SymRankOne(shown, square(f.pullOfConstant(taken, x)), c.ColView(0))
	}
	return shown, ""
}

// pull is how long the mean of scores that weights take away may be in any direction, besides what shells show.
func (f *newtonFit) pull(taken, missing float64, x extrapolation) float64 {
	if f.perLength > 0 {
		return f.pullOfCounts(taken, x)
	}
	from := float64(beyondFrom)
	if f.ofLabels() {
		from = beyondFromOfLabels
	}
	part := partHidden * max(clampBetween((missing-lightTail)/(heavyTail-lightTail), 0, 1), whereSeen*x.certain)
	return taken * max(part, partBeyond*clampBetween(f.beyondSight()-from, 0, 1))
}

// beyondSight is by how many deviations of their noise the counts above all that histograms show stand out, together:
// that of scores, and that of lengths of rows in the first pass.
func (f *newtonFit) beyondSight() float64 {
	return (f.scores.standsOut() + f.firstLengths.standsOut()) / math.Sqrt2
}

// tailIndex is the exponent of the tail of lengths: the mean of what scores and curvatures
// show of it.
func (f *newtonFit) tailIndex() float64 {
	return (f.scores.index(intervalsHide) + f.lengths.index(intervalsHide)) / 2
}

// longLastStep is why there are none where the step before the last did not come near.
const longLastStep = "the last step is too long to say how much is left; ask for more eps, or give scales that fit"

// logarithms is what helps counts, whose mean is the exponential of a sum: a row a hundred times larger than most has one beyond all bounds.
const logarithms = "; give the logarithm of a feature that is an amount or a size"

// whyLongStep is longLastStep, of counts with what helps them.
func (f *newtonFit) whyLongStep() string {
	if f.Curve.counted() != nil {
		return longLastStep + logarithms
	}
	return longLastStep
}

// Why there are none where noise hides the rows of a label: it is rare, is none of the target's, as 0 where that has 1 and 2, or rows weigh little.
const (
	hiddenLabel   = "one label is so rare that noise hides its rows, or it is no value of the target; ask for more eps, or name the labels that the target has"
	hiddenWeights = "noise hides the rows of a label: it is rare, or weights are far below max_weight; ask for more eps, or give a max_weight that fits"
)

// whyNoIntervals says why the releases do not carry intervals; empty if they do, but for directions that are hidden.
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

// whyUncertain says why the releases do not carry intervals of coefficients that nothing hides.
func (f *newtonFit) whyUncertain(r *Result) string {
	open := 0.0
	for j, deviation := range f.open() {
		if !r.hides(j) {
			open = max(open, deviation)
		}
	}
	switch {
	case !f.arrives, floats.Norm(f.lastMove(), 2) > mostLastStep*f.Curve.reach()*math.Sqrt(f.mean), math.Abs(f.stretched-1) > mostStretch:
		return f.whyLongStep()
	case open >= mostOpen:
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

// variance is the covariance of the estimates with the given influences: of sampling, of the noise
// of the last score, moved as x says, and of the curvature.
func (f *newtonFit) variance(c *mat.Dense, x extrapolation) *mat.SymDense {
	spread := f.spread(x)
	// What the noise E of the curvature moves: C E (QD).
	qd := mat.NewVecDense(f.shape.D, times(f.q, f.lastMove()))
	scale := square(f.hDeviation) / 2
	for j := range f.shape.D {
		spread.SetSym(j, j, spread.At(j, j)+scale*mat.Dot(qd, qd))
	}
	spread.SymRankOne(spread, scale, qd)
	return sandwich(c, spread)
}

// covariance is their variance, and what one Newton step may leave, which is a bound in every direction.
func (f *newtonFit) covariance(c *mat.Dense, x extrapolation) *mat.SymDense {
	d, move, total := f.shape.D, f.lastMove(), f.variance(c, x)
	var left mat.SymDense
	left.SymOuterK(square(floats.Dot(move, move)/2/f.Curve.reach())/f.mean, f.a)
	total.AddSym(total, &left)
	total.SymRankOne(total, square(f.stretched-1), mat.NewVecDense(d, f.centre))
	for j, alone := range f.leftAlone() {
		total.SetSym(j, j, total.At(j, j)+square(alone))
	}
	return total
}

// degrees are the degrees of freedom that the noise of the meat and of the curvature leaves a
// variance of the estimate with a given influence (Satterthwaite): two over the square of what
// noise makes of the logarithm of the variance. open is that of the curvature's, of the standard error.
func (f *newtonFit) degrees(variance float64, influence []float64, open float64) float64 {
	meat := math.Sqrt2 * square(f.limit) * f.meatNoise.NoiseMultiplier / f.n * floats.Dot(influence, influence) / f.n
	return max(1, 2/(square(meat/variance)+square(2*open)))
}

// spread is the covariance of the last score moved as x says: of sampling and of its noise.
func (f *newtonFit) spread(x extrapolation) *mat.SymDense {
	spread := positivePart(f.meat)
	spread.ScaleSym(x.sampling/f.n, spread)
	for j := range f.shape.D {
		spread.SetSym(j, j, spread.At(j, j)+x.noise*square(f.gDeviation)+x.step)
	}
	return spread
}

// open is how much the noise of the curvature moves the standard error of each coefficient, as
// the deviation of its logarithm, to first order: an error E of the curvature H changes the
// variance u'Su by -2 u'E (H^-1 Su).
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
