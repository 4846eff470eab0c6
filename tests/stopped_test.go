package tests

import (
	"strings"
	"testing"
)

// What ended at its last step, or asks the same as what is spent already.

// stop takes a job to its last step by hand.
func (w worker) stop(job, token string) {
	w.Helper()
	w.exec(w.conn, `SELECT dp_int.job_stop($1, $2)`, job, token)
}

func (w *world) submit(eps float64, options string) string {
	w.Helper()
	return one[string](w, w.analyst, `SELECT dp_submit('l1', $1, $2, options => $3)::text`, w.dataset, eps, options)
}

// Whoever came to follow a job in the moment in which it ended at its last step, or could
// not wake it because a steward's transaction held it, does not wait for ever.
func TestWhoCameAsAJobStoppedIsAnswered(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	hand, slow := w.worker(), w.worker()
	leading := w.submit(0.5, `{}`)
	job, token := hand.claim()
	hand.read(job, token)
	w.submit(0.5, `{}`)
	w.exec(slow.conn, `BEGIN`)
	if got, _ := slow.claim(); got != "" {
		t.Fatalf("claimed %s, which should follow", got)
	}
	hand.stop(job, token)
	w.exec(slow.conn, `COMMIT`)
	if job, token = hand.claim(); job != leading {
		t.Fatalf("claimed %q, want the stopped job, which is followed", job)
	}

	hand.stop(job, token)
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, `SELECT dp_abandon($1)`, leading)
	last := w.submit(0.5, `{}`)
	if got, _ := hand.claim(); got != "" {
		t.Fatalf("claimed %s while a steward holds the job", got)
	}
	w.exec(w.steward, `ROLLBACK`)
	if job, token = hand.claim(); job != leading {
		t.Fatalf("claimed %q, want the stopped job, which is followed", job)
	}
	hand.publish(job, token)
	if got := w.jobState(last); got != "done" || w.entries() != 1 {
		t.Errorf("the follower is %s for %d entries, want done for 1", got, w.entries())
	}
}

// To ask again for what takes too long is free, and must not take the workers from others.
func TestAWokenJobWaitsItsTurn(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	bob := w.newAnalyst("bob_" + w.person)
	hand := w.worker()
	long := w.submit(0.5, `{}`)
	job, token := hand.claim()
	hand.read(job, token)
	hand.stop(job, token)
	w.exec(w.super, `UPDATE dp_int.job SET leased_at = clock_timestamp(), lease_until = clock_timestamp() WHERE id = $1`, long)
	queued := one[string](w, bob, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	for _, want := range []string{queued, long, ""} {
		if got, _ := hand.claim(); got != want {
			t.Errorf("claimed %q, want %q", got, want)
		}
	}
}

// What a cancel that comes too late says of the budget holds: while a fresh job is spent
// and not done, the same without fresh waits for it, or wakes it, and costs nothing.
func TestTheSameAsASpentFreshJobIsFree(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	hand := w.worker()
	fresh := w.submit(0.5, `{"fresh": true}`)
	job, token := hand.claim()
	hand.read(job, token)
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, fresh); !strings.Contains(says, "the same request without fresh returns it at no cost") {
		t.Errorf("cancel says %q", says)
	}
	same := w.submit(0.5, `{}`)
	if got, _ := hand.claim(); got != "" {
		t.Fatalf("claimed %s, which is paid for", got)
	}
	hand.publish(job, token)
	if got := w.jobState(same); got != "done" || w.entries() != 1 {
		t.Errorf("it is %s for %d entries, want done for 1", got, w.entries())
	}

	fresh = w.submit(0.25, `{"fresh": true}`)
	job, token = hand.claim()
	hand.read(job, token)
	hand.stop(job, token)
	if says := one[string](w, w.analyst, `SELECT dp_cancel($1)`, fresh); !strings.Contains(says, "did not end within its time, and the same request tries again at no further cost") {
		t.Errorf("cancel says %q", says)
	}
	w.submit(0.25, `{}`)
	if got, _ := hand.claim(); got != fresh || w.entries() != 2 {
		t.Errorf("claimed %q for %d entries, want %s for 2", got, w.entries(), fresh)
	}
}

// A claim that would have to wait for a second data set gives up what it holds of the
// first: two that pass both in another order would wait for each other.
func TestAClaimPassesOneTurnstile(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	other := worldIn(t, w.system, 10, 0)
	hand := w.worker()
	var leading []string
	for _, in := range []*world{w, other} {
		in.submit(0.5, `{}`)
		job, _ := hand.claim()
		leading = append(leading, job)
		in.submit(0.5, `{}`)
	}
	w.exec(w.super, `BEGIN`)
	w.exec(w.super, `SELECT FROM dp_int.turnstile t JOIN dp_int.dataset d ON d.id = t.dataset WHERE d.name = $1 FOR UPDATE OF t`, other.dataset)
	w.exec(hand.conn, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL)`)
	w.exec(w.super, `COMMIT`)
	hand.claim()
	for _, job := range leading {
		if n := one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job WHERE follows = $1`, job); n != 1 {
			t.Errorf("%d follow %s, want 1", n, job)
		}
	}
}
