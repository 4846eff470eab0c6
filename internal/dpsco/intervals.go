package dpsco

import (
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// What intervals of all methods are made with.

// sandwich returns A S A'.
func sandwich(a *mat.Dense, s *mat.SymDense) *mat.SymDense {
	var left, both mat.Dense
	left.Mul(a, s)
	both.Mul(&left, a.T())
	d, _ := a.Dims()
	total := mat.NewSymDense(d, nil)
	for i := range d {
		for k := i; k < d; k++ {
			total.SetSym(i, k, both.At(i, k))
		}
	}
	return total
}

// positivePart raises negative eigenvalues to zero; a matrix whose eigenvalues are not
// found is left as it is.
func positivePart(s *mat.SymDense) *mat.SymDense {
	var e mat.EigenSym
	if !e.Factorize(s, true) {
		return s
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	part := mat.NewSymDense(s.SymmetricDim(), nil)
	for k, v := range e.Values(nil) {
		if v > 0 {
			part.SymRankOne(part, v, vectors.ColView(k))
		}
	}
	return part
}

// mostDegrees are as good as any number; with far more, from about 1e12 on, what computes the
// t distribution is wrong.
const mostDegrees = 1e6

// halfWidth is that of an interval that covers 95 % of estimates with a given
// standard deviation, known to some degrees of freedom, and off by bias at most.
func halfWidth(deviation, df, bias float64) float64 {
	student := distuv.StudentsT{Sigma: 1, Nu: min(df, mostDegrees)}
	return biasedQuantile(bias/deviation) * deviation * student.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975)
}

// biasedQuantile is what 95 % of |N(bias, 1)| lie below.
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
