package mech

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// The public grid of Ranks: zero, and the numbers of either sign from 10^gridLow up to 10^gridHigh with the
// given number of decimal digits. A point is represented by its index in the order of the grid, 0 for zero.
type grid int

const (
	gridLow  = -15
	gridHigh = 18
	// MaxDigits is the largest number of digits of a grid. All whole numbers with so many are float64.
	MaxDigits = 15
)

// powersOfTen holds 10^-maxPower to 10^maxPower, as near as float64 has them.
var powersOfTen = func() (all [2*maxPower + 1]float64) {
	for k := range all {
		all[k] = decimal(1, k-maxPower)
	}
	return all
}()

const maxPower = MaxDigits - 1 - gridLow

// decimal returns digits times 10^exponent, correctly rounded.
func decimal(digits int64, exponent int) float64 {
	v, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digits, exponent), 64)
	if err != nil {
		panic("mech: a decimal that is no number: " + err.Error())
	}
	return v
}

func powerOfTen(k int) float64 { return powersOfTen[k+maxPower] }

// tens holds 10^0 to 10^MaxDigits.
var tens = func() (all [MaxDigits + 1]int64) {
	for k := range all {
		all[k] = int64(decimal(1, k))
	}
	return all
}()

// perDecade returns the number of points from one power of ten to the next.
func (g grid) perDecade() int64 { return 9 * tens[g-1] }

// largest returns the last point, which stands for 10^gridHigh.
func (g grid) largest() int64 { return (gridHigh-gridLow)*g.perDecade() + 1 }

// point rounds v to the nearest point, or to one of two that are about as near; false if v is not finite. A
// number beyond the grid is rounded to its last point.
func (g grid) point(v float64) (int64, bool) {
	size, at := math.Abs(v), int64(0)
	switch {
	case !(size <= math.MaxFloat64):
		return 0, false
	case size >= powerOfTen(gridHigh):
		at = g.largest()
	case size >= powerOfTen(gridLow):
		decade := min(max(int(math.Floor(math.Log10(size))), gridLow), gridHigh-1)
		for ; size < powerOfTen(decade); decade-- {
		}
		for ; size >= powerOfTen(decade+1); decade++ {
		}
		if shift := int(g) - 1 - decade; shift >= 0 {
			size *= powerOfTen(shift)
		} else {
			size /= powerOfTen(-shift)
		}
		at = int64(decade-gridLow)*g.perDecade() + int64(math.Round(size)) - tens[g-1] + 1
	case size >= powerOfTen(gridLow)/2:
		at = 1
	}
	if math.Signbit(v) {
		return -at, true
	}
	return at, true
}

// value returns the number at a point.
func (g grid) value(point int64) float64 {
	switch {
	case point < 0:
		return -g.value(-point)
	case point == 0:
		return 0
	}
	decade := int((point - 1) / g.perDecade())
	return decimal(tens[g-1]+(point-1)%g.perDecade(), decade+gridLow-int(g)+1)
}

// zeroWeight is the weight of zero. Any other point weighs 10^k if the last k of its digits are 0: a simple
// number such as 40 or 0.75 is as likely as a whole range of others.
func (g grid) zeroWeight() uint64 { return 16 * uint64(tens[g-1]) }

// weight returns the total weight of the points from first to last, which have one sign or are zero.
func (g grid) weight(first, last int64) uint64 {
	switch {
	case first > last:
		return 0
	case first == 0:
		return g.zeroWeight()
	case first < 0:
		first, last = -last, -first
	}
	total := uint64(0)
	for k := range int(g) {
		there := multiples(first, last, k)
		if there == 0 {
			break
		}
		total += uint64(there) * levelWeight(k)
	}
	return total
}

// multiples counts the points from first to last, above zero, of which at least the last k digits are 0.
func multiples(first, last int64, k int) int64 {
	step := tens[k]
	return (last-1+step)/step - (first-2+step)/step
}

