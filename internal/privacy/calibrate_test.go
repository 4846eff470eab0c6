package privacy

import (
	"errors"
	"testing"
)

func TestCalibrateMatchesTheReference(t *testing.T) {
	best := new(Best)
	for _, r := range readGolden(t).Inverse {
		event := func(z float64) (Event, error) { return Repeat{int(r.T), Gaussian{z}}, nil }
		z, err := Calibrate(best, Budget{r.Eps, r.Delta}, event)
		if err != nil || !near(z, r.Sigma_exact) {
			t.Errorf("%v Gaussians at (%v, %v): %v, %v; want %v", r.T, r.Eps, r.Delta, z, err, r.Sigma_exact)
		}
	}
}

// What is returned fits, and a little less noise does not.
func TestCalibrateIsSafeAndTight(t *testing.T) {
	best := new(Best)
	for name, event := range map[string]func(z float64) (Event, error){
		"gaussian":  func(z float64) (Event, error) { return Gaussian{z}, nil },
		"sampled":   func(z float64) (Event, error) { return Repeat{200, Sampled{.02, Gaussian{z}}}, nil },
		"mixture":   func(z float64) (Event, error) { return Compose{Pure{.05}, Repeat{7, Gaussian{z}}, Gaussian{90}}, nil },
		"surcharge": func(z float64) (Event, error) { return Compose{Approx{0, 1e-9}, Gaussian{z}}, nil },
	} {
		for _, b := range []Budget{{.1, 1e-6}, {1, 1e-6}, {20, 1e-3}} {
			z, err := Calibrate(best, b, event)
			if err != nil {
				t.Errorf("%s at %v: %v", name, b, err)
				continue
			}
			for _, c := range []struct {
				scale float64
				fits  bool
			}{{1, true}, {1 - 1e-9, false}, {1.5, true}} {
				e, _ := event(z * c.scale)
				if eps, err := best.Epsilon(e, b.Delta); err != nil || (eps <= b.Epsilon) != c.fits {
					t.Errorf("%s at %v: %v times %v costs %v, %v", name, b, c.scale, z, eps, err)
				}
			}
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	best := new(Best)
	constant := func(e Event) func(float64) (Event, error) { return func(float64) (Event, error) { return e, nil } }
	for _, c := range []struct {
		event func(float64) (Event, error)
		b     Budget
		want  error
	}{
		{constant(Pure{2}), Budget{1, 1e-6}, ErrNoFit},
		{func(z float64) (Event, error) { return Compose{Pure{1}, Gaussian{z}}, nil }, Budget{1, 0}, ErrNoFit},
		{constant(strange{}), Budget{1, 1e-6}, ErrUnsupported},
		{constant(Pure{1}), Budget{0, 1e-6}, ErrBudget},
		{constant(Pure{1}), Budget{none, 1e-6}, ErrBudget},
		{constant(Pure{1}), Budget{1, 2}, ErrBudget},
	} {
		if z, err := Calibrate(best, c.b, c.event); !errors.Is(err, c.want) {
			t.Errorf("Calibrate at %v: %v, %v; want %v", c.b, z, err, c.want)
		}
	}
	if z, err := Calibrate(best, Budget{1, 1e-6}, constant(Pure{.5})); err != nil || z != minNoise {
		t.Errorf("where no noise is needed: %v, %v", z, err)
	}
}

func BenchmarkCalibrate(b *testing.B) {
	for name, event := range map[string]func(z float64) (Event, error){
		"gaussian": func(z float64) (Event, error) { return Gaussian{z}, nil },
		"sampled":  func(z float64) (Event, error) { return Repeat{200, Sampled{.02, Gaussian{z}}}, nil },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Calibrate(new(Best), Budget{1, 1e-6}, event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
