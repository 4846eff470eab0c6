package install

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled is returned for a database that holds no installation.
var ErrNotInstalled = errors.New("dpsidecar is not installed in this database")

// Adopted is a data set of an adopted copy, and the budget that remains for it.
type Adopted struct {
	Dataset, Relation string
	Remaining         float64
}

// Adopt makes a copy of a database an installation of its own. It installs functions, views and the
// loopback, which gets a new password and points here; binds registrations to the copy's relations by name;
// abandons jobs that were charged when the copy was made; and records the adoption in the ledger. With
// originalGone the remaining budgets are available here. Otherwise they belong to the original, and no
// budget is left here until a steward sets one.
//
// Errors: those of Run; ErrNotInstalled; the server's DP004 when a registered relation differs in the copy,
// and its 55000 when there is nothing to adopt.
func Adopt(ctx context.Context, c Config, originalGone bool) (Result, []Adopted, error) {
	c.Admin = systemNames(c.Admin)
	conn, err := connectAlone(ctx, c.Admin)
	if err != nil {
		return Result{}, nil, err
	}
	defer conn.Close(ctx)
	switch version, err := Version(ctx, c.Admin); {
	case err != nil:
		return Result{}, nil, err
	case version == 0:
		return Result{}, nil, ErrNotInstalled
	}
	c.copied = !originalGone
	r, err := installWith(ctx, conn, c)
	if err != nil {
		return r, nil, err
	}
	adopted, err := adopt(ctx, conn, originalGone)
	if err != nil {
		return r, nil, err
	}
	r.Checks, err = CheckAll(ctx, conn)
	return r, adopted, err
}

// adopt has the database perform the adoption in one transaction.
func adopt(ctx context.Context, conn *pgx.Conn, originalGone bool) ([]Adopted, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT dataset, relation, epsilon_remaining FROM dp_int.adopt($1)`, originalGone)
	if err != nil {
		return nil, err
	}
	adopted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Adopted])
	if err != nil {
		return nil, err
	}
	return adopted, tx.Commit(ctx)
}
