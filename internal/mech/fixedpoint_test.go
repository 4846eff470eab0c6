package mech

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// awkward is a number of a kind that breaks floating summation or clipping.
func awkward(r *rand.Rand) float64 {
	sign := float64(1 - 2*r.IntN(2))
	return sign * []float64{0, 5e-324, 1e-310, 1e-200, 0x1p-35, 0x1p-41, .6, .8, 1, 1, 1, 3, r.NormFloat64(), 1e155, 1e300, math.MaxFloat64,
		math.Inf(1), math.NaN()}[r.IntN(18)]
}

func awkwardSlice(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = awkward(r)
	}
	if n > 1 && r.IntN(4) == 0 { // ties
		v[0] = v[n-1]
	}
	return v
}

// table is a small design: rows by columns and a coefficient for each row.
type table struct {
	rows Rows
	c    []float64
}

func awkwardTable(r *rand.Rand, n, d int, intercept bool) table {
	t := table{Rows{Intercept: intercept}, awkwardSlice(r, n)}
	for range d {
		t.rows.X = append(t.rows.X, awkwardSlice(r, n))
	}
	return t
}

// neighbour returns a copy of t in which one row is another.
func (t table) neighbour(r *rand.Rand) table {
	other := table{Rows{Intercept: t.rows.Intercept}, slices.Clone(t.c)}
	i := r.IntN(len(t.c))
	other.c[i] = awkward(r)
	for _, x := range t.rows.X {
		x = slices.Clone(x)
		x[i] = awkward(r)
		other.rows.X = append(other.rows.X, x)
	}
	return other
}

// flipped returns a copy of t in which one row has changed sign.
func (t table) flipped(r *rand.Rand) table {
	other := table{t.rows, slices.Clone(t.c)}
	other.c[r.IntN(len(t.c))] *= -1
	return other
}

func sumOf(c Contract, t table) []int64 {
	s := NewSum(c)
	s.AddRows(t.rows, t.c)
	return s.totals
}

// distance returns how far apart two sums are: squared in l2, and in the
// largest coordinate.
func distance(a, b []int64) (square, largest *big.Int) {
	square, largest = new(big.Int), new(big.Int)
	for j := range a {
		diff := big.NewInt(a[j] - b[j])
		if diff.CmpAbs(largest) > 0 {
			largest.Abs(diff)
		}
		square.Add(square, diff.Mul(diff, diff))
	}
	return square, largest
}

// A replaced record moves no sum by more than its stated sensitivity, exactly;
// some move it by all but a billionth of that, so a smaller bound would fail,
// as TestHalfTheSensitivityIsRefuted says.
func TestSensitivityHoldsOnAwkwardNeighbours(t *testing.T) {
	share := largestShares(t, 100_000)
	for norm, v := range share {
		if v > 1 {
			t.Errorf("%s: moved by %v of the sensitivity", norm, v)
		}
	}
}

func TestHalfTheSensitivityIsRefuted(t *testing.T) {
	for norm, v := range largestShares(t, 2000) {
		if v < 1-1e-8 {
			t.Errorf("%s: the fuzz reaches only %v of the sensitivity; it would miss C for 2C", norm, v)
		}
	}
}

// largestShares returns the largest movement over the stated sensitivity in
// pairs of neighbours, half of them for each norm; it is more than 1 exactly
// when integers say so.
func largestShares(t *testing.T, pairs int) map[Norm]float64 {
	r := rand.New(rand.NewPCG(1, uint64(pairs)))
	shares := map[Norm]float64{}
	for k := range pairs {
		norm := []Norm{L2, LInf}[k%2]
		n, d, intercept := 1+r.IntN(4), 1+r.IntN(4), r.IntN(3) == 0
		c := Contract{norm, []float64{1, .3, 1e-100, 7e100}[r.IntN(4)], n, d}
		if r.IntN(8) == 0 {
			c.N = 1 << (20 + r.IntN(21)) // coarser grids
		}
		if intercept {
			c.D++
		}
		a := awkwardTable(r, n, d, intercept)
		b := a.neighbour(r)
		if r.IntN(4) == 0 {
			b = a.flipped(r)
		}
		shares[norm] = math.Max(shares[norm], share(c, sumOf(c, a), sumOf(c, b)))
	}
	return shares
}

