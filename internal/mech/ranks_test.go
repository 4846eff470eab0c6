package mech

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// A point stands for the numbers around it, in order, to the digits of its grid.
func TestGridPointsAreNear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for _, g := range []grid{1, 3, 7, MaxDigits} {
		unit := 1 / float64(tens[g-1])
		for range 100_000 {
			v := math.Copysign(math.Pow(10, -14.9+32.8*r.Float64()), r.Float64()-.5)
			p, ok := g.point(v)
			if u := g.value(p); !ok || math.Abs(u-v) > (.5+.3*float64(g/MaxDigits))*unit*math.Abs(v) {
				t.Fatalf("%d digits: %v becomes %v", g, v, u)
			}
			if q, _ := g.point(g.value(p)); q != p {
				t.Fatalf("%d digits: %v has another point than %v", g, g.value(p), v)
			}
			if q, _ := g.point(v * (1 + 1.7*unit)); (q > p) != (v > 0) {
				t.Fatalf("%d digits: points near %v are not in order", g, v)
			}
			if step := (RankContract{1, int(g)}).Step(v); step < .0999*unit*math.Abs(v) || step > 1.1*unit*math.Abs(v) {
				t.Fatalf("%d digits: a step of %v at %v", g, step, v)
			}
		}
		for p := -g.largest(); p <= g.largest(); p += 1 + g.largest()/1000 {
			if q, _ := g.point(g.value(p)); q != p {
				t.Fatalf("%d digits: point %d has the value %v, of point %d", g, p, g.value(p), q)
			}
		}
	}
	for v, want := range map[float64]float64{
		0: 0, 40: 40, 12.99: 12.99, 0.1: 0.1, -0.75: -0.75, 2015: 2015, 5e-324: 0, -1e-300: 0, 1e-15: 1e-15, 4e-16: 0, 6e-16: 1e-15, 1e300: 1e18, -1e300: -1e18, 1e18: 1e18, 100_000: 100_000, 0.12345678: 0.1234568, 9.99999999: 10,
	} {
		if p, ok := grid(7).point(v); !ok || grid(7).value(p) != want {
			t.Errorf("%v becomes %v, want %v", v, grid(7).value(p), want)
		}
	}
	for range 10_000 { // whole numbers are points of the finest grid
		v := float64(r.Int64N(tens[1+r.IntN(MaxDigits)]))
		if p, ok := grid(MaxDigits).point(v); !ok || grid(MaxDigits).value(p) != v {
			t.Errorf("%v becomes %v", v, grid(MaxDigits).value(p))
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, ok := grid(7).point(v); ok {
			t.Errorf("%v has a point", v)
		}
	}
}

// weightOf is the weight of one point, by definition.
func weightOf(g grid, point int64) uint64 {
	if point == 0 {
		return 16 * uint64(tens[g-1])
	}
	w, place := uint64(1), max(point, -point)-1
	for w < uint64(tens[g-1]) && place%int64(10*w) == 0 {
		w *= 10
	}
	return w
}

// The weight of a stretch is the sum over its points, and each point is drawn for as many
// units as it weighs.
func TestWeightsOfTheGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	for _, g := range []grid{1, 2, 5, MaxDigits} {
		for range 100 {
			first := 1 + r.Int64N(min(g.largest(), 1<<18))
			last := min(first+r.Int64N(300), g.largest())
			if r.IntN(2) == 0 {
				first, last = -last, -first
			}
			sum, drawn := uint64(0), map[int64]uint64{}
			for p := first; p <= last; p++ {
				sum += weightOf(g, p)
			}
			if got := g.weight(first, last); got != sum {
				t.Fatalf("%d digits, from %d to %d: weight %d, want %d", g, first, last, got, sum)
			}
			if sum > 200_000 {
				continue
			}
			for unit := range sum {
				drawn[g.draw(first, last, unit)]++
			}
			for p := first; p <= last; p++ {
				if drawn[p] != weightOf(g, p) {
					t.Fatalf("%d digits, from %d to %d: %d is drawn for %d units of %d", g, first, last, p, drawn[p], weightOf(g, p))
				}
			}
		}
		if whole := 2*g.weight(1, g.largest()) + g.zeroWeight(); whole >= 1<<60 {
			t.Errorf("%d digits: all points weigh %d", g, whole)
		}
	}
}

// testDigits are the digits of the grid of most tests.
const testDigits = 6

var oddRanks = []float64{0, 5e-324, -1e-300, .3, 1, 1, -1, 7, 4096, -4096.1, 1e300, -1e300, math.Inf(1), math.Inf(-1), math.NaN()}

func ranksOf(v []float64) *Ranks {
	r := NewRanks(RankContract{len(v), testDigits})
	r.Add(v)
	slices.Sort(r.points)
	return r
}

