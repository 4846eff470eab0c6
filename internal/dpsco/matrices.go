package dpsco

import (
	"gonum.org/v1/gonum/mat"
)

// identity returns the identity matrix of d rows.
func identity(d int) *mat.Dense {
	p := mat.NewDense(d, d, nil)
	for j := range d {
		p.Set(j, j, 1)
	}
	return p
}

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

// positivePart raises negative eigenvalues to zero. It returns s itself if the eigenvalues cannot be
// computed.
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

// eigen returns eigenvalues in ascending order and eigenvectors; those of the zero matrix if s has
// none that can be computed.
func eigen(s *mat.SymDense) (values []float64, vectors *mat.Dense) {
	var e mat.EigenSym
	if !allFinite(s.RawSymmetric().Data) {
		s = mat.NewSymDense(s.SymmetricDim(), nil)
	}
	if !e.Factorize(s, true) {
		e.Factorize(mat.NewSymDense(s.SymmetricDim(), nil), true)
	}
	vectors = new(mat.Dense)
	e.VectorsTo(vectors)
	return e.Values(nil), vectors
}

// outerSquare returns v v'.
func outerSquare(v []float64) *mat.SymDense {
	o := mat.NewSymDense(len(v), nil)
	o.SymRankOne(o, 1, mat.NewVecDense(len(v), v))
	return o
}

// times returns P v.
func times(p *mat.Dense, v []float64) []float64 {
	w := mat.NewVecDense(len(v), nil)
	w.MulVec(p, mat.NewVecDense(len(v), v))
	return w.RawVector().Data
}

// solveTriangular returns P^-1 w for an upper triangular P with a positive diagonal.
func solveTriangular(p *mat.Dense, w []float64) []float64 {
	v := append([]float64(nil), w...)
	for j := len(v) - 1; j >= 0; j-- {
		for k := j + 1; k < len(v); k++ {
			v[j] -= p.At(j, k) * v[k]
		}
		v[j] /= p.At(j, j)
	}
	return v
}
