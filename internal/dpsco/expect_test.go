package dpsco

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// What Expect foresees lies within a factor of two of the deviation seen, for
// features and residuals of the size that their scales say; of three where
// whitening adds its own. Seeds are fixed: this fails when the code changes, not by
// chance. DPSIDECAR_EXPERIMENTS=full prints the table of docs/reference/explain.md.
func TestExpectIsNearWhatIsSeen(t *testing.T) {
	rows, epsilons := []int{2000}, []float64{0.3, 3}
	if full {
		rows, epsilons = []int{2000, 20_000}, []float64{0.3, 1, 3}
	}
	for _, m := range []struct {
		name, model string
		options     map[string]any
		factor      float64
		most        int // coefficients that it is quick for
	}{
		{"l1, staged", "l1", map[string]any{"method": catalogue.MethodStaged}, 2, 5},
		{"l1, quantile .75", "l1", map[string]any{"method": catalogue.MethodStaged, "tau": .75}, 4, 5}, // beyond two where there is no stage quantileShift
		{"l1, quantile .1", "l1", map[string]any{"method": catalogue.MethodStaged, "tau": .1}, 4, 5},
		{"l1, exponential mechanism", "l1", map[string]any{"method": catalogue.MethodExponential}, 2, 2},
		{"l1, objective perturbation", "l1", map[string]any{"method": catalogue.MethodObjective}, 2, 5},
		{"linear, catoni", "linear", map[string]any{"method": "catoni"}, 2, 5},
		{"linear, gd", "linear", map[string]any{"method": "gd"}, 2, 5},
		{"linear, ksu", "linear", map[string]any{"method": "ksu"}, 2, 5},
		{"linear, svrg", "linear", map[string]any{"method": "svrg"}, 2, 5},
		{"linear, accmd", "linear", map[string]any{"method": "accmd"}, 2, 5},
		{"linear, auto", "linear", nil, 3, 5},
		{"huber, auto", "huber", nil, 3, 5},
		{"logistic, gd", "logistic", map[string]any{"method": "gd"}, 3, 5},
		{"logistic, auto", "logistic", nil, 3, 5},
	} {
		a, err := Recipe(m.model, m.options, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range rows {
			for _, d := range []int{2, 5} {
				for _, eps := range epsilons {
					if d <= m.most {
						s, b := table.Shape{N: n, D: d, Intercept: true}, privacy.Budget{Epsilon: eps}
						if m.model != "l1" {
							b.Delta = 1e-6
						}
						expected, seen := expectation(t, a, s, b), deviation(t, a, scaledTable(s, catalogue.Classifies(m.model)), b)
						t.Logf("| %s | %d | %d | %g | %.2g | %.2g | %.2f |", m.name, n, d, eps, expected, seen, expected/seen)
						if ratio := expected / seen; !(ratio >= 1/m.factor && ratio <= m.factor) {
							t.Errorf("%s, n = %d, d = %d, eps = %g: expected %.3g, seen %.3g", m.name, n, d, eps, expected, seen)
						}
					}
				}
			}
		}
	}
}

// The noise of the smooth centre follows the data, but can be foreseen as well: that of the
// ball at eps 1, of the spread of the fits in a small one.
func TestExpectOfTheCentre(t *testing.T) {
	for _, c := range []struct {
		model       string
		n, d        int
		eps, radius float64
	}{
		{"linear", 100_000, 2, 1, 10}, {"linear", 20_000, 2, 5, 10}, {"linear", 100_000, 2, 5, 10}, {"linear", 200_000, 2, 20, 10},
		{"linear", 20_000, 2, 20, 1}, {"logistic", 100_000, 2, 10, 10},
	} {
		s, b := table.Shape{N: c.n, D: c.d, Intercept: true}, privacy.Budget{Epsilon: c.eps, Delta: 1e-6}
		a := centreRecipe(t, c.model, c.radius)
		expected, seen := expectation(t, a, s, b), deviation(t, a, scaledTable(s, catalogue.Classifies(c.model)), b)
		t.Logf("%+v: expected %.2g, seen %.2g, ratio %.2f", c, expected, seen, expected/seen)
		if ratio := expected / seen; !(ratio >= 0.4 && ratio <= 2.5) {
			t.Errorf("%+v: expected %.3g, seen %.3g", c, expected, seen)
		}
	}
}

// The noise of a RangeMean is foreseen to a factor of 2.5 where fits lie as close as the
// residual scale says.
func TestExpectOfRangeMean(t *testing.T) {
	for _, c := range []struct {
		model string
		n, d  int
		eps   float64
	}{
		{"linear", 20_000, 2, 1}, {"linear", 20_000, 6, 1}, {"linear", 100_000, 2, 1}, {"linear", 100_000, 6, 0.5}, {"linear", 100_000, 6, 5}, {"logistic", 100_000, 2, 1},
	} {
		s, b := table.Shape{N: c.n, D: c.d, Intercept: true}, privacy.Budget{Epsilon: c.eps, Delta: 1e-6}
		a := mustRecipe(t, c.model, "sample_aggregate")
		expected, seen := expectation(t, a, s, b), deviation(t, a, scaledTable(s, catalogue.Classifies(c.model)), b)
		t.Logf("%+v: expected %.2g, seen %.2g, ratio %.2f", c, expected, seen, expected/seen)
		if ratio := expected / seen; !(ratio >= 0.4 && ratio <= 2.5) {
			t.Errorf("%+v: expected %.3g, seen %.3g", c, expected, seen)
		}
	}
}

// expectation is the root mean square of what Expect says of the coefficients.
func expectation(t *testing.T, a plan.Algorithm, s table.Shape, b privacy.Budget) float64 {
	t.Helper()
	expected, err := Expect(a, s, b, privacy.Concentrated{})
	if err != nil || len(expected.Deviation) != s.D {
		t.Fatal(expected, err)
	}
	return floats.Norm(expected.Deviation, 2) / math.Sqrt(float64(s.D))
}

// Every method plans or refuses as Expect does, and has a forecast but for those
// whose noise depends on the data; a hopeless request stays within its ball.
func TestExpectServesEveryMethod(t *testing.T) {
	without := map[string]bool{"trimmed": true, "spgd_kamath": true}
	for method := range methods {
		model := "linear"
		if !fitsLoss(loss.Squared{}, method) {
			model = "huber"
		}
		a, err := Recipe(model, map[string]any{"method": method}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []table.Shape{{N: 1, D: 1, Intercept: true}, {N: 50, D: 3, Intercept: true}, {N: 1_000_000, D: 4}} {
			b := privacy.Budget{Epsilon: 1, Delta: 1e-6}
			_, refused := a.Plan(s, b, privacy.Concentrated{})
			expected, err := Expect(a, s, b, privacy.Concentrated{})
			if (err == nil) != (refused == nil) || (expected.Deviation == nil) != (err != nil || without[method]) {
				t.Errorf("%s of %+v: %v, %v; the plan says %v", method, s, expected, err, refused)
			}
			for _, v := range expected.Deviation {
				if !(v > 0 && v <= catalogue.WhitenedRadius) || !(expected.Shrinkage >= 0 && expected.Shrinkage <= 1) {
					t.Errorf("%s of %+v: %v", method, s, expected)
				}
			}
		}
	}
}

// In the table's units, and fewer rows than RowsFor says do not do.
func TestRowsFor(t *testing.T) {
	b := privacy.Budget{Epsilon: 1, Delta: 1e-6}
	for method, a := range map[string]plan.Algorithm{"gd": mustRecipe(t, "linear", "gd"), "l1": mustRecipe(t, "l1", catalogue.MethodObjective)} {
		s, b := table.Shape{N: 10, D: 3, Intercept: true}, b
		if method == "l1" {
			b.Delta = 0
		}
		n := RowsFor(0.1, a, s, b, privacy.Concentrated{})
		for at, ok := range map[int]bool{n: true, n - n/5: false} {
			s.N = at
			f, err := Expect(a, s, b, privacy.Concentrated{})
			if err != nil || (f.Deviation[0] <= 0.1 && f.Shrinkage <= 0.1) != ok {
				t.Errorf("%s: %d rows do, it says; at %d: %+v, %v", method, n, at, f, err)
			}
		}
		scaled, err := Expect(Scaled{Algorithm: a, X: []float64{10, 100}, Y: 1000}, s, b, privacy.Concentrated{})
		plain := expectation(t, a, s, b)
		if want := []float64{1000 * plain, 100 * plain, 10 * plain}; err != nil || !floats.EqualApprox(scaled.Deviation, want, 1e-9*plain) {
			t.Errorf("%s: %v, want %v: %v", method, scaled, want, err)
		}
	}
	// With so much noise this one hardly moves: that is no accuracy.
	if n := RowsFor(0.1, mustRecipe(t, "linear", "accmd"), table.Shape{N: 10, D: 10, Intercept: true}, b, privacy.Concentrated{}); n < 100 {
		t.Errorf("accmd needs %d rows", n)
	}
	if n := RowsFor(0.1, mustRecipe(t, "linear", "trimmed"), table.Shape{N: 10, D: 3, Intercept: true}, b, privacy.Concentrated{}); n != 0 {
		t.Errorf("trimmed needs %d rows", n)
	}
}

// centreRecipe is sample_aggregate as printed.
func centreRecipe(t *testing.T, model string, radius float64) plan.Algorithm {
	t.Helper()
	a, err := Recipe(model, map[string]any{"method": "sample_aggregate", "aggregator": "centre", "radius": radius}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustRecipe(t *testing.T, model, method string) plan.Algorithm {
	t.Helper()
	a, err := Recipe(model, map[string]any{"method": method}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// scaledTable has normal features of size 1 and normal residuals of size 1, or
// the labels of a coin that they bend a little.
func scaledTable(s table.Shape, labels bool) table.Data {
	rng := rand.New(rand.NewPCG(1, 2))
	x := table.Data{Shape: s, X: table.NewColumns(s.Columns(), s.N), Y: make([]float64, s.N)}
	for i := range x.Y {
		z := 0.3
		for j := range x.X {
			x.X[j][i] = rng.NormFloat64()
			z += 0.3 * x.X[j][i]
		}
		x.Y[i] = z + rng.NormFloat64()
		if labels {
			x.Y[i] = 0
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// deviation is the root mean square, over coefficients and draws, of fits of one
// table around their mean.
func deviation(t *testing.T, a plan.Algorithm, x table.Data, b privacy.Budget) float64 {
	const draws = 12
	src := mechtest.Source(t, 3)
	fits := make([][]float64, x.D)
	for range draws {
		p := plantest.Plan(t, a, x.Shape, b, privacy.Concentrated{})
		copied := table.Data{Shape: x.Shape, Y: slices.Clone(x.Y)}
		for _, column := range x.X {
			copied.X = append(copied.X, slices.Clone(column))
		}
		w, err := coefficients(p.Run(t.Context(), copied, src))
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range w {
			fits[j] = append(fits[j], v)
		}
	}
	variance := 0.0
	for _, coefs := range fits {
		variance += stat.Variance(coefs, nil) / float64(x.D)
	}
	return math.Sqrt(variance)
}
