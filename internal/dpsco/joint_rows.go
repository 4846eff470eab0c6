package dpsco

import (
	"math"

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
	m.AddRows(mech.Rows{X: r.rowsOf(r.joint, len(r.joint))}, r.n)
}

// addStep adds both parts of weight e z.
func (r *rowBlock) addStep(s *mech.Sum, weights []float64, c cuts) {
	d := len(r.z)
	inner, rest := r.v[:r.n], r.rest[d][:r.n]
	for i, weight := range weights {
		size := weight * r.e[i]
		inner[i], rest[i] = c.split(math.Abs(size) * r.length[i])
		inner[i] *= size
		rest[i] *= size
	}
	r.scaled()
	for j, z := range r.z {
		product := r.rest[j][:r.n]
		for i, v := range rest {
			product[i] = v * z[i]
		}
	}
	s.AddRows(mech.Rows{X: append(r.rowsOf(r.joint, d), r.rowsOf(r.rest, d)...)}, r.ones[:r.n])
}

// addLevel adds both parts of residuals.
func (r *rowBlock) addLevel(s *mech.Sum, c cuts) {
	inner, rest := r.joint[0][:r.n], r.rest[0][:r.n]
	for i, e := range r.e[:r.n] {
		inner[i], rest[i] = c.split(math.Abs(e))
		inner[i] *= e
		rest[i] *= e
	}
	s.AddRows(mech.Rows{X: [][]float64{inner, rest}}, r.ones[:r.n])
}

// addMeat adds what a row gave to the step and, with an intercept, to the level.
func (r *rowBlock) addMeat(m *mech.Moments, weights []float64, cut, levelCut float64, level bool) {
	for i, weight := range weights {
		c := weight * r.e[i] / cut
		r.v[i] = c * min(1, 1/(math.Abs(c)*r.length[i]))
	}
	r.scaled()
	d := len(r.z)
	if level {
		last := r.joint[d][:r.n]
		for i := range last {
			last[i] = clampTo(r.e[i], levelCut) / levelCut
		}
		d++
	}
	m.AddRows(mech.Rows{X: r.rowsOf(r.joint, d)}, r.n)
}
