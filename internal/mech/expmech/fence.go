package expmech

import (
	"math"
	"slices"
	"sort"
)

// Far from the mode the target is negligible, and a fence proves that at once instead of box by box. Let Q
// be a cube around z = 0, and z = t z' a point beyond it, with z' on the cube's surface and t >= 1. There
// row i scores at least
//
//	m_i(z') = inf over t >= 1 of psi(|a_i - t V_i z'|),
//
// which is psi(|a_i - V_i z'|) if V_i z' has passed a_i or points away from it, and 0 if it lies between 0
// and a_i. So a lower bound of sum_i m_i on the surface is a lower bound of the score everywhere beyond it.
// The surface has one dimension less and a small range of residuals.

const (
	fenceSmallest = 8.0     // half-width of the smallest candidate cube
	fenceGrowth   = 1.15    // ratio of the half-widths of consecutive cubes
	fenceMargin   = 5.0     // margin in the exponent beyond a fence over the value that makes it negligible
	fenceRows     = 1 << 13 // number of rows that select the size of the cube
)

// fenceTry is one attempt at a fence: the required ratio of the sum of m_i in the middles of the cube's
// faces to the sum of psi at the mode, and the number of cells into which a face may be cut.
type fenceTry struct {
	rise  float64
	cells int
}

// cubeTries lists the attempts in order. An easy face is covered by a few cells; a cube that is too small
// or too large takes many, and which size is good depends on iota. A large cube leaves more work to the
// boxes inside it, so attempts with many cells begin with small cubes.
func cubeTries() (tries []fenceTry) {
	for _, cells := range [...]int{8, 64} {
		for _, rise := range [...]float64{1.5, 2, 2.7, 4, 6} {
			tries = append(tries, fenceTry{rise, cells})
		}
	}
	return append(tries, fenceTry{1.5, 512}, fenceTry{2, 512}, fenceTry{2.7, 512},
		fenceTry{1.5, 4096}, fenceTry{4, 512}, fenceTry{6, 512})
}

// fence returns the half-width of a cube such that sum_i psi(u_i) >= least at
// all points of W beyond it, or infinity if it finds none.
func (e *envelope) fence(plain []int32, least float64) float64 {
	if least >= e.psi.top*float64(len(plain)) {
		return math.Inf(1) // the rows cannot score that much
	}
	sampled, few := e.ofSample(plain)
	mode, level := sampled.atMode(few), e.atMode(plain)
	cubes := e.cubes()
	for _, try := range cubeTries() {
		need := max(least, try.rise*level)
		i := sort.Search(len(cubes), func(i int) bool { return e.least(&cubes[i], plain) >= need })
		if i == len(cubes) {
			continue
		}
		cells, ok := e.faces(cubes[i].half), true
		if sampled != e {
			cells, ok = sampled.cover(cells, &fencer{e.view, e.psi, few}, mode+(least-level)*sampleMargin, try.cells)
			for _, c := range cells {
				c.plane = nil // drop the plane of the sample
			}
		}
		if ok {
			_, ok = e.cover(cells, &fencer{e.view, e.psi, plain}, least, try.cells)
		}
		if ok {
			return cubes[i].half
		}
	}
	return math.Inf(1)
}

// cube is a candidate: its half-width and, once computed, an estimate of the least sum of m_i over the
// middles of its faces. That sum increases with the cube.
type cube struct{ half, middle float64 }

// cubes returns the candidates, by size.
func (e *envelope) cubes() (cubes []cube) {
	widest := slices.Max(e.lattice.extent)
	for half := fenceSmallest; half < widest; half *= fenceGrowth {
		cubes = append(cubes, cube{half, math.NaN()})
	}
	return cubes
}

// least returns the estimate for a candidate, computing it if necessary.
func (e *envelope) least(c *cube, plain []int32) float64 {
	if !math.IsNaN(c.middle) {
		return c.middle
	}
	few, faces := everyNth(plain, fenceRows), e.faces(c.half)
	middles := make([]float64, len(faces))
	e.workers.share(len(faces), 1, func(_, from, to int) {
		for n := from; n < to; n++ {
			middles[n] = e.middle(faces[n], few)
		}
	})
	c.middle = float64(len(plain)) / float64(len(few)) * slices.Min(middles)
	return c.middle
}

// atMode returns sum_i psi at z = 0, approximately.
func (e *envelope) atMode(plain []int32) float64 {
	sum := 0.0
	for _, i := range plain {
		sum += e.psi.at(math.Abs(e.view.row(i)[0]))
	}
	return sum * e.repeat
}

// cell is a part of a face of a cube: |z_axis| is fixed.
type cell struct {
	places []place
	axis   int
	plane  *plane // a plane below sum_i m_i on the cell; or nil
	model  *model
}

// faces returns the faces of a cube.
func (e *envelope) faces(q float64) (faces []*cell) {
	for axis := range e.target.d {
		for _, side := range [...]float64{-q, q} {
			c := &cell{places: make([]place, e.target.d), axis: axis, model: unitModel(e.target.d)}
			for j := range c.places {
				c.places[j].half = q
			}
			c.places[axis] = place{middle: side, touch: side}
			faces = append(faces, c)
		}
	}
	return faces
}

