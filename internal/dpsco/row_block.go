package dpsco

import (
	"math"

	"dpsidecar/internal/mech"
)

// A pass sees rows x as z = P'x, with the residual e = y - <x, w>. P and w
// are released, or public: everything here is a function of one row and those.

// halfOctaves are the bins of magnitudes: edges at 2^-8 to 2^16 units in steps of
// a factor of sqrt 2, one bin below and one above.
var halfOctaves = mech.Bins{Width: 1, Half: 25}

// lowestOctave is the exponent of the lowest edge, in half octaves.
const lowestOctave = -16

// halfOctave places a magnitude in units among halfOctaves: the binary exponent
// of its square, in the middle between edges. NaN stays.
func halfOctave(v float64) float64 {
	square := v * v
	if math.IsNaN(square) {
		return square
	}
	exponent := int(math.Float64bits(square)>>52) - 1023
	return float64(exponent-lowestOctave) + 1.5 - float64(halfOctaves.Half)
}

// rowBlock is a block of rows in the coordinates of a pass.
type rowBlock struct {
	n      int
	z      [][]float64 // columns of P'x
	y      []float64   // targets
	e      []float64   // residuals; NaN in a row that says nothing
	length []float64   // of z; NaN in a row that says nothing
	v      []float64   // scratch: one number a row
	joint  [][]float64 // scratch: rows and one number more
	rest   [][]float64 // scratch: as much again
	ones   []float64
}

func newRowBlock(d int) *rowBlock {
	one := columns(4, blockRows)
	r := &rowBlock{z: columns(d, blockRows), e: one[0], length: one[1], v: one[2], ones: one[3], joint: columns(d+1, blockRows), rest: columns(d+1, blockRows)}
	for i := range r.ones {
		r.ones[i] = 1
	}
	return r
}

// load writes a block. A row with a number that is not finite, or too large to be
// squared, says nothing.
func (r *rowBlock) load(b Data, p [][]float64, w []float64) {
	r.n, r.y = b.N, b.Y
	e, length := r.e[:b.N], r.length[:b.N]
	predict(e, b, w)
	for i, y := range b.Y {
		e[i] = y - e[i]
	}
	clear(length)
	for j := range r.z {
		z := r.z[j][:b.N]
		r.transform(z, b, p[j])
		for i, v := range z {
			length[i] += float64(v * v)
		}
	}
	for i, square := range length {
		if length[i] = math.Sqrt(square); !(square <= math.MaxFloat64 && math.Abs(e[i]) <= math.MaxFloat64) {
			length[i], e[i] = math.NaN(), math.NaN()
		}
	}
}

// transform writes one coordinate of P'x, by its column of P: upper triangular.
func (r *rowBlock) transform(z []float64, b Data, p []float64) {
	constant := 0.0
	if b.Intercept {
		constant, p = p[0], p[1:]
	}
	combine(z, constant, p, b.X[:len(p)])
}

// count adds the magnitudes of f(i), in units, to a histogram.
func (r *rowBlock) count(h *mech.Histogram, f func(i int) float64) {
	v := r.v[:r.n]
	for i := range v {
		v[i] = halfOctave(f(i))
	}
	h.AddRows(mech.Rows{Intercept: true}, v)
}

// scaled writes v_i z_i.
func (r *rowBlock) scaled() {
	for j, z := range r.z {
		product := r.joint[j][:r.n]
		for i := range product {
			product[i] = r.v[i] * z[i]
		}
	}
}

// rowsOf returns the first d of scratch columns.
func (r *rowBlock) rowsOf(columns [][]float64, d int) [][]float64 {
	x := make([][]float64, d)
	for j := range x {
		x[j] = columns[j][:r.n]
	}
	return x
}

// clampTo moves v into [-limit, limit]; NaN stays.
func clampTo(v, limit float64) float64 { return max(-limit, min(v, limit)) }
