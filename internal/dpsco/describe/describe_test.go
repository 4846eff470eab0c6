package describe

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// describers are of tables with numbers and with flags, the target among them.
func describers(kinds string) []plan.Algorithm {
	var columns []Column
	for j, kind := range kinds {
		c := Column{Name: fmt.Sprint("c", j), Flag: kind == 'f'}
		if kind == 'l' {
			c.Levels = []string{"a", "b", "c"}
		}
		columns = append(columns, c)
	}
	return []plan.Algorithm{Figures{Columns: columns}, Scales{Columns: slices.Clone(columns)}}
}

// A description of a table and one of its neighbour, given the same answers, do the same in
// public, and what they hide differs by what the noise is scaled to.
func TestReplaysOfDescriptions(t *testing.T) {
	largest := map[string]float64{}
	for _, delta := range []float64{1e-2, 0} {
		for _, kinds := range []string{"n", "nnn", "nfn", "ff", "nl", "lf"} {
			for _, a := range describers(kinds) {
				r := rand.New(rand.NewPCG(3, 3))
				for k := range 40 {
					s := table.Shape{N: 23, D: len(kinds) - 1}
					plan := func() *plan.Plan {
						return plantest.Plan(t, a, s, privacy.Budget{Epsilon: 20, Delta: delta}, privacy.Concentrated{})
					}
					x, y := plantest.Neighbours(r, s, false)
					if k%2 == 1 {
						leaveOutSome(r, x, y)
					}
					moved, err := plantest.Replay(t, plan, x, y)
					if err != nil {
						t.Fatalf("%T of %s, delta %v, pair %d: %v", a, kinds, delta, k, err)
					}
					for kind, share := range moved {
						largest[kind] = max(largest[kind], share)
					}
				}
			}
		}
	}
	if len(largest) != 5 {
		t.Errorf("mechanisms %v", largest)
	}
	plantest.ReachHalf(t, largest)
}

// leaveOutSome makes some rows of neighbours such of levels that do not count: rows without any
// value. The row in which they differ is in half of the pairs one of them, in one or the other.
func leaveOutSome(r *rand.Rand, x, y table.Data) {
	nothing := func(int) float64 { return math.NaN() }
	for i := range x.N {
		switch same := equalRow(x, y, i); {
		case same && r.IntN(3) == 0:
			plantest.SetRow(x, i, nothing)
			plantest.SetRow(y, i, nothing)
		case !same && r.IntN(2) == 0:
			plantest.SetRow([]table.Data{x, y}[r.IntN(2)], i, nothing)
		}
	}
}

func equalRow(x, y table.Data, i int) bool {
	for j := -1; j < len(x.X); j++ {
		if math.Float64bits(plantest.ValueAt(x, i, j)) != math.Float64bits(plantest.ValueAt(y, i, j)) {
			return false
		}
	}
	return true
}

