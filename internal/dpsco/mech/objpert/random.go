package objpert

import (
	"math"
	"math/big"

	"dpsidecar/internal/dpsco/mech"
)

// uniform is a uniform real number in [0, 1), of which only the first 64-bit
// digits have been drawn. The others come when a comparison or a sharper
// value needs them, so every decision below is the decision on the real number.
type uniform struct {
	src    *mech.Source
	digits []uint64
}

func newUniform(src *mech.Source) *uniform { return &uniform{src: src} }

func (u *uniform) digit(i int) uint64 {
	for len(u.digits) <= i {
		u.digits = append(u.digits, u.src.Uint64())
	}
	return u.digits[i]
}

func (u *uniform) less(v *uniform) bool {
	i := 0
	for u.digit(i) == v.digit(i) {
		i++
	}
	return u.digit(i) < v.digit(i)
}

// add returns k + u, with u cut after the given number of digits: at most
// 2^(-64 digits) below the real number.
func (u *uniform) add(k uint64, digits int) *big.Float {
	sum := new(big.Int).SetUint64(k)
	for i := range digits {
		sum.Lsh(sum, 64)
		sum.Or(sum, new(big.Int).SetUint64(u.digit(i)))
	}
	v := new(big.Float).SetPrec(uint(64 * (digits + 1))).SetInt(sum)
	return v.SetMantExp(v, -64*digits)
}

// decays returns true with probability exp(-p x), where p is the probability
// that go on says yes and x stands for 1 when it is nil: a chain of uniform
// numbers below x that falls k times and goes on k times has probability
// (p x)^k / k!, and the alternating sum of these is the chance of an even length.
//
// Source: von Neumann 1951; Karney 2016, Algorithm B.
func decays(src *mech.Source, x *uniform, goOn func() bool) bool {
	for even := true; ; even = !even {
		z := newUniform(src)
		if x != nil && !z.less(x) || !goOn() {
			return even
		}
		x = z
	}
}

func always() bool { return true }

// exponential draws k + u with density exp(-(k + u)).
//
// Source: von Neumann 1951.
func exponential(src *mech.Source) (k uint64, u *uniform) {
	for ; ; k++ {
		if u = newUniform(src); decays(src, u, always) {
			return k, u
		}
	}
}

// normal is a standard normal number, (k + u) with a sign.
type normal struct {
	k        uint64
	u        *uniform
	negative bool
}

// newNormal draws a standard normal number exactly.
//
// Source: Karney 2016, Algorithm N.
func newNormal(src *mech.Source) normal {
	half := func() bool { return decays(src, nil, func() bool { return src.Uint64n(2) == 0 }) } // exp(-1/2)
	for {
		k := uint64(0)
		for half() {
			k++
		}
		if u := newUniform(src); repeats(k*(k-1), half) && bends(src, k, u) {
			return normal{k, u, src.Uint64n(2) == 0}
		}
	}
}

// bends is true with probability exp(-u (2k + u) / 2), as k + 1 chances of
// exp(-u p) with p = (2k + u) / (2k + 2).
func bends(src *mech.Source, k uint64, u *uniform) bool {
	p := func() bool {
		m := src.Uint64n(2*k + 2)
		return m < 2*k || m == 2*k && newUniform(src).less(u)
	}
	return repeats(k+1, func() bool { return decays(src, u, p) })
}

func repeats(times uint64, chance func() bool) bool {
	for range times {
		if !chance() {
			return false
		}
	}
	return true
}

// value returns the number to within 2^(-64 digits).
func (z normal) value(digits int) *big.Float {
	v := z.u.add(z.k, digits)
	if z.negative {
		v.Neg(v)
	}
	return v
}

// radialNoise is a vector in R^d with density proportional to exp(-||b|| / scale):
// b = scale ||h|| g for standard normal vectors g in R^d and h in R^(d+1).
type radialNoise struct {
	scale float64
	g, h  []normal
}

// newRadialNoise draws the vector exactly. That ||h|| g has the density: its
// squared length is a product of chi-squares with d and d + 1 degrees of
// freedom, hence by Legendre's duplication formula the square of a Gamma(d)
// radius, and its direction is uniform.
func newRadialNoise(src *mech.Source, d int, scale float64) radialNoise {
	b := radialNoise{scale, make([]normal, d), make([]normal, d+1)}
	for j := range b.g {
		b.g[j] = newNormal(src)
	}
	for j := range b.h {
		b.h[j] = newNormal(src)
	}
	return b
}

// value returns the vector to within tolerance > 0 in norm, whatever was drawn.
func (b radialNoise) value(tolerance float64) []*big.Float {
	for digits := 1; ; digits++ {
		v, err := b.cut(digits)
		if err <= tolerance {
			return v
		}
	}
}

// cut computes the vector from the first digits of its normals and bounds the
// error. With e = 2^(-64 digits) the normals move ||h|| by at most e sqrt(d+1) and g by
// e sqrt(d) in norm; the working precision is 64 bits and more beyond e.
func (b radialNoise) cut(digits int) (v []*big.Float, err float64) {
	precision := uint(64*digits + 128)
	float := func() *big.Float { return new(big.Float).SetPrec(precision) }
	square := func(z []normal) *big.Float {
		sum := float()
		for _, zj := range z {
			vj := zj.value(digits)
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
		v[j] = float().Mul(h, zj.value(digits))
	}
	spread := 4 * math.Sqrt(float64(len(b.h))) * (1 + gNorm) * (1 + hNorm)
	return v, math.Ldexp(b.scale*spread, -64*digits)
}

// discreteLaplace draws an integer with probability proportional to
// exp(-|z| / 2^shift), exactly: the integer part of 2^shift times an
// exponential, with a sign and one zero only. shift is at most 64.
//
// Source: Canonne, Kamath & Steinke 2020, Algorithm 2.
func discreteLaplace(src *mech.Source, shift uint) *big.Int {
	for {
		k, u := exponential(src)
		z := new(big.Int).SetUint64(k)
		z.Lsh(z, shift)
		z.Or(z, new(big.Int).SetUint64(u.digit(0)>>(64-shift)))
		negative := src.Uint64n(2) == 0
		if !negative {
			return z
		}
		if z.Sign() != 0 {
			return z.Neg(z)
		}
	}
}
