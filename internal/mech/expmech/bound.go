package expmech

import "math"

// Thresholds for the choice of a row's bound. They change running time alone.
const (
	smoothReach = 0.5  // a row whose residual varies by less in the box is bounded by its expansion, not by a chord
	freezeLoss  = 10.0 // largest increase of the exponent's error if the bounds of all rows are kept for the boxes inside
	keepShare   = 0.8  // a new list is made if it has less than this fraction of the rows
	modelEvery  = 8    // every 8th row of a kind updates the model that chooses splits
	lowestBound = 4.0  // a row whose lower bound may fall below -4 is bounded by 0 instead
)

// expansion is a quadratic f + g (z - middle) - (z - middle)' m (z - middle) / 2;
// m is its lower triangle.
type expansion struct {
	f float64
	g []float64
	m matrix
}

func newExpansion(d int) expansion { return expansion{g: make([]float64, d), m: newMatrix(d)} }

func (e *expansion) add(o *expansion) {
	e.f += o.f
	for j, v := range o.g {
		e.g[j] += v
	}
	e.m.add(o.m, 1)
}

func (e *expansion) clear() {
	e.f = 0
	clear(e.g)
	e.m.clear()
}

// list is inherited by the boxes inside a box: the rows whose bound may still improve, and a lower bound
// for the sum of all other rows, which is final.
type list struct {
	plain, imprecise []int32
	middle           []float64
	expansion
}

// moved returns the expansion of l around another middle.
func (l *list) moved(middle []float64) expansion {
	e := newExpansion(len(middle))
	delta := make([]float64, len(middle))
	for j := range delta {
		delta[j] = middle[j] - l.middle[j]
	}
	e.f = l.f
	copy(e.g, l.g)
	e.m.add(l.m, 1)
	for j, row := range l.m {
		for k, v := range row[:j] {
			e.g[j] -= v * delta[k]
			e.g[k] -= v * delta[j]
		}
		e.g[j] -= row[j] * delta[j]
	}
	for j, v := range delta {
		e.f += (l.g[j] + e.g[j]) / 2 * v
	}
	return e
}

// place is one axis of a box in floating point: |z - middle| <= half, and the point where the envelope
// should touch.
type place struct{ middle, half, touch float64 }

// sums is the bound of some rows on a box. The frozen part is valid on all boxes inside it as well, where
// it could improve only within the tolerance.
type sums struct {
	live, frozen expansion
	kinks        matrix    // approximate mean curvature of the rows with a kink
	loss         []float64 // approximate loss of the bound due to the width of every axis
	imprecise    []int32   // imprecise rows that may still improve
	constant     float64   // of the rows that score psi.limit on the whole box
}

func newSums(d int) *sums {
	return &sums{live: newExpansion(d), frozen: newExpansion(d), kinks: newMatrix(d), loss: make([]float64, d)}
}

// add adds the bounds of o, without its rows.
func (s *sums) add(o *sums) {
	s.live.add(&o.live)
	s.frozen.add(&o.frozen)
	s.kinks.add(o.kinks, 1)
	for j, v := range o.loss {
		s.loss[j] += v
	}
	s.constant += o.constant
}

// scale multiplies the bounds by weight.
func (s *sums) scale(weight float64) {
	if weight == 1 {
		return
	}
	for _, e := range [...]*expansion{&s.live, &s.frozen, {g: s.loss, m: s.kinks}} {
		e.f *= weight
		for j := range e.g {
			e.g[j] *= weight
			for k := range e.m[j] {
				e.m[j][k] *= weight
			}
		}
	}
	s.constant *= weight
}

func (s *sums) clear() {
	s.live.clear()
	s.frozen.clear()
	s.kinks.clear()
	clear(s.loss)
	s.constant = 0
}

// bounder computes bounds of rows on one box.
type bounder struct {
	*view
	psi       *psi
	places    []place
	tolerance float64 // for freezing a row
}

