package expmech

import (
	"math"
	"math/big"

	"dpsidecar/internal/mech"
)

// blockRows is the number of rows in a block: few enough that their working memory stays in the first-level
// cache and that the product of their decays, each at least 1/2, cannot underflow.
const blockRows = 512

// maxValue bounds the magnitude of valid values. A row with a larger one is treated like a row with a
// missing value, so that no product of a value and public parameters can overflow.
const maxValue = 0x1p333

// table is the data: the rows without missing or invalid values, by columns, and the number of the other
// rows, which score psi.limit at every grid point.
type table struct {
	x       [][]float64
	y       []float64
	rows    int // complete rows
	missing int
}

// newTable drops incomplete rows. It copies only if there are any.
func newTable(x [][]float64, y []float64) *table {
	complete := func(i int) bool {
		if !(math.Abs(y[i]) <= maxValue) {
			return false
		}
		for _, column := range x {
			if !(math.Abs(column[i]) <= maxValue) {
				return false
			}
		}
		return true
	}
	keep := make([]int32, 0, len(y))
	for i := range y {
		if complete(i) {
			keep = append(keep, int32(i))
		}
	}
	t := &table{x: x, y: y, rows: len(keep), missing: len(y) - len(keep)}
	if t.missing > 0 {
		t.y = gather(y, keep)
		t.x = make([][]float64, len(x))
		for j, column := range x {
			t.x[j] = gather(column, keep)
		}
	}
	return t
}

func gather(column []float64, keep []int32) []float64 {
	out := make([]float64, len(keep))
	for i, k := range keep {
		out[i] = column[k]
	}
	return out
}

// row copies row i into dst, d values, the constant 1 of an intercept included.
func (t *table) row(dst []float64, i int) {
	if len(dst) > len(t.x) {
		dst[0] = 1
		dst = dst[1:]
	}
	for j, column := range t.x {
		dst[j] = column[i]
	}
}

// score evaluates the target on a table.
type score struct {
	*target
	*table
}

// descending returns the table with the rows in roughly descending order of their scaled residuals at k:
// the rows with the largest effect on a bound come first.
func (s *score) descending(k []int64) *table {
	const classes = 1 << 10
	u := make([]float64, s.rows)
	s.residuals(u, 0, s.coefficients(k))
	class := func(i int) int { return classes - int(classes*min(u[i], 1)) }
	var start [classes + 2]int32
	for i := range u {
		start[class(i)+1]++
	}
	for c := range classes {
		start[c+1] += start[c]
	}
	order := make([]int32, s.rows)
	for i := range u {
		c := class(i)
		order[start[c]] = int32(i)
		start[c]++
	}
	t := &table{rows: s.rows, missing: s.missing, y: gather(s.y, order), x: make([][]float64, len(s.x))}
	for j, column := range s.x {
		t.x[j] = gather(column, order)
	}
	return t
}

// residuals fills u with iota*|y_i - <x_i, w>| for the rows from first on. The operations and their order
// depend on the row and on w alone; the explicit conversions forbid fused multiply-adds, which would round
// differently on other machines.
func (s *score) residuals(u []float64, first int, w []float64) {
	y := s.y[first : first+len(u)]
	if s.Intercept {
		for i := range u {
			u[i] = y[i] - w[0]
		}
		w = w[1:]
	} else {
		copy(u, y)
	}
	for j, column := range s.x {
		c, x := w[j], column[first:first+len(u)]
		for i := range u {
			u[i] -= float64(c * x[i])
		}
	}
	for i, r := range u {
		u[i] = s.Iota * math.Abs(r)
	}
}

// blocks calls visit with the scaled residuals of every block of rows at k, from as many goroutines as
// there are processors; worker is the index of the goroutine.
func (s *score) blocks(k []int64, visit func(worker int, u []float64)) {
	w := s.coefficients(k)
	s.workers.share(s.rows, 16*blockRows, func(worker, from, to int) {
		buffer := make([]float64, blockRows)
		for ; from < to; from += blockRows {
			u := buffer[:min(blockRows, to-from)]
			s.residuals(u, from, w)
			visit(worker, u)
		}
	})
}

// total returns sum_i q_i(k), exactly.
func (s *score) total(k []int64) *big.Int {
	sums := make([]big.Int, s.workers)
	s.blocks(k, func(worker int, u []float64) {
		var sum int64 // at most 512 * 2^40
		for _, v := range u {
			sum += s.psi.quanta(v)
		}
		sums[worker].Add(&sums[worker], big.NewInt(sum))
	})
	total := new(big.Int).Mul(big.NewInt(int64(s.missing)), big.NewInt(s.psi.limit))
	for i := range sums {
		total.Add(total, &sums[i])
	}
	return total
}

// estimate returns sum_i q_i(k) / 2^40 within estimateSlack, with one logarithm
// per block of rows.
func (s *score) estimate(k []int64) float64 {
	sums := make([]float64, s.workers)
	s.blocks(k, func(worker int, u []float64) { sums[worker] -= math.Log(s.psi.decays(u)) })
	total := float64(s.missing) * float64(s.psi.limit) / scoreOne
	for _, v := range sums {
		total += v
	}
	return total
}

// decays returns the product of exp(-psi(u)) over at most blockRows residuals.
func (p *psi) decays(u []float64) float64 {
	product := 1.0
	for _, v := range u {
		product *= p.decay(min(v, 1))
	}
	return product
}

// workers is the number of goroutines that may compute at once.
type workers int

// share splits [0, n) into at most one range per worker, each at least grain long, and waits for all of
// them.
func (c workers) share(n, grain int, work func(worker, from, to int)) {
	parts := min(int(c), n/grain)
	if parts <= 1 {
		work(0, 0, n)
		return
	}
	var group mech.PanicGroup
	for part := 1; part < parts; part++ {
		group.Go(func() { work(part, n*part/parts, n*(part+1)/parts) })
	}
	work(0, 0, n/parts)
	group.Wait()
}
