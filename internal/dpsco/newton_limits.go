package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
)

// choose sets limit and bound of step t, which balance noise with the parts of scores and curvature that
// they remove. The histogram of lengths is in the coordinates of the pass before: where the next ones stretch rows
// that it shows as short, a Huber fit with a bound from it alone would lose them.
func (f *newtonFit) choose(t int) {
	size := f.Curve.size()
	if f.scores == nil {
		f.limit, f.bound = 1.5*size*math.Sqrt(f.d/f.mean)*math.Sqrt(f.common/f.own), 1.5*math.Sqrt(f.d/f.own)
		return
	}
	zCurvature, least := f.curvatureNoise[t].NoiseMultiplier/f.n, 1.2*f.rescale*math.Sqrt(f.lengths.ExcessSquare(0))
	f.limit = f.limitFor(f.scores, t)
	noise := func(bound float64) float64 { return 2 * math.Sqrt(f.d) * square(bound) * zCurvature }
	f.bound = numeric.MinimiseOnGrid(least, 0, 16, func(bound float64) float64 {
		return noise(bound) + f.own*square(f.rescale)*f.longerThan(bound/f.rescale) + excessOfRare(f.rare, bound)
	})
	if f.huber() && !f.grouped {
		f.bound = max(f.bound, cheapest(least, noise(least)))
	}
}

// longerThan is the mean of max(0, v^2 - length^2) over the lengths of rows. By Huber's loss it includes rows that
// noise may hide, unless noise also hides a direction or much else: long rows often obey another model than the
// others, and shortening them biases the fit. Fits of labels hardly gain by it, and would have fewer intervals.
func (f *newtonFit) longerThan(length float64) float64 {
	if !f.huber() || f.LowInformation || f.grouped || f.floored > 0 {
		return f.lengths.ExcessSquare(length)
	}
	return f.lengths.PowerTail(length, 2, boundTail)
}

// boundTail is the assumption about hidden rows for bounds of rows and of counts. It has fewer than are expected:
// else noise alone would lengthen most bounds.
var boundTail = magnitude.TailAssumption{Deviations: -1, Steepest: 8}

// limitFor returns the limit of step t for the given histogram of scores.
func (f *newtonFit) limitFor(scores *magnitude.Histogram, t int) float64 {
	z := f.scoreNoise[t].NoiseMultiplier / f.n
	_, unit := f.weightOfTail()
	limit := numeric.MinimiseOnGrid(unit*math.Sqrt(scores.ExcessSquare(0)), -8, 32, func(limit float64) float64 { return f.costOfLimit(scores, t, limit) })
	switch {
	case t < f.last():
	case f.perLength > 0:
		limit = max(limit, f.cheapLimit(z))
	case f.scoresAreKnown && !f.grouped && f.Curve.counted() == nil:
		sampling := f.spreads * unit * math.Sqrt(scores.Usable()*scores.ExcessSquare(0)/f.d/f.n)
		limit = max(limit, min(noiseFarBelow*sampling/(2*z), unit*scores.Edge()))
	}
	return limit
}

// noiseFarBelow is the ratio of the standard deviation of the last score's noise to that of sampling up to which
// a limit that shortens fewer rows costs little beside what it removes: a thirtieth of the error. The shortened rows obey
// another model than the others in most tables, and their shares differ between releases.
const noiseFarBelow = 0.25

// costOfLimit is what noise and the scores beyond a limit cost in step t.
func (f *newtonFit) costOfLimit(scores *magnitude.Histogram, t int, limit float64) float64 {
	weight, unit := f.weightOfTail()
	return f.d*square(2*limit*f.scoreNoise[t].NoiseMultiplier/f.n) + square(f.own*weight*unit*scores.Excess(limit/unit))
}

// weightOfTail returns the weight, as a bias, of the mean size of scores beyond a limit, and the factor from
// the sizes in the histogram to scores.
func (f *newtonFit) weightOfTail() (weight, unit float64) {
	switch {
	case f.scoresAreKnown:
		return f.Curve.tailShare(), f.rescaleScores
	case f.rareLabel:
		return rareLabelShare * startShare * math.Sqrt(f.mean), f.rescaleScores * f.Curve.size()
	}
	return startShare * math.Sqrt(f.mean), f.rescaleScores * f.Curve.size()
}

// startShare is the weight, as a bias, of the mean length beyond the limit where scores are not known;
// rareLabelShare is an additional factor where noise masks a label.
const (
	startShare     = 0.3
	rareLabelShare = 0.16
)
