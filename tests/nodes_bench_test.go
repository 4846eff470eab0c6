package tests

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/job"
)

var nodeRows = flag.Int("node-rows", 0, "rows of BenchmarkPassesOnNodes; 0: it skips")

// ranFor hears how long fits took.
type ranFor chan time.Duration

func (r ranFor) Ended(string)           {}
func (r ranFor) Pulled(time.Duration)   {}
func (r ranFor) Ran(took time.Duration) { r <- took }

// BenchmarkPassesOnNodes is the default fit of dp_linear_regress over the same rows in one table of the coordinator, in a table that
// Citus has distributed over two workers, and in one whose two partitions are tables of the workers' databases. Metrics: rows
// a second a pass, and the processor time of all servers for a row of a pass, which does not depend on what else the
// machine does. Nodes share its cores, so that two are no faster than one that uses both.
func BenchmarkPassesOnNodes(b *testing.B) {
	if *nodeRows == 0 {
		b.Skip("give -node-rows")
	}
	d := newDistributed(b, dev.Options{})
	ran := make(ranFor, 1)
	urls := map[string]*pgx.ConnConfig{}
	var columns, names []string
	for j := range 19 {
		columns, names = append(columns, fmt.Sprintf("random() AS x%d", j)), append(names, fmt.Sprintf("x%d", j))
	}
	rows := fmt.Sprintf("SELECT *, x0 + x1 + x2 + random() AS y FROM (SELECT i::bigint AS id, %s FROM generate_series(%%d, %%d) i) r", strings.Join(columns, ", "))
	fill := func(from, to int) string { return fmt.Sprintf(rows, from, to) }
	run := func(at string, statements ...string) {
		b.Helper()
		if err := executeAll(context.Background(), at, statements...); err != nil {
			b.Fatal(err)
		}
	}
	run(d.SuperuserURL(), "CREATE TABLE one AS "+fill(1, *nodeRows), "CREATE TABLE citus (LIKE one)", "SET citus.shard_count = 4", "SELECT create_distributed_table('citus', 'id')", "INSERT INTO citus SELECT * FROM one",
		"CREATE EXTENSION postgres_fdw", "CREATE TABLE fdw (LIKE one) PARTITION BY RANGE (id)", "GRANT SELECT ON one, citus, fdw TO dp_sidecar")
	for i, w := range d.workers {
		from, to := 1+i**nodeRows/2, (i+1)**nodeRows/2
		run(w.SuperuserURL("postgres"), "CREATE TABLE part AS "+fill(from, to), "VACUUM ANALYZE part")
		config, err := pgx.ParseConfig(w.SuperuserURL("postgres"))
		if err != nil {
			b.Fatal(err)
		}
		urls[fmt.Sprintf("n%d", i)] = config
		run(d.SuperuserURL(), fmt.Sprintf("CREATE SERVER n%d FOREIGN DATA WRAPPER postgres_fdw", i),
			fmt.Sprintf("CREATE FOREIGN TABLE part%d PARTITION OF fdw FOR VALUES FROM (%d) TO (%d) SERVER n%[1]d OPTIONS (schema_name 'public', table_name 'part')", i, from, to+1))
	}
	run(d.SuperuserURL(), "VACUUM ANALYZE one", "VACUUM ANALYZE citus")
	database, err := pgxpool.ParseConfig(d.URL("dp_sidecar"))
	if err != nil {
		b.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	b.Cleanup(stop)
	go job.New(job.Config{Database: database, Log: slog.New(slog.DiscardHandler), Watch: ran, Nodes: urls, Jobs: 16}).Run(serving)
	analyst, err := pgx.Connect(serving, d.AnalystURL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { analyst.Close(context.Background()) })
	for table, options := range map[string]string{"one": `{}`, "citus": theyStay, "fdw": `{"total": true, "rows_stay": "a test", "new_population": "a test"}`} {
		run(d.StewardURL(), fmt.Sprintf(`SELECT dp_register('%s', '%[1]s', 'y', '{%s}', 1e8, 1e-6, placement => 'database', options => '%s')`, table, strings.Join(names, ","), options),
			fmt.Sprintf(`SELECT dp_grant('%s', 'analyst')`, table))
	}
	eps := 1000.0
	for _, features := range []int{3, 9, 19} {
		for _, table := range []string{"one", "citus", "fdw"} {
			b.Run(fmt.Sprintf("d=%d/%s", features+1, table), func(b *testing.B) {
				took, passes, before := time.Duration(0), 0, d.processorTime(b)
				for range b.N {
					eps++ // another request each time
					var said string
					err := analyst.QueryRow(context.Background(), `SELECT value FROM dp_explain('linear', $1, 1000, features => $2) WHERE property = 'passes'`, table, names[:features]).Scan(&said)
					if err == nil {
						passes, err = strconv.Atoi(said)
					}
					if err == nil {
						_, err = analyst.Exec(context.Background(), `SELECT dp_submit('linear', $1, $2, features => $3)`, table, eps, names[:features])
					}
					if err != nil {
						b.Fatal(err)
					}
					took += <-ran
				}
				b.ReportMetric(float64(*nodeRows*passes*b.N)/took.Seconds()/1e6, "Mrows/s/pass")
				b.ReportMetric((d.processorTime(b)-before)/float64(*nodeRows*passes*b.N)*1e9, "cpu-ns/row/pass")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// processorTime is the seconds that all processes of the servers have taken, those that have ended too.
func (d *distributed) processorTime(b *testing.B) (seconds float64) {
	b.Helper()
	const ticks = 100 // a second, on Linux
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range append(slices.Clone(d.workers), d.Cluster) {
		pid, err := os.ReadFile(filepath.Join(c.Dir(), "data", "postmaster.pid"))
		if err != nil {
			b.Fatal(err)
		}
		postmaster, _, _ := strings.Cut(string(pid), "\n")
		for _, name := range stats {
			text, err := os.ReadFile(name)
			_, after, named := strings.Cut(string(text), ") ") // the fields after the program's name
			f := strings.Fields(after)
			if err != nil || !named || f[1] != postmaster && filepath.Base(filepath.Dir(name)) != postmaster {
				continue
			}
			for _, field := range f[11:15] { // utime, stime, and those of children that were waited for
				v, err := strconv.ParseFloat(field, 64)
				if err != nil {
					b.Fatal(err)
				}
				seconds += v / ticks
			}
		}
	}
	return seconds
}
