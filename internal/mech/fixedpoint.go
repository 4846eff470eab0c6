package mech

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/simd"
)

// ErrParams marks public parameters that a mechanism cannot work with.
var ErrParams = errors.New("mech: bad parameter")

// Norm is the norm in which one record's contribution is bounded.
type Norm string

// L2 bounds the Euclidean length of a contribution, LInf each coordinate.
const (
	L2   Norm = "l2"
	LInf Norm = "linf"
)

// Limits of a Contract. Within them sums fit an int64, and rounding errors of
// row norms stay below the margin that provedLimit leaves.
const (
	maxRecords   = 1 << 40
	maxDimension = 1 << 20
	maxBound     = 0x1p400
	maxBits      = 40
)

// Contract bounds every record's contribution to a Sum. All of its fields are public.
type Contract struct {
	Norm  Norm
	Bound float64 // of one contribution, in the units of the contribution
	N     int     // number of records, which divides the sum
	D     int     // length of a contribution
}

// Check reports whether a Sum can hold to the contract.
//
// Errors: wraps ErrParams and names the field.
func (c Contract) Check() error {
	switch {
	case c.Norm != L2 && c.Norm != LInf:
		return fmt.Errorf("%w: Norm = %q; it must be %q or %q", ErrParams, c.Norm, L2, LInf)
	case !(c.Bound >= 1/maxBound && c.Bound <= maxBound):
		return fmt.Errorf("%w: Bound = %v; it must be in [%g, %g]", ErrParams, c.Bound, 1/maxBound, maxBound)
	case c.N < 1 || c.N > maxRecords:
		return fmt.Errorf("%w: N = %d; it must be in [1, 2^40]", ErrParams, c.N)
	case c.D < 1 || c.D > maxDimension:
		return fmt.Errorf("%w: D = %d; it must be in [1, 2^20]", ErrParams, c.D)
	}
	return checkGrid(c.D, c.l2Squared())
}

// bits returns b, where Bound is 2^b grid steps: at most maxBits, and small enough that N contributions of
// that size fit an int64.
func (c Contract) bits() uint { return uint(min(maxBits, 61-bits.Len(uint(c.N-1)))) }

// scale returns the number of grid steps in a unit.
func (c Contract) scale() float64 { return math.Ldexp(1/c.Bound, int(c.bits())) }

// sensitivity describes the integers that a mechanism adds noise to: how far one replaced record moves them
// in l2 (squared) and in l1, in grid steps, and the value of a grid step in units.
type sensitivity interface {
	l2Squared() *big.Int
	l1() *big.Int
	inUnits(steps *big.Int) float64 // converts grid steps to the units of the release
	most() int                      // returns the largest number of records
}

// l2Squared implements sensitivity.
func (c Contract) l2Squared() *big.Int {
	s := new(big.Int).Lsh(big.NewInt(1), 2*(c.bits()+1))
	if c.Norm == LInf {
		s.Mul(s, big.NewInt(int64(c.D)))
	}
	return s
}

// l1 implements sensitivity. Under L2 it is sqrt(D) times the bound, rounded upward.
func (c Contract) l1() *big.Int {
	coordinates := big.NewInt(int64(c.D))
	if c.Norm == L2 {
		root := new(big.Int).Sqrt(coordinates)
		if new(big.Int).Mul(root, root).Cmp(coordinates) < 0 {
			root.Add(root, big.NewInt(1))
		}
		coordinates = root
	}
	return coordinates.Lsh(coordinates, c.bits()+1)
}

// most implements sensitivity.
func (c Contract) most() int { return c.N }

// Bounded is a sensitive vector together with a bound on how far one record can move it. It has no accessor
// and does not print: only a mechanism can release it, and the first one removes the value, so that one
// charge cannot pay for two releases.
type Bounded struct{ *sealed }

type sealed struct {
	sensitive
	contract sensitivity
	totals   []int64 // grid steps; nil when released
	sums     bool    // sums of one contribution a record: leaving a record out moves them half as far as replacing it
	records  int     // number of records in the sums
}

