package expmech

import (
	"math"
	"math/big"
	"math/bits"

	"dpsidecar/internal/mech"
)

// A number of steps is drawn digit by digit: bits, and one leading digit in [0, 2 leadDigits). The digits
// have integer weights, so the probability of the drawn number is a rational number, known exactly.

const (
	leadDigits = 16
	digitOne   = 1 << 50 // the weight of digit 0
)

// digits returns the number of bits below the leading digit for steps in [0, size), and the number of
// values that the digits can represent, at least size.
func digits(size int64) (low int, padded int64) {
	low = max(0, bits.Len64(uint64(size-1))-5)
	lead := (size + 1<<low - 1) >> low
	return low, lead << low
}

// logGeometric returns the logarithm of sum_{i<size} exp(-rate i), rounded up.
func logGeometric(rate float64, size int64) float64 {
	n := float64(size)
	if rate*n < 1e-9 {
		return math.Log(n)
	}
	return math.Log(math.Expm1(-rate*n) / math.Expm1(-rate))
}

// odds is the probability of a proposal: product of taken over product of sums.
type odds struct {
	taken, sums []uint64
}

// steps draws a number of steps in [0, padded) with probability nearly proportional to exp(-rate steps),
// and records the exact probability in o.
func (o *odds) steps(src *mech.Source, rate float64, size int64) int64 {
	low, padded := digits(size)
	steps := o.digit(src, math.Ldexp(rate, low), int(padded>>low)) << low
	for b := range low {
		steps |= o.digit(src, math.Ldexp(rate, b), 2) << b
	}
	return steps
}

// digit draws i in [0, count) with weight exp(-rate i), rounded up to an integer
// multiple of 1/digitOne.
func (o *odds) digit(src *mech.Source, rate float64, count int) int64 {
	if count == 1 {
		return 0
	}
	var weights [2 * leadDigits]uint64
	var sum uint64
	for i := range count {
		weights[i] = digitOne
		if i > 0 {
			weights[i] = uint64(digitOne*math.Exp(-rate*float64(i))) + 1
		}
		sum += weights[i]
	}
	u, i := src.Uint64n(sum), 0
	for ; u >= weights[i]; i++ {
		u -= weights[i]
	}
	o.taken = append(o.taken, weights[i])
	o.sums = append(o.sums, sum)
	return int64(i)
}

// log returns the logarithm of the probability, within 2^-40.
func (o *odds) log() float64 {
	total, product := 0.0, 1.0
	for i, taken := range o.taken {
		product *= float64(taken) / float64(o.sums[i])
		if product < 0x1p-500 {
			total += math.Log(product)
			product = 1
		}
	}
	return total + math.Log(product)
}

// inverse returns 1 over the probability, exactly.
func (o *odds) inverse() *big.Rat {
	taken, sum := big.NewInt(1), big.NewInt(1)
	for i := range o.taken {
		taken.Mul(taken, new(big.Int).SetUint64(o.taken[i]))
		sum.Mul(sum, new(big.Int).SetUint64(o.sums[i]))
	}
	return new(big.Rat).SetFrac(sum, taken)
}
