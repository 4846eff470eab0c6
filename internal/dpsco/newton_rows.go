package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/lane"
	"dpsidecar/internal/mech"
)

// newtonRows are a block of rows with what Newton makes of them. All of it is a function
// of one row and of numbers that are public or were released.
type newtonRows struct {
	*rowBlock
	score    []float64   // minus the derivative of the loss
	most     []float64   // bounds its size
	tail     []float64   // times the length, how far out limits belong
	model    []float64   // curvature of the loss, or what is expected of it
	robust   []float64   // curvature that serves far from the minimum as well
	weight   []float64   // of the row in score and curvature
	products [][]float64 // scratch: scores times rows, shell by shell
	ones     []float64
}

func newNewtonRows() *newtonRows {
	c := columns(6, blockRows)
	return &newtonRows{score: c[0], most: c[1], tail: c[2], model: c[3], robust: c[4], weight: c[5], ones: slices.Repeat([]float64{1}, blockRows)}
}

// weigh brings scores within limit and curvatures within bound, both by one weight:
// different ones would make steps overshoot along rare flags.
func (r *newtonRows) weigh(c curve, limit, bound float64) {
	c.score(r)
	r.weighLosses()
	for i, length := range r.length[:r.n] {
		r.weight[i] = min(1, limit/(length*r.most[i]), square(bound/length)/r.model[i])
	}
	if c, ok := c.(huberCurve); ok {
		c.straighten(r, bound)
	}
}

// straighten gives rows that the bound shortens and whose residual is beyond delta the score and the curvature of a
// line that goes on as it does below delta, until the score is what the limit allows. The whole score
// from delta on would be a jump, of which the curvature tells nothing: steps went up to six times too far
// along rare flags.
func (c huberCurve) straighten(r *newtonRows, bound float64) {
	for i, length := range r.length[:r.n] {
		beyond, steep := math.Abs(r.e[i])/c.delta, r.most[i]/c.delta
		if line := square(bound/length) / steep * beyond; beyond > 1 && line < r.weight[i] {
			r.weight[i], r.model[i], r.robust[i] = line, steep/beyond, steep/beyond
		}
	}
}

// addFirst adds rows shortened to bound beside their targets.
func (r *newtonRows) addFirst(m *mech.Moments, c curve, bound float64) {
	r.addPilot(m, bound, c.firstCut(), r.weight[:r.n])
}

// addScore adds scores times rows, in shells: mech.Sum shortens all shells of a row
// together to 1.
func (r *newtonRows) addScore(s *mech.Sum, limit float64, shells int) {
	d := len(r.z)
	if r.products == nil {
		r.products = columns(d*scoreShells, blockRows)
	}
	x, v, ones := make([][]float64, d*shells), r.v[:r.n], r.ones[:r.n]
	for k := range shells {
		r.inShell(v, k, shells, limit)
		for j, z := range r.z {
			x[k*d+j] = r.products[k*d+j][:r.n]
			lane.Multiply(x[k*d+j], v, z)
		}
	}
	r.sum(s, mech.Rows{X: x}, ones)
}

// addMeat adds what a row gave to the score.
func (r *newtonRows) addMeat(m *mech.Moments, limit float64) {
	v := r.v[:r.n]
	for i := range v {
		v[i] = r.weight[i] * r.score[i] / limit
	}
	r.scaled()
	m.AddRows(mech.Rows{X: r.given(len(r.z))}, r.records())
}

// addCurvature adds rows times the root of a curvature and of their weights, shortened to
// bound and in units of it.
func (r *newtonRows) addCurvature(m *mech.Moments, curvature []float64, bound float64) {
	v := r.v[:r.n]
	for i := range v {
		root := math.Sqrt(curvature[i])
		v[i] = root / bound * min(math.Sqrt(r.weight[i]), bound/(root*r.length[i]))
	}
	r.scaled()
	r.gram(m, len(r.z))
}
