package dpsco

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// blockWitness is a loss that notes what it is asked: for every block of rows,
// known by its targets, the predictions that its fit went through.
type blockWitness struct {
	loss.Squared
	mu     sync.Mutex
	blocks map[string]*fitOfBlock
}

type fitOfBlock struct {
	targets []float64
	path    [][]float64
}

// Derivs implements loss.Batch.
func (w *blockWitness) Derivs(dst, z, y []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(slices.Sorted(slices.Values(y)))
	if w.blocks[key] == nil {
		w.blocks[key] = &fitOfBlock{targets: slices.Clone(y)}
	}
	w.blocks[key].path = append(w.blocks[key].path, slices.Clone(z))
	for i := range dst {
		dst[i] = w.Deriv(z[i], y[i])
	}
}

const witnessBlocks = 7

// witness runs sample and aggregate on x, whose targets must all differ.
func witness(t *testing.T, x table.Data, seed uint64) (map[string]*fitOfBlock, *mechtest.Tape) {
	w := &blockWitness{blocks: map[string]*fitOfBlock{}}
	a := Regression{Loss: w, Method: "sample_aggregate", Aggregator: catalogue.AggregatorCentre, Blocks: witnessBlocks, Radius: 1e3}
	p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 20, Delta: 1e-2}, privacy.Concentrated{})
	src, tape := mechtest.NewTape(t, seed, nil)
	if _, err := coefficients(p.Run(t.Context(), plantest.Clone(x), src)); err != nil {
		t.Fatal(err)
	}
	return w.blocks, tape
}

// numbered is a table whose targets are the positions of its rows.
func numbered(n int) table.Data {
	r := rand.New(rand.NewPCG(3, 3))
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.Y[i] = r.NormFloat64(), float64(i)
	}
	return x
}

// Two rows share one of 7 blocks of 9 with probability 8/62, wherever they stand.
// Of 400 runs that is 52 on average; for any of the 1953 pairs to be below 8 or
// above 110 has probability 1e-9 (Chernoff). Blocks by position, whether runs of
// rows or every seventh, have pairs in 0 and in 400.
func TestBlocksOfSampleAndAggregateAreDrawn(t *testing.T) {
	const n, runs = 9 * witnessBlocks, 400
	x := numbered(n)
	together := [n][n]int{}
	for seed := range runs {
		blocks, _ := witness(t, x, uint64(seed))
		if len(blocks) != witnessBlocks {
			t.Fatalf("%d blocks", len(blocks))
		}
		for _, b := range blocks {
			if len(b.targets) != n/witnessBlocks {
				t.Fatalf("a block of %d rows", len(b.targets))
			}
			for _, i := range b.targets {
				for _, j := range b.targets {
					together[int(i)][int(j)]++
				}
			}
		}
	}
	for i := range n {
		for j := range i {
			if k := together[i][j]; k < 8 || k > 110 {
				t.Errorf("rows %d and %d share a block in %d of %d runs", j, i, k, runs)
			}
		}
	}
}

// A replaced row changes the fit of its own block and no other: neither on the
// way, where no prediction of another block changes a bit, nor among the points
// that the centre is found from.
func TestANeighbourChangesOneBlocksFit(t *testing.T) {
	x := numbered(65) // blocks of 9 and 10
	for row := range x.N {
		neighbour := plantest.Clone(x)
		neighbour.X[0][row] += 1
		blocks, tape := witness(t, x, uint64(row))
		others, otherTape := witness(t, neighbour, uint64(row))
		for key, b := range blocks {
			other := others[key]
			if other == nil {
				t.Fatalf("row %d: the blocks depend on values", row)
			}
			same := slices.EqualFunc(b.path, other.path, slices.Equal)
			if holds := slices.Contains(b.targets, float64(row)); same == holds {
				t.Errorf("row %d: the fit of %v is the same: %t", row, b.targets, same)
			}
		}
		if len(tape.Releases) != 1 {
			t.Fatalf("%d releases", len(tape.Releases))
		}
		if moved := tape.Releases[0].PointsMoved(otherTape.Releases[0]); moved != 1 {
			t.Errorf("row %d moves %d fits", row, moved)
		}
	}
}

// countedL1 counts its proximal points.
type countedL1 struct {
	prox.L1
	calls *int
}

func (p countedL1) Prox(w []float64, t float64) {
	*p.calls++
	p.L1.Prox(w, t)
}

// One row far from all others makes the proximal points of its block no more than what
// the plan leaves time for.
func TestOneRowCannotHoldUpTheFitOfItsBlock(t *testing.T) {
	for _, far := range []float64{0, 1e2, 1e4, 1e6, 1e8, 1e20, 1e90, math.Inf(1)} {
		r := rand.New(rand.NewPCG(1, 2))
		x := table.Data{Shape: table.Shape{N: 80, D: 4, Intercept: true}, X: table.NewColumns(3, 80), Y: make([]float64, 80)}
		for i := range x.N {
			plantest.SetRow(x, i, func(int) float64 { return r.NormFloat64() })
		}
		plantest.SetRow(x, 0, func(int) float64 { return far * r.NormFloat64() })
		calls := 0
		exact(loss.Squared{}, prox.ExceptFirst{Operator: countedL1{prox.L1{Lambda: 0.05}, &calls}}, x)
		if calls == 0 || calls > exactSteps*exactProxSteps {
			t.Errorf("a row at %g: %d proximal points; the plan leaves time for %d", far, calls, exactSteps*exactProxSteps)
		}
	}
}
