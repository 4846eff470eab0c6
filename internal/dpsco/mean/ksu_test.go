package mean

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// passes counts how often an estimate reads the rows.
func passes(e Estimator, r Rows, near Near, src *mech.Source) (count int) {
	counted := Rows{N: r.N, D: r.D, Range: func(visitor func() func(Block)) {
		count++
		r.Range(visitor)
	}}
	e.Estimate(make([]float64, r.D), counted, near, src)
	return count
}

// Begin is charged once, so the rows are read for a centre once, whatever the
// caller says afterwards.
func TestKSUFindsItsCentreOnce(t *testing.T) {
	r, src := zeros(50, 2).rows(10, 1), mechtest.Source(t, 1)
	e := at(t, KSU{Radius: 1, Range: 2}, 1, 50, 2)
	for k, want := range []int{2, 1, 1} {
		if got := passes(e, r, Near{}, src); got != want {
			t.Errorf("estimate %d read the rows %d times, want %d", k, got, want)
		}
	}
	e = at(t, KSU{Radius: 1, Range: 2}, 1, 50, 2)
	for k := range 3 {
		near := Near{Centre: make([]float64, 2)}
		if k == 1 {
			near.Centre = nil
		}
		if got := passes(e, r, near, src); got != 1 {
			t.Errorf("estimate %d read the rows %d times with a centre at hand", k, got)
		}
	}
}

// A centre that is not a number, or far away, is brought into the bins.
func TestKSUCentreIsTotal(t *testing.T) {
	e := at(t, KSU{Radius: 1, Range: 2, Axis: true}, 1, 50, 3).(*joint)
	got := e.within([]float64{math.NaN(), math.Inf(1), -1e300})
	for j, want := range []float64{0, 3, -3} {
		if got[j] != want {
			t.Errorf("coordinate %d of the centre is %v, want %v", j, got[j], want)
		}
	}
}

// Heavy-tailed gradients around a mean far from zero: all forms come near it,
// where the plain mean is off by more, because of one record.
func TestKSUFindsAFarMean(t *testing.T) {
	const n, d = 20_000, 3
	r := rand.New(rand.NewPCG(3, 3))
	a := zeros(n, d)
	for i := range a.c {
		a.c[i] = 1
		for j, x := range a.x {
			x[i] = 7*float64(j-1) + math.Pow(r.Float64(), -1./3)*float64(1-2*r.IntN(2))
		}
	}
	a.x[0][17] = 1e300
	for _, m := range []KSU{{Radius: 40, Range: 30}, {Radius: 40, Range: 30, Split: true}, {Radius: 20, Range: 30, Axis: true}, {Radius: 20, Range: 30, Axis: true, Split: true}} {
		e, dst := at(t, m, 2, n, d), make([]float64, d)
		src := mechtest.Source(t, 1)
		for range 3 {
			e.Estimate(dst, a.rows(2048, 2), Near{}, src)
		}
		for j, v := range dst { // noise below 0.02, sampling 0.02, bias below 0.1
			if want := 7 * float64(j-1); math.Abs(v-want) > .3 {
				t.Errorf("%+v: coordinate %d is %v, want about %v", m, j, v, want)
			}
		}
	}
}

// The halves are all rows, each once, with the larger one for the centre.
func TestHalvesAreAPartition(t *testing.T) {
	const n = 501
	a := zeros(n, 1)
	for i := range n {
		a.c[i], a.x[0][i] = 1, float64(i)
	}
	first, second := at(t, KSU{Radius: 1, Range: 1, Split: true}, 1, n, 1).(*split).halves(a.rows(64, 1), mechtest.Source(t, 1))
	if first.N != 251 || second.N != 250 {
		t.Errorf("halves of %d and %d rows", first.N, second.N)
	}
	seen := make([]int, n)
	for _, half := range []Rows{first, second} {
		count := 0
		half.Range(func() func(Block) {
			return func(b Block) {
				count += len(b.C)
				for _, v := range b.X.X[0] {
					seen[int(v)]++
				}
			}
		})
		if count != half.N {
			t.Errorf("%d rows in a half of %d", count, half.N)
		}
	}
	for i, count := range seen {
		if count != 1 {
			t.Fatalf("row %d is in %d halves", i, count)
		}
	}
}
