package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
)

// oracle answers a solver's queries through private estimators, and no more of them than were
// declared and charged.
type oracle struct {
	loss       loss.Loss
	data       table.Data
	weights    []float64 // leverage weights of rows, in the order of data.Y; nil: all 1
	leverage   float64   // for rows in a database: the length above which rows weigh less; 0: none
	uses       []solve.Use
	estimators []mean.Estimator
	left       []int             // calls left of each use
	answers    [][]float64       // the latest answer of each use; nil before the first
	rows       *mech.Permutation // batches are samples of it
	batch      table.Data        // copies of the rows of a batch; lightness holds their weights
	lightness  []float64
	src        *mech.Source
}

// Gradient implements solve.Oracle.
func (o *oracle) Gradient(dst []float64, q solve.Query) {
	u := o.uses[q.Use]
	if o.left[q.Use] == 0 || u.Diff != (q.Anchor != nil) {
		panic(fmt.Sprintf("dpsco: a query beyond what %+v declares", u))
	}
	o.left[q.Use]--
	x, weights := o.data, o.weights
	if u.Batch > 0 && u.Batch < o.data.N {
		x, weights = o.sample(u.Batch)
	}
	g := gradients{o.loss, x, weights, q.W, q.Anchor}
	rows := g.rows()
	if x.Pushdown != nil {
		rows.Sum = func(c mech.Contract) *mech.Sum { return g.ask(c, o.leverage) }
	}
	o.estimators[q.Use].Estimate(dst, rows, mean.Hints{Norm: q.Norm, Centre: o.answers[q.Use]}, o.src)
	o.answers[q.Use] = append(o.answers[q.Use][:0], dst...)
}

// sample copies a fresh random batch of m rows.
func (o *oracle) sample(m int) (table.Data, []float64) {
	if o.rows == nil {
		o.rows = mech.NewPermutation(o.data.N, o.src)
	}
	if o.batch.N != m {
		o.batch = table.Data{Shape: table.Shape{N: m, D: o.data.D, Intercept: o.data.Intercept}, X: table.NewColumns(len(o.data.X), m), Y: make([]float64, m)}
		o.lightness = make([]float64, m)
		o.batch.SetAuxiliary(o.data, func(_, _ []float64) []float64 { return make([]float64, m) })
	}
	rows := o.rows.Sample(m)
	if o.data.First != nil {
		return o.dealRecords(rows)
	}
	table.Gather(o.batch.Y, o.data.Y, rows)
	for j, x := range o.data.X {
		table.Gather(o.batch.X[j], x, rows)
	}
	o.batch.SetAuxiliary(o.data, func(batch, column []float64) []float64 {
		table.Gather(batch, column, rows)
		return batch
	})
	if o.weights == nil {
		return o.batch, nil
	}
	table.Gather(o.lightness, o.weights, rows)
	return o.batch, o.lightness
}

// dealRecords copies a batch of records of several rows. It panics if rows have leverage weights.
func (o *oracle) dealRecords(some []int) (table.Data, []float64) {
	if o.weights != nil {
		panic("dpsco: batches of weighed rows")
	}
	return o.data.Records(some), nil
}

// gradients are the weighted gradients of a loss at w, minus those at anchor; of a record of several
// rows, the mean over its rows.
type gradients struct {
	loss    loss.Loss
	data    table.Data
	weights []float64
	w       []float64
	anchor  []float64 // nil: none
}

func (g gradients) rows() mean.Rows {
	return mean.Rows{N: g.data.N, D: g.data.D, Range: func(visitor func() func(mean.Block)) {
		g.data.Pass(func() func(first int, b table.Data) {
			visit := visitor()
			if g.data.First != nil {
				return g.averaged(visit)
			}
			c, away := make([]float64, table.BlockRows), make([]float64, table.BlockRows)
			return func(first int, b table.Data) {
				g.derivatives(c[:b.N], away[:b.N], first, b)
				visit(mean.Block{Start: first, X: mech.Rows{X: b.X, Intercept: b.Intercept}, C: c[:b.N]})
			}
		})
	}}
}

// averaged passes the mean gradient of every record to visit, as a row with coefficient 1.
func (g gradients) averaged(visit func(mean.Block)) func(first int, b table.Data) {
	c, away, constant := make([]float64, table.BlockRows), make([]float64, table.BlockRows), table.Repeat(1, table.BlockRows)
	means, starts := table.NewColumns(g.data.D, table.BlockRows), make([]int, 0, table.BlockRows)
	return func(first int, b table.Data) {
		n, x := len(b.Y), b.X
		g.derivatives(c[:n], away[:n], b.First[0], b.Flat())
		if b.Intercept {
			x = append([][]float64{constant[:n]}, x...)
		}
		visit(mean.Block{Start: first, X: mech.Rows{X: table.MeansOf(means, x, c, b.Starts(starts))}, C: constant[:b.N]})
	}
}

// derivatives writes the factor by which each row of a block is multiplied in its gradient; first is
// the index of the block's first row.
func (g gradients) derivatives(c, away []float64, first int, b table.Data) {
	table.Predict(c, b, g.w)
	loss.Derivs(g.loss, c, c, b.Y)
	if g.anchor != nil {
		table.Predict(away, b, g.anchor)
		loss.Derivs(g.loss, away, away, b.Y)
		for i, v := range away {
			c[i] -= v
		}
	}
	if g.weights != nil {
		for i, v := range g.weights[first : first+b.N] {
			c[i] *= v
		}
	}
	if b.Weight != nil {
		floats.Mul(c, b.Weight)
	}
}

// leverage returns a weight for every row: min(1, limit/length), where length is that of the row
// times the root of the row's own weight.
func leverage(x table.Data, limit float64) []float64 {
	x = x.Flat()
	weights := x.NewColumn(x.N)
	x.Blocks(func() func(first int, b table.Data) {
		return func(first int, b table.Data) {
			square := weights[first : first+b.N]
			if b.Intercept {
				for i := range square {
					square[i] = 1
				}
			}
			for _, column := range b.X {
				for i, v := range column {
					square[i] += v * v
				}
			}
			for i, v := range square {
				square[i] = min(1, limit/math.Sqrt(v*b.WeightOf(i))) // NaN stays: the row is unusable
			}
		}
	})
	return weights
}
