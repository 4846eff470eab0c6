package linalg

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/prox"

	"gonum.org/v1/gonum/mat"
)

// Whitener is P = V diag(Values) V', V orthogonal. Matrix is P, d by d, Vectors is V, whose columns are the
// directions, and Values has one positive number for each. It is not changed once made.
type Whitener struct {
	Matrix  *mat.SymDense
	Vectors *mat.Dense
	Values  []float64
}

// NewWhitener returns H^(-1/2) with the eigenvalues of H raised to floor, which is positive or 0 for a definite H, and
// to their numerical accuracy. Its Values fall, those of the least eigenvalue first.
// It exists for every H: if the eigenvalues are not found, H counts as 0.
func NewWhitener(h *mat.SymDense, floor float64) Whitener {
	d := h.SymmetricDim()
	var eigen mat.EigenSym
	if !eigen.Factorize(h, true) {
		h = mat.NewSymDense(d, nil)
		eigen.Factorize(h, true)
	}
	w := Whitener{Matrix: mat.NewSymDense(d, nil), Vectors: new(mat.Dense), Values: eigen.Values(nil)} // ascending
	eigen.VectorsTo(w.Vectors)
	floor = max(floor, 1e-15*w.Values[d-1])
	for k, v := range w.Values {
		w.Values[k] = 1 / math.Sqrt(max(v, floor))
		w.Matrix.SymRankOne(w.Matrix, w.Values[k], w.Vectors.ColView(k))
	}
	return w
}

// AtScales corrects the whitener of second moments that were multiplied by the square of longer to make up
// for shortened rows. The factor is right in directions in which such rows are long. In the others the
// moment becomes 1, the value at the registered scales, or its value before the multiplication if that is
// larger, but not more than it is. Values are corrected, in the order of those of w; Matrix is that of w.
func (w Whitener) AtScales(longer float64) Whitener {
	values, most := slices.Clone(w.Values), 1/square(w.Values[len(w.Values)-1])
	for k, v := range values {
		if moment := 1 / (v * v); moment < longDirection*most {
			values[k] = 1 / math.Sqrt(min(moment, max(1, moment/square(longer))))
		}
	}
	return Whitener{w.Matrix, w.Vectors, values}
}

// longDirection is the least second moment of a direction in which long rows are long, as a fraction of the
// largest.
const longDirection = 0.05

// Inverse returns the whitener whose matrix is P^-1.
func (w Whitener) Inverse() Whitener {
	v := Whitener{mat.NewSymDense(len(w.Values), nil), w.Vectors, slices.Clone(w.Values)}
	for k, value := range w.Values {
		v.Values[k] = 1 / value
		v.Matrix.SymRankOne(v.Matrix, v.Values[k], v.Vectors.ColView(k))
	}
	return v
}

// Apply returns P u as a new slice.
func (w Whitener) Apply(u []float64) []float64 {
	v := mat.NewVecDense(len(u), nil)
	v.MulVec(w.Matrix, mat.NewVecDense(len(u), u))
	return v.RawVector().Data
}

// Gain returns V diag(keeps) V' P^2, the matrix from a gradient to a step with the given shrinkage factors, one for
// each direction.
func (w Whitener) Gain(keeps []float64) *mat.SymDense {
	g := mat.NewSymDense(len(keeps), nil)
	for k, v := range w.Values {
		g.SymRankOne(g, keeps[k]*v*v, w.Vectors.ColView(k))
	}
	return g
}

// Metric returns u -> psi(P u), as an operator with its proximal point.
func (w Whitener) Metric(psi prox.Operator) prox.Operator {
	if psi == (prox.Zero{}) {
		return psi
	}
	return prox.NewMetric(psi, w.Vectors, w.Values)
}

// MinEigenvalue is a lower bound for eigenvalues of second moments wherever they are divisors.
const MinEigenvalue = 1e-6
