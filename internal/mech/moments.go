package mech

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/simd"
)

// MomentContract bounds every row of Moments. All of its fields are public.
type MomentContract struct {
	Bound float64 // of a row's Euclidean length, its intercept included
	N, D  int
}

// maxMomentDimension bounds D, so that the square of a row's length fits an int64.
const maxMomentDimension = 1 << 12

// Check reports whether Moments can hold to the contract.
//
// Errors: wraps ErrParams and names the field.
func (c MomentContract) Check() error {
	if c.D > maxMomentDimension {
		return fmt.Errorf("%w: D = %d; second moments are for at most %d columns", ErrParams, c.D, maxMomentDimension)
	}
	if err := (Contract{L2, c.Bound, c.N, c.D}).Check(); err != nil {
		return err
	}
	return CheckParts(c.N, c.D, 1)
}

// bits returns b, where Bound is 2^b grid steps: at most maxBits/2, and small enough that the sum of N
// products of two such numbers fits an int64.
func (c MomentContract) bits() uint { return uint(min(maxBits, 61-bits.Len(uint(c.N-1)))) / 2 }

// Step is the pitch of the grid to which rows are cut, in their units. The cut is toward zero: adding half
// a Step to positive values rounds them to the nearest.
func (c MomentContract) Step() float64 { return math.Ldexp(c.Bound, -int(c.bits())) }

// frobeniusSquared returns the square of how far one replaced row moves the matrix of sums in Frobenius
// norm, where entries off the diagonal count twice: 2 16^bits.
func (c MomentContract) frobeniusSquared() *big.Int {
	return new(big.Int).Lsh(big.NewInt(2), 4*c.bits())
}

// leastVariance returns the variance of Gaussian noise off the diagonal at z = 1, in squared grid steps.
func (c MomentContract) leastVariance() *big.Int {
	return new(big.Int).Rsh(c.frobeniusSquared(), 1)
}

// inUnits converts a sum of products in steps to the units of the mean product.
func (c MomentContract) inUnits(steps *big.Int) float64 {
	v, _ := new(big.Float).SetInt(steps).Float64()
	return math.Ldexp(v, -2*int(c.bits())) / float64(c.N) * c.Bound * c.Bound
}

// weight returns how often entry k of upper triangles, one after the other, occurs in their matrices.
func (c MomentContract) weight(k int) int64 {
	k %= c.D * (c.D + 1) / 2
	for row := c.D; k >= row; row-- {
		k -= row
	}
	if k == 0 {
		return 1
	}
	return 2
}

// Moments adds up the products x_i x_j of the coordinates of rows. Each row is first clipped to a length
// and cut to integers by a function of that row alone (proof: moments.md). A record is one row, or several
// rows that count in equal parts. Not safe for concurrent use: Fork one for each goroutine.
type Moments struct{ *moments }

type moments struct {
	sensitive
	contract MomentContract
	records  int
	totals   []int64 // entries i <= j: the upper triangle by rows
	clippedRows
}

// clippedRows is scratch space for one block of rows.
type clippedRows struct {
	steps  [][]float64        // integers: rows by columns, in grid steps
	square [blockRows]float64 // squared row norms
	factor [blockRows]float64 // from stored values to grid steps
	length [blockRows]float64 // integers: squared lengths of rows of steps
	fellow [blockRows]float64 // integers: number of rows of the record that a row belongs to
	ones   [blockRows]float64
	view   [][]float64 // the columns of the block
}

// NewMoments returns empty sums. It panics when c.Check refuses.
func NewMoments(c MomentContract) *Moments {
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	m := &moments{contract: c, totals: make([]int64, c.D*(c.D+1)/2)}
	for range c.D {
		m.steps = append(m.steps, make([]float64, blockRows))
	}
	for i := range m.ones {
		m.ones[i] = 1
	}
	return &Moments{m}
}

// Fork returns empty sums under the same contract, to be merged later.
func (m *Moments) Fork() *Moments { return NewMoments(m.contract) }

