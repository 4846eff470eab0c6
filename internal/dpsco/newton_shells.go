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

// extrapolation is what the outer shell of the score says of the scores that weights take
// away: as many times factor as lies in the shell. All of it is released or public.
type extrapolation struct {
	off      *mat.VecDense // the shell less its part of the curvature times the score
	factor   float64
	most     float64 // of counts: how long the mean of all that may be
	misfit   float64 // of counts: part of the square of off that neither noise nor sampling explains
	certain  float64 // the same, where they explain as much as they do once in some twenty fits
	sampling float64 // of the score with what it is moved by, over that of the score alone
	noise    float64 // the same of its noise
	step     float64 // variance of a coordinate of what a long step leaves in the shell
}

// asReleased takes the score for what it is.
var asReleased = extrapolation{sampling: 1, noise: 1}

// extrapolate reads the outer shell. Where the model holds, the score is zero at every length
// of rows, up to the step that is left, which moves the shell by its part of the curvature.
func (f *newtonFit) extrapolate() extrapolation {
	outer := len(f.parts) - 1
	curvature := f.shellCurvature(outer)
	x := extrapolation{off: mat.NewVecDense(f.shape.D, nil), factor: min(mostFactor, missPerShell*f.missing(expected))}
	x.off.AddScaledVec(f.parts[outer], -curvature, f.g)
	if f.perLength > 0 {
		x.factor, x.most = f.shownByCounts(x.off, curvature)
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

// restored is the last score with a part of what weights took from it, as far as the outer shell says what that is, and
// the deviation of its noise. A fit goes there only as far as the model is certain not to hold, and less far than the
// middle of an interval where more is taken away than the shell shows: rows beyond the limit need not go on as those in
// it do. Counts were no nearer to the best fit with it, and what groups pool is the fit with a full last step.
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

// misfit is the part of the square of a vector, in units of its covariance, that the covariance
// does not explain: its mean, and two deviations more of it.
func misfit(v *mat.VecDense, covariance *mat.SymDense) (beyondMean, certain float64) {
	var c mat.Cholesky
	u := mat.NewVecDense(v.Len(), nil)
	if !c.Factorize(covariance) || c.SolveVecTo(u, v) != nil {
		return 1, 1
	}
	d, size := float64(v.Len()), mat.Dot(u, v)
	return max(0, 1-d/size), max(0, 1-(d+2*math.Sqrt(2*d))/size)
}

// shownBias is the square of what intervals allow for along what the outer shell shows, beside the middle's move. Where the model is
// certain not to hold, a part of all that weights take away may pull that way.
func (f *newtonFit) shownBias(c *mat.Dense, taken float64, x extrapolation) *mat.SymDense {
	times, total := 0.0, mat.NewSymDense(f.shape.D, nil)
	switch {
	case f.Curve.counted() != nil:
		times = square(x.factor+countsDoubt) * x.misfit
	case x.certain > 0:
		times = square(partAlong*taken/mat.Norm(x.off, 2)) * x.certain
	}
	total.SymRankOne(total, times, x.off)
	return sandwich(c, total)
}

// shellCurvature is the part of the curvature that is in a shell, as if scores were as large
// as curvatures, which they are where the model holds.
func (f *newtonFit) shellCurvature(k int) float64 {
	sizes, limit := f.sizes()
	return sizes.mean(func(u float64) float64 { return u * f.shellPart(k, u) }) / sizes.mean(func(u float64) float64 { return u * min(u, limit) })
}

// shellSpread is what sampling makes of a times the score plus b times shell k, as a part of
// the score's variance, also as if scores were as large as curvatures.
func (f *newtonFit) shellSpread(k int, a, b float64) float64 {
	sizes, limit := f.sizes()
	return sizes.mean(func(u float64) float64 { return square(a*min(u, limit) + b*f.shellPart(k, u)) }) / sizes.mean(func(u float64) float64 { return square(min(u, limit)) })
}

// shellNoise is what noise makes of it, as a part of the variance of the score's noise.
func (f *newtonFit) shellNoise(k int, a, b float64) float64 {
	width := shellWidth(k, len(f.parts))
	return square(a)*(1-width) + square(a+b)*width
}

// shellPart is what of a score of length u is in shell k, both in the units of the histogram.
func (f *newtonFit) shellPart(k int, u float64) float64 {
	_, limit := f.sizes()
	return min(u, limit*shellEdge(k, len(f.parts))) - min(u, limit*shellEdge(k-1, len(f.parts)))
}

// taken is the mean length of what weights take away from the scores of rows: what histograms
// show, and a tail that they may hide. Magnitudes of Huber scores are as if all residuals were
// beyond delta; the meat over the curvature says how large they are.
func (f *newtonFit) taken(c cautious) float64 {
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), leastCurvature)
	curved := f.rescale * f.lengths.trimmed(f.bound/f.rescale, c)
	sizes, limit := f.sizes()
	even := f.evenly()
	return f.scoreUnit()*even*sizes.tail(limit/even, c) + math.Sqrt(meat/curvature)*curved
}

// scoreUnit is what a score of 1 in the histogram is in the step's coordinates.
func (f *newtonFit) scoreUnit() float64 {
	if f.perLength > 0 {
		identity := func(v float64) float64 { return v }
		return f.unweighted() * f.scores.mean(identity) / f.lengths.mean(identity)
	}
	meat, curvature := max(0, mat.Trace(f.meat)), max(mat.Trace(f.h), leastCurvature)
	return f.Curve.unseen(meat, curvature) / math.Sqrt(f.weights) * f.rescaleScores
}

// missing is that beside the mean length of what is in the outer shell.
func (f *newtonFit) missing(c cautious) float64 {
	sizes, _ := f.sizes()
	shell := sizes.mean(func(u float64) float64 { return f.shellPart(len(f.parts)-1, u) })
	taken := f.taken(c)
	if taken == 0 {
		return 0 // also of an empty shell
	}
	return taken / (f.scoreUnit() * shell)
}

// takenUnseen is by how much taken may be larger for labels that the model is nearly certain of: their scores are 0 but for
// the few that it is wrong about, which noise hides, and these may be as long as the first pass has seen rows.
func (f *newtonFit) takenUnseen(c cautious) float64 {
	if !f.ofLabels() || !f.firstLengths.seen {
		return 0
	}
	cut := f.limit / f.rescaleScores
	return f.scoreUnit() * max(0, f.scores.tailAlong(f.firstLengths, f.firstScore/f.rescaleScores, cut, c)-f.scores.tail(cut, c))
}
