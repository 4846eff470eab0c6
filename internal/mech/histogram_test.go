package mech

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBinsCoverEverything(t *testing.T) {
	b := Bins{Width: 2, Half: 2}
	for v, want := range map[float64]int{-1e300: 0, math.Inf(-1): 0, -4.5: 0, -2.1: 0, -2: 1, -0.1: 1, 0: 2, 1.9: 2, 2: 3, 5: 3, 1e300: 3, math.Inf(1): 3} {
		counts := make([]int64, 4)
		if b.add(counts, v); counts[want] != 1 {
			t.Errorf("%v falls into %v, want bin %d", v, counts, want)
		}
	}
	h := NewHistogram(b, 3, 2)
	h.AddRows(Rows{X: [][]float64{{1, 3, math.NaN()}}, Intercept: true}, []float64{1, -1, math.NaN()})
	if got, want := h.Bounded().totals, []int64{0, 1, 1, 0, 1, 0, 1, 0}; !slices.Equal(got, shifted(want, NewHistogram(b, 3, 2).shape.bits())) {
		t.Errorf("counts %v, want %v in steps", got, want)
	}
}

func shifted(v []int64, bits uint) []int64 {
	w := slices.Clone(v)
	for k := range w {
		w[k] <<= bits
	}
	return w
}

func countsOf(b Bins, d int, a table) Bounded {
	h := NewHistogram(b, len(a.c), d)
	h.AddRows(a.rows, a.c)
	return h.Bounded()
}

// A replaced record moves counts by at most sqrt(2 D), exactly, and by as much
// when every coordinate changes its bin: half the bound would fail.
func TestHistogramSensitivity(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	attained := false
	for range 20_000 {
		n, d, bins := 1+r.IntN(4), 1+r.IntN(4), Bins{Width: []float64{1, .3, 1e-100, 1e100}[r.IntN(4)], Half: 1 + r.IntN(3)}
		a := awkwardTable(r, n, d, false)
		p, q := countsOf(bins, d, a), countsOf(bins, d, a.neighbour(r))
		square, _ := distance(p.totals, q.totals)
		switch square.Cmp(p.contract.l2Squared()) {
		case 1:
			t.Fatalf("moved by %v, more than %v", square, p.contract.l2Squared())
		case 0:
			attained = true
		}
	}
	if !attained {
		t.Error("no pair attains the bound; the fuzz would miss half of it")
	}
}

func TestHistogramsDoNotDependOnOrderOrParts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const n, d = 1000, 3
	bins := Bins{Width: .5, Half: 4}
	a := awkwardTable(r, n, d, false)
	want := countsOf(bins, d, a).totals
	whole := NewHistogram(bins, n, d)
	for _, i := range r.Perm(n) {
		part := whole.Fork()
		row := Rows{}
		for _, x := range a.rows.X {
			row.X = append(row.X, x[i:i+1])
		}
		part.AddRows(row, a.c[i:i+1])
		whole.Merge(part)
	}
	if got := whole.Bounded().totals; !slices.Equal(got, want) {
		t.Errorf("shuffled and in parts: %v, want %v", got, want)
	}
}

// The noise on a count has standard deviation z sqrt(2 D). The variance of 20,000
// draws is within 8% of the true one but with probability 2 exp(-20000 0.08^2 / 4.2) < 1e-12;
// noise for 1/(2 rho) instead of 1/rho would be off by half.
func TestHistogramNoise(t *testing.T) {
	const z, d = 3.0, 10
	h := NewHistogram(Bins{Width: 1, Half: 1000}, 5, d)
	noisy := make([]float64, 2000*d)
	Gaussian{z}.Release(noisy, h.Bounded(), testSource(t, 1))
	sum := 0.0
	for _, v := range noisy {
		sum += v * v
	}
	if ratio := sum / float64(len(noisy)) / (z * z * 2 * d); math.Abs(ratio-1) > .08 {
		t.Errorf("variance is %v of what the event says", ratio)
	}
}

