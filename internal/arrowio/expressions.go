package arrowio

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Elsewhere is the same request of another relation, in which some columns have another name.
func (r Request) Elsewhere(relation pgx.Identifier, names map[string]string) Request {
	there := func(column string) string {
		if name, ok := names[column]; ok {
			return name
		}
		return column
	}
	levels := func(of map[string][]string) map[string][]string {
		renamed := make(map[string][]string, len(of))
		for column, list := range of {
			renamed[there(column)] = list
		}
		return renamed
	}
	columns := make([]string, len(r.Columns))
	for j, column := range r.Columns {
		columns[j] = there(column)
	}
	r.Relation, r.Columns, r.Levels, r.Only = relation, columns, levels(r.Levels), levels(r.Only)
	if r.Where != nil {
		window := *r.Where
		window.Column = there(window.Column)
		r.Where = &window
	}
	return r
}

// Expressions returns what Pull would read as SQL, for a database that adds up rows where they
// are: from is what follows FROM, and columns[j] an expression of type float8 for column j of
// the request, filters left out. Where Pull has NaN the expression is NULL, NaN or infinite, and in rows
// that a filter leaves out the target is. It has the very number that Pull has,
// but for a timestamp far from 1970, which is within one unit in the last place.
//
// Privacy: no expression raises an error, whatever the row holds: everything that a cast could
// refuse is sorted out before it (proof: TestExpressionsAreWhatPullReads, on what is awkward in each type). A
// filter is part of an expression and no condition, so that no index finds the rows it leaves, whose counters
// would tell how many there are. All functions, operators and collations are the system's own, by their full names.
//
// Errors: as Describe. It scans no row.
func Expressions(ctx context.Context, conn *pgx.Conn, req Request) (from string, columns []string, err error) {
	types, err := columnTypes(ctx, conn, req)
	if err != nil {
		return "", nil, err
	}
	names := req.names()
	for j, t := range types[:len(types)-req.Filters] {
		columns = append(columns, t.expression(names[j]))
	}
	var kept []string
	for j := len(columns); j < len(types); j++ {
		kept = append(kept, types[j].expression(names[j])+" IS NOT NULL")
	}
	if len(kept) > 0 {
		columns[0] = "CASE WHEN " + strings.Join(kept, " AND ") + " THEN " + columns[0] + " END"
	}
	from, err = req.source(ctx, conn)
	return from, columns, err
}

// computes tells whether reading a relation calls functions, of a view that is not the system's own, or asks
// another server for rows.
const computes = `WITH RECURSIVE read(oid) AS (
		SELECT pg_catalog.to_regclass($1)::pg_catalog.oid
		UNION
		SELECT below.oid
		  FROM read, LATERAL (
			SELECT d.refobjid FROM pg_catalog.pg_rewrite w, pg_catalog.pg_depend d
			 WHERE w.ev_class OPERATOR(pg_catalog.=) read.oid AND d.objid OPERATOR(pg_catalog.=) w.oid
			   AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
			UNION ALL
			SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent OPERATOR(pg_catalog.=) read.oid) AS below(oid))
	SELECT EXISTS (SELECT FROM read, pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) read.oid AND c.relkind OPERATOR(pg_catalog.=) 'f'::pg_catalog."char")
	    OR EXISTS (SELECT FROM read, pg_catalog.pg_rewrite w, pg_catalog.pg_depend d
			WHERE w.ev_class OPERATOR(pg_catalog.=) read.oid AND d.objid OPERATOR(pg_catalog.=) w.oid
			  AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.refclassid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_class'::pg_catalog.regclass)`

// source is what follows FROM: the relation, or all its rows with each column computed once, where computing it is
// noticed. The server would write a view's functions into every place where a column is used, behind conditions
// on others, and hand a foreign table's server the conditions: the counters of both would tell how many rows meet them. It
// moves nothing across an OFFSET.
func (r Request) source(ctx context.Context, conn *pgx.Conn) (from string, err error) {
	from = r.Relation.Sanitize()
	var once bool
	if err := conn.QueryRow(ctx, computes, from).Scan(&once); err != nil {
		return "", fmt.Errorf("see what %s computes: %w", from, err)
	}
	from += r.Where.where()
	if once {
		from = "(SELECT " + strings.Join(slices.Compact(slices.Sorted(slices.Values(r.names()))), ", ") + " FROM " + from + " OFFSET 0) AS computed"
	}
	return from, nil
}

