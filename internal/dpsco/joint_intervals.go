package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// The intervals of a JointMoments are for the coefficients of least squares in the population that
// rows are drawn from. They allow for sampling, for all noise, and for a bound on the bias from
// clipping at the cuts. Everything here is post-processing.

// meatOfJointMoments is the information with which the meat is released. With less, the meat is itself
// mostly noise, and its share of the budget costs accuracy for little.
var meatOfJointMoments = information{score: 0.0013, momentsAlone: lowMoments}

// The assumptions about hidden rows for intervals: intervalTail in the histograms of products and
// residuals, for the bias of cuts, and jointLengthTail in that of lengths, for second moments.
var (
	intervalTail    = magnitude.TailAssumption{Deviations: 0.75, Steepest: 2.5}
	jointLengthTail = magnitude.TailAssumption{Deviations: intervalTail.Deviations, Steepest: magnitude.CutTail.Steepest}
)

// biasShare is the share of the bound on the bias that is allowed for in any one direction,
// minLengthIndex the index of the tail of lengths below which hidden rows add to the allowance,
// surelyBeyond the number of standard deviations of noise from which counts above the visible bins
// certainly contain rows, surelyFarther the same of those above the first such bin (noise alone
// exceeds it in 2 of 100 fits), and distantIndex the index of the tail of products below which rows in
// that bin say enough: such a tail hardly falls.
const (
	biasShare      = 0.5
	minLengthIndex = 3
	surelyBeyond   = 3
	surelyFarther  = 2
	distantIndex   = 1.3
)

// whyNoIntervals returns the reason for withholding all intervals, whether or not directions are
// hidden; empty if there is none.
func (f *jointFit) whyNoIntervals() string {
	switch {
	case f.WhyNull != "":
		return f.WhyNull
	case f.small:
		return smallGroup
	case f.tooLong:
		return farFromScales
	case f.hidesSizes():
		return hiddenSizes
	}
	return ""
}

// hiddenSizes is the reason where cuts and the variance of sampling follow the scale of the target alone.
const hiddenSizes = "noise hides how large residuals are: do few rows have a value in every column, or are groups small? Ask for more eps"

// hidesSizes reports whether no bin of residuals is visible, so that they count as all usable and about as large as the
// scale, or none of products where residuals are too large for the cut that the scale gives.
func (f *jointFit) hidesSizes() bool {
	return !f.residuals.Seen() || !f.products.Seen() && math.Sqrt(f.residuals.ExcessSquare(0)*f.slopes) > f.stepCuts.outer
}

// whyUncertain returns a reason for withholding all intervals that does not concern hidden
// directions; empty if there is none.
func (f *jointFit) whyUncertain() string {
	if math.IsInf(f.hiddenSquare(), 1) || f.spreadStandsOut() > surelySpread || f.distantStandOut() {
		return distantRows
	}
	return ""
}

// distantStandOut reports whether the counts above the visible bins say that there are rows, and not only in the first bin there.
func (f *jointFit) distantStandOut() bool {
	return f.standsOut > surelyBeyond && (f.fartherStandsOut > surelyFarther || f.products.Index(intervalTail) < distantIndex)
}

// spreadStandsOut combines SpreadStandsOut of residuals and products.
func (f *jointFit) spreadStandsOut() float64 {
	return (f.residuals.SpreadStandsOut() + f.products.SpreadStandsOut()) / math.Sqrt2
}

// surelySpread is the value of spreadStandsOut above which noise does not explain it: noise alone
// exceeds it in 2 of 1,000 fits.
const surelySpread = 4

// distantRows is the reason where rows certainly lie beyond the visible bins, at an unknown distance, or where their
// tail is so heavy that no distance is out of the question.
const distantRows = "noise hides how far the longest rows, or the largest residuals, lie from all others, and they may carry the coefficients; ask dp_huber_regress, or with more eps"

