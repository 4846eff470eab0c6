package plan

import (
	"errors"
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// MinEpsilon and MaxEpsilon bound the epsilon of a plan. Below, everything released is noise; above,
// nothing is private.
const (
	MinEpsilon = 1e-10
	MaxEpsilon = 1e4
)

// maxExtraColumns is more than any release has columns beside its coefficients: with so many, even one coefficient
// has as many products as a histogram of magnitudes has bins.
const maxExtraColumns = 64

// Check refuses a budget or a shape that no algorithm can work with.
//
// Errors: ErrParameter, ErrInfeasible.
func Check(s table.Shape, b privacy.Budget) error {
	if !(b.Epsilon >= MinEpsilon && b.Epsilon <= MaxEpsilon) {
		return fmt.Errorf("%w: eps is %v; it must be a number from %g to %g", ErrParameter, b.Epsilon, MinEpsilon, float64(MaxEpsilon))
	}
	switch {
	case s.N < 1:
		return fmt.Errorf("%w: there are no rows", ErrInfeasible)
	case s.D < 1:
		return fmt.Errorf("%w: there is no coefficient; name a feature or keep the intercept", ErrInfeasible)
	case mech.CheckParts(s.N, s.D+maxExtraColumns, max(1, s.GroupCount)) != nil:
		return fmt.Errorf("%w: %d coefficients and %d groups are too many for %d rows, whose sums leave them too few digits; fit a sample of the rows with option \"sample_rows\"", ErrInfeasible, s.D, s.GroupCount, s.N)
	}
	return nil
}

// SetDefault sets a parameter that is zero, and thus was not given, to its default.
func SetDefault(parameter *float64, value float64) {
	if *parameter == 0 {
		*parameter = value
	}
}

// JustBelow is the epsilon that a mechanism may spend if the ledger books the decimal that a person typed: the
// float64 nearest to 0.1 is above 0.1.
func JustBelow(epsilon float64) float64 { return math.Nextafter(epsilon, 0) }

// maxNoise is a noise multiplier that leaves no information on any table. If more is needed, the account
// cannot prove the requested epsilon.
const maxNoise = 0x1p40

// LeastNoise returns the least noise multiplier whose event keeps within the budget.
//
// Errors: those of privacy.Calibrate, with ErrNoFit where more noise than any table needs would be.
func LeastNoise(a privacy.Accountant, b privacy.Budget, event func(z float64) (privacy.Event, error)) (float64, error) {
	return privacy.Calibrate(a, b, func(z float64) (privacy.Event, error) {
		if z > maxNoise {
			return nil, privacy.ErrNoFit
		}
		return event(z)
	})
}

// Calibrate returns the least noise multiplier whose event keeps within the budget of a request, but for the reserve of
// delta. what names the request in the error.
//
// Errors: ErrInfeasible.
func Calibrate(a privacy.Accountant, b privacy.Budget, what string, event func(z float64) privacy.Event) (float64, error) {
	budget := privacy.Budget{Epsilon: JustBelow(b.Epsilon), Delta: b.Delta - privacy.Reserve(b.Delta)}
	z, err := LeastNoise(a, budget, func(z float64) (privacy.Event, error) { return event(z), nil })
	if errors.Is(err, privacy.ErrNoFit) || errors.Is(err, privacy.ErrUnsupported) {
		return 0, fmt.Errorf("%w: %s cannot keep within eps %v and delta %v; ask for more", ErrInfeasible, what, b.Epsilon, b.Delta)
	}
	return z, err
}
