package dpsco

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"

	"gonum.org/v1/gonum/floats"
)

// Intervals cover the coefficients of the law. Of 150 intervals at a true coverage of
// 95 %, were they independent, 127 or fewer cover with probability 4e-6, 125 or fewer with
// 5e-7; seeds are fixed besides. A quarter of their width would be found.
func TestNewtonsIntervalsCoverTheCoefficientsOfTheLaw(t *testing.T) {
	for _, c := range []struct {
		a    Regression
		kind string
	}{
		{Regression{Loss: loss.Logistic{}, Labels: true}, "gauss"}, {Regression{Loss: loss.Logistic{}, Labels: true}, "skew"},
		{Regression{Loss: loss.Huber{Delta: 1}}, "gauss"}, {Regression{Loss: loss.Huber{Delta: 1}}, "skew"},
	} {
		draw := func(n int, seed uint64) Data {
			if c.a.Labels {
				return labelLaw(c.kind, n, 3, seed)
			}
			return drawLaw(c.kind, n, 3, seed)
		}
		truth, _ := best(c.a.Loss, draw(600_000, 777))
		tried, covered, quarter := 0, 0, 0
		for seed := range uint64(50) {
			r := resultOf(t, c.a, draw(40_000, 100+seed), 1, seed)
			for j := range r.StdErr {
				tried++
				middle, half := (r.Low[j]+r.High[j])/2, (r.High[j]-r.Low[j])/2
				if math.Abs(truth[j]-middle) <= half {
					covered++
				}
				if math.Abs(truth[j]-middle) <= half/4 {
					quarter++
				}
				if !(r.StdErr[j] > 0 && r.DF[j] >= 1 && half > 1.9*r.StdErr[j]) {
					t.Fatalf("%+v", r)
				}
			}
		}
		t.Logf("%T, %s: %d of %d", c.a.Loss, c.kind, covered, tried)
		if tried < 135 || float64(covered) < 0.84*float64(tried) {
			t.Errorf("%T, %s: %d of %d are covered", c.a.Loss, c.kind, covered, tried)
		}
		if float64(quarter) >= 0.84*float64(tried) {
			t.Errorf("%T, %s: intervals of a quarter of the width cover %d of %d; the test has no power", c.a.Loss, c.kind, quarter, tried)
		}
	}
}

// Where there is no interval there is a reason.
func TestNewtonsMissingIntervalsHaveAReason(t *testing.T) {
	gauss := labelLaw("gauss", 30_000, 3, 1)
	for name, c := range map[string]struct {
		a    Regression
		x    Data
		eps  float64
		says string
	}{
		"a penalty":       {Regression{Penalty: catalogue.PenaltyL2, Lambda: 0.1}, gauss, 1, "penalty"},
		"an active ball":  {Regression{Radius: 0.1}, gauss, 1, "radius"},
		"few rows":        {Regression{}, labelLaw("gauss", 500, 3, 1), 0.1, noErrors},
		"too little":      {Regression{Method: catalogue.MethodNewton}, labelLaw("gauss", 500, 3, 1), 0.3, "hides some direction"},
		"far from scale":  {Regression{Radius: 1e4}, farFromScale(gauss), 1, ""},
		"another method":  {Regression{Method: "gd"}, gauss, 1, noErrors},
		"whitened, asked": {Regression{Whitening: catalogue.WhiteningOff}, gauss, 1, noErrors},
	} {
		c.a.Loss, c.a.Labels = loss.Logistic{}, true
		r := resultOf(t, c.a, c.x, c.eps, 1)
		if r.WhyNull == "" || !strings.Contains(r.WhyNull, c.says) || r.StdErr != nil || r.DF != nil || r.Low != nil || r.High != nil || r.Covariance != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, gauss, 1, 1); r.WhyNull != "" || len(r.Low) != 3 || r.Covariance == nil {
		t.Errorf("%+v", r)
	}
}

// Tables whose feature has a tail of index 1.8 and counts up to 3 only have no intervals:
// their fits are about rows that are not long. With a normal feature they have them. Without
// the rule those of the heavy tail have them too. Seeds are fixed.
func TestNewtonGivesNoIntervalsWhereLongRowsMayCarryTheFit(t *testing.T) {
	const tables = 10
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		withheld := map[bool]int{}
		for _, heavy := range []bool{true, false} {
			for seed := range uint64(tables) {
				if r := resultOf(t, a, bentLaw(a.Labels, heavy, 40_000, 200+seed), 1, seed); strings.Contains(r.WhyNull, "long rows") {
					withheld[heavy]++
				}
			}
		}
		if withheld[true] < tables-1 || withheld[false] > 1 {
			t.Errorf("%T: no intervals for %d of %d tables with a heavy tail of lengths, and for %d without", a.Loss, withheld[true], tables, withheld[false])
		}
	}
}

// bentLaw has a feature that counts up to 3 only, with a Pareto tail or a normal one.
func bentLaw(labels, heavy bool, n int, seed uint64) Data {
	r := rand.New(rand.NewPCG(seed, 97))
	x := Data{Shape: Shape{N: n, D: 2, Intercept: true}, X: [][]float64{make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		v := 2 + r.NormFloat64()
		if heavy {
			v = math.Pow(1-r.Float64(), -1/1.8)
		}
		x.X[0][i] = v
		if x.Y[i] = min(v, 3) + r.NormFloat64(); labels {
			x.Y[i] = 0
			if r.Float64() < sigmoid(min(v, 3)-2) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// farFromScale has separable labels and a feature a thousandth of its scale.
func farFromScale(x Data) Data {
	c := cloned(x)
	for i, v := range c.X[0] {
		c.Y[i] = 0
		if v > 0 {
			c.Y[i] = 1
		}
	}
	floats.Scale(1e-3, c.X[1])
	return c
}

// The squares of standard errors are the covariance's diagonal, and the covariance has no
// negative eigenvalue.
func TestNewtonsCovariance(t *testing.T) {
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{}}} {
		x := drawLaw("skew", 30_000, 5, 1)
		if a.Labels {
			x = labelLaw("skew", 30_000, 5, 1)
		}
		r := resultOf(t, a, x, 1, 1)
		for j, v := range r.StdErr {
			if math.Abs(v*v-r.Covariance.At(j, j)) > 1e-12*v*v {
				t.Errorf("%v, by the covariance %v", v, math.Sqrt(r.Covariance.At(j, j)))
			}
		}
		w := newWhitener(r.Covariance, 0)
		if len(r.StdErr) != 5 || !(w.values[0] > 0) || math.IsInf(w.values[0], 0) {
			t.Errorf("%v", r)
		}
	}
}
