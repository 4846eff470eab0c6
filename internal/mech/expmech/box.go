package expmech

import (
	"math"
	"slices"
	"sync/atomic"

	"dpsidecar/internal/mech"
)

// plane is a lower bound of sum_i psi(u_i) on a box: f + g (z - middle).
type plane struct {
	middle []float64
	f      float64
	g      []float64
}

// envelope computes envelopes of boxes.
type envelope struct {
	*score
	*lattice
	*view
	repeat    float64       // number of rows that each row stands for: 1, except in an envelope from ofSample
	ignore    float64       // a box whose logMass is below this needs no better bound
	listed    *atomic.Int64 // number of rows in all lists made so far
	looked    *atomic.Int64 // number of rows read so far by bounds and proposals: a measure of the running time
	maxListed int64         // bound of listed
	stop      func() bool   // reports whether the caller has given up; then all results are void
}

// box is a set of grid points: index_j in [0, size_j) for every j, see
// lattice.point, with an envelope over them,
//
//	unit * sum_i q_i(k) >= alpha + sum_j rate_j steps_j.
type box struct {
	low, size []int64
	list      *list  // for the box's own bound
	inner     *list  // for the boxes inside it
	plane     *plane // nil if the box is one point
	model     *model

	alpha   float64
	rate    []float64 // >= 0
	falls   []bool    // steps_j = size_j - 1 - index_j if true, else index_j
	logMass float64   // logarithm of sum exp(-alpha - rate steps), rounded up

	axis int   // axis of the next split, -1 if the box is one point
	at   int64 // number of cells of the lower half
}

// bound computes the envelope of a box. Its plane may be inherited from the box it was cut from. It reports
// false if no point of W lies in the box.
func (e *envelope) bound(b *box) bool {
	if e.lattice.outside(e.target, b.low, b.size) {
		return false
	}
	if b.points() == 1 {
		return e.boundPoint(b)
	}
	places := e.locate(b)
	inherited := b.plane
	total, costs := e.collect(b, places)
	if !(math.Abs(b.logMass) < math.MaxFloat64) { // values close to overflow
		b.plane.f, b.plane.g = 0, make([]float64, len(places)) // psi >= 0
		e.setExponent(b, places)
	}
	b.model = newModel(e.gain, places, b.plane.g, total.kinks)
	if inherited != nil && e.repeat == 1 { // a plane is not inherited in the bounds of a sample
		e.blend(b, inherited, places)
	}
	e.choose(b, places, costs)
	return true
}

// blend replaces the plane of a box by a convex combination with another valid plane if that makes the
// envelope tighter.
func (e *envelope) blend(b *box, other *plane, places []place) {
	own := b.plane
	for _, t := range [...]float64{0.25, 0.5, 0.75, 1} {
		mixed := *b
		mixed.plane = own.mix(other, t)
		if e.setExponent(&mixed, places); mixed.logMass < b.logMass {
			*b = mixed
		}
	}
}

