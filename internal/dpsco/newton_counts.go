package dpsco

import (
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Weights of counts go with what bounds a score, the largest count that the cut lets pass, and that
// is many times as large as most scores. Histograms of scores show little of what weights take away there.
// So limits and intervals of counts go by the lengths of rows times the roots of their curvatures, and by how many
// times as large as these the bounds are: perLength.

// noiseBesideSampling is how large the deviation of the last score's noise may be, beside that of sampling, to
// spare counts from weights.
const noiseBesideSampling = 0.75

// boundsOf says, by the step that was made, what bounds a count's score over the length of its row times the
// root of its curvature, and which part of the curvature weights kept: by such bounds they keep of the squares of
// lengths what is left of them in the curvature.
func (f *newtonFit) boundsOf(lengths *magnitudes) (perLength, kept float64) {
	least := math.Sqrt(f.Curve.size() / 2) // of max(u, C - u) / sqrt(u)
	all := lengths.said() * lengths.excessSquare(0)
	keeps := func(perLength float64) float64 {
		return lengths.said() / all * lengths.mean(func(v float64) float64 { return v * v * min(1, f.limit/(perLength*v), square(f.bound/v)) })
	}
	kept = clampBetween(mat.Trace(f.h)/all, keeps(mostPerLength*least), keeps(least))
	return bisect(least, mostPerLength*least, func(v float64) bool { return keeps(v) > kept }), kept
}

const mostPerLength = 1000

// cheapLimit is how large a limit of counts may be at little cost: noise of deviation 2 limit z is small
// beside the sampling of rows, or no row weighs less.
func (f *newtonFit) cheapLimit(z float64) float64 {
	return min(noiseBesideSampling/(2*z*math.Sqrt(f.n)), f.perLength*f.unweighted()*f.lengths.edge())
}

// unweighted takes lengths to the coordinates of the step, as rescale does, but as if all rows had
// weighed as much in what tells how long they are together.
func (f *newtonFit) unweighted() float64 { return f.rescale / math.Sqrt(f.kept) }

// sizes are those of scores, or of what bounds them where that is known, and the limit above which weights
// shorten them, in the same units.
func (f *newtonFit) sizes() (sizes *magnitudes, limit float64) {
	if f.perLength > 0 {
		return f.lengths, f.limit / f.perLength / f.unweighted()
	}
	return f.scores, f.limit / f.rescaleScores
}

// evenly is what weights keep of all rows alike, which moves no fit: of counts their mean, which may
// be much less than 1.
func (f *newtonFit) evenly() float64 { return f.keptOfSquares(math.Inf(1)) }

// penaltyKept is the same for a penalty. The few rows of a rare flag have as much of all squares of lengths as any
// coefficient, and what weights take from them moves no other: so squares count up to mostAlike times their mean.
func (f *newtonFit) penaltyKept() float64 { return f.keptOfSquares(mostAlike) }

const mostAlike = 12

// keptOfSquares is the part of squares of lengths, up to so many times their mean, that weights keep.
func (f *newtonFit) keptOfSquares(most float64) float64 {
	if f.perLength == 0 {
		return 1
	}
	sizes, limit := f.sizes()
	mean := sizes.excessSquare(0)
	squares := func(u float64) float64 { return min(u*u, most*mean) }
	return sizes.mean(func(u float64) float64 { return squares(u) * min(1, limit/u) }) / sizes.mean(squares)
}

// Where weights shorten nearly all rows of counts, both shells hold the same of each and say nothing of
// misfit. It may then be anything up to a part of what weights take away, which goes from that of light
// tails, lightPull, to heavyPull between these indices of the tail of lengths, and is larger by what overdispersion says where the
// model is seen not to hold. Where shells do say something, it is at most
// countsPerShell times what is missing of what is shown, over the contrast that is left. What shells show is taken for
// once more, or less, of them than the middle takes: countsDoubt.
// There are no intervals where lengths have an index below heavyIndex and the model is certain not to hold.
const (
	countsPerShell = 6
	countsDoubt    = 1
	lightIndex     = 2.9
	heavyIndex     = 2.4
	lightPull      = 0.2
	heavyPull      = 1.5
	leastContrast  = 1e-9
)

// indexOfPass is the exponent of the tail of lengths in the pass that was made. Rows of a rare flag, and where counts are rare those that have
// one, are a group far from the others, about equally long: their noise is no sign of a tail where the first pass, in scale
// units, shows no such group and a light tail.
func (f *newtonFit) indexOfPass() float64 {
	if first := f.firstLengths; first.bulk() != first || first.index(intervalsHide) < lightIndex {
		return f.tailIndex()
	}
	return (f.scores.bulk().index(intervalsHide) + f.lengths.bulk().index(intervalsHide)) / 2
}

// indexOfCounts is the exponent of the tail of lengths, the mean of what passes show of it: noise hides a
// heavy tail in two passes less often than in one.
func (f *newtonFit) indexOfCounts() float64 { return stat.Mean(f.indices, nil) }

// overdispersion is by how much squares of scores are larger than the model would have them, as a part of
// that, as far as noise does not explain it: the meat beside what the curvature would be if its weights were squared too.
func (f *newtonFit) overdispersion() float64 {
	model := f.evenly() * max(mat.Trace(f.h), leastCurvature)
	noise := math.Sqrt2 * square(f.limit) * f.meatNoise.NoiseMultiplier / f.n * math.Sqrt(f.d)
	over := mat.Trace(f.meat) - model
	if over <= noise {
		return 0
	}
	return (over - noise*noise/over) / model
}

// pullOfCounts is how long the mean of scores that weights take away may be.
func (f *newtonFit) pullOfCounts(taken float64, x extrapolation) float64 {
	heavy := clampBetween((lightIndex-f.indexOfCounts())/(lightIndex-heavyIndex), 0, 1)
	part := lightPull + (heavyPull-lightPull)*heavy + x.misfit*math.Sqrt(f.overdispersion())
	return min(part*taken/math.Sqrt(f.d), x.most)
}

// pullOfConstant is how long it may be along the constant besides: a mean that bends up or down at both ends of a feature
// gives all scores that are taken away one sign, and shells need not show it. The mean square of misfit is part of
// the overdispersion.
func (f *newtonFit) pullOfConstant(taken float64, x extrapolation) float64 {
	return min(math.Sqrt(f.overdispersion())*taken/math.Sqrt(f.d), x.most)
}

// shownByCounts are what extrapolations use of a shell with a part of the curvature.
func (f *newtonFit) shownByCounts(off *mat.VecDense, curvature float64) (factor, most float64) {
	factor = min(mostFactor, countsPerShell*f.missing(expected)*max(0, 1-2*curvature))
	return factor, countsPerShell * f.missing(scoresHide) * mat.Norm(off, 2) / max(1-2.5*curvature, leastContrast)
}
