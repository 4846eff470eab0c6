package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// An outlier makes the exact sampler search for longer, several times. What an analyst
// sees of time is the same for both tables: the step at which a job ends, counted from
// where it began to read, is one of the same ladder, most often the first.
func TestTimeTellsNoRow(t *testing.T) {
	w := lonelyWorld(t, 100, 0)
	w.serve()
	if told := w.timeTells(); told != "" {
		t.Error(told)
	}
}

// A job that says when it really ended is noticed.
func TestATimeThatTellsARowIsNoticed(t *testing.T) {
	w := lonelyWorld(t, 100, 0)
	w.exec(w.super, `CREATE FUNCTION public.at_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.finished_at := clock_timestamp(); RETURN NEW; END $$;
		CREATE TRIGGER at_once BEFORE UPDATE ON dp_int.job FOR EACH ROW WHEN (NEW.release IS NOT NULL) EXECUTE FUNCTION public.at_once()`)
	w.serve()
	if w.timeTells() == "" {
		t.Error("not noticed")
	}
}

// timeTells asks the same of two neighbours and says what differs in the times of jobs,
// or nothing. That a step is missed is the machine's doing and may happen, but not to
// half of the jobs, of each twelve until the machine has nothing else to do for a moment.
func (w *world) timeTells() string {
	w.Helper()
	const asked, times = 12, 20
	var ladders []string
	for i, last := range []string{`21, 7`, `30, 10000`} {
		name := fmt.Sprintf("near%d", i)
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE %[1]s (y float8, x float8); GRANT SELECT ON %[1]s TO dp_sidecar;
			INSERT INTO %[1]s SELECT 3 * (i %% 10) + i %% 7, i %% 10 FROM generate_series(1, 299) i; INSERT INTO %[1]s VALUES (%[2]s)`, name, last))
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1000, scales => '{"y": 10, "x": 10}')`, name, "public."+name)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		strays, first := 0, 0
		for batch := 0; batch < times && strays == 0 && first < asked/2; batch++ {
			for k := range asked {
				w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 1, options => jsonb_build_object('method', 'exponential_mechanism', 'radius', 5 + $2::float8, 'fresh', true))`, name, float64(k)/100)
			}
			strays = one[int](w, w.super, `SELECT count(*)::int FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset JOIN dp_int.release r ON r.id = j.release
				WHERE d.name = $1 AND (r.released_at <> j.finished_at OR NOT j.finished_at = ANY (SELECT dp_int.step(j, k) FROM generate_series(0, j.last_step) k))`, name)
			first = one[int](w, w.super, `SELECT count(*) FILTER (WHERE finished_at = dp_int.step(j, 0))::int FROM (SELECT j.* FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1 ORDER BY seq DESC LIMIT $2) j`, name, asked)
		}
		ladders = append(ladders, one[string](w, w.super, `SELECT string_agg(DISTINCT first_step || ' to ' || last_step, ', ') FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1`, name))
		if strays > 0 || first < asked/2 {
			return fmt.Sprintf("of the last %d jobs of %s %d end at the first step, of all %d beside their ladders", asked, name, first, strays)
		}
	}
	if ladders[0] != ladders[1] {
		return fmt.Sprintf("the ladders are %q", ladders)
	}
	return ""
}

// Whoever waits hears, and dp.jobs shows, words that do not tell reading from fitting.
func TestAWaitThatIsLateHasOneStage(t *testing.T) {
	w := newWorld(t, 100, 0)
	slow := w.dataset + "_slow"
	w.slowView(slow, 2.5)
	conn, heard := w.listening(w.person)
	w.mustRegress(conn, `SELECT * FROM dp_l1_regress($1, 1)`, slow)
	for _, said := range heard() {
		if !strings.HasPrefix(said, "dpsidecar: charged, running") && !slices.Contains([]string{"dpsidecar: planning", "dpsidecar: done"}, said) && !strings.HasPrefix(said, "dpsidecar: no scale is registered") {
			t.Errorf("heard %q", said)
		}
	}
	late := one[bool](w, w.super, `SELECT finished_at > dp_int.step(j, 0) FROM dp_int.job j JOIN dp_int.dataset d ON d.id = j.dataset WHERE d.name = $1`, slow)
	if !late {
		t.Error("a read of 2.5 s ends at the first step")
	}
}

// queueJobs queues so many jobs of the analyst without their sessions: no two are identical.
func (w *world) queueJobs(jobs int) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`SELECT dp_int.insert_job(gen_random_uuid(), '%s', (d.id, 'l1', 1, 0, jsonb_build_object('eps', i), sha256(i::text::bytea), false)::dp_int.request, false)
		FROM dp_int.dataset d, generate_series(1, %d) i WHERE d.name = '%s'`, w.person, jobs, w.dataset))
	w.exec(w.super, `ANALYZE dp_int.job`)
}

// What a steward asks of a long queue takes time in proportion to it: eight times as
// many jobs take less than a third of the 64 times that a quadratic query would.
func TestALongQueueIsCountedInOnePass(t *testing.T) {
	const few, times = 500, 8
	for name, ask := range map[string]func(w *world, conn *pgx.Conn){
		"dp.jobs": func(w *world, conn *pgx.Conn) {
			w.exec(conn, `SELECT stage, count(*) FROM dp.jobs GROUP BY stage`)
		},
		"dp_abandon": func(w *world, conn *pgx.Conn) {
			w.exec(conn, `SELECT count(dp_abandon(id)) FROM dp.jobs WHERE status = 'queued'`)
		},
		"dp_revoke": func(w *world, conn *pgx.Conn) {
			w.exec(conn, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 100, 0)
			took := func(jobs int) time.Duration {
				w.queueJobs(jobs)
				w.exec(w.steward, `BEGIN`)
				best := time.Hour
				for range 3 {
					w.exec(w.steward, `SAVEPOINT before`)
					start := time.Now()
					ask(w, w.steward)
					best = min(best, time.Since(start))
					w.exec(w.steward, `ROLLBACK TO before`)
				}
				w.exec(w.steward, `ROLLBACK`)
				w.exec(w.super, `TRUNCATE dp_int.job CASCADE`)
				w.exec(w.super, `VACUUM dp_int.job`)
				return best
			}
			took(few) // what is done once a session
			small, large := time.Hour, time.Hour
			for range 5 { // the fastest of all: the machine has other work
				small, large = min(small, took(few)), min(large, took(times*few))
				t.Logf("%d jobs: %v, %d jobs: %v", few, small, times*few, large)
				if large <= times*times/3*small {
					return
				}
			}
			t.Errorf("%d times as many jobs take %.1f times as long", times, float64(large)/float64(small))
		})
	}
}

// A grant taken back ends what its callers have queued, and nobody else's.
func TestARevokedCallersQueueEnds(t *testing.T) {
	w := lonelyWorld(t, 100, 0)
	bob := w.newAnalyst("bob")
	mine := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	his := one[string](w, bob, `SELECT dp_submit('l1', $1, 0.25)::text`, w.dataset)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	if got := w.jobState(mine); got != "failed" {
		t.Errorf("the revoked caller's job is %s", got)
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, mine)
	w.wantError(err, "42501", "No privacy budget was spent")
	if got := w.jobState(his); got != "queued" {
		t.Errorf("another's job is %s", got)
	}
}
