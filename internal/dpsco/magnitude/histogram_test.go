package magnitude

import (
	"maps"
	"math"
	"slices"
	"testing"

	"dpsidecar/internal/mech"
)

// A limit at the middle of a bin leaves half of its rows beyond: none of them by the middle alone, and what rows
// spread evenly by their logarithms have there with spread bins. Second moments are nearly the same with both.
func TestSpreadBinsHaveRowsBeyondTheirMiddle(t *testing.T) {
	noisy := make([]float64, Bins)
	const bin, rows = 20, 10_000.
	noisy[bin] = rows
	m := Read(noisy, 1, 2, math.Inf(1), rows).Apart()
	middle := m.quantity[bin]
	if m.Excess(middle) != 0 {
		t.Errorf("by the middle alone %g of the rows is beyond it", m.Excess(middle))
	}
	spread := m.WithSpreadBins()
	// The mean of (v - 1)+ for log2 v even in (-1/4, 1/4): (2^(1/4) - 1 - ln 2 / 4) / (ln 2 / 2).
	even := middle * (math.Exp2(0.25) - 1 - math.Ln2/4) / (math.Ln2 / 2)
	if got := spread.Excess(middle); math.Abs(got/even-1) > 0.1 {
		t.Errorf("beyond the middle: %g, want %g", got, even)
	}
	if got := spread.Below(middle); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("%g of the rows lie below the middle", got)
	}
	if ratio := spread.ExcessSquare(0) / m.ExcessSquare(0); math.Abs(ratio-1) > 0.03 {
		t.Errorf("second moments differ by a factor of %g", ratio)
	}
	if m.spread || spread.Edge() != m.Edge() || spread.StandsOut() != m.StandsOut() {
		t.Error("spreading bins changes more than means")
	}
}

// At a large eps a bin whose noise stands out holds no row all the same.
func TestABinOfLessThanHalfARowIsNoRow(t *testing.T) {
	for count, seen := range map[float64]bool{0.1: false, 0.9: true} {
		noisy := make([]float64, Bins)
		noisy[20], noisy[21], noisy[40] = 5000, 5000, count
		for name, m := range map[string]*Histogram{"apart": Read(slices.Clone(noisy), 0.01, 1, math.Inf(1), 10_000).Apart(), "run": Read(slices.Clone(noisy), 0.01, 1, math.Inf(1), 10_000).AsRun()} {
			if (m.top == 40) != seen {
				t.Errorf("%s: a count of %v: the highest visible bin is %d", name, count, m.top)
			}
		}
	}
}

// Rows that stand apart above the visible bins count although no bin of theirs is visible: all of them, in one bin or two. Those
// that noise may have made do not, nor do those below the cut.
func TestAGroupOfRowsFarAway(t *testing.T) {
	const rows, sd, top = 10_000., 10., 20
	size := Read(make([]float64, Bins), sd, 1, math.Inf(1), rows).quantity
	for _, c := range []struct {
		bins  map[int]float64
		cut   float64
		least float64
	}{
		{map[int]float64{26: 40}, 2, 40 / rows * (size[26] - 2)},
		{map[int]float64{25: 20, 26: 25}, 2, 45 / rows * (size[26] - 2)},
		{map[int]float64{26: 40}, 2 * size[26], 0},
		{map[int]float64{26: 25}, 2, 0},
		{map[int]float64{}, 2, 0},
	} {
		noisy := make([]float64, Bins)
		noisy[top] = rows
		for k, v := range c.bins {
			noisy[k] = v
		}
		m := Read(noisy, sd, 1, math.Inf(1), rows).AsRun()
		got := m.FarGroup(c.cut, TailAssumption{Deviations: 0.75, Steepest: 2.5})
		if m.top != top || got < c.least || got > 1.6*c.least {
			t.Errorf("%v beyond %v: %v, want %v or somewhat more; the highest visible bin is %d", c.bins, c.cut, got, c.least, m.top)
		}
	}
}

// Noise passes for residuals the more rarely the farther away they would lie: cuts go there, and a fit is lost by
// it. Many rows, or ones that are near, are seen.
func TestFarResidualsMustStandOut(t *testing.T) {
	for _, c := range []struct {
		bin   int
		count float64 // in deviations of the noise
		seen  bool
	}{{23, 4.8, true}, {26, 4.8, false}, {26, 5.5, true}, {45, 6, false}, {45, 8, true}} {
		noisy := make([]float64, Bins)
		for k := 10; k <= 20; k++ {
			noisy[k] = 1000
		}
		noisy[c.bin] = c.count
		if seen := Read(noisy, 1, 1, math.Inf(1), 12_000).AsRun(); (seen.top == c.bin) != c.seen {
			t.Errorf("bin %d, %v deviations: the highest that is seen is %d", c.bin, c.count, seen.top)
		}
	}
}

