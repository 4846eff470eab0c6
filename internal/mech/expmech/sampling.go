package expmech

import "math"

// With many rows it is faster to choose the splits of a wide box with a sample of them, and to read all
// rows only for the resulting boxes. The bound of a sample is not a bound for all rows: every box is then
// bounded again with all of them.

const (
	sampleRows   = 1 << 14 // rows of the sample
	sampleBoxes  = 1 << 14 // largest number of boxes that the sample makes
	sampleWidest = 32.0    // half-width of a box up to which no sample is used
	sampleNarrow = 3.0     // a box is not split further by the sample below this many standard deviations of the sample's mode
	sampleMargin = 1.1     // factor by which the sample must exceed the required bound
	sampleDone   = -3.0    // logarithm, relative to the target, of the mass at which splitting by the sample stops
)

// everyNth returns about limit of the rows, evenly spaced.
func everyNth(rows []int32, limit int) []int32 {
	stride := max(1, (len(rows)+limit-1)/limit)
	var few []int32
	for i := 0; i < len(rows); i += stride {
		few = append(few, rows[i])
	}
	return few
}

// ofSample returns an envelope for a sample of the rows, and the sample; e and all rows if they are few.
func (e *envelope) ofSample(plain []int32) (*envelope, []int32) {
	if len(plain) < 2*sampleRows {
		return e, plain
	}
	few := everyNth(plain, sampleRows)
	d := *e
	d.repeat = float64(len(plain)) / float64(len(few))
	return &d, few
}

// splitBySample splits a box with the bounds of a sample, until the boxes are too narrow for the sample to
// locate the mode. The resulting boxes have no bounds yet.
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
