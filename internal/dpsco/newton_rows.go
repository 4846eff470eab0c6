package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"
)

// newtonRows is a block of rows with the columns that Newton computes from them. Each is a function of one
// row and of numbers that are public or were released.
type newtonRows struct {
	*rowBlock
	score    []float64   // minus the derivative of the loss
	most     []float64   // upper bound of its absolute value
	tail     []float64   // times the length: the quantity whose histogram chooses limits
	model    []float64   // curvature of the loss, or its expectation under the model
	robust   []float64   // curvature that remains useful far from the minimum
	weight   []float64   // factor of the row in score and curvature that keeps both within their bounds
	own      []float64   // with registered weights: the row's weight over its bounding weight; nil without
	products [][]float64 // scratch: scores times rows, shell by shell
	ones     []float64
}

func newNewtonRows() *newtonRows {
	c := table.NewColumns(6, table.BlockRows)
	return &newtonRows{score: c[0], most: c[1], tail: c[2], model: c[3], robust: c[4], weight: c[5], ones: slices.Repeat([]float64{1}, table.BlockRows)}
}

// weigh computes weights that bring scores within limit and curvatures within bound. Score and curvature
// have one weight: with different ones, steps would overshoot along rare flags.
//
// With registered weights, rows are bounded as if each had the bounding weight, common or more. A bound by the
// row's own weight would shorten rows that weigh more, and weights may depend on the target, as in a sample in
// which cases are kept and others are drawn: then E[weight score | x] would not be 0 where the model holds.
func (r *newtonRows) weigh(c curve, limit, bound, common float64) {
	c.score(r)
	r.weighLosses(common)
	for i, length := range r.length[:r.n] {
		r.weight[i] = min(1, limit/(length*r.most[i]), square(bound/length)/r.model[i])
	}
	if c, ok := c.(huberCurve); ok {
		c.straighten(r, bound)
	}
}

// straighten changes rows that the bound shortens and whose residual is beyond delta. Their score continues
// the line that it is below delta, with the curvature of that line, up to the limit. With the full score
// from delta on, the score would have a jump that the curvature does not include: steps were up to six
// times too long along rare flags.
func (c huberCurve) straighten(r *newtonRows, bound float64) {
	for i, length := range r.length[:r.n] {
		beyond, steep := math.Abs(r.e[i])/c.delta, r.most[i]/c.delta
		if line := square(bound/length) / steep * beyond; beyond > 1 && line < r.weight[i] {
			r.weight[i], r.model[i], r.robust[i] = line, steep/beyond, steep/beyond
		}
	}
}

// addFirst adds rows, shortened to bound, together with their clipped targets.
func (r *newtonRows) addFirst(m *mech.Moments, c curve, bound float64) {
	r.addPilot(m, bound, c.firstCut(), r.weight[:r.n])
}

// addScore adds scores times rows, in shells: mech.Sum shortens all shells of a row
// together to 1.
func (r *newtonRows) addScore(s *mech.Sum, limit float64, shells int) {
	d := len(r.z)
	if r.products == nil {
		r.products = table.NewColumns(d*scoreShells, table.BlockRows)
	}
	x, v, ones := make([][]float64, d*shells), r.v[:r.n], r.ones[:r.n]
	for k := range shells {
		r.inShell(v, k, shells, limit)
		for j, z := range r.z {
			x[k*d+j] = r.products[k*d+j][:r.n]
			simd.Multiply(x[k*d+j], v, z)
		}
	}
	r.sum(s, mech.Rows{X: x}, ones)
}

// addMeat adds the second moments of the rows' contributions to the score.
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
		root := math.Sqrt(curvature[i] * r.ownWeight(i))
		v[i] = root / bound * min(math.Sqrt(r.weight[i]), bound/(root*r.length[i]))
	}
	r.scaled()
	r.gram(m, len(r.z))
}

// weighLosses multiplies scores by the weights of their rows, and their bounds, tails and curvatures by the
// bounding weights.
func (r *newtonRows) weighLosses(common float64) {
	r.own = r.own[:0]
	for i, v := range r.counts {
		bounding := max(common, v)
		r.own = append(r.own, v/bounding)
		r.score[i] *= v
		r.most[i] *= bounding
		r.tail[i] *= bounding
		r.model[i] *= bounding
		r.robust[i] *= bounding
	}
}

// ownWeight is the factor from a curvature with the row's bounding weight to that with its own.
func (r *newtonRows) ownWeight(i int) float64 {
	if len(r.own) == 0 {
		return 1
	}
	return r.own[i]
}
