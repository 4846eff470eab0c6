package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// The weight of a row of counts depends on the bound max(u, C - u) of its score, where u is its mean and C
// the largest count after clipping. That bound is many times as large as most scores, so that histograms of
// scores show little of the part of scores that weights remove. Limits and intervals of counts are
// therefore computed from row lengths times the square root of their curvatures, and from perLength, the
// typical ratio of a score's bound to that product.

// noiseBesideSampling is the ratio of the standard deviation of the last score's noise to that of sampling
// up to which the limit of counts is raised to avoid weights below 1.
const noiseBesideSampling = 0.75

// boundsOf returns, for the step just made, perLength and kept. kept is the share of the curvature that
// weights kept: the trace of the released curvature over the sum of squared lengths. perLength is the ratio
// of the bound on a count's score to the row's length times the root of its curvature, chosen such that
// weights with that bound keep the share kept of the squared lengths.
func (f *newtonFit) boundsOf(lengths *magnitude.Histogram) (perLength, kept float64) {
	least := math.Sqrt(f.common * f.Curve.size() / 2) // least value of max(u, C - u) / sqrt(u), times the root of the weight
	all := lengths.Usable() * lengths.ExcessSquare(0)
	keeps := func(perLength float64) float64 {
		return lengths.Usable() / all * lengths.Mean(func(v float64) float64 { return v * v * min(1, f.limit/(perLength*v), square(f.bound/v)) })
	}
	kept = numeric.ClampBetween(mat.Trace(f.h)/f.own/all, keeps(maxPerLength*least), keeps(least))
	return numeric.Bisect(least, maxPerLength*least, func(v float64) bool { return keeps(v) > kept }), kept
}

// maxPerLength is the largest perLength considered, as a multiple of its least value.
const maxPerLength = 1000

// cheapLimit returns a limit for counts that costs little accuracy: the one at which noise, of deviation
// 2 limit z, has noiseBesideSampling of the deviation of sampling or, if less, the one at which no visible
// row has a weight below 1.
func (f *newtonFit) cheapLimit(z float64) float64 {
	return min(noiseBesideSampling*math.Sqrt(f.weights/f.n)/(2*z), f.perLength*f.unweighted()*f.lengths.Edge())
}

// unweighted is the factor from lengths to the coordinates of the step, as rescale is, if all rows had had
// weight 1 in the curvature that rescale was computed from.
func (f *newtonFit) unweighted() float64 { return f.rescale / math.Sqrt(f.kept) }

// sizes returns the histogram of scores, or of row lengths if perLength is known, and the limit above which
// weights shorten scores, in the units of that histogram.
func (f *newtonFit) sizes() (sizes *magnitude.Histogram, limit float64) {
	if f.perLength > 0 {
		return f.lengths, f.limit / f.perLength / f.unweighted()
	}
	return f.scores, f.limit / f.rescaleScores
}

// evenly is the mean weight of rows by squared length: the factor that scores and curvature have in common,
// which leaves the fixed point unchanged. For counts it may be far below 1, otherwise it is 1.
func (f *newtonFit) evenly() float64 { return f.keptOfSquares(math.Inf(1)) }

// penaltyKept is the mean weight by which a penalty is multiplied. The few rows of a rare flag make up as
// large a share of all squared lengths as any other coefficient, but their weights affect no other
// coefficient. Each square therefore counts as at most maxAlike times the mean square.
func (f *newtonFit) penaltyKept() float64 { return f.keptOfSquares(maxAlike) }

// maxAlike is the largest square of a length in penaltyKept, as a multiple of the mean square.
const maxAlike = 12

// keptOfSquares is the mean weight of rows by squared length, where a square counts as at most most times
// the mean square. It is 1 if perLength is not known.
func (f *newtonFit) keptOfSquares(most float64) float64 {
	if f.perLength == 0 {
		return 1
	}
	sizes, limit := f.sizes()
	mean := sizes.ExcessSquare(0)
	squares := func(u float64) float64 { return min(u*u, most*mean) }
	return sizes.Mean(func(u float64) float64 { return squares(u) * min(1, limit/u) }) / sizes.Mean(squares)
}

