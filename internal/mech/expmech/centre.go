package expmech

import (
	"math"
	"slices"
)

// All results of this file are estimates that make the envelope tight near the mode of the target. Only the
// running time depends on them.

const (
	roughRows    = 1 << 13 // most rows that the first fits use
	roughRounds  = 30
	middleRows   = 1 << 15
	middleRounds = 8
	finalRows    = 1 << 17
	finalRounds  = 2
	sampleReach  = 1e5 // rows with larger scaled residuals are left out
)

// centre returns an estimate of the mode of the target, as a grid point of W, and the lower Cholesky factor
// of the target's precision there.
func centre(s *score) (k []int64, l matrix) {
	w := make([]float64, s.d)
	some := s.sample(roughRows)
	for round := range roughRounds {
		some.absolute(w, math.Ldexp(1/s.Iota, -round/2))
		s.project(w)
	}
	h := some.prior()
	for _, stage := range [...]struct{ rows, rounds int }{{middleRows, middleRounds}, {finalRows, finalRounds}} {
		if some.weight > 1 {
			some = s.sample(stage.rows)
		}
		for range stage.rounds {
			some.newton(w, h)
			s.project(w)
		}
	}
	return s.nearest(w), h.cholesky()
}

// project pulls w into W.
func (t *target) project(w []float64) {
	norm := 0.0
	for j, v := range w {
		if t.Set == Box {
			w[j] = max(-t.Radius, min(t.Radius, v))
		}
		norm += v * v
	}
	if norm = math.Sqrt(norm); t.Set == Ball && norm > t.Radius {
		for j := range w {
			w[j] *= t.Radius / norm
		}
	}
}

// nearest returns the grid point of W next to w, towards zero.
func (t *target) nearest(w []float64) []int64 {
	k := make([]int64, len(w))
	for j, v := range w {
		if k[j] = int64(v / t.Pitch); !(math.Abs(v) <= t.Radius) {
			k[j] = 0
		}
	}
	if !t.contains(k) {
		clear(k)
	}
	return k
}

// sample is a subset of a table's rows, without rare rows; each row holds its d features and the target.
type sample struct {
	*score
	v      []float64
	weight float64 // number of table rows for each row of the sample
}

func (s *score) sample(limit int) *sample {
	out := &sample{score: s}
	stride := max(1, (s.rows+limit-1)/limit)
	row := make([]float64, s.d+1)
	for i := 0; i < s.rows; i += stride {
		s.row(row[:s.d], i)
		row[s.d] = s.y[i]
		if s.Iota*s.size(row) < sampleReach {
			out.v = append(out.v, row...)
		}
	}
	out.weight = float64(stride)
	out.dropRare()
	return out
}

const (
	rareMass  = 2.0  // logarithm of the largest factor by which rare rows may change the density
	rareRatio = 64.0 // ratio of their leverage to that of every other row
)

// dropRare removes the few rows whose leverage is far above that of all others. They change the density by
// a bounded factor only, but their residuals would determine the axes: the lattice would then be much too
// fine, along their features, for all other rows.
func (s *sample) dropRare() {
	few := 1 + int(min(rareMass/(s.gain*s.psi.top*s.weight), float64(s.count()/16)))
	leverage := s.leverages()
	sorted := slices.Sorted(slices.Values(leverage))
	if few >= len(sorted) {
		return
	}
	limit, stride, kept := rareRatio*sorted[len(sorted)-1-few], s.d+1, s.v[:0]
	for i, at := range leverage {
		if at <= limit {
			kept = append(kept, s.v[i*stride:(i+1)*stride]...)
		}
	}
	s.v = kept
}

// leverages returns x' h^-1 x for every row, where h is the sum of x x' over all other rows.
func (s *sample) leverages() []float64 {
	h, gradient := newMatrix(s.d), make([]float64, s.d)
	s.each(0, s.count(), gradient, func(x []float64, _ float64) { h.addSquare(gradient, 1, 0, x) })
	for j := range h {
		h[j][j] += s.flat()
	}
	l, scratch := h.cholesky(), make([]float64, s.d)
	var out []float64
	s.each(0, s.count(), scratch, func(x []float64, _ float64) {
		square := l.spread(scratch, x)
		square *= square
		out = append(out, square/max(1-square, 0))
	})
	return out
}