// rareTarget is the reason where most targets are about 0 and noise hides how large the others are. Nothing
// then bounds what the fit misses: their tail may begin anywhere.
const rareTarget = "most targets are about 0, or about its center, beside the scale of the target, and noise hides how large the others are: coefficients may be far too small; ask for more eps, give the target a scale that fits or, by dp_logistic_regress, ask which rows have one"

// hiddenTargets is the largest number of rows that noise may hide up to the scale, as a share of the visible rows
// whose target is not about 0, for which their sizes count as known.
const hiddenTargets = 0.15

// hidesTargets reports whether most targets are about 0 and noise may hide larger ones, beside those that are
// visible, that do not continue the visible tail of residuals or products.
func (f *jointFit) hidesTargets() bool {
	hides := func(m *magnitude.Histogram) bool {
		rows, _ := m.Hidden(intervalTail)
		return m.Reached() && rows > hiddenTargets*f.larger
	}
	return f.mostlyZero && (hides(f.residuals) || hides(f.products))
}

// hiddenDirections returns the number of directions about which few rows carry information: noise
// hides them, or their rows were shortened so much that the step reflects other rows.
func (f *jointFit) hiddenDirections() int { return max(f.floored, f.shortenedCount) }

// hiddenSquare bounds the second moment, in the last coordinates, of rows that the histogram of
// lengths hides. It is 0 if the visible tail is light, however many rows there are. The tail is not
// light if there is a group of rows far from all others, such as those of a rare flag.
func (f *jointFit) hiddenSquare() float64 {
	if f.lengths.Index(jointLengthTail) >= minLengthIndex {
		return 0
	}
	rows, exponent := f.lengths.Hidden(jointLengthTail)
	if exponent <= 2 {
		return math.Inf(1)
	}
	return rows / f.n * square(f.lengths.Edge()) * exponent / (exponent - 2) / max(f.least, shortenedEigenvalue)
}

// stepInfluences returns the matrix that maps the correction to the coefficients, one row per coefficient.
func (f *jointFit) stepInfluences() *mat.Dense {
	a := mat.DenseCopyOf(f.p)
	if f.shape.Intercept {
		for j := range f.shape.D {
			a.Set(j, 0, 0) // the intercept's step replaces the constant's coordinate
		}
	}
	return a
}

// influences returns the matrix that maps the releases of the last pass to the coefficients: those
// of the correction and, with an intercept, the intercept's step.
func (f *jointFit) influences() *mat.Dense {
	d := f.shape.D
	a := mat.NewDense(d, f.meatContract().D, nil)
	a.Slice(0, d, 0, d).(*mat.Dense).Copy(f.stepInfluences())
	if f.shape.Intercept {
		a.Set(0, d, f.interceptScale)
	}
	return a
}

// errors writes the standard errors and intervals of the coefficients to r, or the reason why there
// are none. The intervals are centred at the fit without shrinkage, moved by extended.
func (f *jointFit) errors(r *release.Result) {
	why := f.whyNoIntervals()
	if why == "" {
		why = hide(r, f.byFeatures(), f.shape.Intercept, f.hiddenDirections(), f.whyUncertain)
	}
	if why != "" {
		withhold(r, why)
		return
	}
	r.RareTarget = f.hidesTargets()
	centre, influences, steps := f.coefficients(f.correction(f.extended(), nil), f.interceptMeans.outer), f.influences(), f.stepAllowance()
	shown := f.shownBias(influences, f.clippedMean())
	r.Covariance, r.Bias = f.covariance(influences), f.bias(influences)
	r.Bias.SymRankOne(r.Bias, 1, mat.NewVecDense(len(shown), shown))
	for j := range f.shape.D {
		a, intercept := influences.RawRowView(j)[:f.shape.D], 0.0
		if f.shape.Intercept {
			intercept = influences.At(j, f.shape.D)
		}
		bias := max(floats.Norm(a, 2)*steps+math.Abs(intercept)*f.interceptAllowance(), math.Abs(shown[j]))
		deviation, df := math.Sqrt(r.Covariance.At(j, j)), f.degrees(r.Covariance.At(j, j), influences.RowView(j))
		half := numeric.HalfWidth(deviation, df, bias)
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, centre[j]-half), append(r.High, centre[j]+half)
	}
	withholdUnlessFinite(r)
}

