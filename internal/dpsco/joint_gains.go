package dpsco

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// gains returns how much of each step v_k is to be made from a fit with noise of a variance before_k, where
// the step has noise of variance noise_k: v_k ~ N(0, before_k + t^2 + noise_k), with t, what else the fit
// is off by, as likely as can be. That is a Kalman filter with an unknown drift, t.
func gains(v, before, noise []float64) (keep []float64, drift float64) {
	unit := math.Inf(1)
	for k, s := range noise {
		unit = min(unit, math.Sqrt(s))
		if !(before[k] >= 0 && before[k] <= math.MaxFloat64) {
			before[k] = 0 // what is not known is drift
		}
	}
	best, least := 0.0, math.Inf(1)
	for k := range driftSteps {
		t, cost := 0.0, 0.0
		if k > 0 {
			t = unit * math.Exp2(float64(k-firstDrift)/2)
		}
		for i, x := range v {
			total := before[i] + t*t + noise[i]
			cost += math.Log(total) + x*x/total
		}
		if cost < least {
			best, least = t, cost
		}
	}
	keep = make([]float64, len(v))
	for k := range keep {
		signal := before[k] + best*best
		keep[k] = signal / (signal + noise[k])
	}
	return keep, best
}

// Drifts that gains tries: none, and half octaves from a quarter of the least noise on.
const (
	driftSteps = 45
	firstDrift = 5
)

// eigen returns eigenvalues, ascending, and eigenvectors; of a matrix that has none to be found those of zero.
func eigen(s *mat.SymDense) (values []float64, vectors *mat.Dense) {
	var e mat.EigenSym
	for _, v := range s.RawSymmetric().Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s = mat.NewSymDense(s.SymmetricDim(), nil)
			break
		}
	}
	if !e.Factorize(s, true) {
		e.Factorize(mat.NewSymDense(s.SymmetricDim(), nil), true)
	}
	vectors = new(mat.Dense)
	e.VectorsTo(vectors)
	return e.Values(nil), vectors
}
