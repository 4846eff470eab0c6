package job

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/localpg"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"
)

// An answer is read to the last integer, and one that is none is a fault; more rows than there may be are
// noticed before anything is added up.
func TestAnswersAreReadExactly(t *testing.T) {
	rows, err := parseAnswer("(7,2,-9223372036854775808,9223372036854775807) (0,3,,-1)", 5)
	if err != nil || fmt.Sprint(rows) != "[[7 2 -9223372036854775808 9223372036854775807] [0 3 0 -1]]" {
		t.Errorf("%v, %v", rows, err)
	}
	if rows, err := parseAnswer("", 5); err != nil || len(rows) != 0 {
		t.Errorf("no rows: %v, %v", rows, err)
	}
	for _, text := range []string{"(1,2", "1,2)", "(1)", "(1,2.0)", "(1,NaN)", "(1,9223372036854775808)", "(1,-1)", "(a,1)", "()"} {
		if _, err := parseAnswer(text, 5); !errors.Is(err, errAnswer) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := parseAnswer("(0,3,1) (1,3,1)", 5); err != grown {
		t.Errorf("6 rows of 5: %v", err)
	}
}

// inDatabaseOf is a table of so many rows with a target and so many features, in the form that a job's passes have.
type tableOfSums struct {
	conn    *pgx.Conn
	from    string
	columns []string
	plan    *dpsco.Plan
	data    dpsco.Data
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
	if model == "logistic" {
		target = "(" + target + " > 0.5)::int"
	}
	c.Exec(tb, database, fmt.Sprintf("CREATE TABLE t AS SELECT *, %s AS y FROM (SELECT %s FROM generate_series(1, %d)) r", target, strings.Join(columns, ", "), rows), "VACUUM ANALYZE t")
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
	options := map[string]any{}
	if model == "logistic" {
		options["negative_label"], options["positive_label"] = 0., 1.
	}
	algorithm, err := dpsco.Recipe(model, options, names[1:])
	if err != nil {
		tb.Fatal(err)
	}
	t.data = dpsco.Data{Shape: dpsco.Shape{N: rows, D: features + 1, Intercept: true}, Elsewhere: new(dpsco.Elsewhere)}
	scaled := dpsco.Scaled{Algorithm: algorithm, Y: 1, X: make([]float64, features), CentreX: make([]float64, features)}
	for j := range features {
		scaled.X[j] = 1
		t.data.Elsewhere.Features = append(t.data.Elsewhere.Features, dpsco.Term{Column: 1 + j})
	}
	if t.plan, err = scaled.Plan(t.data.Shape, privacy.Budget{Epsilon: 10, Delta: 1e-6}, privacy.Concentrated{}); err != nil {
		tb.Fatal(err)
	}
	return t
}

// run makes the fit; each is told every statement.
func (t tableOfSums) run(tb testing.TB, each func(statement string)) dpsco.Result {
	tb.Helper()
	pass := passes(context.Background(), []source{{t.conn, t.from, t.columns}}, nil, int64(t.data.N))
	x := *t.data.Elsewhere
	t.data.Elsewhere = &x
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
		b.ReportMetric(float64(took)/float64(t.plan.Takes()), "of-planned")
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
