package mech

import (
	"fmt"
	"math"
	"math/big"
)

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

// Of a Gaussian release about few enough coordinates for its grid, discrete noise in place of normal noise
// adds at most 2^-35 mu^2 to delta, in any number of releases whose mu^2, the sum of the 1/z^2, is at most
// 128 (proof: rounding.md). privacy.NoiseEpsilon relies on it. Only tables of billions of rows come near
// the limit.

// checkGrid reports whether a Gaussian release may have so many coordinates. least is the smallest variance
// of its noise at z = 1, in squared grid steps.
//
// Errors: wraps ErrParams.
func checkGrid(coordinates int, least *big.Int) error {
	if most := new(big.Int).Rsh(least, 33); most.Cmp(big.NewInt(int64(coordinates))) < 0 {
		return fmt.Errorf("%w: %d coordinates, where sums of so many records can have %v", ErrParams, coordinates, most)
	}
	return nil
}

// mustFitGrid panics if checkGrid refuses. Plans are refused before.
func mustFitGrid(coordinates int, least *big.Int) {
	if err := checkGrid(coordinates, least); err != nil {
		panic(err.Error())
	}
}

// CheckParts reports whether second moments of d columns can be released for so many disjoint parts of n
// records, and with them any sums and counts of the same parts that have no more coordinates.
//
// Errors: wraps ErrParams.
func CheckParts(n, d, parts int) error {
	return checkGrid(parts*d*(d+1)/2, MomentContract{N: n}.leastVariance())
}
