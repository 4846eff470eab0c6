package expmech

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

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

func TestTmp(t *testing.T) {
	x, y := lognormal(1, 1e4, 4)
	p := Params{Epsilon: 1, Theta: 2, Iota: .1, Radius: 10, Pitch: 10. / 100 / 16, Intercept: true}
	t0 := time.Now()
	w, err := Draw(context.Background(), p, x, y, mech.NewSource())
	t.Log(w, err, time.Since(t0))
	stats(t, p, x, y)
}

func stats(t testing.TB, p Params, x [][]float64, y []float64) {
	d := len(x)
	if p.Intercept {
		d++
	}
	src := mech.NewSource()
	t0 := time.Now()
	s := newSampler(newTarget(p, len(y), d), x, y)
	tn := time.Since(t0)
	props := 0
	var tp time.Duration
	for {
		if s.impatient() {
			s.split()
		} else {
			t1 := time.Now()
			_, ok := s.propose(src)
			tp += time.Since(t1)
			props++
			if ok {
				break
			}
		}
	}
	rows := 0
	for _, b := range s.boxes {
		if b.heir != nil {
			rows += len(b.heir.plain)
		}
	}
	t.Logf("n=%d d=%d setup %.3fs splits %.3fs proposals %.3fs; props %d boxes %d avgrows %d; logratio %.2f", len(y), d, tn.Seconds(), (time.Since(t0) - tn - tp).Seconds(), tp.Seconds(), props, len(s.boxes), rows/len(s.boxes), s.logSum()-s.logTarget)
}
