package privacy

import (
	"errors"
	"fmt"
	"math"
)

// ErrBudget marks an epsilon, delta or cap that is out of range.
var ErrBudget = errors.New("privacy: bad budget")

// Accountant proves bounds for histories.
type Accountant interface {
	// Epsilon returns an epsilon, rounded upward, for which the history is
	// (epsilon, delta)-DP under replace-one; +Inf when no finite one is proved,
	// as when the deltas of its events pass delta.
	//
	// The costs of the history's events must not have been chosen by their
	// answers; where they are, a Filter keeps the budget.
	//
	// Errors: ErrEvent for a parameter out of range, ErrUnsupported for an event
	// without a theorem, ErrBudget for a delta that is no probability.
	Epsilon(history Event, delta float64) (float64, error)
}

// PureSum adds epsilons and deltas: basic composition.
type PureSum struct{}

// Epsilon implements Accountant.
//
// Errors: ErrUnsupported also for a history whose epsilons have no sum.
func (PureSum) Epsilon(history Event, delta float64) (float64, error) {
	list, err := account(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := total(list)
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

// Concentrated adds rhos and deltas and converts the sum: zCDP.
type Concentrated struct{}

// Epsilon implements Accountant.
func (Concentrated) Epsilon(history Event, delta float64) (float64, error) {
	list, err := account(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := total(list)
	return ZCDPEpsilon(cost.Rho, subDown(delta, cost.Delta)), err
}

// Best reports the smallest epsilon any theorem here proves for a history: by
// Concentrated, Renyi and ExactGaussian for all of it, and by adding the
// epsilons and deltas of the events that are (epsilon, delta)-DP to what these
// three prove for the others. When all events are of that kind, this is PureSum.
//
// The zero value is ready; keep it, as a Renyi.
type Best struct{ renyi Renyi }

// Epsilon implements Accountant.
func (b *Best) Epsilon(history Event, delta float64) (float64, error) {
	all, err := account(history, delta)
	if err != nil {
		return 0, err
	}
	together, err := b.together(all, delta)
	if err != nil {
		return 0, err
	}
	apart, err := b.apart(all, delta)
	return math.Min(together, apart), err
}

// together returns the smallest bound for all terms as one.
func (b *Best) together(list []term, delta float64) (float64, error) {
	cost, err := total(list)
	if err != nil || cost.Delta > delta {
		return math.Inf(1), err
	}
	if len(list) == 0 {
		return 0, nil
	}
	best, err := b.renyi.epsilon(list, delta)
	if square, ok := gaussianSquare(list); ok {
		best = math.Min(best, gaussianEpsilon(square, delta))
	}
	return math.Min(best, ZCDPEpsilon(cost.Rho, subDown(delta, cost.Delta))), err
}

// apart adds the epsilons of the terms that have one to the bound for the others.
//
// That holds however the events interleave. Let P and Q be the laws of all
// answers for two neighbours, and R the law when the events with an epsilon see
// P's table and the others Q's. Between P and R only the others differ, so
// P(E) <= e^rest R(E) + delta'; and R <= e^(sum of epsilons) Q, answer by answer.
// Where an event has a delta, this is said of the part of its law that is at most
// e^epsilon times the neighbour's, and the deltas are what is missing from it.
func (b *Best) apart(list []term, delta float64) (float64, error) {
	var sum Cost
	var others []term
	for _, t := range list {
		c, err := Price(t.event)
		if err != nil {
			return 0, err
		}
		if math.IsInf(c.Epsilon, 1) {
			others = append(others, t)
		} else {
			sum = sum.plus(c.times(t.count))
		}
	}
	if sum.Delta > delta {
		return math.Inf(1), nil
	}
	rest, err := b.together(others, subDown(delta, sum.Delta))
	return addUp(sum.Epsilon, rest), err
}

// account checks delta and takes a history apart.
func account(history Event, delta float64) ([]term, error) {
	if !(delta >= 0 && delta <= 1) {
		return nil, fmt.Errorf("%w: delta = %v; it must be in [0, 1]", ErrBudget, delta)
	}
	return leaves(history)
}
