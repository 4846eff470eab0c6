package dpsco

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// weightedLaw are rows of a law that no linear model fits, so that weights matter, with weights
// from 0 to 4, which the features tell in part.
func weightedLaw(model string, n int, seed uint64) Data {
	r := rand.New(rand.NewPCG(seed, 17))
	x := Data{Shape: Shape{N: n, D: 3, Intercept: true}, X: columns(2, n), Y: make([]float64, n), Weight: make([]float64, n)}
	for i := range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		x.X[0][i], x.X[1][i] = a, b
		x.Weight[i] = math.Floor(5 * sigmoid(a+r.NormFloat64()))
		mean := 0.5 + a - 0.5*b + 0.3*a*a
		switch model {
		case "logistic":
			if r.Float64() < sigmoid(mean) {
				x.Y[i] = 1
			}
		case "poisson":
			x.Y[i] = float64(poissonOf(r, math.Exp(min(mean-1, 2))))
		default:
			x.Y[i] = mean + r.NormFloat64()*(1+0.3*math.Abs(a))
		}
	}
	return x
}

// poissonOf draws a count with a mean.
func poissonOf(r *rand.Rand, mean float64) (count int) {
	for left := r.ExpFloat64(); left < mean; left += r.ExpFloat64() {
		count++
	}
	return count
}

// mostWeight is the largest of a weightedLaw.
const mostWeight = 4

// repeated has every row as often as its weight says: a fit of them without weights is the
// weighted one.
func repeated(x Data) Data {
	out := Data{Shape: x.Shape, X: make([][]float64, len(x.X))}
	for i, w := range x.Weight {
		for range int(min(w, mostWeight)) {
			out.Y = append(out.Y, x.Y[i])
			for j, column := range x.X {
				out.X[j] = append(out.X[j], column[i])
			}
			if x.Offset != nil {
				out.Offset = append(out.Offset, x.Offset[i])
			}
		}
	}
	out.N = len(out.Y)
	return out
}

// withWeights is a model with weights, at a method.
func withWeights(model, method string) Algorithm {
	given := map[string]any{"weight": "w", "max_weight": float64(mostWeight), "method": method}
	a, err := Recipe(model, given, []string{"a", "b"})
	if err != nil {
		panic(err)
	}
	return a
}

// weighedResult is a fit as jobs run it.
func weighedResult(t *testing.T, a Algorithm, counts bool, x Data, b privacy.Budget, seed uint64) Result {
	t.Helper()
	p, err := Scaled{Algorithm: a, X: repeat(1, x.Columns()), Y: 1, Counts: counts}.Plan(x.Shape, b, privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), cloned(x), mechtest.Source(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// With much budget a weighted fit is the exact one of rows that are repeated as often as their
// weights say, of every model, with and without an intercept and an offset.
func TestWeightsAreRepeatedRows(t *testing.T) {
	for model, within := range map[string]float64{"linear": 0.01, "logistic": 0.02, "huber": 0.02, "poisson": 0.03} {
		for k := range 4 {
			intercept, offset := k%2 == 0, k/2 == 1
			x := weightedLaw(model, 60_000, 1)
			if offset {
				x.Offset = make([]float64, x.N)
				for i := range x.Offset {
					x.Offset[i] = 0.7*x.X[1][i] - 1
				}
			}
			if !intercept {
				x.X, x.Intercept = append([][]float64{slices.Repeat([]float64{1}, x.N)}, x.X...), false
			}
			l := losses[model]
			if model == "huber" {
				l = loss.Huber{Delta: 1}
			}
			want, _ := best(l, repeated(x))
			for i := 0; i < x.N; i += 10 { // rows that say nothing, and weights above the largest one
				if x.Weight[i] == mostWeight {
					x.Weight[i] = 1e6
				}
				if x.Weight[i] == 0 {
					x.Weight[i] = []float64{math.NaN(), -3, math.Inf(1), math.Inf(-1), 0}[i/10%5]
				}
			}
			r := weighedResult(t, withWeights(model, catalogue.MethodAuto), model == "poisson", x, privacy.Budget{Epsilon: 1000, Delta: 1e-6}, 1)
			t.Logf("%s, intercept %t, offset %t: %.4f, want %.4f; %q", model, intercept, offset, r.Coefficients, want, r.WhyNull)
			for j, v := range r.Coefficients {
				if math.Abs(v-want[j]) > within {
					t.Errorf("%s, intercept %t, offset %t: %v, want %v", model, intercept, offset, r.Coefficients, want)
					break
				}
				if r.Low != nil && !(r.Low[j] <= v && v <= r.High[j]) {
					t.Errorf("%s: an interval from %v to %v around %v", model, r.Low[j], r.High[j], v)
				}
			}
		}
	}
}

// Weights that are all the largest one make no difference, but for rounding.
func TestEqualWeightsAreNone(t *testing.T) {
	for _, model := range regressions() {
		for _, method := range []string{catalogue.MethodAuto, "gd", "ksu", "spgd_kamath", "svrg", catalogue.MethodSampleAggregate} {
			if !fitsLoss(losses[model], method) {
				continue
			}
			x := weightedLaw(model, 4000, 2)
			x.Weight = slices.Repeat([]float64{mostWeight}, x.N)
			budget := privacy.Budget{Epsilon: 100, Delta: 1e-6}
			with := weighedResult(t, withWeights(model, method), model == "poisson", x, budget, 3)
			x.Weight = nil
			m, _ := catalogue.Find(model)
			a := regression(m)
			a.Method = method
			without := weighedResult(t, a, model == "poisson", x, budget, 3)
			for j, v := range with.Coefficients {
				if math.Abs(v-without.Coefficients[j]) > 0.01 {
					t.Errorf("%s by %s: %v with weights, %v without", model, method, with.Coefficients, without.Coefficients)
					break
				}
			}
		}
	}
}

// Weights without their bound, or that a method does not take, are refused with what to do.
func TestWeightsAreRefused(t *testing.T) {
	s, b := Shape{N: 1000, D: 2, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	for name, a := range map[string]Algorithm{
		"no bound":          Regression{Loss: loss.Squared{}, Weight: "w"},
		"no bound of l1":    L1{Weight: "w"},
		"exact sampler":     L1{MaxWeight: 1, Method: catalogue.MethodExponential},
		"bound of nothing":  Regression{Loss: loss.Squared{}, MaxWeight: -1},
		"too large a bound": Regression{Loss: loss.Squared{}, MaxWeight: 1e12},
	} {
		if _, pure := a.(L1); pure {
			b.Delta = 0
		} else {
			b.Delta = 1e-6
		}
		if _, err := a.Plan(s, b, privacy.Concentrated{}); !errors.Is(err, ErrParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Levels = 2
	if _, err := (Regression{Loss: loss.Squared{}, MaxWeight: 1}).Plan(s, b, privacy.Concentrated{}); !errors.Is(err, ErrInfeasible) {
		t.Errorf("groups: %v", err)
	}
	for model, given := range map[string]map[string]any{"l1": {"max_weight": 3.}, "linear": {"max_weight": 3.}} {
		if _, err := Recipe(model, given, nil); !errors.Is(err, ErrParameter) {
			t.Errorf("%s: %v", fmt.Sprint(model, given), err)
		}
	}
}
