package privacy

import (
	"cmp"
	"math"
	"slices"
)

// RecommendedOrder returns the order of the grid nearest to 1 + sqrt(ln(1/delta)/rho).
// For a budget that is spent on Gaussian noise it is close to the best one.
func RecommendedOrder(b Budget) float64 {
	best := 1 + math.Sqrt(-ln(b.Delta)/ZCDPRho(b.Epsilon, b.Delta))
	return slices.MinFunc(orders, func(x, y float64) int {
		return cmp.Compare(math.Abs(x-best), math.Abs(y-best))
	})
}

// AtOrder calibrates against the bound of a ledger that adds the Renyi divergences
// at one order, fixed at registration (Feldman & Zrnic 2021).
//
// The conversion at one order proves no epsilon below that of a divergence of 0.
// At or above this floor AtOrder reports the bound at Order, so that an event
// calibrated to the ledger's whole budget fits it. Below the floor it reports the
// smallest bound over the grid, so that small budgets can be calibrated too.
//
// Epsilon does not increase as noise grows.
type AtOrder struct {
	Order float64 // of the grid
	Renyi *Renyi  // its cache may be shared by several accountants
}

// Epsilon implements Accountant.
func (a AtOrder) Epsilon(history Event, delta float64) (float64, error) {
	leaves, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := totalCost(leaves)
	if err != nil {
		return 0, err
	}
	best, err := a.Renyi.convert(leaves, delta)
	if err != nil {
		return 0, err
	}
	left := subDown(delta, cost.Delta)
	if floor := RenyiEpsilon(0, a.Order, left); best < floor {
		return best, nil
	}
	divergence, err := a.Renyi.divergence(leaves, a.Order)
	return RenyiEpsilon(divergence, a.Order, left), err
}
