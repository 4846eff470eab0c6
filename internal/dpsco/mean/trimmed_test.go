package mean

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

func onesOf(n int) []float64 {
	c := make([]float64, n)
	for i := range c {
		c[i] = 1
	}
	return c
}

// sumAndBound is trimmedSum of real values.
func sumAndBound(x []float64, trim int, g grid, smoothness float64) (int64, float64) {
	steps := make([]int64, len(x))
	for i, v := range x {
		steps[i] = g.steps(v)
	}
	return trimmedSum(steps, trim, g.limit, smoothness)
}

// multisets returns all sorted sequences of n values from a universe.
func multisets(universe []int64, n int) (all [][]int64) {
	if n == 0 {
		return [][]int64{nil}
	}
	for k, v := range universe {
		for _, rest := range multisets(universe[k:], n-1) {
			all = append(all, append([]int64{v}, rest...))
		}
	}
	return all
}

// replacements is how many records to replace to make b of a, both sorted.
func replacements(a, b []int64) int {
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			common, i, j = common+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return len(a) - common
}

func sortedTrimmedSum(x []int64, trim int) (sum int64) {
	for _, v := range x[trim : len(x)-trim] {
		sum += v
	}
	return sum
}

// The bound is the smooth sensitivity itself: the largest weighted change of the
// trimmed sum between any two neighbours, wherever they are, by exhaustion.
func TestSmoothBoundIsExhaustiveSearch(t *testing.T) {
	universe := []int64{-300, -120, 7, 300}
	for _, c := range []struct {
		n, trim    int
		smoothness float64
	}{{3, 1, .3}, {5, 1, .3}, {5, 2, .05}, {6, 2, 1}, {6, 1, 1e-12}} {
		all := multisets(universe, c.n)
		local := make([]float64, len(all))
		for a, x := range all {
			for _, y := range all {
				if replacements(x, y) == 1 {
					local[a] = max(local[a], math.Abs(float64(sortedTrimmedSum(x, c.trim)-sortedTrimmedSum(y, c.trim))))
				}
			}
		}
		for _, x := range all {
			want := 1.0
			for b, y := range all {
				want = max(want, local[b]*math.Exp(-c.smoothness*float64(replacements(x, y))))
			}
			shuffled := slices.Clone(x)
			rand.Shuffle(c.n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			sum, got := trimmedSum(shuffled, c.trim, 300, c.smoothness)
			if sum != sortedTrimmedSum(x, c.trim) || math.Abs(got/want-1) > 1e-7 {
				t.Fatalf("%v: sum %d, bound %v, want %d, %v", x, sum, got, sortedTrimmedSum(x, c.trim), want)
			}
		}
	}
}

// slowBound is the definition, term by term.
func slowBound(sorted []int64, trim int, limit int64, smoothness float64) float64 {
	at := func(k int) int64 { // 1-based
		switch {
		case k < 1:
			return -limit
		case k > len(sorted):
			return limit
		}
		return sorted[k-1]
	}
	n, most := len(sorted), 1.0
	for k := range n + 1 {
		for l := range k + 2 {
			most = max(most, math.Exp(-smoothness*float64(k))*float64(at(n-trim+1+k-l)-at(trim+1-l)))
		}
	}
	return most
}

// Selection, leaving out order statistics of little weight, and the search for the
// largest term change nothing.
func TestSmoothBoundIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 400 {
		n := 3 + r.IntN(300)
		trim := 1 + r.IntN((n-1)/2)
		x := make([]int64, n)
		for i := range x {
			x[i] = []int64{0, int64(1e3 * r.NormFloat64()), int64(math.Exp(12 * r.NormFloat64())), -1 << 30}[r.IntN(1+k%4)]
			x[i] = max(-1<<31, min(x[i], 1<<31))
		}
		smoothness := math.Exp(-8 * r.Float64())
		sorted := slices.Sorted(slices.Values(x))
		sum, got := trimmedSum(x, trim, 1<<31, smoothness)
		want := slowBound(sorted, trim, 1<<31, smoothness)
		if sum != sortedTrimmedSum(sorted, trim) || got < want || got > want*(1+1e-6) {
			t.Fatalf("n %d, trim %d, smoothness %v: bound %v, want %v", n, trim, smoothness, got, want)
		}
	}
}

