package mean

import "math"

// minBeta and maxBeta bound the smoothing for which the table is accurate.
const (
	minBeta = 0x1p-4
	maxBeta = 0x1p7
)

// phiLimit is sup phi = 2 sqrt(2) / 3.
const phiLimit = 2 * math.Sqrt2 / 3

// phi is Catoni's influence function: u - u^3/6 between -sqrt(2) and sqrt(2),
// constant outside. NaN becomes NaN.
func phi(u float64) float64 {
	u = max(-math.Sqrt2, min(u, math.Sqrt2))
	return u - float64(u*u)*u/6
}

// influenceLimit is the supremum of |h|, to which h tends.
func influenceLimit(beta float64) float64 { return phiLimit * math.Erf(math.Sqrt(beta/2)) }

// influence is a function h. apply writes h(x_i c_i scale) to dst, and 0, up to
// rounding, where the argument is NaN.
type influence interface {
	apply(dst, x, c []float64, scale float64)
}

// newInfluence returns h(a) = E phi(a (1 + xi / sqrt(beta))), xi standard normal,
// with an error below 1e-10.
func newInfluence(beta float64) influence {
	if math.IsInf(beta, 1) {
		return unsmoothed{}
	}
	return newInfluenceTable(beta)
}

// unsmoothed is h for beta = +Inf: phi itself.
type unsmoothed struct{}

func (unsmoothed) apply(dst, x, c []float64, scale float64) {
	x, c = x[:len(dst)], c[:len(dst)]
	for i := range dst {
		v := phi(x[i] * (c[i] * scale))
		if v != v {
			v = 0
		}
		dst[i] = v
	}
}

// cells is the number of polynomial pieces of an influenceTable.
const cells = 256

// influenceTable holds the odd function h, for a >= 0, as a polynomial of degree 5 in
// t = 1 - 1/(1 + a) for each of the equal cells of [0, 1]. As h(a) is analytic in
// 1/a, it is smooth in t up to t = 1. Each polynomial interpolates h at the ends of
// its cell and at four points between.
type influenceTable [cells][6]float64

func newInfluenceTable(beta float64) *influenceTable {
	h := new(influenceTable)
	for k := range h {
		var value [6]float64
		for i, u := range lobatto {
			t := (float64(k) + .5 + u) / cells
			value[i] = smoothedPhi(t/(1-t), beta)
		}
		h[k] = interpolate(value)
	}
	return h
}

// apply implements influence, for every float64: NaN becomes h(0), an infinity
// the limit.
func (h *influenceTable) apply(dst, x, c []float64, scale float64) {
	x, c = x[:len(dst)], c[:len(dst)]
	for i := range dst {
		a := x[i] * (c[i] * scale)
		t := cells - cells/(1+math.Abs(a))
		if !(t >= 0) {
			t, a = 0, 0
		}
		k := min(uint(t), cells-1)
		u, p := t-(float64(k)+.5), &h[k]
		square := u * u
		v := p[0] + u*p[1] + square*(p[2]+u*p[3]+square*(p[4]+u*p[5]))
		dst[i] = math.Copysign(v, a)
	}
}

// lobatto are the extremes of the Chebyshev polynomial of degree 5, on [-1/2, 1/2].
var lobatto = [6]float64{-.5, -0.40450849718747373, -0.15450849718747373, 0.15450849718747373, 0.40450849718747373, .5}

// interpolate returns the coefficients of the polynomial with these values at
// the points of lobatto: Newton's divided differences, then expanded.
func interpolate(value [6]float64) (p [6]float64) {
	for order := 1; order < 6; order++ {
		for i := 5; i >= order; i-- {
			value[i] = (value[i] - value[i-1]) / (lobatto[i] - lobatto[i-order])
		}
	}
	for i := 5; i >= 0; i-- { // p = value[i] + (u - lobatto[i]) p
		for j := 5; j > 0; j-- {
			p[j] = p[j-1] - lobatto[i]*p[j]
		}
		p[0] = value[i] - lobatto[i]*p[0]
	}
	return p
}

// smoothedPhi computes h(a), a in [0, +Inf], without cancellation. With
// y = a + a xi / sqrt(beta), the expectation is taken by the error function where
// phi(y) is constant, and by quadrature of phi between.
func smoothedPhi(a, beta float64) float64 {
	root, edge := math.Sqrt(beta), math.Sqrt2/a // phi(y) is constant where |y/a| > edge
	if a == 0 {
		return 0
	}
	low, high := root*(-edge-1), root*(edge-1) // of xi
	constant := phiLimit * (math.Erfc(high/math.Sqrt2) - math.Erfc(-low/math.Sqrt2)) / 2
	low, high = max(low, -normalCutoff), min(high, normalCutoff)
	if !(low < high) {
		return constant
	}
	panels := math.Ceil(2 * (high - low))
	width := (high - low) / panels
	sum := 0.0
	for k := range int(panels) {
		middle := low + (float64(k)+.5)*width
		for i, node := range gaussNode {
			xi := middle + node*width/2
			sum += gaussWeight[i] * phi(a+a*xi/root) * math.Exp(-xi*xi/2)
		}
	}
	return constant + sum*width/2/math.Sqrt(2*math.Pi)
}

// normalCutoff is where the quadrature ends: beyond, the normal law has probability
// below 1e-18.
const normalCutoff = 9

// Gauss and Legendre's rule with 5 points on [-1, 1].
var (
	gaussNode   = [5]float64{-0.9061798459386640, -0.5384693101056831, 0, 0.5384693101056831, 0.9061798459386640}
	gaussWeight = [5]float64{0.2369268850561891, 0.4786286704993665, 0.5688888888888889, 0.4786286704993665, 0.2369268850561891}
)
