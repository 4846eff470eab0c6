package tests

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// waiting runs a statement that waits for a lock of another session, and returns once it does. Of other locks, those of tests
// that run at the same time, it may wait before.
func (w *world) waiting(conn, holder *pgx.Conn, sql string, args ...any) (ended <-chan error) {
	w.Helper()
	done := make(chan error, 1)
	go func() { _, err := conn.Exec(context.Background(), sql, args...); done <- err }()
	w.eventually("it waits", func() bool {
		return one[bool](w, w.super, `SELECT $2 = ANY (pg_blocking_pids($1))`, conn.PgConn().PID(), holder.PgConn().PID())
	})
	return done
}

// Whoever ends all jobs that are charged, and a worker that gives one of them up, take their locks in one order: jobs, then
// accounts. More jobs than a cursor reads at once.
func TestEndingJobsAndFailingOneDoNotDeadlock(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	var jobs, tokens []string
	for i := range 12 {
		w.exec(w.analyst, `SELECT dp_submit('l1', $1, $2)`, w.dataset, 0.1+float64(i)/100)
		job, token := w.abandon(charged)
		w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() + interval '1 h' WHERE id = $1`, job)
		jobs, tokens = append(jobs, job), append(tokens, token)
	}
	holder, adopting, worker := w.connect(w.system.SuperuserURL()), w.connect(w.system.SuperuserURL()), w.connect(w.system.URL("dp_sidecar"))
	w.exec(holder, `BEGIN`)
	w.exec(holder, `SELECT FROM dp_int.job WHERE id = $1 FOR NO KEY UPDATE`, jobs[10])
	adopted := w.waiting(adopting, holder, `SELECT FROM dp_int.adopt(false)`)
	failed := make(chan error, 1)
	go func() {
		_, err := worker.Exec(context.Background(), `SELECT dp_int.job_fail($1, $2, 'DP004', 'given up', '')`, jobs[11], tokens[11])
		failed <- err
	}()
	w.eventually("the worker has ended its job, or holds it and waits", func() bool {
		return len(failed) > 0 || one[bool](w, w.super, `SELECT coalesce((SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1), false)`, worker.PgConn().PID())
	})
	w.exec(holder, `COMMIT`)
	for what, err := range map[string]error{"adoption": <-adopted, "end of a job": <-failed} {
		if err != nil {
			t.Errorf("the %s: %v", what, err)
		}
	}
	if got := one[string](w, w.super, `SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state, count(*) AS n FROM dp_int.job GROUP BY state) AS s`); got != "abandoned 11, failed 1" {
		t.Errorf("jobs are %s", got)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// After a failover the jobs of all accounts are ended, and a revocation goes through those that a name had: both lock accounts
// in their order.
func TestEndingJobsAndARevocationDoNotDeadlock(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	var jobs []string
	for i := range 2 { // two accounts of one name
		if i == 1 {
			w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
			w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', 10, options => '{"new_population": "a new year"}')`, w.dataset, "public."+w.dataset)
			w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
		}
		w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset)
		job, _ := w.abandon(charged)
		w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() + interval '1 h' WHERE id = $1`, job)
		jobs = append(jobs, job)
	}
	w.exec(w.super, `UPDATE dp_int.job SET seq = DEFAULT WHERE id = $1`, jobs[0]) // the job of the second account is the first
	w.exec(w.super, `UPDATE dp_int.location SET timeline = timeline - 1`)
	holder, revoking, worker := w.connect(w.system.SuperuserURL()), w.connect(w.system.StewardURL()), w.connect(w.system.URL("dp_sidecar"))
	w.exec(holder, `BEGIN`)
	w.exec(holder, `SELECT FROM dp_int.dataset_grant g JOIN dp_int.dataset d ON d.id = g.dataset WHERE d.unregistered_at IS NOT NULL FOR UPDATE OF g`)
	revoked := w.waiting(revoking, holder, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	claims := w.waiting(worker, revoking, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL)`)
	w.exec(holder, `COMMIT`)
	for what, err := range map[string]error{"revocation": <-revoked, "claim": <-claims} {
		if err != nil {
			t.Errorf("the %s: %v", what, err)
		}
	}
	if got := one[string](w, w.super, `SELECT string_agg(DISTINCT state, ', ') FROM dp_int.job`); got != "abandoned" {
		t.Errorf("jobs are %s", got)
	}
	if accounts := one[int](w, w.super, `SELECT count(DISTINCT account)::int FROM dp_int.ledger WHERE kind = 'charge'`); accounts != 2 {
		t.Errorf("charges of %d accounts", accounts)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
