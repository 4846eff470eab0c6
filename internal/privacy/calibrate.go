package privacy

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoFit reports that no amount of noise brings a history into its budget.
var ErrNoFit = errors.New("privacy: no noise multiplier fits the budget")

// Calibrate searches noise multipliers from minNoise to maxNoise.
const minNoise, maxNoise = 0x1p-30, 0x1p60

// Calibrate returns the smallest noise multiplier z for which a proves that event(z)
// fits b. The cost of event(z) must not grow with z. The result fits, and a z
// that is smaller by less than a part in 1e10 does not; or it is 2^-30, if that fits.
//
// Errors: ErrBudget, ErrNoFit, and those of event and of a.
func Calibrate(a Accountant, b Budget, event func(z float64) (Event, error)) (float64, error) {
	if !(b.Epsilon > 0) || math.IsInf(b.Epsilon, 1) {
		return 0, fmt.Errorf("%w: epsilon = %v; it must be positive and finite", ErrBudget, b.Epsilon)
	}
	excess := func(z float64) (float64, error) {
		e, err := event(z)
		if err != nil {
			return 0, err
		}
		eps, err := a.Epsilon(e, b.Delta)
		return max(-50, min(50, math.Log(eps/b.Epsilon))), err
	}
	lo, hi, err := bracket(excess)
	if err != nil || lo.z == 0 {
		return hi.z, err
	}
	return refine(excess, lo, hi)
}

// trial is a noise multiplier and the logarithm of the ratio of its epsilon to the budget. It fits if that
// is at most 0.
type trial struct{ z, excess float64 }

// bracket returns two consecutive powers of 4 such that hi fits and lo does not, or lo.z = 0 if all fit.
func bracket(excess func(float64) (float64, error)) (lo, hi trial, err error) {
	for z := 1.0; z <= maxNoise && z >= minNoise; {
		over, err := excess(z)
		if err != nil {
			return lo, hi, err
		}
		if over > 0 {
			lo, z = trial{z, over}, z*4
		} else {
			hi, z = trial{z, over}, z/4
		}
		if lo.z > 0 && hi.z > 0 {
			return lo, hi, nil
		}
	}
	if hi.z == 0 {
		return lo, hi, ErrNoFit
	}
	return lo, hi, nil
}

// refine narrows a bracket by false position in the logarithms (the Illinois
// variant, which halves the weight of an end that stays) and, each third time,
// by bisection, so that it ends in any case.
func refine(excess func(float64) (float64, error), lo, hi trial) (float64, error) {
	for step := 1; hi.z > lo.z*(1+1e-10); step++ {
		fraction := 0.5 // of the way from lo to hi
		if step%3 != 0 {
			fraction = lo.excess / (lo.excess - hi.excess)
		}
		z := lo.z * math.Pow(hi.z/lo.z, min(max(fraction, 1e-3), 1-1e-3))
		over, err := excess(z)
		if err != nil {
			return 0, err
		}
		if over > 0 {
			lo, hi.excess = trial{z, over}, hi.excess/2
		} else {
			hi, lo.excess = trial{z, over}, lo.excess/2
		}
	}
	return hi.z, nil
}
