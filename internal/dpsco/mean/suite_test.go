package mean

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// statistician is an estimator whose tests can see every sensitive value that
// one estimate would release, given the same earlier answers and the same draws
// of src that touch no noise.
type statistician interface {
	statistics(r Rows, hints Hints, src *mech.Source) []mech.Bounded
}

func (e *clipEstimator) statistics(r Rows, hints Hints, _ *mech.Source) []mech.Bounded {
	return []mech.Bounded{e.sum(r, hints)}
}

func (e *catoniEstimator) statistics(r Rows, _ Hints, _ *mech.Source) []mech.Bounded {
	return []mech.Bounded{e.sum(r)}
}

func (e *ksuEstimator) statistics(r Rows, hints Hints, _ *mech.Source) []mech.Bounded {
	return []mech.Bounded{e.counts(r), e.sum(r, e.clampToBins(hints.Centre))}
}

// design is a table of gradients in memory.
type design struct {
	x         [][]float64
	c         []float64
	intercept bool
}

// rows passes a in blocks of the given size, to as many visitors, side by side.
func (a design) rows(block, visitors int) Rows {
	d := len(a.x)
	if a.intercept {
		d++
	}
	return Rows{N: len(a.c), D: d, Range: func(visitor func() func(Block)) {
		var workers sync.WaitGroup
		blocks := make(chan int, len(a.c)/block+1)
		for start := 0; start < len(a.c); start += block {
			blocks <- start
		}
		close(blocks)
		visits := make([]func(Block), visitors)
		for k := range visits {
			visits[k] = visitor()
		}
		for _, visit := range visits {
			workers.Go(func() {
				for start := range blocks {
					end := min(start+block, len(a.c))
					b := Block{Start: start, X: mech.Rows{Intercept: a.intercept}, C: a.c[start:end]}
					for _, x := range a.x {
						b.X.X = append(b.X.X, x[start:end])
					}
					visit(b)
				}
			})
		}
		workers.Wait()
	}}
}

// zeros is n gradients of zero.
func zeros(n, d int) design {
	a := design{c: make([]float64, n)}
	for range d {
		a.x = append(a.x, make([]float64, n))
	}
	return a
}

// normal is n gradients of independent normal coordinates.
func normal(r *rand.Rand, n, d int) design {
	a := zeros(n, d)
	for i := range a.c {
		a.c[i] = r.NormFloat64()
		for _, x := range a.x {
			x[i] = r.NormFloat64()
		}
	}
	return a
}

// awkward is a number of a kind that breaks floating summation or clipping.
func awkward(r *rand.Rand) float64 {
	sign := float64(1 - 2*r.IntN(2))
	return sign * []float64{0, 5e-324, 1e-310, 1e-200, 0x1p-35, .5, 1, 1, 1, 3, 1000, r.NormFloat64(), 1e155, 1e300, math.MaxFloat64, math.Inf(1), math.NaN()}[r.IntN(17)]
}

// pair is two neighbours: awkward tables, extreme ones, ones with ties.
func pair(r *rand.Rand, n, d int) (a, b design) {
	a, b = zeros(n, d), zeros(n, d)
	a.intercept = r.IntN(3) == 0
	b.intercept = a.intercept
	kind := r.IntN(3)
	row := func(i int) {
		a.c[i] = awkward(r)
		for _, x := range a.x {
			x[i] = awkward(r)
		}
		if kind == 1 { // all coordinates extreme, or the same as another row
			a.c[i] = []float64{1e9, -1e9, 1e300, .5, -.5, 1}[r.IntN(6)]
			for _, x := range a.x {
				x[i] = 1
			}
		}
	}
	for i := range n {
		row(i)
	}
	copy(b.c, a.c)
	for j := range a.x {
		copy(b.x[j], a.x[j])
	}
	i := r.IntN(n)
	row(i)
	if kind == 2 { // the opposite
		a.c[i] = -b.c[i]
		for j := range a.x {
			a.x[j][i] = b.x[j][i]
		}
	}
	return a, b
}

