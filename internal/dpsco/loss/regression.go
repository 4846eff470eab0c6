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

// Quantile is the pinball (check) loss, whose minimiser is the quantile of level Tau,
// in (0, 1), of y given x; with Tau = 1/2 it is half the absolute error.
//
// Source: Koenker & Bassett 1978.
type Quantile struct{ Tau float64 }

// Value returns Tau (y-z) where y > z, else (1-Tau) (z-y).
func (l Quantile) Value(z, y float64) float64 {
	if z < y {
		return l.Tau * (y - z)
	}
	return (1 - l.Tau) * (z - y)
}

// Deriv returns -Tau or 1-Tau, 0 at z = y.
func (l Quantile) Deriv(z, y float64) float64 {
	switch {
	case z > y:
		return 1 - l.Tau
	case z < y:
		return -l.Tau
	}
	return 0
}

// Smoothness returns +Inf.
func (Quantile) Smoothness() float64 { return math.Inf(1) }

// Lipschitz returns the larger of Tau and 1-Tau.
func (l Quantile) Lipschitz() float64 { return max(l.Tau, 1-l.Tau) }
