package mech

import (
	"fmt"
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// Gaussian adds independent discrete normal noise to every coordinate of a Bounded. NoiseMultiplier is the
// ratio of its standard deviation to the replace-one l2 sensitivity; that of a Sum is 2 Bound under L2, 2
// Bound sqrt(D) under LInf.
//
// Privacy: rho-zCDP with rho = 1/(2 NoiseMultiplier^2) (proof: gaussian.md).
//
// Source: Canonne, Kamath & Steinke 2020, Theorem 14.
type Gaussian struct{ NoiseMultiplier float64 }

// Check reports whether the noise multiplier can be used.
//
// Errors: wraps ErrParams.
func (g Gaussian) Check() error {
	if !(g.NoiseMultiplier >= 0x1p-10 && g.NoiseMultiplier <= 0x1p50) {
		return fmt.Errorf("%w: NoiseMultiplier = %v; it must be in [2^-10, 2^50]", ErrParams, g.NoiseMultiplier)
	}
	return nil
}

// Event returns the cost of one Release.
func (g Gaussian) Event() privacy.Event { return privacy.Gaussian(g) }

// Release writes b plus noise to dst; a Sum becomes the mean, (sum + noise) / N.
// It panics when g.Check refuses, dst does not have b's length or too many
// coordinates for the grid (see CheckParts), or b was released before.
func (g Gaussian) Release(dst []float64, b Bounded, src *Source) {
	if err := g.Check(); err != nil {
		panic(err.Error())
	}
	mustFitGrid(len(dst), b.contract.l2Squared())
	noise := newGaussianNoise(g.variance(b.contract))
	from := src.begin(g, b.contract, hook.Totals{Steps: b.totals, SquaredBound: b.contract.l2Squared(), Weight: hook.Once})
	noise.release(dst, b, from)
	src.end(dst)
}

// variance returns the noise's variance parameter in squared grid steps,
// exactly: NoiseMultiplier^2 times the squared sensitivity.
func (g Gaussian) variance(c sensitivity) *big.Rat {
	z := new(big.Rat).SetFloat64(g.NoiseMultiplier)
	return z.Mul(z, z).Mul(z, new(big.Rat).SetInt(c.l2Squared()))
}
