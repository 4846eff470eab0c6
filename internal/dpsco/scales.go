package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
)

// The histogram of sizes has leastForScales of the zCDP budget or, where the noise on its counts would deviate by more
// than seenNoise of the rows, as much more as is needed, at most mostForScales; where it would still deviate by more than
// hopelessNoise there is none.
const (
	leastForScales = 0.04
	seenNoise      = 0.03
	mostForScales  = 0.2
	hopelessNoise  = 0.15
)

// sizeBins count the binary logarithms of the sizes of values. The outermost bins have no bounds: the lowest holds
// 0 as well.
var sizeBins = mech.Bins{Width: 1, Half: 60}

// Values of a column are seen where the counts of at most longestRun consecutive sizes together stand out by
// sureBy deviations of their noise, by surelyBy under Laplace noise, whose tails are longer: noise alone does so
// for one column in some 3,000.
const (
	longestRun = 8
	sureBy     = 5
	surelyBy   = 8.5
)

// unseenScale is the scale of a feature whose values noise hides, in a request no column of which has a scale. It
// makes the feature small, so that it does nothing: were it far larger than 1, a scale of 1 would let its few values
// decide the fit.
const unseenScale = 0x1p20

// scaleSearch is a search for the scales of columns that have none.
type scaleSearch struct {
	Columns []numeric
	Share   float64 // of the zCDP budget; unused by medians, which have a share of epsilon
	Unseen  float64 // the scale of features whose values noise hides; that of such a target is 1
}

// unscaled returns the search for the scales of those columns that have none.
func unscaled(columns []numeric, unknown bool) scaleSearch {
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
func (s scaleSearch) find(x Data, noise countNoise, src *mech.Source) *Scaled {
	found := &Scaled{X: repeat(1, x.columns()), Y: 1, CentreX: make([]float64, x.columns())}
	for k, counts := range countColumns(x, sizeBins, s.Columns, nil, noise, src) {
		c := s.Columns[k]
		_, scale := found.of(c)
		if size, seen := counts.size(noise); seen {
			*scale = size
		} else if c.column != target {
			*scale = s.Unseen
		}
	}
	if x.Elsewhere != nil {
		found.expressUnscaled(x.Elsewhere, s.Columns)
	} else {
		found.scale(x)
	}
	return found
}

// expressUnscaled changes the expressions of columns that have neither a scale nor a center.
func (a Scaled) expressUnscaled(x *Elsewhere, columns []numeric) {
	for _, c := range columns {
		if c.column == target {
			x.y = sqlsum.Column(x.Target, 0, a.Y)
		} else {
			x.x[c.column] = sqlsum.Column(x.Features[c.column].Column, 0, a.X[c.column])
		}
	}
}

// size returns the power of two that three quarters of the values are seen to be no larger than twice of.
func (c positionCounts) size(noise countNoise) (size float64, seen bool) {
	sure := sureBy * c.sd
	if _, long := noise.(mech.Laplace); long {
		sure = surelyBy * c.sd
	}
	inner, best, from, to := c.noisy[1:len(c.noisy)-1], 0.0, 0, 0
	for length := 1; length <= longestRun; length++ {
		for k := range len(inner) - length + 1 {
			sum := 0.0
			for _, v := range inner[k : k+length] {
				sum += v
			}
			if clear := sum / math.Sqrt(float64(length)); clear > best {
				best, from, to = clear, k, k+length
			}
		}
	}
	if best < sure {
		return 0, false
	}
	run := slices.Clone(inner[from:to])
	total := 0.0
	for k, v := range run {
		run[k] = max(0, v)
		total += run[k]
	}
	below, at := 0.0, 0
	for at < len(run)-1 && below+run[at] < 0.75*total {
		below += run[at]
		at++
	}
	return math.Ldexp(1, 1+from+at-c.bins.Half), true
}
