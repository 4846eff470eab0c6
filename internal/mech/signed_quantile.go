package mech

import (
	"math"
	"math/big"
	"math/bits"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// SignedMagnitudes sums the weights of numbers in the bins of a grid: a number is in the bin of the least
// number of the grid that is not below it. The grid consists of a MagnitudeContract's magnitudes with
// either sign; each of N records has one number and one weight. A number that is missing or infinite is
// left out. Not safe for concurrent use.
type SignedMagnitudes struct{ *signedMagnitudes }

type signedMagnitudes struct {
	sensitive
	contract MagnitudeContract
	records  int
	weight   int64   // total of all numbers, in steps of 1/fullWeight
	weights  []int64 // by bin
}

// fullWeight is the number of steps in a weight of 1; weights are rounded down to steps.
const fullWeight = 1 << 20

// stepsOf converts a weight to steps; NaN becomes 0.
func stepsOf(weight float64) int64 {
	if !(weight > 0) {
		return 0
	}
	return int64(fullWeight * min(weight, 1))
}

// NewSignedMagnitudes returns empty sums. It panics when c.Check refuses.
func NewSignedMagnitudes(c MagnitudeContract) *SignedMagnitudes {
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	return &SignedMagnitudes{&signedMagnitudes{contract: c, weights: make([]int64, 2*c.magnitudes())}}
}

// magnitudes returns the number of magnitudes.
func (c MagnitudeContract) magnitudes() int { return c.Highest - c.Lowest + 1 }

// signedBin returns the index, counted from the lowest, of the least number of the grid that is not below
// v; false if there is none.
func (c MagnitudeContract) signedBin(v float64) (int, bool) {
	if v > 0 {
		k, ok := c.bin(v)
		return c.magnitudes() + k, ok
	}
	if !(v >= -math.MaxFloat64) {
		return 0, false
	}
	fraction, exponent := math.Frexp(-v)
	k := 2*exponent - 2 // exponent of the largest magnitude that is not above -v
	switch {
	case v == 0:
		k = c.Lowest - 1
	case fraction > math.Sqrt2/2:
		k++
	}
	return c.Highest - min(max(k, c.Lowest-1), c.Highest), true
}

// signed returns the number at an index of the grid, and the k of its magnitude 2^(k/2).
func (c MagnitudeContract) signed(place int) (v float64, k int) {
	if k = c.Lowest + place - c.magnitudes(); k >= c.Lowest {
		return math.Pow(2, float64(k)/2), k
	}
	k = c.Highest - place
	return -math.Pow(2, float64(k)/2), k
}

// Add counts numbers, each of a record of its own, with weights that are clamped to [0, 1]; nil weights are
// 1 for all. It panics beyond N records, and if there are weights but not one for each number.
func (m *SignedMagnitudes) Add(v, weights []float64) {
	if len(v) > m.contract.N-m.records || len(weights) > 0 && len(weights) != len(v) {
		panic("mech: more records than N, or than weights")
	}
	m.records += len(v)
	for i, x := range v {
		weight := int64(fullWeight)
		if len(weights) > 0 {
			weight = stepsOf(weights[i])
		}
		if !(math.Abs(x) <= math.MaxFloat64) {
			continue
		}
		m.weight += weight
		if k, ok := m.contract.signedBin(x); ok {
			m.weights[k] += weight
		}
	}
}

// SignedQuantile selects a number near the weighted quantile at Level of the numbers present, as Quantile
// does. A number whose magnitude is one step further from 1 is preferred only if it is nearer to the target
// by the weight of 2 Prior/Epsilon records of weight 1.
//
// Privacy: Epsilon-DP under replace-one, where the weight is part of the record (proof: quantile.md,
// Theorem for weights).
type SignedQuantile struct {
	Epsilon, Level, Prior float64
}

// Check reports whether the parameters can be used.
//
// Errors: wraps ErrParams.
func (q SignedQuantile) Check() error { return DisjointQuantile(q).Check() }

// Event returns the cost of one Release.
func (q SignedQuantile) Event() privacy.Event { return privacy.Pure{Epsilon: q.Epsilon} }

// Release returns the selected number and leaves m empty. It panics when q.Check refuses.
func (q SignedQuantile) Release(m *SignedMagnitudes, src *Source) float64 {
	if err := q.Check(); err != nil {
		panic(err.Error())
	}
	scores := q.scores(m.signedMagnitudes)
	from := src.begin(q, m.contract, hook.Scores{Values: scores, Bound: fullWeight})
	v, _ := m.contract.signed(permuteAndFlip(scores, q.rate(), from))
	selected := []float64{v}
	src.end(selected)
	clear(m.weights)
	m.records, m.weight = 0, 0
	return selected[0]
}

// rate returns the rate for permuteAndFlip: a record moves a score by at most fullWeight.
func (q SignedQuantile) rate() *big.Rat {
	rate := rational(q.Epsilon)
	return rate.Quo(rate, big.NewRat(2*fullWeight, 1))
}

// aim returns the target weight up to the selected number: the floor of an exact product.
func (q SignedQuantile) aim(m *signedMagnitudes) int64 {
	high, low := bits.Mul64(uint64(m.weight), uint64(q.Level*(1<<levelDigits)))
	return int64(high<<(64-levelDigits) | low>>levelDigits)
}

// scores returns the score of every number of the grid, an integer that one record moves by at most
// fullWeight. The best number has the least score.
func (q SignedQuantile) scores(m *signedMagnitudes) []int64 {
	scores := make([]int64, len(m.weights))
	aim, below := q.aim(m), int64(0)
	for i, weight := range m.weights {
		below += weight
		miss := below - aim
		_, k := m.contract.signed(i)
		scores[i] = max(miss, -miss) + int64(min(maxPrior, 2*fullWeight*q.Prior/q.Epsilon*math.Abs(float64(k))))
	}
	return scores
}
