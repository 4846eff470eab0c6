package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

var asked atomic.Int64

// submitMany queues n jobs, no two of which ask the same.
func (w *world) submitMany(conn *pgx.Conn, n int) {
	w.Helper()
	w.exec(conn, `SELECT dp_submit('l1', $1, 0.001, options => jsonb_build_object('radius', 2 + i / 10000.0)) FROM generate_series($2 + 1, $2 + $3) i`,
		w.dataset, asked.Add(int64(n))-int64(n), n)
}

func (w worker) claimer() string {
	w.Helper()
	job, _ := w.claim()
	return one[string](w.world, w.super, `SELECT coalesce((SELECT caller::text FROM dp_int.job WHERE id::text = $1), '')`, job)
}

// Whoever has asked for much waits for his own jobs, and not others for them: fewest
// running first, then served longest ago, and each caller first in, first out.
func TestCallersAreServedInTurn(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	bob, cleo := "bob_"+w.person, "cleo_"+w.person
	w.submitMany(w.analyst, 300)
	w.submitMany(w.newAnalyst(bob), 2)
	w.submitMany(w.newAnalyst(cleo), 1)
	hand := w.worker()
	var served []string
	for range 6 {
		served = append(served, hand.claimer())
	}
	// With one, one and one running it is the turn of who was served first.
	if want := []string{w.person, bob, cleo, w.person, bob, w.person}; !slices.Equal(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
	if early := one[int](w, w.super, `SELECT count(*) FROM dp_int.job c JOIN dp_int.job q USING (caller) WHERE c.state = 'claimed' AND q.state = 'queued' AND q.seq < c.seq`); early != 0 {
		t.Errorf("%d jobs were claimed before older ones of their callers", early)
	}
	// Two whose jobs are long do not take every worker from one whose jobs are short.
	w.exec(w.super, `UPDATE dp_int.job SET state = 'failed', sqlstate = 'DP004', finished_at = now(), token = NULL, lease_until = NULL WHERE state = 'claimed' AND caller = $1`, bob)
	w.submitMany(w.connect(w.system.URL(bob)), 1)
	if got := hand.claimer(); got != bob {
		t.Errorf("served %s, who has jobs running; %s has none", got, bob)
	}
}

// A claim looks at few of the jobs that wait, however many they are.
func TestAClaimDoesNotReadTheWholeQueue(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) < 150000 {
		t.Skip("Postgres 14 does not bring its statistics up to date when it is asked to")
	}
	w.submitMany(w.analyst, 1)
	w.exec(w.super, `INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited)
		SELECT gen_random_uuid(), j.principal, j.caller, j.dataset, j.model, j.eps, j.delta, j.request, sha256(i::text::bytea), false, false FROM dp_int.job j, generate_series(1, 20000) i`)
	w.exec(w.super, `ANALYZE dp_int.job`)
	hand := w.worker()
	hand.claim()
	read := func() int64 {
		return one[int64](w, w.super, `SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = 'dp_int.job'::regclass`)
	}
	settle := func() int64 {
		w.exec(hand.conn, `SELECT pg_stat_force_next_flush()`)
		w.exec(w.super, `SELECT pg_stat_clear_snapshot()`)
		return read()
	}
	before := settle()
	for range 20 {
		if job, _ := hand.claim(); job == "" {
			t.Fatal("nothing claimed")
		}
	}
	if n := settle() - before; n > 20*200 {
		t.Errorf("20 claims read %d rows of jobs", n)
	}
}

// A caller may queue so many jobs and no more; what is kept, and what others ask, is
// not concerned.
func TestTheQueueOfACallerIsLimited(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	stop := w.serve()
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	stop()
	w.exec(w.steward, `SELECT dp_set_queue_limit(5)`)
	w.submitMany(w.analyst, 5)
	_, err := w.analyst.Exec(context.Background(), `SELECT dp_submit('l1', $1, 0.25)`, w.dataset)
	w.wantError(err, "53400", "has 5 jobs queued")
	w.wantError(err, "53400", "No privacy budget was spent")
	_, err = w.analyst.Exec(context.Background(), `CALL dp_run('l1', $1, 0.25)`, w.dataset)
	w.wantError(err, "53400", "dp_set_queue_limit")
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset) // kept
	w.submitMany(w.newAnalyst("other_"+w.person), 5)
	// A synchronous call is one more.
	w.sleepingSidecar()
	_, err = regress(w.analyst, ask, w.dataset, 0.25)
	w.wantError(err, "53400", "No privacy budget was spent")
	w.exec(w.steward, `SELECT dp_set_queue_limit(NULL)`)
	w.submitMany(w.analyst, 50)
	_, err = w.steward.Exec(context.Background(), `SELECT dp_set_queue_limit(0)`)
	w.wantError(err, "22023", "at least one job")
	if w.spent() != 0.5 {
		t.Errorf("spent %g", w.spent())
	}
}

// sleepingSidecar is one that the database believes alive and that takes no job.
func (w *world) sleepingSidecar() {
	w.Helper()
	w.exec(w.connect(w.system.URL("dp_sidecar")), `SELECT dp_int.worker_beat(gen_random_uuid(), pg_backend_pid(), 'test')`)
}