// heavyProducts is the index below which the tail of products beyond the visible bins is taken to fall no
// faster than within them.
const heavyProducts = 1.4

// stepAllowance bounds the bias of the step in any one direction: the part clipped at the outer cut,
// and the contribution of hidden rows to the second moments that multiply the correction.
func (f *jointFit) stepAllowance() float64 {
	return biasShare*f.clippedMean() + f.hiddenSquare()*floats.Norm(f.correction(f.outer, nil), 2)
}

// clippedMean bounds the length of the mean of what the outer cut takes.
func (f *jointFit) clippedMean() float64 {
	if f.products.Index(intervalTail) < heavyProducts {
		return f.products.PowerTail(f.stepCuts.outer, 1, intervalTail)
	}
	return f.products.Tail(f.stepCuts.outer, intervalTail)
}

// shownParts times the part between the cuts of the step, extrapolated beyond the outer one, bounds
// its effect on a coefficient; shownFrom is the number of standard deviations of noise that this
// part must exceed, and maxBeyond the largest ratio of the tail beyond the outer cut to the tail
// between the cuts.
const (
	shownParts = 2
	shownFrom  = 2
	maxBeyond  = 3
)

// beyondBetween is the ratio of the tail of products beyond the outer cut to the tail between the cuts, and whether
// the latter is visible.
func (f *jointFit) beyondBetween() (ratio float64, seen bool) {
	beyond := f.products.Tail(f.stepCuts.outer, intervalTail)
	between := f.products.Tail(f.stepCuts.inner, magnitude.CutTail) - f.products.Tail(f.stepCuts.outer, magnitude.CutTail)
	return min(beyond/between, maxBeyond), between > 0
}

// extended is the step cut at the outer length plus an estimate of what lies beyond: that goes on as the part
// between the cuts does, as far as noise does not explain that part. Where errors grow with a skewed feature, nearly
// all products beyond the cut have one sign.
func (f *jointFit) extended() noisyMean {
	ratio, seen := f.beyondBetween()
	if !seen {
		return f.outer
	}
	return f.stepCuts.extended(f.cutMeans, f.first(), f.cutMeans.keep*ratio)
}

// shownBias bounds the bias of each coefficient along the part of the step between its cuts: by that part, as far as
// neither its noise nor skewness of the errors explains it (skewness shows in the intercept's step as well), because
// rows beyond the outer cut are likely to deviate in the same direction where effects are not linear; and by all that
// is clipped, as far as noise does not explain the part.
func (f *jointFit) shownBias(influences *mat.Dense, clipped float64) []float64 {
	shown := make([]float64, f.shape.D)
	ratio, seen := f.beyondBetween()
	if !seen || f.slopes == 0 {
		return shown
	}
	intercept, between := 0.0, f.cutMeans.between
	if f.shape.Intercept {
		intercept = f.interceptMeans.between.mean[0]
	}
	clipped *= f.cutMeans.keep / max(floats.Norm(between.mean[f.first():], 2), math.SmallestNonzeroFloat64)
	for j := range shown {
		a := influences.RawRowView(j)[:f.shape.D]
		along := floats.Dot(a[f.first():], between.mean[f.first():])
		unexplained := square(along) - (square(shownFrom*between.deviation)+square(intercept))*floats.Dot(a, a)
		shown[j] = math.Copysign(max(shownParts*(1+ratio)*math.Sqrt(max(0, unexplained)), clipped*math.Abs(along)), along)
	}
	return shown
}

