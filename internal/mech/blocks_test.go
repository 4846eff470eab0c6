package mech

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func mediansOf(c []float64, r Rows, bound float64, centre []float64, p *Partition) []int64 {
	s := NewBlockSum(bound, centre, p)
	s.AddRows(0, r, c)
	return s.Median().totals
}

// largestMedianShare returns the largest movement of a coordinate, over the stated
// 2B, among neighbours, and whether the stated l2 sensitivity held throughout.
func largestMedianShare(t *testing.T, pairs int) (share float64, holds bool) {
	r := rand.New(rand.NewPCG(1, uint64(pairs)))
	holds = true
	for range pairs {
		n, d, intercept := 1+r.IntN(12), 1+r.IntN(3), r.IntN(3) == 0
		blocks := 1 + 2*r.IntN((n+1)/2) // n mod blocks != 0 more often than not
		a := awkwardTable(r, n, d, intercept)
		b := a.neighbour(r)
		if r.IntN(3) == 0 { // from end to end
			b = a.flipped(r)
		}
		centre := make([]float64, a.rows.dimension())
		for j := range centre {
			centre[j] = []float64{0, 0, .1, -1e9, math.NaN()}[r.IntN(5)]
		}
		bound := []float64{1, .3, 1e-100}[r.IntN(3)]
		p := NewPartition(n, blocks, testSource(t, r.Uint64()))
		x, y := mediansOf(a.c, a.rows, bound, centre, p), mediansOf(b.c, b.rows, bound, centre, p)
		contract := Contract{LInf, bound, n / blocks, len(centre)}
		square, largest := distance(x, y)
		most := new(big.Int).Lsh(big.NewInt(1), contract.bits()+1) // of one coordinate
		holds = holds && largest.Cmp(most) <= 0 && square.Cmp(contract.l2Squared()) <= 0
		moved, _ := new(big.Rat).SetFrac(largest, most).Float64()
		share = max(share, moved)
	}
	return share, holds
}

func TestMedianSensitivityHoldsOnAwkwardNeighbours(t *testing.T) {
	share, holds := largestMedianShare(t, 50_000)
	if !holds {
		t.Errorf("moved by %v of the sensitivity", share)
	}
	if share != 1 {
		t.Errorf("the fuzz reaches only %v of the sensitivity; it would miss half of it", share)
	}
}

func TestPartitionsAreRandomAndEven(t *testing.T) {
	src := testSource(t, 3)
	counts := make([]int, 4)
	for range 20_000 {
		p := NewPartition(11, 3, src)
		sizes := make([]int, 4)
		for _, l := range p.label {
			sizes[l]++
		}
		if !slices.Equal(sizes, []int{3, 3, 3, 2}) {
			t.Fatalf("sizes %v", sizes)
		}
		counts[p.label[0]]++
	}
	if !fits(counts, []float64{3. / 11, 3. / 11, 3. / 11, 2. / 11}) {
		t.Errorf("position 0 by block: %v", counts)
	}
}

func TestBlockSumsDoNotDependOnOrderOrParts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const n, d = 1000, 4
	a := awkwardTable(r, n, d, true)
	p, centre := NewPartition(n, 31, testSource(t, 4)), []float64{0, .5, -2, 1e9, math.NaN()}
	want := mediansOf(a.c, a.rows, 1, centre, p)
	total := NewBlockSum(1, centre, p)
	parts := []*BlockSum{total.Fork(), total.Fork()}
	for start := n; start > 0; {
		end := start
		start = max(0, end-1-r.IntN(90))
		part := Rows{Intercept: true}
		for _, x := range a.rows.X {
			part.X = append(part.X, x[start:end])
		}
		parts[r.IntN(2)].AddRows(start, part, a.c[start:end])
	}
	for _, s := range parts {
		total.Merge(s)
	}
	if got := total.Median().totals; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The median block's mean, from the centre, in the units of the contributions.
func TestMedianOfBlocks(t *testing.T) {
	p := NewPartition(10, 3, testSource(t, 5))
	x := make([]float64, 10)
	for i, l := range p.label {
		x[i] = []float64{-1, 2, 1e300, 1e300}[l]
	}
	x[0] = math.NaN() // counts as the centre
	s := NewBlockSum(8, []float64{1}, p)
	s.AddRows(0, Rows{X: [][]float64{x}}, slices.Repeat([]float64{1}, 10))
	want := 1.
	if p.label[0] == 1 {
		want = 2. / 3
	}
	b := s.Median()
	if got := b.contract.inUnits(big.NewInt(b.totals[0])); math.Abs(got-want) > 1e-9 {
		t.Errorf("median %v from the centre, want %v", got, want)
	}
}

func TestMisuseOfBlocksPanics(t *testing.T) {
	src := testSource(t, 6)
	p := NewPartition(3, 3, src)
	one := []float64{1}
	for name, f := range map[string]func(){
		"an even number":     func() { NewPartition(8, 2, src) },
		"more blocks than n": func() { NewPartition(2, 3, src) },
		"a bad bound":        func() { NewBlockSum(0, one, p) },
		"another length":     func() { NewBlockSum(1, one, p).AddRows(0, Rows{}, one) },
		"a short column":     func() { NewBlockSum(1, one, p).AddRows(0, Rows{X: [][]float64{{}}}, one) },
		"a position too far": func() { NewBlockSum(1, one, p).AddRows(3, Rows{X: [][]float64{one}}, one) },
		"a record too many": func() {
			NewBlockSum(1, one, p).AddRows(0, Rows{X: [][]float64{make([]float64, 4)}}, make([]float64, 4))
		},
		"another's sum merged": func() { NewBlockSum(1, one, p).Merge(NewBlockSum(2, one, p)) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

// BenchmarkBlockSum reports nanoseconds per record and coordinate on one core, and
// the ratio to a pass that only sums the same columns in float64.
func BenchmarkBlockSum(b *testing.B) {
	const n, d = 1 << 18, 10
	r := rand.New(rand.NewPCG(5, 5))
	rows, c := Rows{}, make([]float64, n)
	for i := range c {
		c[i] = r.NormFloat64()
	}
	for range d {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		rows.X = append(rows.X, x)
	}
	s := NewBlockSum(3, make([]float64, d), NewPartition(n, 41, testSource(b, 1)))
	own, plain := time.Hour, time.Hour
	for b.Loop() {
		start := time.Now()
		for at := 0; at < n; at += 2048 {
			part := Rows{}
			for _, x := range rows.X {
				part.X = append(part.X, x[at:at+2048])
			}
			s.AddRows(at, part, c[at:at+2048])
		}
		s.clear()
		middle := time.Now()
		plainPass(rows)
		own, plain = min(own, middle.Sub(start)), min(plain, time.Since(middle))
	}
	b.ReportMetric(float64(own.Nanoseconds())/n/d, "ns/coordinate")
	b.ReportMetric(float64(own)/float64(plain), "x-plain-sum")
}