// A steward's transaction that is left open holds charges up for a while, with pauses;
// then they end, and say whose it is. Charges of other accounts go on meanwhile.
func TestAChargeThatIsHeldUpSaysByWhom(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	w.serve()
	other := worldIn(t, w.system, 100, 0)
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 5)`, w.dataset, w.person)
	pid := one[int](w, w.steward, `SELECT pg_backend_pid()`)
	began := time.Now()
	held := make(chan error, 1)
	asker := w.connect(w.system.URL(w.person))
	go func() { _, err := regress(asker, ask, w.dataset, 0.5); held <- err }()
	other.mustRegress(other.analyst, ask, other.dataset, 0.5)
	if len(held) > 0 {
		t.Error("another account's charge waited until this one was given up")
	}
	err := <-held
	w.wantError(err, "DP004", fmt.Sprintf("session %d, of \"steward\"", pid))
	w.wantError(err, "DP004", "pg_terminate_backend")
	w.wantError(err, "DP004", "No privacy budget was spent")
	if took := time.Since(began); took < 10*time.Second || took > 4*time.Minute {
		t.Errorf("given up after %v", took)
	}
	// One that ends in time is all the same to who asks.
	go func() { _, err := regress(asker, ask, w.dataset, 0.5); held <- err }()
	w.eventually("it pauses", func() bool {
		return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM dp_int.job WHERE state = 'queued' AND lease_until > clock_timestamp())`)
	})
	w.exec(w.steward, `COMMIT`)
	if err := <-held; err != nil {
		t.Errorf("after the COMMIT: %v", err)
	}
	if w.spent() != 0.5 {
		t.Errorf("spent %g", w.spent())
	}
}

// A charge that cannot be given back now, because somebody holds its account, keeps no
// other job from being claimed.
func TestARefundThatIsHeldUpStopsNoClaim(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	other := worldIn(t, w.system, 100, 0)
	stuck := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.abandon(charged)
	next := one[string](other, other.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, other.dataset)
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 5)`, w.dataset, w.person)
	hand := w.worker()
	if job, _ := hand.claim(); job != next {
		t.Fatalf("claimed %q, want %s", job, next)
	}
	w.exec(w.steward, `ROLLBACK`)
	w.eventually("it is claimed again", func() bool { job, _ := hand.claim(); return job == stuck })
}

// What locks what others need cannot outlive its session: a transaction that has
// canceled a job, or changed an account, cannot be prepared.
func TestLocksOnOthersCannotBePrepared(t *testing.T) {
	t.Parallel()
	s, err := dev.Start(context.Background(), dev.Options{Settings: map[string]string{"max_prepared_transactions": "5"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := worldIn(t, s, 100, 0)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	hand := w.worker()
	if got, _ := hand.claim(); got != job {
		t.Fatalf("claimed %q", got)
	}
	for _, c := range []struct {
		conn *pgx.Conn
		sql  string
		args []any
	}{
		{w.analyst, `SELECT dp_cancel($1)`, []any{job}},
		{w.steward, `SELECT dp_grant($1, $2)`, []any{w.dataset, w.person}},
		{w.steward, `SELECT dp_set_budget($1, 50, 0)`, []any{w.dataset}},
		{w.steward, `SELECT dp_abandon($1)`, []any{job}},
	} {
		w.exec(c.conn, `BEGIN`)
		w.exec(c.conn, c.sql, c.args...)
		_, err := c.conn.Exec(context.Background(), `PREPARE TRANSACTION 'held'`)
		w.wantError(err, "0A000", "NOTIFY")
		w.exec(c.conn, `ROLLBACK`)
	}
	// Identical requests go on.
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() WHERE id = $1`, job)
	w.serve()
	w.mustRegress(w.newAnalyst("bob_"+w.person), ask, w.dataset, 0.5)
}

