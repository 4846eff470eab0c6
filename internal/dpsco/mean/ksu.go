package mean

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// KSU averages row gradients that are projected onto the ball of Radius around a
// private centre or, with Axis, onto the box. The first centre is released from the
// rows: in every coordinate it is the middle of the fullest of equal bins that cover
// [-Range, Range]. Later the previous answer is the centre.
//
// Privacy: a Gaussian of multiplier z for each estimate, relative to a sensitivity of
// 2 Radius / n, with Axis times sqrt(d), and one of 3z to begin with: a single
// estimate spends a tenth of its rho on the centre (proof: ksu.md).
//
// Source: Kamath, Liu & Zhang 2021, Algorithms 2 and 3 and Appendix B. Differs: all rows serve for
// both the centre and the mean; the paper finds the centre from one half of the rows, and of the
// other half drops those farther away than Radius.
type KSU struct {
	Radius float64
	Range  float64 // bounds the coordinates of the mean
	Axis   bool
}

// At implements Method.
//
// Errors: mech.ErrParams, for a Radius, Range, n or d that mech.Contract or mech.CheckHistogram
// refuses, or a z that mech.Gaussian does.
func (m KSU) At(z float64, n, d int) (Estimator, error) {
	norm := mech.L2
	if m.Axis {
		norm = mech.LInf
	}
	noise, err := newGaussianNoise(z, mech.Contract{Norm: norm, Bound: m.Radius, N: n, D: d})
	if err != nil {
		return nil, err
	}
	bins, err := m.bins(d)
	if err != nil {
		return nil, err
	}
	finder := mech.Gaussian{NoiseMultiplier: 3 * z}
	if err := errors.Join(finder.Check(), mech.CheckHistogram(bins, n, d)); err != nil {
		return nil, err
	}
	return &ksuEstimator{gaussianNoise: noise, centreNoise: finder, bins: bins}, nil
}

// bins returns bins as wide as a coordinate may be away from the centre: Radius / sqrt(d), or Radius
// with Axis. On either side they extend one bin beyond Range.
func (m KSU) bins(d int) (mech.Bins, error) {
	width := m.Radius
	if !m.Axis {
		width /= math.Sqrt(float64(d))
	}
	half := math.Ceil(m.Range/width) + 1
	if !(m.Range >= 0 && half <= 1<<20) {
		return mech.Bins{}, fmt.Errorf("%w: Range = %v; it must be at least 0 and below 2^20 times %v", mech.ErrParams, m.Range, width)
	}
	return mech.Bins{Width: width, Half: int(half)}, nil
}

type ksuEstimator struct {
	gaussianNoise               // on the mean
	centreNoise   mech.Gaussian // on the counts that the first centre is found from
	bins          mech.Bins
	last          []float64 // the latest answer
}

// Begin implements Estimator.
func (e *ksuEstimator) Begin() privacy.Event { return e.centreNoise.Event() }

// Estimate implements Estimator.
func (e *ksuEstimator) Estimate(dst []float64, r Rows, hints Hints, src *mech.Source) {
	centre := e.centre(r, hints, src)
	e.Release(dst, e.sum(r, centre), src)
	for j, v := range centre {
		dst[j] += v
	}
	e.last = slices.Clone(dst)
}

// centre returns the previous answer, which is public. Without one it releases a centre from the
// rows, which happens only in the first estimate.
func (e *ksuEstimator) centre(r Rows, hints Hints, src *mech.Source) []float64 {
	previous := hints.Centre
	if previous == nil {
		previous = e.last
	}
	if previous == nil {
		return e.releaseCentre(r, src)
	}
	return e.clampToBins(previous)
}

// releaseCentre finds a private centre of the rows.
func (e *ksuEstimator) releaseCentre(r Rows, src *mech.Source) []float64 {
	noisy := make([]float64, 2*e.bins.Half*r.D)
	e.centreNoise.Release(noisy, e.counts(r), src)
	centre := make([]float64, r.D)
	e.bins.Modes(centre, noisy)
	return centre
}

func (e *ksuEstimator) counts(r Rows) mech.Bounded {
	whole := mech.NewHistogram(e.bins, r.N, r.D)
	accumulate(whole, r, func(part *mech.Histogram) func(Block) {
		return func(b Block) { part.AddRows(b.X, b.C) }
	})
	return whole.Bounded()
}

// clampToBins returns v with its coordinates clamped to the range of the bins, and 0
// for NaN.
func (e *ksuEstimator) clampToBins(v []float64) []float64 {
	limit := e.bins.Width * float64(e.bins.Half)
	clamped := make([]float64, len(v))
	for j, vj := range v {
		if !math.IsNaN(vj) {
			clamped[j] = max(-limit, min(vj, limit))
		}
	}
	return clamped
}

// sum adds up the differences of the rows from centre.
func (e *ksuEstimator) sum(r Rows, centre []float64) mech.Bounded {
	column := func(dst []float64, j int, x, c []float64) { subtract(dst, x, c, centre[j]) }
	whole := mech.NewSum(e.contract)
	accumulate(whole, r, func(part *mech.Sum) func(Block) {
		scratch := newRowBuffer(r.D)
		add := func(rows mech.Rows, m int) { part.AddRows(rows, scratch.ones[:m]) }
		return func(b Block) { scratch.each(b, column, add) }
	})
	return whole.Bounded()
}

// subtract writes x_i c_i - v to dst.
func subtract(dst, x, c []float64, v float64) {
	x, c = x[:len(dst)], c[:len(dst)]
	for i := range dst {
		dst[i] = float64(x[i]*c[i]) - v
	}
}