// A description costs its budget, and no more; the ledger books a pure one as what was asked for.
func TestADescriptionCostsItsBudget(t *testing.T) {
	order := privacy.AtOrder{Order: 20, Renyi: new(privacy.Renyi)}
	for _, kinds := range []string{"n", "nfnnn", "ff", "nll", "l"} {
		s := table.Shape{N: 1000, D: len(kinds) - 1}
		for _, a := range describers(kinds) {
			for _, accountant := range []privacy.Accountant{privacy.Concentrated{}, order} {
				for _, b := range []privacy.Budget{{Epsilon: 0.1, Delta: 1e-6}, {Epsilon: 3, Delta: 1e-5}} {
					p, err := a.Plan(s, b, accountant)
					if errors.Is(err, plan.ErrInfeasible) && accountant == order && b.Epsilon < 1 {
						continue // less than the order can prove
					}
					if err != nil {
						t.Fatal(err)
					}
					epsilon, err := accountant.Epsilon(p.Event, b.Delta-privacy.Reserve(b.Delta))
					if err != nil || epsilon > b.Epsilon || epsilon < b.Epsilon*(1-1e-6) {
						t.Errorf("%T of %s, %T: eps %v of %v, %v", a, kinds, accountant, epsilon, b.Epsilon, err)
					}
				}
			}
			for _, epsilon := range []float64{0.1, 0.7, 1, 1.1, 3.3} {
				p, err := a.Plan(s, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
				if err != nil || p.Event != (privacy.Pure{Epsilon: epsilon}) {
					t.Errorf("%T of %s: %v, %v", a, kinds, p, err)
				}
			}
		}
	}
	for _, split := range []map[string]float64{figureShares, scaleShares, levelShares, flagShares} {
		sum := 0.0
		for _, share := range split {
			sum += share
		}
		if math.Abs(sum-1) > 1e-15 {
			t.Errorf("shares add up to %v", sum)
		}
	}
	for _, count := range []int{1, 7, 300} { // as many parts, exactly
		g := describing{numericColumns: make([]int, count)}
		g.laplaceNoise(0.7, figureShares)
		sum := new(big.Rat).SetFloat64(g.quartiles.Epsilon)
		sum.Mul(sum, big.NewRat(int64(3*count), 1))
		for _, noise := range []mech.Mechanism{g.distances, g.averages} {
			sum.Add(sum, new(big.Rat).SetFloat64(noise.(mech.Laplace).Epsilon))
		}
		if sum.Cmp(new(big.Rat).SetFloat64(0.7)) >= 0 {
			t.Errorf("%d columns: the releases cost %v", count, sum.FloatString(25))
		}
	}
}

func TestWhatCannotBeDescribedIsRefused(t *testing.T) {
	s, b := table.Shape{N: 100, D: 1}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	good := Figures{Columns: []Column{{Name: "a"}, {Name: "b"}}}
	for name, c := range map[string]struct {
		Figures
		table.Shape
		privacy.Budget
		privacy.Accountant
		error
	}{
		"too few columns":      {Figures{Columns: good.Columns[:1]}, s, b, privacy.Concentrated{}, plan.ErrParameter},
		"eps 0":                {good, s, privacy.Budget{Delta: 1e-6}, privacy.Concentrated{}, plan.ErrParameter},
		"delta 1":              {good, s, privacy.Budget{Epsilon: 1, Delta: 1}, privacy.Concentrated{}, plan.ErrParameter},
		"delta on a pure data": {good, s, b, privacy.PureSum{}, plan.ErrInfeasible},
		"no rows":              {good, table.Shape{N: 0, D: 1}, b, privacy.Concentrated{}, plan.ErrInfeasible},
	} {
		if _, err := c.Figures.Plan(c.Shape, c.Budget, c.Accountant); !errors.Is(err, c.error) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A share that noise has made negative is taken for 0, and its interval is around that.
func TestAShareHasAnIntervalOfSomeLength(t *testing.T) {
	for _, mean := range []float64{-9, 0, 9} {
		d := described{describing: &describing{shape: table.Shape{N: 100}}, noise: 1}
		if f := d.shareOf(mean); !(*f.Low < *f.High && *f.Low <= *f.Value && *f.Value <= *f.High) {
			t.Errorf("%v: %v in %v to %v", mean, *f.Value, *f.Low, *f.High)
		}
	}
}

// describedTable is of n rows: a heavy-tailed amount, a year, a flag; a part of them missing.
func describedTable(seed uint64, n int, missing float64) table.Data {
	r := rand.New(rand.NewPCG(seed, 5))
	x := table.Data{Shape: table.Shape{N: n, D: 2}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range n {
		x.Y[i], x.X[0][i], x.X[1][i] = 1000*math.Exp(0.6*r.NormFloat64()), math.Round(2015+4*r.NormFloat64()), 0
		if r.Float64() < 0.3 {
			x.X[1][i] = 1
		}
		plantest.SetRow(x, i, func(j int) float64 {
			if r.Float64() < missing {
				return math.NaN()
			}
			return plantest.ValueAt(x, i, j)
		})
	}
	return x
}

// lawOfDescribed are the figures of the law of describedTable.
func lawOfDescribed(missing float64) map[string]float64 {
	z := 0.6 * 0.6744897501960817
	return map[string]float64{
		"c0 usable_share": 1 - missing, "c0 mean": 1000 * math.Exp(0.18), "c0 quartile_1": 1000 * math.Exp(-z), "c0 median": 1000, "c0 quartile_3": 1000 * math.Exp(z),
		"c1 usable_share": 1 - missing, "c1 mean": 2015, "c1 quartile_1": 2012, "c1 median": 2015, "c1 quartile_3": 2018,
		"c2 usable_share": 1 - missing, "c2 true_share": 0.3, " complete_share": math.Pow(1-missing, 3),
	}
}

// Levels have their shares, also many of them; those that are rare or missing too.
func TestSharesOfLevels(t *testing.T) {
	const n = 100_000
	many := make([]string, 130)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	a := Figures{Columns: []Column{{Name: "few", Levels: []string{"a", "b", "c"}}, {Name: "many", Levels: many}, {Name: "number"}}}
	for _, columns := range []int{2, 3} {
		for _, delta := range []float64{1e-6, 0} {
			x := table.Data{Shape: table.Shape{N: n, D: columns - 1}, X: make([][]float64, columns-1), Y: make([]float64, n)}
			for j := range x.X {
				x.X[j] = make([]float64, n)
			}
			for i := range n {
				x.Y[i], x.X[0][i] = []float64{0, 0, 0, 2, math.NaN()}[i%5], float64(i%130)
				if columns == 3 {
					x.X[1][i] = float64(i % 7)
				}
			}
			within := 0
			for _, f := range plantest.Run(t, Figures{Columns: a.Columns[:columns]}, x, privacy.Budget{Epsilon: 20, Delta: delta}, 3).Figures {
				want := map[string]float64{"few usable_share": 0.8, "few share of a": 0.75, "few share of b": 0, "few share of c": 0.25, "many usable_share": 1, "complete_share": 0.8}[f.Column+" "+f.Statistic]
				if f.Column == "many" && f.Statistic != "usable_share" {
					want = 1. / 130
				} else if f.Column == "number" || want == 0 && f.Statistic != "share of b" {
					continue
				}
				if math.Abs(*f.Value-want) > 0.005 || *f.Low > *f.Value || *f.High < *f.Value {
					t.Errorf("delta %v: %+v, want %v", delta, f, want)
				}
				within++
			}
			if within < 135 {
				t.Errorf("%d shares", within)
			}
		}
	}
}

// A column of few values that are no integers by type: 47 % are 0, so that its median is 1, and
// few rows decide that. Its interval holds 1. Of intervals that hold it in 95 of 100 runs, 12
// of 40 miss it with probability below 4e-7; those with ends within a bin missed it in 36.
func TestIntervalsOfFewDistinctValues(t *testing.T) {
	const n, runs = 9000, 40
	x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
	for i := range n {
		switch at := i % 100; {
		case at >= 85:
			x.Y[i] = 3
		case at >= 70:
			x.Y[i] = 2
		case at >= 47:
			x.Y[i] = 1
		}
	}
	missed := 0
	for run := range runs {
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "days"}}}, x, privacy.Budget{Epsilon: 0.15, Delta: 1e-6}, uint64(run)).Figures {
			if f.Statistic == "median" && f.Low != nil && (*f.Low > 1 || *f.High < 1) {
				missed++
			}
		}
	}
	if missed >= 12 {
		t.Errorf("%d of %d intervals miss the median", missed, runs)
	}
}