// A clock that is set back does not bring back an answer that was asked anew: a request is answered again by the release that was charged last.
func TestAClockSetBackKeepsTheLatestAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, 0)
	first := w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.exec(w.super, `UPDATE dp_int.release r SET released_at = released_at + interval '1 day' FROM dp_int.dataset d WHERE d.id = r.dataset AND d.name = $1`, w.dataset)
	latest := w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, $2, options => '{"fresh": true}')`, w.dataset, 0.5)
	if again := w.mustRegress(w.analyst, ask, w.dataset, 0.5); !slices.Equal(again, latest) || slices.Equal(again, first) {
		t.Errorf("answered by %v; the first was %v, the latest %v", again, first, latest)
	}
	if w.spent() != 1 {
		t.Errorf("spent %g, want 1", w.spent())
	}
}

// A clock that is set back while a sidecar is dead must not make its lease longer, nor
// take it from one that lives.
func TestAClockSetBackMakesNoLeaseLonger(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 100, 0)
	one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	hand := w.worker()
	job, token := hand.claimFor("30 s")
	// As if it had been claimed an hour ahead of what the clock says now.
	const back = `UPDATE dp_int.job SET leased_at = leased_at + interval '1 hour', lease_until = lease_until + interval '1 hour' WHERE id = $1`
	left := func() float64 {
		return one[float64](w, w.super, `SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM dp_int.job WHERE id = $1`, job)
	}
	w.exec(w.super, back, job)
	if got, _ := hand.claim(); got != "" {
		t.Errorf("claimed %s: its sidecar may be alive", got)
	}
	if s := left(); s > 31 || s < 5 {
		t.Errorf("%g s of its lease are left", s)
	}
	if !one[bool](w, hand.conn, `SELECT dp_int.job_beat($1, $2, '30 s')`, job, token) {
		t.Error("a sidecar that is alive has lost its job")
	}
	// A pause is no longer either.
	w.exec(hand.conn, `SELECT dp_int.job_hand_back($1, $2, false, 'held', '')`, job, token)
	w.exec(w.super, back, job)
	hand.claim()
	if s := left(); s > 2 {
		t.Errorf("%g s of its pause are left", s)
	}
}

// What is too large to be meant is refused before anything is made of it, and no
// message carries it whole.
func TestLongArgumentsAreRefusedBriefly(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.super, `ALTER ROLE `+w.person+` SET temp_file_limit = 0`) // sorts on disk are errors
	w.analyst = w.connect(w.system.URL(w.person))
	w.wantError(w.try(w.analyst, `SELECT FROM (SELECT FROM generate_series(1, 1000000) i ORDER BY -i) s`), "53400", "temp_file_limit")
	for name, c := range map[string]struct {
		sql, says string
	}{
		"features":     {`SELECT * FROM dp_l1_regress($1, 1, features => array_fill('age'::name, ARRAY[300000]))`, "300000 features are named"},
		"option name":  {`SELECT * FROM dp_l1_regress($1, 1, options => jsonb_build_object(repeat('x', 5000000), 1))`, "too long"},
		"option":       {`SELECT * FROM dp_l1_regress($1, 1, options => jsonb_build_object(repeat('x', 100000), 1))`, "unknown option"},
		"option value": {`SELECT * FROM dp_l1_regress($1, 1, options => jsonb_build_object('method', repeat('x', 100000)))`, "must be one of"},
		"no options":   {`SELECT * FROM dp_l1_regress($1, 1, options => to_jsonb(repeat('x', 100000)))`, "JSON object"},
		"model":        {`SELECT dp_submit(repeat('x', 5000000), $1, 1)`, "unknown model"},
		"data set":     {`SELECT * FROM dp_l1_regress($1 || repeat('x', 5000000), 1)`, "does not exist"},
		"method":       {`SELECT * FROM dp_linear_regress($1, 1, method => repeat('x', 5000000), options => '{"method": "gd"}')`, "given twice"},
	} {
		_, err := w.analyst.Exec(context.Background(), c.sql, w.dataset)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !strings.Contains(pg.Message, c.says) || !strings.Contains(pg.Hint, "No privacy budget was spent") {
			t.Errorf("%s: %.300v", name, err)
		} else if size := len(pg.Message) + len(pg.Detail); size > 1000 {
			t.Errorf("%s: a message of %d bytes", name, size)
		}
	}
	if log, err := os.ReadFile(w.system.Cluster.LogFile()); err != nil || strings.Contains(string(log), strings.Repeat("x", 1000)) {
		t.Errorf("the server's log holds it whole (%v)", err)
	}
}

// Where callers and their loopbacks need all connections of the server, they wait for
// one another a little and are answered, and an idle session keeps none.
func TestCallersShareFewConnections(t *testing.T) {
	t.Parallel()
	s, err := dev.Start(context.Background(), dev.Options{Settings: map[string]string{"max_connections": "40"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := worldIn(t, s, 1000, 0)
	w.serve()
	const callers, rounds = 20, 3
	conns := make([]*pgx.Conn, callers)
	for i := range conns {
		conns[i] = w.connect(s.URL(w.person))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := map[string]int{}
	for i, conn := range conns {
		all.Go(func() {
			for round := range rounds {
				if _, err := regress(conn, ask, w.dataset, 0.5+float64(i*rounds+round)/1000); err != nil {
					mu.Lock()
					failed[err.Error()+hint(err)]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	kept := func() int {
		return one[int](w, w.super, `SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'dp\_loopback%'`)
	}
	// Those that are kept end by themselves after 20 s.
	w.within(15*time.Second, "most sessions that wait for nothing keep no loopback", func() bool { return kept() <= callers/2 })

	// With none at all to be had, nor one that ends meanwhile, the error says what it is.
	w.endSessions(`dp\_loopback%`)
	for {
		conn, err := pgx.Connect(context.Background(), s.URL(w.person))
		if err != nil {
			break
		}
		defer conn.Close(context.Background())
	}
	began := time.Now()
	_, err = regress(conns[0], ask, w.dataset, 0.25)
	w.wantError(err, "53300", "too many clients")
	w.wantError(err, "53300", "No privacy budget was spent")
	if took := time.Since(began); took < 5*time.Second || took > 2*time.Minute {
		t.Errorf("after %v", took)
	}
}
