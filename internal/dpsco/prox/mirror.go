package prox

import (
	"math"
	"slices"
)

// PNorm is the mirror map of the l1 ball: D comes from h(u) = c |u|_q^2 / 2 with
// q = 1 + 1/ln d and is at least half the squared l1 distance. psi is Lambda
// |u|_1 on the ball |u|_1 <= Radius; Radius may be +Inf.
//
// Source: Wang, Ye & Xu 2017, on DP-AccMD. Differs: c is d^(2-2/q) / (q-1), which
// suffices, instead of e^2 / (q-1); distances are not divided by the radius;
// q = 2 for d < 3, where ln d < 1.
type PNorm struct{ Lambda, Radius float64 }

// constants returns q and c.
func (PNorm) constants(d int) (q, c float64) {
	q = 1 + 1/max(1, math.Log(float64(d)))
	return q, math.Pow(float64(d), 2-2/q) / (q - 1)
}

// Reach bounds D(u, 0) on the ball in R^d.
func (m PNorm) Reach(d int) float64 {
	_, c := m.constants(d)
	return c * m.Radius * m.Radius / 2
}

// Step moves by -eta g where h is a gradient, and thresholds there.
func (m PNorm) Step(z, g []float64, eta float64) {
	same(z, g)
	q, c := m.constants(len(z))
	theta := slices.Clone(z)
	scale(theta, c)
	pNormGradient(theta, q)
	for j := range theta {
		theta[j] -= eta * g[j]
	}
	thresholdDual(z, theta, eta*m.Lambda, m.Radius, func(u []float64) {
		pNormGradient(u, q/(q-1))
		scale(u, 1/c)
	})
}

// pNormGradient replaces v by the gradient of |v|_p^2 / 2: |v_j|^(p-1) with the
// sign of v_j, times |v|_p^(2-p). With 1/p + 1/q = 1 that for q inverts it.
func pNormGradient(v []float64, p float64) {
	largest := normInf(v)
	if largest == 0 {
		return
	}
	sum := 0.0
	for j, x := range v {
		x = math.Abs(x) / largest
		power := math.Pow(x, p-1)
		sum += x * power
		v[j] = math.Copysign(power, v[j])
	}
	scale(v, largest*math.Pow(sum, (2-p)/p))
}

// Hypentropy is an entropy-like mirror map of the l1 ball: h(u) = 2 R times the
// sum of u_j arsinh(u_j/b) - sqrt(u_j^2 + b^2), with R = Radius, finite, and b =
// R/d. D is at least half the squared l1 distance on the ball. psi is Lambda
// |u|_1 on the ball.
//
// Source: Ghai, Hazan & Singer 2020, "Exponentiated gradient meets gradient
// descent". The second derivative of h along v is 2 R times the sum of v_j^2 /
// sqrt(u_j^2 + b^2), by Cauchy-Schwarz at least 2 R |v|_1^2 / (|u|_1 + b d) >=
// |v|_1^2.
type Hypentropy struct{ Lambda, Radius float64 }

// Reach bounds D(u, 0) on the ball in R^d: it is largest at a vertex.
func (m Hypentropy) Reach(d int) float64 {
	b := 1 / float64(d)
	return 2 * m.Radius * m.Radius * (math.Asinh(1/b) - math.Sqrt(1+b*b) + b)
}

// Step moves by -eta g where h is a gradient, and thresholds there.
func (m Hypentropy) Step(z, g []float64, eta float64) {
	same(z, g)
	b, factor := m.Radius/float64(len(z)), 2*m.Radius
	theta := make([]float64, len(z))
	for j, v := range z {
		theta[j] = math.Asinh(v/b) - eta/factor*g[j]
	}
	thresholdDual(z, theta, eta/factor*m.Lambda, m.Radius, func(u []float64) {
		for j, v := range u {
			u[j] = b * math.Sinh(v)
		}
	})
}

// thresholdDual sets u to primal(soft(theta, t)) with the smallest t >= least at
// which |u|_1 <= radius, found by bisection to the last bit. primal is odd and
// increasing in every coordinate, the inverse of a gradient of h: t is least
// plus the multiplier of the ball, and the sum of h(u) - <theta,u> + t |u|_1 is
// at its minimum.
func thresholdDual(u, theta []float64, least, radius float64, primal func(u []float64)) {
	at := func(t float64) float64 {
		for j, v := range theta {
			u[j] = soft(v, t)
		}
		primal(u)
		return norm1(u)
	}
	if at(least) <= radius {
		return
	}
	low, high := least, normInf(theta)
	for {
		middle := low + (high-low)/2
		if !(low < middle && middle < high) {
			break
		}
		if at(middle) > radius {
			low = middle
		} else {
			high = middle
		}
	}
	at(high)
}

// Entropy is the mirror map of the simplex of sum Radius: D is Radius times the
// relative entropy, at least half the squared l1 distance; psi is the set's
// indicator. The zero vector stands for the centre, from which one starts; a
// coordinate that is 0 beside others that are not stays 0.
//
// Source: Kivinen & Warmuth 1997, exponentiated gradient; Beck & Teboulle 2003.
type Entropy struct{ Radius float64 }

// Reach bounds D from the centre in R^d.
func (m Entropy) Reach(d int) float64 { return m.Radius * m.Radius * math.Log(float64(d)) }

// Step multiplies by exp(-eta g / Radius) and normalises.
func (m Entropy) Step(z, g []float64, eta float64) {
	same(z, g)
	if normInf(z) == 0 {
		for j := range z {
			z[j] = 1
		}
	}
	largest := math.Inf(-1)
	for j, v := range z {
		z[j] = math.Log(max(v, 0)) - eta*g[j]/m.Radius
		largest = max(largest, z[j])
	}
	sum := 0.0
	for j, v := range z {
		z[j] = math.Exp(v - largest)
		sum += z[j]
	}
	scale(z, m.Radius/sum)
}
