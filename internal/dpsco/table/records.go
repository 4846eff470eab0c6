package table

import (
	"math"

	"dpsidecar/internal/mech"
)

// A record is the contribution of one person to a release (proof: ../records.md). With several rows it is the
// mean of the contributions of its rows, or the contribution of the first row, which was drawn at random
// when the rows were read.

// Span returns the range of rows of records a to b.
func (x Data) Span(a, b int) (first, end int) {
	if x.First == nil {
		return a, b
	}
	return x.First[a], x.First[b]
}

// Flat returns the data with every row as a record of its own, for computations on single rows. No release
// sees the result, whose number of rows is not public.
func (x Data) Flat() Data {
	x.N, x.MaxRows, x.First = len(x.Y), 0, nil
	return x
}

// FirstRows returns the first row of every record.
func (x Data) FirstRows() Data {
	if x.First == nil {
		return x
	}
	first := x.First[:x.N]
	x.MaxRows, x.First = 0, nil
	return x.Pick(first)
}

// Records returns a copy of the given records.
func (x Data) Records(some []int) Data {
	if x.First == nil {
		return x.Pick(some)
	}
	var rows []int
	first := make([]int, 1, len(some)+1)
	for _, u := range some {
		for i := x.First[u]; i < x.First[u+1]; i++ {
			rows = append(rows, i)
		}
		first = append(first, len(rows))
	}
	part := x.Pick(rows)
	part.N, part.MaxRows, part.First = len(some), x.MaxRows, first
	return part
}

// Starts returns the first row of each record of a block, counted from the block's first row, and the end
// of the last record; nil where every row is a record.
func (x Data) Starts(dst []int) []int {
	if x.First == nil {
		return nil
	}
	dst = dst[:0]
	for _, first := range x.First {
		dst = append(dst, first-x.First[0])
	}
	return dst
}

// MeansOf writes to dst, and returns, the mean over each record's rows of c_i times x_i, by columns. A
// product that is NaN counts as zero: its row is unusable.
func MeansOf(dst, x [][]float64, c []float64, starts []int) [][]float64 {
	n := len(starts) - 1
	means := make([][]float64, len(x))
	for j, column := range x {
		means[j] = dst[j][:n]
		for u := range n {
			means[j][u] = average(column, c, starts[u], starts[u+1])
		}
	}
	return means
}

// average is the mean of c_i x_i over rows from first to end, where NaN counts as zero.
func average(x, c []float64, first, end int) float64 {
	sum := 0.0
	for i := first; i < end; i++ {
		if v := c[i] * x[i]; !math.IsNaN(v) {
			sum += v
		}
	}
	return sum / float64(end-first)
}

// AverageUsable overwrites rows with the means over each record's usable rows, and ones with 1 if there are
// any and 0 if not; it does nothing where every row is a record. The values of row u are read before they
// are overwritten, since record u begins at row u or later.
func AverageUsable(x [][]float64, ones []float64, starts []int) {
	for u := range max(len(starts), 1) - 1 {
		first, end := starts[u], starts[u+1]
		usable := 0.0
		for _, one := range ones[first:end] {
			usable += one
		}
		for _, column := range x {
			sum := 0.0
			for _, v := range column[first:end] {
				sum += v
			}
			column[u] = sum / max(usable, 1)
		}
		ones[u] = min(usable, 1)
	}
}

// AddRows adds the contributions of n rows, or of their records, to second moments.
func AddRows(m *mech.Moments, x mech.Rows, n int, starts []int) {
	if starts == nil {
		m.AddRows(x, n)
		return
	}
	m.AddRecords(x, starts)
}

// RowLengths writes the lengths of rows, given by columns.
func RowLengths(dst []float64, x [][]float64) {
	clear(dst)
	for _, column := range x {
		for i, v := range column {
			dst[i] += v * v
		}
	}
	for i, v := range dst {
		dst[i] = math.Sqrt(v)
	}
}

// Pick returns a copy of the given rows.
func (x Data) Pick(rows []int) Data {
	part := Data{Shape: Shape{N: len(rows), D: x.D, Intercept: x.Intercept, GroupCount: x.GroupCount}, X: NewColumns(len(x.X), len(rows)), Y: make([]float64, len(rows))}
	Gather(part.Y, x.Y, rows)
	for j, column := range x.X {
		Gather(part.X[j], column, rows)
	}
	if x.Group != nil {
		part.Group = make([]float64, len(rows))
		Gather(part.Group, x.Group, rows)
	}
	part.SetAuxiliary(x, func(_, column []float64) []float64 {
		some := make([]float64, len(rows))
		Gather(some, column, rows)
		return some
	})
	return part
}