// Merge adds the rows of part, which it empties. It panics when the contracts
// differ or there are more rows than N.
func (m *Moments) Merge(part *Moments) {
	if part.contract != m.contract {
		panic("mech: sums under different contracts")
	}
	m.count(part.records)
	for k, v := range part.totals {
		m.totals[k] += v
	}
	part.clear()
}

func (m *moments) clear() {
	clear(m.totals)
	m.records = 0
}

func (m *moments) count(records int) {
	if records > m.contract.N-m.records {
		panic("mech: more records than N")
	}
	m.records += records
}

// AddRows adds n rows. A row that is not finite, or longer than 1e154, counts as
// zero. It panics unless rows have length D and columns length n.
func (m *Moments) AddRows(r Rows, n int) {
	m.check(r, n)
	m.count(n)
	for start := 0; start < n; start += blockRows {
		end := min(start+blockRows, n)
		copy(m.fellow[:], m.ones[:])
		m.clip(r, start, end)
		simd.AddProducts(m.totals, m.steps, end-start) // exact: sums stay below 2^53 (moments.md)
	}
}

// AddRecords adds records of several rows: record u holds rows first[u] to first[u+1], and counts as the
// mean of its rows' products. It panics as AddRows does, and unless first begins at 0, ends at the number
// of rows and never decreases.
func (m *Moments) AddRecords(r Rows, first []int) {
	n := first[len(first)-1]
	m.check(r, n)
	if first[0] != 0 || !slices.IsSorted(first) {
		panic("mech: records that overlap")
	}
	m.count(len(first) - 1)
	record := 0
	for start := 0; start < n; start += blockRows {
		end := min(start+blockRows, n)
		for i := start; i < end; i++ {
			for i >= first[record+1] {
				record++
			}
			m.fellow[i-start] = float64(first[record+1] - first[record])
		}
		m.clip(r, start, end)
		simd.AddProducts(m.totals, m.steps, end-start) // exact: sums stay below 2^53 (moments.md)
	}
}

// check panics unless there are n rows of length D.
func (m *moments) check(r Rows, n int) {
	if r.dimension() != m.contract.D {
		panic("mech: rows of the wrong length")
	}
	for _, x := range r.X {
		if len(x) != n {
			panic("mech: columns of different length")
		}
	}
}

// clip writes rows start to end to steps: clipped, divided by the square root of the number of rows of
// their record, and cut toward zero. A row becomes zero if its integers are longer than Bound divided by
// that square root, or if its norm is not finite.
func (m *moments) clip(r Rows, start, end int) {
	n := end - start
	square, length := m.square[:n], m.length[:n]
	clear(square)
	clear(length)
	columns := m.columns(r, start, end)
	simd.AddSquares(square, columns)
	m.toSteps(square)
	simd.Cut(m.steps, columns, m.factor[:n], length)
	longest, fellow := math.Ldexp(1, 2*int(m.contract.bits())), m.fellow[:n]
	for i, s := range square {
		if !(length[i]*fellow[i] <= longest && s <= math.MaxFloat64) {
			for _, steps := range m.steps {
				steps[i] = 0
			}
		}
	}
}

// toSteps sets factor to the numbers that bring rows with the given squared norms within the limit, in grid
// steps. It omits the square root where rounding cannot bring the norm above Bound.
func (m *moments) toSteps(square []float64) {
	c := m.contract
	limit, short := math.Ldexp(1, int(c.bits()))*provedLimit, c.Bound*c.Bound*(1-0x1p-50)
	factor, fellow, whole := m.factor[:len(square)], m.fellow[:len(square)], limit/c.Bound
	for i, s := range square {
		if factor[i] = whole; !(s <= short) {
			factor[i] = limit / max(c.Bound, math.Sqrt(s))
		}
		if fellow[i] != 1 {
			factor[i] /= math.Sqrt(fellow[i])
		}
	}
}

