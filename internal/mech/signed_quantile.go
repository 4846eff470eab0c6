package mech

import (
	"math"
	"math/big"
	"math/bits"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// SignedMagnitudes sums the weights of those of N numbers, one a record, that are up to each of the numbers of a grid: of a
// MagnitudeContract's magnitudes, with either sign. A number that is missing or infinite counts for none. Not safe for concurrent use.
type SignedMagnitudes struct{ *signedMagnitudes }

type signedMagnitudes struct {
	sensitive
	contract MagnitudeContract
	records  int
	weight   int64   // of all numbers, in steps of 1/fullWeight
	weights  []int64 // by the least number of the grid that is not below
}

// fullWeight is a weight of 1, in the steps that weights are rounded down to.
const fullWeight = 1 << 20

// stepsOf is a weight in these steps: none of NaN.
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

// magnitudes is how many there are.
func (c MagnitudeContract) magnitudes() int { return c.Highest - c.Lowest + 1 }

// signedBin returns which number of the grid is the least that is not below v, counted from the lowest; false where there is none.
func (c MagnitudeContract) signedBin(v float64) (int, bool) {
	if v > 0 {
		k, ok := c.bin(v)
		return c.magnitudes() + k, ok
	}
	if !(v >= -math.MaxFloat64) {
		return 0, false
	}
	fraction, exponent := math.Frexp(-v)
	k := 2*exponent - 2 // of the largest magnitude that is not above -v
	switch {
	case v == 0:
		k = c.Lowest - 1
	case fraction > math.Sqrt2/2:
		k++
	}
	return c.Highest - min(max(k, c.Lowest-1), c.Highest), true
}

// signed is the number at a place of the grid, and k of its magnitude 2^(k/2).
func (c MagnitudeContract) signed(place int) (v float64, k int) {
	if k = c.Lowest + place - c.magnitudes(); k >= c.Lowest {
		return math.Pow(2, float64(k)/2), k
	}
	k = c.Highest - place
	return -math.Pow(2, float64(k)/2), k
}

// Add counts numbers, each of a record of its own, with weights that are taken for 0 below and for 1 above; nil is 1 for all. It panics
// beyond N of them.
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

// SignedQuantile selects a number near the quantile of a Level of the numbers that there are, by their weights, as Quantile does. One whose
// magnitude is a step further from 1 must win 2 Prior/Epsilon records of weight 1 by it.
//
// Privacy: Epsilon-DP under replace-one, weights being a record's own (proof: quantile.md, Theorem for weights).
type SignedQuantile struct {
	Epsilon, Level, Prior float64
}

// Check reports whether the parameters can be used.
//
// Errors: wraps ErrParams.
func (q SignedQuantile) Check() error { return DisjointQuantile(q).Check() }

// Event returns what one Release costs.
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

// rate is that of permuteAndFlip: a record moves a score by fullWeight at most.
func (q SignedQuantile) rate() *big.Rat {
	rate := rational(q.Epsilon)
	return rate.Quo(rate, big.NewRat(2*fullWeight, 1))
}

// aim is how much weight is to be up to the number: the floor of an exact product.
func (q SignedQuantile) aim(m *signedMagnitudes) int64 {
	high, low := bits.Mul64(uint64(m.weight), uint64(q.Level*(1<<levelDigits)))
	return int64(high<<(64-levelDigits) | low>>levelDigits)
}

// scores returns how bad every number of the grid is: an integer that one record moves by at most fullWeight.
func (q SignedQuantile) scores(m *signedMagnitudes) []int64 {
	scores := make([]int64, len(m.weights))
	aim, below := q.aim(m), int64(0)
	for i, weight := range m.weights {
		below += weight
		miss := below - aim
		_, k := m.contract.signed(i)
		scores[i] = max(miss, -miss) + int64(min(mostPrior, 2*fullWeight*q.Prior/q.Epsilon*math.Abs(float64(k))))
	}
	return scores
}