// Segments are all of the grid, in order, each with the miss that its points have.
func TestSegmentsAreTheGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for range 2000 {
		v := make([]float64, 1+r.IntN(8))
		for i := range v {
			v[i] = oddRanks[r.IntN(len(oddRanks))]
		}
		points := ranksOf(v).points
		s := RankQuantiles{Epsilon: 1 + 80*r.Float64()}.selection(1+r.IntN(99), RankContract{Digits: testDigits})
		next := -s.grid.largest()
		s.segments(points, func(g segment) bool {
			if g.first != next || g.last < g.first || g.first < 0 && g.last >= 0 || g.first == 0 && g.last > 0 {
				t.Fatalf("%v: segment %+v after %d", v, g, next-1)
			}
			for _, p := range []int64{g.first, g.last, (g.first + g.last) / 2} {
				var below, equal, above int64
				for _, q := range points {
					below, equal, above = below+of(q < p), equal+of(q == p), above+of(q > p)
				}
				if want := min(miss(s.percent, below, equal, above), s.cap); g.miss != want {
					t.Fatalf("%v: a miss of %d at %d, want %d", v, g.miss, p, want)
				}
			}
			next = g.last + 1
			return true
		})
		if next != s.grid.largest()+1 {
			t.Fatalf("segments end before %d", next)
		}
	}
}

func of(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// One record moves every miss by at most rankSensitivity, whatever it is, and by no less at worst.
func TestMissesMoveByTheirBound(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	moved := int64(0)
	for range 20_000 {
		v := make([]float64, 1+r.IntN(9))
		for i := range v {
			v[i] = oddRanks[r.IntN(len(oddRanks))]
		}
		w := slices.Clone(v)
		w[r.IntN(len(w))] = oddRanks[r.IntN(len(oddRanks))]
		p, q := ranksOf(v).points, ranksOf(w).points
		percent := 1 + r.IntN(99)
		for _, x := range oddRanks {
			at, ok := grid(testDigits).point(x)
			if !ok {
				continue
			}
			count := func(points []int64) int64 {
				var below, equal, above int64
				for _, q := range points {
					below, equal, above = below+of(q < at), equal+of(q == at), above+of(q > at)
				}
				return miss(percent, below, equal, above)
			}
			moved = max(moved, count(p)-count(q), count(q)-count(p))
		}
	}
	if moved != rankSensitivity {
		t.Errorf("a record moves a miss by %d", moved)
	}
}

// rankLaw is the probability of every segment, by the formula of ranks.md.
func rankLaw(q RankQuantiles, points []int64, rate float64) (ends []int64, law []float64) {
	total := 0.0
	s := q.selection(q.Percents[0], RankContract{Digits: testDigits})
	s.segments(points, func(g segment) bool {
		ends = append(ends, g.last)
		law = append(law, float64(s.grid.weight(g.first, g.last))*math.Exp(-rate*float64(g.miss)))
		total += law[len(law)-1]
		return true
	})
	for i := range law {
		law[i] /= total
	}
	return ends, law
}

// A chi-square test fails by chance with probability 1e-9, were the seeds not fixed.
func TestRankQuantilesHaveTheirLaw(t *testing.T) {
	const draws = 40_000
	r := rand.New(rand.NewPCG(5, 7))
	for _, q := range []RankQuantiles{{.5, []int{50}}, {2, []int{25}}, {.9, []int{90}}} {
		v := make([]float64, 60)
		for i := range v {
			v[i] = math.Exp(2 * r.NormFloat64())
		}
		ends, law := rankLaw(q, ranksOf(v).points, q.Epsilon/2/rankSensitivity)
		src, seen, dst := testSource(t, 9), make([]float64, len(law)), make([]float64, 1)
		for range draws {
			q.Release(dst, ranksOf(v), src)
			p, _ := grid(testDigits).point(dst[0])
			at, _ := slices.BinarySearch(ends, p)
			seen[at]++
		}
		fits := func(law []float64) bool {
			chi, cells := 0.0, 0
			for k, p := range law {
				if expected := p * draws; expected > 5 {
					chi += (seen[k] - expected) * (seen[k] - expected) / expected
					cells++
				}
			}
			return chi <= distuv.ChiSquared{K: float64(cells - 1)}.Quantile(1-1e-9)
		}
		if !fits(law) {
			t.Errorf("%+v: what is drawn does not have its law", q)
		}
		if _, twice := rankLaw(q, ranksOf(v).points, q.Epsilon/rankSensitivity); fits(twice) {
			t.Errorf("%+v: the test has no power against twice the rate", q)
		}
	}
}

// With enough numbers quantiles are near theirs, in any unit, and plain ones are met.
func TestRankQuantilesAreNearTheQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	q := RankQuantiles{Epsilon: .3, Percents: []int{25, 50, 75}}
	n := int(1.1 * q.Needs(25))
	for _, unit := range []float64{1e-9, 1, 1e12} {
		v := make([]float64, n)
		for i := range v {
			v[i] = unit * r.NormFloat64()
		}
		sorted, dst := slices.Sorted(slices.Values(v)), make([]float64, 3)
		q.Release(dst, ranksOf(v), testSource(t, 3))
		for k, percent := range q.Percents {
			rank, _ := slices.BinarySearch(sorted, dst[k])
			if off := math.Abs(float64(rank - n*percent/100)); off > 2/q.Epsilon*14 { // e^-14 of exponential errors
				t.Errorf("unit %v: the quantile of %d %% is %v, %v records off", unit, percent, dst[k], off)
			}
		}
	}
	whole := make([]float64, n)
	for i := range whole {
		whole[i] = float64(20 + i%60)
	}
	dst := make([]float64, 3)
	q.Release(dst, ranksOf(whole), testSource(t, 4))
	for k, want := range []float64{35, 50, 65} {
		if math.Abs(dst[k]-want) > 8 {
			t.Errorf("quantile %d is %v, want about %v", k, dst[k], want)
		}
	}
	q.Release(dst, NewRanks(RankContract{5, testDigits}), testSource(t, 5)) // of nothing there is some number
}

