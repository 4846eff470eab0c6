// Package table holds the rows of a fit by columns, and passes over them in blocks, on all cores. A row belongs to a
// record, which is what one person contributes.
//
// Its rows are sensitive: nothing here releases anything.
//
// Files:
//
//	table           shapes, and designs stored by columns
//	block           passes over the rows in blocks
//	parts           what the visitors of a pass fill
//	records         records of one row or of several
//	groups          rows by groups
//	weights         weights, offsets and exposures of rows
//	columns         columns of numbers
//	pushdown        rows that stay in a database, which computes the sums of a pass
package table

// Shape holds the public facts about a design before it is read: N records and D coefficients. With
// Intercept the first coefficient is that of a constant 1 that Data does not store. With groups
// there are D coefficients for each group.
type Shape struct {
	N, D       int
	Intercept  bool
	GroupCount int // 0: one fit of all rows
}

// Columns returns the number of stored feature columns.
func (s Shape) Columns() int {
	if s.Intercept {
		return s.D - 1
	}
	return s.D
}

// Data is a design stored by columns: X holds Shape.Columns() slices with one value per row, Y the
// target. A missing value is NaN. In fits it makes its row unusable: the row contributes nothing to
// sums and histograms and still counts in N. Group is the group of a row, from 0; any other number
// means no group. Offset is added to the row's prediction, Weight multiplies its contribution
// (proof: ../weights.md). Every row is one person's record, or rows First[u] to First[u+1]-1 are the
// record of person u, with 1 to MaxRows rows (../records.md). A run owns the slices and may overwrite
// them.
type Data struct {
	Shape
	X      [][]float64
	Y      []float64
	Group  []float64 // nil without groups
	Offset []float64 // nil: none
	Weight []float64 // as read, or in [0, 1] once scaled by the largest allowed; nil: every row has weight 1

	Exposure []float64 // of counts, as read; a scaled fit converts exposures to offsets; nil: none
	First    []int     // N + 1 indices; nil: every row is a record
	MaxRows  int       // public; 0 if every row is a record

	Make func(n int) []float64 // allocates further columns, of n numbers; nil: in memory

	Pushdown *Pushdown // the rows, if they stay in a database; the columns are nil then; nil: in memory
}

// NewColumn allocates a column of n numbers, all 0.
func (x Data) NewColumn(n int) []float64 {
	if x.Make == nil {
		return make([]float64, n)
	}
	return x.Make(n)
}