// Quartiles of columns of few distinct decimals, whose quartiles lie at gaps, and of columns far from 0 hold those of the table.
// Of 60 intervals at a true coverage of 95 %, 47 or fewer hold with probability below 1e-7; seeds are fixed besides.
// With ends within a bin 21 of those of prices held, and on a grid of five digits none of logarithms, 1 of identifiers, 22 of
// moments of a day and 40 of other shifted numbers.
func TestIntervalsHoldTheQuartilesOfTheTable(t *testing.T) {
	const n, runs = 20_000, 20
	prices := []float64{4.99, 5.49, 5.99, 6.49, 6.99, 7.49, 7.99, 8.99, 9.99, 11.99, 14.99, 19.99}
	for _, law := range []struct {
		name  string
		whole bool
		width float64 // of an interval at most, in interquartile ranges, in the mean
		draw  func(r *rand.Rand) float64
	}{
		{"prices", false, .4, func(r *rand.Rand) float64 { return prices[r.IntN(len(prices))] }},
		{"logarithms", false, .1, func(r *rand.Rand) float64 { return math.Log(float64(1 + r.IntN(5))) }},
		{"heights", false, .2, func(r *rand.Rand) float64 { return math.Round(100*(1.7+.07*r.NormFloat64())) / 100 }},
		{"shifted integers", true, .05, func(r *rand.Rand) float64 { return float64(98_000_000 + r.IntN(901)) }},
		{"identifiers", true, .2, func(r *rand.Rand) float64 { return float64(1_234_567 + r.IntN(51)) }},
		{"moments of a day", true, .05, func(r *rand.Rand) float64 { return 1_794_700_800 + math.Round(86_400e6*r.Float64())/1e6 }},
		{"shifted decimals", false, .1, func(r *rand.Rand) float64 { return 98_000_000.5 + 900*r.Float64() }},
		{"one decimal", false, math.Inf(1), func(*rand.Rand) float64 { return 1_234_567.89 }},
		{"one beyond seven digits", false, math.Inf(1), func(*rand.Rand) float64 { return 12_345_678.5 }},
		{"two groups far apart", false, 2, func(r *rand.Rand) float64 {
			if r.Float64() < .497 {
				return r.Float64()
			}
			return 1000 + r.Float64()
		}},
		{"lognormal", false, .05, func(r *rand.Rand) float64 { return 800 * math.Exp(.9*r.NormFloat64()) }},
	} {
		held, width := 0, 0.0
		for run := range uint64(runs) {
			r := rand.New(rand.NewPCG(run, 77))
			x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
			for i := range n {
				x.Y[i] = law.draw(r)
			}
			sorted := slices.Sorted(slices.Values(x.Y))
			for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a", Whole: law.whole}}}, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, run).Figures {
				percent, is := map[string]int{"quartile_1": 25, "median": 50, "quartile_3": 75}[f.Statistic]
				if !is || f.Low == nil {
					continue
				}
				width += (*f.High - *f.Low) / max(sorted[n*3/4]-sorted[n/4], 1e-300) / (3 * runs)
				if truth := sorted[n*percent/100-1]; *f.Low <= truth && truth <= *f.High {
					held++
				}
			}
		}
		t.Logf("%s: %d of %d hold, %.3g wide", law.name, held, 3*runs, width)
		if held < 48 || width > law.width {
			t.Errorf("%s: %d of %d intervals hold, %.3g wide", law.name, held, 3*runs, width)
		}
	}
}

