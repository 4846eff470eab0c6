// Package tests holds what only the whole system can show: calls, budgets,
// crashes and refusals, against a real Postgres and real sidecars.
package tests

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

// TestMain has twice as many tests run at once as there are cores: those that may, wait most of the time, for jobs, locks and servers that start.
func TestMain(m *testing.M) {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel=") }) {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// shared is a system with one sidecar for all tests that do not disturb it. It
// ends with the test binary.
var shared = sync.OnceValues(func() (*dev.System, error) {
	s, err := dev.Start(context.Background(), dev.Options{})
	if err == nil {
		_, err = s.Serve(context.Background())
	}
	return s, err
})

// world is a database with a data set of its own for one test.
type world struct {
	*testing.T
	system  *dev.System
	dataset string // also the name of its table, in schema public
	steward *pgx.Conn
	super   *pgx.Conn
	analyst *pgx.Conn // nobody else has this role
	person  string
}

var serial atomic.Int64

// newWorld makes a table of 1,000 claims whose data set has the given budget
// and is granted to one analyst.
func newWorld(t *testing.T, epsilon, delta float64) *world {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return worldIn(t, s, epsilon, delta)
}

// lonelyWorld has a system of its own, without a sidecar.
func lonelyWorld(t *testing.T, epsilon, delta float64) *world {
	t.Helper()
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return worldIn(t, s, epsilon, delta)
}

func worldIn(t *testing.T, s *dev.System, epsilon, delta float64) *world {
	t.Helper()
	n := serial.Add(1)
	w := &world{T: t, system: s, dataset: fmt.Sprintf("claims%d", n), person: fmt.Sprintf("analyst%d", n)}
	w.super = w.connect(s.SuperuserURL())
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%s AS
		SELECT (100 + 10 * x + 5 * exp(3 * random()))::float8 AS amount, x AS age, (i %% 7)::int AS region, i %% 2 = 0 AS insured, 'note ' || i AS note
		  FROM (SELECT i, 20 + 50 * random() AS x FROM generate_series(1, 1000) i) rows`, w.dataset))
	w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s TO dp_sidecar`, w.dataset))
	w.steward = w.connect(s.StewardURL())
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', $3, $4, '{"amount": 500, "age": 40, "region": 4}')`,
		w.dataset, "public."+w.dataset, epsilon, delta)
	w.analyst = w.newAnalyst(w.person)
	return w
}

// newAnalyst makes a person, grants the data set and connects as them.
func (w *world) newAnalyst(person string) *pgx.Conn {
	w.Helper()
	if err := w.system.Login(context.Background(), person, "dp_analyst"); err != nil {
		w.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, person)
	return w.connect(w.system.URL(person))
}

func (w *world) connect(url string) *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (w *world) exec(conn *pgx.Conn, sql string, args ...any) {
	w.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
}

// one returns the only value of a query.
func one[T any](w *world, conn *pgx.Conn, sql string, args ...any) T {
	w.Helper()
	rows, _ := conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
	return v
}

func all[T any](w *world, conn *pgx.Conn, sql string, args ...any) []T {
	w.Helper()
	rows, _ := conn.Query(context.Background(), sql, args...)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		w.Fatalf("%v\n%s", err, sql)
	}
	return v
}

// term is one row of a release.
type term struct {
	Term string
	Coef float64
}

const ask = `SELECT * FROM dp_l1_regress($1, $2)`

// regress asks and returns the release or the error.
func regress(conn *pgx.Conn, sql string, args ...any) ([]term, error) {
	return regressWithin(context.Background(), conn, sql, args...)
}

func regressWithin(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]term, error) {
	rows, _ := conn.Query(ctx, sql, args...)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[term])
}

func (w *world) mustRegress(conn *pgx.Conn, sql string, args ...any) []term {
	w.Helper()
	out, err := regress(conn, sql, args...)
	if err != nil {
		w.Fatalf("%v: %s", err, hint(err))
	}
	return out
}

// withIntervals asks with an epsilon, $2, until the fit has intervals, and returns it and its epsilon. By chance noise makes some residuals look many times
// larger than they are: of 120 fits of a table one or none was without intervals, or had one degree of freedom. Five
// one after another are with a probability below 1e-6, were it one in twenty.
func (w *world) withIntervals(conn *pgx.Conn, sql, dataset string, eps float64) ([]term, float64) {
	w.Helper()
	return w.askUntil(conn, sql, dataset, eps, `coalesce(bool_and(ci_low IS NOT NULL AND df > 5), false)`)
}

