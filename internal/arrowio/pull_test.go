package arrowio_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/mech"
)

// begin returns a REPEATABLE READ transaction in a new database in which setup
// has been run.
func begin(t *testing.T, setup ...string) (context.Context, pgx.Tx) {
	t.Helper()
	ctx := t.Context()
	c := localpg.Postgres(t)
	database := c.Database(t)
	c.Exec(t, database, setup...)
	config, err := pgx.ParseConfig(c.SuperuserURL(database))
	if err != nil {
		t.Fatal(err)
	}
	arrowio.Tune(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, tx
}

// mustPull pulls columns of a relation with as many rows as it has.
func mustPull(t *testing.T, ctx context.Context, tx pgx.Tx, relation pgx.Identifier, columns ...string) arrow.Record {
	t.Helper()
	n, err := arrowio.Count(ctx, tx, relation, nil)
	if err != nil {
		t.Fatal(err)
	}
	return mustPullRows(t, ctx, tx, n, relation, columns...)
}

func mustPullRows(t *testing.T, ctx context.Context, tx pgx.Tx, n int64, relation pgx.Identifier, columns ...string) arrow.Record {
	t.Helper()
	rec, err := arrowio.Pull(ctx, tx.Conn(), arrowio.Request{Relation: relation, Columns: columns, Rows: n}, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	if rec.NumRows() != n || rec.NumCols() != int64(len(columns)) {
		t.Fatalf("%d rows of %d columns; want %d of %d", rec.NumRows(), rec.NumCols(), n, len(columns))
	}
	return rec
}

func values(rec arrow.Record, column int) []float64 {
	return rec.Column(column).(*array.Float64).Float64Values()
}

// parse reads Postgres' own text of a value as a float of 32 or 64 bits; what is
// no finite number is NaN.
func parse(text string, bits int) float64 {
	x, err := strconv.ParseFloat(text, bits)
	if err != nil || math.IsInf(x, 0) {
		return math.NaN()
	}
	return x
}

// randomNumerics are decimal numbers of up to 60 digits around the range of
// float64, its subnormals included.
func randomNumerics(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		digits := make([]byte, 1+r.IntN(60))
		for j := range digits {
			digits[j] = '0' + byte(r.IntN(10))
		}
		scale := []int{0, 10, 40, 340}[r.IntN(4)]
		texts[i] = fmt.Sprintf("%s%se%d", []string{"", "-"}[r.IntN(2)], digits, r.IntN(2*scale+1)-scale-r.IntN(len(digits)))
	}
	return texts
}

// randomTimes are moments within a few thousand years of 1970.
func randomTimes(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d.%06d",
			1+r.IntN(5000), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6))
	}
	return texts
}

// halfway is a numeric exactly between 1 and the next float64.
const halfway = "1.00000000000000011102230246251565404236316680908203125"

// How Postgres itself writes a number: as text, times by their epoch, which is a numeric and so exact.
const epoch, plain, truth = "extract(epoch FROM v)::text", "v::text", "v::int::text"