// Two rows in a hundred equal the median, in the place of values that are spread evenly, most of them above the table's middle.
// That is too few to stand out in a histogram, and yet an interval that ends within one of its bins may end before them. Of 200
// intervals at a true coverage of 95 %, more than 27 miss with probability below 1e-6; seeds are fixed besides. Of those that did, 144 and 151 missed.
func TestIntervalsHoldAMedianThatSomeRowsEqual(t *testing.T) {
	const n, runs, median = 13_500, 200, 12.1875
	for _, eps := range []float64{.3, .5} {
		missed, width := 0, 0.0
		for run := range uint64(runs) {
			x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
			for i := range n {
				if x.Y[i] = 8 + 8*(float64(i)+.5)/n; x.Y[i] > 11.98 {
					x.Y[i] = max(x.Y[i], median)
				}
			}
			for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "wage", Scale: 20}}}, x, privacy.Budget{Epsilon: eps, Delta: 1e-6}, run).Figures {
				if f.Statistic == "median" {
					width += (*f.High - *f.Low) / runs
					if *f.Low > median || *f.High < median {
						missed++
					}
				}
			}
		}
		t.Logf("eps %v: %d of %d miss, %.3g wide", eps, missed, runs, width)
		if missed > 27 || width > .7 {
			t.Errorf("eps %v: %d of %d intervals miss the median, %.3g wide", eps, missed, runs, width)
		}
	}
}

// The grid is dense about 0, so that a median near it is selected farther off. Seeds are fixed: none of 60 intervals misses that of the
// table, and 9 did when they allowed for as many ranks as elsewhere.
func TestIntervalsHoldAMedianNearZero(t *testing.T) {
	const n, runs, median = 100_000, 60, 0.03
	missed, width := 0, 0.0
	for run := range uint64(runs) {
		x := table.Data{Shape: table.Shape{N: n, D: 3}, Y: make([]float64, n), X: table.NewColumns(3, n)}
		for i := range n {
			x.Y[i] = median + math.Sqrt2*math.Erfinv(2*(float64(i)+.5)/n-1)
		}
		for j := range x.X {
			copy(x.X[j], x.Y)
		}
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}}, x, privacy.Budget{Epsilon: .1, Delta: 1e-6}, run).Figures {
			if f.Column == "a" && f.Statistic == "median" {
				width += (*f.High - *f.Low) / runs
				if *f.Low > median || *f.High < median {
					missed++
				}
			}
		}
	}
	t.Logf("%d of %d miss, %.3g wide", missed, runs, width)
	if missed > 3 || width > .5 {
		t.Errorf("%d of %d intervals miss the median, %.3g wide", missed, runs, width)
	}
}

