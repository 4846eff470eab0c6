package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"

	"gonum.org/v1/gonum/mat"
)

// The last score is released in shells: shell k of a row's score is the part of it between two limits, and
// the sum of the shells is the score. Shells show how scores differ with the lengths of rows. They cost
// nothing: a shell of width w, a fraction of the limit, is released in units of the root of w, so that the
// squares of a row's shells add up to at most the sum of the widths, which is 1. The noise of a shell has w
// of the variance of the score's noise, and shells have independent noises, which add up to that of a score
// released whole.

// scoreShells is the number of shells of the last score: up to half of the limit, and the rest.
const scoreShells = 2

// shells is the number of shells of the score of step t.
func (r *newtonReleases) shells(t int) int {
	if t == r.last() && r.Intervals {
		return scoreShells
	}
	return 1
}

// shellEdge is the upper edge of shell k, as a fraction of the limit; shellWidth is its width.
func shellEdge(k, shells int) float64 {
	if k < 0 {
		return 0
	}
	return math.Exp2(float64(k + 1 - shells))
}

func shellWidth(k, shells int) float64 { return shellEdge(k, shells) - shellEdge(k-1, shells) }

// inShell writes the factors of rows in shell k, in units of the limit and of the root of the width: the
// score times the part of the weight in the shell. Weights keep scores within the outermost edge.
func (r *newtonRows) inShell(v []float64, k, shells int, limit float64) {
	unit := limit * math.Sqrt(shellWidth(k, shells))
	lower, upper := limit*shellEdge(k-1, shells), limit*shellEdge(k, shells)
	if k == shells-1 {
		upper = math.Inf(1)
	}
	length, most, weight, score := r.length[:len(v)], r.most[:len(v)], r.weight[:len(v)], r.score[:len(v)]
	for i := range v {
		size, inner := length[i]*most[i], 0.0
		if lower > 0 {
			inner = min(weight[i], lower/size)
		}
		v[i] = (min(weight[i], upper/size) - inner) * score[i] / unit
	}
}

// extrapolation estimates the part of scores that weights remove as factor times the excess of the outer
// shell (terms: newton_intervals.go). All of it is released or public.
type extrapolation struct {
	off      *mat.VecDense // the excess: the shell less its share of the curvature times the score
	factor   float64
	most     float64 // counts: largest length of the mean of the removed part
	misfit   float64 // fraction of the square of off that neither noise nor sampling explains
	certain  float64 // the same fraction beyond the value that they exceed about once in twenty fits
	sampling float64 // sampling variance of the extrapolated score, over that of the score alone
	noise    float64 // the same ratio for noise
	step     float64 // variance of a coordinate due to the effect of a long step on the shell
	along    float64 // fraction of the score by which it may be off where the step's share of the shell is not that of the curvature
}

// asReleased is the extrapolation that leaves the score unchanged.
var asReleased = extrapolation{sampling: 1, noise: 1}

// extrapolate reads the outer shell. Where the model holds, the expected score is zero at every length of
// rows, except for the remaining step, which moves the shell by its share of the curvature.
func (f *newtonFit) extrapolate() extrapolation {
	outer := len(f.parts) - 1
	curvature := f.shellCurvature(outer)
	x := extrapolation{off: mat.NewVecDense(f.shape.D, nil), factor: min(maxFactor, missPerShell*f.missing(expectedTail))}
	x.off.AddScaledVec(f.parts[outer], -curvature, f.g)
	if f.perLength > 0 {
		x.factor, x.most = f.shownByCounts(x.off, curvature)
	} else if f.Curve.counted() == nil {
		x.along = x.factor * (f.shareAlong(f.parts[outer], curvature) - curvature)
	}
	rest := 1 - x.factor*curvature
	x.sampling, x.noise = f.shellSpread(outer, rest, x.factor), f.shellNoise(outer, rest, x.factor)
	step := square(shellTilt*curvature) * mat.Dot(f.g, f.g) / f.d
	x.step = square(x.factor) * step
	x.misfit, x.certain = misfit(x.off, f.spread(extrapolation{
		sampling: f.shellSpread(outer, -curvature, 1), noise: f.shellNoise(outer, -curvature, 1), step: step,
	}))
	return x
}