// levelWeight returns the difference between the weight of such a point and the weight of a point with one
// digit more.
func levelWeight(k int) uint64 {
	if k == 0 {
		return 1
	}
	return uint64(9 * tens[k-1])
}

// draw returns the point of the r-th unit of weight from first to last.
func (g grid) draw(first, last int64, r uint64) int64 {
	if first == 0 {
		return 0
	}
	if first < 0 {
		return -g.draw(-last, -first, r)
	}
	for k := range int(g) {
		weight, step := uint64(multiples(first, last, k))*levelWeight(k), tens[k]
		if r < weight {
			return ((first-2+step)/step+int64(r/levelWeight(k)))*step + 1
		}
		r -= weight
	}
	panic("mech: more weight than there is")
}

// Ranks collects one number a record, of at most N records, to find their quantiles. Numbers that are
// missing or infinite are left out. Not safe for concurrent use.
type Ranks struct{ *ranks }

type ranks struct {
	sensitive
	contract RankContract
	records  int
	points   []int64
}

// RankContract holds the public parameters of Ranks: the number of records, and the number of decimal digits
// of the grid on which quantiles are looked for.
type RankContract struct{ N, Digits int }

// Step returns the distance from v to the next point of the grid, 0 at zero.
func (c RankContract) Step(v float64) float64 {
	g := grid(c.Digits)
	point, ok := g.point(math.Abs(v))
	if !ok || point == 0 {
		return 0
	}
	return powerOfTen(int((point-1)/g.perDecade()) + gridLow - c.Digits + 1)
}

// Check reports whether quantiles can be found.
//
// Errors: wraps ErrParams.
func (c RankContract) Check() error {
	if c.N < 1 || c.N > maxRecords {
		return fmt.Errorf("%w: N = %d; it must be in [1, 2^40]", ErrParams, c.N)
	}
	if c.Digits < 1 || c.Digits > MaxDigits {
		return fmt.Errorf("%w: Digits = %d; they must be in [1, %d]", ErrParams, c.Digits, MaxDigits)
	}
	return nil
}

// NewRanks returns an empty collection. It panics when c.Check refuses.
func NewRanks(c RankContract) *Ranks {
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	return &Ranks{&ranks{contract: c}}
}

// Add collects numbers, each of a record of its own. It panics beyond N of them.
func (r *Ranks) Add(v []float64) {
	if len(v) > r.contract.N-r.records {
		panic("mech: more records than N")
	}
	r.records += len(v)
	for _, x := range v {
		if point, ok := grid(r.contract.Digits).point(x); ok {
			r.points = append(r.points, point)
		}
	}
}

// RankQuantiles selects numbers of a public grid near quantiles, each by the exponential mechanism: the
// fewer records lie between a number and the quantile of the numbers present, the likelier it is, and
// numbers with few digits are likelier than others. How many numbers are present stays private.
//
// The error in ranks is about exponential, with mean 2/Epsilon records, if many times that number are
// present; RankQuantiles.Needs returns how many are needed.
//
// Privacy: each is Epsilon-bounded range, and so Epsilon-DP, under replace-one (proof: ranks.md).
//
// Source: McSherry & Talwar 2007, on ranks as in Smith 2011. Differs: a grid with weights, an unknown
// number of records, scores that are exact and capped.
type RankQuantiles struct {
	Epsilon  float64 // of each quantile
	Percents []int   // from 1 to 99
}

// Check reports whether the parameters can be used.
//
// Errors: wraps ErrParams.
func (q RankQuantiles) Check() error {
	if len(q.Percents) == 0 || slices.Min(q.Percents) < 1 || slices.Max(q.Percents) > 99 {
		return fmt.Errorf("%w: Percents = %v; they must be from 1 to 99", ErrParams, q.Percents)
	}
	return checkEpsilon(q.Epsilon)
}

