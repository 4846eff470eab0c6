package table

import "math"

// NewColumns makes d columns of n zeros.
func NewColumns(d, n int) [][]float64 {
	x := make([][]float64, d)
	for j := range x {
		x[j] = make([]float64, n)
	}
	return x
}

// Repeat returns a slice of n times the same number.
func Repeat(v float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// Heads returns the first n values of every column.
func Heads(block [][]float64, n int) [][]float64 {
	x := make([][]float64, len(block))
	for j := range x {
		x[j] = block[j][:n]
	}
	return x
}

// Gather copies the given rows of a column.
func Gather(dst, x []float64, rows []int) {
	for i, row := range rows {
		dst[i] = x[row]
	}
}

// Label maps two labels to 0 and 1, and any other value to NaN.
func Label(y []float64, negative, positive float64) {
	for i, v := range y {
		switch v {
		case positive:
			y[i] = 1
		case negative:
			y[i] = 0
		default:
			y[i] = math.NaN()
		}
	}
}
