package mean

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// passes counts how often an estimate reads the rows.
func passes(e Estimator, r Rows, hints Hints, src *mech.Source) (count int) {
	counted := Rows{N: r.N, D: r.D, Range: func(visitor func() func(Block)) {
		count++
		r.Range(visitor)
	}}
	e.Estimate(make([]float64, r.D), counted, hints, src)
	return count
}

// Begin is charged once, so the rows are read for a centre once, whatever the
// caller says afterwards.
func TestKSUFindsItsCentreOnce(t *testing.T) {
	r, src := zeros(50, 2).rows(10, 1), mechtest.Source(t, 1)
	e := at(t, KSU{Radius: 1, Range: 2}, 1, 50, 2)
	for k, want := range []int{2, 1, 1} {
		if got := passes(e, r, Hints{}, src); got != want {
			t.Errorf("estimate %d read the rows %d times, want %d", k, got, want)
		}
	}
	e = at(t, KSU{Radius: 1, Range: 2}, 1, 50, 2)
	for k := range 3 {
		hints := Hints{Centre: make([]float64, 2)}
		if k == 1 {
			hints.Centre = nil
		}
		if got := passes(e, r, hints, src); got != 1 {
			t.Errorf("estimate %d read the rows %d times with a centre at hand", k, got)
		}
	}
}

// A centre that is not a number, or far away, is brought into the bins.
func TestKSUCentreIsTotal(t *testing.T) {
	e := at(t, KSU{Radius: 1, Range: 2, Axis: true}, 1, 50, 3).(*ksuEstimator)
	got := e.clampToBins([]float64{math.NaN(), math.Inf(1), -1e300})
	for j, want := range []float64{0, 3, -3} {
		if got[j] != want {
			t.Errorf("coordinate %d of the centre is %v, want %v", j, got[j], want)
		}
	}
}

// Heavy-tailed gradients around a mean far from zero: both forms come near it,
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
	for _, m := range []KSU{{Radius: 40, Range: 30}, {Radius: 20, Range: 30, Axis: true}} {
		e, dst := at(t, m, 2, n, d), make([]float64, d)
		src := mechtest.Source(t, 1)
		for range 3 {
			e.Estimate(dst, a.rows(2048, 2), Hints{}, src)
		}
		for j, v := range dst { // noise below 0.02, sampling 0.02, bias below 0.1
			if want := 7 * float64(j-1); math.Abs(v-want) > .3 {
				t.Errorf("%+v: coordinate %d is %v, want about %v", m, j, v, want)
			}
		}
	}
}