// Event returns the cost of one Release.
func (q RankQuantiles) Event() privacy.Event {
	return privacy.Repeat{Count: len(q.Percents), Event: privacy.BoundedRange{Epsilon: q.Epsilon}}
}

// gridSurprise is the logarithm of the ratio of the total weight of all points to the weight of the points
// that are likely near a quantile: some whole numbers, or a hundredth of an octave.
const gridSurprise = 13

// Needs returns how many numbers there must be for the selected number to be near the quantile of a
// percentage with probability 99 %.
func (q RankQuantiles) Needs(percent int) float64 { return q.needs(percent, gridSurprise) }

func (q RankQuantiles) needs(percent int, surprise float64) float64 {
	share := float64(min(percent, 100-percent)) / 100
	return (surprise + math.Log(100)) * 2 / q.Epsilon / share
}

// NeedsAbout is as Needs if the only points that are near the quantile are those from low to high, which may be few.
func (q RankQuantiles) NeedsAbout(percent int, c RankContract, low, high float64) float64 {
	g := grid(c.Digits)
	first, ok := g.point(low)
	last, fine := g.point(high)
	if !ok || !fine {
		return q.Needs(percent)
	}
	there := g.weight(first, min(last, -1)) + g.weight(max(first, 1), last)
	if first <= 0 && last >= 0 {
		there += g.zeroWeight()
	}
	whole := 2*g.weight(1, g.largest()) + g.zeroWeight()
	return q.needs(percent, max(gridSurprise, math.Log(float64(whole)/float64(max(there, 1)))))
}

// Beyond reports whether v is the last grid point of either sign, which stands for all numbers that are
// farther from zero.
func (RankQuantiles) Beyond(v float64) bool { return math.Abs(v) >= powerOfTen(gridHigh) }

// Release writes the selected numbers to dst and leaves r empty. It panics when q.Check refuses or the
// length of dst is not the number of percentages.
func (q RankQuantiles) Release(dst []float64, r *Ranks, src *Source) {
	if err := q.Check(); err != nil {
		panic(err.Error())
	}
	if len(dst) != len(q.Percents) {
		panic("mech: a release of the wrong length")
	}
	slices.Sort(r.points)
	from := src.begin(q, r.contract, hook.Ranked{Points: r.points, Scores: q.misses, Bound: rankSensitivity})
	for k, percent := range q.Percents {
		s := q.selection(percent, r.contract)
		dst[k] = s.grid.value(s.draw(r.points, from))
	}
	src.end(dst)
	r.points, r.records = nil, 0
}

// rankSensitivity is how far one record moves a miss.
const rankSensitivity = 100

// miss returns the distance, in hundredths of a record, of a number with the given counts below, equal and
// above from the quantile of a percentage.
func miss(percent int, below, equal, above int64) int64 {
	p, total := int64(percent), below+equal+above
	return max(100*below-p*total, 100*above-(100-p)*total, 0)
}

// misses returns the distances from all quantiles.
func (q RankQuantiles) misses(below, equal, above int64) []int64 {
	all := make([]int64, len(q.Percents))
	for k, percent := range q.Percents {
		all[k] = miss(percent, below, equal, above)
	}
	return all
}

// selection is the draw of one quantile: a point has probability proportional to its weight times exp(-rate
// min(miss, cap)).
type selection struct {
	grid    grid
	percent int
	rate    *big.Rat
	near    float64 // rate rounded to float64
	cap     int64
}

// minLikely bounds rate times cap: a point's weight is multiplied by at least exp(-minLikely).
const minLikely = 64

// halvings bounds the result of halved: 2^-halvings is below exp(-minLikely).
const halvings = 93

func (q RankQuantiles) selection(percent int, c RankContract) selection {
	rate := rational(q.Epsilon)
	rate.Quo(rate, big.NewRat(2*rankSensitivity, 1))
	near, _ := rate.Float64()
	return selection{grid(c.Digits), percent, rate, near, int64(min(minLikely/near, 0x1p50))}
}

