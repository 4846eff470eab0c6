package privacy

import (
	"fmt"
	"math"
)

// Budget is a bound that a caller sets: (Epsilon, Delta)-DP under replace-one.
type Budget struct{ Epsilon, Delta float64 }

// Reserve returns the part of a budget's delta that is kept for the deltas of
// mechanisms; the rest serves the conversion of zCDP or Renyi divergences to
// epsilon. It is a tenth, less a few units in the last place, so that as a decimal
// it is at most a tenth of delta as a decimal, the amount that the ledger keeps. An
// event calibrated to (epsilon, delta - Reserve(delta)) whose own deltas are at most
// Reserve(delta) therefore fits a ledger's whole budget of (epsilon, delta).
func Reserve(delta float64) float64 { return delta / 10 * (1 - 0x1p-50) }

// Cost is a proved bound for an event: it is (Epsilon, Delta)-DP and Delta-approximately Rho-zCDP. Epsilon
// or Rho is +Inf if there is no such bound.
type Cost struct{ Epsilon, Rho, Delta float64 }

// Price bounds the cost of e, every figure rounded upward.
//
//	Gaussian       rho = 1 / (2 z^2)                       Bun & Steinke 2016
//	Pure           rho = eps tanh(eps/2)                   sup over a of the Renyi divergence of randomised response over a
//	BoundedRange   rho = min(eps^2/8, eps tanh(eps/2))     Cesar & Rogers 2021; it is Pure too
//	Approx         rho as Pure, delta-approximately        Bun & Steinke 2016, section 8
//	Repeat         Count times its event, Compose the sum: basic and zCDP composition, deltas add
//	Sampled        its event's cost: without replacement, neighbours couple to batches that are equal
//	               or neighbours, and pure DP, (eps, delta)-DP and Renyi divergence are quasi-convex.
//	               Amplification is not claimed: it shows only at finite Renyi orders
//	Parallel       its event's cost: one part holds the replaced record
//	Only           its event's cost
//
// Errors: ErrEvent for a parameter out of range, ErrUnsupported for a kind
// without a theorem.
func Price(e Event) (Cost, error) {
	if e == nil {
		return Cost{}, fmt.Errorf("%w: nil", ErrEvent)
	}
	if err := e.check(); err != nil {
		return Cost{}, err
	}
	switch e := e.(type) {
	case Gaussian:
		return Cost{Epsilon: math.Inf(1), Rho: gaussianRho(e.NoiseMultiplier)}, nil
	case Pure:
		return Cost{Epsilon: e.Epsilon, Rho: pureRho(e.Epsilon)}, nil
	case BoundedRange:
		return Cost{Epsilon: e.Epsilon, Rho: math.Min(pureRho(e.Epsilon), mulUp(e.Epsilon, e.Epsilon/8))}, nil
	case ZCDP:
		return Cost{Epsilon: math.Inf(1), Rho: e.Rho}, nil
	case Approx:
		return Cost{Epsilon: e.Epsilon, Rho: pureRho(e.Epsilon), Delta: e.Delta}, nil
	case Repeat:
		return priceRepeat(e)
	case Sampled:
		return Price(e.Event)
	case Parallel:
		return Price(e.Event)
	case Only:
		return Price(e.Event)
	case Compose:
		return priceCompose(e)
	}
	return Cost{}, fmt.Errorf("%w: %T", ErrUnsupported, e)
}

func priceRepeat(e Repeat) (Cost, error) {
	c, err := Price(e.Event)
	if err != nil {
		return Cost{}, err
	}
	return c.times(e.runs()), nil
}

func priceCompose(events Compose) (Cost, error) {
	var sum Cost
	for _, e := range events {
		c, err := Price(e)
		if err != nil {
			return Cost{}, err
		}
		sum = sum.plus(c)
	}
	return sum, nil
}

// runs returns Count as a float64, rounded upward.
func (e Repeat) runs() float64 {
	k := float64(e.Count)
	if e.Count > 1<<53 {
		k = up(k)
	}
	return k
}

func (c Cost) times(k float64) Cost {
	if k == 1 {
		return c
	}
	return Cost{mulUp(k, c.Epsilon), mulUp(k, c.Rho), mulUp(k, c.Delta)}
}

func (c Cost) plus(d Cost) Cost {
	return Cost{addUp(c.Epsilon, d.Epsilon), addUp(c.Rho, d.Rho), addUp(c.Delta, d.Delta)}
}

// gaussianRho bounds 1/(2z^2) from above.
func gaussianRho(z float64) float64 { return divUp(0.5, mulDown(z, z)) }

// pureRho bounds eps tanh(eps/2) from above. The factor covers an error of 32 units in the last place in
// math.Tanh, which documents no bound and has an error of about one.
func pureRho(eps float64) float64 {
	return mulUp(eps, math.Tanh(eps/2)*(1+0x1p-47))
}