// askUntil asks, five times at most, until the coefficients of the release are as an aggregate of dp.coefficients says.
func (w *world) askUntil(conn *pgx.Conn, sql, dataset string, eps float64, condition string) ([]term, float64) {
	w.Helper()
	for range 5 {
		out := w.mustRegress(conn, sql, dataset, eps)
		if one[bool](w, conn, `SELECT `+condition+` FROM dp.coefficients WHERE release = dp_last_release($1)`, dataset) {
			return out, eps
		}
		eps *= 1.001 // another request
	}
	w.Fatalf("not "+condition+": %q", all[string](w, conn, `SELECT concat_ws(' ', term, coef, ci_low, ci_high, df, why_null) FROM dp.coefficients WHERE release = dp_last_release($1)`, dataset))
	return nil, 0
}

func (w *world) spent() float64 {
	w.Helper()
	return one[float64](w, w.steward, `SELECT epsilon_spent FROM dp.budget WHERE dataset = $1`, w.dataset)
}

func (w *world) entries() int64 {
	w.Helper()
	return one[int64](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = $1`, w.dataset)
}

// wantError checks the SQLSTATE of an error and what its message or hint says.
func (w *world) wantError(err error, code, says string) {
	w.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		w.Fatalf("error %v, want SQLSTATE %s", err, code)
	}
	if pg.Code != code || !strings.Contains(pg.Message+" "+pg.Hint, says) {
		w.Fatalf("%s %s (HINT: %s), want %s with %q", pg.Code, pg.Message, pg.Hint, code, says)
	}
}

func hint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Hint
	}
	return ""
}

// eventually waits until ok holds: for long, as the machine may have far too much to do.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	w.within(2*time.Minute, what, ok)
}

// within waits until ok holds, which must be soon: something else would bring it about later.
func (w *world) within(limit time.Duration, what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// endSessions ends those of a role, and waits until they are gone.
func (w *world) endSessions(role string) {
	w.Helper()
	w.eventually("the sessions of "+role+" have ended", func() bool {
		return one[int](w, w.super, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename LIKE $1`, role) == 0
	})
}

// slowView registers a view whose rows take a while to read but not to count, so
// that a job can be met between its charge and its release.
func (w *world) slowView(name string, seconds float64) {
	w.Helper()
	w.registerView(name, fmt.Sprintf(`PERFORM pg_sleep(%g);`, seconds/1000))
}

// heldView registers a view whose rows can be counted, and are read while nobody holds them: a job is met between its charge and
// its release however slow the machine is.
func (w *world) heldView(name string) (hold, release func()) {
	w.Helper()
	w.registerView(name, fmt.Sprintf(`WHILE NOT pg_try_advisory_xact_lock_shared(hashtext('%s')) LOOP PERFORM pg_sleep(0.01); END LOOP;`, name))
	holder := w.connect(w.system.SuperuserURL())
	return func() { w.exec(holder, `SELECT pg_advisory_lock(hashtext($1))`, name) }, func() { w.exec(holder, `SELECT pg_advisory_unlock(hashtext($1))`, name) }
}

// registerView registers a view of the data set that does something for each row that is read.
func (w *world) registerView(name, does string) {
	w.Helper()
	w.exec(w.super, fmt.Sprintf(`
		CREATE FUNCTION public.%s_wait() RETURNS float8 LANGUAGE plpgsql STABLE AS $$ BEGIN %s RETURN 0; END $$`, name, does))
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s AS SELECT amount, age + %[1]s_wait() AS age FROM public.%[2]s`, name, w.dataset))
	w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s TO dp_sidecar`, name))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100, options => jsonb_build_object('total', true, 'account', $3::text))`, name, "public."+name, w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
}

// loopback connects as the loopback of the system's database does.
func (w *world) loopback() *pgx.Conn {
	w.Helper()
	option := func(name string) string {
		return one[string](w, w.super, `SELECT substr(o, length($1) + 2) FROM pg_user_mappings, unnest(umoptions) AS o WHERE srvname = 'dp_loop' AND o LIKE $1 || '=%'`, name)
	}
	return w.connect(w.system.Cluster.URL(option("user"), option("password"), dev.Database))
}

func splitStatements(text string) (out []string) {
	for s := range strings.SplitSeq(text, ";") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
