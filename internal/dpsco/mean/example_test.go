package mean_test

import (
	"fmt"

	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/mech"
)

// table is rows in memory, as one block. Row i is c[i] times row i of x.
func table(x [][]float64, c []float64) mean.Rows {
	return mean.Rows{N: len(c), D: len(x), Range: func(visitor func() func(mean.Block)) {
		visitor()(mean.Block{X: mech.Rows{X: x}, C: c})
	}}
}

// A method is calibrated from public numbers, states what an estimate costs, and only
// then sees rows. Half of them are out of all proportion: they count as if they had
// length 2. The noise of this estimate has a standard deviation of 2 * 2 / n.
func ExampleMethod() {
	const n = 1_000_000
	estimator, err := mean.Clip{Norm: 2}.At(1, n, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%T %+v\n", estimator.Event(), estimator.Event())

	x, ones := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], ones[i] = 1, 1
		if i%2 == 0 {
			x[i] = 1e300
		}
	}
	answer := make([]float64, 1)
	estimator.Estimate(answer, table([][]float64{x}, ones), mean.Hints{}, mech.NewSource())
	fmt.Printf("%.3f\n", answer)

	// Output:
	// privacy.Gaussian {NoiseMultiplier:1}
	// [1.500]
}
