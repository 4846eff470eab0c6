package mech

import (
	"fmt"
	"math"
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// DisjointQuantile selects for each of disjoint parts of N numbers a magnitude near the quantile of a Level of the
// numbers that the part has, as Quantile does. A number belongs to one part or to none, by a value of its own; how many a part has is not public.
//
// Privacy: Epsilon-DP under replace-one, N and the number of parts being public, also where a number is replaced by one of
// another part (proof: quantile.md, Theorem for parts).
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

// Event returns what one Release costs.
func (q DisjointQuantile) Event() privacy.Event { return privacy.Pure{Epsilon: q.Epsilon} }

// Release returns the magnitude that is selected for each part, and leaves the parts empty. It panics when q.Check refuses, and where
// parts have different contracts or more than N records in all.
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

// aim is the Level, in units of 2^-levelDigits.
func (q DisjointQuantile) aim() int64 { return int64(q.Level * (1 << levelDigits)) }

// step bounds by how much a number that enters or leaves a part moves its scores.
func (q DisjointQuantile) step() int64 { return max(q.aim(), 1<<levelDigits-q.aim()) }

// movedRanges is over how many steps the scores that a row moves may be spread: a step up and one down, in the part that it leaves and in
// the one that it enters.
const movedRanges = 4

// rate is that of permuteAndFlip.
func (q DisjointQuantile) rate() *big.Rat {
	rate := rational(q.Epsilon)
	return rate.Quo(rate, new(big.Rat).SetInt64(movedRanges*q.step()))
}

// mostPrior bounds what a score has for its distance from 1.
const mostPrior = 0x1p60

// scores returns how bad every magnitude is for a part: an integer.
func (q DisjointQuantile) scores(m *magnitudes) []int64 {
	scores, below := make([]int64, len(m.counts)), int64(0)
	for i, count := range m.counts {
		below += count
		miss := below<<levelDigits - q.aim()*m.numbers
		steps := math.Abs(float64(m.contract.Lowest + i))
		scores[i] = max(miss, -miss) + int64(min(mostPrior, float64(movedRanges*q.step())*q.Prior/q.Epsilon*steps))
	}
	return scores
}
