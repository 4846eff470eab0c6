package plantest

import (
	"math"
	"math/rand/v2"
	"slices"

	"dpsidecar/internal/dpsco/table"
)

// MaxFellows is Data.MaxRows in these tests.
const MaxFellows = 5

// Grouped makes records of some sizes of rows in their order.
func Grouped(x table.Data, sizes []int) table.Data {
	x.N, x.MaxRows, x.First = len(sizes), MaxFellows, []int{0}
	for _, m := range sizes {
		x.First = append(x.First, x.First[len(x.First)-1]+m)
	}
	return x
}

// RecordNeighbours are tables of records of one to five rows, of which one is replaced by
// another of perhaps another size: by rows that break arithmetic, by as many extreme ones as
// there may be where there was one that says nothing, or by its opposite.
func RecordNeighbours(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	sizes := make([]int, s.N)
	total := 0
	for u := range sizes {
		sizes[u] = 1 + r.IntN(MaxFellows)
		total += sizes[u]
	}
	changed := r.IntN(s.N)
	rows := s
	rows.N = total
	x, _ := Neighbours(r, rows, labels)
	rows.N = MaxFellows
	y, z := Neighbours(r, rows, labels)
	switch r.IntN(4) {
	case 0: // many extreme rows for none
		for i := range MaxFellows {
			SetRow(y, i, func(int) float64 { return 1e6 })
			SetRow(z, i, func(int) float64 { return math.NaN() })
			if labels {
				y.Y[i] = 1
			}
		}
	case 1: // the opposite
		v := Hostile(r)
		for i := range MaxFellows {
			SetRow(y, i, func(int) float64 { return v })
			SetRow(z, i, func(j int) float64 { return math.Copysign(v, float64(j)) })
		}
	}
	return WithRecord(x, sizes, changed, y, 1+r.IntN(MaxFellows)), WithRecord(x, sizes, changed, z, 1+r.IntN(MaxFellows))
}

// WithRecord is a table of records of which one has the first rows of y.
func WithRecord(x table.Data, sizes []int, changed int, y table.Data, size int) table.Data {
	first := 0
	for _, m := range sizes[:changed] {
		first += m
	}
	put := func(column, rows []float64) []float64 {
		return slices.Concat(column[:first], rows[:size], column[first+sizes[changed]:])
	}
	out := table.Data{Shape: x.Shape, Y: put(x.Y, y.Y)}
	for j, column := range x.X {
		out.X = append(out.X, put(column, y.X[j]))
	}
	sizes = slices.Clone(sizes)
	sizes[changed] = size
	return Grouped(out, sizes)
}

// RecordsInGroups gives rows of RecordNeighbours levels: those of a record differ, and of the
// record that differs all may.
func RecordsInGroups(r *rand.Rand, a, b table.Data, levels int) (table.Data, table.Data) {
	level := func() float64 {
		return []float64{0, float64(r.IntN(levels)), float64(r.IntN(levels)), float64(r.IntN(levels)), math.NaN(), -1, float64(levels)}[r.IntN(7)]
	}
	a.GroupCount, b.GroupCount = levels, levels
	a.Group, b.Group = AuxiliaryAlike(a, b, level, level)
	return a, b
}

// AuxiliaryAlike is an auxiliary column of neighbours, of usual values where a record is the same in both, and of others in
// the record that differs.
func AuxiliaryAlike(a, b table.Data, usual, others func() float64) (v, w []float64) {
	v, w = make([]float64, len(a.Y)), make([]float64, len(b.Y))
	for u := range a.N {
		first, end := a.Span(u, u+1)
		other, last := b.Span(u, u+1)
		if sameRecord(a, b, u) {
			for i := first; i < end; i++ {
				v[i] = usual()
			}
			copy(w[other:last], v[first:end])
			continue
		}
		for i := first; i < end; i++ {
			v[i] = others()
		}
		for k := other; k < last; k++ {
			w[k] = others()
		}
	}
	return v, w
}

// sameRecord reports whether record u has the bits of another table's.
func sameRecord(x table.Data, y table.Data, u int) bool {
	first, end := x.Span(u, u+1)
	other, last := y.Span(u, u+1)
	same := end-first == last-other
	for k := 0; same && k < end-first; k++ {
		same = sameValues(x, first+k, y, other+k)
	}
	return same
}

// sameValues reports whether a row has the bits of another table's row.
func sameValues(x table.Data, i int, y table.Data, k int) bool {
	for j := -1; j < len(x.X); j++ {
		if math.Float64bits(ValueAt(x, i, j)) != math.Float64bits(ValueAt(y, k, j)) {
			return false
		}
	}
	return true
}
