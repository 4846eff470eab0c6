package mean

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// TrimmedMean estimates each coordinate by the mean of the values that are left
// without its Trim smallest and Trim largest ones. Values are clamped to [Low, High]
// first. The noise is scaled to the smooth sensitivity of this trimmed mean on these
// rows, which is computed exactly, and not to its sensitivity in the worst case.
//
// Privacy: each coordinate costs Epsilon^2/2 with Epsilon = 1/(z sqrt d), so an
// estimate is rho-zCDP with rho = 1/(2 z^2) (proof: trimmed.md). Sums and noise are
// exact, the smooth bound is computed in float64: see Arithmetic.
//
// Source: Bun & Steinke 2019 and Wang, Xiao, Devadas & Xu 2020, Algorithm 2.
// Differs: the noise scale of the latter bounds the smooth sensitivity but is not
// smooth itself, and so not private.
type TrimmedMean struct {
	Trim      int
	Low, High float64
}

// smoothnessRatio is the smoothness of the bound over Epsilon. With a larger one the
// bound falls faster with the number of trimmed values, but the noise has to be
// larger relative to the bound.
const smoothnessRatio = 0.15

// maxEndpoint is the largest |Low| and |High|, and 1/maxEndpoint the shortest interval.
const maxEndpoint = 0x1p400

// At implements Method.
//
// Errors: mech.ErrParams, for ends that are no interval, or too far away; a Trim that is not positive
// and below half of n; a d below 1; a z that mech.Smooth refuses.
func (m TrimmedMean) At(z float64, n, d int) (Estimator, error) {
	switch {
	case !(-maxEndpoint <= m.Low && m.Low < m.High && m.High <= maxEndpoint && m.High-m.Low >= 1/maxEndpoint):
		return nil, fmt.Errorf("%w: [Low, High] = [%v, %v]; it must be an interval within [-%g, %g]", mech.ErrParams, m.Low, m.High, maxEndpoint, maxEndpoint)
	case m.Trim < 1 || n <= 2*m.Trim || n > 1<<40:
		return nil, fmt.Errorf("%w: Trim = %d of %d rows; it must be positive and below half of them", mech.ErrParams, m.Trim, n)
	case d < 1:
		return nil, fmt.Errorf("%w: %d coordinates", mech.ErrParams, d)
	}
	noise := mech.Smooth{Epsilon: 1 / (z * math.Sqrt(float64(d)))}
	noise.Smoothness = smoothnessRatio * noise.Epsilon
	if err := noise.Check(); err != nil {
		return nil, err
	}
	return &trimmedEstimator{m, n, d, noise}, nil
}

// TrimmedCount returns a good Trim: the least for which the weight of high - low, the worst case, in
// the smooth bound is so small that it adds less than spread, a public guess of the distance between
// typical values; but at most a twentieth of the rows. Below 20 rows it is 0, which At refuses.
func TrimmedCount(z float64, n, d int, low, high, spread float64) int {
	smoothness := smoothnessRatio / (z * math.Sqrt(float64(d)))
	needed := math.Ceil(math.Log((high-low)/spread) / smoothness)
	return int(min(float64(n/20), max(1, needed)))
}

type trimmedEstimator struct {
	TrimmedMean
	n, d  int
	noise mech.Smooth
}

// Begin implements Estimator.
func (e *trimmedEstimator) Begin() privacy.Event { return nil }

// Event implements Estimator.
func (e *trimmedEstimator) Event() privacy.Event {
	return privacy.Repeat{Count: e.d, Event: e.noise.Event()}
}

// Arithmetic names the arithmetic of an estimate, as the ledger notes it.
func (e *trimmedEstimator) Arithmetic() string { return e.noise.Arithmetic() }

// columnsAtATime is how many coordinates are computed in one pass over the rows. The
// pass itself takes about as long as one coordinate.
const columnsAtATime = 4

// Passes is how often an estimate goes over the rows.
func (e *trimmedEstimator) Passes() int { return (e.d + columnsAtATime - 1) / columnsAtATime }

