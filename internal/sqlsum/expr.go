// Package sqlsum defines sums over rows that a database can compute: each row contributes integers of
// bounded length, and only sums of these leave the database.
//
// A Pass is built of expressions of a row and public numbers. It can be run as one SQL statement or in Go;
// tests compare the two.
//
// Privacy: for any expressions, the integers that one row contributes to a Vector have length at most
// Steps, and it falls into at most one bin of each Bins. No row makes the statement fail: every expression
// has a range that excludes overflow, underflow and division by zero (proof: sqlsum.md).
package sqlsum

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Expr is a number that follows from a row and public numbers alone.
type Expr struct{ *node }

// node is an operation on other nodes. Nodes are shared: one that is used several times is computed once.
type node struct {
	args []*node
	sql  func(args []string) string
	eval func(args []float64) float64
	span
	column *column // set for a leaf that reads a column of the row
	leaf   bool    // its SQL is as short as a name, so that it never becomes a column of a subquery
}

// span is the range of a number: its absolute value is from least to most or, if zero is set, 0.
type span struct {
	least, most    float64
	zero, negative bool // whether it may be 0, or below 0
}

// Bounds of absolute values, so far within the range of floating point that rounding cannot leave that
// range.
const (
	smallestSize = 0x1p-1000
	largestSize  = 0x1p1000
)

// rounded bounds, with a margin, the factor by which rounding may enlarge or reduce a number.
const rounded = 1 + 0x1p-40

// check widens a span by rounding errors. It panics unless all numbers of the result are within the bounds
// above.
func (s span) check() span {
	s.least, s.most = s.least/rounded, s.most*rounded
	if !(s.least >= smallestSize && s.most <= largestSize && s.least <= s.most) {
		panic(fmt.Sprintf("sqlsum: numbers from %g to %g", s.least, s.most))
	}
	return s
}

// positive reports whether the number is always above 0.
func (s span) positive() bool { return !s.zero && !s.negative }

// operation returns an expression of others; pattern has a %s for each argument.
func operation(pattern string, eval func(v []float64) float64, s span, args ...Expr) Expr {
	n := &node{eval: eval, span: s.check()}
	for _, a := range args {
		n.args = append(n.args, a.node)
	}
	n.sql = func(args []string) string {
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a
		}
		return fmt.Sprintf(pattern, values...)
	}
	return Expr{n}
}

// Bounds of the absolute value of a public number other than 0.
const (
	minNumber = 0x1p-60
	maxNumber = 0x1p60
)

// Number is a public number. It is 0 if v is NaN or |v| is below 2^-60; |v| is limited to 2^60.
func Number(v float64) Expr {
	if size := math.Abs(v); !(size >= minNumber) {
		v = 0
	} else if size > maxNumber {
		v = math.Copysign(maxNumber, v)
	}
	return constant(v)
}

// constant is a number of any absolute value.
func constant(v float64) Expr {
	s := span{least: 1, most: 1, zero: true}
	if v != 0 {
		s = span{least: math.Abs(v), most: math.Abs(v), negative: v < 0}
	}
	text := literal(v)
	return Expr{&node{sql: func([]string) string { return text }, eval: func([]float64) float64 { return v }, span: s.check(), leaf: true}}
}

// Bound is a public number above 0, clamped to [2^-60, 2^60].
func Bound(v float64) Expr {
	if !(v >= minNumber) {
		v = minNumber
	}
	return Number(v)
}

// literal formats a number for SQL, exact to the last bit.
func literal(v float64) string {
	return "'" + strconv.FormatFloat(v, 'g', -1, 64) + "'::pg_catalog.float8"
}

// Add is the sum of terms, from left to right; 0 without terms. Terms that are always 0 are left out.
func Add(terms ...Expr) Expr {
	terms = slices.DeleteFunc(slices.Clone(terms), func(t Expr) bool {
		v, number := t.number()
		return number && v == 0
	})
	if len(terms) == 0 {
		return Number(0)
	}
	if len(terms) == 1 {
		return terms[0]
	}
	s := span{least: math.Inf(1), zero: true}
	for _, t := range terms {
		s.least, s.most = min(s.least, t.least), s.most+t.most
		s.negative, s.zero = s.negative || t.negative, s.zero && t.zero
	}
	if s.negative {
		// Numbers with absolute values of at least least are multiples of 2^-53 least. So are exact partial
		// sums, and rounding takes these to multiples of larger powers of 2.
		s.least, s.zero = s.least*0x1p-54, true
	}
	return operation("("+strings.Repeat("%s + ", len(terms)-1)+"%s)", func(v []float64) float64 {
		sum := v[0]
		for _, t := range v[1:] {
			sum += t
		}
		return sum
	}, s, terms...)
}

// Sub is a - b.
func Sub(a, b Expr) Expr {
	s := span{least: min(a.least, b.least) * 0x1p-54, most: a.most + b.most, zero: true, negative: true}
	return operation("(%s - %s)", func(v []float64) float64 { return v[0] - v[1] }, s, a, b)
}

