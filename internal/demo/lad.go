package demo

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// design is a regression by columns; the first column of x is the constant 1.
type design struct {
	x [][]float64
	y []float64
}

// leastAbsolute fits by least absolute deviations, without privacy, to about four digits: iteratively
// reweighted least squares with weights 1 / max(|residual|, bound), where bound decreases. The columns
// should be of similar size.
//
// Errors: those of a singular design.
func (d design) leastAbsolute() ([]float64, error) {
	const rounds, first, last = 60, 1.0, 1e-7
	w := make([]float64, len(d.x))
	weights := make([]float64, len(d.y))
	bound := first
	for range rounds {
		for i, r := range d.residuals(w) {
			weights[i] = 1 / math.Max(math.Abs(r), bound)
		}
		if err := d.leastSquares(w, weights); err != nil {
			return nil, err
		}
		bound *= math.Pow(last/first, 1.0/rounds)
	}
	return w, nil
}

// leastSquares solves the weighted normal equations into w.
func (d design) leastSquares(w, weights []float64) error {
	k := len(d.x)
	a, b := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	for j := range k {
		for l := j; l < k; l++ {
			a.SetSym(j, l, weightedDot(weights, d.x[j], d.x[l]))
		}
		b.SetVec(j, weightedDot(weights, d.x[j], d.y))
	}
	var factor mat.Cholesky
	if !factor.Factorize(a) {
		return mat.Condition(math.Inf(1))
	}
	return factor.SolveVecTo(mat.NewVecDense(k, w), b)
}

func weightedDot(weights, a, b []float64) (sum float64) {
	for i, w := range weights {
		sum += w * a[i] * b[i]
	}
	return sum
}

// residuals returns y - x w, one for each row.
func (d design) residuals(w []float64) []float64 {
	r := append([]float64(nil), d.y...)
	for j, column := range d.x {
		for i, x := range column {
			r[i] -= x * w[j]
		}
	}
	return r
}

// meanAbsoluteError returns the mean absolute residual, which least absolute deviations minimises.
func (d design) meanAbsoluteError(w []float64) (mean float64) {
	for _, r := range d.residuals(w) {
		mean += math.Abs(r)
	}
	return mean / float64(len(d.y))
}
