package privacy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The filters in this file are a test oracle. The ledger's rules, which the database
// enforces in SQL, are written down here once more on top of this package, so that
// tests can fill a budget with random events and ask the accountants about the result.

var errOverBudget = errors.New("privacy: over budget")

// spend is taken from a filter's caps by releases. loss has the filter's own unit:
// epsilon, rho, or Renyi divergence at its order.
type spend struct{ loss, delta float64 }

// plus returns s + t, rounded upward.
func (s spend) plus(t spend) spend { return spend{addUp(s.loss, t.loss), addUp(s.delta, t.delta)} }

// filter keeps everything released about a data set (epsilon, delta)-DP although
// both the releases and their costs are chosen after seeing earlier answers. Its
// caps are fixed at registration and never traded for each other: a bound chosen
// after the answers are known, such as the best of several Renyi orders, does not
// hold for histories that were chosen by the answers.
type filter interface {
	caps() spend                 // may be spent in all
	cost(e Event) (spend, error) // rounded upward; +Inf for an event without a bound; errors as Price
	admit(spent, cost spend) error
}

// pureFilter adds epsilons and deltas: Rogers, Roth, Ullman & Vadhan 2016.
type pureFilter struct{ limits }

// zcdpFilter adds rhos and deltas: Whitehouse, Ramdas, Rogers & Wu 2023.
type zcdpFilter struct{ limits }

// renyiFilter adds the Renyi divergences at one order of the grid, and deltas:
// Feldman & Zrnic 2021.
type renyiFilter struct {
	limits
	order float64
	renyi *Renyi
}

// newPureFilter keeps b by adding.
//
// Errors: ErrBudget.
func newPureFilter(b Budget) (pureFilter, error) {
	return pureFilter{limits{b.Epsilon, b.Delta}}, checkBudget(b, 0)
}

// newZCDPFilter keeps b by zCDP. Of b.Delta, reserve is kept for the deltas of
// events; the rest serves the conversion.
//
// Errors: ErrBudget.
func newZCDPFilter(b Budget, reserve float64) (zcdpFilter, error) {
	if err := checkBudget(b, reserve); err != nil {
		return zcdpFilter{}, err
	}
	rho := ZCDPRho(b.Epsilon, subDown(b.Delta, reserve))
	return zcdpFilter{limits{rho, reserve}}, checkCap(rho)
}

// newRenyiFilter keeps b by Renyi divergences of the given order; reserve is as
// for newZCDPFilter. RecommendedOrder knows a good order. What subsampled
// Gaussians cost is remembered in r, which several filters may share.
//
// Errors: ErrBudget, also for an order that is not on the grid.
func newRenyiFilter(b Budget, reserve, order float64, r *Renyi) (renyiFilter, error) {
	if err := checkBudget(b, reserve); err != nil {
		return renyiFilter{}, err
	}
	if !slices.Contains(orders, order) {
		return renyiFilter{}, fmt.Errorf("%w: order %v is not on grid %d", ErrBudget, order, OrdersVersion)
	}
	limit := renyiCap(b.Epsilon, order, subDown(b.Delta, reserve))
	return renyiFilter{limits{limit, reserve}, order, r}, checkCap(limit)
}

func (pureFilter) cost(e Event) (spend, error) {
	c, err := Price(e)
	return spend{c.Epsilon, c.Delta}, err
}

func (zcdpFilter) cost(e Event) (spend, error) {
	c, err := Price(e)
	return spend{c.Rho, c.Delta}, err
}

func (f renyiFilter) cost(e Event) (spend, error) {
	c, err := Price(e)
	if err != nil {
		return spend{}, err
	}
	leaves, err := leavesOf(e)
	if err != nil {
		return spend{}, err
	}
	divergence, err := f.renyi.divergence(leaves, f.order)
	return spend{divergence, c.Delta}, err
}

// limits are the caps of every filter.
type limits spend

func (l limits) caps() spend { return spend(l) }

// admit returns nil when cost still fits after spent, else an error that wraps
// errOverBudget.
func (l limits) admit(spent, cost spend) error {
	after := spent.plus(cost)
	if cost.loss >= 0 && cost.delta >= 0 && after.loss <= l.loss && after.delta <= l.delta {
		return nil
	}
	return fmt.Errorf("%w: (%v, %v) of (%v, %v) spent, (%v, %v) asked", errOverBudget,
		spent.loss, spent.delta, l.loss, l.delta, cost.loss, cost.delta)
}

