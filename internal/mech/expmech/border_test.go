package expmech

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/mechtest"

	"gonum.org/v1/gonum/floats"
)

// The best fit lies outside of the set, so draws crowd at its border, in boxes
// that also hold points outside. None of those is released.
func TestDrawsStayInTheSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := [][]float64{make([]float64, 40), make([]float64, 40)}, make([]float64, 40)
	for i := range y {
		x[0][i], x[1][i] = r.NormFloat64(), r.NormFloat64()
		y[i] = 2*x[0][i] + 2*x[1][i]
	}
	p := Params{Epsilon: 20, Theta: 2, Iota: .2, Radius: 1, Pitch: 0x1p-6}
	src := mechtest.Source(t, 1)
	for n := range 400 {
		p.Set = Set(n % 2)
		if n%2 == 0 {
			floats.Scale(-1, y)
		}
		w, err := Draw(t.Context(), p, [][]float64{slices.Clone(x[0]), slices.Clone(x[1])}, slices.Clone(y), src)
		if err != nil {
			t.Fatal(err)
		}
		if p.Set == Ball && w[0]*w[0]+w[1]*w[1] > 1 || max(math.Abs(w[0]), math.Abs(w[1])) > 1 {
			t.Fatalf("%v is outside of set %d", w, p.Set)
		}
	}
}
