package dpsco

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// FuzzOptions plans with arbitrary options, as JSON gives them, and arbitrary
// shapes and budgets. Either there is a plan, within the budget, which runs on any
// table and releases finite numbers, or an error that says whose fault it is.
func FuzzOptions(f *testing.F) {
	for _, seed := range []struct {
		model, options string
		n, d           int
		epsilon        float64
	}{
		{"linear", `{}`, 40, 3, 1},
		{"linear", `{"method":"joint_moments","penalty":"elastic_net","lambda":0.1,"residual_scale":1e-9}`, 23, 3, 20},
		{"linear", `{"whitening":"on","radius":1e-6,"feature_norm":1e9}`, 1, 2, 1e-3},
		{"linear", `{"method":"svrg","steps":1,"batch":7,"whitening":"on"}`, 23, 2, 5},
		{"linear", `{"method":"svrg_pp","steps":500,"step_size":1e9}`, 23, 2, 0.1},
		{"huber", `{"method":"ksu","penalty":"group_l1","groups":[["a"],["b"]],"lambda":0.1,"huber_delta":1e-9}`, 23, 3, 5},
		{"huber", `{"method":"ksu_axis","range":1e9,"truncation":1e-9}`, 23, 3, 5},
		{"logistic", `{"method":"trimmed","trim":1,"positive_label":7,"negative_label":-1e300}`, 23, 2, 5},
		{"logistic", `{"method":"sample_aggregate","blocks":5,"radius":1e-6}`, 23, 1, 20},
		{"linear", `{"method":"sample_aggregate","aggregator":"centre","blocks":9}`, 23, 1, 20},
		{"linear", `{"method":"spgd_kamath","blocks":4}`, 23, 1, 20},
		{"linear", `{"method":"spgd_holland","moment":1e-12,"batch":1}`, 1, 1, 1e4},
		{"linear", `{"method":"catoni","radius":1e9,"steps":3}`, 23, 1, 1e-10},
		{"huber", `{"penalty":"group_l1","groups":[["b"]]}`, 23, 1, 92},
		{"linear", `{"groups":[[]]}`, 5, 2, 1}, {"linear", `{"groups":[["a","a"]]}`, 5, 2, 1}, {"linear", `{"steps":1e400}`, 5, 2, 1}, {"linear", `[]`, 5, 2, 1},
		{"l1", `{"method":"objective_perturbation","clip":1e-9,"smoothing":1e9}`, 23, 2, 1},
		{"l1", `{"method":"staged","residual_scale":1e-9}`, 23, 2, 100},
		{"l1", `{"method":"staged","residual_scale":1e9,"set":"box","radius":1e-6}`, 63, 3, 1e-10},
		{"l1", `{}`, 63, 3, 1e4},
		{"l1", `{"theta":1.05,"iota":1e9,"radius":1e-6,"pitch":1e6,"set":"box"}`, 23, 2, 1},
	} {
		f.Add(seed.model, seed.options, seed.n, seed.d, seed.epsilon, 1e-6, uint64(1))
	}
	f.Fuzz(func(t *testing.T, model, text string, n, d int, epsilon, delta float64, seed uint64) {
		var given map[string]any
		if json.Unmarshal([]byte(text), &given) != nil {
			return
		}
		s := table.Shape{N: n % 64, D: d % 4}
		a, err := Recipe(model, given, []string{"a", "b", "c"}[:max(0, s.D)])
		if err != nil {
			if !errors.Is(err, plan.ErrParameter) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if model == "l1" {
			delta = 0
		}
		p, err := a.Plan(s, privacy.Budget{Epsilon: epsilon, Delta: delta}, privacy.Concentrated{})
		if err != nil {
			if !errors.Is(err, plan.ErrParameter) && !errors.Is(err, plan.ErrInfeasible) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if price, err := (privacy.PureSum{}).Epsilon(p.Event, delta); model == "l1" && !(err == nil && price <= epsilon) {
			t.Errorf("%s on a budget of %v costs %v, %v", text, epsilon, price, err)
		}
		if price, err := (privacy.Concentrated{}).Epsilon(p.Event, delta); model != "l1" && p.Parameters["aggregator"] != catalogue.AggregatorCentre && !(err == nil && price <= epsilon) {
			t.Errorf("%s on a budget of (%v, %v) costs %v, %v", text, epsilon, delta, price, err)
		}
		if p.Method == catalogue.MethodExponential || p.Parameters["steps"] != nil && p.Parameters["steps"].(float64) > 50 {
			return // these take their time
		}
		x, _ := plantest.Neighbours(rand.New(rand.NewPCG(seed, 1)), s, catalogue.Classifies(model))
		w, err := coefficients(p.Run(t.Context(), x, mechtest.Source(t, seed)))
		if size := floats.Norm(w, 2); err != nil || math.IsNaN(size) || math.IsInf(size, 0) {
			t.Errorf("%s: %v, %v", text, w, err)
		}
	})
}