// The third quartile of amounts of which nearly three in four are 0 is selected next to 0 in half of the runs, so that no bin between it and the amounts
// holds any row: noise alone must not end an interval there. Of those that are given 95 in 100 hold the table's quartile; of 200 at that rate more than 27 miss with
// probability below 1e-6, and seeds are fixed besides: 8 of 170 miss. Where outward allowed for one deviation of noise however many bins it had passed, 48 of 210 did.
func TestIntervalsAtTheEdgeOfManyEqualValues(t *testing.T) {
	const n, runs, zeros = 5000, 500, 0.745
	given, missed := 0, 0
	for run := range uint64(runs) {
		r := rand.New(rand.NewPCG(run, 77))
		x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
		for i := range n {
			if r.Float64() > zeros {
				x.Y[i] = 100 * math.Exp(0.4*r.NormFloat64())
			}
		}
		truth := slices.Sorted(slices.Values(x.Y))[n*3/4-1]
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "amount"}}}, x, privacy.Budget{Epsilon: 0.4, Delta: 1e-6}, run).Figures {
			if f.Statistic == "quartile_3" && f.Low != nil {
				if given++; *f.Low > truth || *f.High < truth {
					missed++
				}
			}
		}
	}
	t.Logf("%d of %d miss", missed, given)
	if given < 100 || missed*200 > 27*given {
		t.Errorf("%d of %d intervals miss the quartile", missed, given)
	}
}

// A number of many digits that all values are is met where there are enough values; until then something else is selected, which
// the histogram shows to be no quartile.
func TestWhatIsNoQuartileIsNotGiven(t *testing.T) {
	for name, law := range map[string]struct {
		whole bool
		draw  func(r *rand.Rand) float64
	}{
		"constant":         {true, func(*rand.Rand) float64 { return 123_456_789 }},
		"shifted integers": {true, func(r *rand.Rand) float64 { return float64(98_000_000 + r.IntN(901)) }},
	} {
		for n, want := range map[int]int{864: 1, 1800: 57} {
			given := 0
			for run := range uint64(20) {
				r := rand.New(rand.NewPCG(run, 7))
				x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
				for i := range n {
					x.Y[i] = law.draw(r)
				}
				for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a", Whole: law.whole}}}, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, run).Figures {
					if _, quartile := map[string]bool{"quartile_1": true, "median": true, "quartile_3": true}[f.Statistic]; !quartile || f.Value == nil {
						continue
					}
					given++
					if *f.Value < slices.Min(x.Y) || *f.Value > slices.Max(x.Y) {
						t.Errorf("%s, %d rows: %s is %v", name, n, f.Statistic, *f.Value)
					}
				}
			}
			t.Logf("%s, %d rows: %d of 60 are given", name, n, given)
			if given < want {
				t.Errorf("%s, %d rows: %d of 60 are given", name, n, given)
			}
		}
	}
}

// Each number has one bin, between whose ends it lies, and bins are as many as there are; also where cuts are the same number.
func TestEachValueHasOneBin(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		g := describing{columns: []Column{{Scale: math.Pow(10, 30*r.Float64()-15), Whole: r.IntN(2) == 0}}, shape: table.Shape{N: 1 + r.IntN(1e6)}, quartiles: mech.RankQuantiles{Epsilon: math.Pow(10, 4*r.Float64()-3)}}
		q := make([]float64, 3)
		for k := range q {
			q[k] = math.Round(3*r.NormFloat64()) * math.Pow(10, float64(r.IntN(12)-4))
		}
		p := g.placeOf(0, sorted(q))
		if p.bins() > placeBins || !slices.IsSorted(p.cuts) || !slices.IsSorted(p.edges) {
			t.Fatalf("%d bins: %+v", p.bins(), p)
		}
		for _, v := range slices.Concat(p.cuts, []float64{0, math.MaxFloat64, -math.MaxFloat64, math.Nextafter(q[0], 9), p.median() + p.unit*r.NormFloat64()}) {
			bin := p.bin(v)
			if low, high := p.ends(bin); bin < 0 || bin >= p.bins() || v > high || v < low || v == low && low < high {
				t.Fatalf("%v is in bin %d from %v to %v of %+v", v, bin, low, high, p)
			}
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if p.bin(v) >= 0 {
				t.Errorf("%v has a bin", v)
			}
		}
	}
}

// Where surely fewer rows lie beyond a quartile than would have to, its interval ends there: of a column that is 0 in 19 of 20 rows
// all three are 0, and of a flag of which two thirds are 1 nothing between 0 and 1 can be the median.
func TestIntervalsEndWhereManyRowsAreEqual(t *testing.T) {
	const n = 40_000
	x := table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range n {
		if i%20 == 0 {
			x.Y[i] = float64(1 + i%3)
		}
		if i%3 > 0 {
			x.X[0][i] = 1
		}
	}
	want := map[string]float64{"claims quartile_1": 0, "claims median": 0, "claims quartile_3": 0, "flag quartile_1": 0, "flag median": 1, "flag quartile_3": 1}
	for run := range uint64(20) {
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "claims"}, {Name: "flag"}}}, x, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, run).Figures {
			if v, is := want[f.Column+" "+f.Statistic]; is && (f.Low == nil || *f.Low != v || *f.High != v) {
				t.Errorf("run %d: %s %s is %v, from %v to %v", run, f.Column, f.Statistic, *f.Value, *f.Low, *f.High)
			}
		}
	}
}

