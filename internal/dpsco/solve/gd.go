package solve

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
)

// GD is gradient descent, projected or proximal by psi, on all rows or on
// batches.
//
// Source: Wang, Ye & Xu 2017, Algorithm 4 (DP-GD); Xie et al., Algorithms 1 to 4
// (DP-SPGD). Differs: their step K1/sqrt(t), which is undefined at t = 0 and has
// not the unit of a step, is min(Rate, Decay/sqrt(t+1)); which iterate to return
// is free, so it is not drawn at random.
type GD struct {
	Steps   int
	Rate    float64 // length of a step, at most 1/L
	Decay   float64 // > 0: step t = 0, 1, ... has length min(Rate, Decay/sqrt(t+1))
	Batch   int     // rows of a batch; 0: all
	Average float64 // share of the iterates, the last ones, whose mean is returned; 0: the last alone
}

// Uses declares a query for every step.
func (s GD) Uses() []Use { return []Use{{Calls: s.Steps, Batch: s.Batch}} }

// Solve makes Steps steps.
func (s GD) Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error {
	gradient, step := make([]float64, len(w)), prox.Euclidean{Operator: psi}
	var tail mean
	for t := range s.Steps {
		if err := ask(ctx, g, gradient, Query{W: w}); err != nil {
			return err
		}
		step.Step(w, gradient, s.rate(t))
		if float64(t+1) > (1-s.Average)*float64(s.Steps) {
			tail.add(w)
		}
	}
	if tail.count > 0 {
		copy(w, tail.at)
	}
	return nil
}

func (s GD) rate(t int) float64 {
	if s.Decay > 0 {
		return min(s.Rate, s.Decay/math.Sqrt(float64(t+1)))
	}
	return s.Rate
}
