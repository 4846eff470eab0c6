package objpert

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech/mechtest"

	"gonum.org/v1/gonum/floats"
)

var background = context.Background()

func testObjective(t *testing.T, seed uint64, p Params, x [][]float64, y []float64) *objective {
	r := newRecords(x, y, p)
	plan := p.newPlan(len(r.x))
	return newObjective(r, p, plan, newRadialNoise(mechtest.Source(t, seed), len(r.x), plan.noise))
}

// distance returns an upper bound of ||w - minimiser||, from a gradient in 512 bits.
func distance(t *testing.T, o *objective, w []*big.Float) float64 {
	g, err := o.farGradient(background, w, 512)
	if err != nil {
		t.Fatal(err)
	}
	return (norm(toFloats(g)) + o.bError) / o.ridge
}

func TestFloatsStayWithinTheStatedError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	p := Params{Epsilon: 1, Clip: 2, Smoothing: .1, Pitch: 0x1p-26, Intercept: true}
	for trial := range 60 {
		x, y := wildTable(rng, 300, 3)
		w := []float64{rng.NormFloat64(), 1e3 * rng.NormFloat64(), rng.NormFloat64(), 1e-9}
		p := p
		if trial%2 == 0 { // targets that leave nothing but rounding of the residual, and little ridge
			p.Epsilon = 1e4
			floats.Scale(1e6, w)
			for i := range y {
				y[i] = w[0] + w[1]*x[0][i] + w[2]*x[1][i] + w[3]*x[2][i]
			}
		}
		p.Tilt, p.Short = []float64{0, .9, -.5}[trial%3], []float64{0, .2}[trial/3%2]
		o := testObjective(t, uint64(trial), p, x, y)
		far, err := o.farGradient(background, exact(w), 512)
		if err != nil {
			t.Fatal(err)
		}
		near := o.at(w, newton).g
		for j := range near {
			near[j] -= toFloats(far)[j]
		}
		if size := norm(near); !(size <= o.nearError(w)) {
			t.Fatalf("trial %d: gradient off by %g, stated %g", trial, size, o.nearError(w))
		}
		fine := o.fineGradient(w)
		for j := range fine {
			fine[j] -= toFloats(far)[j]
		}
		if size := norm(fine); !(size <= o.fineError(w)) {
			t.Fatalf("trial %d: fine gradient off by %g, stated %g", trial, size, o.fineError(w))
		}
	}
}

func TestMinimiserIsCertified(t *testing.T) {
	for _, c := range []struct {
		n, d       int
		eps, pitch float64
		near       bool // float64 is enough
	}{
		{1000, 4, 1, 0x1p-26, true},
		{20_000, 3, .1, 0x1p-26, true},
		{500, 3, 1, 0x1p-50, false},
		{200, 2, 1e4, 0x1p-50, false},
		{20_000, 3, 1, 0x1p-36, true}, // but for the fine gradient, too much for rounding
	} {
		x, y := lognormal(9, c.n, c.d)
		o := testObjective(t, 1, Params{c.eps, 2, .3, c.pitch, true, 0, 0}, x, y)
		w, err := o.minimise(background)
		if err != nil {
			t.Fatal(err)
		}
		if gap := distance(t, o, w); gap > o.gap {
			t.Errorf("n = %d, d = %d: %g from the minimiser, promised %g", c.n, c.d, gap, o.gap)
		}
		if _, near, _ := o.descend(background); near != c.near {
			t.Errorf("n = %d, d = %d, pitch %g: certified in float64: %v", c.n, c.d, c.pitch, near)
		}
	}
}

// Degenerate tables end in a certified minimiser too.
func TestMinimiserIsCertifiedOnWildTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for trial := range 1000 {
		p := Params{Epsilon: 1, Clip: 1.5, Smoothing: .3, Pitch: math.Ldexp(1, -rng.IntN(24)), Intercept: true, Tilt: []float64{0, .98, -.2}[trial%3], Short: []float64{0, .4}[trial/3%2]}
		x, y := wildTable(rng, 1+rng.IntN(40), 2)
		o := testObjective(t, uint64(trial), p, x, y)
		w, err := o.minimise(background)
		if err != nil {
			t.Fatal(err)
		}
		if gap := distance(t, o, w); gap > o.gap {
			t.Fatalf("trial %d: %g from the minimiser, promised %g", trial, gap, o.gap)
		}
	}
}

// Where float64 is of no use from the start, refine alone must arrive, also by
// its slowest steps.
func TestRefineNeedsNoGoodStart(t *testing.T) {
	x, y := lognormal(9, 50, 2)
	o := testObjective(t, 1, Params{1, 2, .3, 0x1p-20, true, 0, 0}, x, y)
	for _, start := range [][]float64{{math.NaN(), 0}, {math.Inf(1), 1}, {1e9, -1e9}, {0, 0}} {
		w, err := o.refine(background, start)
		if err != nil || distance(t, o, w) > o.gap {
			t.Errorf("from %v: %v, %v", start, toFloats(w), err)
		}
	}
	from := []float64{100, -100}
	target, _ := o.refine(background, []float64{0, 0})
	for range 20 {
		g := toFloats(mustGradient(t, o, from))
		next := make([]float64, 2)
		for j, m := range o.contraction(g) {
			next[j] = from[j] - m
		}
		if !(away(next, target) < away(from, target)) {
			t.Fatalf("the gradient step from %v does not contract", from)
		}
		from = next
	}
}

func mustGradient(t *testing.T, o *objective, w []float64) []*big.Float {
	g, err := o.farGradient(background, exact(w), 256)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func away(w []float64, target []*big.Float) float64 {
	diff := toFloats(target)
	for j := range diff {
		diff[j] -= w[j]
	}
	return norm(diff)
}

func TestSolversStopWithTheContext(t *testing.T) {
	x, y := lognormal(9, 500, 2)
	stopped, cancel := context.WithCancel(background)
	cancel()
	o := testObjective(t, 1, Params{1, 2, .3, 0x1p-26, true, 0, 0}, x, y)
	if _, err := o.minimise(stopped); err != context.Canceled {
		t.Errorf("minimise: %v", err)
	}
	if _, err := o.refine(stopped, []float64{0, 0}); err != context.Canceled {
		t.Errorf("refine: %v", err)
	}
}

func TestGridIsExact(t *testing.T) {
	for _, c := range []struct {
		w, pitch float64
		noise    int64
		want     float64
	}{
		{1, .25, 0, 1}, {1.2, .25, 0, 1}, {-1.2, .25, 0, -1}, {-1.2, .25, -3, -1.75}, {.2, .25, 1, .25}, {1e300, 1, 5, 1e300}, {3, 4, 0, 0}, {9, 4, 1, 12},
		{0x1p-60, 0x1p-50, 2, 0x1p-49},
	} {
		if got := onGrid(big.NewFloat(c.w), c.pitch, big.NewInt(c.noise)); got != c.want {
			t.Errorf("onGrid(%v, %v, %d) = %v; want %v", c.w, c.pitch, c.noise, got, c.want)
		}
	}
}
