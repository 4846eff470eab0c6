package privacy

import "testing"

// An event calibrated to a filter's whole budget fits the filter, a small budget is
// calibrated too, and epsilon does not increase as noise grows.
func TestAtOrderServesWholeAndSmallBudgets(t *testing.T) {
	renyi := new(Renyi)
	whole := Budget{5, 1e-5}
	filter, err := newRenyiFilter(whole, Reserve(whole.Delta), RecommendedOrder(whole), renyi)
	if err != nil {
		t.Fatal(err)
	}
	a := AtOrder{filter.order, renyi}
	batches := func(z float64) (Event, error) { return Repeat{100, Sampled{0.01, Gaussian{z}}}, nil }
	for _, eps := range []float64{0.1, 1, 2, 3, 5} {
		b := Budget{eps, whole.Delta - Reserve(whole.Delta)}
		z, err := Calibrate(a, b, batches)
		if err != nil {
			t.Fatalf("epsilon %v: %v", eps, err)
		}
		e, _ := batches(z)
		if best, err := renyi.Epsilon(e, b.Delta); err != nil || best > eps {
			t.Errorf("epsilon %v: proved are %v, %v", eps, best, err)
		}
		cost, err := filter.cost(e)
		if err != nil || filter.admit(spend{}, cost) != nil {
			t.Errorf("epsilon %v does not fit the whole budget: %v of %v, %v", eps, cost, filter.caps(), err)
		}
	}
	last := 1e9
	for z := 0.4; z < 1e4; z *= 1.1 {
		e, _ := batches(z)
		eps, err := a.Epsilon(e, 1e-6)
		if err != nil || eps > last {
			t.Errorf("at noise %v epsilon is %v after %v, %v", z, eps, last, err)
		}
		last = eps
	}
}
