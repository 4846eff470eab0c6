package tests

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/localpg"
)

// A worker that stops at one step of a job's life, driven by hand as dp_sidecar
// drives it, must leave a state from which a real sidecar goes on.

type step int

const (
	claimed step = iota
	charged
	reading
)

// abandon claims a job, takes it to a step and lets the lease run out.
func (w *world) abandon(at step) (job, token string) {
	w.Helper()
	worker := w.connect(w.system.URL("dp_sidecar"))
	claim := one[string](w, worker, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL)::text`)
	job = one[string](w, w.super, `SELECT $1::jsonb ->> 'id'`, claim)
	token = one[string](w, w.super, `SELECT $1::jsonb ->> 'token'`, claim)
	if at >= charged {
		w.exec(worker, `SELECT dp_int.job_charge($1, $2, 1000, $3, 0.5, 0.03125, 0, '{}')`, job, token,
			one[string](w, w.super, `SELECT CASE WHEN $1::jsonb #>> '{request,options,method}' = 'objective_perturbation' OR $1::jsonb ->> 'model' IN ('score', 'describe')
				THEN '{"pure": {"epsilon": 0.5}}' ELSE '{"bounded_range": {"epsilon": 0.5}}' END`, claim))
	}
	if at >= reading {
		w.exec(worker, `SELECT dp_int.job_read($1, $2)`, job, token)
	}
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, job)
	return job, token
}

func TestAnAbandonedJobGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      step
		entries int64
	}{
		"claimed": {claimed, 1}, // nothing was charged yet
		"charged": {charged, 3}, // charge, refund, charge
		"reading": {reading, 1}, // the first charge stands
	} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 0.5, 0) // no room for a second charge
			submitted := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
			job, token := w.abandon(c.at)
			if job != submitted {
				t.Fatalf("claimed %s, submitted %s", job, submitted)
			}
			if _, err := w.system.Serve(context.Background()); err != nil {
				t.Fatal(err)
			}
			w.eventually("the job is done", func() bool {
				return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done"
			})
			if w.spent() != 0.5 || w.entries() != c.entries {
				t.Errorf("spent %g in %d entries, want 0.5 in %d", w.spent(), w.entries(), c.entries)
			}
			// The first worker wakes up and finds that it has lost the job.
			zombie := w.connect(w.system.URL("dp_sidecar"))
			for _, sql := range []string{
				`SELECT dp_int.job_charge($1, $2, 1000, '{}', 0.5, 0.1, 0, '{}')`, `SELECT dp_int.job_read($1, $2)`,
				`SELECT dp_int.job_publish($1, $2, 'forged', '{x}', '{1}')`, `SELECT dp_int.job_hand_back($1, $2, true)`,
				`SELECT dp_int.job_fail($1, $2, 'DP004', '', '')`, `SELECT dp_int.job_park($1, $2, '')`,
			} {
				_, err := zombie.Exec(context.Background(), sql, job, token)
				w.wantError(err, "55000", "no longer this worker's")
			}
		})
	}
}

// Past the charge there is no failure: what cannot be read waits, its caller is
// told the truth, and the same call gets the result once it can be read.
func TestAJobThatCannotReadIsParked(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 0.5, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
	w.abandon(reading)
	w.exec(w.super, `REVOKE SELECT ON public.`+w.dataset+` FROM dp_sidecar`)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is parked", func() bool {
		return one[string](w, w.analyst, `SELECT coalesce(sqlstate, '') FROM dp_status($1)`, job) == "DP004"
	})
	again := `SELECT * FROM dp_l1_regress($1, 0.5, options => '{"method": "exponential_mechanism"}')`
	_, err := regress(w.analyst, again, w.dataset)
	w.wantError(err, "DP004", "The privacy budget is spent, once")
	// The database's reason comes before the server's: a relation that is not there cannot be locked.
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` RENAME TO `+w.dataset+`_old`)
	w.eventually("its caller is told that the relation was renamed", func() bool {
		_, err = regress(w.analyst, again, w.dataset)
		return err != nil && strings.Contains(err.Error(), "it was dropped, renamed or replaced")
	})
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+`_old RENAME TO `+w.dataset)
	w.exec(w.super, `GRANT SELECT ON public.`+w.dataset+` TO dp_sidecar`)
	w.eventually("the same call returns the result", func() bool {
		out, err := regress(w.analyst, again, w.dataset)
		return err == nil && len(out) == 4
	})
	if w.spent() != 0.5 || w.entries() != 1 {
		t.Errorf("spent %g in %d entries, want 0.5 in 1", w.spent(), w.entries())
	}
}

// Once a job reads, its worker can neither fail it, which would tell of the rows, nor publish at another time than a
// step of its ladder.
func TestAJobThatReadsEndsAtItsStepsAlone(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 0.5, 0)
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')`, w.dataset)
	job, token := w.abandon(reading) // with one step, 0
	worker := w.connect(w.system.URL("dp_sidecar"))
	for _, sql := range []string{
		`SELECT dp_int.job_fail($1, $2, 'DP004', 'row 3', '')`,
		`SELECT dp_int.job_publish($1, $2, 'exponential_mechanism', '{x}', '{1}', p_step => 1)`,
		`SELECT dp_int.job_publish($1, $2, 'exponential_mechanism', '{x}', '{1}', p_step => -1)`,
		`SELECT dp_int.job_publish($1, $2, 'exponential_mechanism', '{x}', '{1}', p_step => NULL)`,
	} {
		_, err := worker.Exec(context.Background(), sql, job, token)
		w.wantError(err, "55000", "reading")
	}
	w.exec(worker, `SELECT dp_int.job_publish($1, $2, 'exponential_mechanism', '{x}', '{1}', p_step => 0)`, job, token)
}

