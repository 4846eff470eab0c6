package dpsco

import "math"

// columns makes d columns of n zeros.
func columns(d, n int) [][]float64 {
	x := make([][]float64, d)
	for j := range x {
		x[j] = make([]float64, n)
	}
	return x
}

// gather copies chosen rows of a column.
func gather(dst, x []float64, rows []int) {
	for i, row := range rows {
		dst[i] = x[row]
	}
}

// divide brings a column into units of its scale.
func divide(column []float64, scale float64) {
	for i := range column {
		column[i] /= scale
	}
}

// multiply writes a_i b_i.
func multiply(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// addSquares adds the squares of all columns, one after the other.
func addSquares(sums []float64, x [][]float64) {
	n := len(sums)
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d := x[0][:n], x[1][:n], x[2][:n], x[3][:n]
		for i, sum := range sums {
			sums[i] = sum + float64(a[i]*a[i]) + float64(b[i]*b[i]) + float64(c[i]*c[i]) + float64(d[i]*d[i])
		}
	}
	for _, a := range x {
		a = a[:n]
		for i := range sums {
			sums[i] += float64(a[i] * a[i])
		}
	}
}

// repeat makes n times the same number.
func repeat(v float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// powerOfTwo returns the largest one that is at most v.
func powerOfTwo(v float64) float64 {
	_, exponent := math.Frexp(v)
	return math.Ldexp(1, exponent-1)
}

func square(v float64) float64 { return v * v }
