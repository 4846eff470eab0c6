package dpsco

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// The last score is released in shells: shell k of a row's score is what of it lies between
// two limits, and all shells together are the score. They say how scores differ with the
// lengths of rows. That costs nothing: a shell of width w, a part of the limit, is released
// in units of its root, so that the squares of a row's shells add up to at most the sum of
// the widths, which is 1; the noise of a shell has w of the variance that the score's has,
// and shells have independent noises, which add up to that of a score released whole.

// scoreShells are those of the last score: up to half of the limit, and the rest.
const scoreShells = 2

// shells is how many shells the score of step t has.
func (r *newtonReleases) shells(t int) int {
	if t == newtonSteps-1 && r.Intervals {
		return scoreShells
	}
	return 1
}

// shellEdge is where shell k ends, as a part of the limit; shellWidth is how wide it is.
func shellEdge(k, shells int) float64 {
	if k < 0 {
		return 0
	}
	return math.Exp2(float64(k + 1 - shells))
}

func shellWidth(k, shells int) float64 { return shellEdge(k, shells) - shellEdge(k-1, shells) }

// inShell writes what of scores is in a shell, over the row, in units of the limit and of
// the root of the width. Weights keep scores within the outermost edge.
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

// shownBias is the square of what intervals allow for the scores that weights take away,
// which are missing times those of the outer shell, by what that shell shows and its noise hides. Where the
// model holds, the score is zero at every length of rows, up to the step that is left, which
// moves the shell by its part of the curvature.
func (f *newtonFit) shownBias(c *mat.Dense, missing float64) *mat.SymDense {
	outer := len(f.parts) - 1
	curvature, spread := f.shellShares(outer)
	width := shellWidth(outer, len(f.parts))
	off := mat.NewVecDense(f.shape.D, nil)
	off.AddScaledVec(f.parts[outer], -curvature, f.g)
	total := positivePart(f.meat)
	total.ScaleSym(square(shownNoise)*spread/f.n, total)
	noise := square(shownNoise*f.gDeviation) * (width - 2*curvature*width + square(curvature))
	for j := range f.shape.D {
		total.SetSym(j, j, total.At(j, j)+noise)
	}
	total.SymRankOne(total, 1, off)
	total.ScaleSym(square(missPerShell*(missing+shellItself)), total)
	return sandwich(c, total)
}

// shellShares are the part of the curvature that is in a shell, and what sampling makes of
// a shell less that part of the score, as a part of the score's variance: both as if
// scores were as large as curvatures, which they are where the model holds.
func (f *newtonFit) shellShares(k int) (curvature, spread float64) {
	limit := f.limit / f.rescaleScores
	inside := func(u float64) float64 { return f.shellPart(k, u) }
	curvature = f.scores.mean(func(u float64) float64 { return u * inside(u) }) / f.scores.mean(func(u float64) float64 { return u * min(u, limit) })
	spread = f.scores.mean(func(u float64) float64 { return square(inside(u) - curvature*min(u, limit)) }) / f.scores.mean(func(u float64) float64 { return square(min(u, limit)) })
	return curvature, spread
}

// shellPart is what of a score of length u is in shell k, both in the units of the histogram.
func (f *newtonFit) shellPart(k int, u float64) float64 {
	limit := f.limit / f.rescaleScores
	return min(u, limit*shellEdge(k, len(f.parts))) - min(u, limit*shellEdge(k-1, len(f.parts)))
}

// cut is the mean length of what weights take away from the scores of rows, at most: what
// histograms show, and a tail that they may hide; missing is that beside what is in the outer
// shell. Magnitudes of Huber scores are as if all residuals were beyond delta; the meat over the
// curvature says how large they are.
func (f *newtonFit) cut() (cut, missing float64) {
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), leastCurvature)
	unit, outer := f.Curve.unseen(meat, curvature)/math.Sqrt(f.weights)*f.rescaleScores, len(f.parts)-1
	curved := f.rescale * f.lengths.trimmed(f.bound/f.rescale, scoresHide)
	cut = unit*f.scores.tail(f.limit/f.rescaleScores, scoresHide) + math.Sqrt(meat/curvature)*curved
	return cut, cut / (unit * f.scores.mean(func(u float64) float64 { return f.shellPart(outer, u) }))
}
