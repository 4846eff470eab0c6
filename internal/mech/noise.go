package mech

import (
	"math"
	"math/big"
)

// noise is a symmetric law on the integers with P(y) proportional to exp(-square y^2 - linear |y|). It is
// drawn by rejection from the discrete Laplace law with scale 2^shift, with exact decisions (proof:
// noise.md).
type noise struct {
	square, linear, constant *big.Rat
	shift                    uint
	a, b, c                  float64 // coefficients of the same polynomial in |y| / 2^shift
}

// newGaussianNoise returns the discrete normal law: P(y) proportional to exp(-y^2 / (2 variance)). Its
// proposals have the scale t, a power of two near the standard deviation; the constant variance / (2 t^2)
// makes the exponent at least 0.
//
// Source: Canonne, Kamath & Steinke 2020, Algorithm 3, for any t.
func newGaussianNoise(variance *big.Rat) *noise {
	v, _ := variance.Float64()
	shift := uint(max(0, math.Round(math.Log2(v)/2)))
	half := big.NewRat(1, 2)
	square := new(big.Rat).Quo(half, variance)
	constant := new(big.Rat).Quo(variance, power(2*shift))
	return newNoise(square, new(big.Rat), constant.Mul(constant, half), shift)
}

// newLaplaceNoise returns the discrete Laplace law: P(y) proportional to exp(-|y| / scale). Its proposals
// have the next power of two as their scale.
func newLaplaceNoise(scale *big.Rat) *noise {
	shift := uint(0)
	for power(shift).Cmp(scale) < 0 {
		shift++
	}
	return newNoise(new(big.Rat), new(big.Rat).Inv(scale), new(big.Rat), shift)
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

func newNoise(square, linear, constant *big.Rat, shift uint) *noise {
	n := &noise{square: square, linear: linear, constant: constant, shift: shift}
	n.a, _ = new(big.Rat).Mul(square, power(2*shift)).Float64()
	n.b, _ = new(big.Rat).Mul(linear, power(shift)).Float64()
	n.c, _ = constant.Float64()
	return n
}

func power(k uint) *big.Rat { return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), k)) }

// draw sets y to an independent draw. With t = 2^shift it proposes |y| = t whole + u, whole geometric with
// P(whole >= k) = exp(-k) and u uniform on the integers in [0, t); accepts it with probability exp(-x),
//
//	x = square y^2 + linear |y| + constant - whole >= 0;
//
// and gives it a random sign (zero is accepted with one sign only). An enclosure of x in float64 decides
// almost always, exact arithmetic otherwise.
func (n *noise) draw(y *big.Int, src *Source) {
	for {
		whole, head := src.geometric(), src.Uint64()
		if n.shift < 64 {
			head &= ^(^uint64(0) >> n.shift)
		}
		low, high := n.exponent(float64(whole), float64(head)*0x1p-64)
		u := src.Uniform()
		if u.SurelyAboveExp(-low) {
			continue
		}
		n.appendDigits(y, whole, head, src)
		if !u.SurelyBelowExp(-high) && !u.BelowExp(big.NewRat(1, 1), n.minusExponent(whole, y)) {
			continue
		}
		negative := src.Uint64()&1 == 0
		if negative && y.Sign() == 0 {
			continue
		}
		if negative {
			y.Neg(y)
		}
		return
	}
}

// exponent encloses x for |y| / t = whole + fraction. The slack is many times the rounding errors (Lemma 2
// of noise.md).
func (n *noise) exponent(whole, fraction float64) (low, high float64) {
	y := whole + fraction
	x := y*(n.a*y+n.b) + n.c - whole
	slack := ((y+1)*(n.a*(y+1)+n.b) + n.c + whole) * 0x1p-48
	return x - slack, x + slack
}

// appendDigits sets y to t whole + u, where head holds the first 64 digits of u / t; it draws the other
// digits.
func (n *noise) appendDigits(y *big.Int, whole, head uint64, src *Source) {
	y.SetUint64(whole)
	shift := min(n.shift, 64)
	for rest := n.shift; ; {
		y.Lsh(y, shift)
		y.Or(y, new(big.Int).SetUint64(head>>(64-shift)))
		if rest -= shift; rest == 0 {
			return
		}
		shift, head = min(rest, 64), src.Uint64()
	}
}

// minusExponent returns -x, exactly.
func (n *noise) minusExponent(whole uint64, y *big.Int) *big.Rat {
	v := new(big.Rat).SetInt(y)
	x := new(big.Rat).Mul(n.square, v)
	x.Add(x, n.linear).Mul(x, v).Add(x, n.constant)
	return x.Sub(new(big.Rat).SetInt(new(big.Int).SetUint64(whole)), x)
}

// geometric draws k with P(k >= i) = exp(-i), exactly: the largest k for which a
// uniform number is below exp(-k).
func (s *Source) geometric() uint64 {
	u := s.Uniform()
	k := uint64(max(0, -u.high)) // surely below exp(-k)
	for u.belowExpOf(k + 1) {
		k++
	}
	return k
}

// belowExpOf reports, exactly, whether the number is below exp(-k).
func (u *Uniform) belowExpOf(k uint64) bool {
	x := -float64(k)
	if u.SurelyAboveExp(x) {
		return false
	}
	return u.SurelyBelowExp(x) || u.BelowExp(big.NewRat(1, 1), new(big.Rat).SetFloat64(x))
}

// release writes the sum in b plus noise, divided by N, to dst.
func (n *noise) release(dst []float64, b Bounded, src *Source) {
	contract, totals := b.unseal()
	if len(dst) != len(totals) {
		panic("mech: a release of the wrong length")
	}
	y, total := new(big.Int), new(big.Int)
	for j, q := range totals {
		n.draw(y, src)
		dst[j] = contract.inUnits(y.Add(y, total.SetInt64(q)))
	}
}
