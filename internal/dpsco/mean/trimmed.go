package mean

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// TrimmedMean estimates each coordinate by the mean of what is left when its
// Trim smallest and Trim largest values are gone. Values are clamped to
// [Low, High] first; the noise follows how far one record can move this very
// mean, by its exact smooth sensitivity, and not that worst case.
//
// Privacy: z buys Epsilon = 1/(z sqrt d) for each coordinate, so an estimate is
// rho-zCDP with rho = 1/(2 z^2) (proof: trimmed.md). Sums and noise are exact,
// the smooth bound is computed in float64: see Arithmetic.
//
// Source: Bun & Steinke 2019 and Wang, Xiao, Devadas & Xu 2020, Algorithm 2.
// Differs: their noise scale only bounds the smooth sensitivity, it is not
// smooth itself, and so not private.
type TrimmedMean struct {
	Trim      int
	Low, High float64
}

// smoothnessShare is the smoothness of the bound over Epsilon: more would decay
// faster with the trimmed values and leave less for the noise.
const smoothnessShare = 0.15

// maxEnd is the largest |Low| and |High|, and 1/maxEnd the narrowest interval.
const maxEnd = 0x1p400

// At implements Method.
func (m TrimmedMean) At(z float64, n, d int) (Estimator, error) {
	switch {
	case !(-maxEnd <= m.Low && m.Low < m.High && m.High <= maxEnd && m.High-m.Low >= 1/maxEnd):
		return nil, fmt.Errorf("%w: [Low, High] = [%v, %v]; it must be an interval within [-%g, %g]", mech.ErrParams, m.Low, m.High, maxEnd, maxEnd)
	case m.Trim < 1 || n <= 2*m.Trim || n > 1<<40:
		return nil, fmt.Errorf("%w: Trim = %d of %d rows; it must be positive and below half of them", mech.ErrParams, m.Trim, n)
	case d < 1:
		return nil, fmt.Errorf("%w: %d coordinates", mech.ErrParams, d)
	}
	noise := mech.Smooth{Epsilon: 1 / (z * math.Sqrt(float64(d)))}
	noise.Smoothness = smoothnessShare * noise.Epsilon
	if err := noise.Check(); err != nil {
		return nil, err
	}
	return &trimmed{m, n, d, noise}, nil
}

// TrimmedCount returns a good Trim: enough for the worst case, values that jump
// from end to end of [low, high], to weigh less than spread, a guess of how far
// apart typical values are, but at most a twentieth of the rows. It is 0, which
// At refuses, below 20 rows.
func TrimmedCount(z float64, n, d int, low, high, spread float64) int {
	smoothness := smoothnessShare / (z * math.Sqrt(float64(d)))
	enough := math.Ceil(math.Log((high-low)/spread) / smoothness)
	return int(min(float64(n/20), max(1, enough)))
}

type trimmed struct {
	TrimmedMean
	n, d  int
	noise mech.Smooth
}

// Begin implements Estimator.
func (e *trimmed) Begin() privacy.Event { return nil }

// Event implements Estimator.
func (e *trimmed) Event() privacy.Event {
	return privacy.Repeat{Count: e.d, Event: e.noise.Event()}
}

// Arithmetic returns the mark of an estimate in the ledger.
func (e *trimmed) Arithmetic() string { return e.noise.Arithmetic() }

// columnsAtATime is how many coordinates are stored at a time: a pass over the
// rows costs about as much as one of them.
const columnsAtATime = 4

// Estimate implements Estimator. A known norm narrows [Low, High].
func (e *trimmed) Estimate(dst []float64, r Rows, near Near, src *mech.Source) {
	if r.N != e.n || r.D != e.d || len(dst) != e.d {
		panic("mean: rows of another shape than the estimator's")
	}
	g := e.within(near.Norm)
	steps := make([][]int64, min(columnsAtATime, e.d))
	for k := range steps {
		steps[k] = make([]int64, e.n)
	}
	for first := 0; first < e.d; first += columnsAtATime {
		now := steps[:min(columnsAtATime, e.d-first)]
		r.gather(now, first, g)
		for k, b := range e.seal(now, g) {
			dst[first+k] = g.mean(e.noise.Release(b, src), e.n-2*e.Trim)
		}
	}
}

// within returns the grid of [Low, High], cut to [-norm, norm] if that is known.
func (e *trimmed) within(norm float64) grid {
	low, high := e.Low, e.High
	if norm > 0 {
		norm = max(norm, 1/maxEnd)
		if l, h := max(low, -norm), min(high, norm); h-l >= 1/maxEnd {
			low, high = l, h
		}
	}
	return newGrid(low, high, e.n)
}

