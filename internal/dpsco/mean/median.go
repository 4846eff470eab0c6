package mean

import (
	"fmt"
	"math"

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
// Source: Xie et al., Algorithm 3. Differs: blocks are random, of equal size, and
// fixed before the data are read; printed, they move with the size of the batch.
type MedianOfMeans struct {
	Blocks int
	Range  float64
}

// At implements Method.
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
	return &medianOfMeans{MedianOfMeans: m, n: n, d: d, noise: noise}, nil
}

// MedianBlocks returns a good number of blocks: so many that all d medians are
// good with probability about 1 - failure, but blocks of 10 rows at least.
func MedianBlocks(n, d int, failure float64) int {
	blocks := int(math.Ceil(min(3*math.Log(2*float64(d)/failure), float64(n)/10)))
	return max(1, odd(blocks, n/10))
}

// odd returns the smallest odd number that is at least v, or the largest one up to limit.
func odd(v, limit int) int {
	v |= 1
	if v > limit {
		v = limit - (limit+1)%2
	}
	return v
}

// MedianRange returns a good Range for values whose k-th moments are at most
// scale^k and whose means are at most mean in size: it balances what clamping
// cuts off against the noise.
func MedianRange(z float64, n, d int, scale, k, mean float64) float64 {
	return max(scale*math.Pow(float64(n)/(z*math.Sqrt(float64(d))), 1/k), 4*mean)
}

// medianOfMeans remembers the partition: it knows nothing of the data, and
// drawing it costs as much as an estimate.
type medianOfMeans struct {
	MedianOfMeans
	n, d      int
	noise     mech.Gaussian
	partition *mech.Partition
}

// Begin implements Estimator.
func (e *medianOfMeans) Begin() privacy.Event { return nil }

// Event implements Estimator.
func (e *medianOfMeans) Event() privacy.Event { return e.noise.Event() }

// Estimate implements Estimator.
func (e *medianOfMeans) Estimate(dst []float64, r Rows, near Near, src *mech.Source) {
	if r.N != e.n || r.D != e.d || len(dst) != e.d {
		panic("mean: rows of another shape than the estimator's")
	}
	bound, centre := e.interval(near)
	e.noise.Release(dst, e.medians(r, bound, centre, src), src)
	for j, c := range centre {
		dst[j] += c
	}
}

// interval returns the half length and the centre of what values are clamped to:
// Range/2 around an earlier answer, or a known norm around 0 if that is less.
func (e *medianOfMeans) interval(near Near) (bound float64, centre []float64) {
	bound, centre = e.Range/2, near.Centre
	if near.Norm > 0 && near.Norm < bound {
		bound, centre = max(near.Norm, 1/maxEnd), nil
	}
	if centre == nil {
		centre = make([]float64, e.d)
	}
	return bound, centre
}

// medians seals the medians of the block sums, relative to the centre.
func (e *medianOfMeans) medians(r Rows, bound float64, centre []float64, src *mech.Source) mech.Bounded {
	if e.partition == nil {
		e.partition = mech.NewPartition(e.n, e.Blocks, src)
	}
	total := mech.NewBlockSum(bound, centre, e.partition)
	collect(total, r, func(part *mech.BlockSum) func(Block) {
		return func(b Block) { part.AddRows(b.Start, b.X, b.C) }
	})
	return total.Median()
}
