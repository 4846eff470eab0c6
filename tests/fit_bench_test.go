package tests

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// BenchmarkLinearRegress is the sidecar's work for dp_linear_regress on 5,000,000
// rows of 10 features: pull, then 100 full-batch Catoni steps, on all cores and
// on one. Metrics: seconds of each, nanoseconds a row, coordinate and step, and
// the most memory in use as a multiple of the columns. With -short a tenth of the rows.
func BenchmarkLinearRegress(b *testing.B) {
	const features, steps = 10, 100
	rows := 5_000_000
	if testing.Short() {
		rows /= 10
	}
	s, err := shared()
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	config, err := pgx.ParseConfig(s.SuperuserURL())
	if err != nil {
		b.Fatal(err)
	}
	arrowio.Tune(config)
	super, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	defer super.Close(ctx)
	names := strings.Split("abcdefghij", "")
	sum := strings.Join(names, " - ")
	if _, err := super.Exec(ctx, fmt.Sprintf(`CREATE UNLOGGED TABLE large AS SELECT *, %s + random() AS y FROM (SELECT random() AS %s FROM generate_series(1, %d)) r`,
		sum, strings.Join(names, ", random() AS "), rows)); err != nil {
		b.Fatal(err)
	}
	defer super.Exec(ctx, "DROP TABLE large")

	for b.Loop() {
		high := watchMemory()
		start := time.Now()
		tx, err := super.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			b.Fatal(err)
		}
		record, err := arrowio.Pull(ctx, super, arrowio.Request{Relation: pgx.Identifier{"public", "large"}, Columns: append([]string{"y"}, names...), Rows: int64(rows)}, mech.NewSource())
		if err != nil {
			b.Fatal(err)
		}
		tx.Rollback(ctx)
		pulled := time.Since(start)
		fit := func() time.Duration {
			algorithm, err := dpsco.Recipe("linear", map[string]any{"method": "catoni", "steps": float64(steps)}, names)
			if err != nil {
				b.Fatal(err)
			}
			p, err := algorithm.Plan(table.Shape{N: rows, D: features + 1, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if _, err := p.Run(ctx, arrowio.Data(record, true, "", nil), mech.NewSource()); err != nil {
				b.Fatal(err)
			}
			return time.Since(start)
		}
		many := fit()
		most := high()
		cores := runtime.GOMAXPROCS(1)
		one := fit()
		runtime.GOMAXPROCS(cores)
		record.Release()
		b.ReportMetric(pulled.Seconds(), "pull-s")
		b.ReportMetric(many.Seconds(), "fit-s")
		b.ReportMetric(float64(one.Nanoseconds())/float64(rows*(features+1)*steps), "ns/row/coordinate/step")
		b.ReportMetric(one.Seconds()/many.Seconds(), "speed-up")
		b.ReportMetric(float64(most)/float64(rows*(features+1)*8), "memory/columns")
	}
}

// watchMemory samples the heap in use until the function it returns is called,
// which says how much more there was at most than before.
func watchMemory() func() uint64 {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	before, most := inUse(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			most = max(most, inUse())
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most - min(most, before)
	}
}
