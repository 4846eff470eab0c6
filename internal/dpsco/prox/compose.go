package prox

import "math"

// ExceptFirst is Operator on all coordinates but the first, which is an intercept and
// not penalised. Operator sees w[1:]: positions in its groups count from there.
type ExceptFirst struct{ Operator }

// Value returns the value of Operator at w[1:].
func (p ExceptFirst) Value(w []float64) float64 { return p.Operator.Value(w[1:]) }

// Prox leaves w[0] alone.
func (p ExceptFirst) Prox(w []float64, t float64) { p.Operator.Prox(w[1:], t) }

// Sum is A + B, such as a penalty and a constraint set. Their domains must meet.
//
// Source: Bauschke & Combettes 2008, Dykstra-like algorithm for the prox of a
// sum. For a positively homogeneous penalty and a centred l2 ball it is exact
// after two rounds, because there prox_A followed by prox_B is prox_{A+B}
// (Yu 2013).
type Sum struct{ A, B Operator }

// Value returns A + B.
func (p Sum) Value(w []float64) float64 { return p.A.Value(w) + p.B.Value(w) }

// The alternation of Sum.Prox ends when the results of the two operators differ by less than
// sumTolerance, relative to their size, or after maxRounds.
const (
	sumTolerance = 1e-13
	maxRounds    = 20000
)

// Prox alternates between A and B. Before every round w = x + p + q, with p a
// subgradient of t A at y and q one of t B at x. Where x = y these are the optimality
// conditions, and x is the minimiser. The result lies in the domain of B.
func (s Sum) Prox(w []float64, t float64) {
	y, p, q := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	size := normInf(w)
	x := w
	for range maxRounds {
		proxCorrected(s.A, y, x, p, t)
		proxCorrected(s.B, x, y, q, t)
		gap := 0.0
		for j := range x {
			gap = max(gap, math.Abs(x[j]-y[j]))
		}
		if !(gap > sumTolerance*(size+normInf(x))) {
			return
		}
	}
}

// proxCorrected sets to = prox(from + c), with c the correction of the round before,
// and then c to the new correction, from + c - to.
func proxCorrected(psi Operator, to, from, c []float64, t float64) {
	for j := range to {
		c[j] += from[j]
		to[j] = c[j]
	}
	psi.Prox(to, t)
	for j := range to {
		c[j] -= to[j]
	}
}
