package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/sqlsum"
)

// spread is a table of 3,000 rows in a database, and the same rows as a partitioned table of which a third is in each of
// two other databases, under other names, and a third at home.
type spread struct {
	*testing.T
	cluster *localpg.Cluster
	far     []string // the databases
	sidecar *Sidecar
	conn    *pgx.Conn
}

func newSpread(t *testing.T) spread {
	t.Helper()
	c := localpg.Postgres(t)
	s := spread{T: t, cluster: c, sidecar: New(Config{Log: slog.New(slog.DiscardHandler), Nodes: map[string]*pgx.ConnConfig{}})}
	home := c.Database(t)
	const rows = `SELECT i, i % 3 AS place, sin(i) * 7 AS y, cos(i) AS x, (ARRAY['a', 'b', NULL])[1 + i % 3] AS kind FROM generate_series(1, 3000) i`
	s.optional(home, "CREATE EXTENSION postgres_fdw")
	c.Exec(t, home, "CREATE TABLE whole AS "+rows, "CREATE TABLE parts (LIKE whole) PARTITION BY LIST (place)", "CREATE TABLE own PARTITION OF parts FOR VALUES IN (2)", "INSERT INTO own SELECT * FROM whole WHERE place = 2")
	for i := range 2 {
		far := c.Database(t)
		s.far = append(s.far, far)
		c.Exec(t, far, `CREATE SCHEMA "S"`, fmt.Sprintf(`CREATE TABLE "S"."T" AS SELECT kind, x AS "an x", y, place, i FROM (%s) r WHERE place = %d`, rows, i))
		c.Exec(t, home, fmt.Sprintf(`CREATE SERVER n%d FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname '%s')`, i, far), fmt.Sprintf(`CREATE FOREIGN TABLE part%d PARTITION OF parts FOR VALUES IN (%[1]d) SERVER n%[1]d OPTIONS (schema_name 'S', table_name 'T')`, i),
			fmt.Sprintf(`ALTER FOREIGN TABLE part%d ALTER x OPTIONS (column_name 'an x')`, i))
		config, err := pgx.ParseConfig(c.SuperuserURL(far))
		if err != nil {
			t.Fatal(err)
		}
		s.sidecar.config.Nodes[fmt.Sprintf("n%d", i)] = config
	}
	var err error
	if s.conn, err = pgx.Connect(context.Background(), c.SuperuserURL(home)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close(context.Background()) })
	if _, err := s.conn.Exec(context.Background(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		t.Fatal(err)
	}
	return s
}

// optional runs a statement, or skips where the server lacks what it needs.
func (s spread) optional(database, statement string) {
	conn, err := pgx.Connect(context.Background(), s.cluster.SuperuserURL(database))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), statement); err != nil {
		s.Skip(err)
	}
}

// open opens the nodes of the partitioned table.
func (s spread) open() (*nodes, error) {
	ns, err := s.sidecar.openNodes(context.Background(), s.conn, pgx.Identifier{"public", "parts"})
	if ns != nil {
		s.Cleanup(ns.close)
	}
	return ns, err
}

// What nodes add up is what one table gives, to the last integer, and stays so while others write; a pass
// over them has one snapshot of each.
func TestNodesAddUpToOneTable(t *testing.T) {
	s, ctx := newSpread(t), context.Background()
	ns, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	req := arrowio.Request{Relation: pgx.Identifier{"public", "parts"}, Columns: []string{"y", "x", "kind"}, Levels: map[string][]string{"kind": {"a", "b"}}}
	if err := ns.describe(ctx, s.conn, req); err != nil {
		t.Fatal(err)
	}
	count := func() int64 {
		n, err := ns.count(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 3000 {
		t.Errorf("%d rows", n)
	}
	y, x, b := sqlsum.Column(0, 0, 1), sqlsum.Column(1, 0, 1), sqlsum.Is(2, 1)
	pass := sqlsum.Pass{
		Sums: []sqlsum.Vector{{Of: []sqlsum.Expr{y, x, b}, Bound: 4, Steps: 1 << 30}}, Moments: []sqlsum.Vector{{Of: []sqlsum.Expr{y, b}, Bound: 3, Steps: 1 << 20}},
		Counts: []sqlsum.Bins{{Of: y, Edges: []float64{-3, 0, 3}}},
	}
	whole := source{conn: s.conn}
	one := req
	one.Relation = pgx.Identifier{"public", "whole"}
	if whole.from, whole.columns, err = arrowio.Expressions(ctx, s.conn, one); err != nil {
		t.Fatal(err)
	}
	parts, err := ns.sources(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	totals := func(asked []source, ns *nodes) sqlsum.Totals {
		sums, err := passes(ctx, asked, ns)(pass)
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	want := totals([]source{whole}, nil)
	for range 2 {
		if got := totals(parts, ns); !reflect.DeepEqual(got, want) {
			t.Errorf("%v on nodes, %v on one", got, want)
		}
		for _, far := range s.far {
			s.cluster.Exec(t, far, `INSERT INTO "S"."T" SELECT * FROM "S"."T" LIMIT 100`)
		}
		if n := count(); n != 3000 {
			t.Errorf("%d rows while others write", n)
		}
	}
}

// Parts that show the same rows, other rows than those of a table, or columns of other types are refused before a charge; a
// relation with a server that is not listed is not asked node by node.
func TestNodesAreWhatTheySeem(t *testing.T) {
	s := newSpread(t)
	refused := func(says string, do, undo string) {
		t.Helper()
		s.cluster.Exec(t, s.far[1], do)
		ns, err := s.open()
		if err == nil {
			err = ns.describe(context.Background(), s.conn, arrowio.Request{Relation: pgx.Identifier{"public", "parts"}, Columns: []string{"y", "x"}})
		}
		var fail *failure
		if !errors.As(err, &fail) || !strings.Contains(fail.message, says) {
			t.Errorf("%s: %v", do, err)
		}
		if ns != nil {
			ns.close()
		}
		s.cluster.Exec(t, s.far[1], undo)
	}
	refused("has another type", `ALTER TABLE "S"."T" ALTER y TYPE numeric`, `ALTER TABLE "S"."T" ALTER y TYPE float8`)
	refused("is no table", `ALTER TABLE "S"."T" RENAME TO u; CREATE VIEW "S"."T" AS SELECT * FROM "S".u`, `DROP VIEW "S"."T"; ALTER TABLE "S".u RENAME TO "T"`)
	known := s.sidecar.config.Nodes["n1"]
	s.sidecar.config.Nodes["n1"] = s.sidecar.config.Nodes["n0"]
	refused("show the same rows", `SELECT`, `SELECT`)
	s.sidecar.config.Nodes["n1"] = known
	delete(s.sidecar.config.Nodes, "n0")
	if ns, err := s.open(); ns != nil || err != nil {
		t.Errorf("a server that is not listed: %v, %v", ns, err)
	}
}
