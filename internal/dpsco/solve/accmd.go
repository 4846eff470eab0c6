package solve

import (
	"context"

	"dpsidecar/internal/dpsco/prox"
)

// AccMD is accelerated mirror descent, in the form AC-SA: with r = 2/(k+2) at
// step k = 0, 1, ... the gradient is taken at x = (1-r) y + r z, the mirror moves
// z by (k+2)/2 Rate, and y becomes (1-r) y + r z. The answer is y.
//
// Mirror carries its own penalty and set, and psi is then read only by Descent;
// a nil Mirror is Euclidean with psi.
//
// With Descent > 0 it is the printed form: y becomes the proximal gradient step
// of that length from x, with psi, 1/L for smoothness L in the Euclidean norm.
//
// Source: Wang, Ye & Xu 2017, Algorithm 3; AC-SA: Lan 2012. Differs: the noisy
// gradient serves both steps, where the print takes the exact one for y and
// forgets the noise for z, and releases the data; the printed y-step in the norm
// of the set is taken in the Euclidean one, which is smaller, so that the proof
// by coupling (Allen-Zhu & Orecchia 2017) still holds.
type AccMD struct {
	Steps   int
	Rate    float64
	Mirror  prox.Mirror
	Descent float64
}

// Uses declares a query of all rows for every step.
func (s AccMD) Uses() []Use { return []Use{{Calls: s.Steps}} }

// Solve makes Steps steps. The start should lie in the set of the mirror.
func (s AccMD) Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error {
	mirror, euclidean := s.Mirror, prox.Euclidean{Operator: psi}
	if mirror == nil {
		mirror = euclidean
	}
	y, z := w, append([]float64(nil), w...)
	x, gradient := make([]float64, len(w)), make([]float64, len(w))
	for k := range s.Steps {
		r := 2 / float64(k+2)
		between(x, y, z, r)
		if err := ask(ctx, g, gradient, Query{W: x}); err != nil {
			return err
		}
		mirror.Step(z, gradient, s.Rate/r)
		if s.Descent > 0 {
			copy(y, x)
			euclidean.Step(y, gradient, s.Descent)
		} else {
			between(y, y, z, r)
		}
	}
	return nil
}

// between sets dst = (1-r) y + r z; dst may be y.
func between(dst, y, z []float64, r float64) {
	for j := range dst {
		dst[j] = (1-r)*y[j] + r*z[j]
	}
}