// sensitive hides the struct that embeds it from every verb of fmt.
type sensitive struct{}

// Format writes a placeholder instead of the value.
func (sensitive) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(sensitive)") }

// Show is for tests: only packages below this one can name the type of its argument.
func (b Bounded) Show(view hook.Viewer) { view(b.totals, b.contract.l2Squared()) }

// Disjoint joins the sums of disjoint parts of the records under their common contract: one release of the
// result makes all of them public at the cost of one sum, also if a record is replaced by one of another
// part (proof: disjoint.md). It empties the parts. It panics when contracts differ, when a part is not a
// sum of contributions, and when the parts have more records than the contract allows.
func Disjoint(parts []Bounded) Bounded {
	joined := &sealed{contract: parts[0].contract, sums: true}
	for _, part := range parts {
		if !part.sums || part.contract != joined.contract {
			panic("mech: parts that are not sums under one contract")
		}
		if joined.records += part.records; joined.records > joined.contract.most() {
			panic("mech: more records in all parts than N")
		}
		_, totals := part.unseal()
		joined.totals = append(joined.totals, totals...)
	}
	return Bounded{joined}
}

// unseal returns the value and removes it from b.
func (b Bounded) unseal() (sensitivity, []int64) {
	if b.sealed == nil || b.totals == nil {
		panic("mech: nothing to release: a Bounded is released once")
	}
	totals := b.totals
	b.totals = nil
	return b.contract, totals
}

// inUnits implements sensitivity, in the units of the mean: steps * Bound / 2^bits / N.
func (c Contract) inUnits(steps *big.Int) float64 {
	v, _ := new(big.Float).SetInt(steps).Float64()
	return math.Ldexp(v, -int(c.bits())) / float64(c.N) * c.Bound
}

// Rows is a block of rows by columns, in slices of equal length. With Intercept
// every row starts with a 1 that is not stored.
type Rows struct {
	X         [][]float64
	Intercept bool
}

func (r Rows) dimension() int {
	if r.Intercept {
		return len(r.X) + 1
	}
	return len(r.X)
}

// check panics unless there are n rows of length d.
func (r Rows) check(d, n int) {
	if r.dimension() != d {
		panic("mech: rows of the wrong length")
	}
	for _, x := range r.X {
		if len(x) != n {
			panic("mech: columns of different length")
		}
	}
}

// Sum adds up the contributions of N records. Each is brought into the contract by a function of that
// record alone and cut to integers, so that the bound holds in finite arithmetic (proof: fixedpoint.md).
// The result is the same to the last bit for every order of the records and every division into blocks or
// merged Sums. A Sum is not safe for concurrent use: Fork one for each goroutine.
//
// Source: Casacuberta, Shoemate, Vadhan & Wagaman 2022, on the flaws of floating-point sums.
type Sum struct{ *accumulator }

type accumulator struct {
	sensitive
	contract Contract
	scale    float64
	limit    int64 // Bound in grid steps
	records  int
	totals   []int64
	vector   [][]float64 // buffer of Add: one row by columns
	block
}

// NewSum returns an empty Sum. It panics when c.Check refuses.
func NewSum(c Contract) *Sum {
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	return &Sum{&accumulator{contract: c, scale: c.scale(), limit: 1 << c.bits(), totals: make([]int64, c.D), vector: make([][]float64, c.D)}}
}

// Fork returns an empty Sum under the same contract, to be merged later.
func (s *Sum) Fork() *Sum { return NewSum(s.contract) }

// Merge adds the records of part, which it empties. It panics when the
// contracts differ or there are more records than N.
func (s *Sum) Merge(part *Sum) {
	if part.contract != s.contract {
		panic("mech: sums under different contracts")
	}
	s.count(part.records)
	for j, v := range part.totals {
		s.totals[j] += v
	}
	part.clear()
}

// Bounded returns the sum and leaves s empty. Records that were not added
// contribute zero.
func (s *Sum) Bounded() Bounded {
	b := Bounded{&sealed{contract: s.contract, totals: s.totals, sums: true, records: s.records}}
	s.totals = make([]int64, s.contract.D)
	s.clear()
	return b
}

