// Package magnitude reads released histograms of magnitudes: of residuals, lengths of rows, targets. It tells what
// such a histogram shows, what its noise may hide, and the tails and cuts that follow. Everything is post-processing of
// noisy counts: the package never holds rows, so that a bug costs accuracy only. Only Count, of which histograms
// are made, is given numbers of rows.
//
// Sizes are in the unit of the data that a histogram was read with, where nothing else is said; "in units" means
// divided by that unit. No function returns an error: a histogram of which nothing is seen says so (Seen).
//
//	bins        the bins, in half octaves of a unit
//	histogram   reading counts; shares, means and quantiles of what is seen
//	visible     which bins are visible beside the noise
//	tails       rows that noise may hide, and tails that are too heavy
//	noise       the noise of counts
package magnitude

import (
	"math"

	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/mech"
)

// Bins is the number of bins of HalfOctaves.
const Bins = 50

// Edges are the lower edges of all bins but the first, in units, in ascending order; Middles are the
// values that stand for the rows of each bin, in units.
var Edges, Middles = func() (edges [Bins - 1]float64, middles [Bins]float64) {
	for k := range edges {
		edges[k] = math.Exp2(float64(LowestOctave+k) / 2)
		middles[k] = edges[k] * math.Exp2(-0.25)
	}
	middles[Bins-1] = edges[Bins-2] * math.Exp2(0.25)
	return edges, middles
}()

// HalfOctaves are the bins of magnitudes: edges at 2^-8 to 2^16 units in steps of a factor of sqrt 2, and
// one bin below and one above.
var HalfOctaves = mech.Bins{Width: 1, Half: 25}

// LowestOctave is the exponent of the lowest edge, in half octaves.
const LowestOctave = -16

// Position returns the position of a magnitude, in units, among HalfOctaves: the binary exponent of its
// square, as the middle of a bin. NaN remains NaN.
func Position(v float64) float64 {
	square := v * v
	if math.IsNaN(square) {
		return square
	}
	exponent := int(math.Float64bits(square)>>52) - 1023
	return float64(exponent-LowestOctave) + 1.5 - float64(HalfOctaves.Half)
}

// BinOf returns the number, from 0 to Bins - 1, of the bin of a size in units, which is not NaN.
func BinOf(size float64) int {
	return int(numeric.ClampBetween(math.Floor(Position(size)+float64(HalfOctaves.Half)), 0, Bins-1))
}

// binsOf writes the bin numbers of magnitudes, in units, to the first len(v) places of dst, consistent with Position;
// -1 for NaN. It is total: any v will do.
func binsOf(dst []int32, v []float64) {
	dst = dst[:len(v)]
	for i, x := range v {
		square := math.Float64bits(x * x)
		bin := int32(square>>52) - 1023 - LowestOctave + 1
		if dst[i] = min(max(bin, 0), Bins-1); square > infinity {
			dst[i] = -1
		}
	}
}

// infinity is the bit pattern of +Inf: larger patterns are NaN.
const infinity = 0x7ff << 52

// Count adds magnitudes, in units, to a histogram. scratch holds the bin numbers.
func Count(h *mech.Histogram, v []float64, scratch []int32) {
	binsOf(scratch, v)
	h.AddBins(scratch[:len(v)])
}
