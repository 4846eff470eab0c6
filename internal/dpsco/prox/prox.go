// Package prox holds penalties and constraint sets, each as a proximal operator: the
// one thing that first-order methods need of them. The projection on a set is the
// prox of its indicator. Nothing here holds data.
package prox

import "math"

// Operator is a closed convex function psi, +Inf outside its constraint set.
// Sets allow for rounding: a point counts as inside up to a part in 1e9.
type Operator interface {
	Value(w []float64) float64
	Prox(w []float64, t float64) // in place: argmin_u t psi(u) + |u-w|^2/2, t > 0
}

// GradientStep moves w by -rate times the gradient and applies the prox of rate psi,
// in place. It panics when the lengths of w and gradient differ.
func GradientStep(psi Operator, w, gradient []float64, rate float64) {
	if len(w) != len(gradient) {
		panic("prox: len(w) != len(gradient)")
	}
	for j := range w {
		w[j] -= rate * gradient[j]
	}
	psi.Prox(w, rate)
}

// Zero is no penalty on all of R^d.
type Zero struct{}

// Value returns 0.
func (Zero) Value([]float64) float64 { return 0 }

// Prox leaves w as it is.
func (Zero) Prox([]float64, float64) {}

// softThreshold moves v toward 0 by t and stops there.
func softThreshold(v, t float64) float64 {
	switch {
	case v > t:
		return v - t
	case v < -t:
		return v + t
	}
	return 0
}

func norm1(w []float64) (sum float64) {
	for _, v := range w {
		sum += math.Abs(v)
	}
	return sum
}

// norm2 is the Euclidean norm, without overflow on the way.
func norm2(w []float64) (length float64) {
	for _, v := range w {
		length = math.Hypot(length, v)
	}
	return length
}

func normInf(w []float64) (largest float64) {
	for _, v := range w {
		largest = max(largest, math.Abs(v))
	}
	return largest
}

func scale(w []float64, by float64) {
	for j := range w {
		w[j] *= by
	}
}
