package mean

import (
	"errors"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// gaussian is normal noise on a sum under one contract: all that the estimators
// do who need nothing to begin with.
type gaussian struct {
	mech.Gaussian
	contract mech.Contract
}

func newGaussian(z float64, c mech.Contract) (gaussian, error) {
	g := gaussian{mech.Gaussian{NoiseMultiplier: z}, c}
	return g, errors.Join(g.Check(), c.Check())
}

// Begin implements Estimator.
func (gaussian) Begin() privacy.Event { return nil }

// adder is a Sum, or another accumulator that parts of the rows are added to at
// the same time.
type adder[A any] interface {
	Fork() A
	Merge(A)
}

// collect adds all rows to whole: visit returns what adds a block to one of its
// parts.
func collect[A adder[A]](whole A, r Rows, visit func(part A) func(Block)) {
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
