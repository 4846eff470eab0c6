package tests

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestACallReturnsItsTermsInOrder(t *testing.T) {
	w := newWorld(t, 100, 0)
	out := w.mustRegress(w.analyst, ask, w.dataset, 50.0)
	if names := []string{out[0].Term, out[1].Term, out[2].Term, out[3].Term}; !reflect.DeepEqual(names, []string{"(intercept)", "age", "region", "insured"}) {
		t.Fatalf("terms %v", names)
	}
	// 1,000 rows at eps 50: the slope is 10 in the table's units, whatever the scales.
	if slope := out[1].Coef; slope < 8 || slope > 12 {
		t.Errorf("slope of age %g, want about 10", slope)
	}
	out = w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1, target => 'age', features => '{region,amount}', intercept => false)`, w.dataset)
	if len(out) != 2 || out[0].Term != "region" || out[1].Term != "amount" {
		t.Errorf("terms %v", out)
	}
	var method, parameters string
	err := w.analyst.QueryRow(context.Background(), `SELECT method, parameters::text FROM dp.releases WHERE id = dp_last_release($1)`, w.dataset).Scan(&method, &parameters)
	if err != nil || method == "" || len(parameters) < 20 {
		t.Errorf("release: %q %q %v", method, parameters, err)
	}
}

func TestTheSameRequestCostsNothing(t *testing.T) {
	w := newWorld(t, 1, 0)
	first := w.mustRegress(w.analyst, ask, w.dataset, 0.6)
	other := w.newAnalyst(w.person + "b")
	for _, c := range []struct {
		conn *pgx.Conn
		sql  string
	}{
		{w.analyst, ask},
		{other, ask},
		{other, `SELECT * FROM dp_l1_regress($1, $2, 'amount', '{age,region,insured}', true, '{}')`},
		{w.analyst, `SELECT r.* FROM (VALUES ($1::text, $2::float8)) v(d, e), LATERAL dp_l1_regress(d, e) r`},
		{w.analyst, `SELECT (dp_l1_regress($1, $2)).*`},
	} {
		if again := w.mustRegress(c.conn, c.sql, w.dataset, 0.6); !reflect.DeepEqual(first, again) {
			t.Errorf("%s: %v, first %v", c.sql, again, first)
		}
	}
	job := one[string](w, other, `SELECT dp_submit('l1', $1, 0.6)::text`, w.dataset)
	if status := one[string](w, other, `SELECT status FROM dp_status($1)`, job); status != "done" {
		t.Errorf("submitted again: %s", status)
	}
	if got := w.spent(); got != 0.6 {
		t.Errorf("spent %g, want 0.6", got)
	}
	_, err := regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.6, options => '{"fresh": true}')`, w.dataset)
	w.wantError(err, "DP002", "0.4")
	w.wantError(err, "DP002", "No privacy budget was spent")
}

