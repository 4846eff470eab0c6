package objpert

import (
	"context"
	"math"
	"math/big"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// objective is J(w) = sum_i H_i(y_i - <x_i, w>) + ridge/2 ||w||^2 + <b, w>, a function of real numbers: the
// float64 x, y, smoothings, tilt and ridge are taken as exact, and b is the real vector that was drawn.
type objective struct {
	records
	plan
	tilt float64

	b      []*big.Float // b, with an error of at most bError in norm
	bError float64
	bNear  []float64 // b in float64
	bNorm  float64
}

func newObjective(t records, p Params, plan plan, noise radialNoise) *objective {
	o := &objective{records: t, plan: plan, tilt: p.Tilt, bError: plan.gap * plan.ridge / 8}
	o.b = noise.value(o.bError)
	o.bNear = toFloats(o.b)
	o.bNorm = norm(o.bNear)
	return o
}

// minimise always returns a point within gap of the minimiser of J: float64 iterations propose one, certify
// checks it, and refine uses as many bits as are needed.
//
// Errors: the context's only.
func (o *objective) minimise(ctx context.Context) ([]*big.Float, error) {
	w, certified, err := o.descend(ctx)
	if err != nil || certified {
		return exact(w), err
	}
	return o.refine(ctx, w)
}

// descend iterates in float64 until the point is certified or the passes are used up. It makes a Newton
// step if that halves the gradient, otherwise, and at first, a step on the quadratic that majorises J,
// which always lowers J. If only the bound of the rounding error prevents the certificate, the gradient is
// computed again more precisely.
func (o *objective) descend(ctx context.Context) (w []float64, certified bool, err error) {
	const far, patience = 4, 100
	p := o.at(make([]float64, len(o.x)), majorise)
	for pass := range patience {
		if o.certify(norm(p.g), o.nearError(p.w)) {
			return p.w, true, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if norm(p.g) <= o.gap*o.ridge {
			p.g = o.fineGradient(p.w)
			if o.certify(norm(p.g), o.fineError(p.w)) {
				return p.w, true, nil
			}
		}
		if pass >= far {
			if next := o.at(o.at(p.w, newton).next(), majorise); norm(next.g) <= norm(p.g)/2 {
				p = next
				continue
			}
		}
		p = o.at(p.next(), majorise)
	}
	return p.w, false, nil
}

// point is a point with the gradient of J, in compensated sums, and a matrix of curvature.
type point struct {
	w, g []float64
	h    *mat.SymDense
}

// next returns w - h^-1 g.
func (p point) next() []float64 {
	return floats.SubTo(make([]float64, len(p.w)), p.w, solve(p.h, p.g))
}

// curvature names a matrix sum_i k_i x_i x_i' + ridge, with q = sqrt(r^2 + smoothing^2).
type curvature int

const (
	newton   curvature = iota // k = smoothing^2 / q^3, the second derivative
	majorise                  // k = 1 / q: the quadratic with this curvature that touches J lies above J
)

const block = 256 // rows processed at a time, so that they stay in cache

func (o *objective) at(w []float64, kind curvature) point {
	d := len(w)
	high, low, h := make([]float64, d), make([]float64, d), mat.NewSymDense(d, nil)
	var pulls, curves, scaled [block]float64
	for first := 0; first < len(o.y); first += block {
		size := min(block, len(o.y)-first)
		pull, curve, xk := pulls[:size], curves[:size], scaled[:size]
		o.rows(w, first, kind, pull, curve)
		for j, column := range o.x {
			xj := column[first : first+size]
			high[j], low[j] = addProducts(high[j], low[j], xj, pull)
			floats.MulTo(xk, xj, curve)
			for k, other := range o.x[:j+1] {
				h.SetSym(k, j, h.At(k, j)+floats.Dot(other[first:first+size], xk))
			}
		}
	}
	for j := range high {
		h.SetSym(j, j, h.At(j, j)+o.ridge)
	}
	return point{w, o.gradient(w, high, low), h}
}

// gradient converts the sum high + low over the rows to the gradient of J.
func (o *objective) gradient(w, high, low []float64) []float64 {
	for j := range high {
		high[j] = ((o.ridge*w[j] + o.bNear[j]) - high[j]) - low[j]
	}
	return high
}

// fineGradient computes the gradient as at does, with residuals that are corrected for the rounding of
// their sums.
func (o *objective) fineGradient(w []float64) []float64 {
	high, low := make([]float64, len(w)), make([]float64, len(w))
	var residuals, errors [block]float64
	for first := 0; first < len(o.y); first += block {
		size := min(block, len(o.y)-first)
		r, e := residuals[:size], errors[:size]
		copy(r, o.y[first:])
		clear(e)
		for j, column := range o.x {
			subtractProducts(r, e, w[j], column[first:first+size])
		}
		for i := range r {
			v, m := r[i]+e[i], o.smoothing[first+i]
			r[i] = v/math.Sqrt(v*v+m*m) + o.tilt
		}
		for j, column := range o.x {
			high[j], low[j] = addProducts(high[j], low[j], column[first:first+size], r)
		}
	}
	return o.gradient(w, high, low)
}

// subtractProducts subtracts a x from the unevaluated sums r + e. Only the additions to e round.
//
// Source: Ogita, Rump & Oishi 2005, Algorithm 5.3.
func subtractProducts(r, e []float64, a float64, x []float64) {
	for i, v := range x {
		p := float64(-a * v) // the conversion forbids a fused multiply-add
		s := r[i] + p
		t := s - r[i]
		e[i] += ((r[i] - (s - t)) + (p - t)) + math.FMA(-a, v, -p)
		r[i] = s
	}
}

// rows sets pull to H'(r) and curve to the curvature's k, for the rows from first on.
func (o *objective) rows(w []float64, first int, kind curvature, pull, curve []float64) {
	r := pull
	copy(r, o.y[first:])
	for j, column := range o.x {
		floats.AddScaled(r, -w[j], column[first:first+len(r)])
	}
	for i, m := range o.smoothing[first : first+len(r)] {
		square := m * m
		q := math.Sqrt(r[i]*r[i] + square)
		curve[i] = 1 / q
		if kind == newton {
			curve[i] *= square / (q * q)
		}
		pull[i] = r[i]/q + o.tilt
	}
}

// addProducts adds sum_i x_i y_i to the unevaluated sum high + low. Only the
// products and the additions to low round: the rounding errors of high are exact.
//
// Source: Ogita, Rump & Oishi 2005, Algorithm 4.4.
func addProducts(high, low float64, x, y []float64) (float64, float64) {
	for i, v := range x {
		p := float64(v * y[i]) // the conversion forbids a fused multiply-add
		s := high + p
		t := s - high
		low += (high - (s - t)) + (p - t)
		high = s
	}
	return high, low
}

// solve returns h^-1 g; NaN if h is not positive definite in float64.
func solve(h mat.Symmetric, g []float64) []float64 {
	v := make([]float64, len(g))
	var factor mat.Cholesky
	if !factor.Factorize(h) {
		floats.AddConst(math.NaN(), v)
		return v
	}
	_ = factor.SolveVecTo(mat.NewVecDense(len(g), v), mat.NewVecDense(len(g), g)) // a bad condition is an error too, but v is computed
	return v
}

// norm returns the Euclidean norm; it is not finite if a coordinate is not finite.
func norm(v []float64) float64 { return floats.Norm(v, 2) }
