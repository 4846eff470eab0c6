package expmech

import "math"

// An imprecise row has more rounding error somewhere in W than plain rows may have. In a box where a
// coefficient is near 0, even a huge value of its feature causes little rounding error.

// usableNoise bounds the doubled rounding error: an imprecise row with more is bounded by 0.
const usableNoise = 0x1p-9

// spread bounds the distances of the grid points of a box from 0 and from the centre of the lattice, the
// origin of view.
type spread struct {
	w []float64 // largest |w_j|, including that of the centre
	z []float64 // upper bound of scale_j * sum_m |shear_jm| |k_m - centre_m|
}

func (g *lattice) spread(t *target, low, size []int64) spread {
	least, most := make([]float64, g.d), make([]float64, g.d) // of k
	centre := make([]int64, g.d)
	g.point(centre, g.origin, make([]int64, g.d))
	s := spread{make([]float64, g.d), make([]float64, g.d)}
	for j := g.d - 1; j >= 0; j-- {
		from, to := float64(low[j]), float64(low[j])+float64(size[j])*(1<<shearBits)
		for m := j + 1; m < g.d; m++ {
			a, b := float64(g.shear[j][m])*least[m], float64(g.shear[j][m])*most[m]
			from -= max(a, b)
			to -= min(a, b)
		}
		reach := float64(t.reach)
		least[j] = max(-reach, math.Floor(from/(1<<shearBits)*(1-math.Copysign(0x1p-40, from))))
		most[j] = min(reach, math.Ceil(to/(1<<shearBits)*(1+math.Copysign(0x1p-40, to))))
		at := float64(centre[j])
		s.w[j] = t.Pitch * max(math.Abs(least[j]), math.Abs(most[j]), math.Abs(at))
		most[j], least[j] = max(most[j], at), min(least[j], at)
	}
	for j, row := range g.shear {
		for m := j; m < g.d; m++ {
			s.z[j] += math.Abs(float64(row[m])) * (most[m] - least[m])
		}
		s.z[j] *= g.scale[j] * (1 + 0x1p-40)
	}
	return s
}

// noiseWithin bounds the rounding error of the scaled residual of row i at the grid points of one box, as
// view.rotate does for all of W; raw is scratch space.
func (e *envelope) noiseWithin(i int32, at spread, raw []float64) float64 {
	e.table.row(raw, int(i))
	size, reach := math.Abs(e.y[i]), 0.0
	for j, x := range raw {
		size += math.Abs(x) * at.w[j]
		reach += math.Abs(e.view.row(i)[1+j]) * at.z[j]
	}
	return 0x1p-48 * float64(e.target.d+4) * (e.Iota*size + reach)
}

// imprecise adds the bound of an imprecise row whose residual is known up to noise. A line below psi at the
// view's residual may lie above psi at the residual that the score computes. psi has slope at most 1, so
// subtracting the noise from the line corrects that.
func (b *bounder) imprecise(s *sums, i int32, noise float64) {
	row := b.view.row(i)
	noise = 2 * max(noise, plainNoise)
	r, at, rho := row[0], row[0], noise
	v := row[1 : 1+len(b.places)]
	for j, x := range v {
		p := &b.places[j]
		r -= x * p.middle
		at -= x * p.touch
		rho += math.Abs(x) * p.half
	}
	rho *= 1 + 0x1p-44 // r is rounded too
	switch u := math.Abs(r); {
	case u-rho >= 1:
		s.constant += b.psi.top
		return
	case !(noise <= usableNoise): // zero is a bound
	case u-rho <= 0:
		s.live.f -= noise
		b.kink(s, true, r, at, rho, v)
	default:
		s.live.f -= noise
		b.chord(s, true, r, rho, v)
	}
	s.imprecise = append(s.imprecise, i)
}
