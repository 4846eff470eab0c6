package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/mat"
)

// SampleAggregate fits random disjoint blocks of the rows without privacy and
// releases a point near which most of the fits lie.
//
// Privacy: one record moves one fit, to anywhere in the ball: that of Centre.
//
// Source: Nissim, Raskhodnikova & Smith 2007; Wang, Xiao, Devadas & Xu 2020,
// Algorithm 1. Differs: disjoint blocks, so that a record is in one.
type SampleAggregate struct {
	Blocks int
	Loss   loss.Loss
	Psi    prox.Operator
	Centre mech.Centre
}

// at implements fit for any noise multiplier: Centre has noise of its own.
func (a SampleAggregate) at(s Shape, _ float64) (*stage, error) {
	if err := a.Centre.Check(a.Blocks, s.D); err != nil {
		return nil, infeasible(err)
	}
	return &stage{event: a.Centre.Event(), arithmetic: a.Centre.Arithmetic(), seconds: a.seconds(s), run: estimates(func(ctx context.Context, x Data, src *mech.Source) ([]float64, error) {
		points := make([][]float64, 0, a.Blocks)
		for _, rows := range mech.NewDeck(x.N, src).Blocks(a.Blocks) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))
		}
		w := make([]float64, s.D)
		a.Centre.Release(w, points, src)
		return w, nil
	})}, nil
}

// pick copies some rows.
func (x Data) pick(rows []int) Data {
	part := Data{Shape: Shape{N: len(rows), D: x.D, Intercept: x.Intercept}, X: columns(len(x.X), len(rows)), Y: make([]float64, len(rows))}
	gather(part.Y, x.Y, rows)
	for j, column := range x.X {
		gather(part.X[j], column, rows)
	}
	return part
}

// exactSteps of a whitened descent, whose curvature is at most 1 along every
// direction, leave what does not matter beside the spread of the blocks.
const exactSteps = 60

// exact is the fit of some rows without privacy, a function of them that always
// returns D numbers. Rows that are not finite say nothing.
func exact(l loss.Loss, psi prox.Operator, x Data) []float64 {
	p := newWhitener(exactMoments(x), 1e-6)
	x = x.times(p.matrix)
	u := make([]float64, x.D)
	descent := solve.GD{Steps: exactSteps, Rate: 1 / math.Min(1, l.Smoothness())}
	// The context's is the only error there is, and this one never ends.
	_ = descent.Solve(context.Background(), u, exactOracle{l, x}, p.metric(psi))
	return p.apply(u)
}

// exactMoments returns the mean of x x' over the finite rows.
func exactMoments(x Data) *mat.SymDense {
	h := mat.NewSymDense(x.D, nil)
	row := make([]float64, x.D)
	for i := range x.N {
		if x.row(row, i) {
			h.SymRankOne(h, 1/float64(x.N), mat.NewVecDense(x.D, row))
		}
	}
	return h
}

// row writes row i and reports whether its square is finite.
func (x Data) row(dst []float64, i int) bool {
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

// exactOracle answers with the mean gradient itself.
type exactOracle struct {
	loss loss.Loss
	data Data
}

// Gradient implements solve.Oracle.
func (o exactOracle) Gradient(dst []float64, q solve.Query) {
	c := make([]float64, o.data.N)
	gradients{loss: o.loss, data: o.data, w: q.W}.derivatives(c, nil, 0, o.data)
	for j, x := range o.data.X {
		dst[j] = 0
		for i, v := range c {
			if g := v * x[i]; !math.IsNaN(g) && !math.IsInf(g, 0) {
				dst[j] += g / float64(o.data.N)
			}
		}
	}
}
