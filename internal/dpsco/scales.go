package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/floats"
)

// The histogram of sizes has minForScales of the zCDP budget or, where the noise on its counts would deviate by more
// than rareNoise of the rows, as much more as is needed, at most moreForScales, so that columns that are mostly 0 are
// seen; or where it would then deviate by more than seenNoise, at most maxForScales. Where that leaves a deviation of more
// than hopelessNoise there is none.
const (
	minForScales  = 0.04
	rareNoise     = 0.01
	moreForScales = 0.1
	seenNoise     = 0.03
	maxForScales  = 0.2
	hopelessNoise = 0.15
)

// shareForScales is that share, where noise is the deviation if the histogram had the whole budget, relative to the rows;
// 0: there is none.
func shareForScales(noise float64) float64 {
	share := min(max(numeric.ClampBetween(square(noise/rareNoise), minForScales, moreForScales), square(noise/seenNoise)), maxForScales)
	if noise > hopelessNoise*math.Sqrt(share) {
		return 0
	}
	return share
}

// sizeBins count the binary logarithms of the sizes of values. The outermost bins have no bounds: the lowest holds
// 0 as well.
var sizeBins = mech.Bins{Width: 1, Half: 60}

// A run of at most longestRun adjacent size bins counts as seen if its count exceeds sureBy standard deviations of its
// noise (laplaceTailOfRuns times as many under Laplace noise), and tinyBy more for each octave below 1. Runs of at most
// fewSizes bins that begin at 1/2 or 1, where flags, shares and small numbers lie, need only likelyBy: there are six of
// them, not a thousand. A falsely seen size is worst when it is small, because the true, larger values then decide the
// fit. If the true values are smaller, the column has no effect, as where nothing is seen.
const (
	longestRun = 8
	fewSizes   = 3
	likelyBy   = 2.5
	sureBy     = 4
	tinyBy     = 0.1
)

// laplaceTailOfRuns is as laplaceTailOfMagnitudes, at sureBy standard deviations instead of seenMode of magnitude: the lower a threshold, the nearer
// are both tails.
const laplaceTailOfRuns = 1.7

// needed is by how many deviations a run of sizes, the lowest of which is 2^exponent, has to stand out.
func needed(exponent, length int, noise mechanism) float64 {
	if (exponent == 0 || exponent == -1) && length <= fewSizes {
		return likelyBy
	}
	by := sureBy + tinyBy*float64(max(0, -exponent))
	if _, long := noise.(mech.Laplace); long {
		by *= laplaceTailOfRuns
	}
	return by
}

// unseenScale is the scale of a feature whose values noise hides, in a request no column of which has a scale. It
// makes the feature small, so that it does nothing: were it far larger than 1, a scale of 1 would let its few values
// decide the fit.
const unseenScale = 0x1p20

// unseenColumn is why there are no standard errors, nor a figure of the noise, where such features, Result.LeftOut, do nothing.
const unseenColumn = "noise hides how large the values of a column without a scale are"

// unseenTarget is why there are none where noise hides the values of the target, as where few rows have one that is not 0.
// They would be those of a fit of targets cut to about 1.
const unseenTarget = "noise hides how large the target is: do few rows have one that is not 0, or a value in every column? It counts as about 1, so that coefficients may be far too small; register scales, or ask for more eps"

// scaleSearch is a search for the scales of columns that have none.
type scaleSearch struct {
	Columns []numericColumn
	Share   float64 // of the zCDP budget; unused by medians, which have a share of epsilon
	Unseen  float64 // the scale of features whose values noise hides; that of such a target is 1
}

// unscaled returns the search for the scales of those columns that have none.
func unscaled(columns []numericColumn, unknown bool) scaleSearch {
	s := scaleSearch{Unseen: 1}
	if unknown {
		s.Unseen = unseenScale
	}
	for _, c := range columns {
		if c.unscaled {
			s.Columns = append(s.Columns, c)
		}
	}
	return s
}

// find releases the histogram of the sizes of values, expresses x in the scales that it shows, and returns them.
// hidden are the features that were made small because noise hides their values, and the target if noise hides its.
func (s scaleSearch) find(x table.Data, noise mechanism, src *mech.Source) (found *Scaled, hidden []int) {
	found = &Scaled{X: table.Repeat(1, x.FeatureColumns()), Y: 1, CentreX: make([]float64, x.FeatureColumns())}
	for k, counts := range countColumns(x, sizeBins, s.Columns, nil, noise, src) {
		c := s.Columns[k]
		_, scale := found.of(c)
		if size, seen := counts.size(noise); seen {
			*scale = size
		} else if c.column == targetColumn {
			hidden = append(hidden, targetColumn)
		} else if *scale = s.Unseen; s.Unseen != 1 {
			hidden = append(hidden, c.column)
		}
	}
	if x.Pushdown != nil {
		found.expressUnscaled(x.Pushdown, s.Columns)
	} else {
		found.scale(x)
	}
	return found, hidden
}

// leaveOut sets the coefficients of hidden features, of all stored ones, to 0, names them and withholds errors, which would be those
// of a fit without them, or of a hidden target's. It changes nothing where nothing is hidden, or there are no coefficients.
func (r *Result) leaveOut(hidden []int, columns int) {
	if hidden == nil || r.Coefficients == nil {
		return
	}
	r.withhold(unseenColumn)
	r.NoiseCovariance = nil
	for _, j := range hidden {
		if j == targetColumn {
			continue
		}
		k := len(r.Coefficients) - columns + j
		r.Coefficients[k], r.LeftOut = 0, append(r.LeftOut, k)
	}
	if slices.Contains(hidden, targetColumn) {
		r.WhyNull, r.LeftOut = unseenTarget, nil
	}
}

// expressUnscaled changes the expressions of columns that have neither a scale nor a center.
func (a Scaled) expressUnscaled(x *table.Pushdown, columns []numericColumn) {
	for _, c := range columns {
		if c.column == targetColumn {
			x.Row.Y = sqlsum.Column(x.Target, 0, a.Y)
		} else {
			x.Row.X[c.column] = sqlsum.Column(x.Features[c.column].Column, 0, a.X[c.column])
		}
	}
}

// size returns the power of two that three quarters of the values are seen to be no larger than twice of: those of the
// run that stands out most, and of other sizes that stand out by themselves.
func (c positionCounts) size(noise mechanism) (size float64, seen bool) {
	inner, lowest := c.noisy[1:len(c.noisy)-1], 1-c.bins.Half // lowest is the exponent of the first
	best, from, to := 1.0, 0, 0
	for length := 1; length <= longestRun; length++ {
		for k := range len(inner) - length + 1 {
			clear := floats.Sum(inner[k:k+length]) / (c.sd * math.Sqrt(float64(length)) * needed(lowest+k, length, noise))
			if clear >= best {
				best, from, to = clear, k, k+length
			}
		}
	}
	if to == 0 {
		return 0, false
	}
	counts, total := make([]float64, len(inner)), 0.0
	for k, v := range inner {
		if from <= k && k < to || v >= c.sd*needed(lowest+k, longestRun, noise) {
			counts[k] = max(0, v)
			total += counts[k]
		}
	}
	below, at := 0.0, 0
	for below+counts[at] < 0.75*total {
		below += counts[at]
		at++
	}
	return math.Ldexp(1, lowest+at), true
}

// between returns the count of sizes from the octave of low on to those below the octave of high.
func (c positionCounts) between(low, high float64) float64 {
	bin := func(size float64) int { return min(max(math.Ilogb(size)+c.bins.Half, 0), len(c.noisy)) }
	return floats.Sum(c.noisy[bin(low):bin(high)])
}
