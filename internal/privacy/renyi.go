package privacy

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// OrdersVersion names the order grid. A ledger stores it beside its curves: a
// grid is never changed, only replaced by one with another number.
const OrdersVersion = 1

// orders is grid 1: 1.25 to 10 in steps of 0.25, every integer from 11 to 64,
// then 36 geometric points to 1024, each the nearest integer: exact in any
// arithmetic, and integer orders have one theorem more.
var orders = func() (grid []float64) {
	for quarter := 5; quarter <= 40; quarter++ {
		grid = append(grid, float64(quarter)/4)
	}
	for a := 11; a <= 64; a++ {
		grid = append(grid, float64(a))
	}
	for k := 1; k <= 36; k++ {
		grid = append(grid, math.Round(64*math.Pow(16, float64(k)/36)))
	}
	return grid
}()

// Orders returns the Renyi orders of the grid, increasing.
func Orders() []float64 { return slices.Clone(orders) }

// Renyi accounts with the Renyi divergences of the grid's orders (Mironov 2017):
// they add, and each order converts to epsilon by Canonne, Kamath & Steinke
// 2020, Proposition 12; the smallest is reported.
//
// The zero value is ready, may be used by several goroutines, and remembers
// what subsampled Gaussians cost; keep it.
type Renyi struct {
	mutex   sync.Mutex
	sampled map[sampledOrder]float64
}

type sampledOrder struct{ rate, noiseMultiplier, order float64 }

// remembered bounds the memory of a Renyi to some megabytes.
const remembered = 1 << 16

// Epsilon implements Accountant.
func (r *Renyi) Epsilon(history Event, delta float64) (float64, error) {
	list, err := account(history, delta)
	if err != nil {
		return 0, err
	}
	return r.epsilon(list, delta)
}

// Curve returns what e costs at every order of the grid, rounded upward, +Inf
// where it is not bounded. A delta of e comes on top: the curve is that of e
// without an event of probability Price(e).Delta.
func (r *Renyi) Curve(e Event) ([]float64, error) {
	list, err := leaves(e)
	if err != nil {
		return nil, err
	}
	curve := make([]float64, len(orders))
	for i, order := range orders {
		if curve[i], err = r.divergence(list, order); err != nil {
			return nil, err
		}
	}
	return curve, nil
}

// At returns what e costs at one order > 1, as Curve does.
func (r *Renyi) At(e Event, order float64) (float64, error) {
	list, err := leaves(e)
	if err != nil {
		return 0, err
	}
	return r.divergence(list, order)
}

func (r *Renyi) epsilon(list []term, delta float64) (float64, error) {
	cost, err := total(list)
	if err != nil {
		return 0, err
	}
	delta = subDown(delta, cost.Delta)
	best := math.Inf(1)
	for _, order := range orders {
		divergence, err := r.divergence(list, order)
		if err != nil {
			return 0, err
		}
		// Divergences grow with the order, and no conversion takes more off than this.
		if divergence+math.Log1p(-delta) >= best {
			break
		}
		best = math.Min(best, RenyiEpsilon(divergence, order, delta))
	}
	return best, nil
}

// RenyiEpsilon returns an epsilon, rounded upward, for which a divergence of the
// given order > 1 leaves at most delta,
//
//	divergence + ln(1 - 1/a) - ln(a delta)/(a - 1),
//
// or 0; +Inf for delta = 0 or arguments out of range.
func RenyiEpsilon(divergence, order, delta float64) float64 {
	if !(divergence >= 0 && order > 1 && delta > 0) || math.IsInf(divergence, 1) {
		return math.Inf(1)
	}
	eps := divergence + renyiDiscount(order, delta)
	slack := (divergence + math.Abs(math.Log1p(-1/order)) + (math.Abs(math.Log(delta))+math.Log(order))/(order-1)) * 0x1p-44
	return math.Max(0, eps+slack)
}

// renyiDiscount is what the conversion adds to a divergence.
func renyiDiscount(order, delta float64) float64 {
	return math.Log1p(-1/order) - (math.Log(order)+math.Log(delta))/(order-1)
}

func (r *Renyi) divergence(list []term, order float64) (float64, error) {
	sum := 0.0
	for _, t := range list {
		one, err := r.leaf(t.event, order)
		if err != nil {
			return 0, err
		}
		sum = addUp(sum, mulUp(t.count, one))
	}
	return sum, nil
}

// leaf bounds the divergence of one leaf of a history.
//
//	Gaussian, ZCDP     a rho                                     Bun & Steinke 2016
//	Pure, Approx       that of randomised response               Kairouz, Oh & Viswanath 2015: it dominates
//	BoundedRange       at most a eps^2/8 and that of Pure        Cesar & Rogers 2021
//	Sampled Gaussian   sampledRenyi
func (r *Renyi) leaf(e Event, order float64) (float64, error) {
	switch e := e.(type) {
	case Gaussian:
		return mulUp(order, gaussianRho(e.NoiseMultiplier)), nil
	case ZCDP:
		return mulUp(order, e.Rho), nil
	case Pure:
		return pureRenyi(e.Epsilon, order), nil
	case Approx:
		return pureRenyi(e.Epsilon, order), nil
	case BoundedRange:
		return math.Min(mulUp(order, mulUp(e.Epsilon, e.Epsilon/8)), pureRenyi(e.Epsilon, order)), nil
	case Sampled:
		if g, ok := e.Event.(Gaussian); ok {
			return r.sampledGaussian(sampledOrder{e.Rate, g.NoiseMultiplier, order}), nil
		}
	}
	return 0, fmt.Errorf("%w: %T", ErrUnsupported, e)
}

func (r *Renyi) sampledGaussian(at sampledOrder) float64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if v, ok := r.sampled[at]; ok {
		return v
	}
	if r.sampled == nil || len(r.sampled) >= remembered {
		r.sampled = map[sampledOrder]float64{}
	}
	v := sampledRenyi(at.rate, at.noiseMultiplier, at.order)
	r.sampled[at] = v
	return v
}

// pureRenyi bounds the divergence of order a of an eps-DP mechanism by that of
// randomised response,
//
//	ln(1 + (e^(a eps) - 1)(1 - e^((1-a) eps)) / (1 + e^eps)) / (a - 1),
//
// and by eps, its limit. Where the exponential is large the same is written as
// eps - ln((1 + e^-eps) / (1 + e^(-(2a-1) eps))) / (a - 1).
func pureRenyi(eps, a float64) float64 {
	switch {
	case eps < 0x1p-400:
		return eps
	case a*eps > 100:
		below := (math.Log1p(math.Exp(-eps)) - math.Log1p(math.Exp((1-2*a)*eps))) / (a - 1)
		return math.Min(eps, (eps-below)*(1+0x1p-44))
	}
	moment := math.Expm1(a*eps) * -math.Expm1((1-a)*eps) / (1 + math.Exp(eps))
	return math.Min(eps, math.Log1p(moment)/(a-1)*(1+0x1p-44))
}
