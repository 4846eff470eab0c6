package objpert

import (
	"context"
	"math"
	"math/big"
)

// certify is the postcondition of the solvers. It reports whether the norm of the computed gradient of J at
// a point, plus the bounds of its errors, is small enough to prove that the point is within gap of the
// minimiser, as J is ridge-strongly convex. The factor covers the rounding of norms.
func (o *objective) certify(gradient, err float64) bool {
	return (gradient+err+o.bError)*(1+0x1p-20) <= o.gap*o.ridge
}

// gradientError bounds ||computed gradient - gradient of J|| for b = o.b at a point of norm w. Operations
// have a relative rounding error of at most unit, and sums of n terms an error of at most sum relative to
// the sum of the absolute values (objpert.md, Lemma 3). The last term covers all underflow.
func (o *objective) gradientError(w, unit, sum float64) float64 {
	n, d, c := float64(len(o.y)), float64(len(o.x)), o.clip
	return o.sumError(n*unit*(d+4)*(4*c+3*o.curviest*w), w, unit, sum)
}

// sumError adds to the errors of the rows' vectors those of their sum, of ridge, of b and of underflow.
func (o *objective) sumError(rows, w, unit, sum float64) float64 {
	n, d, c := float64(len(o.y)), float64(len(o.x)), o.clip*steepest(o.tilt)
	rest := sum*n*c + 6*unit*(n*c+o.bNorm+o.ridge*w)
	return (rows+rest)*(1+0x1p-20) + n*d*0x1p-500
}

// nearError is gradientError for point.g: float64 and compensated sums.
func (o *objective) nearError(w []float64) float64 {
	const unit = 0x1p-53
	n := float64(len(o.y))
	return o.gradientError(norm(w), unit, 2*n*n*unit*unit)
}

// fineError is gradientError for fineGradient, where a residual has an error of one rounding and a term of
// the order of unit squared.
func (o *objective) fineError(w []float64) float64 {
	const unit = 0x1p-53
	n, d, c := float64(len(o.y)), float64(len(o.x)), o.clip
	fine := (d + 2) * unit * (d + 2) * unit
	return o.sumError(n*(10*unit*c*steepest(o.tilt)+6*fine*o.curviest*norm(w)), norm(w), unit, 2*n*n*unit*unit)
}

// refine continues from start with gradients in as much precision as is needed. It makes a Newton step if
// the gradient has halved, otherwise a majorising step, and after many passes a gradient step of the length
// that always contracts: it terminates for every input (objpert.md, Lemma 4), in practice after one or two
// Newton steps.
func (o *objective) refine(ctx context.Context, start []float64) ([]*big.Float, error) {
	const patience = 1000
	if !finite(start) {
		clear(start)
	}
	w, best := exact(start), math.Inf(1)
	for pass := 0; ; pass++ {
		near := toFloats(w)
		bits, lost := o.precision(norm(near))
		g, err := o.farGradient(ctx, w, bits)
		if err != nil {
			return nil, err
		}
		size := norm(toFloats(g))
		if o.certify(size, lost) {
			return w, nil
		}
		var move []float64
		switch {
		case size <= best/2:
			best = size
			move = solve(o.at(near, newton).h, toFloats(g))
		case pass < patience:
			move = solve(o.at(near, majorise).h, toFloats(g))
		}
		if move == nil || !finite(move) {
			move = o.contraction(toFloats(g))
		}
		for j := range w {
			w[j] = new(big.Float).SetPrec(bits).Sub(w[j], big.NewFloat(move[j]))
		}
	}
}

func finite(v []float64) bool {
	size := norm(v)
	return !math.IsNaN(size) && !math.IsInf(size, 0)
}

// precision returns a number of bits for which the gradient at a point of norm w is so exact that gradient
// steps alone would satisfy certify, and gradientError for that precision.
func (o *objective) precision(w float64) (bits uint, lost float64) {
	enough := o.gap * o.ridge / 8 * o.ridge / (o.ridge + o.smoothness())
	for bits = 128; ; bits += 64 {
		unit := math.Ldexp(1, -int(bits))
		if lost = o.gradientError(w, unit, float64(len(o.y))*unit); lost <= enough {
			return bits, lost
		}
	}
}

// smoothness bounds the second derivative of the sum over the rows.
func (o *objective) smoothness() float64 {
	return float64(len(o.y)) * o.curviest
}

// contraction returns the gradient step that brings every point closer to the minimiser.
func (o *objective) contraction(g []float64) []float64 {
	move := make([]float64, len(g))
	for j := range g {
		move[j] = g[j] / (o.ridge + o.smoothness())
	}
	return move
}

// farGradient computes the gradient of J at w in the given precision.
func (o *objective) farGradient(ctx context.Context, w []*big.Float, bits uint) ([]*big.Float, error) {
	float := func() *big.Float { return new(big.Float).SetPrec(bits) }
	g := make([]*big.Float, len(w))
	for j := range w {
		g[j] = float().Mul(w[j], big.NewFloat(o.ridge))
		g[j].Add(g[j], o.b[j])
	}
	tilt := float().SetFloat64(o.tilt)
	r, q, p, square, v := float(), float(), float(), float(), new(big.Float)
	for i := range o.y {
		if i%block == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.SetFloat64(o.y[i])
		for j, column := range o.x {
			r.Sub(r, p.Mul(w[j], v.SetFloat64(column[i])))
		}
		v.SetFloat64(o.smoothing[i])
		q.Sqrt(q.Add(q.Mul(r, r), square.Mul(v, v)))
		r.Add(r.Quo(r, q), tilt)
		for j, column := range o.x {
			g[j].Sub(g[j], p.Mul(r, v.SetFloat64(column[i])))
		}
	}
	return g, nil
}

// onGrid returns (w / pitch cut to an integer, plus noise) times pitch. pitch is a power of two, so the cut
// is exact.
func onGrid(w *big.Float, pitch float64, noise *big.Int) float64 {
	_, exponent := math.Frexp(pitch)
	steps, _ := new(big.Float).SetMantExp(w, 1-exponent).Int(nil)
	released, _ := new(big.Float).SetInt(steps.Add(steps, noise)).Float64()
	return math.Ldexp(released, exponent-1)
}

func exact(v []float64) []*big.Float {
	e := make([]*big.Float, len(v))
	for j := range v {
		e[j] = big.NewFloat(v[j])
	}
	return e
}

func toFloats(v []*big.Float) []float64 {
	f := make([]float64, len(v))
	for j := range v {
		f[j], _ = v[j].Float64()
	}
	return f
}
