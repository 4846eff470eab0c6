package expmech

import "math"

const (
	// plainNoise bounds the rounding error of a plain row: at every grid point of W its scaled residual, as
	// the score computes it, is within plainNoise of |a - V z|. Rows with a larger bound are imprecise.
	plainNoise = 0x1p-32
)

// view is the table in the axes of a lattice: |a_i - V_i z| is the scaled residual of row i at z, up to
// rounding.
type view struct {
	d     int
	v     []float64 // a_i, V_i1, ..., V_id for every row
	noise []float64 // bound of the rounding error of every row; NaN if there is none
}

// row returns a_i, V_i.
func (v *view) row(i int32) []float64 {
	stride := v.d + 1
	return v.v[int(i)*stride : (int(i)+1)*stride : (int(i)+1)*stride]
}

// newView solves V_i P = iota pitch x_i for every row, where P maps k to z, and divides the rows into plain
// and imprecise ones.
func newView(s *score, g *lattice, centre []int64) (v *view, plain, imprecise []int32) {
	v = &view{d: s.d, v: make([]float64, s.rows*(s.d+1)), noise: make([]float64, s.rows)}
	origin := s.coefficients(centre)
	p := newMatrix(s.d)
	for j := range p {
		for m := j; m < s.d; m++ {
			p[j][m] = g.scale[j] * float64(g.shear[j][m])
		}
	}
	s.workers.share(s.rows, blockRows, func(_, from, to int) {
		raw := make([]float64, s.d+1)
		for i := from; i < to; i++ {
			s.row(raw[:s.d], i)
			raw[s.d] = s.y[i]
			v.noise[i] = v.rotate(v.row(int32(i)), raw, origin, p, g, s.target)
		}
	})
	for i, noise := range v.noise {
		if noise <= plainNoise {
			plain = append(plain, int32(i))
		} else {
			imprecise = append(imprecise, int32(i))
		}
	}
	return v, plain, imprecise
}

// rotate writes a, V of the raw row (x, y) to out and returns the bound of its rounding error: the backward
// error of a triangular solve and of the residuals, see expmech.md, section 4.
func (v *view) rotate(out, raw, origin []float64, p matrix, g *lattice, t *target) float64 {
	r, reach := raw[t.d], 0.0
	for j, x := range raw[:t.d] {
		r -= x * origin[j]
		coefficient := t.Iota * t.Pitch * x
		for i := range j {
			coefficient -= out[1+i] * p[i][j]
		}
		out[1+j] = coefficient / p[j][j]
		reach += math.Abs(out[1+j]) * g.extent[j]
	}
	out[0] = t.Iota * r
	return 0x1p-48 * float64(t.d+4) * (t.Iota*t.size(raw) + reach)
}
