package ledger

import (
	"fmt"
	"math"
	"strconv"

	"dpsidecar/internal/privacy"
)

// Cost is the cost of an event in every unit of account, in the form that the database takes: shortest
// decimals, nil if there is no bound. Renyi has one value for every order of the grid.
type Cost struct {
	Epsilon *string   `json:"epsilon"`
	Rho     *string   `json:"rho"`
	Delta   *string   `json:"delta"`
	Renyi   []*string `json:"renyi"`
}

// Price returns the cost of e.
//
// Errors: those of privacy.Price.
func Price(e privacy.Event) (Cost, error) {
	cost, err := privacy.Price(e)
	if err != nil {
		return Cost{}, fmt.Errorf("ledger: price: %w", err)
	}
	curve, err := renyi.Curve(e)
	if err != nil {
		return Cost{}, fmt.Errorf("ledger: curve: %w", err)
	}
	c := Cost{decimal(cost.Epsilon), decimal(cost.Rho), decimal(cost.Delta), make([]*string, len(curve))}
	for i, v := range curve {
		c.Renyi[i] = decimal(v)
	}
	return c, nil
}

// renyi caches the cost of subsampled Gaussians, which repeats when a job is planned again.
var renyi privacy.Renyi

// decimal formats a cost as the shortest decimal that reads back as v, which is also how the database
// writes an epsilon that a person typed; nil for an infinite cost.
func decimal(v float64) *string {
	if math.IsInf(v, 1) {
		return nil
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	return &s
}
