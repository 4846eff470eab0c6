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
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/sqlsum"
)

// Rows that stay in the database are summed there, by one statement for each pass of a fit, all in the
// transaction that counted them. The statements return sums of bounded integers, to which the fit adds
// noise; they contain only public numbers and results that earlier passes have released.

// maxGrowth is the ratio of the present number of rows to the charged one from which a job is parked: what
// its passes sum would be cut. Only the public number of rows decides, before the passes and after them; the number of
// those that a pass counts, which have a value in every column, is as private as any sum.
const maxGrowth = 2

// grown parks a job whose relation has grown by maxGrowth or more.
const grown parked = "the data set has twice the rows that it had when the job was charged, or more"

// errAnswer reports an answer that no pass can have: a bug.
var errAnswer = errors.New("job: an answer that no pass has")

// stays returns the reason why the rows of a job cannot stay in the database; empty if they can.
func (c *claim) stays(p *plan.Plan) (why string) {
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
	case !p.Sums && p.Method == "moments_gaussian":
		return "second moments are released of rows in the sidecar alone"
	case !p.Sums:
		return fmt.Sprintf("method %s takes more from rows than sums", p.Method)
	}
	return ""
}

// pushdown returns the data of a job whose rows stay in the database or on its nodes.
//
// Errors: as arrowio.Expressions.
func (s *Sidecar) pushdown(ctx context.Context, conn *pgx.Conn, c *claim, n int64) (x table.Data, err error) {
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
	design.Totals = passes(ctx, asked, c.nodes)
	return table.Data{Shape: c.shape(n), Pushdown: design}, nil
}

// checkGrowth parks a job whose relation now has at least maxGrowth times the rows that were charged. (A
// pull takes a random subset of the rows in this case.) The number of rows is public.
func (s *Sidecar) checkGrowth(ctx context.Context, conn *pgx.Conn, c *claim, charged int64) error {
	n, err := c.count(ctx, conn)
	if err == nil && c.versions != nil { // a function that is another one now may have made the count
		if err := s.recheckVersions(ctx, c.versions, recheckJob, c.ID, c.Token); err != nil {
			return refusedAsParked(err)
		}
	}
	if err == nil && n >= maxGrowth*charged {
		err = grown
	}
	return s.asParked(ctx, c, err, notRead)
}

// sum runs a plan whose passes are summed in the database, and then repeats the checks of the relation: a
// pass sees partitions that were added since the first check, because the locks do not prevent that.
func (s *Sidecar) sum(ctx context.Context, conn *pgx.Conn, c *claim, plan *plan.Plan, x table.Data, src *mech.Source) (r release.Result, err error) {
	r, err = s.runTimed(ctx, plan, x, src)
	if err != nil {
		err = cmp.Or(s.checkShards(ctx, c), err) // a moved shard may be the cause
	}
	switch {
	case errors.Is(err, errAnswer) || errors.Is(err, sqlsum.ErrAnswer):
		s.log.Error("fault", "job", c.ID, "error", err)
		return r, fitPanicked
	case err != nil:
		return r, s.asParked(ctx, c, err, notRead)
	}
	if err = s.recheckRead(ctx, c); err == nil {
		err = s.checkGrowth(ctx, conn, c, int64(plan.Shape.N))
	}
	return r, err
}

// design maps the features and options to columns, counted in the order of c.columns.
func (c *claim) design() *table.Pushdown {
	x := new(table.Pushdown)
	for j, feature := range c.Request.Features {
		levels, category := c.levels(feature)
		if !category {
			x.Features = append(x.Features, table.Term{Column: 1 + j})
			continue
		}
		for level := 1; level < len(levels); level++ {
			x.Features = append(x.Features, table.Term{Column: 1 + j, Level: level})
		}
	}
	for option, place := range map[string]*int{catalogue.Weight: &x.Weight, catalogue.Offset: &x.Offset, catalogue.Exposure: &x.Exposure} {
		if i := c.auxiliaryIndex(option); i >= 0 {
			*place = 1 + len(c.Request.Features) + i
		}
	}
	return x
}

// sumSettings apply to the statements of a transaction. pg_catalog is first in the search path, so that
// operators are the system's; the rest of the path is kept for functions that a view calls. Groups are
// hashed in memory, because sorts and larger hash tables would write to the server's disk, and the server's
// statistics count that.
const sumSettings = `SELECT pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', nullif(pg_catalog.current_setting('search_path'), '')), true);
	SET LOCAL enable_sort = off; SET LOCAL work_mem = '256MB'; SET LOCAL hash_mem_multiplier = 8`

// source is a set of rows in one transaction: the FROM clause and the expressions of the columns, from
// arrowio.Expressions.
type source struct {
	conn    *pgx.Conn
	from    string
	columns []string
}

// passes returns the function that runs a pass over all sources: the parts of nodes, or one relation if ns
// is nil.
func passes(ctx context.Context, asked []source, ns *nodes) func(sqlsum.Pass) (sqlsum.Totals, error) {
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
		answer, err := parseAnswer(strings.Join(answers, " "))
		if err != nil {
			return t, err
		}
		return p.Totals(answer)
	}
}

// ask runs a pass on one source. The statement returns a single row, so that the server's statistics of
// returned rows do not reveal the number of bins that have rows.
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

// oneRow returns a statement that returns all rows of the given one as one text, the format of parseAnswer.
func oneRow(statement string) string {
	return "SELECT pg_catalog.string_agg(answer::pg_catalog.text, ' ') FROM (" + statement + ") AS answer"
}

// parseAnswer parses rows of integers, "(1,2,3) (4,5,6)"; an empty field, the sum of no rows, is 0. A sum that
// exceeds an int64, which is one of far more rows than were charged, is cut (Pass.Totals).
//
// Errors: errAnswer.
func parseAnswer(text string) (rows [][]int64, err error) {
	for row := range strings.FieldsSeq(text) {
		inner, opened := strings.CutPrefix(row, "(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !opened || !closed {
			return nil, errAnswer
		}
		var integers []int64
		for field := range strings.SplitSeq(inner, ",") {
			v, err := strconv.ParseInt(field, 10, 64) // beyond the range it is the end of the range
			if err != nil && !errors.Is(err, strconv.ErrRange) && field != "" {
				return nil, errAnswer
			}
			integers = append(integers, v)
		}
		if len(integers) < 2 || integers[1] < 0 {
			return nil, errAnswer
		}
		rows = append(rows, integers)
	}
	return slices.Clip(rows), nil
}
