package expmech

import "math"

const (
	smoothReach  = 0.5 // records that move less are expanded, not cut by a chord
	freezeLoss   = 10.0
	keepShare    = 0.8
	maxListRows  = 1 << 28
	deepestSlope = 4 // a line that sinks below -deepestSlope is no bound
)

// list is what a box hands to the boxes inside it: rows whose bound may still
// improve, and for the others, once and for all, the concave quadratic
//
//	f + g (z - middle) - (z - middle)' m (z - middle) / 2.
type list struct {
	plain, wild []int32
	middle      []float64
	expansion
}

// plane is a lower bound of sum_i psi(u_i) on a box: f + g (z - middle).
type plane struct {
	middle []float64
	f      float64
	g      []float64
}

// sums is the bound of some rows: live parts hold on this box, frozen parts on
// all boxes inside it as well.
type sums struct {
	live, frozen expansion
	loss         []float64 // how much each axis' width costs, roughly
	plain, wild  []int32   // rows that stay
	saturated    int
}

func newSums(d int) *sums {
	return &sums{live: newExpansion(d), frozen: newExpansion(d), loss: make([]float64, d)}
}

// merge adds o, whose rows that stay include those of s.
func (s *sums) merge(o *sums) {
	s.live.add(&o.live)
	s.frozen.add(&o.frozen)
	for j, v := range o.loss {
		s.loss[j] += v
	}
	s.plain = o.plain
	s.saturated += o.saturated
}

func (s *sums) clear() {
	s.live.clear()
	s.frozen.clear()
	clear(s.loss)
	s.plain, s.saturated = nil, 0
}

// expansion is f + g (z - middle) - (z - middle)' m (z - middle) / 2.
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
	for j, row := range o.m {
		for k, v := range row[:j+1] {
			e.m[j][k] += v
		}
	}
}

func (e *expansion) clear() {
	e.f = 0
	clear(e.g)
	for _, row := range e.m {
		clear(row)
	}
}

// moved returns the expansion of l around another middle.
func (l *list) moved(middle []float64) expansion {
	e := newExpansion(len(middle))
	e.f = l.f
	delta := make([]float64, len(middle))
	for j := range delta {
		delta[j] = middle[j] - l.middle[j]
	}
	for j, row := range l.m {
		sum := 0.0
		for k := range delta {
			v := row[min(k, len(row)-1)]
			if k > j {
				v = l.m[k][j]
			}
			sum += v * delta[k]
		}
		e.g[j] = l.g[j] - sum
		e.f += (l.g[j] - sum/2) * delta[j]
		copy(e.m[j], row)
	}
	return e
}

// geometry is a box as floating point sees it, and where to touch.
type geometry struct {
	middle, half, touch []float64
}

// envelope computes bounds on boxes.
type envelope struct {
	*score
	*lattice
	*view
}

// gather bounds the rows of a block on a box.
func (e *envelope) gather(s *sums, rows []int32, geo *geometry) {
	d := e.lattice.d
	middle, half, touch := geo.middle[:d], geo.half[:d], geo.touch[:d]
	tolerance := freezeLoss / (float64(e.target.n) * e.gain)
	psi := e.psi
	product, frozenProduct := 1.0, 1.0
	for _, i := range rows {
		row := e.view.row(i)
		a, v := row[0], row[1:1+d]
		r, rho := a, 2*plainNoise
		for j, x := range v {
			r -= x * middle[j]
			rho += math.Abs(x) * half[j]
		}
		u := math.Abs(r)
		low, high := u-rho, u+rho
		if low >= 1 {
			s.saturated++
			continue
		}
		if low <= 0 {
			s.plain = append(s.plain, i)
			e.kink(s, a, r, rho, v, half, touch)
			continue
		}
		if rho > smoothReach {
			s.plain = append(s.plain, i)
			e.cord(s, r, low, high, rho, v, half)
			continue
		}
		inside := min(u, 1)
		decay := psi.decay(inside)
		slope := math.Copysign((1-psi.power(inside))/decay, r)
		bend := psi.bend(low, high)
		if (bend-psi.straightest(low, high))*rho*rho < tolerance {
			frozenProduct *= decay
			s.frozen.m.addSquare(s.frozen.g, bend, -slope, v)
			continue
		}
		s.plain = append(s.plain, i)
		product *= decay
		s.live.m.addSquare(s.live.g, bend, -slope, v)
	}
	s.live.f -= math.Log(product)
	s.frozen.f -= math.Log(frozenProduct)
}

// kink bounds a row whose residual may vanish in the box by a line through the
// origin, on the side of the touching point.
func (e *envelope) kink(s *sums, a, r, rho float64, v, half, touch []float64) {
	at := a
	for j, x := range v {
		at -= x * touch[j]
	}
	var slope float64
	if at >= 0 {
		slope = e.psi.chord(r + rho)
	} else {
		slope = -e.psi.chord(rho - r)
	}
	if !(slope*r-math.Abs(slope)*rho >= -deepestSlope) {
		return // zero is a bound, too
	}
	s.live.f += slope * r
	loss := (e.psi.roughly(math.Abs(at)) - slope*at) / rho
	for j, x := range v {
		s.live.g[j] -= slope * x
		s.loss[j] += loss * math.Abs(x) * half[j]
	}
}

// cord bounds a row by the chord of psi between the ends of its range.
func (e *envelope) cord(s *sums, r, low, high, rho float64, v, half []float64) {
	start, end := e.psi.at(low), e.psi.at(high)
	slope := math.Copysign((end-start)/(2*rho), r)
	s.live.f += (start + end) / 2
	loss := (e.psi.roughly(math.Abs(r)) - (start+end)/2) / rho
	for j, x := range v {
		s.live.g[j] -= slope * x
		s.loss[j] += loss * math.Abs(x) * half[j]
	}
}

// straightest returns the least |psi”| on [low, high], roughly.
func (p *psi) straightest(low, high float64) float64 {
	if high >= 1 {
		return 0
	}
	if p.theta == 2 {
		return p.bend(low, low)
	}
	return p.bend(high, high)
}

// roughly returns psi(u), roughly.
func (p *psi) roughly(u float64) float64 {
	if u >= 1 {
		return p.top
	}
	return u * p.chords[int(u*chordNodes)+1]
}
