package expmech

import "math"

// With many rows it is faster to decide on a sample of them how a wide box is split, and
// to look at all rows only in the boxes that come out of it. A bound by the sample is
// none for all rows: every box is bounded again, by all of them.

const (
	sampleRows   = 1 << 14 // of the sample
	sampleBoxes  = 1 << 14 // at most
	sampleWidest = 32.0    // half-width of a box that needs no sample
	sampleNarrow = 3.0     // standard deviations of the sample's mode
	sampleMargin = 1.1     // how much more than needed the sample must promise
	sampleDone   = -3.0    // logarithm of the mass that need not be split further
)

// everyNth returns about limit of the rows.
func everyNth(rows []int32, limit int) []int32 {
	stride := max(1, (len(rows)+limit-1)/limit)
	var few []int32
	for i := 0; i < len(rows); i += stride {
		few = append(few, rows[i])
	}
	return few
}

// ofSample returns an envelope of a sample of the rows, and the sample; of all rows
// if they are few.
func (e *envelope) ofSample(plain []int32) (*envelope, []int32) {
	if len(plain) < 2*sampleRows {
		return e, plain
	}
	few := everyNth(plain, sampleRows)
	d := *e
	d.repeat = float64(len(plain)) / float64(len(few))
	return &d, few
}

// splitBySample splits a box the way a sample asks for, down to boxes so narrow that
// the sample does not know where the mode is. Their bounds are yet to be found.
func (s *sampler) splitBySample(root *box) []*box {
	sampled, few := s.ofSample(root.list.plain)
	if sampled == s.envelope {
		return []*box{root}
	}
	narrow := sampleNarrow * math.Sqrt(sampled.repeat)
	done := s.logTarget + s.gain*(s.atMode(root.list.plain)-sampled.atMode(few)) + sampleDone
	list := *root.list
	list.plain = few
	top := *root
	top.list = &list
	var heap boxHeap
	if sampled.bound(&top) {
		heap.add(&top)
	}
	var out []*box
	for !s.stop() && heap.heaviest() >= 0 && heap.logSum() > done && len(heap.boxes)+len(out) < sampleBoxes {
		b := heap.take(heap.heaviest())
		if widest(s.boundaries(b)) < narrow {
			out = append(out, b)
		} else {
			heap.add(sampled.refine([]*box{b})...)
		}
	}
	out = append(out, heap.boxes...)
	for _, b := range out {
		b.list, b.inner, b.plane = root.list, nil, nil
	}
	return out
}
