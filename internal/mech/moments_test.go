package mech

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

func momentsOf(c MomentContract, t table) []int64 {
	m := NewMoments(c)
	m.AddRows(t.rows, len(t.c))
	return m.totals
}

// momentCost is what the release of one of two sums of products costs, relative to
// 1/(2 z^2), when noise is as given: the sum of squared distances over twice the
// variances, exactly.
func momentCost(a, b []int64, d int, z float64, diagonal, off *noise) *big.Rat {
	cost, k := new(big.Rat), 0
	for i := range d {
		for j := i; j < d; j++ {
			moved := new(big.Rat).SetInt64(a[k] - b[k])
			law := off
			if i == j {
				law = diagonal
			}
			cost.Add(cost, moved.Mul(moved, moved).Mul(moved, law.square))
			k++
		}
	}
	scale := rational(z)
	return cost.Mul(cost, scale.Mul(scale, scale)).Mul(cost, big.NewRat(2, 1))
}

// largestMomentCost returns the largest cost of awkward neighbours, relative to
// what is charged, under the noise of a release with its off-diagonal variance
// divided by some number.
func largestMomentCost(pairs int, divisor int64) *big.Rat {
	r := rand.New(rand.NewPCG(1, uint64(pairs)))
	worst := new(big.Rat)
	const z = 1.25
	for k := range pairs {
		n, d, intercept := 1+r.IntN(3), 1+r.IntN(4), r.IntN(3) == 0
		a := awkwardTable(r, n, d, intercept)
		b := a.neighbour(r)
		if k%10 == 0 { // orthogonal rows of full length
			a.rows.X[0][0], b.rows.X[0][0] = 1e3, 0
			for j := 1; j < d; j++ {
				a.rows.X[j][0], b.rows.X[j][0] = 0, 1e3
			}
			for j := range d {
				copy(b.rows.X[j][1:], a.rows.X[j][1:])
			}
		}
		c := MomentContract{[]float64{1, .3, 1e-100, 7e100}[r.IntN(4)], n, a.rows.dimension()}
		if r.IntN(4) == 0 {
			c.N = 1 << (20 + r.IntN(21))
		}
		diagonal, off := c.noise(Gaussian{z})
		off.square = new(big.Rat).Mul(off.square, big.NewRat(divisor, 1))
		if cost := momentCost(momentsOf(c, a), momentsOf(c, b), c.D, z, diagonal, off); cost.Cmp(worst) > 0 {
			worst = cost
		}
	}
	return worst
}

func TestMomentSensitivityHoldsOnAwkwardNeighbours(t *testing.T) {
	one := big.NewRat(1, 1)
	cost := largestMomentCost(12_000, 1)
	share, _ := cost.Float64()
	if cost.Cmp(one) > 0 {
		t.Errorf("a release costs %v of what is charged", share)
	}
	if share < .9999 {
		t.Errorf("the fuzz reaches only %v of the cost; it would miss a little less noise", share)
	}
	if largestMomentCost(2000, 2).Cmp(one) <= 0 {
		t.Error("the fuzz has no power against a quarter of the variance off the diagonal")
	}
}

// Records of several rows move the sums by no more than single ones: also where one of many
// long rows becomes one of others.
func TestMomentSensitivityHoldsForRecordsOfSeveralRows(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	worst := new(big.Rat)
	const z = 1.25
	for k := range 4000 {
		sizes := []int{1 + r.IntN(7), 1 + r.IntN(3), 1 + r.IntN(7)}
		d := 1 + r.IntN(4)
		a := awkwardTable(r, sizes[0]+sizes[1], d, k%3 == 0)
		b := awkwardTable(r, sizes[1]+sizes[2], d, k%3 == 0)
		for j := range d { // the second record stays
			copy(b.rows.X[j][:sizes[1]], a.rows.X[j][sizes[0]:])
		}
		if k%10 == 0 {
			for i := range sizes[0] {
				for j := range d {
					a.rows.X[j][i] = float64(1 - min(j, 1))
				}
			}
			for i := range sizes[2] {
				for j := range d {
					b.rows.X[j][sizes[1]+i] = float64(min(j, 1))
				}
			}
		}
		c := MomentContract{[]float64{1, .3, 1e-100, 7e100}[r.IntN(4)], 2, a.rows.dimension()}
		m, l := NewMoments(c), NewMoments(c)
		m.AddRecords(a.rows, []int{0, sizes[0], sizes[0] + sizes[1]})
		l.AddRecords(b.rows, []int{0, sizes[1], sizes[1] + sizes[2]})
		diagonal, off := c.noise(Gaussian{z})
		if cost := momentCost(m.totals, l.totals, c.D, z, diagonal, off); cost.Cmp(worst) > 0 {
			worst = cost
		}
	}
	share, _ := worst.Float64()
	if share > 1 || share < .9 {
		t.Errorf("a release costs at most %v of what is charged", share)
	}
}