// A job that was charged is tried again at what it was charged alone: a sidecar whose plan costs other than that,
// for instance of another version, reads nothing.
func TestAJobIsNotTriedAgainAtAnotherCost(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 1, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
	w.abandon(reading) // which charges half of that
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is parked, or done", func() bool {
		return one[bool](w, w.analyst, `SELECT sqlstate IS NOT NULL OR status = 'done' FROM dp_status($1)`, job)
	})
	if said := one[string](w, w.analyst, `SELECT coalesce(message, status) FROM dp_status($1)`, job); !strings.Contains(said, "would spend other than what was charged") {
		t.Errorf("the job says %q", said)
	}
	if w.spent() != 0.5 || one[int](w, w.super, `SELECT count(*)::int FROM dp_int.release`) != 0 {
		t.Errorf("spent %g, or there is a release", w.spent())
	}
	const again = `SELECT * FROM dp_l1_regress($1, 1, options => '{"method": "exponential_mechanism"}')`
	_, err := regress(w.analyst, again, w.dataset)
	w.wantError(err, "DP004", "a steward ends it for good with dp_abandon")
	w.exec(w.steward, `SELECT dp_abandon($1)`, job)
	w.mustRegress(w.analyst, again, w.dataset)
	if w.spent() != 1.5 {
		t.Errorf("spent %g, not .5 of the job that was abandoned and 1", w.spent())
	}
}

// A result that cannot be written keeps nobody waiting for ever, costs one charge,
// and comes once it can.
func TestAJobThatCannotPublishTellsItsCaller(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 5, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, `CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER no_room BEFORE INSERT ON dp_int.release FOR EACH ROW EXECUTE FUNCTION public.no_room()`)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := regressWithin(ctx, w.analyst, ask, w.dataset, 1)
	w.wantError(err, "DP004", "The privacy budget is spent, once")
	w.exec(w.super, `DROP TRIGGER no_room ON dp_int.release`)
	w.mustRegress(w.analyst, ask, w.dataset, 1)
	if n := w.entries(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A canceled job ends as canceled, at once and whatever its worker met: a lock that it waited
// for too long, an account that somebody holds, the end of its lease.
func TestCancelBetweenClaimAndRead(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	hand := w.worker()
	for i, end := range []string{
		`SELECT dp_int.job_fail($1, $2, 'DP004', 'the relation of the data set is locked', '')`,
		`SELECT dp_int.job_hand_back($1, $2, false)`,
		`SELECT dp_int.job_hand_back($1, $2, false, 'the account is held', '')`,
	} {
		job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
		_, token := hand.claim()
		w.exec(hand.conn, `SELECT dp_int.job_charge($1, $2, 1000, '{"pure": {"epsilon": 0.5}}', 0.5, 0.125, 0, '{}')`, job, token)
		w.exec(w.analyst, `SELECT dp_cancel($1)`, job)
		w.exec(hand.conn, end, job, token)
		if status := one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job); status != "canceled" || w.spent() != 0 || w.entries() != 2*int64(i+1) {
			t.Errorf("%s: %s, spent %g in %d entries", end, status, w.spent(), w.entries())
		}
	}

	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.abandon(charged)
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, job); says != "will be canceled before it reads; no privacy budget will be spent" {
		t.Errorf("cancel says %q", says)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("canceled", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "canceled" })
	if w.spent() != 0 || w.entries() != 8 {
		t.Errorf("spent %g in %d entries, want 0 in 8", w.spent(), w.entries())
	}
}

