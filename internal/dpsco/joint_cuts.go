package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/floats"
)

// cuts are two lengths at which contributions to a sum are cut. The part of each contribution within
// the inner cut and the part between both cuts are released as separate sums; together they are the
// contribution cut at the outer length. Where errors are symmetric the inner sum alone, divided by
// uncut, estimates the same mean with far less noise.
type cuts struct {
	inner, outer float64
	share        float64 // of the budget, for the inner sum
	uncut        float64 // share of rows whose contribution is within the inner cut
}

// minUncut is the least share of rows within an inner cut.
const minUncut = 0.7

// newCuts chooses both cuts by a histogram of the lengths of contributions. The inner cut minimises
// the variance of the difference between the rescaled inner mean and the mean of all rows, for
// symmetric errors: the noise of coordinates many sums, with standard deviation deviation at a cut
// of 1, plus the sampling variance of the difference. The outer cut minimises the noise plus tail
// times the square of the mean beyond the cut. The inner sum gets the share (inner/outer)^gain of
// the budget: with gain 1 the noise of both sums together is that of one sum cut at outer, and a
// smaller gain gives more to the inner sum.
func newCuts(m *magnitude.Histogram, coordinates, deviation float64, tail, gain float64) cuts {
	var c cuts
	noise := func(cut float64) float64 { return coordinates * square(cut*deviation) }
	c.inner = m.CheapestCut(func(cut float64) float64 {
		share := m.Below(cut)
		if share < minUncut {
			return math.Inf(1)
		}
		return noise(cut/share) + m.Mean(func(v float64) float64 { return square(min(v, cut)/share - v) })/m.Rows()
	})
	c.outer = m.CheapestCut(func(cut float64) float64 { return noise(cut) + tail*square(m.Tail(cut, magnitude.CutTail)) })
	c.outer = max(c.outer, math.Sqrt2*c.inner)
	c.share, c.uncut = math.Pow(c.inner/c.outer, gain), numeric.ClampBetween(m.Below(c.inner), minUncut, 1)
	return c
}

// units returns the units of the inner and the outer sum: divided by them, the two parts of a
// contribution together have a length of at most 1.
func (c cuts) units() (inner, rest float64) {
	return c.inner / math.Sqrt(c.share), (c.outer - c.inner) / math.Sqrt(1-c.share)
}

// split writes the factors by which contributions of the given lengths are multiplied in the inner
// and the outer sum. inner may be the same slice as lengths.
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

// noisyMean is a mean with the standard deviation of its noise.
type noisyMean struct {
	mean      []float64
	deviation float64
}

// cutMeans holds estimates of one mean from a release: inner, cut at the inner length; outer, cut at
// the outer length; between, the difference of outer and the rescaled inner mean inner/uncut; and
// kept, inner/uncut plus the fraction keep of between, which is near 0 where noise explains between.
type cutMeans struct {
	inner, outer, between, kept noisyMean
	keep                        float64
	noise, noiseRest            float64 // standard deviations of the noises of the inner sum and of the rest, which are independent
}

// means computes the estimates from a release of the inner sum, in the first half, and the outer
// sum, in the second, whose noise has standard deviation deviation. keep = max(0, 1 - (doubt e /
// |between|^2)^2), with e the expected square of between's noise; both are over the coordinates from
// first on.
func (c cuts) means(release []float64, first int, deviation, doubt float64) (m cutMeans) {
	d := len(release) / 2
	unit, unitRest := c.units()
	inner, rest := release[:d], release[d:]
	floats.Scale(unit, inner)
	floats.Scale(unitRest, rest)
	noise, noiseRest := unit*deviation, unitRest*deviation
	m.noise, m.noiseRest = noise, noiseRest
	m.inner = noisyMean{slices.Clone(inner), noise}
	m.outer = noisyMean{slices.Clone(inner), math.Hypot(noise, noiseRest)}
	floats.Add(m.outer.mean, rest)
	// inner/uncut estimates the whole mean; rest becomes inner + rest - inner/uncut.
	inflation := 1/c.uncut - 1
	floats.AddScaled(rest, -inflation, inner)
	m.between = noisyMean{rest, math.Hypot(noiseRest, inflation*noise)}
	explained := float64(d-first) * square(m.between.deviation)
	m.keep = max(0, 1-square(doubt*explained/max(square(floats.Norm(rest[first:], 2)), math.SmallestNonzeroFloat64)))
	m.kept = noisyMean{inner, math.Hypot(noise*(1/c.uncut-m.keep*inflation), m.keep*noiseRest)}
	floats.Scale(1/c.uncut, inner)
	floats.AddScaled(inner, m.keep, rest)
	return m
}

// extended is m.outer plus part times m.between, over the coordinates from first on.
func (c cuts) extended(m cutMeans, first int, part float64) noisyMean {
	inflation := 1/c.uncut - 1
	sum := noisyMean{slices.Clone(m.outer.mean), math.Hypot((1-part*inflation)*m.noise, (1+part)*m.noiseRest)}
	floats.AddScaled(sum.mean[first:], part, m.between.mean[first:])
	return sum
}
