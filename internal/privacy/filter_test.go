package privacy

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func allFilters(t *testing.T, b Budget, reserve, order float64) map[string]Filter {
	t.Helper()
	pure, err1 := NewPureFilter(b)
	zcdp, err2 := NewZCDPFilter(b, reserve)
	renyi, err3 := NewRenyiFilter(b, reserve, order, new(Renyi))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]Filter{"pure": pure, "zcdp": zcdp, "renyi": renyi}
}

// What the caps allow is the budget, and hardly less.
func TestCapsAreTheBudget(t *testing.T) {
	for _, b := range []Budget{{.1, 1e-9}, {.5, 1e-6}, {1, 1e-6}, {20, 1e-3}} {
		for _, reserve := range []float64{0, Reserve(b.Delta), b.Delta / 2} {
			order := RecommendedOrder(b)
			filters := allFilters(t, b, reserve, order)
			delta := b.Delta - reserve
			rho, divergence := filters["zcdp"].Caps().Loss, filters["renyi"].Caps().Loss
			if filters["pure"].Caps() != (Spend{b.Epsilon, b.Delta}) || filters["zcdp"].Caps().Delta != reserve || filters["renyi"].Caps().Delta != reserve {
				t.Errorf("%v: caps %v %v %v", b, filters["pure"].Caps(), filters["zcdp"].Caps(), filters["renyi"].Caps())
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
	f, err := NewRenyiFilter(Budget{1, 1e-6}, 1e-7, 16, new(Renyi))
	if want := 1 - math.Log(1-1./16) + math.Log(16*9e-7)/15; err != nil || !near(f.Caps().Loss, want) || f.Order() != 16 {
		t.Errorf("%v, %v; want %v", f.Caps(), err, want)
	}
	if order := RecommendedOrder(Budget{1, 1e-6}); order != 25 { // 1 + sqrt(13.8155 / .024356) = 24.8
		t.Errorf("recommended order %v", order)
	}
}

func TestFilterRejectsAtTheBoundary(t *testing.T) {
	for name, f := range allFilters(t, Budget{1, 1e-6}, 5e-7, 16) {
		cap := f.Caps()
		for _, c := range []struct {
			spent, cost Spend
			fits        bool
		}{
			{Spend{}, Spend{}, true},
			{Spend{}, cap, true},
			{cap, Spend{}, true},
			{Spend{cap.Loss / 2, 0}, Spend{cap.Loss / 2, 0}, true},
			{Spend{}, Spend{up(cap.Loss), 0}, false},
			{Spend{}, Spend{0, up(cap.Delta)}, false},
			{cap, Spend{5e-324, 0}, false},
			{cap, Spend{0, 5e-324}, false},
			{Spend{}, Spend{none, 0}, false},
			{Spend{math.NaN(), 0}, Spend{}, false},
			{Spend{}, Spend{math.NaN(), 0}, false},
			{Spend{}, Spend{0, math.NaN()}, false},
			{cap, Spend{-cap.Loss, 0}, false}, // nothing is given back by a charge
			{cap, Spend{0, -cap.Delta}, false},
		} {
			if err := f.Admit(c.spent, c.cost); (err == nil) != c.fits || err != nil && !errors.Is(err, ErrOverBudget) {
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
			var spent Spend
			var admitted Compose
			for range 30 {
				e := randomEvent(rng)
				cost, err := f.Cost(e)
				if err != nil {
					t.Fatal(err)
				}
				if f.Admit(spent, cost) == nil {
					spent, admitted = spent.Plus(cost), append(admitted, e)
				}
			}
			if eps, err := filterAccountant(f).Epsilon(admitted, b.Delta); err != nil || eps > b.Epsilon*(1+1e-12) {
				t.Fatalf("%s: admitted %v at %v, %v", name, admitted, eps, err)
			}
		}
	}
}

func filterAccountant(f Filter) Accountant {
	switch f.(type) {
	case PureFilter:
		return PureSum{}
	case ZCDPFilter:
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
type admission func(f RenyiFilter, history, e Event) bool

func admitFixedOrder(f RenyiFilter, history, e Event) bool {
	spent, err1 := f.Cost(history)
	cost, err2 := f.Cost(e)
	return err1 == nil && err2 == nil && f.Admit(spent, cost) == nil
}

// admitBestOrder is the mutant: it asks whether any order proves the budget for
// what has turned out.
func admitBestOrder(f RenyiFilter, history, e Event) bool {
	eps, err := new(Renyi).Epsilon(Compose{history, e}, 1e-6)
	return err == nil && eps <= 1
}

// keepsToItsOrder reports whether a filter for (1, 1e-6) of order 25 refuses what
// only another order would allow: histories chosen by their answers may aim at
// whichever order suits the answers.
func keepsToItsOrder(admit admission) bool {
	f, err := NewRenyiFilter(Budget{1, 1e-6}, 0, 25, new(Renyi))
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
		if _, err := NewPureFilter(b); !errors.Is(err, ErrBudget) {
			t.Errorf("pure %v: %v", b, err)
		}
		if _, err := NewZCDPFilter(b, 0); !errors.Is(err, ErrBudget) {
			t.Errorf("zcdp %v: %v", b, err)
		}
		if _, err := NewRenyiFilter(b, 0, 16, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("renyi %v: %v", b, err)
		}
	}
	b := Budget{1, 1e-6}
	for _, reserve := range []float64{-1e-9, 1e-6, 1, math.NaN()} { // all of delta leaves nothing for the conversion
		if _, err := NewZCDPFilter(b, reserve); !errors.Is(err, ErrBudget) {
			t.Errorf("zcdp reserve %v: %v", reserve, err)
		}
		if _, err := NewRenyiFilter(b, reserve, 16, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("renyi reserve %v: %v", reserve, err)
		}
	}
	for _, order := range []float64{1, 1.3, 2, 2048, math.NaN()} { // 2 is too small for this budget
		if _, err := NewRenyiFilter(b, 0, order, new(Renyi)); !errors.Is(err, ErrBudget) {
			t.Errorf("order %v: %v", order, err)
		}
	}
	for name, f := range allFilters(t, b, 0, 16) {
		if _, err := f.Cost(strange{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s prices an unknown event: %v", name, err)
		}
	}
}
