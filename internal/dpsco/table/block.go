package table

import (
	"runtime"
	"sync/atomic"

	"dpsidecar/internal/dpsco/internal/hook"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"

	"gonum.org/v1/gonum/floats"
)

// BlockRows is the largest number of rows in a block. It keeps the columns of a block in the
// processor's cache from one loop over them to the next.
const BlockRows = 1024

// Pass makes one pass: it hands all rows, in blocks, to visitors that compute sums.
func (x Data) Pass(visitor func() func(first int, b Data)) {
	hook.OnPass(x.N)
	x.Blocks(visitor)
}

// Blocks hands blocks of records to visitors, one visitor per core; first is the index of the
// block's first record.
func (x Data) Blocks(visitor func() func(first int, b Data)) {
	size := BlockRows / max(1, x.MaxRows)
	blocks := (x.N + size - 1) / size
	var next atomic.Int64
	var group mech.PanicGroup
	for range max(1, min(blocks, runtime.GOMAXPROCS(0))) {
		visit := visitor()
		group.Go(func() {
			b := Data{Shape: x.Shape, X: make([][]float64, len(x.X)), MaxRows: x.MaxRows}
			for {
				first := int(next.Add(1)-1) * size
				if first >= x.N {
					return
				}
				b.N = min(size, x.N-first)
				low, high := x.Span(first, first+b.N)
				for j, column := range x.X {
					b.X[j] = column[low:high]
				}
				b.Y = x.Y[low:high]
				if x.First != nil {
					b.First = x.First[first : first+b.N+1]
				}
				if x.Group != nil {
					b.Group = x.Group[low:high]
				}
				b.SetAuxiliary(x, func(_, column []float64) []float64 { return column[low:high] })
				visit(first, b)
			}
		})
	}
	group.Wait()
}

// Predict writes <x_i, w> plus the row's offset for every row.
func Predict(dst []float64, b Data, w []float64) {
	constant := 0.0
	if b.Intercept {
		constant, w = w[0], w[1:]
	}
	simd.Combine(dst, constant, w, b.X)
	if b.Offset != nil {
		floats.Add(dst, b.Offset)
	}
}