// Records go through blocks as one would think.
func TestRecordsAcrossBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	a := awkwardTable(r, 3*blockRows, 2, false)
	first := []int{0}
	for first[len(first)-1] < 3*blockRows {
		first = append(first, min(3*blockRows, first[len(first)-1]+1+r.IntN(100)))
	}
	c := MomentContract{1, len(first) - 1, 2}
	whole, parts := NewMoments(c), NewMoments(c)
	whole.AddRecords(a.rows, first)
	for u := range len(first) - 1 {
		low, high := first[u], first[u+1]
		parts.AddRecords(Rows{X: [][]float64{a.rows.X[0][low:high], a.rows.X[1][low:high]}}, []int{0, high - low})
	}
	if !slices.Equal(whole.totals, parts.totals) || whole.records != parts.records {
		t.Errorf("%v, one by one %v", whole.totals, parts.totals)
	}
}

// Every row is held to its length by integers: even when floating point is wrong.
func TestRowsOfMomentsAreNotTooLong(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		c := MomentContract{[]float64{1, 0x1p-400, 0x1p400}[r.IntN(3)], 1, 4}
		m := NewMoments(c)
		m.AddRows(awkwardTable(r, 1, 4, false).rows, 1)
		trace := m.totals[0] + m.totals[4] + m.totals[7] + m.totals[9]
		if trace > 1<<(2*c.bits()) || slices.Min([]int64{m.totals[0], m.totals[4], m.totals[7], m.totals[9]}) < 0 {
			t.Fatalf("length squared %d", trace)
		}
	}
	for n, want := range map[int]uint{1: 20, 1 << 21: 20, 1<<21 + 1: 19, 1 << 40: 10} {
		if got := (MomentContract{N: n}).bits(); got != want {
			t.Errorf("%d rows: %d bits, want %d", n, got, want)
		}
	}
}

// release returns second moments without noise to speak of.
func momentsWithoutNoise(t *testing.T, c MomentContract, rows Rows, n int) []float64 {
	m, dst := NewMoments(c), make([]float64, c.D*c.D)
	m.AddRows(rows, n)
	m.Release(dst, Gaussian{0x1p-10}, testSource(t, 1))
	return dst
}

func TestMomentsAreThoseOfTheClippedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n, bound = 5000, 2
	x := [][]float64{make([]float64, n), make([]float64, n)}
	want := make([]float64, 9)
	for i := range n {
		row := []float64{1, r.NormFloat64(), 3 * r.NormFloat64()}
		x[0][i], x[1][i] = row[1], row[2]
		if i%100 == 0 {
			x[0][i] = []float64{math.NaN(), math.Inf(1), 1e200}[i/100%3]
			continue
		}
		shrink := min(1, bound/math.Sqrt(1+row[1]*row[1]+row[2]*row[2]))
		for a, v := range row {
			for b, w := range row {
				want[3*a+b] += v * w * shrink * shrink / n
			}
		}
	}
	got := momentsWithoutNoise(t, MomentContract{bound, n, 3}, Rows{X: x, Intercept: true}, n)
	for k, v := range got {
		if math.Abs(v-want[k]) > 1e-4 || v != got[k%3*3+k/3] {
			t.Errorf("entry %d: %v, want %v", k, v, want[k])
		}
	}
}

func TestMomentsDoNotDependOnOrderOrParts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const n, d = 1000, 3
	a := awkwardTable(r, n, d, true)
	c := MomentContract{1, n, d + 1}
	want := momentsOf(c, a)
	total := NewMoments(c)
	parts := []*Moments{total.Fork(), total.Fork()}
	for start := n; start > 0; {
		end := start
		start = max(0, end-1-r.IntN(400))
		part := Rows{Intercept: true}
		for _, x := range a.rows.X {
			part.X = append(part.X, x[start:end])
		}
		parts[r.IntN(2)].AddRows(part, end-start)
	}
	for _, m := range parts {
		total.Merge(m)
	}
	if !slices.Equal(total.totals, want) {
		t.Errorf("got %v, want %v", total.totals, want)
	}
}