// At isolation level repeatable read a transaction cannot cancel a job that was claimed after its
// snapshot, and says how to go on. An interrupted dp_run cancels such a job all the same. An interrupt between two
// naps of dp_run, about one in 1,000, has no hint: then it is tried again, so that five such are less than one run in 10^14.
func TestCancelOfAJobThatIsClaimedJustNow(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	hand := w.worker()
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.exec(w.analyst, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	w.exec(w.analyst, `SELECT`)
	_, token := hand.claim()
	_, err := w.analyst.Exec(context.Background(), `SELECT dp_cancel($1)`, job)
	w.wantError(err, "40001", "was not canceled Call dp_cancel again in a new transaction")
	w.exec(w.analyst, `ROLLBACK`)
	w.exec(w.analyst, `SET default_transaction_isolation = 'repeatable read'`)
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, job); says != "will be canceled before it reads; no privacy budget will be spent" {
		t.Errorf("cancel says %q", says)
	}
	w.exec(hand.conn, `SELECT dp_int.job_hand_back($1, $2, false)`, job, token)

	w.exec(hand.conn, `SELECT dp_int.worker_beat(gen_random_uuid(), pg_backend_pid(), 'by hand')`)
	pid := one[int32](w, w.analyst, `SELECT pg_backend_pid()`)
	waits := func(event string) func() bool {
		return func() bool {
			return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND $2 IN (wait_event_type, wait_event))`, pid, event)
		}
	}
	jobs := 1
	for met := false; !met; {
		if jobs++; jobs > 6 {
			t.Fatal("no interrupt falls into a nap")
		}
		interrupted := make(chan error, 1)
		go func() {
			_, err := w.analyst.Exec(context.Background(), `CALL dp_run('l1', $1, $2)`, w.dataset, 0.4+float64(jobs)/100)
			interrupted <- err
		}()
		w.eventually("dp_run waits", waits("PgSleep"))
		w.exec(hand.conn, `BEGIN`)
		job, token = hand.claim()
		w.eventually("dp_run waits again", waits("PgSleep"))
		w.exec(w.super, `SELECT pg_cancel_backend($1)`, pid)
		w.eventually("the cancel waits for the claim, or has come between two naps", func() bool {
			met = waits("Lock")()
			return met || len(interrupted) > 0
		})
		if !met {
			w.exec(hand.conn, `ROLLBACK`)
			w.wantError(<-interrupted, "57014", "")
			w.exec(w.analyst, `SELECT dp_cancel($1)`, job)
			continue
		}
		w.exec(hand.conn, `COMMIT`)
		w.wantError(<-interrupted, "57014", "The job will be canceled before it reads; no privacy budget will be spent.")
		w.exec(hand.conn, `SELECT dp_int.job_hand_back($1, $2, false)`, job, token)
	}
	if canceled := one[int](w, w.analyst, `SELECT count(*) FROM dp.jobs WHERE status = 'canceled'`); canceled != jobs || w.entries() != 0 {
		t.Errorf("%d jobs are canceled, of %d, and there are %d entries", canceled, jobs, w.entries())
	}
}

// Two sidecars share a queue; one leaves in the middle, its jobs are finished or
// handed back, and everything is answered and charged once.
func TestSidecarsShareTheQueueAndMayLeave(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	first, err := w.system.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.25, options => jsonb_build_object('radius', $2::float8))`, w.dataset, 2+float64(i)/8)
	}
	first()
	w.eventually("all jobs are done", func() bool {
		return one[int64](w, w.analyst, `SELECT count(*) FROM dp.jobs WHERE status = 'done'`) == 40
	})
	if w.spent() != 10 {
		t.Errorf("spent %g, want 10", w.spent())
	}
}

