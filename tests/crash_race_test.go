package tests

import (
	"strings"
	"testing"
	"time"
)

// Found by the crash runs: between the look at what is kept and the look at who
// is running, the one that ran published, and an identical request was claimed,
// charged and released a second time.
func TestAPublicationDuringAClaimIsNotMissed(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	const same = `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`
	w.exec(w.analyst, same, w.dataset)
	job, token := w.abandon(reading)
	w.exec(w.super, `UPDATE dp_int.job SET lease_until = clock_timestamp() + interval '1 h' WHERE id = $1`, job)
	again := one[string](w, w.analyst, same, w.dataset)

	// Whoever looks for a kept release now takes its time after having looked.
	w.exec(w.super, `ALTER FUNCTION dp_int.kept_release RENAME TO quick`)
	w.exec(w.super, `CREATE FUNCTION dp_int.kept_release(d bigint, h bytea) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
		DECLARE kept uuid := dp_int.quick(d, h); BEGIN PERFORM pg_sleep(0.5); RETURN kept; END $$`)
	w.exec(w.super, `GRANT EXECUTE ON FUNCTION dp_int.kept_release TO dp_owner`)
	claimed := make(chan string)
	worker := w.connect(w.system.URL("dp_sidecar"))
	go func() {
		claimed <- one[string](w, worker, `SELECT coalesce(dp_int.job_claim(gen_random_uuid(), '30 s', NULL)->>'id', 'nothing')`)
	}()
	time.Sleep(200 * time.Millisecond)
	w.exec(w.connect(w.system.URL("dp_sidecar")), `SELECT dp_int.job_publish($1, $2, 'x', '{x}', '{1}')`, job, token)
	if got := <-claimed; got != "nothing" {
		t.Errorf("claimed %s, which asks what was just published", got)
	}
	w.eventually("the second is answered as the first", func() bool {
		return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, again) == "done"
	})
	if w.spent() != 0.5 || w.entries() != 1 {
		t.Errorf("spent %g in %d entries, want 0.5 in 1", w.spent(), w.entries())
	}
}

// Found by the crash runs: a job that others follow is handed back, comes after
// an identical one that was claimed meanwhile, and its own followers waited for
// ever.
func TestFollowersOfAFollowerAreAnswered(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		w := lonelyWorld(t, 1, 0)
		submit := func() string {
			return one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
		}
		worker := w.connect(w.system.URL("dp_sidecar"))
		claim := func() (job, token string) {
			c := one[string](w, worker, `SELECT coalesce(dp_int.job_claim(gen_random_uuid(), '1 h', NULL), '{}')::text`)
			return one[string](w, w.super, `SELECT coalesce($1::jsonb ->> 'id', '')`, c), one[string](w, w.super, `SELECT coalesce($1::jsonb ->> 'token', '')`, c)
		}
		follow := func() {
			if job, _ := claim(); job != "" {
				t.Fatalf("claimed %s, which should follow", job)
			}
		}
		first := submit()
		_, token := claim()
		second := submit()
		follow() // the first
		w.exec(worker, `SELECT dp_int.job_hand_back($1, $2, true)`, first, token)

		third := submit()
		w.exec(w.super, `BEGIN`)
		w.exec(w.super, `SELECT FROM dp_int.job WHERE id = $1 FOR UPDATE`, first) // as a worker that looks at it
		job, token := claim()
		w.exec(w.super, `ROLLBACK`)
		if job != third {
			t.Fatalf("claimed %s, want the third", job)
		}
		if !late {
			follow() // the third, and is itself followed by the second
		}
		w.exec(worker, `SELECT dp_int.job_charge($1, $2, 1000, '{"bounded_range": {"epsilon": 0.5}}', 0.5, 0.03125, 0, '{}')`, job, token)
		w.exec(worker, `SELECT dp_int.job_read($1, $2)`, job, token)
		w.exec(worker, `SELECT dp_int.job_publish($1, $2, 'x', '{x}', '{1}')`, job, token)
		if late {
			follow() // no longer: it finds what is kept
		}
		for _, id := range []string{first, second, third} {
			if status := one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, id); status != "done" {
				t.Errorf("late %v: a job is %s, want done", late, status)
			}
		}
		if w.spent() != 0.5 {
			t.Errorf("spent %g, want 0.5", w.spent())
		}
	}
}

// Found by the crash runs: dp_run waited for ever for a job whose sidecar, the
// last one, was lost in the middle of it.
func TestARunningJobWithoutASidecarSaysSo(t *testing.T) {
	t.Parallel()
	for at, says := range map[step]string{claimed: "No privacy budget was spent", reading: "The privacy budget is spent, once"} {
		w := lonelyWorld(t, 1, 0)
		job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')::text`, w.dataset)
		w.abandon(at)
		if hint := one[string](w, w.analyst, `SELECT sqlstate || ' ' || hint FROM dp_status($1)`, job); !strings.HasPrefix(hint, "DP001 ") || !strings.Contains(hint, says) {
			t.Errorf("dp_status says %q, want DP001 and %q", hint, says)
		}
	}
}
