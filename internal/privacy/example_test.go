package privacy_test

import (
	"fmt"

	"dpsidecar/internal/privacy"
)

// Price says what an event costs in each unit of account. Gaussian noise alone is
// not epsilon-DP for any epsilon; it is rho-zCDP.
func ExamplePrice() {
	cost, err := privacy.Price(privacy.Compose{
		privacy.Repeat{Count: 10, Event: privacy.Gaussian{NoiseMultiplier: 20}},
		privacy.Pure{Epsilon: 0.1},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("epsilon %v, rho %.4f\n", cost.Epsilon, cost.Rho)
	// Output: epsilon +Inf, rho 0.0175
}

// An accountant converts the cost of a whole history to epsilon at a delta.
func ExampleAccountant() {
	history := privacy.Repeat{Count: 100, Event: privacy.Sampled{Rate: 0.01, Event: privacy.Gaussian{NoiseMultiplier: 2}}}
	for _, a := range []privacy.Accountant{privacy.Concentrated{}, new(privacy.Best)} {
		epsilon, err := a.Epsilon(history, 1e-6)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%T: %.2f\n", a, epsilon)
	}
	// Output:
	// privacy.Concentrated: 37.42
	// *privacy.Best: 0.34
}

// Calibrate finds the least noise with which ten steps of a descent fit a budget.
func ExampleCalibrate() {
	steps := func(z float64) (privacy.Event, error) {
		return privacy.Repeat{Count: 10, Event: privacy.Gaussian{NoiseMultiplier: z}}, nil
	}
	z, err := privacy.Calibrate(new(privacy.Best), privacy.Budget{Epsilon: 1, Delta: 1e-6}, steps)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("noise of %.2f times the sensitivity\n", z)
	// Output: noise of 13.36 times the sensitivity
}

// Events have one form in the ledger, which is read strictly.
func ExampleMarshalEvent() {
	text, err := privacy.MarshalEvent(privacy.Repeat{Count: 2, Event: privacy.Pure{Epsilon: 0.1}})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(string(text))
	// Output: {"repeat":{"count":2,"event":{"pure":{"epsilon":0.1}}}}
}