// The golden value: a hundred zeros, 5 trimmed at each end of [-1, 1].
func TestSmoothBoundOfZeros(t *testing.T) {
	g := newGrid(-1, 1, 100)
	_, bound := sumAndBound(make([]float64, 100), 5, g, 1./16)
	if got := bound / g.scale / 90; math.Abs(got-1.1174e-2) > 5e-7 {
		t.Errorf("bound %v, want 1.1174e-2", got)
	}
}

// printedBound is the noise scale printed in the paper, in grid steps of the sum.
func printedBound(x []float64, trim int, g grid, smoothness float64) float64 {
	sorted := make([]int64, len(x))
	for i, v := range x {
		sorted[i] = g.steps(v)
	}
	slices.Sort(sorted)
	return max(float64(sorted[len(x)-1]-sorted[0]), math.Exp(-smoothness*float64(trim))*float64(2*g.limit), 1)
}

// wild is a value of a kind that breaks careless arithmetic, or a tie.
func wild(r *rand.Rand) float64 {
	return []float64{0, 0, .25, .25, 5e-324, -1, 1, 1, r.NormFloat64(), -1e9, 1e300, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}[r.IntN(15)]
}

// boundOf is a bound on how far one record moves the trimmed sum.
type boundOf func(x []float64, trim int, g grid, smoothness float64) float64

// failures counts pairs of wild neighbours between which the bound is too small
// or not smooth.
func failures(pairs int, bound boundOf) (count int) {
	r := rand.New(rand.NewPCG(3, uint64(pairs)))
	for k := range pairs {
		n := 3 + r.IntN(12)
		trim := 1 + r.IntN((n-1)/2)
		x := make([]float64, n)
		if k%4 > 0 { // else all are equal
			for i := range x {
				x[i] = wild(r)
			}
		}
		y := slices.Clone(x)
		y[r.IntN(n)] = wild(r)
		g := newGrid(-1, []float64{1, 2, 100}[r.IntN(3)], n)
		smoothness := []float64{1e-12, .01, .3, 3}[r.IntN(4)]
		sx, _ := sumAndBound(x, trim, g, smoothness)
		sy, _ := sumAndBound(y, trim, g, smoothness)
		bx, by := bound(x, trim, g, smoothness), bound(y, trim, g, smoothness)
		moved := math.Abs(float64(sx - sy))
		if moved > min(bx, by) || math.Abs(math.Log(bx/by)) > smoothness*(1+1e-9) {
			count++
		}
	}
	return count
}

func TestBoundIsSmoothOnWildNeighbours(t *testing.T) {
	exact := func(x []float64, trim int, g grid, smoothness float64) float64 {
		_, b := sumAndBound(x, trim, g, smoothness)
		return b
	}
	if k := failures(100_000, exact); k > 0 {
		t.Errorf("%d pairs", k)
	}
	for name, mutant := range map[string]boundOf{
		"the printed scale": printedBound,
		"half the bound":    func(x []float64, trim int, g grid, s float64) float64 { return exact(x, trim, g, s) / 2 },
		"10% too rough":     func(x []float64, trim int, g grid, s float64) float64 { return exact(x, trim, g, 1.1*s) },
	} {
		if failures(2000, mutant) == 0 {
			t.Errorf("the fuzz has no power against %s", name)
		}
	}
}

