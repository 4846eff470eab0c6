package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listening connects as a person and collects the notices.
func (w *world) listening(person string) (*pgx.Conn, func() []string) {
	w.Helper()
	return w.listeningAt(w.system.URL(person))
}

func (w *world) listeningAt(url string) (*pgx.Conn, func() []string) {
	w.Helper()
	return w.listeningTo(url, func(n *pgconn.Notice) string { return n.Message })
}

// hearingHints is listening to notices with their hints.
func (w *world) hearingHints(person string) (*pgx.Conn, func() []string) {
	w.Helper()
	return w.listeningTo(w.system.URL(person), func(n *pgconn.Notice) string { return n.Message + " HINT: " + n.Hint })
}

func (w *world) listeningTo(url string, part func(*pgconn.Notice) string) (*pgx.Conn, func() []string) {
	w.Helper()
	var mu sync.Mutex
	var heard []string
	config, err := pgx.ParseConfig(url)
	if err != nil {
		w.Fatal(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, part(n))
	}
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close(context.Background()) })
	return conn, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(heard) }
}

// Whoever waits is told how far the job is, each stage once, and nothing else;
// dp.jobs says the same.
func TestACallerWhoWaitsIsToldTheStage(t *testing.T) {
	w := newWorld(t, 100, 0)
	slow := w.dataset + "_slow"
	hold, release := w.heldView(slow)
	blocker := w.connect(w.system.SuperuserURL())
	for _, sql := range []string{
		`SELECT * FROM dp_l1_regress('` + slow + `', 1)`,
		`CALL dp_run('l1', '` + slow + `', 0.5)`,
	} {
		conn, heard := w.listening(w.person)
		w.exec(blocker, `BEGIN; LOCK TABLE public.`+w.dataset)
		hold()
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), sql)
			ended <- err
		}()
		w.eventually("it says that it plans", func() bool { return slices.Contains(heard(), "dpsidecar: planning") })
		w.exec(blocker, `ROLLBACK`)
		w.eventually("it says that it runs", func() bool { return slices.Contains(heard(), "dpsidecar: charged, running") })
		if stage := one[string](w, w.analyst, `SELECT stage FROM dp.jobs WHERE status = 'running'`); stage != "charged, running" {
			t.Errorf("dp.jobs says %q", stage)
		}
		release()
		if err := <-ended; err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if all := heard(); all[len(all)-1] != "dpsidecar: done" || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
			t.Errorf("%s: heard %q", sql, all)
		}
	}
}

// A quick call says nothing, and a queue is counted.
func TestAQuickCallIsSilent(t *testing.T) {
	w := lonelyWorld(t, 100, 0)
	for _, eps := range []float64{1, 2, 3} {
		w.exec(w.analyst, `SELECT dp_submit('l1', $1, $2, features => '{age}')`, w.dataset, eps)
	}
	if stages := all[string](w, w.analyst, `SELECT stage FROM dp.jobs ORDER BY created_at`); strings.Join(stages, "; ") != "queued; queued behind 1; queued behind 2" {
		t.Errorf("stages %q", stages)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("all are done", func() bool { return one[int64](w, w.analyst, `SELECT count(*) FROM dp.jobs WHERE stage = 'done'`) == 3 })
	// Whoever waits for more than 0.9 s is told: on a machine with too much to do another call is the quick one.
	for attempt := range 100 {
		conn, heard := w.listening(w.person)
		begun := time.Now()
		w.mustRegress(conn, `SELECT * FROM dp_l1_regress($1, $2, features => '{age}')`, w.dataset, 0.4+float64(attempt)/1000)
		if time.Since(begun) > 900*time.Millisecond {
			continue
		}
		if said := heard(); len(said) != 0 {
			t.Errorf("a quick call says %q", said)
		}
		return
	}
	t.Error("no call is quick")
}

// Whoever is about to spend is warned of what dp_explain would have said, before anything
// is charged; whoever gets a kept release is not.
func TestSpendersAreWarned(t *testing.T) {
	w := newWorld(t, 50, 1e-5)
	bare := w.simple("warned_" + w.dataset)
	loose := newWorld(t, 50, 0.02).dataset
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, loose, w.person)
	for _, c := range []struct{ sql, says string }{
		{`SELECT * FROM dp_linear_regress('` + w.dataset + `', 0.01)`, "too few rows"},
		{`SELECT * FROM dp_l1_regress('` + w.dataset + `', 11, features => '{age}')`, "eps 11 promises little"},
		{`SELECT * FROM dp_l1_regress('` + w.dataset + `', 1, features => '{}')`, "the fit has an intercept alone"},
		{`SELECT * FROM dp_huber_regress('` + bare + `', 1, method => 'gd')`, "no scale is registered"},
		{`CALL dp_run('linear', '` + w.dataset + `', 0.02)`, "too few rows"},
		{`SELECT dp_submit('huber', '` + loose + `', 1, 0.01)`, "delta is above one"},
	} {
		conn, heard := w.hearingHints(w.person)
		before := w.entries()
		warned := false
		ended := make(chan error, 1)
		blocker := w.connect(w.system.SuperuserURL())
		w.exec(blocker, `BEGIN; LOCK TABLE public.`+w.dataset)
		go func() {
			_, err := conn.Exec(context.Background(), c.sql)
			ended <- err
		}()
		w.eventually("it warns", func() bool {
			warned = slices.ContainsFunc(heard(), func(s string) bool {
				return strings.Contains(s, c.says) && strings.HasSuffix(s, "The request is made all the same, and charged if it is admitted. dp_explain shows warnings first, free.")
			})
			return warned
		})
		if w.entries() != before {
			t.Errorf("%s: charged before the warning", c.sql)
		}
		w.exec(blocker, `ROLLBACK`)
		if err := <-ended; err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		if strings.Contains(c.sql, "submit") {
			continue
		}
		conn, heard = w.listening(w.person)
		w.exec(conn, c.sql)
		if said := heard(); slices.ContainsFunc(said, func(s string) bool {
			return strings.Contains(s, c.says) && !strings.HasPrefix(s, "dpsidecar: not every figure has a value") // that is no warning
		}) {
			t.Errorf("%s: a kept release warns: %q", c.sql, said)
		}
	}
}

