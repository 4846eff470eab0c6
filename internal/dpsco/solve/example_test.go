package solve_test

import (
	"context"
	"fmt"

	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
)

// quadratic answers with the gradient of |w - (3, 0.1)|^2 / 2; a private oracle
// answers with a noisy one.
type quadratic struct{}

func (quadratic) Gradient(dst []float64, q solve.Query) {
	dst[0], dst[1] = q.W[0]-3, q.W[1]-.1
}

func ExampleSolver() {
	s := solve.GD{Steps: 100, Rate: .5}
	fmt.Println("asks for", s.Uses()[0].Calls, "gradients")

	w := []float64{0, 0}
	if err := s.Solve(context.Background(), w, quadratic{}, prox.L1{Lambda: 1}); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.3f\n", w)
	// Output:
	// asks for 100 gradients
	// [2.000 0.000]
}
