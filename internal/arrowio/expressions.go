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

// Elsewhere returns the same request for another relation, in which some columns have other names.
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

// Expressions returns SQL for the values that Pull would read, for a database that sums rows where they
// are: from is the text after FROM, and columns[j] is an expression of type float8 for column j of the
// request, without the filters. It has the same value as in Pull, except that a timestamp far from 1970 may
// differ by one unit in the last place. If Pull has NaN the expression is NULL, NaN or infinite; so is the
// target in rows that a filter leaves out.
//
// Privacy: no expression raises an error for any row: values that a cast could refuse are excluded before
// it (proof: TestExpressionsAreWhatPullReads, on the difficult values of each type). A filter is part of an
// expression rather than a condition, so that no index is used for it, whose statistics would reveal the
// number of rows that pass it. All functions, operators and collations are the system's own, by their full
// names.
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
		kept = append(kept, types[j].expression(names[j]))
	}
	if len(kept) > 0 { // no CASE and no AND: every column of every row is computed, or statistics of the values that are stored out of line would count the rows that pass
		var missing []string
		for some := range slices.Chunk(kept, 100) { // a function has no more arguments
			missing = append(missing, "pg_catalog.num_nulls("+strings.Join(some, ", ")+")")
		}
		columns[0] = "(ARRAY[NULL::pg_catalog.float8, " + columns[0] + "])[CASE " + strings.Join(missing, " OPERATOR(pg_catalog.+) ") + " WHEN 0 THEN 2 ELSE 1 END]"
	}
	from, err = req.source(ctx, conn)
	return from, columns, err
}

// computes selects whether a view that is read uses objects other than relations, such as functions, that
// are not built in (pg_depend does not record built-in ones), or whether rows come from another server.
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

// source returns the text after FROM: the relation or, if computing its columns can be observed, a subquery
// of all its rows that computes each column once. Without it the server would copy a view's functions to
// every place where a column is used, behind conditions on other columns, and push conditions down to a
// foreign table's server: the statistics of either would reveal how many rows satisfy them. The planner
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

// expression returns SQL for the number that a value becomes, or for the index of its level.
func (t columnType) expression(name string) string {
	if t.category != nil {
		return t.category.expression(t.name, name)
	}
	return strings.ReplaceAll(numberExpressions[t.name], "%", name)
}

// numberExpressions holds an expression for each type, with % for the column. The cast of a numeric refuses
// values beyond the range of float8 and values that would be rounded to 0, so these are excluded first;
// 1.797693134862315807e308 and 2.4703282292062328e-324 are just inside the range. A number that is stored out of line is fetched
// up to three times; numerics are only in rows longer than a page, unless their storage was changed.
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

// levelExpressions define for each type that can be a category how a value is compared with levels: the
// expression of the value, the element type of the array of levels, and the SQL of a level in its binary
// form. Text is compared by its bytes, and the cast of character(n) removes trailing blanks. Enums are not
// among them: placeAmongLabels compares these.
var levelExpressions = map[string]struct {
	value, array string
	element      func(travels string) string
}{
	"text":              {`% COLLATE pg_catalog."C"`, "text", quote},
	"character varying": {`% COLLATE pg_catalog."C"`, "text", quote},
	"character":         {`% COLLATE pg_catalog."C"`, "text", quote},
	"boolean":           {"%::pg_catalog.bool", "bool", func(travels string) string { return strconv.FormatBool(travels != "\x00") }},
	"smallint":          {"%::pg_catalog.int2", "int2", integerText},
	"integer":           {"%::pg_catalog.int4", "int4", integerText},
	"bigint":            {"%::pg_catalog.int8", "int8", integerText},
}

// expression returns SQL that looks a value up among the levels; a value that is not a level has the index
// after the last.
func (c *category) expression(kind, name string) string {
	var levels, positions []string
	if c.labels != nil {
		for i := range c.labels {
			positions = append(positions, positionText(c.position([]byte(place(1+i)))))
		}
		return fmt.Sprintf("('{%s}'::pg_catalog.float8[])[%s]", strings.Join(append(positions, "NULL", positionText(c.other)), ","), c.placeAmongLabels(name))
	}
	as := levelExpressions[kind]
	for _, travels := range slices.Sorted(maps.Keys(c.positions)) {
		levels, positions = append(levels, as.element(travels)), append(positions, positionText(c.positions[travels]))
	}
	value := name
	if c.text {
		value = c.cut(name)
	}
	return fmt.Sprintf("('{%s}'::pg_catalog.float8[])[%s]", strings.Join(append(positions, "NULL", positionText(c.other)), ","),
		placeIn(fmt.Sprintf("ARRAY[%s]::pg_catalog.%s[]", strings.Join(append(levels, "NULL"), ", "), as.array), len(levels), strings.ReplaceAll(as.value, "%", value)))
}

// placeAmongLabels returns SQL for the place of a value among the labels of its enum, from 1; NULL and any other value come
// after them. The type is that of the column without its domains, and has no name here: its schema may be closed to the
// session, unless rows are on nodes of Citus, which are asked by names (dp_int.closed_to_nodes). The labels become numbers
// when the statement is read, before any row is.
func (c *category) placeAmongLabels(name string) string {
	var labels []string
	for _, label := range c.labels {
		labels = append(labels, quote(label))
	}
	labels = append(labels, "CASE WHEN false THEN "+name+" END") // NULL, of the column's type
	return placeIn("ARRAY["+strings.Join(labels, ", ")+"]", len(c.labels), "COALESCE("+name+", NULL)")
}

// placeIn returns SQL for the place of a value in an array of some values and a NULL after them, or after both. NULL is looked
// up like a value: array_position reads the catalogue when it first compares something, and statistics would tell whether
// there is any value.
func placeIn(array string, values int, value string) string {
	return fmt.Sprintf("COALESCE(pg_catalog.array_position(%s, %s), %d)", array, value, values+2)
}

// positionText formats an index as an element of an SQL array.
func positionText(p float64) string {
	if math.IsNaN(p) {
		return "NULL"
	}
	return strconv.Itoa(int(p))
}

// integerText formats an integer from its binary form of two, four or eight bytes.
func integerText(travels string) string {
	value := int64(int8(travels[0]))
	for _, b := range []byte(travels[1:]) {
		value = value<<8 | int64(b)
	}
	return strconv.FormatInt(value, 10)
}

// quote returns a text as a literal that does not depend on standard_conforming_strings.
func quote(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}
