package dpsco

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// lognormalNeighbours are tables of lognormal features and targets that differ
// in one row, which is long in one of them and like others in the other. Unlike
// hostile rows, which are so many that one more changes nothing, one such row
// moves every mean, length and quantile of its table: a public limit that was
// taken from one of those shows.
func lognormalNeighbours(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	a = table.Data{Shape: s, X: table.NewColumns(s.Columns(), s.N), Y: make([]float64, s.N)}
	for i := range s.N {
		plantest.SetRow(a, i, func(int) float64 { return math.Exp(r.NormFloat64()) })
		if labels {
			a.Y[i] = float64(i % 2)
		}
	}
	b = plantest.Clone(a)
	i := r.IntN(s.N)
	for j := range b.X {
		b.X[j][i] *= 1e4
	}
	if !labels {
		b.Y[i] *= -1e4
	}
	return a, b
}

// All methods are replayed on tables of 200 rows and more, as the audit of
// replay_test.go does with small hostile ones.
func TestReplaysOfLognormalTables(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		for _, model := range regressions() {
			if !fitsLoss(losses[model], name) {
				continue
			}
			for k, s := range []table.Shape{{N: 200, D: 3, Intercept: false}, {N: 200, D: 4, Intercept: true}, {N: 600, D: 4, Intercept: true}, {N: 3000, D: 3, Intercept: true}} {
				if s.N > 600 && name != catalogue.MethodAuto {
					continue
				}
				m, _ := catalogue.Find(model)
				a := regression(m)
				a.Method, a.Steps = name, 8
				if name == "sample_aggregate" {
					a.Steps, a.Blocks = 0, 9
				}
				replayLognormal(t, a, s, plantest.Generous, uint64(k))
			}
		}
	}
}

// So are descents on whitened rows: of gd, and of auto where rows and budget are few.
func TestReplaysOfLognormalTablesThatAreWhitened(t *testing.T) {
	for _, name := range []string{catalogue.MethodAuto, "gd"} {
		for model, eps := range map[string]float64{"logistic": 0.5, "huber": 2.5} {
			for k, s := range []table.Shape{{N: 200, D: 3, Intercept: false}, {N: 200, D: 4, Intercept: true}} {
				m, _ := catalogue.Find(model)
				a := regression(m)
				a.Method, a.Steps, a.Whitening = name, 8, catalogue.WhiteningOn
				p := replayLognormal(t, a, s, privacy.Budget{Epsilon: eps, Delta: 1e-2}, uint64(k))
				if p.Parameters["whitening"] != catalogue.WhiteningOn || p.Parameters["steps"] != 8. {
					t.Errorf("%s of %s, %+v: %v", model, name, s, p.Parameters)
				}
			}
		}
	}
}

// So are descents that weigh long rows down, with so little noise that auto would take
// another method: there the weights are felt.
func TestReplaysOfLognormalTablesWithWeights(t *testing.T) {
	for k, s := range []table.Shape{{N: 200, D: 3, Intercept: false}, {N: 200, D: 4, Intercept: true}, {N: 600, D: 4, Intercept: true}, {N: 3000, D: 3, Intercept: true}} {
		leverage := 1.2 * math.Sqrt(float64(s.D))
		f := Whitened{Bound: leverage, Ratio: 3, Descent: Descent{
			Loss: loss.Huber{Delta: 1}, Psi: prox.Zero{}, Mean: mean.Clip{Norm: leverage}, Solver: solve.GD{Steps: 8, Rate: 1}, Leverage: leverage,
		}}
		x, y := lognormalNeighbours(rand.New(rand.NewPCG(4, uint64(k))), s, false)
		if _, err := plantest.Replay(t, func() *plan.Plan { return planOf(t, f, s, 0.05) }, x, y); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func replayLognormal(t *testing.T, a Regression, s table.Shape, b privacy.Budget, seed uint64) (p *plan.Plan) {
	t.Helper()
	plan := func() *plan.Plan {
		var err error
		if p, err = a.Plan(s, b, privacy.Concentrated{}); err != nil {
			t.Fatalf("%s of %T, %+v: %v", a.Method, a.Loss, s, err)
		}
		return p
	}
	x, y := lognormalNeighbours(rand.New(rand.NewPCG(4, seed)), s, a.Labels)
	if _, err := plantest.Replay(t, plan, x, y); err != nil {
		t.Errorf("%s of %T, %+v: %v", a.Method, a.Loss, s, err)
	}
	return p
}