// Features of size 1 need no scale: where only the target has one, neither the fit nor its score asks for scales.
func TestAScaleOfTheTargetIsAScale(t *testing.T) {
	w := newWorld(t, 50, 0)
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"age": null, "region": null}')`, w.dataset)
	conn, heard := w.listening(w.person)
	for _, sql := range []string{`SELECT * FROM dp_l1_regress($1, 2, features => '{insured,age}')`, `SELECT * FROM dp_score(dp_last_release($1), 2)`} {
		w.exec(conn, sql, w.dataset)
		if said := strings.Join(heard(), "\n"); strings.Contains(said, "no scale is registered") {
			t.Errorf("%s: %s", sql, said)
		}
	}
}

// Whoever waits long is told about how long it will take, as public facts have it;
// so is who looks at dp.jobs, until the job cannot be read.
func TestACallerWhoWaitsIsToldTheTimeLeft(t *testing.T) {
	w := lonelyWorld(t, 100, 0)
	worker := w.connect(w.system.URL("dp_sidecar"))
	alive := func() { // for 15 s
		w.exec(worker, `SELECT dp_int.worker_beat('00000000-0000-4000-8000-000000000001', pg_backend_pid(), 'by hand')`)
	}
	alive()
	conn, heard := w.listening(w.person)
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), `SELECT * FROM dp_l1_regress('`+w.dataset+`', 0.5)`)
		ended <- err
	}()
	w.eventually("the job is queued", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE state = 'queued'`) == 1
	})
	claim := one[string](w, worker, `SELECT dp_int.job_claim(gen_random_uuid(), '100 s', NULL)::text`)
	job, token := one[string](w, w.super, `SELECT $1::jsonb ->> 'id'`, claim), one[string](w, w.super, `SELECT $1::jsonb ->> 'token'`, claim)
	w.exec(worker, `SELECT dp_int.job_charge($1, $2, 1000, '{"bounded_range": {"epsilon": 0.5}}', 0.5, 0.03125, 0, '{}')`, job, token)
	w.exec(worker, `SELECT dp_int.job_read($1, $2, '4 min 20 s', 9)`, job, token)
	w.eventually("it says how long", func() bool {
		alive()
		return slices.Contains(heard(), "dpsidecar: charged, running, about 4 min left")
	})
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp.jobs j JOIN dp_int.job i USING (id) WHERE j.expected_at = i.read_at + i.first_step`); n != 1 {
		t.Error("the first step is not what is expected")
	}
	w.exec(w.super, `UPDATE dp_int.job SET first_step = first_step * 1.5 WHERE id = $1`, job)
	w.eventually("it says that this was not enough", func() bool {
		alive()
		return slices.ContainsFunc(heard(), func(s string) bool {
			return strings.HasPrefix(s, "dpsidecar: charged, running, longer than expected, about ")
		})
	})
	w.exec(w.super, `UPDATE dp_int.job SET first_step = '4 min' WHERE id = $1`, job)
	if left := one[float64](w, w.analyst, `SELECT extract(epoch FROM j.expected_at - clock_timestamp())::float8 FROM dp.jobs j, dp_status(j.id) s WHERE j.expected_at = s.expected_at`); left < 60 || left > 260 {
		t.Errorf("dp.jobs says %v seconds", left)
	}
	w.exec(worker, `SELECT dp_int.job_park($1, $2, 'it is away')`, job, token)
	w.wantError(<-ended, "DP004", "it is away")
	if told := one[bool](w, w.analyst, `SELECT expected_at IS NOT NULL FROM dp.jobs`); told {
		t.Error("dp.jobs says when a job is done that cannot be read")
	}
	for left, says := range map[string]string{"1 s": "", "-1 s": "", "-1 min": "", "12.4 s": ", about 12 s left", "99.4 s": ", about 99 s left", "3 h": ", about 180 min left"} {
		if got := one[string](w, w.analyst, `SELECT dp.time_left(clock_timestamp() + $1::text::interval)`, left); got != says {
			t.Errorf("%s left is %q, want %q", left, got, says)
		}
	}
	if got := one[string](w, w.analyst, `SELECT dp.time_left(NULL)`); got != "" {
		t.Errorf("no estimate is %q", got)
	}
}

