package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"
)

// The contributions of records to the releases of a JointMoments.

// addPilot adds rows shortened to bound with residuals cut at cut, each in its unit, and stores the
// factor by which each row was shortened.
func (r *rowBlock) addPilot(m *mech.Moments, bound, cut float64, shortened []float64) {
	n, unit, residual := len(shortened), 1/bound, residualWeight/cut
	v, last := r.v[:n], r.joint[len(r.joint)-1][:n]
	simd.Clamp(last, r.e, cut)
	for i, length := range r.length[:n] {
		shortened[i], v[i] = 1, unit
		if !(length <= bound) {
			shortened[i] = min(1, bound/length)
			v[i] = shortened[i] / bound
		}
		last[i] *= shortened[i] * residual
	}
	r.scaled()
	r.gram(m, len(r.joint))
}

// addStep adds the inner and outer parts of weight e z; of a record of several rows, those of its mean.
func (r *rowBlock) addStep(s *mech.Sum, weights []float64, c cuts) {
	d := len(r.z)
	simd.Multiply(r.v[:r.n], weights, r.e)
	r.scaled()
	given := r.given(d)
	inner, rest := r.sizes(given), r.rest[d][:r.records()]
	c.split(inner, rest, inner)
	for j, column := range given {
		simd.Multiply(r.rest[j][:len(column)], column, rest)
		simd.Multiply(column, column, inner)
	}
	s.AddRows(mech.Rows{X: append(given, table.Heads(r.rest[:d], len(rest))...)}, r.ones[:len(rest)])
}

// sizes returns the lengths of the records' contributions; for single rows these are |v_i| |z_i|.
func (r *rowBlock) sizes(given [][]float64) []float64 {
	size := r.v[:r.records()]
	if r.starts != nil {
		table.RowLengths(size, given)
		return size
	}
	length := r.length[:len(size)]
	for i, v := range size {
		size[i] = math.Abs(v) * length[i]
	}
	return size
}

// addIntercept adds the inner and outer parts of residuals; of a record of several rows, those of its
// mean residual.
func (r *rowBlock) addIntercept(s *mech.Sum, c cuts) {
	r.weightedResiduals(r.joint[0][:r.n])
	e := r.given(1)[0]
	inner, rest := r.v[:len(e)], r.rest[0][:len(e)]
	for u, v := range e {
		inner[u] = math.Abs(v)
	}
	c.split(inner, rest, inner)
	simd.Multiply(rest, rest, e)
	simd.Multiply(e, e, inner)
	s.AddRows(mech.Rows{X: [][]float64{e, rest}}, r.ones[:len(e)])
}

// addMeat adds the products of a record's contributions to the step and, with an intercept, to its
// step, both cut at their outer lengths.
func (r *rowBlock) addMeat(m *mech.Moments, weights []float64, cut, interceptCut float64, intercept bool) {
	simd.Multiply(r.v[:r.n], weights, r.e)
	divide(r.v[:r.n], cut)
	r.scaled()
	d := len(r.z)
	if intercept {
		last := r.joint[d][:r.n]
		r.weightedResiduals(last)
		divide(last, interceptCut)
		d++
	}
	x := r.given(d)
	within := r.sizes(x[:len(r.z)])
	for u, size := range within {
		if within[u] = 1; !(size <= 1) {
			within[u] = min(1, 1/size)
		}
	}
	for _, column := range x[:len(r.z)] {
		simd.Multiply(column, column, within)
	}
	for _, last := range x[len(r.z):] {
		simd.Clamp(last, last, 1)
	}
	m.AddRows(mech.Rows{X: x}, r.records())
}
