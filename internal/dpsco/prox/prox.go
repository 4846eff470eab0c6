// Package prox holds penalties and constraint sets through the one step that
// solvers need of them. The projection on a set is the prox of its indicator.
// Everything here works on released numbers and holds no data.
package prox

// Operator is a closed convex function psi, +Inf outside its constraint set.
type Operator interface {
	Value(w []float64) float64
	Prox(w []float64, t float64) // in place: argmin_u t psi(u) + |u-w|^2/2, t > 0
}

// Mirror is the proximal step in a Bregman divergence D, which is at least half
// the squared distance in a norm that the implementation names.
type Mirror interface {
	Step(z, g []float64, eta float64) // in place: argmin_u eta <g,u> + eta psi(u) + D(u,z), eta > 0
}

// Euclidean is the Mirror of half the squared Euclidean distance.
type Euclidean struct{ Operator }

// Step is a proximal gradient step.
func (e Euclidean) Step(z, g []float64, eta float64) {
	if len(z) != len(g) {
		panic("prox: len(z) != len(g)")
	}
	for j := range z {
		z[j] -= eta * g[j]
	}
	e.Prox(z, eta)
}

// Zero is no penalty on all of R^d.
type Zero struct{}

// Value returns 0.
func (Zero) Value([]float64) float64 { return 0 }

// Prox leaves w as it is.
func (Zero) Prox([]float64, float64) {}
