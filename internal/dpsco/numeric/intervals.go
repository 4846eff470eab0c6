package numeric

import "gonum.org/v1/gonum/stat/distuv"

// MaxDegrees caps degrees of freedom. The t quantile does not change beyond it, and its computation
// is wrong from about 1e12 on.
const MaxDegrees = 1e6

// HalfWidth returns half the width of a 95 % interval for an estimate with the given standard
// deviation, known to df degrees of freedom, and with a bias of at most bias.
func HalfWidth(deviation, df, bias float64) float64 {
	student := distuv.StudentsT{Sigma: 1, Nu: min(df, MaxDegrees)}
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

// MinDenominator is the least value of a denominator, in its standard deviations, for which a quotient is given.
const MinDenominator = 4
