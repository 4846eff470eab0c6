package mech

import "math"

// RoundingEpsilon is the largest total epsilon of all releases for which RoundingDelta holds.
const RoundingEpsilon = 20

// RoundingDelta returns a bound on the difference in delta between calls releases of Gaussian{z}, on contracts
// of n records and d coordinates, and the same releases with normal noise rounded to the grid. It is for
// theorems that assume normal noise: subsampling, trade-off functions. In each coordinate the two laws are
// within 0.021/s^2 in total variation, where s, in grid steps, is at least 2z times the grid's 2^bits; a
// total variation of t costs (1 + e^epsilon) t in delta (proof: rounding.md).
func RoundingDelta(z float64, n, d, calls int) float64 {
	s := math.Ldexp(2*z, int(Contract{N: n}.bits()))
	return math.Min(1, (1+math.Exp(RoundingEpsilon))*0.0211*float64(d)*float64(calls)/(s*s))
}
