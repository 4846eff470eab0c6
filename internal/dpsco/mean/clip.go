package mean

import (
	"math"

	"dpsidecar/internal/mech"
)

// Clip averages row gradients that are scaled down to length Norm where they
// are longer. Where a query knows a smaller bound, rows are clipped to that and
// noise shrinks with it.
//
// Privacy: Gaussian noise of multiplier z (proof: clip.md).
//
// Source: Abadi et al. 2016, Algorithm 1; Xie et al., Algorithm 1. Differs: noise
// is relative to the sensitivity under replace-one, 2 Norm / n.
type Clip struct{ Norm float64 }

// At implements Method.
func (m Clip) At(z float64, n, d int) (Estimator, error) {
	g, err := newGaussian(z, mech.Contract{Norm: mech.L2, Bound: m.Norm, N: n, D: d})
	if err != nil {
		return nil, err
	}
	return &clip{g}, nil
}

type clip struct{ gaussian }

// Estimate implements Estimator.
func (e *clip) Estimate(dst []float64, r Rows, near Near, src *mech.Source) {
	e.Release(dst, e.sum(r, near), src)
}

func (e *clip) sum(r Rows, near Near) mech.Bounded {
	c := e.contract
	if near.Norm > 0 && near.Norm < c.Bound {
		c.Bound = math.Max(near.Norm, smallestNorm)
	}
	whole := mech.NewSum(c)
	collect(whole, r, func(part *mech.Sum) func(Block) {
		return func(b Block) { part.AddRows(b.X, b.C) }
	})
	return whole.Bounded()
}

// smallestNorm is the smallest Bound of a mech.Contract.
const smallestNorm = 0x1p-400
