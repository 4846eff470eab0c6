package experiment

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Fits without privacy, exactly.

// predict returns <x_i, w> for row i, the intercept included.
func (t *Table) predict(i int, w []float64) (z float64) {
	if t.Intercept {
		z, w = w[0], w[1:]
	}
	for j, x := range t.X {
		z += w[j] * x[i]
	}
	return z
}

// meanSquare returns the mean squared residual.
func (t *Table) meanSquare(w []float64) (sum float64) {
	for i, y := range t.Y {
		r := t.predict(i, w) - y
		sum += r * r
	}
	return sum / float64(t.N)
}

// logLoss returns the mean negative log-likelihood of labels 0 and 1.
func (t *Table) logLoss(w []float64) (sum float64) {
	for i, y := range t.Y {
		z := t.predict(i, w)
		if y == 1 {
			z = -z
		}
		sum += math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
	}
	return sum / float64(t.N)
}

// fitLinear returns the least squares fit.
func (t *Table) fitLinear() []float64 {
	return t.newton(make([]float64, t.D), 0, func(z, y float64) (first, second float64) { return z - y, 1 })
}

// fitLogistic returns the maximum likelihood fit.
func (t *Table) fitLogistic() []float64 { return t.fitLogisticRidge(0) }

// fitLogisticRidge minimises the mean log-loss plus lambda / 2 times the squared length of the slopes, by
// Newton's method.
func (t *Table) fitLogisticRidge(lambda float64) []float64 {
	w := make([]float64, t.D)
	for range 25 {
		last := w
		w = t.newton(w, lambda, func(z, y float64) (first, second float64) {
			p := 1 / (1 + math.Exp(-z))
			return p - y, p * (1 - p)
		})
		if distance(w, last) < 1e-9 {
			break
		}
	}
	return w
}

// newton makes one step on the mean of a loss with the given derivatives, plus lambda / 2 times the squared
// length of the slopes.
func (t *Table) newton(w []float64, lambda float64, derivatives func(z, y float64) (first, second float64)) []float64 {
	h, g, x := mat.NewSymDense(t.D, nil), mat.NewVecDense(t.D, nil), mat.NewVecDense(t.D, nil)
	for i, y := range t.Y {
		first, second := derivatives(t.predict(i, w), y)
		for j := range t.D {
			x.SetVec(j, t.at(i, j))
		}
		h.SymRankOne(h, second, x)
		g.AddScaledVec(g, first, x)
	}
	for j := range t.D {
		ridge := lambda * float64(t.N)
		if t.Intercept && j == 0 {
			ridge = 0
		}
		h.SetSym(j, j, h.At(j, j)+ridge+1e-9*float64(t.N))
		g.SetVec(j, g.AtVec(j)+ridge*w[j])
	}
	var chol mat.Cholesky
	step := mat.NewVecDense(t.D, nil)
	if !chol.Factorize(h) || chol.SolveVecTo(step, g) != nil {
		panic("experiment: no unique fit")
	}
	next := make([]float64, t.D)
	for j := range next {
		next[j] = w[j] - step.AtVec(j)
	}
	return next
}

// at returns the entry of row i and coefficient j.
func (t *Table) at(i, j int) float64 {
	if t.Intercept {
		if j == 0 {
			return 1
		}
		j--
	}
	return t.X[j][i]
}
