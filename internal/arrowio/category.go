package arrowio

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// OtherLevel is the level of every value that is not NULL and equals no other level.
const OtherLevel = "*"

// category maps values to public levels. Nothing else about a value can be observed, however long it is.
type category struct {
	labels    []string           // all labels of an enum, whose values are sent as their place among these, from 1; nil for other types
	positions map[string]float64 // indices of levels, by their binary form; NaN for a level that is not used
	other     float64            // the result for a value that is not a level: the index of OtherLevel, or NaN
	longest   int                // bytes of the longest level
	text      bool               // a value may have any length
}

// position returns the index of a value's level, or NaN. It is defined for all bytes.
func (c *category) position(b []byte) float64 {
	if p, ok := c.positions[string(b)]; ok {
		return p
	}
	return c.other
}

// cut returns SQL for the beginning of a text: all of it unless it is longer than every level, and then enough
// to be longer than these. Before that the cast of character(n) removes the blanks at the end of a value.
//
// A value that is stored out of line is fetched once, whatever it is: the server's statistics count every fetch
// (pg_stat_all_tables of the TOAST table), and would tell how many rows have a level if only texts of some
// lengths, or some comparisons, fetched it.
func (c *category) cut(name string) string {
	return fmt.Sprintf("pg_catalog.substr(%s::pg_catalog.text, 1, %d)", name, c.longest+1)
}

// categoryKind describes the binary form of the values of a type that can be a category.
type categoryKind struct {
	name   string
	size   int // bytes of every value; 0: variable
	encode func(level string) ([]byte, error)
}

var categoryKinds = map[uint32]categoryKind{
	pgtype.TextOID:    {"text", 0, encodeText},
	pgtype.VarcharOID: {"character varying", 0, encodeText},
	pgtype.BPCharOID:  {"character", 0, encodeText},
	pgtype.BoolOID:    {"boolean", 1, encodeBoolean},
	pgtype.Int2OID:    {"smallint", 2, encodeInteger(2)},
	pgtype.Int4OID:    {"integer", 4, encodeInteger(4)},
	pgtype.Int8OID:    {"bigint", 8, encodeInteger(8)},
}

// enumKind is the kind of all enum types. The server sends the place of a value among the labels: to write a label, each of
// its processes would first look it up in pg_enum, and the statistics of that table, which every login sees, would tell how
// many labels occur in the rows.
var enumKind = categoryKind{"enum", 4, encodeInteger(4)}

func encodeText(level string) ([]byte, error) { return []byte(level), nil }

func encodeBoolean(level string) ([]byte, error) {
	truth, err := strconv.ParseBool(level)
	if truth {
		return []byte{1}, err
	}
	return []byte{0}, err
}

func encodeInteger(size int) func(level string) ([]byte, error) {
	return func(level string) ([]byte, error) {
		v, err := strconv.ParseInt(level, 10, 8*size)
		return binary.BigEndian.AppendUint64(nil, uint64(v))[8-size:], err
	}
}

// columnType returns the type of a category of this kind with these levels, of which those in counting are
// used.
func (k categoryKind) columnType(levels, counting []string) (columnType, error) {
	c := &category{positions: make(map[string]float64, len(levels)), other: math.NaN(), longest: k.size, text: k.size == 0}
	for _, level := range levels {
		position := math.NaN()
		if i := slices.Index(counting, level); i >= 0 {
			position = float64(i)
		}
		if level == OtherLevel {
			c.other = position
			continue
		}
		b, err := k.encode(level)
		if err != nil {
			return columnType{}, err
		}
		c.positions[string(b)] = position
		c.longest = max(c.longest, len(b))
	}
	most := k.size
	if most == 0 {
		most = math.MaxInt32
	}
	return columnType{name: k.name, minSize: k.size, maxSize: most, value: c.position, category: c}, nil
}

// enumType returns the type of a category that is an enum with these labels. A level that is no label has no rows.
func enumType(labels, levels, counting []string) columnType {
	places := func(levels []string) (places []string) {
		for _, level := range levels {
			if level != OtherLevel {
				level = strconv.Itoa(1 + slices.Index(labels, level)) // 0, which is never sent, of no label
			}
			places = append(places, level)
		}
		return places
	}
	t, _ := enumKind.columnType(places(levels), places(counting)) // all are integers
	t.category.labels = labels
	t.category.positions[place(1+len(labels))] = math.NaN() // of NULL
	return t
}

// place returns the place of a value among the labels of an enum, or after them, as it is sent.
func place(i int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(i))) }

// categoryType returns the type of a column that is a category.
//
// Errors: ErrUnsupportedType, also if a level is not a value of the type.
func categoryType(ctx context.Context, conn *pgx.Conn, column string, oid uint32, levels, counting []string) (columnType, error) {
	kind, ok := categoryKinds[oid]
	if !ok {
		var labels []string
		if err := conn.QueryRow(ctx, `SELECT ARRAY(SELECT e.enumlabel::pg_catalog.text FROM pg_catalog.pg_enum e WHERE e.enumtypid OPERATOR(pg_catalog.=) y.oid ORDER BY e.enumsortorder), y.typtype OPERATOR(pg_catalog.=) 'e'
			FROM pg_catalog.pg_type y WHERE y.oid OPERATOR(pg_catalog.=) $1`, oid).Scan(&labels, &ok); err != nil {
			return columnType{}, fmt.Errorf("kind of the type of column %q: %w", column, err)
		}
		if !ok {
			return columnType{}, fmt.Errorf("%w: column %q cannot be a category", ErrUnsupportedType, column)
		}
		return enumType(labels, levels, counting), nil
	}
	t, err := kind.columnType(levels, counting)
	if err != nil {
		return columnType{}, fmt.Errorf("%w: a level of column %q is no %s", ErrUnsupportedType, column, kind.name)
	}
	return t, nil
}

// dummies returns a column for every level but the first: 1 in the rows of that level, 0 in rows of other
// levels, and NaN in rows without a level.
func dummies(positions []float64, levels int, numbers func(n int) []float64) [][]float64 {
	columns := makeColumns(levels-1, len(positions), numbers)
	for i, p := range positions {
		switch {
		case math.IsNaN(p):
			for _, c := range columns {
				c[i] = p
			}
		case p > 0:
			columns[int(p)-1][i] = 1
		}
	}
	return columns
}

// leaveOut sets the column, such as the target, to NaN in rows whose level in a filter is not used.
func leaveOut(column, positions []float64) {
	for i, p := range positions {
		if math.IsNaN(p) {
			column[i] = p
		}
	}
}