// renyiCap returns the largest divergence, rounded downward, that leaves
// (eps, delta)-DP; it is negative when even 0 does not.
func renyiCap(eps, order, delta float64) float64 {
	limit := eps - conversionTerm(order, delta)
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

func allFilters(t *testing.T, b Budget, reserve, order float64) map[string]filter {
	t.Helper()
	pure, err1 := newPureFilter(b)
	zcdp, err2 := newZCDPFilter(b, reserve)
	renyi, err3 := newRenyiFilter(b, reserve, order, new(Renyi))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]filter{"pure": pure, "zcdp": zcdp, "renyi": renyi}
}

// Caps that are spent whole prove the budget, and hardly less.
func TestCapsAreTheBudget(t *testing.T) {
	for _, b := range []Budget{{.1, 1e-9}, {.5, 1e-6}, {1, 1e-6}, {20, 1e-3}} {
		for _, reserve := range []float64{0, Reserve(b.Delta), b.Delta / 2} {
			order := RecommendedOrder(b)
			filters := allFilters(t, b, reserve, order)
			delta := b.Delta - reserve
			rho, divergence := filters["zcdp"].caps().loss, filters["renyi"].caps().loss
			if filters["pure"].caps() != (spend{b.Epsilon, b.Delta}) || filters["zcdp"].caps().delta != reserve || filters["renyi"].caps().delta != reserve {
				t.Errorf("%v: caps %v %v %v", b, filters["pure"].caps(), filters["zcdp"].caps(), filters["renyi"].caps())
			}
			if eps := ZCDPEpsilon(rho, delta); eps > b.Epsilon || eps < b.Epsilon*(1-1e-9) {
				t.Errorf("%v: rho %v proves %v", b, rho, eps)
			}
			if eps := RenyiEpsilon(divergence, order, delta); eps > b.Epsilon || eps < b.Epsilon*(1-1e-9) {
				t.Errorf("%v: divergence %v proves %v", b, divergence, eps)
			}
			if gaussian := divergence / order; gaussian < rho*.97 {
				t.Errorf("%v: order %v leaves Gaussian noise %v of rho %v", b, order, gaussian, rho)
			}
		}
	}
}

func TestRenyiCapFollowsTheDesign(t *testing.T) {
	f, err := newRenyiFilter(Budget{1, 1e-6}, 1e-7, 16, new(Renyi))
	if want := 1 - math.Log(1-1./16) + math.Log(16*9e-7)/15; err != nil || !near(f.caps().loss, want) || f.order != 16 {
		t.Errorf("%v, %v; want %v", f.caps(), err, want)
	}
	if order := RecommendedOrder(Budget{1, 1e-6}); order != 25 { // 1 + sqrt(13.8155 / .024356) = 24.8
		t.Errorf("recommended order %v", order)
	}
}

func TestFilterRejectsAtTheBoundary(t *testing.T) {
	for name, f := range allFilters(t, Budget{1, 1e-6}, 5e-7, 16) {
		cap := f.caps()
		for _, c := range []struct {
			spent, cost spend
			fits        bool
		}{
			{spend{}, spend{}, true},
			{spend{}, cap, true},
			{cap, spend{}, true},
			{spend{cap.loss / 2, 0}, spend{cap.loss / 2, 0}, true},
			{spend{}, spend{up(cap.loss), 0}, false},
			{spend{}, spend{0, up(cap.delta)}, false},
			{cap, spend{5e-324, 0}, false},
			{cap, spend{0, 5e-324}, false},
			{spend{}, spend{none, 0}, false},
			{spend{math.NaN(), 0}, spend{}, false},
			{spend{}, spend{math.NaN(), 0}, false},
			{spend{}, spend{0, math.NaN()}, false},
			{cap, spend{-cap.loss, 0}, false}, // nothing is given back by a charge
			{cap, spend{0, -cap.delta}, false},
		} {
			if err := f.admit(c.spent, c.cost); (err == nil) != c.fits || err != nil && !errors.Is(err, errOverBudget) {
				t.Errorf("%s: %v after %v: %v", name, c.cost, c.spent, err)
			}
		}
	}
}

// Random histories, chosen as they go, fill each filter; then Price, or the
// curve at the filter's order, proves the budget for all that was admitted.
func TestFiltersKeepTheBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := Budget{1, 1e-6}
	for name, f := range allFilters(t, b, 5e-7, RecommendedOrder(b)) {
		for range 50 {
			var spent spend
			var admitted Compose
			for range 30 {
				e := randomEvent(rng)
				cost, err := f.cost(e)
				if err != nil {
					t.Fatal(err)
				}
				if f.admit(spent, cost) == nil {
					spent, admitted = spent.plus(cost), append(admitted, e)
				}
			}
			if eps, err := filterAccountant(f).Epsilon(admitted, b.Delta); err != nil || eps > b.Epsilon*(1+1e-12) {
				t.Fatalf("%s: admitted %v at %v, %v", name, admitted, eps, err)
			}
		}
	}
}

