package job

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"
)

// An answer is read to the last integer, and one that is none is a fault; what exceeds an int64 is cut.
func TestAnswersAreReadExactly(t *testing.T) {
	rows, err := parseAnswer("(7,2,-9223372036854775808,9223372036854775807) (0,3,,-1) (0,3,-9223372036854775809,99999999999999999999)")
	if err != nil || fmt.Sprint(rows) != "[[7 2 -9223372036854775808 9223372036854775807] [0 3 0 -1] [0 3 -9223372036854775808 9223372036854775807]]" {
		t.Errorf("%v, %v", rows, err)
	}
	if rows, err := parseAnswer(""); err != nil || len(rows) != 0 {
		t.Errorf("no rows: %v, %v", rows, err)
	}
	for _, text := range []string{"(1,2", "1,2)", "(1)", "(1,2.0)", "(1,NaN)", "(1,-1)", "(a,1)", "()"} {
		if _, err := parseAnswer(text); !errors.Is(err, errAnswer) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// tableOfSums is a table whose rows are added up where they are, as a job does it.
type tableOfSums struct {
	conn    *pgx.Conn
	from    string
	columns []string
	plan    *plan.Plan
	data    table.Data
}

// sumsOf makes a table with features of a type, and the plan of a model.
func sumsOf(tb testing.TB, model, kind string, rows, features int) tableOfSums {
	tb.Helper()
	ctx := context.Background()
	c := localpg.Postgres(tb)
	database := c.Database(tb)
	var columns, sum []string
	names := []string{"y"}
	for j := range features {
		columns, sum = append(columns, fmt.Sprintf("(random() - 0.5)::%s AS x%d", kind, j)), append(sum, fmt.Sprintf("x%d::float8", j))
		names = append(names, fmt.Sprintf("x%d", j))
	}
	target := "(" + strings.Join(sum, " + ") + " + random())"
	switch model {
	case "logistic":
		target = "(" + target + " > 0.5)::int"
	case "poisson":
		target = "floor(abs(" + target + "))"
	}
	c.Exec(tb, database, fmt.Sprintf("CREATE TABLE t AS SELECT *, %s AS y FROM (SELECT %s FROM generate_series(1, %d)) r", target, strings.Join(columns, ", "), rows), "CREATE INDEX ON t (y)", "VACUUM ANALYZE t")
	conn, err := pgx.Connect(ctx, c.SuperuserURL(database))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(ctx) })
	if _, err := conn.PgConn().Exec(ctx, "SET jit = off; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "+sumSettings).ReadAll(); err != nil {
		tb.Fatal(err)
	}
	t := tableOfSums{conn: conn}
	if t.from, t.columns, err = arrowio.Expressions(ctx, conn, arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: names}); err != nil {
		tb.Fatal(err)
	}
	t.data = table.Data{Shape: table.Shape{N: rows, D: features + 1, Intercept: true}, Pushdown: new(table.Pushdown)}
	for j := range features {
		t.data.Pushdown.Features = append(t.data.Pushdown.Features, table.Term{Column: 1 + j})
	}
	t.plan = sumsPlan(tb, model, rows, features)
	return t
}