func share(c Contract, p, q []int64) float64 {
	square, largest := distance(p, q)
	moved, bound := square, c.l2Squared()
	if c.Norm == LInf { // each coordinate has its own bound, from which the l2 bound follows
		moved, bound = largest.Mul(largest, largest), bound.Lsh(big.NewInt(1), 2*(c.bits()+1))
	}
	m, _ := moved.Float64()
	b, _ := bound.Float64()
	if moved.Cmp(bound) > 0 {
		return 1 + math.Sqrt(m/b)
	}
	return math.Sqrt(m / b)
}

// A build without the clamp, or without the check of the integers, is caught by
// the fuzz above because its tables hold such rows; here they are one by one.
func TestClampIsNeeded(t *testing.T) {
	for _, c := range []Contract{{LInf, 1, 1, 2}, {L2, 1, 1, 2}} {
		for _, v := range [][]float64{{1e300, 1e300}, {1e9, 1e9}, {3, 4}, {1, math.Ldexp(1, -35)}, {math.Ldexp(1, 900), math.Ldexp(1, 865)}} {
			limit := math.Ldexp(1, int(c.bits()))
			unclamped := math.Hypot(v[0]*c.scale(), v[1]*c.scale())
			q := sumOf(c, table{Rows{X: [][]float64{v[:1], v[1:]}}, []float64{1}})
			square, largest := distance(q, []int64{0, 0})
			size := largest
			bound := big.NewInt(1 << c.bits())
			if c.Norm == L2 {
				size, bound = square, bound.Mul(bound, bound)
			}
			if size.Cmp(bound) > 0 {
				t.Errorf("%s: %v became %v", c.Norm, v, q)
			}
			if unclamped < limit {
				t.Errorf("%v needs no clamp", v)
			}
			if float64(q[0]) < .59*limit {
				t.Errorf("%s: %v lost more than clipping takes: %v", c.Norm, v, q)
			}
		}
	}
}

// In the unproved path rounding can make integers too long by a little: they are
// shortened once, by 2^-20.
func TestIntegersThatAreTooLongAreShortened(t *testing.T) {
	s := NewSum(Contract{L2, 1, 1, 2})
	s.Add([]float64{0x1p1000, 0x1p965})
	want := []int64{1<<40 - 1<<20, 1<<5 - 1}
	if !slices.Equal(s.totals, want) {
		t.Errorf("got %v, want %v", s.totals, want)
	}
}

func TestWhatIsNotFiniteIsNeutral(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, c := range []struct {
			Contract
			want []int64
		}{{Contract{L2, 1, 1, 2}, []int64{0, 0}}, {Contract{LInf, 1, 1, 2}, []int64{0, 1 << 39}}} {
			s := NewSum(c.Contract)
			s.Add([]float64{bad, .5})
			if !slices.Equal(s.totals, c.want) {
				t.Errorf("%s of (%v, 0.5): %v, want %v", c.Norm, bad, s.totals, c.want)
			}
			s = NewSum(c.Contract)
			s.AddRows(Rows{X: [][]float64{{1}}, Intercept: true}, []float64{bad})
			if !slices.Equal(s.totals, []int64{0, 0}) {
				t.Errorf("%s: coefficient %v adds %v", c.Norm, bad, s.totals)
			}
		}
	}
}

// Ordinary rows lose at most the cut to the grid, and clipped ones a billionth.
func TestContributionsAreAccurate(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		v := []float64{r.NormFloat64(), r.NormFloat64(), 1e3 * r.NormFloat64() * float64(r.IntN(2))}
		const bound = 3
		norm := math.Hypot(math.Hypot(v[0], v[1]), v[2])
		for _, contract := range []Norm{L2, LInf} {
			c := Contract{contract, bound, 1, 3}
			s := NewSum(c)
			s.Add(v)
			for j, q := range s.totals {
				want := v[j] * math.Min(1, bound/norm)
				if contract == LInf {
					want = math.Max(-bound, math.Min(v[j], bound))
				}
				if got := float64(q) / c.scale(); math.Abs(got-want) > 1e-8 {
					t.Fatalf("%s: coordinate %d of %v is %v, want %v", contract, j, v, got, want)
				}
			}
		}
	}
}

