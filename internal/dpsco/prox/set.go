package prox

import (
	"math"
	"slices"
)

const slack = 1e-9

func indicator(inside bool) float64 {
	if inside {
		return 0
	}
	return math.Inf(1)
}

// Box is the set of w with every coordinate in [Low, High].
type Box struct{ Low, High float64 }

// Value returns 0 in the box, else +Inf.
func (p Box) Value(w []float64) float64 {
	room := slack * (p.High - p.Low)
	return indicator(!slices.ContainsFunc(w, func(v float64) bool { return !(v >= p.Low-room && v <= p.High+room) }))
}

// Prox clamps every coordinate.
func (p Box) Prox(w []float64, _ float64) {
	for j, v := range w {
		w[j] = max(p.Low, min(v, p.High))
	}
}

// L2Ball is the set of w with |w|_2 <= Radius.
type L2Ball struct{ Radius float64 }

// Value returns 0 in the ball, else +Inf.
func (p L2Ball) Value(w []float64) float64 { return indicator(norm2(w) <= p.Radius*(1+slack)) }

// Prox projects on the ball.
func (p L2Ball) Prox(w []float64, _ float64) {
	if length := norm2(w); length > p.Radius {
		scale(w, p.Radius/length)
	}
}

// L1Ball is the set of w with |w|_1 <= Radius, Radius > 0.
type L1Ball struct{ Radius float64 }

// Value returns 0 in the ball, else +Inf.
func (p L1Ball) Value(w []float64) float64 { return indicator(norm1(w) <= p.Radius*(1+slack)) }

// Prox projects on the ball: the magnitudes go to the simplex.
func (p L1Ball) Prox(w []float64, t float64) {
	if norm1(w) <= p.Radius {
		return
	}
	magnitude := make([]float64, len(w))
	for j, v := range w {
		magnitude[j] = math.Abs(v)
	}
	Simplex(p).Prox(magnitude, t)
	for j, v := range w {
		w[j] = math.Copysign(magnitude[j], v)
	}
}

// Simplex is the set of w >= 0 with sum Radius, Radius > 0.
type Simplex struct{ Radius float64 }

// Value returns 0 in the simplex, else +Inf.
func (p Simplex) Value(w []float64) float64 {
	sum, least := 0.0, 0.0
	for _, v := range w {
		sum += v
		least = min(least, v)
	}
	return indicator(math.Abs(sum-p.Radius) <= slack*p.Radius && least >= -slack*p.Radius)
}

// Prox projects on the simplex: w less a threshold, cut at 0. Coordinates are
// measured from the largest one, so that a small Radius is not lost in rounding.
//
// Source: Held, Wolfe & Crowder 1974; Duchi, Shalev-Shwartz, Singer & Chandra 2008, Figure 1.
func (p Simplex) Prox(w []float64, _ float64) {
	if len(w) == 0 {
		return
	}
	largest := slices.Max(w)
	for j := range w {
		w[j] -= largest
	}
	falling := slices.Clone(w)
	slices.Sort(falling)
	slices.Reverse(falling)
	sum, threshold := 0.0, 0.0
	for k, v := range falling {
		sum += v
		next := (sum - p.Radius) / float64(k+1)
		if k > 0 && !(v > next) {
			break
		}
		threshold = next
	}
	for j, v := range w {
		w[j] = max(v-threshold, 0)
	}
}
