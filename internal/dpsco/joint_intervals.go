package dpsco

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Intervals of a JointMoments are about the coefficients of least squares in the
// population that rows are drawn from. They hold sampling, all noise, and a bound
// on what the cuts may hide; everything here is post-processing.

// intervalsOfJointMoments is the information without which there are no intervals, but for groups. With many coefficients that of scores decides, by which
// histograms tell rows that are far from all others: noise of second moments makes intervals wider, and covers none less.
var intervalsOfJointMoments = information{score: 0.0013, few: lowMoments}

// What intervals take histograms to hide: of products and residuals, for the bias of cuts, and of lengths, for second moments.
var (
	intervalsHide = cautious{deviations: 0.75, steepest: 2.5}
	tailsHide     = cautious{deviations: intervalsHide.deviations, steepest: cutsHide.steepest}
)

// Which share of the bound on the bias goes into one direction, the tail of lengths from which on rows that may be hidden add to it, and by how
// many deviations of their noise rows beyond all that histograms show stand out where they are surely there.
const (
	biasShare        = 0.5
	leastLengthIndex = 3
	surelyBeyond     = 3
)

// lowInformation is why there are none by public facts.
const lowInformation = "low information: too few rows for this budget and so many coefficients"

// whyNoIntervals says why the releases do not carry intervals; empty if they do, but for directions that are hidden.
func (f *jointFit) whyNoIntervals() string {
	switch {
	case !f.Intervals:
		return cmp.Or(f.WhyNull, noErrors)
	case f.small:
		return smallGroup
	case f.tooLong:
		return farFromScales
	}
	return ""
}

// whyUncertain says why they do not, besides directions that are hidden.
func (f *jointFit) whyUncertain() string {
	switch {
	case math.IsInf(f.hiddenSquare(), 1), f.spreadStandsOut() > surelySpread, f.standsOut/math.Sqrt(pilotPasses+1) > surelyBeyond:
		return fewLongRows + "; ask dp_huber_regress, or with more eps"
	}
	return ""
}

// spreadStandsOut is what counts beyond the bins that tails are taken to hide in show, of residuals and products together.
func (f *jointFit) spreadStandsOut() float64 {
	return (f.residuals.spreadStandsOut() + f.products.spreadStandsOut()) / math.Sqrt2
}

// surelySpread is from where on noise does not explain that: it alone shows more in two of a thousand fits.
const surelySpread = 4

// fewLongRows is why there are none where rows certainly lie beyond all that histograms show, and nothing tells how far.
const fewLongRows = "a few long rows, far from all others, may carry the coefficients"

// hiddenDirections is of how many directions few rows say anything: noise hides them, or rows that say something about them
// were shortened to so little that the step was made for others.
func (f *jointFit) hiddenDirections() int { return max(f.floored, f.short) }

// hiddenSquare is how large a second moment rows may have that the histogram of lengths hides, in the last coordinates: 0
// where the tail that is seen is light, with few rows or many. A group far from all others, as rows of a rare flag are, has no light tail.
func (f *jointFit) hiddenSquare() float64 {
	if f.lengths.index(tailsHide) >= leastLengthIndex {
		return 0
	}
	rows, exponent := f.lengths.hidden(tailsHide)
	if exponent <= 2 {
		return math.Inf(1)
	}
	return rows / f.n * square(f.lengths.edge()) * exponent / (exponent - 2) / max(f.least, shortenedEigenvalue)
}

// stepInfluences says how the correction enters the coefficients: a row for each, with the
// weights of its coordinates.
func (f *jointFit) stepInfluences() *mat.Dense {
	a := mat.DenseCopyOf(f.p)
	if f.shape.Intercept {
		for j := range f.shape.D {
			a.Set(j, 0, 0) // the level takes the constant's place
		}
	}
	return a
}

// influences says how the releases of the last pass enter the coefficients: those of the
// correction and, with an intercept, the weight of the level.
func (f *jointFit) influences() *mat.Dense {
	d := f.shape.D
	a := mat.NewDense(d, f.meat.SymmetricDim(), nil)
	a.Slice(0, d, 0, d).(*mat.Dense).Copy(f.stepInfluences())
	if f.shape.Intercept {
		a.Set(0, d, f.levelScale)
	}
	return a
}

// errors writes what the releases say of the errors of the coefficients, around what
// they would be without shrinkage.
func (f *jointFit) errors(r *Result) {
	why := f.whyNoIntervals()
	switch {
	case why == "":
		why = r.hide(f.p, f.shape.Intercept, f.hiddenDirections(), f.whyUncertain)
	case why == lowInformation && f.floored > 0:
		if hidden := hiddenFeatures(f.p, f.shape.Intercept, 1); len(hidden) == 1 {
			why, r.Hidden = hiddenDirection, hidden // as of a year without a center: that helps more than a few more rows
		}
	}
	if why != "" {
		r.withhold(why)
		return
	}
	centre, influences, steps := f.coefficients(f.correction(f.outer, nil), f.levels.outer), f.influences(), f.stepAllowance()
	shown := f.shownBias(influences)
	r.Covariance, r.Bias = f.covariance(influences), f.bias(influences)
	r.Bias.SymRankOne(r.Bias, 1, mat.NewVecDense(len(shown), shown))
	for j := range f.shape.D {
		a, level := influences.RawRowView(j)[:f.shape.D], 0.0
		if f.shape.Intercept {
			level = influences.At(j, f.shape.D)
		}
		bias := max(floats.Norm(a, 2)*steps+math.Abs(level)*f.levelAllowance(), math.Abs(shown[j]))
		deviation, df := math.Sqrt(r.Covariance.At(j, j)), f.degrees(r.Covariance.At(j, j), influences.RowView(j))
		half := halfWidth(deviation, df, bias)
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, centre[j]-half), append(r.High, centre[j]+half)
	}
	if slices.ContainsFunc(slices.Concat(r.StdErr, r.DF, r.Low, r.High), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		r.withhold("the noise leaves no numbers")
	}
}

