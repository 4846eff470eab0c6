package expmech

import (
	"math"
	"sync"
)

// box is a set of grid points: index_j in [0, size_j) for every j, see
// lattice.point, with an envelope over them,
//
//	unit * sum_i q_i(k) >= alpha + sum_j rate_j steps_j.
type box struct {
	low, size []int64
	list      *list  // what its own bound may use
	heir      *list  // what boxes inside it may use
	plane     *plane // nil if the box is one point
	shift     []float64

	alpha   float64
	rate    []float64 // >= 0
	falls   []bool    // steps_j = size_j - 1 - index_j if true, else index_j
	logMass float64   // logarithm of sum exp(-alpha - rate steps), rounded up

	axis int   // to split along, -1 if it is one point
	at   int64 // cells of the lower half
}

// bound computes the envelope of a box, whose plane may be that of the box it
// was cut from. It reports false if no point of W lies in it.
func (e *envelope) bound(b *box) bool {
	if e.lattice.outside(e.target, b.low, b.size) {
		return false
	}
	if b.points() == 1 {
		return e.settle(b)
	}
	geo := e.aim(b)
	total := e.collect(b.list, geo)
	inherited := b.plane
	e.bequeath(b, geo, total)
	costs := e.close(b, geo, total)
	e.slant(b, geo)
	if inherited != nil {
		other := *b
		other.plane = inherited
		if e.slant(&other, geo); other.logMass < b.logMass {
			*b = other
		}
	}
	e.choose(b, geo, costs)
	return true
}

// points returns the number of grid points, or 2 if there are more.
func (b *box) points() int {
	for _, size := range b.size {
		if size > 1 {
			return 2
		}
	}
	return 1
}

// settle gives a box of one point its score.
func (e *envelope) settle(b *box) bool {
	k := make([]int64, len(b.low))
	e.lattice.point(k, b.low, make([]int64, len(k)))
	if !e.contains(k) {
		return false
	}
	psi := e.estimate(k)
	b.alpha = e.gain * (psi - e.estimateSlack() - psi*0x1p-45)
	b.rate, b.falls = make([]float64, len(k)), make([]bool, len(k))
	b.plane, b.axis = nil, -1
	b.logMass = -b.alpha
	return true
}

// aim places a box in z and chooses where its envelope touches.
func (e *envelope) aim(b *box) *geometry {
	d := len(b.low)
	geo := &geometry{make([]float64, d), make([]float64, d), make([]float64, d)}
	e.lattice.span(geo.middle, geo.half, b.low, b.size)
	for j, s := range b.shift {
		t, _ := touch(geo.middle[j]-geo.half[j]+s, geo.middle[j]+geo.half[j]+s)
		geo.touch[j] = t - s
	}
	return geo
}

// collect bounds the rows of a list.
func (e *envelope) collect(l *list, geo *geometry) *sums {
	parts := make([]*sums, e.crew)
	e.crew.share(len(l.plain), 8*blockRows, func(worker, from, to int) {
		total, part := newSums(e.target.d), newSums(e.target.d)
		total.plain = make([]int32, 0, to-from)
		for ; from < to; from += blockRows {
			part.plain = total.plain
			e.gather(part, l.plain[from:min(to, from+blockRows)], geo)
			total.merge(part)
			part.clear()
		}
		parts[worker] = total
	})
	total := parts[0]
	for _, part := range parts[1:] {
		if part != nil {
			plain := append(total.plain, part.plain...)
			total.merge(part)
			total.plain = plain
		}
	}
	for _, i := range l.wild {
		if e.saturates(i, geo) {
			total.saturated++
		} else {
			total.wild = append(total.wild, i)
		}
	}
	return total
}

// saturates reports that a row scores the limit all over a box. A row without a
// usable noise never does.
func (e *envelope) saturates(i int32, geo *geometry) bool {
	row := e.view.row(i)
	r, rho := row[0], 2*e.view.noise[i]
	for j, x := range row[1:] {
		r -= x * geo.middle[j]
		rho += math.Abs(x) * geo.half[j]
	}
	return math.Abs(r)-rho >= 1
}

// bequeath makes the list of the boxes inside b: a new one if enough rows are
// settled, else that of b.
func (e *envelope) bequeath(b *box, geo *geometry, s *sums) {
	b.heir = b.list
	rows := len(b.list.plain) + len(b.list.wild)
	if float64(len(s.plain)+len(s.wild)) >= keepShare*float64(rows) {
		return
	}
	settled := b.list.moved(geo.middle)
	settled.add(&s.frozen)
	settled.f += float64(s.saturated) * e.psi.top
	b.heir = &list{
		plain: append([]int32(nil), s.plain...), wild: s.wild,
		middle: geo.middle, expansion: settled,
	}
}

