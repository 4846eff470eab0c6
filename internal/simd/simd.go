// Package simd has the operations on columns in which passes over many rows spend their time. Processors
// with vector instructions execute them for four rows at a time. The result is the same to the last bit
// with and without vectors, and for every position of a row: each operation is rounded separately, none is
// fused, and sums over rows are of integers that float64 adds exactly.
package simd

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// check panics unless all columns have n rows.
func check(n int, x [][]float64) {
	for _, column := range x {
		if len(column) < n {
			panic("simd: too few rows")
		}
	}
}

// Combine sets dst to start + sum_j a_j x_j, added in that order.
func Combine(dst []float64, start float64, a []float64, x [][]float64) {
	x = x[:len(a)]
	check(len(dst), x)
	n := combineLanes(dst, start, a, x)
	rest := dst[n:]
	for i := range rest {
		rest[i] = start
	}
	for j, column := range x {
		for i, v := range column[n:len(dst)] {
			rest[i] += float64(a[j] * v)
		}
	}
}

// AddSquares adds the squares of all columns to sums, one after the other.
func AddSquares(sums []float64, x [][]float64) {
	check(len(sums), x)
	n := addSquaresLanes(sums, x)
	rest := sums[n:]
	for _, column := range x {
		for i, v := range column[n:len(sums)] {
			rest[i] += float64(v * v)
		}
	}
}

// Multiply sets dst_i to a_i b_i.
func Multiply(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := multiplyLanes(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] * b[i]
	}
}

// Clamp sets dst to v clamped to [-limit, limit]; NaN stays.
func Clamp(dst, v []float64, limit float64) {
	v = v[:len(dst)]
	for i := clampLanes(dst, v, limit); i < len(dst); i++ {
		switch {
		case v[i] > limit:
			dst[i] = limit
		case v[i] < -limit:
			dst[i] = -limit
		default:
			dst[i] = v[i]
		}
	}
}

// Roots replaces each number by its square root.
func Roots(squares []float64) {
	for i := rootsLanes(squares); i < len(squares); i++ {
		squares[i] = math.Sqrt(squares[i])
	}
}

// Cut sets steps_ij to x_ij factor_i, cut toward zero to an integer, and adds the squares of these to
// length_i, one after the other.
func Cut(steps, x [][]float64, factor, length []float64) {
	steps, length = steps[:len(x)], length[:len(factor)]
	check(len(factor), x)
	check(len(factor), steps)
	n := cutLanes(steps, x, factor, length)
	for j, column := range x {
		own := steps[j][:len(factor)]
		for i := n; i < len(factor); i++ {
			k := math.Trunc(column[i] * factor[i])
			own[i] = k
			length[i] += float64(k * k)
		}
	}
}

// SumCut returns the sum of x_i factor_i, each cut toward zero to an integer. Their absolute values must
// add up to less than 2^53.
func SumCut(x, factor []float64) (sum int64) {
	x = x[:len(factor)]
	n, lanes := sumCutLanes(x, factor)
	for i := n; i < len(factor); i++ {
		sum += int64(x[i] * factor[i])
	}
	return sum + lanes
}

// AddProducts adds the sums over n rows of the products of all pairs of columns of integers to
// totals, row by row of the upper triangle. The absolute values of such products must add up
// to less than 2^53.
func AddProducts(totals []int64, x [][]float64, n int) {
	check(n, x)
	done := addProductsLanes(totals, x, n)
	if done == n {
		return
	}
	k := 0
	for i, a := range x {
		for _, b := range x[i:] {
			totals[k] += int64(floats.Dot(a[done:n], b[done:n]))
			k++
		}
	}
}
