package tests

import (
	"context"
	"testing"
	"time"

	"dpsidecar/internal/dev"
)

// Any login can fill the server's queue of notifications, by listening in a transaction that stays open: then nothing is asked,
// changed or answered. A job that is charged already is answered once there is room, under its one charge. Servers before 17
// have a queue of 8 GB, which takes too long to fill.
func TestAFullQueueOfNotificationsSpendsNothing(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, 1, 0)
	if version := one[int](shared, shared.super, `SELECT current_setting('server_version_num')::int`); version < 170000 {
		t.Skipf("Postgres %d has no max_notify_queue_pages", version/10000)
	}
	s, err := dev.Start(context.Background(), dev.Options{Settings: map[string]string{"max_notify_queue_pages": "64"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := worldIn(t, s, 10, 0)
	hold, release := w.heldView("held")
	w.serve()
	hold()
	charged := one[string](w, w.analyst, `SELECT dp_submit('l1', 'held', 0.5, features => '{age}')::text`)
	w.eventually("it is charged", func() bool { return w.jobState(charged) == "reading" })
	if err := s.Login(context.Background(), "stranger", "pg_read_all_settings"); err != nil {
		t.Fatal(err)
	}
	listens, fills := w.connect(s.URL("stranger")), w.connect(s.URL("stranger"))
	w.exec(listens, `LISTEN anything`)
	w.exec(listens, `BEGIN; SELECT 1`)
	for full := false; !full; {
		_, err := fills.Exec(context.Background(), `SELECT pg_notify('anything', repeat('x', 7000) || i) FROM generate_series(1, 10) i`)
		full = err != nil
	}
	entries := w.entries()
	_, err = regress(w.analyst, ask, w.dataset, 0.25)
	w.wantError(err, "54000", "NOTIFY")
	_, err = w.analyst.Exec(context.Background(), `SELECT dp_submit('l1', $1, 0.25)`, w.dataset)
	w.wantError(err, "54000", "NOTIFY")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_set_budget($1, 9)`, w.dataset)
	w.wantError(err, "54000", "NOTIFY")
	release() // the job is fitted, and cannot be published
	time.Sleep(3 * time.Second)
	if state := w.jobState(charged); state != "reading" {
		t.Errorf("the job is %s", state)
	}
	w.exec(listens, `COMMIT`)
	w.within(2*time.Minute, "the job is done", func() bool { return w.jobState(charged) == "done" })
	if n := one[int](w, w.super, `SELECT attempt FROM dp_int.job WHERE id = $1::text::uuid`, charged); n < 2 {
		t.Errorf("%d attempt: the queue was not full when it was to be published", n)
	}
	if n := w.entries(); n != entries {
		t.Errorf("%d entries, want %d", n, entries)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
