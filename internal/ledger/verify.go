package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Finding is one thing that was checked.
type Finding struct {
	Item   string
	OK     bool
	Detail string
}

// Querier reads from one snapshot.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Verify asks the database to prove its ledger and recomputes every hash chain
// here as well, by code that shares nothing with the database's. db is a steward's.
func Verify(ctx context.Context, db Querier) ([]Finding, error) {
	rows, err := db.Query(ctx, "SELECT item, ok, coalesce(detail, '') FROM public.dp_verify()")
	if err != nil {
		return nil, err
	}
	findings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Finding])
	if err != nil {
		return nil, err
	}
	wrong, err := verifyChains(ctx, db)
	return append(findings, Finding{"every hash chain, computed outside the database", wrong == "", wrong}), err
}

// line is a ledger entry as dp.ledger shows it.
type line struct {
	ID, Account, Seq int64
	Kind             string
	At               time.Time
	Dataset, Caller  string
	Job              *string
	Event            string
	Epsilon, Rho     *float64
	Renyi            *string
	Grid             *int64
	Delta            *float64
	Arithmetic       string
	Refunds          *int64
	Previous, Hash   string
}

// verifyChains returns the first entry that is wrong, or nothing.
func verifyChains(ctx context.Context, db Querier) (string, error) {
	rows, err := db.Query(ctx, `SELECT id, account, seq, kind, at, dataset, caller, job::text, event::text, epsilon, rho, renyi::text, renyi_grid, delta, arithmetic, refunds, previous, hash
		FROM dp.ledger ORDER BY account, seq`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var last line
	for rows.Next() {
		l, err := pgx.RowToStructByPos[line](rows)
		if err != nil {
			return "", err
		}
		if l.Account != last.Account {
			last = line{Account: l.Account}
		}
		hash, err := l.hash()
		if err != nil || hash != l.Hash || l.Previous != last.Hash || l.Seq != last.Seq+1 {
			return fmt.Sprintf("entry %d of account %d", l.ID, l.Account), nil
		}
		last = l
	}
	return "", rows.Err()
}

// hash is dp_int.ledger_hash: SHA-256 over the previous hash and every column,
// each as its byte length, a colon and its text, or "-" where there is none.
func (l line) hash() (string, error) {
	previous, err := hex.DecodeString(l.Previous)
	if err != nil {
		return "", err
	}
	account, seq := strconv.FormatInt(l.Account, 10), strconv.FormatInt(l.Seq, 10)
	at := strconv.FormatInt(l.At.UnixMicro(), 10)
	var fields []string
	for _, v := range []*string{&account, &seq, &l.Kind, &at, &l.Dataset, &l.Caller, l.Job, &l.Event,
		plain(l.Epsilon), plain(l.Rho), l.Renyi, whole(l.Grid), plain(l.Delta), &l.Arithmetic, whole(l.Refunds)} {
		if v == nil {
			fields = append(fields, "-")
		} else {
			fields = append(fields, strconv.Itoa(len(*v))+":"+*v)
		}
	}
	sum := sha256.Sum256(append(previous, strings.Join(fields, ",")...))
	return hex.EncodeToString(sum[:]), nil
}

func whole(v *int64) *string {
	if v == nil {
		return nil
	}
	s := strconv.FormatInt(*v, 10)
	return &s
}

// plain writes a cost as a numeric prints it.
func plain(v *float64) *string {
	if v == nil {
		return nil
	}
	s := strconv.FormatFloat(*v, 'f', -1, 64)
	return &s
}
