package experiment

import (
	"math"
	"slices"

	"dpsidecar/internal/catalogue"

	"gonum.org/v1/gonum/mat"
)

// posed is a table in scaled units, row by row with the constant first, with the exact fit of a model.
// Peers are fitted to it, and the excess of all fits is measured on it.
type posed struct {
	*Table
	model string
	x     []float64 // N rows of D
	y     []float64
	known []float64 // known part of each prediction: logarithms of exposures
	exact []float64
	least float64       // mean loss of exact
	h     *mat.SymDense // mean outer product of rows
	grams map[gramKey]gram
}

// pose divides a table by its scales. Labels are not scaled.
func pose(t *Table, model string) *posed {
	p := &posed{Table: t, model: model, x: make([]float64, t.N*t.D), y: make([]float64, t.N), known: make([]float64, t.N), grams: map[gramKey]gram{}}
	first := t.D - len(t.X)
	for i := range t.N {
		row := p.row(i)
		if first == 1 {
			row[0] = 1
		}
		for j, x := range t.X {
			row[first+j] = x[i] / t.Scales[j]
		}
		p.y[i] = t.Y[i] / p.targetScale()
		if t.Exposure != nil {
			p.known[i] = math.Log(t.Exposure[i])
		}
	}
	p.h = p.gram(math.Inf(1), math.Inf(1)).h
	p.h.ScaleSym(1/float64(t.N), p.h)
	loss, none := p.loss(), make([]float64, t.D)
	if model == "huber" { // Huber's loss may be flat at 0, where most residuals can exceed delta, so start from least squares
		p.exact = p.minimise(squaredOf, math.Inf(1), 0, none)
	}
	p.exact = p.minimise(loss, math.Inf(1), 0, none)
	p.least = p.meanLoss(p.exact)
	return p
}

func (p *posed) row(i int) []float64 { return p.x[i*p.D : (i+1)*p.D] }

// flags returns the columns that hold only 0 and 1, as boolean columns do.
func (t *Table) flags() (flags []int) {
	for j, x := range t.X {
		if !slices.ContainsFunc(x, func(v float64) bool { return v != 0 && v != 1 && !math.IsNaN(v) }) {
			flags = append(flags, j)
		}
	}
	return flags
}

func (p *posed) targetScale() float64 {
	if catalogue.Classifies(p.model) || catalogue.IsCount(p.model) {
		return 1
	}
	return p.TargetScale
}

// scaled converts coefficients from the table's units to scaled units.
func (p *posed) scaled(w []float64) []float64 {
	v := make([]float64, len(w))
	first := p.D - len(p.X)
	for j := range w {
		v[j] = w[j] / p.targetScale()
		if j >= first {
			v[j] *= p.Scales[j-first]
		}
	}
	return v
}

// excess returns by how much, in percent, the mean loss of scaled coefficients exceeds the least mean loss.
func (p *posed) excess(w []float64) float64 {
	if p.model != "linear" {
		return 100 * (p.meanLoss(w)/p.least - 1)
	}
	difference := mat.NewVecDense(p.D, nil)
	for j := range w {
		difference.SetVec(j, w[j]-p.exact[j])
	}
	return 100 * mat.Inner(difference, p.h, difference) / 2 / p.least
}

// lossOf is a loss as a function of the prediction z: its value, and first and second derivatives.
type lossOf func(z, y float64) (value, first, second float64)

func squaredOf(z, y float64) (value, first, second float64) { return (z - y) * (z - y) / 2, z - y, 1 }

// loss returns the loss of the model: of Huber's that with delta 1.
func (p *posed) loss() lossOf {
	switch p.model {
	case "logistic":
		return logLossOf
	case "linear":
		return squaredOf
	case "poisson":
		return devianceOf
	}
	return huberOf(1)
}

func logLossOf(z, y float64) (value, first, second float64) {
	e := math.Exp(-math.Abs(z))
	value, first = math.Log1p(e)+math.Max(z, 0)-y*z, 1/(1+e)
	if z < 0 {
		first = e / (1 + e)
	}
	return value, first - y, e / (1 + e) / (1 + e)
}

// maxExponent limits the logarithm of a mean, so that the mean is finite.
const maxExponent = 100

// devianceOf returns half of the deviance of a count y at the mean e^z.
func devianceOf(z, y float64) (value, first, second float64) {
	mean := math.Exp(min(z, maxExponent))
	value = mean - y
	if y > 0 {
		value += y * (math.Log(y) - z)
	}
	return value, mean - y, mean
}

