package mech

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// The noise of a release, in the units of the mean, has the scale of the replace-one
// l1 sensitivity over epsilon: 2 Bound D/N under LInf, 2 Bound sqrt(D)/N under L2.
func TestLaplaceReleaseAddsTheNoiseOfItsEvent(t *testing.T) {
	const n, d, epsilon = 4, 60_025, 1.5
	for _, c := range []Contract{{L2, 100, n, d}, {LInf, 2, n, d}} {
		scale := 2 * c.Bound / n / epsilon * 245 // the root of d
		if c.Norm == LInf {
			scale *= 245
		}
		got := noiseOf(t, c, Laplace{epsilon}.Release, scale)
		if !fitsLaw(got, distuv.Laplace{Scale: 1}.CDF) {
			t.Errorf("%s: wrong noise", c.Norm)
		}
		for name, mutant := range map[string]float64{"half the noise, or the sensitivity of adding a record": 2, "5% less noise": 1.05} {
			if fitsLaw(got, distuv.Laplace{Scale: mutant}.CDF) {
				t.Errorf("%s: the test has no power against %s", c.Norm, name)
			}
		}
	}
	if e := (Laplace{epsilon}).Event(); e != (privacy.Pure{Epsilon: epsilon}) {
		t.Errorf("event %v", e)
	}
}

// A replaced record moves sums and counts by at most l1, exactly, and by almost as much
// when every coordinate goes from one end to the other: half the bound would fail.
func TestL1SensitivityHolds(t *testing.T) {
	r, most := rand.New(rand.NewPCG(8, 8)), map[string]float64{}
	for range 20_000 {
		n, d := 1+r.IntN(4), 1+r.IntN(4)
		a := awkwardTable(r, n, d, false)
		b := a.neighbour(r)
		if r.IntN(4) == 0 {
			b = a.flipped(r)
		}
		note := func(name string, c sensitivity, p, q []int64) {
			moved := new(big.Int)
			for k, v := range p {
				gap := big.NewInt(v - q[k])
				moved.Add(moved, gap.Abs(gap))
			}
			share, _ := new(big.Rat).SetFrac(moved, c.l1()).Float64()
			if most[name] = max(most[name], share); moved.Cmp(c.l1()) > 0 {
				t.Fatalf("%s: moved by %v, more than %v", name, moved, c.l1())
			}
		}
		for _, norm := range []Norm{L2, LInf} {
			c := Contract{norm, []float64{1, .3, 7e100}[r.IntN(3)], n, d}
			note(string(norm), c, sumOf(c, a), sumOf(c, b))
		}
		bins := Bins{Width: .3, Half: 1 + r.IntN(3)}
		p, q := countsOf(bins, d, a), countsOf(bins, d, b)
		note("counts", p.contract, p.totals, q.totals)
	}
	for name, share := range most {
		if share < 1-1e-8 {
			t.Errorf("%s: the fuzz reaches only %v of the sensitivity; it would miss half of it", name, share)
		}
	}
}

func TestLaplaceChecksItsEpsilon(t *testing.T) {
	if err := (Laplace{1}).Check(); err != nil {
		t.Error(err)
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 0x1p60} {
		if err := (Laplace{v}).Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%v: %v", v, err)
		}
		if !panics(func() { Laplace{v}.Release(make([]float64, 1), NewSum(Contract{L2, 1, 1, 1}).Bounded(), nil) }) {
			t.Errorf("%v: no panic", v)
		}
	}
}
