package expmech

import "math"

// The model of where the target's mass lies: along each axis of a box a normal
// density of variance 1 around -shift. It chooses where the envelope touches
// and where boxes are split; nothing but time depends on it.

// langevin returns the mean of the density ~ exp(-t s) on [-h, h], negated, and
// its derivative in t: h L(t h) and h^2 L'(t h), L(x) = coth x - 1/x.
func langevin(t, h float64) (value, derivative float64) {
	x := math.Abs(t * h)
	if x < 1e-2 {
		return t * h * h / 3, h * h / 3
	}
	e := math.Exp(-2 * x)
	coth := (1 + e) / (1 - e)
	value = h * (coth - 1/x)
	return math.Copysign(value, t), h * h * (1/(x*x) + 1 - coth*coth)
}

// logIntegral returns log of the integral of exp(-t s) over [-h, h].
func logIntegral(t, h float64) float64 {
	x := math.Abs(t * h)
	if x < 1e-4 {
		return math.Log(2 * h)
	}
	return x + math.Log(-math.Expm1(-2*x)*h/x)
}

// touch returns the point at which a tangent to z^2/2 makes the tightest bound
// of exp(-z^2/2) on [low, high], and the logarithm of the bound's mass. It
// solves t = mean under the bound by Newton's method, from the side where that
// is monotone.
func touch(low, high float64) (t, logMass float64) {
	c, h := (low+high)/2, (high-low)/2
	side := math.Copysign(1, c)
	c = math.Abs(c)
	t = max(c/(1+h*h/3), c-h)
	for range 20 {
		value, derivative := langevin(t, h)
		step := (t - c + value) / (1 + derivative)
		t -= step
		if math.Abs(step) < 1e-3*(1+t) {
			break
		}
	}
	return side * t, t*t/2 - t*c + logIntegral(t, h)
}

// bestSplit returns where to split [low, high] so that the bounds of touch lose
// the most mass, and the logarithm of the ratio.
func bestSplit(low, high float64) (at, gain float64) {
	_, whole := touch(low, high)
	at, best := (low+high)/2, math.Inf(1)
	try := func(s float64) {
		if s <= low || s >= high {
			return
		}
		_, left := touch(low, s)
		_, right := touch(s, high)
		if sum := logAdd(left, right); sum < best {
			at, best = s, sum
		}
	}
	try((low + high) / 2)
	if high-low > 3 {
		for _, s := range [...]float64{0, -3, 3, -1, 1} {
			try(s)
		}
		if low > 0 {
			try(low + 1/max(low, 0.5))
		}
		if high < 0 {
			try(high - 1/max(-high, 0.5))
		}
	}
	return at, whole - best
}

func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	return a + math.Log1p(math.Exp(b-a))
}
