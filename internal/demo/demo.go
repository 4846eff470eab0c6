// Package demo demonstrates dpsidecar's main use on a temporary Postgres: an insurance table with heavy
// tails, a steward who registers it, an analyst who asks, the price, and the refusal when the budget is
// spent.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

// claimsSQL creates the table.
//
//go:embed claims.sql
var claimsSQL string

// registerSQL is the steward's statement.
const registerSQL = `SELECT dp_register('claims', 'claims', target => 'claim_cost',
  features => '{vehicle_value,annual_km,driver_age}', epsilon => 4,
  scales => '{"claim_cost": 2000, "vehicle_value": 20000,
              "annual_km": 12000, "driver_age": 40}')`

// staysSQL creates a table with several rows for each person and a column of text; registerStaysSQL
// registers it.
const (
	staysSQL = `CREATE TABLE stays AS
  SELECT patient, 500 + 8 * age + (ARRAY[0, 150, 400])[r] + 300 * (random() + random() - 1) AS cost,
         age, (ARRAY['north', 'south', 'abroad'])[r] AS region
    FROM (SELECT i AS patient, round(20 + 60 * random()) AS age, 1 + floor(3 * random())::int AS r, 1 + floor(3 * random())::int AS stays
            FROM generate_series(1, 20000) AS i) AS patients, generate_series(1, stays);
GRANT SELECT ON stays TO dp_sidecar`
	registerStaysSQL = `SELECT dp_register('stays', 'stays', target => 'cost',
  features => '{age,region}', epsilon => 2, delta => 1e-6,
  scales => '{"cost": 1000, "age": 50}',
  categories => '{"region": ["north", "south", "*"]}',
  unit => 'patient', max_rows => 3)`
	askStaysSQL = `SELECT * FROM dp_linear_regress('stays', 1)`
)

// scales are the scales in registerSQL: of the features, then of the target.
var scales = []float64{20000, 12000, 40, 2000}

const (
	askSQL    = `SELECT * FROM dp_l1_regress('claims', %v)`
	budgetSQL = `SELECT epsilon_total, epsilon_spent, epsilon_remaining
  FROM dp.budget`
)

var (
	asked    = []float64{0.1, 1, 2} // together they are within the budget
	repeated = 1.0                  // one of them
	refused  = 1.5                  // more than remains after them
)

// coefficient is a row of an answer.
type coefficient struct {
	Term string
	Coef float64
}

// budget is a row of budgetSQL.
type budget struct{ Total, Spent, Remaining float64 }

func (b budget) row(when string) []string {
	return []string{when, number(b.Total), number(b.Spent), number(b.Remaining)}
}

// demo is a demonstration in progress.
type demo struct {
	screen
	owner, steward, analyst *pgx.Conn
	answers                 [][]coefficient // one for each element of asked
}

// waits is the number of times that a demonstration waits: for Postgres, for the table, for every answer
// including the repeated, the refused and the last one, and for the fit without privacy.
var waits = 6 + len(asked)

// Run runs the demonstration and removes everything that it started, also when ctx ends early. It fails if
// dpsidecar behaves differently from the text of the demonstration.
func Run(ctx context.Context, out io.Writer) error {
	d := demo{screen: newScreen(out, waits)}
	defer d.out.Clear()
	return d.run(ctx)
}

