package dpsco

import (
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// batchWitness is a mean that notes the rows of every batch, which the first
// column numbers. It answers 0.
type batchWitness struct{ batches *[]map[int]bool }

func (m batchWitness) At(float64, int, int) (mean.Estimator, error) { return m, nil }
func (m batchWitness) Begin() privacy.Event                         { return nil }
func (m batchWitness) Event() privacy.Event                         { return privacy.Gaussian{NoiseMultiplier: 1} }

func (m batchWitness) Estimate(dst []float64, r mean.Rows, _ mean.Hints, _ *mech.Source) {
	clear(dst)
	rows := map[int]bool{}
	r.Range(func() func(mean.Block) {
		return func(b mean.Block) { // fewer rows than are visited side by side
			for _, v := range b.X.X[0] {
				rows[int(v)] = true
			}
		}
	})
	*m.batches = append(*m.batches, rows)
}

// Amplification by sampling is priced for batches that are drawn independently.
// Two batches of 100 out of 1000 rows have 10 in common on average; 40 or more
// have probability below 3e-14 (Chernoff for a hypergeometric count), so that any
// of the 1000 pairs here has it with less than 1e-10. A batch that serves twice
// has 100.
func TestEveryCallSamplesAfresh(t *testing.T) {
	const n, m = 1000, 100
	x := table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range n {
		x.X[0][i] = float64(i)
	}
	for name, leverage := range map[string]float64{"rows of equal weight": 0, "weighted rows": 1} {
		var batches []map[int]bool
		d := Descent{Loss: loss.Squared{}, Psi: prox.Zero{}, Mean: batchWitness{&batches}, Solver: solve.GD{Steps: 30, Batch: m, Rate: 1}, Leverage: leverage}
		g, err := d.at(x.Shape, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)); err != nil {
			t.Fatal(err)
		}
		if len(batches) != 30 {
			t.Errorf("%s: %d batches", name, len(batches))
		}
		for k, rows := range batches {
			if len(rows) != m {
				t.Errorf("%s: batch %d has %d rows", name, k, len(rows))
			}
			for l, earlier := range batches[:k] {
				if shared := inBoth(rows, earlier); shared >= 40 {
					t.Errorf("%s: batches %d and %d have %d rows in common", name, l, k, shared)
				}
			}
		}
	}
}

func inBoth(a, b map[int]bool) (count int) {
	for row := range a {
		if b[row] {
			count++
		}
	}
	return count
}
