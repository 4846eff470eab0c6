package prox

import "math"

// Rest is Operator on all coordinates but the first: an intercept is neither
// penalised nor bounded. Operator sees w[1:], and counts from there.
type Rest struct{ Operator }

// Value returns that of w[1:].
func (p Rest) Value(w []float64) float64 { return p.Operator.Value(w[1:]) }

// Prox leaves w[0] alone.
func (p Rest) Prox(w []float64, t float64) { p.Operator.Prox(w[1:], t) }

// Sum is A + B: a penalty on a set, or two sets. Their domains meet.
//
// Source: Bauschke & Combettes 2008, Dykstra-like algorithm for the prox of a
// sum. For a positively homogeneous penalty and a centred l2 ball it is exact
// after two rounds, because there prox_A followed by prox_B is prox_{A+B}
// (Yu 2013).
type Sum struct{ A, B Operator }

// Value returns A + B.
func (p Sum) Value(w []float64) float64 { return p.A.Value(w) + p.B.Value(w) }

// Dykstra stops where the two operators agree to a part in 1e13, or gives up.
const (
	agree     = 1e-13
	maxRounds = 20000
)

// Prox alternates between A and B. Before every round w = x + p + q, with p a
// subgradient of t A at y and q one of t B at x: when x = y this says that x is
// the minimiser. The result lies in the domain of B.
func (s Sum) Prox(w []float64, t float64) {
	y, p, q := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	size := normInf(w)
	x := w
	for range maxRounds {
		correct(s.A, y, x, p, t)
		correct(s.B, x, y, q, t)
		gap := 0.0
		for j := range x {
			gap = max(gap, math.Abs(x[j]-y[j]))
		}
		if !(gap > agree*(size+normInf(x))) {
			return
		}
	}
}

// correct sets to = prox(from + c) and moves what that took away into c.
func correct(psi Operator, to, from, c []float64, t float64) {
	for j := range to {
		c[j] += from[j]
		to[j] = c[j]
	}
	psi.Prox(to, t)
	for j := range to {
		c[j] -= to[j]
	}
}
