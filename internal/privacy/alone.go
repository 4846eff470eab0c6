package privacy

import (
	"math"
	"slices"
)

// Alone is the accountant of a request that is the only charge of its account. If its event is normal noise
// on all rows and nothing else, the exact trade-off function of a Gaussian gives a smaller epsilon than
// Concentrated. A ledger admits such a request, as an event of the kind Only, by a filter of its own, after
// which it admits nothing that its other filters would not (internal/ledger/filters.md).
type Alone struct{}

// Epsilon implements Accountant.
func (Alone) Epsilon(history Event, delta float64) (float64, error) {
	epsilon, err := Concentrated{}.Epsilon(history, delta)
	if err != nil || !IsNoise(history) {
		return epsilon, err
	}
	leaves, err := leavesOf(history)
	mu2, _ := gaussianSquare(leaves)
	return math.Min(epsilon, NoiseEpsilon(mu2, delta)), err
}

// IsNoise reports whether e is normal noise on all rows, any number of times, and nothing else.
func IsNoise(e Event) bool {
	switch e := e.(type) {
	case Gaussian:
		return true
	case Repeat:
		return IsNoise(e.Event)
	case Compose:
		return !slices.ContainsFunc(e, func(inner Event) bool { return !IsNoise(inner) })
	}
	return false
}

// roundingShare times mu^2 bounds what delta loses because noise is discrete, for all releases of this
// program with the given mu^2, up to maxNoiseSquare (proof: internal/mech/rounding.md).
const (
	roundingShare  = 0x1p-35
	maxNoiseSquare = 128
)

// NoiseEpsilon returns an epsilon, rounded upward, for which discrete normal noise with the given mu^2, the
// sum of the 1/z^2 of all its releases, is (epsilon, delta)-DP if nothing else is released; +Inf if none is
// proved. dp_int.noise_epsilon is the same in the database, which evaluates the trade-off function only for
// epsilon >= mu + mu^2/2.
//
// Source: Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2022, Corollary 3.3.
func NoiseEpsilon(mu2, delta float64) float64 {
	if !(mu2 <= maxNoiseSquare) {
		return math.Inf(1)
	}
	epsilon := gaussianEpsilon(mu2, subDown(delta*(1-1e-12), mulUp(mu2, roundingShare)))
	return math.Max(epsilon, addUp(up(math.Sqrt(mu2)), mu2/2))
}
