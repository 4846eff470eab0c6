package expmech

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// grid returns the points of W.
func grid(t *target) (points [][]int64) {
	k := make([]int64, t.d)
	var visit func(j int)
	visit = func(j int) {
		if j == t.d {
			if t.contains(k) {
				points = append(points, append([]int64(nil), k...))
			}
			return
		}
		for k[j] = -t.reach; k[j] <= t.reach; k[j]++ {
			visit(j + 1)
		}
	}
	visit(0)
	return points
}

// law enumerates the target: every grid point of W and its probability, computed
// from the definition in Draw's comment with nothing of the sampler in it but
// the scores.
func law(p Params, x [][]float64, y []float64) (points [][]int64, probability []float64) {
	d := len(x)
	if p.Intercept {
		d++
	}
	s := &score{target: newTarget(p, len(y), d), table: newTable(x, y)}
	var weight []float64
	least := math.Inf(1)
	points = grid(s.target)
	for _, k := range points {
		exponent, _ := new(big.Rat).Mul(s.unit, new(big.Rat).SetInt(s.total(k))).Float64()
		weight = append(weight, exponent)
		least = min(least, exponent)
	}
	sum := 0.0
	for i := range weight {
		weight[i] = math.Exp(least - weight[i])
		sum += weight[i]
	}
	for i := range weight {
		weight[i] /= sum
	}
	return points, weight
}

// chiSquare compares counts with n times probability, merging cells that expect
// fewer than 10. The law of chi^2 is exceeded beyond k + 2 sqrt(k t) + 2 t with
// probability at most exp(-t) (Laurent & Massart 2000); with t = 20 a right
// sampler fails a test with probability about 2e-9.
func chiSquare(counts map[[2]int64]int, points [][]int64, probability []float64, n int) (statistic, limit float64) {
	var expect float64
	var seen, cells int
	for i, k := range points {
		expect += probability[i] * float64(n)
		seen += counts[key(k)]
		if expect >= 10 {
			statistic += (float64(seen) - expect) * (float64(seen) - expect) / expect
			cells++
			expect, seen = 0, 0
		}
	}
	if expect > 0 { // what is left expects too few for a cell of its own: one-sided
		statistic += max(0, float64(seen)-expect) * max(0, float64(seen)-expect) / max(expect, 10)
		cells++
	}
	freedom := float64(cells - 1)
	return statistic, freedom + 2*math.Sqrt(20*freedom) + 40
}

func key(k []int64) (out [2]int64) {
	copy(out[:], k)
	return out
}

// small returns a table of n rows and d columns on which the target spreads over
// the grid, with a heavy tail, ties and a row with a missing value.
func small(seed uint64, n, d int) (x [][]float64, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	y = make([]float64, n)
	for range d {
		x = append(x, make([]float64, n))
	}
	for i := range y {
		y[i] = math.Exp(rng.NormFloat64()) - 1
		for j := range x {
			x[j][i] = math.Round(2*rng.NormFloat64()) / 2
			y[i] += x[j][i] * (0.4 - 0.7*float64(j))
		}
	}
	x[0][n/2] = math.NaN()
	y[n/3] = 1e7
	return x, y
}

func TestDrawFollowsTheLaw(t *testing.T) {
	const draws = 2000
	for _, d := range []int{1, 2} {
		for _, theta := range []float64{2, 1.5, 1.2} {
			for _, set := range []Set{Ball, Box} {
				p := Params{Epsilon: 2, Theta: theta, Iota: 0.3, Radius: 1, Pitch: 1. / 24, Set: set, Intercept: d == 2}
				if d == 2 {
					p.Pitch = 1. / 9
				}
				columns := d
				if p.Intercept {
					columns--
				}
				x, y := small(uint64(d), 40, columns)
				points, probability := law(p, x, y)
				src := mechtest.Source(t, uint64(d)+uint64(10*theta)<<8+uint64(set)<<16)
				counts := map[[2]int64]int{}
				for range draws {
					w, err := Draw(context.Background(), p, x, y, src)
					if err != nil {
						t.Fatal(err)
					}
					var k [2]int64
					for j, v := range w {
						k[j] = int64(math.Round(v / p.Pitch))
					}
					counts[k]++
				}
				if got, limit := chiSquare(counts, points, probability, draws); got > limit {
					t.Errorf("d=%d theta=%g set=%d: chi^2 %.1f > %.1f", d, theta, set, got, limit)
				} else {
					t.Logf("d=%d theta=%g set=%d: chi^2 %.1f limit %.1f", d, theta, set, got, limit)
				}
			}
		}
	}
}
