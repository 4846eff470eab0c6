package mean

import (
	"math"

	"dpsidecar/internal/mech"
)

// Known is an Estimator whose noise has a size that is known from public parameters
// alone.
type Known interface {
	// Noise returns the standard deviation of the noise in each coordinate of an
	// estimate, where row gradients are clipped to norm; 0: to the estimator's own.
	Noise(norm float64) float64
}

// Noise implements Known: the noise multiplier times the sensitivity of a mean.
func (g gaussianNoise) Noise(float64) float64 {
	c := g.contract
	sensitivity := 2 * c.Bound / float64(c.N)
	if c.Norm == mech.LInf {
		sensitivity *= math.Sqrt(float64(c.D))
	}
	return g.NoiseMultiplier * sensitivity
}

// Noise implements Known.
func (e *clipEstimator) Noise(norm float64) float64 {
	full := e.gaussianNoise.Noise(0)
	if norm > 0 && norm < e.contract.Bound {
		return full * norm / e.contract.Bound
	}
	return full
}
