package mech

import (
	"fmt"
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// Laplace adds independent discrete Laplace noise to every coordinate of a Bounded. Its scale is the
// replace-one l1 sensitivity divided by Epsilon; the sensitivity of a Sum is at most 2 Bound D under LInf
// and 2 Bound sqrt(D), rounded upward, under L2, and that of a Histogram is 2 D counts.
//
// Privacy: Epsilon-DP (proof: laplace.md).
//
// Source: Dwork, McSherry, Nissim & Smith 2006; Ghosh, Roughgarden & Sundararajan 2012.
type Laplace struct{ Epsilon float64 }

// Check reports whether the epsilon can be used.
//
// Errors: wraps ErrParams.
func (l Laplace) Check() error {
	if !(l.Epsilon >= 0x1p-50 && l.Epsilon <= 0x1p20) {
		return fmt.Errorf("%w: Epsilon = %v; it must be in [2^-50, 2^20]", ErrParams, l.Epsilon)
	}
	return nil
}

// Event returns the cost of one Release.
func (l Laplace) Event() privacy.Event { return privacy.Pure(l) }

// Release writes b plus noise to dst; a Sum becomes the mean, (sum + noise) / N.
// It panics when l.Check refuses, dst does not have b's length, or b was released
// before.
func (l Laplace) Release(dst []float64, b Bounded, src *Source) {
	if err := l.Check(); err != nil {
		panic(err.Error())
	}
	noise := newLaplaceNoise(l.scale(b.contract))
	from := src.begin(l, b.contract, hook.Absolutes{Steps: b.totals, Bound: b.contract.l1()})
	noise.release(dst, b, from)
	src.end(dst)
}

// MeanScale returns the scale of the noise on each coordinate of a mean under LInf.
func (l Laplace) MeanScale(c Contract) float64 {
	return 2 * c.Bound * float64(c.D) / l.Epsilon / float64(c.N)
}

// scale returns the noise's scale in grid steps, exactly: the sensitivity divided by Epsilon.
func (l Laplace) scale(c sensitivity) *big.Rat {
	epsilon := new(big.Rat).SetFloat64(l.Epsilon)
	return epsilon.Quo(new(big.Rat).SetInt(c.l1()), epsilon)
}
