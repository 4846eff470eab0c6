package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// noise returns the standard deviation that the noise of the last pass and of the second
// moments gives each coefficient, given the releases before and without shrinkage: the terms
// of the covariance beside sampling. Nil where noise hides some direction of the features: how far
// they spread there is not known. It is post-processing.
func (f *jointFit) noise() []float64 {
	if f.floored > 0 {
		return nil
	}
	d := f.shape.D
	qd, along := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	qd.MulVec(f.q, mat.NewVecDense(d, f.correction(f.kept, 1)))
	correction := mat.Dot(qd, qd)
	deviations := make([]float64, d)
	for j := range deviations {
		a := mat.Row(nil, j, f.p)
		if f.shape.Intercept {
			a[0] = 0 // the level takes the constant's place
		}
		along.MulVec(f.q, mat.NewVecDense(d, a))
		variance := floats.Dot(a, a) * square(f.kept.deviation)
		variance += square(f.hDeviation) / 2 * (mat.Dot(along, along)*correction + square(mat.Dot(along, qd)))
		if f.shape.Intercept && j == 0 {
			variance += square(f.keptLevel.deviation * f.levelScale)
		}
		deviations[j] = math.Sqrt(variance)
	}
	return deviations
}