// All zeros against one outlier: the printed scale gives the pair away.
func TestOutlierDoesNotChangeTheScale(t *testing.T) {
	const smoothness = 1. / 16
	g := newGrid(-1, 1, 100)
	zeros := make([]float64, 100)
	outlier := slices.Clone(zeros)
	outlier[7] = 1e9
	_, a := sumAndBound(zeros, 5, g, smoothness)
	_, b := sumAndBound(outlier, 5, g, smoothness)
	if math.Abs(math.Log(a/b)) > smoothness {
		t.Errorf("scales %v and %v", a, b)
	}
	printed := printedBound(outlier, 5, newGrid(-1e9, 1e9, 100), 1) / printedBound(zeros, 5, newGrid(-1e9, 1e9, 100), 1)
	if math.Log(printed) <= smoothness {
		t.Error("the printed scale passes")
	}
}

// The sealed numbers depend on the rows as a set, not on blocks or visitors.
func TestTrimmedSumsDoNotDependOnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const n = 5000
	x, c := [][]float64{make([]float64, n), make([]float64, n)}, make([]float64, n)
	for i := range n {
		x[0][i], x[1][i], c[i] = wild(r), r.NormFloat64(), r.NormFloat64()
	}
	perm := r.Perm(n)
	shuffled, sc := [][]float64{make([]float64, n), make([]float64, n)}, make([]float64, n)
	for to, from := range perm {
		shuffled[0][to], shuffled[1][to], sc[to] = x[0][from], x[1][from], c[from]
	}
	numbers := func(rows Rows) (all []float64) {
		g := newGrid(-2, 5, n)
		columns := [][]int64{make([]int64, n), make([]int64, n)}
		rows.gather(columns, 0, g)
		for _, column := range columns {
			sum, bound := trimmedSum(column, 40, g.limit, .1)
			all = append(all, float64(sum), bound)
		}
		return all
	}
	want := numbers(design{x: x, c: c}.rows(n, 1))
	for _, rows := range []Rows{design{x: x, c: c}.rows(700, 3), design{x: shuffled, c: sc}.rows(64, 2)} {
		if got := numbers(rows); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// With an intercept, coordinate 0 is the coefficient itself.
func TestTrimmedMeanIsAccurate(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	const n, d = 20_000, 6
	x, c := make([][]float64, d-1), onesOf(n)
	for j := range x {
		x[j] = make([]float64, n)
		for i := range x[j] {
			x[j][i] = float64(j) + r.NormFloat64()
			if i%400 == 0 {
				x[j][i] = 1e300
			}
		}
	}
	rows := design{x, c, true}.rows(512, 2)
	e, err := TrimmedMean{Trim: TrimmedCount(1, n, d, -100, 100, 4), Low: -100, High: 100}.At(1, n, d)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float64, d)
	e.Estimate(got, rows, Hints{}, mechtest.Source(t, 1))
	for j, v := range got {
		want := float64(j - 1)
		if j == 0 {
			want = 1
		}
		if math.Abs(v-want) > .05 {
			t.Errorf("coordinate %d: %v, want %v", j, v, want)
		}
	}
	e.Estimate(got, rows, Hints{Norm: .5}, mechtest.Source(t, 2))
	if slices.Max(got) > .5 {
		t.Errorf("a bound of 0.5 on the norm is not kept: %v", got)
	}
}

// d coordinates cost 1/(2 z^2) together, whatever d.
func TestTrimmedMeanCostsWhatItsMultiplierSays(t *testing.T) {
	for _, z := range []float64{.5, 3, 1000} {
		for _, d := range []int{1, 7, 100} {
			e, err := TrimmedMean{5, -1, 1}.At(z, 100, d)
			if err != nil {
				t.Fatal(err)
			}
			cost, err := privacy.Price(privacy.Compose{e.Event()})
			if want := 1 / (2 * z * z); err != nil || math.Abs(cost.Rho/want-1) > 1e-9 || e.Begin() != nil {
				t.Errorf("z = %v, d = %d: rho %v, want %v", z, d, cost.Rho, want)
			}
		}
	}
}

