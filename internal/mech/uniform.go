package mech

import (
	"math"
	"math/big"
)

// Uniform is a real number drawn uniformly from [0, 1). Binary digits are drawn when a comparison needs
// them.
type Uniform struct {
	src    *Source
	head   uint64   // the first 64 binary digits
	digits *big.Int // the first n digits; nil while head suffices
	n      uint
	low    float64 // lower and upper bounds of the logarithm
	high   float64
}

// Uniform draws the first 64 digits of a uniform real number.
func (s *Source) Uniform() *Uniform {
	head := s.Uint64()
	u := &Uniform{src: s, head: head, n: 64}
	u.low = logBelow(float64(head) * (1 - 0x1p-52) * 0x1p-64)
	u.high = logAbove((float64(head) + 1) * (1 + 0x1p-51) * 0x1p-64)
	return u
}

// logBelow and logAbove enclose the logarithm of x; the error of math.Log is less than one unit in the last
// place, the margin is eight.
func logBelow(x float64) float64 {
	l := math.Log(x)
	return l - math.Abs(l)*0x1p-50
}

func logAbove(x float64) float64 {
	l := math.Log(x)
	return l + math.Abs(l)*0x1p-50
}

// SurelyBelowExp reports whether the first 64 digits prove that the number is below exp(x).
func (u *Uniform) SurelyBelowExp(x float64) bool { return u.high <= x }

// SurelyAboveExp reports whether the first 64 digits prove that the number is not below exp(x).
func (u *Uniform) SurelyAboveExp(x float64) bool { return u.low >= x }

// BelowExp decides exactly whether the number is below scale*exp(x). It draws digits and refines the
// enclosure of the bound until they separate, which happens with probability one. |x| must be below 2^30.
func (u *Uniform) BelowExp(scale, x *big.Rat) bool {
	if u.digits == nil {
		u.digits = new(big.Int).SetUint64(u.head)
	}
	for {
		low, high := scaledExp(scale, x, u.n+64)
		unit := new(big.Float).SetMantExp(big.NewFloat(1), -int(u.n))
		start := new(big.Float).SetPrec(u.n + 64).SetInt(u.digits)
		start.Mul(start, unit)
		end := new(big.Float).SetPrec(u.n+64).Add(start, unit)
		switch {
		case end.Cmp(low) <= 0:
			return true
		case start.Cmp(high) >= 0:
			return false
		}
		u.extend()
	}
}

// extend draws 64 more digits.
func (u *Uniform) extend() {
	u.digits.Lsh(u.digits, 64)
	u.digits.Or(u.digits, new(big.Int).SetUint64(u.src.Uint64()))
	u.n += 64
}

// scaledExp encloses scale*exp(x), scale >= 0, within a relative error of about
// 2^-precision.
func scaledExp(scale, x *big.Rat, precision uint) (low, high *big.Float) {
	low, high = expAbs(x, precision)
	if x.Sign() < 0 {
		one := big.NewFloat(1)
		low, high = directed(low, big.ToNegativeInf).Quo(one, high), directed(high, big.ToPositiveInf).Quo(one, low)
	}
	low.Mul(low, directed(low, big.ToNegativeInf).SetRat(scale))
	high.Mul(high, directed(high, big.ToPositiveInf).SetRat(scale))
	return low, high
}

// directed returns a new number with the precision of like that rounds by mode.
func directed(like *big.Float, mode big.RoundingMode) *big.Float {
	return new(big.Float).SetPrec(like.Prec()).SetMode(mode)
}

// expAbs encloses exp(|x|): the Taylor series at |x|/2^halvings < 1/2, summed once rounding down and once
// rounding up, then squared halvings times. Every term is positive, so each directed operation preserves
// its direction; the remainder after the last term is below that term. |x| must be below 2^30, so that the
// result is in big.Float's range.
func expAbs(x *big.Rat, precision uint) (low, high *big.Float) {
	x = new(big.Rat).Abs(x) // before rounding, because a bound of x is not a bound of |x|
	magnitude, _ := new(big.Float).SetRat(x).Float64()
	halvings := max(0, math.Ilogb(magnitude)+2)
	if x.Sign() == 0 {
		halvings = 0
	}
	sum := func(mode big.RoundingMode) *big.Float {
		number := func() *big.Float {
			return new(big.Float).SetPrec(precision + uint(halvings) + 32).SetMode(mode)
		}
		step := number().SetRat(x)
		step.SetMantExp(step, -halvings)
		total, term := number().SetInt64(1), number().SetInt64(1)
		for k := int64(1); term.Sign() > 0 && term.MantExp(nil) > -int(precision)-halvings-16; k++ {
			term.Mul(term, step)
			term.Quo(term, number().SetInt64(k))
			total.Add(total, term)
		}
		if mode == big.ToPositiveInf {
			total.Add(total, term)
		}
		for range halvings {
			total.Mul(total, total)
		}
		return total
	}
	return sum(big.ToNegativeInf), sum(big.ToPositiveInf)
}