func TestIdenticalCallsAtOnceCostOne(t *testing.T) {
	w := newWorld(t, 10, 0)
	var group sync.WaitGroup
	results := make([][]term, 24)
	for i := range results {
		conn := w.connect(w.system.URL(w.person))
		group.Go(func() {
			var err error
			if results[i], err = regress(conn, ask, w.dataset, 0.5); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	group.Wait()
	for i := range results {
		if !reflect.DeepEqual(results[i], results[0]) {
			t.Errorf("caller %d got %v, caller 0 %v", i, results[i], results[0])
		}
	}
	if w.spent() != 0.5 || w.entries() != 1 {
		t.Errorf("spent %g in %d entries, want 0.5 in 1", w.spent(), w.entries())
	}
}

// 64 callers ask different things that cost 0.1 each of a budget of 2: twenty
// get an answer, the others a refusal, and the ledger is what was released.
func TestConcurrentCallersNeverOverspend(t *testing.T) {
	w := newWorld(t, 2, 0)
	var group sync.WaitGroup
	var mu sync.Mutex
	answers, refusals := 0, 0
	for i := range 64 {
		conn := w.connect(w.system.URL(w.person))
		group.Go(func() {
			_, err := regress(conn, `SELECT * FROM dp_l1_regress($1, 0.1, options => jsonb_build_object('radius', $2::float8))`, w.dataset, 5+float64(i)/64)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers++
			} else {
				w.wantError(err, "DP002", "does not cover this request")
				refusals++
			}
		})
	}
	group.Wait()
	if answers != 20 || refusals != 44 || w.spent() != 2 {
		t.Errorf("%d answers, %d refusals, %g spent; want 20, 44, 2", answers, refusals, w.spent())
	}
	released := one[float64](w, w.steward, `SELECT sum(eps::numeric)::float8 FROM dp.releases WHERE dataset = $1`, w.dataset)
	ledger := one[float64](w, w.steward, `SELECT sum(epsilon::numeric)::float8 FROM dp.ledger WHERE dataset = $1`, w.dataset)
	if released != ledger || ledger != w.spent() {
		t.Errorf("released %g, ledger %g, spent %g", released, ledger, w.spent())
	}
}

func TestACallWorksInEveryTransaction(t *testing.T) {
	w := newWorld(t, 10, 0)
	for i, begin := range []string{
		"BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
		"BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN; SAVEPOINT s",
	} {
		if _, err := w.analyst.PgConn().Exec(context.Background(), begin).ReadAll(); err != nil {
			t.Fatal(err)
		}
		one[int](w, w.analyst, `SELECT 1`) // the snapshot is older than the release
		first, err := regress(w.analyst, ask, w.dataset, 0.1+float64(i)/100)
		if err != nil {
			t.Errorf("%s: %v", begin, err)
		} else if again, err := regress(w.analyst, ask, w.dataset, 0.1+float64(i)/100); err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%s: again %v %v", begin, again, err)
		}
		w.exec(w.analyst, "ROLLBACK")
	}
	if w.entries() != 5 || w.spent() != 0.6 {
		t.Errorf("after five rollbacks %g is spent in %d entries, want 0.6 in 5", w.spent(), w.entries())
	}
}

func TestExplainAndLimitZeroRunNothing(t *testing.T) {
	w := newWorld(t, 1, 0)
	for _, sql := range []string{
		`EXPLAIN SELECT * FROM dp_l1_regress('%s', 0.5)`, `SELECT * FROM dp_l1_regress('%s', 0.5) LIMIT 0`,
		`SELECT * FROM (SELECT * FROM dp_l1_regress('%s', 0.5)) q WHERE false`, `PREPARE p AS SELECT * FROM dp_l1_regress('%s', 0.5)`,
	} {
		w.exec(w.analyst, fmt.Sprintf(sql, w.dataset))
	}
	if jobs := one[int64](w, w.analyst, `SELECT count(*) FROM dp.jobs`); jobs != 0 || w.entries() != 0 {
		t.Errorf("%d jobs, %d entries, want none", jobs, w.entries())
	}
}

// A job whose caller gives up before the charge is dropped unspent; here it
// cannot start because the table is locked.
func TestATimeoutBeforeTheChargeSpendsNothing(t *testing.T) {
	w := newWorld(t, 1, 0)
	blocker := w.connect(w.system.SuperuserURL())
	w.exec(blocker, "BEGIN; LOCK TABLE public."+w.dataset)
	hasty := w.connect(w.system.URL(w.person))
	w.exec(hasty, `SET statement_timeout = '2s'`) // the sidecar waits 5 s for a lock
	start := time.Now()
	_, err := regress(hasty, ask, w.dataset, 0.5)
	w.wantError(err, "57014", "no privacy budget")
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the wait ended after %v", took)
	}
	w.exec(blocker, "ROLLBACK")
	w.eventually("the job is canceled", func() bool {
		return one[string](w, w.analyst, `SELECT status FROM dp.jobs`) == "canceled"
	})
	if w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

// Ctrl-C after the charge: the budget is spent, the job goes on, and the same
// call returns its result at no further cost.
func TestAnInterruptAfterTheChargeKeepsTheResult(t *testing.T) {
	w := newWorld(t, 100, 0)
	slow := w.dataset + "_slow"
	hold, release := w.heldView(slow)
	hold()
	ctx, cancel := context.WithCancel(context.Background())
	interrupted := make(chan error, 1)
	pid := one[int32](w, w.analyst, `SELECT pg_backend_pid()`)
	go func() {
		_, err := regressWithin(ctx, w.analyst, ask, slow, 1.0)
		interrupted <- err
	}()
	defer cancel()
	w.eventually("the job reads", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state = 'reading'`, w.person) == 1
	})
	w.exec(w.super, `SELECT pg_cancel_backend($1)`, pid)
	w.wantError(<-interrupted, "57014", "The privacy budget is spent; the result will be kept, and the same request returns it at no cost.")
	release()
	out, err := regress(w.analyst, ask, slow, 1.0)
	if err != nil || len(out) != 2 {
		t.Fatalf("the same call: %v %v", out, err)
	}
	if spent := one[float64](w, w.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, slow); spent != 1 {
		t.Errorf("spent %g, want 1", spent)
	}
}

// A client's cancel may reach the server as two signals, the second while it deals
// with the first: the job is dropped all the same. (The hint is lost when the
// second one comes just before the error leaves.)
func TestACancelThatArrivesTwiceDropsTheJob(t *testing.T) {
	w := newWorld(t, 1, 0)
	blocker := w.connect(w.system.SuperuserURL())
	for i := range 10 {
		w.exec(blocker, "BEGIN; LOCK TABLE public."+w.dataset)
		conn := w.connect(w.system.URL(w.person))
		pid := one[int32](w, conn, `SELECT pg_backend_pid()`)
		ended := make(chan error, 1)
		go func() {
			_, err := regress(conn, ask, w.dataset, 0.1+float64(i)/100)
			ended <- err
		}()
		w.eventually("the job is claimed", func() bool {
			return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state = 'claimed'`, w.person) == 1
		})
		w.exec(w.super, `SELECT pg_cancel_backend($1), pg_sleep($2), pg_cancel_backend($1)`, pid, float64(i)/4000)
		w.wantError(<-ended, "57014", "canceling statement")
		w.eventually("nobody waits", func() bool {
			return !one[bool](w, w.super, `SELECT bool_or(dp_int.awaited(id)) FROM dp_int.job WHERE caller = $1`, w.person)
		})
		w.exec(blocker, "ROLLBACK")
		w.eventually("the job is canceled", func() bool { // or has failed: on a busy machine it may have waited for the lock in vain five times before
			return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state NOT IN ('canceled', 'failed')`, w.person) == 0
		})
	}
	if w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

// A driver's cancel reaches the server as two signals, and leaves a caller who knows what became of the budget. Here they are four
// within two milliseconds, so that one meets the question for it where it is not waited for: none is told then. On a busy machine a
// signal may come later than is waited for, or at a COMMIT of dp_run: hence half of the cancels may.
func TestADriversCancelTellsOfTheBudget(t *testing.T) {
	const cancels = 20
	w := newWorld(t, 1, 0)
	blocker := w.connect(w.system.SuperuserURL())
	told := map[string]int{}
	for i := range cancels {
		w.exec(blocker, "BEGIN; LOCK TABLE public."+w.dataset)
		conn := w.connect(w.system.URL(w.person))
		call := fmt.Sprintf(`SELECT * FROM dp_l1_regress('%s', %g)`, w.dataset, 0.1+float64(i)/100)
		if i%2 == 1 {
			call = fmt.Sprintf(`CALL dp_run('l1', '%s', %g)`, w.dataset, 0.1+float64(i)/100)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), call)
			ended <- err
		}()
		w.eventually("the job is claimed", func() bool {
			return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state = 'claimed'`, w.person) == 1
		})
		w.exec(w.super, `SELECT pg_cancel_backend($1), pg_sleep(0.0005), pg_cancel_backend($1), pg_sleep(0.0005), pg_cancel_backend($1), pg_sleep(0.0005), pg_cancel_backend($1)`, conn.PgConn().PID())
		var pg *pgconn.PgError
		if err := <-ended; !errors.As(err, &pg) || pg.Code != "57014" {
			t.Fatal(err)
		}
		told[pg.Hint]++
		w.exec(blocker, "ROLLBACK")
		w.eventually("the job has ended", func() bool {
			return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state NOT IN ('canceled', 'failed', 'done')`, w.person) == 0
		})
	}
	if known := told["The job will be canceled before it reads; no privacy budget will be spent."]; known < cancels/2 {
		t.Errorf("%d of %d cancels tell what became of the budget: %v", known, cancels, told)
	} else if known == cancels && w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

// A caller whose connection dies while the job is queued leaves nothing behind.
func TestACallerThatVanishesSpendsNothing(t *testing.T) {
	w := newWorld(t, 1, 0)
	blocker := w.connect(w.system.SuperuserURL())
	w.exec(blocker, "BEGIN; LOCK TABLE public."+w.dataset)
	pid := one[int32](w, w.analyst, `SELECT pg_backend_pid()`)
	go regress(w.analyst, ask, w.dataset, 0.5)
	w.eventually("the job is claimed", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state = 'claimed'`, w.person) == 1
	})
	w.exec(w.super, `SELECT pg_terminate_backend($1)`, pid)
	w.eventually("its loopback has ended", func() bool {
		return one[bool](w, w.super, `SELECT NOT dp_int.awaited(id) FROM dp_int.job WHERE caller = $1`, w.person)
	})
	w.exec(blocker, "ROLLBACK")
	w.eventually("the job is canceled", func() bool {
		return one[string](w, w.super, `SELECT state FROM dp_int.job WHERE caller = $1`, w.person) == "canceled"
	})
	if w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

