package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// A request under the eps that the printed noise truly costs has that noise.
func TestPrintedNoiseIsWhatRuns(t *testing.T) {
	const n = 10_000
	for method, sensitivity := range map[string]float64{"spgd_clip": 2, "spgd_holland": 1} {
		for _, epsilon := range []float64{.5, 1, 3} {
			algorithm, err := dpsco.Recipe("linear", map[string]any{"method": method, "steps": 5.}, nil)
			if err != nil {
				t.Fatal(err)
			}
			budget := privacy.Budget{Epsilon: sinicaCost(epsilon, 1./n, sensitivity), Delta: 1. / n}
			p, err := algorithm.Plan(table.Shape{N: n, D: 51, Intercept: true}, budget, privacy.Concentrated{})
			if err != nil {
				t.Fatal(err)
			}
			want := math.Sqrt(math.Log(n)) / epsilon / sensitivity
			if got := p.Parameters["noise_multiplier"].(float64); math.Abs(got/want-1) > 1e-3 {
				t.Errorf("%s at stated eps %v: noise multiplier %v, printed %v", method, epsilon, got, want)
			}
		}
	}
}

// Columns have the stated norm, and the judge knows the coefficients.
func TestTheStatedLassoHasUnitColumns(t *testing.T) {
	const n, p = 10_000, 20
	table, judge, err := SinicaLasso(n, p, 1/math.Sqrt(n)).Draw(1)
	if err != nil {
		t.Fatal(err)
	}
	for j, x := range table.X {
		square := 0.0
		for _, v := range x {
			square += v * v
		}
		if math.Abs(math.Sqrt(square)-1) > 0.05 { // the standard deviation is 0.007
			t.Errorf("column %d has norm %v", j, math.Sqrt(square))
		}
	}
	w := append([]float64{7}, tenSigns(p)...)
	if got := judge(w); got != 0 {
		t.Errorf("the true coefficients are judged %v", got)
	}
	if got := judge(make([]float64, p+1)); math.Abs(got-math.Sqrt(10)) > 1e-12 {
		t.Errorf("zero is judged %v", got)
	}
}

// Half of |t(2)| lies below 0.8165, its third quartile. False failures: 10 standard errors.
func TestStudentTwoHasItsQuartiles(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	draws := make([]float64, 100_000)
	for i := range draws {
		draws[i] = studentTwo(r)
	}
	slices.Sort(draws)
	for k, want := range map[int]float64{25_000: -0.8165, 50_000: 0, 75_000: 0.8165} {
		if math.Abs(draws[k]-want) > 0.05 {
			t.Errorf("quantile %d of 100,000 is %v, not %v", k, draws[k], want)
		}
	}
}
