package dpsco

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/loss"
)

// hiddenLaw has three columns, the last of which is made of the second.
func hiddenLaw(labels bool, n int, last func(second float64) float64) Data {
	r := rand.New(rand.NewPCG(1, 2))
	x := Data{Shape: Shape{N: n, D: 4, Intercept: true}, X: [][]float64{make([]float64, n), make([]float64, n), make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
		x.X[2][i] = last(x.X[1][i])
		if x.Y[i] = x.X[0][i] + r.NormFloat64(); labels {
			x.Y[i] = 0
			if r.Float64() < sigmoid(x.X[0][i]) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// A constant column beside the intercept costs all intervals: it is told. Of two columns that say
// the same both are.
func TestAHiddenDirectionNamesItsFeatures(t *testing.T) {
	columns := map[string]func(float64) float64{"twice": func(v float64) float64 { return v }, "year": func(v float64) float64 { return 1 + 0.003*v }}
	for _, c := range []float64{0, 0.01, 1, 3} {
		columns[fmt.Sprintf("constant %v", c)] = func(float64) float64 { return c }
	}
	for name, a := range map[string]Regression{"linear": {Loss: loss.Squared{}}, "huber": {Loss: loss.Huber{Delta: 1}}, "logistic": {Loss: loss.Logistic{}, Labels: true}} {
		for kind, column := range columns {
			want := []int{3}
			if kind == "twice" {
				want = []int{2, 3}
			}
			r := resultOf(t, a, hiddenLaw(a.Labels, 30_000, column), 1, 1)
			if got := slices.Sorted(slices.Values(r.Hidden)); r.WhyNull != hiddenDirection || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, %q", name, kind, got, r.WhyNull)
			}
		}
	}
}

// So it is where there is too little information for intervals anyway: the coefficient of a column far from 0, and the
// constant, may be far off.
func TestAHiddenFeatureIsNamedAtLowInformation(t *testing.T) {
	const rows = 5000
	a := Regression{Loss: loss.Squared{}}
	for name, column := range map[string]func(float64) float64{"year": func(v float64) float64 { return 1 + 0.003*v }, "constant": func(float64) float64 { return 1 }} {
		if r := resultOf(t, a, hiddenLaw(false, rows, column), 1, 1); r.WhyNull != hiddenDirection || !slices.Equal(r.Hidden, []int{3}) {
			t.Errorf("%s: %v, %q", name, r.Hidden, r.WhyNull)
		}
	}
	for name, column := range map[string]func(float64) float64{"two that say the same": func(v float64) float64 { return v }, "none": func(v float64) float64 { return v*v - 1 }} {
		if r := resultOf(t, a, hiddenLaw(false, rows, column), 1, 1); r.WhyNull != lowInformation || r.Hidden != nil {
			t.Errorf("%s: %v, %q", name, r.Hidden, r.WhyNull)
		}
	}
}

// A direction of many features names none, and so does one of none.
func TestADirectionOfManyFeaturesNamesNone(t *testing.T) {
	many := mat.NewDense(5, 5, nil)
	for j := range 5 {
		many.Set(j, j, 1)
		many.Set(j, 4, 9) // the longest axis
	}
	for name, a := range map[string]*mat.Dense{"many": many, "none": mat.NewDense(1, 1, []float64{1})} {
		if got := hiddenFeatures(a, name == "none"); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