// The caller itself holds the lock the pull needs: an error, not a deadlock.
func TestACallerThatLocksTheTableIsToldSo(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.super, `GRANT ALL ON public.`+w.dataset+` TO `+w.person)
	w.exec(w.analyst, `BEGIN; LOCK TABLE public.`+w.dataset)
	_, err := regress(w.analyst, ask, w.dataset, 0.5)
	w.wantError(err, "DP004", "locked")
	w.exec(w.analyst, `ROLLBACK`)
	if w.spent() != 0 {
		t.Errorf("spent %g", w.spent())
	}
}

func TestWithoutASidecarACallFailsAtOnce(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	start := time.Now()
	_, err := regress(w.analyst, ask, w.dataset, 0.5)
	w.wantError(err, "DP001", "dpsidecar serve")
	_, err = w.analyst.Exec(context.Background(), `CALL dp_run('l1', $1, 0.5)`, w.dataset)
	w.wantError(err, "DP001", "dp_submit")
	if said := one[string](w, w.analyst, `SELECT error FROM dp.jobs WHERE eps = 0.5 AND status = 'canceled'`); said != "canceled by its caller: no dpsidecar was connected" {
		t.Errorf("dp.jobs says %s", said)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("failed after %v", took)
	}

	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	if state := one[string](w, w.analyst, `SELECT sqlstate FROM dp_status($1)`, job); state != "DP001" {
		t.Errorf("a queued job's sqlstate is %q", state)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the queued job is done", func() bool {
		return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done"
	})
	if w.spent() != 0.25 {
		t.Errorf("spent %g, want 0.25", w.spent())
	}
}