// awkward are values of every type, the least and the largest among them.
var awkward = []struct {
	sql, text string
	bits      int // of the float that tells all such texts apart
	literals  []string
}{
	{"smallint", plain, 64, []string{"0", "1", "-1", "32767", "-32768"}},
	{"integer", plain, 64, []string{"0", "1", "-1", "2147483647", "-2147483648"}},
	{"bigint", plain, 64, []string{"0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993", "-9007199254740995"}},
	{"real", plain, 32, []string{"0", "-0", "1.5", "3.4028235e38", "-3.4028235e38", "1.4e-45", "NaN", "Infinity", "-Infinity"}},
	{"double precision", plain, 64, []string{"0", "-0", "0.1", "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "NaN", "Infinity", "-Infinity"}},
	{"numeric", plain, 64, append(randomNumerics(3000),
		"0", "0.000", "-0.1", "0.1", "1e-20", "1e22", "1e23", "1e400", "-1e400", "1e-400", "1e131071", "1e-16383", "NaN", "Infinity", "-Infinity",
		"123456789012345678901234567890.123456789", "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740995", "9999999999999999",
		halfway, halfway+strings.Repeat("0", 2000)+"1", "1."+strings.Repeat("9", 5000), strings.Repeat("9", 309),
		"1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "2.2250738585072011e-308",
		"4.9406564584124654e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "7.4109846876186981e-324")},
	{"numeric(12,2)", plain, 64, []string{"0", "0.01", "-9999999999.99", "1234.50"}},
	{"boolean", truth, 64, []string{"true", "false"}},
	{"date", epoch, 64, []string{"1970-01-01", "2000-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity"}},
	{"timestamp", epoch, 64, append(randomTimes(3000), "1970-01-01", "1970-01-01 02:16:32.000001", "1999-12-31 23:59:59.999999", "2000-01-01 00:00:00.000001",
		"4713-01-01 BC", "294276-12-31 23:59:59.999999", "infinity", "-infinity")},
	{"timestamptz", epoch, 64, append(randomTimes(3000), "2024-02-29 12:00:00.5+05:45", "4713-01-02 BC", "294276-12-31 23:59:59.999999+00", "infinity", "-infinity")},
}

// TestPullAgreesWithPostgresText pulls values of every type and compares them
// with the text Postgres gives for the same rows.
func TestPullAgreesWithPostgresText(t *testing.T) {
	ctx, tx := begin(t)
	for _, c := range awkward {
		t.Run(c.sql, func(t *testing.T) {
			relation := pgx.Identifier{"public", c.sql}
			_, err := tx.Exec(ctx, "CREATE TABLE "+relation.Sanitize()+" (id, v) AS SELECT n - 1, l::"+c.sql+
				" FROM unnest($1::text[] || NULL::text) WITH ORDINALITY AS rows(l, n)", c.literals)
			if err != nil {
				t.Fatal(err)
			}
			rec := mustPull(t, ctx, tx, relation, "id", "v")
			rows, err := tx.Query(ctx, "SELECT coalesce("+c.text+", 'NULL') FROM "+relation.Sanitize()+" ORDER BY id")
			if err != nil {
				t.Fatal(err)
			}
			texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range values(rec, 0) {
				got, text := values(rec, 1)[i], texts[int(id)]
				want := parse(text, c.bits)
				if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%.80s: got %v, want %v", text, got, want)
				}
			}
		})
	}
}

// TestPullReadsTheLongestNumerics pulls rows of the most digits that Postgres
// holds on either side of the point, and of other values of unusual size.
func TestPullReadsTheLongestNumerics(t *testing.T) {
	const columns, longest = 50, "(repeat('9', 131072) || '.' || repeat('9', 16383))::numeric"
	ctx, tx := begin(t)
	var size int
	if err := tx.QueryRow(ctx, "SELECT length(numeric_send("+longest+"))").Scan(&size); err != nil || size != 8+2*36864 {
		t.Fatalf("the longest numeric has %d bytes, %v", size, err)
	}
	nan := math.NaN()
	for _, c := range []struct {
		sql  string
		want float64
	}{
		{longest, nan},
		{"-" + longest, nan},
		{"1e131071::numeric + 1e-16383", nan},
		{"repeat('9', 131072)::numeric", nan},
		{"1 + 1e-16383::numeric", 1},
		{"-1e308 - 1e-16383::numeric", -1e308},
		{halfway + " + 1e-16383::numeric", math.Nextafter(1, 2)},
		{halfway + " - 1e-16383::numeric", 1},
		{"('0.' || repeat('9', 16383))::numeric", 1},
		{"1e-16383::numeric", 0},
		{"'NaN'::numeric", nan},
		{"'Infinity'::numeric", nan},
		{"'-Infinity'::numeric", nan},
	} {
		value := "(" + c.sql + ") AS "
		names := make([]string, columns)
		for j := range names {
			names[j] = fmt.Sprintf("x%d", j)
		}
		view := "CREATE OR REPLACE VIEW v AS SELECT " + value + strings.Join(names, ", "+value) + " FROM generate_series(1, 5)"
		if _, err := tx.Exec(ctx, view); err != nil {
			t.Fatal(err)
		}
		rec := mustPull(t, ctx, tx, pgx.Identifier{"public", "v"}, names...)
		for j := range names {
			others := func(v float64) bool { return v != c.want && !(math.IsNaN(v) && math.IsNaN(c.want)) }
			if slices.ContainsFunc(values(rec, j), others) {
				t.Fatalf("%s: got %v in column %d, want %v", c.sql, values(rec, j), j, c.want)
			}
		}
	}
}

func TestPullReadsEveryKindOfRelation(t *testing.T) {
	ctx, tx := begin(t,
		`CREATE DOMAIN amount AS numeric(10,2) CHECK (VALUE > 0)`,
		`CREATE DOMAIN claim AS amount`,
		`CREATE TABLE base (y claim, x integer)`,
		`INSERT INTO base SELECT n, -n FROM generate_series(1, 100) AS rows(n)`,
		`CREATE TABLE partitioned (y claim, x integer) PARTITION BY RANGE (x)`,
		`CREATE TABLE low PARTITION OF partitioned FOR VALUES FROM (MINVALUE) TO (-50)`,
		`CREATE TABLE high (x integer, gone text, y claim)`, // another layout than its parent
		`ALTER TABLE high DROP COLUMN gone`,
		`ALTER TABLE partitioned ATTACH PARTITION high FOR VALUES FROM (-50) TO (MAXVALUE)`,
		`INSERT INTO partitioned SELECT * FROM base`,
		`CREATE TABLE parent (y claim, x integer)`,
		`CREATE TABLE child (z text) INHERITS (parent)`,
		`INSERT INTO parent SELECT * FROM base WHERE x < -30`,
		`INSERT INTO child SELECT *, 'z' FROM base WHERE x >= -30`,
		`CREATE MATERIALIZED VIEW materialized AS SELECT * FROM base`,
		`CREATE VIEW viewed AS SELECT y, x FROM base`,
		`CREATE SCHEMA "Odd ""schema"""`,
		`CREATE TABLE "Odd ""schema"""."Größe; DROP TABLE base --" AS SELECT y AS "Weird ""Name", x AS "select" FROM base`,
		`CREATE EXTENSION postgres_fdw`,
		`DO $$ BEGIN
		   EXECUTE format('CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
		     host(inet_server_addr()), inet_server_port(), current_database());
		 END $$`,
		`CREATE USER MAPPING FOR CURRENT_USER SERVER self OPTIONS (user '`+localpg.Superuser+`', password '`+localpg.Postgres(t).Password()+`')`,
		`CREATE FOREIGN TABLE "foreign" (y claim, x integer) SERVER self OPTIONS (schema_name 'public', table_name 'base')`,
	)
	for _, c := range []struct {
		relation pgx.Identifier
		columns  []string
	}{
		{pgx.Identifier{"public", "base"}, []string{"y", "x"}},
		{pgx.Identifier{"public", "partitioned"}, []string{"y", "x"}},
		{pgx.Identifier{"public", "parent"}, []string{"y", "x"}},
		{pgx.Identifier{"public", "materialized"}, []string{"y", "x"}},
		{pgx.Identifier{"public", "viewed"}, []string{"y", "x"}},
		{pgx.Identifier{"public", "foreign"}, []string{"y", "x"}},
		{pgx.Identifier{`Odd "schema"`, "Größe; DROP TABLE base --"}, []string{`Weird "Name`, "select"}},
	} {
		rec := mustPull(t, ctx, tx, c.relation, c.columns...)
		ys, xs := slices.Clone(values(rec, 0)), values(rec, 1)
		for i := range ys {
			if ys[i] != -xs[i] {
				t.Fatalf("%v: row %d is %v, %v", c.relation, i, ys[i], xs[i])
			}
		}
		slices.Sort(ys)
		if len(ys) != 100 || ys[0] != 1 || ys[99] != 100 {
			t.Errorf("%v: %v", c.relation, ys)
		}
		if sqlType, _ := rec.Schema().Field(0).Metadata.GetValue(arrowio.SQLType); sqlType != "numeric" || rec.ColumnName(0) != c.columns[0] {
			t.Errorf("%v: the schema is %v", c.relation, rec.Schema())
		}
	}
}

func TestPullReturnsExactlyTheRowsAskedFor(t *testing.T) {
	ctx, tx := begin(t, "CREATE TABLE t AS SELECT n AS y, n AS x FROM generate_series(1, 1000) AS rows(n)", "CREATE TABLE empty (y integer, x integer)")
	for _, c := range []struct {
		relation    string
		rows, found int64
	}{{"t", 1000, 1000}, {"t", 1500, 1000}, {"t", 300, 300}, {"t", 0, 0}, {"empty", 0, 0}, {"empty", 3, 0}} {
		rec := mustPullRows(t, ctx, tx, c.rows, pgx.Identifier{"public", c.relation}, "y", "x")
		seen := map[float64]bool{}
		for i, y := range values(rec, 0) {
			if x := values(rec, 1)[i]; math.IsNaN(y) != math.IsNaN(x) || !math.IsNaN(y) && x != y {
				t.Fatalf("%s: row %d is %v, %v", c.relation, i, y, x)
			}
			if !math.IsNaN(y) {
				seen[y] = true
			}
		}
		if int64(len(seen)) != c.found {
			t.Errorf("%d of %s: %d different rows, want %d", c.rows, c.relation, len(seen), c.found)
		}
	}
}

// TestPullReadsTheSnapshotThatCounted counts, lets another session insert, and pulls.
func TestPullReadsTheSnapshotThatCounted(t *testing.T) {
	ctx, tx := begin(t, "CREATE TABLE t AS SELECT n FROM generate_series(1, 10) AS rows(n)")
	n, err := arrowio.Count(ctx, tx, pgx.Identifier{"public", "t"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pgx.ConnectConfig(ctx, tx.Conn().Config())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(ctx)
	if _, err := other.Exec(ctx, "INSERT INTO t SELECT -n FROM generate_series(1, 1000) AS rows(n)"); err != nil {
		t.Fatal(err)
	}
	rec := mustPullRows(t, ctx, tx, n, pgx.Identifier{"public", "t"}, "n")
	if lowest := slices.Min(values(rec, 0)); n != 10 || lowest != 1 {
		t.Errorf("%d rows, lowest %v", n, lowest)
	}
}

// TestPullMemory bounds everything allocated during a pull, freed or not, and
// so its peak, also where two thirds of the rows are cut.
func TestPullMemory(t *testing.T) {
	ctx, tx := begin(t, "CREATE VIEW v AS SELECT n a, n::bigint b, n::float8 c, n::float8 d, n::numeric e FROM generate_series(1, 1000000) AS rows(n)")
	for _, rows := range []int64{1_000_000, 333_333} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rec := mustPullRows(t, ctx, tx, rows, pgx.Identifier{"public", "v"}, "a", "b", "c", "d", "e")
		runtime.ReadMemStats(&after)
		ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(8*rows*rec.NumCols())
		t.Logf("%d rows: %.4f of the column data", rows, ratio)
		if ratio > 1.3 {
			t.Errorf("%d rows: allocated %.2f times the column data", rows, ratio)
		}
	}
}

func TestUnsupportedTypesAreRefusedByName(t *testing.T) {
	ctx, tx := begin(t,
		`CREATE TYPE colour AS ENUM ('red')`,
		`CREATE DOMAIN word AS text`,
		`CREATE TABLE t (y integer, "a b" text, c word, d colour, e money, f integer[], g interval, h uuid, i jsonb, j oid, k "char", l time)`)
	for column, named := range map[string]string{
		"a b": "text", "c": "text", "d": "colour", "e": "money", "f": "integer[]", "g": "interval", "h": "uuid",
		"i": "jsonb", "j": "oid", "k": `"char"`, "l": "time without time zone", "ctid": "tid", "xmin": "xid",
	} {
		_, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y", column}})
		want := fmt.Sprintf("column %q has type %s; supported are bigint, boolean, date,", column, named)
		if !errors.Is(err, arrowio.ErrUnsupportedType) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", column, err)
		}
	}
	_, err := arrowio.Pull(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"a b"}}, nil)
	if !errors.Is(err, arrowio.ErrUnsupportedType) {
		t.Errorf("Pull: %v", err)
	}
	if schema, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y"}}); err != nil || schema.NumFields() != 1 {
		t.Errorf("after refusals: %v, %v", schema, err)
	}
}

