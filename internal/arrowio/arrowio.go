// Package arrowio pulls columns of one relation out of Postgres into Arrow.
//
// A binary COPY is decoded straight into column slices of exactly the planned length, and those slices
// become Arrow Float64 arrays without a copy. Values are sent in their native types. Their conversion here
// is total: every value becomes a number or NaN, and nothing else about it can be observed.
//
// Privacy: a record has exactly Request.Rows rows, and replacing one row of the relation, which stays in
// the window or out of it, replaces at most one row of the record (for any fixed outcome of the draw that
// selects rows of a longer relation). Errors that wrap a *pgconn.PgError may quote values, in the server's
// text: never show it to an analyst.
package arrowio

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// SQLType is the key under which a field's metadata holds the column's SQL type; for a domain that is its
// base type.
const SQLType = "sql_type"

// ErrUnsupportedType marks a column whose type has no conversion to numbers. The text
// names the column, its type and the supported types: schema, never a value.
var ErrUnsupportedType = errors.New("arrowio: unsupported column type")

// Querier is a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// levelCount is the metadata key for the number of levels of a category whose rows are used. filters is the
// metadata key of a column that only decides whether a row is used.
const (
	levelCount = "levels"
	filters    = "filters"
)

// Request is a pull of some columns of one relation.
type Request struct {
	Relation pgx.Identifier      // schema and name
	Columns  []string            // at least one, as the catalogue spells them
	Filters  int                 // how many of them, the last ones, are categories that only decide whether a row is used
	Levels   map[string][]string // of the columns that are categories: public, in order
	Only     map[string][]string // levels whose rows are used, if not all are; rows of other levels are left out
	Rows     int64               // N, public: Count on the same snapshot, or registered; of more rows a random subset is pulled
	Where    *Window             // nil: all rows

	Make func(n int) []float64 // allocates a column of n zeros; nil: in memory
}

// Window is the set of rows whose day in a column, in UTC, is From or later and before To. A row in which
// it is NULL or infinite is in no window. Days are compared by the system's own operators with literals of
// the column's type, so no other code runs and no setting of the session changes the set.
type Window struct {
	Column   string
	Type     string // date, or timestamp with or without time zone, as format_type spells it
	From, To string // days, YYYY-MM-DD
}

// windowLiterals are format strings for a day as a literal of a type.
var windowLiterals = map[string]string{
	"date":                        "'%s'::pg_catalog.date",
	"timestamp without time zone": "'%s 00:00:00'::pg_catalog.timestamp",
	"timestamp with time zone":    "'%s 00:00:00+00'::pg_catalog.timestamptz",
}

var dayForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)

// where returns a window's condition; empty for all rows.
func (w *Window) where() string {
	if w == nil {
		return ""
	}
	literal, known := windowLiterals[w.Type]
	if !known || !dayForm.MatchString(w.From) || !dayForm.MatchString(w.To) {
		panic(fmt.Sprintf("arrowio: no window: %+v", *w))
	}
	return fmt.Sprintf(" WHERE %s OPERATOR(pg_catalog.>=) "+literal+" AND %[1]s OPERATOR(pg_catalog.<) "+strings.Replace(literal, "%s", "%[3]s", 1),
		pgx.Identifier{w.Column}.Sanitize(), w.From, w.To)
}

// counting returns the levels of a category whose rows are used.
func (r Request) counting(column string) []string {
	if only, ok := r.Only[column]; ok {
		return only
	}
	return r.Levels[column]
}

// Lock locks a relation, and for a view the relations that it reads, against every change of their
// definitions until conn's transaction ends. It only parses a query: no part of a view's definition runs,
// not even constant expressions that the planner would evaluate, so the definition can be checked before it
// runs. Children and partitions are locked when they are read.
func Lock(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier) error {
	if conn.PgConn().TxStatus() == 'I' {
		panic("arrowio: Lock outside a transaction")
	}
	name := relation.Sanitize()
	if _, err := conn.PgConn().Prepare(ctx, "", "SELECT FROM "+name, nil); err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}

// Count returns N, the number of rows of a relation on q's snapshot, or of those in a window.
func Count(ctx context.Context, q Querier, relation pgx.Identifier, window *Window) (int64, error) {
	var n int64
	name := relation.Sanitize()
	if err := q.QueryRow(ctx, "SELECT pg_catalog.count(*) FROM "+name+window.where()).Scan(&n); err != nil {
		return 0, fmt.Errorf("count %s: %w", name, err)
	}
	return n, nil
}

// Describe returns the schema of Pull's record, which does not depend on Rows. It scans no row, so a
// request can be refused before it is charged.
//
// Errors: ErrUnsupportedType; the server's when a name does not exist or may not be read.
func Describe(ctx context.Context, conn *pgx.Conn, req Request) (*arrow.Schema, error) {
	types, err := columnTypes(ctx, conn, req)
	if err != nil {
		return nil, err
	}
	return schema(req, types), nil
}

