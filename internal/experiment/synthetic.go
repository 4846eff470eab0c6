package experiment

import (
	"math"
	"math/rand/v2"

	"dpsidecar/internal/dpsco"
)

// The synthetic tasks follow Wang, Xiao, Devadas & Xu (ICML 2020): w*_j is
// (-1)^j / sqrt(d), noise is heavy-tailed and centred, features are normal or,
// every other column, lognormal. The judge sees slopes only.

// Linear has y = <w*, x> + e with e = lognormal(1, 1) - exp(1.5).
func Linear(n, d int, skewed bool) *Task {
	name := "linear, symmetric features"
	if skewed {
		name = "linear, lognormal features"
	}
	return &Task{Name: name, Model: "linear", Delta: 1e-5, Draw: func(r *rand.Rand) (*Table, func([]float64) float64) {
		t, w := design(r, n, d, skewed)
		t.TargetScale = 6
		for i := range t.Y {
			t.Y[i] += math.Exp(1+r.NormFloat64()) - math.Exp(1.5)
		}
		return t, func(v []float64) float64 { return distance(v[1:], w) }
	}}
}

// Logistic has labels sign(1/(1+e^z) - 1/2) with z = <w*, x> + e, e a centred
// loglogistic(0.2, 0.2). The judge is the excess mean log-loss.
func Logistic(n, d int) *Task {
	return &Task{Name: "logistic", Model: "logistic", Delta: 1e-5, Draw: func(r *rand.Rand) (*Table, func([]float64) float64) {
		t, _ := design(r, n, d, false)
		const a, b = 0.2, 0.2
		mean := math.Exp(a) * math.Pi * b / math.Sin(math.Pi*b)
		for i, z := range t.Y {
			u := r.Float64()
			z += math.Exp(a+b*math.Log(u/(1-u))) - mean
			t.Y[i] = 0
			if z < 0 {
				t.Y[i] = 1
			}
		}
		least := t.logLoss(t.fitLogistic())
		return t, func(v []float64) float64 { return t.logLoss(v) - least }
	}}
}

// design draws features; Y holds <w*, x>.
func design(r *rand.Rand, n, d int, skewed bool) (*Table, []float64) {
	t := &Table{Data: dpsco.Data{Shape: dpsco.Shape{N: n, D: d + 1, Intercept: true}, Y: make([]float64, n)}, TargetScale: 1}
	w := make([]float64, d)
	for j := range w {
		w[j] = math.Pow(-1, float64(j)) / math.Sqrt(float64(d))
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
			if skewed && j%2 == 0 {
				x[i] = math.Exp(x[i]/2) - math.Exp(0.125)
			}
			t.Y[i] += w[j] * x[i]
		}
		t.X, t.Scales = append(t.X, x), append(t.Scales, 1)
	}
	return t, w
}

func distance(a, b []float64) (length float64) {
	for j := range a {
		length = math.Hypot(length, a[j]-b[j])
	}
	return length
}
