package privacy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrOverBudget is a Filter's No.
var ErrOverBudget = errors.New("privacy: over budget")

// Spend is what releases take from a Filter's caps. Loss has the filter's own
// unit: epsilon, rho, or Renyi divergence at its order.
type Spend struct{ Loss, Delta float64 }

// Plus returns s + t, rounded upward.
func (s Spend) Plus(t Spend) Spend { return Spend{addUp(s.Loss, t.Loss), addUp(s.Delta, t.Delta)} }

// Filter keeps everything released about a data set (epsilon, delta)-DP while
// both the releases and their costs are chosen by earlier answers. Its caps are
// fixed at registration and none is ever traded for another: a bound chosen
// after the answers are known, such as the best of several Renyi orders, is not
// a bound for histories chosen by them.
//
// Filters are immutable.
type Filter interface {
	// Caps returns what may be spent in all.
	Caps() Spend
	// Cost returns what e spends, rounded upward; +Inf for what the filter
	// cannot bound. Errors: as Price.
	Cost(e Event) (Spend, error)
	// Admit returns nil when cost still fits after spent, else an error that
	// wraps ErrOverBudget.
	Admit(spent, cost Spend) error
}

// PureFilter adds epsilons and deltas: Rogers, Roth, Ullman & Vadhan 2016.
type PureFilter struct{ caps }

// ZCDPFilter adds rhos and deltas: Whitehouse, Ramdas, Rogers & Wu 2023.
type ZCDPFilter struct{ caps }

// RenyiFilter adds the Renyi divergences at one order of the grid, and deltas:
// Feldman & Zrnic 2021.
type RenyiFilter struct {
	caps
	order float64
	renyi *Renyi
}

// NewPureFilter keeps b by adding.
//
// Errors: ErrBudget.
func NewPureFilter(b Budget) (PureFilter, error) {
	return PureFilter{caps{b.Epsilon, b.Delta}}, checkBudget(b, 0)
}

// NewZCDPFilter keeps b by zCDP. Of b.Delta, reserve is kept for the deltas of
// events; the rest serves the conversion.
//
// Errors: ErrBudget.
func NewZCDPFilter(b Budget, reserve float64) (ZCDPFilter, error) {
	if err := checkBudget(b, reserve); err != nil {
		return ZCDPFilter{}, err
	}
	rho := ZCDPRho(b.Epsilon, subDown(b.Delta, reserve))
	return ZCDPFilter{caps{rho, reserve}}, checkCap(rho)
}

// NewRenyiFilter keeps b by Renyi divergences of the given order; reserve is as
// for NewZCDPFilter. RecommendedOrder knows a good order. What subsampled
// Gaussians cost is remembered in r, which several filters may share.
//
// Errors: ErrBudget, also for an order that is not on the grid.
func NewRenyiFilter(b Budget, reserve, order float64, r *Renyi) (RenyiFilter, error) {
	if err := checkBudget(b, reserve); err != nil {
		return RenyiFilter{}, err
	}
	if !slices.Contains(orders, order) {
		return RenyiFilter{}, fmt.Errorf("%w: order %v is not on grid %d", ErrBudget, order, OrdersVersion)
	}
	limit := renyiCap(b.Epsilon, order, subDown(b.Delta, reserve))
	return RenyiFilter{caps{limit, reserve}, order, r}, checkCap(limit)
}

// RecommendedOrder returns the order of the grid nearest to 1 + sqrt(ln(1/delta)/rho),
// which is about the best for a budget spent on Gaussian noise.
func RecommendedOrder(b Budget) float64 {
	best := 1 + math.Sqrt(-math.Log(b.Delta)/ZCDPRho(b.Epsilon, b.Delta))
	return slices.MinFunc(orders, func(x, y float64) int {
		return cmp.Compare(math.Abs(x-best), math.Abs(y-best))
	})
}

// Reserve returns what of a budget's delta is kept for the deltas of mechanisms:
// a tenth, and a hair less, so that its shortest decimal is within a tenth of
// that of delta. The rest serves the conversion from zCDP or Renyi divergences.
// What was calibrated to (epsilon, delta - Reserve(delta)) and has deltas of at
// most Reserve(delta) fits a ledger's budget of (epsilon, delta) whole.
func Reserve(delta float64) float64 { return delta / 10 * (1 - 0x1p-50) }

// Cost implements Filter.
func (PureFilter) Cost(e Event) (Spend, error) {
	c, err := Price(e)
	return Spend{c.Epsilon, c.Delta}, err
}

// Cost implements Filter.
func (ZCDPFilter) Cost(e Event) (Spend, error) {
	c, err := Price(e)
	return Spend{c.Rho, c.Delta}, err
}

// Cost implements Filter.
func (f RenyiFilter) Cost(e Event) (Spend, error) {
	c, err := Price(e)
	if err != nil {
		return Spend{}, err
	}
	divergence, err := f.renyi.At(e, f.order)
	return Spend{divergence, c.Delta}, err
}

// Order returns the Renyi order that was fixed at registration.
func (f RenyiFilter) Order() float64 { return f.order }

// caps are the limits all filters have.
type caps Spend

// Caps implements Filter.
func (c caps) Caps() Spend { return Spend(c) }

// Admit implements Filter.
func (c caps) Admit(spent, cost Spend) error {
	after := spent.Plus(cost)
	if cost.Loss >= 0 && cost.Delta >= 0 && after.Loss <= c.Loss && after.Delta <= c.Delta {
		return nil
	}
	return fmt.Errorf("%w: (%v, %v) of (%v, %v) spent, (%v, %v) asked", ErrOverBudget,
		spent.Loss, spent.Delta, c.Loss, c.Delta, cost.Loss, cost.Delta)
}

// renyiCap returns the largest divergence, rounded downward, that leaves
// (eps, delta)-DP; it is negative when even 0 does not.
func renyiCap(eps, order, delta float64) float64 {
	limit := eps - renyiDiscount(order, delta)
	for slack := 0x1p-46; slack < 1; slack *= 2 {
		if v := limit - slack*(math.Abs(limit)+eps+1); v > 0 && RenyiEpsilon(v, order, delta) <= eps {
			return v
		}
	}
	return -1
}

func checkBudget(b Budget, reserve float64) error {
	if b.Epsilon > 0 && !math.IsInf(b.Epsilon, 1) && b.Delta >= 0 && b.Delta < 1 && reserve >= 0 && reserve <= b.Delta {
		return nil
	}
	return fmt.Errorf("%w: epsilon = %v, delta = %v of which %v is reserved", ErrBudget, b.Epsilon, b.Delta, reserve)
}

func checkCap(v float64) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("%w: it leaves nothing to spend", ErrBudget)
}