// gather adds the bounds of at most blockRows plain rows to s, and appends to kept the rows whose bound may
// be higher in a smaller box. Section 3 of expmech.md proves that they are lower bounds.
func (b *bounder) gather(s *sums, kept, rows []int32) []int32 {
	places := b.places
	product, frozen := 1.0, 1.0
	for n, i := range rows {
		row := b.view.row(i)
		r, at, rho := row[0], row[0], 2*plainNoise
		v := row[1:]
		v = v[:len(places)]
		for j := range places {
			p, x := &places[j], v[j]
			r -= x * p.middle
			at -= x * p.touch
			rho += math.Abs(x) * p.half
		}
		u := math.Abs(r)
		low, high := u-rho, u+rho
		switch {
		case low >= 1:
			s.constant += b.psi.top
			continue
		case low <= 0:
			b.kink(s, n%modelEvery == 0, r, at, rho, v)
		case rho > smoothReach:
			b.chord(s, n%modelEvery == 0, r, rho, v)
		default:
			decay, slope := b.psi.expand(u)
			bend := b.psi.bend(low, high)
			if bend*rho*rho > lowestBound { // theta < 2 and the residual may be close to 0
				b.chord(s, n%modelEvery == 0, r, rho, v)
				break
			}
			slope = math.Copysign(slope, r)
			if b.psi.sway(bend, low, high)*rho*rho < b.tolerance {
				frozen *= decay
				s.frozen.m.addSquare(s.frozen.g, bend, -slope, v)
				continue
			}
			product *= decay
			s.live.m.addSquare(s.live.g, bend, -slope, v)
		}
		kept = append(kept, i)
	}
	s.live.f -= math.Log(product)
	s.frozen.f -= math.Log(frozen)
	return kept
}

// kink bounds a row whose residual may vanish in the box by a line through the origin, on the side of the
// point where the envelope should touch.
func (b *bounder) kink(s *sums, learn bool, r, at, rho float64, v []float64) {
	side := math.Copysign(1, at)
	steep := b.psi.chord(rho + side*r)
	slope := side * steep
	if !(slope*r-steep*rho >= -lowestBound) {
		return // zero is a bound too
	}
	s.live.f += slope * r
	g := s.live.g[:len(v)]
	for j, x := range v {
		g[j] -= slope * x
	}
	if learn {
		s.kinks.addSquare(s.loss, modelEvery*steep/rho, 0, v)
		b.chargeAxes(s, b.psi.approximate(math.Abs(at))-slope*at, rho, v)
	}
}

// chord bounds a row by the chord of psi between the ends of its range.
func (b *bounder) chord(s *sums, learn bool, r, rho float64, v []float64) {
	low, high := math.Abs(r)-rho, math.Abs(r)+rho
	start, end := low*b.psi.chord(low), high*b.psi.chord(high) // lower bounds
	slope := math.Copysign((end-start)/(2*rho), r)
	s.live.f += (start + end) / 2
	for j, x := range v {
		s.live.g[j] -= slope * x
	}
	if learn {
		b.chargeAxes(s, b.psi.approximate(math.Abs(r))-(start+end)/2, rho, v)
	}
}

// chargeAxes distributes the loss of a row's bound over the axes, in proportion to how much its residual
// varies along each.
func (b *bounder) chargeAxes(s *sums, loss, rho float64, v []float64) {
	loss *= modelEvery / rho
	for j, x := range v {
		s.loss[j] += loss * math.Abs(x) * b.places[j].half
	}
}

// sway estimates by how much the absolute second derivative of psi varies on [low, high], where it is at
// most bend.
func (p *psi) sway(bend, low, high float64) float64 {
	switch {
	case high >= 1:
		return bend
	case p.theta == 2:
		return 3 * (high - low)
	}
	return bend - p.bend(high, high)
}

// approximate estimates psi(u) from the table of chords, for heuristics only.
func (p *psi) approximate(u float64) float64 {
	if u >= 1 {
		return p.top
	}
	return u * p.chords[int(u*chordNodes)+1]
}
