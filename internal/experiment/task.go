// Package experiment re-runs the studies of the papers on generated and on real
// tables, and compares every method with what can be reached without privacy.
package experiment

import (
	"context"
	"math"
	"math/rand/v2"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/mech"
	"dpsidecar/internal/dpsco/privacy"
)

// Table is a design in its own units, with the public scales it would be
// registered with.
type Table struct {
	dpsco.Data
	Scales      []float64 // of the stored columns
	TargetScale float64
}

// copy returns data that a fit may overwrite.
func (t *Table) copy() dpsco.Data {
	c := dpsco.Data{Shape: t.Shape, Y: append([]float64(nil), t.Y...)}
	for _, x := range t.X {
		c.X = append(c.X, append([]float64(nil), x...))
	}
	return c
}

// Task is a table to fit and a way to judge coefficients, lower being better
// and 0 what cannot be beaten.
type Task struct {
	Name  string
	Model string
	Delta float64
	Draw  func(r *rand.Rand) (t *Table, judge func(w []float64) float64)
}

// Setting is one request.
type Setting struct {
	Epsilon float64
	Options map[string]any
	Account privacy.Accountant // nil: zCDP
}

// Fit makes the request of a setting on a table.
func Fit(ctx context.Context, task *Task, t *Table, s Setting) ([]float64, *dpsco.Plan, error) {
	algorithm, err := dpsco.Recipe(task.Model, s.Options, nil)
	if err != nil {
		return nil, nil, err
	}
	if s.Account == nil {
		s.Account = privacy.Concentrated{}
	}
	p, err := dpsco.Scaled{Algorithm: algorithm, X: t.Scales, Y: t.TargetScale}.Plan(t.Shape, privacy.Budget{Epsilon: s.Epsilon, Delta: task.Delta}, s.Account)
	if err != nil {
		return nil, nil, err
	}
	w, err := p.Run(ctx, t.copy(), mech.NewSource())
	return w, p, err
}

// Result is the mean of some draws with its standard error.
type Result struct {
	Mean, Error float64
	Draws       int
}

// Summarise returns the mean of values.
func Summarise(values []float64) (r Result) {
	r.Draws = len(values)
	for _, v := range values {
		r.Mean += v / float64(r.Draws)
	}
	for _, v := range values {
		r.Error += (v - r.Mean) * (v - r.Mean)
	}
	r.Error = math.Sqrt(r.Error/float64(max(1, r.Draws-1))) / math.Sqrt(float64(r.Draws))
	return r
}

// Measure fits draws times, each on a table of its own.
func Measure(ctx context.Context, task *Task, s Setting, draws int) (Result, error) {
	values := make([]float64, draws)
	for i := range values {
		t, judge := task.Draw(rand.New(rand.NewPCG(uint64(i), 20)))
		w, _, err := Fit(ctx, task, t, s)
		if err != nil {
			return Result{}, err
		}
		values[i] = judge(w)
	}
	return Summarise(values), nil
}