// segment is a run of points with the same miss.
type segment struct{ first, last, miss int64 }

// segments yields the segments of the whole grid in order. The points must be sorted.
func (s selection) segments(points []int64, yield func(segment) bool) {
	n, open := int64(len(points)), segment{first: 1}
	flush := func() bool { return open.first > open.last || yield(open) }
	pass := func(first, last, below, equal int64) bool {
		m := min(miss(s.percent, below, equal, n-below-equal), s.cap)
		switch {
		case first > last:
			return true
		case m == open.miss && open.first <= open.last && (open.first < 0) == (last < 0) && open.first != 0 && first != 0:
			open.last = last
			return true
		}
		going := flush()
		open = segment{first, last, m}
		return going
	}
	// gap passes on the points from first to end-1, none of which is among the numbers.
	gap := func(first, end, below int64) bool {
		if first <= 0 && 0 < end {
			return pass(first, -1, below, 0) && pass(0, 0, below, 0) && pass(1, end-1, below, 0)
		}
		return pass(first, end-1, below, 0)
	}
	next := -s.grid.largest()
	for i := int64(0); i < n; {
		point, end := points[i], i+1
		for end < n && points[end] == point {
			end++
		}
		if !gap(next, point, i) || !pass(point, point, i, end-i) {
			return
		}
		next, i = point+1, end
	}
	if gap(next, s.grid.largest()+1, n) {
		flush()
	}
}

// halved returns how often a likelihood of 1 can be halved without falling below exp(-rate miss).
func (s selection) halved(miss int64) int {
	return int(max(0, math.Floor(float64(miss)*s.near/math.Ln2-0x1p-20)))
}

// draw selects a point: it proposes one with probability proportional to weight 2^-halved, exactly, and
// accepts it with the remaining factor of its likelihood.
func (s selection) draw(points []int64, src *Source) int64 {
	var totals [halvings + 1]uint64 // total weights by number of halvings
	s.segments(points, func(g segment) bool {
		totals[s.halved(g.miss)] += s.grid.weight(g.first, g.last)
		return true
	})
	whole := new(big.Int)
	for t, total := range totals {
		whole.Add(whole, halvedWeight(total, t))
	}
	for {
		t, r := 0, src.below(whole)
		for ; ; t++ {
			part := halvedWeight(totals[t], t)
			if r.Cmp(part) < 0 {
				break
			}
			r.Sub(r, part)
		}
		g, rest := s.find(points, t, src.Uint64n(totals[t]))
		x := new(big.Rat).SetInt64(-g.miss)
		if src.Uniform().BelowExp(power(uint(t)), x.Mul(x, s.rate)) {
			return s.grid.draw(g.first, g.last, rest)
		}
	}
}

// halvedWeight returns a weight halved t times, in units of 2^-halvings.
func halvedWeight(weight uint64, t int) *big.Int {
	v := new(big.Int).SetUint64(weight)
	return v.Lsh(v, uint(halvings-t))
}

// find returns the segment that holds the r-th unit of weight among those halved t times, and the index of
// the unit in that segment.
func (s selection) find(points []int64, t int, r uint64) (found segment, rest uint64) {
	s.segments(points, func(g segment) bool {
		if s.halved(g.miss) != t {
			return true
		}
		weight := s.grid.weight(g.first, g.last)
		if r < weight {
			found, rest = g, r
			return false
		}
		r -= weight
		return true
	})
	return found, rest
}

// below returns a uniform integer in [0, n), n > 0.
func (s *Source) below(n *big.Int) *big.Int {
	for v := new(big.Int); ; v.SetInt64(0) {
		for drawn := 0; drawn < n.BitLen(); drawn += 64 {
			v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(s.Uint64()))
		}
		v.Rsh(v, uint(-n.BitLen()&63))
		if v.Cmp(n) < 0 {
			return v
		}
	}
}
