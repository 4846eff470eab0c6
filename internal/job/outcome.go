package job

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/ledger"
)

// failure ends a job before any row was read. The analyst sees all of its fields.
type failure struct{ sqlstate, message, hint string }

func (f *failure) Error() string { return f.message }

// outcome returns the outcome for operators' counters. A request that the budget does not cover is refused,
// not failed.
func (f *failure) outcome() string {
	if f.sqlstate == "DP002" {
		return "refused"
	}
	return "failed"
}

// parked ends an attempt at a charged job that could not be read or fitted this time. The job keeps its
// charge, pauses, and is tried again under it (dp_int.job_park). The text is the reason; analysts see it,
// so it must not depend on the data.
type parked string

func (p parked) Error() string { return string(p) }

func (p parked) outcome() string {
	if p == fitPanicked {
		return "panicked"
	}
	return "parked"
}

// notRead parks a job if the server did not return its rows.
const notRead parked = "the data set could not be read"

const nothingSpent = "No privacy budget was spent."

// fitPanicked parks a job whose fit panicked. The panic does not end the program: it would
// end the jobs of others too, and after a restart the same job would do it again.
const fitPanicked parked = "a fault in dpsidecar ended the job"

// noRows returns the failure of a job whose table or window is empty.
func (c *claim) noRows() *failure {
	if w := c.window(); w != nil {
		return &failure{"DP005", fmt.Sprintf("there are no rows from %s to %s, the last day not among them", w.From, w.To),
			"Ask about a window that has some. Where days may be empty, a steward registers block_rows, how many rows a block is taken to have: then every window can be asked about. " + nothingSpent}
	}
	return &failure{"DP005", "there are no rows", "Ask again once the table has some. " + nothingSpent}
}

// asFailure turns a refusal of the database, before which nothing was spent, into a failure of the job.
// Other errors are returned as ledger.Explain returns them.
func asFailure(err error) error {
	var refusal *ledger.Refusal
	if errors.As(ledger.Explain(err), &refusal) {
		return &failure{refusal.SQLSTATE, refusal.Message, refusal.Hint}
	}
	return ledger.Explain(err)
}

// planFailure returns the failure of a job that cannot be planned.
func planFailure(err error) error {
	if errors.Is(err, plan.ErrParameter) {
		return &failure{"22023", strings.TrimPrefix(err.Error(), plan.ErrParameter.Error()+": "), nothingSpent} // as the database words its own
	}
	return &failure{"DP005", err.Error(), nothingSpent}
}

// refusedAsParked parks a charged job if the database refuses its relation.
func refusedAsParked(err error) error {
	var refusal *ledger.Refusal
	if errors.As(err, &refusal) {
		return parked(refusal.Message)
	}
	return err
}

// relationFailure returns the failure of a job whose relation cannot be read, before anything is spent. The
// server's message is dropped, because it could quote a value. An error of the connection is returned
// unchanged, and the job is tried again.
func relationFailure(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, arrowio.ErrUnsupportedType):
		return &failure{"DP004", "a column of the data set has a type that no model can use", "Ask the steward to register again. " + nothingSpent}
	case !errors.As(err, &pg) || goingDown(pg):
		return err
	case pg.Code == "55P03":
		return &failure{"DP004", "the relation of the data set is locked",
			"Somebody, perhaps this very transaction, holds a lock that excludes readers. Commit and ask again. " + nothingSpent}
	}
	return &failure{"DP004", "the data set cannot be read", "Ask the steward to see dp_check_install and the server's log. " + nothingSpent}
}

// asParked returns message, which parks the job, if the server refuses to read the relation; the cause,
// which may depend on values, is only logged. An error of the connection or of a cancelled attempt is
// returned unchanged, and the job is tried again at once.
func (s *Sidecar) asParked(ctx context.Context, c *claim, err error, message parked) error {
	var pg *pgconn.PgError
	switch {
	case ctx.Err() == nil && errors.As(err, &pg) && nodeLost(pg):
		message = nodeUnreachable
	case ctx.Err() != nil || pg == nil || goingDown(pg):
		return err
	}
	s.log.Error("cannot read", "job", c.ID, "dataset", c.Dataset.Name, "sqlstate", pg.Code)
	return message
}

// failureAsParked parks a charged job for what would fail one that is not charged, and if a node cannot be
// reached.
func (s *Sidecar) failureAsParked(ctx context.Context, c *claim, err error) error {
	var fail *failure
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &fail):
		s.log.Error("cannot read", "job", c.ID, "dataset", c.Dataset.Name, "reason", fail.message)
		return parked(fail.message)
	case errors.As(err, &pg) && nodeLost(pg):
		return s.asParked(ctx, c, err, nodeUnreachable)
	}
	return err
}

// goingDown reports whether the server ended the statement or the session for reasons that do not concern
// the statement: an operator's intervention (class 57), the connection (08), or a limit on the time of
// transactions (25P03, 25P04).
func goingDown(pg *pgconn.PgError) bool {
	return strings.HasPrefix(pg.Code, "57") || strings.HasPrefix(pg.Code, "08") || pg.Code == "25P03" || pg.Code == "25P04"
}

// nodeLost reports whether the server could not reach another one: a worker of Citus or the server of a
// foreign table. An error of class 08 cannot be about the sidecar's own connection, since the server could
// not send it. An immediate retry would fail again.
func nodeLost(pg *pgconn.PgError) bool { return strings.HasPrefix(pg.Code, "08") }

// temporary returns a reason and a hint for the job's callers if err is an obstacle that may last for a
// while: a lock held by an open transaction, or a server without free connections, memory or disk space.
// Such a job pauses before it is tried again. For any other error both are nil.
func temporary(err error) (reason, hint *string) {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return nil, nil
	case strings.HasPrefix(pg.Code, "53"):
		pg = &pgconn.PgError{Message: "the server has no connection, memory or disk to spare for this job", Hint: "Ask again later, or let the administrator see the server's log. " + nothingSpent}
	case nodeLost(pg):
		pg = &pgconn.PgError{Message: string(nodeUnreachable), Hint: "Ask again later, or let the administrator see the server's log. " + nothingSpent}
	case pg.Code != "55P03":
		return nil, nil
	case pg.Hint == "": // the reason is the server's own message
		pg = &pgconn.PgError{Message: "somebody's open transaction holds what this job needs", Hint: "See pg_locks, and ask again once it has ended. " + nothingSpent}
	}
	return &pg.Message, &pg.Hint
}