// Pull returns Columns of Relation as a record of float64 arrays without nulls, exactly Rows long: a
// missing value is NaN, fewer rows are padded with rows of NaN, and of more rows a uniformly random subset
// is kept. TypeNames describes the conversion of values. A value of a category becomes the index of its
// level among the levels that are used, from 0, or NaN. The order of the rows is that of the server's scan,
// which depends on the data: permute them before splitting them by position.
//
// conn must be inside the REPEATABLE READ transaction that counted Rows, and should be tuned. When ctx ends
// or the stream is malformed, conn is closed.
//
// Memory: 8 bytes a value, and buffers for one row in transfer: a few kilobytes, or up to 72 KiB for each
// numeric in it.
//
// Privacy: no error, and nothing else except running time, depends on a value in a column. An expression in
// a view may raise an error in the server; whoever admits a view has to make sure that it does not.
//
// Errors: ErrUnsupportedType; ErrStream; ctx's; the server's.
func Pull(ctx context.Context, conn *pgx.Conn, req Request, src *mech.Source) (arrow.Record, error) {
	if conn.PgConn().TxStatus() == 'I' {
		panic("arrowio: Pull outside the transaction that counted the rows")
	}
	types, err := columnTypes(ctx, conn, req)
	if err != nil {
		return nil, err
	}
	kept := newReservoir(len(types), req.Rows, req.Make, src)
	if err := copyOut(ctx, conn, req, types, newDecoder(types, kept.add)); err != nil {
		return nil, fmt.Errorf("copy %s: %w", req.Relation.Sanitize(), err)
	}
	kept.pad()
	return record(schema(req, types), kept.columns), nil
}

// Data returns a record as the data of a regression: the first column is the target, the others are the
// features, in which a category becomes one column for every level but the first. by names a category whose
// levels divide the rows into groups; empty for none. A row that a filter leaves out gets a missing target.
// Nothing else is copied, and the result may be overwritten: do not use the record afterwards. numbers
// allocates columns, as Request.Make does.
func Data(rec arrow.Record, intercept bool, by string, numbers func(n int) []float64) table.Data {
	var columns [][]float64
	var group []float64
	groups := 0
	for j := range int(rec.NumCols()) {
		field, values := rec.Schema().Field(j), rec.Column(j).(*array.Float64).Float64Values()
		levels, category := levelsOf(field)
		switch {
		case field.Metadata.FindKey(filters) >= 0:
			leaveOut(columns[0], values)
		case field.Name == by:
			group, groups = values, levels
		case category && j > 0:
			columns = append(columns, dummies(values, levels, numbers)...)
		default:
			columns = append(columns, values)
		}
	}
	shape := table.Shape{N: int(rec.NumRows()), D: len(columns) - 1, Intercept: intercept}
	if intercept {
		shape.D++
	}
	shape.GroupCount = groups
	return table.Data{Shape: shape, X: columns[1:], Y: columns[0], Group: group, Make: numbers}
}

// Positions returns a record as Data does, but without a constant and with each category as one column of
// the indices of levels. If a category named by only has no value in a row, because its level is not used,
// all values of the row are missing.
func Positions(rec arrow.Record, only map[string][]string) table.Data {
	var columns [][]float64
	for j := range int(rec.NumCols()) {
		if rec.Schema().Field(j).Metadata.FindKey(filters) < 0 {
			columns = append(columns, rec.Column(j).(*array.Float64).Float64Values())
		}
	}
	for j, field := range rec.Schema().Fields() {
		if _, tells := only[field.Name]; tells {
			for _, column := range columns {
				leaveOut(column, rec.Column(j).(*array.Float64).Float64Values())
			}
		}
	}
	return table.Data{Shape: table.Shape{N: int(rec.NumRows()), D: len(columns) - 1}, X: columns[1:], Y: columns[0]}
}

// names returns the columns' names quoted for SQL. They are unqualified, so that they can only name
// columns: t.f could also call a function f on a row of t.
func (r Request) names() []string {
	if len(r.Columns) == 0 {
		panic("arrowio: a request without columns")
	}
	names := make([]string, len(r.Columns))
	for j, c := range r.Columns {
		names[j] = pgx.Identifier{c}.Sanitize()
	}
	return names
}

// from returns the SELECT statement for the given expressions.
func (r Request) from(expressions []string) string {
	return "SELECT " + strings.Join(expressions, ", ") + " FROM " + r.Relation.Sanitize() + r.Where.where()
}

