package solve

import (
	"context"

	"dpsidecar/internal/dpsco/prox"
)

// AccMD is accelerated mirror descent in the Euclidean norm, in the form AC-SA: with
// r = 2/(k+2) at step k = 0, 1, ... the gradient is taken at x = (1-r) y + r z, a
// proximal step of length Rate/r moves z, and y becomes (1-r) y + r z. The answer is
// y.
// Source: Wang, Ye & Xu 2017, Algorithm 3; AC-SA: Lan 2012. Differs: the mirror map is half the
// squared Euclidean norm; y is an average, as in AC-SA, whereas the paper computes y by a step with
// the exact gradient and so releases the data.
type AccMD struct {
	Steps int
	Rate  float64
}

// Uses declares a query of all rows for every step.
func (s AccMD) Uses() []Use { return []Use{{Calls: s.Steps}} }

// Solve makes Steps steps. The start should lie in the domain of psi.
func (s AccMD) Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error {
	y, z := w, append([]float64(nil), w...)
	x, gradient := make([]float64, len(w)), make([]float64, len(w))
	for k := range s.Steps {
		r := 2 / float64(k+2)
		combine(x, y, z, r)
		if err := ask(ctx, g, gradient, Query{W: x}); err != nil {
			return err
		}
		prox.GradientStep(psi, z, gradient, s.Rate/r)
		combine(y, y, z, r)
	}
	return nil
}

// combine sets dst = (1-r) y + r z; dst may be y.
func combine(dst, y, z []float64, r float64) {
	for j := range dst {
		dst[j] = (1-r)*y[j] + r*z[j]
	}
}
