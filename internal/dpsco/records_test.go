package dpsco

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// Whatever a person's rows become, and however many, the integers of every release move by no
// more than its noise is scaled to hide, and given the answers nothing else differs: of every
// method of every model.
func TestReplaysOfRecordsOfSeveralRows(t *testing.T) {
	largest := map[string]float64{}
	replayed := func(name string, plan func() *plan.Plan, x, y table.Data) {
		shares, err := plantest.Replay(t, plan, x, y)
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
			s := table.Shape{N: 23, D: []int{4, 3, 2, 4, 2, 3}[k%6], Intercept: k%3 == 0}
			plan := func() *plan.Plan {
				return plantest.Plan(t, Scaled{Algorithm: a, X: table.Repeat(1, s.Columns()), Y: 1, MaxRows: plantest.MaxFellows}, s, plantest.Generous, privacy.Concentrated{})
			}
			x, y := plantest.RecordNeighbours(r, s, a.Labels)
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

func replayFits(name string, f fit, pairs int, labels bool, replayed func(string, func() *plan.Plan, table.Data, table.Data), t *testing.T) {
	r := rand.New(rand.NewPCG(6, uint64(len(name))))
	for k := range pairs {
		s := table.Shape{N: 1 + r.IntN(23), D: 1 + k%3, Intercept: k%2 == 0}
		x, y := plantest.RecordNeighbours(r, s, labels)
		replayed(name, func() *plan.Plan { return planOf(t, f, s, 0.3) }, x, y)
	}
}

func TestReplaysOfScoresOfRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for name, a := range scores() {
		for _, delta := range []float64{0, 1e-3} {
			for range 60 {
				s := table.Shape{N: 1 + r.IntN(23), D: len(a.Coefficients), Intercept: true}
				a.MaxRows = plantest.MaxFellows
				x, y := plantest.RecordNeighbours(r, s, a.Labels)
				_, err := plantest.Replay(t, func() *plan.Plan {
					return plantest.Plan(t, a, s, privacy.Budget{Epsilon: 20, Delta: delta}, privacy.Concentrated{})
				}, x, y)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
}

// gradientsOf returns what every record hands to an estimator.
func gradientsOf(x table.Data, w []float64) [][]float64 {
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
		s := table.Shape{N: 1 + r.IntN(3*table.BlockRows), D: 3, Intercept: true}
		x, y := plantest.RecordNeighbours(r, s, false)
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
	s := table.Shape{N: 4000, D: 3, Intercept: true}
	x := table.Data{Shape: s, X: table.NewColumns(2, s.N), Y: make([]float64, s.N)}
	sizes := make([]int, s.N)
	for i := range s.N {
		plantest.SetRow(x, i, func(int) float64 { return math.Round(8*r.NormFloat64()) / 8 })
		sizes[i] = []int{1, 2, 4}[r.IntN(3)]
	}
	several := table.Data{Shape: s, X: make([][]float64, 2)}
	for i, m := range sizes {
		for range m {
			several.Y = append(several.Y, x.Y[i])
			for j := range several.X {
				several.X[j] = append(several.X[j], x.X[j][i])
			}
		}
	}
	several = plantest.Grouped(several, sizes)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if method == "newton" {
			continue
		}
		a := Regression{Loss: loss.Squared{}, Method: method, Whitening: "off"}
		run := func(x table.Data) []float64 {
			p := plantest.Plan(t, Scaled{Algorithm: a, X: table.Repeat(1, 2), Y: 1}, s, privacy.Budget{Epsilon: 5, Delta: 1e-3}, privacy.Concentrated{})
			w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 3)))
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
	x := plantest.Grouped(table.Data{Shape: table.Shape{D: 1}, X: [][]float64{{1, 0.5, 0.5, 0, 0, 1}}, Y: make([]float64, 6)}, []int{1, 2, 3})
	h := secondMoments(x, mech.MomentContract{Bound: 1, N: 3, D: 1}, mech.Gaussian{NoiseMultiplier: 0x1p-10}, mechtest.Source(t, 1)).At(0, 0)
	if want := (1 + 0.25 + 1./3) / 3; math.Abs(h-want) > 5e-3 {
		t.Errorf("%v, want %v", h, want)
	}
}

// One person whose rows become any others, and who may change groups by it, moves the integers
// of every release by no more than its noise is scaled to hide.
func TestFitsByGroupsOfRecordsReplay(t *testing.T) {
	for name, a := range groupedFits() {
		r, largest := rand.New(rand.NewPCG(10, uint64(len(name)))), 0.0
		for k := range 60 {
			s := table.Shape{N: 1 + r.IntN(23), D: 1 + k%3, Intercept: k%2 == 0}
			x, y := plantest.RecordNeighbours(r, s, strings.Contains(name, "labels"))
			x, y = plantest.RecordsInGroups(r, x, y, 1+k%4)
			z := []float64{0.01, 0.3, 3}[k/3%3]
			shares, err := plantest.Replay(t, func() *plan.Plan { return planOf(t, a, x.Shape, z) }, x, y)
			if err != nil {
				t.Fatalf("%s, pair %d: %v", name, k, err)
			}
			for _, share := range shares {
				largest = max(largest, share)
			}
		}
		if largest < 0.9 {
			t.Errorf("%s: no pair moves anything by more than %v of what is allowed", name, largest)
		}
	}
}

// The same of scores, in which each row of a record has the coefficients of its own group.
func TestReplaysOfScoresOfRecordsInGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 7))
	for name, a := range scores() {
		for k := range 60 {
			s := table.Shape{N: 1 + r.IntN(23), D: len(a.Coefficients), Intercept: true}
			x, y := plantest.RecordNeighbours(r, s, a.Labels)
			x, y = plantest.RecordsInGroups(r, x, y, 1+k%3)
			b := a
			b.MaxRows, b.Coefficients = plantest.MaxFellows, slices.Repeat(a.Coefficients, x.GroupCount)
			_, err := plantest.Replay(t, func() *plan.Plan {
				return plantest.Plan(t, b, x.Shape, privacy.Budget{Epsilon: 20, Delta: []float64{0, 1e-3}[k%2]}, privacy.Concentrated{})
			}, x, y)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// A record is in the group of its first row, with its rows of that group alone, in their order.
func TestARecordIsInOneGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 7))
	for range 100 {
		x, _ := plantest.RecordNeighbours(r, table.Shape{N: 1 + r.IntN(40), D: 2}, false)
		x, _ = plantest.RecordsInGroups(r, x, plantest.Clone(x), 3)
		for i := range x.Y { // a row is known by its target
			x.Y[i], x.X[0][i], x.X[1][i] = float64(i), float64(i), -float64(i)
		}
		want := make([][][]float64, 3)
		for u := range x.N {
			if group := x.GroupOf(x.First[u]); group < 3 {
				var rows []float64
				for i := x.First[u]; i < x.First[u+1]; i++ {
					if x.Group[i] == x.Group[x.First[u]] {
						rows = append(rows, float64(i))
					}
				}
				want[group] = append(want[group], rows)
			}
		}
		for group, part := range plantest.Clone(x).InGroups().ByGroup() {
			var got [][]float64
			for u := range part.N {
				rows := part.Y[part.First[u]:part.First[u+1]]
				if got = append(got, rows); !slices.Equal(rows, part.X[0][part.First[u]:part.First[u+1]]) {
					t.Fatalf("rows were torn apart: %v", part)
				}
			}
			if !reflect.DeepEqual(got, want[group]) {
				t.Fatalf("group %d has the rows %v, want %v", group, got, want[group])
			}
		}
	}
}
