package dpsco

import "math"

// newColumns makes d columns of n zeros.
func newColumns(d, n int) [][]float64 {
	x := make([][]float64, d)
	for j := range x {
		x[j] = make([]float64, n)
	}
	return x
}

// gather copies the given rows of a column.
func gather(dst, x []float64, rows []int) {
	for i, row := range rows {
		dst[i] = x[row]
	}
}

// divide divides a column by its scale.
func divide(column []float64, scale float64) {
	for i := range column {
		column[i] /= scale
	}
}

// repeat returns a slice of n times the same number.
func repeat(v float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// powerOfTwo returns the largest power of two that is at most v.
func powerOfTwo(v float64) float64 {
	_, exponent := math.Frexp(v)
	return math.Ldexp(1, exponent-1)
}

func square(v float64) float64 { return v * v }

// firstRows returns the first n values of every column.
func firstRows(block [][]float64, n int) [][]float64 {
	x := make([][]float64, len(block))
	for j := range x {
		x[j] = block[j][:n]
	}
	return x
}

// minus returns x - q y.
func minus(x []float64, q float64, y []float64) []float64 {
	z := make([]float64, len(x))
	for j := range z {
		z[j] = x[j] - q*y[j]
	}
	return z
}
