package mean

import (
	"errors"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// gaussianNoise is normal noise on a sum under one contract, shared by the estimators whose only
// release is such a sum.
type gaussianNoise struct {
	mech.Gaussian
	contract mech.Contract
}

func newGaussianNoise(z float64, c mech.Contract) (gaussianNoise, error) {
	g := gaussianNoise{mech.Gaussian{NoiseMultiplier: z}, c}
	return g, errors.Join(g.Check(), c.Check())
}

// Begin implements Estimator.
func (gaussianNoise) Begin() privacy.Event { return nil }

// accumulator adds up rows, in parts that run concurrently: a mech.Sum, for instance.
type accumulator[A any] interface {
	Fork() A
	Merge(A)
}

// accumulate adds all rows to whole. visit returns the function that adds a block to one part, which
// is owned by one goroutine.
func accumulate[A accumulator[A]](whole A, r Rows, visit func(part A) func(Block)) {
	var parts []A
	r.Range(func() func(Block) {
		part := whole.Fork()
		parts = append(parts, part)
		return visit(part)
	})
	for _, part := range parts {
		whole.Merge(part)
	}
}
