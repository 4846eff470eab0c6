package objpert

import (
	"cmp"
	"math"
	"slices"
)

// Limits beyond all realistic values, yet far from overflow. A public parameter lies within
// [1/hugeParameter, hugeParameter].
const (
	hugeParameter = 0x1p50
	hugeFeature   = 0x1p100 // times Clip: a row with a larger feature would be scaled below 2^-100 of itself, and is dropped
	hugeTarget    = 0x1p200 // targets are clamped to it
)

// records is the table after the record map: D columns, including the intercept's, and targets, all finite.
// A row x is at most clip long, and its squared length over its smoothing is at most curviest, exactly, for the
// real numbers that these float64 represent.
type records struct {
	x              [][]float64
	y              []float64
	smoothing      []float64
	clip, curviest float64
}

// newRecords maps every row on its own; it overwrites x and y. A row longer than clip is scaled down
// together with its target, so that it fits the same coefficients with less weight. A row with a missing or
// infinite value, or with a feature beyond hugeFeature, becomes zero.
func newRecords(x [][]float64, y []float64, p Params) records {
	t := records{x: x, y: y, smoothing: make([]float64, len(y)), clip: p.Clip, curviest: p.curviest()}
	if p.Intercept {
		ones := make([]float64, len(y))
		for i := range ones {
			ones[i] = 1
		}
		t.x = append([][]float64{ones}, x...)
	}
	for i := range y {
		if f := t.factor(i); f == 0 {
			t.clear(i)
		} else if f < 1 {
			t.shorten(i, f)
		}
		y[i] = math.Max(-hugeTarget, math.Min(y[i], hugeTarget))
		t.smoothing[i] = p.Smoothing * t.wider(i, p)
	}
	return t
}

// sort puts records in the order of their bits. Sums of floating-point numbers depend on the order of their
// terms, and the order in which rows arrive may depend on those of other parts.
func (t records) sort() {
	columns, order := append(t.x[:len(t.x):len(t.x)], t.y, t.smoothing), make([]int, len(t.y))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		for _, v := range columns {
			if c := cmp.Compare(math.Float64bits(v[a]), math.Float64bits(v[b])); c != 0 {
				return c
			}
		}
		return 0
	})
	sorted := make([]float64, len(order))
	for _, v := range columns {
		for i, from := range order {
			sorted[i] = v[from]
		}
		copy(v, sorted)
	}
}

// factor returns min(1, clip/||x||), rounded downward: the norm, the quotient and the products with it have
// a relative error of at most (d+4) 2^-53, and the last factor subtracts more than twice that. Underflow of
// a square or a product is far below its share of clip.
func (t *records) factor(i int) float64 {
	huge := hugeFeature * t.clip
	for _, column := range t.x {
		if !(math.Abs(column[i]) <= huge) {
			return 0
		}
	}
	if math.IsNaN(t.y[i]) || math.IsInf(t.y[i], 0) {
		return 0
	}
	lower := 1 - float64(len(t.x)+8)*0x1p-52
	return math.Min(1, t.clip/math.Sqrt(t.square(i))*lower)
}

// square is the squared length of a row.
func (t *records) square(i int) (sum float64) {
	for _, column := range t.x {
		sum += column[i] * column[i]
	}
	return sum
}

// wider is by how much the smoothing of a row is wider than that of a short one: the square of its length over
// that of a short one, rounded upward. Where all rows are short it is 1.
func (t *records) wider(i int, p Params) float64 {
	if p.short() == p.Clip {
		return 1
	}
	upper := 1 + float64(len(t.x)+8)*0x1p-52
	return math.Max(1, t.square(i)/p.short()/p.short()*upper)
}

func (t *records) shorten(i int, factor float64) {
	for _, column := range t.x {
		column[i] *= factor
	}
	t.y[i] *= factor
}

func (t *records) clear(i int) {
	for _, column := range t.x {
		column[i] = 0
	}
	t.y[i] = 0
}
