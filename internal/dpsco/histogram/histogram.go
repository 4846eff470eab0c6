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

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
)

// Target stands for the target among columns.
const Target = -1

// Counts is a released histogram of one column, of its positions or sizes.
type Counts struct {
	bins     mech.Bins
	noisy    []float64
	sd, rows float64 // of the noise of a count; of the table
}

// Count releases the histogram of columns of x, or of Target, less their centres, one for each, or, where these are nil,
// of the binary logarithms of the sizes of their values. A record of several rows counts with its first. The histogram
// must pass mech.CheckHistogram.
//
// Privacy: that of one release by noise (proof: ../standardise.md).
func Count(x table.Data, bins mech.Bins, columns []int, centres []float64, noise mech.Mechanism, src *mech.Source) (counts []Counts) {
	seen := table.Parts[*mech.Histogram]{Total: mech.NewHistogram(bins, x.N, len(columns))}
	if x.Pushdown != nil {
		seen.Total = query(x.Pushdown, x.N, bins, columns, centres)
	} else {
		x.Pass(func() func(int, table.Data) {
			h, rows, ones, starts := seen.Fork(), table.NewColumns(len(columns), table.BlockRows), table.Repeat(1, table.BlockRows), make([]int, 0, table.BlockRows)
			return func(_ int, b table.Data) {
				starts = b.Starts(starts)
				given := table.Heads(rows, b.N)
				for k, column := range columns {
					writePositions(given[k], b, column, centreOf(centres, k), starts)
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
func query(x *table.Pushdown, n int, bins mech.Bins, columns []int, centres []float64) *mech.Histogram {
	edges := make([]float64, 2*bins.Half-1)
	for k := range edges {
		edges[k] = float64(k+1-bins.Half) * bins.Width
		if centres == nil {
			edges[k] = math.Exp2(edges[k])
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
	h := mech.NewHistogram(bins, n, len(columns))
	h.AddCounted(counts)
	return h
}