func TestEveryNamedTypeIsSupported(t *testing.T) {
	var columns, definitions []string
	for _, name := range arrowio.TypeNames() {
		columns = append(columns, "the "+name)
		definitions = append(definitions, fmt.Sprintf("%q %s", "the "+name, name))
	}
	ctx, tx := begin(t, "CREATE TABLE t ("+strings.Join(definitions, ", ")+")")
	schema, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	for j, name := range arrowio.TypeNames() {
		if got, _ := schema.Field(j).Metadata.GetValue(arrowio.SQLType); got != name {
			t.Errorf("%s is described as %s", name, got)
		}
	}
}

// TestColumnNamesAreOnlyNames asks for what is no column: a function of the
// row, the row itself, an expression.
func TestColumnNamesAreOnlyNames(t *testing.T) {
	ctx, tx := begin(t, "CREATE TABLE t (y integer)", "CREATE FUNCTION f(t) RETURNS integer LANGUAGE sql AS 'SELECT 1'")
	for _, name := range []string{"f", "t", "y + 1", "*", "", "1"} {
		inner, err := tx.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := arrowio.Describe(ctx, inner.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{name}}); err == nil {
			t.Errorf("%q was accepted", name)
		}
		if err := inner.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDescribeChecksPrivilegesAndScansNothing has a column that the role may not
// read and a view that fails on its first row.
func TestDescribeChecksPrivilegesAndScansNothing(t *testing.T) {
	ctx, tx := begin(t, "CREATE TABLE t (y integer, x integer)", "CREATE VIEW v AS SELECT 1 / (n - n) AS q FROM generate_series(1, 9) AS rows(n)")
	if _, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"q"}}); err != nil {
		t.Error(err)
	}
	for _, statement := range []string{"CREATE ROLE arrowio_reader", "GRANT SELECT (y) ON t TO arrowio_reader", "SET LOCAL ROLE arrowio_reader"} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y"}}); err != nil {
		t.Error(err)
	}
	_, err := arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y", "x"}})
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42501" {
		t.Errorf("a column without SELECT: %v", err)
	}
}

