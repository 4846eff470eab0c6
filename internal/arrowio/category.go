package arrowio

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// OtherLevel is the level of every value that is not NULL and no other level.
const OtherLevel = "*"

// category says which of some public levels a value is. Nothing else of the value can be
// observed, however long it is.
type category struct {
	positions map[string]float64 // of levels, by the bytes in which they travel; NaN of one that does not count
	other     float64            // what a value is that is none of them: the position of OtherLevel, or NaN
	longest   int                // bytes that the longest level has
	padded    bool               // blanks at the end of a value mean nothing
	text      bool               // a value may have any length
}

// position is total.
func (c *category) position(b []byte) float64 {
	if c.padded {
		b = bytes.TrimRight(b, " ")
	}
	if p, ok := c.positions[string(b)]; ok {
		return p
	}
	return c.other
}

func allBlank(b []byte) bool { return len(bytes.TrimRight(b, " ")) == 0 }

// categoryKind says how the values of a type that can be a category travel.
type categoryKind struct {
	name   string
	size   int // bytes of every value; 0: they vary
	padded bool
	encode func(level string) ([]byte, error)
}

var categoryKinds = map[uint32]categoryKind{
	pgtype.TextOID:    {"text", 0, false, encodeText},
	pgtype.VarcharOID: {"character varying", 0, false, encodeText},
	pgtype.BPCharOID:  {"character", 0, true, encodeText},
	pgtype.BoolOID:    {"boolean", 1, false, encodeBoolean},
	pgtype.Int2OID:    {"smallint", 2, false, encodeInteger(2)},
	pgtype.Int4OID:    {"integer", 4, false, encodeInteger(4)},
	pgtype.Int8OID:    {"bigint", 8, false, encodeInteger(8)},
}

// enumKind is that of all enum types: a value travels as its label.
var enumKind = categoryKind{"enum", 0, false, encodeText}

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

// columnType is that of a category of this kind with these levels, of which some count.
func (k categoryKind) columnType(levels, counting []string) (columnType, error) {
	c := &category{positions: make(map[string]float64, len(levels)), other: math.NaN(), longest: k.size, padded: k.padded, text: k.size == 0 && k.name != enumKind.name}
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
// Errors: ErrUnsupportedType, also where a level is no value of the type.
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

// dummies returns a column for every level but the first, 1 in the rows of that level and 0
// in others; NaN where a row is of no level.
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

// leaveOut takes the value of a column, as of the target, from rows whose level in a filter is none that counts.
func leaveOut(column, positions []float64) {
	for i, p := range positions {
		if math.IsNaN(p) {
			column[i] = p
		}
	}
}