// seal returns the trimmed sums of columns in grid steps with their smooth
// bounds. It reorders the columns.
func (e *trimmed) seal(columns [][]int64, g grid) []mech.Smoothed {
	sealed := make([]mech.Smoothed, len(columns))
	var crew mech.Crew
	for k, x := range columns {
		crew.Go(func() {
			sum, bound := trimmedSum(x, e.Trim, g.limit, e.noise.Smoothness)
			sealed[k] = mech.NewSmoothed(float64(sum), bound, e.noise.Smoothness, 1)
		})
	}
	crew.Wait()
	return sealed
}

// grid maps a public interval to the integers -limit to limit: as fine as sums
// of n of them are exact in float64.
type grid struct {
	low, high float64
	centre    float64
	scale     float64 // grid steps in a unit
	limit     int64
}

func newGrid(low, high float64, n int) grid {
	limit := int64(1) << min(40, 53-bits.Len(uint(n-1)))
	return grid{low, high, low/2 + high/2, float64(limit) / (high/2 - low/2), limit}
}

// steps is the total function of one record: NaN becomes the middle of the
// interval, what is outside an end.
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

// coordinate writes coordinate j of the block's rows.
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
	place(x, last)
	place(x[:last], trim)
	for _, v := range x[trim : last+1] {
		sum += v
	}
	decay := max(0, min(smoothness-decaySlack, 1))
	return sum, climb(x, trim, limit, decay).bound()
}

// The bound decays by less than its smoothness and is inflated in the end: that
// covers all rounding in between (Lemma 3 of trimmed.md).
const (
	decaySlack = 0x1p-30
	inflation  = 1 + 0x1p-38
)

// ladder holds what can become the smallest and the largest value kept when
// records are replaced: down[i] is the i-th below the smallest, up[u] the u-th
// above the largest, each at last an end of the interval.
type ladder struct {
	down, up []int64
	weight   []float64 // exp(-decay k), k = i + u - 1
}

// climb builds the ladder from x, in which the values to trim are in place. It
// stops where all weights are so small that the terms are below one grid step.
func climb(x []int64, trim int, limit int64, decay float64) ladder {
	rungs := trim
	if decay > 0 {
		rungs = int(min(float64(trim), math.Ceil(29/decay)+1))
	}
	last := len(x) - 1 - trim
	place(x[:trim], trim-rungs)
	place(x[last+1:], rungs-1)
	below, above := x[trim-rungs:trim+1], x[last:last+1+rungs]
	l := ladder{down: slices.Clone(below), up: slices.Clone(above)}
	slices.Sort(l.down)
	slices.Reverse(l.down)
	slices.Sort(l.up)
	if rungs == trim {
		l.down, l.up = append(l.down, -limit), append(l.up, limit)
	}
	l.weight = make([]float64, len(l.down)+len(l.up)-2)
	for k := range l.weight {
		l.weight[k] = math.Exp(-decay * float64(k))
	}
	return l
}

// term is how far apart the extremes kept are after u + i - 1 replacements that
// slide them u up and i down, weighted.
func (l ladder) term(i, u int) float64 {
	return l.weight[i+u-1] * float64(l.up[u]-l.down[i])
}

// bound returns the largest term but that of no slide at all, at least one grid
// step, in O(m log m) for m rungs.
func (l ladder) bound() float64 {
	most := 1.0
	for u := 1; u < len(l.up); u++ {
		most = max(most, l.term(0, u))
	}
	return max(most, l.largest(1, len(l.down)-1, 0, len(l.up)-1)) * inflation
}

// largest returns the largest term in rows i0 to i1 and columns u0 to u1. The
// best column falls from row to row: logarithms of terms are inverse Monge.
func (l ladder) largest(i0, i1, u0, u1 int) float64 {
	if i0 > i1 {
		return 0
	}
	i, best := (i0+i1)/2, u0
	most := l.term(i, u0)
	for u := u0 + 1; u <= u1; u++ {
		if v := l.term(i, u); v > most {
			most, best = v, u
		}
	}
	return max(most, l.largest(i0, i-1, best, u1), l.largest(i+1, i1, u0, best))
}

// place reorders x so that x[k] is what it would be were x sorted, with nothing
// larger before and nothing smaller after it; k = len(x) asks for nothing.
func place(x []int64, k int) {
	for k < len(x) {
		if len(x) <= 64 {
			slices.Sort(x)
			return
		}
		i, j := partition(x, pivot(x, k))
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

// partition reorders x so that nothing up to j is above the pivot, which x holds,
// nothing from i on below it, and what is between is equal to it.
func partition(x []int64, pivot int64) (i, j int) {
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

// pivot returns a value of x that is likely a little farther from the near end
// than the k-th, so that little more than what is sought is left. An order made
// to mislead it costs time; no result depends on it.
func pivot(x []int64, k int) int64 {
	var sample [31]int64
	for i := range sample {
		sample[i] = x[i*(len(x)-1)/(len(sample)-1)]
	}
	slices.Sort(sample[:])
	at := k * len(sample) / len(x)
	if 2*k < len(x) {
		return sample[min(at+1, len(sample)-1)]
	}
	return sample[max(at-1, 0)]
}