// On the diagonal the noise is z sqrt2 Bound^2/N, off it 1/sqrt2 of that.
func TestMomentsAddTheNoiseOfTheirEvent(t *testing.T) {
	const n, d, z, bound = 7, 100, 1.5, 3
	var diagonal, off []float64
	src := testSource(t, 5)
	for range 40 {
		m, dst := NewMoments(MomentContract{bound, n, d}), make([]float64, d*d)
		m.Release(dst, Gaussian{z}, src)
		for i := range d {
			diagonal = append(diagonal, dst[i*d+i])
			if len(off) < 60_000 {
				off = append(off, dst[i*d+i+1:(i+1)*d]...)
			}
		}
	}
	sigma := z * math.Sqrt2 * bound * bound / n
	for _, c := range []struct {
		draws []float64
		sigma float64
	}{{diagonal, sigma}, {off, sigma / math.Sqrt2}} {
		if !fitsLaw(c.draws, distuv.Normal{Sigma: c.sigma}.CDF) {
			t.Error("wrong noise")
		}
		for _, mutant := range []float64{.5, math.Sqrt2, 1 / math.Sqrt2} {
			if fitsLaw(c.draws, distuv.Normal{Sigma: c.sigma * mutant}.CDF) {
				t.Errorf("the test has no power against %v times the noise", mutant)
			}
		}
	}
}

func TestMomentsAndBlockSumsDoNotPrint(t *testing.T) {
	rows := Rows{X: [][]float64{{.7}}}
	m, p := NewMoments(MomentContract{1, 1, 1}), NewPartition(1, 1, testSource(t, 1))
	m.AddRows(rows, 1)
	s := NewBlockSum(1, []float64{0}, p)
	s.AddRows(0, rows, []float64{1})
	for _, v := range []any{m, *m, s, *s, p, *p, struct{ m *Moments }{m}, struct{ s BlockSum }{*s}} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, fmt.Sprint(m.totals[0])) || strings.Contains(text, fmt.Sprint(s.sums[0])) || strings.Contains(text, "label") {
				t.Errorf("%s of %T prints the value: %s", verb, v, text)
			}
		}
	}
}

