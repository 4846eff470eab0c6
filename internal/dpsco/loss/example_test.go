package loss_test

import (
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/loss"
)

// The gradient of a row is the derivative times the row. Huber's loss bounds it
// however far off the target is, and a row that cannot be used contributes nothing.
func ExampleLoss() {
	predictions, targets := []float64{1, 1, 1, 1}, []float64{0.5, 4, -1e300, math.NaN()}
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 1.5}} {
		derivatives := make([]float64, len(targets))
		loss.Derivs(l, derivatives, predictions, targets)
		fmt.Printf("%T, Lipschitz %v: %v\n", l, l.Lipschitz(), derivatives)
	}
	// Output:
	// loss.Squared, Lipschitz +Inf: [0.5 -3 1e+300 0]
	// loss.Huber, Lipschitz 1.5: [0.5 -1.5 1.5 0]
}
