// Package experiment re-runs the studies of the papers on generated and on real tables, and compares every
// method with fits without privacy.
//
// It is not part of the service: it reads data and prints results that are not private.
package experiment

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Table is a design in its own units, with the public scales with which it would be registered.
type Table struct {
	table.Data
	Scales      []float64 // of the stored columns
	TargetScale float64
	bare        bool // no scale is registered: Scales and TargetScale are 1
}

// copy returns data that a fit may overwrite.
func (t *Table) copy() table.Data {
	c := table.Data{Shape: t.Shape, Y: append([]float64(nil), t.Y...), Exposure: append([]float64(nil), t.Exposure...)}
	for _, x := range t.X {
		c.X = append(c.X, append([]float64(nil), x...))
	}
	return c
}

// Judge returns the error of coefficients; less is better.
type Judge func(w []float64) float64

// Task is a table to fit, which can be drawn repeatedly, with a judge of fits.
type Task struct {
	Model string
	Delta float64
	draw  func(r *rand.Rand) (*Table, Judge, error)

	last  int // number of the draw that table and judge belong to, from 1
	table *Table
	judge Judge
}

// Draw returns a draw by its number, from 1: the same for all methods.
func (t *Task) Draw(number int) (*Table, Judge, error) {
	if t.last == number {
		return t.table, t.judge, nil
	}
	table, judge, err := t.draw(rand.New(rand.NewPCG(uint64(number), 20)))
	if err != nil {
		return nil, nil, err
	}
	t.last, t.table, t.judge = number, table, judge
	return table, judge, nil
}

// Fit is a procedure that computes coefficients.
type Fit func(ctx context.Context, task *Task, t *Table) (w []float64, spent time.Duration, err error)

// Request returns a fit as an analyst would ask for it.
func Request(epsilon float64, options map[string]any) Fit {
	return request{epsilon: epsilon, options: options}.fit
}

// Amplified is a Request on an account that prices batches with amplification by subsampling, at the order
// recommended for a budget of that one request.
func Amplified(epsilon float64, options map[string]any) Fit {
	return request{epsilon, options, true}.fit
}

type request struct {
	epsilon float64
	options map[string]any
	renyi   bool
}

// renyi caches the Renyi cost of batches.
var renyi privacy.Renyi

func (q request) fit(ctx context.Context, task *Task, t *Table) ([]float64, time.Duration, error) {
	algorithm, err := dpsco.Recipe(task.Model, q.options, nil)
	if err != nil {
		return nil, 0, err
	}
	budget := privacy.Budget{Epsilon: q.epsilon, Delta: task.Delta}
	var accountant privacy.Accountant = privacy.Concentrated{}
	if q.renyi {
		accountant = privacy.AtOrder{Order: privacy.RecommendedOrder(budget), Renyi: &renyi}
	}
	scaled := dpsco.Scaled{Algorithm: algorithm, X: t.Scales, Y: t.TargetScale}
	if t.bare {
		scaled.NoScales, scaled.UnscaledY = true, true
		for j := range t.Scales {
			scaled.UnscaledX = append(scaled.UnscaledX, j)
		}
	}
	p, err := scaled.Plan(t.Shape, budget, accountant)
	if err != nil {
		return nil, 0, err
	}
	data, start := t.copy(), time.Now()
	r, err := p.Run(ctx, data, mech.NewSource())
	return r.Coefficients, time.Since(start), err
}

// predictZero predicts zero for every row.
func predictZero(_ context.Context, _ *Task, t *Table) ([]float64, time.Duration, error) {
	return make([]float64, t.D), 0, nil
}

// predictMean predicts the mean of the target.
func predictMean(_ context.Context, _ *Task, t *Table) ([]float64, time.Duration, error) {
	w := make([]float64, t.D)
	for _, y := range t.Y {
		w[0] += y / float64(t.N)
	}
	return w, 0, nil
}

// withoutPrivacy is the least squares or maximum likelihood fit.
func withoutPrivacy(_ context.Context, task *Task, t *Table) ([]float64, time.Duration, error) {
	start := time.Now()
	fit := t.fitLinear
	if catalogue.Classifies(task.Model) {
		fit = t.fitLogistic
	}
	return fit(), time.Since(start), nil
}

// refused reports whether a plan failed because its public parameters are infeasible.
func refused(err error) bool { return errors.Is(err, plan.ErrInfeasible) }

// forget releases the memory of the last draw.
func (t *Task) forget() { t.last, t.table, t.judge = 0, nil, nil }