// What is seen ends before a gap beyond which lies a group of rows, but not before one that a tail has.
func TestBulkOfMagnitudes(t *testing.T) {
	tail := TailAssumption{Deviations: 0.75, Steepest: 2.5}
	read := func(counts map[int]float64) *Histogram { return magnitudesOf(counts, 20, 10_000) }
	near := map[int]float64{0: 4000, 1: 5000, 2: 600}
	with := func(far map[int]float64) map[int]float64 {
		all := maps.Clone(near)
		maps.Copy(all, far)
		return all
	}
	if m := read(with(map[int]float64{5: 40, 6: 300})); m.Bulk() == m || m.Bulk().Edge() != read(near).Edge() || m.Bulk().Index(tail) < 1.3*m.Index(tail) {
		t.Errorf("up to %v, with an index of %v and %v", m.Bulk().Edge(), m.Bulk().Index(tail), m.Index(tail))
	}
	for name, far := range map[string]map[int]float64{"a tail": {3: 150, 4: 90}, "a gap that noise makes": {3: 60, 4: 90}, "most rows": {6: 20_000}} {
		if m := read(with(far)); m.Bulk() != m {
			t.Errorf("%s: up to %v of %v", name, m.Bulk().Edge(), m.Edge())
		}
	}
}

// magnitudesOf reads a histogram of counts of some half octaves, whose noise has a standard deviation.
func magnitudesOf(counts map[int]float64, sd, rows float64) *Histogram {
	noisy := make([]float64, Bins)
	for k, v := range counts {
		noisy[k-LowestOctave] = v
	}
	return Read(noisy, sd, 1, math.Inf(1), rows).Apart()
}

// Rows that a histogram may hide are as far away as the farthest that another one shows, no more of them from any size on than the
// counts there say, and none that are not there.
func TestHiddenRowsAreAsFarAwayAsTheFarthest(t *testing.T) {
	counts := func(at map[int]float64) *Histogram { return magnitudesOf(at, 1, 1000) }
	scores := counts(map[int]float64{1: 997, 10: 3}) // all that is seen is about 1; three rows at 27, say
	lengths := counts(map[int]float64{1: 700, 4: 200, 10: 100})
	near, far := Middles[4-LowestOctave], Middles[10-LowestOctave]
	for _, c := range []struct{ deviations, want float64 }{
		{0, 3 * (far - 1)},
		{1, (3+math.Sqrt2)*(far-1) + (math.Sqrt(8)-math.Sqrt2)*(near-1)}, // two bins of counts, and eight
		{80, 100*(far-1) + (80*math.Sqrt(8)+3-100)*(near-1)},
		{1000, 100*(far-1) + 200*(near-1)},
	} {
		got := 1000 * (scores.TailAlong(lengths, 1, 1, TailAssumption{Deviations: c.deviations, Steepest: 8}) - scores.Excess(1))
		if math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%v deviations: %v, want %v", c.deviations, got, c.want)
		}
	}
	if got := scores.TailAlong(counts(map[int]float64{1: 1000}), 1, 1, TailAssumption{Deviations: 0, Steepest: 8}); got != 0 {
		t.Errorf("%v where no row is beyond what is seen", got)
	}
}

// What rows are shortened by is read where at least half of them are; long rows among short ones, and noise, are not taken
// for it.
func TestLengthsSayHowFarMostRowsAreShortened(t *testing.T) {
	const rows, bound = 1e5, 3
	noise := mech.Gaussian{NoiseMultiplier: 10}
	counts := func(shares map[float64]float64) []float64 {
		noisy := make([]float64, Bins)
		for length, share := range shares {
			k := 0
			for k < len(Edges) && length >= Edges[k] {
				k++
			}
			noisy[k] += share * rows
		}
		return noisy
	}
	for _, c := range []struct {
		shares         map[float64]float64
		tooLong, times float64
	}{
		{map[float64]float64{2: 1}, 10, 1}, {map[float64]float64{2: .6, 5000: .4}, 10, 1}, {map[float64]float64{2: .4, 3000: .6}, 30, 1000},
		{map[float64]float64{60: 1}, 30, 1}, {map[float64]float64{60: 1}, 10, 20}, {map[float64]float64{20: 1}, 10, 1}, {map[float64]float64{3000: .45}, 10, 1}, {nil, 10, 1},
	} {
		if _, times := ReadLengths(counts(c.shares), noise, 4, bound, c.tooLong, rows); times < c.times/1.3 || times > c.times*1.3 {
			t.Errorf("%v: %v times, want %v", c.shares, times, c.times)
		}
	}
}
