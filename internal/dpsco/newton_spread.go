package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/prox"

	"gonum.org/v1/gonum/floats"
)

// How far a Newton step of labels falls short. Where features all but separate the labels, the curvature
// falls with the cube of the spread of predictions: from a spread c a step goes to no more than 1.5 c, however
// large the best one is, and from above it goes far below. Where predictions are normal the spread that a
// step was on the way to is known: the one whose mean score is what the step has seen. Everything
// here is post-processing of releases.

// Where predictions are not normal that is no more than a guess, so that it serves where it matters most: at
// spreads from leastStretched on, after a step whose square is by alongShare along the predictions and which
// moves their mean by mostMeanMoved at most.
const (
	leastStretched = 2.5
	alongShare     = 0.9
	mostMeanMoved  = 1
)

func (f *newtonFit) ofLabels() bool { _, labels := f.Curve.(logisticCurve); return labels }

// predictions are the mean of those of w and, in whitened coordinates of the first pass, their slopes, whose
// length is how much they spread.
func (f *newtonFit) predictions(w []float64) (mean float64, slopes []float64) {
	u := solveTriangular(f.whitened, w)
	if f.shape.Intercept {
		return u[0] * f.whitened.At(0, 0), u[1:]
	}
	return 0, u
}

// stretch returns the coefficients after a step, lengthened or shortened to the spread that the step
// was on the way to, and by what factor. They stay of other losses than that of labels, and where the ball
// would move them.
func (f *newtonFit) stretch(w []float64) (stretched []float64, factor float64) {
	if !f.ofLabels() || !f.inBall(w) {
		return w, 1
	}
	mean, slopes := f.predictions(f.w)
	meanAfter, after := f.predictions(w)
	unit := math.Sqrt(f.weights) // slopes whiten the weighted rows, whose mean weight is that
	from, to := floats.Norm(slopes, 2)/unit, floats.Norm(after, 2)/unit
	floats.Sub(after, slopes)
	along := math.Abs(meanAfter-mean) <= mostMeanMoved && square(floats.Dot(after, slopes)) >= alongShare*floats.Dot(slopes, slopes)*floats.Dot(after, after)
	if !along || !(to >= leastStretched) {
		return w, 1
	}
	factor = spreadOfStep(mean, from, meanAfter, to, f.curvatureOfPenalty(w)/f.weights/square(to)) / to
	stretched = append([]float64(nil), w...)
	if floats.Scale(factor, stretched); !f.inBall(stretched) {
		return w, 1
	}
	return stretched, factor
}

// curvatureOfPenalty is the second derivative of the penalty at factor times w, which no penalty of the catalogue
// changes with the factor: along w it is a line and a square.
func (f *newtonFit) curvatureOfPenalty(w []float64) float64 {
	both, penalised := f.Psi.(prox.Sum)
	if !penalised {
		return 0
	}
	twice := append([]float64(nil), w...)
	floats.Scale(2, twice)
	return both.A.Value(twice) - 2*both.A.Value(w)
}

// spreadOfStep is the spread of normal log-odds towards which a Newton step goes from a mean and a spread to
// others; between half and twice of the spread from where it goes, or of 1. Where it ends a penalty pulls as it does at
// the end of the step, and by its curvature more the farther away that is.
func spreadOfStep(mean, from, meanAfter, to, penalty float64) float64 {
	rate, curvature, across, along := 0.0, 0.0, 0.0, 0.0 // of the labels; in the mean; of both; along the predictions
	for _, v := range normalNodes {
		p := sigmoid(mean + from*v)
		rate += p / float64(len(normalNodes))
		curvature += p * (1 - p) / float64(len(normalNodes))
		across += p * (1 - p) * v / float64(len(normalNodes))
		along += p * (1 - p) * v * v / float64(len(normalNodes))
	}
	// The mean of v sigmoid(mean + k v) is k times the mean curvature at k (Stein). A step ends where it, and the
	// rate, would be those of the labels if they were linear.
	linear := from*curvature + (to-from)*along + (meanAfter-mean)*across
	rate += (meanAfter-mean)*curvature + (to-from)*across
	farthest := 2 * max(from, 1)
	return max(from/2, normalSpread(clampBetween(rate, 1e-6, 1-1e-6), linear+penalty*to, penalty, farthest))
}

// mostStretch is by how much the last step may be lengthened, or shortened, for intervals: beyond, too
// little is known of what is left.
const mostStretch = 0.1

// leftAlone is what the last step leaves of each coefficient of labels if its feature is that of a few rows, such
// as a level, of which others tell nothing: half of the square of the move, in log-odds of a scale unit along which
// the other features follow by their correlations.
func (f *newtonFit) leftAlone() []float64 {
	left := make([]float64, f.shape.D)
	if !f.ofLabels() {
		return left
	}
	move := append([]float64(nil), f.centre...)
	floats.Sub(move, f.w)
	mean, slopes := f.predictions(move)
	for j := range left {
		unit := make([]float64, f.shape.D)
		unit[j] = 1
		if _, column := f.predictions(unit); j == 0 && f.shape.Intercept {
			left[j] = square(mean) / 2
		} else {
			left[j] = square(floats.Dot(column, slopes)/floats.Dot(column, column)) / 2
		}
	}
	return left
}

// mostAlone is the largest of these for intervals, where it is more than aloneShare of the standard error: a
// level whose labels are nearly all alike comes nearer by about 1 with each step, from however far.
const (
	mostAlone  = 0.35
	aloneShare = 0.35
)

// stillFar reports whether a coefficient, of those that noise does not hide, may be far from where steps would end.
func (f *newtonFit) stillFar(r *Result) bool {
	for j, left := range f.leftAlone() {
		if !r.hides(j) && left > mostAlone && square(left) > square(aloneShare)*r.Covariance.At(j, j) {
			return true
		}
	}
	return false
}