// Mul is the product of two expressions. A factor that is always 0 or 1 is simplified.
func Mul(a, b Expr) Expr {
	for _, pair := range [][2]Expr{{a, b}, {b, a}} {
		switch v, number := pair[0].number(); {
		case number && v == 0:
			return Number(0)
		case number && v == 1:
			return pair[1]
		}
	}
	s := span{least: a.least * b.least, most: a.most * b.most, zero: a.zero || b.zero, negative: a.negative || b.negative}
	if a.node == b.node {
		s.negative = false
	}
	return operation("(%s * %s)", func(v []float64) float64 { return v[0] * v[1] }, s, a, b)
}

// number returns the value of an expression that is a Number.
func (e Expr) number() (v float64, ok bool) {
	if !e.leaf || e.column != nil {
		return 0, false
	}
	return e.eval(nil), true
}

// Square is a times itself.
func Square(a Expr) Expr { return Mul(a, a) }

// Div is a divided by b. b must be above 0.
func Div(a, b Expr) Expr {
	if !b.positive() {
		panic("sqlsum: a division by what may be 0")
	}
	s := span{least: a.least / b.most, most: a.most / b.least, zero: a.zero, negative: a.negative}
	return operation("(%s / %s)", func(v []float64) float64 { return v[0] / v[1] }, s, a, b)
}

// Sqrt is the square root of a, which must not be below 0.
func Sqrt(a Expr) Expr {
	if a.negative {
		panic("sqlsum: a root of what may be below 0")
	}
	s := span{least: math.Sqrt(a.least), most: math.Sqrt(a.most), zero: a.zero}
	return operation("pg_catalog.sqrt(%s)", func(v []float64) float64 { return math.Sqrt(v[0]) }, s, a)
}

// Abs is the absolute value of a.
func Abs(a Expr) Expr {
	s := a.span
	s.negative = false
	return operation("pg_catalog.abs(%s)", func(v []float64) float64 { return math.Abs(v[0]) }, s, a)
}

// Min is the smaller of two expressions.
func Min(a, b Expr) Expr {
	s := either(a, b)
	if !a.negative && !b.negative {
		s.most = max(s.least, min(a.most, b.most))
	}
	return operation("LEAST(%s, %s)", func(v []float64) float64 { return min(v[0], v[1]) }, s, a, b)
}

// Max is the larger of two expressions.
func Max(a, b Expr) Expr {
	s := either(a, b)
	s.negative = a.negative && b.negative
	if a.positive() || b.positive() {
		s.zero = false
		for _, e := range []Expr{a, b} {
			if e.positive() {
				s.least = min(s.most, max(s.least, e.least))
			}
		}
	}
	return operation("GREATEST(%s, %s)", func(v []float64) float64 { return max(v[0], v[1]) }, s, a, b)
}

// either returns the span of an expression that has the value of a or of b.
func either(a, b Expr) span {
	return span{least: min(a.least, b.least), most: max(a.most, b.most), zero: a.zero || b.zero, negative: a.negative || b.negative}
}

// Clamp limits a to [-limit, limit]; limit is converted as by Bound.
func Clamp(a Expr, limit float64) Expr {
	high := Bound(limit)
	s := span{least: min(a.least, high.least), most: high.most, zero: a.zero, negative: a.negative}
	v := high.eval(nil)
	return operation("GREATEST("+literal(-v)+", LEAST("+literal(v)+", %s))", func(x []float64) float64 { return max(-v, min(v, x[0])) }, s, a)
}

// Snap is a or, if |a| is below least, 0.
func Snap(a Expr, least float64) Expr {
	s := a.span
	s.least, s.zero = max(s.least, least), true
	s.most = max(s.most, s.least)
	return operation("CASE WHEN pg_catalog.abs(%s) >= "+literal(least)+" THEN %s ELSE '0'::pg_catalog.float8 END", func(v []float64) float64 {
		if math.Abs(v[0]) >= least {
			return v[0]
		}
		return 0
	}, s, a).twice()
}

// twice marks an operation whose SQL contains each of its arguments several times.
func (e Expr) twice() Expr {
	e.args = append(e.args, e.args...)
	return e
}

// IfBelow is x if a < b, otherwise y.
func IfBelow(a, b, x, y Expr) Expr {
	return operation("CASE WHEN %s < %s THEN %s ELSE %s END", func(v []float64) float64 {
		if v[0] < v[1] {
			return v[2]
		}
		return v[3]
	}, either(x, y), a, b, x, y)
}

// maxExponent limits the absolute value of the argument of Exp.
const maxExponent = 100

// Exp is e^a, with a clamped to [-100, 100].
func Exp(a Expr) Expr {
	s := span{least: math.Exp(-maxExponent), most: math.Exp(maxExponent)}
	return operation("pg_catalog.exp(%s)", func(v []float64) float64 { return math.Exp(v[0]) }, s, Clamp(a, maxExponent))
}

// column is a raw column of a row, as it is passed to the statement.
type column struct {
	index    int
	low, top float64 // a row with a value outside of [low, top] is left out
	labels   labels
}

