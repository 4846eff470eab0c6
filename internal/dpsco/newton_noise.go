package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// noise returns the covariance that noise gives the coefficients: that of all scores and
// curvatures, as far as later steps do not take it away, and of a limit that moves, shrunk as the
// coefficients are. Nil where noise hides more than one direction of the features, where it has left
// no slopes, where a penalty or the ball moves the fit, and where tails of labels' scores or of counts are too heavy. It is post-processing (formulas:
// newton.md).
func (f *newtonFit) noise() *mat.SymDense {
	if f.tooLong || f.floored > mostHiddenDirections || !f.free() || f.slopesKept == 0 || f.limitMoves() || f.Curve.counted() != nil && (f.bends() || f.cutsMove()) {
		return nil
	}
	total := mat.NewSymDense(f.shape.D, nil)
	total.CopySym(f.fitNoise)
	if moved := f.movedByLimit(); moved != nil {
		total.SymRankOne(total, 1, moved)
	}
	return sandwich(f.shrunk(), total)
}

// limitMoves reports whether weights take so much of scores of labels, beside what is in the outer shell, that the
// limit of another release takes away another part, which movedByLimit does not follow.
func (f *newtonFit) limitMoves() bool {
	return f.ofLabels() && f.scoresAreKnown && len(f.parts) > 1 && f.missing(expected) > mostToldMissingOfLabels
}

// bends reports whether the last step was so long that scores of counts, which go with the exponential of
// predictions, are not near a line on it.
func (f *newtonFit) bends() bool {
	return floats.Norm(f.lastMove(), 2) > mostBend*f.Curve.reach()*math.Sqrt(f.mean)
}

const mostBend = 0.5

// cutsMove reports whether counts or the lengths of their rows have so heavy a tail, or weights take so much beside what
// is in the outer shell, that another release would cut them elsewhere and find something else, which this one
// does not show.
func (f *newtonFit) cutsMove() bool {
	counts := f.Curve.counted().seen
	if counts == nil || !f.scoresAreKnown {
		return true
	}
	missing := len(f.parts) > 1 && f.missing(scoresHide) > mostToldMissing
	return missing || counts.index(intervalsHide) < leastToldIndex || f.tailIndex() < leastToldLengths
}

const (
	leastToldLengths        = 1.15
	mostToldMissingOfLabels = 1.2
	mostToldMissing         = 2.5
)

// follow follows the noise of the fit over a step, of which shrinkage keeps parts by direction: of the
// noise before, what it does not keep is left.
func (f *newtonFit) follow(w whitener, keeps []float64) {
	d, others := f.shape.D, mat.NewSymDense(f.shape.D, nil)
	gains := make([]float64, d)
	for k, keep := range keeps {
		gains[k] = othersKeep + (1-othersKeep)*keep
		others.SymRankOne(others, gains[k], w.vectors.ColView(k))
	}
	var into, left, back mat.Dense
	into.Mul(f.p, w.gain(gains))
	step := mat.NewVecDense(d, nil)
	step.MulVec(w.gain(keeps), f.g)
	noise := movedByMoments(&into, outerSquare(step.RawVector().Data), f.hDeviation)
	var own mat.SymDense
	own.SymOuterK(square(f.gDeviation), &into)
	noise.AddSym(noise, &own)
	if f.fitNoise != nil {
		_ = back.Inverse(f.p) // an error would say that it is badly conditioned, no more
		left.Mul(others, &back)
		left.Mul(f.p, &left)
		left.Sub(identity(d), &left)
		noise.AddSym(noise, sandwich(&left, f.fitNoise))
	}
	f.fitNoise = noise
}

// allBetween is how much of a shrunk step other releases keep, in the variance, where this one keeps nothing.
const allBetween = 0.25

// shrunk says how coefficients with a full step enter those that shrinkage leaves.
func (f *newtonFit) shrunk() *mat.Dense {
	keep := identity(f.shape.D)
	for j := range f.shape.D {
		if j > 0 || !f.shape.Intercept {
			keep.Set(j, j, math.Sqrt(allBetween+(1-allBetween)*square(f.slopesKept)))
		}
	}
	var back mat.Dense
	_ = back.Inverse(f.a)
	keep.Mul(f.a, keep)
	keep.Mul(keep, &back)
	return keep
}

// movedByLimit is how far coefficients move when the histogram moves the limit by a deviation of its
// noise: the outer shell shows what rows say that are cut there. Nil where nothing is shown.
func (f *newtonFit) movedByLimit() mat.Vector {
	outer := len(f.parts) - 1
	if outer == 0 || !f.scoresAreKnown {
		return nil
	}
	low, high := f.limitFor(f.scores.beyond(-1), newtonSteps-1), f.limitFor(f.scores.beyond(1), newtonSteps-1)
	sizes, limit := f.sizes()
	inShell := func(u float64) float64 { return f.shellPart(outer, u) }
	shown := sizes.mean(inShell)
	if !(shown > 0) {
		return nil
	}
	cut, width := limit*(1-sizes.below(limit))/shown, shellWidth(outer, len(f.parts))
	curvature := f.shellCurvature(outer)
	off := mat.NewVecDense(f.shape.D, nil)
	off.AddScaledVec(f.parts[outer], -curvature, f.g)
	explained := f.d * square(f.gDeviation) * (width - 2*curvature*width + square(curvature))
	signal := math.Sqrt(max(0, 1-explained/max(square(floats.Norm(off.RawVector().Data, 2)), math.SmallestNonzeroFloat64)))
	off.ScaleVec(signal*cut*math.Log(high/low)/2, off)
	moved := mat.NewVecDense(f.shape.D, nil)
	moved.MulVec(f.influences(f.q), off)
	return moved
}
