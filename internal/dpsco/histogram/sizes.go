package histogram

import (
	"math"

	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
)

// SizeBins count the binary logarithms of the sizes of values. The outermost bins have no bounds: the lowest holds
// 0 as well.
var SizeBins = Bins{Bins: mech.Bins{Width: 1, Half: 60}}

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

// laplaceTailOfRuns is as magnitude.LaplaceTail, at sureBy standard deviations instead of its seenMode: the lower a threshold, the nearer
// are both tails.
const laplaceTailOfRuns = 1.7

// needed is by how many deviations a run of sizes, the lowest of which is 2^exponent, has to stand out.
func needed(exponent, length int, noise mech.Mechanism) float64 {
	if (exponent == 0 || exponent == -1) && length <= fewSizes {
		return likelyBy
	}
	by := sureBy + tinyBy*float64(max(0, -exponent))
	if _, long := noise.(mech.Laplace); long {
		by *= laplaceTailOfRuns
	}
	return by
}

// Size returns the power of two that three quarters of the values are seen to be no larger than twice of: those of the
// run that stands out most, and of other sizes that stand out by themselves.
func (c Counts) Size(noise mech.Mechanism) (size float64, seen bool) {
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

// Between returns the count of sizes from the octave of low on to those below the octave of high.
func (c Counts) Between(low, high float64) float64 {
	bin := func(size float64) int { return min(max(math.Ilogb(size)+c.bins.Half, 0), len(c.noisy)) }
	return floats.Sum(c.noisy[bin(low):bin(high)])
}
