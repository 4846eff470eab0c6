package dpsco

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/privacy"
)

// lognormalNeighbours are tables of lognormal features and targets that differ
// in one row, which is long in one of them and like others in the other. Unlike
// hostile rows, which are so many that one more changes nothing, one such row
// moves every mean, length and quantile of its table: a public limit that was
// taken from one of those shows.
func lognormalNeighbours(r *rand.Rand, s Shape, labels bool) (a, b Data) {
	a = Data{Shape: s, X: columns(s.Columns(), s.N), Y: make([]float64, s.N)}
	for i := range s.N {
		a.set(i, func(int) float64 { return math.Exp(r.NormFloat64()) })
		if labels {
			a.Y[i] = float64(i % 2)
		}
	}
	b = cloned(a)
	i := r.IntN(s.N)
	for j := range b.X {
		b.X[j][i] *= 1e4
	}
	if !labels {
		b.Y[i] *= -1e4
	}
	return a, b
}

// All methods are replayed on tables of 200 rows and more, as the audit of
// replay_test.go does with small hostile ones.
func TestReplaysOfLognormalTables(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		for _, model := range regressions() {
			if !fitsLoss(losses[model], name) {
				continue
			}
			for k, s := range []Shape{{200, 3, false}, {200, 4, true}, {600, 4, true}, {3000, 3, true}} {
				if s.N > 600 && name != catalogue.MethodAuto {
					continue
				}
				m, _ := catalogue.Find(model)
				a := regression(m)
				a.Method, a.Steps = name, 8
				if name == "sample_aggregate" {
					a.Steps, a.Blocks = 0, 9
				}
				plan := func() *Plan {
					p, err := a.Plan(s, generous, privacy.Concentrated{})
					if err != nil {
						t.Fatalf("%s of %s, %+v: %v", model, name, s, err)
					}
					return p
				}
				x, y := lognormalNeighbours(rand.New(rand.NewPCG(4, uint64(k))), s, a.Labels)
				if _, err := replay(t, plan, x, y); err != nil {
					t.Errorf("%s of %s, %+v: %v", model, name, s, err)
				}
			}
		}
	}
}
