package expmech

import (
	"math"
	"math/rand/v2"
	"testing"
)

// fenceProblem returns a sampler and its plain rows: few, so that one wrong line
// shows in the sum, or some hundred.
func fenceProblem(rng *rand.Rand) (s *sampler, plain []int32) {
	d, n := 1+rng.IntN(3), [...]int{1, 2, 5, 1 + rng.IntN(300)}[rng.IntN(4)]
	x, y := make([][]float64, d), make([]float64, n)
	for j := range x {
		x[j] = make([]float64, n)
		for i := range n {
			x[j][i] = rng.NormFloat64()
			if rng.IntN(3) > 0 {
				x[j][i] = math.Exp(2 * rng.NormFloat64())
			}
		}
	}
	for i := range y {
		y[i] = 4
		if rng.IntN(4) > 0 {
			y[i] = 3 * rng.NormFloat64() / rng.NormFloat64()
		}
	}
	p := Params{
		Epsilon: math.Exp(2 * rng.NormFloat64()), Theta: [...]float64{2, 1.5, 1.05}[rng.IntN(3)],
		Iota: math.Exp(rng.NormFloat64() - 1), Radius: 10, Pitch: 0x1p-12,
	}
	s = newSampler(newTarget(p, n, d), x, y, never)
	for i, noise := range s.view.noise {
		if noise <= plainNoise {
			plain = append(plain, int32(i))
		}
	}
	return s, plain
}

// within returns a point of a cell, often on its border.
func within(rng *rand.Rand, c *cell) []float64 {
	z := make([]float64, len(c.places))
	for j, p := range c.places {
		side := 2*rng.Float64() - 1
		if rng.IntN(3) == 0 {
			side = float64(2*rng.IntN(2) - 1)
		}
		z[j] = p.middle + p.half*side
	}
	return z
}

// stretch returns a factor of at least 1: often 1, or what takes z to where the
// residual of a row vanishes.
func stretch(rng *rand.Rand, s *sampler, plain []int32, z []float64) float64 {
	switch rng.IntN(4) {
	case 0:
		return 1
	case 1:
		return 1 + math.Exp(4*rng.NormFloat64())
	}
	row := s.view.row(plain[rng.IntN(len(plain))])
	at := 0.0
	for j, v := range z {
		at += row[1+j] * v
	}
	return max(1, row[0]/at)
}

// The plane of a cell, however it was cut and mixed, is a lower bound of the sum of
// scores on the cell and at everything behind it as seen from 0.
func TestPlanesOfAFenceBoundWhatIsBeyond(t *testing.T) {
	const trials, cells, points = 300, 12, 100
	rng := rand.New(rand.NewPCG(21, 1))
	behind := func(s *sampler, plain []int32, z []float64, factor float64) (sum float64) {
		for _, i := range plain {
			row := s.view.row(i)
			r := row[0]
			for j, v := range z {
				r -= factor * row[1+j] * v
			}
			sum += s.psi.at(math.Abs(r))
		}
		return sum
	}
	for trial := range trials {
		s, plain := fenceProblem(rng)
		open := s.faces(math.Exp(3*rng.Float64() - 1))
		excess := 0.0
		for range cells {
			c := open[rng.IntN(len(open))]
			s.survey(c, &fencer{s.view, s.psi, plain})
			for range points {
				z := within(rng, c)
				bound := c.plane.f
				for j, v := range z {
					bound += c.plane.g[j] * (v - c.plane.middle[j])
				}
				excess = max(excess, bound-behind(s, plain, z, stretch(rng, s, plain, z)))
			}
			open = append(open, c.halves()...)
		}
		if excess > 1e-9*float64(len(plain)) {
			t.Errorf("trial %d: a plane is %g above the sum of %d rows", trial, excess, len(plain))
		}
	}
}
