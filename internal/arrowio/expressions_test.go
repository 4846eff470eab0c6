package arrowio_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/mech"
)

// hostile are settings and objects under which a name that is not the system's own, or a literal
// that depends on settings, would mean something else.
var hostile = []string{
	`CREATE FUNCTION public.wrong(float8, float8) RETURNS float8 LANGUAGE sql AS 'SELECT 13::float8'`,
	`CREATE FUNCTION public.never(float8, float8) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
	`CREATE OPERATOR public.- (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.wrong)`,
	`CREATE OPERATOR public.* (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.wrong)`,
	`CREATE OPERATOR public.>= (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.never)`,
	`CREATE OPERATOR public.<= (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.never)`,
	`CREATE FUNCTION public.abs(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 13::numeric'`,
	`CREATE FUNCTION public.isfinite(date) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
	`CREATE FUNCTION public.date_part(text, timestamp) RETURNS float8 LANGUAGE sql AS 'SELECT 13::float8'`,
	`CREATE COLLATION public."C" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
}

const hostileSession = `SET search_path = public, pg_catalog; SET standard_conforming_strings = off; SET backslash_quote = on; SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Pacific/Kiritimati';
	SET extra_float_digits = -15; SET client_min_messages = error`

// asRead returns by id what Pull reads of the first column, and what its expression is.
func asRead(t *testing.T, ctx context.Context, tx pgx.Tx, req arrowio.Request) (pulled, expressed map[float64]float64) {
	t.Helper()
	n, err := arrowio.Count(ctx, tx, req.Relation, req.Where)
	if err != nil {
		t.Fatal(err)
	}
	req.Rows = n
	rec, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	left := func(i int) bool { // out by a filter
		for j := 2; j < int(rec.NumCols()); j++ {
			if math.IsNaN(values(rec, j)[i]) {
				return true
			}
		}
		return false
	}
	pulled = map[float64]float64{}
	for i, id := range values(rec, 1) {
		if pulled[id] = values(rec, 0)[i]; left(i) {
			pulled[id] = math.NaN()
		}
	}
	from, columns, err := arrowio.Expressions(ctx, tx.Conn(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) != 2 {
		t.Fatalf("%d columns", len(columns))
	}
	rows, err := tx.Query(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+from)
	if err != nil {
		t.Fatal(err)
	}
	expressed = map[float64]float64{}
	var value *float64
	var id float64
	_, err = pgx.ForEachRow(rows, []any{&value, &id}, func() error {
		expressed[id] = math.NaN()
		if value != nil && !math.IsInf(*value, 0) {
			expressed[id] = *value
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, columns[0])
	}
	return pulled, expressed
}

// agree compares what was pulled and what was expressed: no number of the one is more than so many units in
// the last place from that of the other.
func agree(t *testing.T, pulled, expressed map[float64]float64, units int) {
	t.Helper()
	if len(pulled) != len(expressed) || len(pulled) == 0 {
		t.Fatalf("%d rows are pulled, %d expressed", len(pulled), len(expressed))
	}
	for id, want := range pulled {
		got, near := expressed[id], expressed[id]
		for range units {
			near = math.Nextafter(near, want)
		}
		if near != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("row %v: %v, pulled is %v", id, got, want)
		}
	}
}

// randomFloats are numbers of any bits, as text.
func randomFloats(n int) (texts []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		texts = append(texts, strconv.FormatFloat(math.Float64frombits(r.Uint64()), 'g', -1, 64))
	}
	return texts
}

// An expression is the number that Pull reads, for awkward values of every type, in a table, through a
// domain and whatever the session's settings and search path are; and it raises no error. Where a
// time is more than 2^53 microseconds from 1970, the two round differently: by a unit in the last place, which is a microsecond or less until the year 6000. That
// harms nothing: a row's number follows from the row alone either way.
func TestExpressionsAreWhatPullReads(t *testing.T) {
	ctx, tx := begin(t, hostile...)
	if _, err := tx.Conn().PgConn().Exec(ctx, hostileSession).ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, c := range awkward {
		units := 0
		if strings.HasPrefix(c.sql, "timestamp") {
			units = 1
		}
		literals := append(slices.Clone(c.literals), "0", "1")[:len(c.literals)]
		if c.sql == "double precision" {
			literals = append(literals, randomFloats(3000)...)
		}
		if c.sql == "numeric" {
			literals = append(literals, "0."+strings.Repeat("7", 1000), strings.Repeat("8", 300)+"."+strings.Repeat("8", 700), "1.797693134862315807e308", "-1.797693134862315808e308")
		}
		for _, kind := range []string{"table of " + c.sql, "domain of " + c.sql} {
			relation := pgx.Identifier{"public", kind}.Sanitize()
			sql := c.sql
			if strings.HasPrefix(kind, "domain") {
				sql = fmt.Sprintf("%q", "type "+c.sql)
				if _, err := tx.Exec(ctx, "CREATE DOMAIN "+sql+" AS "+c.sql); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Exec(ctx, "CREATE TABLE "+relation+" (id, v) AS SELECT n - 1, l::"+sql+" FROM unnest($1::text[] || NULL::text) WITH ORDINALITY AS rows(l, n)", literals); err != nil {
				t.Fatal(err)
			}
			pulled, expressed := asRead(t, ctx, tx, arrowio.Request{Relation: pgx.Identifier{"public", kind}, Columns: []string{"v", "id"}})
			agree(t, pulled, expressed, units)
		}
	}
}

// The longest numerics, whose cast takes most and could raise most, are sorted out or rounded as Pull does.
func TestExpressionsOfTheLongestNumerics(t *testing.T) {
	ctx, tx := begin(t, `CREATE TABLE t AS SELECT row_number() OVER () AS id, v FROM (VALUES
		((repeat('9', 131072) || '.' || repeat('9', 16383))::numeric), (-(repeat('9', 131072) || '.' || repeat('9', 16383))::numeric), (1e-16383), (-1e-16383),
		(1 + 1e-16383), (('0.' || repeat('9', 16383))::numeric), (-1e308 - 1e-16383), ('NaN'), ('Infinity'), ('-Infinity'), (NULL)) AS rows(v)`)
	pulled, expressed := asRead(t, ctx, tx, arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"v", "id"}})
	agree(t, pulled, expressed, 0)
}

