package magnitude

import (
	"math"

	"dpsidecar/internal/mech"
)

// CountStdDev is the standard deviation of the noise on a count of a histogram of columns or, where a rule for normal
// noise reads it, laplaceTail times that under Laplace noise; 1: as it is.
func CountStdDev(noise mech.Mechanism, columns int, laplaceTail float64) float64 {
	switch noise := noise.(type) {
	case mech.Laplace:
		return laplaceTail * (math.Sqrt2 * 2) * float64(columns) / noise.Epsilon
	case mech.Gaussian:
		return noise.NoiseMultiplier * math.Sqrt(2*float64(columns))
	}
	panic("dpsco: a histogram with another noise")
}

// LaplaceTail is the ratio of the numbers of standard deviations that Laplace noise and normal noise exceed with the
// same probability, where that of normal noise is seenMode: magnitudes are read by rules for normal noise.
const LaplaceTail = 1.9
