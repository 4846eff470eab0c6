package plantest

import (
	"math"
	"math/rand/v2"
	"slices"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// Clone copies the columns of a table.
func Clone(x table.Data) table.Data {
	c := x
	c.Y, c.X, c.Group = slices.Clone(x.Y), nil, slices.Clone(x.Group)
	c.SetAuxiliary(x, func(_, column []float64) []float64 { return slices.Clone(column) })
	for _, column := range x.X {
		c.X = append(c.X, slices.Clone(column))
	}
	return c
}

// SetRow writes row i; column -1 is the target.
func SetRow(x table.Data, i int, value func(j int) float64) {
	x.Y[i] = value(-1)
	for j, column := range x.X {
		column[i] = value(j)
	}
}

// ValueAt is a value of row i; column -1 is the target.
func ValueAt(x table.Data, i, j int) float64 {
	if j < 0 {
		return x.Y[i]
	}
	return x.X[j][i]
}

// Hostile is a value that breaks floating sums, comparisons or clipping; NaN is
// what NULL becomes.
func Hostile(r *rand.Rand) float64 {
	values := []float64{0, 1, 1, 2, 7, 0.5, 5e-324, 1e-200, 3, 1e9, 1e14, 1e19, 1e51, 1e87, 1e99, 1e155, 1e300, math.MaxFloat64, math.Inf(1), math.NaN(), r.NormFloat64()}
	return float64(1-2*r.IntN(2)) * values[r.IntN(len(values))]
}

// Neighbours returns two tables that differ in one row.
func Neighbours(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	a = table.Data{Shape: s, X: table.NewColumns(s.Columns(), s.N), Y: make([]float64, s.N)}
	fill := []func(i int){
		func(i int) { SetRow(a, i, func(int) float64 { return Hostile(r) }) },
		func(i int) { SetRow(a, i, func(int) float64 { return r.NormFloat64() }) },
		func(i int) { SetRow(a, i, func(int) float64 { return 1 }) },                      // columns are all equal
		func(i int) { SetRow(a, i, func(int) float64 { return float64(2*(i%2)-1) * 3 }) }, // two heaps, of which none is larger
	}[r.IntN(4)]
	for i := range s.N {
		fill(i)
		if labels && r.IntN(8) > 0 {
			a.Y[i] = float64(r.IntN(2))
		}
	}
	b = Clone(a)
	i := r.IntN(s.N)
	switch r.IntN(5) {
	case 0:
		SetRow(b, i, func(int) float64 { return Hostile(r) })
	case 1: // the opposite, which flips an argmax of two heaps
		SetRow(b, i, func(j int) float64 { return -ValueAt(a, i, j) })
	case 2: // another label, or none
		b.Y[i] = []float64{1 - a.Y[i], 0.5, 7, math.NaN(), math.Inf(-1)}[r.IntN(5)]
	case 3: // two ways to be as far apart as can be
		SetRow(a, i, func(int) float64 { return 1e6 })
		SetRow(b, i, func(j int) float64 { return []float64{1e6, -1e6}[min(j+1, 1)*r.IntN(2)] })
		a.Y[i], b.Y[i] = -1e9, 1e9
		if labels {
			a.Y[i], b.Y[i] = 0, 1
		}
	case 4: // one at the origin, one at the end of the world
		SetRow(a, i, func(int) float64 { return 0 })
		SetRow(b, i, func(int) float64 { return 1e300 })
	}
	return a, b
}

// ComingRows are a table in which a row is extreme and a neighbour in which it says nothing: what
// a window sees of a row that moves to another block, where sizes are nominal.
func ComingRows(r *rand.Rand, s table.Shape, labels bool) (with, without table.Data) {
	with, _ = Neighbours(r, s, labels)
	i := r.IntN(s.N)
	SetRow(with, i, func(int) float64 { return []float64{1e6, -1e6, 1e300, 1}[r.IntN(4)] })
	if labels {
		with.Y[i] = float64(r.IntN(2))
	}
	without = Clone(with)
	SetRow(without, i, func(int) float64 { return math.NaN() })
	return with, without
}

// Generous is a budget under which the answers move about.
var Generous = privacy.Budget{Epsilon: 20, Delta: 1e-2}

// InGroups gives the rows of two neighbours groups, which the row that differs may change.
// Some rows are in none, or in what is no group.
func InGroups(r *rand.Rand, a, b table.Data, levels int) (table.Data, table.Data) {
	a.GroupCount, b.GroupCount = levels, levels
	a.Group = make([]float64, a.N)
	for i := range a.Group {
		a.Group[i] = []float64{0, float64(r.IntN(levels)), math.NaN(), -1, float64(levels), math.Inf(1)}[min(r.IntN(12), 11)/2]
	}
	b.Group = slices.Clone(a.Group)
	for i := range a.Group {
		if !sameValues(a, i, b, i) {
			b.Group[i] = float64(r.IntN(levels))
		}
	}
	return a, b
}

// AsCounts gives neighbours offsets, of all kinds in the rows that differ and in others, and
// targets most of which are counts.
func AsCounts(r *rand.Rand, a, b *table.Data) {
	a.Offset, b.Offset = make([]float64, a.N), make([]float64, a.N)
	equal := func(v, w float64) bool { return v == w || v != v && w != w }
	for i := range a.N {
		same := equal(a.Y[i], b.Y[i])
		for j := range a.X {
			same = same && equal(a.X[j][i], b.X[j][i])
		}
		a.Offset[i] = r.NormFloat64()
		if b.Offset[i] = a.Offset[i]; !same {
			a.Offset[i], b.Offset[i] = Hostile(r), Hostile(r)
		} else if r.IntN(2) == 0 {
			a.Y[i] = math.Floor(math.Abs(a.Y[i]))
			b.Y[i] = a.Y[i]
		}
	}
}

// Scored is a table of n rows: a target 3 + x + noise, or a label with log-odds 1.5 x.
func Scored(seed uint64, n int, labels bool) table.Data {
	r := rand.New(rand.NewPCG(seed, 5))
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range n {
		v := r.NormFloat64()
		x.X[0][i], x.Y[i] = v, 3+v+r.NormFloat64()
		if labels {
			x.Y[i] = 0
			if r.Float64() < 1/(1+math.Exp(-1.5*v)) {
				x.Y[i] = 1
			}
		}
	}
	return x
}
