package experiment

import (
	"math"
	"math/rand/v2"

	"dpsidecar/internal/dpsco/table"
)

// noise draws from a distribution of mean 0, or of median 0 if it has no mean.
type noise func(r *rand.Rand) float64

// logNormal is lognormal with logarithms of mean 1 and variance 1, minus its mean.
func logNormal(r *rand.Rand) float64 { return math.Exp(1+r.NormFloat64()) - math.Exp(1.5) }

// logLogistic is loglogistic with logarithms of location a and scale b, minus its mean.
func logLogistic(a, b float64) noise {
	mean := math.Exp(a) * math.Pi * b / math.Sin(math.Pi*b)
	return func(r *rand.Rand) float64 {
		u := r.Float64()
		return math.Exp(a+b*math.Log(u/(1-u))) - mean
	}
}

// pareto is symmetric and has only moments of an order below index.
func pareto(index float64) noise {
	return func(r *rand.Rand) float64 {
		return math.Copysign(math.Pow(1-r.Float64(), -1/index)-1, r.Float64()-0.5)
	}
}

// dense is w*_j = (-1)^j / sqrt(d), of length 1.
func dense(d int) []float64 {
	w := make([]float64, d)
	for j := range w {
		w[j] = math.Pow(-1, float64(j)) / math.Sqrt(float64(d))
	}
	return w
}

// sparse has k coefficients of dense; the others are zero.
func sparse(d, k int) []float64 { return append(dense(min(d, k)), make([]float64, max(0, d-k))...) }

// Linear has y = <w*, x> + e; the judge is the distance of the slopes from w*.
func Linear(n int, w []float64, skewed bool, e noise, scale float64) *Task {
	return &Task{Model: "linear", Delta: 1e-5, draw: func(r *rand.Rand) (*Table, Judge, error) {
		t := design(r, n, w, skewed)
		t.TargetScale = scale
		for i := range t.Y {
			t.Y[i] += e(r)
		}
		return t, func(v []float64) float64 { return distance(v[1:], w) }, nil
	}}
}

// Logistic has the labels that Wang, Xiao, Devadas & Xu print, sign(1/(1+e^z) - 1/2) with z = <w*, x> + e;
// the judge is the excess mean log-loss over the least.
func Logistic(n int, w []float64, skewed bool, e noise) *Task {
	return &Task{Model: "logistic", Delta: 1e-5, draw: func(r *rand.Rand) (*Table, Judge, error) {
		t := design(r, n, w, skewed)
		for i, z := range t.Y {
			t.Y[i] = 0
			if z+e(r) < 0 {
				t.Y[i] = 1
			}
		}
		least := t.logLoss(t.fitLogistic())
		return t, func(v []float64) float64 { return t.logLoss(v) - least }, nil
	}}
}

// design draws features: normal or, with skewed, every other one lognormal. Y holds <w, x>.
func design(r *rand.Rand, n int, w []float64, skewed bool) *Table {
	d := len(w)
	t := &Table{Data: table.Data{Shape: table.Shape{N: n, D: d + 1, Intercept: true}, Y: make([]float64, n)}, TargetScale: 1}
	for j, wj := range w {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
			if skewed && j%2 == 0 {
				x[i] = math.Exp(x[i]/2) - math.Exp(0.125)
			}
			t.Y[i] += wj * x[i]
		}
		t.X, t.Scales = append(t.X, x), append(t.Scales, 1)
	}
	return t
}

func distance(a, b []float64) (length float64) {
	for j := range a {
		length = math.Hypot(length, a[j]-b[j])
	}
	return length
}
