package mean

import "dpsidecar/internal/mech"

// chunkRows is how many rows are computed at a time: few enough for their columns to
// stay in the processor's cache until they are added.
const chunkRows = 256

// rowBuffer holds rows that one goroutine computes from stored ones, chunkRows at a
// time.
type rowBuffer struct {
	x    [][]float64 // D columns of chunkRows
	view [][]float64 // the part of each that is in use
	ones []float64
}

func newRowBuffer(d int) *rowBuffer {
	s := &rowBuffer{make([][]float64, d), make([][]float64, d), make([]float64, chunkRows)}
	all := make([]float64, d*chunkRows)
	for j := range s.x {
		s.x[j] = all[j*chunkRows : (j+1)*chunkRows]
	}
	for i := range s.ones {
		s.ones[i] = 1
	}
	return s
}

// each computes new rows from those of b and passes them to add in chunks, with
// their number. Coordinate j of a chunk is computed by column(dst, j, x, c), where x
// is the stored column, of ones for an intercept, and c the coefficients.
func (s *rowBuffer) each(b Block, column func(dst []float64, j int, x, c []float64), add func(r mech.Rows, m int)) {
	for start := 0; start < len(b.C); start += chunkRows {
		end := min(start+chunkRows, len(b.C))
		m, c, first := end-start, b.C[start:end], 0
		if b.X.Intercept {
			column(s.x[0][:m], 0, s.ones[:m], c)
			first = 1
		}
		for j, x := range b.X.X {
			column(s.x[first+j][:m], first+j, x[start:end], c)
		}
		for j := range s.x {
			s.view[j] = s.x[j][:m]
		}
		add(mech.Rows{X: s.view}, m)
	}
}