// Whoever reads coefficients alone is told where the radius may have cut them, also when
// the answer was kept.
func TestACutIsTold(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	for _, call := range []string{`dp_linear_regress('%s', 5, features => '{age}', options => '{"radius": %s}')`, `dp_l1_regress('%s', 5, features => '{age}', options => '{"method": "objective_perturbation", "radius": %s}')`} {
		for radius, told := range map[string]bool{"0.001": true, "100": false} {
			for range 2 {
				conn, heard := w.listening(w.person)
				w.exec(conn, `SELECT * FROM `+fmt.Sprintf(call, w.dataset, radius))
				if cut := slices.Contains(heard(), "dpsidecar: the coefficients are as large as the radius allows; ask for a larger one, or give scales that fit"); cut != told {
					t.Errorf("%s, radius %s: %q", call, radius, heard())
				}
			}
		}
	}
	conn, heard := w.hearingHints(w.person)
	w.exec(conn, `SELECT * FROM dp_linear_regress($1, 5, features => '{age}', options => '{"radius": 0.001}')`, w.dataset)
	if hint := strings.Join(heard(), "\n"); !strings.Contains(hint, `The radius was 0.001: for instance options => '{"radius": 0.01}'`) || !strings.Contains(hint, "Scales are registered by a steward, with dp_set_scales") {
		t.Errorf("the hint is %q", hint)
	}
	conn, heard = w.hearingHints(w.person) // also who reads the summary, whatever the reasons in it
	w.exec(conn, `SELECT dp_summary(r.id) FROM dp.releases r WHERE r.dataset = $1 AND r.model = 'linear' AND r.parameters ->> 'radius' = '0.001'`, w.dataset)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "the coefficients are as large as the radius allows") {
		t.Errorf("with the summary %q is said", said)
	}
	conn, heard = w.hearingHints(w.person)
	// At a radius of 10 noise left one fit of 13 inside. It is the same at this one, beside which it is 10^4 times as large in each of four directions: one fit of some 10^17.
	w.exec(conn, `SELECT * FROM dp_linear_regress($1, 0.0001, options => '{"radius": 0.001}')`, w.dataset)
	if hint := strings.Join(heard(), "\n"); !strings.Contains(hint, "as noise makes them with so few rows for this eps") || !strings.Contains(hint, "Ask with more eps or fewer features.") || strings.Contains(hint, "for instance options") {
		t.Errorf("with little information the hint is %q", hint)
	}
}

