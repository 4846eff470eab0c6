package mech

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// MagnitudeContract is the public grid of magnitudes 2^(k/2), Lowest <= k <= Highest, for
// N numbers.
type MagnitudeContract struct{ Lowest, Highest, N int }

// Check reports whether Magnitudes can be counted.
//
// Errors: wraps ErrParams and names the field.
func (c MagnitudeContract) Check() error {
	const most = 200
	switch {
	case !(c.Lowest >= -most && c.Lowest <= 0 && c.Highest >= 0 && c.Highest <= most):
		return fmt.Errorf("%w: magnitudes from 2^(%d/2) to 2^(%d/2); they must be between 2^-100 and 2^100, 1 among them", ErrParams, c.Lowest, c.Highest)
	case c.N < 1 || c.N > maxRecords:
		return fmt.Errorf("%w: N = %d; it must be in [1, 2^40]", ErrParams, c.N)
	}
	return nil
}

// bin returns the index, counted from the lowest, of the least magnitude that is not below |v|; false if
// there is none.
func (c MagnitudeContract) bin(v float64) (int, bool) {
	v = math.Abs(v)
	if !(v <= math.MaxFloat64) {
		return 0, false
	}
	fraction, exponent := math.Frexp(v) // v = fraction 2^exponent, fraction in [1/2, 1) or 0
	k := 2 * exponent
	switch {
	case v == 0:
		k = c.Lowest
	case fraction == .5:
		k -= 2
	case fraction <= math.Sqrt2/2:
		k--
	}
	return max(k, c.Lowest) - c.Lowest, k <= c.Highest
}

// Magnitudes counts numbers in the bins of a grid of magnitudes: a number is in the bin of the least
// magnitude that is not below its absolute value. Each of N records has one number. A number that is
// missing, or beyond the grid, is in no bin. Not safe for concurrent use.
type Magnitudes struct{ *magnitudes }

type magnitudes struct {
	sensitive
	contract MagnitudeContract
	records  int
	numbers  int64 // number of records whose number is neither missing nor infinite
	counts   []int64
}

// NewMagnitudes returns empty counts. It panics when c.Check refuses.
func NewMagnitudes(c MagnitudeContract) *Magnitudes {
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	return &Magnitudes{&magnitudes{contract: c, counts: make([]int64, c.Highest-c.Lowest+1)}}
}

// Add counts numbers, each of a record of its own. It panics beyond N of them.
func (m *Magnitudes) Add(v []float64) {
	if len(v) > m.contract.N-m.records {
		panic("mech: more records than N")
	}
	m.records += len(v)
	for _, x := range v {
		if math.Abs(x) <= math.MaxFloat64 {
			m.numbers++
		}
		if k, ok := m.contract.bin(x); ok {
			m.counts[k]++
		}
	}
}

// Quantile selects a magnitude near the quantile at Level by permute-and-flip. A magnitude is the more
// likely, the nearer the number of records up to it is to a target: Level times N, or Most times the number
// of records that have a number, if that is less. If Most equals Level, the target is the quantile of the
// numbers present. A magnitude one step further from 1 is preferred only if it is nearer to the target by 2
// Prior/Epsilon records. If Upward is set, magnitudes with more records up to them than the target are no
// worse than the quantile.
//
// Privacy: Epsilon-DP under replace-one (proof: quantile.md).
//
// Source: McKenna & Sheldon 2020, on ranks as in Smith 2011. Differs: the prior.
type Quantile struct {
	Epsilon, Level, Prior float64
	Upward                bool
	Most                  float64
}

// maxPriorRecords bounds Prior/Epsilon, so that scores fit an int64.
const maxPriorRecords = 0x1p52

