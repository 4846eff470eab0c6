package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"dpsidecar/internal/privacy"
)

// totals are the sums of charges that the filters of an account compare with their caps, in exact decimals
// as in the database (dp_int.tally).
type totals struct {
	spent   *big.Rat // in the unit of the accounting
	epsilon *big.Rat // sum over the charges that have a pure epsilon
	rest    int      // 1 for each charge that has none and was to be the only one, 2 for each other that has none
	restRho *big.Rat // sum of the rho of these
	delta   *big.Rat // sum of the deltas of the mechanisms
}

func newTotals() totals {
	return totals{new(big.Rat), new(big.Rat), 0, new(big.Rat), new(big.Rat)}
}

// add adds a charge or a refund to t. It reports false if the entry has no cost in the unit of b.
func (t *totals) add(b budget, l line) bool {
	cost := b.cost(l)
	if cost == nil {
		return false
	}
	t.spent.Add(t.spent, exactly(*cost))
	t.delta.Add(t.delta, exactly(*l.Delta))
	if l.Epsilon != nil {
		t.epsilon.Add(t.epsilon, exactly(*l.Epsilon))
		return true
	}
	weight := 2
	if event, err := privacy.UnmarshalEvent([]byte(l.Event)); err == nil {
		if _, only := event.(privacy.Only); only {
			weight = 1
		}
	}
	if l.Kind == "refund" {
		weight = -weight
	}
	t.rest += weight
	if l.Rho != nil {
		t.restRho.Add(t.restRho, exactly(*l.Rho))
	}
	return true
}

// budget is the budget of an account as set by an entry of its chain.
type budget struct {
	accounting string
	order      float64  // order of the Renyi divergences, under rdp
	epsilon    *big.Rat // nil in entries of versions whose only filter is the cap
	delta, cap *big.Rat
}

// budgetOf returns the budget that an entry sets; nil if it sets none.
//
// Errors: for an entry that is not JSON or whose budget lacks a number.
func budgetOf(l line) (*budget, error) {
	var said struct {
		Budget *struct {
			Accounting     string      `json:"accounting"`
			Order          float64     `json:"order"`
			AccountEpsilon json.Number `json:"account_epsilon"`
			Delta          json.Number `json:"delta"`
			Cap            json.Number `json:"cap"`
		} `json:"budget"`
	}
	if err := json.Unmarshal([]byte(l.Event), &said); err != nil || said.Budget == nil {
		return nil, err
	}
	b := &budget{accounting: said.Budget.Accounting, order: said.Budget.Order}
	b.epsilon, _ = new(big.Rat).SetString(said.Budget.AccountEpsilon.String())
	var ok1, ok2 bool
	b.delta, ok1 = new(big.Rat).SetString(said.Budget.Delta.String())
	b.cap, ok2 = new(big.Rat).SetString(said.Budget.Cap.String())
	if !ok1 || !ok2 {
		return nil, strconv.ErrSyntax
	}
	return b, nil
}

// cost returns the cost of an entry in the unit of the accounting; nil if it has none.
func (b budget) cost(l line) *float64 {
	switch b.accounting {
	case "zcdp":
		return l.Rho
	case "rdp":
		k := slices.Index(privacy.Orders(), b.order)
		if costs := l.curve(); k >= 0 && k < len(costs) {
			return costs[k]
		}
		return nil
	}
	return l.Epsilon
}

// admits reports whether at least one filter of the budget holds for these sums. A charge is admitted if it
// holds for the sums of all charges that stand, including the new one.
//
// Privacy: proof in filters.md.
func (b budget) admits(t totals) bool {
	reserve := new(big.Rat).Quo(b.delta, big.NewRat(10, 1))
	if t.delta.Cmp(reserve) > 0 {
		return false
	}
	return t.spent.Cmp(b.cap) <= 0 || b.epsilon != nil && b.accounting != "pure" && (b.admitsPure(t) || b.admitsAlone(t) || b.admitsMixture(t))
}

