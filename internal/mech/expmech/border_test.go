package expmech

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// The best fit lies outside of the ball, so draws crowd at its border, in boxes
// that also hold points outside. None of those is released.
func TestDrawsStayInTheBall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := [][]float64{make([]float64, 40), make([]float64, 40)}, make([]float64, 40)
	for i := range y {
		x[0][i], x[1][i] = r.NormFloat64(), r.NormFloat64()
		y[i] = 2*x[0][i] + 2*x[1][i]
	}
	p := Params{Epsilon: 20, Theta: 2, Iota: .2, Radius: 1, Pitch: 0x1p-6}
	src := mechtest.Source(t, 1)
	for range 200 {
		w, err := Draw(t.Context(), p, [][]float64{slices.Clone(x[0]), slices.Clone(x[1])}, slices.Clone(y), src)
		if err != nil {
			t.Fatal(err)
		}
		if w[0]*w[0]+w[1]*w[1] > 1 {
			t.Fatalf("%v is outside of the ball", w)
		}
	}
}
