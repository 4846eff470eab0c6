package dpsco

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// someLevels are tables of a number and a category of four levels, of which one row differs
// between them: in its level, which may be none, or in all of it.
func someLevels(r *rand.Rand, n int, labels bool) (a, b table.Data) {
	s := table.Shape{N: n, D: 5, Intercept: true}
	a = table.Data{Shape: s, X: table.NewColumns(4, n), Y: make([]float64, n)}
	common := r.IntN(5)
	for i := range n {
		a.X[0][i], a.Y[i] = r.NormFloat64(), plantest.Hostile(r)
		if labels || r.IntN(2) > 0 {
			a.Y[i] = float64(r.IntN(2))
		}
		setLevel(a, i, []int{r.IntN(5), common}[r.IntN(2)])
	}
	b = plantest.Clone(a)
	i := r.IntN(n)
	setLevel(b, i, r.IntN(5))
	if r.IntN(3) == 0 {
		plantest.SetRow(b, i, func(int) float64 { return plantest.Hostile(r) })
	}
	return a, b
}

// setLevel gives row i one of four levels, or none.
func setLevel(x table.Data, i, level int) {
	for k, column := range x.X[1:] {
		switch {
		case level == 4:
			column[i] = math.NaN()
		case level == k+1:
			column[i] = 1
		default:
			column[i] = 0
		}
	}
}

// Who changes level, or leaves them all, moves what is released by what the noise hides, also
// where bounds count columns and not levels.
func TestReplaysOfCategories(t *testing.T) {
	requests := map[string]plan.Algorithm{"staged": L1{Method: catalogue.MethodStaged, Sources: 3, Levels: []LevelColumns{{First: 1, Count: 3}}}}
	for _, model := range regressions() {
		m, _ := catalogue.Find(model)
		a := regression(m)
		a.Sources, a.Levels, a.Radius = 3, []LevelColumns{{First: 1, Count: 3}}, 2
		for _, method := range []string{catalogue.MethodJointMoments, catalogue.MethodNewton, "gd"} {
			if a.Method, a.Whitening = method, catalogue.WhiteningOn; fitsLoss(a.Loss, method) {
				requests[model+" "+method] = a
			}
		}
	}
	largest := map[string]float64{}
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(maps.Keys(requests)) { // in one order: all draw from r
		a := requests[name]
		budget, accountant := plantest.Generous, privacy.Accountant(privacy.Concentrated{})
		if name == "staged" {
			budget, accountant = privacy.Budget{Epsilon: 20}, privacy.PureSum{}
		}
		for range 30 {
			x, y := someLevels(r, 23, strings.HasPrefix(name, "logistic"))
			shares, err := plantest.Replay(t, func() *plan.Plan { return plantest.Plan(t, a, x.Shape, budget, accountant) }, x, y)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for kind, share := range shares {
				largest[kind] = max(largest[kind], share)
			}
		}
	}
	plantest.ReachHalf(t, largest)
	if len(largest) < 6 {
		t.Errorf("only %v were replayed", largest)
	}
}

// Bounds count the columns of the table where rows are as they came.
func TestSourcesBoundRows(t *testing.T) {
	s, b := table.Shape{N: 1_000_000, D: 101, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	for name, a := range map[string]plan.Algorithm{
		"feature_norm": Regression{Loss: losses["linear"], Method: catalogue.MethodJointMoments, Sources: 4},
		"clip":         L1{Method: catalogue.MethodObjective, Sources: 4},
	} {
		var accountant privacy.Accountant = privacy.Concentrated{}
		budget := b
		if name == "clip" {
			accountant, budget.Delta = privacy.PureSum{}, 0
		}
		few := plantest.Plan(t, a, s, budget, accountant)
		if v := few.Parameters[name].(float64); v > 1.5*2+1e-9 || v < 2 {
			t.Errorf("%s is %v with four columns", name, v)
		}
	}
	if bounds := newStaged(L1{Sources: 4}.withDefaults(s, 1), s, 1).bounds(); bounds != [2]float64{2, math.Sqrt(101)} {
		t.Errorf("stages shorten rows to %v", bounds)
	}
}
