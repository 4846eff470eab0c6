package prox_test

import (
	"fmt"

	"dpsidecar/internal/dpsco/prox"
)

// A step of the lasso with an intercept, which is not penalised, on a ball: the first
// coefficient stands free, small ones become 0.
func ExampleGradientStep() {
	psi := prox.Sum{
		A: prox.ExceptFirst{Operator: prox.L1{Lambda: 0.5}},
		B: prox.L2Ball{Radius: 10},
	}
	w, gradient := []float64{1, 2, 0.1}, []float64{-2, 0, 0}
	prox.GradientStep(psi, w, gradient, 0.5)
	fmt.Printf("%.2f, penalty %.3f\n", w, psi.Value(w))
	// Output: [2.00 1.75 0.00], penalty 0.875
}
