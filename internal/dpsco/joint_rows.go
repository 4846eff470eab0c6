package dpsco

import (
	"dpsidecar/internal/mech"
)

// What a row hands to the releases of a JointMoments.

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

// addStep adds weight e z in units of cut: mech.Sum shortens them to 1.
func (r *rowBlock) addStep(s *mech.Sum, weights []float64, cut float64) {
	v, x := r.v[:r.n], make([][]float64, len(r.z))
	for i := range v {
		v[i] = weights[i] * r.e[i] / cut
	}
	for j, z := range r.z {
		x[j] = z[:r.n]
	}
	r.sum(s, mech.Rows{X: x}, v)
}

// addLevel adds residuals in units of cut: mech.Sum clamps them to 1.
func (r *rowBlock) addLevel(s *mech.Sum, cut float64) {
	v := r.v[:r.n]
	for i := range v {
		v[i] = r.e[i] / cut
	}
	r.sum(s, mech.Rows{Intercept: true}, v)
}

// addMeat adds the products of what a record gave to the step and, with an intercept, to the
// level: both as their sums cut them.
func (r *rowBlock) addMeat(m *mech.Moments, weights []float64, cut, levelCut float64, level bool) {
	for i, weight := range weights {
		r.v[i] = weight * r.e[i] / cut
	}
	r.scaled()
	d := len(r.z)
	if level {
		last := r.joint[d][:r.n]
		for i := range last {
			last[i] = r.e[i] / levelCut
		}
		d++
	}
	x := r.given(d)
	shorten(x[:len(r.z)], r.v)
	for _, last := range x[len(r.z):] {
		for u, v := range last {
			last[u] = clampTo(v, 1)
		}
	}
	m.AddRows(mech.Rows{X: x}, r.records())
}

// shorten brings rows that are given by columns to a length of 1 at most.
func shorten(x [][]float64, scratch []float64) {
	lengths(scratch[:len(x[0])], x)
	for _, column := range x {
		for u, v := range column {
			column[u] = v * min(1, 1/scratch[u])
		}
	}
}