// stepAllowance is for the bias of the step, of 1 in any direction: what its outer cut takes away, and what rows that
// the histogram hides would add to the second moments by which the correction was made.
func (f *jointFit) stepAllowance() float64 {
	cut := biasShare * f.products.tail(f.stepCuts.outer, intervalsHide)
	return cut + f.hiddenSquare()*floats.Norm(f.correction(f.outer, nil), 2)
}

// shownParts is how many times what lies between the cuts of the step, and what is beyond them in proportion, may pull a
// coefficient; shownFrom is by how many deviations of its noise it has to stand out, mostBeyond the largest proportion.
const (
	shownParts = 2
	shownFrom  = 2
	mostBeyond = 3
)

// shownBias is by how much each coefficient may be off along what lies between the cuts of the step, as far as neither its noise nor
// skewed errors explain it, which show in the level as well: where effects are bent, rows beyond the outer cut are likely to go on so.
func (f *jointFit) shownBias(influences *mat.Dense) []float64 {
	level := 0.0
	if f.shape.Intercept {
		level = f.levels.between.mean[0]
	}
	beyond := f.products.tail(f.stepCuts.outer, intervalsHide)
	between := f.products.tail(f.stepCuts.inner, cutsHide) - f.products.tail(f.stepCuts.outer, cutsHide)
	shown := make([]float64, f.shape.D)
	if !(between > 0) {
		return shown
	}
	factor := shownParts * (1 + min(beyond/between, mostBeyond))
	for j := range shown {
		a := influences.RawRowView(j)[:f.shape.D]
		along := floats.Dot(a[f.first():], f.cutMeans.between.mean[f.first():])
		unexplained := square(along) - (square(shownFrom*f.cutMeans.between.deviation)+square(level))*floats.Dot(a, a)
		shown[j] = math.Copysign(factor*math.Sqrt(max(0, unexplained)), along)
	}
	return shown
}

// levelAllowance is that for the bias of the level.
func (f *jointFit) levelAllowance() float64 {
	return biasShare * f.residuals.tail(f.levelCuts.outer, intervalsHide)
}

// covariance is that of the estimates with the given influences: of sampling, of the noise
// of the last pass, and of the noise in the second moments by which the correction was
// made. Noise may leave the first a negative eigenvalue, which is raised to zero.
func (f *jointFit) covariance(influences *mat.Dense) *mat.SymDense {
	d := f.shape.D
	sampling, noise := mat.NewSymDense(f.meat.SymmetricDim(), nil), make([]float64, f.meat.SymmetricDim())
	units := f.units()
	for i, u := range units {
		for k, v := range units[i:] {
			sampling.SetSym(i, i+k, u*v*f.meat.At(i, i+k)/f.n)
		}
	}
	for i := range d {
		noise[i] = square(f.outer.deviation)
	}
	if f.shape.Intercept {
		noise[d] = square(f.levels.outer.deviation)
		sampling.SetSym(d, d, max(0, sampling.At(d, d)-square(f.levels.outer.mean[0])/f.n))
	}
	sampling = positivePart(sampling)
	for i, v := range noise {
		sampling.SetSym(i, i, sampling.At(i, i)+v)
	}
	total := sandwich(influences, sampling)
	total.AddSym(total, f.momentNoiseOf(influences.Slice(0, d, 0, d), f.correction(f.outer, nil)))
	return total
}

// bias is that of Result: the allowance for a sum of estimates has a part that goes with
// the length of its influence on the steps and, with an intercept, one that goes with that
// on the level; (x + y)^2 <= 2 (x^2 + y^2).
func (f *jointFit) bias(influences *mat.Dense) *mat.SymDense {
	d := f.shape.D
	steps := square(f.stepAllowance())
	b := mat.NewSymDense(d, nil)
	if f.shape.Intercept {
		steps *= 2
		b.SetSym(0, 0, 2*square(f.levelScale*f.levelAllowance()))
	}
	var gram mat.SymDense
	gram.SymOuterK(steps, influences.Slice(0, d, 0, d))
	b.AddSym(b, &gram)
	return b
}

// units are the lengths at which a row was cut in each coordinate of the meat.
func (f *jointFit) units() []float64 {
	u := slices.Repeat([]float64{f.stepCuts.outer}, f.meat.SymmetricDim())
	if f.shape.Intercept {
		u[f.shape.D] = f.levelCuts.outer
	}
	return u
}

// degrees are the degrees of freedom that the noise of the meat leaves a variance of the
// estimate with a given influence (Satterthwaite).
func (f *jointFit) degrees(variance float64, influence mat.Vector) float64 {
	length := 0.0
	for i, u := range f.units() {
		length += square(u * influence.AtVec(i))
	}
	meat := f.meatNoise.NoiseMultiplier * math.Sqrt2 * square(f.meatContract().Bound) / f.n
	return max(1, 2*square(variance*f.n/(meat*length)))
}