func TestPullReportsTheServersError(t *testing.T) {
	ctx, tx := begin(t, "CREATE VIEW v AS SELECT 1 / (n - 500) AS q FROM generate_series(1, 1000) AS rows(n)")
	req := arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"q"}, Rows: 1000}
	rec, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource())
	if _, ok := errors.AsType[*pgconn.PgError](err); !ok || rec != nil {
		t.Errorf("%v, %v", rec, err)
	}
}

func TestPullEndsWithItsContext(t *testing.T) {
	ctx, tx := begin(t, "CREATE VIEW v AS SELECT pg_sleep(60)::text::integer AS q")
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	req := arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"q"}, Rows: 1}
	if _, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestPullNeedsATransaction(t *testing.T) {
	ctx, tx := begin(t)
	conn := tx.Conn()
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	arrowio.Pull(ctx, conn, arrowio.Request{Relation: pgx.Identifier{"pg_catalog", "pg_class"}, Columns: []string{"relpages"}}, nil)
}

func TestDataSharesTheRecordsMemory(t *testing.T) {
	ctx, tx := begin(t, "CREATE TABLE t AS SELECT n AS y, 2 * n AS a, 3 * n AS b FROM generate_series(1, 5) AS rows(n)")
	rec := mustPull(t, ctx, tx, pgx.Identifier{"public", "t"}, "y", "a", "b")
	for intercept, d := range map[bool]int{false: 2, true: 3} {
		data := arrowio.Data(rec, intercept, "", nil)
		if want := (table.Shape{N: 5, D: d, Intercept: intercept}); data.Shape != want || len(data.X) != want.Columns() {
			t.Errorf("%+v with %d columns, want %+v", data.Shape, len(data.X), want)
		}
		if &data.Y[0] != &values(rec, 0)[0] || &data.X[1][0] != &values(rec, 2)[0] {
			t.Error("a column was copied")
		}
		if !slices.Equal(data.X[0], []float64{2, 4, 6, 8, 10}) {
			t.Errorf("%v", data.X[0])
		}
	}
}