// With little noise figures are those of the table.
func TestDescriptionsAreThoseOfTheTable(t *testing.T) {
	for _, delta := range []float64{1e-6, 0} {
		for _, missing := range []float64{0, 0.2} {
			law := lawOfDescribed(missing)
			got := plantest.Run(t, describers("nnf")[0], describedTable(1, 200_000, missing), privacy.Budget{Epsilon: 500, Delta: delta}, 1).Figures
			if len(got) != len(law) {
				t.Fatalf("%d figures, want %d", len(got), len(law))
			}
			for _, f := range got {
				want, known := law[f.Column+" "+f.Statistic]
				if !known || f.Value == nil || math.Abs(*f.Value-want) > 0.02*math.Max(1, math.Abs(want)) || f.Low == nil || *f.Low > *f.Value || *f.High < *f.Value || f.WhyNull != "" {
					t.Errorf("delta %v, missing %v: %+v, want %v", delta, missing, f, want)
				}
			}
		}
	}
}

// Intervals cover the figures of the law. Of 60 intervals at a true coverage of 95 %, 47
// or fewer cover with probability below 1e-7; seeds are fixed besides.
func TestIntervalsOfDescriptionsCoverTheLaw(t *testing.T) {
	const runs = 60
	law := lawOfDescribed(0.1)
	for _, b := range []privacy.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 1}} {
		tried, covered := map[string]int{}, map[string]int{}
		width := map[string]float64{}
		for seed := range uint64(runs) {
			for _, f := range plantest.Run(t, describers("nnf")[0], describedTable(100+seed, 20_000, 0.1), b, seed).Figures {
				if name := f.Column + " " + f.Statistic; f.Low != nil {
					tried[name]++
					width[name] += (*f.High - *f.Low) / runs
					if *f.Low <= law[name] && law[name] <= *f.High {
						covered[name]++
					}
				}
			}
		}
		for name := range law {
			t.Logf("delta %v: %s covered %d of %d, width %.4g", b.Delta, name, covered[name], tried[name], width[name])
			given := tried[name] >= runs*9/10 || name == "c0 mean" // noise may hide how heavy its tail is
			if !given || float64(covered[name]) < 0.79*float64(tried[name]) {
				t.Errorf("delta %v: %s covered %d of %d", b.Delta, name, covered[name], tried[name])
			}
		}
	}
}

// Whatever a table holds, a description ends with numbers, or says why not.
func TestDescriptionsOfAwkwardTables(t *testing.T) {
	fills := map[string]func(i int) float64{
		"missing": func(int) float64 { return math.NaN() }, "zero": func(int) float64 { return 0 }, "constant": func(int) float64 { return 7 },
		"huge": func(i int) float64 { return math.Copysign(math.MaxFloat64, float64(i%2)-.5) }, "tiny": func(int) float64 { return 5e-324 },
		"infinite": func(int) float64 { return math.Inf(-1) },
	}
	for name, fill := range fills {
		for _, delta := range []float64{1e-6, 0} {
			for _, n := range []int{1, 20_000} {
				x := table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}
				for i := range n {
					plantest.SetRow(x, i, func(int) float64 { return fill(i) })
				}
				both := describers("nf")
				for _, f := range plantest.Run(t, both[0], x, privacy.Budget{Epsilon: 1, Delta: delta}, 1).Figures {
					if (f.Value == nil || f.Low == nil) != (f.WhyNull != "") || (f.Low == nil) != (f.High == nil) {
						t.Errorf("%s: %+v", name, f)
					}
				}
				for _, s := range plantest.Run(t, both[1], x, privacy.Budget{Epsilon: 1, Delta: delta}, 1).Scales {
					if (s.Scale == nil) != (s.Center == nil) || s.Note == "" || s.Scale != nil && !(*s.Scale > 0) {
						t.Errorf("%s: %+v", name, s)
					}
				}
			}
		}
	}
}