// A claim is kept by a sidecar that is told to leave before it hears of it: the
// job does not wait for its lease to run out.
func TestALeavingSidecarKeepsWhatItClaims(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	leave, err := w.system.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// A standby that is not there keeps the sidecar waiting for the answer to a
	// claim that is committed.
	for _, conn := range []*pgx.Conn{w.super, w.steward, w.analyst} {
		w.exec(conn, `SET synchronous_commit = local`)
	}
	w.exec(w.super, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	w.exec(w.super, `SELECT pg_reload_conf()`)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.eventually("a claim is committed and not answered", func() bool {
		return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ 'job_claim')`)
	})
	left := make(chan struct{})
	go func() { leave(); close(left) }()
	time.Sleep(100 * time.Millisecond)
	w.exec(w.super, `ALTER SYSTEM RESET synchronous_standby_names`)
	w.exec(w.super, `SELECT pg_reload_conf()`)
	<-left
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.within(beforeItsLease, "the job is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done" })
	if w.spent() != 0.5 || w.entries() != 1 {
		t.Errorf("spent %g in %d entries, want 0.5 in 1", w.spent(), w.entries())
	}
}

// beforeItsLease is when a job does not yet go on because its sidecar has been silent for 30 s.
const beforeItsLease = 25 * time.Second

// Postgres restarts under a running sidecar: it reconnects, and the cached
// loopback of a session that was restarted too is renewed.
func TestASidecarSurvivesARestartOfPostgres(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	if err := w.system.Cluster.Restart(context.Background(), localpg.Immediate); err != nil {
		t.Fatal(err)
	}
	w.analyst = w.connect(w.system.URL(w.person))
	w.steward = w.connect(w.system.StewardURL())
	w.eventually("a call is answered again", func() bool {
		_, err := regress(w.analyst, ask, w.dataset, 0.25)
		return err == nil
	})
	if w.spent() != 0.75 {
		t.Errorf("spent %g, want 0.75", w.spent())
	}
}

// The loopback that a session keeps is renewed when somebody ends it.
func TestALostLoopbackIsRenewed(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.endSessions(`dp\_loopback%`)
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
}

// BenchmarkCall measures what a synchronous call adds to its work, and a replay.
func BenchmarkCall(b *testing.B) {
	ctx := context.Background()
	s, err := dev.Start(ctx, dev.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	if _, err := s.Serve(ctx); err != nil {
		b.Fatal(err)
	}
	run := func(url, sql string, args ...any) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	// Ten rows: the work itself takes next to nothing.
	run(s.SuperuserURL(), `CREATE TABLE tiny AS SELECT i::float8 AS y, (i * i)::float8 AS x FROM generate_series(1, 10) i`)
	run(s.SuperuserURL(), `GRANT SELECT ON tiny TO dp_sidecar`)
	run(s.StewardURL(), `SELECT dp_register('tiny', 'tiny', 'y', '{x}', 1e6)`)
	run(s.StewardURL(), `SELECT dp_grant('tiny', 'analyst')`)
	run(s.SuperuserURL(), `CREATE TABLE small AS SELECT a + b - c + random() AS y, * FROM (SELECT random() a, random() b, random() c, random() d, random() e FROM generate_series(1, 10000)) r`)
	run(s.SuperuserURL(), `GRANT SELECT ON small TO dp_sidecar`)
	run(s.StewardURL(), `SELECT dp_register('small', 'small', 'y', '{a,b,c,d,e}', 1e6, 1e-3)`)
	run(s.StewardURL(), `SELECT dp_grant('small', 'analyst')`)
	analyst, err := pgx.Connect(ctx, s.AnalystURL())
	if err != nil {
		b.Fatal(err)
	}
	defer analyst.Close(ctx)
	const l1 = `SELECT * FROM dp_l1_regress('tiny', 0.01, options => jsonb_build_object('method', 'objective_perturbation', 'radius', $1::float8))`
	varies := func(i int) float64 { return 1 + float64(i)/1e6 }
	for _, c := range []struct {
		name, sql string
		radius    func(i int) float64
	}{
		{"new", l1, varies},
		{"replay", l1, func(int) float64 { return 1 }},
		{"linear 10,000 x 5", `SELECT * FROM dp_linear_regress('small', 1, 1e-6, options => jsonb_build_object('radius', $1::float8))`, varies},
	} {
		b.Run(c.name, func(b *testing.B) {
			if _, err := regress(analyst, c.sql, c.radius(0)); err != nil {
				b.Fatal(err)
			}
			var times []time.Duration
			for i := 1; b.Loop(); i++ {
				start := time.Now()
				if _, err := regress(analyst, c.sql, c.radius(i+int(time.Now().UnixNano()%1e9))); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			b.ReportMetric(float64(median(times).Microseconds())/1000, "ms/call-median")
		})
	}
	// What the machine has made late: of how many jobs the first step was missed.
	super, err := pgx.Connect(ctx, s.SuperuserURL())
	if err != nil {
		b.Fatal(err)
	}
	defer super.Close(ctx)
	var late string
	if err := super.QueryRow(ctx, `SELECT string_agg(says, '; ') FROM (SELECT format('%s: first step %s, %s of %s jobs late', d.name, min(first_step), count(*) FILTER (WHERE finished_at > read_at + first_step), count(*)) AS says
		FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE read_at IS NOT NULL GROUP BY d.name) l`).Scan(&late); err != nil {
		b.Fatal(err)
	}
	b.Log(late)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// More jobs than can be settled at once wait for the release of another: it is published all the same, they are answered by it,
// and one is charged.
func TestManyJobsWaitForOneRelease(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.serve()
	w.slowToCount(3)
	leader := one[string](w, w.analyst, `SELECT dp_submit('l1', 'sleeper', 0.5)::text`)
	w.eventually("it reads", func() bool { return w.jobState(leader) == "reading" })
	w.exec(w.super, `INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, follows)
		SELECT gen_random_uuid(), principal, caller, dataset, model, eps, delta, request, request_hash, fresh, false, id FROM dp_int.job, generate_series(1, 2500) WHERE id = $1`, leader)
	w.eventually("it is published", func() bool { return w.jobState(leader) == "done" })
	w.eventually("all are answered", func() bool {
		return one[int](w, w.super, `SELECT count(*) FROM dp_int.job o JOIN dp_int.job j USING (release) WHERE j.id = $1 AND o.state = 'done'`, leader) == 2501
	})
	if n := one[int](w, w.super, `SELECT count(*) FROM dp_int.ledger WHERE kind = 'charge'`); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// A steward can end what nobody else can: a job that is charged and does not come
// to an end. It stays spent, nothing is released, and the ledger says who did it.
func TestAStewardAbandonsAJob(t *testing.T) {
	w := newWorld(t, 100, 0)
	// With these features, far beyond their scales, the exact sampler searches for minutes; with two of them some fits end within one.
	w.exec(w.super, `CREATE VIEW public.`+w.dataset+`_odd AS SELECT amount, age * 1e4::float8 AS age, region * 1e4::float8 AS region, insured::int * 1e4::float8 AS insured FROM public.`+w.dataset)
	w.exec(w.super, `CREATE MATERIALIZED VIEW public.`+w.dataset+`_wild AS TABLE public.`+w.dataset+`_odd`)
	w.exec(w.super, `GRANT SELECT ON public.`+w.dataset+`_wild TO dp_sidecar`)
	wild := w.dataset + "_wild"
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', 10, options => jsonb_build_object('total', true, 'account', $3::text))`, wild, "public."+wild, w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, wild, w.person)
	submit := func(eps float64, options string) string {
		return one[string](w, w.analyst, `SELECT dp_submit('l1', $1, $2, options => $3)::text`, wild, eps, options)
	}
	long := submit(1, `{"method": "exponential_mechanism"}`)
	w.eventually("it fits", func() bool {
		return one[string](w, w.analyst, `SELECT stage FROM dp_status($1)`, long) == "charged, running"
	})
	follower := submit(1, `{"method": "exponential_mechanism"}`) // of two that are claimed at once either may lead
	w.eventually("the other follows", func() bool {
		return one[string](w, w.analyst, `SELECT stage FROM dp_status($1)`, follower) == "waiting for an identical request"
	})
	time.Sleep(time.Second)
	if says := one[string](w, w.steward, `SELECT dp_abandon(id) FROM dp.jobs WHERE id = $1 AND caller = $2 AND request ->> 'eps' = '1'`, long, w.person); says != "abandoned; the privacy budget is spent, and nothing will be released" {
		t.Errorf("dp_abandon says %q", says)
	}
	for job, hint := range map[string]string{long: "is spent, and nothing was released", follower: "No privacy budget was spent"} {
		_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, job)
		w.wantError(err, "DP004", hint)
		w.wantError(err, "DP004", "abandoned by the steward")
	}
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, long); !strings.Contains(says, "is spent") {
		t.Errorf("dp_cancel says %q", says)
	}
	if again := one[string](w, w.steward, `SELECT dp_abandon($1)`, long); again != "it was abandoned already" {
		t.Errorf("again: %q", again)
	}
	quick := submit(0.5, `{"method": "objective_perturbation"}`)
	w.eventually("the sidecar is free again", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, quick) == "done" })
	if who := one[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE event ->> 'abandon' = $1`, long); who != "steward" {
		t.Errorf("the ledger names %q", who)
	}
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.release WHERE job = $1`, long); n != 0 {
		t.Error("an abandoned job has a release")
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Errorf("verify: %v", wrong)
	}
	w.exec(w.super, `BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM dp_int.ledger WHERE event ->> 'abandon' = '`+long+`'`)
	defer w.exec(w.super, `ROLLBACK`)
	if wrong := w.verify(); !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "every charge has a job") }) {
		t.Errorf("without the steward's entry verify says %v", wrong)
	}
}