func huberOf(delta float64) lossOf {
	return func(z, y float64) (value, first, second float64) {
		r := z - y
		if math.Abs(r) <= delta {
			return r * r / 2, r, 1
		}
		return delta * (math.Abs(r) - delta/2), math.Copysign(delta, r), 0
	}
}

func (p *posed) meanLoss(w []float64) (sum float64) {
	loss := p.loss()
	for i, y := range p.y {
		value, _, _ := loss(p.known[i]+dot(p.row(i), w), y)
		sum += value
	}
	return sum / float64(p.N)
}

func dot(a, b []float64) (sum float64) {
	for j, v := range a {
		sum += v * b[j]
	}
	return sum
}

// minimise minimises the sum over the rows of a loss, in which rows longer than longest have a smaller
// weight, plus ridge / 2 times the squared length of w plus <linear, w>, by Newton's method with halved
// steps.
func (p *posed) minimise(loss lossOf, longest, ridge float64, linear []float64) []float64 {
	w := append([]float64(nil), p.exact...)
	if w == nil {
		w = make([]float64, p.D)
	}
	value, g, h := p.derivatives(loss, longest, ridge, linear, w)
	for range 60 {
		step := mat.NewVecDense(p.D, nil)
		var chol mat.Cholesky
		if !chol.Factorize(h) || chol.SolveVecTo(step, g) != nil {
			panic("experiment: no unique fit")
		}
		drop, size := mat.Dot(step, g), 1.0
		next := make([]float64, p.D)
		for ; ; size /= 2 {
			for j := range w {
				next[j] = w[j] - size*step.AtVec(j)
			}
			v, g2, h2 := p.derivatives(loss, longest, ridge, linear, next)
			if v <= value-1e-4*size*drop || size < 1e-6 {
				value, g, h = v, g2, h2
				break
			}
		}
		w = next
		if drop < 1e-9*(math.Abs(value)+1e-9) {
			break
		}
	}
	return w
}

// derivatives returns the value, gradient and Hessian of the objective of minimise.
func (p *posed) derivatives(loss lossOf, longest, ridge float64, linear, w []float64) (value float64, g *mat.VecDense, h *mat.SymDense) {
	d := p.D
	gradient, hessian := make([]float64, d), make([]float64, d*d)
	for i, y := range p.y {
		row := p.row(i)
		weight := 1.0
		if !math.IsInf(longest, 1) {
			weight = math.Min(1, longest*longest/dot(row, row))
		}
		v, first, second := loss(p.known[i]+dot(row, w), y)
		value += weight * v
		first, second = weight*first, weight*max(second, 1e-9)
		for j, a := range row {
			gradient[j] += first * a
			a *= second
			for k := j; k < d; k++ {
				hessian[j*d+k] += a * row[k]
			}
		}
	}
	for j := range d {
		value += ridge/2*w[j]*w[j] + linear[j]*w[j]
		gradient[j] += ridge*w[j] + linear[j]
		hessian[j*d+j] += ridge + 1e-12*float64(p.N)
	}
	return value, mat.NewVecDense(d, gradient), mat.NewSymDense(d, hessian)
}

type gramKey struct{ longest, highest float64 }

// gram holds the sums that determine a least squares fit.
type gram struct {
	h *mat.SymDense
	g []float64
}

// gram sums the products of rows shortened to a length, and their products with the clamped target.
func (p *posed) gram(longest, highest float64) gram {
	key := gramKey{longest, highest}
	if found, ok := p.grams[key]; ok {
		return found
	}
	d := p.D
	h, g, z := make([]float64, d*d), make([]float64, d), make([]float64, d)
	for i, y := range p.y {
		p.shorten(z, i, longest)
		y = math.Max(-highest, math.Min(y, highest))
		for j, a := range z {
			g[j] += a * y
			for k := j; k < d; k++ {
				h[j*d+k] += a * z[k]
			}
		}
	}
	sums := gram{mat.NewSymDense(d, h), g}
	if !math.IsInf(longest, 1) {
		p.grams[key] = sums
	}
	return sums
}

// shorten writes row i to z, scaled to at most the length longest.
func (p *posed) shorten(z []float64, i int, longest float64) {
	copy(z, p.row(i))
	if square := dot(z, z); square > longest*longest {
		by := longest / math.Sqrt(square)
		for j := range z {
			z[j] *= by
		}
	}
}
