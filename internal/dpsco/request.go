package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/privacy"
)

// What all algorithms ask of a request, and how they fill in what it leaves open.

// Epsilons that a plan takes. Below, everything released is noise; above,
// nothing is private.
const (
	minEpsilon = 1e-10
	maxEpsilon = 1e4
)

// checkRequest refuses a budget or a shape that no algorithm can work with.
//
// Errors: ErrParameter, ErrInfeasible.
func checkRequest(s Shape, b privacy.Budget) error {
	if !(b.Epsilon >= minEpsilon && b.Epsilon <= maxEpsilon) {
		return fmt.Errorf("%w: eps is %v; it must be a number from %g to %g", ErrParameter, b.Epsilon, minEpsilon, float64(maxEpsilon))
	}
	switch {
	case s.N < 1:
		return fmt.Errorf("%w: there are no rows", ErrInfeasible)
	case s.D < 1:
		return fmt.Errorf("%w: there is no coefficient; name a feature or keep the intercept", ErrInfeasible)
	}
	return nil
}

// setDefault gives a parameter that was left out, and is zero, its default.
func setDefault(parameter *float64, value float64) {
	if *parameter == 0 {
		*parameter = value
	}
}

// below is what a mechanism may spend of an epsilon that the ledger books as the
// decimal a person typed: the float64 nearest to 0.1 is above 0.1.
func below(epsilon float64) float64 { return math.Nextafter(epsilon, 0) }