// Check reports whether the parameters can be used.
//
// Errors: wraps ErrParams.
func (q Quantile) Check() error {
	if !(q.Level > 0 && q.Level < 1) {
		return fmt.Errorf("%w: Level = %v; it must be between 0 and 1", ErrParams, q.Level)
	}
	if !(q.Most > 0 && q.Most < 1) {
		return fmt.Errorf("%w: Most = %v; it must be between 0 and 1", ErrParams, q.Most)
	}
	if !(q.Prior >= 0 && q.Prior <= 64) {
		return fmt.Errorf("%w: Prior = %v; it must be in [0, 64]", ErrParams, q.Prior)
	}
	if err := checkEpsilon(q.Epsilon); err != nil {
		return err
	}
	if !(q.Prior <= maxPriorRecords*q.Epsilon) {
		return fmt.Errorf("%w: Prior = %v; with Epsilon = %v it must be at most %v", ErrParams, q.Prior, q.Epsilon, maxPriorRecords*q.Epsilon)
	}
	return nil
}

// Event returns the cost of one Release.
func (q Quantile) Event() privacy.Event { return privacy.Pure{Epsilon: q.Epsilon} }

// Release returns the selected magnitude and leaves m empty. It panics when q.Check refuses.
func (q Quantile) Release(m *Magnitudes, src *Source) float64 {
	if err := q.Check(); err != nil {
		panic(err.Error())
	}
	scores := q.scores(m.magnitudes)
	from := src.begin(q, m.contract, hook.Scores{Values: scores, Bound: 1})
	rate := rational(q.Epsilon)
	selected := []float64{float64(m.contract.Lowest + permuteAndFlip(scores, rate.Quo(rate, big.NewRat(2, 1)), from))}
	src.end(selected)
	m.clear()
	return math.Pow(2, selected[0]/2)
}

// clear removes all records.
func (m *magnitudes) clear() {
	clear(m.counts)
	m.records, m.numbers = 0, 0
}

// levelDigits is the number of binary digits to which a share of the numbers is rounded.
const levelDigits = 20

// aim returns the target number of records up to the selected magnitude. The product with m.numbers is an
// integer computation, so that one record moves it by at most 1; a float64 product could move by 2.
func (q Quantile) aim(m *magnitudes) int64 {
	return min(int64(q.Level*float64(m.contract.N)), m.numbers*int64(q.Most*(1<<levelDigits))>>levelDigits)
}

// scores returns the score of every magnitude, an integer that one record moves by at most 1. The best
// magnitude has the least score.
func (q Quantile) scores(m *magnitudes) []int64 {
	c, counts := m.contract, m.counts
	scores := make([]int64, len(counts))
	aim, below := q.aim(m), int64(0)
	for i, count := range counts {
		below += count
		miss := below - aim
		if q.Upward {
			miss = min(miss, 0)
		}
		steps := math.Abs(float64(c.Lowest + i))
		scores[i] = max(miss, -miss) + int64(2*q.Prior/q.Epsilon*steps)
	}
	return scores
}

// permuteAndFlip returns the index of a small score: each score is kept with probability exp(-rate d),
// where d is its difference to the least score, and one of those kept is drawn uniformly.
func permuteAndFlip(scores []int64, rate *big.Rat, src *Source) int {
	least := slices.Min(scores)
	var kept []int
	for i, s := range scores {
		x := new(big.Rat).SetInt64(s - least)
		if src.survives(x.Mul(x, rate)) {
			kept = append(kept, i)
		}
	}
	return kept[src.Uint64n(uint64(len(kept)))]
}

// survives returns true with probability exp(-x), exactly, for x >= 0. It divides x into parts that
// BelowExp can decide.
func (s *Source) survives(x *big.Rat) bool {
	stretch := power(20)
	for ; x.Cmp(stretch) > 0; x = new(big.Rat).Sub(x, stretch) {
		if !s.Uniform().belowMinusExp(stretch) {
			return false
		}
	}
	return s.Uniform().belowMinusExp(x)
}

// belowMinusExp reports, exactly, whether the number is below exp(-x), 0 <= x <= 2^20.
func (u *Uniform) belowMinusExp(x *big.Rat) bool {
	near, _ := x.Float64()
	slack := near * 0x1p-50
	if u.SurelyAboveExp(slack - near) {
		return false
	}
	return u.SurelyBelowExp(-near-slack) || u.BelowExp(big.NewRat(1, 1), new(big.Rat).Neg(x))
}