func TestSubmitStatusResultCancel(t *testing.T) {
	w := newWorld(t, 1, 0)
	ctx := context.Background()
	w.exec(w.analyst, `BEGIN`)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	_, err := w.analyst.Exec(ctx, `SELECT * FROM dp_result($1)`, job)
	w.wantError(err, "55000", "dp_status")
	w.exec(w.analyst, `ROLLBACK`)
	_, err = w.analyst.Exec(ctx, `SELECT * FROM dp_status($1)`, job)
	w.wantError(err, "22023", "you have no job")

	job = one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.eventually("done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done" })
	submitted := w.mustRegress(w.analyst, `SELECT * FROM dp_result($1)`, job)
	if called := w.mustRegress(w.analyst, ask, w.dataset, 0.5); !reflect.DeepEqual(submitted, called) {
		t.Errorf("submitted %v, called %v: they are the same request", submitted, called)
	}
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, job); says != "it was done already; the result is kept" {
		t.Errorf("cancel says %q", says)
	}
	other := w.newAnalyst(w.person + "b")
	_, err = other.Exec(ctx, `SELECT dp_cancel($1)`, job)
	w.wantError(err, "22023", "you have no job")
	// Who names a job where a release is wanted is told its release, if it is his own.
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	failed := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 5)::text`, w.dataset)
	for _, sql := range []string{`SELECT dp_summary($1)`, `SELECT dp_predict($1::uuid, '{50, 1, 1}'::float8[])`, `SELECT dp_score($1, 1)`} {
		_, err = w.analyst.Exec(ctx, sql, job)
		w.wantError(err, "22023", "That is a job. Its release is "+release)
		_, err = w.analyst.Exec(ctx, sql, failed)
		w.wantError(err, "22023", "That is a job, which has no release: see dp_status")
		_, err = other.Exec(ctx, sql, job)
		w.wantError(err, "22023", "See dp.releases, and dp.datasets")
	}
	// And the other way round; so is who names a data set.
	for _, sql := range []string{`SELECT dp_status($1)`, `SELECT dp_result($1)`, `SELECT dp_cancel($1)`} {
		_, err = w.analyst.Exec(ctx, sql, release)
		w.wantError(err, "22023", "That is a release: SELECT * FROM dp_summary('"+release+"').")
	}
	_, err = w.steward.Exec(ctx, `SELECT dp_abandon($1)`, release)
	w.wantError(err, "22023", "That is the release of job "+one[string](w, w.steward, `SELECT job::text FROM dp.releases WHERE id = $1`, release)+", which is done: there is nothing to abandon.")
	_, err = w.steward.Exec(ctx, `SELECT dp_abandon(gen_random_uuid())`)
	w.wantError(err, "22023", "See dp.jobs.")
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person+"b")
	_, err = other.Exec(ctx, `SELECT dp_status($1)`, release)
	w.wantError(err, "22023", "See dp.jobs.")
	for _, sql := range []string{`SELECT dp_predict('%s', '{50, 1, 1}')`, `SELECT dp_predict('%s', '{50, 1, 1}'::float8[])`, `SELECT dp_predict_interval('%s', '{50, 1, 1}')`, `SELECT dp_predict_interval('%s', '{50, 1, 1}'::float8[])`} {
		_, err = w.analyst.Exec(ctx, fmt.Sprintf(sql, w.dataset))
		w.wantError(err, "22023", "dp_last_release('"+w.dataset+"') is your latest fit of it")
		_, err = other.Exec(ctx, fmt.Sprintf(sql, w.dataset))
		w.wantError(err, "22P02", "invalid input syntax for type uuid")
		w.exec(w.analyst, fmt.Sprintf(sql, "{"+release+"}")) // as the server takes it too
	}

	ran := one[string](w, w.analyst, `CALL dp_run('l1', $1, 0.125)`, w.dataset)
	if out := w.mustRegress(w.analyst, `SELECT * FROM dp_result($1)`, ran); len(out) != 4 {
		t.Errorf("dp_run: %v", out)
	}
	w.exec(w.analyst, `BEGIN`)
	_, err = w.analyst.Exec(ctx, `CALL dp_run('l1', $1, 0.1)`, w.dataset)
	w.wantError(err, "2D000", "dp_submit")
	w.exec(w.analyst, `ROLLBACK`)
	_, err = w.analyst.Exec(ctx, `CALL dp_run('l1', $1, 0.9)`, w.dataset)
	w.wantError(err, "DP002", "0.375")
	if w.spent() != 0.625 {
		t.Errorf("spent %g, want 0.625", w.spent())
	}
}

// What queues or cancels a job writes in the caller's transaction. Where that is read-only it says what to do instead.
func TestJobsInAReadOnlyTransaction(t *testing.T) {
	w := newWorld(t, 1, 0)
	ctx := context.Background()
	w.mustRegress(w.analyst, ask, w.dataset, 0.125)
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.125)::text`, w.dataset)
	for _, sql := range []string{
		`SELECT dp_submit('l1', '` + w.dataset + `', 0.125)`, // is kept
		`SELECT dp_submit('l1', '` + w.dataset + `', 0.25)`,
		`SELECT dp_submit_score('` + release + `', 0.25)`,
		`SELECT dp_cancel('` + job + `')`,
		`CALL dp_run('l1', '` + w.dataset + `', 0.25)`,
	} {
		w.exec(w.analyst, `SET default_transaction_read_only = on`)
		_, err := w.analyst.Exec(ctx, sql)
		w.exec(w.analyst, `SET default_transaction_read_only = off`)
		w.wantError(err, "25006", "in a read-only transaction")
		w.wantError(err, "25006", "BEGIN READ WRITE")
		w.wantError(err, "25006", "No privacy budget was spent.")
	}
	if w.spent() != 0.125 {
		t.Errorf("spent %g, want 0.125", w.spent())
	}
}
