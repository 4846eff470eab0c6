package mean

import (
	"math"

	"dpsidecar/internal/mech"
)

// Known is an Estimator whose answers carry noise of a size that public
// parameters alone decide.
type Known interface {
	// Noise returns the standard deviation of the noise in each coordinate of an
	// estimate, for row gradients clipped to norm; 0: to the method's own.
	Noise(norm float64) float64
}

// Noise implements Known: the noise multiplier times the sensitivity of a mean.
func (g gaussian) Noise(float64) float64 {
	c := g.contract
	sensitivity := 2 * c.Bound / float64(c.N)
	if c.Norm == mech.LInf {
		sensitivity *= math.Sqrt(float64(c.D))
	}
	return g.NoiseMultiplier * sensitivity
}

// Noise implements Known.
func (e *clip) Noise(norm float64) float64 {
	whole := e.gaussian.Noise(0)
	if norm > 0 && norm < e.contract.Bound {
		return whole * norm / e.contract.Bound
	}
	return whole
}
