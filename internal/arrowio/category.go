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

// enumKind is the kind of all enum types: a value is sent as its label.
var enumKind = categoryKind{"enum", 0, encodeText}

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
	c := &category{positions: make(map[string]float64, len(levels)), other: math.NaN(), longest: k.size, text: k.size == 0 && k.name != enumKind.name}
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

// categoryType returns the type of a column that is a category.
//
// Errors: ErrUnsupportedType, also if a level is not a value of the type.
func categoryType(ctx context.Context, conn *pgx.Conn, column string, oid uint32, levels, counting []string) (columnType, error) {
	kind, ok := categoryKinds[oid]
	if !ok {
		if err := conn.QueryRow(ctx, "SELECT typtype = 'e' FROM pg_catalog.pg_type WHERE oid = $1", oid).Scan(&ok); err != nil {
			return columnType{}, fmt.Errorf("kind of the type of column %q: %w", column, err)
		}
		kind = enumKind
	}
	if !ok {
		return columnType{}, fmt.Errorf("%w: column %q cannot be a category", ErrUnsupportedType, column)
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
