package solve

import "math"

// Facts determine default step sizes and numbers of steps. All of them are public:
// nothing here may be computed from the table. Facts that are wrong cost accuracy,
// never privacy.
type Facts struct {
	Smoothness float64 // L: bounds the change of a gradient by that of w
	Diameter   float64 // bounds the distance of two points of the constraint set
	Signal     float64 // bounds the norm of the mean gradient
	Divergence float64 // bounds half the squared distance from start to optimum

	// Noise is E|b|^2 of the noise b of a gradient that takes the whole budget:
	// d (2G/n)^2 / (2 rho) for clipping norm G. With T steps each gradient gets 1/T
	// of the budget, and T times this noise energy.
	Noise float64
}

// roundUp rounds v up to a whole number within [low, high]; NaN becomes low.
func roundUp(v float64, low, high int) int {
	switch v = math.Ceil(v); {
	case v >= float64(high):
		return high
	case v > float64(low):
		return int(v)
	}
	return low
}

// Decay is GD.Decay for the given number of steps: Diameter over the size of a noisy
// gradient.
func (f Facts) Decay(steps int) float64 {
	return f.Diameter / math.Sqrt(f.Signal*f.Signal+float64(steps)*f.Noise)
}

// AccMDSteps returns the number of steps, from 1 to 200, that balances the gain of acceleration with
// the cost of the noise.
//
// Source: Wang, Ye & Xu 2017, on DP-AccMD. Differs: distances are not divided by
// the radius R of the set, so that L R^2, B0 / R^2 and R times the dual noise of
// the paper are Smoothness, Divergence and the root of Noise.
func (f Facts) AccMDSteps() int {
	return roundUp(math.Sqrt(f.Smoothness*math.Sqrt(f.Divergence/f.Noise)), 1, 200)
}

// AccMDRate is AccMD.Rate for the given number of steps.
//
// Source: Lan 2012, the step size of AC-SA.
func (f Facts) AccMDRate(steps int) float64 {
	t := float64(steps)
	return min(1/(2*f.Smoothness), math.Sqrt(6*f.Divergence/(t*f.Noise))/math.Pow(t+2, 1.5))
}
