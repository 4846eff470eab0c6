package objpert

import (
	"math"
	"math/big"

	"dpsidecar/internal/mech"
)

// radialNoise is a vector in R^d with density proportional to exp(-||b|| / scale):
// b = scale ||h|| g for standard normal vectors g in R^d and h in R^(d+1).
type radialNoise struct {
	scale float64
	g, h  []mech.Normal
}

// newRadialNoise draws the vector exactly. ||h|| g has the required density: its squared length is a
// product of chi-squares with d and d + 1 degrees of freedom, hence by Legendre's duplication formula the
// square of a Gamma(d) radius, and its direction is uniform.
func newRadialNoise(src *mech.Source, d int, scale float64) radialNoise {
	b := radialNoise{scale, make([]mech.Normal, d), make([]mech.Normal, d+1)}
	for j := range b.g {
		b.g[j] = src.Normal()
	}
	for j := range b.h {
		b.h[j] = src.Normal()
	}
	return b
}

// value returns the vector with an error of at most tolerance > 0 in norm, for any draw.
func (b radialNoise) value(tolerance float64) []*big.Float {
	for digits := 1; ; digits++ {
		v, err := b.cut(digits)
		if err <= tolerance {
			return v
		}
	}
}

// cut computes the vector from the first digits of its normals and bounds the error. With e = 2^(-64
// digits) the cut changes ||h|| by at most e sqrt(d+1) and g by e sqrt(d) in norm; the working precision
// exceeds e by 64 bits and more.
func (b radialNoise) cut(digits int) (v []*big.Float, err float64) {
	precision := uint(64*digits + 128)
	float := func() *big.Float { return new(big.Float).SetPrec(precision) }
	square := func(z []mech.Normal) *big.Float {
		sum := float()
		for _, zj := range z {
			vj := zj.Value(digits)
			sum.Add(sum, float().Mul(vj, vj))
		}
		return sum
	}
	h := float().Sqrt(square(b.h))
	gNorm, _ := float().Sqrt(square(b.g)).Float64()
	hNorm, _ := h.Float64()
	h.Mul(h, new(big.Float).SetFloat64(b.scale))
	v = make([]*big.Float, len(b.g))
	for j, zj := range b.g {
		v[j] = float().Mul(h, zj.Value(digits))
	}
	spread := 4 * math.Sqrt(float64(len(b.h))) * (1 + gNorm) * (1 + hNorm)
	return v, math.Ldexp(b.scale*spread, -64*digits)
}
