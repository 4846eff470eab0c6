package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/numeric"
)

// curve is a loss as Newton uses it: it defines a row's score, which is minus the derivative of its loss,
// and its curvature as functions of prediction and target.
type curve interface {
	// score writes scores, their bounds, tails and curvatures of rows. The values of a row whose residual
	// is NaN are not read.
	score(r *newtonRows)
	// tailShare is the weight, relative to noise, of the bias in the choice of a limit. The bias is the
	// mean of tail times length beyond the limit. The values gave the least error on a few tables and laws.
	tailShare() float64
	// first replaces residuals by the targets of the first pass, which are then clipped at firstCut, and
	// may rescale rows.
	first(r *newtonRows)
	firstCut() float64
	// counted is not nil for a curve that needs a histogram of the targets, which the first pass then
	// releases.
	counted() *poissonCurve
	// begin returns the coefficients that follow from the first pass, and the mean curvature there.
	begin(s *newtonStart) (w []float64, curvature float64)
	// size is the unit of tails. unseen is the factor by which tails are multiplied to get the size of
	// scores, given the traces of meat and curvature.
	size() float64
	unseen(meat, curvature float64) float64
	// reach is the change of a prediction over which its curvature changes; longest is the largest root
	// mean square change of predictions in any step but the last.
	reach() float64
	longest() float64
	shares() newtonShares
	least() float64 // smallest mean curvature
	most() float64  // largest curvature
}

// logisticCurve is the curve of labels 0 and 1.
type logisticCurve struct {
	offset   bool // rows have offsets, which may be far from the log-odds: the start knows nothing of their level
	informed bool // noise of second moments is small: budget shares are those of four steps
}

// residualCurvature is the weight of the squared residual in the curvature of all passes but the last. The
// mean of the squared residual is the curvature where the model holds. It stays large where a step went too
// far, so that the model assigns probabilities near 0 or 1 to wrong labels.
const residualCurvature = 0.2

// score bounds a score by the larger of the two scores that the row can have, so that weights do not depend
// on the label.
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

// first writes the score without features: the predictions are the offsets.
func (logisticCurve) first(r *newtonRows) {
	for i, y := range r.y {
		r.e[i] = y - sigmoid(y-r.e[i])
	}
}

func (logisticCurve) firstCut() float64      { return 0.5 }
func (logisticCurve) counted() *poissonCurve { return nil }
func (logisticCurve) size() float64          { return 1 }
func (logisticCurve) reach() float64         { return 1 }

func (c logisticCurve) longest() float64 {
	if c.offset {
		return 2
	}
	return 1
}
func (logisticCurve) least() float64 { return minCurvature }

func (logisticCurve) most() float64 { return 0.25 }

func (c logisticCurve) shares() newtonShares {
	if c.informed {
		return labelShares
	}
	return usualShares
}

func (logisticCurve) unseen(meat, curvature float64) float64 {
	return math.Sqrt(meat / max(curvature, minCurvature))
}

// tailShare counts the tail of surprising labels twice: the scores of the other label, of the same rows,
// are shortened by the same amount in the mean.
func (logisticCurve) tailShare() float64 { return 0.4 }

// huberCurve is the curve of Huber's loss.
type huberCurve struct {
	delta float64 // absolute residual beyond which the loss is linear
	cut   float64 // clipping threshold of targets in the first pass
	far   float64 // typical residual before the last step, where that is seen to be larger than delta
	noisy bool    // noise of second moments is large relative to that of scores: budget shares are those of labels
}

// score uses, in all passes but the last, the curvature of the parabola that touches the loss at the residual and lies
// above it: a step to the minimum of these never overshoots.
func (c huberCurve) score(r *newtonRows) {
	for i, e := range r.e[:r.n] {
		r.score[i], r.tail[i], r.most[i], r.model[i], r.robust[i] = e, c.delta, c.delta, 1, 1
		if size := math.Abs(e); size > c.delta {
			r.score[i], r.model[i], r.robust[i] = numeric.ClampTo(e, c.delta), 0, c.delta/size
		}
	}
}

func (huberCurve) first(*newtonRows)      {} // the target itself: with w = 0 residuals are targets less offsets
func (c huberCurve) firstCut() float64    { return c.cut }
func (huberCurve) counted() *poissonCurve { return nil }
func (c huberCurve) size() float64        { return c.delta }
func (c huberCurve) reach() float64       { return c.delta }
func (c huberCurve) longest() float64     { return 8 * c.delta }
func (huberCurve) least() float64         { return minCurvature }
func (huberCurve) most() float64          { return 1 }

func (c huberCurve) shares() newtonShares {
	if c.noisy {
		return usualShares
	}
	return huberShares
}

// unseen corrects tails, which are computed as if all residuals were beyond delta.
func (c huberCurve) unseen(meat, curvature float64) float64 {
	return math.Sqrt(meat/max(curvature, minCurvature)) / c.delta
}

// tailShare is less than for labels, since tails count every residual as delta and most are smaller.
func (huberCurve) tailShare() float64 { return 0.08 }

// begin is a least-squares step on the clipped targets.
func (huberCurve) begin(s *newtonStart) (w []float64, curvature float64) {
	return leastSquaresStep(linalg.NewWhitener(s.moments, s.noiseFloor), s.gradient, s.deviation, smallMoment(s.longer)), 1
}