// mix returns (1-t) p + t q. With t = 1 it returns q without rounding, since nested boxes may inherit a
// plane any number of times.
func (p *plane) mix(q *plane, t float64) *plane {
	if t == 1 {
		return q
	}
	mixed := &plane{middle: p.middle, f: (1-t)*p.f + t*q.f, g: make([]float64, len(p.g))}
	for j := range mixed.g {
		mixed.g[j] = (1-t)*p.g[j] + t*q.g[j]
		mixed.f += t * q.g[j] * (p.middle[j] - q.middle[j])
	}
	return mixed
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

// boundPoint bounds a box of one point by its score.
func (e *envelope) boundPoint(b *box) bool {
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

// locate computes the position of a box in z and the point where its envelope should touch.
func (e *envelope) locate(b *box) []place {
	places := make([]place, len(b.low))
	e.lattice.span(places, b.low, b.size)
	b.model.touch(places)
	return places
}

// collectRounds is the largest number of parts in which the rows of a box are bounded.
const collectRounds = 8

// collect bounds the rows of a box. It stops early if the bounds so far make the box negligible: the other
// rows then count as zero, and the boxes inside b start from b's list. costs is the loss due to the width
// of the box along each axis.
func (e *envelope) collect(b *box, places []place) (total *sums, costs []float64) {
	by := &bounder{e.view, e.psi, places, freezeLoss / (float64(e.target.n) * e.gain)}
	total = newSums(len(places))
	rows := b.list.plain
	kept := make([][]int32, 0, collectRounds*int(e.workers))
	step := max(len(rows)/collectRounds+1, int(e.workers)*16*blockRows)
	for len(rows) > step {
		kept = append(kept, e.collectPlain(total, by, rows[:step])...)
		rows = rows[step:]
		costs = e.close(b, places, total)
		if e.setExponent(b, places); b.logMass < e.ignore {
			b.inner = b.list
			return total, costs
		}
	}
	kept = append(kept, e.collectPlain(total, by, rows)...)
	e.collectImprecise(total, by, b)
	total.scale(e.repeat)
	e.makeInnerList(b, places, total, kept)
	costs = e.close(b, places, total)
	e.setExponent(b, places)
	return total, costs
}

// collectPlain adds the bounds of plain rows, and returns in their order the rows whose bound may still
// improve.
func (e *envelope) collectPlain(total *sums, by *bounder, rows []int32) (kept [][]int32) {
	e.looked.Add(int64(len(rows)))
	parts := make([]*sums, e.workers)
	kept = make([][]int32, e.workers)
	e.workers.share(len(rows), 16*blockRows, func(worker, from, to int) {
		whole, part := newSums(len(by.places)), newSums(len(by.places))
		some := make([]int32, 0, to-from)
		for ; from < to; from += blockRows {
			some = by.gather(part, some, rows[from:min(to, from+blockRows)])
			whole.add(part)
			part.clear()
		}
		parts[worker], kept[worker] = whole, some
	})
	for _, part := range parts {
		if part != nil {
			total.add(part)
		}
	}
	return kept
}

// collectImprecise adds the bounds of a box's imprecise rows.
func (e *envelope) collectImprecise(total *sums, by *bounder, b *box) {
	if len(b.list.imprecise) == 0 {
		return
	}
	at, raw := e.lattice.spread(e.target, b.low, b.size), make([]float64, len(by.places))
	for rows := range slices.Chunk(b.list.imprecise, blockRows) {
		part := newSums(len(by.places))
		for _, i := range rows {
			by.imprecise(part, i, e.noiseWithin(i, at, raw))
		}
		total.add(part)
		total.imprecise = append(total.imprecise, part.imprecise...)
	}
}

// makeInnerList makes the list for the boxes inside b: a new one if enough rows are final, otherwise that
// of b.
func (e *envelope) makeInnerList(b *box, places []place, s *sums, plain [][]int32) {
	b.inner = b.list
	rows := len(b.list.plain) + len(b.list.imprecise)
	kept := len(s.imprecise)
	for _, part := range plain {
		kept += len(part)
	}
	if float64(kept) >= keepShare*float64(rows) || e.listed.Add(int64(kept)) > e.maxListed {
		return
	}
	settled := b.list.moved(middles(places))
	settled.add(&s.frozen)
	settled.f += s.constant
	b.inner = &list{plain: slices.Concat(plain...), imprecise: s.imprecise, middle: middles(places), expansion: settled}
}

// close turns the bound of a box into a plane: the quadratic part is replaced by its least value. It
// returns the loss due to the width of the box along each axis.
func (e *envelope) close(b *box, places []place, s *sums) (costs []float64) {
	q := b.list.moved(middles(places))
	q.add(&s.frozen)
	q.add(&s.live)
	q.f += s.constant
	costs = make([]float64, len(places))
	corner := 0.0
	for j, row := range q.m {
		for k, v := range row[:j+1] {
			v = math.Abs(v) * places[j].half * places[k].half
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
		costs[j] = e.gain * (1.5*costs[j] + 2*s.loss[j])
	}
	slack := float64(e.target.n) * e.rowSlack()
	b.plane = &plane{middle: middles(places), f: q.f - corner - slack, g: q.g}
	return costs
}

// setExponent computes the exponent of a box from its plane; all rounding errors make it smaller.
func (e *envelope) setExponent(b *box, places []place) {
	d := len(b.low)
	b.rate, b.falls = make([]float64, d), make([]bool, d)
	least, size := b.plane.f, math.Abs(b.plane.f)
	logMass := 0.0
	for j, g := range b.plane.g {
		away := g * (places[j].middle - b.plane.middle[j])
		least += away - math.Abs(g)*places[j].half
		size += math.Abs(away) + math.Abs(g)*places[j].half
		b.falls[j] = g < 0
		b.rate[j] = e.gain * math.Abs(g) * e.lattice.cell(j) * (1 - 0x1p-45)
		_, padded := digits(b.size[j])
		logMass += logGeometric(b.rate[j], padded)
	}
	b.alpha = e.gain * (least - size*0x1p-44)
	b.logMass = logMass - b.alpha
}

// choose selects the axis and position at which the box would be split.
func (e *envelope) choose(b *box, places []place, costs []float64) {
	b.axis = 0
	for j, size := range b.size {
		if size > b.size[b.axis] {
			b.axis = j
		}
	}
	b.at = b.size[b.axis] / 2
	best := math.Inf(-1)
	for j, p := range places {
		if b.size[j] == 1 {
			continue
		}
		c, h := p.middle, p.half
		at, gain := b.model.split(j, c-h, c+h)
		if costs[j] > gain {
			at = c
		}
		if gain+costs[j] > best {
			best, b.axis = gain+costs[j], j
			b.at = max(1, min(b.size[j]-1, int64(math.Round((at-(c-h))/e.lattice.cell(j)))))
		}
	}
}

// halves splits a box at its axis and position.
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
		list: b.inner, plane: b.plane, model: b.model,
	}
}

// refine splits boxes, bounds the halves and returns those that contain points of W.
func (e *envelope) refine(boxes []*box) []*box {
	var parts []*box
	for _, b := range boxes {
		halves := b.halves()
		parts = append(parts, halves[0], halves[1])
	}
	alive := make([]bool, len(parts))
	var group mech.PanicGroup
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

func middles(places []place) []float64 {
	middle := make([]float64, len(places))
	for j, p := range places {
		middle[j] = p.middle
	}
	return middle
}
