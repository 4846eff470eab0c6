package dpsco

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/floats"
)

// overNormals integrates f against the standard normal density, by a rule of its own.
func overNormals(f func(v float64) float64) (sum float64) {
	const step = 1e-3
	for v := -9.; v <= 9; v += step {
		sum += step * f(v) * math.Exp(-v*v/2) / math.Sqrt(2*math.Pi)
	}
	return sum
}

// A Newton step of normal log-odds goes from one mean and spread to others, and tells to which spread it was on the way.
func TestASpreadIsToldByAStep(t *testing.T) {
	for _, c := range []struct{ mean, from, bestMean, best float64 }{
		{0, 1, 0, 1}, {0, 0.5, 0, 1.2}, {0, 1.5, 0, 3}, {0, 3, 0, 6}, {0, 4, 0, 3}, {0, 6, 0, 4}, {0, 8, 0, 8}, {0, 6, 0, 7},
		{-2, 2, -3, 3}, {-2.5, 2.4, -3, 3}, {-3, 3, -3, 3}, {3, 4, 4, 6}, {-5, 3, -5, 3.5}, {1, 5, 1.5, 8},
	} {
		curvature := func(v float64) float64 { p := sigmoid(c.mean + c.from*v); return p * (1 - p) }
		off := func(v float64) float64 { return sigmoid(c.bestMean+c.best*v) - sigmoid(c.mean+c.from*v) }
		of := func(g func(v float64) float64, power float64) float64 {
			return overNormals(func(v float64) float64 { return g(v) * math.Pow(v, power) })
		}
		h, cross, along, score, spread := of(curvature, 0), of(curvature, 1), of(curvature, 2), of(off, 0), of(off, 1)
		determinant := h*along - cross*cross
		meanAfter, to := c.mean+(along*score-cross*spread)/determinant, c.from+(h*spread-cross*score)/determinant
		if got := spreadOfStep(c.mean, c.from, meanAfter, to, 0); math.Abs(got-c.best) > 0.02*c.best {
			t.Errorf("%+v: a step goes to %v and %v: told %v", c, meanAfter, to, got)
		}
	}
	for _, to := range []float64{-50, 0, 1e9} {
		if got := spreadOfStep(0, 2, 0, to, 0); got < 1 || got > 4 {
			t.Errorf("from 2 to %v: told %v", to, got)
		}
	}
}

// logOddsTable is one of labels with the given coefficients, the constant's first, and features of a law.
func logOddsTable(r *rand.Rand, n int, want []float64, feature func(r *rand.Rand) float64) table.Data {
	slopes := len(want) - 1
	x := table.Data{Shape: table.Shape{N: n, D: len(want), Intercept: true}, X: table.NewColumns(slopes, n), Y: make([]float64, n)}
	for i := range n {
		z := want[0]
		for j := range slopes {
			x.X[j][i] = feature(r)
			z += want[1+j] * x.X[j][i]
		}
		if r.Float64() < sigmoid(z) {
			x.Y[i] = 1
		}
	}
	return x
}

// Where the model holds and labels are rare, steps are as long as they should be, and so they are with flags.
func TestStepsOfRareLabelsAreAsLongAsTheyShouldBe(t *testing.T) {
	for name, feature := range map[string]func(r *rand.Rand) float64{"normal": (*rand.Rand).NormFloat64, "flags": func(r *rand.Rand) float64 { return 2 * float64(r.IntN(2)) }} {
		want := []float64{-3, 1.73, -1.73, 1.73}
		fit := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, logOddsTable(rand.New(rand.NewPCG(3, 3)), 30_000, want, feature), 10, 1)
		if away := floats.Distance(fit.Coefficients, want, 2); away > 0.3 || fit.Low == nil {
			t.Errorf("%s: %v, %v away from %v; %s", name, fit.Coefficients, away, want, fit.WhyNull)
		}
	}
}

// Labels that features all but separate are fitted as well as others: log-odds spread by 8, and Newton's own
// steps, from 1.5 on, would end at 4.7.
func TestLabelsThatAreAlmostSeparatedAreFitted(t *testing.T) {
	want := []float64{1, 5, -4, 4.8}
	x := logOddsTable(rand.New(rand.NewPCG(8, 8)), 100_000, want, (*rand.Rand).NormFloat64)
	for _, eps := range []float64{1, 4} {
		fit := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, x, eps, 1)
		if away := floats.Distance(fit.Coefficients, want, 2); away > 0.6 {
			t.Errorf("eps %v: %v, %v away from %v", eps, fit.Coefficients, away, want)
		}
		for j, low := range fit.Low {
			if !(low < want[j] && want[j] < fit.High[j]) {
				t.Errorf("eps %v: %v of %v to %v", eps, want[j], low, fit.High[j])
			}
		}
	}
}