// Bias allowances of counts (the terms are defined in newton_intervals.go). Where weights shorten nearly
// all rows, both shells contain the same part of every score and do not reveal misfit. The bias may then be
// as large as a fraction of the removed part of scores. That fraction goes from lightPull, at tail indices
// of lengths of lightIndex and above, to heavyPull at heavyIndex and below, and is larger by the root of
// the overdispersion where the model is seen not to hold. Where the shells differ, the bias is at most
// countsPerShell times the missing ratio, times the shell's excess, over the remaining contrast between
// shells (at least minContrast). The factor by which the middle of an interval extrapolates the shell may
// be too large or too small by countsDoubt. There are no intervals if the index of lengths is below
// heavyIndex and the model is certain not to hold.
const (
	countsPerShell = 6
	countsDoubt    = 1
	lightIndex     = 2.9
	heavyIndex     = 2.4
	lightPull      = 0.2
	heavyPull      = 1.5
	minContrast    = 1e-9
)

// indexOfPass is the tail index (Pareto exponent) of lengths in the pass just made. The rows of a rare
// flag, and where counts are rare the rows with a count above 0, form a separate group of about equally
// long rows. Such a group is no tail, and is left out, if the first pass, in scale units, shows no such
// group and a light tail.
func (f *newtonFit) indexOfPass() float64 {
	if first := f.firstLengths; first.Bulk() != first || first.Index(intervalTail) < lightIndex {
		return f.tailIndex()
	}
	return (f.scores.Bulk().Index(intervalTail) + f.lengths.Bulk().Index(intervalTail)) / 2
}

// indexOfCounts is the tail index of lengths, averaged over the passes: noise is less likely to mask a
// heavy tail in two passes than in one.
func (f *newtonFit) indexOfCounts() float64 { return stat.Mean(f.indices, nil) }

// overdispersion is the excess of the mean squared score over its value under the model, less the part that noise
// explains, relative to the trace of the curvature with its weights squared. The value under the model is that trace
// over the scale by which counts were divided.
func (f *newtonFit) overdispersion() float64 {
	model := f.evenly() * max(mat.Trace(f.h), minCurvature)
	noise := math.Sqrt2 * square(f.limit) * f.meatNoise.NoiseMultiplier / f.n * math.Sqrt(f.d)
	over := mat.Trace(f.meat) - model/f.Curve.counted().scale
	if over <= noise {
		return 0
	}
	return (over - noise*noise/over) / model
}

// pullOfCounts bounds the length of the mean of the removed part of scores.
func (f *newtonFit) pullOfCounts(taken float64, x extrapolation) float64 {
	heavy := numeric.ClampBetween((lightIndex-f.indexOfCounts())/(lightIndex-heavyIndex), 0, 1)
	part := lightPull + (heavyPull-lightPull)*heavy + x.misfit*math.Sqrt(f.overdispersion())
	return min(part*taken/math.Sqrt(f.d), x.most)
}

// pullOfConstant bounds the additional length of that mean along the constant. Where the mean of counts
// bends the same way at both ends of a feature, all removed scores have the same sign, and the shells need
// not show it. The mean square of the misfit is part of the overdispersion.
func (f *newtonFit) pullOfConstant(taken float64, x extrapolation) float64 {
	return min(math.Sqrt(f.overdispersion())*taken/math.Sqrt(f.d), x.most)
}

// shownByCounts returns, for the shell's excess off and the shell's share of the curvature, the factor of
// the extrapolation and the largest length of the bias.
func (f *newtonFit) shownByCounts(off *mat.VecDense, curvature float64) (factor, most float64) {
	factor = min(maxFactor, countsPerShell*f.missing(expectedTail)*max(0, 1-2*curvature))
	return factor, countsPerShell * f.missing(newtonScoreTail) * mat.Norm(off, 2) / max(1-2.5*curvature, minContrast)
}