// TestPullReadsCategories compares with what the server says of the same rows, for every
// type, through domains and a view, and with a filter that is no feature.
func TestPullReadsCategories(t *testing.T) {
	ctx, tx := begin(t, `CREATE TYPE colour AS ENUM ('red', 'green', 'blue')`, `CREATE DOMAIN word AS varchar(9)`, `CREATE DOMAIN hue AS colour`, `CREATE DOMAIN letter AS char(5)`,
		`CREATE TABLE t AS SELECT i AS y, (ARRAY['a', 'b', 'longer than others', 'ü', '', NULL])[1 + i % 6] AS plain, (ARRAY['a', 'b', NULL])[1 + i % 3]::word AS worded,
		   (ARRAY['a', 'b', 'bb', 'a  x', 'bbb'])[1 + i % 5]::letter AS padded, (ARRAY['red', 'green', 'blue'])[1 + i % 3]::hue AS hued, i % 2 = 0 AS truth,
		   (i % 3)::smallint AS small, (i % 3) AS whole, (i % 3)::bigint AS big FROM generate_series(0, 99) AS i`,
		`CREATE VIEW v AS SELECT * FROM t`)
	levels := map[string][]string{
		"plain": {"a", "ü", "*"}, "worded": {"b", "a"}, "padded": {"bb", "a"}, "hued": {"blue", "red"}, "truth": {"true", "false"}, "small": {"2", "0"}, "whole": {"1", "*"}, "big": {"0", "1"},
	}
	for column, of := range levels {
		rec, err := arrowio.Pull(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"y", column}, Levels: levels, Rows: 100}, mech.NewSource())
		if err != nil {
			t.Fatal(err)
		}
		data := arrowio.Data(rec, true, "", nil)
		if data.D != len(of) || len(data.X) != len(of)-1 {
			t.Errorf("%s: %d coefficients for %d levels", column, data.D, len(of))
		}
		rows, _ := tx.Query(ctx, fmt.Sprintf(`SELECT rtrim(%s::text) FROM v ORDER BY y`, column))
		said, err := pgx.CollectRows(rows, pgx.RowTo[*string])
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range said {
			for k, level := range of[1:] {
				known := text != nil && (slices.Contains(of, *text) || slices.Contains(of, "*"))
				is := known && (*text == level || level == "*" && !slices.Contains(of, *text))
				if v := data.X[k][i]; math.IsNaN(v) == known || known && (v == 1) != is {
					t.Errorf("%s: row %d is %v at level %q", column, i, v, level)
				}
			}
		}
	}
	rec, err := arrowio.Pull(ctx, tx.Conn(), arrowio.Request{
		Relation: pgx.Identifier{"public", "v"}, Columns: []string{"y", "hued", "whole"}, Filters: 1, Rows: 100,
		Levels: map[string][]string{"hued": {"red", "green", "blue"}, "whole": {"0", "1", "2"}}, Only: map[string][]string{"whole": {"1", "2"}},
	}, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	data := arrowio.Data(rec, false, "", nil)
	if data.N != 100 || data.D != 2 || len(data.X) != 2 {
		t.Errorf("%+v with %d columns", data.Shape, len(data.X))
	}
	for i, y := range data.Y {
		if math.IsNaN(y) != (i%3 == 0) {
			t.Errorf("row %d: target %v", i, y)
		}
	}
	_, err = arrowio.Describe(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"y"}, Levels: map[string][]string{"y": {"one", "two"}}})
	if !errors.Is(err, arrowio.ErrUnsupportedType) {
		t.Errorf("levels that are no integers: %v", err)
	}
}
