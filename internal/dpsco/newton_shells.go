package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// The last score is released in shells: shell k of a row's score is what of it lies between
// two limits, and all shells together are the score. They say how scores differ with the
// lengths of rows. That costs nothing: a shell of width w, a part of the limit, is released
// in units of its root, so that the squares of a row's shells add up to at most the sum of
// the widths, which is 1; the noise of a shell has w of the variance that the score's has,
// and shells have independent noises, which add up to that of a score released whole.

// scoreShells are those of the last score: up to an eighth of the limit, to a quarter, to a
// half, and the rest.
const scoreShells = 4

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
	for i := range v {
		reach := limit / (r.length[i] * r.most[i])
		from, to := 0.0, r.weight[i]
		if k > 0 {
			from = min(to, shellEdge(k-1, shells)*reach)
		}
		if k < shells-1 {
			to = min(to, shellEdge(k, shells)*reach)
		}
		v[i] = (to - from) * r.score[i] / unit
	}
}

// misfit is how far shells of the last score are from what the whole score and the lengths
// of rows lead to expect, for the coefficient and the shell where that is farthest, in
// standard deviations. Where the model holds, the score is zero at every length of rows, up
// to the step that is left, which moves each shell by its part of the curvature. The
// innermost shell follows from the others.
func (f *newtonFit) misfit(c *mat.Dense) (most float64) {
	sampling := sandwich(c, positivePart(f.meat))
	total := times(c, f.g.RawVector().Data)
	for k := 1; k < len(f.parts); k++ {
		part, width := times(c, f.parts[k].RawVector().Data), shellWidth(k, len(f.parts))
		curvature, spread := f.shellShares(k)
		for j := range part {
			a := c.RawRowView(j)
			noise := (width - 2*curvature*width + square(curvature)) * square(f.gDeviation) * floats.Dot(a, a)
			off := part[j] - curvature*total[j]
			most = max(most, math.Abs(off)/math.Sqrt(noise+spread*sampling.At(j, j)/f.n))
		}
	}
	return most
}

// shellShares are the part of the curvature that is in a shell, and what sampling makes of
// a shell less that part of the score, as a part of the score's variance: both as if
// scores were as large as curvatures, which they are where the model holds.
func (f *newtonFit) shellShares(k int) (curvature, spread float64) {
	limit := f.limit / f.rescaleScores
	upTo := func(u, edge float64) float64 { return min(u, limit*edge) }
	from, to := shellEdge(k-1, len(f.parts)), shellEdge(k, len(f.parts))
	inside := func(u float64) float64 { return upTo(u, to) - upTo(u, from) }
	curvature = f.scores.mean(func(u float64) float64 { return u * inside(u) }) / f.scores.mean(func(u float64) float64 { return u * upTo(u, 1) })
	spread = f.scores.mean(func(u float64) float64 { return square(inside(u) - curvature*upTo(u, 1)) }) / f.scores.mean(func(u float64) float64 { return square(upTo(u, 1)) })
	return curvature, spread
}

// cut is the mean length of what weights take away from the scores of rows, at most: what
// histograms show, and a tail that they may hide. Magnitudes of Huber scores are as if all
// residuals were beyond delta; the meat over the curvature says how large they are.
func (f *newtonFit) cut() float64 {
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), leastCurvature)
	long := f.Curve.unseen(meat, curvature) * f.rescaleScores * f.scores.tail(f.limit/f.rescaleScores, scoresHide)
	curved := f.rescale * f.lengths.trimmed(f.bound/f.rescale, scoresHide)
	return long + math.Sqrt(meat/curvature)*curved
}
