package sqlsum

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Vector is the contribution of every row to a sum. It is shortened to Bound if it is longer, scaled so
// that Bound has Steps steps, and rounded to integers, whose length is at most Steps (Lemma 1 of
// sqlsum.md).
type Vector struct {
	Of    []Expr
	Bound float64 // in the units of Of; clamped to [2^-60, 2^60]
	Steps int64   // at most 2^40
}

// Bins counts rows by intervals of Of: below the first edge, between consecutive edges, and from the last
// edge on.
type Bins struct {
	Of    Expr
	Edges []float64 // increasing
}

// Pass lists the sums of one pass over the rows.
type Pass struct {
	Sums    []Vector // for each Vector, the sums of its coordinates
	Moments []Vector // for each Vector, the sums of the products of coordinates i <= j, row by row of the upper triangle
	Counts  []Bins
}

// Totals are the sums of a Pass over all rows, in its order: of Sums in steps, of Moments in squares of
// steps, and of Counts the number of rows in each bin.
type Totals struct {
	Sums, Moments, Counts [][]int64
}

// Empty returns the totals of no rows.
func (p Pass) Empty() (t Totals) {
	for _, v := range p.Sums {
		t.Sums = append(t.Sums, make([]int64, len(v.Of)))
	}
	for _, v := range p.Moments {
		t.Moments = append(t.Moments, make([]int64, len(v.Of)*(len(v.Of)+1)/2))
	}
	for _, b := range p.Counts {
		t.Counts = append(t.Counts, make([]int64, len(b.Edges)+1))
	}
	return t
}

// MaxColumns is the number of columns that a statement of Postgres can return.
const MaxColumns = 1600

// An answer is one text, which Postgres limits to LongestAnswer bytes; an integer of it, with what separates it from the next,
// takes LongestInteger at most while the table has fewer than four times the rows that were charged.
const (
	LongestAnswer  = 1<<30 - 1
	LongestInteger = 21
)

// Columns returns the number of columns of the statement: the group, its number of rows, and the sums.
func (p Pass) Columns() int {
	n := 2
	for _, v := range p.Sums {
		n += len(v.Of)
	}
	for _, v := range p.Moments {
		n += len(v.Of) * (len(v.Of) + 1) / 2
	}
	return n
}

// ErrAnswer marks an answer that the statement cannot return.
var ErrAnswer = errors.New("sqlsum: not what the statement returns")

// Totals adds up the rows of answers of the statement. Answers for disjoint parts of the table may be
// concatenated. What exceeds an int64 is cut, whatever the order of rows, first of integers above 0 and then of
// those below: so one row of the table changes the totals by no more than its own integers.
//
// Errors: ErrAnswer.
func (p Pass) Totals(answer [][]int64) (Totals, error) {
	t := p.Empty()
	groups := int64(1)
	for _, b := range p.Counts {
		groups *= int64(len(b.Edges) + 1)
	}
	for _, row := range answer {
		if len(row) != p.Columns() || row[0] < 0 || row[0] >= groups || row[1] < 0 {
			return Totals{}, ErrAnswer
		}
	}
	for _, sign := range []int64{1, -1} {
		for _, row := range answer {
			t.add(row, sign)
		}
	}
	return t, nil
}

// add adds the integers of a sign of one row of an answer.
func (t Totals) add(row []int64, sign int64) {
	group := row[0]
	for k, counts := range slices.Backward(t.Counts) {
		addCut(&counts[group%int64(len(counts))], row[1], sign)
		group /= int64(len(t.Counts[k]))
	}
	rest := row[2:]
	for _, sums := range slices.Concat(t.Sums, t.Moments) {
		for j := range sums {
			addCut(&sums[j], rest[j], sign)
		}
		rest = rest[len(sums):]
	}
}

// addCut adds v to a total if it has the sign, and cuts the result to an int64.
func addCut(total *int64, v, sign int64) {
	switch {
	case v > 0 != (sign > 0):
	case v > 0 && *total > math.MaxInt64-v:
		*total = math.MaxInt64
	case v < 0 && *total < math.MinInt64-v:
		*total = math.MinInt64
	default:
		*total += v
	}
}

// steps returns the integers of a Vector: its coordinates times one common factor, rounded to the nearest.
func (v Vector) steps() []Expr {
	squares := make([]Expr, len(v.Of))
	for j, e := range v.Of {
		squares[j] = Square(e)
	}
	square := Add(squares...)
	factor := Div(constant(v.cut()), Max(Bound(v.Bound), Sqrt(square)))
	steps := make([]Expr, len(v.Of))
	for j, e := range v.Of {
		steps[j] = rounding(Mul(e, factor))
	}
	return steps
}

// cut is the bound of the vector's length in steps before rounding. Rounding errors of the factor and of
// the products stay below 2^-30 of it, and rounding to integers adds at most 1/2 to each coordinate.
func (v Vector) cut() float64 {
	cut := float64(v.Steps)*(1-0x1p-30) - math.Ceil(math.Sqrt(float64(len(v.Of))))
	if !(v.Steps <= 1<<40 && cut > 0) {
		panic(fmt.Sprintf("sqlsum: a vector of %d coordinates in %d steps", len(v.Of), v.Steps))
	}
	return cut
}

// rounding is a rounded to the nearest integer, ties to even. The result is at most 2^41 in absolute value.
func rounding(a Expr) Expr {
	s := span{least: 1, most: 0x1p41, zero: true, negative: true}
	return operation("(%s)::pg_catalog.int8", func(v []float64) float64 { return math.RoundToEven(v[0]) }, s, a)
}