// sumsPlan is the plan of a model's default method.
func sumsPlan(tb testing.TB, model string, rows, features int) *plan.Plan {
	tb.Helper()
	options := map[string]any{}
	if model == "logistic" {
		options["negative_label"], options["positive_label"] = 0., 1.
	}
	names := make([]string, features)
	for j := range names {
		names[j] = fmt.Sprintf("x%d", j)
	}
	algorithm, err := dpsco.Recipe(model, options, names)
	if err != nil {
		tb.Fatal(err)
	}
	scaled := dpsco.Scaled{Algorithm: algorithm, Counts: model == "poisson", Y: 1, X: make([]float64, features), CentreX: make([]float64, features)}
	for j := range features {
		scaled.X[j] = 1
	}
	plan, err := scaled.Plan(table.Shape{N: rows, D: features + 1, Intercept: true}, privacy.Budget{Epsilon: 10, Delta: 1e-6}, privacy.Concentrated{})
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// run makes the fit; each is told every statement.
func (t tableOfSums) run(tb testing.TB, each func(statement string)) release.Result {
	tb.Helper()
	pass := passes(context.Background(), []source{{t.conn, t.from, t.columns}}, nil)
	x := *t.data.Pushdown
	t.data.Pushdown = &x
	x.Totals = func(p sqlsum.Pass) (sqlsum.Totals, error) {
		each(p.SQL(t.from, t.columns))
		return pass(p)
	}
	r, err := t.plan.Run(context.Background(), t.data, mech.NewSource())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// A pass is what its twin makes of the rows that a pull reads, to the last integer: of awkward values of many types, under operators and settings
// that would make something else of it, through a view. How many groups there are stays inside the statement.
func TestAPassIsItsTwinWhateverTheSession(t *testing.T) {
	ctx := context.Background()
	c := localpg.Postgres(t)
	database := c.Database(t)
	c.Exec(t, database, `CREATE DOMAIN public.price AS float8`,
		`CREATE TABLE t AS SELECT a::price, b::numeric, c::date, d::text, e::float8, f::timestamp FROM (VALUES
			(1.5, 2, '2020-01-01', 'x', 0.25, '2020-01-01 00:00:00.5'), (-3e5, '-7.25', '5874897-12-31', 'y', '-0', '294276-12-31'), ('NaN', 1, NULL, 'x', 1, 'infinity'), ('Infinity', 1e100, '-infinity', 'zz', 2, NULL),
			(5e-324, 'NaN', '4713-01-01 BC', NULL, 1e300, '4713-01-01 BC'), (1e18, 1e-300, '1970-01-01', 'y', -1e-300, '1970-01-01'), (0, 0, '2000-01-01', '*', 1e17, '2000-01-01'), (7, 8, '1999-12-31', 'x', 1e5, '1999-12-31')) AS v(a, b, c, d, e, f)`,
		`INSERT INTO t SELECT (random() - .5) * 10 ^ (random() * 20 - 10), (random() * 1e6)::numeric, date '2000-01-01' + (random() * 1e4)::int, (ARRAY['x', 'y', 'z'])[1 + i % 3], random() * 1e5, timestamp '2000-01-01' + random() * interval '1 year' FROM generate_series(1, 20000) i`,
		`CREATE VIEW v AS SELECT e, d, c, b, a, f FROM t`,
		`CREATE FUNCTION public.wrong(float8, float8) RETURNS float8 LANGUAGE sql AS 'SELECT 13::float8'`, `CREATE FUNCTION public.never(float8, float8) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
		`CREATE OPERATOR public.* (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.wrong)`, `CREATE OPERATOR public.+ (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.wrong)`,
		`CREATE OPERATOR public.>= (LEFTARG = float8, RIGHTARG = float8, FUNCTION = public.never)`, `CREATE FUNCTION public.wrong(public.price, float8) RETURNS float8 LANGUAGE sql AS 'SELECT 13::float8'`,
		`CREATE OPERATOR public.* (LEFTARG = public.price, RIGHTARG = float8, FUNCTION = public.wrong)`)
	conn, err := pgx.Connect(ctx, c.SuperuserURL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, `SET search_path = public, pg_catalog; SET standard_conforming_strings = off; SET extra_float_digits = -15; SET work_mem = '64kB'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; `+sumSettings).ReadAll(); err != nil {
		t.Fatal(err)
	}
	req := arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"a", "b", "c", "d", "e", "f"}, Levels: map[string][]string{"d": {"x", "y", "*"}}, Rows: 20008}
	from, columns, err := arrowio.Expressions(ctx, conn, req)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := arrowio.Pull(ctx, conn, req, mech.NewSource())
	if err != nil {
		t.Fatal(err)
	}
	x := []sqlsum.Expr{sqlsum.Column(0, 0, 1), sqlsum.Column(1, 3, 10), sqlsum.Column(2, 1e9, 1e9), sqlsum.Is(3, 1), sqlsum.Column(4, 0, 1e5), sqlsum.Column(5, 1e9, 1e9)}
	edges := []float64{-1, 0, 1, 2}
	pass := sqlsum.Pass{
		Sums: []sqlsum.Vector{{Of: x, Bound: 2, Steps: 1 << 30}}, Moments: []sqlsum.Vector{{Of: append(x[:3:3], sqlsum.Mul(x[0], x[3])), Bound: 3, Steps: 1 << 23}},
		Counts: []sqlsum.Bins{{Of: x[0], Edges: edges}, {Of: sqlsum.Square(x[1]), Edges: edges}},
	}
	got, err := passes(ctx, []source{{conn, from, columns}}, nil)(pass)
	if err != nil {
		t.Fatal(err)
	}
	want, add := pass.Empty(), pass.TwinForTests()
	for i := range int(rec.NumRows()) {
		raw := make([]float64, rec.NumCols())
		for j := range raw {
			raw[j] = rec.Column(j).(*array.Float64).Value(i)
		}
		add(want, raw)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the pass:\n%v\nits twin:\n%v", got, want)
	}
	results, err := conn.PgConn().Exec(ctx, oneRow(pass.SQL(from, columns))).ReadAll()
	if err != nil || results[0].CommandTag.RowsAffected() != 1 {
		t.Errorf("the server counts %d rows of an answer, %v", results[0].CommandTag.RowsAffected(), err)
	}
	if _, err := conn.PgConn().Exec(ctx, `SET LOCAL parallel_setup_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 2`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if got, err := passes(ctx, []source{{conn, from, columns}}, nil)(pass); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with parallel workers:\n%v, %v\nits twin:\n%v", got, err, want)
	}
	plan, err := conn.PgConn().Exec(ctx, "EXPLAIN "+oneRow(pass.SQL(from, columns))).ReadAll()
	before15 := strings.HasPrefix(conn.PgConn().ParameterStatus("server_version"), "14") // takes a worker's rows for all, above a subquery
	if err != nil || !before15 && !strings.Contains(fmt.Sprintf("%s", plan[0].Rows), "Partial HashAggregate") {
		t.Errorf("workers add nothing up: %s, %v", plan[0].Rows, err)
	}
}

// The widest fits that plans let a database sum are statements that it takes.
func TestTheWidestPassesRun(t *testing.T) {
	for _, model := range []string{"linear", "logistic", "poisson"} {
		features := 1
		const planned = 10_000_000 // for the methods of few passes
		for ; sumsPlan(t, model, planned, features+1).Sums; features++ {
		}
		longest, x := 0, sumsOf(t, model, "float8", 100, features)
		x.plan, x.data.N = sumsPlan(t, model, planned, features), planned
		x.run(t, func(statement string) { longest = max(longest, len(statement)) })
		if t.Logf("%s: %d features, %d bytes", x.plan.ChosenMethod, features, longest); features < 20 || longest > 2<<20 {
			t.Errorf("%s: %d features, %d bytes", model, features, longest)
		}
	}
}

// The condition on rows makes the planner neither believe that there is one, for which any join is cheap, nor use an index of a column.
func TestThePlannerExpectsRows(t *testing.T) {
	x := sumsOf(t, "linear", "float8", 2000, 3)
	ctx := context.Background()
	if _, err := x.conn.PgConn().Exec(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashagg = off").ReadAll(); err != nil {
		t.Fatal(err)
	}
	x.run(t, func(statement string) {
		rows, _ := x.conn.Query(ctx, "EXPLAIN "+oneRow(statement))
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "rows=1000 ") || strings.Contains(text, "Index Cond") {
			t.Errorf("%s", text)
		}
	})
}

// A pass calls the functions of a view once for every row, whatever the row holds: of a view that is total, the
// server's counters of calls would tell how many rows say something, or are at a level.
func TestPassesCallFunctionsOfViewsOnceARow(t *testing.T) {
	ctx := context.Background()
	c := localpg.Postgres(t)
	database := c.Database(t)
	const rows = 300
	c.Exec(t, database, fmt.Sprintf(`CREATE TABLE t AS SELECT CASE WHEN i %% 3 > 0 THEN i / 7. END AS y, CASE WHEN i %% 5 > 0 THEN i END AS x, (ARRAY['in', 'out', NULL])[1 + i %% 3] AS k FROM generate_series(1, %d) i`, rows),
		`CREATE FUNCTION same(numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN $1; END'`,
		`CREATE VIEW v AS SELECT same(y) AS y, same(x) AS x, k FROM t`)
	conn, err := pgx.Connect(ctx, c.SuperuserURL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, "SET track_functions = 'all'; SET max_parallel_workers_per_gather = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "+sumSettings).ReadAll(); err != nil {
		t.Fatal(err)
	}
	from, columns, err := arrowio.Expressions(ctx, conn, arrowio.Request{Relation: pgx.Identifier{"public", "v"}, Columns: []string{"y", "x", "k"}, Filters: 1,
		Levels: map[string][]string{"k": {"in", "out"}}, Only: map[string][]string{"k": {"in"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := sqlsum.Column(1, 0, 100), sqlsum.Column(0, 0, 100)
	pass := sqlsum.Pass{Sums: []sqlsum.Vector{{Of: []sqlsum.Expr{x, y, sqlsum.Mul(x, y)}, Bound: 2, Steps: 1 << 30}}, Counts: []sqlsum.Bins{{Of: sqlsum.Square(y), Edges: []float64{0.1, 0.2}}}}
	for k := range 3 {
		if _, err := passes(ctx, []source{{conn: conn, from: from, columns: columns}}, nil)(pass); err != nil {
			t.Fatal(err)
		}
		var calls int
		if err := conn.QueryRow(ctx, "SELECT pg_stat_get_xact_function_calls('same'::regproc)").Scan(&calls); err != nil || calls != 2*rows*(k+1) {
			t.Errorf("%d calls after %d passes over %d rows of two columns, %v", calls, k+1, rows, err)
		}
	}
}

// A foreign table's server is asked for all rows: of a condition it would count how many meet it.
func TestOtherServersAreAskedForAllRows(t *testing.T) {
	ctx := context.Background()
	c := localpg.Postgres(t)
	database := c.Database(t)
	conn, err := pgx.Connect(ctx, c.SuperuserURL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE EXTENSION postgres_fdw"); err != nil {
		t.Skip(err)
	}
	c.Exec(t, database, "CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw", "CREATE USER MAPPING FOR public SERVER other", "CREATE TABLE whole (y float8, x float8) PARTITION BY RANGE (y)",
		"CREATE FOREIGN TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (1) SERVER other", "CREATE VIEW v AS SELECT y, x FROM whole")
	for _, relation := range []string{"part", "whole", "v"} {
		from, columns, err := arrowio.Expressions(ctx, conn, arrowio.Request{Relation: pgx.Identifier{"public", relation}, Columns: []string{"y", "x"}})
		if err != nil {
			t.Fatal(err)
		}
		pass := sqlsum.Pass{Sums: []sqlsum.Vector{{Of: []sqlsum.Expr{sqlsum.Column(0, 0, 1), sqlsum.Column(1, 0, 1)}, Bound: 2, Steps: 1 << 30}}}
		rows, _ := conn.Query(ctx, "EXPLAIN VERBOSE "+oneRow(pass.SQL(from, columns)))
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "Remote SQL: SELECT y, x FROM public.part") || strings.Contains(text, "public.part WHERE") {
			t.Errorf("%s: %s", relation, text)
		}
	}
}

var (
	passRows     = flag.Int("pass-rows", 20_000, "rows of BenchmarkPassInDatabase")
	passFeatures = flag.Int("pass-features", 10, "its features")
	passType     = flag.String("pass-type", "float8", "their type")
	passJIT      = flag.String("pass-jit", "on", "just in time compilation: on or off")
	passModel    = flag.String("pass-model", "linear", "the model")
)

// BenchmarkPassInDatabase is the default fit on a table that stays in Postgres. Metrics: nanoseconds of
// the server's processor a row and a pass, on one core, and those over what a ladder takes for granted; bytes of the longest statement.
func BenchmarkPassInDatabase(b *testing.B) {
	t := sumsOf(b, *passModel, *passType, *passRows, *passFeatures)
	if _, err := t.conn.PgConn().Exec(context.Background(), "SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = "+*passJIT).ReadAll(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		longest, count := 0, 0
		before := t.processorTime(b)
		t.run(b, func(statement string) { longest, count = max(longest, len(statement)), count+1 })
		took := t.processorTime(b) - before
		t.plan.InDatabase = true
		b.ReportMetric(float64(took)/float64(*passRows)/float64(count), "ns/row/pass")
		b.ReportMetric(float64(took)/float64(t.plan.Duration()), "of-planned")
		b.ReportMetric(float64(longest), "bytes")
	}
}

// processorTime is what the server's process has used.
func (t tableOfSums) processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", t.conn.PgConn().PID()))
	if err != nil {
		tb.Skip(err)
	}
	nanoseconds, _, _ := strings.Cut(string(text), " ")
	took, err := time.ParseDuration(nanoseconds + "ns")
	if err != nil {
		tb.Fatal(err)
	}
	return took
}
