package prox

import "math"

// setTolerance is how far outside a set, relative to its size, a point may lie and
// still count as inside.
const setTolerance = 1e-9

// L2Ball is the set of w with |w|_2 <= Radius.
type L2Ball struct{ Radius float64 }

// Value returns 0 in the ball, else +Inf.
func (p L2Ball) Value(w []float64) float64 {
	if norm2(w) <= p.Radius*(1+setTolerance) {
		return 0
	}
	return math.Inf(1)
}

// Prox projects on the ball.
func (p L2Ball) Prox(w []float64, _ float64) {
	if length := norm2(w); length > p.Radius {
		scale(w, p.Radius/length)
	}
}
