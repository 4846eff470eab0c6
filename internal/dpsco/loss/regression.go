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

// Derivs is Deriv by rows.
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

// Derivs is Deriv by rows.
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

// PseudoHuber is Delta^2 (sqrt(1 + (r/Delta)^2) - 1) of the residual r, Delta >
// 0: as Huber in the middle and far out, but smooth.
//
// Source: Charbonnier, Blanc-Feraud, Aubert & Barlaud 1997.
type PseudoHuber struct{ Delta float64 }

// Value returns the loss, without cancellation at small residuals.
func (l PseudoHuber) Value(z, y float64) float64 {
	r := math.Abs(z - y)
	u := r / l.Delta
	return l.Delta * r * (u / (1 + math.Hypot(1, u)))
}

// Deriv returns r / sqrt(1 + (r/Delta)^2).
func (l PseudoHuber) Deriv(z, y float64) float64 {
	r := z - y
	u := r / l.Delta
	switch square := u * u; {
	case square <= 0x1p60:
		return r / math.Sqrt(1+square)
	case u > 0: // the root is |u| to the last bit, and u may be infinite
		return l.Delta
	case u < 0:
		return -l.Delta
	}
	return 0
}

// Smoothness returns 1.
func (PseudoHuber) Smoothness() float64 { return 1 }

// Lipschitz returns Delta.
func (l PseudoHuber) Lipschitz() float64 { return l.Delta }

// Absolute is |z-y|.
type Absolute struct{}

// Value returns |z-y|.
func (Absolute) Value(z, y float64) float64 { return math.Abs(z - y) }

// Deriv returns the sign of z-y, 0 at 0.
func (Absolute) Deriv(z, y float64) float64 {
	switch {
	case z > y:
		return 1
	case z < y:
		return -1
	}
	return 0
}

// Smoothness returns +Inf.
func (Absolute) Smoothness() float64 { return math.Inf(1) }

// Lipschitz returns 1.
func (Absolute) Lipschitz() float64 { return 1 }

// Quantile is the check loss, whose minimiser is the quantile of level Tau, in
// (0, 1), of y given x.
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
