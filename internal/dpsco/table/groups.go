package table

import (
	"math"
	"slices"
)

// The group of a record is that of its first row.

// ByGroup sorts the records by group, in place, and returns the records of each group; those of no
// group are in none. All rows of a record must be in one group: see InGroups.
func (x Data) ByGroup() []Data {
	starts := make([]int, x.GroupCount+2) // the last entry is for rows of no group
	for i := range x.Group {
		starts[x.GroupOf(i)+1]++
	}
	for g := range x.GroupCount + 1 {
		starts[g+1] += starts[g]
	}
	at, next := make([]int32, len(x.Y)), slices.Clone(starts)
	for i := range x.Group {
		g := x.GroupOf(i)
		at[i] = int32(next[g])
		next[g]++
	}
	scratch := make([]float64, len(x.Y))
	for _, column := range x.rowColumns() {
		for i, v := range column {
			scratch[at[i]] = v
		}
		copy(column, scratch)
	}
	parts := make([]Data, x.GroupCount)
	for g := range parts {
		parts[g] = x.rows(starts[g], starts[g+1])
	}
	x.markRecords(parts)
	return parts
}

// rowColumns returns all columns except Group.
func (x Data) rowColumns() [][]float64 {
	columns := append(slices.Clone(x.X), x.Y)
	for _, column := range x.auxiliaryColumns() {
		if *column != nil {
			columns = append(columns, *column)
		}
	}
	return columns
}

// markRecords sets First in the parts of x, if records have several rows.
func (x Data) markRecords(parts []Data) {
	if x.First == nil {
		return
	}
	for g := range parts {
		parts[g].N, parts[g].MaxRows, parts[g].First = 0, x.MaxRows, []int{0}
	}
	for u := range x.N {
		if g := x.GroupOf(x.First[u]); g < x.GroupCount {
			part := &parts[g]
			part.First = append(part.First, part.First[part.N]+x.First[u+1]-x.First[u])
			part.N++
		}
	}
}

// GroupOf returns the group of row i, or GroupCount for none.
func (x Data) GroupOf(i int) int {
	if g := x.Group[i]; g >= 0 && g < float64(x.GroupCount) {
		return int(g)
	}
	return x.GroupCount
}

// rows returns rows from to to-1 as a design without groups.
func (x Data) rows(from, to int) Data {
	part := Data{Shape: Shape{N: to - from, D: x.D, Intercept: x.Intercept}, Y: x.Y[from:to]}
	for _, column := range x.X {
		part.X = append(part.X, column[from:to])
	}
	part.SetAuxiliary(x, func(_, column []float64) []float64 { return column[from:to] })
	return part
}

// InGroups reduces every record, in place, to its rows in the group of its first row, so that it is
// in at most one group. The target of a record of no group becomes NaN: it contributes nothing.
func (x Data) InGroups() Data {
	if x.GroupCount == 0 {
		return x
	}
	if x.First != nil {
		x = x.likeFirstRows()
	}
	for i := range x.Group {
		if x.GroupOf(i) == x.GroupCount {
			x.Y[i] = math.NaN()
		}
	}
	return x
}

// likeFirstRows keeps, in place, those rows of each record that are in the group of its first row.
func (x Data) likeFirstRows() Data {
	kept, first := make([]int, 0, len(x.Y)), make([]int, 1, len(x.First))
	for u := range x.N {
		group := x.GroupOf(x.First[u])
		for i := x.First[u]; i < x.First[u+1]; i++ {
			if x.GroupOf(i) == group {
				kept = append(kept, i)
			}
		}
		first = append(first, len(kept))
	}
	for _, column := range append(x.rowColumns(), x.Group) {
		Gather(column, column, kept) // kept[i] >= i: no value is read after it was overwritten
	}
	all := x.rows(0, len(kept))
	all.Shape, all.Group, all.First, all.MaxRows = x.Shape, x.Group[:len(kept)], first, x.MaxRows
	return all
}