func (d *demo) run(ctx context.Context) (err error) {
	d.title("dpsidecar: private regression from SQL")
	d.say("Starting a private Postgres; it will be gone when we are done.")
	d.wait("starting Postgres")
	s, err := dev.Start(ctx, dev.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if _, err := s.Serve(ctx); err != nil {
		return err
	}
	for url, conn := range map[string]**pgx.Conn{s.SuperuserURL(): &d.owner, s.StewardURL(): &d.steward, s.AnalystURL(): &d.analyst} {
		if *conn, err = pgx.Connect(ctx, url); err != nil {
			return err
		}
		defer (*conn).Close(context.WithoutCancel(ctx))
	}
	for _, step := range []func(context.Context) error{d.load, d.register, d.ask, d.compare, d.repeat, d.exhaust, d.persons} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.say("That is all. To try it yourself, run bin/dpsidecar dev: it prints where to connect.")
	return nil
}

// load creates the table and shows its contents.
func (d *demo) load(ctx context.Context) error {
	d.heading("An insurance company has a table of claims")
	d.wait("making the table")
	if _, err := d.owner.Exec(ctx, claimsSQL); err != nil {
		return err
	}
	var rows int
	var median, largest float64
	err := d.owner.QueryRow(ctx, `SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY claim_cost), max(claim_cost) FROM claims`).
		Scan(&rows, &median, &largest)
	if err != nil {
		return err
	}
	d.say("One row is one customer. There are %s, and their costs have a heavy tail: half are below %s, the largest is %s.", grouped(rows), grouped(int(median)), grouped(int(largest)))
	sample, err := collect[[4]float64](ctx, d.owner, `SELECT ARRAY[vehicle_value, annual_km, driver_age, claim_cost] FROM claims LIMIT 3`, pgx.RowTo)
	if err != nil {
		return err
	}
	table := [][]string{{"", "vehicle_value", "annual_km", "driver_age", "claim_cost"}}
	for _, r := range sample {
		table = append(table, []string{"", number(r[0]), number(r[1]), number(r[2]), number(r[3])})
	}
	d.table(table)
	d.say("Its owner lets the sidecar read it:")
	d.line("")
	return d.exec(ctx, "owner", d.owner, `GRANT SELECT ON claims TO dp_sidecar`)
}

// register shows the steward's statement.
func (d *demo) register(ctx context.Context) error {
	d.heading("The steward says what may be asked, and how much privacy may be spent")
	d.line("")
	if err := d.exec(ctx, "steward", d.steward, registerSQL); err != nil {
		return err
	}
	if err := d.exec(ctx, "steward", d.steward, `SELECT dp_grant('claims', 'analyst')`); err != nil {
		return err
	}
	d.say("The scales are typical magnitudes that everybody knows; they are not taken from the data. epsilon = 4 bounds what all answers together can tell about one customer.")
	return nil
}

// ask makes a request with every budget.
func (d *demo) ask(ctx context.Context) error {
	d.heading("The analyst asks, with more and more of the budget")
	before, err := d.budget(ctx)
	if err != nil {
		return err
	}
	d.line("")
	for i, eps := range asked {
		answer, took, err := d.answer(ctx, eps)
		if err != nil {
			return err
		}
		d.note("%d rows in %s", len(answer), brief(took))
		if i == 0 {
			d.table(rows(answer))
			d.line("")
		}
		d.answers = append(d.answers, answer)
	}
	after, err := d.budget(ctx)
	if err != nil {
		return err
	}
	d.line("")
	d.sql("analyst", budgetSQL)
	d.table([][]string{{"epsilon", "total", "spent", "remaining"}, before.row("before"), after.row("after")})
	return nil
}

// rows returns an answer as rows of text.
func rows(answer []coefficient) [][]string {
	table := [][]string{{"term", "coef"}}
	for _, c := range answer {
		table = append(table, []string{c.Term, number(c.Coef)})
	}
	return table
}

// answer shows the statement, runs it, and returns the answer and its duration.
func (d *demo) answer(ctx context.Context, eps float64) ([]coefficient, time.Duration, error) {
	return d.request(ctx, fmt.Sprintf(askSQL, eps), eps)
}

// request is answer for any statement that asks with eps.
func (d *demo) request(ctx context.Context, statement string, eps float64) ([]coefficient, time.Duration, error) {
	d.sql("analyst", statement)
	d.wait("asking with epsilon %v", eps)
	begin := time.Now()
	answer, err := collect(ctx, d.analyst, statement, pgx.RowToStructByPos[coefficient])
	return answer, time.Since(begin), err
}

func (d *demo) budget(ctx context.Context) (budget, error) {
	rows, err := collect(ctx, d.analyst, budgetSQL, pgx.RowToStructByPos[budget])
	if err != nil {
		return budget{}, err
	}
	if len(rows) != 1 {
		return budget{}, fmt.Errorf("dp.budget has %d rows", len(rows))
	}
	return rows[0], nil
}

// compare shows the private coefficients beside those without privacy. The demo owns the data, so it may
// read them.
func (d *demo) compare(ctx context.Context) error {
	d.heading("How good are the answers?")
	d.say("The demo owns this table, so it may look. An analyst never sees the last column.")
	d.wait("fitting without privacy")
	data, err := d.read(ctx)
	if err != nil {
		return err
	}
	exact, err := data.leastAbsolute()
	if err != nil {
		return err
	}
	head, loss := []string{"term"}, []string{"mean error"}
	best := data.meanAbsoluteError(exact)
	for i, eps := range asked {
		head = append(head, fmt.Sprintf("epsilon %v", eps))
		loss = append(loss, fmt.Sprintf("+%.2f%%", 100*(data.meanAbsoluteError(scaled(d.answers[i]))/best-1)))
	}
	table := [][]string{append(head, "no privacy")}
	exact = unscaled(exact)
	for j, c := range d.answers[0] {
		row := []string{c.Term}
		for _, answer := range d.answers {
			row = append(row, number(answer[j].Coef))
		}
		table = append(table, append(row, number(exact[j])))
	}
	d.table(append(table, append(loss, number(best*scales[3]))))
	return nil
}

// read returns the table in scaled units, with a leading column of ones.
func (d *demo) read(ctx context.Context) (design, error) {
	rows, err := collect[[4]float64](ctx, d.owner, `SELECT ARRAY[vehicle_value, annual_km, driver_age, claim_cost] FROM claims`, pgx.RowTo)
	if err != nil {
		return design{}, err
	}
	data := design{x: [][]float64{slices.Repeat([]float64{1}, len(rows)), nil, nil, nil}}
	for _, r := range rows {
		for j, s := range scales[:3] {
			data.x[j+1] = append(data.x[j+1], r[j]/s)
		}
		data.y = append(data.y, r[3]/scales[3])
	}
	return data, nil
}

// scaled returns an answer's coefficients in scaled units.
func scaled(answer []coefficient) []float64 {
	w := []float64{answer[0].Coef / scales[3]}
	for j, s := range scales[:3] {
		w = append(w, answer[j+1].Coef*s/scales[3])
	}
	return w
}

// unscaled is the inverse of scaled.
func unscaled(w []float64) []float64 {
	u := []float64{w[0] * scales[3]}
	for j, s := range scales[:3] {
		u = append(u, w[j+1]*scales[3]/s)
	}
	return u
}

// repeat shows that the answer to the same request is returned again at no cost.
func (d *demo) repeat(ctx context.Context) error {
	d.heading("The same request again is the same answer, and costs nothing")
	d.line("")
	before, err := d.budget(ctx)
	if err != nil {
		return err
	}
	answer, took, err := d.answer(ctx, repeated)
	if err != nil {
		return err
	}
	after, err := d.budget(ctx)
	if err != nil {
		return err
	}
	if before != after || !slices.Equal(answer, d.answers[slices.Index(asked, repeated)]) {
		return errors.New("a repeated request was not a replay")
	}
	d.note("the same %d rows in %s; epsilon spent is still %s", len(answer), brief(took), number(after.Spent))
	return nil
}

// exhaust shows the refusal when the budget is spent.
func (d *demo) exhaust(ctx context.Context) error {
	d.heading("What is spent is spent")
	d.line("")
	_, _, err := d.answer(ctx, refused)
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "DP002" {
		return fmt.Errorf("an exhausted budget was not refused: %w", err)
	}
	d.refusal(refusal.Code, refusal.Message, refusal.Hint)
	return nil
}

// persons shows a data set in which a person may have several rows, with text as a feature.
func (d *demo) persons(ctx context.Context) error {
	d.heading("Persons with several rows, and text by levels that everybody knows")
	if _, err := d.owner.Exec(ctx, staysSQL); err != nil {
		return err
	}
	d.say("A hospital's patients have one stay or more: unit protects all of a patient's rows together, at the price of one. Costs differ by region, 150 in the south and 400 elsewhere against the north, and by 8 a year of age.")
	d.line("")
	for _, statement := range []string{registerStaysSQL, `SELECT dp_grant('stays', 'analyst')`} {
		if err := d.exec(ctx, "steward", d.steward, statement); err != nil {
			return err
		}
	}
	answer, took, err := d.request(ctx, askStaysSQL, 1)
	if err != nil {
		return err
	}
	d.note("%d rows in %s", len(answer), brief(took))
	d.table(rows(answer))
	return nil
}

// exec shows a statement and runs it.
func (d *demo) exec(ctx context.Context, who string, conn *pgx.Conn, statement string) error {
	d.sql(who, statement)
	_, err := conn.Exec(ctx, statement)
	return err
}

func collect[T any](ctx context.Context, conn *pgx.Conn, statement string, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := conn.Query(ctx, statement)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
