// Package loss holds convex losses of a linear prediction z = <x, w> for a target y. They are total:
// the derivative is finite for all arguments. For unusable rows, such as those with a NaN or with a
// target that is no label, it is 0.
package loss

// Loss is a convex function of the prediction z for the target y. The gradient
// of a row is Deriv times x.
//
// Deriv is finite for all z and y, NaN, Inf and overflow included, so that a
// row's contribution is a function of that row and public numbers alone.
type Loss interface {
	Value(z, y float64) float64
	Deriv(z, y float64) float64 // d Value / dz, or a subgradient

	Smoothness() float64 // an upper bound on the second derivative; +Inf: there is none
	Lipschitz() float64  // an upper bound on |Deriv|; +Inf: there is none
}

// Batch is a Loss that is faster on many rows at once. Derivs sets dst[i] to
// Deriv(z[i], y[i]), to the last bit. dst may be z.
type Batch interface {
	Loss
	Derivs(dst, z, y []float64)
}

// Derivs sets dst[i] to l.Deriv(z[i], y[i]), as a Batch where l is one. dst may be z.
// It panics when lengths differ.
func Derivs(l Loss, dst, z, y []float64) {
	if len(z) != len(dst) || len(y) != len(dst) {
		panic("loss: dst, z and y of different length")
	}
	if b, ok := l.(Batch); ok {
		b.Derivs(dst, z, y)
		return
	}
	for i := range dst {
		dst[i] = l.Deriv(z[i], y[i])
	}
}
