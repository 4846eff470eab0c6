package mean

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

func TestClip(t *testing.T)             { testMethod(t, Clip{Norm: 1}) }
func TestCatoni(t *testing.T)           { testMethod(t, Catoni{Scale: .4, Beta: 5}) }
func TestCatoniUnsmoothed(t *testing.T) { testMethod(t, Catoni{Scale: .4, Beta: math.Inf(1)}) }
func TestKSU(t *testing.T)              { testMethod(t, KSU{Radius: 1, Range: 3}) }
func TestKSUAxis(t *testing.T)          { testMethod(t, KSU{Radius: 1, Range: 3, Axis: true}) }

// The noise of an estimate of zero gradients has the standard deviation that its
// event and the sensitivity under replace-one say. The variance of 20,000 draws is
// within 8% of the true one but with probability 2 exp(-20000 0.08^2 / 4.2) < 1e-12,
// for each of seven cases; half the noise is 75% off.
func TestNoiseIsThatOfTheEvent(t *testing.T) {
	const z, n, d, runs = 1.5, 40, 4, 5000
	for name, c := range map[string]struct {
		m     Method
		hints Hints
		std   float64
	}{
		"clip":                   {Clip{Norm: 3}, Hints{}, z * 2 * 3 / n},
		"clip to a smaller norm": {Clip{Norm: 3}, Hints{Norm: .5}, z * 2 * .5 / n},
		"clip to a larger norm":  {Clip{Norm: 3}, Hints{Norm: 8}, z * 2 * 3 / n},
		"catoni":                 {Catoni{Scale: 2, Beta: math.Log(100)}, Hints{}, z * 2 * 2 * 0.9127563535 * 2 / n},
		"catoni unsmoothed":      {Catoni{Scale: 2, Beta: math.Inf(1)}, Hints{}, z * 2 * 2 * 0.942809 * 2 / n},
		"ksu":                    {KSU{Radius: 3, Range: 1}, Hints{Centre: make([]float64, d)}, z * 2 * 3 / n},
		"ksu axis":               {KSU{Radius: 3, Range: 1, Axis: true}, Hints{Centre: make([]float64, d)}, z * 2 * 3 * 2 / n},
	} {
		e, r, src := at(t, c.m, z, n, d), zeros(n, d).rows(16, 1), mechtest.Source(t, 1)
		sum, dst := 0.0, make([]float64, d)
		for range runs {
			e.Estimate(dst, r, c.hints, src)
			for _, v := range dst {
				sum += v * v
			}
		}
		ratio := sum / (runs * d) / (c.std * c.std)
		if math.Abs(ratio-1) > .08 {
			t.Errorf("%s: variance is %v of what the event says", name, ratio)
		}
		if math.Abs(ratio/4-1) <= .08 {
			t.Errorf("%s: half the noise passes", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, m := range map[string]Method{
		"norm":        Clip{},
		"norm NaN":    Clip{Norm: math.NaN()},
		"scale":       Catoni{Beta: 5},
		"beta":        Catoni{Scale: 1},
		"beta NaN":    Catoni{Scale: 1, Beta: math.NaN()},
		"beta small":  Catoni{Scale: 1, Beta: 1e-3},
		"radius":      KSU{Range: 1},
		"range":       KSU{Radius: 1, Range: -1},
		"range NaN":   KSU{Radius: 1, Range: math.NaN()},
		"range large": KSU{Radius: 1, Range: 1e300},
		"radius NaN":  KSU{Radius: math.NaN(), Range: 1},
	} {
		if e, err := m.At(1, 10, 2); !errors.Is(err, mech.ErrParams) || e != nil {
			t.Errorf("a bad %s: %v, %v", name, e, err)
		}
	}
	for name, f := range map[string]func() (Estimator, error){
		"no rows":    func() (Estimator, error) { return KSU{Radius: 1, Range: 1}.At(1, 0, 2) },
		"no columns": func() (Estimator, error) { return KSU{Radius: 1, Range: 1}.At(1, 10, 0) },
		"no noise":   func() (Estimator, error) { return Clip{Norm: 1}.At(0, 10, 2) },
		"noise NaN":  func() (Estimator, error) { return Catoni{1, 5}.At(math.NaN(), 10, 2) },
	} {
		if e, err := f(); !errors.Is(err, mech.ErrParams) || e != nil {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
}

// Beside every Method stands its proof.
func TestEveryMethodHasAProof(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "// At implements Method.\n") && !strings.HasSuffix(name, "_test.go") {
			if _, err := os.Stat(strings.TrimSuffix(name, ".go") + ".md"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