// Where few points are near the quantile, more numbers are needed; with as many, what is selected is one of those points.
func TestNarrowNumbersNeedMore(t *testing.T) {
	q, c := RankQuantiles{Epsilon: .3, Percents: []int{25, 50, 75}}, RankContract{1, MaxDigits}
	for _, around := range [][2]float64{{30, 40}, {-1, 1}, {0, 0}, {math.Inf(-1), math.Inf(1)}, {math.NaN(), 3}, {-900, -800}} {
		if got := q.NeedsAbout(25, c, around[0], around[1]); got != q.Needs(25) {
			t.Errorf("from %v to %v: %v, want %v", around[0], around[1], got, q.Needs(25))
		}
	}
	const far = 123_456_000
	needs := q.NeedsAbout(25, c, far+375, far+625)
	if needs < 1.1*q.Needs(25) || needs > 2*q.Needs(25) || needs != q.NeedsAbout(25, c, -far-625, -far-375) {
		t.Errorf("%v are needed, of others %v", needs, q.Needs(25))
	}
	r, src := rand.New(rand.NewPCG(9, 7)), testSource(t, 8)
	c.N = int(needs)
	for range 20 {
		v, dst := make([]float64, c.N), make([]float64, 3)
		for i := range v {
			v[i] = far + float64(r.IntN(2000))
		}
		ranks := NewRanks(c)
		ranks.Add(v)
		q.Release(dst, ranks, src)
		for k, x := range dst {
			if x < far || x >= far+2000 { // each by chance with probability about 1 %; seeds are fixed
				t.Errorf("quantile %d is %v", k, x)
			}
		}
	}
}

func TestRanksDoNotPrint(t *testing.T) {
	r := NewRanks(RankContract{1, testDigits})
	r.Add([]float64{.7})
	for _, v := range []any{r, *r, struct{ r *Ranks }{r}, struct{ r Ranks }{*r}} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, fmt.Sprint(r.points[0])) {
				t.Errorf("%s of %T prints the value: %s", verb, v, text)
			}
		}
	}
}

func TestMisuseOfRanks(t *testing.T) {
	for _, q := range []RankQuantiles{{1, nil}, {0, []int{50}}, {1, []int{0}}, {1, []int{100}}, {math.NaN(), []int{50}}} {
		if err := q.Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", q, err)
		}
		if !panics(func() {
			q.Release(make([]float64, len(q.Percents)), NewRanks(RankContract{1, testDigits}), testSource(t, 1))
		}) {
			t.Errorf("%+v: no panic", q)
		}
	}
	for _, c := range []RankContract{{0, 7}, {1 << 41, 7}, {1, 0}, {1, MaxDigits + 1}} {
		if err := c.Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if !panics(func() { NewRanks(RankContract{2, testDigits}).Add(make([]float64, 3)) }) {
		t.Error("more records than N")
	}
	r := NewRanks(RankContract{2, testDigits})
	r.Add(make([]float64, 1))
	if !panics(func() { r.Add(make([]float64, 2)) }) {
		t.Error("more records than N, in two parts")
	}
	RankQuantiles{1, []int{50}}.Release(make([]float64, 1), r, testSource(t, 1))
	if len(r.points) != 0 {
		t.Error("numbers are there after their release")
	}
}

// No miss is halved more often than there are totals.
func TestHalvingsHaveAPlace(t *testing.T) {
	for e := -50; e <= 20; e++ {
		s := RankQuantiles{Epsilon: 1.3 * math.Ldexp(.5, e), Percents: []int{50}}.selection(50, RankContract{Digits: testDigits})
		if most := s.halved(s.cap); most > halvings || s.cap < 0 {
			t.Errorf("epsilon 2^%d: the cap %d is halved %d times", e, s.cap, most)
		}
	}
}
