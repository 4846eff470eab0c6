package expmech

import (
	"math"
	"math/rand/v2"
	"testing"
)

// cancelling returns a table of rows that are plain or imprecise, with residuals that
// vanish, nearly or but for rounding, somewhere on a grid of some hundred points.
func cancelling(rng *rand.Rand) (p Params, x [][]float64, y []float64) {
	reach := 2 + rng.IntN(8)
	p = Params{
		Epsilon: math.Exp(2 * rng.NormFloat64()), Theta: [...]float64{2, 1.5, 1.05}[rng.IntN(3)],
		Iota: 1, Pitch: 0.5 + rng.Float64(), Set: Set(rng.IntN(2)),
	}
	p.Radius = (float64(reach) + 0.01) * p.Pitch
	n := 1 + rng.IntN(20)
	x, y = [][]float64{make([]float64, n), make([]float64, n)}, make([]float64, n)
	slope := [...]float64{-1, 0, 1, rng.NormFloat64()}[rng.IntN(4)]
	for i := range y {
		x[0][i] = math.Exp2([...]float64{5 + 20*rng.Float64(), 25 + 6*rng.Float64(), 45 + 25*rng.Float64()}[rng.IntN(3)])
		x[1][i] = slope * x[0][i]
		if rng.IntN(2) == 0 {
			x[1][i] += 0.1 * rng.NormFloat64()
		}
		for _, column := range x {
			y[i] += column[i] * (p.Pitch * float64(rng.IntN(2*reach+1)-reach))
		}
		if rng.IntN(2) == 0 {
			y[i] += 0.01 * rng.Float64()
		}
	}
	return p, x, y
}

// On every box, the bound of one row is below the score that row has at every
// point, but for the slack of a row.
func TestBoundOfARowIsBelowItsScore(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	for trial := range 600 {
		p, x, y := cancelling(rng)
		s := smallSampler(t, p, x, y)
		cut(s, rng, rng.IntN(60))
		excess := 0.0
		for _, b := range s.boxes {
			if b.plane == nil {
				continue
			}
			var inside [][]int64
			for _, k := range grid(s.target) {
				if _, ok := indexOf(s, b, k); ok {
					inside = append(inside, k)
				}
			}
			for i := range s.y {
				bound := boundOf(s, b, int32(i))
				for _, k := range inside {
					u := make([]float64, 1)
					s.residuals(u, i, s.coefficients(k))
					excess = max(excess, bound(k)-float64(s.psi.quanta(u[0]))/scoreOne)
				}
			}
		}
		if excess > s.rowSlack() {
			t.Errorf("trial %d: the bound of a row is %g above its score", trial, excess)
		}
	}
}

// boundOf returns the lower bound of row i on box b as a function of the grid point.
func boundOf(s *sampler, b *box, i int32) func(k []int64) float64 {
	d := s.target.d
	by := &bounder{s.view, s.psi, s.locate(b), freezeLoss / (float64(s.target.n) * s.gain)}
	sum := newSums(d)
	if s.view.noise[i] <= plainNoise {
		by.gather(sum, nil, []int32{i})
	} else {
		by.imprecise(sum, i, s.noiseWithin(i, s.lattice.spread(s.target, b.low, b.size), make([]float64, d)))
	}
	sum.live.add(&sum.frozen)
	line := &list{middle: middles(by.places), expansion: sum.live}
	return func(k []int64) float64 {
		z := make([]float64, d)
		s.lattice.whitened(z, k)
		return sum.constant + line.moved(z).f
	}
}

// What rounding does to an imprecise row follows from how far the points of a box are from 0 and from the
// centre: spread says no less, whatever the box.
func TestSpreadHoldsTheBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	points := 0
	for trial := range 200 {
		p, x, y := cancelling(rng)
		s := smallSampler(t, p, x, y)
		cut(s, rng, rng.IntN(60))
		centre := make([]int64, s.target.d)
		s.lattice.point(centre, s.lattice.origin, make([]int64, s.target.d))
		for _, b := range s.boxes {
			at := s.lattice.spread(s.target, b.low, b.size)
			for _, k := range grid(s.target) {
				if _, ok := indexOf(s, b, k); !ok {
					continue
				}
				points++
				w := s.coefficients(k)
				for j, row := range s.lattice.shear {
					terms := 0.0
					for m, v := range row {
						terms += math.Abs(float64(v)*float64(k[m]-centre[m])) * s.lattice.scale[j]
					}
					if math.Abs(w[j]) > at.w[j] || math.Abs(s.coefficients(centre)[j]) > at.w[j] || terms > at.z[j] {
						t.Fatalf("trial %d: coordinate %d of %v: %g and %g, and its box has %+v", trial, j, k, w[j], terms, at)
					}
				}
			}
		}
	}
	if points < 8000 {
		t.Errorf("%d points: the test says little", points)
	}
}
