package privacy

// AtOrder accounts as a RenyiFilter of one order would like it: by the
// divergence at that order, wherever this proves more than the least that it
// can, and by the best order of the grid below. What was calibrated by it to a
// filter's whole budget fits the filter; what asks for less than the order can
// prove is calibrated all the same.
//
// It never increases as noise grows: the bound at the order falls towards the
// epsilon of an event that releases nothing, from where the grid's takes over.
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
	best, err := a.Renyi.Epsilon(history, delta)
	if err != nil {
		return 0, err
	}
	left := subDown(delta, cost.Delta)
	if best < RenyiEpsilon(0, a.Order, left) {
		return best, nil
	}
	divergence, err := a.Renyi.At(history, a.Order)
	return RenyiEpsilon(divergence, a.Order, left), err
}
