package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"
)

// A pass computes, for each row x, z = P'x and the residual e = y - <x, w>. P and w are released or public,
// so that everything here is a function of one row and of those.

// rowBlock is a block of rows in the coordinates of a pass.
type rowBlock struct {
	n      int
	starts []int       // first row of each record; nil: every row is a record
	means  [][]float64 // scratch: mean contributions of records of several rows
	z      [][]float64 // columns of P'x
	y      []float64   // targets
	e      []float64   // residuals; NaN in an unusable row
	length []float64   // lengths of z; NaN in an unusable row
	v      []float64   // scratch: one number for each row
	joint  [][]float64 // scratch: the columns of the rows and one more
	rest   [][]float64 // scratch: the same again
	ones   []float64
	counts []float64 // weights of rows; nil: all 1
	root   []float64 // scratch: square roots of counts
	bins   []int32   // scratch: bin numbers
}

func newRowBlock(d int) *rowBlock {
	one := table.NewColumns(4, table.BlockRows)
	r := &rowBlock{z: table.NewColumns(d, table.BlockRows), e: one[0], length: one[1], v: one[2], ones: one[3], joint: table.NewColumns(d+1, table.BlockRows), rest: table.NewColumns(d+1, table.BlockRows), bins: make([]int32, table.BlockRows)}
	for i := range r.ones {
		r.ones[i] = 1
	}
	return r
}

// load writes a block. A row with a number that is not finite, or too large to be squared, is unusable: its
// length and residual become NaN, and it contributes nothing.
func (r *rowBlock) load(b table.Data, p [][]float64, w []float64) {
	r.n, r.y, r.counts, r.starts = len(b.Y), b.Y, b.Weight, b.Starts(r.starts)
	e, length, y := r.e[:r.n], r.length[:r.n], b.Y[:r.n]
	table.Predict(e, b, w)
	for i, prediction := range e {
		e[i] = y[i] - prediction
	}
	clear(length)
	z := table.Heads(r.z, r.n)
	for j := range z {
		r.transform(z[j], b, p[j])
	}
	simd.AddSquares(length, z)
	simd.Roots(length)
	for i, v := range e {
		if !numeric.IsFinite(v) || !numeric.IsFinite(length[i]) { // finite if the square is
			length[i], e[i] = math.NaN(), math.NaN()
		}
	}
}

// transform writes one coordinate of P'x from its column of P, which is upper triangular. Leading features
// whose entry is 0 are skipped: they would matter only where they are not finite, and the residual is not
// finite there either.
func (r *rowBlock) transform(z []float64, b table.Data, p []float64) {
	constant := 0.0
	if b.Intercept {
		constant, p = p[0], p[1:]
	}
	first := 0
	for first < len(p) && p[first] == 0 {
		first++
	}
	simd.Combine(z, constant, p[first:], b.X[first:len(p)])
}

// records is the number of records in the block.
func (r *rowBlock) records() int {
	if r.starts == nil {
		return r.n
	}
	return len(r.starts) - 1
}

// count adds the magnitudes f(i), in units, to a histogram, where i is the first row of each record.
func (r *rowBlock) count(h *mech.Histogram, f func(i int) float64) {
	v := r.v[:r.records()]
	for u := range v {
		i := u
		if r.starts != nil {
			i = r.starts[u]
		}
		v[u] = f(i)
	}
	magnitude.Count(h, v, r.bins)
}

// countFirst adds the magnitudes of v, in units, to a histogram; of a record of several rows, that of the
// first.
func (r *rowBlock) countFirst(h *mech.Histogram, v []float64, unit float64) {
	if unit != 1 || r.starts != nil {
		r.count(h, func(i int) float64 { return v[i] / unit })
		return
	}
	magnitude.Count(h, v[:r.n], r.bins)
}

// sum adds v_i x_i to a sum; of a record of several rows, the mean.
func (r *rowBlock) sum(s *mech.Sum, x mech.Rows, v []float64) {
	if r.starts == nil {
		s.AddRows(x, v)
		return
	}
	s.AddRows(mech.Rows{X: r.meansOf(x.X, v)}, r.ones[:r.records()])
}

// table.MeansOf returns the means of v_i x_i over each record's rows.
func (r *rowBlock) meansOf(x [][]float64, v []float64) [][]float64 {
	if len(r.means) < len(x) {
		r.means = table.NewColumns(len(x), table.BlockRows)
	}
	return table.MeansOf(r.means, x, v, r.starts)
}

// given returns the first d columns of joint, which are contributions to a sum; of records of several rows,
// the means.
func (r *rowBlock) given(d int) [][]float64 {
	if r.starts == nil {
		return r.rowsOf(r.joint, d)
	}
	return r.meansOf(r.rowsOf(r.joint, d), r.ones)
}

// gram adds the products of the first d columns of joint; of a record of several rows, their mean.
func (r *rowBlock) gram(m *mech.Moments, d int) {
	table.AddRows(m, mech.Rows{X: r.rowsOf(r.joint, d)}, r.n, r.starts)
}

// products returns the lengths of residual times row, in units; of records of several rows, those of the
// mean.
func (r *rowBlock) products(unit float64) []float64 {
	v := r.v[:r.n]
	for i, e := range r.e[:r.n] {
		v[i] = e / unit
	}
	if r.starts == nil {
		return r.sizes(nil)
	}
	return r.sizes(r.meansOf(table.Heads(r.z, r.n), v))
}

// scaled writes v_i z_i to joint.
func (r *rowBlock) scaled() {
	v := r.v[:r.n]
	for j, z := range r.z {
		simd.Multiply(r.joint[j][:r.n], v, z)
	}
}

// rowsOf returns the block's rows of the first d of the columns, which are scratch.
func (r *rowBlock) rowsOf(columns [][]float64, d int) [][]float64 {
	x := make([][]float64, d)
	for j := range x {
		x[j] = columns[j][:r.n]
	}
	return x
}

// residualWeight is the largest contribution of a residual to the joint moments, relative to that of a row.
const residualWeight = 0.7

// jointBound is the length bound of a row together with its residual in the joint moments.
var jointBound = math.Sqrt(1 + residualWeight*residualWeight)