// expressions returns the expressions that a pull selects: the columns without their domains, except that a
// text is cut after more characters than every level has bytes (the server cannot send a row of more than a
// gigabyte, and would raise an error) and that of an enum it is the place among the labels.
func (r Request) expressions(types []columnType) []string {
	expressions := r.names()
	for j, t := range types {
		switch {
		case t.category != nil && t.category.text:
			expressions[j] = t.category.cut(expressions[j])
		case t.name == enumKind.name:
			expressions[j] = t.category.placeAmongLabels(expressions[j])
		default:
			expressions[j] = underDomain(expressions[j], t.name)
		}
	}
	return expressions
}

// underDomain returns SQL for a column as a value of its type, where that is a domain of the type below it. The
// coordinator of Citus reads what a worker sends as the type that the column has, and would check the
// constraints of a domain: they could be functions of the owner's, which would run as this role, and raise an
// error on a value. A cast to the type that a column has is nothing.
func underDomain(column, typeName string) string {
	return column + "::pg_catalog." + castNames[typeName]
}

// castNames are the names in pg_catalog of all types that a column may have.
var castNames = map[string]string{
	"boolean": "bool", "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4", "double precision": "float8", "numeric": "numeric",
	"date": "date", "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz",
	"text": "text", "character varying": "varchar", "character": "bpchar", "bytea": "bytea", "uuid": "uuid",
}

// columnTypes runs a request without its rows. The server then checks names and privileges and reports
// types, for a domain its base type, but scans nothing.
func columnTypes(ctx context.Context, conn *pgx.Conn, req Request) ([]columnType, error) {
	all := req
	all.Where = nil
	rows := conn.PgConn().ExecParams(ctx, all.from(req.names())+" WHERE false", nil, nil, nil, nil)
	rows.NextRow()
	fields := slices.Clone(rows.FieldDescriptions())
	if _, err := rows.Close(); err != nil {
		return nil, fmt.Errorf("describe %s: %w", req.Relation.Sanitize(), err)
	}
	types := make([]columnType, len(fields))
	for j, f := range fields {
		var ok bool
		if levels, category := req.Levels[req.Columns[j]]; category {
			var err error
			if types[j], err = categoryType(ctx, conn, req.Columns[j], f.DataTypeOID, levels, req.counting(req.Columns[j])); err != nil {
				return nil, err
			}
		} else if types[j], ok = supportedTypes[f.DataTypeOID]; !ok {
			return nil, unsupportedType(ctx, conn, req.Columns[j], f.DataTypeOID)
		}
	}
	return types, nil
}

// unsupportedType is the error for a column of the type with this OID.
func unsupportedType(ctx context.Context, conn *pgx.Conn, column string, oid uint32) error {
	var name string
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.format_type($1, NULL)", oid).Scan(&name); err != nil {
		return fmt.Errorf("name the type of column %q: %w", column, err)
	}
	return fmt.Errorf("%w: column %q has type %s; supported are %s",
		ErrUnsupportedType, column, name, strings.Join(TypeNames(), ", "))
}

// copyOut passes the relation's binary COPY stream to the decoder.
func copyOut(ctx context.Context, conn *pgx.Conn, req Request, types []columnType, d *decoder) error {
	return copyQuery(ctx, conn, req.from(req.expressions(types)), d)
}

// copyQuery passes the binary COPY stream of a query to the decoder.
func copyQuery(ctx context.Context, conn *pgx.Conn, query string, d *decoder) error {
	if _, err := conn.PgConn().CopyTo(ctx, d, "COPY ("+query+") TO STDOUT (FORMAT binary)"); err != nil {
		return err
	}
	return d.close()
}

func schema(req Request, types []columnType) *arrow.Schema {
	fields := make([]arrow.Field, len(types))
	for j, t := range types {
		about := map[string]string{SQLType: t.name}
		if t.category != nil {
			about[levelCount] = strconv.Itoa(len(req.counting(req.Columns[j])))
		}
		if j >= len(types)-req.Filters {
			about[filters] = ""
		}
		fields[j] = arrow.Field{Name: req.Columns[j], Type: arrow.PrimitiveTypes.Float64, Metadata: arrow.MetadataFrom(about)}
	}
	return arrow.NewSchema(fields, nil)
}

// levelsOf returns the number of levels of a category's field. ok reports whether the field is a category.
func levelsOf(f arrow.Field) (levels int, ok bool) {
	text, ok := f.Metadata.GetValue(levelCount)
	if ok {
		levels, _ = strconv.Atoi(text) // in the format of schema
	}
	return levels, ok
}

// record wraps columns of equal length without copying them.
func record(schema *arrow.Schema, columns [][]float64) arrow.Record {
	n := len(columns[0])
	arrays := make([]arrow.Array, len(columns))
	for j, c := range columns {
		values := memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(c))
		data := array.NewData(arrow.PrimitiveTypes.Float64, n, []*memory.Buffer{nil, values}, nil, 0, 0)
		arrays[j] = array.NewFloat64Data(data)
	}
	return array.NewRecord(schema, arrays, int64(n))
}
