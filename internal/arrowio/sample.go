package arrowio

import (
	"math"

	"dpsidecar/internal/mech"
)

// sample keeps exactly n of the rows it is given: the first n while there are
// no more, a uniformly random n-subset of all of them otherwise.
//
// Source: reservoir sampling, Vitter 1985, Algorithm R. Row number i > n enters
// with probability n/i and then replaces each kept row with equal chance; by
// induction every n-subset of the rows seen is equally likely.
type sample struct {
	columns [][]float64 // n values each
	n, seen uint64
	src     *mech.Source
}

func newSample(columns int, n int64, src *mech.Source) *sample {
	s := &sample{columns: make([][]float64, columns), n: uint64(n), src: src}
	for j := range s.columns {
		s.columns[j] = make([]float64, n)
	}
	return s
}

// add takes the next row.
func (s *sample) add(row []float64) {
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

// pad makes rows of NaN, which contribute the neutral value, of those that
// never came.
func (s *sample) pad() {
	for _, c := range s.columns {
		for i := min(s.seen, s.n); i < s.n; i++ {
			c[i] = math.NaN()
		}
	}
}
