// Package expmech draws the coefficients of a robust L1 regression from the exponential mechanism over a
// public grid, exactly. The grid is far too large to enumerate. An adaptive-rejection sampler proposes
// points from a piecewise exponential envelope of the target and accepts them by exact decisions, so that
// floating point and heuristics affect only the duration of a draw and never its law. The proof is in
// expmech.md.
//
// Source: Wang & Xu, l1 regression with heavy-tailed data, Algorithms 1 and 2. Differs: weights halved,
// because replacing a row moves the sum of scores both ways; scores are integers; the law is drawn without
// a net of candidates.
//
// Files:
//
//	expmech, draw       parameters, and the draw of a point
//	score, imprecise    scores of points as integers; rows with large rounding errors
//	lattice, view       grid points in coordinates of the posterior, and the table in these
//	box, heap           boxes of points, and their order and memory
//	bound, model, shell, fence  envelopes of the target: on boxes, where they touch, and far from the mode
//	sampling            splits that are chosen by a sample of the rows
//	proposal            exact draws from the envelope
//	centre, matrix      the mode of the target, and algebra of small matrices
package expmech

import (
	"fmt"
	"math"
	"math/big"
	"runtime"
)

// Set is the shape of the set W of possible coefficients.
type Set int

const (
	// Ball is the set of w with sum_j w_j^2 <= Radius^2.
	Ball Set = iota
	// Box is the set of w with |w_j| <= Radius for every j.
	Box
)

// Params are the public parameters of a draw.
type Params struct {
	// Epsilon is the privacy loss under replace-one, and the bounded range.
	Epsilon float64
	// Theta is the order of the moment that exists, in [1.05, 2].
	Theta float64
	// Iota scales residuals: all residuals beyond 1/Iota have the same score.
	Iota float64
	// Radius is the radius of W, Pitch the spacing of the grid.
	Radius, Pitch float64
	Set           Set
	// Intercept says that coefficient 0 belongs to a constant 1 that is not stored among the columns.
	Intercept bool
	// Memory is about how many bytes the boxes of the envelope may take, besides the rows; 4 GiB when zero.
	// With less memory a hard draw takes longer.
	Memory int64
}

// Limits of Validate. They keep every integer below 2^62 and every float far from overflow, and are far
// beyond any realistic problem.
const (
	maxColumns = 64
	maxRows    = 1<<31 - 1
	maxReach   = 1 << 28 // grid points from the centre of W to its border
	maxScale   = 0x1p100 // of every float parameter and its inverse
	maxEpsilon = 1e4
)

// Validate reports whether a draw from n rows and d coefficients is possible.
// It sees public facts only.
func (p Params) Validate(n, d int) error {
	scale := func(v float64) bool { return v >= 1/maxScale && v <= maxScale }
	switch {
	case n < 1 || n > maxRows:
		return fmt.Errorf("expmech: %d rows, want 1 to %d", n, maxRows)
	case d < 1 || d > maxColumns:
		return fmt.Errorf("expmech: %d coefficients, want 1 to %d", d, maxColumns)
	case !(p.Epsilon >= 1/maxScale && p.Epsilon <= maxEpsilon):
		return fmt.Errorf("expmech: epsilon %g, want a positive number up to %g", p.Epsilon, maxEpsilon)
	case !(p.Theta >= 1.05 && p.Theta <= 2):
		return fmt.Errorf("expmech: theta %g, want 1.05 to 2", p.Theta)
	case !scale(p.Iota) || !scale(p.Radius) || !scale(p.Pitch):
		return fmt.Errorf("expmech: iota %g, radius %g, pitch %g, want positive and finite numbers", p.Iota, p.Radius, p.Pitch)
	case p.Radius/p.Pitch > maxReach:
		return fmt.Errorf("expmech: pitch %g is too fine for radius %g", p.Pitch, p.Radius)
	case p.Set != Ball && p.Set != Box:
		return fmt.Errorf("expmech: unknown set %d", p.Set)
	}
	return nil
}

// target is the public part of the law to draw from: grid point k has weight exp(-unit * sum_i q_i(k)) if
// it lies in W.
type target struct {
	Params
	n, d    int
	psi     *psi
	workers workers

	unit  *big.Rat // epsilon / (2 psi.limit), exact
	gain  float64  // unit * 2^40, rounded: the exponent of a score of psi = 1
	reach int64    // |k_j| <= reach for every point of W
	norm2 uint64   // sum_j k_j^2 <= norm2 for every point of the ball
}