// An estimate's noise has the scale that z and the bound say: the share of 2,000
// coordinates within one standard deviation is within five standard errors of
// its probability (a false alarm in 1.7 million seeds), and far from that of
// half the noise.
func TestTrimmedMeanNoise(t *testing.T) {
	const n, d, trim, z = 1000, 2000, 20, 2.
	e, err := TrimmedMean{trim, -1, 1}.At(z, n, d)
	if err != nil {
		t.Fatal(err)
	}
	noise, g := e.(*trimmedEstimator).noise, newGrid(-1, 1, n)
	_, bound := sumAndBound(make([]float64, n), trim, g, noise.Smoothness)
	std := noise.Std() * bound / g.scale / (n - 2*trim) // 0.3, a third of where answers are clamped
	got := make([]float64, d)
	e.Estimate(got, zeros(n, d).rows(n, 1), Hints{}, mechtest.Source(t, 3))
	fits := func(std float64) bool {
		const sigma, unit = .45, 1.1104 // the shape in use and its standard deviation
		share, want := 0., math.Erf(math.Asinh(sigma*unit)/sigma/math.Sqrt2)
		for _, v := range got {
			if math.Abs(v) < std {
				share += 1. / d
			}
		}
		return math.Abs(share-want) < 5*math.Sqrt(want*(1-want)/d)
	}
	if !fits(std) {
		t.Error("wrong noise")
	}
	if fits(2*std) || fits(std/2) {
		t.Error("the test has no power against twice or half the noise")
	}
}

func TestTrimmedMeanChecksItsParameters(t *testing.T) {
	for _, c := range []struct {
		TrimmedMean
		z    float64
		n, d int
	}{
		{TrimmedMean{0, -1, 1}, 1, 100, 1}, {TrimmedMean{50, -1, 1}, 1, 100, 1}, {TrimmedMean{5, 1, 1}, 1, 100, 1}, {TrimmedMean{5, math.NaN(), 1}, 1, 100, 1},
		{TrimmedMean{5, math.Inf(-1), 1}, 1, 100, 1}, {TrimmedMean{5, 0, 5e-324}, 1, 100, 1}, {TrimmedMean{5, -1, 1}, 1, 100, 0}, {TrimmedMean{5, -1, 1}, math.NaN(), 100, 1},
	} {
		if e, err := c.At(c.z, c.n, c.d); !errors.Is(err, mech.ErrParams) || e != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got := TrimmedCount(1, 19, 1, -1, 1, 1); got != 0 {
		t.Errorf("19 rows: trim %d", got)
	}
	if got := TrimmedCount(1, 100_000, 4, -100, 100, 2); got != 62 { // ln(100)/0.075 = 61.4
		t.Errorf("trim %d, want 62", got)
	}
}

// BenchmarkTrimmedMean reports nanoseconds per record and coordinate on one
// core, and the ratio to adding up the same columns in float64.
func BenchmarkTrimmedMean(b *testing.B) {
	const n, d = 1 << 18, 10
	r := rand.New(rand.NewPCG(5, 5))
	x, c := make([][]float64, d), make([]float64, n)
	for i := range c {
		c[i] = r.NormFloat64()
	}
	for j := range x {
		x[j] = make([]float64, n)
		for i := range x[j] {
			x[j][i] = math.Exp(2 * r.NormFloat64())
		}
	}
	rows := design{x: x, c: c}.rows(2048, 1)
	for name, trim := range map[string]int{"trim 0.1%": n / 1000, "trim 5%": n / 20} {
		b.Run(name, func(b *testing.B) {
			columns := [][]int64{make([]int64, n)}
			g := newGrid(-100, 100, n)
			own, plain := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				for j := range d {
					rows.gather(columns, j, g)
					trimmedSum(columns[0], trim, g.limit, .01)
				}
				middle := time.Now()
				total := 0.0
				for _, column := range x {
					for _, v := range column {
						total += v
					}
				}
				own, plain = min(own, middle.Sub(start)), min(plain, time.Since(middle))
				if math.IsNaN(total) {
					b.Fatal("not a number")
				}
			}
			b.ReportMetric(float64(own.Nanoseconds())/n/d, "ns/coordinate")
			b.ReportMetric(float64(own)/float64(plain), "x-plain-sum")
		})
	}
}
