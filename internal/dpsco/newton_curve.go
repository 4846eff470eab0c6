package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/loss"
)

// curve is a loss as Newton sees it: how a row's score, which is minus the
// derivative of its loss, and its curvature follow from prediction and target.
type curve interface {
	// score writes scores, their bounds, tails and curvatures of rows. A row whose
	// residual is NaN says nothing: what is written for it is not read.
	score(r *newtonRows)
	// tailShare is how much the mean of tails times lengths beyond a limit weighs, as a
	// bias, beside noise; the figures did best on a few tables and laws.
	tailShare() float64
	// first writes as residuals what the target is in the first pass, at most firstCut in
	// size, and may make rows longer or shorter.
	first(r *newtonRows)
	firstCut() float64
	// counted is what a curve needs to know of the sizes of targets, which the first pass then
	// counts too: nil for one that needs nothing.
	counted() *poissonCurve
	// begin turns what the first pass says into coefficients, and says the mean
	// curvature there.
	begin(s *newtonStart) (w []float64, curvature float64)
	// size is the unit of tails; unseen is by what tails are to be multiplied to be as scores
	// are, where the traces of meat and curvature are as given.
	size() float64
	unseen(meat, curvature float64) float64
	// reach is how far a prediction moves until its curvature is another one;
	// longest how far a step but the last may move it, in the root mean square.
	reach() float64
	longest() float64
	shares() newtonShares
	least() float64 // of mean curvatures
	most() float64  // of curvatures
}

// logisticCurve is that of labels 0 and 1.
type logisticCurve struct{}

// residualCurvature is the part of the squared residual in the curvature of all passes
// but the last. Its mean is the curvature where the model holds, and it is large where
// a step went too far: there the model says that labels are certain.
const residualCurvature = 0.2

// score bounds a score by the larger one of the two that the row could have, so that
// weights do not depend on the label.
func (logisticCurve) score(r *newtonRows) {
	score, y := r.score[:r.n], r.y
	for i, e := range r.e[:r.n] {
		score[i] = y[i] - e
	}
	loss.Logistic{}.Derivs(score, score, y)
	for i, derivative := range score {
		p := y[i] + derivative
		model := p * (1 - p)
		r.score[i], r.tail[i], r.most[i], r.model[i] = -derivative, derivative, max(p, 1-p), model
		r.robust[i] = (1-residualCurvature)*model + residualCurvature*derivative*derivative
	}
}

// first is the score without features: predictions are offsets there.
func (logisticCurve) first(r *newtonRows) {
	for i, y := range r.y {
		r.e[i] = y - sigmoid(y-r.e[i])
	}
}

func (logisticCurve) firstCut() float64      { return 0.5 }
func (logisticCurve) counted() *poissonCurve { return nil }
func (logisticCurve) size() float64          { return 1 }
func (logisticCurve) reach() float64         { return 1 }
func (logisticCurve) longest() float64       { return 1 }
func (logisticCurve) least() float64         { return leastCurvature }

func (logisticCurve) most() float64        { return 0.25 }
func (logisticCurve) shares() newtonShares { return usualShares }

func (logisticCurve) unseen(meat, curvature float64) float64 {
	return math.Sqrt(meat / max(curvature, leastCurvature))
}

// tailShare counts twice what surprising labels show: the others of the same rows are
// shortened by as much in the mean.
func (logisticCurve) tailShare() float64 { return 0.4 }

// huberCurve is that of Huber's loss.
type huberCurve struct {
	delta float64 // residual beyond which it is linear
	cut   float64 // of the target in the first pass
	noisy bool    // noise of second moments is large beside that of scores: they need as much of the budget as those of labels
}

// touching is a part of the curvature of the parabola that touches the loss at a residual beyond delta and
// lies above it. A step to the minimum of such parabolas never goes too far, and falls short where most residuals
// are beyond delta: by the logarithm of how far they are. With more than half of their curvature the loss still falls.
const touching = 0.7

// score takes, for all passes but the last, a part of the curvature of the parabola that touches
// the loss at the residual.
func (c huberCurve) score(r *newtonRows) {
	for i, e := range r.e[:r.n] {
		r.score[i], r.tail[i], r.most[i], r.model[i], r.robust[i] = e, c.delta, c.delta, 1, 1
		if size := math.Abs(e); size > c.delta {
			r.score[i], r.model[i], r.robust[i] = clampTo(e, c.delta), 0, touching*c.delta/size
		}
	}
}

func (huberCurve) first(*newtonRows)      {} // it is the residual of no prediction but an offset
func (c huberCurve) firstCut() float64    { return c.cut }
func (huberCurve) counted() *poissonCurve { return nil }
func (c huberCurve) size() float64        { return c.delta }
func (c huberCurve) reach() float64       { return c.delta }
func (c huberCurve) longest() float64     { return 8 * c.delta }
func (huberCurve) least() float64         { return leastCurvature }
func (huberCurve) most() float64          { return 1 }

func (c huberCurve) shares() newtonShares {
	if c.noisy {
		return usualShares
	}
	return huberShares
}

// unseen makes up for tails that are as if all residuals were beyond delta.
func (c huberCurve) unseen(meat, curvature float64) float64 {
	return math.Sqrt(meat/max(curvature, leastCurvature)) / c.delta
}

// tailShare is less than for labels: most residuals are below delta, by which tails count.
func (huberCurve) tailShare() float64 { return 0.08 }

// begin is a step of least squares of the cut target.
func (huberCurve) begin(s *newtonStart) (w []float64, curvature float64) {
	return pilotStep(newWhitener(s.moments, s.hidden), s.gradient, s.deviation, smallMoment(s.longer)), 1
}
