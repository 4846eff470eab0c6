package loss

import "math"

// Poisson is the negative log-likelihood, up to a constant, of a count y >= 0 whose mean is e^z. It
// also serves for other targets that are not negative. Beyond an exponent of 700 it is linear; for a
// target that is negative or not finite, value and derivative are 0.
type Poisson struct{}

// Value returns e^z - y z.
func (Poisson) Value(z, y float64) float64 {
	if !(y >= 0 && y <= math.MaxFloat64) {
		return 0
	}
	near := math.Min(z, maxExponent)
	return math.Exp(near)*(1+(z-near)) - y*z
}

// Deriv returns e^z - y.
func (Poisson) Deriv(z, y float64) float64 {
	if !(y >= 0 && y <= math.MaxFloat64) || math.IsNaN(z) {
		return 0
	}
	return math.Exp(math.Min(z, maxExponent)) - y
}

// Smoothness returns +Inf.
func (Poisson) Smoothness() float64 { return math.Inf(1) }

// Lipschitz returns +Inf.
func (Poisson) Lipschitz() float64 { return math.Inf(1) }
