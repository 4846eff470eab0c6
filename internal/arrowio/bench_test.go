package arrowio_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/mech"
)

// benchRows is the number of rows of benchmarks: with -short, which shows no more than that they run, a tenth.
func benchRows() int64 {
	if testing.Short() {
		return 100_000
	}
	return 1_000_000
}

// benchmark makes a table of ten float8 columns and returns where it is.
func benchmark(b *testing.B) (url string, req arrowio.Request) {
	b.Helper()
	c := localpg.Postgres(b)
	database := c.Database(b)
	req = arrowio.Request{
		Relation: pgx.Identifier{"public", "bench"},
		Columns:  strings.Split("abcdefghij", ""),
		Rows:     benchRows(),
	}
	values := "random() AS " + strings.Join(req.Columns, ", random() AS ")
	c.Exec(b, database,
		fmt.Sprintf("CREATE TABLE bench AS SELECT %s FROM generate_series(1, %d) AS rows(n)", values, benchRows()),
		"VACUUM (FREEZE, ANALYZE) bench")
	return c.SuperuserURL(database), req
}

// pull takes a connection, a snapshot and the record.
func pull(b *testing.B, url string, req arrowio.Request) {
	b.Helper()
	inSnapshot(b, url, func(ctx context.Context, conn *pgx.Conn) {
		rec, err := arrowio.Pull(ctx, conn, req, mech.NewSource())
		if err != nil {
			b.Fatal(err)
		}
		rec.Release()
	})
}

// inSnapshot calls do on a new connection, in a snapshot.
func inSnapshot(b *testing.B, url string, do func(ctx context.Context, conn *pgx.Conn)) {
	b.Helper()
	ctx := context.Background()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	arrowio.Tune(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		b.Fatal(err)
	}
	do(ctx, tx.Conn())
}

func BenchmarkPull(b *testing.B) {
	url, req := benchmark(b)
	b.SetBytes(benchRows() * int64(len(req.Columns)) * 8)
	for b.Loop() {
		pull(b, url, req)
	}
	b.ReportMetric(float64(b.N)*float64(benchRows())/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkPullBesidePsql compares whole pulls, connecting included, with whole
// runs of psql that throw the same stream away. The two alternate in pairs and
// take turns to be first; the metric is the median over the pairs of our rows
// per second over psql's. The target is 0.9.
func BenchmarkPullBesidePsql(b *testing.B) {
	url, req := benchmark(b)
	psql := psqlOf(b, url)
	ours := func() { pull(b, url, req) }
	theirs := func() {
		copyAll := "COPY (SELECT " + strings.Join(req.Columns, ", ") + " FROM bench) TO STDOUT (FORMAT binary)"
		if err := exec.Command(psql, "-X", "-q", "-d", url, "-c", copyAll).Run(); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, "pull", ours, "psql", theirs)
}

// compare runs both once, then in pairs in which they take turns to be first; the metric is the median over the pairs of the
// other's time over ours.
func compare(b *testing.B, name string, ours func(), other string, theirs func()) {
	b.Helper()
	const pairs = 7
	ours()
	theirs()
	for b.Loop() {
		ratios := make([]float64, pairs)
		for i := range ratios {
			var a, z time.Duration
			if i%2 == 0 {
				a, z = timed(ours), timed(theirs)
			} else {
				z, a = timed(theirs), timed(ours)
			}
			ratios[i] = z.Seconds() / a.Seconds()
			b.Logf("pair %d: %s %v, %s %v, ratio %.3f", i+1, name, a.Round(time.Millisecond), other, z.Round(time.Millisecond), ratios[i])
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[pairs/2], other+"-ratio")
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// psqlOf returns the psql beside the server's own binaries. (The one in PATH
// may be a wrapper script, which would flatter us.) Its standard output, not
// being set, is the null device.
func psqlOf(b *testing.B, url string) string {
	b.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SELECT setting FROM pg_config WHERE name = 'BINDIR'").Scan(&dir); err != nil {
		b.Fatal(err)
	}
	return filepath.Join(dir, "psql")
}

// BenchmarkPullUnitsBesidePlain compares pulls of five columns with and without a uuid by
// which rows are grouped into 230,000 persons, in pairs; the metric is the median of their
// ratio. The ceiling is 2.
func BenchmarkPullUnitsBesidePlain(b *testing.B) {
	persons := benchRows() * 23 / 100
	c := localpg.Postgres(b)
	database := c.Database(b)
	req := arrowio.Request{Relation: pgx.Identifier{"public", "bench"}, Columns: strings.Split("abcde", ""), Rows: benchRows()}
	c.Exec(b, database,
		fmt.Sprintf("CREATE TABLE bench AS SELECT md5((random() * %d)::int::text)::uuid AS u, random() AS a, random() AS b, random() AS c, random() AS d, random() AS e FROM generate_series(1, %d)", persons, benchRows()),
		"VACUUM (FREEZE, ANALYZE) bench")
	url := c.SuperuserURL(database)
	plain := func() { pull(b, url, req) }
	grouped := func() {
		inSnapshot(b, url, func(ctx context.Context, conn *pgx.Conn) {
			of := req
			of.Rows = persons
			rec, _, err := arrowio.PullUnits(ctx, conn, of, arrowio.Unit{Column: "u", MaxRows: 8}, mech.NewSource())
			if err != nil {
				b.Fatal(err)
			}
			rec.Release()
		})
	}
	compare(b, "plain", plain, "grouped", grouped)
}
