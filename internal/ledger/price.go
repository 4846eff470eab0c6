package ledger

import (
	"fmt"
	"math"
	"strconv"

	"dpsidecar/internal/privacy"
)

// Cost is what an event costs in every unit of account, as the database takes
// it: shortest decimals, nil where there is no bound. Renyi has one for every
// order of the grid.
type Cost struct {
	Epsilon *string   `json:"epsilon"`
	Rho     *string   `json:"rho"`
	Delta   *string   `json:"delta"`
	Renyi   []*string `json:"renyi"`
}

// Price returns what e costs.
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

// renyi remembers what subsampled Gaussians cost: a job that is planned again
// costs the same.
var renyi privacy.Renyi

// decimal writes a cost as the shortest decimal that reads back as v, which is
// how the database writes the epsilon a person typed; NULL where there is none.
func decimal(v float64) *string {
	if math.IsInf(v, 1) {
		return nil
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	return &s
}
