package dpsco

import (
	"gonum.org/v1/gonum/mat"
)

// noise returns the covariance that the noise of the last score and of the
// curvature gives the coefficients, given the releases before and without shrinkage: the
// terms of the covariance beside sampling and what one step leaves. Nil where noise hides
// some direction of the features, and where a penalty or the ball moves the fit. It is
// post-processing.
func (f *newtonFit) noise() *mat.SymDense {
	if f.floored > 0 || !f.free() {
		return nil
	}
	d := f.shape.D
	c, qd := f.influences(f.q), mat.NewVecDense(d, times(f.q, f.lastMove()))
	scale := square(f.hDeviation) / 2
	total, along := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
	total.SymOuterK(square(f.gDeviation)+scale*mat.Dot(qd, qd), c)
	along.MulVec(c, qd)
	total.SymRankOne(total, scale, along)
	return total
}
