package arrowio_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/mech"
)

// pulledUnits returns a column's values by record, sorted.
func pulledUnits(t *testing.T, ctx context.Context, tx pgx.Tx, relation, unit string, maxRows int) (records [][]float64) {
	t.Helper()
	u, name := arrowio.Unit{Column: unit, MaxRows: maxRows}, pgx.Identifier{"public", relation}
	n, err := arrowio.CountUnits(ctx, tx.Conn(), name, u)
	if err != nil {
		t.Fatal(err)
	}
	rec, first, err := arrowio.PullUnits(ctx, tx.Conn(), arrowio.Request{Relation: name, Columns: []string{"y"}, Rows: n}, u, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	if x := arrowio.Grouped(arrowio.Data(rec, true, "", nil), first, u); x.N != int(n) || x.MaxRows != maxRows || len(x.Y) != first[n] {
		t.Fatalf("%+v of %d", x.Shape, n)
	}
	for k := range int(n) {
		rows := slices.Clone(values(rec, 0)[first[k]:first[k+1]])
		slices.Sort(rows)
		records = append(records, rows)
	}
	slices.SortFunc(records, slices.Compare)
	return records
}

// Of every type that can tell persons apart, through tables, views, partitions and foreign
// tables, records are the groups that SQL makes.
func TestRecordsAreTheGroupsOfTheDatabase(t *testing.T) {
	rows := ` SELECT v % 5 AS p, v AS y FROM generate_series(1, 17) AS s(v) WHERE v <> 5`
	ctx, tx := begin(t,
		`CREATE DOMAIN person AS text CHECK (length(VALUE) > 0)`,
		`CREATE TABLE t (a smallint, b integer, c bigint, d uuid, e text COLLATE "C", f varchar(9), g char(7), h bytea, i person, j bpchar, y float8)`,
		`INSERT INTO t SELECT p, p, p, md5(p::text)::uuid, 'é' || p, p, p, ('\x0' || p)::bytea, 'p' || p, CASE WHEN y > 9 THEN p::text ELSE p || '  ' END, y FROM (`+rows+`) AS r`,
		`INSERT INTO t (y) VALUES (100), (101)`,
		`UPDATE t SET e = '' WHERE a = 1`,
		`CREATE VIEW viewed AS SELECT * FROM t`,
		`CREATE TABLE parted (b integer, y float8) PARTITION BY LIST (b)`,
		`CREATE TABLE part1 PARTITION OF parted FOR VALUES IN (0, 1, 2)`,
		`CREATE TABLE part2 PARTITION OF parted DEFAULT`,
		`INSERT INTO parted SELECT b, y FROM t`,
		`CREATE EXTENSION postgres_fdw`,
		`DO $$ BEGIN
		   EXECUTE format('CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
		     host(inet_server_addr()), inet_server_port(), current_database());
		 END $$`,
		`CREATE USER MAPPING FOR CURRENT_USER SERVER self OPTIONS (user '`+localpg.Superuser+`', password '`+localpg.Postgres(t).Password()+`')`,
		`CREATE FOREIGN TABLE far (b integer, e text, y float8) SERVER self OPTIONS (schema_name 'public', table_name 't')`,
	)
	want := [][]float64{{1, 6, 11, 16}, {2, 7, 12, 17}, {3, 8, 13}, {4, 9, 14}, {10, 15}}
	check := func(relation, unit string) {
		t.Helper()
		if got := pulledUnits(t, ctx, tx, relation, unit, 5); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s by %s: %v", relation, unit, got)
		}
	}
	for _, unit := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		check("t", unit)
		check("viewed", unit)
	}
	check("parted", "b")
	check("far", "b")
	check("far", "e")
	for _, rows := range pulledUnits(t, ctx, tx, "t", "b", 2) {
		if len(rows) != 2 {
			t.Errorf("%v in place of two rows", rows)
		}
	}
}