// Whoever reads coefficients of a smaller huber_delta than was asked for is told which, also when the answer was
// kept, and dp.releases holds it.
func TestASmallerHuberDeltaIsTold(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	narrow := w.dataset + "_narrow"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT 0.5 + 0.2 * x + 0.02 * (random() + random() - 1) AS y, x, (i %% 2)::float8 AS half FROM (SELECT i, random() AS x FROM generate_series(1, 20000) AS i) AS rows;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, narrow))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x,half}', 100, 1e-5, scales => '{"y": 1, "x": 1}')`, narrow, "public."+narrow)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, narrow, w.person)
	hears := func(query string, parameters ...any) bool {
		conn, heard := w.listening(w.person)
		w.exec(conn, query, parameters...)
		return slices.ContainsFunc(heard(), func(s string) bool {
			return strings.HasPrefix(s, "dpsidecar: the coefficients and their intervals are those of huber_delta 0.") && strings.HasSuffix(s, ", not 1: most residuals are seen to be far smaller")
		})
	}
	const asked = `SELECT * FROM dp_huber_regress($1, $2, options => $3::jsonb)`
	for _, options := range []string{`{"huber_delta": 0.004}`, `{"method": "gd"}`} {
		if hears(asked, narrow, 5, options) {
			t.Errorf("%s: a smaller huber_delta is told", options)
		}
	}
	// Noise seems to show residuals far away in one fit of twenty, of which delta is then larger.
	told, eps := false, 5.0
	for ; !told && eps < 5.6; eps += 0.1 {
		told = hears(asked, narrow, eps, `{}`)
	}
	if kept := hears(asked, narrow, eps-0.1, `{}`); !told || !kept {
		t.Errorf("told: %v, and of the kept answer: %v", told, kept)
	}
	if !hears(`SELECT s.* FROM dp.releases r, dp_summary(r.id) s WHERE r.dataset = $1 AND r.huber_delta < (r.parameters ->> 'huber_delta')::float8 LIMIT 1`, narrow) {
		t.Error("dp_summary does not tell")
	}
	if n := one[string](w, w.analyst, `SELECT string_agg(coalesce(huber_delta::text, 'none'), ', ' ORDER BY method) FROM dp.releases WHERE dataset = $1 AND (method = 'gd' OR parameters ->> 'huber_delta' <> '1')`, narrow); n != "0.004, none" {
		t.Errorf("dp.releases has %q", n)
	}
}

// Whoever reads coefficients alone is told why they have no interval, also when the answer was kept, but for methods that never give
// any.
func TestMissingIntervalsAreTold(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	for call, told := range map[string]bool{`dp_linear_regress('%s', 0.2, features => '{age}')`: true, `dp_linear_regress('%s', 0.5, features => '{age}', options => '{"method": "gd"}')`: false, `dp_l1_regress('%s', 0.5, features => '{age}')`: false} {
		for range 2 {
			conn, heard := w.listening(w.person)
			w.exec(conn, `SELECT * FROM `+fmt.Sprintf(call, w.dataset))
			// With so few rows it is a descent, which never has an interval; at eps 0.5 some fits have them.
			said := strings.Join(heard(), "\n")
			if reason := strings.Contains(said, "not every figure has a value and an interval: low information"); reason != told || strings.Contains(said, "not every figure") != told {
				t.Errorf("%s: %q", call, said)
			}
		}
	}
}

// Whoever asks for fits by groups is told where pooling has left no difference between their slopes, also of the kept answer,
// and not where groups differ or are not pooled. At so little eps noise explains all differences in most fits.
func TestPooledSlopesAreTold(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.shops(3000)
	const asked = `SELECT * FROM dp_linear_regress_by($1, 'region', $2, features => '{age}', options => $3::jsonb)`
	hears := func(eps float64, options string) bool {
		conn, heard := w.listening(w.person)
		w.exec(conn, asked, w.dataset, eps, options)
		return strings.Contains(strings.Join(heard(), "\n"), "dpsidecar: all groups have the same slopes: noise and chance explain all by which they differ")
	}
	told, eps := false, 0.1
	for ; !told && eps < 0.14; eps += 0.001 {
		told = hears(eps, `{}`)
	}
	if kept := hears(eps-0.001, `{}`); !told || !kept {
		t.Errorf("told: %v, and of the kept answer: %v", told, kept)
	}
	if hears(100, `{}`) || hears(0.1, `{"pool": "none"}`) {
		t.Error("it is told where groups differ, or are not pooled")
	}
}

// The hint beside the reasons is a statement that shows which figures they are of.
func TestTheHintOnMissingFiguresRuns(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	config, err := pgx.ParseConfig(w.system.URL(w.person))
	if err != nil {
		t.Fatal(err)
	}
	hint := ""
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "not every figure") {
			hint = n.Hint
		}
	}
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, call := range []string{`dp_linear_regress('%s', 0.5, features => '{age}', penalty => 'l2', lambda => 0.1)`, `dp_describe('%s', 0.01)`, `dp_score(dp_last_release('%s'), 0.01)`} {
		hint = ""
		w.exec(conn, `SELECT * FROM `+fmt.Sprintf(call, w.dataset))
		statement, _, found := strings.Cut(hint, " says which and why.")
		if !found || one[int](w, conn, `SELECT count(why_null)::int FROM (`+statement+`) AS s`) == 0 {
			t.Errorf("%s has the hint %q", call, hint)
		}
	}
}