// Scales are of the right size in any unit, centres are given far from zero alone, and what
// is not seen is not made up.
func TestSuggestedScales(t *testing.T) {
	const n = 50_000
	r := rand.New(rand.NewPCG(8, 8))
	laws := []struct {
		name          string
		draw          func() float64
		scale, center float64 // 0: not seen
	}{
		{"normal", func() float64 { return 3e-7 * r.NormFloat64() }, 2e-7, 0},
		{"year", func() float64 { return math.Round(2015 + 7*r.NormFloat64()) }, 5, 2015},
		{"age", func() float64 { return float64(18 + r.IntN(60)) }, 50, 0},
		{"rare", func() float64 { return indicatorOf(r.IntN(1000) == 0) * 4000 }, 0, 0},
		{"some", func() float64 { return indicatorOf(r.IntN(4) == 0) * 4e9 * (1 + r.Float64()) }, 5e9, 0},
	}
	for _, delta := range []float64{1e-6, 0} {
		x := table.Data{Shape: table.Shape{N: n, D: 4}, X: table.NewColumns(4, n), Y: make([]float64, n)}
		for i := range n {
			plantest.SetRow(x, i, func(j int) float64 { return laws[j+1].draw() })
		}
		for j, s := range plantest.Run(t, describers("nnnnn")[1], x, privacy.Budget{Epsilon: 1, Delta: delta}, 1).Scales {
			law := laws[j]
			switch {
			case law.scale == 0 && s.Scale != nil:
				t.Errorf("%s: %+v is made up", law.name, s)
			case law.scale > 0 && (s.Scale == nil || *s.Scale > 2.5*law.scale || *s.Scale < law.scale/2.5 || math.Abs(*s.Center-law.center) > *s.Scale || (*s.Center == 0) != (law.center == 0)):
				t.Errorf("%s: %+v, want %v and %v", law.name, s, law.scale, law.center)
			}
		}
	}
}

func indicatorOf(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// Values that are nearly all equal have no mean while noise hides how large the others are.
func TestRareValuesHideTheMean(t *testing.T) {
	x := table.Data{Shape: table.Shape{N: 40_000}, Y: make([]float64, 40_000)}
	for i := range x.Y {
		if i%200 == 0 {
			x.Y[i] = float64(i % 1000)
		}
	}
	for epsilon, hidden := range map[float64]bool{0.3: true, 50: false} {
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a"}}}, x, privacy.Budget{Epsilon: epsilon, Delta: 1e-6}, 1).Figures {
			if f.Statistic == "mean" && (f.Value == nil) != hidden {
				t.Errorf("eps %v: %+v", epsilon, f)
			}
		}
	}
}

// The last bin of a histogram of sizes has no upper edge: where rows are in it nothing bounds a mean, and that of values cut before it says nothing.
func TestValuesWithoutABoundHaveNoInterval(t *testing.T) {
	x := table.Data{Shape: table.Shape{N: 40_000}, Y: make([]float64, 40_000)}
	for i := range x.Y {
		if x.Y[i] = float64(i % 7); i%10 == 0 {
			x.Y[i] = 1e9
		}
	}
	for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a"}}}, x, privacy.Budget{Epsilon: 10, Delta: 1e-6}, 1).Figures {
		if f.Statistic == "mean" && (f.Value != nil || f.Low != nil || f.WhyNull == "") {
			t.Errorf("%+v", f)
		}
	}
}

// Where a column has too few values for its quartiles, from which the mean is cut, these are anywhere from -1e18 to 1e18, and
// so would the mean be.
func TestTooFewValuesForQuartilesHaveNoMean(t *testing.T) {
	a := describers("nnnn")[0]
	for _, n := range []int{400, 1200, 4000} {
		given, farthest := 0, 0.0
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			x := table.Data{Shape: table.Shape{N: n, D: 3}, X: table.NewColumns(3, n), Y: make([]float64, n)}
			for i := range n {
				plantest.SetRow(x, i, func(int) float64 { return 60 + 9*r.NormFloat64() })
			}
			for _, f := range plantest.Run(t, a, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Figures {
				if f.Statistic == "mean" && f.Value != nil {
					given, farthest = given+1, max(farthest, math.Abs(*f.Value-60))
				}
			}
		}
		t.Logf("%d rows: %d of 80 means, %.3g off at most", n, given, farthest)
		if farthest > 10 || n == 4000 && given < 80 {
			t.Errorf("%d rows: %d of 80 means, %.3g off at most", n, given, farthest)
		}
	}
}