func TestUnitsOfOtherTypesAreRefused(t *testing.T) {
	ctx, tx := begin(t, `CREATE TABLE t (n numeric, f float8, d date, b boolean, j jsonb, y float8)`)
	for _, column := range []string{"n", "f", "d", "b", "j"} {
		u := arrowio.Unit{Column: column, MaxRows: 8}
		if err := arrowio.DescribeUnit(ctx, tx.Conn(), pgx.Identifier{"public", "t"}, u); !errors.Is(err, arrowio.ErrUnsupportedType) {
			t.Errorf("%s: %v", column, err)
		}
	}
	if err := arrowio.DescribeUnit(ctx, tx.Conn(), pgx.Identifier{"public", "t"}, arrowio.Unit{Column: "no"}); err == nil {
		t.Error("no such column")
	}
}

// A number of persons that was registered is kept to: with more of them in the table, with fewer, with none.
func TestPullUnitsReturnsAsManyAsAskedFor(t *testing.T) {
	ctx, tx := begin(t, `CREATE TABLE t AS SELECT n % 10 AS u, n::float8 AS y FROM generate_series(1, 100) AS s(n)`, `CREATE TABLE empty (u integer, y float8)`)
	for relation, found := range map[string]int{"t": 10, "empty": 0} {
		for _, n := range []int{0, 3, 10, 12} {
			u := arrowio.Unit{Column: "u", MaxRows: 20}
			rec, first, err := arrowio.PullUnits(ctx, tx.Conn(), arrowio.Request{Relation: pgx.Identifier{"public", relation}, Columns: []string{"y"}, Rows: int64(n)}, u, mech.NewSource())
			if err != nil || len(first) != n+1 {
				t.Fatalf("%v, %v", first, err)
			}
			whole := 0
			for k := range n {
				if rows := values(rec, 0)[first[k]:first[k+1]]; len(rows) == 10 {
					whole++
				} else if len(rows) != 1 || !math.IsNaN(rows[0]) {
					t.Errorf("%v", rows)
				}
			}
			if whole != min(n, found) {
				t.Errorf("%d of %s: %d persons with rows", n, relation, whole)
			}
		}
	}
}

// Two texts of a row that are more than the server can send in one neither raise an error nor
// make two persons one. Longer keys than are sent as they are stay apart from their hashes.
func TestTextsOfAnyLengthAreRead(t *testing.T) {
	ctx, tx := begin(t,
		`CREATE TABLE t (k text, c text, d text, y float8)`,
		`INSERT INTO t (k, y) VALUES (repeat('k', 66), 1), (repeat('k', 63), 2), (repeat('k', 64), 3), (repeat('k', 65), 4), (repeat('k', 65), 5)`,
		`UPDATE t SET c = CASE y WHEN 1 THEN repeat('c', 540000000) ELSE 'c' END`,
		`UPDATE t SET d = c`,
		`CREATE TABLE b AS SELECT convert_to(repeat('k', 65), 'UTF8') AS k, 1::float8 AS y`,
		`INSERT INTO b SELECT sha512(k), 2 FROM b`,
	)
	unit, name := arrowio.Unit{Column: "k", MaxRows: 2}, pgx.Identifier{"public", "t"}
	rec, first, err := arrowio.PullUnits(ctx, tx.Conn(),
		arrowio.Request{Relation: name, Columns: []string{"y", "c", "d"}, Levels: map[string][]string{"c": {"c", "*"}, "d": {"c", "*"}}, Rows: 4}, unit, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, []int{0, 1, 2, 3, 5}) {
		t.Errorf("records begin at %v", first)
	}
	for i, y := range values(rec, 0) {
		if other := values(rec, 1)[i]; (other == 1) != (y == 1) || math.IsNaN(other) {
			t.Errorf("row %v has level %v", y, other)
		}
	}
	if got := pulledUnits(t, ctx, tx, "b", "k", 2); !slices.EqualFunc(got, [][]float64{{1}, {2}}, slices.Equal) {
		t.Errorf("persons %v", got)
	}
}
