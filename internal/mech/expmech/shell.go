package expmech

import "math"

// Between the fence and the mode the target is still negligible almost everywhere. On a box that holds the
// origin of z, let C be a sum over the rows of convex functions of the residual that are at most psi on the
// box. C is convex. So if C is at least C(0) on the surface of a cube around 0, its values beyond the cube
// are at least its least value on the surface: planes on the faces bound the whole box outside of the cube.
// Then C is computed again on the cube, where it is larger, until the cubes no longer shrink.

const (
	shellSmallest = 4.0     // half-width of the smallest cube, in standard deviations
	shellRows     = 1 << 12 // number of rows that select the cube
	shellStep     = 0.8     // ratio of the half-widths of consecutive cubes
	shellSurveys  = 4       // passes over the rows for one face
	shellRetries  = 3       // attempts with larger cubes if the rows of the sample were too optimistic
)

// hull is C on a box: the sum of the lines of the rows whose residual keeps its sign, and for every other
// row the slopes of its function on the two sides of residual 0.
type hull struct {
	*view
	lines    *plane
	rows     []int32
	up, down []float64 // slope above 0, and negated slope below
}

// newHull returns C for some rows on the box at places.
func (e *envelope) newHull(places []place, rows []int32) *hull {
	parts := make([]*hull, e.workers)
	e.workers.share(len(rows), 16*blockRows, func(worker, from, to int) {
		parts[worker] = e.partOfHull(places, rows[from:to])
	})
	h := parts[0]
	for _, part := range parts[1:] {
		if part == nil {
			continue
		}
		h.lines.f += part.lines.f
		for j, v := range part.lines.g {
			h.lines.g[j] += v
		}
		h.rows, h.up, h.down = append(h.rows, part.rows...), append(h.up, part.up...), append(h.down, part.down...)
	}
	return h
}

func (e *envelope) partOfHull(places []place, rows []int32) *hull {
	h := &hull{view: e.view, lines: &plane{middle: middles(places), g: make([]float64, len(places))}}
	total, part := newExpansion(len(places)), newExpansion(len(places))
	for len(rows) > 0 {
		n := min(blockRows, len(rows))
		for _, i := range rows[:n] {
			h.add(e.psi, places, &part, i)
		}
		total.add(&part)
		part.clear()
		rows = rows[n:]
	}
	h.lines.f, h.lines.g = total.f, total.g
	return h
}

// add adds a row: its line to lines if its residual keeps its sign, otherwise its two slopes.
func (h *hull) add(psi *psi, places []place, lines *expansion, i int32) {
	row := h.view.row(i)
	r, rho := row[0], 2*plainNoise
	v := row[1 : 1+len(places)]
	for j, x := range v {
		r -= x * places[j].middle
		rho += math.Abs(x) * places[j].half
	}
	rho *= 1 + 0x1p-44 // r is rounded too
	low, high := math.Abs(r)-rho, math.Abs(r)+rho
	if low <= 0 {
		h.rows = append(h.rows, i)
		h.up, h.down = append(h.up, psi.chord(rho+r)), append(h.down, psi.chord(rho-r))
		return
	}
	start, end := low*psi.chord(low), high*psi.chord(high)
	slope := math.Copysign((end-start)/(2*rho), r)
	lines.f += (start + end) / 2
	for j, x := range v {
		lines.g[j] -= slope * x
	}
}

func (h *hull) count() int { return len(h.rows) }

// sum returns a plane below the sum of the functions of the kinked rows in [from, to), in a part of the
// box. If from is 0 it includes the sum of the lines.
func (h *hull) sum(places []place, from, to int) *sums {
	total, part := newSums(len(places)), newSums(len(places))
	if from == 0 {
		h.addLines(&total.live, places)
	}
	for from < to {
		end := min(from+blockRows, to)
		for n := from; n < end; n++ {
			h.kink(part, places, n)
		}
		total.add(part)
		part.clear()
		from = end
	}
	return total
}

