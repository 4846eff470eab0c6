package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/numeric"
)

// gains returns the fraction of each step v_k to be applied to an estimate whose noise has variance
// before_k, if the step's noise has variance noise_k. The model is v_k ~ N(0, before_k + t^2 +
// noise_k), where t, the other error of the estimate, is found by maximum likelihood: a Kalman
// filter with an unknown drift t.
func gains(v, before, noise []float64) (keep []float64, drift float64) {
	unit := math.Inf(1)
	for k, s := range noise {
		unit = min(unit, math.Sqrt(s))
		if !(before[k] >= 0 && before[k] <= math.MaxFloat64) {
			before[k] = 0 // an unknown variance is left to the drift
		}
	}
	drift = numeric.LikeliestSpread(v, unit, func(k int, t float64) float64 { return before[k] + t*t + noise[k] })
	keep = make([]float64, len(v))
	for k := range keep {
		signal := before[k] + drift*drift
		keep[k] = signal / (signal + noise[k])
	}
	return keep, drift
}
