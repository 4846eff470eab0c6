package dpsco

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// cuts are two lengths at which what rows give to a sum is cut. The sum of what is within
// the inner one is released beside that of what lies between both: together they are the
// sum cut at the outer one. Where errors are symmetric the inner sum alone tells as much as
// all of it, with far less noise.
type cuts struct {
	inner, outer float64
	share        float64 // of the budget that goes to the inner sum
	uncut        float64 // share of rows within the inner cut
}

// leastUncut is the least share of rows within an inner cut.
const leastUncut = 0.7

// newCuts takes as inner cut the one at which the inner mean, with what is cut made up for, is
// nearest to that of all rows: it balances the noise on each of coordinates many sums, of a
// deviation for a cut of 1, with how far apart the two means are by the chance of the rows,
// where errors are symmetric. The outer cut balances noise with the squared tail beyond. gain
// is the power of the ratio of the cuts by which they share the budget: at 1 the noise of both
// sums together is that of one sum, less gives to the inner one more than it takes from both.
func newCuts(m *magnitudes, coordinates, deviation float64, tail, gain float64) cuts {
	var c cuts
	noise := func(cut float64) float64 { return coordinates * square(cut*deviation) }
	c.inner = m.cheapestCut(func(cut float64) float64 {
		share := m.below(cut)
		if share < leastUncut {
			return math.Inf(1)
		}
		return noise(cut/share) + m.mean(func(v float64) float64 { return square(min(v, cut)/share - v) })/m.rows
	})
	c.outer = m.cheapestCut(func(cut float64) float64 { return noise(cut) + tail*square(m.tail(cut, cutsHide)) })
	c.outer = max(c.outer, math.Sqrt2*c.inner)
	c.share, c.uncut = math.Pow(c.inner/c.outer, gain), clampBetween(m.below(c.inner), leastUncut, 1)
	return c
}

// units are the lengths of both sums' contributions in units of which both together are 1
// long at most.
func (c cuts) units() (inner, rest float64) {
	return c.inner / math.Sqrt(c.share), (c.outer - c.inner) / math.Sqrt(1-c.share)
}

// split writes what contributions of some lengths are multiplied with in both sums; what stands
// for a length may be its inner factor afterwards.
func (c cuts) split(inner, rest, lengths []float64) {
	unit, unitRest := c.units()
	whole := 1 / unit
	inner, rest = inner[:len(lengths)], rest[:len(lengths)]
	for i, length := range lengths {
		if length <= c.inner {
			inner[i], rest[i] = whole, 0
			continue
		}
		within := min(1, c.inner/length)
		inner[i], rest[i] = within/unit, (min(1, c.outer/length)-within)/unitRest
	}
}

// noisyMean is a mean with the deviation of its noise.
type noisyMean struct {
	mean      []float64
	deviation float64
}

// cutMeans are the mean cut at the inner length, at the outer one, what the latter says beyond what the
// former alone does, and a mean that takes for noise what noise explains of that: it keeps a part of it.
type cutMeans struct {
	inner, outer, between, kept noisyMean
	keep                        float64
}

// means reads a release of both sums, the first half and the second, with noise of a
// deviation. What the outer mean says beyond what the inner one alone does is kept as far as it is
// longer, in the coordinates from first on, than doubt times what noise explains.
func (c cuts) means(release []float64, first int, deviation, doubt float64) (m cutMeans) {
	d := len(release) / 2
	unit, unitRest := c.units()
	inner, rest := release[:d], release[d:]
	floats.Scale(unit, inner)
	floats.Scale(unitRest, rest)
	noise, noiseRest := unit*deviation, unitRest*deviation
	m.inner = noisyMean{slices.Clone(inner), noise}
	m.outer = noisyMean{slices.Clone(inner), math.Hypot(noise, noiseRest)}
	floats.Add(m.outer.mean, rest)
	// The inner sum says 1/uncut of itself; rest becomes what both together say beyond that.
	back := 1/c.uncut - 1
	floats.AddScaled(rest, -back, inner)
	m.between = noisyMean{rest, math.Hypot(noiseRest, back*noise)}
	explained := float64(d-first) * square(m.between.deviation)
	m.keep = max(0, 1-square(doubt*explained/max(square(floats.Norm(rest[first:], 2)), math.SmallestNonzeroFloat64)))
	m.kept = noisyMean{inner, math.Hypot(noise*(1/c.uncut-m.keep*back), m.keep*noiseRest)}
	floats.Scale(1/c.uncut, inner)
	floats.AddScaled(inner, m.keep, rest)
	return m
}