func (s *accumulator) clear() {
	clear(s.totals)
	s.records = 0
}

func (s *accumulator) count(records int) {
	if records > s.contract.N-s.records {
		panic("mech: more records than N")
	}
	s.records += records
}

// Add adds the contribution v of one record. It panics unless v has length D.
func (s *Sum) Add(v []float64) {
	if len(v) != s.contract.D {
		panic("mech: a contribution of the wrong length")
	}
	for j := range v {
		s.vector[j] = v[j : j+1]
	}
	s.AddRows(Rows{X: s.vector}, []float64{1})
}

// AddRows adds c_i times row i for every i, each the contribution of one
// record, without storing any of them. A contribution that is not finite
// counts as zero: all of it under L2, that coordinate under LInf. It panics
// unless rows have length D and columns the length of c.
func (s *Sum) AddRows(r Rows, c []float64) {
	r.check(s.contract.D, len(c))
	s.count(len(c))
	for start := 0; start < len(c); start += blockRows {
		end := min(start+blockRows, len(c))
		if s.contract.Norm == L2 {
			s.addL2(r, start, end, c[start:end])
		} else {
			s.addLInf(r, start, end, c[start:end])
		}
	}
}

// blockRows is how many rows are scaled at a time: their columns fit the cache
// between the two passes over them.
const blockRows = 256

// block is scratch space for one block of rows.
type block struct {
	factor [blockRows]float64 // from stored values to grid steps
	square [blockRows]float64 // squared row norms
	proved [blockRows]int64   // a mask: -1 if floating point proves that the row keeps the contract, else 0
	ones   [blockRows]float64
	view   [][]float64 // the columns of the block
}

// addL2 adds rows start to end: column by column those whose bound floating point proves, one by one the
// others.
func (s *accumulator) addL2(r Rows, start, end int, c []float64) {
	unproved := s.prepare(r, start, end, c)
	if unproved == 0 {
		s.addProved(r, start, end)
		return
	}
	first := 0
	if r.Intercept {
		s.totals[0] += truncate(s.ones[:len(c)], s.factor[:], s.proved[:])
		first = 1
	}
	for j, x := range r.X {
		s.totals[first+j] += truncate(x[start:end], s.factor[:], s.proved[:])
	}
	row := make([]float64, s.contract.D)
	for i := range c {
		if s.proved[i] == 0 {
			r.scaled(row, start+i, c[i])
			s.addVector(row)
		}
	}
}

// addProved adds rows start to end, all of which floating point proves to be within the contract. The sum
// of blockRows integers of at most 2^40 fits an int64.
func (s *accumulator) addProved(r Rows, start, end int) {
	totals, factor := s.totals, s.factor[:end-start]
	if r.Intercept {
		totals[0] += simd.SumCut(s.ones[:end-start], factor)
		totals = totals[1:]
	}
	for j, x := range r.X {
		totals[j] += simd.SumCut(x[start:end], factor)
	}
}

// provedLimit is the fraction of Bound to which a row is clipped if its norm is only known in floating
// point; the rest covers the rounding of the norm.
const provedLimit = 1 - 0x1p-30

// prepare computes the factor of every row and returns the number of unproved rows: those whose norm,
// factor or product is outside the range in which the rounding of floating point is bounded (Lemma 2 of
// fixedpoint.md).
func (s *accumulator) prepare(r Rows, start, end int, c []float64) (unproved int) {
	n := end - start
	square := s.square[:n]
	base := 0x1p-1000 // covers squares that underflow
	if r.Intercept {
		base = 1
	}
	for i := range square {
		square[i] = base
		s.ones[i] = 1
	}
	s.view = s.view[:0]
	for _, x := range r.X {
		s.view = append(s.view, x[start:end])
	}
	simd.AddSquares(square, s.view)
	factors, proved, c := s.factor[:n], s.proved[:n], c[:n]
	limit, scale := float64(s.limit)*provedLimit, s.scale
	short := limit * limit * (1 - 0x1p-40)
	for i, v := range square {
		factors[i], proved[i] = c[i]*scale, -1
		if factors[i]*factors[i]*v <= short {
			continue // then the length is within the limit too, for any rounding, also if squares underflow
		}
		length := math.Abs(factors[i]) * math.Sqrt(v)
		if length > limit {
			factors[i] *= limit / length
		}
		if !(length <= 0x1p900) {
			proved[i] = 0
			unproved++
		}
	}
	return unproved
}

