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
	m.AddRows(mech.Rows{X: r.rowsOf(len(r.joint))}, r.n)
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
	s.AddRows(mech.Rows{X: x}, v)
}

// addLevel adds residuals in units of cut: mech.Sum clamps them to 1.
func (r *rowBlock) addLevel(s *mech.Sum, cut float64) {
	v := r.v[:r.n]
	for i := range v {
		v[i] = r.e[i] / cut
	}
	s.AddRows(mech.Rows{Intercept: true}, v)
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
	m.AddRows(mech.Rows{X: r.rowsOf(d)}, r.n)
}
