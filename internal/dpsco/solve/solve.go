// Package solve holds first-order methods. They see gradients only through an
// Oracle whose answers are already private: everything here is post-processing,
// and a bug costs accuracy, not privacy.
package solve

import (
	"context"

	"dpsidecar/internal/dpsco/prox"
)

// Use is one kind of query and how often a solver makes it, declared before data are
// read so that the budget can be charged and divided.
type Use struct {
	Calls int
	Batch int  // rows of a batch drawn without replacement, fresh for every call; 0: all rows
	Diff  bool // asks for the difference of the gradients at W and at Anchor
}

// Query asks for the private mean of row gradients at W, less those at Anchor
// where it is set.
type Query struct {
	Use       int       // index into Solver.Uses
	W, Anchor []float64 // not kept by the oracle
	Norm      float64   // public norm to clip row gradients, or differences, to; 0: the estimator's own
}

// Oracle answers a query into dst, which has the length of q.W. It panics for a query that exceeds
// the uses declared by Uses.
type Oracle interface {
	Gradient(dst []float64, q Query)
}

// Solver minimises loss + psi from w, in place, and makes at most the queries
// of Uses. The only error is the context's; w is then undefined.
type Solver interface {
	Uses() []Use
	Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error
}

// ask passes one query to g, unless the context has ended.
func ask(ctx context.Context, g Oracle, dst []float64, q Query) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.Gradient(dst, q)
	return nil
}

// runningMean is the mean of the points added so far.
type runningMean struct {
	mean  []float64 // nil before the first
	count int
}

func (m *runningMean) add(w []float64) {
	if m.mean == nil {
		m.mean = make([]float64, len(w))
	}
	m.count++
	for j, v := range w {
		m.mean[j] += (v - m.mean[j]) / float64(m.count)
	}
}
