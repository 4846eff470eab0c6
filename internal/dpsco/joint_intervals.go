package dpsco

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Intervals of a JointMoments are about the coefficients of least squares in the
// population that rows are drawn from. They hold sampling, all noise, and a bound
// on what the cuts may hide; everything here is post-processing.

// The noise of second moments, as in momentNoise, above which there are no intervals.
const mostIntervalMoments = 0.006

// What intervals take a histogram to hide, which share of the bound on the bias goes
// into one direction, and the tails that are too heavy for either.
var intervalsHide = cautious{deviations: 0.75, steepest: 2.5}

const (
	biasShare         = 0.5
	leastProductIndex = 2.2
	leastLengthIndex  = 3
	mostExcess        = 1
)

// whyNoIntervals says why the releases do not carry intervals; empty if they do.
func (f *jointFit) whyNoIntervals() string {
	tails := cautious{deviations: intervalsHide.deviations, steepest: cutsHide.steepest}
	switch {
	case !f.Intervals:
		return cmp.Or(f.WhyNull, noErrors)
	case f.floored > 0:
		return "noise hides some direction of the features; ask for more eps, or leave out rare or nearly redundant features"
	case f.least < shortenedEigenvalue || f.lengths.excessSquare(f.bound) > mostExcess:
		return "long rows carry too much of the features' second moments"
	case f.lengths.index(tails) < leastLengthIndex:
		return "a few long rows may carry the coefficients"
	case f.products.index(tails) < leastProductIndex:
		return "a few rows with large residuals may carry the coefficients"
	}
	return ""
}

// influence is how the releases of the last pass enter coefficient j: weights of the coordinates of the
// correction, and of the level.
func (f *jointFit) influence(j int) (coordinates []float64, level float64) {
	coordinates = mat.Row(nil, j, f.p)
	if f.shape.Intercept {
		coordinates[0] = 0 // the level takes its place
		if j == 0 {
			level = f.levelScale
		}
	}
	return coordinates, level
}

// errors writes what the releases say of the errors of the coefficients, around what
// they would be without shrinkage.
func (f *jointFit) errors(r *Result) {
	if why := f.whyNoIntervals(); why != "" {
		r.withhold(why)
		return
	}
	centre := f.coefficients(f.correction(1))
	for j := range f.shape.D {
		a, level := f.influence(j)
		variance, df := f.variance(a, level)
		bias := biasShare * (floats.Norm(a, 2)*f.products.tail(f.stepCut, intervalsHide) + math.Abs(level)*f.residuals.tail(f.levelCut, intervalsHide))
		deviation := math.Sqrt(variance)
		half := halfWidth(deviation, df, bias)
		r.StdErr, r.DF = append(r.StdErr, deviation), append(r.DF, df)
		r.Low, r.High = append(r.Low, centre[j]-half), append(r.High, centre[j]+half)
	}
	if slices.ContainsFunc(slices.Concat(r.StdErr, r.DF, r.Low, r.High), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		r.withhold("the noise leaves no numbers")
	}
}

// variance is that of the estimate with the given weights of coordinates and level:
// of sampling, of the noise of the last pass, and of the noise in the second moments by
// which the correction was made. df are the degrees of freedom that the noise of
// the meat leaves.
func (f *jointFit) variance(a []float64, level float64) (variance, df float64) {
	reach := make([]float64, f.meat.SymmetricDim())
	for k, v := range a {
		reach[k] = v * f.stepCut
	}
	if f.shape.Intercept {
		reach[len(a)] = level * f.levelCut
	}
	v := mat.NewVecDense(len(reach), reach)
	sampling := mat.Inner(v, f.meat, v)
	if level != 0 {
		sampling -= square(f.level)
	}
	qa, qd := mat.NewVecDense(len(a), nil), mat.NewVecDense(len(a), nil)
	qa.MulVec(f.q, mat.NewVecDense(len(a), a))
	qd.MulVec(f.q, mat.NewVecDense(len(a), f.correction(1)))
	moments := square(f.hDeviation) / 2 * (mat.Dot(qa, qa)*mat.Dot(qd, qd) + square(mat.Dot(qa, qd)))
	variance = max(0, sampling)/f.n + floats.Dot(a, a)*square(f.deviation) + square(level*f.levelDeviation) + moments
	meat := f.meatNoise.NoiseMultiplier * math.Sqrt2 * square(f.meatContract().Bound) / f.n
	return variance, max(1, 2*square(variance*f.n/(meat*mat.Dot(v, v))))
}

// halfWidth is that of an interval that covers 95 % of estimates with a given
// standard deviation, known to some degrees of freedom, and off by bias at most.
func halfWidth(deviation, df, bias float64) float64 {
	student := distuv.StudentsT{Sigma: 1, Nu: min(df, 1e6)}
	return biasedQuantile(min(bias/deviation, 20)) * deviation * student.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975)
}

// biasedQuantile is what 95 % of |N(bias, 1)| lie below.
func biasedQuantile(bias float64) float64 {
	low, high := 1.9, bias+3
	for range 60 {
		middle := (low + high) / 2
		if distuv.UnitNormal.CDF(middle-bias)-distuv.UnitNormal.CDF(-middle-bias) < 0.95 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
