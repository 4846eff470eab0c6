package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"

	"gonum.org/v1/gonum/floats"
)

// Correction of Newton steps of labels that fall short. Where features almost separate the labels, the
// curvature falls with the cube of the spread (standard deviation) of predictions: from a spread c a step
// goes to at most 1.5 c, however large the optimum, and from above the optimum it goes far below. Where
// predictions are normal, the spread at which the step aims can be solved for: the one whose mean score is
// the one that the step has. Everything here is post-processing of releases.

// Where predictions are not normal the correction is a guess, so that it applies only where it matters
// most: at spreads of at least minStretched, after a step of whose squared length at least alongShare is
// along the predictions and which, of a group, moves their mean by at most maxMeanMoved.
const (
	minStretched = 3
	alongShare   = 0.5
	maxMeanMoved = 1
)

func (f *newtonFit) ofLabels() bool { _, labels := f.Curve.(logisticCurve); return labels }

// predictions returns the mean of the predictions of w and their slopes in whitened coordinates of the
// first pass, whose length is the spread of predictions.
func (f *newtonFit) predictions(w []float64) (mean float64, slopes []float64) {
	u := linalg.SolveTriangular(f.whitened, w)
	if f.shape.Intercept {
		return u[0] * f.whitened.At(0, 0), u[1:]
	}
	return 0, u
}

// stretch returns the coefficients after a step, multiplied such that they have the spread at which the
// step aims, and the factor. They are unchanged for losses other than that of labels, and if the ball would
// move them.
func (f *newtonFit) stretch(w []float64) (stretched []float64, factor float64) {
	if !f.ofLabels() || !f.inBall(w) {
		return w, 1
	}
	mean, slopes := f.predictions(f.w)
	meanAfter, after := f.predictions(w)
	unit := math.Sqrt(f.weights) // slopes whiten rows times the roots of their weights, whose mean is f.weights
	from, to := floats.Norm(slopes, 2)/unit, floats.Norm(after, 2)/unit
	floats.Sub(after, slopes)
	along := !(f.grouped && math.Abs(meanAfter-mean) > maxMeanMoved) && square(floats.Dot(after, slopes)) >= alongShare*floats.Dot(slopes, slopes)*floats.Dot(after, after)
	if !along || !(to >= minStretched) {
		return w, 1
	}
	factor = spreadOfStep(mean, from, meanAfter, to, f.curvatureOfPenalty(w)/f.weights/square(to)) / to
	stretched = append([]float64(nil), w...)
	if floats.Scale(factor, stretched); !f.inBall(stretched) {
		return w, 1
	}
	return stretched, factor
}

// curvatureOfPenalty is the second derivative of the penalty at factor times w. It does not depend on the
// factor for the penalties of the catalogue, which are sums of a linear and a quadratic term along w.
func (f *newtonFit) curvatureOfPenalty(w []float64) float64 {
	both, penalised := f.Psi.(prox.Sum)
	if !penalised {
		return 0
	}
	twice := append([]float64(nil), w...)
	floats.Scale(2, twice)
	return both.A.Value(twice) - 2*both.A.Value(w)
}

// spreadOfStep returns the spread of normal log-odds at which a Newton step from one mean and spread to
// another aims, between half and twice of the larger of the former spread and 1. The slope of a penalty is
// the one at the end of the step, plus its curvature times the distance from there.
func spreadOfStep(mean, from, meanAfter, to, penalty float64) float64 {
	rate, curvature, across, along := 0.0, 0.0, 0.0, 0.0 // means of p, p(1-p), p(1-p)v and p(1-p)v^2
	for _, v := range numeric.NormalNodes {
		p := sigmoid(mean + from*v)
		rate += p / float64(len(numeric.NormalNodes))
		curvature += p * (1 - p) / float64(len(numeric.NormalNodes))
		across += p * (1 - p) * v / float64(len(numeric.NormalNodes))
		along += p * (1 - p) * v * v / float64(len(numeric.NormalNodes))
	}
	// The mean of v sigmoid(mean + k v) is k times the mean curvature at k (Stein). A step ends where this
	// mean and the rate, linearised at the start, are those of the labels.
	linear := from*curvature + (to-from)*along + (meanAfter-mean)*across
	rate += (meanAfter-mean)*curvature + (to-from)*across
	farthest := 2 * max(from, 1)
	return max(from/2, normalSpread(numeric.ClampBetween(rate, 1e-6, 1-1e-6), linear+penalty*to, penalty, farthest))
}

// maxStretch is the largest relative change of the last step's result by stretching for which there are
// intervals: beyond it, the remaining error is not known well enough.
const maxStretch = 0.1

// movesAlone are the changes of predictions by the last step: of the constant their mean, and of each other coefficient
// that of one scale unit of its feature, which the others follow by their correlations.
func (f *newtonFit) movesAlone() []float64 {
	move := append([]float64(nil), f.centre...)
	floats.Sub(move, f.w)
	mean, slopes := f.predictions(move)
	moves := make([]float64, f.shape.D)
	for j := range moves {
		unit := make([]float64, f.shape.D)
		unit[j] = 1
		if _, column := f.predictions(unit); j == 0 && f.shape.Intercept {
			moves[j] = mean
		} else {
			moves[j] = floats.Dot(column, slopes) / floats.Dot(column, column)
		}
	}
	return moves
}

// leftAlone is the error that the last step leaves in each coefficient of labels if its feature is 0 except
// for a few rows of which the other features tell nothing, such as a level. It is half of the square of the
// move, in log-odds.
func (f *newtonFit) leftAlone() []float64 {
	left := make([]float64, f.shape.D)
	if !f.ofLabels() {
		return left
	}
	move := append([]float64(nil), f.centre...)
	floats.Sub(move, f.w)
	_, slopes := f.predictions(move)
	for j, moved := range f.movesAlone() {
		left[j] = square(moved) / 2
	}
	for _, c := range f.Levels { // if the first level is such a one, from which the others differ, no coefficient of the category is known
		if !f.shape.Intercept {
			break
		}
		unit := make([]float64, f.shape.D)
		for k := range c.Count {
			unit[1+c.First+k] = -1
		}
		_, column := f.predictions(unit)
		alone := square(floats.Dot(column, slopes)/floats.Dot(column, column)) / 2
		left[0] = max(left[0], alone)
		for k := range c.Count {
			left[1+c.First+k] = max(left[1+c.First+k], alone)
		}
	}
	return left
}

// maxAlone is the largest value of leftAlone for which a coefficient has an interval, unless it is below aloneShare
// of the standard error. A level whose labels are nearly all alike comes nearer to its minimum by about 1
// with each step, from any distance.
const (
	maxAlone   = 0.35
	aloneShare = 0.35
)

// unsettled returns the coefficients that noise does not mask and that may be far from the limit of further
// steps, and then the constant with them, which absorbs the mean of their features. Intervals of the others
// cover as often as they do without such features (newton.md).
func (f *newtonFit) unsettled(r *release.Result) (far []int) {
	for j, left := range f.leftAlone() {
		if !r.Hides(j) && left > maxAlone && square(left) > square(aloneShare)*r.Covariance.At(j, j) {
			far = append(far, j)
		}
	}
	if f.shape.Intercept && far != nil && !slices.Contains(far, 0) {
		far = append([]int{0}, far...)
	}
	return far
}
