package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

// A transaction of the caller's takes back nothing that was answered in it, and
// is no way to be answered twice.
func TestNoTransactionIsAnsweredUnpaid(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := dev.Start(ctx, dev.Options{Settings: map[string]string{"max_prepared_transactions": "4"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if _, err := s.Serve(ctx); err != nil {
		t.Fatal(err)
	}
	w := worldIn(t, s, 10, 0)
	call := func(eps float64) []term { return w.mustRegress(w.analyst, ask, w.dataset, eps) }

	// Savepoints: the same answer before and after, charged once.
	w.exec(w.analyst, `BEGIN`)
	w.exec(w.analyst, `SAVEPOINT s`)
	first := call(0.5)
	w.exec(w.analyst, `ROLLBACK TO s`)
	if again := call(0.5); !reflect.DeepEqual(first, again) {
		t.Errorf("after ROLLBACK TO: %v, first %v", again, first)
	}
	w.exec(w.analyst, `ROLLBACK`)
	// A block that swallows the answer.
	w.exec(w.analyst, `DO $$ BEGIN FOR i IN 1..5 LOOP BEGIN PERFORM * FROM dp_l1_regress('`+w.dataset+`', 0.25); RAISE 'away'; EXCEPTION WHEN raise_exception THEN END; END LOOP; END $$`)
	// Two-phase commit, rolled back by another session.
	w.exec(w.analyst, `LISTEN news`) // where it listens, an UNLISTEN could not be prepared
	w.exec(w.analyst, `BEGIN`)
	third := call(0.125)
	w.exec(w.analyst, `SELECT dp_last_release($1)`, w.dataset)
	w.exec(w.analyst, `PREPARE TRANSACTION 'gone'`)
	w.exec(w.super, `ROLLBACK PREPARED 'gone'`)
	if again := call(0.125); !reflect.DeepEqual(third, again) {
		t.Errorf("after ROLLBACK PREPARED: %v, first %v", again, third)
	}
	if w.spent() != 0.875 || w.entries() != 3 {
		t.Errorf("spent %g in %d entries, want 0.875 in 3", w.spent(), w.entries())
	}

	// A job that was rolled back was never asked; one that is prepared is refused.
	w.exec(w.analyst, `BEGIN; SAVEPOINT s; SELECT dp_submit('l1', '`+w.dataset+`', 0.3); ROLLBACK TO s; COMMIT`)
	w.exec(w.analyst, `BEGIN`)
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.3)`, w.dataset)
	_, err = w.analyst.Exec(ctx, `PREPARE TRANSACTION 'submitted'`)
	w.wantError(err, "0A000", "")
	w.exec(w.analyst, `ROLLBACK`)
	// Neither does a cursor left open, a rule or a trigger of the caller's own ask twice.
	w.exec(w.analyst, `BEGIN; DECLARE c CURSOR FOR SELECT * FROM dp_l1_regress('`+w.dataset+`', 0.5); FETCH 1 FROM c; FETCH ALL FROM c; ROLLBACK`)
	w.exec(w.analyst, `CREATE TEMP TABLE t AS SELECT * FROM dp_l1_regress('`+w.dataset+`', 0.5); INSERT INTO t SELECT * FROM dp_l1_regress('`+w.dataset+`', 0.5)`)
	if jobs := one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE eps = 0.3`); jobs != 0 || w.spent() != 0.875 {
		t.Errorf("%d jobs, spent %g; want none and 0.875", jobs, w.spent())
	}
}

// 24 identical and 24 near-identical requests at once, by callers who are canceled,
// cancel, vanish and ask again at any moment, against a budget for ten: never more
// is released than is charged, nor charged than the budget, nor the same twice.
func TestCanceledRacesReleaseNothingUnpaid(t *testing.T) {
	w := newWorld(t, 1, 0)
	form := `SELECT * FROM dp_l1_regress($1, 0.1, options => jsonb_build_object('method', 'objective_perturbation', 'radius', $2::float8))`
	var asking sync.WaitGroup
	stop := make(chan struct{})
	for i := range 48 {
		radius := 5.0
		if i >= 24 {
			radius = 5 + float64(i)*1e-12
		}
		asking.Go(func() {
			conn := w.connect(w.system.URL(w.person))
			for attempt := range 4 {
				limit := time.Duration(20+rand.IntN(1000)) * time.Millisecond
				switch {
				case attempt == 3: // until there is an answer, or a refusal
					for {
						var pg *pgconn.PgError
						if _, err := regress(conn, form, w.dataset, radius); !errors.As(err, &pg) || pg.Code == "DP002" {
							break
						}
					}
				case i%2 == 0:
					w.exec(conn, fmt.Sprintf(`SET statement_timeout = %d`, limit.Milliseconds()))
					_, _ = regress(conn, form, w.dataset, radius)
					for w.try(conn, `SET statement_timeout = 0`) != nil { // which has a limit too
					}
				default: // the connection breaks
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					_, _ = regressWithin(ctx, conn, form, w.dataset, radius)
					cancel()
					conn = w.connect(w.system.URL(w.person))
				}
			}
		})
	}
	var canceling sync.WaitGroup
	canceling.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				_, _ = w.analyst.Exec(context.Background(), `SELECT dp_cancel(id) FROM dp.jobs WHERE finished_at IS NULL ORDER BY random() LIMIT 1`)
			}
		}
	})
	asking.Wait()
	close(stop)
	canceling.Wait()
	w.eventually("every job has ended", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND finished_at IS NULL`, w.person) == 0
	})
	ended := all[string](w, w.super, `SELECT state || ' ' || count(*) FROM dp_int.job WHERE caller = $1 GROUP BY state`, w.person)
	released := one[int64](w, w.super, `SELECT count(*) FROM dp_int.release r JOIN dp_int.dataset d ON d.id = r.dataset WHERE d.name = $1`, w.dataset)
	distinct := one[int64](w, w.super, `SELECT count(DISTINCT request_hash) FROM dp_int.release r JOIN dp_int.dataset d ON d.id = r.dataset WHERE d.name = $1`, w.dataset)
	if w.spent() > 1 || float64(released) != w.spent()*10 || released != distinct {
		t.Errorf("%d releases of %d requests, spent %g of 1; jobs %v", released, distinct, w.spent(), ended)
	}
	if wrong := all[string](w, w.steward, `SELECT item || ': ' || detail FROM dp_verify() WHERE NOT ok`); len(wrong) > 0 {
		t.Error(wrong)
	}
	if released < 5 {
		t.Errorf("%d releases: too few to show anything; jobs %v", released, ended)
	}
}

// The table is gone once the charge is made: the budget stays spent, whoever waits
// is told, the same name gives no fresh budget, and other data sets go on.
func TestATableDroppedAfterTheCharge(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 0.5, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
	w.abandon(reading)
	w.exec(w.super, `CREATE TABLE public.copy AS TABLE public.`+w.dataset)
	w.exec(w.super, `DROP TABLE public.`+w.dataset)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is parked", func() bool {
		return one[string](w, w.analyst, `SELECT coalesce(sqlstate, '') FROM dp_status($1)`, job) == "DP004"
	})
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, job)
	w.wantError(err, "DP004", "The privacy budget is spent, once")

	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.copy RENAME TO %[1]s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register('again', $1::text::regclass, 'amount', '{age,region,insured}', 0.5)`, "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant('again', $1)`, w.person)
	_, err = regress(w.analyst, ask, "again", 0.1)
	w.wantError(err, "DP002", "does not cover this request")

	v := worldIn(t, w.system, 1, 0)
	v.mustRegress(v.analyst, ask, v.dataset, 0.5)
	if wrong := all[string](w, w.steward, `SELECT item || ': ' || detail FROM dp_verify() WHERE NOT ok`); len(wrong) > 0 {
		t.Error(wrong)
	}
}
