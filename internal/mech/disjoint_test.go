package mech

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/internal/hook"

	"gonum.org/v1/gonum/stat/distuv"
)

// of returns the rows of a table that are in a part.
func (t table) of(parts []int, part int) table {
	var own table
	own.rows.Intercept = t.rows.Intercept
	own.rows.X = make([][]float64, len(t.rows.X))
	for i, p := range parts {
		if p != part {
			continue
		}
		own.c = append(own.c, t.c[i])
		for j, x := range t.rows.X {
			own.rows.X[j] = append(own.rows.X[j], x[i])
		}
	}
	return own
}

// partitioned is what a release of disjoint parts hides, by kind of sum, for at most n rows.
func partitioned(t table, parts []int, n int) map[string]hook.Statistic {
	const most = 3
	d := t.rows.dimension()
	sums, boxes, counts, moments := make([]Bounded, most), make([]Bounded, most), make([]Bounded, most), make([]*Moments, most)
	for part := range most {
		own := t.of(parts, part)
		s, b := NewSum(Contract{L2, 1, n, d}), NewSum(Contract{LInf, 1, n, d})
		h, m := NewHistogram(Bins{1, 2}, n, d), NewMoments(MomentContract{1, n, d})
		s.AddRows(own.rows, own.c)
		b.AddRows(own.rows, own.c)
		h.AddRows(own.rows, own.c)
		m.AddRows(own.rows, len(own.c))
		sums[part], boxes[part], counts[part], moments[part] = s.Bounded(), b.Bounded(), h.Bounded(), m
	}
	hidden := map[string]hook.Statistic{}
	for name, parts := range map[string][]Bounded{"sum": sums, "box": boxes, "histogram": counts} {
		joined := Disjoint(parts)
		hidden[name] = hook.Totals{Steps: joined.totals, SquaredBound: joined.contract.l2Squared(), Weight: hook.Once}
		hidden[name+", l1"] = hook.Absolutes{Steps: joined.totals, Bound: joined.contract.l1()}
	}
	contract, totals := joinMoments(moments)
	hidden["moments"] = Gaussian{1}.statistic(contract, totals)
	hidden["moments, trace"] = MatrixLaplace{1}.statistic(contract, totals)
	return hidden
}

// largestPartShares are the largest shares of what one contract bounds that the replaced
// row of awkward neighbours moves, which may also change its part. With twice, every row
// of part 0 is in part 1 too.
func largestPartShares(twice bool) map[string]float64 {
	r, largest := rand.New(rand.NewPCG(3, 5)), map[string]float64{}
	for range 4000 {
		n, d := 1+r.IntN(4), 1+r.IntN(3)
		a, parts := awkwardTable(r, n, d, r.IntN(2) == 0), make([]int, n)
		for i := range parts {
			parts[i] = r.IntN(4) // 3: in none
		}
		b, moved := a.neighbour(r), slices.Clone(parts)
		for i := range moved { // the row that differs, in c at least as a rule
			if math.Float64bits(a.c[i]) != math.Float64bits(b.c[i]) {
				moved[i] = r.IntN(4)
			}
		}
		if twice {
			a, parts = doubled(a, parts)
			b, moved = doubled(b, moved)
		}
		p, q := partitioned(a, parts, 2*n), partitioned(b, moved, 2*n)
		for name, hidden := range p {
			largest[name] = max(largest[name], hidden.Share(q[name]))
		}
	}
	return largest
}

// doubled repeats the rows of part 0 in part 1.
func doubled(t table, parts []int) (table, []int) {
	own := t.of(parts, 0)
	t.c = slices.Concat(t.c, own.c)
	rows := Rows{Intercept: t.rows.Intercept}
	for j, x := range t.rows.X {
		rows.X = append(rows.X, slices.Concat(x, own.rows.X[j]))
	}
	t.rows = rows
	return t, append(slices.Clone(parts), slices.Repeat([]int{1}, len(own.c))...)
}

// A replaced record moves the sums of all parts together by no more than it would move one
// sum, also where it changes its part; counts and moments reach that, so they would show
// less. Parts that share a record are refuted.
func TestReplacedAcrossPartsMovesWhatOneSumMoves(t *testing.T) {
	for name, share := range largestPartShares(false) {
		if share > 1+1e-9 {
			t.Errorf("%s: moved by %v of the bound", name, share)
		}
		if reached := map[string]float64{"histogram": 1, "histogram, l1": 1, "moments": 0.99, "moments, trace": 0.99}[name]; share < reached {
			t.Errorf("%s: moved by %v of the bound at most; the pairs would miss a smaller one", name, share)
		}
	}
	shares := largestPartShares(true)
	for _, name := range []string{"histogram", "histogram, l1", "moments", "moments, trace"} {
		if shares[name] < 1.2 {
			t.Errorf("%s: a row in two parts moved it by %v of the bound", name, shares[name])
		}
	}
}

