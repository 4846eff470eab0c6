package privacy

// AtOrder accounts by the Renyi divergence at one order alone, as a RenyiFilter
// does. What was calibrated by it fits a budget of the same size whole.
type AtOrder struct {
	Order float64 // of the grid
	Renyi *Renyi  // remembers what subsampled Gaussians cost
}

// Epsilon implements Accountant.
func (a AtOrder) Epsilon(history Event, delta float64) (float64, error) {
	list, err := account(history, delta)
	if err != nil {
		return 0, err
	}
	cost, err := total(list)
	if err != nil {
		return 0, err
	}
	divergence, err := a.Renyi.At(history, a.Order)
	return RenyiEpsilon(divergence, a.Order, subDown(delta, cost.Delta)), err
}