// Estimate implements Estimator. A norm in hints narrows [Low, High].
func (e *trimmedEstimator) Estimate(dst []float64, r Rows, hints Hints, src *mech.Source) {
	if r.N != e.n || r.D != e.d || len(dst) != e.d {
		panic("mean: rows of another shape than the estimator's")
	}
	g := e.narrowed(hints.Norm)
	steps := make([][]int64, min(columnsAtATime, e.d))
	for k := range steps {
		steps[k] = make([]int64, e.n)
	}
	for first := 0; first < e.d; first += columnsAtATime {
		columns := steps[:min(columnsAtATime, e.d-first)]
		r.gather(columns, first, g)
		for k, b := range e.sealedSums(columns, g) {
			dst[first+k] = g.mean(e.noise.Release(b, src), e.n-2*e.Trim)
		}
	}
}

// narrowed returns the grid of [Low, High], cut to [-norm, norm] where norm > 0.
func (e *trimmedEstimator) narrowed(norm float64) grid {
	low, high := e.Low, e.High
	if norm > 0 {
		norm = max(norm, 1/maxEndpoint)
		if l, h := max(low, -norm), min(high, norm); h-l >= 1/maxEndpoint {
			low, high = l, h
		}
	}
	return newGrid(low, high, e.n)
}

// sealedSums returns the trimmed sums of columns in grid steps with their smooth
// bounds, as values that only a mechanism can open. It reorders the columns.
func (e *trimmedEstimator) sealedSums(columns [][]int64, g grid) []mech.Smoothed {
	sealed := make([]mech.Smoothed, len(columns))
	var workers mech.PanicGroup
	for k, x := range columns {
		workers.Go(func() {
			sum, bound := trimmedSum(x, e.Trim, g.limit, e.noise.Smoothness)
			sealed[k] = mech.NewSmoothed(float64(sum), bound, e.noise.Smoothness, 1)
		})
	}
	workers.Wait()
	return sealed
}

// grid maps a public interval to the integers -limit to limit. Its steps are as fine
// as they can be while sums of n such integers are exact in float64.
type grid struct {
	low, high float64
	centre    float64
	scale     float64 // grid steps per unit of the values
	limit     int64
}

func newGrid(low, high float64, n int) grid {
	limit := int64(1) << min(40, 53-bits.Len(uint(n-1)))
	return grid{low, high, low/2 + high/2, float64(limit) / (high/2 - low/2), limit}
}

// steps converts a value, truncated toward 0. It is total: NaN becomes the middle of
// the interval, and a value outside becomes the nearer end.
func (g grid) steps(v float64) int64 {
	v = float64(v-g.centre) * g.scale
	if v != v {
		return 0
	}
	return int64(max(-float64(g.limit), min(v, float64(g.limit))))
}

// mean returns the mean of count values whose sum is given in grid steps.
func (g grid) mean(sum float64, count int) float64 {
	return max(g.low, min(g.centre+sum/float64(count)/g.scale, g.high))
}

// gather writes coordinates first, first+1, ... of all rows to columns.
func (r Rows) gather(columns [][]int64, first int, g grid) {
	r.Range(func() func(Block) {
		return func(b Block) {
			for k, column := range columns {
				b.coordinate(column[b.Start:b.Start+len(b.C)], first+k, g)
			}
		}
	})
}

// coordinate writes coordinate j of the block's gradients in grid steps.
func (b Block) coordinate(dst []int64, j int, g grid) {
	if b.X.Intercept {
		if j == 0 {
			for i, c := range b.C {
				dst[i] = g.steps(c)
			}
			return
		}
		j--
	}
	x := b.X.X[j][:len(dst)]
	for i, c := range b.C[:len(dst)] {
		dst[i] = g.steps(float64(c * x[i]))
	}
}

// trimmedSum returns the sum of x, values within [-limit, limit], without the
// trim smallest and the trim largest of them, and a smooth bound on how far one
// replaced value moves it. It reorders x.
func trimmedSum(x []int64, trim int, limit int64, smoothness float64) (sum int64, bound float64) {
	last := len(x) - 1 - trim // position of the largest value that is kept
	quickselect(x, last)
	quickselect(x[:last], trim)
	for _, v := range x[trim : last+1] {
		sum += v
	}
	decay := max(0, min(smoothness-decaySlack, 1))
	return sum, newExtremes(x, trim, limit, decay).bound()
}

// The bound is computed with a smoothness smaller by decaySlack and multiplied by
// inflation in the end: this covers all rounding in between (Lemma 3 of trimmed.md).
const (
	decaySlack = 0x1p-30
	inflation  = 1 + 0x1p-38
)