// Whoever reads a summary in which t rejects what p_value does not is told of the bias that only the latter allows for.
func TestSummariesTellOfBias(t *testing.T) {
	w := newWorld(t, 100, 1e-5)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 50, features => '{age,insured}')`, w.dataset)
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	// Chance may have left this release without intervals; the figures of the test are written over whatever it has.
	w.exec(w.super, `UPDATE dp_int.release SET why_null = NULL WHERE id = $1`, release)
	w.exec(w.super, `UPDATE dp_int.coefficient SET coef = 10, std_err = 1, df = 50, ci_low = 10 - h, ci_high = 10 + h, p_value = p, why_null = NULL
		FROM (VALUES (1, 2, 1e-9), (2, 12, 0.1), (3, 9, 0.04)) AS v(n, h, p) WHERE release = $1 AND position = n`, release)
	conn, heard := w.hearingHints(w.person)
	w.exec(conn, `SELECT * FROM dp_summary($1::uuid)`, release)
	if said := heard(); len(said) != 1 || !strings.HasPrefix(said[0], `dpsidecar: t of "age" counts chance and noise alone`) || !strings.Contains(said[0], "dp_huber_regress") {
		t.Errorf("heard %q", said)
	}
	w.exec(w.super, `UPDATE dp_int.coefficient SET covariance = array_append(array_fill(0::float8, ARRAY[position - 1]), 1), bias = array_append(array_fill(0::float8, ARRAY[position - 1]), h * h)
		FROM (VALUES (1, 0), (2, 20), (3, 0)) AS v(n, h) WHERE release = $1 AND position = n`, release)
	for terms, told := range map[string]int{`{age}`: 1, `{age,insured}`: 1, `{insured}`: 0} {
		conn, heard := w.hearingHints(w.person)
		w.exec(conn, `SELECT * FROM dp_test($1::uuid, $2)`, release, terms)
		if said := heard(); len(said) != told || told == 1 && !strings.HasPrefix(said[0], `dpsidecar: statistic counts chance and noise alone`) {
			t.Errorf("%s: heard %q", terms, said)
		}
	}
}

// A transaction whose snapshot is older than its new release says so, as dp_last_release is another one there; the next one shows it.
func TestAnOldSnapshotIsTold(t *testing.T) {
	w := newWorld(t, 50, 1e-5)
	conn, heard := w.listening(w.person)
	w.exec(conn, `SELECT dp_linear_regress($1, 1, features => '{age}')`, w.dataset)
	former := one[string](w, conn, `SELECT dp_last_release($1)`, w.dataset)
	for _, level := range []string{"repeatable read", "serializable"} {
		said := len(heard())
		w.exec(conn, `BEGIN ISOLATION LEVEL `+level)
		w.exec(conn, `SELECT dp_linear_regress($1, 2, features => '{age}', options => '{"fresh": true}')`, w.dataset)
		if now := one[string](w, conn, `SELECT dp_last_release($1)`, w.dataset); now != former {
			t.Errorf("%s shows %s", level, now)
		}
		w.exec(conn, `SELECT dp_describe($1, 1, fresh => true)`, w.dataset)
		w.exec(conn, `SELECT dp_moments($1, 1, fresh => true)`, w.dataset)
		w.exec(conn, `SELECT dp_score($1, 1)`, former)
		w.exec(conn, `COMMIT`)
		told := slices.DeleteFunc(heard()[said:], func(notice string) bool {
			return !strings.HasPrefix(notice, "dpsidecar: this transaction, at isolation level "+level+", does not show the new release yet")
		})
		if len(told) != 4 {
			t.Errorf("%s says so %d times", level, len(told))
		}
		now := one[string](w, conn, `SELECT dp_last_release($1)`, w.dataset)
		if now == former {
			t.Errorf("the transaction after %s shows %s", level, now)
		}
		former = now
	}
}

// Whoever is given a kept answer again is told which release it is, however it is asked:
// dp_last_release may name one of another model.
func TestAKeptAnswerNamesItsRelease(t *testing.T) {
	w := newWorld(t, 50, 1e-5)
	const fit = `SELECT * FROM dp_l1_regress($1, 1, features => '{age}')`
	first := w.lastRelease(fit, w.dataset)
	w.mustScore(w.analyst, askScore, first, 0.5)
	if other := w.lastRelease(`SELECT * FROM dp_linear_regress($1, 1, features => '{age}')`, w.dataset); other == first {
		t.Fatal("both are one release")
	}
	conn, heard := w.listening(w.person)
	for _, sql := range []string{
		`SELECT * FROM dp_l1_regress('%s', 1, features => '{age}')`,
		`SELECT dp_submit('l1', '%s', 1, features => '{age}')`,
		`CALL dp_run('l1', '%s', 1, features => '{age}')`,
		`SELECT * FROM dp_score('` + first + `', 0.5)`,
		`SELECT dp_submit_score('` + first + `', 0.5)`,
	} {
		before := len(heard())
		w.exec(conn, strings.ReplaceAll(sql, "%s", w.dataset))
		if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "again, free") || !strings.Contains(said, first) {
			t.Errorf("%s says %q, and not release %s", sql, said, first)
		}
	}
	before := len(heard())
	w.exec(conn, `SELECT * FROM dp_l1_regress($1, 1.5, features => '{age}')`, w.dataset)
	if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, "again") {
		t.Errorf("a new answer says %q", said)
	}
	// Figures that are missing are explained, whether the answer is new or kept.
	for _, sql := range []string{`SELECT * FROM dp_describe('` + w.dataset + `', 0.01)`, `SELECT * FROM dp_score('` + first + `', 0.01)`} {
		for range 2 {
			before := len(heard())
			w.exec(conn, sql)
			if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "not every figure has a value and an interval: ") {
				t.Errorf("%s says %q", sql, said)
			}
		}
	}
	// It also says of which rows it is, and where a tenth more were counted since.
	if ok := one[bool](w, w.analyst, `SELECT rows = 1000 AND read_at BETWEEN (SELECT created_at FROM dp.jobs WHERE id = r.job) AND r.released_at FROM dp.releases r WHERE id = $1::uuid`, first); !ok {
		t.Error("dp.releases does not say of which rows the release is")
	}
	for i, grown := range []string{"", "", "1100 rows when they were counted last, 100 more"} {
		w.exec(w.super, `INSERT INTO public.`+w.dataset+` SELECT * FROM public.`+w.dataset+fmt.Sprint(` LIMIT `, []int{0, 99, 1}[i]))
		w.exec(conn, fmt.Sprintf(`SELECT * FROM dp_l1_regress($1, %g, features => '{age}')`, 2+float64(i)), w.dataset)
		before := len(heard())
		w.exec(conn, strings.ReplaceAll(fit, "$1", "'"+w.dataset+"'"))
		said := strings.Join(heard()[before:], "\n")
		if !strings.Contains(said, "it is of 1000 rows, as they were on 2") || strings.Contains(said, "more") != (grown != "") || !strings.Contains(said, grown) {
			t.Errorf("of a table that grew %d times: %q", i, said)
		}
	}
	// What is of a sample never had all rows.
	sample := `SELECT * FROM dp_l1_regress('` + w.dataset + `', 1, features => '{age}', options => '{"sample_rows": 500}')`
	w.exec(conn, sample)
	before = len(heard())
	w.exec(conn, sample)
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "it is of 500 rows") || strings.Contains(said, "more") {
		t.Errorf("of a sample: %q", said)
	}
}

// A steward is told of what only he can mend: a registration without any
// scale, a budget that promises little, a grant to a role that may not ask.
// Data sets of the same people have one budget: who sets or registers it is told which one holds, and for whom.
func TestAStewardIsToldWhichBudgetHolds(t *testing.T) {
	w := newWorld(t, 3, 0)
	if err := w.system.Login(context.Background(), w.person+"s", "dp_admin"); err != nil {
		t.Fatal(err)
	}
	conn, heard := w.listening(w.person + "s")
	for _, k := range []struct{ call, says, saysNot string }{
		{`SELECT dp_register('more_' || $1, $1::text::regclass, 'amount', '{age}', 30, scales => '{"age": 40}')`, `"more_{}" shares the budget of "{}", which is epsilon 3: that holds, and not the 30`, "promises little"},
		{`SELECT dp_register('less_' || $1, $1::text::regclass, 'amount', '{age}', 1, scales => '{"age": 40}')`, `"less_{}" shares the budget of "{}", "more_{}", which is epsilon 3: it can be asked until epsilon 1`, ""},
		{`SELECT dp_register('same_' || $1, $1::text::regclass, 'amount', '{age}', 3, scales => '{"age": 40}')`, "", "shares"},
		{`SELECT dp_set_budget($1, 4, 0)`, `other data sets of the same people too: "more_{}" from 3 to 4`, "same_"},
		{`SELECT dp_set_budget($1, 4, 0)`, ``, "same people"},
		{`SELECT dp_set_budget($1, 40, 0)`, `"more_{}" from 4 to 30`, "same_"},
		{`SELECT dp_set_budget($1, 2, 0)`, `"more_{}" from 30 to 2; "same_{}" from 3 to 2`, "less_"},
	} {
		before := len(heard())
		w.exec(conn, k.call, w.dataset)
		said := strings.Join(heard()[before:], "\n")
		if !strings.Contains(said, strings.ReplaceAll(k.says, "{}", w.dataset)) || k.saysNot != "" && strings.Contains(said, k.saysNot) {
			t.Errorf("%s: %q", k.call, said)
		}
	}
	w.mustRegress(w.analyst, ask, w.dataset, 0.75)
	before := len(heard())
	w.exec(conn, `SELECT dp_set_budget($1, 0.5, 0)`, w.dataset)
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, `from 1 to 0.5, of which nothing is left`) || !strings.Contains(said, fmt.Sprintf(`nothing is left for data set %q: epsilon 0.75 is spent, and its epsilon is 0.5`, w.dataset)) {
		t.Errorf("%q", said)
	}
	before = len(heard())
	w.exec(conn, `SELECT dp_register('late_' || $1, $1::text::regclass, 'amount', '{age}', 0.2, scales => '{"age": 40}')`, w.dataset)
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, `until epsilon 0.2 of that is spent, under whatever name`) || !strings.Contains(said, `nothing is left for data set "late_`+w.dataset+`": epsilon 0.75 of these people is spent, and its epsilon is 0.2`) {
		t.Errorf("%q", said)
	}
	before = len(heard())
	w.exec(conn, `SELECT dp_set_budget($1, 5, 0)`, w.dataset)
	w.exec(conn, `SELECT dp_register('rest_' || $1, $1::text::regclass, 'amount', '{age}', 4, scales => '{"age": 40}')`, w.dataset)
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, `epsilon 0.75 of these people is spent already: data set "rest_`+w.dataset+`" has 3.25 of its epsilon 4 left`) || strings.Contains(said, "nothing is left for data set") {
		t.Errorf("%q", said)
	}
	if said := strings.Join(heard(), "\n"); strings.Contains(said, "NULL") {
		t.Errorf("something is missing in %q", said)
	}
	before = len(heard())
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE "%[1]s_survey" AS SELECT amount, age, 1.0 AS weight, 1.0 AS tax FROM %[1]q; GRANT SELECT ON "%[1]s_survey" TO dp_sidecar`, w.dataset))
	w.exec(conn, `SELECT dp_register('survey_' || $1, ($1::text || '_survey')::regclass, 'amount', '{age,weight,tax}', 1, scales => '{"amount": 500}')`, w.dataset)
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "no scale is registered for tax: was it forgotten?") {
		t.Errorf("a weight has no scale: %q", said)
	}
}