// Nobody asked again for what was abandoned: identical jobs end with it, whether
// they wait for a worker or were claimed before it was committed, and are not
// charged. An abandonment that is not committed holds up no claim.
func TestIdenticalJobsAreAbandonedTogether(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	submit := func() string {
		return one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
	}
	first, waiting := submit(), submit()
	w.abandon(reading)
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, `SELECT dp_abandon($1)`, first)
	claimed := submit()
	other := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	hand := w.worker()
	if got, _ := hand.claim(); got != other {
		t.Errorf("claimed %q, want %q", got, other)
	}
	w.exec(w.steward, `COMMIT`)
	if got, _ := hand.claim(); got != "" {
		t.Errorf("claimed %q after the abandonment", got)
	}
	for job, status := range map[string]string{first: "abandoned", waiting: "failed", claimed: "failed"} {
		if got := one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job); got != status {
			t.Errorf("%s is %s, want %s", job, got, status)
		}
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, claimed)
	w.wantError(err, "DP004", "No privacy budget was spent")
	if w.entries() != 1 {
		t.Errorf("%d entries, want one charge", w.entries())
	}
}

// worker drives jobs by hand, as dp_sidecar and without patience.
type worker struct {
	*world
	conn *pgx.Conn
}

func (w *world) worker() worker {
	conn := w.connect(w.system.URL("dp_sidecar"))
	w.exec(conn, `SET lock_timeout = '1s'`)
	return worker{w, conn}
}

