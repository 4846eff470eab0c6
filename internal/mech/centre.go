package mech

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mathext"
)

// Centre releases a point near which most of m points lie. Each point is computed from a part of the data
// of its own, so one record moves one point, to anywhere in the ball of Radius around the origin, onto
// which all points are projected. The noise is proportional to the radius that holds about half of the
// points.
//
// Privacy: (Epsilon, Delta)-DP when one point is replaced (proof: centre.md). Points, noise and rounding
// are exact; the smooth bound is computed in float64: see Arithmetic.
//
// Source: Nissim, Raskhodnikova & Smith 2007, section 5, and Wang, Xiao, Devadas & Xu 2020, Algorithm 1.
// Differs: disjoint parts; a bound that is smooth.
type Centre struct{ Epsilon, Delta, Radius float64 }

// Limits of a Centre.
const (
	minCentrePoints    = 3
	maxCentrePoints    = 5000 // bounds the memory of all pairwise distances
	maxCentreDimension = 1 << 12
	minCentreEpsilon   = 0x1p-10 // with less, no number of points in range passes Check
	maxCentreEpsilon   = 20
	minCentreDelta     = 1e-10 * (1 - 0x1p-40) // 1e-9 / 10, with room for rounding
)

// Check reports whether m points of length d can be released.
//
// Errors: wraps ErrParams and names values that would work, in the words of a request: points are blocks,
// their length the number of coefficients.
func (c Centre) Check(m, d int) error {
	if err := c.check(d); err != nil {
		return err
	}
	_, decay := c.calibrate(d)
	switch least := max(minCentrePoints, 2*radiiToAverage(decay)-3); {
	case least > maxCentrePoints:
		return fmt.Errorf("%w: eps %.6g is too little for %d coefficients, for there would have to be %d blocks, and %d is the most", ErrParams, c.Epsilon, d, least, maxCentrePoints)
	case m > maxCentrePoints:
		return fmt.Errorf("%w: blocks is %d; for eps %.6g and %d coefficients it must be from %d to %d", ErrParams, m, c.Epsilon, d, least, maxCentrePoints)
	case m < minCentrePoints || radiiToAverage(decay) > quorum(m):
		return fmt.Errorf("%w: %d blocks are too few for eps %.6g and %d coefficients; there must be %d to %d", ErrParams, m, c.Epsilon, d, least, maxCentrePoints)
	}
	return nil
}

func (c Centre) check(d int) error {
	switch {
	case !(c.Epsilon >= minCentreEpsilon && c.Epsilon <= maxCentreEpsilon):
		return fmt.Errorf("%w: eps is %.6g; it must be from %.6g to %d", ErrParams, c.Epsilon, minCentreEpsilon, maxCentreEpsilon)
	case !(c.Delta >= minCentreDelta && c.Delta <= .1):
		return fmt.Errorf("%w: the centre's delta is %.6g; it must be from %g to 0.1", ErrParams, c.Delta, minCentreDelta)
	case d > maxCentreDimension:
		return fmt.Errorf("%w: %d coefficients; there can be %d", ErrParams, d, maxCentreDimension)
	}
	return c.ball(d).Check()
}

// Blocks returns the number of points to compute from n records, each from its share, when typical points
// lie spread apart: enough that the worst case, points anywhere in the ball, weighs less than spread, but
// few enough that each point has 20 records a dimension.
//
// Errors: those of Check, for the number that it would return.
func (c Centre) Blocks(n, d int, spread float64) (int, error) {
	if err := c.check(d); err != nil {
		return 0, err
	}
	_, decay := c.calibrate(d)
	enough := math.Max(50, math.Ceil(2/decay*math.Log(2*c.Radius/spread)))
	m := int(min(enough, float64(n/(20*d)), maxCentrePoints))
	return m, c.Check(m, d)
}

// Event returns the cost of one Release.
func (c Centre) Event() privacy.Event {
	return privacy.Approx{Epsilon: c.Epsilon, Delta: c.Delta}
}

// Arithmetic returns the mark of the release in the ledger.
func (c Centre) Arithmetic() string { return Float64Grid }