func newTarget(p Params, n, d int) *target {
	t := &target{Params: p, n: n, d: d, psi: newPsi(p.Theta), workers: workers(runtime.GOMAXPROCS(0))}
	epsilon := new(big.Rat).SetFloat64(p.Epsilon)
	t.unit = epsilon.Quo(epsilon, new(big.Rat).SetInt64(2*t.psi.limit))
	t.gain, _ = new(big.Rat).Mul(t.unit, new(big.Rat).SetInt64(scoreOne)).Float64()

	ratio := new(big.Rat).SetFloat64(p.Radius)
	ratio.Quo(ratio, new(big.Rat).SetFloat64(p.Pitch))
	t.reach = floor(ratio).Int64()
	t.norm2 = floor(ratio.Mul(ratio, ratio)).Uint64()
	return t
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

// contains reports whether grid point k lies in W.
func (t *target) contains(k []int64) bool {
	var square uint64
	for _, v := range k {
		if v < -t.reach || v > t.reach {
			return false
		}
		square += uint64(v * v)
	}
	return t.Set == Box || square <= t.norm2
}

// coefficients returns the point of coefficient space that k stands for.
func (t *target) coefficients(k []int64) []float64 {
	w := make([]float64, len(k))
	for j, v := range k {
		w[j] = t.Pitch * float64(v)
	}
	return w
}

// rowSlack bounds the effect of rounding on one row's share of the envelope; see expmech.md, section 4. It
// grows with n because sums do.
func (t *target) rowSlack() float64 { return 0x1p-30 * (1 + float64(t.n)*0x1p-26) }

// estimateSlack bounds the error of score.estimate, in units of psi.
func (t *target) estimateSlack() float64 {
	return float64(t.n) * 0x1p-39 * (1 + float64(t.n)*0x1p-22)
}

// chordNodes is the resolution of the table of chord slopes.
const chordNodes = 1024

// scoreOne is the integer score for psi = 1.
const scoreOne = 1 << 40

// psi is the bounded, concave loss psi(u) = -log(1 - u + u^theta/theta) on
// [0, 1], and log theta above. It is increasing with slope at most 1.
type psi struct {
	theta   float64
	inverse float64   // 1/theta
	top     float64   // log theta, rounded down
	limit   int64     // ceil(2^40 log theta): the largest score of a row
	chords  []float64 // lower bounds of psi(u)/u at u = 0, 1/1024, ..., 1
}

func newPsi(theta float64) *psi {
	p := &psi{theta: theta, inverse: 1 / theta, limit: int64(math.Ceil(scoreOne * (math.Log(theta) * (1 + 0x1p-50))))}
	p.top = math.Log(theta) * (1 - 0x1p-50)
	p.chords = make([]float64, chordNodes+1)
	p.chords[0] = 1
	for i := 1; i <= chordNodes; i++ {
		u := float64(i) / chordNodes
		p.chords[i] = -math.Log(p.decay(u)) / u * (1 - 0x1p-40)
	}
	return p
}

// power returns u^(theta-1) for u >= 0.
func (p *psi) power(u float64) float64 {
	if p.theta == 2 {
		return u
	}
	if u <= 0 {
		return 0
	}
	return math.Exp((p.theta - 1) * math.Log(u))
}

// decay returns exp(-psi(u)) = 1 - u + u^theta/theta for 0 <= u <= 1; it lies
// in [1/theta, 1].
func (p *psi) decay(u float64) float64 {
	return float64(1-u) + float64(u*p.power(u))*p.inverse
}

// at returns psi(u) within 2^-48, for any u >= 0.
func (p *psi) at(u float64) float64 {
	if u >= 1 {
		return p.top
	}
	return -math.Log(p.decay(u))
}

// chord returns a lower bound of psi(u)/u for u >= 0.
func (p *psi) chord(u float64) float64 {
	if u >= 1 {
		return p.top / u * (1 - 0x1p-50)
	}
	return p.chords[int(u*chordNodes)+1]
}

// quanta returns the integer score of a scaled residual, in [0, limit]. NaN
// scores the limit.
func (p *psi) quanta(u float64) int64 {
	if !(u < 1) {
		return p.limit
	}
	q := int64(math.Floor(scoreOne * -math.Log(p.decay(u))))
	return min(max(q, 0), p.limit)
}

// bend bounds the absolute second derivative of psi from above on [low, high], 0 <= low <= high. The
// derivative is 0 beyond 1.
func (p *psi) bend(low, high float64) float64 {
	if p.theta == 2 {
		v := 1 - min(high, 1)
		v *= v
		return 2 * (1 - v) / ((1 + v) * (1 + v))
	}
	// |psi''| = (theta-1) u^(theta-2) / decay(u) - psi'(u)^2, with every factor
	// monotone in u.
	slope := p.slope(high)
	return ((p.theta-1)*p.power(low)/low/p.decay(min(high, 1)))*(1+0x1p-40) - float64(slope*slope)*(1-0x1p-40)
}

// expand returns exp(-psi(u)) and psi'(u), u >= 0.
func (p *psi) expand(u float64) (decay, slope float64) {
	if u >= 1 {
		return p.decay(1), 0
	}
	power := p.power(u)
	decay = float64(1-u) + float64(u*power)*p.inverse
	return decay, (1 - power) / decay
}

// slope returns psi'(u), u >= 0, which falls from 1 to 0 at u = 1.
func (p *psi) slope(u float64) float64 {
	if u >= 1 {
		return 0
	}
	return (1 - p.power(u)) / p.decay(u)
}
