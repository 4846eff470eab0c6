package dpsco

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// mostFellows is Data.MaxRows in these tests.
const mostFellows = 5

// grouped makes records of some sizes of rows in their order.
func grouped(x Data, sizes []int) Data {
	x.N, x.MaxRows, x.First = len(sizes), mostFellows, []int{0}
	for _, m := range sizes {
		x.First = append(x.First, x.First[len(x.First)-1]+m)
	}
	return x
}

// recordNeighbours are tables of records of one to five rows, of which one is replaced by
// another of perhaps another size: by rows that break arithmetic, by as many extreme ones as
// there may be where there was one that says nothing, or by its opposite.
func recordNeighbours(r *rand.Rand, s Shape, labels bool) (a, b Data) {
	sizes := make([]int, s.N)
	total := 0
	for u := range sizes {
		sizes[u] = 1 + r.IntN(mostFellows)
		total += sizes[u]
	}
	changed := r.IntN(s.N)
	rows := s
	rows.N = total
	x, _ := neighbours(r, rows, labels)
	rows.N = mostFellows
	y, z := neighbours(r, rows, labels)
	switch r.IntN(4) {
	case 0: // many extreme rows for none
		for i := range mostFellows {
			y.set(i, func(int) float64 { return 1e6 })
			z.set(i, func(int) float64 { return math.NaN() })
			if labels {
				y.Y[i] = 1
			}
		}
	case 1: // the opposite
		v := hostile(r)
		for i := range mostFellows {
			y.set(i, func(int) float64 { return v })
			z.set(i, func(j int) float64 { return math.Copysign(v, float64(j)) })
		}
	}
	return withRecord(x, sizes, changed, y, 1+r.IntN(mostFellows)), withRecord(x, sizes, changed, z, 1+r.IntN(mostFellows))
}

// withRecord is a table of records of which one has the first rows of y.
func withRecord(x Data, sizes []int, changed int, y Data, size int) Data {
	first := 0
	for _, m := range sizes[:changed] {
		first += m
	}
	put := func(column, rows []float64) []float64 {
		return slices.Concat(column[:first], rows[:size], column[first+sizes[changed]:])
	}
	out := Data{Shape: x.Shape, Y: put(x.Y, y.Y)}
	for j, column := range x.X {
		out.X = append(out.X, put(column, y.X[j]))
	}
	sizes = slices.Clone(sizes)
	sizes[changed] = size
	return grouped(out, sizes)
}

// Whatever a person's rows become, and however many, the integers of every release move by no
// more than its noise is scaled to hide, and given the answers nothing else differs: of every
// method of every model.
func TestReplaysOfRecordsOfSeveralRows(t *testing.T) {
	largest := map[string]float64{}
	replayed := func(name string, plan func() *Plan, x, y Data) {
		shares, err := replay(t, plan, x, y)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for kind, share := range shares {
			largest[kind] = max(largest[kind], share)
		}
	}
	requests := replays()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		a, r := requests[name], rand.New(rand.NewPCG(5, uint64(len(name))))
		for k := range 6 {
			s := Shape{N: 23, D: 2 + k%2, Intercept: k%3 == 0}
			plan := func() *Plan {
				p, err := Scaled{Algorithm: a, X: repeat(1, s.Columns()), Y: 1, MaxRows: mostFellows}.Plan(s, generous, privacy.Concentrated{})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return p
			}
			x, y := recordNeighbours(r, s, a.Labels)
			if _, counts := a.Loss.(loss.Poisson); counts && k%2 == 0 { // a row's offset is its own
				x.Offset, y.Offset = slices.Clone(x.Y), slices.Clone(y.Y)
			}
			replayed(name, plan, x, y)
		}
	}
	for name, a := range jointFits() {
		replayFits(name, a, 40, false, replayed, t)
	}
	for name, a := range newtonFits() {
		_, labels := a.Curve.(logisticCurve)
		replayFits(name, a, 40, labels, replayed, t)
	}
	for _, kind := range slices.Sorted(maps.Keys(largest)) {
		t.Logf("%-50s %.3f", kind, largest[kind])
		if largest[kind] < 0.15 {
			t.Errorf("%s: moved by %v of its bound at most", kind, largest[kind])
		}
	}
}

func replayFits(name string, f fit, pairs int, labels bool, replayed func(string, func() *Plan, Data, Data), t *testing.T) {
	r := rand.New(rand.NewPCG(6, uint64(len(name))))
	for k := range pairs {
		s := Shape{N: 1 + r.IntN(23), D: 1 + k%3, Intercept: k%2 == 0}
		x, y := recordNeighbours(r, s, labels)
		replayed(name, func() *Plan { return planOf(t, f, s, 0.3) }, x, y)
	}
}

func TestReplaysOfScoresOfRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for name, a := range scores() {
		for _, delta := range []float64{0, 1e-3} {
			for range 60 {
				s := Shape{N: 1 + r.IntN(23), D: len(a.Coefficients), Intercept: true}
				a.MaxRows = mostFellows
				x, y := recordNeighbours(r, s, a.Labels)
				_, err := replay(t, func() *Plan {
					p, err := a.Plan(s, privacy.Budget{Epsilon: 20, Delta: delta}, privacy.Concentrated{})
					if err != nil {
						t.Fatal(err)
					}
					return p
				}, x, y)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
}

// gradientsOf returns what every record hands to an estimator.
func gradientsOf(x Data, w []float64) [][]float64 {
	all := make([][]float64, x.N)
	gradients{loss: loss.Squared{}, data: x, w: w}.rows().Range(func() func(mean.Block) {
		return func(b mean.Block) {
			for i, c := range b.C {
				row := make([]float64, len(b.X.X))
				for j := range row {
					row[j] = c * b.X.X[j][i]
				}
				all[b.Start+i] = row
			}
		}
	})
	return all
}

// Every other record hands on the same bits, in tables of many blocks.
func TestAnotherRecordKeepsItsBits(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	same := func(v, w float64) bool { return v == w || math.IsNaN(v) && math.IsNaN(w) }
	for range 40 {
		s := Shape{N: 1 + r.IntN(3*blockRows), D: 3, Intercept: true}
		x, y := recordNeighbours(r, s, false)
		w := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		a, b, differ := gradientsOf(x, w), gradientsOf(y, w), 0
		for u := range a {
			if !slices.EqualFunc(a[u], b[u], same) {
				differ++
			}
		}
		if differ > 1 {
			t.Fatalf("%d of %d records changed", differ, s.N)
		}
	}
}

// A person with a row many times is one with that row once, to every method: weights of 1
// instead of 1/m would count it as many times.
func TestARowSeveralTimesCountsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	s := Shape{N: 4000, D: 3, Intercept: true}
	x := Data{Shape: s, X: columns(2, s.N), Y: make([]float64, s.N)}
	sizes := make([]int, s.N)
	for i := range s.N {
		x.set(i, func(int) float64 { return math.Round(8*r.NormFloat64()) / 8 })
		sizes[i] = []int{1, 2, 4}[r.IntN(3)]
	}
	several := Data{Shape: s, X: make([][]float64, 2)}
	for i, m := range sizes {
		for range m {
			several.Y = append(several.Y, x.Y[i])
			for j := range several.X {
				several.X[j] = append(several.X[j], x.X[j][i])
			}
		}
	}
	several = grouped(several, sizes)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if method == "newton" {
			continue
		}
		a := Regression{Loss: loss.Squared{}, Method: method, Whitening: "off"}
		run := func(x Data) []float64 {
			p, err := Scaled{Algorithm: a, X: repeat(1, 2), Y: 1}.Plan(s, privacy.Budget{Epsilon: 5, Delta: 1e-3}, privacy.Concentrated{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 3)))
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		one, more := run(x), run(several)
		for j := range one {
			if math.Abs(one[j]-more[j]) > 1e-4 {
				t.Errorf("%s: %v of rows once, %v of rows several times", method, one, more)
				break
			}
		}
	}
}

// Second moments of records are means over persons of means over rows.
func TestSecondMomentsOfRecords(t *testing.T) {
	x := grouped(Data{Shape: Shape{D: 1}, X: [][]float64{{1, 0.5, 0.5, 0, 0, 1}}, Y: make([]float64, 6)}, []int{1, 2, 3})
	h := secondMoments(x, mech.MomentContract{Bound: 1, N: 3, D: 1}, mech.Gaussian{NoiseMultiplier: 0x1p-10}, mechtest.Source(t, 1)).At(0, 0)
	if want := (1 + 0.25 + 1./3) / 3; math.Abs(h-want) > 5e-3 {
		t.Errorf("%v, want %v", h, want)
	}
}

// What is not known to take records of several rows refuses them, before anything is spent.
func TestFitsByGroupsTakeSingleRows(t *testing.T) {
	s := Shape{N: 100_000, D: 3, Intercept: true, Levels: 3}
	for most, fits := range map[int]bool{0: true, 8: false} {
		_, err := Scaled{Algorithm: Regression{Loss: loss.Squared{}}, X: repeat(1, 2), Y: 1, MaxRows: most}.Plan(s, generous, privacy.Concentrated{})
		if fits != (err == nil) || err != nil && !errors.Is(err, ErrInfeasible) {
			t.Errorf("up to %d rows: %v", most, err)
		}
	}
}
