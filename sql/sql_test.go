package sql_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/privacy"
	"dpsidecar/sql"
)

// database returns a superuser's connection to a new database with dblink in
// its private schema and no migration applied.
func database(t *testing.T) *pgx.Conn {
	t.Helper()
	cluster := localpg.Postgres(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, cluster.SuperuserURL(cluster.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	admin := strings.NewReplacer("{{database}}", pgx.Identifier{conn.Config().Database}.Sanitize(), "{{installer}}", "CURRENT_USER").Replace(sql.Admin)
	script(t, conn, "admin.sql", admin)
	script(t, conn, "what golang-migrate makes", "CREATE SCHEMA dp_int; CREATE TABLE dp_int.schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)")
	return conn
}

func script(t *testing.T, conn *pgx.Conn, name, text string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(context.Background(), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Where standard_conforming_strings is off, a backslash is one in literals that are written E'...' alone.
func TestBackslashesAreEscaped(t *testing.T) {
	quote := regexp.MustCompile(`--[^\n]*|(?i:\bE'(?:[^'\\]|''|\\.)*')|'(?:[^']|'')*'`)
	for _, text := range append(quote.FindAllString(sql.Code(), -1), quote.FindAllString(sql.Admin, -1)...) {
		if text[0] == '\'' && strings.Contains(text, `\`) && !strings.HasPrefix(text, `'[{"name":`) { // the catalogue, which installations put in place
			t.Errorf("write it E'...', or without: %.200s", text)
		}
	}
}

// setUp makes the tables and puts functions and views in place.
func setUp(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	migrate(t, conn, "up")
	script(t, conn, "functions and views", "BEGIN; SET LOCAL ROLE dp_owner; SET LOCAL check_function_bodies = off;\n"+sql.Code()+"COMMIT")
}

// migrate applies every migration of one direction, in order.
func migrate(t *testing.T, conn *pgx.Conn, direction string) {
	t.Helper()
	files, err := fs.Glob(sql.Migrations, "*."+direction+".sql")
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations", err)
	}
	if direction == "down" {
		slices.Reverse(files)
	}
	for _, f := range files {
		text, err := fs.ReadFile(sql.Migrations, f)
		if err != nil {
			t.Fatal(err)
		}
		script(t, conn, path.Base(f), string(text))
	}
}

func query[T any](t *testing.T, conn *pgx.Conn, text string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(context.Background(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func TestTablesGoUpDownAndUp(t *testing.T) {
	conn := database(t)
	left := func() []string {
		return query[string](t, conn, `
			SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('dp', 'dp_int') AND c.relname NOT LIKE 'schema\_migrations%'`)
	}
	migrate(t, conn, "up")
	migrate(t, conn, "down")
	if objects := left(); len(objects) > 0 {
		t.Fatalf("down leaves %v", objects)
	}
	migrate(t, conn, "up")
	if len(left()) == 0 {
		t.Fatal("nothing after the second up")
	}
}

// Functions and views are put in place again and again: every statement replaces.
func TestCodeReplacesItself(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	before := query[string](t, conn, "SELECT encode(dp_int.code_hash(), 'hex')")[0]
	script(t, conn, "again", "BEGIN; SET LOCAL ROLE dp_owner;\n"+sql.Code()+"COMMIT")
	if after := query[string](t, conn, "SELECT encode(dp_int.code_hash(), 'hex')")[0]; after != before {
		t.Error("the second time something else is there")
	}
	script(t, conn, "settings of a session", "SET quote_all_identifiers = on; SET intervalstyle = sql_standard; SET extra_float_digits = -15; SET bytea_output = escape; SET datestyle = sql")
	if after := query[string](t, conn, "SELECT encode(dp_int.code_hash(), 'hex')")[0]; after != before {
		t.Error("the hash depends on who asks")
	}
	script(t, conn, "settings of a session", "RESET ALL")
	script(t, conn, "a change by hand", "ALTER FUNCTION public.dp_grant RESET ALL")
	if after := query[string](t, conn, "SELECT encode(dp_int.code_hash(), 'hex')")[0]; after == before {
		t.Error("the hash does not notice a function that no longer pins its search path")
	}
}

func TestEveryPublicObjectHasAComment(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	bare := query[string](t, conn, `
		SELECT p.oid::regprocedure::text FROM pg_proc p
		 WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'dp\_%' AND obj_description(p.oid, 'pg_proc') IS NULL
		UNION ALL
		SELECT c.oid::regclass::text FROM pg_class c
		 WHERE c.relnamespace = 'dp'::regnamespace AND c.relkind = 'v' AND obj_description(c.oid, 'pg_class') IS NULL
		UNION ALL
		SELECT c.oid::regclass || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		 WHERE c.relnamespace = 'dp'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS (
		         SELECT FROM pg_description d WHERE d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = a.attnum)`)
	if len(bare) > 0 {
		t.Fatalf("no comment on %v", bare)
	}
}

// Nobody but the loopback and the sidecar executes anything in dp_int, nobody
// reads or writes its tables, and each of the two has only its own functions.
func TestInternalsAreClosed(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	for role, want := range map[string][]string{
		"dp_analyst":  nil,
		"dp_admin":    nil,
		"dp_loopback": {"answered", "ask", "ask_score", "cancel", "elsewhere", "enqueue", "enqueue_description", "enqueue_moments", "enqueue_score", "fetch", "fetch_description", "fetch_groups", "fetch_moments", "fetch_score", "watch"},
		"dp_sidecar": {"ask_node", "check_shards", "counted", "dataset_recheck", "figures", "inquiry_answer", "inquiry_take", "job_beat", "job_charge", "job_claim", "job_fail", "job_hand_back", "job_head", "job_park", "job_publish", "job_publish_description", "job_publish_moments", "job_publish_score", "job_read", "job_recheck", "job_shards", "job_stop",
			"nodes_to_ask", "schema_version", "uncounted", "why_changed", "worker_beat", "worker_bye"},
	} {
		got := query[string](t, conn, `
			SELECT proname::text FROM pg_proc WHERE pronamespace = 'dp_int'::regnamespace AND has_function_privilege($1, oid, 'EXECUTE') ORDER BY 1`, role)
		if !slices.Equal(got, want) {
			t.Errorf("%s may execute %v, want %v", role, got, want)
		}
		tables := query[string](t, conn, `
			SELECT relname::text FROM pg_class
			 WHERE relnamespace = 'dp_int'::regnamespace AND relkind IN ('r', 'v')
			   AND has_table_privilege($1, oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')`, role)
		if len(tables) > 0 {
			t.Errorf("%s has privileges on %v", role, tables)
		}
	}
}

// Every SECURITY DEFINER function pins the search path, or a caller could put
// an operator of his own before ours.
func TestDefinersPinTheirSettings(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	loose := query[string](t, conn, `
		SELECT oid::regprocedure::text FROM pg_proc
		 WHERE prosecdef AND pronamespace IN ('dp_int'::regnamespace, 'public'::regnamespace)
		   AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))`)
	if len(loose) > 0 {
		t.Fatalf("search_path is not pinned: %v", loose)
	}
}

// tiny are budgets whose orders are so large that 1 + 1/order has few digits of 1/order.
var tiny = []privacy.Budget{{Epsilon: 1e-12, Delta: 3.7e-9}, {Epsilon: 1e-12, Delta: 1e-30}, {Epsilon: 3e-9, Delta: 1e-6}, {Epsilon: 1e-7, Delta: 1e-12}}

var budgets = func() (list []privacy.Budget) {
	for _, eps := range []float64{1e-6, .001, .03, .5, 1, 2.7, 20, 150} {
		for _, delta := range []float64{.3, 1e-5, 1e-6, 3.7e-9, 1e-30} {
			list = append(list, privacy.Budget{Epsilon: eps, Delta: delta})
		}
	}
	return list
}()

const exactly = "dp_int.exact($1), dp_int.exact($2)"

// The database's caps are those of package privacy: never smaller, so that what
// was calibrated there to a whole budget is admitted here, and hardly larger.
func TestCapsAgreeWithPrivacy(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	for _, b := range append(tiny, budgets...) {
		reserve := privacy.Reserve(b.Delta)
		if fits := query[bool](t, conn, "SELECT dp_int.exact($1) <= dp_int.reserve(dp_int.exact($2)) AND dp_int.exact($1) >= dp_int.reserve(dp_int.exact($2)) * (1 - 1e-14)", reserve, b.Delta)[0]; !fits {
			t.Errorf("%v: reserve %v", b, reserve)
		}
		rho := privacy.ZCDPRho(b.Epsilon, b.Delta-reserve)
		if cap := query[float64](t, conn, "SELECT CASE WHEN $3 <= c THEN c END FROM dp_int.cap('zcdp', NULL, "+exactly+") AS c", b.Epsilon, b.Delta, rho)[0]; cap > rho*(1+1e-9) {
			t.Errorf("%v: rho %v, privacy says %v", b, cap, rho)
		}
		best := privacy.ZCDPOrder(b.Epsilon, .9*b.Delta)
		if got := query[float64](t, conn, "SELECT dp_int.order_for_epsilon($1, dp_int.conversion_delta(dp_int.exact($2))::float8)", b.Epsilon, b.Delta)[0]; math.Abs(got-best) > 1e-9*best {
			t.Errorf("%v: the cap is converted at order %v, privacy says %v", b, got, best)
		}
		// What filter 3 of a budget just admits is worth that budget.
		if got := query[float64](t, conn, `SELECT dp_int.renyi_surplus(o, d) + e + o * r FROM (SELECT $1::float8::numeric AS e, $2::float8::numeric AS r, dp_int.conversion_delta(dp_int.exact($3)) AS d) AS v,
			dp_int.order_for_mixture(e::float8, r::float8, d::float8) AS o`, best*rho/2, rho/2, b.Delta)[0]; math.Abs(got-b.Epsilon) > 1e-8*(b.Epsilon+1e-3) && rho > 0 {
			t.Errorf("%v: half of the cap in pure epsilons and half in rho is worth %v", b, got)
		}
		order := privacy.RecommendedOrder(b)
		if got := query[float64](t, conn, "SELECT dp_int.recommended_order("+exactly+")", b.Epsilon, b.Delta)[0]; got != order {
			t.Errorf("%v: order %v, privacy recommends %v", b, got, order)
		}
		for _, order := range []float64{1.25, order, 64, 1024} {
			divergence := largestDivergence(b.Epsilon, order, b.Delta-reserve)
			cap := query[float64](t, conn, "SELECT CASE WHEN $4 <= c THEN c END FROM dp_int.cap('rdp', dp_int.exact($3), "+exactly+") AS c", b.Epsilon, b.Delta, order, divergence)[0]
			if cap > divergence+1e-10*(1+b.Epsilon) {
				t.Errorf("%v: divergence %v at order %v, privacy says %v", b, cap, order, divergence)
			}
		}
	}
}

// The filter for normal noise alone admits what package privacy calibrates to a whole budget, and hardly
// more; what is proven of it is what privacy proves; and the search for blocks knows the same limit.
func TestNoiseAloneAgreesWithPrivacy(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	better := 0
	for _, b := range append(tiny, budgets...) {
		within := privacy.Budget{Epsilon: b.Epsilon * (1 - 1e-15), Delta: b.Delta - privacy.Reserve(b.Delta)}
		z, err := privacy.Calibrate(privacy.Alone{}, within, func(z float64) (privacy.Event, error) { return privacy.Gaussian{NoiseMultiplier: z}, nil })
		if err != nil {
			t.Fatal(err)
		}
		rho := .5 / (z * z)
		zcdp := privacy.ZCDPRho(within.Epsilon, within.Delta)
		if rho < zcdp*(1-1e-9) {
			t.Errorf("%v: rho %v alone, %v among others", b, rho, zcdp)
		}
		if rho > zcdp*1.01 {
			better++
		}
		for factor, want := range map[float64]bool{1: true, 1 + 1e-7: false} {
			got := query[bool](t, conn, `SELECT dp_int.admits('zcdp', e, d, dp_int.cap('zcdp', NULL, e, d), ROW(r, 0, 1, r)::dp_int.tally)
				FROM (SELECT `+exactly+`, $3::float8::numeric) AS v(e, d, r)`, b.Epsilon, b.Delta, rho*factor)[0]
			if got != want && rho > 0 && (want || b.Epsilon > 1e-4) {
				t.Errorf("%v: rho %v: admitted %v; zCDP's is %v", b, rho*factor, got, zcdp)
			}
		}
		for _, share := range []float64{.001, .3, 1} {
			want := math.Min(privacy.NoiseEpsilon(2*share*rho, .9*b.Delta), privacy.ZCDPEpsilon(share*rho, .9*b.Delta))
			got := query[float64](t, conn, `SELECT dp_int.least_epsilon(a, ROW(r, 0, 1, r)::dp_int.tally, 0)
				FROM (SELECT 'zcdp' AS accounting, 1e9::numeric AS epsilon, dp_int.exact($1) AS delta, 0::numeric AS cap) AS v,
				     LATERAL jsonb_populate_record(NULL::dp_int.account, to_jsonb(v)) AS a, LATERAL (SELECT $2::float8::numeric) AS w(r)`, b.Delta, share*rho)[0]
			tolerance := 1e-7
			if b.Epsilon <= 1e-6 {
				tolerance = .1 // in float64 small divergences are bounded less closely
			}
			if got > want*(1+1e-9) || got < want*(1-tolerance) {
				t.Errorf("%v: rho %v alone proves %v, privacy says %v", b, share*rho, got, want)
			}
		}
		if got := query[float64](t, conn, `SELECT dp_int.noise_rho(e, dp_int.conversion_delta(d), dp_int.cap('zcdp', NULL, e, d)) FROM (SELECT `+exactly+`) AS v(e, d)`, b.Epsilon, b.Delta)[0]; rho > 0 && (got > rho*1.1 || got < math.Min(rho, 1.9*zcdp)*(1-1e-5)) {
			t.Errorf("%v: blocks compare with rho %v, and %v is admitted", b, got, rho)
		}
	}
	if better < 20 {
		t.Errorf("of %d budgets, %d give more to noise alone", len(budgets), better)
	}
}

// The database counts once what package privacy has as the only charge, by the JSON that the ledger stores, and nothing that
// holds another mechanism.
func TestWhatIsOnly(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	z := privacy.Gaussian{NoiseMultiplier: 3}
	for _, e := range []privacy.Event{
		z, privacy.Compose{}, privacy.Repeat{Count: 4, Event: z}, privacy.Compose{z, privacy.Repeat{Count: 4, Event: privacy.Compose{z, z}}},
		privacy.Pure{Epsilon: 1}, privacy.BoundedRange{Epsilon: 1}, privacy.ZCDP{Rho: 1}, privacy.Approx{Delta: 1e-9}, privacy.Parallel{Event: z}, privacy.Sampled{Rate: .5, Event: z},
		privacy.Compose{z, privacy.Approx{Delta: 1e-9}}, privacy.Repeat{Count: 2, Event: privacy.Sampled{Rate: .5, Event: z}}, privacy.Compose{z, privacy.Compose{z, privacy.Pure{Epsilon: 1}}},
	} {
		text, err := privacy.MarshalEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		for what, want := range map[string]bool{string(text): false, `{"only":{"event":` + string(text) + `}}`: privacy.IsNoise(e)} {
			event, err := privacy.UnmarshalEvent([]byte(what))
			_, only := event.(privacy.Only)
			if got := query[bool](t, conn, "SELECT dp_int.is_only($1::text::jsonb)", what)[0]; got != want || err == nil && only != want || want && err != nil {
				t.Errorf("%s: %v, in package privacy %v, %v", what, got, only, err)
			}
		}
	}
}

// Filter 3 admits what adds up to the cap at its order, but for a few last digits, and nothing beyond it.
func TestTheMixtureEndsAtItsCap(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	for _, b := range append(tiny, budgets...) {
		for share, want := range map[float64]bool{1 - 1e-11: true, 1: false, 1 + 1e-11: false} {
			got := query[bool](t, conn, `SELECT cap = 0 OR dp_int.admits('zcdp', e, d, cap, ROW(cap * 2, o * cap / 2, 1, cap * ($3::float8::text::numeric - 0.5))::dp_int.tally) = $4
				FROM (SELECT dp_int.exact($1) AS e, dp_int.exact($2) AS d, dp_int.cap('zcdp', NULL, `+exactly+`) AS cap,
				             dp_int.order_for_epsilon($1, dp_int.conversion_delta(dp_int.exact($2))::float8) AS o) AS v`, b.Epsilon, b.Delta, share, want)[0]
			if !got {
				t.Errorf("%v: %v of the cap at its order: %v", b, share, !want)
			}
		}
	}
}

// largestDivergence returns the largest Renyi divergence of an order for which package
// privacy proves (epsilon, delta)-DP, by bisection; 0 when it proves that of none.
func largestDivergence(epsilon, order, delta float64) float64 {
	low, high := 0.0, 1.0
	for privacy.RenyiEpsilon(high, order, delta) <= epsilon {
		high *= 2
	}
	for range 100 {
		if middle := (low + high) / 2; privacy.RenyiEpsilon(middle, order, delta) <= epsilon {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// A spent cap proves the budget's epsilon, in exact decimals never more; half of
// one proves what package privacy does.
func TestProvenAgreesWithPrivacy(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	proven := "dp_int.proven(m, CASE m WHEN 'rdp' THEN dp_int.recommended_order(e, d) END, c * $3, d)"
	from := " FROM (SELECT $4::text, " + exactly + ") AS b(m, e, d), dp_int.cap(m, CASE m WHEN 'rdp' THEN dp_int.recommended_order(e, d) END, e, d) AS c"
	for _, b := range budgets {
		for _, mode := range []string{"pure", "zcdp", "rdp"} {
			if !query[bool](t, conn, "SELECT "+proven+" BETWEEN e * (1 - 1e-12) AND e OR c = 0"+from, b.Epsilon, b.Delta, 1, mode)[0] {
				t.Errorf("%v: the cap does not prove epsilon under %s", b, mode)
			}
			half := query[float64](t, conn, "SELECT c * $3"+from, b.Epsilon, b.Delta, .5, mode)[0]
			if half == 0 {
				continue
			}
			delta, order := b.Delta-privacy.Reserve(b.Delta), privacy.RecommendedOrder(b)
			want := map[string]float64{"pure": half, "zcdp": privacy.ZCDPEpsilon(half, delta), "rdp": privacy.RenyiEpsilon(half, order, delta)}[mode]
			got := query[float64](t, conn, "SELECT "+proven+from, b.Epsilon, b.Delta, .5, mode)[0]
			if math.Abs(got-want) > 1e-10*(want+1e-3*b.Epsilon) {
				t.Errorf("%v: half of the cap proves %.15g under %s, privacy says %.15g", b, got, mode, want)
			}
			if zero := query[float64](t, conn, "SELECT "+proven+from, b.Epsilon, b.Delta, 0, mode)[0]; zero != 0 {
				t.Errorf("%v: nothing spent proves %v under %s", b, zero, mode)
			}
		}
	}
}

// What messages show of an epsilon has six digits and errs to the safe side, however small it is: what a refused request would
// add to an account that is nearly full may be 1e-12, and to fail there would hide the refusal.
func TestShownEpsilonsOfAnySize(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	var wrong []string
	err := conn.QueryRow(t.Context(), `SELECT coalesce(array_agg(concat_ws(' ', e, upward, downward)), '{}')
		FROM (SELECT e, dp_int.shown_epsilon(e), dp_int.shown_remaining(e, e) FROM (SELECT ('1.23456789e' || k)::numeric FROM generate_series(-40, 3) AS k) AS x(e)) AS s(e, upward, downward)
		WHERE NOT (upward::numeric >= e AND downward::numeric <= e AND upward::numeric - downward::numeric <= greatest(e * 1e-5, 1e-6))`).Scan(&wrong)
	if err != nil || len(wrong) > 0 {
		t.Error(err, wrong)
	}
}

// An option or a center that is nearer to 0 than any double precision is 0, and the request is refused, if so, for what that means.
func TestNumbersNearerToZeroThanAny(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	var kept string
	err := conn.QueryRow(context.Background(), `SELECT dp_int.check_options('linear', '{"penalty": "elastic_net", "lambda": 1, "l1_ratio": 1e-400}', '{age}', NULL)::text`).Scan(&kept)
	if err != nil || kept != `{"lambda": 1, "penalty": "elastic_net", "l1_ratio": 0}` {
		t.Errorf("%s %v", kept, err)
	}
	if err := conn.QueryRow(context.Background(), `SELECT dp_int.canonical_scale('{"center": 1e-400, "scale": 2}', true)::text`).Scan(&kept); err != nil || kept != "2" {
		t.Errorf("%s %v", kept, err)
	}
	var refused *pgconn.PgError
	if err := conn.QueryRow(context.Background(), `SELECT dp_int.check_options('linear', '{"penalty": "l1", "lambda": 1e-400}', '{age}', NULL)::text`).Scan(&kept); !errors.As(err, &refused) || refused.Code != "22023" {
		t.Errorf("%s %v", kept, err)
	}
}

// The times at which the database lets a job end are those that its sidecar waits for.
func TestStepsAreThoseOfTheLadder(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	l := plan.Ladder{First: 700 * time.Millisecond, Last: 20}
	for k, seconds := range query[float64](t, conn, `
		SELECT extract(epoch FROM dp_int.step(j, k) - j.read_at)::float8
		  FROM jsonb_populate_record(NULL::dp_int.job, '{"read_at": "2026-01-01T00:00:00Z", "first_step": "700 ms"}') AS j, generate_series(0, 20) AS k ORDER BY k`) {
		if want := l.Step(k).Seconds(); math.Abs(seconds-want) > 2e-6 { // intervals have microseconds
			t.Errorf("step %d is %v s after the read, the sidecar's %v", k, seconds, want)
		}
	}
}

// Views round as functions do, which they cannot call.
func TestViewsRoundAsFunctionsDo(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	script(t, conn, "data sets", `
		INSERT INTO dp_int.account (accounting, epsilon, delta, cap, proven_epsilon)
		SELECT 'pure', b, 0, b, b * s FROM unnest('{1e-9,0.0123,0.99,1,1.5,40}'::numeric[]) AS b, unnest('{0,0.123456789123,0.5000000000001,1}'::numeric[]) AS s;
		INSERT INTO dp_int.dataset (name, account, schema_name, relation_name, relid, target, features, scales, options, epsilon, delta, cap, registered_by)
		SELECT a.id::text, a.id, 'public', 'x', 1, 'y', '{}', '{}', '{}', a.epsilon, 0, a.cap, 'steward' FROM dp_int.account a`)
	got := query[string](t, conn, `
		SELECT concat_ws(' ', a.epsilon, a.proven_epsilon, v.epsilon_spent, v.epsilon_remaining)
		  FROM dp.budget v JOIN dp_int.account a ON a.id::text = v.dataset
		 WHERE (v.epsilon_spent, v.epsilon_remaining) IS DISTINCT FROM (dp_int.rounded_up(a.proven_epsilon, a.epsilon), dp_int.rounded_down(a.epsilon - a.proven_epsilon, a.epsilon))`)
	if n := query[int64](t, conn, `SELECT count(*) FROM dp.budget WHERE epsilon_spent + epsilon_remaining > 0`)[0]; n != 24 || len(got) > 0 {
		t.Errorf("of %d budgets, these are rounded in another way: %q", n, got)
	}
}

func TestOrderGridIsThatOfPrivacy(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	orders, err := new(privacy.Renyi).Curve(privacy.ZCDP{Rho: 1}) // whose divergence at order a is a
	if err != nil {
		t.Fatal(err)
	}
	if grid := query[float64](t, conn, "SELECT unnest(dp_int.renyi_orders())::float8"); !slices.Equal(grid, orders) || privacy.OrdersVersion != 1 {
		t.Errorf("grid %v, package privacy has number %d: %v", grid, privacy.OrdersVersion, orders)
	}
}

// A database of before principals is brought up with what it holds: everybody keeps
// grants, jobs and totals, entries of the ledger keep their hash, and nothing that
// needs a statement now is shown counted.
func TestPrincipalsComeWithAnUpgrade(t *testing.T) {
	conn := database(t)
	apply := func(from, to int) {
		for i, v := range sql.Versions() {
			if from < v && v <= to {
				files, err := fs.Glob(sql.Migrations, "*.up.sql")
				if err != nil {
					t.Fatal(err)
				}
				text, err := fs.ReadFile(sql.Migrations, files[i])
				if err != nil {
					t.Fatal(err)
				}
				script(t, conn, files[i], string(text))
			}
		}
	}
	apply(0, 15)
	entry := func(seq int, rest string) string { // as the version of before hashes it
		return fmt.Sprintf("1:1,1:%d,%s", seq, rest)
	}
	budget := `{"budget": {"cap": 1.0, "delta": 0}}`
	first := sha256.Sum256([]byte(entry(1, fmt.Sprintf("6:budget,1:0,1:d,7:steward,-,%d:%s", len(budget), budget)+",-,-,-,-,1:0,5:exact,-")))
	job := "11111111-1111-1111-1111-111111111111"
	second := sha256.Sum256(append(first[:], entry(2, "6:charge,1:0,1:d,3:ann,36:"+job+",2:{},3:0.5,-,-,-,1:0,5:exact,-")...))
	script(t, conn, "data of before", strings.NewReplacer("{job}", job, "{budget}", budget, "{first}", fmt.Sprintf(`\x%x`, first), "{second}", fmt.Sprintf(`\x%x`, second)).Replace(`
		CREATE ROLE ann; CREATE ROLE grp; CREATE TABLE public.kept (y float8, x float8); CREATE MATERIALIZED VIEW public.some AS SELECT y, x FROM public.kept WHERE x > 0;
		INSERT INTO dp_int.account (accounting, epsilon, delta, cap, spent, proven_epsilon, spends, entries, head) VALUES ('pure', 1, 0, 1, 0.5, 0.5, 1, 2, '{second}');
		INSERT INTO dp_int.account_relation VALUES (1, 'public.kept'::regclass, 'public.before');
		INSERT INTO dp_int.dataset (name, account, relid, schema_name, relation_name, target, features, scales, options, epsilon, delta, cap, row_count, registered_by)
		SELECT c.relname, 1, c.oid, 'public', c.relname, 'y', '{x}', '{}', '{}', 1, 0, 1, 7, 'steward' FROM pg_class c WHERE c.relname IN ('kept', 'some') ORDER BY 1;
		INSERT INTO dp_int.dataset_grant VALUES (1, 'grp', NULL, NULL), (1, 'ann', 0.7, 0.7), (1, 'gone', NULL, NULL);
		INSERT INTO dp_int.ledger (account, seq, kind, at, dataset, caller, event, previous, hash) VALUES (1, 1, 'budget', 'epoch', 'd', 'steward', '{budget}', '', '{first}');
		INSERT INTO dp_int.ledger (account, seq, kind, at, dataset, caller, job, event, epsilon, previous, hash) VALUES (1, 2, 'charge', 'epoch', 'd', 'ann', '{job}', '{}', 0.5, '{first}', '{second}');
		INSERT INTO dp_int.caller_total VALUES (1, 'ann', 0.5, 0.5);
		INSERT INTO dp_int.job (id, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, state, charge, row_count)
		VALUES ('{job}', 'ann', 1, 'l1', 0.5, 0, '{}', '', false, false, 'reading', 2, 7)`))
	apply(15, 1000)
	script(t, conn, "functions and views", "BEGIN; SET LOCAL ROLE dp_owner; SET LOCAL check_function_bodies = off;\n"+sql.Code()+"COMMIT")
	if wrong := query[string](t, conn, "SELECT item || ': ' || detail FROM dp_verify() WHERE NOT ok"); len(wrong) > 0 {
		t.Error(wrong)
	}
	script(t, conn, "a new name", "ALTER ROLE ann RENAME TO anna; CREATE ROLE ann; CREATE ROLE gone")
	for sql, want := range map[string]string{
		`SELECT concat((dp_int.grant_of(1, 'anna')).epsilon, ' ', (dp_int.grant_of(1, 'grp')).dataset, ' ', (dp_int.grant_of(1, 'ann')).dataset, ' ', (dp_int.grant_of(1, 'gone')).dataset)`: "0.7 1  ",
		`SELECT spent::text FROM dp_int.caller_total WHERE principal = dp_int.principal_of('anna')`:                                                                                          "0.5",
		`SELECT state FROM dp_int.watch('anna', '` + job + `')`:                                                                                                                              "reading",
		`SELECT count(*)::text FROM dp_int.watch('ann', '` + job + `')`:                                                                                                                      "0",
		`SELECT string_agg(relation, ' ' ORDER BY relation) FROM dp_int.account_relation`:                                                                                                    "public.before public.kept",
		`SELECT string_agg(concat(name, ' ', row_count), ', ' ORDER BY name) FROM dp_int.dataset`:                                                                                            "kept 7, some ",
	} {
		if got := query[string](t, conn, sql)[0]; got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	// Down, where totals are by name, and up again.
	script(t, conn, "a job under the new name", `INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited)
		VALUES (gen_random_uuid(), dp_int.admit_principal('anna'), 'anna', 1, 'l1', 0.5, 0, '{}', '', false, false)`)
	script(t, conn, "no functions and views", `DO $$ DECLARE v regclass; BEGIN
		FOR v IN SELECT oid FROM pg_class WHERE relkind = 'v' AND relnamespace IN ('dp'::regnamespace, 'dp_int'::regnamespace) LOOP
		  IF EXISTS (SELECT FROM pg_class WHERE oid = v) THEN EXECUTE format('DROP VIEW %s CASCADE', v); END IF;
		END LOOP; END $$`)
	downs, err := fs.Glob(sql.Migrations, "*.down.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Backward(downs) {
		text, err := fs.ReadFile(sql.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		if name >= "017" {
			script(t, conn, name, string(text))
		}
	}
	apply(16, 1000)
	script(t, conn, "functions and views again", "BEGIN; SET LOCAL ROLE dp_owner; SET LOCAL check_function_bodies = off;\n"+sql.Code()+"COMMIT")
	if wrong := query[string](t, conn, "SELECT item || ': ' || detail FROM dp_verify() WHERE NOT ok"); len(wrong) > 0 {
		t.Error(wrong)
	}
	if got := query[string](t, conn, "SELECT concat(count(DISTINCT principal), ' ', min(caller), ' ', (dp_int.grant_of(1, 'anna')).epsilon) FROM dp_int.job")[0]; got != "1 anna 0.7" {
		t.Errorf("down and up again: %q", got)
	}
}

// The version of before reads scales that are numbers, and knows those of the registration.
func TestScalesGoDownAsNumbers(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	script(t, conn, "two data sets", `
		INSERT INTO dp_int.account (accounting, epsilon, delta, cap) VALUES ('pure', 1, 0, 1);
		INSERT INTO dp_int.dataset (name, account, relid, schema_name, relation_name, target, features, scales, first_scales, options, epsilon, delta, cap, registered_by)
		SELECT name, 1, 0, 'public', 'r', 'y', '{x}', scales::jsonb, first::jsonb, '{}', 1, 0, 1, 'steward'
		  FROM (VALUES ('a', '{"x": {"center": -20, "scale": 10}, "y": {"scale": 3}, "z": 4}', NULL), ('b', '{"x": 7}', '{"x": {"center": 2, "scale": 1}}'), ('c', '{}', NULL)) AS v(name, scales, first)`)
	down, err := fs.ReadFile(sql.Migrations, "029_scales.down.sql")
	if err != nil {
		t.Fatal(err)
	}
	script(t, conn, "down", string(down))
	if got := query[string](t, conn, `SELECT string_agg(scales::text, ' ' ORDER BY name) FROM dp_int.dataset`)[0]; got != `{"x": 30, "y": 3, "z": 4} {"x": 3} {}` {
		t.Error(got)
	}
}

// The rows of dp_help are numbered as they stand, so that their order is one.
func TestRowsOfHelpAreNumbered(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^      \((\d+), (?:NULL|'dp_\w+'), 'dp[._]`).FindAllStringSubmatch(sql.Code(), -1)
	if len(rows) < 50 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d has number %s", i+1, row[1])
		}
	}
}