func TestModesAreTheFullestBins(t *testing.T) {
	got := make([]float64, 2)
	Bins{Width: 2, Half: 2}.Modes(got, []float64{0, 5, 5, 1, -3, -2, -1, math.Inf(1)})
	if !slices.Equal(got, []float64{-1, 3}) {
		t.Errorf("modes %v", got)
	}
}

func TestHistogramRefusals(t *testing.T) {
	good := Bins{Width: 1, Half: 4}
	if err := CheckHistogram(good, 10, 3); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func() error{
		"width":   func() error { return CheckHistogram(Bins{math.NaN(), 4}, 10, 3) },
		"half":    func() error { return CheckHistogram(Bins{1, 0}, 10, 3) },
		"cells":   func() error { return CheckHistogram(Bins{1, 1 << 19}, 10, 3) },
		"records": func() error { return CheckHistogram(good, 0, 3) },
		"length":  func() error { return CheckHistogram(good, 10, 0) },
	} {
		if f() == nil {
			t.Errorf("a bad %s is accepted", name)
		}
	}
	h := NewHistogram(good, 1, 1)
	h.AddRows(Rows{Intercept: true}, []float64{1})
	if !panics(func() { h.AddRows(Rows{Intercept: true}, []float64{1}) }) {
		t.Error("a record too many is counted")
	}
	if !panics(func() { h.Merge(NewHistogram(good, 2, 1)) }) {
		t.Error("different shapes merge")
	}
	another := h.Fork()
	another.AddBins([]int32{0})
	if !panics(func() { h.Merge(another) }) {
		t.Error("a record too many is merged")
	}
	if !panics(func() { h.AddCounted(make([]int64, 8)) }) || !panics(func() { h.Fork().AddCounted(make([]int64, 7)) }) {
		t.Error("counts are added beside others, or to another histogram's")
	}
	const n = 1 << 21 // counts of it are steps of the finest grid, and an int64 does not hold 2 n of them
	most := NewHistogram(good, n, 1)
	most.AddCounted([]int64{1: 2*n - 1, 2: 2 * n, 3: math.MaxInt64, 7: 0})
	totals := most.Bounded().totals
	for k := 1; k <= 3; k++ {
		if totals[k]>>most.shape.bits() != 2*n-1 {
			t.Errorf("counts of %d rows and more are %d steps", 2*n-1, totals[k])
		}
	}
	h.Bounded()
	if h.counts[4] != 0 || h.counts[5] != 0 {
		t.Error("counts are there after they were handed on")
	}
}

// Counts in steps and their sensitivity: one count is 2^bits steps.
func TestHistogramSensitivityInSteps(t *testing.T) {
	s := NewHistogram(Bins{1, 1}, 1<<30, 5).shape
	one := new(big.Int).Lsh(big.NewInt(1), s.bits())
	if ten := new(big.Int).Mul(big.NewInt(10), new(big.Int).Mul(one, one)); s.inUnits(one) != 1 || s.l2Squared().Cmp(ten) != 0 {
		t.Errorf("a count is %v; counts move by the root of %v", s.inUnits(one), s.l2Squared())
	}
}

// Positions count where the same contributions do, and as many.
func TestPositionsAreThoseOfContributions(t *testing.T) {
	bins := Bins{Width: 1, Half: 3}
	contributions, positions := NewHistogram(bins, 6, 1), NewHistogram(bins, 6, 1)
	contributions.AddRows(Rows{Intercept: true}, []float64{-3, -0.5, 0.5, 0.7, 2.5, math.NaN()})
	positions.AddBins([]int32{0, 2, 3, 3, 5, -1})
	if got, want := positions.counts, contributions.counts; !slices.Equal(got, want) || positions.records != contributions.records {
		t.Errorf("counts %v of %d records, want %v of %d", got, positions.records, want, contributions.records)
	}
	for name, f := range map[string]func(){
		"more than N":    func() { positions.AddBins([]int32{0}) },
		"two dimensions": func() { NewHistogram(bins, 6, 2).AddBins([]int32{0}) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
	outside := NewHistogram(bins, 3, 1)
	if outside.AddBins([]int32{6, math.MaxInt32, math.MinInt32}); slices.Max(outside.counts) > 0 {
		t.Errorf("what is no position counts: %v", outside.counts)
	}
}