// extremes holds the order statistics that can become the smallest and the largest
// value kept when records are replaced: below[i] is the i-th below the smallest value
// kept, above[u] the u-th above the largest, and the last of each is an end of the
// interval. below[0] and above[0] are kept themselves.
type extremes struct {
	below, above []int64
	weight       []float64 // exp(-decay k), k = i + u - 1
}

// newExtremes returns the extremes of x, in which quickselect has put the trimmed
// values at either end. Order statistics whose weights make every term smaller than
// one grid step are left out.
func newExtremes(x []int64, trim int, limit int64, decay float64) extremes {
	depth := trim
	if decay > 0 {
		depth = int(min(float64(trim), math.Ceil(29/decay)+1))
	}
	last := len(x) - 1 - trim
	quickselect(x[:trim], trim-depth)
	quickselect(x[last+1:], depth-1)
	e := extremes{below: slices.Clone(x[trim-depth : trim+1]), above: slices.Clone(x[last : last+1+depth])}
	slices.Sort(e.below)
	slices.Reverse(e.below)
	slices.Sort(e.above)
	if depth == trim {
		e.below, e.above = append(e.below, -limit), append(e.above, limit)
	}
	e.weight = make([]float64, len(e.below)+len(e.above)-2)
	for k := range e.weight {
		e.weight[k] = math.Exp(-decay * float64(k))
	}
	return e
}

// term is above[u] less below[i], which bounds how far one record can move the trimmed
// sum once i + u - 1 others have been replaced, weighted (Lemma 1 of trimmed.md).
func (e extremes) term(i, u int) float64 {
	return e.weight[i+u-1] * float64(e.above[u]-e.below[i])
}

// bound returns the largest term other than (0, 0), at least one grid step, in
// O(m log m) for m order statistics.
func (e extremes) bound() float64 {
	most := 1.0
	for u := 1; u < len(e.above); u++ {
		most = max(most, e.term(0, u))
	}
	return max(most, e.largest(1, len(e.below)-1, 0, len(e.above)-1)) * inflation
}

// largest returns the largest term with i from i0 to i1 and u from u0 to u1. As i
// grows the best u does not: the logarithms of the terms are an inverse Monge matrix.
func (e extremes) largest(i0, i1, u0, u1 int) float64 {
	if i0 > i1 {
		return 0
	}
	i, best := (i0+i1)/2, u0
	most := e.term(i, u0)
	for u := u0 + 1; u <= u1; u++ {
		if v := e.term(i, u); v > most {
			most, best = v, u
		}
	}
	return max(most, e.largest(i0, i-1, best, u1), e.largest(i+1, i1, u0, best))
}

// quickselect reorders x so that x[k] is its k-th smallest value, counted from 0,
// with nothing larger before and nothing smaller after it. With k = len(x) it does
// nothing.
func quickselect(x []int64, k int) {
	for k < len(x) {
		if len(x) <= 64 {
			slices.Sort(x)
			return
		}
		i, j := partitionAround(x, choosePivot(x, k))
		switch {
		case k <= j:
			x = x[:j+1]
		case k >= i:
			x, k = x[i:], k-i
		default:
			return
		}
	}
}

// partitionAround reorders x so that no value up to x[j] is above the pivot, which x
// contains, none from x[i] on is below it, and those between are equal to it.
func partitionAround(x []int64, pivot int64) (i, j int) {
	for j = len(x) - 1; i <= j; {
		for x[i] < pivot {
			i++
		}
		for x[j] > pivot {
			j--
		}
		if i <= j {
			x[i], x[j] = x[j], x[i]
			i++
			j--
		}
	}
	return i, j
}

// choosePivot returns a value of x that is likely to lie just beyond the k-th
// smallest, as seen from the nearer end of the order, so that the part that is left
// to search is small. A bad pivot costs time and changes no result.
func choosePivot(x []int64, k int) int64 {
	var sample [31]int64
	for i := range sample {
		sample[i] = x[i*(len(x)-1)/(len(sample)-1)]
	}
	slices.Sort(sample[:])
	rank := k * len(sample) / len(x)
	if 2*k < len(x) {
		return sample[min(rank+1, len(sample)-1)]
	}
	return sample[max(rank-1, 0)]
}