// middle estimates sum_i m_i in the middle of a face.
func (e *envelope) middle(face *cell, rows []int32) float64 {
	places := make([]place, len(face.places))
	places[face.axis] = face.places[face.axis]
	f := &fencer{e.view, e.psi, rows}
	return f.sum(places, 0, len(rows)).live.f
}

// cover cuts cells into parts until sum_i m_i >= least is proved on every part, and returns the parts. It
// gives up on a cell that takes more than budget surveys.
func (e *envelope) cover(cells []*cell, f *fencer, least float64, budget int) (parts []*cell, ok bool) {
	for _, whole := range cells {
		open := []*cell{whole}
		for surveys := 0; len(open) > 0; {
			c := open[len(open)-1]
			open = open[:len(open)-1]
			if c.plane == nil || !(c.plane.least(c.places) >= least) { // also if NaN
				if surveys++; surveys > budget || e.stop() {
					return nil, false
				}
				e.survey(c, f)
			}
			if !(c.plane.least(c.places) >= least) {
				open = append(open, c.halves()...)
			} else {
				parts = append(parts, c)
			}
		}
	}
	return parts, true
}

// bounded is a sum over rows that has lower bounds by planes on cells.
type bounded interface {
	count() int
	// sum returns in live a plane below the sum over the rows in [from, to), around the middle of a cell.
	sum(cell []place, from, to int) *sums
}

// survey improves the plane and the model of a cell with a pass over all rows.
func (e *envelope) survey(c *cell, rows bounded) {
	c.model.touch(c.places)
	e.looked.Add(int64(rows.count()))
	parts := make([]*sums, e.workers)
	e.workers.share(rows.count(), 16*blockRows, func(worker, from, to int) {
		parts[worker] = rows.sum(c.places, from, to)
	})
	total := parts[0]
	for _, part := range parts[1:] {
		if part != nil {
			total.add(part)
		}
	}
	total.scale(e.repeat)
	c.model = newModel(e.gain, c.places, total.live.g, total.kinks)
	own := &plane{middle: middles(c.places), f: total.live.f, g: total.live.g}
	known := c.plane
	c.plane = own
	for t := 1.0 / 16; t <= 1 && known != nil; t += 1.0 / 16 {
		if mixed := own.mix(known, t); mixed.least(c.places) > c.plane.least(c.places) {
			c.plane = mixed
		}
	}
}

// halves cuts a cell across its widest axis.
func (c *cell) halves() []*cell {
	widest := 0
	for j, p := range c.places {
		if p.half > c.places[widest].half {
			widest = j
		}
	}
	var out []*cell
	for _, side := range [...]float64{-0.5, 0.5} {
		half := *c
		half.places = append([]place(nil), c.places...)
		p := &half.places[widest]
		p.middle += side * p.half
		p.half /= 2
		out = append(out, &half)
	}
	return out
}

// least returns the least value of the plane on a box.
func (p *plane) least(places []place) float64 {
	least := p.f
	for j, at := range places {
		least += p.g[j]*(at.middle-p.middle[j]) - math.Abs(p.g[j])*at.half
	}
	return least
}

// fencer computes lower bounds of sum_i m_i on a part of a cube's surface.
type fencer struct {
	*view
	psi  *psi
	rows []int32
}

func (f *fencer) count() int { return len(f.rows) }

func (f *fencer) sum(places []place, from, to int) *sums {
	total, part := newSums(len(places)), newSums(len(places))
	for rows := f.rows[from:to]; len(rows) > 0; {
		n := min(blockRows, len(rows))
		for k, i := range rows[:n] {
			f.row(part, places, k%modelEvery == 0, i)
		}
		total.add(part)
		part.clear()
		rows = rows[n:]
	}
	return total
}

// row adds a linear function of V z that is below m_i.
func (f *fencer) row(sum *sums, places []place, learn bool, i int32) {
	row := f.view.row(i)
	middle, touch, rho := 0.0, 0.0, 2*plainNoise
	v := row[1:]
	for j, x := range v {
		p := &places[j]
		middle += x * p.middle
		touch += x * p.touch
		rho += math.Abs(x) * p.half
	}
	rho *= 1 + 0x1p-44 // middle is rounded, and a cell may be much wider than W
	a, sign := row[0], 1.0
	if a < 0 {
		a, sign, middle, touch = -a, -1, -middle, -touch
	}
	value, slope := f.line(a, middle-rho, middle+rho, touch)
	sum.live.f += value + slope*rho
	slope *= sign
	for j, x := range v {
		sum.live.g[j] += slope * x
	}
	if learn && math.Abs(middle) < rho {
		sum.kinks.addSquare(sum.loss, modelEvery*math.Abs(slope)/rho, 0, v)
	}
}

// line returns the value at V z = low and the slope of a line below m on [low, high], for a row whose a is
// not negative.
func (f *fencer) line(a, low, high, touch float64) (value, slope float64) {
	psi := func(u float64) float64 { return u * f.psi.chord(u) }
	switch {
	case low >= a:
		value = psi(low - a)
		return value, (psi(high-a) - value) / (high - low)
	case high <= 0:
		value = psi(a - low)
		return value, (psi(a-high) - value) / (high - low)
	case touch > a/2 && high > a:
		slope = f.psi.chord(high - a)
		value = slope * (low - a)
	case touch < 0 && low < 0:
		value = psi(a - low)
		slope = value / low
	}
	if value < -lowestBound || value+slope*(high-low) < -lowestBound {
		return 0, 0
	}
	return value, slope
}