// admitsPure is the filter for accounts that use pure mechanisms only: the sum of epsilons is within the
// budget.
func (b budget) admitsPure(t totals) bool { return t.rest == 0 && t.epsilon.Cmp(b.epsilon) <= 0 }

// admitsAlone is the filter for a charge of normal noise that is the only one, as it was planned to be: it
// is converted by the exact trade-off function. The database evaluates that in decimals, more closely than
// float64 does where epsilon is tiny; a relative excess of up to 1e-6 is admitted here.
func (b budget) admitsAlone(t totals) bool {
	if b.accounting != "zcdp" || t.rest != 1 || t.epsilon.Sign() != 0 || b.cap.Sign() <= 0 {
		return false
	}
	epsilon, _ := b.epsilon.Float64()
	delta, _ := b.delta.Float64()
	rho, _ := t.restRho.Float64()
	return privacy.NoiseEpsilon(2*rho*(1-1e-6), 0.9*delta) <= epsilon
}

// admitsMixture is the filter that adds pure epsilons to the cost of the other charges at one Renyi order,
// the order at which the cap was converted. The database computes that order separately, and the two agree
// to about 1e-13; a relative excess of up to 1e-9 is admitted here.
func (b budget) admitsMixture(t totals) bool {
	if b.accounting != "zcdp" || b.cap.Sign() <= 0 {
		return false
	}
	epsilon, _ := b.epsilon.Float64()
	delta, _ := b.delta.Float64()
	order := new(big.Rat).SetFloat64(privacy.ZCDPOrder(epsilon, 0.9*delta))
	spent := new(big.Rat).Mul(order, t.restRho)
	limit := new(big.Rat).Mul(order, b.cap)
	limit.Mul(limit, big.NewRat(1e9+1, 1e9))
	return spent.Add(spent, t.epsilon).Cmp(limit) <= 0
}

// exactly returns the shortest decimal that reads back as v, the form in which costs are written. A value
// that is not finite becomes a cost that no budget admits.
func exactly(v float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	if !ok {
		return new(big.Rat).SetFloat64(math.MaxFloat64)
	}
	return r
}

// replay follows one chain, with its sums and the budget in force. An account has either one budget for all
// time or one for every block, so either all of its charges have blocks or none has.
type replay struct {
	totals
	budget  *budget
	blocks  map[int64]*totals // sums of the blocks that were charged
	charges int
}

// follow processes the next entry of the chain. It reports false for a charge beyond the budget in force
// and for an invalid entry.
func (r *replay) follow(l line) bool {
	if l.Kind == "budget" {
		b, err := budgetOf(l)
		if b != nil {
			r.budget = b
		}
		return err == nil
	}
	if r.budget == nil || l.Delta == nil {
		return false
	}
	r.charges++
	if l.Blocks == nil {
		return r.blocks == nil && r.add(*r.budget, l) && (l.Kind != "charge" || r.budget.admits(r.totals))
	}
	return r.followBlocks(l)
}

// followBlocks processes an entry that names blocks: each of them is compared with the budget separately.
//
// Privacy: proof in blocks.md.
func (r *replay) followBlocks(l line) bool {
	lo, hi, ok := blockRange(*l.Blocks)
	if r.blocks == nil && r.charges == 1 {
		r.blocks = map[int64]*totals{}
	}
	if !ok || r.blocks == nil {
		return false
	}
	within := true
	for block := lo; block < hi; block++ {
		t := r.blocks[block]
		if t == nil {
			empty := newTotals()
			t = &empty
			r.blocks[block] = t
		}
		within = t.add(*r.budget, l) && (l.Kind != "charge" || r.budget.admits(*t)) && within
	}
	return within
}

// maxBlocks bounds the number of blocks of one charge.
const maxBlocks = 10_000

// blockRange reads an int8range in its canonical form, with blocks lo to hi - 1.
func blockRange(text string) (lo, hi int64, ok bool) {
	n, err := fmt.Sscanf(text, "[%d,%d)", &lo, &hi)
	return lo, hi, n == 2 && err == nil && 0 <= lo && lo < hi && hi-lo <= maxBlocks
}