func TestAStewardIsToldOfOversights(t *testing.T) {
	w := newWorld(t, 1, 0)
	if err := w.system.Login(context.Background(), w.person+"s", "dp_admin"); err != nil {
		t.Fatal(err)
	}
	conn, heard := w.listening(w.person + "s")
	w.exec(conn, `SELECT dp_register('scaled_' || $1, $1::text::regclass, 'amount', '{age}', 1, scales => '{"age": 40}')`, w.dataset)
	if said := heard(); len(said) != 0 {
		t.Errorf("with a scale: %q", said)
	}
	w.exec(conn, `SELECT dp_register('bare_' || $1, $1::text::regclass, 'amount', '{age}', 1)`, w.dataset)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "registered without scales") {
		t.Errorf("without: %q", said)
	}

	w.exec(w.super, fmt.Sprintf(`CREATE TABLE "%[1]s_days" AS SELECT *, date '2026-01-01' AS day FROM %[1]q; GRANT SELECT ON "%[1]s_days" TO dp_sidecar`, w.dataset))

	// Nor does anybody else see that a budget promises little.
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE "%[1]s_delta" AS SELECT * FROM %[1]q; GRANT SELECT ON "%[1]s_delta" TO dp_sidecar`, w.dataset))
	w.exec(conn, fmt.Sprintf(`SELECT dp_register('%[1]s_delta', '"%[1]s_delta"', 'amount', '{age}', 1, 1e-6, scales => '{"age": 40}')`, w.dataset))
	for budget, promises := range map[[2]float64]string{{10, 9e-5}: "", {10.5, 1e-6}: "epsilon 10.5", {1, 2e-4}: "delta 0.0002"} {
		before := len(heard())
		w.exec(conn, `SELECT dp_set_budget($1, $2, $3)`, w.dataset+"_delta", budget[0], budget[1])
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, "promises little") != (promises != "") || !strings.Contains(said, promises) {
			t.Errorf("budget %v: %q", budget, said)
		}
	}

	// Nor that all models but one need a delta, before it is too late.
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE "%[1]s_pure" AS SELECT * FROM %[1]q; GRANT SELECT ON "%[1]s_pure" TO dp_sidecar`, w.dataset))
	for arguments, told := range map[string]bool{`1`: true, `1, 1e-6`: false, `1, accounting => 'pure'`: false} {
		before := len(heard())
		w.exec(conn, `BEGIN`)
		w.exec(conn, fmt.Sprintf(`SELECT dp_register($1 || '_pure', ($1 || '_pure')::regclass, 'amount', '{age}', %s, scales => '{"age": 40}')`, arguments), w.dataset)
		w.exec(conn, `ROLLBACK`)
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, "has no delta: of the models only dp_l1_regress can be asked") != told {
			t.Errorf("registered with %s: %q", arguments, said)
		}
	}

	// Nor does a role that is granted a data set and may not ask find out by itself.
	before := len(heard())
	w.exec(w.super, fmt.Sprintf(`CREATE ROLE "%[1]s_group"; CREATE ROLE "%[1]s_member"; GRANT "%[1]s_group" TO "%[1]s_member"`, w.person))
	w.exec(conn, `SELECT dp_grant($1, $2)`, w.dataset, w.person+"_group")
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "may call the functions that ask") {
		t.Errorf("neither the group nor its member may ask: %q", said)
	}
	before = len(heard())
	w.exec(w.super, fmt.Sprintf(`GRANT dp_analyst TO "%s_member"`, w.person))
	w.exec(conn, `SELECT dp_grant($1, $2)`, w.dataset, w.person+"_group")
	if said := heard()[before:]; len(said) != 0 {
		t.Errorf("a member may ask: %q", said)
	}

	// Nor does anybody find out by itself that grants end with a registration. Roles that are gone have none.
	w.exec(w.super, fmt.Sprintf(`CREATE ROLE "%[1]s_gone"`, w.person))
	w.exec(conn, `SELECT dp_grant($1, $2)`, w.dataset, w.person+"_gone")
	w.exec(w.super, fmt.Sprintf(`DROP ROLE "%s_gone"`, w.person))
	for _, granted := range []bool{true, false} {
		before = len(heard())
		w.exec(conn, `SELECT dp_unregister($1)`, w.dataset)
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, fmt.Sprintf("data set %q can no longer be asked by those to whom it was granted (%[2]q, \"%[2]s_group\")", w.dataset, w.person)) != granted || granted != (said != "") {
			t.Errorf("unregistered, granted %v: %q", granted, said)
		}
		w.exec(conn, `SELECT dp_register($1, $1::text::regclass, 'amount', '{age}', 1, scales => '{"age": 40}')`, w.dataset)
	}

	// Nor does anybody find out before the day that blocks begin in a year that was mistyped.
	for _, days := range []int{0, 400} {
		before := len(heard())
		w.exec(conn, `BEGIN`)
		w.exec(conn, fmt.Sprintf(`SELECT dp_register('later_' || $1, ($1 || '_days')::regclass, 'amount', '{age}', 1, 1e-6, scales => '{"age": 40}', block => 'day', block_width => '1 day',
			block_origin => (now() AT TIME ZONE 'UTC')::date + %d, block_is_fixed => 'a test')`, days), w.dataset)
		w.exec(conn, `ROLLBACK`)
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, "which is to come") != (days > 0) {
			t.Errorf("blocks that begin in %d days: %q", days, said)
		}
	}

	// Nor does anybody find out by asking that rows which stay in the database answer nothing.
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE "%[1]s_other" AS SELECT * FROM %[1]q; GRANT SELECT ON "%[1]s_other" TO dp_sidecar`, w.dataset))
	for name, k := range map[string]struct{ options, why string }{
		"pure": {`1, placement => 'database'`, "a budget without a delta"}, "later": {`1`, "a budget without a delta"}, "plain": {`1, 1e-6, placement => 'database'`, ""},
	} {
		before := len(heard())
		w.exec(conn, `BEGIN`)
		w.exec(conn, fmt.Sprintf(`SELECT dp_register('%[1]s_' || $1, ($1 || '_other')::regclass, 'amount', '{region}', %[2]s, scales => '{"region": 3}')`, name, k.options), w.dataset)
		if name == "later" {
			w.exec(conn, `SELECT dp_set_placement('later_' || $1, 'database')`, w.dataset)
		}
		w.exec(conn, `ROLLBACK`)
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, "nothing can be asked") != (k.why != "") || !strings.Contains(said, k.why) {
			t.Errorf("%s: %q", name, said)
		}
	}
}
