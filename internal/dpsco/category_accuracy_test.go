package dpsco

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/simd"
)

// A table like one of house prices with their zip codes: five features that go together, 70
// levels of unequal size, of which the largest has some twenty times the rows of the
// smallest. Least squares explains 85 % of the target, and 57 % without the levels.
func zipCodes() (x [][]float64, y []float64) {
	const rows, levels, numbers = 21_613, 70, 5
	r := rand.New(rand.NewPCG(1, 2))
	shares, effects, total := make([]float64, levels), make([]float64, levels), 0.0
	for k := range levels {
		shares[k], effects[k] = math.Exp(0.6*r.NormFloat64()), 0.6*r.NormFloat64()
		total += shares[k]
	}
	x, y = table.NewColumns(numbers+levels-1, rows), make([]float64, rows)
	for i := range rows {
		level, u := 0, r.Float64()*total
		for ; level < levels-1 && u > shares[level]; level++ {
			u -= shares[level]
		}
		if level > 0 {
			x[numbers+level-1][i] = 1
		}
		common := r.NormFloat64()
		y[i] = effects[level] + 0.44*r.NormFloat64()
		for _, column := range x[:numbers] {
			column[i] = 0.7 * (common + r.NormFloat64())
			y[i] += 0.22 * column[i]
		}
	}
	return x, y
}

// explained is the share of the target's variance that coefficients explain.
func explained(x [][]float64, y, w []float64) float64 {
	mean, variance, left := 0.0, 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	prediction := make([]float64, len(y))
	simd.Combine(prediction, w[0], w[1:], x)
	for i, v := range y {
		variance += square(v - mean)
		left += square(v - prediction[i])
	}
	return 1 - left/variance
}

// fitOnce fits copies of columns.
func fitOnce(t *testing.T, a plan.Algorithm, x [][]float64, y []float64, epsilon float64) float64 {
	t.Helper()
	s := table.Shape{N: len(y), D: len(x) + 1, Intercept: true}
	p := plantest.Plan(t, a, s, privacy.Budget{Epsilon: epsilon, Delta: 1e-6}, privacy.Concentrated{})
	r, err := p.Run(context.Background(), table.Data{Shape: s, X: copyOf(x), Y: append([]float64(nil), y...)}, mechtest.Source(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	return explained(x, y, r.Coefficients)
}

func copyOf(x [][]float64) (c [][]float64) {
	for _, column := range x {
		c = append(c, append([]float64(nil), column...))
	}
	return c
}

// The levels of a category are worth their coefficients, because a row is as long as it has
// columns. Of 30 runs R2 was .794 in the median and .774 to .807, and .605 to .629 where every level counts as
// a column. Seeds are fixed.
func TestSeventyLevelsAreWorthTheirNoise(t *testing.T) {
	const epsilon = 0.3
	x, y := zipCodes()
	a := Regression{Loss: losses["linear"], ResidualScale: 0.5}
	without, unknown := fitOnce(t, a, x[:5], y, epsilon), fitOnce(t, a, x, y, epsilon)
	a.Sources = 7
	with := fitOnce(t, a, x, y, epsilon)
	t.Logf("without levels %.3f, as so many columns %.3f, as a category %.3f", without, unknown, with)
	if with < 0.68 || with < without || unknown > 0.65 {
		t.Errorf("R2 is %.3f with 70 levels, %.3f without, %.3f if each counts as a column", with, without, unknown)
	}
}
