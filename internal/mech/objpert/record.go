package objpert

import "math"

// Numbers that are larger than any use, yet far from overflow. A public
// parameter lies within [1/hugeParameter, hugeParameter].
const (
	hugeParameter = 0x1p50
	hugeFeature   = 0x1p100 // times Clip: a row with a larger feature has weight below 2^-200 and counts as none
	hugeTarget    = 0x1p200 // targets are clamped to it
)

// records is the table after the record map: D columns with the intercept's,
// targets and weights, all finite. A weight s is at most 1, and s ||x||^2 at
// most clip^2, exactly, for the real numbers these float64 stand for.
type records struct {
	x    [][]float64
	y, s []float64
	clip float64
}

// newRecords maps every row on its own; it overwrites x and y. A row with a
// missing or infinite value, or features beyond all use, gets weight 0.
func newRecords(x [][]float64, y []float64, clip float64, intercept bool) records {
	t := records{x: x, y: y, s: make([]float64, len(y)), clip: clip}
	if intercept {
		ones := make([]float64, len(y))
		for i := range ones {
			ones[i] = 1
		}
		t.x = append([][]float64{ones}, x...)
	}
	for i := range y {
		t.s[i] = t.weight(i)
		if t.s[i] == 0 {
			t.clear(i)
		}
		y[i] = math.Max(-hugeTarget, math.Min(y[i], hugeTarget))
	}
	return t
}

// weight returns min(1, (clip/||x||)^2), rounded downward: the squared norm, the
// square, the quotient and the last product err by at most (d+4) 2^-53 relatively,
// and the factor takes off twice that. Underflow of a square is far below the
// factor's share of clip^2.
func (t *records) weight(i int) float64 {
	square, huge := 0.0, hugeFeature*t.clip
	for _, column := range t.x {
		if !(math.Abs(column[i]) <= huge) {
			return 0
		}
		square += column[i] * column[i]
	}
	if math.IsNaN(t.y[i]) || math.IsInf(t.y[i], 0) {
		return 0
	}
	lower := 1 - float64(len(t.x)+8)*0x1p-52
	return math.Min(1, t.clip*t.clip/square*lower)
}

func (t *records) clear(i int) {
	for _, column := range t.x {
		column[i] = 0
	}
	t.y[i] = 0
}