// Numbers beyond those that are looked for are told as such, and nothing is made up of them; those before are described.
func TestValuesBeyondTheGridAreToldAsSuch(t *testing.T) {
	const n = 20_000
	for size, beyond := range map[float64]bool{9e17: false, 5e18: true, 1e300: true} {
		x := table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			plantest.SetRow(x, i, func(j int) float64 { return size * (1 + float64(i)/n) * math.Copysign(1, float64(j)) })
			if !beyond {
				plantest.SetRow(x, i, func(j int) float64 { return size * float64(i) / n * math.Copysign(1, float64(j)) })
			}
		}
		both := describers("nn")
		for _, f := range plantest.Run(t, both[0], x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, 1).Figures {
			if told := f.Value == nil && f.Low == nil && f.WhyNull == whyBeyond; f.Statistic != "usable_share" && f.Column != "" && told != beyond {
				t.Errorf("%v: %+v", size, f)
			}
		}
		for _, s := range plantest.Run(t, both[1], x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, 1).Scales {
			if (s.Scale == nil) != beyond || strings.Contains(s.Note, "1e18") != beyond {
				t.Errorf("%v: %+v", size, s)
			}
		}
	}
}

// Two numbers are written so that they are seen to differ.
func TestNumbersAreToldApart(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{440.123, 1480.55, "440.1 1481"}, {1794700000, 1795310000, "1794700000 1795310000"}, {5, 5, "5 5"}, {2007, 2009, "2007 2009"}, {-1e-9, 0, "-1e-09 0"}} {
		if got := inDigits(c.low, digitsToTell(c.low, c.high)) + " " + inDigits(c.high, digitsToTell(c.low, c.high)); got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// Where three of four values are 0, the third quartile may be any number between them and the others, and the cut with it.
// A mean that is cut there is not given.
func TestAMeanIsNotThatOfAnAtom(t *testing.T) {
	const n, mean = 1234, .28 * 60_000
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		x := table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			plantest.SetRow(x, i, func(int) float64 { return indicatorOf(r.Float64() < .28) * 2000 * math.Exp(2.6*r.NormFloat64()) })
		}
		for _, f := range plantest.Run(t, describers("nn")[0], x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Figures {
			if f.Statistic == "mean" && f.Value != nil && *f.Value < mean/100 {
				t.Errorf("%v for a mean of about %v: %+v", *f.Value, mean, f)
			}
		}
	}
}

// Where three of four whole numbers are 0 and the others 1, the number between them that is selected as a quartile is no unit.
func TestAMeanOfZerosAndOnes(t *testing.T) {
	const n = 20_000
	for seed := range uint64(20) {
		x := table.Data{Shape: table.Shape{N: n}, Y: make([]float64, n)}
		for i := range n {
			x.Y[i] = indicatorOf(i%4 == 0)
		}
		for _, f := range plantest.Run(t, Figures{Columns: []Column{{Name: "a", Whole: true}}}, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Figures {
			if f.Low == nil || f.Statistic == "mean" && !(math.Abs(*f.Value-.25) < .02 && *f.High-*f.Low < .05) {
				t.Errorf("%+v", f)
			}
		}
	}
}

// Where noise could hide values that carry a mean, as in few rows, the reason why it has no interval says so, and of a column of
// few whole numbers what serves.
func TestTheReasonOfAMeanWithoutAnIntervalServes(t *testing.T) {
	told := map[string]int{}
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 5))
		x := table.Data{Shape: table.Shape{N: 5000, D: 5}, X: table.NewColumns(5, 5000), Y: make([]float64, 5000)}
		for i := range x.N {
			plantest.SetRow(x, i, func(j int) float64 {
				return indicatorOf(r.Float64() < .2) + float64(max(j, 0))*math.Round(100*r.NormFloat64())
			})
		}
		named := make([]Column, 6)
		for j := range named {
			named[j] = Column{Name: fmt.Sprint(j), Whole: true}
		}
		for _, f := range plantest.Run(t, Figures{Columns: named}, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Figures {
			if f.Statistic == "mean" && f.WhyNull != "" {
				told[f.Column]++
				if want := map[bool]string{true: whyFewLevels, false: whyFewHidden}[f.Column < "2"]; f.WhyNull != want {
					t.Errorf("%+v", f)
				}
			}
		}
	}
	if told["0"] < 5 || told["5"] < 2 {
		t.Error(told)
	}
}

// The note of a scale says so where half of the values are equal.
func TestTheNoteOfEqualValues(t *testing.T) {
	x := table.Data{Shape: table.Shape{N: 20_000}, Y: make([]float64, 20_000)}
	for i := range x.Y {
		x.Y[i] = indicatorOf(i%2 == 0)
	}
	for _, s := range plantest.Run(t, Scales{Columns: []Column{{Name: "a", Whole: true}}}, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, 1).Scales {
		if s.Note != "half of its values that are not 0, about 50 % of all, are 1" {
			t.Error(s.Note)
		}
	}
}
