package expmech

import "math"

// matrix is a small square matrix by rows; of a symmetric one only the lower triangle is used.
type matrix [][]float64

func newMatrix(d int) matrix {
	m, all := make(matrix, d), make([]float64, d*d)
	for j := range m {
		m[j] = all[j*d : (j+1)*d : (j+1)*d]
	}
	return m
}

func (m matrix) clone() matrix {
	out := newMatrix(len(m))
	out.add(m, 1)
	return out
}

func (m matrix) add(other matrix, factor float64) {
	for j, row := range other {
		for k, v := range row {
			m[j][k] += factor * v
		}
	}
}

func (m matrix) clear() {
	for _, row := range m {
		clear(row)
	}
}

// addSquare adds weight x x' to a symmetric matrix and slope x to a vector.
func (m matrix) addSquare(vector []float64, weight, slope float64, x []float64) {
	vector, m = vector[:len(x)], m[:len(x)]
	for j, v := range x {
		vector[j] += slope * v
		v *= weight
		row := m[j][:j+1]
		for k, w := range x[:len(row)] {
			row[k] += v * w
		}
	}
}

// factor returns the lower Cholesky factor of a symmetric matrix. Pivots not above least times their
// diagonal entry are raised to that value, and ok is then false.
func (m matrix) factor(least float64) (l matrix, ok bool) {
	l, ok = newMatrix(len(m)), true
	for j := range m {
		for k := range j + 1 {
			v := m[j][k]
			for i := range k {
				v -= l[j][i] * l[k][i]
			}
			if k < j {
				l[j][k] = v / l[k][k]
				continue
			}
			if floor := least * m[j][j]; !(v > floor) {
				v, ok = max(floor, math.SmallestNonzeroFloat64), false
			}
			l[j][j] = math.Sqrt(v)
		}
	}
	return l, ok
}

func (m matrix) cholesky() matrix {
	l, _ := m.factor(1e-12)
	return l
}

func (m matrix) definite() bool {
	_, ok := m.factor(1e-6)
	return ok
}

// spread returns sqrt(x' (l l')^-1 x).
func (l matrix) spread(scratch, x []float64) float64 {
	sum := 0.0
	for j, v := range x {
		for k := range j {
			v -= l[j][k] * scratch[k]
		}
		v /= l[j][j]
		scratch[j] = v
		sum += v * v
	}
	return math.Sqrt(sum)
}

// step adds (l l')^-1 gradient to w, shortened to length longest in the metric of l l'. A step that is not
// finite is skipped.
func (l matrix) step(w, gradient []float64, longest float64) {
	d := len(w)
	v := make([]float64, d)
	size := l.spread(v, gradient)
	for j := d - 1; j >= 0; j-- {
		for k := j + 1; k < d; k++ {
			v[j] -= l[k][j] * v[k]
		}
		v[j] /= l[j][j]
	}
	if !(size < math.MaxFloat64) {
		return
	}
	for j := range w {
		w[j] += v[j] * min(1, longest/size)
	}
}
