package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mat"
)

// SampleAggregate fits random disjoint blocks of the rows without privacy and releases one answer
// aggregated from the fits of all blocks.
//
// Privacy: one record changes the fit of one block, arbitrarily, so that the cost is that of
// Aggregator for one changed point (proof: aggregate.md).
//
// Source: Nissim, Raskhodnikova & Smith 2007; Wang, Xiao, Devadas & Xu 2020, Algorithm 1. Differs:
// blocks are disjoint, so that every record is in one block only.
type SampleAggregate struct {
	Blocks     int
	Loss       loss.Loss
	Psi        prox.Operator
	Aggregator Aggregator
}

// Aggregator releases one point from many points, at most one of which depends on any one record.
type Aggregator interface {
	// at fixes the noise, of multiplier z, for the given number of points of length d.
	//
	// Errors: ErrInfeasible.
	at(points, d int, z float64) (*aggregation, error)
}

// aggregation is an Aggregator with its noise fixed.
type aggregation struct {
	event      privacy.Event
	arithmetic string
	release    func(dst []float64, points [][]float64, src *mech.Source)
}

// SmoothCentre is the aggregator of the paper: it releases a point near most of the fits, with noise
// scaled to a smooth upper bound on their spread.
type SmoothCentre struct{ mech.Centre }

// at implements Aggregator. It ignores the noise multiplier, because mech.Centre sets its own noise
// scale.
//
// Errors: ErrInfeasible, for fewer points than mech.Centre needs, or coordinates that it refuses.
func (c SmoothCentre) at(points, d int, _ float64) (*aggregation, error) {
	if err := c.Check(points, d); err != nil {
		return nil, plan.Infeasible(err)
	}
	return &aggregation{event: c.Event(), arithmetic: c.Arithmetic(), release: c.Release}, nil
}

// calibrates reports whether the cost depends on the noise multiplier.
func (a SampleAggregate) calibrates() bool {
	_, own := a.Aggregator.(SmoothCentre)
	return !own
}

func (a SampleAggregate) at(s table.Shape, z float64) (*stage, error) {
	aggregate, err := a.Aggregator.at(a.Blocks, s.D, z)
	if err != nil {
		return nil, err
	}
	return &stage{
		event:      aggregate.event,
		arithmetic: aggregate.arithmetic,
		seconds:    a.seconds(s),
		run: estimates(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
			points, err := a.points(ctx, x.FirstRows(), src)
			if err != nil {
				return nil, err
			}
			w := make([]float64, s.D)
			aggregate.release(w, points, src)
			return w, nil
		}),
	}, nil
}

// points returns the fits of the blocks of a random partition.
func (a SampleAggregate) points(ctx context.Context, x table.Data, src *mech.Source) ([][]float64, error) {
	points := make([][]float64, 0, a.Blocks)
	for _, rows := range mech.NewPermutation(x.N, src).Blocks(a.Blocks) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		points = append(points, exact(a.Loss, a.Psi, x.Pick(rows)))
	}
	return points, nil
}

// exactSteps is the number of descent steps for a block. The descent is whitened, with curvature at
// most 1 in every direction, so that after this many steps its error is negligible beside the spread
// of the blocks' fits.
const exactSteps = 60

// exactProxSteps bounds the inner steps of a proximal point. Without the bound a row far from all
// others could make the fit of its block take a hundred times as long, which an observer would
// notice.
const exactProxSteps = 2000

// exact returns the fit of x without privacy. It is a deterministic function of x that always
// returns D numbers. Rows with values that are not finite contribute nothing.
func exact(l loss.Loss, psi prox.Operator, x table.Data) []float64 {
	p := linalg.NewWhitener(exactMoments(x), 1e-6)
	x = times(x, p.Matrix)
	u := make([]float64, x.D)
	descent := solve.GD{Steps: exactSteps, Rate: 1 / math.Min(1, l.Smoothness())}
	// Solve fails only when its context ends, and this context never does.
	_ = descent.Solve(context.Background(), u, exactOracle{l, x}, limited(p.Metric(psi)))
	return p.Apply(u)
}

// limited bounds the inner steps of the proximal point if psi is a prox.Metric.
func limited(psi prox.Operator) prox.Operator {
	if m, ok := psi.(*prox.Metric); ok {
		return m.AtMost(exactProxSteps)
	}
	return psi
}

// exactMoments returns the weighted sum of x x' over the finite rows, divided by N.
func exactMoments(x table.Data) *mat.SymDense {
	h := mat.NewSymDense(x.D, nil)
	row := make([]float64, x.D)
	for i := range x.N {
		if finiteRow(x, row, i) {
			h.SymRankOne(h, x.WeightOf(i)/float64(x.N), mat.NewVecDense(x.D, row))
		}
	}
	return h
}

// finiteRow writes row i to dst and reports whether the sum of squares of its features is below 1e200
// (false for NaN).
func finiteRow(x table.Data, dst []float64, i int) bool {
	stored := dst
	if x.Intercept {
		dst[0], stored = 1, dst[1:]
	}
	square := 0.0
	for j, column := range x.X {
		stored[j] = column[i]
		square += column[i] * column[i]
	}
	return square < 1e200
}

// exactOracle answers queries with the exact mean gradient; terms that are not finite count as 0.
type exactOracle struct {
	loss loss.Loss
	data table.Data
}

// Gradient implements solve.Oracle.
func (o exactOracle) Gradient(dst []float64, q solve.Query) {
	c := make([]float64, o.data.N)
	gradients{loss: o.loss, data: o.data, w: q.W}.derivatives(c, nil, 0, o.data)
	for j, x := range o.data.X {
		dst[j] = 0
		for i, v := range c {
			if g := v * x[i]; numeric.IsFinite(g) {
				dst[j] += g / float64(o.data.N)
			}
		}
	}
}