// Sums are the same whatever the order of rows, the blocks they come in, and the
// number of parts that are merged.
func TestSumsDoNotDependOnOrderOrParts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n, d = 3000, 5
	a := awkwardTable(r, n, d, true)
	for _, norm := range []Norm{L2, LInf} {
		c := Contract{norm, 1, n, d + 1}
		want := sumOf(c, a)
		shuffled := table{Rows{Intercept: true}, make([]float64, n)}
		for range d {
			shuffled.rows.X = append(shuffled.rows.X, make([]float64, n))
		}
		for to, from := range r.Perm(n) {
			shuffled.c[to] = a.c[from]
			for j := range d {
				shuffled.rows.X[j][to] = a.rows.X[j][from]
			}
		}
		if got := sumOf(c, shuffled); !slices.Equal(got, want) {
			t.Errorf("%s: shuffled rows give %v, want %v", norm, got, want)
		}
		if got := inParts(c, a, r); !slices.Equal(got, want) {
			t.Errorf("%s: parts give %v, want %v", norm, got, want)
		}
	}
}

func inParts(c Contract, t table, r *rand.Rand) []int64 {
	total := NewSum(c)
	parts := make(chan *Sum)
	count := 0
	for start := 0; start < len(t.c); count++ {
		end := min(len(t.c), start+1+r.IntN(700))
		part := table{Rows{Intercept: t.rows.Intercept}, t.c[start:end]}
		for _, x := range t.rows.X {
			part.rows.X = append(part.rows.X, x[start:end])
		}
		s := total.Fork()
		go func() {
			s.AddRows(part.rows, part.c)
			parts <- s
		}()
		start = end
	}
	for range count {
		total.Merge(<-parts)
	}
	return total.totals
}

// AddRows and Add are the same function of a record.
func TestRowsAreVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, norm := range []Norm{L2, LInf} {
		const n, d = 600, 3
		a := awkwardTable(r, n, d, false)
		for i := range a.c {
			a.c[i] = []float64{0, 1, -1}[r.IntN(3)] // products are exact
		}
		s := NewSum(Contract{norm, 1, n, d})
		v := make([]float64, d)
		for i := range n {
			a.rows.scaled(v, i, a.c[i])
			s.Add(v)
		}
		if want := sumOf(s.contract, a); !slices.Equal(s.totals, want) {
			t.Errorf("%s: one by one %v, in rows %v", norm, s.totals, want)
		}
	}
}