// The expression of a category is the position that Pull reads: compared byte by byte under any
// collation, longer than every level, padded, of a domain, an enum whose cast to text its owner has replaced, with levels that do
// not count or that read like SQL; and a filter takes the target away.
func TestExpressionsOfCategories(t *testing.T) {
	odd := []string{`it's`, `\`, `a\'b`, `{a,"b"}`, "süd", "su\u0308d", "", " ", "$1 %s", "NULL", strings.Repeat("é", 40)}
	ctx, tx := begin(t, append(slices.Clone(hostile),
		`CREATE TYPE public.color AS ENUM ('red', 'it''s', 'süd')`,
		`CREATE FUNCTION public.lie(public.color) RETURNS text LANGUAGE sql AS 'SELECT 1/0::text::int'`,
		`CREATE CAST (public.color AS text) WITH FUNCTION public.lie(public.color) AS IMPLICIT`,
		`CREATE DOMAIN public.shade AS public.color`, `CREATE DOMAIN public.word AS text COLLATE public."C"`, `CREATE DOMAIN public.code AS int2`,
		`CREATE TABLE t (id int, a text COLLATE public."C", b varchar, c char(9), d public.color, e public.shade, f public.word, g boolean, h int2, i int4, j int8, k public.code, l text)`)...)
	if _, err := tx.Conn().PgConn().Exec(ctx, hostileSession).ReadAll(); err != nil {
		t.Fatal(err)
	}
	texts := append(slices.Clone(odd), "SÜD", "IT'S", "su", "süd ", "a", "*", strings.Repeat("é", 41), strings.Repeat("x", 100_000), strings.Repeat(" ", 100_000))
	_, err := tx.Exec(ctx, `INSERT INTO t SELECT n, v, v, CASE WHEN length(v) < 10 THEN v END, (ARRAY['red', 'it''s', 'süd', NULL])[n % 4 + 1]::public.color,
		(ARRAY['red', 'it''s', 'süd', NULL])[n % 4 + 1]::public.color::public.shade, v, (ARRAY[true, false, NULL])[n % 3 + 1], (ARRAY[-32768, 32767, 0, NULL])[n % 4 + 1],
		(ARRAY[-2147483648, 2147483647, 0, NULL])[n % 4 + 1], (ARRAY[-9223372036854775808, 9223372036854775807, 0, NULL])[n % 4 + 1], n % 3, (ARRAY['in', 'out', 'it''s', NULL])[n % 4 + 1]
		FROM unnest($1::text[] || NULL::text) WITH ORDINALITY AS rows(v, n)`, texts)
	if err != nil {
		t.Fatal(err)
	}
	for column, levels := range map[string][]string{
		"a": odd, "b": odd, "c": {"it's", "süd", "", `\`}, "d": {"red", "süd", "it's"}, "e": {"red", "süd"}, "f": odd, "g": {"true", "false"},
		"h": {"-32768", "32767"}, "i": {"-2147483648", "0"}, "j": {"9223372036854775807", "-9223372036854775808"}, "k": {"1", "2"},
	} {
		for _, all := range [][]string{levels, append(slices.Clone(levels), "*"), append([]string{"*"}, levels...)} {
			for _, only := range []map[string][]string{nil, {column: all[1:]}, {column: all[:1]}, {"l": {"it's", "in"}}} {
				req := arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{column, "id"}, Levels: map[string][]string{column: all}, Only: only}
				if only["l"] != nil {
					req.Columns, req.Filters, req.Levels["l"] = append(req.Columns, "l"), 1, []string{"in", "out", "it's"}
				}
				pulled, expressed := asRead(t, ctx, tx, req)
				agree(t, pulled, expressed, 0)
			}
		}
	}
}

// The rows of an expression's relation are those of the window, and a filter's level is in no condition.
func TestExpressionsHaveTheWindow(t *testing.T) {
	ctx, tx := begin(t, `CREATE TABLE t AS SELECT i AS id, i::float8 AS v, date '2026-01-01' + i AS day, (i % 2)::text AS half FROM generate_series(1, 1000) i`)
	req := arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"v", "id", "half"}, Filters: 1, Where: &arrowio.Window{Column: "day", Type: "date", From: "2026-02-01", To: "2026-02-11"},
		Levels: map[string][]string{"half": {"0", "1"}}, Only: map[string][]string{"half": {"1"}}}
	pulled, expressed := asRead(t, ctx, tx, req)
	if agree(t, pulled, expressed, 0); len(pulled) != 10 {
		t.Errorf("%d rows", len(pulled))
	}
	if from, _, err := arrowio.Expressions(ctx, tx.Conn(), req); err != nil || strings.Contains(from, "half") {
		t.Errorf("%s, %v", from, err)
	}
}

// A request that Pull refuses has no expressions.
func TestExpressionsRefuseWhatPullRefuses(t *testing.T) {
	ctx, tx := begin(t, `CREATE TABLE t (a money, b text)`)
	for _, column := range []string{"a", "b"} {
		if _, _, err := arrowio.Expressions(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{column}}); err == nil {
			t.Errorf("column %s has an expression", column)
		}
	}
}
