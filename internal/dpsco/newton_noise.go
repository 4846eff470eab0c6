package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// noise returns the covariance of the coefficients due to noise: that of all scores and curvatures, less
// what later steps remove, and that of the limit, shrunk as the coefficients are. It is nil where noise
// masks more than one direction of the features, where shrinkage has left no slopes, where a penalty or the
// ball moves the fit, and where the scores of labels, or counts, have too heavy tails. It is
// post-processing (formulas: newton.md).
func (f *newtonFit) noise() *mat.SymDense {
	if f.tooLong || f.floored > maxHiddenDirections || !f.free() || f.slopesKept == 0 || f.limitMoves() || f.Curve.counted() != nil && (f.bends() || f.cutsMove()) {
		return nil
	}
	total := mat.NewSymDense(f.shape.D, nil)
	total.CopySym(f.fitNoise)
	if moved := f.movedByLimit(); moved != nil {
		total.SymRankOne(total, 1, moved)
	}
	return linalg.Sandwich(f.shrunk(), total)
}

// limitMoves reports whether weights remove so large a part of the scores of labels, relative to the outer
// shell, that the limit of another release would remove a different part, which movedByLimit does not
// model.
func (f *newtonFit) limitMoves() bool {
	return f.ofLabels() && f.scoresAreKnown && len(f.parts) > 1 && f.missing(expectedTail) > maxToldMissingOfLabels
}

// bends reports whether the last step was too long for the scores of counts, which are exponential in
// predictions, to be nearly linear on it.
func (f *newtonFit) bends() bool {
	return floats.Norm(f.lastMove(), 2) > maxBend*f.Curve.reach()*math.Sqrt(f.mean)
}

// maxBend is the largest change of predictions, as a multiple of the reach, on which scores count as linear.
const maxBend = 0.5

// movedTooFar returns the coefficients of labels and of Huber's loss whose noise, which is given, cannot be followed:
// noise before or after the last step, or that step, moves the predictions of the rows that determine one so far that
// their curvature, and with it the noise, is another in each release. These rows are those with a flag, however few;
// those of a number are taken to be as large as its root mean square. The curvature of a residual changes on the reach,
// that of a label with log-odds z by tanh(z / 2) times a small move, so that it is nearly constant around even odds. Of
// counts, whose clipping moves more than that, none is returned.
func (f *newtonFit) movedTooFar(noise []float64) (far []int) {
	if f.grouped || f.Curve.counted() != nil || noise == nil {
		return nil
	}
	moves, odds := f.movesAlone(), mat.NewVecDense(f.shape.D, nil)
	odds.MulVec(f.most, mat.NewVecDense(f.shape.D, f.centre))
	for j, deviation := range noise {
		size, of := 1.0, j
		if j > 0 && f.shape.Intercept && !f.looksLikeFlag(j) {
			size, of = math.Sqrt(f.most.At(j, j)/f.weights), 0
		}
		moved := size * max(deviation, math.Sqrt(f.oldNoise.At(j, j)), math.Abs(moves[j])) / f.Curve.reach()
		if f.ofLabels() {
			moved *= math.Tanh((math.Abs(odds.AtVec(of)/f.most.At(of, of)) + moved) / 2)
		}
		if moved > maxBend {
			far = append(far, j)
		}
	}
	return far
}

// cutsMove reports whether counts or the lengths of their rows have so heavy a tail, or weights remove so
// much relative to the outer shell, that the clipping of counts and the weights would differ in another
// release by more than this release shows.
func (f *newtonFit) cutsMove() bool {
	counts := f.Curve.counted().seen
	if counts == nil || !f.scoresAreKnown {
		return true
	}
	missing := len(f.parts) > 1 && f.missing(newtonScoreTail) > maxToldMissing
	return missing || counts.Index(intervalTail) < minToldIndex || f.tailIndex() < minToldLengths
}

const (
	minToldLengths         = 1.15
	maxToldMissingOfLabels = 1.2
	maxToldMissing         = 2.5
)

// follow updates the noise covariance of the fit for a step with the given shrinkage factors by direction:
// the fraction of the previous noise that the step does not remove remains.
func (f *newtonFit) follow(w linalg.Whitener, keeps []float64) {
	d, others, gains := f.shape.D, mat.NewSymDense(f.shape.D, nil), othersGains(keeps, w.Values)
	for k, gain := range gains {
		others.SymRankOne(others, gain, w.Vectors.ColView(k))
	}
	var into, left, back mat.Dense
	into.Mul(f.p, w.Gain(gains))
	step := mat.NewVecDense(d, nil)
	step.MulVec(w.Gain(keeps), f.g)
	noise := movedByMoments(&into, linalg.OuterSquare(step.RawVector().Data), f.hDeviation)
	var own mat.SymDense
	own.SymOuterK(square(f.gDeviation), &into)
	noise.AddSym(noise, &own)
	if f.fitNoise != nil {
		_ = back.Inverse(f.p) // an error only reports bad conditioning
		left.Mul(others, &back)
		left.Mul(f.p, &left)
		left.Sub(linalg.Identity(d), &left)
		noise.AddSym(noise, linalg.Sandwich(&left, f.fitNoise))
	}
	f.oldNoise, f.fitNoise = f.fitNoise, noise
}

// othersGains are the mean fractions of a step that other releases keep, where this one keeps keeps along the
// directions of a whitener with the given values. All directions share one prior in whitened coordinates
// (shrinkage), so that the odds of the fractions are proportional to the curvatures. Along the direction with the
// most, othersKeep says what is kept.
func othersGains(keeps, values []float64) []float64 {
	shrunk, least := (1-othersKeep)*(1-slices.Max(keeps)), slices.Min(values)
	gains := make([]float64, len(keeps))
	for k, value := range values {
		kept := (1 - shrunk) * square(least/value)
		gains[k] = kept / (kept + shrunk)
	}
	return gains
}

// allBetween is the variance that other releases keep of a shrunk step where this one keeps none of it, over
// that of the whole step.
const allBetween = 0.25

// shrunk is the matrix from coefficients after a full step to those after shrinkage.
func (f *newtonFit) shrunk() *mat.Dense {
	keep := linalg.Identity(f.shape.D)
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

// movedByLimit is the move of the coefficients when noise in the histogram changes the limit by one
// standard deviation; the outer shell estimates the scores between the limits. It is nil if the shell is
// empty or the scores are not known.
func (f *newtonFit) movedByLimit() mat.Vector {
	outer := len(f.parts) - 1
	if outer == 0 || !f.scoresAreKnown {
		return nil
	}
	low, high := f.limitFor(f.scores.Beyond(-1), f.last()), f.limitFor(f.scores.Beyond(1), f.last())
	sizes, limit := f.sizes()
	inShell := func(u float64) float64 { return f.shellPart(outer, u) }
	shown := sizes.Mean(inShell)
	if !(shown > 0) {
		return nil
	}
	cut, width := limit*(1-sizes.Below(limit))/shown, shellWidth(outer, len(f.parts))
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
