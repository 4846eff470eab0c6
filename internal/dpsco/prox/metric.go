package prox

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Metric is the function u -> psi(P u): a penalty that keeps its meaning in the
// coordinates w = P u while a solver works in u.
//
// With w = P u and Q = P^-2 the prox minimises t psi(w) + (w-w0)' Q (w-w0) / 2,
// w0 = P v. That is solved by accelerated proximal gradient steps, whose number
// depends on released numbers only, until its own optimality residual proves
// the result to be within a part in 1e10 of the size of input and result.
//
// Source: Beck & Teboulle 2009; restarts: O'Donoghue & Candes 2015.
type Metric struct {
	psi        Operator
	p, inverse *mat.Dense // stored in full: multiplying is what takes the time
	q          *mat.Dense
	most       float64 // largest eigenvalue of Q
	least      float64 // and smallest
}

// NewMetric returns psi(P u) for P = V diag(values) V', all values positive and V
// orthogonal.
func NewMetric(psi Operator, vectors *mat.Dense, values []float64) *Metric {
	with := func(f func(v float64) float64) *mat.Dense {
		m := mat.NewSymDense(len(values), nil)
		for k, v := range values {
			m.SymRankOne(m, f(v), vectors.ColView(k))
		}
		return mat.DenseCopyOf(m)
	}
	low, high := slices.Min(values), slices.Max(values)
	return &Metric{
		psi:     psi,
		p:       with(func(v float64) float64 { return v }),
		inverse: with(func(v float64) float64 { return 1 / v }),
		q:       with(func(v float64) float64 { return 1 / (v * v) }),
		most:    1 / (low * low), least: 1 / (high * high),
	}
}

// Value returns psi(P u).
func (m *Metric) Value(u []float64) float64 {
	w := make([]float64, len(u))
	multiply(w, m.p, u)
	return m.psi.Value(w)
}

// maxInner bounds the inner steps of a prox.
const (
	maxInner       = 20000
	innerTolerance = 1e-10
)

// Prox solves for w and returns to u.
//
// With x the result of a step of length 1/most from y, s = (most - Q)(y - x) is a
// subgradient of the objective at x. The objective is strongly convex with
// modulus 1 in the norm |P^-1 .|, so that x is within |P s| <= most |y-x| /
// sqrt(least) of the minimiser, measured in u.
func (m *Metric) Prox(u []float64, t float64) {
	n := len(u)
	w0, x, y, last, gradient := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	multiply(w0, m.p, u)
	copy(x, w0)
	copy(y, w0)
	size, narrow := norm2(u), math.Sqrt(m.least)
	speed := 1.0
	for range maxInner {
		copy(last, x)
		m.step(x, y, w0, gradient, t)
		if !(m.most*distance(x, y) > innerTolerance*narrow*(size+narrow*norm2(x))) {
			break
		}
		speed = momentum(x, last, y, speed)
	}
	multiply(u, m.inverse, x)
}

// step sets x to the proximal gradient step from y.
func (m *Metric) step(x, y, w0, gradient []float64, t float64) {
	for j := range x {
		x[j] = y[j] - w0[j]
	}
	multiply(gradient, m.q, x)
	for j := range x {
		x[j] = y[j] - gradient[j]/m.most
	}
	m.psi.Prox(x, t/m.most)
}

// momentum moves y beyond x by what the last step went, or back to x where that
// would go uphill, and returns the next speed.
func momentum(x, last, y []float64, speed float64) float64 {
	uphill := 0.0
	for j := range x {
		uphill += (y[j] - x[j]) * (x[j] - last[j])
	}
	if uphill > 0 {
		copy(y, x)
		return 1
	}
	next := (1 + math.Sqrt(1+4*speed*speed)) / 2
	for j := range y {
		y[j] = x[j] + (speed-1)/next*(x[j]-last[j])
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
