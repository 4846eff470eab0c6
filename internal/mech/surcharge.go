package mech

import "math"

// SurchargeEpsilon is up to which epsilon of all releases together Surcharge holds.
const SurchargeEpsilon = 20

// Surcharge returns the delta by which calls releases of Gaussian{z} on
// contracts of n records and d coordinates differ from normal noise rounded to
// the grid, for theorems that know normal noise only: subsampling, trade-off
// functions. The two laws are within 0.021/s^2 in total variation a coordinate,
// where s, in grid steps, is at least 2z times the grid's 2^bits; and events
// that are so close in total variation differ in delta by 1 + e^epsilon times
// as much (proof: surcharge.md).
func Surcharge(z float64, n, d, calls int) float64 {
	s := math.Ldexp(2*z, int(Contract{N: n}.bits()))
	return math.Min(1, (1+math.Exp(SurchargeEpsilon))*0.0211*float64(d)*float64(calls)/(s*s))
}
