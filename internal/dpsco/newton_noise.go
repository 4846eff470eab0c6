package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// noise returns the standard deviation that the noise of the last score and of the
// curvature gives each coefficient, given the releases before and without shrinkage: the
// terms of the covariance beside sampling and what one step leaves. Nil where noise hides
// some direction of the features, and where a penalty or the ball moves the fit. It is
// post-processing.
func (f *newtonFit) noise() []float64 {
	if f.floored > 0 || !f.free() {
		return nil
	}
	c, qd := f.influences(f.q), times(f.q, f.lastMove())
	deviations := make([]float64, f.shape.D)
	for j := range deviations {
		a := mat.Row(nil, j, c)
		step, scale := floats.Dot(qd, qd), square(f.hDeviation)/2
		deviations[j] = math.Sqrt(floats.Dot(a, a)*(square(f.gDeviation)+scale*step) + scale*square(floats.Dot(a, qd)))
	}
	return deviations
}
