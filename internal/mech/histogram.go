package mech

import (
	"fmt"
	"math"
	"math/big"
)

// Bins are 2 Half intervals of one Width around zero; the outermost two extend to infinity. They are
// public.
type Bins struct {
	Width float64
	Half  int
}

// add increments the count of v's bin; NaN has none. The position is clamped to [0, 2 Half - 1], so that it
// converts to an int.
func (b Bins) add(counts []int64, v float64) {
	if position := v/b.Width + float64(b.Half); !math.IsNaN(position) {
		counts[int(max(0, min(position, float64(len(counts)-1))))]++
	}
}

// Modes writes the centre of the fullest bin of every coordinate to dst, the leftmost if several are
// fullest. noisy is a release of a Histogram's counts.
func (b Bins) Modes(dst, noisy []float64) {
	for j := range dst {
		best := 0
		counts := noisy[2*b.Half*j : 2*b.Half*(j+1)]
		for k, v := range counts {
			if v > counts[best] {
				best = k
			}
		}
		dst[j] = (float64(best-b.Half) + .5) * b.Width
	}
}

// Histogram counts, for each of D coordinates, how many of N contributions fall into each bin. A coordinate
// that is NaN falls into none. One replaced record moves the counts by at most sqrt(2 D) in l2 (proof:
// histogram.md). Not safe for concurrent use: Fork one for each goroutine.
//
// Source: Kamath, Liu & Zhang 2021, Algorithm 2. Differs: values out of range fall into the outermost bins.
type Histogram struct{ *tally }

type tally struct {
	sensitive
	bins    Bins
	shape   countContract
	records int
	counts  []int64
}

// NewHistogram returns an empty Histogram of n records of length d. It panics
// when CheckHistogram refuses.
func NewHistogram(b Bins, n, d int) *Histogram {
	if err := CheckHistogram(b, n, d); err != nil {
		panic(err.Error())
	}
	return &Histogram{&tally{bins: b, shape: countContract{n, d}, counts: make([]int64, 2*b.Half*d)}}
}

// CheckHistogram reports whether n records of length d can be counted in b.
//
// Errors: wraps ErrParams.
func CheckHistogram(b Bins, n, d int) error {
	if err := (Contract{Norm: LInf, Bound: b.Width, N: n, D: d}).Check(); err != nil {
		return fmt.Errorf("bins of width %v: %w", b.Width, err)
	}
	if b.Half < 1 || b.Half > maxDimension/(2*d) {
		return fmt.Errorf("%w: Half = %d; it must be positive and D times 2 Half at most 2^20", ErrParams, b.Half)
	}
	return checkGrid(2*b.Half*d, countContract{n, d}.l2Squared())
}

// Fork returns an empty Histogram of the same shape, to be merged later.
func (h *Histogram) Fork() *Histogram { return NewHistogram(h.bins, h.shape.n, h.shape.d) }

// Merge adds the records of part, which it empties. It panics when the shapes
// differ or there are more records than N.
func (h *Histogram) Merge(part *Histogram) {
	if part.bins != h.bins || part.shape != h.shape {
		panic("mech: histograms of different shape")
	}
	h.count(part.records)
	for k, v := range part.counts {
		h.counts[k] += v
	}
	clear(part.counts)
	part.records = 0
}

func (t *tally) count(records int) {
	if records > t.shape.n-t.records {
		panic("mech: more records than N")
	}
	t.records += records
}

// AddRows counts c_i times row i for every i, each the contribution of one
// record. It panics as Sum.AddRows does.
func (h *Histogram) AddRows(r Rows, c []float64) {
	r.check(h.shape.d, len(c))
	h.count(len(c))
	size := 2 * h.bins.Half
	counts := h.counts
	if r.Intercept {
		for _, v := range c {
			h.bins.add(counts[:size], v)
		}
		counts = counts[size:]
	}
	for j, x := range r.X {
		own := counts[size*j : size*(j+1)]
		for i, v := range x {
			h.bins.add(own, c[i]*v)
		}
	}
}

// AddBins counts one-dimensional contributions by the index of their bin, from 0; an index out of range
// counts in no bin. It panics as AddRows does.
func (h *Histogram) AddBins(positions []int32) {
	if h.shape.d != 1 {
		panic("mech: a contribution of the wrong length")
	}
	h.count(len(positions))
	counts := h.counts
	for _, k := range positions {
		if uint(k) < uint(len(counts)) {
			counts[k]++
		}
	}
}

// Bounded returns the counts, bin by bin and coordinate by coordinate, and leaves h empty. A release
// contains counts, not divided by N.
func (h *Histogram) Bounded() Bounded {
	totals := h.counts
	for k := range totals {
		totals[k] <<= h.shape.bits()
	}
	b := Bounded{&sealed{contract: h.shape, totals: totals, sums: true, records: h.records}}
	h.counts, h.records = make([]int64, len(totals)), 0
	return b
}

// countContract is the sensitivity of counts. A count of one is 2^bits steps, so that the grid of the noise
// is as fine as a Sum's.
type countContract struct{ n, d int }

func (s countContract) bits() uint { return Contract{N: s.n}.bits() + 1 }

func (s countContract) most() int { return s.n }

func (s countContract) l2Squared() *big.Int {
	return new(big.Int).Lsh(big.NewInt(int64(s.d)), 2*s.bits()+1)
}

func (s countContract) l1() *big.Int {
	return new(big.Int).Lsh(big.NewInt(int64(s.d)), s.bits()+1)
}

func (s countContract) inUnits(steps *big.Int) float64 {
	v, _ := new(big.Float).SetInt(steps).Float64()
	return math.Ldexp(v, -int(s.bits()))
}
