package tests

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// BenchmarkCharge measures charges to one account by sidecars that do nothing
// else. Every charge is a transaction of its own, flushed to disk.
func BenchmarkCharge(b *testing.B) {
	for _, sidecars := range []int{1, 8} {
		b.Run(fmt.Sprintf("sidecars=%d", sidecars), func(b *testing.B) {
			newChargeBench(b).run(b, sidecars)
		})
	}
}

// BenchmarkChargeAfterHistory shows that a charge costs the same however long
// the ledger is.
func BenchmarkChargeAfterHistory(b *testing.B) {
	for _, entries := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			t := newChargeBench(b)
			t.fillLedger(b, entries)
			t.run(b, 1)
		})
	}
}

// BenchmarkChargeOfWindows measures charges of windows of blocks beside plain ones, in turn: medians
// in milliseconds, and what a window costs of a plain charge. All 3,650 blocks have sums of
// their own, which is the worst case.
func BenchmarkChargeOfWindows(b *testing.B) {
	t := newChargeBench(b)
	for _, sql := range []string{
		`CREATE TABLE public.daily AS SELECT i::float8 AS amount, i AS age, date '2016-01-01' AS day FROM generate_series(1, 1000) i`,
		`GRANT SELECT ON public.daily TO dp_sidecar`,
		`SELECT dp_register('daily', 'public.daily', 'amount', '{age}', 1e6, 1e-6, block => 'day', block_width => '1 day', block_origin => '2016-01-01', block_is_fixed => 'a benchmark')`,
		`SELECT dp_grant('daily', 'analyst')`,
		`INSERT INTO dp_int.account_block SELECT a.id, g, random()::numeric, 0, 1, random()::numeric, 0 FROM dp_int.account a, generate_series(0, 3649) g WHERE a.block_width IS NOT NULL`,
		`VACUUM ANALYZE dp_int.account_block`,
	} {
		t.exec(b, sql)
	}
	conn, err := pgx.Connect(context.Background(), t.system.URL("dp_sidecar"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	windows := []struct {
		name, dataset, request string
		times                  []float64
	}{
		{"plain", "claims", `{}`, nil},
		{"30", "daily", `{"over": ["2018-01-01", "2018-01-31"]}`, nil},
		{"3650", "daily", `{"over": ["2016-01-01", "2025-12-29"]}`, nil},
	}
	for i := range warmUp/5 + b.N {
		for k := range windows {
			w := &windows[k]
			o := t.claimed(b, w.dataset, w.request, 1)[0]
			began := time.Now()
			if err := charge(conn, o); err != nil {
				b.Fatal(err)
			}
			if i >= warmUp/5 {
				w.times = append(w.times, float64(time.Since(began).Microseconds())/1000)
			}
		}
	}
	for _, w := range windows {
		slices.Sort(w.times)
		b.ReportMetric(w.times[len(w.times)/2], "ms/"+w.name)
		b.ReportMetric(w.times[len(w.times)/2]/windows[0].times[len(windows[0].times)/2], "of-plain/"+w.name)
	}
}

// chargeBench is a system with one account, to be charged many times.
type chargeBench struct {
	system *dev.System
	super  *pgx.Conn
}

func newChargeBench(b *testing.B) *chargeBench {
	b.Helper()
	ctx := context.Background()
	s, err := dev.Start(ctx, dev.Options{Settings: map[string]string{"fsync": "on"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Stop() })
	t := &chargeBench{system: s}
	if t.super, err = pgx.Connect(ctx, s.SuperuserURL()); err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{
		`CREATE TABLE public.claims AS SELECT i::float8 AS amount, i AS age FROM generate_series(1, 1000) i`,
		`GRANT SELECT ON public.claims TO dp_sidecar`,
		`SELECT dp_register('claims', 'public.claims', 'amount', '{age}', 1e6, 1e-6)`,
		`SELECT dp_grant('claims', 'analyst')`,
	} {
		t.exec(b, sql)
	}
	return t
}

func (t *chargeBench) exec(b *testing.B, sql string, args ...any) {
	b.Helper()
	if _, err := t.super.Exec(context.Background(), sql, args...); err != nil {
		b.Fatalf("%v\n%s", err, sql)
	}
}

// claimedJobs makes n jobs that a worker has claimed.
func (t *chargeBench) claimedJobs(b *testing.B, n int) []ledger.Owner {
	b.Helper()
	return t.claimed(b, "claims", "{}", n)
}

// claimed makes n jobs of a request.
func (t *chargeBench) claimed(b *testing.B, dataset, request string, n int) []ledger.Owner {
	b.Helper()
	rows, _ := t.super.Query(context.Background(), `
		INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, state, attempt, token, lease_until)
		SELECT gen_random_uuid(), dp_int.admit_principal('analyst'), 'analyst', d.id, 'l1', 1, 0, $3, '', true, false, 'claimed', 1, gen_random_uuid(), now() + interval '1 day'
		  FROM dp_int.dataset d, generate_series(1, $1)
		 WHERE d.name = $2
		RETURNING id::text, token::text`, n, dataset, request)
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Owner])
	if err != nil {
		b.Fatal(err)
	}
	return jobs
}

// fillLedger makes the ledger n entries long: copies of one charge, in the past.
func (t *chargeBench) fillLedger(b *testing.B, n int) {
	b.Helper()
	if err := charge(t.super, t.claimedJobs(b, 1)[0]); err != nil {
		b.Fatal(err)
	}
	t.exec(b, `
		INSERT INTO dp_int.ledger (account, seq, kind, dataset, caller, job, event, epsilon, rho, renyi, renyi_grid, delta, previous, hash)
		SELECT l.account, l.seq + i, kind, l.dataset, l.caller, gen_random_uuid(), l.event, l.epsilon, l.rho, l.renyi, l.renyi_grid, l.delta, l.previous, l.hash
		  FROM dp_int.ledger l, generate_series(1, $1) i
		 WHERE l.kind = 'charge'`, n)
	t.exec(b, `UPDATE dp_int.account SET entries = entries + $1, spends = spends + $1`, n)
	t.exec(b, `VACUUM ANALYZE dp_int.ledger`)
	t.exec(b, `CHECKPOINT`)
}

func charge(db ledger.DB, o ledger.Owner) error {
	_, err := ledger.Charge(context.Background(), db, o, ledger.Entry{Event: privacy.Gaussian{NoiseMultiplier: 10}, Rows: 1000})
	return err
}

// warmUp is how many charges a connection makes before the clock starts.
const warmUp = 50

// run charges b.N times by so many connections.
func (t *chargeBench) run(b *testing.B, sidecars int) {
	b.Helper()
	jobs := make(chan ledger.Owner, b.N)
	for _, o := range t.claimedJobs(b, b.N) {
		jobs <- o
	}
	close(jobs)
	var conns []*pgx.Conn
	for range sidecars {
		conn, err := pgx.Connect(context.Background(), t.system.URL("dp_sidecar"))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, o := range t.claimedJobs(b, warmUp) {
			if err := charge(conn, o); err != nil {
				b.Fatal(err)
			}
		}
		conns = append(conns, conn)
	}
	b.ResetTimer()
	var working sync.WaitGroup
	for _, conn := range conns {
		working.Go(func() {
			for o := range jobs {
				if err := charge(conn, o); err != nil {
					b.Error(err)
				}
			}
		})
	}
	working.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
}