// ball is the contract of one point; its grid is that of the release.
func (c Centre) ball(d int) Contract { return Contract{L2, c.Radius, 1, d} }

// Release writes the noisy centre to dst, within the ball. A point that is not
// finite counts as the origin. It panics when c.Check refuses or lengths differ.
func (c Centre) Release(dst []float64, points [][]float64, src *Source) {
	m, d := len(points), len(dst)
	if err := c.Check(m, d); err != nil {
		panic(err.Error())
	}
	ball := c.ball(d)
	shift, decay := c.calibrate(d)
	steps := ball.project(points)
	all := newCluster(steps, ball)
	bound, centre := all.bound(radiiToAverage(decay), decay), steps[all.smallestBall()]
	noise := src.begin(c, [2]int{m, d}, hook.Chosen{Points: steps, Smooth: hook.Smooth{Point: inFloats(centre), Bound: bound, Smoothness: 2 * decay}})
	std := new(big.Rat).Quo(rational(bound), rational(shift))
	for j, v := range centre {
		dst[j] = ball.inUnits(nearest(v, std, noise.Normal()))
	}
	src.end(dst)
	intoBall(dst, c.Radius)
}

// project returns the points in grid steps, each within Bound.
func (c Contract) project(points [][]float64) [][]int64 {
	steps := make([][]int64, len(points))
	s := NewSum(c)
	for i, p := range points {
		s.Add(p)
		_, steps[i] = s.Bounded().unseal()
	}
	return steps
}

// nearest returns the integer nearest to v + std y.
func nearest(v int64, std *big.Rat, y Normal) *big.Int {
	step := func(z *big.Rat) *big.Int {
		z.Mul(z, std).Add(z, new(big.Rat).SetInt64(v)).Add(z, big.NewRat(1, 2))
		return new(big.Int).Div(z.Num(), z.Denom()) // floor, because the denominator is positive
	}
	for digits := 1; ; digits++ {
		near, width := fromFloat(y.Value(digits)), new(big.Rat).Inv(power(uint(64*digits)))
		if y.negative {
			width.Neg(width)
		}
		k := step(new(big.Rat).Add(near, width))
		if k.Cmp(step(near)) == 0 {
			return k
		}
	}
}

// inFloats converts integers below 2^53 to float64, exactly.
func inFloats(steps []int64) []float64 {
	point := make([]float64, len(steps))
	for j, v := range steps {
		point[j] = float64(v)
	}
	return point
}

// intoBall scales v to the length radius if it is longer.
func intoBall(v []float64, radius float64) {
	square := 0.0
	for _, x := range v {
		square += x / radius * (x / radius)
	}
	if square > 1 {
		for j := range v {
			v[j] /= math.Sqrt(square)
		}
	}
}

// quorum returns the number of points that a ball must hold for two such balls, one of each neighbour, to
// share an unchanged point.
func quorum(m int) int { return (m+1)/2 + 1 }

// radiiToAverage returns the smallest a such that replacing one of a radii by
// twice the least of them multiplies their mean by at most exp(decay) (Lemma 2 of
// centre.md).
func radiiToAverage(decay float64) int {
	a := math.Ceil(1 / math.Expm1(decay))
	if math.Log1p(1/a) > decay*(1-0x1p-45) {
		a++
	}
	return int(a)
}

// cluster holds distances between points: radii[i][k] is the distance from point i to its t-th nearest,
// itself included, for t = quorum + k.
type cluster struct {
	radii    [][]float64
	diameter float64 // of the ball
}

func newCluster(points [][]int64, ball Contract) cluster {
	c := cluster{diameter: math.Ldexp(2, int(ball.bits()))}
	for _, p := range points {
		all := make([]float64, len(points))
		for k, q := range points {
			all[k] = min(distanceOf(p, q), c.diameter)
		}
		slices.Sort(all)
		c.radii = append(c.radii, slices.Clone(all[quorum(len(points))-1:]))
	}
	return c
}

func distanceOf(p, q []int64) float64 {
	square := 0.0
	for j := range p {
		v := float64(p[j] - q[j])
		square += float64(v * v)
	}
	return math.Sqrt(square)
}