func TestContractCheck(t *testing.T) {
	good := Contract{L2, 1, 1, 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Contract){
		func(c *Contract) { c.Norm = "" }, func(c *Contract) { c.Bound = 0 }, func(c *Contract) { c.Bound = math.NaN() },
		func(c *Contract) { c.Bound = math.Inf(1) }, func(c *Contract) { c.Bound = -1 }, func(c *Contract) { c.N = 0 },
		func(c *Contract) { c.N = 1<<40 + 1 }, func(c *Contract) { c.D = 0 }, func(c *Contract) { c.D = 1<<20 + 1 },
	} {
		c := good
		change(&c)
		if err := c.Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for n, want := range map[int]uint{1: 40, 1 << 21: 40, 1<<21 + 1: 39, 1 << 40: 21} {
		if got := (Contract{N: n}).bits(); got != want {
			t.Errorf("%d records: %d bits, want %d", n, got, want)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestMisuseOfSumsPanics(t *testing.T) {
	c := Contract{L2, 1, 2, 2}
	full := NewSum(c)
	full.AddRows(Rows{X: [][]float64{{1}}, Intercept: true}, []float64{1})
	full.Add([]float64{1, 1})
	once := NewSum(c).Bounded()
	Gaussian{1}.Release(make([]float64, 2), once, testSource(t, 1))
	for name, f := range map[string]func(){
		"a bad contract":           func() { NewSum(Contract{}) },
		"a record too many":        func() { full.Add([]float64{1, 1}) },
		"a merged record too many": func() { p := full.Fork(); p.Add([]float64{1, 1}); full.Merge(p) },
		"a short vector":           func() { NewSum(c).Add([]float64{1}) },
		"a column too few":         func() { NewSum(c).AddRows(Rows{X: [][]float64{{1}}}, []float64{1}) },
		"a short column":           func() { NewSum(c).AddRows(Rows{X: [][]float64{{1}, {}}}, []float64{1}) },
		"another contract":         func() { NewSum(c).Merge(NewSum(Contract{LInf, 1, 2, 2})) },
		"a second release":         func() { Gaussian{1}.Release(make([]float64, 2), once, testSource(t, 1)) },
		"no value":                 func() { Gaussian{1}.Release(nil, Bounded{}, testSource(t, 1)) },
		"a short release":          func() { Gaussian{1}.Release(make([]float64, 1), NewSum(c).Bounded(), testSource(t, 1)) },
		"sums of all beside":       func() { full.AddSummed(make([]int64, 2)) },
		"sums of another length":   func() { NewSum(c).AddSummed(make([]int64, 1)) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func TestBoundedDoesNotPrint(t *testing.T) {
	s := NewSum(Contract{LInf, 1, 1, 1})
	s.Add([]float64{1})
	secret := fmt.Sprint(s.totals[0])
	type wrapped struct {
		sum *Sum
		b   Bounded
		f   Smoothed
	}
	w := wrapped{s, s.Fork().Bounded(), NewSmoothed(1<<40, 1, 1, 1)}
	w.b.totals[0] = s.totals[0]
	for _, v := range []any{s, *s, w.b, &w.b, w.f, &w.f, w, &w} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, secret) || strings.Contains(text, "e+12") {
				t.Errorf("%s of %T prints the value: %s", verb, v, text)
			}
		}
	}
}

// Outside this package, no expression reads what Bounded, Sum or Smoothed hold:
// the compiler refuses each of these lines and accepts the same file without them.
func TestOnlyMechanismsReadSensitiveValues(t *testing.T) {
	leaks := []string{"_ = b.totals", "_ = b.sealed", "_ = s.totals", "_ = s.accumulator", "_ = f.value", "_ = f.smoothed", "_, _ = b.unseal()", "for range b {}", "_ = []int64(b)"}
	program := func(lines []string) string {
		return "package leak\n\nimport \"dpsidecar/internal/mech\"\n\nfunc Leak(b mech.Bounded, s *mech.Sum, f mech.Smoothed) {\n" +
			"\tb = s.Bounded()\n\tmech.Gaussian{NoiseMultiplier: 1}.Release(nil, b, nil)\n" + strings.Join(lines, "\n") + "\n}\n"
	}
	if out, err := compile(t, program(nil)); err != nil {
		t.Fatalf("the harmless file does not compile: %s", out)
	}
	out, err := compile(t, program(leaks))
	if err == nil {
		t.Fatal("the compiler accepts reading sensitive values")
	}
	for i := range leaks {
		if !strings.Contains(out, fmt.Sprintf("leak.go:%d:", 8+i)) {
			t.Errorf("the compiler accepts %q:\n%s", leaks[i], out)
		}
	}
}

// compile builds a package beside this one that exists only for the compiler.
func compile(t *testing.T, program string) (output string, err error) {
	dir := t.TempDir()
	real, overlay := filepath.Join(dir, "leak.go"), filepath.Join(dir, "overlay.json")
	here, err := filepath.Abs("leak")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{real: program, overlay: fmt.Sprintf(`{"Replace":{%q:%q}}`, filepath.Join(here, "leak.go"), real)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "build", "-overlay", overlay, "./leak").CombinedOutput()
	return string(out), err
}

// BenchmarkSum reports nanoseconds per record and coordinate on one core, and
// the ratio to a pass that only sums the same columns in float64.
func BenchmarkSum(b *testing.B) {
	const n, d = 1 << 18, 10
	r := rand.New(rand.NewPCG(5, 5))
	rows := Rows{}
	c := make([]float64, n)
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
	for _, norm := range []Norm{L2, LInf} {
		b.Run(string(norm), func(b *testing.B) {
			s := NewSum(Contract{norm, 3, n, d})
			own, plain := time.Hour, time.Hour // the fastest runs, in turn: the machine has other work
			for b.Loop() {
				start := time.Now()
				s.AddRows(rows, c)
				s.clear()
				middle := time.Now()
				plainPass(rows)
				own, plain = min(own, middle.Sub(start)), min(plain, time.Since(middle))
			}
			b.ReportMetric(float64(own.Nanoseconds())/n/d, "ns/coordinate")
			b.ReportMetric(float64(own)/float64(plain), "x-plain-sum")
		})
	}
}

var plainSum float64

// plainPass sums the columns, with four sums at a time so that it does not wait
// for additions.
func plainPass(rows Rows) {
	var a, b, c, d float64
	for _, x := range rows.X {
		for ; len(x) >= 4; x = x[4:] {
			a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
		}
	}
	plainSum = a + b + c + d
}

// Columns are added four at a time where floating point proves all rows of a block, and one at a time
// where it does not: a row alone in its block gives the same integers as among others.
func TestSumsAreThoseOfSingleRows(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for d := 1; d <= 9; d++ {
		for _, awkward := range []bool{false, true} {
			const n = 300
			whole := table{Rows{Intercept: d%2 == 0}, make([]float64, n)}
			for i := range whole.c {
				whole.c[i] = r.NormFloat64()
			}
			for range d {
				x := make([]float64, n)
				for i := range x {
					x[i] = r.NormFloat64()
				}
				whole.rows.X = append(whole.rows.X, x)
			}
			if awkward {
				whole.rows.X[0][7], whole.rows.X[d-1][280] = 1e200, math.NaN()
			}
			c := Contract{L2, 1, n, whole.rows.dimension()}
			alone := NewSum(c)
			for i := range n {
				row := Rows{Intercept: whole.rows.Intercept}
				for _, x := range whole.rows.X {
					row.X = append(row.X, x[i:i+1])
				}
				alone.AddRows(row, whole.c[i:i+1])
			}
			if !slices.Equal(alone.totals, sumOf(c, whole)) {
				t.Errorf("%d columns: %v row by row, %v together", d, alone.totals, sumOf(c, whole))
			}
		}
	}
}

// The length of a row is computed only where its square does not show that the row is short: that
// changes no factor.
func TestShortRowsNeedNoRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 10))
	s := NewSum(Contract{L2, 1, 256, 1})
	limit := float64(s.limit) * provedLimit
	for range 200 {
		x, c := awkwardSlice(r, 256), awkwardSlice(r, 256)
		for i := range x {
			if i%2 == 0 { // about as long as the bound, and as large and small as can be
				x[i] = math.Ldexp(1+r.NormFloat64()*0x1p-38, r.IntN(2100)-1050)
				c[i] = 1 / x[i]
			}
		}
		s.prepare(Rows{X: [][]float64{x}}, 0, 256, c)
		for i, v := range s.square {
			factor, proved := c[i]*s.scale, int64(-1)
			length := math.Abs(factor) * math.Sqrt(v)
			if length > limit {
				factor *= limit / length
			}
			if !(length <= 0x1p900) {
				proved = 0
			}
			if math.Float64bits(factor) != math.Float64bits(s.factor[i]) || proved != s.proved[i] {
				t.Fatalf("%v times %v: factor %v, proved %v; want %v, %v", c[i], x[i], s.factor[i], s.proved[i], factor, proved)
			}
		}
	}
}

// Sums of more records than may be are cut to what noise can be added to.
func TestSumsOfMoreRecordsAreCut(t *testing.T) {
	s := NewSum(Contract{L2, 1, 2, 3})
	s.AddSummed([]int64{math.MaxInt64, math.MinInt64, 7})
	if got := s.Bounded().totals; !slices.Equal(got, []int64{1 << 62, -1 << 62, 7}) {
		t.Errorf("%d", got)
	}
}