// columns returns the coordinates of rows start to end.
func (m *moments) columns(r Rows, start, end int) [][]float64 {
	m.view = m.view[:0]
	if r.Intercept {
		m.view = append(m.view, m.ones[:end-start])
	}
	for _, x := range r.X {
		m.view = append(m.view, x[start:end])
	}
	return m.view
}

// MomentNoise is a mechanism that releases second moments: Gaussian or MatrixLaplace.
type MomentNoise interface {
	Check() error
	Event() privacy.Event
	statistic(c MomentContract, totals []int64) hook.Statistic
	// entries draws the noise; the function it returns is called once for each i <= j, in order.
	entries(c MomentContract, src *Source) func(i, j int) *big.Int
}

// Release writes the noisy mean of x x' over N rows to dst, D by D and symmetric,
// and leaves m empty. Rows that were not added count as zero. It panics when
// noise.Check refuses.
//
// Privacy: noise.Event (proofs: moments.md, matrixlaplace.md).
func (m *Moments) Release(dst []float64, noise MomentNoise, src *Source) {
	ReleaseDisjoint(dst, []*Moments{m}, noise, src)
}

// ReleaseDisjoint is Release for the moments of several disjoint parts of the records, written one after
// the other, at the cost of one release. Each is divided by N, the number of records in all parts. It
// panics when contracts differ, when the parts have more records than N, and, with Gaussian noise, when
// CheckParts refuses.
//
// Privacy: noise.Event, also if a record is replaced by one of another part (proof: disjoint.md).
func ReleaseDisjoint(dst []float64, parts []*Moments, noise MomentNoise, src *Source) {
	if err := noise.Check(); err != nil {
		panic(err.Error())
	}
	contract, totals := joinMoments(parts)
	d := contract.D
	if len(dst) != d*d*len(parts) {
		panic("mech: a release of the wrong length")
	}
	from := src.begin(noise, contract, noise.statistic(contract, totals))
	total, k := new(big.Int), 0
	for part := range parts {
		entry, matrix := noise.entries(contract, from), dst[part*d*d:]
		for i := range d {
			for j := i; j < d; j++ {
				y := entry(i, j)
				v := contract.inUnits(y.Add(y, total.SetInt64(totals[k])))
				matrix[i*d+j], matrix[j*d+i] = v, v
				k++
			}
		}
	}
	src.end(dst)
}

// joinMoments returns the totals of all parts and empties the parts.
func joinMoments(parts []*Moments) (contract MomentContract, totals []int64) {
	contract, records := parts[0].contract, 0
	for _, m := range parts {
		if m.contract != contract {
			panic("mech: sums under different contracts")
		}
		if records += m.records; records > contract.N {
			panic("mech: more records in all parts than N")
		}
		totals = append(totals, m.totals...)
		m.clear()
	}
	return contract, totals
}

// statistic implements MomentNoise.
func (g Gaussian) statistic(c MomentContract, totals []int64) hook.Statistic {
	mustFitGrid(len(totals), c.leastVariance())
	return hook.Totals{Steps: totals, SquaredBound: c.frobeniusSquared(), Weight: c.weight}
}

// entries implements MomentNoise. NoiseMultiplier is the ratio of the standard deviation on the diagonal to
// the sensitivity of the whole matrix. An entry off the diagonal stands for two, so its variance is half of
// that.
func (g Gaussian) entries(c MomentContract, src *Source) func(i, j int) *big.Int {
	diagonal, off := c.noise(g)
	y := new(big.Int)
	return func(i, j int) *big.Int {
		if i == j {
			diagonal.draw(y, src)
		} else {
			off.draw(y, src)
		}
		return y
	}
}

// noise returns the noise on and off the diagonal.
func (c MomentContract) noise(g Gaussian) (diagonal, off *noise) {
	variance := new(big.Rat).SetFloat64(g.NoiseMultiplier)
	variance.Mul(variance, variance).Mul(variance, new(big.Rat).SetInt(c.frobeniusSquared()))
	half := new(big.Rat).Mul(variance, big.NewRat(1, 2))
	return newGaussianNoise(variance), newGaussianNoise(half)
}
