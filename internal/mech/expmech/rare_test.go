package expmech

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// usual returns the parameters that dp_l1_regress takes by default at epsilon 1.
func usual(n, d int) Params {
	iota := min(0.5, 0.24*math.Pow(float64(n)/float64(250*d), -1./3))
	return Params{Epsilon: 1, Theta: 2, Iota: iota, Radius: 10, Pitch: 0x1p-17, Intercept: true}
}

// normal returns normal features and a target near a plane.
func normal(seed uint64, n, d int) (x [][]float64, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	x, y = make([][]float64, d-1), make([]float64, n)
	for j := range x {
		x[j] = make([]float64, n)
	}
	for i := range y {
		y[i] = 0.3 * rng.NormFloat64()
		for j := range x {
			x[j][i] = rng.NormFloat64()
			y[i] += x[j][i] * (0.5 - 0.3*float64(j))
		}
	}
	return x, y
}

// work returns how many rows draws look at: boxes, cells and proposals, each with its rows.
func work(src *mech.Source, p Params, x [][]float64, y []float64, draws int) (looked float64) {
	for range draws {
		s := newSampler(newTarget(p, len(y), len(x)+1), x, y, never)
		for accepted := false; !accepted; {
			if s.splitIsDue() {
				s.split()
			} else {
				_, accepted = s.propose(src)
			}
		}
		looked += float64(s.looked.Load())
	}
	return looked
}

// One row, whatever it holds, does not make a draw look at many times as many rows. Draws
// of the same table differ by a factor of 2, and a fence finds another cube or none; the row
// at 10,000 times its scale made it 6 to 300, as long as it was allowed to choose the axes.
func TestOneRowDoesNotMakeADrawWorkHarder(t *testing.T) {
	const draws, most = 4, 6
	for _, d := range []int{2, 3} {
		for name, table := range map[string]func(uint64, int, int) ([][]float64, []float64){"normal": normal, "lognormal": lognormal} {
			x, y := table(1, 300, d)
			src := mechtest.Source(t, uint64(d))
			without := work(src, usual(300, d), x, y, draws)
			for _, row := range [][2]float64{{1e2, 0}, {1e3, 1e3}, {1e4, 0}, {1e4, 1e4}, {3e4, 1}, {1e5, 0}, {1e7, 1}, {1e12, 0}, {1, 1e4}, {1, 1e9}} {
				for j := range d - 1 {
					other, target := slices.Clone(x), slices.Clone(y)
					other[j] = slices.Clone(x[j])
					other[j][7], target[7] = row[0], row[1]
					what := fmt.Sprintf("d=%d %s, a row with feature %d at %g and target %g", d, name, j, row[0], row[1])
					if with := work(src, usual(300, d), other, target, draws); with > most*without {
						t.Errorf("%s: %.3g rows are looked at, %.3g without it", what, with, without)
					}
				}
			}
		}
	}
}
