package loss

import "math"

// Squared is (z-y)^2/2. A residual that overflows has derivative 0.
type Squared struct{}

// Value returns (z-y)^2/2.
func (Squared) Value(z, y float64) float64 { return (z - y) * (z - y) / 2 }

// Deriv returns z-y.
func (Squared) Deriv(z, y float64) float64 {
	r := z - y
	if !(math.Abs(r) <= math.MaxFloat64) {
		return 0
	}
	return r
}

// Derivs implements Batch.
func (l Squared) Derivs(dst, z, y []float64) {
	z, y = z[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = l.Deriv(z[i], y[i])
	}
}

// Smoothness returns 1.
func (Squared) Smoothness() float64 { return 1 }

// Lipschitz returns +Inf.
func (Squared) Lipschitz() float64 { return math.Inf(1) }

// Huber is quadratic up to a residual of Delta > 0 and linear beyond.
//
// Source: Huber 1964.
type Huber struct{ Delta float64 }

// Value returns r^2/2 where |r| <= Delta, else Delta (|r| - Delta/2), r = z-y.
func (l Huber) Value(z, y float64) float64 {
	r := math.Abs(z - y)
	if r <= l.Delta {
		return r * r / 2
	}
	return l.Delta * (r - l.Delta/2)
}

// Deriv returns the residual, clamped to Delta.
func (l Huber) Deriv(z, y float64) float64 {
	r := z - y
	switch {
	case r > l.Delta:
		return l.Delta
	case r < -l.Delta:
		return -l.Delta
	case r != r:
		return 0
	}
	return r
}

// Derivs implements Batch.
func (l Huber) Derivs(dst, z, y []float64) {
	z, y = z[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = l.Deriv(z[i], y[i])
	}
}

// Smoothness returns 1.
func (Huber) Smoothness() float64 { return 1 }

// Lipschitz returns Delta.
func (l Huber) Lipschitz() float64 { return l.Delta }