// kink adds the line of a row on the side of residual 0 of the point where the plane should touch C.
func (h *hull) kink(s *sums, places []place, n int) {
	row := h.view.row(h.rows[n])
	r, at, rho := row[0], row[0], plainNoise
	v := row[1:]
	v = v[:len(places)]
	for j := range places {
		p, x := &places[j], v[j]
		r -= x * p.middle
		at -= x * p.touch
		rho += math.Abs(x) * p.half
	}
	slope := h.up[n]
	if at < 0 {
		slope = -h.down[n]
	}
	s.live.f += slope * r
	g := s.live.g[:len(v)]
	for j, x := range v {
		g[j] -= slope * x
	}
	if n%modelEvery == 0 && math.Abs(r) < rho {
		s.kinks.addSquare(s.loss, modelEvery*math.Abs(slope)/rho, 0, v)
	}
}

// addLines adds the sum of the lines to an expansion around the middle of places.
func (h *hull) addLines(to *expansion, places []place) {
	to.f += h.lines.f
	for j, p := range places {
		to.f += h.lines.g[j] * (p.middle - h.lines.middle[j])
		to.g[j] += h.lines.g[j]
	}
}

// shells cuts cubes around z = 0 out of root, each smaller than the last, adds slabs for the parts outside
// of them, and returns the last cube.
func (s *sampler) shells(root *box) *box {
	for before := math.Inf(1); !s.stop(); {
		places := s.boundaries(root)
		least, now := s.negligibleBeyond(root), widest(places)
		q := s.shell(places, root.list.plain, least)
		if math.IsInf(q, 1) || now >= before { // on a coarse grid a cube may cut nothing off
			break
		}
		before = now
		root = s.cutOff(root, q, least)
	}
	return root
}

// boundaries returns the position of a box in z.
func (g *lattice) boundaries(b *box) []place {
	places := make([]place, g.d)
	g.span(places, b.low, b.size)
	return places
}

// shell returns the half-width of a cube such that sum_i psi(u_i) >= least in the part of a box outside of
// it, or infinity if it finds none.
func (s *sampler) shell(places []place, plain []int32, least float64) float64 {
	level := s.atMode(plain)
	if !(level+float64(s.target.n)*s.rowSlack() <= least) {
		return math.Inf(1)
	}
	q := s.judge(places, plain, least-level)
	all := s.newHull(places, plain)
	for range shellRetries {
		if q > shellStep*widest(places) {
			break
		}
		if s.above(all, facesWithin(places, q), least) {
			return q
		}
		q /= shellStep
	}
	return math.Inf(1)
}

// judge returns the half-width of the smallest cube on whose faces C exceeds the score at z = 0 by rise,
// estimated with a sample of the rows; infinity if there is none.
func (s *sampler) judge(places []place, plain []int32, rise float64) float64 {
	sampled, few := *s.envelope, everyNth(plain, shellRows)
	sampled.repeat = float64(len(plain)) / float64(len(few))
	h, enough := sampled.newHull(places, few), sampled.atMode(few)+rise*sampleMargin
	best := math.Inf(1)
	for q := shellStep * widest(places); q >= shellSmallest && !s.stop() && sampled.above(h, facesWithin(places, q), enough); q *= shellStep {
		best = q
	}
	return best
}

func widest(places []place) (half float64) {
	for _, p := range places {
		half = max(half, p.half)
	}
	return half
}

// facesWithin returns the parts of the faces of a cube that lie in a box.
func facesWithin(box []place, q float64) (faces []*cell) {
	inner := make([]place, len(box))
	for j, p := range box {
		low, high := max(p.middle-p.half, -q), min(p.middle+p.half, q)
		inner[j] = place{middle: (low + high) / 2, half: (high - low) / 2 * (1 + 0x1p-40)}
	}
	for axis, p := range box {
		for _, side := range [...]float64{-q, q} {
			if math.Abs(side-p.middle) >= p.half {
				continue
			}
			c := &cell{places: append([]place(nil), inner...), axis: axis, model: unitModel(len(box))}
			c.places[axis] = place{middle: side, touch: side}
			faces = append(faces, c)
		}
	}
	return faces
}

// above reports whether there are cells and C is proved to be at least least on all of them.
func (e *envelope) above(h *hull, cells []*cell, least float64) bool {
	for _, c := range cells {
		c.plane = nil
		for try := 0; c.plane == nil || !(c.plane.least(c.places) >= least); try++ {
			if try == shellSurveys {
				return false
			}
			e.survey(c, h)
		}
	}
	return len(cells) > 0
}
