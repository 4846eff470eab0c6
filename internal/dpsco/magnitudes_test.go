package dpsco

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// A limit at the middle of a bin leaves half of its rows beyond: none of them by the middle alone, and what rows
// spread evenly by their logarithms have there with spread bins. Second moments are nearly the same with both.
func TestSpreadBinsHaveRowsBeyondTheirMiddle(t *testing.T) {
	noisy := make([]float64, magnitudeBins)
	const bin, rows = 20, 10_000.
	noisy[bin] = rows
	m := readMagnitudes(noisy, 1, 2, math.Inf(1), rows).apart()
	middle := m.quantity[bin]
	if m.excess(middle) != 0 {
		t.Errorf("by the middle alone %g of the rows is beyond it", m.excess(middle))
	}
	spread := m.withSpreadBins()
	// The mean of (v - 1)+ for log2 v even in (-1/4, 1/4): (2^(1/4) - 1 - ln 2 / 4) / (ln 2 / 2).
	even := middle * (math.Exp2(0.25) - 1 - math.Ln2/4) / (math.Ln2 / 2)
	if got := spread.excess(middle); math.Abs(got/even-1) > 0.1 {
		t.Errorf("beyond the middle: %g, want %g", got, even)
	}
	if got := spread.below(middle); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("%g of the rows lie below the middle", got)
	}
	if ratio := spread.excessSquare(0) / m.excessSquare(0); math.Abs(ratio-1) > 0.03 {
		t.Errorf("second moments differ by a factor of %g", ratio)
	}
	if m.spread || spread.edge() != m.edge() || spread.standsOut() != m.standsOut() {
		t.Error("spreading bins changes more than means")
	}
}

// Limits are chosen by the middles of bins, and intervals read spread bins.
func TestIntervalsReadSpreadBins(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := Data{Shape: Shape{N: 4000, D: 2, Intercept: true}, X: [][]float64{make([]float64, 4000)}, Y: make([]float64, 4000)}
	for i := range x.Y {
		x.X[0][i] = r.NormFloat64()
		x.Y[i] = x.X[0][i] + r.NormFloat64()
	}
	releases, err := Newton{Curve: huberCurve{delta: 1, cut: 4}, Bound: 2, Intervals: true}.releases(x.Shape, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	a, src := newNewtonParts(releases, x), mechtest.Source(t, 1)
	f := a.fits[0]
	f.first(x, src)
	for step := range newtonSteps {
		if f.scores == nil || f.scores.spread || f.lengths.spread {
			t.Errorf("step %d: a limit is chosen by spread bins, or by none", step)
		}
		a.step(step, src)
	}
	if !f.scores.spread || !f.lengths.spread {
		t.Error("intervals read the middles of bins")
	}
}

// At a large eps a bin whose noise stands out holds no row all the same.
func TestABinOfLessThanHalfARowIsNoRow(t *testing.T) {
	for count, seen := range map[float64]bool{0.1: false, 0.9: true} {
		noisy := make([]float64, magnitudeBins)
		noisy[20], noisy[21], noisy[40] = 5000, 5000, count
		for name, m := range map[string]*magnitudes{"apart": readMagnitudes(slices.Clone(noisy), 0.01, 1, math.Inf(1), 10_000).apart(), "run": readMagnitudes(slices.Clone(noisy), 0.01, 1, math.Inf(1), 10_000).run()} {
			if (m.top == 40) != seen {
				t.Errorf("%s: a count of %v: the highest visible bin is %d", name, count, m.top)
			}
		}
	}
}
