package dpsco

import (
	"runtime"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"dpsidecar/internal/mech"
)

// blockRows is how many rows are visited at a time: their columns stay in the
// cache between one pass over them and the next.
const blockRows = 2048

// each passes blocks of rows to visitors, one for each core; first is the
// position of a block's first row.
func (x Data) each(visitor func() func(first int, b Data)) {
	blocks := (x.N + blockRows - 1) / blockRows
	var next atomic.Int64
	var crew mech.Crew
	for range max(1, min(blocks, runtime.GOMAXPROCS(0))) {
		visit := visitor()
		crew.Go(func() {
			b := Data{Shape: x.Shape, X: make([][]float64, len(x.X))}
			for {
				first := int(next.Add(1)-1) * blockRows
				if first >= x.N {
					return
				}
				b.N = min(blockRows, x.N-first)
				for j, column := range x.X {
					b.X[j] = column[first : first+b.N]
				}
				b.Y = x.Y[first : first+b.N]
				if x.Offset != nil {
					b.Offset = x.Offset[first : first+b.N]
				}
				visit(first, b)
			}
		})
	}
	crew.Wait()
}

// predict writes <x_i, w> for every row, and adds its offset.
func predict(dst []float64, b Data, w []float64) {
	constant := 0.0
	if b.Intercept {
		constant, w = w[0], w[1:]
	}
	combine(dst, constant, w, b.X)
	if b.Offset != nil {
		floats.Add(dst, b.Offset)
	}
}

// combine writes start + sum_j a_j x_j, added in that order.
func combine(dst []float64, start float64, a []float64, x [][]float64) {
	for i := range dst {
		dst[i] = start
	}
	for j, column := range x {
		floats.AddScaled(dst, a[j], column)
	}
}
