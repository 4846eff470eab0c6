package solve

import (
	"math"
	"testing"
)

// The formulas once more, in n, d, G and rho as the papers write them.
func TestDefaultsFollowTheirFormulas(t *testing.T) {
	const n, d, g, rho, l, diameter, signal = 300., 20., 2., .05, 4., 6., 5.
	sigma := 2 * g / n / math.Sqrt(2*rho) // of one coordinate, with the whole budget
	f := Facts{Smoothness: l, Diameter: diameter, Signal: signal, Noise: sigma * sigma * d, Divergence: diameter * diameter / 8}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("Decay", f.Decay(100), diameter/math.Sqrt(signal*signal+100*f.Noise))

	// With the l2 ball of radius R the paper's mirror is |x|^2/(2R^2): its L and B0
	// are L R^2 and B0/R^2, its dual noise R times ours, its step 1/R^2 of ours.
	const radius, steps = diameter / 2, 50
	lc, b0, wc := l*radius*radius, .5, radius*math.Sqrt(d)
	near("AccMDSteps", float64(f.AccMDSteps()), math.Ceil(math.Sqrt(lc*math.Sqrt(b0)/(sigma*wc))))
	noise := wc * sigma * math.Sqrt(steps)
	near("AccMDRate", f.AccMDRate(steps), radius*radius*min(1/(2*lc), math.Sqrt(6*b0)/(math.Pow(steps+2, 1.5)*noise)))
}

func TestStepsAreInRangeForEveryFact(t *testing.T) {
	for _, v := range []float64{0, 1e-300, 1, 1e300, math.Inf(1), math.NaN()} {
		for _, u := range []float64{0, 1e-300, 1, 1e300, math.Inf(1), math.NaN()} {
			f := Facts{Smoothness: v, Diameter: v, Signal: v, Noise: u, Divergence: v}
			if got := f.AccMDSteps(); got < 1 || got > 200 {
				t.Errorf("%d steps for %+v", got, f)
			}
		}
	}
}