// interceptAllowance bounds the bias of the intercept's step from clipping at its outer cut. All of it is allowed for: the
// far residuals of targets that cannot be negative, such as costs, lie on one side, and so do those of a few rows
// that stand apart.
func (f *jointFit) interceptAllowance() float64 {
	cut := f.interceptCuts.outer
	return max(f.residuals.PowerTail(cut, 1, intervalTail), f.residuals.FarGroup(cut, intervalTail))
}

// covariance returns the covariance of the estimates with the given influences: the sum of those due
// to sampling, to the noise of the last pass, and to the noise of the second moments that multiply
// the correction.
func (f *jointFit) covariance(influences *mat.Dense) *mat.SymDense {
	d, noise, step := f.shape.D, make([]float64, f.meatContract().D), f.extended()
	for i := range d {
		noise[i] = square(step.deviation)
	}
	if f.shape.Intercept {
		noise[d] = square(f.interceptMeans.outer.deviation)
	}
	last := f.sampling()
	for i, v := range noise {
		last.SetSym(i, i, last.At(i, i)+v)
	}
	total := linalg.Sandwich(influences, last)
	total.AddSym(total, f.momentNoiseOf(influences.Slice(0, d, 0, d), f.correction(step, nil)))
	return total
}

// sampling returns the covariance that sampling gives the releases of the last pass: of the meat, of which noise may
// give it a negative eigenvalue, which is raised to zero; without it, that of residuals that are independent of the
// features, which the histogram shows.
func (f *jointFit) sampling() *mat.SymDense {
	d := f.shape.D
	sampling := mat.NewSymDense(f.meatContract().D, nil)
	if f.meat == nil {
		for i := range d {
			sampling.SetSym(i, i, f.residuals.ExcessSquare(0)/f.n)
		}
		if f.shape.Intercept {
			sampling.SetSym(d, d, f.residuals.Usable()*f.residuals.ExcessSquare(0)/f.n)
		}
		return sampling
	}
	units := f.units()
	for i, u := range units {
		for k, v := range units[i:] {
			sampling.SetSym(i, i+k, u*v*f.meat.At(i, i+k)/f.n)
		}
	}
	if f.shape.Intercept {
		sampling.SetSym(d, d, max(0, sampling.At(d, d)-square(f.interceptMeans.outer.mean[0])/f.n))
	}
	return linalg.PositivePart(sampling)
}

// bias returns Result.Bias. The allowance for a linear combination of estimates is x + y: x is
// proportional to the length of its influence on the step and, with an intercept, y to its influence
// on the intercept's step. Its square is bounded by 2 (x^2 + y^2).
func (f *jointFit) bias(influences *mat.Dense) *mat.SymDense {
	d := f.shape.D
	steps := square(f.stepAllowance())
	b := mat.NewSymDense(d, nil)
	if f.shape.Intercept {
		steps *= 2
		b.SetSym(0, 0, 2*square(f.interceptScale*f.interceptAllowance()))
	}
	var gram mat.SymDense
	gram.SymOuterK(steps, influences.Slice(0, d, 0, d))
	b.AddSym(b, &gram)
	return b
}

// units returns the outer cut of each coordinate of the meat.
func (f *jointFit) units() []float64 {
	u := slices.Repeat([]float64{f.stepCuts.outer}, f.meatContract().D)
	if f.shape.Intercept {
		u[f.shape.D] = f.interceptCuts.outer
	}
	return u
}

// degrees returns the degrees of freedom (Satterthwaite) of a variance whose meat has noise, for an
// estimate with the given influence; without a meat, as many as there may be.
func (f *jointFit) degrees(variance float64, influence mat.Vector) float64 {
	if f.meat == nil {
		return numeric.MaxDegrees
	}
	length := 0.0
	for i, u := range f.units() {
		length += square(u * influence.AtVec(i))
	}
	meat := f.meatNoise.NoiseMultiplier * math.Sqrt2 * square(f.meatContract().Bound) / f.n
	return max(1, 2*square(variance*f.n/(meat*length)))
}
