package simd

import "golang.org/x/sys/cpu"

// Vectors hold four numbers. If the number of rows is not a multiple of the rows done at a time, the caller
// does the rest.

// lanes reports whether this processor has the required vector instructions. Tests set it to false.
var lanes = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// whole returns how many of n rows are done with vectors, atATime at a time.
func whole(n, atATime int) int {
	if !lanes {
		return 0
	}
	return n - n%atATime
}

func combineLanes(dst []float64, start float64, a []float64, x [][]float64) int {
	n := whole(len(dst), 16)
	if n > 0 && len(a) > 0 {
		combine(&dst[0], n, start, &a[0], &x[0], len(a))
		return n
	}
	return 0
}

func addSquaresLanes(sums []float64, x [][]float64) int {
	n := whole(len(sums), 16)
	if n > 0 && len(x) > 0 {
		addSquares(&sums[0], n, &x[0], len(x))
	}
	return n
}

func multiplyLanes(dst, a, b []float64) int {
	n := whole(len(dst), 8)
	if n > 0 {
		multiply(&dst[0], &a[0], &b[0], n)
	}
	return n
}

func clampLanes(dst, v []float64, limit float64) int {
	n := whole(len(dst), 8)
	if n > 0 {
		clamp(&dst[0], &v[0], n, limit)
	}
	return n
}

func rootsLanes(squares []float64) int {
	n := whole(len(squares), 8)
	if n > 0 {
		roots(&squares[0], n)
	}
	return n
}

func cutLanes(steps, x [][]float64, factor, length []float64) int {
	n := whole(len(factor), 8)
	if n > 0 && len(x) > 0 {
		cut(&steps[0], &x[0], len(x), &factor[0], &length[0], n)
	}
	return n
}

func sumCutLanes(x, factor []float64) (n int, sum int64) {
	if n = whole(len(factor), 16); n > 0 {
		sum = int64(sumCut(&x[0], &factor[0], n))
	}
	return n, sum
}

// addProductsLanes takes two columns and four at a time; if there are fewer it repeats one.
func addProductsLanes(totals []int64, x [][]float64, n int) int {
	if n = whole(n, 4); n == 0 {
		return 0
	}
	d := len(x)
	var sums [8]float64
	var pairs [6]*float64
	for i := 0; i < d; i += 2 {
		for j := i; j < d; j += 4 {
			for k, column := range [6]int{i, i + 1, j, j + 1, j + 2, j + 3} {
				pairs[k] = &x[min(column, d-1)][0]
			}
			products(&sums, &pairs, n)
			for k, v := range sums {
				if a, b := i+k/4, j+k%4; a <= b && b < d {
					totals[a*d-a*(a-1)/2+b-a] += int64(v)
				}
			}
		}
	}
	return n
}

//go:noescape
func combine(dst *float64, n int, start float64, a *float64, x *[]float64, columns int)

//go:noescape
func addSquares(sums *float64, n int, x *[]float64, columns int)

//go:noescape
func multiply(dst, a, b *float64, n int)

//go:noescape
func clamp(dst, v *float64, n int, limit float64)

//go:noescape
func roots(squares *float64, n int)

//go:noescape
func cut(steps, x *[]float64, columns int, factor, length *float64, n int)

//go:noescape
func sumCut(x, factor *float64, n int) float64

// products writes the sums of the products of the first two columns with the other four.
//
//go:noescape
func products(sums *[8]float64, columns *[6]*float64, n int)
