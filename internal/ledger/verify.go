package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/privacy"
)

// Finding is the result of one check.
type Finding struct {
	Item   string
	OK     bool
	Detail string
}

// Querier reads from one snapshot.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Verify has the database check its ledger. It also recomputes here, by code that is independent of the
// database's, every hash chain, the least cost of every charge, and whether the budgets covered it, and it
// compares the ledger with heads that were kept elsewhere. db is a steward's connection.
func Verify(ctx context.Context, db Querier, kept ...Head) ([]Finding, error) {
	rows, err := db.Query(ctx, "SELECT item, ok, coalesce(detail, '') FROM public.dp_verify()")
	if err != nil {
		return nil, err
	}
	findings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Finding])
	if err != nil {
		return nil, err
	}
	rows, err = db.Query(ctx, `SELECT id, account, seq, kind, at, dataset, caller, job::text, event::text, epsilon, rho, renyi::text, renyi_grid, delta, arithmetic, refunds, previous, hash, blocks::text
		FROM dp.ledger ORDER BY account, seq`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	within := Finding{Item: "no charge went beyond the budget that was in force, computed outside the database", OK: true}
	price := Finding{Item: "every charge costs at least what its event costs", OK: true}
	chain := Finding{Item: "every hash chain, computed outside the database", OK: true}
	refund := Finding{Item: "every refund gives back all of its own charge, computed outside the database", OK: true}
	heads := newHeadCheck(kept)
	var last line
	var sums replay
	var open charges
	for rows.Next() {
		l, err := pgx.RowToStructByPos[line](rows)
		if err != nil {
			return nil, err
		}
		if l.Account != last.Account {
			last, sums, open = line{Account: l.Account}, replay{totals: newTotals()}, charges{}
		}
		heads.compare(l)
		within.require(sums.follow(l), l)
		refund.require(open.follow(l), l)
		price.require(l.coversPrice(), l)
		chain.require(l.follows(last), l)
		last = l
	}
	findings = append(findings, within, refund, price, chain)
	if len(kept) > 0 {
		findings = append(findings, heads.finding())
	}
	return findings, rows.Err()
}

// require makes the finding a failure that names entry l if ok is false, unless it is one already.
func (f *Finding) require(ok bool, l line) {
	if f.OK && !ok {
		f.OK, f.Detail = false, fmt.Sprintf("entry %d of account %d", l.ID, l.Account)
	}
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
	Blocks           *string // in the format of int8range; nil if the account has no blocks
}

// follows reports whether l is the entry after last in its chain, with the right hash.
func (l line) follows(last line) bool {
	hash, err := l.hash()
	return err == nil && hash == l.Hash && l.Previous == last.Hash && l.Seq == last.Seq+1
}

// charges are those of an account that were not given back, by their ids.
type charges map[int64]line

// follow processes the next entry of the chain. It reports false for a refund that is not exactly the opposite of a
// charge before it that stands.
func (c charges) follow(l line) bool {
	switch l.Kind {
	case "charge":
		c[l.ID] = l
	case "refund":
		if l.Refunds == nil {
			return false
		}
		given, stands := c[*l.Refunds]
		delete(c, *l.Refunds)
		return stands && l.opposes(given)
	}
	return true
}

// opposes reports whether l has the costs of a charge with the other sign, and what else it says.
func (l line) opposes(c line) bool {
	back := append([]*float64{l.Epsilon, l.Rho, l.Delta}, l.curve()...)
	costs := append([]*float64{c.Epsilon, c.Rho, c.Delta}, c.curve()...)
	return slices.EqualFunc(back, costs, func(b, c *float64) bool { return b == nil && c == nil || b != nil && c != nil && *b == -*c }) &&
		l.Dataset == c.Dataset && l.Caller == c.Caller && equal(l.Job, c.Job) && l.Event == c.Event &&
		equal(l.Grid, c.Grid) && l.Arithmetic == c.Arithmetic && equal(l.Blocks, c.Blocks)
}

// equal reports whether both are nil, or point to equal values.
func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// coversPrice reports whether a charge has at least the cost of its event in every unit.
// Another processor may compute a price that differs in its last digits.
func (l line) coversPrice() bool {
	if l.Kind != "charge" {
		return true
	}
	event, err := privacy.UnmarshalEvent([]byte(l.Event))
	if err != nil {
		return false
	}
	price, err := Price(event)
	if err != nil {
		return false
	}
	const slack = 1 - 1e-9
	least := append([]*string{price.Epsilon, price.Rho, price.Delta}, price.Renyi...)
	for k, cost := range append([]*float64{l.Epsilon, l.Rho, l.Delta}, l.curve()...) {
		if cost != nil && !(k < len(least) && least[k] != nil && *cost >= slack*parseCost(*least[k])) {
			return false
		}
	}
	return true
}

// curve returns the costs at all Renyi orders; an element is nil if there is no cost.
func (l line) curve() (costs []*float64) {
	if l.Renyi == nil || *l.Renyi == "{}" {
		return nil
	}
	for v := range strings.SplitSeq(strings.Trim(*l.Renyi, "{}"), ",") {
		if v == "NULL" {
			costs = append(costs, nil)
		} else {
			cost := parseCost(v)
			costs = append(costs, &cost)
		}
	}
	return costs
}

// parseCost parses a cost. It returns NaN for a text that is not a number; NaN does not cover any price.
func parseCost(decimal string) float64 {
	v, err := strconv.ParseFloat(decimal, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// hash computes the same value as dp_int.ledger_hash: SHA-256 over the previous hash and every column, each
// as its byte length, a colon and its text, or "-" if it is null. Blocks are included only if there are
// any.
func (l line) hash() (string, error) {
	previous, err := hex.DecodeString(l.Previous)
	if err != nil {
		return "", err
	}
	account, seq := strconv.FormatInt(l.Account, 10), strconv.FormatInt(l.Seq, 10)
	at := strconv.FormatInt(l.At.UnixMicro(), 10)
	var fields []string
	for _, v := range []*string{&account, &seq, &l.Kind, &at, &l.Dataset, &l.Caller, l.Job, &l.Event,
		formatCost(l.Epsilon), formatCost(l.Rho), l.Renyi, formatInt(l.Grid), formatCost(l.Delta), &l.Arithmetic, formatInt(l.Refunds)} {
		fields = append(fields, field(v))
	}
	if l.Blocks != nil {
		fields = append(fields, field(l.Blocks))
	}
	sum := sha256.Sum256(append(previous, strings.Join(fields, ",")...))
	return hex.EncodeToString(sum[:]), nil
}

// field formats a column for the hash.
func field(v *string) string {
	if v == nil {
		return "-"
	}
	return strconv.Itoa(len(*v)) + ":" + *v
}

// formatInt formats an integer; nil for nil.
func formatInt(v *int64) *string {
	if v == nil {
		return nil
	}
	s := strconv.FormatInt(*v, 10)
	return &s
}

// formatCost formats a cost as Postgres formats a numeric: without an exponent.
func formatCost(v *float64) *string {
	if v == nil {
		return nil
	}
	s := strconv.FormatFloat(*v, 'f', -1, 64)
	return &s
}
