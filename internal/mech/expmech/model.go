package expmech

import "math"

// model approximates the target in a box: its exponent has the slope slope + curvature (z - at). It selects
// the points where the envelope touches and where boxes are split; only the running time depends on it.
type model struct {
	at, slope []float64
	curvature matrix // symmetric, both triangles
}

// unitModel is the model of the root: a standard normal density.
func unitModel(d int) *model {
	m := &model{make([]float64, d), make([]float64, d), newMatrix(d)}
	for j := range d {
		m.curvature[j][j] = 1
	}
	return m
}

// newModel scales slope and lower triangle of curvature by gain.
func newModel(gain float64, places []place, slope []float64, curvature matrix) *model {
	d := len(places)
	m := &model{make([]float64, d), make([]float64, d), newMatrix(d)}
	for j, p := range places {
		m.at[j] = p.touch
		m.slope[j] = gain * slope[j]
		for k := range j + 1 {
			v := gain * curvature[j][k]
			m.curvature[j][k], m.curvature[k][j] = v, v
		}
	}
	return m
}

// touchSweeps is the number of passes of touch over the axes.
const touchSweeps = 4

// touch sets place.touch to the point at which a plane that touches the model makes the tightest envelope
// of the box: the mean under that envelope. It passes over the axes several times and solves for one at a
// time by Newton's method.
func (m *model) touch(places []place) {
	for j := range places {
		p := &places[j]
		p.touch = max(p.middle-p.half, min(p.middle+p.half, m.at[j]))
	}
	for range touchSweeps {
		for j, row := range m.curvature {
			slope := m.slope[j]
			for k, v := range row {
				slope += v * (places[k].touch - m.at[k])
			}
			p := &places[j]
			p.touch = meanUnder(p.touch, slope, row[j], p.middle, p.half)
		}
	}
}

// meanUnder returns the t at which the mean of exp(-(slope + curvature (t-at)) z)
// on [c-h, c+h] is t.
func meanUnder(at, slope, curvature, c, h float64) float64 {
	t, low, high := at, c-h, c+h
	for range 12 {
		value, derivative := langevin(slope+curvature*(t-at), h)
		miss := t - c + value
		if miss > 0 {
			high = t
		} else {
			low = t
		}
		next := t - miss/(1+curvature*derivative)
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-t) < 1e-3*h {
			return next
		}
		t = next
	}
	return t
}

// split returns the best position to split [low, high] along an axis, and the logarithm of the ratio by
// which that reduces the mass.
func (m *model) split(axis int, low, high float64) (at, gain float64) {
	scale := math.Sqrt(max(m.curvature[axis][axis], 1e-3/((high-low)*(high-low))))
	offset := m.slope[axis]/scale - m.at[axis]*scale // offset to coordinates in which the density is standard
	at, gain = bestSplit(low*scale+offset, high*scale+offset)
	return (at - offset) / scale, gain
}

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

// tangentLogMass returns the logarithm of the mass of the tightest bound of exp(-z^2/2) on [low, high] that a
// tangent to z^2/2 makes. It finds the point t where that touches, the mean under the bound, by Newton's method, from
// the side on which that is monotone.
func tangentLogMass(low, high float64) float64 {
	c, h := (low+high)/2, (high-low)/2
	c = math.Abs(c)
	t := max(c/(1+h*h/3), c-h)
	for range 20 {
		value, derivative := langevin(t, h)
		step := (t - c + value) / (1 + derivative)
		t -= step
		if math.Abs(step) < 1e-3*(1+t) {
			break
		}
	}
	return t*t/2 - t*c + logIntegral(t, h)
}

// bestSplit returns where to split [low, high] so that the bounds of tangentLogMass lose the most mass, and the
// logarithm of the ratio.
func bestSplit(low, high float64) (at, gain float64) {
	whole := tangentLogMass(low, high)
	at, best := (low+high)/2, math.Inf(1)
	try := func(s float64) {
		if s <= low || s >= high {
			return
		}
		left := tangentLogMass(low, s)
		right := tangentLogMass(s, high)
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
