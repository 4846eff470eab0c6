package tests

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// registerAgain gives the data set, which nothing was charged to, another
// accounting and budget.
func (w *world) registerAgain(accounting string, epsilon, delta float64) {
	w.Helper()
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', $3, $4, accounting => $5)`,
		w.dataset, "public."+w.dataset, epsilon, delta, accounting)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
}

// insertClaimed makes a job that a worker has claimed, and returns job and token.
const insertClaimed = `
	INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, state, attempt, token, lease_until)
	SELECT gen_random_uuid(), dp_int.admit_principal($2), $2, id, 'l1', 1, 0, '{}', '', true, false, 'claimed', 1, gen_random_uuid(), now() + interval '1 day'
	  FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL
	RETURNING id::text, token::text`

// charge charges an event to a job of its own, as a worker does.
func (w *world) charge(e privacy.Event) (ledger.Owner, error) {
	w.Helper()
	return chargeAs(context.Background(), w.super, w.super, w.dataset, w.person, ledger.Entry{Event: e, Rows: 1000})
}

func (w *world) mustCharge(e privacy.Event) ledger.Owner {
	w.Helper()
	o, err := w.charge(e)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// chargeAs makes a claimed job on one connection and charges it on another.
func chargeAs(ctx context.Context, admin *pgx.Conn, db ledger.DB, dataset, caller string, e ledger.Entry) (o ledger.Owner, err error) {
	if err = admin.QueryRow(ctx, insertClaimed, dataset, caller).Scan(&o.Job, &o.Token); err != nil {
		return o, err
	}
	_, err = ledger.Charge(ctx, db, o, e)
	return o, err
}

const giveBack = `SELECT dp_int.job_fail($1, $2, 'DP004', 'given back', '')`
