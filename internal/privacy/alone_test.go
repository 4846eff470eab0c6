package privacy

import (
	"errors"
	"math"
	"testing"
)

// A request of normal noise alone has the noise that the exact trade-off function allows, a request of anything else
// that of the accountant for any history.
func TestNoiseAloneHasTheExactBound(t *testing.T) {
	alone := Alone{}
	for _, r := range readGolden(t).Inverse {
		history := Repeat{int(r.T), Gaussian{r.Sigma_exact}}
		eps, err := alone.Epsilon(history, r.Delta)
		if err != nil || eps < r.Eps*(1-1e-6) || r.Delta >= 1e-9 && r.Delta <= .01 && eps > r.Eps*(1+1e-3) {
			t.Errorf("%v at %v: %v, %v; exactly %v", history, r.Delta, eps, err, r.Eps)
		}
		for _, e := range []Event{
			Compose{history, Pure{1e-9}}, Compose{history, Approx{0, 1e-20}}, Compose{history, ZCDP{1e-12}},
			Sampled{.5, history}, Compose{history, Sampled{.5, history}}, Parallel{history},
		} {
			if IsNoise(e) {
				t.Errorf("%v is taken for noise alone", e)
			}
			got, err1 := alone.Epsilon(e, r.Delta)
			want, err2 := Concentrated{}.Epsilon(e, r.Delta)
			if got != want || !errors.Is(err1, err2) {
				t.Errorf("%v: %v, %v; among others %v, %v", e, got, err1, want, err2)
			}
		}
	}
	for _, e := range []Event{Gaussian{3}, Compose{}, Compose{Gaussian{3}, Repeat{4, Compose{Gaussian{5}, Gaussian{6}}}}} {
		if !IsNoise(e) {
			t.Errorf("%v is not taken for noise alone", e)
		}
	}
}

// The bound adds 2^-35 mu^2 to delta for discrete noise, and holds to mu^2 = 128. Where that is all of delta, or
// epsilon is small beside mu, the accountant for any history remains.
func TestNoiseAloneAllowsForDiscreteNoise(t *testing.T) {
	for _, c := range []struct{ mu2, delta float64 }{{.05, 1e-6}, {.05, 1e-11}, {3, 1e-9}, {100, 1e-6}, {100, 1e-8}} {
		eps := NoiseEpsilon(c.mu2, c.delta)
		if left := gaussianDelta(math.Sqrt(c.mu2), eps*(1-1e-9)) + c.mu2*0x1p-35; !(left > c.delta) || left > c.delta*(1+1e-3) {
			t.Errorf("%v: at epsilon %v the delta is %v", c, eps, left)
		}
	}
	for _, c := range []struct{ mu2, delta float64 }{{129, 1e-6}, {.05, .05 * 0x1p-35}, {1, 0}, {1, math.NaN()}} {
		if eps := NoiseEpsilon(c.mu2, c.delta); !math.IsInf(eps, 1) {
			t.Errorf("%v: epsilon %v", c, eps)
		}
	}
	if eps, want := NoiseEpsilon(1, .9), 1.5; eps < want || eps > want*(1+1e-9) {
		t.Errorf("at a large delta epsilon is %v, not %v", eps, want)
	}
	for _, b := range []Budget{{.01, 1e-6}, {1, 1e-6}, {1, 1e-9}, {8, 1e-5}} {
		z, err := Calibrate(Alone{}, b, func(z float64) (Event, error) { return Gaussian{z}, nil })
		if err != nil {
			t.Fatal(err)
		}
		if ratio := gaussianRho(z) / ZCDPRho(b.Epsilon, b.Delta); ratio < 1.08 || ratio > 1.35 {
			t.Errorf("%v: %v times the rho", b, ratio)
		}
	}
}