// claim returns a job and its token, empty when there is none. It stays this worker's however
// long a test takes.
func (w worker) claim() (job, token string) {
	w.Helper()
	return w.claimFor("1 h")
}

func (w worker) claimFor(lease string) (job, token string) {
	w.Helper()
	c := one[string](w.world, w.conn, `SELECT coalesce(dp_int.job_claim(gen_random_uuid(), $1::text::interval, NULL), '{"id": "", "token": ""}')::text`, lease)
	return one[string](w.world, w.super, `SELECT $1::jsonb ->> 'id'`, c), one[string](w.world, w.super, `SELECT $1::jsonb ->> 'token'`, c)
}

func (w worker) read(job, token string) {
	w.Helper()
	w.exec(w.conn, `SELECT dp_int.job_charge($1, $2, 1000, '{"pure": {"epsilon": 0.5}}', 0.5, 0.125, 0, '{}')`, job, token)
	w.exec(w.conn, `SELECT dp_int.job_read($1, $2)`, job, token)
}

func (w worker) publish(job, token string) {
	w.Helper()
	w.exec(w.conn, `SELECT dp_int.job_publish($1, $2, 'by hand', '{x}', '{1}')`, job, token)
}

// A cancel in a transaction that stays open is its caller's affair: a release, its
// identical requests and everybody else's jobs go on.
func TestAnOpenCancelHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	submit := func(conn *pgx.Conn, eps float64) string {
		return one[string](w, conn, `SELECT dp_submit('l1', $1, $2)::text`, w.dataset, eps)
	}
	status := func(conn *pgx.Conn, job, want string) {
		t.Helper()
		if got := one[string](w, conn, `SELECT status FROM dp_status($1)`, job); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	bob := w.newAnalyst("bob_" + w.person)
	hand := w.worker()

	// The follower's: released without it, and it is answered later, or canceled.
	for _, end := range []struct{ how, state string }{{"ROLLBACK", "done"}, {"COMMIT", "canceled"}} {
		eps := 0.5 + 0.25*float64(len(end.how)-6)
		leading := submit(w.analyst, eps)
		job, token := hand.claim()
		following := submit(bob, eps)
		if again, _ := hand.claim(); job != leading || again != "" {
			t.Fatalf("claimed %s and %s, want %s and none", job, again, leading)
		}
		hand.read(job, token)
		w.exec(bob, `BEGIN`)
		if says := one[string](w, bob, `SELECT dp_cancel($1)`, following); !strings.HasPrefix(says, "canceled before it started") {
			t.Errorf("cancel says %q", says)
		}
		hand.publish(job, token)
		status(w.analyst, leading, "done")
		w.exec(bob, end.how)
		if again, _ := hand.claim(); again != "" {
			t.Errorf("claimed %s: it has a release", again)
		}
		status(bob, following, end.state)
	}

	// A leader's own, which comes too late, and one that comes in time.
	leading := submit(w.analyst, 0.3)
	job, token := hand.claim()
	hand.read(job, token)
	w.exec(w.analyst, `BEGIN`)
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, leading); !strings.HasPrefix(says, "too late") {
		t.Errorf("cancel says %q", says)
	}
	hand.publish(job, token)
	w.exec(w.analyst, `COMMIT`)
	status(w.analyst, leading, "done")

	leading = submit(w.analyst, 0.4)
	hand.claim()
	w.exec(w.analyst, `BEGIN`)
	one[string](w, w.analyst, `SELECT dp_cancel($1)`, leading)
	following, other := submit(bob, 0.4), submit(bob, 0.7)
	if job, _ := hand.claim(); job != other {
		t.Errorf("claimed %s, want %s", job, other)
	}
	_, err := w.steward.Exec(context.Background(), `SELECT dp_abandon($1)`, leading)
	w.wantError(err, "55P03", "open transaction holds job")
	w.exec(w.analyst, `COMMIT`)
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, leading)
	if job, _ := hand.claim(); job != following {
		t.Errorf("claimed %s, want the follower, %s", job, following)
	}
	status(w.analyst, leading, "canceled")
}