// Each part has noise of its own, as much as if it were released alone: draws are of that law, and so is
// the difference of two neighbours, which would be less where they shared some. (The draws are fixed.)
func TestPartsHaveNoiseOfTheirOwn(t *testing.T) {
	const n, z, parts = 7, 1.5, 60
	var sums, products []float64
	src := testSource(t, 7)
	for range 100 {
		s, m := make([]Bounded, parts), make([]*Moments, parts)
		for g := range parts {
			s[g], m[g] = NewSum(Contract{L2, 1, n, 1}).Bounded(), NewMoments(MomentContract{1, n, 1})
		}
		dst := make([]float64, parts)
		Gaussian{z}.Release(dst, Disjoint(s), src)
		sums = append(sums, dst...)
		ReleaseDisjoint(dst, m, Gaussian{z}, src)
		products = append(products, dst...)
	}
	for name, c := range map[string]struct {
		draws []float64
		sigma float64
	}{"sums": {sums, z * 2 / n}, "moments": {products, z * math.Sqrt2 / n}} {
		var differences []float64
		for k := 0; k < len(c.draws); k += 2 {
			differences = append(differences, c.draws[k+1]-c.draws[k])
		}
		if !fitsLaw(c.draws, distuv.Normal{Sigma: c.sigma}.CDF) || !fitsLaw(differences, distuv.Normal{Sigma: c.sigma * math.Sqrt2}.CDF) {
			t.Errorf("%s: wrong noise", name)
		}
	}
}

// Parts are released in their order, each as it would be alone but for the noise.
func TestDisjointReleasesAreThoseOfTheParts(t *testing.T) {
	c, m := Contract{L2, 1, 4, 2}, MomentContract{1, 4, 2}
	first, second, firstMoments, secondMoments := NewSum(c), NewSum(c), NewMoments(m), NewMoments(m)
	first.Add([]float64{.5, .25})
	second.Add([]float64{0, -.5})
	firstMoments.AddRows(Rows{X: [][]float64{{.5}, {.25}}}, 1)
	secondMoments.AddRows(Rows{X: [][]float64{{0}, {-.5}}}, 1)
	means, products := make([]float64, 4), make([]float64, 8)
	silent := Gaussian{0x1p-10}
	silent.Release(means, Disjoint([]Bounded{first.Bounded(), second.Bounded()}), testSource(t, 1))
	ReleaseDisjoint(products, []*Moments{firstMoments, secondMoments}, silent, testSource(t, 1))
	for k, want := range []float64{.125, .0625, 0, -.125} {
		if math.Abs(means[k]-want) > .01 {
			t.Errorf("means %v", means)
		}
	}
	for k, want := range []float64{.0625, .03125, .03125, .015625, 0, 0, 0, .0625} {
		if math.Abs(products[k]-want) > .01 {
			t.Errorf("products %v", products)
		}
	}
}

func TestMisuseOfDisjointPanics(t *testing.T) {
	c := Contract{LInf, 1, 2, 1}
	sum := func(c Contract, records int) Bounded {
		s := NewSum(c)
		for range records {
			s.Add(make([]float64, c.D))
		}
		return s.Bounded()
	}
	used := sum(c, 1)
	Disjoint([]Bounded{used})
	blocks := NewBlockSum(1, []float64{0}, NewPartition(2, 1, testSource(t, 1)))
	moments := func(c MomentContract, records int) *Moments {
		m := NewMoments(c)
		m.AddRows(Rows{X: [][]float64{make([]float64, records)}}, records)
		return m
	}
	own := MomentContract{1, 2, 1}
	for name, f := range map[string]func(){
		"too many records":         func() { Disjoint([]Bounded{sum(c, 2), sum(c, 1)}) },
		"another contract":         func() { Disjoint([]Bounded{sum(c, 1), sum(Contract{L2, 1, 2, 1}, 1)}) },
		"a part that was released": func() { Disjoint([]Bounded{sum(c, 1), used}) },
		"a median of blocks":       func() { Disjoint([]Bounded{blocks.Median()}) },
		"too many rows":            func() { joinMoments([]*Moments{moments(own, 2), moments(own, 1)}) },
		"moments of others":        func() { joinMoments([]*Moments{moments(own, 1), moments(MomentContract{2, 2, 1}, 1)}) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}
