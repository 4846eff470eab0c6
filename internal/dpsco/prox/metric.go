package prox

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Metric is the function u -> psi(P u): psi is the penalty of w = P u, and a solver
// works in u.
//
// With Q = P^-2 the prox of v minimises t psi(w) + (w-w0)' Q (w-w0) / 2, w0 = P v. It is solved by
// accelerated proximal gradient steps, which end when the optimality residual proves the error to be
// below 1e-10 of the size of input and result. Their number depends on P and on v: a caller whose v
// is private bounds it by AtMost.
//
// Source: Beck & Teboulle 2009; restarts: O'Donoghue & Candes 2015.
type Metric struct {
	psi        Operator
	p, inverse *mat.Dense // dense although symmetric: products are faster
	q          *mat.Dense
	largestQ   float64 // eigenvalue of Q
	smallestQ  float64
	steps      int // inner steps, at most
}

// NewMetric returns psi(P u) for P = V diag(values) V', all values positive and V
// orthogonal.
func NewMetric(psi Operator, vectors *mat.Dense, values []float64) *Metric {
	withEigenvalues := func(f func(v float64) float64) *mat.Dense {
		m := mat.NewSymDense(len(values), nil)
		for k, v := range values {
			m.SymRankOne(m, f(v), vectors.ColView(k))
		}
		return mat.DenseCopyOf(m)
	}
	low, high := slices.Min(values), slices.Max(values)
	return &Metric{
		psi:      psi,
		p:        withEigenvalues(func(v float64) float64 { return v }),
		inverse:  withEigenvalues(func(v float64) float64 { return 1 / v }),
		q:        withEigenvalues(func(v float64) float64 { return 1 / (v * v) }),
		largestQ: 1 / (low * low), smallestQ: 1 / (high * high),
		steps: maxInnerSteps,
	}
}

// AtMost returns the same function, whose prox ends after the given number of inner steps even above
// the tolerance.
func (m Metric) AtMost(steps int) *Metric {
	m.steps = steps
	return &m
}

// Value returns psi(P u).
func (m *Metric) Value(u []float64) float64 {
	w := make([]float64, len(u))
	multiply(w, m.p, u)
	return m.psi.Value(w)
}

// The inner steps of a prox end at the relative residual innerTolerance, or after maxInnerSteps.
const (
	innerTolerance = 1e-10
	maxInnerSteps  = 20000
)

// Prox solves for w and returns to u.
//
// Let lambda be the largest and mu the smallest eigenvalue of Q. With x the result of
// a step of length 1/lambda from y, s = (lambda - Q)(y - x) is a subgradient of the
// objective at x. The objective is strongly convex with modulus 1 in the norm
// |P^-1 .|, so x is within |P s| <= lambda |y-x| / sqrt(mu) of the minimiser,
// measured in u.
func (m *Metric) Prox(u []float64, t float64) {
	n := len(u)
	w0, x, y, last, gradient := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	multiply(w0, m.p, u)
	copy(x, w0)
	copy(y, w0)
	size, rootMu := norm2(u), math.Sqrt(m.smallestQ)
	weight := 1.0 // of the momentum, t_k in Beck & Teboulle
	for range m.steps {
		copy(last, x)
		m.step(x, y, w0, gradient, t)
		if !(m.largestQ*distance(x, y) > innerTolerance*rootMu*(size+rootMu*norm2(x))) {
			break
		}
		weight = extrapolate(x, last, y, weight)
	}
	multiply(u, m.inverse, x)
}

// step sets x to the result of a proximal gradient step from y.
func (m *Metric) step(x, y, w0, gradient []float64, t float64) {
	for j := range x {
		x[j] = y[j] - w0[j]
	}
	multiply(gradient, m.q, x)
	for j := range x {
		x[j] = y[j] - gradient[j]/m.largestQ
	}
	m.psi.Prox(x, t/m.largestQ)
}

// extrapolate sets y to the next point to step from, x plus momentum in the direction
// of the last step, and returns the next weight. Where the last step went uphill it
// restarts without momentum, at y = x.
func extrapolate(x, last, y []float64, weight float64) float64 {
	uphill := 0.0
	for j := range x {
		uphill += (y[j] - x[j]) * (x[j] - last[j])
	}
	if uphill > 0 {
		copy(y, x)
		return 1
	}
	next := (1 + math.Sqrt(1+4*weight*weight)) / 2
	for j := range y {
		y[j] = x[j] + (weight-1)/next*(x[j]-last[j])
	}
	return next
}

func multiply(dst []float64, a *mat.Dense, x []float64) {
	mat.NewVecDense(len(dst), dst).MulVec(a, mat.NewVecDense(len(x), x))
}

func distance(a, b []float64) (length float64) {
	for j := range a {
		length = math.Hypot(length, a[j]-b[j])
	}
	return length
}
