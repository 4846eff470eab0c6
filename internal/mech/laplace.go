package mech

import (
	"fmt"
	"math/big"

	"dpsidecar/internal/privacy"
)

// Laplace adds independent discrete Laplace noise to every coordinate of a
// Bounded, scaled to its replace-one l1 sensitivity: 2 Bound D under LInf,
// 2 Bound sqrt(D), rounded upward, under L2.
//
// Privacy: Epsilon-DP (proof: laplace.md).
//
// Source: Ghosh, Roughgarden & Sundararajan 2009.
type Laplace struct{ Epsilon float64 }

// Check reports whether epsilon can be used.
//
// Errors: wraps ErrParams.
func (l Laplace) Check() error { return checkEpsilon(l.Epsilon) }

func checkEpsilon(epsilon float64) error {
	if !(epsilon >= 0x1p-50 && epsilon <= 0x1p20) {
		return fmt.Errorf("%w: Epsilon = %v; it must be in [2^-50, 2^20]", ErrParams, epsilon)
	}
	return nil
}

// Event returns what one Release costs.
func (l Laplace) Event() privacy.Event { return privacy.Pure(l) }

// Release writes the noisy mean of b to dst: (sum + noise) / N. It panics when
// l.Check refuses, dst does not have length D, or b was released before.
func (l Laplace) Release(dst []float64, b Bounded, src *Source) {
	if err := l.Check(); err != nil {
		panic(err.Error())
	}
	newLaplaceNoise(l.scale(b.contract)).release(dst, b, src)
}

// scale returns the noise's scale in grid steps, exactly: l1 sensitivity / Epsilon.
func (l Laplace) scale(c reach) *big.Rat {
	epsilon := new(big.Rat).SetFloat64(l.Epsilon)
	return epsilon.Quo(new(big.Rat).SetInt(c.l1()), epsilon)
}

// DiscreteLaplace draws an integer with probability proportional to
// exp(-|y| / scale), exactly (proof: noise.md). It panics if scale is below 2^-10.
func (s *Source) DiscreteLaplace(scale *big.Rat) *big.Int {
	if scale.Cmp(big.NewRat(1, 1<<10)) < 0 {
		panic("mech: DiscreteLaplace with a scale below 2^-10")
	}
	y := new(big.Int)
	newLaplaceNoise(scale).draw(y, s)
	return y
}