// size bounds |y - <x, w>| over W for a row (x, y).
func (t *target) size(row []float64) float64 {
	size := math.Abs(row[t.d])
	for _, v := range row[:t.d] {
		size += math.Abs(v) * t.Pitch * float64(t.reach+1)
	}
	return size
}

// each calls visit with x and the residual of every row of the sample in [from, to).
func (s *sample) each(from, to int, w []float64, visit func(x []float64, r float64)) {
	stride := s.d + 1
	for i := from; i < to; i++ {
		row := s.v[i*stride : (i+1)*stride]
		r := row[s.d]
		for j, v := range row[:s.d] {
			r -= v * w[j]
		}
		visit(row[:s.d], r)
	}
}

func (s *sample) count() int { return len(s.v) / (s.d + 1) }

// absolute makes one step of iteratively reweighted least squares towards the least absolute deviations.
// Residuals below floor count as floor.
func (s *sample) absolute(w []float64, floor float64) {
	h, gradient := newMatrix(s.d), make([]float64, s.d)
	s.each(0, s.count(), w, func(x []float64, r float64) {
		h.addSquare(gradient, 1/max(math.Abs(r), floor), r/max(math.Abs(r), floor), x)
	})
	for j := range h {
		h[j][j] += 1e-9*h[j][j] + s.flat()
	}
	h.cholesky().step(w, gradient, math.Inf(1))
}

// flat returns the precision along an axis of the uniform law on W.
func (t *target) flat() float64 {
	if t.Set == Box {
		return 3 / (t.Radius * t.Radius)
	}
	return float64(t.d+2) / (t.Radius * t.Radius)
}

// prior returns an initial precision, by columns.
func (s *sample) prior() matrix {
	h, gradient := newMatrix(s.d), make([]float64, s.d)
	s.each(0, s.count(), gradient, func(x []float64, _ float64) {
		h.addSquare(gradient, 0.3*s.gain*s.Iota*s.weight, 0, x)
	})
	for j := range h {
		for k := range h[:j] {
			h[j][k] = 0
		}
		h[j][j] += 1 / (s.Radius * s.Radius)
	}
	return h
}

// newton makes one step towards the mode of the target smoothed by the posterior with precision h, and
// moves h halfway to the posterior's precision there.
//
// Smoothing turns the kink at a residual of 0 into a normal density of standard deviation sigma_i,
// sigma_i^2 = x_i' h^-1 x_i.
func (s *sample) newton(w []float64, h matrix) {
	type sums struct {
		kink, bend matrix
		gradient   []float64
	}
	l := h.cholesky()
	parts := make([]sums, s.workers)
	s.workers.share(s.count(), blockRows, func(worker, from, to int) {
		p := sums{newMatrix(s.d), newMatrix(s.d), make([]float64, s.d)}
		scratch := make([]float64, s.d)
		s.each(from, to, w, func(x []float64, r float64) {
			sigma := l.spread(scratch, x)
			if sigma == 0 {
				return
			}
			q, u := r/sigma, s.Iota*math.Abs(r)
			slope := s.gain * s.Iota * s.psi.slope(u)
			p.kink.addSquare(p.gradient, 2*s.gain*s.Iota*math.Exp(-q*q/2)/(sigma*math.Sqrt(2*math.Pi)), slope*math.Erf(q/math.Sqrt2), x)
			if u > 0 && u < 1 {
				p.bend.addSquare(scratch, s.gain*s.Iota*s.Iota*s.psi.bend(u, u), 0, x)
			}
		})
		parts[worker] = p
	})
	next, bend, gradient := newMatrix(s.d), newMatrix(s.d), make([]float64, s.d)
	for _, p := range parts {
		if p.kink != nil {
			next.add(p.kink, s.weight)
			bend.add(p.bend, -s.weight)
			for j, v := range p.gradient {
				gradient[j] += v * s.weight
			}
		}
	}
	for j := range next {
		next[j][j] += 0.05*next[j][j] + s.flat()
	}
	concave := next.clone()
	concave.add(bend, 1)
	if concave.definite() {
		next = concave
	}
	for j := range h {
		for k := range h[j] {
			h[j][k] = (h[j][k] + next[j][k]) / 2
		}
	}
	h.cholesky().step(w, gradient, 2*math.Sqrt(float64(s.d)))
}
