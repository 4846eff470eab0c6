package histogram

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"
)

// An interval surely holds mostValues of all rows by sureOfValues deviations of the noise of its count. Values far away
// are seen by standsFar deviations (surelyFar where that is less than fewFar of the rows). maxInOneBin of the rows are most.
const (
	mostValues   = 0.75
	sureOfValues = 2
	standsFar    = 2.3
	surelyFar    = 3
	fewFar       = 0.001
	maxInOneBin  = 0.65
)

// Interval returns the interval of the fewest whole bins that surely holds most rows. They are no more than bins of one width
// are up to longest.
func (c Counts) Interval(longest float64) (low, high float64, ok bool) {
	inner := len(c.noisy) - 1 // the outermost bins have no bounds
	for length := 1; float64(length)*c.bins.Width <= longest && length < inner; length++ {
		sum, most, at := 0.0, 0.0, 0
		for k := 1; k < inner; k++ {
			if sum += c.noisy[k]; k > length {
				sum -= c.noisy[k-length]
			}
			if k >= length && sum > most {
				most, at = sum, k+1-length
			}
		}
		if at > 0 && most-sureOfValues*c.sd*math.Sqrt(float64(length)) >= mostValues*c.rows {
			edges := c.bins.edges()
			return edges[at-1], edges[at+length-1], true
		}
	}
	return 0, 0, false
}

// IsFar reports whether an interval reaches beyond the bins of one width.
func (c Counts) IsFar(low, high float64) bool { return max(-low, high) > c.bins.near() }

// IsBeyond reports whether all of an interval lies beyond those bins.
func (c Counts) IsBeyond(low, high float64) bool { return max(low, -high) >= c.bins.near() }

// Together reports whether values differ from each other and none is far from the others, as far as noise lets
// that be seen.
func (c Counts) Together() bool {
	far, sd := c.noisy[0]+c.noisy[len(c.noisy)-1], math.Sqrt2*c.sd
	return far < numeric.ClampBetween(fewFar*c.rows, standsFar*sd, surelyFar*sd) && !c.MostlyOne()
}

// MostlyOne reports whether one bin seems to hold most rows.
func (c Counts) MostlyOne() bool { return slices.Max(c.noisy) > maxInOneBin*c.rows }
