package arrowio

import (
	"math"

	"dpsidecar/internal/mech"
)

// reservoir keeps exactly n of the rows it is given: the first n if there are no more, otherwise a
// uniformly random n-subset of all of them.
//
// Source: reservoir sampling, Vitter 1985, Algorithm R. Row number i > n enters with probability n/i and
// then replaces each kept row with equal probability; by induction every n-subset of the rows seen is
// equally likely.
type reservoir struct {
	columns [][]float64 // n values each
	n, seen uint64
	src     *mech.Source
}

func newReservoir(columns int, n int64, numbers func(n int) []float64, src *mech.Source) *reservoir {
	return &reservoir{columns: makeColumns(columns, int(n), numbers), n: uint64(n), src: src}
}

// makeColumns allocates columns of n zeros each, with a function as Request.Make.
func makeColumns(columns, n int, numbers func(n int) []float64) [][]float64 {
	all := make([][]float64, columns)
	for j := range all {
		if numbers == nil {
			all[j] = make([]float64, n)
		} else {
			all[j] = numbers(n)
		}
	}
	return all
}

// add takes the next row.
func (s *reservoir) add(row []float64) {
	i := s.seen
	s.seen++
	if i >= s.n {
		if i = s.src.Uint64n(s.seen); i >= s.n {
			return
		}
	}
	for j, v := range row {
		s.columns[j][i] = v
	}
}

// pad adds rows of NaN, which contribute nothing to a fit, if fewer than n rows were added.
func (s *reservoir) pad() {
	for _, c := range s.columns {
		for i := min(s.seen, s.n); i < s.n; i++ {
			c[i] = math.NaN()
		}
	}
}
