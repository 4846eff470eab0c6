package privacy

import (
	"errors"
	"fmt"
	"math"
)

// ErrBudget marks an epsilon, delta or cap that is out of range.
var ErrBudget = errors.New("privacy: bad budget")

// Accountant proves bounds on the cost of histories.
type Accountant interface {
	// Epsilon returns an epsilon, rounded upward, for which the history is (epsilon, delta)-DP under
	// replace-one; +Inf if no finite one is proved, for example if the deltas of its events exceed delta.
	//
	// The bound holds for a history whose costs do not depend on answers. If an analyst chooses the next
	// request, and so its cost, after seeing the answers, the ledger enforces the budget: it adds one cost
	// that was fixed at registration (a privacy filter).
	//
	// Errors: ErrEvent for a parameter out of range, ErrUnsupported for an event without a theorem,
	// ErrBudget for a delta outside [0, 1].
	Epsilon(history Event, delta float64) (float64, error)
}

// PureSum adds epsilons and deltas (basic composition).
type PureSum struct{}

// Epsilon implements Accountant.
//
// Errors: ErrUnsupported also for a history with an event, such as a Gaussian, for
// which Price proves no epsilon.
func (PureSum) Epsilon(history Event, delta float64) (float64, error) {
	leaves, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := totalCost(leaves)
	switch {
	case err != nil:
		return 0, err
	case math.IsInf(cost.Epsilon, 1):
		return 0, fmt.Errorf("%w: by adding epsilons", ErrUnsupported)
	case cost.Delta > delta:
		return math.Inf(1), nil
	}
	return cost.Epsilon, nil
}

// Concentrated adds rhos and deltas and converts the sum (zCDP).
type Concentrated struct{}

// Epsilon implements Accountant.
func (Concentrated) Epsilon(history Event, delta float64) (float64, error) {
	leaves, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := totalCost(leaves)
	return ZCDPEpsilon(cost.Rho, subDown(delta, cost.Delta)), err
}

// Best reports the smallest epsilon that any theorem here proves for a history. It takes the least of the
// bounds of Concentrated, of Renyi and, for a history of Gaussians only, of the exact trade-off function;
// or it adds the epsilons and deltas of the events that are (epsilon, delta)-DP to these bounds for the
// other events. If all events are (epsilon, delta)-DP, the latter is PureSum.
//
// Discrete Gaussian noise needs a surcharge on delta for the exact trade-off, an Approx{0, surcharge}
// beside the Gaussian (see Gaussian). The ledger has it for subsampled Gaussians only. For those on all
// rows Best leaves out about (1 + e^epsilon) 0.021 D T / s^2, for T releases of D coordinates with a
// standard deviation of s grid steps: below 1e-15 for usual jobs. The sums in the ledger, of rho or of the
// divergence at one Renyi order, hold for discrete noise without a surcharge.
//
// The zero value is ready to use. Reuse it, since it caches costs as a Renyi does.
type Best struct{ renyi Renyi }

// Epsilon implements Accountant.
func (b *Best) Epsilon(history Event, delta float64) (float64, error) {
	all, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	whole, err := b.boundWhole(all, delta)
	if err != nil {
		return 0, err
	}
	split, err := b.boundSplit(all, delta)
	return math.Min(whole, split), err
}

// boundWhole returns the smallest bound that one theorem proves for all leaves.
func (b *Best) boundWhole(leaves []leaf, delta float64) (float64, error) {
	cost, err := totalCost(leaves)
	if err != nil || cost.Delta > delta {
		return math.Inf(1), err
	}
	if len(leaves) == 0 {
		return 0, nil
	}
	best, err := b.renyi.convert(leaves, delta)
	if mu2, ok := gaussianSquare(leaves); ok {
		best = math.Min(best, gaussianEpsilon(mu2, delta))
	}
	return math.Min(best, ZCDPEpsilon(cost.Rho, subDown(delta, cost.Delta))), err
}

// boundSplit adds the epsilons of the leaves that are (epsilon, delta)-DP to the bound for the others.
//
// That holds for any order of the events. Let P and Q be the laws of all answers for two neighbours, and R
// the law when the events with an epsilon run on P's table and the others on Q's. Between P and R only the
// others differ, so P(E) <= e^rest R(E) + delta'; and R <= e^(sum of epsilons) Q, answer by answer. For an
// event with a delta this applies to the part of its law that is at most e^epsilon times the neighbour's;
// the remainder has mass at most its delta.
func (b *Best) boundSplit(leaves []leaf, delta float64) (float64, error) {
	var sum Cost
	var others []leaf
	for _, l := range leaves {
		c, err := Price(l.event)
		if err != nil {
			return 0, err
		}
		if math.IsInf(c.Epsilon, 1) {
			others = append(others, l)
		} else {
			sum = sum.plus(c.times(l.count))
		}
	}
	if sum.Delta > delta {
		return math.Inf(1), nil
	}
	rest, err := b.boundWhole(others, subDown(delta, sum.Delta))
	return addUp(sum.Epsilon, rest), err
}

// checkedLeaves checks delta and reduces a history to its leaves.
func checkedLeaves(history Event, delta float64) ([]leaf, error) {
	if !(delta >= 0 && delta <= 1) {
		return nil, fmt.Errorf("%w: delta = %v; it must be in [0, 1]", ErrBudget, delta)
	}
	return leavesOf(history)
}
