package expmech

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dpsidecar/internal/mech"
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

// BenchmarkDraw also reports how many times as long as one evaluation of all scores a draw
// takes. Iota is the product's default, 0.24 (n epsilon/(250 d))^(-1/3). There n = 1e4,
// d = 8 and n = 1e5, d = 6 take minutes and have no place here.
func BenchmarkDraw(b *testing.B) {
	for _, c := range []struct {
		n, d    int
		epsilon float64
	}{{300, 4, 1}, {3e3, 4, .1}, {1e3, 4, 1}, {1e4, 4, 1}, {1e5, 4, 1}, {1e6, 4, 1}, {1e4, 6, 1}} {
		b.Run(fmt.Sprintf("n=%d/d=%d/eps=%g", c.n, c.d, c.epsilon), func(b *testing.B) {
			x, y := lognormal(1, c.n, c.d)
			p := Params{Epsilon: c.epsilon, Theta: 2, Radius: 10, Pitch: 0x1p-17, Intercept: true}
			p.Iota = min(0.5, 0.24*math.Pow(float64(c.n)*c.epsilon/float64(250*c.d), -1./3))
			sc := &score{target: newTarget(p, c.n, c.d), table: newTable(x, y)}
			began := time.Now()
			for range 100 {
				sc.estimate(make([]int64, c.d))
			}
			evaluation := time.Since(began).Seconds() / 100
			src := mech.NewSource()
			for b.Loop() {
				if _, err := Draw(context.Background(), p, x, y, src); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/evaluation, "evaluations/op")
		})
	}
}

// A draw that nobody waits for ends, whatever it is doing.
func TestDrawStopsWithItsContext(t *testing.T) {
	x, y := lognormal(1, 2000, 8)
	p := Params{Epsilon: 1, Theta: 2, Iota: 0.3, Radius: 10, Pitch: 0x1p-17, Intercept: true}
	for _, wait := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		start := time.Now()
		w, err := Draw(ctx, p, x, y, mech.NewSource())
		if !errors.Is(err, context.DeadlineExceeded) || w != nil {
			t.Errorf("after %v: %v, %v", wait, w, err)
		}
		if late := time.Since(start) - wait; late > 30*time.Second {
			t.Errorf("%v late", late)
		}
		cancel()
	}
}
