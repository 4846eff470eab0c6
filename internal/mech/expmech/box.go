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
	repeat     float64       // how often a row counts: 1, but see ofSample
	ignore     float64       // a box whose logMass is below need not be bounded any better
	listed     *atomic.Int64 // rows in all lists made so far
	looked     *atomic.Int64 // rows looked at so far, by bounds and proposals: what time goes with
	mostListed int64         // that there may be
	stop       func() bool   // whether the caller still waits; if not, all results are void
}

// box is a set of grid points: index_j in [0, size_j) for every j, see
// lattice.point, with an envelope over them,
//
//	unit * sum_i q_i(k) >= alpha + sum_j rate_j steps_j.
type box struct {
	low, size []int64
	list      *list  // what its own bound may use
	inner     *list  // what boxes inside it may use
	plane     *plane // nil if the box is one point
	model     *model

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
		return e.boundPoint(b)
	}
	places := e.locate(b)
	inherited := b.plane
	total, costs := e.collect(b, places)
	if !(math.Abs(b.logMass) < math.MaxFloat64) { // values near overflow
		b.plane.f, b.plane.g = 0, make([]float64, len(places)) // psi >= 0
		e.setExponent(b, places)
	}
	b.model = newModel(e.gain, places, b.plane.g, total.kinks)
	if inherited != nil && e.repeat == 1 { // no plane is inherited where a sample is bounded
		e.blend(b, inherited, places)
	}
	e.choose(b, places, costs)
	return true
}

// blend replaces the plane of a box by a convex combination with another plane
// that is valid there, if that makes the envelope tighter.
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

// mix returns (1-t) p + t q. A plane taken over whole is not rounded: boxes inside
// boxes may do that any number of times.
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

// boundPoint makes the score of a box of one point its bound.
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

// locate places a box in z and chooses where its envelope is to touch.
func (e *envelope) locate(b *box) []place {
	places := make([]place, len(b.low))
	e.lattice.span(places, b.low, b.size)
	b.model.touch(places)
	return places
}

// collectRounds is in how many parts the rows of a box are bounded, at most.
const collectRounds = 8

// collect bounds the rows of a box. It stops early where the rows seen so far make
// the box negligible: the others count as zero then, and boxes inside b start anew.
// It returns what the width of the box costs per axis.
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

// collectPlain adds the bounds of plain rows, and returns those that may still
// improve, in their order.
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

// makeInnerList makes the list of the boxes inside b: a new one if enough rows are
// settled, else that of b.
func (e *envelope) makeInnerList(b *box, places []place, s *sums, plain [][]int32) {
	b.inner = b.list
	rows := len(b.list.plain) + len(b.list.imprecise)
	kept := len(s.imprecise)
	for _, part := range plain {
		kept += len(part)
	}
	if float64(kept) >= keepShare*float64(rows) || e.listed.Add(int64(kept)) > e.mostListed {
		return
	}
	settled := b.list.moved(middles(places))
	settled.add(&s.frozen)
	settled.f += s.constant
	b.inner = &list{plain: slices.Concat(plain...), imprecise: s.imprecise, middle: middles(places), expansion: settled}
}

// close turns the bound of a box into a plane: the quadratic part is replaced by
// its least value. It returns what the width of the box costs per axis.
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

// setExponent computes the exponent of a box from its plane, every error against it.
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

// choose decides where the box is split if it ever is, and what its boxes learn.
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
		list: b.inner, plane: b.plane, model: b.model,
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
	var group mech.Crew
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
