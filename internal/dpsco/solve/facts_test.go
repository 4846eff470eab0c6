package solve

import (
	"math"
	"testing"
)

// The formulas once more, in n, d, G and rho as the papers write them.
func TestDefaultsFollowTheirFormulas(t *testing.T) {
	const n, d, g, rho, l, mu, f0, diameter, signal = 200000., 20., 2., .05, 4., .1, 3., 6., 5.
	v1 := d * (2 * g / n) * (2 * g / n) / (2 * rho)
	f := Facts{Smoothness: l, Strong: mu, Diameter: diameter, Signal: signal, Noise: v1, Excess: f0}

	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("StrongSteps", float64(f.StrongSteps()), 500)
	near("ConvexSteps", float64(f.ConvexSteps()), 200)
	near("SmoothSteps", float64(f.SmoothSteps()), 500)
	near("ConvexRate", f.ConvexRate(100), min(1/l, diameter/math.Sqrt(100*(signal*signal+100*v1))))
	near("Decay", f.Decay(100), diameter/math.Sqrt(signal*signal+100*v1))

	s := f.SVRG(n, g)
	near("SVRG rate", s.Rate, 1/(12*l))
	near("SVRG batch", float64(s.Batch), 1000)
	near("SVRG inner", float64(s.Inner), min(20*l/mu, 2*n/1000))
	near("SVRG epochs", float64(s.Epochs), min(20, math.Ceil(math.Log2(n*n*rho*mu/(d*g*g)))))
	pp := f.SVRGpp(n, g)
	near("SVRG++ rate", pp.Rate, 1/(13*l))
	near("SVRG++ inner", float64(pp.Inner), 64)
	near("SVRG++ epochs", float64(pp.Epochs), min(8, math.Ceil(math.Log2(n*math.Sqrt(rho)/(g*math.Sqrt(d))))))
	if s.Norm != g || s.Smoothness != l || pp.Growth != 2 || s.Growth != 1 {
		t.Errorf("%+v, %+v", s, pp)
	}

	// With the l2 ball of radius R the paper's mirror is |x|^2/(2R^2): its L and B0
	// are L R^2 and B0/R^2, its dual noise R times ours, its step 1/R^2 of ours.
	const radius, smallN = diameter / 2, 300.
	sigma1 := 2 * g / smallN / math.Sqrt(2*rho)
	f.Noise, f.Reach = sigma1*sigma1*d, radius*radius/2
	lc, b0, wc := l*radius*radius, .5, radius*math.Sqrt(d)
	near("AccMDSteps", float64(f.AccMDSteps()), math.Ceil(math.Sqrt(lc*math.Sqrt(b0)/(sigma1*wc))))
	const steps = 50
	sig := wc * sigma1 * math.Sqrt(steps)
	near("AccMDRate", f.AccMDRate(steps), radius*radius*min(1/(2*lc), math.Sqrt(6*b0)/(math.Pow(steps+2, 1.5)*sig)))
	near("StrongSteps", float64(f.StrongSteps()), math.Ceil(l/mu*math.Log(1+f0*smallN*smallN*rho*mu/(d*g*g))))
	near("SmoothSteps", float64(f.SmoothSteps()), math.Ceil(smallN*math.Sqrt(rho*l*f0/d)/g))
	f.Signal = 2.1
	near("ConvexSteps", float64(f.ConvexSteps()), math.Ceil(f.Signal*f.Signal/f.Noise))
}

func TestCountsAreInRangeForEveryFact(t *testing.T) {
	for _, v := range []float64{0, 1e-300, 1, 1e300, math.Inf(1), math.NaN()} {
		for _, u := range []float64{0, 1e-300, 1, 1e300, math.Inf(1), math.NaN()} {
			f := Facts{Smoothness: v, Strong: u, Diameter: v, Signal: v, Noise: u, Excess: u, Reach: v}
			for name, got := range map[string]int{
				"convex": f.ConvexSteps(), "strong": f.StrongSteps(), "smooth": f.SmoothSteps(), "mirror": f.AccMDSteps(),
			} {
				if got < 1 || got > 500 {
					t.Errorf("%s: %d steps for %+v", name, got, f)
				}
			}
			s, pp := f.SVRG(1000, 1), f.SVRGpp(100, 1)
			if s.Epochs < 3 || s.Epochs > 20 || s.Inner < 2 || s.Batch != 256 || pp.Epochs < 2 || pp.Epochs > 8 || pp.Batch != 100 {
				t.Errorf("%+v, %+v for %+v", s, pp, f)
			}
		}
	}
}

// The mean square of the largest of d normals, by numerical integration of its
// tail: 2 t P(max > t).
func TestL1BallNoiseBoundsTheLargest(t *testing.T) {
	for _, d := range []int{1, 2, 10, 1000} {
		energy := 0.0
		for t := .0005; t < 12; t += .001 {
			energy += 2 * t * -math.Expm1(float64(d)*math.Log1p(-math.Erfc(t/math.Sqrt2))) * .001
		}
		if bound := L1BallNoise(d); energy > bound || energy < bound/3 {
			t.Errorf("d = %d: energy %v, bound %v", d, energy, bound)
		}
	}
}
