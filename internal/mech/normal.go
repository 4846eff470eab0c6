package mech

import "math/big"

// Normal is a standard normal real number, (k + u) with a sign. Digits of u are drawn when they are needed.
type Normal struct {
	k        uint64
	u        *fraction
	negative bool
}

// Normal draws a standard normal number, exactly (proof: normal.md).
//
// Source: Karney 2016, Algorithm N.
func (s *Source) Normal() Normal {
	half := func() bool { return bernoulliExp(s, nil, func() bool { return s.Uint64n(2) == 0 }) } // exp(-1/2)
	for {
		k := uint64(0)
		for half() {
			k++
		}
		if u := newFraction(s); allOf(k*(k-1), half) && bernoulliExpOfFraction(s, k, u) {
			return Normal{k, u, s.Uint64n(2) == 0}
		}
	}
}

// Value returns the number cut toward zero after 64*digits binary digits: it is off by less than 2^(-64
// digits).
func (z Normal) Value(digits int) *big.Float {
	v := z.u.add(z.k, digits)
	if z.negative {
		v.Neg(v)
	}
	return v
}

// scaled returns Value times 2^(64 digits), an integer.
func (z Normal) scaled(digits int) *big.Int {
	v := z.u.digitsAfter(z.k, digits)
	if z.negative {
		v.Neg(v)
	}
	return v
}

// fraction is a uniform real number in [0, 1). Its first 64-bit digits are drawn; later ones are drawn when
// a comparison or a more precise value needs them, so every decision is the decision for the real number.
type fraction struct {
	src    *Source
	digits []uint64
}

func newFraction(src *Source) *fraction { return &fraction{src: src} }

func (u *fraction) digit(i int) uint64 {
	for len(u.digits) <= i {
		u.digits = append(u.digits, u.src.Uint64())
	}
	return u.digits[i]
}

func (u *fraction) less(v *fraction) bool {
	i := 0
	for u.digit(i) == v.digit(i) {
		i++
	}
	return u.digit(i) < v.digit(i)
}

// add returns k + u, with u cut after the given number of digits: at most 2^(-64 digits) below the real
// number.
func (u *fraction) add(k uint64, digits int) *big.Float {
	v := new(big.Float).SetPrec(uint(64 * (digits + 1))).SetInt(u.digitsAfter(k, digits))
	return v.SetMantExp(v, -64*digits)
}

// digitsAfter returns the integer whose 64-bit digits are k and the first digits of u.
func (u *fraction) digitsAfter(k uint64, digits int) *big.Int {
	sum := new(big.Int).SetUint64(k)
	for i := range digits {
		sum.Lsh(sum, 64)
		sum.Or(sum, new(big.Int).SetUint64(u.digit(i)))
	}
	return sum
}

// bernoulliExp returns true with probability exp(-p x), where p is the probability that goOn returns true,
// and a nil x stands for 1. It draws a decreasing chain of uniform numbers below x, which has length at
// least k, with goOn true each time, with probability (p x)^k / k!; the alternating sum of these is the
// probability that the length is even.
//
// Source: von Neumann 1951; Karney 2016, Algorithm B.
func bernoulliExp(src *Source, x *fraction, goOn func() bool) bool {
	for even := true; ; even = !even {
		z := newFraction(src)
		if x != nil && !z.less(x) || !goOn() {
			return even
		}
		x = z
	}
}

// bernoulliExpOfFraction returns true with probability exp(-u (2k + u) / 2): if k + 1 trials, each true
// with probability exp(-u p), p = (2k + u) / (2k + 2), all succeed.
func bernoulliExpOfFraction(src *Source, k uint64, u *fraction) bool {
	p := func() bool {
		m := src.Uint64n(2*k + 2)
		return m < 2*k || m == 2*k && newFraction(src).less(u)
	}
	return allOf(k+1, func() bool { return bernoulliExp(src, u, p) })
}

// allOf reports whether all of the given number of trials succeed.
func allOf(times uint64, trial func() bool) bool {
	for range times {
		if !trial() {
			return false
		}
	}
	return true
}
