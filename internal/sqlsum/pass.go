package sqlsum

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Vector is what every row gives to a sum. It is shortened to Bound where it is longer, counted
// in steps of which Bound has Steps, and rounded, so that its integers are at most Steps long
// (Lemma 1 of sqlsum.md).
type Vector struct {
	Of    []Expr
	Bound float64 // in the units of Of; one below 2^-60 counts as that, and one above 2^60 as that
	Steps int64   // 2^40 at most
}

// Bins are where rows are counted: below the first edge, between two, and at the last or beyond.
type Bins struct {
	Of    Expr
	Edges []float64 // rising
}

// Pass is what one pass over the rows adds up.
type Pass struct {
	Sums    []Vector // of a Vector the sum of its coordinates
	Moments []Vector // of a Vector the sums of the products of coordinates i <= j, row by row of the upper triangle
	Counts  []Bins
}

// Totals are the sums of a Pass over all rows, in its order: those of Sums in steps, of Moments
// in squares of steps, and for each of Counts how many rows are in each bin.
type Totals struct {
	Sums, Moments, Counts [][]int64
}

// Empty are the totals of no rows.
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

// MostColumns is the most that a statement of Postgres can return.
const MostColumns = 1600

// Columns is how many the statement returns: the group, how many rows it has, and the sums.
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

// ErrAnswer marks an answer that is none of the statement's.
var ErrAnswer = errors.New("sqlsum: not what the statement returns")

// Totals adds up what the statement returned, one slice for each row of it: several answers, of
// disjoint parts of the rows, may follow one another.
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
		group := row[0]
		for k, counts := range slices.Backward(t.Counts) {
			counts[group%int64(len(counts))] += row[1]
			group /= int64(len(t.Counts[k]))
		}
		rest := row[2:]
		for _, sums := range slices.Concat(t.Sums, t.Moments) {
			for j := range sums {
				sums[j] += rest[j]
			}
			rest = rest[len(sums):]
		}
	}
	return t, nil
}

// steps are the integers of a Vector: its coordinates times one factor, the same for all, and
// rounded to the nearest.
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

// cut is how long integers are before they are rounded: rounding errors of the factor and of the
// products stay below 2^-30 of it, rounding adds half of 1 to each coordinate at most.
func (v Vector) cut() float64 {
	cut := float64(v.Steps)*(1-0x1p-30) - math.Ceil(math.Sqrt(float64(len(v.Of))))
	if !(v.Steps <= 1<<40 && cut > 0) {
		panic(fmt.Sprintf("sqlsum: a vector of %d coordinates in %d steps", len(v.Of), v.Steps))
	}
	return cut
}

// rounding is a as an integer, to the nearest, of two the even one. It is below 2^41 in size.
func rounding(a Expr) Expr {
	s := span{least: 1, most: 0x1p41, zero: true, negative: true}
	return operation("(%s)::pg_catalog.int8", func(v []float64) float64 { return math.RoundToEven(v[0]) }, s, a)
}