// labels are the two values that a column may have; are is false for a column without labels.
type labels struct {
	are                bool
	negative, positive float64
}

// admits reports whether a row with this value is included.
func (c column) admits(v float64) bool {
	return v >= c.low && v <= c.top && (!c.labels.are || v == c.labels.negative || v == c.labels.positive)
}

// condition returns admits as an SQL condition.
func (c column) condition(name string) string {
	if c.labels.are {
		return fmt.Sprintf("(%s = %s OR %[1]s = %[3]s)", name, literal(c.labels.negative), literal(c.labels.positive))
	}
	return fmt.Sprintf("%s BETWEEN %s AND %s", name, literal(c.low), literal(c.top))
}

// Bounds of the absolute value of a column in scaled units, other than 0.
const (
	minColumn = 0x1p-60
	maxColumn = 0x1p60
)

// raw returns the node of a column of the row, in its own units and of any absolute value.
func raw(c column) *node {
	return &node{column: &c, leaf: true, span: span{least: smallestSize * 2, most: 0x1p999, zero: true, negative: true}}
}

// Scales and centres have absolute values of at most maxScale, and scales are at least minScale.
const (
	minScale = 0x1p-500
	maxScale = 0x1p500
)

// Column is raw column j, minus a public centre, divided by a public scale above 0. A row is left out if
// its value is missing, NaN, infinite or more than 2^60 scales from the centre. A centre closer than 2^-30
// scales to 0 is replaced by 0; without a centre, so is a value closer than 2^-60 scales to 0. The scale is
// clamped to [2^-500, 2^500], and the absolute value of the centre is limited to 2^500.
func Column(j int, centre, scale float64) Expr {
	scale, centre = inScales(scale), max(-maxScale, min(centre, maxScale))
	if math.Abs(centre) < 0x1p-30*scale {
		centre = 0
	}
	reach := maxColumn * scale
	from := raw(column{index: j, low: centre - reach, top: centre + reach})
	s := span{least: minColumn * 0x1p-30, most: 2 * maxColumn, zero: true, negative: true}
	inverse := 1 / scale
	n := &node{args: []*node{from, from}, span: s.check()}
	if centre != 0 {
		n.sql = func(args []string) string {
			return "((" + args[0] + " - " + literal(centre) + ") * " + literal(inverse) + ")"
		}
		n.eval = func(v []float64) float64 { return (v[0] - centre) * inverse }
		return Expr{n}
	}
	least := minColumn * scale
	n.sql = func(args []string) string {
		return "CASE WHEN pg_catalog.abs(" + args[0] + ") >= " + literal(least) + " THEN " + args[0] + " * " + literal(inverse) + " ELSE '0'::pg_catalog.float8 END"
	}
	n.eval = func(v []float64) float64 {
		if math.Abs(v[0]) >= least {
			return v[0] * inverse
		}
		return 0
	}
	return Expr{n}
}

// inScales clamps a scale to the supported range.
func inScales(scale float64) float64 { return max(minScale, min(scale, maxScale)) }

// Is is 1 if raw column j, the index of a category's level, from 0, equals level, otherwise 0. A row in
// which it is missing is left out.
func Is(j, level int) Expr {
	return indicator(column{index: j, low: 0, top: maxLevels}, float64(level))
}

// maxLevels bounds the number of levels of a category.
const maxLevels = 1 << 16

// Label is 1 if raw column j equals positive, 0 if it equals negative; a row with any other value is left
// out.
func Label(j int, negative, positive float64) Expr {
	return indicator(column{index: j, low: -math.MaxFloat64, top: math.MaxFloat64, labels: labels{true, negative, positive}}, positive)
}

// indicator is 1 if a column equals at, otherwise 0.
func indicator(c column, at float64) Expr {
	n := &node{args: []*node{raw(c)}, span: span{least: 1, most: 1, zero: true}.check()}
	n.sql = func(args []string) string {
		return "CASE WHEN " + args[0] + " = " + literal(at) + " THEN '1'::pg_catalog.float8 ELSE '0'::pg_catalog.float8 END"
	}
	n.eval = func(v []float64) float64 {
		if v[0] == at {
			return 1
		}
		return 0
	}
	return Expr{n}
}

// Count is raw column j divided by a public scale above 0; below 2^-60 scales it is 0. A row is left out if
// the value is not between 0 and 2^60 scales.
func Count(j int, scale float64) Expr {
	e := Column(j, 0, scale)
	e.args[0].column.low, e.negative = 0, false
	return e
}

// Positive is raw column j divided by a public scale above 0. A row is left out if the result is not
// between 2^-60 and 2^60. The scale is clamped as in Column.
func Positive(j int, scale float64) Expr {
	scale = inScales(scale)
	inverse := 1 / scale
	n := &node{args: []*node{raw(column{index: j, low: minColumn * scale, top: maxColumn * scale})}, span: span{least: minColumn / 2, most: 2 * maxColumn}.check()}
	n.sql = func(args []string) string { return "(" + args[0] + " * " + literal(inverse) + ")" }
	n.eval = func(v []float64) float64 { return v[0] * inverse }
	return Expr{n}
}