// expression is the number that a value becomes, or the position of its level, as SQL.
func (t columnType) expression(name string) string {
	if t.category != nil {
		return t.category.expression(t.name, name)
	}
	return strings.ReplaceAll(numberExpressions[t.name], "%", name)
}

// numberExpressions has % for the column, by type. Numerics beyond the range of float8 are sorted
// out first, and so are those that would be rounded to 0, which their cast refuses as well; 1.797693134862315807e308 and
// 2.4703282292062328e-324 are just inside.
var numberExpressions = map[string]string{
	"boolean":                     "%::pg_catalog.int4::pg_catalog.float8",
	"smallint":                    "%::pg_catalog.float8",
	"integer":                     "%::pg_catalog.float8",
	"bigint":                      "%::pg_catalog.float8",
	"real":                        "%::pg_catalog.float8",
	"double precision":            "%::pg_catalog.float8",
	"numeric":                     "CASE WHEN pg_catalog.abs(%::pg_catalog.numeric) OPERATOR(pg_catalog.<=) '1.797693134862315807e308'::pg_catalog.numeric THEN CASE WHEN pg_catalog.abs(%::pg_catalog.numeric) OPERATOR(pg_catalog.>=) '2.4703282292062328e-324'::pg_catalog.numeric THEN %::pg_catalog.float8 ELSE '0'::pg_catalog.float8 END END",
	"date":                        "CASE WHEN pg_catalog.isfinite(%::pg_catalog.date) THEN (%::pg_catalog.date OPERATOR(pg_catalog.-) '1970-01-01'::pg_catalog.date)::pg_catalog.float8 OPERATOR(pg_catalog.*) '86400'::pg_catalog.float8 END",
	"timestamp without time zone": "pg_catalog.date_part('epoch'::pg_catalog.text, %::pg_catalog.timestamp)",
	"timestamp with time zone":    "pg_catalog.date_part('epoch'::pg_catalog.text, %::pg_catalog.timestamptz)",
}

// levelExpressions are how a value of a type that can be a category is compared with its levels: as
// what, and how a level is written whose bytes travel. Text is compared by its bytes, and the blanks
// at the end of a character(n) go with its cast. An enum has no cast of the system's own that its
// owner could not replace, but concat takes any type's output.
var levelExpressions = map[string]struct {
	value, array string
	element      func(travels string) string
}{
	"text":              {`%::pg_catalog.text COLLATE pg_catalog."C"`, "text", quote},
	"character varying": {`%::pg_catalog.text COLLATE pg_catalog."C"`, "text", quote},
	"character":         {`%::pg_catalog.text COLLATE pg_catalog."C"`, "text", quote},
	"enum":              {`pg_catalog.concat(%) COLLATE pg_catalog."C"`, "text", quote},
	"boolean":           {"%::pg_catalog.bool", "bool", func(travels string) string { return strconv.FormatBool(travels != "\x00") }},
	"smallint":          {"%::pg_catalog.int2", "int2", integerText},
	"integer":           {"%::pg_catalog.int4", "int4", integerText},
	"bigint":            {"%::pg_catalog.int8", "int8", integerText},
}

// expression looks a value of a type up among the levels; what is none of them stands behind the last.
func (c *category) expression(kind, name string) string {
	as := levelExpressions[kind]
	var levels, positions []string
	for _, travels := range slices.Sorted(maps.Keys(c.positions)) {
		levels, positions = append(levels, as.element(travels)), append(positions, positionText(c.positions[travels]))
	}
	positions = append(positions, positionText(c.other))
	return fmt.Sprintf("CASE WHEN %s IS NOT NULL THEN ('{%s}'::pg_catalog.float8[])[COALESCE(pg_catalog.array_position(ARRAY[%s]::pg_catalog.%s[], %s), %d)] END",
		name, strings.Join(positions, ","), strings.Join(levels, ", "), as.array, strings.ReplaceAll(as.value, "%", name), len(positions))
}

// positionText is a position as an element of an array.
func positionText(p float64) string {
	if math.IsNaN(p) {
		return "NULL"
	}
	return strconv.Itoa(int(p))
}

// integerText is a number that travels in two, four or eight bytes.
func integerText(travels string) string {
	value := int64(int8(travels[0]))
	for _, b := range []byte(travels[1:]) {
		value = value<<8 | int64(b)
	}
	return strconv.FormatInt(value, 10)
}

// quote writes a text as a literal that means the same whatever standard_conforming_strings is.
func quote(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}
