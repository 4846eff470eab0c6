package linalg

import (
	"math"

	"dpsidecar/internal/dpsco/prox"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Triangular returns an upper triangular Q, d by d, with Q'HQ = 1, for H with its eigenvalues raised, and the d
// eigenvalues before that, the least first. w is the whitener of H. The first coordinate of Q'x is a multiple of the first
// coordinate of x, so that a constant remains one.
func (w Whitener) Triangular(h *mat.SymDense) (q *mat.Dense, along []float64) {
	d := h.SymmetricDim()
	raised := mat.NewSymDense(d, nil)
	for k, v := range w.Values {
		along = append(along, mat.Inner(w.Vectors.ColView(k), h, w.Vectors.ColView(k)))
		raised.SymRankOne(raised, 1/(v*v), w.Vectors.ColView(k))
	}
	var factor mat.Cholesky
	q = mat.NewDense(d, d, nil)
	if !factor.Factorize(raised) { // rounding: raised is positive definite
		for j := range d {
			q.Set(j, j, w.Values[0])
		}
		return q, make([]float64, d)
	}
	var upper, inverse mat.TriDense
	factor.UTo(&upper)             // H = U'U
	_ = inverse.InverseTri(&upper) // an error only reports bad conditioning
	q.Copy(&inverse)
	return q, along
}

// CountBelow returns the number of values below a limit.
func CountBelow(values []float64, limit float64) (count int) {
	for _, v := range values {
		if v < limit {
			count++
		}
	}
	return count
}

// MeanSquareLength bounds the mean square of the length of Q'x, where H, with the given standard deviation of
// noise on its diagonal, are the second moments of x and Q whitens them; both are d by d. It is at least 1, and less
// than d where eigenvalues were raised.
func MeanSquareLength(q *mat.Dense, h *mat.SymDense, deviation float64) float64 {
	var whitened mat.Dense
	whitened.Mul(q.T(), h)
	whitened.Mul(&whitened, q)
	d := h.SymmetricDim()
	noise := 0.0
	for j := range d {
		column := mat.Col(nil, j, q)
		noise += square(floats.Dot(column, column))
	}
	return min(float64(d), max(1, mat.Trace(&whitened))+deviation*math.Sqrt(noise))
}

// penaltyMetric is Psi in the metric (P P')^-1: the second moments that were released.
type penaltyMetric struct {
	metric    *prox.Metric
	root      *mat.SymDense // of P P'
	flattened Whitener      // its inverse
}

func newPenaltyMetric(psi prox.Operator, p *mat.Dense) *penaltyMetric {
	var gram mat.SymDense
	gram.SymOuterK(1, p)
	m := &penaltyMetric{flattened: NewWhitener(&gram, 0), root: mat.NewSymDense(gram.SymmetricDim(), nil)}
	values := make([]float64, len(m.flattened.Values))
	for k, v := range m.flattened.Values {
		values[k] = 1 / v
		m.root.SymRankOne(m.root, values[k], m.flattened.Vectors.ColView(k))
	}
	m.metric = prox.NewMetric(psi, m.flattened.Vectors, values)
	return m
}

// nearest moves w to the minimum of half of the squared distance from w plus Psi multiplied by times.
func (m *penaltyMetric) nearest(w []float64, times float64) {
	u := m.flattened.Apply(w)
	m.metric.Prox(u, times)
	mat.NewVecDense(len(w), w).MulVec(m.root, mat.NewVecDense(len(u), u))
}

// ProximalStep overwrites the d numbers w with the minimum of half of the squared distance from w, in the metric
// (P P')^-1, plus Psi multiplied by times. P is d by d and regular. A nil Psi is 0.
func ProximalStep(psi prox.Operator, p *mat.Dense, w []float64, times float64) {
	if ball, only := psi.(prox.L2Ball); psi == nil || only && floats.Norm(w, 2) <= ball.Radius {
		return
	}
	newPenaltyMetric(psi, p).nearest(w, times)
}
