// Package histogram releases histograms of single columns, and reads from them where values lie and how large they are.
//
// Files:
//
//	histogram           the release, of rows in memory or in a database
//	positions           where most values lie
//	sizes               how large most values are
package histogram

import (
	"math"
	"slices"
	"sort"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
)

// Target stands for the target among columns.
const Target = -1

// Bins are bins of positions, or of binary logarithms of sizes. The Far outermost ones on either side are wider, farPerOctave
// of them an octave, and the others have one width.
type Bins struct {
	mech.Bins
	Far int
}

// farPerOctave is the number of bins an octave beyond those of one width.
const farPerOctave = 16

// near is the distance from 0 up to which bins have one width.
func (b Bins) near() float64 { return float64(b.Half-b.Far) * b.Width }

// edges are the lower edges of all bins but the first, in ascending order.
func (b Bins) edges() []float64 {
	edges := make([]float64, 2*b.Half-1)
	for k := range edges {
		from := k + 1 - b.Half
		edges[k] = float64(from) * b.Width
		if beyond := max(from, -from) - (b.Half - b.Far); beyond > 0 {
			edges[k] = math.Copysign(b.near()*math.Exp2(float64(beyond)/farPerOctave), edges[k])
		}
	}
	return edges
}

// place returns the number in whose bin of one width a position counts: itself unless it is far. edges are those of the
// bins.
func (b Bins) place(v float64, edges []float64) float64 {
	if near := b.near(); -near <= v && v < near || math.IsNaN(v) || b.Far == 0 {
		return v
	}
	bin := sort.Search(len(edges), func(k int) bool { return edges[k] > v })
	return (float64(bin-b.Half) + .5) * b.Width
}

// Counts is a released histogram of one column, of its positions or sizes.
type Counts struct {
	bins     Bins
	noisy    []float64
	sd, rows float64 // of the noise of a count; of the table
}

// Count releases the histogram of columns of x, or of Target, less their centres, one for each, or, where these are nil,
// of the binary logarithms of the sizes of their values. A record of several rows counts with its first. The histogram
// must pass mech.CheckHistogram.
//
// Privacy: that of one release by noise (proof: ../standardise.md).
func Count(x table.Data, bins Bins, columns []int, centres []float64, noise mech.Mechanism, src *mech.Source) (counts []Counts) {
	seen, edges := table.Parts[*mech.Histogram]{Total: mech.NewHistogram(bins.Bins, x.N, len(columns))}, bins.edges()
	if x.Pushdown != nil {
		seen.Total = query(x.Pushdown, x.N, bins, edges, columns, centres)
	} else {
		x.Pass(func() func(int, table.Data) {
			h, rows, ones, starts := seen.Fork(), table.NewColumns(len(columns), table.BlockRows), table.Repeat(1, table.BlockRows), make([]int, 0, table.BlockRows)
			return func(_ int, b table.Data) {
				starts = b.Starts(starts)
				given := table.Heads(rows, b.N)
				for k, column := range columns {
					writePositions(given[k], b, column, centreOf(centres, k), starts)
					for u, v := range given[k] {
						given[k][u] = bins.place(v, edges)
					}
				}
				h.AddRows(mech.Rows{X: given}, ones[:b.N])
			}
		})
	}
	all := make([]float64, 2*bins.Half*len(columns))
	noise.Release(all, seen.Merged().Bounded(), src)
	for noisy := range slices.Chunk(all, 2*bins.Half) {
		counts = append(counts, Counts{bins, noisy, magnitude.CountStdDev(noise, len(columns), 1), float64(x.N)})
	}
	return counts
}

// centreOf returns the centre of column k; nil without centres.
func centreOf(centres []float64, k int) *float64 {
	if centres == nil {
		return nil
	}
	return &centres[k]
}

// writePositions writes what Count counts of a column: one number for each record, NaN unless the value is
// finite.
func writePositions(dst []float64, b table.Data, of int, centre *float64, starts []int) {
	column := b.Y
	if of != Target {
		column = b.X[of]
	}
	for u := range dst {
		i := u
		if starts != nil {
			i = starts[u]
		}
		v := column[i]
		if centre != nil {
			v -= *centre
		} else {
			v = float64(math.Ilogb(v))
		}
		dst[u] = v + 0*column[i]
	}
}

// query counts in the database, by one pass for each column, what Count counts.
func query(x *table.Pushdown, n int, bins Bins, edges []float64, columns []int, centres []float64) *mech.Histogram {
	if centres == nil {
		for k, edge := range edges {
			edges[k] = math.Exp2(edge)
		}
	}
	var counts []int64
	for k, column := range columns {
		v := x.Row.Y
		if column != Target {
			v = x.Row.X[column]
		}
		if centres == nil {
			v = sqlsum.Abs(v)
		} else if centres[k] != 0 {
			v = sqlsum.Sub(v, sqlsum.Number(centres[k]))
		}
		if column == Target && x.Row.Weight != (sqlsum.Expr{}) { // a row without a weight has no target
			v = sqlsum.IfBelow(sqlsum.Number(0), x.Row.Weight, v, sqlsum.Number(0))
		}
		counts = append(counts, x.Query(sqlsum.Pass{Counts: []sqlsum.Bins{{Of: v, Edges: edges}}}).Counts[0]...)
	}
	h := mech.NewHistogram(bins.Bins, n, len(columns))
	h.AddCounted(counts)
	return h
}
