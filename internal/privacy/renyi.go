package privacy

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// OrdersVersion is the number of the grid of Renyi orders. The ledger stores it beside its curves: a grid
// is never changed, only replaced by one with another number.
const OrdersVersion = 1

// orders is grid 1, increasing: 1.25 to 10 in steps of 0.25, every integer from 11
// to 64, then 36 geometric points to 1024, each rounded to an integer. All are
// exact in float64, and for integers the subsampled Gaussian has a second bound.
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

// Orders returns the grid, increasing: an element of the ledger's curves is for the order at the same
// index.
func Orders() []float64 { return slices.Clone(orders) }

// Renyi accounts with the Renyi divergences of the grid's orders (Mironov 2017): they add, and each order
// converts to epsilon by Canonne, Kamath & Steinke 2020, Proposition 12; the smallest is reported.
//
// The zero value is ready to use, also by several goroutines. Reuse it, since it caches the divergences of
// subsampled Gaussians, which are slow to compute.
type Renyi struct {
	mutex sync.Mutex
	cache map[sampledOrder]float64
}

// sampledOrder is a subsampled Gaussian and the order of its divergence.
type sampledOrder struct{ rate, noiseMultiplier, order float64 }

// maxCached bounds the memory of a Renyi to some megabytes.
const maxCached = 1 << 16

// Epsilon implements Accountant.
func (r *Renyi) Epsilon(history Event, delta float64) (float64, error) {
	leaves, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	return r.convert(leaves, delta)
}

// Curve returns the divergence of e at every order of the grid, rounded upward; +Inf without a bound. If
// Price(e).Delta is not 0 the curve is one of approximate Renyi DP: it holds outside an event of that
// probability.
func (r *Renyi) Curve(e Event) ([]float64, error) {
	leaves, err := leavesOf(e)
	if err != nil {
		return nil, err
	}
	curve := make([]float64, len(orders))
	for i, order := range orders {
		if curve[i], err = r.divergence(leaves, order); err != nil {
			return nil, err
		}
	}
	return curve, nil
}

// convert returns the smallest epsilon over the orders of the grid.
func (r *Renyi) convert(leaves []leaf, delta float64) (float64, error) {
	cost, err := totalCost(leaves)
	if err != nil {
		return 0, err
	}
	delta = subDown(delta, cost.Delta)
	best := math.Inf(1)
	for _, order := range orders {
		divergence, err := r.divergence(leaves, order)
		if err != nil {
			return 0, err
		}
		// Divergences increase with the order, and the conversion adds at least ln(1 - delta), so no later
		// order is better.
		if divergence+math.Log1p(-delta) >= best {
			break
		}
		best = math.Min(best, RenyiEpsilon(divergence, order, delta))
	}
	return best, nil
}

// RenyiEpsilon returns an epsilon, rounded upward, for which a mechanism with this
// divergence at the given order > 1 is (epsilon, delta)-DP: the larger of 0 and
//
//	divergence + ln(1 - 1/a) - ln(a delta)/(a - 1).
//
// It is +Inf for delta = 0 or arguments out of range.
func RenyiEpsilon(divergence, order, delta float64) float64 {
	if !(divergence >= 0 && order > 1 && delta > 0) || math.IsInf(divergence, 1) {
		return math.Inf(1)
	}
	eps := divergence + conversionTerm(order, delta)
	slack := (divergence + math.Abs(math.Log1p(-1/order)) + (math.Abs(ln(delta))+math.Log(order))/(order-1)) * 0x1p-44
	return math.Max(0, eps+slack)
}

// conversionTerm is added to a divergence to convert it to epsilon.
func conversionTerm(order, delta float64) float64 {
	return math.Log1p(-1/order) - (math.Log(order)+ln(delta))/(order-1)
}

// divergence sums the divergences of the leaves.
func (r *Renyi) divergence(leaves []leaf, order float64) (float64, error) {
	sum := 0.0
	for _, l := range leaves {
		one, err := r.ofLeaf(l.event, order)
		if err != nil {
			return 0, err
		}
		sum = addUp(sum, mulUp(l.count, one))
	}
	return sum, nil
}

// ofLeaf bounds the divergence of one leaf.
//
//	Gaussian, ZCDP     a rho                                     Bun & Steinke 2016
//	Pure, Approx       that of randomised response               Kairouz, Oh & Viswanath 2015: it dominates
//	BoundedRange       at most a eps^2/8 and that of Pure        Cesar & Rogers 2021
//	Sampled Gaussian   sampledRenyi
func (r *Renyi) ofLeaf(e Event, order float64) (float64, error) {
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

func (r *Renyi) sampledGaussian(key sampledOrder) float64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if v, ok := r.cache[key]; ok {
		return v
	}
	if r.cache == nil || len(r.cache) >= maxCached {
		r.cache = map[sampledOrder]float64{}
	}
	v := sampledRenyi(key.rate, key.noiseMultiplier, key.order)
	r.cache[key] = v
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