// restored returns the last score plus a fraction of the part that weights removed, as estimated from the
// outer shell, and the standard deviation of its noise. A fit uses it only to the extent that the model is
// certain not to hold, and with a factor smaller than that of an interval's middle, the more so the larger
// that factor is: rows beyond the limit may differ from those in the shell. The score is unchanged for
// counts, whose fit did not come closer to the best fit with it, and for groups, which pool the fit with a
// full last step.
func (f *newtonFit) restored() (score *mat.VecDense, deviation float64) {
	if len(f.parts) == 1 || !f.scoresAreKnown || f.grouped || f.Curve.counted() != nil {
		return f.g, f.gDeviation
	}
	x, outer := f.extrapolate(), len(f.parts)-1
	factor := x.certain * x.factor / (1 + x.factor)
	score = mat.NewVecDense(f.shape.D, nil)
	score.AddScaledVec(f.g, factor, x.off)
	return score, f.gDeviation * math.Sqrt(f.shellNoise(outer, 1-factor*f.shellCurvature(outer), factor))
}

// misfit returns the fraction of the squared length of v, in units of its covariance, in excess of the mean
// under that covariance, and in excess of the mean plus two standard deviations.
func misfit(v *mat.VecDense, covariance *mat.SymDense) (beyondMean, certain float64) {
	var c mat.Cholesky
	u := mat.NewVecDense(v.Len(), nil)
	if !c.Factorize(covariance) || c.SolveVecTo(u, v) != nil {
		return 1, 1
	}
	d, size := float64(v.Len()), mat.Dot(u, v)
	return max(0, 1-d/size), max(0, 1-(d+2*math.Sqrt(2*d))/size)
}

// shownBias is the matrix of squared biases that intervals allow for along the outer shell's excess, in
// addition to the move of the middle. Where the model is certain not to hold, all that weights remove may point
// that way; and where the shell goes with the score, the excess may be the step that is left, along which a few long rows
// make up more of the curvature than they do on average.
func (f *newtonFit) shownBias(c *mat.Dense, taken float64, x extrapolation) *mat.SymDense {
	times, total := 0.0, mat.NewSymDense(f.shape.D, nil)
	switch {
	case f.Curve.counted() != nil:
		times = square(x.factor+countsDoubt) * x.misfit
	case x.certain > 0:
		times = square(f.largerAlong(x.off)*taken/mat.Norm(x.off, 2)) * x.certain
	}
	total.SymRankOne(total, times, x.off)
	if x.along > 0 {
		total.SymRankOne(total, square(x.along), f.g)
	}
	return linalg.Sandwich(c, total)
}

// mostAlong bounds largerAlong.
const mostAlong = 4

// largerAlong is how much larger scores are along v than on average, beside the curvature: taken is a mean over all
// directions, but residuals that grow with the length of rows are larger where a misfit shows.
func (f *newtonFit) largerAlong(v *mat.VecDense) float64 {
	u := mat.NewVecDense(f.shape.D, nil)
	u.MulVec(f.q.T(), v)
	u.MulVec(f.q, u)
	along, all := mat.Inner(u, linalg.PositivePart(f.meat), u)/mat.Inner(u, f.h, u), mat.Trace(f.meat)/mat.Trace(f.h)
	if larger := math.Sqrt(along / all); larger > 1 {
		return min(larger, mostAlong)
	}
	return 1 // also where noise leaves one of them below 0
}

