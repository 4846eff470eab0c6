package expmech

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/mech"
)

// lognormal returns the law of l1-sampler.md.
func lognormal(seed uint64, n, d int) (x [][]float64, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := make([]float64, d)
	norm := 0.0
	for j := range w {
		w[j] = rng.NormFloat64()
		norm += w[j] * w[j]
	}
	for j := range w {
		w[j] *= 2 / math.Sqrt(norm)
	}
	x = make([][]float64, d-1)
	y = make([]float64, n)
	for j := range x {
		x[j] = make([]float64, n)
	}
	for i := range y {
		y[i] = w[0] + math.Exp(rng.NormFloat64()) - 1
		for j := range x {
			x[j][i] = math.Exp(rng.NormFloat64())
			y[i] += w[j+1] * x[j][i]
		}
	}
	return x, y
}

func BenchmarkDraw(b *testing.B) {
	for _, c := range []struct{ n, d int }{{1e3, 4}, {1e4, 4}, {1e5, 4}, {1e4, 6}, {1e5, 6}, {1e6, 4}, {1e3, 8}, {1e4, 8}} {
		b.Run(fmt.Sprintf("n=%.0e/d=%d", float64(c.n), c.d), func(b *testing.B) {
			x, y := lognormal(1, c.n, c.d)
			iota := 0.1
			if c.n <= 1000 {
				iota = 0.3
			}
			p := Params{Epsilon: 1, Theta: 2, Iota: iota, Radius: 10, Pitch: 10 / math.Sqrt(float64(c.n)) / 16, Intercept: true}
			src := mech.NewSource()
			for b.Loop() {
				if _, err := Draw(context.Background(), p, x, y, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