// close turns the bound of a box into a plane: the quadratic part is replaced by
// its least value. It returns what the width of the box costs per axis.
func (e *envelope) close(b *box, geo *geometry, s *sums) (costs []float64) {
	q := b.list.moved(geo.middle)
	q.add(&s.frozen)
	q.add(&s.live)
	q.f += float64(s.saturated) * e.psi.top
	costs = make([]float64, len(geo.middle))
	corner := 0.0
	for j, row := range q.m {
		for k, v := range row[:j+1] {
			v = math.Abs(v) * geo.half[j] * geo.half[k]
			if k < j {
				corner += v
				costs[j] += v
				costs[k] += v
			} else {
				corner += v / 2
				costs[j] += v
			}
		}
	}
	for j := range costs {
		costs[j] = e.gain * (0.4*costs[j] + 0.5*s.loss[j])
	}
	slack := float64(e.target.n) * e.rowSlack()
	b.plane = &plane{middle: geo.middle, f: q.f - corner - slack, g: q.g}
	return costs
}

// slant computes the exponent of a box from its plane, every error against it.
func (e *envelope) slant(b *box, geo *geometry) {
	d := len(b.low)
	b.rate, b.falls = make([]float64, d), make([]bool, d)
	least, size := b.plane.f, math.Abs(b.plane.f)
	logMass := 0.0
	for j, g := range b.plane.g {
		away := g * (geo.middle[j] - b.plane.middle[j])
		least += away - math.Abs(g)*geo.half[j]
		size += math.Abs(away) + math.Abs(g)*geo.half[j]
		b.falls[j] = g < 0
		b.rate[j] = e.gain * math.Abs(g) * e.lattice.cell(j) * (1 - 0x1p-45)
		_, padded := digits(b.size[j])
		logMass += logGeometric(b.rate[j], padded)
	}
	b.alpha = e.gain * (least - size*0x1p-44)
	b.logMass = logMass - b.alpha
}

// choose decides where the box is split if it ever is, and what its boxes learn.
func (e *envelope) choose(b *box, geo *geometry, costs []float64) {
	shift := make([]float64, len(b.shift))
	best := math.Inf(-1)
	for j, c := range geo.middle {
		h := geo.half[j]
		if at := geo.touch[j] + b.shift[j]; math.Abs(at) < 1.5 {
			shift[j] = (e.gain*b.plane.g[j] - geo.touch[j]) * max(0, min(1, (h-shiftFrom)/shiftFrom))
			shift[j] = max(-h/2, min(h/2, shift[j]))
		} else {
			shift[j] = b.shift[j]
		}
		if b.size[j] == 1 {
			continue
		}
		at, gain := bestSplit(c-h, c+h)
		if costs[j] > gain {
			at = flatSplit(c-h, c+h)
		}
		if gain+costs[j] > best {
			best, b.axis = gain+costs[j], j
			b.at = max(1, min(b.size[j]-1, int64(math.Round((at-(c-h))/e.lattice.cell(j)))))
		}
	}
	b.shift = shift
}

// shiftFrom is the half-width above which a box teaches the boxes inside it how
// far the target's slope is from the model's.
const shiftFrom = 5.0

// flatSplit returns where to split [low, high] if the width matters more than
// the model's mass: in the middle, but not too far out.
func flatSplit(low, high float64) float64 {
	c := (low + high) / 2
	switch {
	case low > 0 && high > 4*low:
		return min(c, max(2*low, low+1))
	case high < 0 && low < 4*high:
		return max(c, min(2*high, high-1))
	}
	return c
}

// halves splits a box.
func (b *box) halves() [2]*box {
	low, high := b.child(), b.child()
	low.size[b.axis] = b.at
	high.size[b.axis] -= b.at
	high.low[b.axis] += b.at << shearBits
	return [2]*box{low, high}
}

func (b *box) child() *box {
	return &box{
		low: append([]int64(nil), b.low...), size: append([]int64(nil), b.size...),
		list: b.heir, plane: b.plane, shift: b.shift,
	}
}

// refine splits boxes and returns the parts that matter.
func (e *envelope) refine(boxes []*box) []*box {
	var parts []*box
	for _, b := range boxes {
		halves := b.halves()
		parts = append(parts, halves[0], halves[1])
	}
	alive := make([]bool, len(parts))
	var group sync.WaitGroup
	for i := 1; i < len(parts); i++ {
		group.Go(func() { alive[i] = e.bound(parts[i]) })
	}
	alive[0] = e.bound(parts[0])
	group.Wait()
	out := parts[:0]
	for i, b := range parts {
		if alive[i] {
			out = append(out, b)
		}
	}
	return out
}
