package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// request is one question; the radius tells it from all others.
type request struct {
	dataset string
	radius  float64
}

func (r request) String() string { return fmt.Sprintf("%s, radius %v", r.dataset, r.radius) }

// form is the model, its price and its options as SQL.
func (r request) form() (model, price, options string) {
	if r.dataset == "few" {
		return "l1", "0.25", fmt.Sprintf(`{"method": "objective_perturbation", "radius": %v}`, r.radius)
	}
	over := ""
	if r.dataset == "more" { // which has a budget for every day: windows of three or four of ten, that overlap
		first := int(32*r.radius) % 5
		over = fmt.Sprintf(`, "over": ["2026-01-0%d", "2026-01-0%d"]`, 1+first, 4+first+first%2)
	}
	return "linear", "0.25, 1e-7", fmt.Sprintf(`{"method": "gd", "steps": 3, "whitening": "off", "radius": %v%s}`, r.radius, over)
}

func (r request) call() string {
	model, price, options := r.form()
	return fmt.Sprintf(`SELECT * FROM dp_%s_regress('%s', %s, options => '%s')`, model, r.dataset, price, options)
}

func (r request) submit() string {
	model, price, options := r.form()
	return fmt.Sprintf(`SELECT dp_submit('%s', '%s', %s, options => '%s')::text`, model, r.dataset, price, options)
}

func (r request) run() string {
	model, price, options := r.form()
	return fmt.Sprintf(`CALL dp_run('%s', '%s', %s, options => '%s')`, model, r.dataset, price, options)
}

// request is what a caller asks this round: the first four the same, the others
// each their own.
func (c *crash) request(f fault, person int) request {
	r := request{dataset: []string{"few", "more"}[person/2%2], radius: 1 + float64(c.serial) + float64(max(person, 3))/32}
	switch {
	case person < 4:
		r.dataset = "few"
	case f.large && person < 8:
		r.dataset = "many"
	}
	return r
}

// caller is one person and their session, which may end at any time.
type caller struct {
	name, url string
	conn      *pgx.Conn
}

// outcome is what became of a caller's first attempt.
type outcome struct {
	request
	caller   string
	from, to time.Time
	result   []term // nil: submitted, and not waited for
	err      error
}

// ask asks once, in one of four ways.
func (p *caller) ask(person int, r request) outcome {
	o := outcome{request: r, caller: p.name, from: time.Now()}
	switch {
	case person == 15: // submits and goes away
		_, o.err = p.value(r.submit())
	case person >= 12: // submits, then waits
		var job string
		if job, o.err = p.value(r.run()); o.err == nil {
			o.result, o.err = p.rows(`SELECT * FROM dp_result($1)`, job)
		}
	case person == 11: // is impatient
		if _, o.err = p.value(`SELECT set_config('statement_timeout', '150ms', false)`); o.err == nil {
			o.result, o.err = p.rows(r.call())
			_, _ = p.value(`SELECT set_config('statement_timeout', '0', false)`)
		}
	default:
		o.result, o.err = p.rows(r.call())
	}
	o.to = time.Now()
	return o
}

// askUntilAnswered asks until there is an answer.
func (p *caller) askUntilAnswered(r request) (result []term, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if result, err = p.rows(r.call()); err == nil || time.Now().After(deadline) {
			return result, err
		}
	}
}

func (p *caller) rows(sql string, args ...any) ([]term, error) {
	return query(p, pgx.RowToStructByPos[term], sql, args...)
}

func (p *caller) value(sql string) (string, error) {
	out, err := query(p, pgx.RowTo[string], sql)
	if err != nil || len(out) != 1 {
		return "", err
	}
	return out[0], nil
}

// query asks in the caller's session, or in a new one when that is lost.
func query[T any](p *caller, row pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if p.conn == nil || p.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return nil, err
		}
		p.conn = conn
	}
	rows, err := p.conn.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, row)
}

// What a hint may promise, in the words of the database.
const (
	unspent = "no privacy budget was spent"
	willNot = "no privacy budget will be spent"
	unknown = "unless it was reading already"
	isSpent = "privacy budget is spent"
	isKept  = "the result is kept"
)

// checkTold compares what a caller was told with what became of their job.
func (c *crash) checkTold(line *tally, o outcome) {
	c.Helper()
	var pg *pgconn.PgError
	switch {
	case o.err == nil:
		line.answered++
		return
	case errors.Is(o.err, context.DeadlineExceeded):
		c.violated("%s of %s took more than %v", o.request, o.caller, longest)
		return
	case !errors.As(o.err, &pg) || pg.Severity == "FATAL":
		line.broken++
		return
	}
	says := strings.ToLower(pg.Hint)
	charged := `SELECT j.id::text FROM dp_int.job j JOIN dp_int.ledger c ON c.id = j.charge
		WHERE j.caller = $1 AND j.request #>> '{options,radius}' = $2 AND j.created_at BETWEEN $3 AND $4`
	args := []any{o.caller, fmt.Sprint(o.radius), o.from, o.to}
	spent := c.queryText(charged, args...)
	line.refused++
	switch {
	case strings.Contains(says, unknown):
	case strings.Contains(says, unspent) || strings.Contains(says, willNot):
		if spent != "" {
			c.violated("%s was told %q, but job %s is charged", o.request, pg.Hint, spent)
		}
	case strings.Contains(says, isSpent) || strings.Contains(says, isKept):
		if c.queryText(`SELECT count(*)::text FROM dp_int.release WHERE request_hash IN (
			SELECT request_hash FROM dp_int.job WHERE request #>> '{options,radius}' = $1)`, fmt.Sprint(o.radius)) == "0" {
			c.violated("%s was told %q, but nothing was released", o.request, pg.Hint)
		}
	default:
		if spent != "" && pg.Code != "57014" { // a cancel that comes just before the answer says nothing, which is no lie
			c.violated("%s was told %s, but job %s is charged", o.request, pg.Message, spent)
		}
		line.refused--
		line.unhelpful++
		c.Logf("%s of %s: %s %s (HINT: %s)", o.request, o.caller, pg.Code, pg.Message, pg.Hint)
	}
}