func filterAccountant(f filter) Accountant {
	switch f.(type) {
	case pureFilter:
		return PureSum{}
	case zcdpFilter:
		return Concentrated{}
	}
	return new(Renyi)
}

func randomEvent(rng *rand.Rand) Event {
	size := math.Exp(-5 * rng.Float64())
	z := math.Round(8 / size) // few values: subsampled Gaussians are remembered
	switch rng.IntN(6) {
	case 0:
		return Pure{size}
	case 1:
		return Approx{size, 1e-7 * rng.Float64()}
	case 2:
		return Gaussian{z}
	case 3:
		return Parallel{BoundedRange{size}}
	case 4:
		return Repeat{1 + rng.IntN(4), Sampled{.05, Gaussian{math.Min(z, 12)}}}
	}
	return Compose{ZCDP{size / 50}, Pure{size / 10}}
}

// admission is a filter's decision about one more event after a history.
type admission func(f renyiFilter, history, e Event) bool

func admitFixedOrder(f renyiFilter, history, e Event) bool {
	spent, err1 := f.cost(history)
	cost, err2 := f.cost(e)
	return err1 == nil && err2 == nil && f.admit(spent, cost) == nil
}

// admitBestOrder is the mutant: it asks whether any order proves the budget for the
// history as it is.
func admitBestOrder(f renyiFilter, history, e Event) bool {
	eps, err := new(Renyi).Epsilon(Compose{history, e}, 1e-6)
	return err == nil && eps <= 1
}

// keepsToItsOrder reports whether a filter for (1, 1e-6) of order 25 refuses events
// that only another order would allow. An analyst who chooses events after seeing
// answers could choose them for whichever order suits the answers.
func keepsToItsOrder(admit admission) bool {
	f, err := newRenyiFilter(Budget{1, 1e-6}, 0, 25, new(Renyi))
	if err != nil {
		return false
	}
	many := Repeat{30, Sampled{.01, Gaussian{1.2}}} // at order 25 it costs 117, the cap is 0.6; order 10 proves 0.9
	one := Sampled{.01, Gaussian{1.5}}              // at order 25 it costs 0.76; order 16 proves 0.5
	return admit(f, Compose{}, Repeat{30, Gaussian{30}}) && !admit(f, Compose{}, many) && !admit(f, Repeat{15, Gaussian{30}}, one)
}

func TestFilterDoesNotMinimiseOverOrders(t *testing.T) {
	if !keepsToItsOrder(admitFixedOrder) {
		t.Error("the filter gives way to another order, or admits nothing")
	}
	if keepsToItsOrder(admitBestOrder) {
		t.Error("a filter that minimises over orders after the fact is not caught")
	}
}

func TestFiltersRefuseBadBudgets(t *testing.T) {
	for _, b := range []Budget{{0, 1e-6}, {-1, 1e-6}, {none, 1e-6}, {math.NaN(), 1e-6}, {1, -1}, {1, 1}, {1, math.NaN()}} {
		if _, err := newPureFilter(b); !errors.Is(err, ErrBudget) {
			t.Errorf("pure %v: %v", b, err)
		}
		if _, err := newZCDPFilter(b, 0); !errors.Is(err, ErrBudget) {
			t.Errorf("zcdp %v: %v", b, err)
		}
		if _, err := newRenyiFilter(b, 0, 16, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("renyi %v: %v", b, err)
		}
	}
	b := Budget{1, 1e-6}
	for _, reserve := range []float64{-1e-9, 1e-6, 1, math.NaN()} { // all of delta leaves nothing for the conversion
		if _, err := newZCDPFilter(b, reserve); !errors.Is(err, ErrBudget) {
			t.Errorf("zcdp reserve %v: %v", reserve, err)
		}
		if _, err := newRenyiFilter(b, reserve, 16, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("renyi reserve %v: %v", reserve, err)
		}
	}
	for _, order := range []float64{1, 1.3, 2, 2048, math.NaN()} { // 2 is too small for this budget
		if _, err := newRenyiFilter(b, 0, order, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("order %v: %v", order, err)
		}
	}
	for name, f := range allFilters(t, b, 0, 16) {
		if _, err := f.cost(strange{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s prices an unknown event: %v", name, err)
		}
	}
}
