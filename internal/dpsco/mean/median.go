package mean

import (
	"fmt"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// MedianOfMeans estimates each coordinate by the median of the means of Blocks
// equal random blocks, an odd number. Values are clamped to an interval of
// length Range around an earlier answer, or around 0 at first.
//
// Privacy: rho-zCDP with rho = 1/(2 z^2): one Gaussian release with l2 sensitivity
// Range sqrt(d) / floor(n/Blocks) (proof: median.md).
//
// Source: Xie et al., Algorithm 3. Differs: blocks are random, of equal size, and fixed before the
// data are read; those of the paper change with the size of the batch.
type MedianOfMeans struct {
	Blocks int
	Range  float64
}

// At implements Method.
//
// Errors: mech.ErrParams, for Blocks that are even, or more than n; a Range or d that mech.Contract
// refuses, or a z that mech.Gaussian does.
func (m MedianOfMeans) At(z float64, n, d int) (Estimator, error) {
	if m.Blocks < 1 || m.Blocks%2 == 0 || m.Blocks > n {
		return nil, fmt.Errorf("%w: blocks is %d; it must be odd, and at most the %d rows", mech.ErrParams, m.Blocks, n)
	}
	if err := (mech.Contract{Norm: mech.LInf, Bound: m.Range / 2, N: n / m.Blocks, D: d}).Check(); err != nil {
		return nil, err
	}
	noise := mech.Gaussian{NoiseMultiplier: z}
	if err := noise.Check(); err != nil {
		return nil, err
	}
	return &medianEstimator{MedianOfMeans: m, n: n, d: d, noise: noise}, nil
}

// medianEstimator keeps the partition for the run: it is drawn independently of the
// data, and drawing it takes as long as an estimate.
type medianEstimator struct {
	MedianOfMeans
	n, d      int
	noise     mech.Gaussian
	partition *mech.Partition
}

// Begin implements Estimator.
func (e *medianEstimator) Begin() privacy.Event { return nil }

// Event implements Estimator.
func (e *medianEstimator) Event() privacy.Event { return e.noise.Event() }

// Estimate implements Estimator.
func (e *medianEstimator) Estimate(dst []float64, r Rows, hints Hints, src *mech.Source) {
	if r.N != e.n || r.D != e.d || len(dst) != e.d {
		panic("mean: rows of another shape than the estimator's")
	}
	bound, centre := e.interval(hints)
	e.noise.Release(dst, e.sealedMedians(r, bound, centre, src), src)
	for j, c := range centre {
		dst[j] += c
	}
}

// interval returns half the length and the centre of the interval that values are
// clamped to: Range/2 around an earlier answer, or a known norm around 0 if that is
// less.
func (e *medianEstimator) interval(hints Hints) (bound float64, centre []float64) {
	bound, centre = e.Range/2, hints.Centre
	if hints.Norm > 0 && hints.Norm < bound {
		bound, centre = max(hints.Norm, 1/maxEndpoint), nil
	}
	if centre == nil {
		centre = make([]float64, e.d)
	}
	return bound, centre
}

// sealedMedians returns the medians of the block sums, relative to the centre, as
// values that only a mechanism can open.
func (e *medianEstimator) sealedMedians(r Rows, bound float64, centre []float64, src *mech.Source) mech.Bounded {
	if e.partition == nil {
		e.partition = mech.NewPartition(e.n, e.Blocks, src)
	}
	total := mech.NewBlockSum(bound, centre, e.partition)
	accumulate(total, r, func(part *mech.BlockSum) func(Block) {
		return func(b Block) { part.AddRows(b.Start, b.X, b.C) }
	})
	return total.Median()
}
