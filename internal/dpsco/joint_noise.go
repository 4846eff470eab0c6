package dpsco

import (
	"gonum.org/v1/gonum/mat"
)

// noise returns the covariance that the noise of the last pass and of the second
// moments gives the coefficients, given the releases before and without shrinkage: the terms
// of the covariance beside sampling. Nil where noise hides some direction of the features: how far
// they spread there is not known. It is post-processing.
func (f *jointFit) noise() *mat.SymDense {
	if f.floored > 0 {
		return nil
	}
	d := f.shape.D
	influences := f.stepInfluences()
	total := mat.NewSymDense(d, nil)
	total.SymOuterK(square(f.kept.deviation), influences)
	qd, along, qa := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil), mat.NewDense(d, d, nil)
	qd.MulVec(f.q, mat.NewVecDense(d, f.correction(f.kept, 1)))
	qa.Mul(influences, f.q.T())
	along.MulVec(qa, qd)
	scale := square(f.hDeviation) / 2
	var gram mat.SymDense
	gram.SymOuterK(scale*mat.Dot(qd, qd), qa)
	total.AddSym(total, &gram)
	total.SymRankOne(total, scale, along)
	if f.shape.Intercept {
		total.SetSym(0, 0, total.At(0, 0)+square(f.keptLevel.deviation*f.levelScale))
	}
	return total
}
