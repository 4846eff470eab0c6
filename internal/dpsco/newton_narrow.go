package dpsco

import "math"

// The delta of a pass may be the one asked for times 2^(-k / deltasPerOctave), down by deltaOctaves.
const (
	deltasPerOctave = 4
	deltaOctaves    = 8
)

// narrowShare is the weight, as a bias, of the mean part of residuals that a smaller delta takes. With 1, fits of
// prices and costs, whose errors are skewed, had up to 2.3 times the excess.
const narrowShare = 3

// narrow chooses the delta of step t of a Huber fit, at most the one asked for. The noise of a score is
// proportional to delta, and where residuals are far smaller a smaller delta makes the same scores with less
// noise. The choice balances that noise with the mean part of residuals between both values, an estimate of
// what the smaller one takes from the mean score along the constant: by the histogram of the residuals of the
// step before, with the tail of rows that noise may hide. Rows far beyond that tail are not counted. As n eps
// grows, delta goes to the one asked for wherever residuals are seen to exceed it.
func (f *newtonFit) narrow(t int, residuals *magnitudes) {
	if !residuals.seen || f.scores == nil {
		return
	}
	residuals = residuals.withSpreadBins() // a delta just above the middle of a bin would seem to take nothing of it
	c, unit := f.Curve.(huberCurve), f.rescaleScores/f.Curve.size()
	best, least := f.delta, math.Inf(1)
	with := func(delta float64) {
		c.delta = delta
		f.Curve = c
		if f.scoresAreKnown { // then they are scores in units of delta
			f.rescaleScores = unit * delta
		}
	}
	for k := range deltaOctaves*deltasPerOctave + 1 {
		delta := f.delta * math.Exp2(-float64(k)/deltasPerOctave)
		with(delta)
		taken := residuals.tail(delta, cutsHide) - residuals.tail(f.delta, cutsHide)
		if cost := f.costOfLimit(f.scores, t, f.limitFor(f.scores, t)) + square(narrowShare*taken); cost < least {
			best, least = delta, cost
		}
	}
	with(best)
}