// So they are with a penalty: steps that were not stretched left 5 to 16 % of the fit.
func TestPenalisedLabelsThatAreAlmostSeparatedAreFitted(t *testing.T) {
	x := logOddsTable(rand.New(rand.NewPCG(8, 8)), 30_000, []float64{1, 5, -4, 4.8}, (*rand.Rand).NormFloat64)
	for _, c := range []struct {
		a   Regression
		psi prox.Operator
	}{
		{Regression{Penalty: "l1", Lambda: 1e-3}, prox.L1{Lambda: 1e-3}},
		{Regression{Penalty: "l2", Lambda: 1e-3}, prox.L2{Lambda: 1e-3}},
		{Regression{Penalty: "elastic_net", Lambda: 1e-3, L1Ratio: 0.5}, prox.ElasticNet{L1: 5e-4, L2: 5e-4}},
		{Regression{Penalty: "group_l1", Lambda: 1e-3, Groups: [][]int{{0, 1}, {2}}}, prox.GroupL1{Lambda: 1e-3, Groups: [][]int{{0, 1}, {2}}}},
	} {
		c.a.Loss, c.a.Labels = loss.Logistic{}, true
		want := penalisedFit(x, prox.ExceptFirst{Operator: c.psi})
		fit := resultOf(t, c.a, x, 4, 1)
		if away := floats.Distance(fit.Coefficients, want, 2); away > 0.05*floats.Norm(want, 2) {
			t.Errorf("%s: %v, want %v", c.a.Penalty, fit.Coefficients, want)
		}
	}
}

// penalisedFit is the fit of labels without privacy, by accelerated proximal gradient steps.
func penalisedFit(x table.Data, psi prox.Operator) []float64 {
	row := func(i int) []float64 {
		r := []float64{1}
		for _, column := range x.X {
			r = append(r, column[i])
		}
		return r
	}
	rows, squares := make([][]float64, x.N), 0.0
	for i := range rows {
		rows[i] = row(i)
		squares += floats.Dot(rows[i], rows[i]) / float64(x.N)
	}
	w, y := make([]float64, x.D), make([]float64, x.D)
	for k := range 400 {
		last := append([]float64(nil), w...)
		copy(w, y)
		for i, row := range rows {
			floats.AddScaled(w, 4/squares/float64(x.N)*(x.Y[i]-sigmoid(floats.Dot(y, row))), row)
		}
		psi.Prox(w, 4/squares)
		floats.SubTo(y, w, last)
		floats.Scale(float64(k)/float64(k+3), y)
		floats.Add(y, w)
	}
	return w
}

// A level whose labels are all alike has no log-odds: it and the intercept have no interval, the other feature has one, and
// the fit stays within the ball.
func TestALevelWhoseLabelsAreAlikeHasNoInterval(t *testing.T) {
	r, n := rand.New(rand.NewPCG(9, 9)), 100_000
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: [][]float64{make([]float64, n), make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = float64(i%4/3), r.NormFloat64()
		if x.X[0][i] == 0 && r.Float64() < sigmoid(x.X[1][i]) {
			x.Y[i] = 1
		}
	}
	for _, eps := range []float64{1, 10} {
		fit := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, x, eps, 1)
		if !(fit.Coefficients[1] < -3) || math.Abs(fit.Coefficients[2]-1) > 0.2 {
			t.Errorf("eps %v: %v", eps, fit.Coefficients)
		}
		if !slices.Equal(fit.Unsettled, []int{0, 1}) || !fit.Withholds(0) || !fit.Withholds(1) || fit.Withholds(2) {
			t.Errorf("eps %v: %v are unsettled", eps, fit.Unsettled)
		} else if !(fit.Low[2] < 1 && fit.High[2] > 1 && fit.High[2]-fit.Low[2] < 0.4) {
			t.Errorf("eps %v: the other slope is between %v and %v", eps, fit.Low[2], fit.High[2])
		}
	}
}