// smallestBall returns the index of the point whose ball of quorum points has the least radius.
func (c cluster) smallestBall() (best int) {
	for i := range c.radii {
		if c.radii[i][0] < c.radii[best][0] {
			best = i
		}
	}
	return best
}

// bound returns an upper bound, at least one grid step, on how far replacing one point moves the released
// one. Replacing one point changes the bound's logarithm by at most 2 decay (Lemmas 2 to 4 of centre.md).
// average is the number of radii in each mean.
func (c cluster) bound(average int, decay float64) float64 {
	beyond := len(c.radii[0]) // radii at t > m, which has no t-th nearest point: the diameter takes their place
	largest := math.Exp(-decay*float64(beyond-1)) * c.diameter
	column := make([]float64, len(c.radii))
	for k := 1; k < beyond; k++ {
		for i, r := range c.radii {
			column[i] = r[k]
		}
		slices.Sort(column)
		mean := 0.0
		for _, r := range column[:average] {
			mean += r / float64(average)
		}
		largest = max(largest, math.Exp(-decay*float64(k-1))*mean)
	}
	return max(1, (1+math.Exp(decay))*largest) * (1 + 0x1p-36)
}

// calibrate returns the noise for points of length d, as the change that it hides: shift is the distance in
// standard deviations, decay is half of the change of the bound's logarithm. Both are the constants of the
// paper, multiplied by the largest factor that Delta allows.
func (c Centre) calibrate(d int) (shift, decay float64) {
	tail := math.Log(2 / c.Delta)
	printedShift, printedDilation := c.Epsilon/(5*math.Sqrt(2*tail)), c.Epsilon/(4*(float64(d)+tail))
	low, high := 0., 64.
	for range 40 {
		factor := (low + high) / 2
		if c.delta(factor*printedShift, factor*printedDilation, d) <= c.Delta {
			low = factor
		} else {
			high = factor
		}
	}
	return low * printedShift, low*printedDilation/2 - 0x1p-32
}

// splits is the number of steps in the search for the division of Epsilon between shift and dilation.
const splits = 64

// delta bounds the delta, at Epsilon, of normal noise in d dimensions that is
// shifted by up to shift standard deviations and dilated by up to e^dilation.
func (c Centre) delta(shift, dilation float64, d int) float64 {
	least := 1.0
	for k := range splits + 1 {
		e := c.Epsilon * float64(k) / splits
		least = min(least, shiftDelta(e, shift)+math.Exp(e)*dilationDelta(c.Epsilon-e, dilation, float64(d)))
	}
	return least * (1 + 1e-9)
}

// tailSlack bounds the relative error of the distribution functions in use.
const tailSlack = 1e-11

// excess returns p - e^epsilon q, rounded upward.
func excess(epsilon, p, q float64) float64 {
	return max(0, p*(1+tailSlack)-math.Exp(epsilon)*q*(1-tailSlack))
}

// shiftDelta returns the delta, at epsilon, of N(0, 1) against N(mu, 1).
func shiftDelta(epsilon, mu float64) float64 {
	cdf := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	return excess(epsilon, cdf(mu/2-epsilon/mu), cdf(-mu/2-epsilon/mu))
}

// dilationDelta returns the delta, at epsilon, of N(0, I) in d dimensions against N(0, e^(2b) I), in the
// worse direction. The likelihood ratio exceeds e^epsilon outside a ball for the wider law and inside one
// for the narrower law.
func dilationDelta(epsilon, b, d float64) float64 {
	outside := 2 * (epsilon + d*b) / math.Expm1(2*b)
	worst := excess(epsilon, mathext.GammaIncRegComp(d/2, outside/2), mathext.GammaIncRegComp(d/2, outside/2*math.Exp(2*b)))
	if inside := -2 * (d*b - epsilon) / math.Expm1(-2*b); inside > 0 {
		worst = max(worst, excess(epsilon, mathext.GammaIncReg(d/2, inside/2), mathext.GammaIncReg(d/2, inside/2*math.Exp(-2*b))))
	}
	return worst
}