// Many identical requests are settled a hundred at a time, each hundred for good: a
// sidecar that gives up on a long claim would never get to the end of them.
func TestAClaimSettlesAHundredJobs(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	hand := w.worker()
	leading := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	job, token := hand.claim()
	if job != leading {
		t.Fatalf("claimed %q", job)
	}
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5) FROM generate_series(1, 250)`, w.dataset)
	other := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	for _, want := range []struct {
		followers int64
		claimed   string
	}{{100, ""}, {200, ""}, {250, other}} {
		if got, _ := hand.claim(); got != want.claimed {
			t.Errorf("claimed %q, want %q", got, want.claimed)
		}
		if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE follows IS NOT NULL`); n != want.followers {
			t.Errorf("%d followers, want %d", n, want.followers)
		}
	}
	hand.read(job, token)
	hand.publish(job, token)
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE state = 'done'`); n != 251 || w.entries() != 1 {
		t.Errorf("%d done for %d entries, want 251 for 1", n, w.entries())
	}
}

// A claim that finds a leader does not hold it up.
func TestAnOpenClaimHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	hand, slow := w.worker(), w.worker()
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset)
	job, token := hand.claim()
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset)
	w.exec(slow.conn, `BEGIN`)
	slow.claim()
	hand.read(job, token)
	hand.publish(job, token)
	w.exec(slow.conn, `COMMIT`)
	if again, _ := hand.claim(); again != "" || w.entries() != 1 {
		t.Errorf("claimed %q, %d entries", again, w.entries())
	}
}

// What ends every sidecar that takes it up must not end them all at once, for ever.
func TestAJobThatEndsItsSidecarsIsParked(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	hand := w.worker()
	for attempt := range 4 {
		got, token := hand.claim()
		if got != job {
			t.Fatalf("attempt %d: claimed %q", attempt, got)
		}
		if attempt == 0 {
			hand.read(got, token)
		}
		w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, job)
	}
	if got, _ := hand.claim(); got != "" {
		t.Fatalf("claimed at once after four sidecars")
	}
	if state := one[string](w, w.analyst, `SELECT sqlstate || hint FROM dp_status($1)`, job); !strings.HasPrefix(state, "DP004The privacy budget is spent, once") {
		t.Errorf("its caller is told %q", state)
	}
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, job)
	got, token := hand.claim()
	if got != job {
		t.Fatalf("claimed %q after the pause", got)
	}
	hand.publish(got, token)
}
