package mech

import (
	"math"
	"math/big"
	"math/bits"
)

// Kept averages the contributions of N records that are within the contract as
// they are and drops the others: each as a whole under L2, each coordinate for
// itself under LInf. The divisor is how many are kept, but at least 3N/4, so
// that one replaced record moves the mean by at most 8 Bound / (3N) (proof:
// kept.md). Not safe for concurrent use: Fork one for each goroutine.
//
// Source: Kamath, Liu & Zhang 2021, Algorithm 3.
type Kept struct{ *keeper }

type keeper struct {
	accumulator
	kept []int64 // of all coordinates under L2, of each under LInf
	row  []float64
}

// NewKept returns an empty Kept. It panics when c.Check refuses.
func NewKept(c Contract) *Kept {
	k := &keeper{accumulator: *NewSum(c).accumulator, kept: make([]int64, 1), row: make([]float64, c.D)}
	if c.Norm == LInf {
		k.kept = make([]int64, c.D)
	}
	return &Kept{k}
}

// Fork returns an empty Kept under the same contract, to be merged later.
func (k *Kept) Fork() *Kept { return NewKept(k.contract) }

// Merge adds the records of part, which it empties. It panics when the
// contracts differ or there are more records than N.
func (k *Kept) Merge(part *Kept) {
	(&Sum{&k.accumulator}).Merge(&Sum{&part.accumulator})
	for j, v := range part.kept {
		k.kept[j] += v
	}
	clear(part.kept)
}

// AddRows adds c_i times row i for every i, each the contribution of one
// record. One that is not finite is dropped. It panics as Sum.AddRows does.
func (k *Kept) AddRows(r Rows, c []float64) {
	r.check(k.contract.D, len(c))
	k.count(len(c))
	for i, v := range c {
		r.scaled(k.row, i, v)
		k.add(k.row)
	}
}

// add keeps or drops one contribution, by its integers.
func (k *keeper) add(v []float64) {
	if k.contract.Norm == L2 {
		if k.inRange(v) && k.fits(v, k.scale) {
			k.kept[0]++
			for j, vj := range v {
				k.totals[j] += int64(vj * k.scale)
			}
		}
		return
	}
	for j := range v {
		if one := v[j : j+1]; k.inRange(one) && k.fits(one, k.scale) {
			k.kept[j]++
			k.totals[j] += int64(v[j] * k.scale)
		}
	}
}

// inRange reports that every coordinate of v is below twice Bound in size: then
// squares do not overflow.
func (k *keeper) inRange(v []float64) bool {
	limit := 2 * float64(k.limit)
	for _, vj := range v {
		if !(math.Abs(vj*k.scale) < limit) {
			return false
		}
	}
	return true
}

// Bounded returns the mean and leaves k empty.
func (k *Kept) Bounded() Bounded {
	shape := keptContract{k.contract}
	means := make([]int64, k.contract.D)
	for j, total := range k.totals {
		kept := k.kept[min(j, len(k.kept)-1)]
		means[j] = shape.mean(total, kept)
	}
	k.clear()
	clear(k.kept)
	return Bounded{&sealed{contract: shape, totals: means}}
}

// keptContract is the sensitivity of the mean of a Kept. It is counted in steps of
// Bound / 2^(bits + extraBits) with 2^extraBits >= N, so that rounding the mean
// costs no more than the grid of a Sum.
type keptContract struct{ Contract }

func (s keptContract) extraBits() uint { return uint(bits.Len(uint(s.N - 1))) }

// mean returns total / max(kept, 3N/4) in its steps, rounded down.
func (s keptContract) mean(total, kept int64) int64 {
	v := new(big.Int).Lsh(big.NewInt(total), s.extraBits()+2)
	divisor := big.NewInt(max(4*kept, 3*int64(s.N)))
	q, _ := v.DivMod(v, divisor, new(big.Int)) // floor: the divisor is positive
	return q.Int64()
}

// coordinate bounds how far one record moves a coordinate, in steps: 8 Bound / (3N)
// rounded upward.
func (s keptContract) coordinate() *big.Int {
	v := new(big.Int).Lsh(big.NewInt(8), s.bits()+s.extraBits())
	n := big.NewInt(3 * int64(s.N))
	return v.Add(v, n).Sub(v, big.NewInt(1)).Quo(v, n)
}

func (s keptContract) l2Squared() *big.Int {
	v := s.coordinate()
	if s.Norm == L2 { // all of it moves by as much, and each coordinate is rounded
		v.Add(v, s.rootD())
		return v.Mul(v, v)
	}
	v.Mul(v, v)
	return v.Mul(v, big.NewInt(int64(s.D)))
}

// rootD returns the square root of D, rounded up.
func (s keptContract) rootD() *big.Int {
	v := big.NewInt(int64(s.D - 1))
	return v.Sqrt(v).Add(v, big.NewInt(1))
}

func (s keptContract) inUnits(steps *big.Int) float64 {
	v, _ := new(big.Float).SetInt(steps).Float64()
	return math.Ldexp(v, -int(s.bits()+s.extraBits())) * s.Bound
}