// truncate adds up x_i factor_i, each cut toward zero, over the proved rows.
func truncate(x, factor []float64, proved []int64) (sum int64) {
	factor, proved = factor[:len(x)], proved[:len(x)]
	for i, v := range x {
		sum += int64(v*factor[i]) & proved[i]
	}
	return sum
}

// scaled writes c times row i to dst.
func (r Rows) scaled(dst []float64, i int, c float64) {
	if r.Intercept {
		dst[0] = c
		dst = dst[1:]
	}
	for j, x := range r.X {
		dst[j] = c * x[i]
	}
}

// addVector adds one contribution under L2 and overwrites it. It first scales by a power of two, so that
// any finite vector has a finite norm. It then checks the integers themselves; if rounding has made them
// too long, it tries again with a shorter vector.
func (s *accumulator) addVector(v []float64) {
	largest := 0.0
	for _, vj := range v {
		largest = math.Max(largest, math.Abs(vj)) // keeps NaN
	}
	if largest == 0 || !(largest <= math.MaxFloat64) {
		return
	}
	_, exponent := math.Frexp(largest)
	square := 0.0
	for j, vj := range v {
		v[j] = math.Ldexp(vj, -exponent)
		square += float64(v[j] * v[j])
	}
	factor := math.Min(math.Ldexp(s.scale, exponent), float64(s.limit)/math.Sqrt(square))
	for range 1 + shrinkTries {
		if s.fits(v, factor) {
			for j, vj := range v {
				s.totals[j] += int64(vj * factor)
			}
			return
		}
		factor *= shrink
	}
}

// A contribution whose integers are too long is multiplied by shrink and tried again, up to shrinkTries
// times; after that it counts as zero.
const (
	shrink      = 1 - 0x1p-20
	shrinkTries = 3
)

// fits reports, by 128-bit arithmetic, whether v times factor, cut to integers, is at most Bound long. No
// coordinate of v times factor may exceed 2^62.
func (s *accumulator) fits(v []float64, factor float64) bool {
	var high, low uint64
	for _, vj := range v {
		q := uint64(math.Abs(vj * factor))
		h, l := bits.Mul64(q, q)
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	limitHigh, limitLow := bits.Mul64(uint64(s.limit), uint64(s.limit))
	return high < limitHigh || high == limitHigh && low <= limitLow
}

// addLInf adds rows start to end, each coordinate clamped as an integer.
func (s *accumulator) addLInf(r Rows, start, end int, c []float64) {
	for i, ci := range c {
		s.factor[i] = ci * s.scale
		s.ones[i] = 1
	}
	first := 0
	if r.Intercept {
		s.totals[0] += s.clamp(s.ones[:len(c)], c)
		first = 1
	}
	for j, x := range r.X {
		s.totals[first+j] += s.clamp(x[start:end], c)
	}
}

// clamp adds up c_i x_i, each cut toward zero and clamped as an integer.
func (s *accumulator) clamp(x, c []float64) (sum int64) {
	c, factor, limit := c[:len(x)], s.factor[:len(x)], s.limit
	for i, v := range x {
		v *= factor[i]
		if !(math.Abs(v) < 0x1p62) {
			v = withinInt64(x[i]*c[i], s.scale)
		}
		sum += max(-limit, min(int64(v), limit))
	}
	return sum
}

// withinInt64 returns v times scale, clamped to [-2^62, 2^62] so that it converts to an int64; 0 if v is
// not finite.
func withinInt64(v, scale float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return math.Max(-0x1p62, math.Min(v*scale, 0x1p62))
}
