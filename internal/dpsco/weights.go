package dpsco

import (
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Weights of rows (proof: weights.md). A fit minimises the mean, over all rows, of weight times loss. A
// weight is a function of its row, and is divided by a public largest weight.

// checkWeights refuses a weight column without a public largest weight. The database refuses the opposite.
func checkWeights(weight string, most float64) error {
	if weight != "" && most == 0 {
		return fmt.Errorf("%w: option \"weight\" needs option \"max_weight\", above which weights count as that", plan.ErrParameter)
	}
	return nil
}

// nameColumns writes the names of the columns of weights and offsets to parameters.
func nameColumns(parameters map[string]any, weight string, most float64, offset string) {
	if weight != "" {
		parameters["weight"], parameters["max_weight"] = weight, most
	}
	if offset != "" {
		parameters["offset"] = offset
	}
}

// unweighted returns rows without weights or offsets whose absolute residuals are the weight times those of
// x, and likewise for the losses of other quantiles: offsets are subtracted from targets, and the whole
// row, the constant included, is multiplied by its weight.
func unweighted(x table.Data) table.Data {
	for i, v := range x.Offset {
		x.Y[i] -= v
	}
	if x.Offset = nil; x.Weight == nil {
		return x
	}
	for _, column := range append(slices.Clone(x.X), x.Y) {
		floats.Mul(column, x.Weight)
	}
	if x.Intercept {
		x.X, x.Intercept = append([][]float64{x.Weight}, x.X...), false
	}
	x.Weight = nil
	return x
}

// weighing holds rows times the square roots of their weights, so that their second moments are the
// weighted ones.
type weighing struct{ x [][]float64 }

// rows returns the rows of a block.
func (w *weighing) rows(b table.Data) mech.Rows {
	if b.Weight == nil {
		return mech.Rows{X: b.X, Intercept: b.Intercept}
	}
	if w.x == nil {
		w.x = table.NewColumns(b.D, table.BlockRows)
	}
	x := table.Heads(w.x, len(b.Y))
	stored := x[b.D-len(b.X):]
	for i, v := range b.Weight {
		root := math.Sqrt(v)
		if b.Intercept {
			x[0][i] = root
		}
		for j, column := range b.X {
			stored[j][i] = root * column[i]
		}
	}
	return mech.Rows{X: x}
}

// scaleByWeight multiplies rows and residuals by the square roots of their weights, so that ordinary least
// squares of the results are weighted least squares.
func (r *rowBlock) scaleByWeight() {
	if r.counts == nil {
		return
	}
	if r.root == nil {
		r.root = make([]float64, table.BlockRows)
	}
	for i, v := range r.counts {
		r.root[i] = math.Sqrt(v)
	}
	for _, column := range append(table.Heads(r.z, r.n), r.e[:r.n], r.length[:r.n]) {
		simd.Multiply(column, column, r.root)
	}
}

// weightedResiduals writes the contributions of rows to the mean residual: the residual times its weight.
func (r *rowBlock) weightedResiduals(dst []float64) {
	copy(dst, r.e[:r.n])
	if r.counts == nil {
		return
	}
	simd.Multiply(dst, dst, r.root)
}

// minWeight is the least value used for a mean weight.
const minWeight = 1e-4

// noisyConstant is the second moment of the constant, which is the mean of the squares with which it
// enters, and the standard deviation of its noise.
type noisyConstant struct{ mean, deviation float64 }

// newNoisyConstant reads second moments in the coordinates of an upper triangular P, with the given
// standard deviation of noise on the diagonal.
func newNoisyConstant(h *mat.SymDense, deviation float64, p *mat.Dense) noisyConstant {
	unit := square(p.At(0, 0))
	return noisyConstant{h.At(0, 0) / unit, deviation / unit}
}
