package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// awkward are columns of numbers of every kind, of which some are not finite.
func awkward(r *rand.Rand, columns, n int) [][]float64 {
	x := make([][]float64, columns)
	for j := range x {
		x[j] = make([]float64, n)
		for i := range x[j] {
			x[j][i] = []float64{r.NormFloat64(), r.NormFloat64(), -0., 1e-310, 1e200 * r.NormFloat64(), math.Inf(1), math.NaN(), 1e6 * r.NormFloat64()}[r.IntN(8)]
		}
	}
	return x
}

// same reports whether all bits are, but those of what is no number.
func same(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(a, b []float64) bool {
		return slices.EqualFunc(a, b, func(v, w float64) bool {
			return math.Float64bits(v) == math.Float64bits(w) || math.IsNaN(v) && math.IsNaN(w)
		})
	})
}

// sizes calls f with every number of columns and with numbers of rows around what lanes take at
// a time; the seed is that of both.
func sizes(f func(r *rand.Rand, d, n int)) {
	for d := range 26 {
		for _, n := range []int{0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 48, 63, 64, 100, 255, 256} {
			f(rand.New(rand.NewPCG(uint64(d), uint64(n))), d, n)
		}
	}
}

// Columns have the bits that rows have which are computed one after the other.
func TestColumnsAreTheirRows(t *testing.T) {
	sizes(func(r *rand.Rand, d, n int) {
		x, own := awkward(r, d, n), awkward(r, 4, n)
		a, start := awkward(r, 1, d)[0], r.NormFloat64()
		clamped, roots := make([]float64, n), slices.Clone(own[3])
		Clamp(clamped, own[2], 2)
		Roots(roots)
		for i, v := range own[2] {
			within := max(-2, min(v, 2)) // NaN stays
			if root := math.Sqrt(own[3][i]); !same([][]float64{{clamped[i], roots[i]}}, [][]float64{{within, root}}) {
				t.Errorf("%v is clamped to %v, and the root of %v is %v", v, clamped[i], own[3][i], roots[i])
			}
		}
		combined, squares, product, length := make([]float64, n), slices.Clone(own[0]), make([]float64, n), slices.Clone(own[1])
		steps, want := awkward(r, d, n), [][]float64{make([]float64, n), slices.Clone(own[0]), make([]float64, n), slices.Clone(own[1])}
		wantSteps := awkward(r, d, n)
		for i := range n {
			want[0][i], want[2][i] = start, own[2][i]*own[3][i]
			for j, column := range x {
				want[0][i] += float64(a[j] * column[i])
				want[1][i] += float64(column[i] * column[i])
				k := math.Trunc(column[i] * own[2][i])
				wantSteps[j][i] = k
				want[3][i] += float64(k * k)
			}
		}
		Combine(combined, start, a, x)
		AddSquares(squares, x)
		Multiply(product, own[2], own[3])
		Cut(steps, x, own[2], length)
		for k, got := range [][]float64{combined, squares, product, length} {
			if !same([][]float64{got}, want[k:k+1]) {
				t.Errorf("%d columns of %d rows: number %d is %v, want %v", d, n, k, got, want[k])
			}
		}
		if !same(steps, wantSteps) {
			t.Errorf("%d columns of %d rows are cut to %v, want %v", d, n, steps, wantSteps)
		}
	})
}

// Sums are those of integers, up to the largest that may be.
func TestSumsAreExact(t *testing.T) {
	sizes(func(r *rand.Rand, d, n int) {
		x, factor, totals := make([][]float64, d), make([]float64, n), make([]int64, d*(d+1)/2)
		for i := range factor {
			factor[i] = 0x1p39 * (2*r.Float64() - 1)
		}
		for j := range x {
			x[j] = make([]float64, n)
			for i := range x[j] {
				if x[j][i] = float64(r.Int64N(1<<21+1) - 1<<20); n == 256 {
					x[j][i] = 1 << 20
				}
			}
		}
		AddProducts(totals, x, n)
		k := 0
		for i, a := range x {
			whole, part := int64(0), make([]float64, n)
			for row, v := range a {
				part[row] = v / (1 << 20)
				whole += int64(part[row] * factor[row])
			}
			if got := SumCut(part, factor); got != whole {
				t.Errorf("%d rows are cut to %d, want %d", n, got, whole)
			}
			for _, b := range x[i:] {
				want := int64(0)
				for row, v := range a {
					want += int64(v) * int64(b[row])
				}
				if totals[k] != want {
					t.Errorf("%d columns of %d rows: product %d is %d, want %d", d, n, k, totals[k], want)
				}
				k++
			}
		}
	})
}

// A column that is too short is a caller's error, not what stands behind it in memory.
func TestShortColumnsPanic(t *testing.T) {
	long, short := make([]float64, 64), [][]float64{make([]float64, 64), make([]float64, 63, 64)}
	for name, f := range map[string]func(){
		"combine":  func() { Combine(long, 0, []float64{1, 1}, short) },
		"squares":  func() { AddSquares(long, short) },
		"cut":      func() { Cut(short, [][]float64{long, long}, long, long) },
		"cut from": func() { Cut([][]float64{long, long}, short, long, long) },
		"products": func() { AddProducts(make([]int64, 3), short, 64) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s reads a column that is too short", name)
				}
			}()
			f()
		}()
	}
}
