package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// RangeMean is the mean of points near where most of them lie. A noisy histogram
// of every coordinate shows a window that holds most points; differences from the
// middles of the windows, in units of half their widths, are cut to length
// sqrt(d), and their noisy mean is added to the middles.
//
// Privacy: a Gaussian of multiplier z and one of z Ratio when one point is
// replaced (proof: aggregate.md). All sums are of integers.
//
// Source: Kamath, Liu & Zhang 2021, Algorithms 2 and 3. Differs: the windows'
// widths follow the points; one set of points serves both steps.
type RangeMean struct {
	Bins  mech.Bins
	Ratio float64 // noise multiplier of the histogram over that of the mean
}

// at implements Aggregator: the histogram has Ratio times the noise multiplier z of the mean.
//
// Errors: ErrInfeasible, for so many points, coordinates or bins, or so much noise, as the mechanisms cannot do with.
func (a RangeMean) at(points, d int, z float64) (*aggregation, error) {
	finder, noise := mech.Gaussian{NoiseMultiplier: a.Ratio * z}, mech.Gaussian{NoiseMultiplier: z}
	contract := mech.Contract{Norm: mech.L2, Bound: math.Sqrt(float64(d)), N: points, D: d}
	for _, err := range []error{finder.Check(), noise.Check(), contract.Check(), mech.CheckHistogram(a.Bins, points, d)} {
		if err != nil {
			return nil, plan.Infeasible(err)
		}
	}
	return &aggregation{
		event: privacy.Compose{finder.Event(), noise.Event()},
		release: func(dst []float64, points [][]float64, src *mech.Source) {
			counts := make([]float64, 2*a.Bins.Half*d)
			finder.Release(counts, a.counts(points, d), src)
			all := a.windows(counts, len(points), d, finder.NoiseMultiplier*math.Sqrt(2*float64(d)))
			noise.Release(dst, differences(points, all, contract), src)
			for j, w := range all {
				dst[j] = w.middle + w.half*dst[j]
			}
		},
	}, nil
}

// counts is the histogram of the points.
func (a RangeMean) counts(points [][]float64, d int) mech.Bounded {
	h := mech.NewHistogram(a.Bins, len(points), d)
	x := table.NewColumns(d, len(points))
	ones := make([]float64, len(points))
	for i, p := range points {
		ones[i] = 1
		for j, v := range p {
			x[j][i] = v
		}
	}
	h.AddRows(mech.Rows{X: x}, ones)
	return h.Bounded()
}

// window is an interval of a coordinate, given by its middle and half of its width.
type window struct{ middle, half float64 }

// windows returns a window for every coordinate, from noisy counts with the given standard deviation of
// noise: the range of all bins if none is found.
func (a RangeMean) windows(counts []float64, points, d int, noise float64) []window {
	size := 2 * a.Bins.Half
	all := make([]window, d)
	for j := range all {
		first, length := shortest(counts[j*size:(j+1)*size], mostPoints*float64(points), noise)
		half := float64(length) / 2
		all[j] = window{middle: (float64(first-a.Bins.Half) + half) * a.Bins.Width, half: half * a.Bins.Width}
	}
	return all
}

// mostPoints is the share of the points that a window must hold. windowDeviations is the least value of that number
// of points in standard deviations of the noise of a window's count, so that an empty window does not look
// full.
const (
	mostPoints       = 0.75
	windowDeviations = 3
)

// shortest returns the fullest run of the least number of bins, 1, 2, 4, ..., with at least enough points.
// It returns all bins if there is none among the lengths that the noise allows.
func shortest(counts []float64, enough, noise float64) (first, length int) {
	before := make([]float64, len(counts)+1) // counts in all bins to the left
	for k, v := range counts {
		before[k+1] = before[k] + v
	}
	for length = 1; length < len(counts) && enough >= windowDeviations*noise*math.Sqrt(float64(length)); length *= 2 {
		most := math.Inf(-1)
		for k := range len(counts) - length + 1 {
			if held := before[k+length] - before[k]; held > most {
				most, first = held, k
			}
		}
		if most >= enough {
			return first, length
		}
	}
	return 0, len(counts)
}

// differences adds up the differences of the points from the middles of their windows, in half widths.
func differences(points [][]float64, all []window, c mech.Contract) mech.Bounded {
	sum, v := mech.NewSum(c), make([]float64, c.D)
	for _, p := range points {
		for j, w := range all {
			v[j] = (p[j] - w.middle) / w.half
		}
		sum.Add(v)
	}
	return sum.Bounded()
}
