package loss

import "math"

// Poisson is that of a count y >= 0 whose mean is e^z: minus its log-likelihood, but for a
// constant. It serves other targets that are not negative too. Beyond an exponent of 700
// it is linear; a target that is negative or infinite has value and derivative 0.
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
