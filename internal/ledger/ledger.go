// Package ledger is the sidecar's interface to the privacy ledger. The ledger is in the database, behind
// functions that lock the account, check its budget and append to its hash chain in one transaction. This
// package computes the prices of events and converts the database's refusals to typed errors.
package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/privacy"
)

// DB runs a statement in a transaction of its own. It is a pool, never the connection on whose snapshot the
// data are read.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Owner is a job and the token that its worker received with the claim. It is a fencing token: the database
// refuses it once another worker has claimed the job.
type Owner struct{ Job, Token string }

// Entry describes the release that a job is about to make: its event, the arithmetic that its guarantee
// depends on, the public number of rows and public parameters of the plan, and the accounting for which it
// was planned.
type Entry struct {
	Event      privacy.Event
	Arithmetic string // empty means exact
	Rows       int64
	Parameters map[string]any
	Accounting string   // empty means that of the account
	Order      *float64 // order of the Renyi divergence, under rdp
}

// Refusal is the database's refusal of a charge. Nothing was charged. SQLSTATE, Message and Hint are for
// the analyst.
type Refusal struct{ SQLSTATE, Message, Hint string }

func (r *Refusal) Error() string { return "ledger: refused: " + r.Message }

// ErrLost reports that another worker holds the job.
var ErrLost = errors.New("ledger: the job is no longer this worker's")

// Head is the newest entry of an account's hash chain at some time. It commits to every entry before it:
// with a kept head one can detect that an entry was changed or that the end of the chain was cut off.
type Head struct {
	Account int64  `json:"account"`
	Entry   int64  `json:"entry"` // its number in the chain, from 1
	Hash    string `json:"head"`  // SHA-256 in hexadecimal
}

// Charge commits the full cost of e to the account of the job's data set, and returns the account's new
// head. It returns nil if nobody wants the job any more; then nothing was charged.
//
// Errors: *Refusal if the budget, a grant or the registration does not allow the charge; ErrLost; the
// server's 40001 if the account no longer has the entry's accounting; or the connection's own error. After
// the last, the charge may or may not stand: the worker that claims the job after the lease determines
// which.
func Charge(ctx context.Context, db DB, o Owner, e Entry) (*Head, error) {
	event, err := privacy.MarshalEvent(e.Event)
	if err != nil {
		return nil, fmt.Errorf("ledger: event: %w", err)
	}
	cost, err := Price(e.Event)
	if err != nil {
		return nil, err
	}
	parameters, err := json.Marshal(e.Parameters)
	if err != nil {
		return nil, fmt.Errorf("ledger: parameters: %w", err)
	}
	var charged bool
	var account, entry *int64
	var hash *string
	err = db.QueryRow(ctx, `SELECT c.charged, h.account, h.entry, h.head
		FROM (SELECT dp_int.job_charge($1, $2, $3, $4, $5::text::numeric, $6::text::numeric, $7::text::numeric, $8,
		        $9::text[]::numeric[], $10, $11, nullif($12, ''), $13::float8::numeric) AS charged OFFSET 0) AS c
		LEFT JOIN LATERAL dp_int.job_head(CASE WHEN c.charged THEN $1::uuid END) AS h ON true`,
		o.Job, o.Token, e.Rows, event, cost.Epsilon, cost.Rho, cost.Delta, parameters,
		cost.Renyi, privacy.OrdersVersion, cmp.Or(e.Arithmetic, exact),
		e.Accounting, e.Order).Scan(&charged, &account, &entry, &hash)
	if err != nil || !charged {
		return nil, Explain(err)
	}
	return &Head{*account, *entry, *hash}, nil
}

// exact marks ledger entries whose guarantee does not depend on floating-point arithmetic.
const exact = "exact"

// Explain converts the database's refusals to typed errors and returns other errors unchanged.
func Explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "55000":
		return ErrLost
	case "DP002", "DP004", "DP005", "42501":
		return &Refusal{pg.Code, pg.Message, pg.Hint}
	}
	return err
}
