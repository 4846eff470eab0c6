package mech

import (
	"math/big"

	"dpsidecar/internal/privacy"
)

// PermuteAndFlip selects one of the D coordinates of a Bounded, preferring small
// sums. A score in [0, c] enters as score - c/2 under LInf with Bound c/2, so
// that one record moves it by at most c = 2 Bound.
//
// Privacy: Epsilon-DP (proof: permuteflip.md).
//
// Source: McKenna & Sheldon 2020.
type PermuteAndFlip struct{ Epsilon float64 }

// Check reports whether epsilon can be used.
//
// Errors: wraps ErrParams.
func (p PermuteAndFlip) Check() error { return checkEpsilon(p.Epsilon) }

// Event returns what one Release costs.
func (p PermuteAndFlip) Event() privacy.Event { return privacy.Pure(p) }

// Release returns the selected index. All coins are flipped, so that the time
// does not tell which came up first. It panics when p.Check refuses or b was
// released before.
func (p PermuteAndFlip) Release(b Bounded, src *Source) int {
	if err := p.Check(); err != nil {
		panic(err.Error())
	}
	contract, scores := b.unseal()
	best := scores[0]
	for _, score := range scores {
		best = min(best, score)
	}
	rate := p.rate(contract)
	selected := -1
	for _, j := range NewDeck(len(scores), src).Deal(len(scores)) {
		x := new(big.Rat).SetInt64(scores[j] - best)
		if head := src.BernoulliExp(x.Mul(x, rate)); head && selected < 0 {
			selected = j
		}
	}
	return selected
}

// rate returns Epsilon / (2 sensitivity), per grid step.
func (p PermuteAndFlip) rate(c reach) *big.Rat {
	epsilon := new(big.Rat).SetFloat64(p.Epsilon)
	return epsilon.Quo(epsilon, new(big.Rat).SetInt(new(big.Int).Lsh(c.linf(), 1)))
}
