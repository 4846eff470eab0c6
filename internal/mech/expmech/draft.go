package expmech

import "math"

// With many rows it pays to find out on a sample of them how W should be split,
// and to look at all rows only in the boxes that come out of it. What the sample
// says bounds nothing: every box is bounded again, by all rows.

const (
	draftRows   = 1 << 14 // of the sample
	draftBoxes  = 1 << 14 // at most
	draftNarrow = 3.0     // standard deviations of the sample's mode
	draftCare   = 1.1     // how much more than needed the sample must promise
	draftDone   = -3.0    // logarithm of the mass that need not be split further
)

// thin returns about limit of the rows.
func thin(rows []int32, limit int) []int32 {
	stride := max(1, (len(rows)+limit-1)/limit)
	var few []int32
	for i := 0; i < len(rows); i += stride {
		few = append(few, rows[i])
	}
	return few
}

// draft returns an envelope of a sample of the rows, and the sample; of all rows
// if they are few.
func (e *envelope) draft(plain []int32) (*envelope, []int32) {
	if len(plain) < 2*draftRows {
		return e, plain
	}
	few := thin(plain, draftRows)
	d := *e
	d.repeat = float64(len(plain)) / float64(len(few))
	return &d, few
}

// sketch splits a box the way a sample asks for, down to boxes so narrow that
// the sample does not know where the mode is. Their bounds are yet to be found.
func (s *sampler) sketch(root *box) []*box {
	draft, few := s.draft(root.list.plain)
	if draft == s.envelope {
		return []*box{root}
	}
	narrow := draftNarrow * math.Sqrt(draft.repeat)
	done := s.logTarget + s.gain*(s.atMode(root.list.plain)-draft.atMode(few)) + draftDone
	list := *root.list
	list.plain = few
	top := *root
	top.list = &list
	var wood forest
	if draft.bound(&top) {
		wood.add(&top)
	}
	var out []*box
	for !s.stop() && wood.heaviest() >= 0 && wood.logSum() > done && len(wood.boxes)+len(out) < draftBoxes {
		b := wood.take(wood.heaviest())
		if draft.widest(b) < narrow {
			out = append(out, b)
		} else {
			wood.add(draft.refine([]*box{b})...)
		}
	}
	out = append(out, wood.boxes...)
	for _, b := range out {
		b.list, b.heir, b.plane = root.list, nil, nil
	}
	return out
}

// widest returns the largest half-width of a box.
func (g *lattice) widest(b *box) float64 {
	widest := 0.0
	for j, size := range b.size {
		widest = max(widest, float64(size)*g.cell(j)/2)
	}
	return widest
}
