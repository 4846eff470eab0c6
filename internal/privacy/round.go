package privacy

import "math"

// Directed rounding on non-negative float64: the result is exact if it is a float64, otherwise its
// neighbour on the safe side. The error terms below are exact above tiny, where they cannot underflow.
const tiny = 0x1p-900

func up(v float64) float64   { return math.Nextafter(v, math.Inf(1)) }
func down(v float64) float64 { return math.Nextafter(v, math.Inf(-1)) }

func addUp(a, b float64) float64 {
	s := a + b
	t := s - a
	if (a-(s-t))+(b-t) > 0 { // Knuth's two-sum: a + b - s
		return up(s)
	}
	return s
}

func mulUp(a, b float64) float64 {
	p := a * b
	if p != 0 && p < tiny || p == 0 && a != 0 && b != 0 || math.FMA(a, b, -p) > 0 {
		return up(p)
	}
	return p
}

// mulDown returns at most a*b, and a finite number.
func mulDown(a, b float64) float64 {
	p := a * b
	if math.IsInf(p, 1) {
		return math.MaxFloat64
	}
	if p != 0 && p < tiny || math.FMA(a, b, -p) < 0 {
		return down(p)
	}
	return p
}

func divUp(a, b float64) float64 {
	q := a / b
	if a < tiny || q < tiny || math.FMA(q, b, -a) < 0 {
		return up(q)
	}
	return q
}

// subDown returns at most a - b.
func subDown(a, b float64) float64 {
	d := a - b
	t := d - a
	if (a-(d-t))-(b+t) < 0 { // Knuth's two-sum: a - b - d
		return down(d)
	}
	return d
}
