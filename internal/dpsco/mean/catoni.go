package mean

import (
	"fmt"
	"math"

	"dpsidecar/internal/mech"
)

// Catoni averages Scale h(g / Scale), coordinate by coordinate, where h is
// Catoni's influence function smoothed by normal noise of variance 1 / Beta:
// linear near zero, never above 0.943. Beta = +Inf leaves it as it is.
//
// Privacy: Gaussian noise of multiplier z on coordinates clamped to
// Scale sup h (proof: catoni.md).
//
// Source: Catoni & Giulini 2017; Holland 2019; Wang, Xiao, Devadas & Xu 2020,
// Algorithm 4. Differs: h is tabulated and clamped, because the printed closed form loses all
// its digits to cancellation for large arguments; noise is calibrated through z.
type Catoni struct{ Scale, Beta float64 }

// At implements Method.
//
// Errors: mech.ErrParams, for a Beta out of range; a Scale, n or d that mech.Contract refuses, or a z
// that mech.Gaussian does.
func (m Catoni) At(z float64, n, d int) (Estimator, error) {
	if !(m.Beta >= minBeta && m.Beta <= maxBeta || math.IsInf(m.Beta, 1)) {
		return nil, fmt.Errorf("%w: Beta = %v; it must be in [%v, %v] or infinite", mech.ErrParams, m.Beta, minBeta, maxBeta)
	}
	g, err := newGaussianNoise(z, mech.Contract{Norm: mech.LInf, Bound: m.bound(), N: n, D: d})
	if err != nil {
		return nil, err
	}
	return &catoniEstimator{gaussianNoise: g, Catoni: m}, nil
}

// bound returns an upper bound on |Scale h|, a little above the supremum, so that
// rounding leads to no clamping.
func (m Catoni) bound() float64 { return m.Scale * influenceLimit(m.Beta) * (1 + 1e-8) }

// CatoniScale returns the Scale for which bias and noise of Catoni are balanced
// when every gradient coordinate has second moment at most v: the minimum of
//
//	(b v / s)^2 + (2 s z sup h sqrt(d) / n)^2,  b = (1 + 1/beta) / (4 sup phi),
//
// as |u - phi(u)| <= u^2 / (4 sup phi).
func CatoniScale(v, beta, z float64, n, d int) float64 {
	bias := v * (1 + 1/beta) / (4 * phiLimit)
	noise := 2 * influenceLimit(beta) * z * math.Sqrt(float64(d)) / float64(n)
	return math.Sqrt(bias / noise)
}

type catoniEstimator struct {
	gaussianNoise
	Catoni
	h influence // made by the first estimate: planning does not need it
}

// Estimate implements Estimator.
func (e *catoniEstimator) Estimate(dst []float64, r Rows, _ Hints, src *mech.Source) {
	e.Release(dst, e.sum(r), src)
}

func (e *catoniEstimator) sum(r Rows) mech.Bounded {
	if e.h == nil {
		e.h = newInfluence(e.Beta)
	}
	whole := mech.NewSum(e.contract)
	accumulate(whole, r, func(part *mech.Sum) func(Block) {
		scratch := newRowBuffer(r.D)
		scale := make([]float64, chunkRows)
		for i := range scale {
			scale[i] = e.Scale
		}
		column := func(dst []float64, _ int, x, c []float64) { e.h.apply(dst, x, c, 1/e.Scale) }
		add := func(rows mech.Rows, m int) { part.AddRows(rows, scale[:m]) }
		return func(b Block) { scratch.each(b, column, add) }
	})
	return whole.Bounded()
}
