package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
)

// Rows that stay in the database are added up there, one statement for each pass of a fit, all in
// the transaction that counted them. What comes back are sums of bounded integers, to which the
// fit adds its noise; the statements hold public numbers, and what earlier passes have released.

// mostGrowth is from how many times as many rows as were charged for on a job that is tried again waits:
// sums of integers are made for fewer.
const mostGrowth = 2

// grown parks a job that finds more.
const grown parked = "the data set has twice the rows that it had when the job was charged, or more"

// errAnswer marks an answer that is none of a pass: a fault.
var errAnswer = errors.New("job: an answer that no pass has")

// stays says why the rows of a job cannot stay in the database, empty where they can.
func (c *claim) stays(p *dpsco.Plan) (why string) {
	_, sample := c.Request.Options[catalogue.SampleRows]
	switch {
	case c.Dataset.MaxRows > 0:
		return "with a unit the rows of each person are brought together"
	case c.by() != "":
		return "fits by groups sort the rows"
	case sample:
		return "a sample is drawn from the rows"
	case c.Dataset.Rows != nil:
		return "where block_rows is registered, a part of the rows is drawn"
	case p.TooWide:
		return "so many columns have more sums than a statement returns"
	case !p.Sums:
		return fmt.Sprintf("method %s takes more from rows than sums", p.Method)
	}
	return ""
}

// elsewhere returns the data of a job whose rows stay where conn's transaction sees them.
//
// Errors: as arrowio.Expressions.
func (s *Sidecar) elsewhere(ctx context.Context, conn *pgx.Conn, c *claim, n int64) (x dpsco.Data, err error) {
	asked := []source{{conn: conn}}
	if c.nodes != nil {
		asked, err = c.nodes.sources(ctx, c.pull(n))
	} else {
		asked[0].from, asked[0].columns, err = arrowio.Expressions(ctx, conn, c.pull(n))
	}
	if err != nil {
		return x, err
	}
	for _, a := range asked {
		if _, err := a.conn.PgConn().Exec(ctx, sumSettings).ReadAll(); err != nil {
			return x, err
		}
	}
	design := c.design()
	design.Totals = passes(ctx, asked, c.nodes, mostGrowth*n-1)
	return dpsco.Data{Shape: c.shape(n), Elsewhere: design}, nil
}

// checkGrowth parks a job that was charged for half of the rows that its relation has by now, or for fewer: of
// rows that are pulled a random part would be kept. The number of rows is public.
func (s *Sidecar) checkGrowth(ctx context.Context, conn *pgx.Conn, c *claim) error {
	n, err := c.count(ctx, conn)
	if err == nil && n >= mostGrowth*(*c.RowCount) {
		err = grown
	}
	return s.asParked(ctx, err, notRead)
}

// sum makes the passes of a plan over rows that stay in the database, and checks once more that they are the
// registered ones: a pass sees partitions that were added since the check, which the locks do not prevent.
func (s *Sidecar) sum(ctx context.Context, c *claim, plan *dpsco.Plan, x dpsco.Data, src *mech.Source) (r dpsco.Result, err error) {
	r, err = s.runTimed(ctx, plan, x, src)
	if err != nil {
		err = cmp.Or(s.checkShards(ctx, c), err) // which may be why
	}
	switch {
	case errors.Is(err, errAnswer) || errors.Is(err, sqlsum.ErrAnswer):
		s.log.Error("fault", "job", c.ID, "error", err)
		return r, fitPanicked
	case err != nil:
		return r, s.asParked(ctx, err, notRead)
	}
	return r, s.recheckRead(ctx, c)
}

// design says which column is what, in the order of c.columns.
func (c *claim) design() *dpsco.Elsewhere {
	x := new(dpsco.Elsewhere)
	for j, feature := range c.Request.Features {
		levels, category := c.levels(feature)
		if !category {
			x.Features = append(x.Features, dpsco.Term{Column: 1 + j})
			continue
		}
		for level := 1; level < len(levels); level++ {
			x.Features = append(x.Features, dpsco.Term{Column: 1 + j, Level: level})
		}
	}
	for option, place := range map[string]*int{catalogue.Weight: &x.Weight, catalogue.Offset: &x.Offset, catalogue.Exposure: &x.Exposure} {
		if i := c.beside(option); i >= 0 {
			*place = 1 + len(c.Request.Features) + i
		}
	}
	return x
}

// sumSettings hold for the statements of a transaction. Operators are the system's before any other, and the path is what it
// was beyond that, for functions that a view calls. Groups are hashed, in memory: to sort rows by them, or to hash groups that
// do not fit, would write rows to the server's disk, which counts them.
const sumSettings = `SELECT pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', nullif(pg_catalog.current_setting('search_path'), '')), true);
	SET LOCAL enable_sort = off; SET LOCAL work_mem = '256MB'; SET LOCAL hash_mem_multiplier = 8`

// source is rows that a transaction sees, and what a pass adds up of them: arrowio.Expressions.
type source struct {
	conn    *pgx.Conn
	from    string
	columns []string
}

// passes returns what makes a pass over the rows of all sources, most at most together: those of the parts of nodes
// or, without, of one relation.
func passes(ctx context.Context, asked []source, ns *nodes, most int64) func(sqlsum.Pass) (sqlsum.Totals, error) {
	return func(p sqlsum.Pass) (t sqlsum.Totals, err error) {
		answers := make([]string, len(asked))
		ask := func(i int) (err error) {
			answers[i], err = asked[i].ask(ctx, p)
			return err
		}
		if ns != nil {
			err = ns.each(ask)
		} else {
			err = ask(0)
		}
		if err != nil {
			return t, err
		}
		answer, err := parseAnswer(strings.Join(answers, " "), most)
		if err != nil {
			return t, err
		}
		return p.Totals(answer)
	}
}

// ask makes a pass over the rows of a source. It is one statement, which comes back in one row: how many bins have
// rows is not seen in the server's statistics.
func (x source) ask(ctx context.Context, p sqlsum.Pass) (answer string, err error) {
	results, err := x.conn.PgConn().Exec(ctx, oneRow(p.SQL(x.from, x.columns))).ReadAll()
	if err != nil {
		return "", err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1 {
		return "", errAnswer
	}
	return string(results[0].Rows[0][0]), nil
}

// oneRow has all rows of a statement as one text: those of parseAnswer.
func oneRow(statement string) string {
	return "SELECT pg_catalog.string_agg(answer::pg_catalog.text, ' ') FROM (" + statement + ") AS answer"
}

// parseAnswer reads rows of integers, "(1,2,3) (4,5,6)"; one that is missing is that of no rows, 0. The second
// of each is how many rows of the relation it stands for, most together at most.
//
// Errors: errAnswer, grown.
func parseAnswer(text string, most int64) (rows [][]int64, err error) {
	for row := range strings.FieldsSeq(text) {
		inner, opened := strings.CutPrefix(row, "(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !opened || !closed {
			return nil, errAnswer
		}
		var integers []int64
		for field := range strings.SplitSeq(inner, ",") {
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil && field != "" {
				return nil, errAnswer
			}
			integers = append(integers, v)
		}
		if len(integers) < 2 || integers[1] < 0 {
			return nil, errAnswer
		}
		if most -= integers[1]; most < 0 {
			return nil, grown
		}
		rows = append(rows, integers)
	}
	return slices.Clip(rows), nil
}
