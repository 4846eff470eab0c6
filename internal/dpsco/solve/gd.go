package solve

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
)

// GD is gradient descent, projected or proximal by psi, on all rows or on
// batches.
//
// Source: Wang, Ye & Xu 2017, Algorithm 4 (DP-GD); Xie et al., Algorithms 1 to 4 (DP-SPGD). Differs:
// the step length is min(Rate, Decay/sqrt(t+1)) instead of K1/sqrt(t), which is undefined at t = 0
// and does not have the unit of a step length; the answer is the mean of the last iterates, or the
// last one, instead of an iterate drawn at random.
type GD struct {
	Steps   int
	Rate    float64 // length of a step, at most 1/L
	Decay   float64 // > 0: step t = 0, 1, ... has length min(Rate, Decay/sqrt(t+1))
	Batch   int     // rows of a batch; 0: all
	Average float64 // the mean of this share of the iterates, the last ones, is returned; 0: the last one
}

// Uses declares a query for every step.
func (s GD) Uses() []Use { return []Use{{Calls: s.Steps, Batch: s.Batch}} }

// Solve makes Steps steps.
func (s GD) Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error {
	gradient := make([]float64, len(w))
	var tail runningMean
	for t := range s.Steps {
		if err := ask(ctx, g, gradient, Query{W: w}); err != nil {
			return err
		}
		prox.GradientStep(psi, w, gradient, s.stepLength(t))
		if float64(t+1) > (1-s.Average)*float64(s.Steps) {
			tail.add(w)
		}
	}
	if tail.count > 0 {
		copy(w, tail.mean)
	}
	return nil
}

// stepLength returns the length of step t.
func (s GD) stepLength(t int) float64 {
	if s.Decay > 0 {
		return min(s.Rate, s.Decay/math.Sqrt(float64(t+1)))
	}
	return s.Rate
}
