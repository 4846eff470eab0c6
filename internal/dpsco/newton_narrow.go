package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
)

// The delta of a pass may be the one asked for times 2^(-k / deltasPerOctave), down by deltaOctaves.
const (
	deltasPerOctave = 4
	deltaOctaves    = 8
)

// narrowShare is the weight, as a bias, of the mean part of residuals that a smaller delta takes. With 1, fits of
// prices and costs, whose errors are skewed, had up to 2.3 times the excess.
const narrowShare = 3

// Where nearly all residuals exceed delta, the curvature (the share of residuals within delta) is so small that noise
// hides it, and steps are too short. The second pass then uses delta = wider times the typical residual. It does so
// where the typical residual exceeds nearlyAllBeyond times the requested delta or, if nearly all residuals have the same
// sign (mean score above mostOneSided of delta), oneSidedBeyond times it.
const (
	wider           = 2
	nearlyAllBeyond = 4
	oneSidedBeyond  = 2
	mostOneSided    = 0.6
)

// lastReach is the largest change of predictions in the last step. The curvature of Huber's loss changes over a
// typical residual where that is larger than delta.
func (f *newtonFit) lastReach() float64 {
	if c, huber := f.Curve.(huberCurve); huber {
		return max(c.delta, c.far)
	}
	return f.Curve.reach()
}

// bend is the change of predictions over which the curvature of the last step changes, for intervals: of Huber's loss delta,
// or a typical residual where that is larger, as the share of rows within delta says. Residuals of the step before do not
// say it: of a target far from 0 nearly all of them were the distance to it. Nor does the share where nearly all residuals
// have one sign, for then that distance is still open.
func (f *newtonFit) bend() float64 {
	c, huber := f.Curve.(huberCurve)
	if !huber || f.oneSidedAt() {
		return f.Curve.reach()
	}
	within := max(f.meanCurvature()/f.weights, minCurvature)
	return max(c.delta, min(c.far, c.delta/2/within))
}

// narrow chooses the delta of step t of a Huber fit: at most the one asked for, but before the last step where
// residuals are far larger. The noise of a score is proportional to delta, and where residuals are far smaller a
// smaller delta makes the same scores with less noise. The choice balances that noise with the mean part of residuals between both values, an estimate of
// what the smaller one takes from the mean score along the constant: by the histogram of the residuals of the
// step before, with the tail of rows that noise may hide, and rows far beyond that tail where they stand out
// together. As n eps grows, delta goes to the one asked for wherever residuals are seen to exceed it.
func (f *newtonFit) narrow(t int, residuals *magnitude.Histogram) {
	c, unit := f.Curve.(huberCurve), f.rescaleScores/f.Curve.size()
	with := func(delta float64) {
		c.delta = delta
		f.Curve = c
		if f.scoresAreKnown { // then they are scores in units of delta
			f.rescaleScores = unit * delta
		}
	}
	if c.delta > f.delta {
		with(f.delta)
	}
	if !residuals.Seen() || f.scores == nil {
		return
	}
	typical, most := residuals.Quantile(0.5), nearlyAllBeyond*f.delta
	if f.oneSided { // then the step since has made them smaller
		typical, most = typical-f.moved, oneSidedBeyond*f.delta
	}
	switch {
	case t == f.last():
		c.far = typical
	case typical > most:
		with(wider * typical)
		if f.scoresAreKnown { // curvatures will be nearly 1, and rows as long as the sizes of scores say
			f.lengths, f.rescale = f.scores, unit
		}
		return
	}
	f.spreads = 0                          // the choice is made without noiseFarBelow
	residuals = residuals.WithSpreadBins() // a delta just above the middle of a bin would seem to take nothing of it
	best, least := f.delta, math.Inf(1)
	for k := range deltaOctaves*deltasPerOctave + 1 {
		delta := f.delta * math.Exp2(-float64(k)/deltasPerOctave)
		with(delta)
		taken := residuals.Tail(delta, magnitude.CutTail) - residuals.Tail(f.delta, magnitude.CutTail) + residuals.Farther(delta, f.delta)
		if cost := f.costOfLimit(f.scores, t, f.limitFor(f.scores, t)) + square(narrowShare*taken); cost < least {
			best, least = delta, cost
		}
	}
	with(best)
	if t == f.last() {
		f.spreads = math.Sqrt(residuals.Mean(func(v float64) float64 { return square(min(v, best)) })) / best
	}
}