// shellCurvature is the share of the curvature in shell k, if the lengths of scores are distributed as
// those of rows times the root of their curvature, as where the model holds.
func (f *newtonFit) shellCurvature(k int) float64 {
	sizes, limit := f.sizes()
	return sizes.Mean(func(u float64) float64 { return u * f.shellPart(k, u) }) / sizes.Mean(func(u float64) float64 { return u * min(u, limit) })
}

// shellSpread is the sampling variance of a times the score plus b times shell k, over that of the score,
// under the same assumption.
func (f *newtonFit) shellSpread(k int, a, b float64) float64 {
	sizes, limit := f.sizes()
	return sizes.Mean(func(u float64) float64 { return square(a*min(u, limit) + b*f.shellPart(k, u)) }) / sizes.Mean(func(u float64) float64 { return square(min(u, limit)) })
}

// shellNoise is the variance of its noise, over that of the score's noise.
func (f *newtonFit) shellNoise(k int, a, b float64) float64 {
	width := shellWidth(k, len(f.parts))
	return square(a)*(1-width) + square(a+b)*width
}

// shellPart is the part in shell k of a score of length u, in the units of the histogram.
func (f *newtonFit) shellPart(k int, u float64) float64 {
	_, limit := f.sizes()
	return min(u, limit*shellEdge(k, len(f.parts))) - min(u, limit*shellEdge(k-1, len(f.parts)))
}

// taken is the mean length that weights remove from the scores of rows, estimated from the visible bins and
// a tail of rows that histograms may hide. The histogram of Huber scores is computed as if all residuals
// were beyond delta; the ratio of meat to curvature gives their actual size.
func (f *newtonFit) taken(c magnitude.TailAssumption) float64 {
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), minCurvature)
	curved := math.Sqrt(f.own) * f.rescale * f.lengths.Trimmed(f.bound/f.rescale, c)
	sizes, limit := f.sizes()
	even := f.evenly()
	return f.scoreUnit()*even*sizes.Tail(limit/even, c) + math.Sqrt(meat/curvature)*curved
}

// scoreUnit is the factor from scores in the histogram to the coordinates of the step.
func (f *newtonFit) scoreUnit() float64 {
	if f.perLength > 0 {
		identity := func(v float64) float64 { return v }
		return f.own * f.unweighted() * f.scores.Mean(identity) / f.lengths.Mean(identity)
	}
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), minCurvature)
	return f.own * f.Curve.unseen(meat, curvature) / math.Sqrt(f.weights) * f.rescaleScores
}

// missing is taken over the mean length of scores in the outer shell.
func (f *newtonFit) missing(c magnitude.TailAssumption) float64 {
	sizes, _ := f.sizes()
	shell := sizes.Mean(func(u float64) float64 { return f.shellPart(len(f.parts)-1, u) })
	taken := f.taken(c)
	if taken == 0 {
		return 0 // also if the shell is empty
	}
	return taken / (f.scoreUnit() * shell)
}

// takenUnseen bounds the additional length that weights may remove for labels that the model is nearly
// certain of. Their scores are 0 except for the few wrong ones, which noise hides, and whose lengths may be
// those of the longest rows of the first pass.
func (f *newtonFit) takenUnseen(c magnitude.TailAssumption) float64 {
	if !f.ofLabels() || !f.firstLengths.Seen() {
		return 0
	}
	cut := f.limit / f.rescaleScores
	return f.scoreUnit() * max(0, f.scores.TailAlong(f.firstLengths, f.firstScore/f.rescaleScores, cut, c)-f.scores.Tail(cut, c))
}

// shareAlong is the share of the score that a shell has because a step is left, at least least: along a direction
// that a few long rows make up, nearly all of it. It goes by the shell itself, as far as the score is more than noise.
func (f *newtonFit) shareAlong(shell *mat.VecDense, least float64) float64 {
	size := max(mat.Dot(f.g, f.g), math.SmallestNonzeroFloat64)
	seen := max(0, 1-f.d*square(f.gDeviation)/size)
	return least + seen*max(0, min(1, mat.Dot(shell, f.g)/size)-least)
}
