// Package ledger is the sidecar's side of the privacy ledger. The ledger itself
// lives in the database, behind functions that lock the account, check its
// budget and append to its hash chain in one transaction; this package prices
// events for it and gives its refusals a type.
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

// DB runs a statement in a transaction of its own: a pool, never the connection
// whose snapshot the data are read on.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Owner is a job and the token that its worker was given at the claim. It is a fencing
// token: once another worker has claimed the job, the database refuses it.
type Owner struct{ Job, Token string }

// Entry is what a job is about to release: its event, what its arithmetic rests
// on, the public number of rows it was planned for, the public parameters of the
// plan, and the accounting it was planned under.
type Entry struct {
	Event      privacy.Event
	Arithmetic string // empty: exact
	Rows       int64
	Parameters map[string]any
	Accounting string   // empty: whatever the account has
	Order      *float64 // of Renyi divergence, under rdp
}

// Refusal is the database's refusal of a charge: nothing was charged. SQLSTATE, Message
// and Hint are meant for the analyst.
type Refusal struct{ SQLSTATE, Message, Hint string }

func (r *Refusal) Error() string { return "ledger: refused: " + r.Message }

// ErrLost reports that another worker holds the job by now.
var ErrLost = errors.New("ledger: the job is no longer this worker's")

// Head is the newest entry of an account's hash chain at some time. It commits to
// every entry before it; whoever knows it notices when one of them is changed, or the
// end of the chain is cut off.
type Head struct {
	Account int64  `json:"account"`
	Entry   int64  `json:"entry"` // its number in the chain, from 1
	Hash    string `json:"head"`  // SHA-256 in hexadecimal
}

// Charge commits the full cost of e to the account of the job's data set, and returns
// the account's new head. It returns nil when nobody wanted the job any more: then
// nothing was charged.
//
// Errors: *Refusal when the budget, a grant or the registration is in the way,
// ErrLost, the server's 40001 when the account is no longer under the entry's
// accounting, or the connection's own error. After that the charge may stand or not:
// whoever claims the job when its lease is over finds out.
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

// exact marks entries in the ledger whose guarantee rests on no floating-point arithmetic.
const exact = "exact"

// Explain gives the database's refusals their type and passes on everything else.
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
