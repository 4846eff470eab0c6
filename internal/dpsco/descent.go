package dpsco

import (
	"context"
	"fmt"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Descent minimises the mean of Loss plus Psi by a first-order Solver, whose only access to the data
// is through private means of row gradients. If Leverage > 0, a row longer than Leverage is weighted
// by Leverage over its length.
//
// Privacy: the composition of the estimates that Solver declares, each of all
// rows or of a fresh batch without replacement (proof: descent.md).
//
// Source: those of Solver and Mean; recipes.go names the paper of every method.
type Descent struct {
	Loss     loss.Loss
	Psi      prox.Operator
	Mean     mean.Method
	Solver   solve.Solver
	Leverage float64
}

func (d Descent) at(s table.Shape, z float64) (*stage, error) {
	estimators, event, err := d.estimators(s, z)
	if err != nil {
		return nil, err
	}
	return &stage{
		event:      event,
		arithmetic: marks(estimators),
		seconds:    d.seconds(s),
		sums:       d.sums(),
		passes:     d.passes(s, estimators),
		run: estimates(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
			return d.solve(ctx, x, estimators, src)
		}),
	}, nil
}

// estimators returns one estimator per use that the solver declares, and the total cost of all
// calls.
func (d Descent) estimators(s table.Shape, z float64) (all []mean.Estimator, cost privacy.Compose, err error) {
	for _, u := range d.Solver.Uses() {
		n := s.N
		if u.Batch > 0 {
			n = u.Batch
		}
		if n > s.N {
			return nil, nil, fmt.Errorf("%w: a batch of %d rows out of %d", plan.ErrInfeasible, n, s.N)
		}
		e, err := d.Mean.At(z, n, s.D)
		if err != nil {
			return nil, nil, plan.Infeasible(err)
		}
		all = append(all, e)
		if u.Calls == 0 {
			continue
		}
		begin := e.Begin()
		if _, plain := e.Event().(privacy.Gaussian); n < s.N && (begin != nil || !plain) {
			// There is no price here for two mechanisms on one batch, and the surcharge counts the
			// coordinates of one Gaussian release of length D.
			return nil, nil, fmt.Errorf("%w: this method takes all rows", plan.ErrInfeasible)
		}
		if begin != nil {
			cost = append(cost, begin)
		}
		cost = append(cost, privacy.Repeat{Count: u.Calls, Event: sampled(e.Event(), n, s.N)})
		if n < s.N {
			cost = append(cost, privacy.Approx{Delta: mech.RoundingDelta(z, n, s.D, u.Calls)})
		}
	}
	return all, cost, nil
}

func sampled(e privacy.Event, batch, n int) privacy.Event {
	if batch == n {
		return e
	}
	return privacy.Sampled{Rate: float64(batch) / float64(n), Event: e}
}

func (d Descent) solve(ctx context.Context, x table.Data, estimators []mean.Estimator, src *mech.Source) ([]float64, error) {
	w := make([]float64, x.D)
	o := &oracle{loss: d.Loss, data: x, estimators: estimators, uses: d.Solver.Uses(), src: src, answers: make([][]float64, len(estimators))}
	for _, u := range o.uses {
		o.left = append(o.left, u.Calls)
	}
	if o.leverage = d.Leverage; d.Leverage > 0 && x.Pushdown == nil {
		o.weights = leverage(x, d.Leverage)
	}
	if err := d.Solver.Solve(ctx, w, o, d.Psi); err != nil {
		return nil, err
	}
	return w, nil
}

// passes returns the number of passes over the table, rounded up. A batch counts by its share of the
// rows.
func (d Descent) passes(s table.Shape, estimators []mean.Estimator) int {
	rows := 0
	for k, u := range d.Solver.Uses() {
		n, each := s.N, 1
		if u.Batch > 0 {
			n = u.Batch
		}
		if e, several := estimators[k].(interface{ Passes() int }); several {
			each = e.Passes()
		}
		if rows += n * each * u.Calls; u.Calls > 0 && estimators[k].Begin() != nil {
			rows += n
		}
	}
	return (rows + s.N - 1) / s.N
}

// marks returns the arithmetic mark of the last estimator that is not exact; empty if all are exact.
func marks(estimators []mean.Estimator) (mark string) {
	for _, e := range estimators {
		if m, ok := e.(interface{ Arithmetic() string }); ok {
			mark = m.Arithmetic()
		}
	}
	return mark
}
