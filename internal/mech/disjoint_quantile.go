package mech

import (
	"fmt"
	"math"
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// DisjointQuantile selects, for each of disjoint parts of N numbers, a magnitude near the quantile at Level
// of the part's numbers, as Quantile does. A number belongs to one part or to none, determined by its own
// record; the number of records of a part is private.
//
// Privacy: Epsilon-DP under replace-one, with N and the number of parts public, also if a number is
// replaced by one of another part (proof: quantile.md, Theorem for parts).
type DisjointQuantile struct {
	Epsilon, Level, Prior float64
}

// Check reports whether the parameters can be used.
//
// Errors: wraps ErrParams.
func (q DisjointQuantile) Check() error {
	if !(q.Level >= 0.001 && q.Level <= 0.999) {
		return fmt.Errorf("%w: Level = %v; it must be in [0.001, 0.999]", ErrParams, q.Level)
	}
	if !(q.Prior >= 0 && q.Prior <= 64) {
		return fmt.Errorf("%w: Prior = %v; it must be in [0, 64]", ErrParams, q.Prior)
	}
	return checkEpsilon(q.Epsilon)
}

// Event returns the cost of one Release.
func (q DisjointQuantile) Event() privacy.Event { return privacy.Pure{Epsilon: q.Epsilon} }

// Release returns the magnitude selected for each part, and leaves the parts empty. It panics when q.Check
// refuses, if parts have different contracts, and if they have more than N records in total.
func (q DisjointQuantile) Release(parts []*Magnitudes, src *Source) []float64 {
	if err := q.Check(); err != nil {
		panic(err.Error())
	}
	scores, records := make([][]int64, len(parts)), 0
	for g, m := range parts {
		if records += m.records; m.contract != parts[0].contract || records > m.contract.N {
			panic("mech: parts of other contracts, or more records than N")
		}
		scores[g] = q.scores(m.magnitudes)
	}
	if len(parts) == 0 {
		panic("mech: no parts")
	}
	contract := parts[0].contract
	from := src.begin(q, [2]any{contract, len(parts)}, hook.DisjointScores{Parts: scores, Bound: movedRanges * q.step()})
	selected := make([]float64, len(parts))
	for g := range parts {
		selected[g] = float64(contract.Lowest + permuteAndFlip(scores[g], q.rate(), from))
	}
	src.end(selected)
	for g, m := range parts {
		m.clear()
		selected[g] = math.Pow(2, selected[g]/2)
	}
	return selected
}

// aim returns Level in units of 2^-levelDigits.
func (q DisjointQuantile) aim() int64 { return int64(q.Level * (1 << levelDigits)) }

// step bounds the change of a part's scores when a number enters or leaves it.
func (q DisjointQuantile) step() int64 { return max(q.aim(), 1<<levelDigits-q.aim()) }

// movedRanges bounds, in steps, the sum over the parts of the range of the changes that one record makes to
// a part's scores: they change between -1 and 1 step, in the part that the record leaves and in the one
// that it enters.
const movedRanges = 4

// rate returns the rate for permuteAndFlip.
func (q DisjointQuantile) rate() *big.Rat {
	rate := rational(q.Epsilon)
	return rate.Quo(rate, new(big.Rat).SetInt64(movedRanges*q.step()))
}

// maxPrior bounds the term of a score for the distance from magnitude 1, so that scores fit an int64.
const maxPrior = 0x1p60

// scores returns the score of every magnitude for a part; the best magnitude has the least score.
func (q DisjointQuantile) scores(m *magnitudes) []int64 {
	scores, below := make([]int64, len(m.counts)), int64(0)
	for i, count := range m.counts {
		below += count
		miss := below<<levelDigits - q.aim()*m.numbers
		steps := math.Abs(float64(m.contract.Lowest + i))
		scores[i] = max(miss, -miss) + int64(min(maxPrior, float64(movedRanges*q.step())*q.Prior/q.Epsilon*steps))
	}
	return scores
}
