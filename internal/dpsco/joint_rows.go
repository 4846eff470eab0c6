package dpsco

import (
	"math"

	"dpsidecar/internal/mech"
)

// What a record hands to the releases of a JointMoments.

// addPilot adds rows shortened to bound, beside residuals cut at cut, each in its
// units, and notes by how much rows were shortened.
func (r *rowBlock) addPilot(m *mech.Moments, bound, cut float64, shortened []float64) {
	for i := range shortened {
		shortened[i] = min(1, bound/r.length[i])
		r.v[i] = shortened[i] / bound
	}
	r.scaled()
	last := r.joint[len(r.joint)-1][:r.n]
	for i := range last {
		last[i] = shortened[i] * (residualWeight / cut) * clampTo(r.e[i], cut)
	}
	r.gram(m, len(r.joint))
}

// addStep adds both parts of weight e z, of records of several rows of its mean.
func (r *rowBlock) addStep(s *mech.Sum, weights []float64, c cuts) {
	d := len(r.z)
	inner, rest := r.v[:r.n], r.rest[d][:r.records()]
	for i, weight := range weights {
		inner[i] = weight * r.e[i]
	}
	r.scaled()
	given := r.given(d)
	size := r.sizes(given)
	inner = inner[:len(size)]
	for u, v := range size {
		inner[u], rest[u] = c.split(v)
	}
	for j, column := range given {
		product := r.rest[j][:len(column)]
		for u, v := range column {
			product[u] = rest[u] * v
			column[u] = inner[u] * v
		}
	}
	s.AddRows(mech.Rows{X: append(given, firstRows(r.rest[:d], len(size))...)}, r.ones[:len(size)])
}

// sizes returns the lengths of what records give, of single rows those of v_i z_i.
func (r *rowBlock) sizes(given [][]float64) []float64 {
	size := r.v[:r.records()]
	if r.starts != nil {
		lengths(size, given)
		return size
	}
	for i, v := range size {
		size[i] = math.Abs(v) * r.length[i]
	}
	return size
}

// addLevel adds both parts of residuals, of records of several rows of their mean.
func (r *rowBlock) addLevel(s *mech.Sum, c cuts) {
	r.levels(r.joint[0][:r.n])
	inner := r.given(1)[0]
	rest := r.rest[0][:len(inner)]
	for u, e := range inner {
		inner[u], rest[u] = c.split(math.Abs(e))
		inner[u] *= e
		rest[u] *= e
	}
	s.AddRows(mech.Rows{X: [][]float64{inner, rest}}, r.ones[:len(inner)])
}

// addMeat adds the products of what a record gave to the step and, with an intercept, to the
// level, both as they were cut.
func (r *rowBlock) addMeat(m *mech.Moments, weights []float64, cut, levelCut float64, level bool) {
	for i, weight := range weights {
		r.v[i] = weight * r.e[i] / cut
	}
	r.scaled()
	d := len(r.z)
	if level {
		last := r.joint[d][:r.n]
		r.levels(last)
		divide(last, levelCut)
		d++
	}
	x := r.given(d)
	for u, size := range r.sizes(x[:len(r.z)]) {
		r.v[u] = min(1, 1/size)
	}
	for _, column := range x[:len(r.z)] {
		for u := range column {
			column[u] *= r.v[u]
		}
	}
	for _, last := range x[len(r.z):] {
		for u, v := range last {
			last[u] = clampTo(v, 1)
		}
	}
	m.AddRows(mech.Rows{X: x}, r.records())
}