func TestMisuseOfMomentsPanics(t *testing.T) {
	c := MomentContract{1, 2, 2}
	one := []float64{1}
	three := Rows{X: [][]float64{{1, 1, 1}}, Intercept: true}
	full := NewMoments(c)
	full.AddRecords(three, []int{0, 2, 3})
	last := full.Fork()
	last.AddRows(Rows{X: [][]float64{one}, Intercept: true}, 1)
	for name, f := range map[string]func(){
		"a bad contract":     func() { NewMoments(MomentContract{}) },
		"rows too many":      func() { NewMoments(c).AddRows(three, 3) },
		"records too many":   func() { NewMoments(c).AddRecords(three, []int{0, 1, 2, 3}) },
		"a record too many":  func() { full.AddRows(Rows{X: [][]float64{one}, Intercept: true}, 1) },
		"one more, merged":   func() { full.Merge(last) },
		"records of no row":  func() { NewMoments(MomentContract{1, 3, 2}).AddRecords(three, []int{1, 2, 3}) },
		"overlapping ones":   func() { NewMoments(MomentContract{1, 3, 2}).AddRecords(three, []int{0, 2, 1, 3}) },
		"rows of no record":  func() { NewMoments(c).AddRecords(three, []int{0, 2}) },
		"another length":     func() { NewMoments(c).AddRows(Rows{X: [][]float64{one}}, 1) },
		"a short column":     func() { NewMoments(c).AddRows(Rows{X: [][]float64{{}}, Intercept: true}, 1) },
		"another contract":   func() { NewMoments(c).Merge(NewMoments(MomentContract{2, 2, 2})) },
		"a short release":    func() { NewMoments(c).Release(one, Gaussian{1}, testSource(t, 1)) },
		"no noise":           func() { NewMoments(c).Release(make([]float64, 4), Gaussian{}, testSource(t, 1)) },
		"sums of some rows":  func() { full.Fork().AddSummed(make([]int64, 2)) },
		"sums of all beside": func() { last.AddSummed(make([]int64, 3)) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
	for _, c := range []MomentContract{{0, 1, 1}, {math.NaN(), 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1<<12 + 1}} {
		if err := c.Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A release takes the sums away, so that another one, for which nobody was charged, is of nothing.
func TestMomentsAreReleasedOnce(t *testing.T) {
	m := NewMoments(MomentContract{1, 2, 1})
	m.AddRows(Rows{X: [][]float64{{1, 1}}}, 2)
	m.Release(make([]float64, 1), Gaussian{1}, testSource(t, 1))
	if m.totals[0] != 0 || m.records != 0 {
		t.Errorf("%d of %d rows are left", m.totals[0], m.records)
	}
}

// BenchmarkMoments reports nanoseconds per record and product on one core, and
// the ratio to a pass that only sums the columns in float64.
func BenchmarkMoments(b *testing.B) {
	const n, d = 1 << 17, 10
	r := rand.New(rand.NewPCG(5, 5))
	rows := Rows{}
	for range d {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		rows.X = append(rows.X, x)
	}
	m := NewMoments(MomentContract{5, n, d})
	own, plain := time.Hour, time.Hour
	for b.Loop() {
		start := time.Now()
		m.AddRows(rows, n)
		m.clear()
		middle := time.Now()
		plainPass(rows)
		own, plain = min(own, middle.Sub(start)), min(plain, time.Since(middle))
	}
	b.ReportMetric(float64(own.Nanoseconds())/n/(d*(d+1)/2), "ns/product")
	b.ReportMetric(float64(own)/float64(plain), "x-plain-sum")
}

// plainMoments are the products of rows that are clipped one by one, as moments.md writes it
// down, of records of some rows each.
func plainMoments(c MomentContract, r Rows, first []int) []int64 {
	totals, row := make([]int64, c.D*(c.D+1)/2), make([]float64, c.D)
	limit := math.Ldexp(1, int(c.bits()))
	for u := range len(first) - 1 {
		fellows := float64(first[u+1] - first[u])
		for i := first[u]; i < first[u+1]; i++ {
			r.scaled(row, i, 1)
			square, length := 0.0, 0.0
			for _, v := range row {
				square += float64(v * v)
			}
			factor := limit * provedLimit / max(c.Bound, math.Sqrt(square)) / math.Sqrt(fellows)
			for j, v := range row {
				row[j] = float64(clampedSteps(v*factor, limit))
				length += float64(row[j] * row[j])
			}
			if length*fellows > limit*limit || !(square <= math.MaxFloat64) {
				continue
			}
			k := 0
			for a, v := range row {
				for _, w := range row[a:] {
					totals[k] += int64(v) * int64(w)
					k++
				}
			}
		}
	}
	return totals
}

// Blocks of columns give the integers that single rows do, whatever the number of columns, also of
// rows at their bound and of numbers that break floating point.
func TestMomentsAreThoseOfSingleRows(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	for d := 1; d <= 25; d++ {
		for _, intercept := range []bool{false, true} {
			n := []int{1, 7, 255, 256, 300}[d%5]
			stored := d
			if intercept {
				stored--
			}
			rows := awkwardTable(r, n, stored, intercept).rows
			for i := range n {
				if i%8 == 0 {
					continue // awkward ones
				}
				size := []float64{1e-3, 1, 1, 1, 1 + 0x1p-52, 1e3}[r.IntN(6)] / math.Sqrt(float64(d)) // up to the bound, and at it
				for _, x := range rows.X {
					if x[i] = size * r.NormFloat64(); i%8 < 4 {
						x[i] = math.Copysign(size, x[i])
					}
				}
			}
			first := []int{0}
			for last := 0; last < n; {
				last = min(n, last+1+r.IntN(3))
				first = append(first, last)
			}
			each := make([]int, n+1)
			for i := range each {
				each[i] = i
			}
			for _, bound := range []float64{1, math.Sqrt(2), 0x1p-400} {
				c := MomentContract{bound, n, d}
				alone, together := NewMoments(c), NewMoments(c)
				alone.AddRows(rows, n)
				together.AddRecords(rows, first)
				if want := plainMoments(c, rows, each); !slices.Equal(alone.totals, want) {
					t.Errorf("%d columns, intercept %v, bound %v: %v, want %v", d, intercept, bound, alone.totals, want)
				}
				if want := plainMoments(c, rows, first); !slices.Equal(together.totals, want) {
					t.Errorf("%d columns, intercept %v, bound %v, records: %v, want %v", d, intercept, bound, together.totals, want)
				}
			}
		}
	}
}
