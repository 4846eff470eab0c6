package solve

import "math"

// Facts are what step sizes and iteration counts follow from. All of them are
// public: nothing here may be computed from the table. They may be wrong, which
// costs accuracy only.
//
// Noise is the energy E|b|^2 of the noise b of one gradient that takes the whole
// budget, d (2G/n)^2 / (2 rho) for clipping norm G; a gradient of T such has T
// times that. A mirror descent means the norm dual to the mirror's.
type Facts struct {
	Smoothness float64 // L: bounds the change of a gradient by that of w
	Strong     float64 // mu: strong convexity, or the constant of Polyak and Lojasiewicz
	Diameter   float64 // bounds the distance of two points of the set
	Signal     float64 // bounds the norm of the mean gradient
	Noise      float64
	Excess     float64 // bounds the loss at the start over the least one
	Reach      float64 // bounds the mirror's divergence from start to optimum; Euclidean: half the squared distance
}

// L1BallNoise is the factor from the variance of one coordinate to a bound on
// the energy of d such normal noises in the norm dual to l1: 2 ln(2d) bounds the
// squared expectation of the largest one, 1 its variance. In l2 the factor is d.
func L1BallNoise(d int) float64 { return 2*math.Log(2*float64(d)) + 1 }

// clip rounds v up into [low, high]; what is not a number counts as low.
func clip(v float64, low, high int) int {
	switch v = math.Ceil(v); {
	case v >= float64(high):
		return high
	case v > float64(low):
		return int(v)
	}
	return low
}

// ConvexSteps is how many steps of projected descent on a convex loss are worth
// their noise: the bound Diameter sqrt(2 (Signal^2/T + Noise)) is flat from there.
func (f Facts) ConvexSteps() int { return clip(f.Signal*f.Signal/f.Noise, 1, 200) }

// ConvexRate is the step length of projected descent in the given number of
// steps.
func (f Facts) ConvexRate(steps int) float64 {
	t := float64(steps)
	return min(1/f.Smoothness, f.Diameter/math.Sqrt(t*(f.Signal*f.Signal+t*f.Noise)))
}

// Decay is GD.Decay in the given number of steps: Diameter over the size of a
// noisy gradient.
func (f Facts) Decay(steps int) float64 {
	return f.Diameter / math.Sqrt(f.Signal*f.Signal+float64(steps)*f.Noise)
}

// StrongSteps is how many steps of length 1/Smoothness bring a loss with Strong
// > 0 down to what the noise leaves.
//
// Source: Wang, Ye & Xu 2017, on DP-GD under the Polyak-Lojasiewicz condition.
// Differs: ln(1 + x) for ln x, and at most 500.
func (f Facts) StrongSteps() int {
	return clip(f.Smoothness/f.Strong*math.Log1p(2*f.Excess*f.Strong/f.Noise), 1, 500)
}

// SmoothSteps is how many steps of length 1/Smoothness minimise the bound on the
// mean squared gradient of a smooth loss, convex or not: 2 L Excess / T + T Noise.
func (f Facts) SmoothSteps() int {
	return clip(math.Sqrt(2*f.Smoothness*f.Excess/f.Noise), 1, 500)
}

// SVRG returns the solver at its defaults for n rows and clipping norm G.
func (f Facts) SVRG(n int, norm float64) SVRG {
	rows := batch(n)
	return SVRG{
		Epochs: clip(math.Log2(2*f.Strong/f.Noise), 3, 20),
		Inner:  clip(20*f.Smoothness/f.Strong, 2, max(2, 2*n/rows)),
		Growth: 1, Rate: 1 / (12 * f.Smoothness), Batch: rows, Smoothness: f.Smoothness, Norm: norm,
	}
}

// SVRGpp returns the solver SVRG++ at its defaults for n rows and clipping norm G.
func (f Facts) SVRGpp(n int, norm float64) SVRG {
	return SVRG{
		Epochs: clip(math.Log2(2/f.Noise)/2, 2, 8), Inner: 64,
		Growth: 2, Rate: 1 / (13 * f.Smoothness), Batch: batch(n), Smoothness: f.Smoothness, Norm: norm,
	}
}

// batch is the default size of a batch for n rows.
func batch(n int) int { return min(n, max(256, n/200)) }

// AccMDSteps is where the acceleration and the noise balance.
//
// Source: Wang, Ye & Xu 2017, on DP-AccMD. Differs: distances are not divided by
// the radius R of the set, so that L R^2, B0 / R^2 and R times the dual noise of
// the paper are Smoothness, Reach and the root of Noise.
func (f Facts) AccMDSteps() int {
	return clip(math.Sqrt(f.Smoothness*math.Sqrt(f.Reach/f.Noise)), 1, 200)
}

// AccMDRate is AccMD.Rate in the given number of steps.
//
// Source: Lan 2012, the step size of AC-SA.
func (f Facts) AccMDRate(steps int) float64 {
	t := float64(steps)
	return min(1/(2*f.Smoothness), math.Sqrt(6*f.Reach/(t*f.Noise))/math.Pow(t+2, 1.5))
}