// testMethod checks what every Method promises.
func testMethod(t *testing.T, m Method) {
	t.Run("sensitivity", func(t *testing.T) {
		for k, share := range largestShares(t, m, 4000) {
			switch {
			case share > 1:
				t.Errorf("a record moves statistic %d by %v of the stated bound", k, share)
			case share <= .5:
				t.Errorf("the pairs move statistic %d by only %v of the stated bound: half of it would pass", k, share)
			}
		}
	})
	t.Run("order and visitors", func(t *testing.T) { testOrder(t, m) })
	t.Run("cost falls with z", func(t *testing.T) { testCost(t, m) })
}

func at(t testing.TB, m Method, z float64, n, d int) Estimator {
	t.Helper()
	e, err := m.At(z, n, d)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// largestShares returns how far a replaced record moves each statistic at most,
// over the stated bound; more than 1 exactly when integers say so.
func largestShares(t *testing.T, m Method, pairs int) (largest []float64) {
	r := rand.New(rand.NewPCG(1, uint64(pairs)))
	estimators := map[[2]int]statistician{}
	for k := range pairs {
		a, b := pair(r, 2+r.IntN(7), 1+r.IntN(3))
		p, q := a.rows(3, 2), b.rows(3, 2)
		hints := Hints{Centre: make([]float64, p.D)}
		for j := range hints.Centre {
			hints.Centre[j] = []float64{0, .3, -.2}[r.IntN(3)]
		}
		e := estimators[[2]int{p.N, p.D}]
		if e == nil {
			e = at(t, m, 1, p.N, p.D).(statistician)
			estimators[[2]int{p.N, p.D}] = e
		}
		seed := uint64(k)
		before := e.statistics(p, hints, mechtest.Source(t, seed))
		after := e.statistics(q, hints, mechtest.Source(t, seed))
		largest = append(largest, make([]float64, len(before)-len(largest))...)
		for s := range before {
			largest[s] = math.Max(largest[s], share(t, before[s], after[s]))
		}
	}
	return largest
}

func share(t *testing.T, a, b mech.Bounded) float64 {
	square, bound := new(big.Int), mechtest.SquaredSensitivity(t, a)
	p, q := mechtest.Totals(t, a), mechtest.Totals(t, b)
	for j := range p {
		v := big.NewInt(p[j] - q[j])
		square.Add(square, v.Mul(v, v))
	}
	v, _ := new(big.Rat).SetFrac(square, bound).Float64()
	if square.Cmp(bound) > 0 {
		return 1 + v
	}
	return math.Sqrt(v)
}

// testCost checks that twice the multiplier costs a quarter.
func testCost(t *testing.T, m Method) {
	rho := func(z float64) float64 {
		e := at(t, m, z, 100, 3)
		total := privacy.Compose{e.Event()}
		if begin := e.Begin(); begin != nil {
			total = append(total, begin)
		}
		cost, err := privacy.Price(total)
		if err != nil {
			t.Fatal(err)
		}
		return cost.Rho
	}
	if ratio := rho(2) / rho(1); math.Abs(ratio-.25) > 1e-9 {
		t.Errorf("twice the noise costs %v times as much", ratio)
	}
}

// Shuffled rows, other blocks and other visitors give the same integers.
func testOrder(t *testing.T, m Method) {
	r := rand.New(rand.NewPCG(2, 2))
	const n, d = 1500, 3
	a := normal(r, n, d)
	for i := range 20 {
		a.c[i] = awkward(r)
	}
	shuffled := zeros(n, d)
	for to, from := range r.Perm(n) {
		shuffled.c[to] = a.c[from]
		for j := range d {
			shuffled.x[j][to] = a.x[j][from]
		}
	}
	variants := []Rows{a.rows(7, 3), a.rows(n, 1), a.rows(600, 5), shuffled.rows(100, 4)}
	hints := Hints{Centre: make([]float64, d)}
	want := at(t, m, 1, n, d).(statistician).statistics(a.rows(64, 1), hints, mechtest.Source(t, 1))
	for k, v := range variants {
		got := at(t, m, 1, n, d).(statistician).statistics(v, hints, mechtest.Source(t, 1))
		for s := range want {
			if !slices.Equal(mechtest.Totals(t, got[s]), mechtest.Totals(t, want[s])) {
				t.Errorf("variant %d: statistic %d differs", k, s)
			}
		}
	}
}
