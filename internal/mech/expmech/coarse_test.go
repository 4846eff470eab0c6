package expmech

import (
	"context"
	"math"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// A column of dates in seconds, registered without a scale: on the grid only the
// slope 0 leaves any residual below 1/Iota. The draw must see that the grid is
// coarse, not look for a slope between its points.
func TestAGridTooCoarseForAColumn(t *testing.T) {
	const n = 500
	x, y := [][]float64{make([]float64, n)}, make([]float64, n)
	for i := range y {
		x[0][i] = 1767225600 + 86400*float64(i)
		y[i] = float64(i) / 100
	}
	x[0][1] = math.NaN()
	p := Params{Epsilon: 1, Theta: 2, Iota: 0.2, Radius: 10, Pitch: 0x1p-17, Intercept: true}
	for range 5 {
		w, err := Draw(context.Background(), p, x, y, mechtest.Source(t, 1))
		if err != nil || math.Abs(w[0]) > 10 || math.Abs(w[1]) > 10 {
			t.Fatal(w, err)
		}
	}
}

// An epsilon so small that the rows change nothing is as good as any.
func TestTheSmallestEpsilonDraws(t *testing.T) {
	x, y := [][]float64{{1, 2, 3}}, []float64{1, 2, 4}
	for _, epsilon := range []float64{4e-19, 0x1p-100} {
		p := Params{Epsilon: epsilon, Theta: 2, Iota: 1, Radius: 10, Pitch: 0x1p-17, Intercept: true}
		if _, err := Draw(context.Background(), p, x, y, mechtest.Source(t, 1)); err != nil {
			t.Error(epsilon, err)
		}
	}
}
