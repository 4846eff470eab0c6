package dpsco

import (
	"gonum.org/v1/gonum/stat/distuv"
)

// Functions for confidence intervals, shared by all methods.

// maxDegrees caps degrees of freedom. The t quantile does not change beyond it, and its computation
// is wrong from about 1e12 on.
const maxDegrees = 1e6

// halfWidth returns half the width of a 95 % interval for an estimate with the given standard
// deviation, known to df degrees of freedom, and with a bias of at most bias.
func halfWidth(deviation, df, bias float64) float64 {
	student := distuv.StudentsT{Sigma: 1, Nu: min(df, maxDegrees)}
	return biasedQuantile(bias/deviation) * deviation * student.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975)
}

// biasedQuantile returns the 95 % quantile of |N(bias, 1)|.
func biasedQuantile(bias float64) float64 {
	low, high := 1.9, bias+3
	for range 60 {
		middle := (low + high) / 2
		if distuv.UnitNormal.CDF(middle-bias)-distuv.UnitNormal.CDF(-middle-bias) < 0.95 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
