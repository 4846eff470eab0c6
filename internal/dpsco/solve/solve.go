// Package solve holds first-order methods. They see gradients only through an
// Oracle whose answers are already private: everything here is post-processing,
// and a bug costs accuracy, not privacy.
package solve

import (
	"context"

	"dpsidecar/internal/dpsco/prox"
)

// Use is one kind of query that a solver makes, declared before data are read.
type Use struct {
	Calls int
	Batch int  // rows of a batch drawn without replacement, fresh for every call; 0: all rows
	Diff  bool // asks for differences against an anchor
}

// Query asks for the private mean of row gradients at W, less those at Anchor
// where it is set.
type Query struct {
	Use       int       // index into Solver.Uses
	W, Anchor []float64 // not kept by the oracle
	Norm      float64   // public bound to clip row gradients, or differences, to; 0: the method's own
}

// Oracle answers a query into dst, which has the length of q.W. It panics for a
// query beyond what Uses declared.
type Oracle interface {
	Gradient(dst []float64, q Query)
}

// Solver minimises loss + psi from w, in place, and makes at most the queries
// of Uses. The only error is the context's; w is then of no use.
type Solver interface {
	Uses() []Use
	Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error
}

// ask puts one query, unless the context has ended.
func ask(ctx context.Context, g Oracle, dst []float64, q Query) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.Gradient(dst, q)
	return nil
}

// mean is the running mean of points.
type mean struct {
	at    []float64
	count int
}

func (m *mean) add(w []float64) {
	if m.at == nil {
		m.at = make([]float64, len(w))
	}
	m.count++
	for j, v := range w {
		m.at[j] += (v - m.at[j]) / float64(m.count)
	}
}
