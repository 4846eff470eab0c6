// Package linalg is the linear algebra of small matrices: products, eigenvalues, coordinates in which second
// moments are the identity, and proximal steps in their metric. It works on released or public numbers and never
// holds data, so that a bug costs accuracy only.
//
// Dimensions that do not match panic, as in gonum. No function returns an error: what cannot be computed has a
// substitute, which its comment names.
package linalg

import (
	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/numeric"
)

// Identity returns the identity matrix, d by d.
func Identity(d int) *mat.Dense {
	p := mat.NewDense(d, d, nil)
	for j := range d {
		p.Set(j, j, 1)
	}
	return p
}

// Sandwich returns A S A', m by m, for A of m by d and S of d by d.
func Sandwich(a *mat.Dense, s *mat.SymDense) *mat.SymDense {
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

// PositivePart returns s with negative eigenvalues raised to zero, or s itself if the eigenvalues cannot be
// computed.
func PositivePart(s *mat.SymDense) *mat.SymDense {
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

// Eigen returns the d eigenvalues in ascending order and the eigenvectors as columns, d by d; those of the zero
// matrix if s has none that can be computed.
func Eigen(s *mat.SymDense) (values []float64, vectors *mat.Dense) {
	var e mat.EigenSym
	if !numeric.AllFinite(s.RawSymmetric().Data) {
		s = mat.NewSymDense(s.SymmetricDim(), nil)
	}
	if !e.Factorize(s, true) {
		e.Factorize(mat.NewSymDense(s.SymmetricDim(), nil), true)
	}
	vectors = new(mat.Dense)
	e.VectorsTo(vectors)
	return e.Values(nil), vectors
}

// OuterSquare returns v v', d by d for d numbers.
func OuterSquare(v []float64) *mat.SymDense {
	o := mat.NewSymDense(len(v), nil)
	o.SymRankOne(o, 1, mat.NewVecDense(len(v), v))
	return o
}

// Times returns P v as a new slice, for P of d by d and d numbers.
func Times(p *mat.Dense, v []float64) []float64 {
	w := mat.NewVecDense(len(v), nil)
	w.MulVec(p, mat.NewVecDense(len(v), v))
	return w.RawVector().Data
}

// SolveTriangular returns P^-1 w as a new slice, for an upper triangular P of d by d with a positive diagonal and d
// numbers.
func SolveTriangular(p *mat.Dense, w []float64) []float64 {
	v := append([]float64(nil), w...)
	for j := len(v) - 1; j >= 0; j-- {
		for k := j + 1; k < len(v); k++ {
			v[j] -= p.At(j, k) * v[k]
		}
		v[j] /= p.At(j, j)
	}
	return v
}

func square(v float64) float64 { return v * v }

// Minus returns x - q y.
func Minus(x []float64, q float64, y []float64) []float64 {
	z := make([]float64, len(x))
	for j := range z {
		z[j] = x[j] - q*y[j]
	}
	return z
}
