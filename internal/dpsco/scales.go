package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
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
func (s scaleSearch) find(x table.Data, noise mech.Mechanism, src *mech.Source) (found *Scaled, hidden []int) {
	found = &Scaled{X: table.Repeat(1, x.FeatureColumns()), Y: 1, CentreX: make([]float64, x.FeatureColumns())}
	for k, counts := range histogram.Count(x, histogram.SizeBins, positionsOf(s.Columns), nil, noise, src) {
		c := s.Columns[k]
		_, scale := found.of(c)
		if size, seen := counts.Size(noise); seen {
			*scale = size
		} else if c.column == histogram.Target {
			hidden = append(hidden, histogram.Target)
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
func leaveOut(r *release.Result, hidden []int, columns int) {
	if hidden == nil || r.Coefficients == nil {
		return
	}
	withhold(r, unseenColumn)
	r.NoiseCovariance = nil
	for _, j := range hidden {
		if j == histogram.Target {
			continue
		}
		k := len(r.Coefficients) - columns + j
		r.Coefficients[k], r.LeftOut = 0, append(r.LeftOut, k)
	}
	if slices.Contains(hidden, histogram.Target) {
		r.WhyNull, r.LeftOut = unseenTarget, nil
	}
}

// expressUnscaled changes the expressions of columns that have neither a scale nor a center.
func (a Scaled) expressUnscaled(x *table.Pushdown, columns []numericColumn) {
	for _, c := range columns {
		if c.column == histogram.Target {
			x.Row.Y = sqlsum.Column(x.Target, 0, a.Y)
		} else {
			x.Row.X[c.column] = sqlsum.Column(x.Features[c.column].Column, 0, a.X[c.column])
		}
	}
}
