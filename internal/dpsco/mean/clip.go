package mean

import (
	"math"

	"dpsidecar/internal/mech"
)

// Clip averages row gradients, of which those longer than Norm are scaled down to
// length Norm. Where a hint has a smaller norm, gradients are clipped to that, and
// noise shrinks with it.
//
// Privacy: Gaussian noise of multiplier z (proof: clip.md).
//
// Source: Abadi et al. 2016, Algorithm 1; Xie et al., Algorithm 1. Differs: noise
// is relative to the sensitivity under replace-one, 2 Norm / n.
type Clip struct{ Norm float64 }

// At implements Method.
//
// Errors: mech.ErrParams, for a Norm, n or d that mech.Contract refuses, or a z that mech.Gaussian
// does.
func (m Clip) At(z float64, n, d int) (Estimator, error) {
	g, err := newGaussianNoise(z, mech.Contract{Norm: mech.L2, Bound: m.Norm, N: n, D: d})
	if err != nil {
		return nil, err
	}
	return &clipEstimator{g}, nil
}

type clipEstimator struct{ gaussianNoise }

// Estimate implements Estimator.
func (e *clipEstimator) Estimate(dst []float64, r Rows, hints Hints, src *mech.Source) {
	e.Release(dst, e.sum(r, hints), src)
}

func (e *clipEstimator) sum(r Rows, hints Hints) mech.Bounded {
	c := e.contract
	if hints.Norm > 0 && hints.Norm < c.Bound {
		c.Bound = math.Max(hints.Norm, smallestNorm)
	}
	if r.Sum != nil {
		return r.Sum(c).Bounded()
	}
	whole := mech.NewSum(c)
	accumulate(whole, r, func(part *mech.Sum) func(Block) {
		return func(b Block) { part.AddRows(b.X, b.C) }
	})
	return whole.Bounded()
}

// smallestNorm is the smallest Bound of a mech.Contract.
const smallestNorm = 0x1p-400
