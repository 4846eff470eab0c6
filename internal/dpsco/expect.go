package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/mech/objpert"
	"dpsidecar/internal/dpsco/privacy"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
)

// Expect returns the standard deviation that a fit's noise alone may be expected
// to give each coefficient, in the table's units; nil for methods whose noise
// depends on the data. It is a forecast from public facts and no bound: it takes
// features for independent, normal and as large as their scales, and residuals
// for normal with the request's residual scale.
//
// Errors: those of Plan.
func Expect(a Algorithm, s Shape, b privacy.Budget, accountant privacy.Accountant) ([]float64, error) {
	if f, ok := a.(forecaster); ok {
		return f.expect(s, b, accountant)
	}
	return nil, nil
}

type forecaster interface {
	expect(s Shape, b privacy.Budget, a privacy.Accountant) ([]float64, error)
}

// RowsFor returns about how many rows, within a tenth, would bring the largest
// expected deviation down to the given one; 0 when there is no forecast, or when
// 2^40 would not do.
func RowsFor(deviation float64, a Algorithm, s Shape, b privacy.Budget, accountant privacy.Accountant) int {
	const steps = 7 // to a factor of two
	low, high := 0, 40*steps
	for low < high {
		middle := (low + high) / 2
		s.N = int(math.Exp2(float64(middle) / steps))
		expected, err := Expect(a, s, b, accountant)
		if err == nil && expected == nil {
			return 0
		}
		if err == nil && largest(expected) <= deviation {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if high == 40*steps {
		return 0
	}
	return int(math.Exp2(float64(high) / steps))
}

func largest(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		most = max(most, x)
	}
	return most
}

func (a Scaled) expect(s Shape, b privacy.Budget, accountant privacy.Accountant) ([]float64, error) {
	expected, err := Expect(a.Algorithm, s, b, accountant)
	for j := range expected {
		expected[j] *= a.Y
		if first := s.D - s.Columns(); j >= first {
			expected[j] /= a.X[j-first]
		}
	}
	return expected, err
}

func (a Regression) expect(s Shape, b privacy.Budget, accountant privacy.Accountant) ([]float64, error) {
	posed, err := a.pose(s, b, accountant)
	if err != nil {
		return nil, err
	}
	p, _, err := posed.fix(accountant)
	if err != nil {
		return nil, err
	}
	f, err := methods[p.Method](p)
	if err != nil {
		return nil, err
	}
	switch f := f.(type) {
	case Descent:
		return p.forecast(f)
	case Whitened:
		expected, err := p.forecast(f.Descent)
		if expected != nil && f.Level.Clip > 0 {
			level := 2 * f.Level.Clip * p.z * f.Level.Ratio / float64(p.N)
			expected[0] = math.Hypot(expected[0], level)
		}
		return expected, err
	}
	return nil, nil
}

// forecast is the fixed point of the deviation with the curvature: what noise
// does to the predictions adds to the residuals, of which fewer then count.
func (p *problem) forecast(d Descent) ([]float64, error) {
	var noise []mean.Known
	for _, u := range d.Solver.Uses() {
		n := p.N
		if u.Batch > 0 {
			n = u.Batch
		}
		e, err := d.Mean.At(p.z, n, p.D)
		if err != nil {
			return nil, err
		}
		known, ok := e.(mean.Known)
		if !ok {
			return nil, nil
		}
		noise = append(noise, known)
	}
	most, deviation := p.Radius/math.Sqrt(p.d()), 0.0
	for range 30 {
		curvature := p.slope(d, math.Hypot(p.residual(), deviation*math.Sqrt(p.d())))
		deviation = min(most, response(d.Solver, curvature, noise))
	}
	return repeat(deviation, p.D), nil
}

// residual is the size of a residual: the derivative of a Huber loss, which is
// what ResidualScale tells, is about half of it.
func (p *problem) residual() float64 {
	if _, ok := p.Loss.(loss.Huber); ok {
		return 2 * p.ResidualScale
	}
	return p.ResidualScale
}

// slope is the curvature of the mean loss that the estimator sees, for residuals
// of a size.
func (p *problem) slope(d Descent, size float64) float64 {
	limit := math.Inf(1)
	switch m := d.Mean.(type) {
	case mean.Clip:
		limit = m.Norm / math.Sqrt(p.d())
	case mean.KSU:
		limit = m.Radius / math.Sqrt(p.d())
		if m.Axis {
			limit = m.Radius
		}
	case mean.Catoni:
		limit = m.Scale
	}
	if h, ok := d.Loss.(loss.Huber); ok {
		limit = min(limit, h.Delta)
	}
	if p.Labels { // derivatives lie anywhere between 0 and 1
		return d.Loss.Smoothness() * min(1, limit)
	}
	return max(1e-3, math.Erf(limit/(size*math.Sqrt2)))
}

// response is the standard deviation of what a solver returns on a quadratic of
// the given curvature, of which it starts at the minimum: a solver is linear
// there, so that the noises of its answers add up by their squares, each with
// the weight that it has alone.
func response(s solve.Solver, curvature float64, noise []mean.Known) float64 {
	variance := 0.0
	for call := 0; ; call++ {
		o := &impulse{curvature: curvature, noise: noise, left: call}
		w := make([]float64, 1)
		// The context's is the only error there is, and this one never ends.
		_ = s.Solve(context.Background(), w, o, prox.Zero{})
		if o.left >= 0 {
			return math.Sqrt(variance)
		}
		variance += w[0] * w[0]
	}
}

// impulse answers with the gradient of a quadratic and, at one call, one
// standard deviation of noise.
type impulse struct {
	curvature float64
	noise     []mean.Known
	left      int // calls before the noisy one; negative once it has been
}

// Gradient implements solve.Oracle.
func (o *impulse) Gradient(dst []float64, q solve.Query) {
	for j, w := range q.W {
		if q.Anchor != nil {
			w -= q.Anchor[j]
		}
		dst[j] = o.curvature * w
		if o.left == 0 {
			dst[j] += o.noise[q.Use].Noise(q.Norm)
		}
	}
	o.left--
}

func repeat(v float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func (a L1) expect(s Shape, b privacy.Budget, _ privacy.Accountant) ([]float64, error) {
	if err := a.check(s, b); err != nil {
		return nil, err
	}
	a = a.withDefaults(s, b.Epsilon)
	method, _, err := a.choose(s, b.Epsilon)
	if err != nil {
		return nil, err
	}
	if method == MethodExponential {
		return repeat(a.spread(s, b.Epsilon), s.D), nil
	}
	return repeat(a.perturbation(s, b.Epsilon), s.D), nil
}

// spread is the root mean square of a coordinate of a draw of the exponential
// mechanism around the truth: for independent normal features the mean score is a
// function of the distance r alone, and the law of r has density proportional to
// r^(d-1) exp(-n epsilon score(r) / 2).
func (a L1) spread(s Shape, epsilon float64) float64 {
	const nodes = 400
	d, top := float64(s.D), math.Inf(-1)
	var logs, squares [nodes]float64
	for i := range nodes {
		r := a.Radius * math.Pow(1e-6, float64(i)/nodes) // evenly by logarithm, so that dr is r
		squares[i] = r * r
		logs[i] = d*math.Log(r) - float64(s.N)*epsilon/2*a.score(math.Hypot(a.ResidualScale, r))
		top = max(top, logs[i])
	}
	total, moment := 0.0, 0.0
	for i, l := range logs {
		weight := math.Exp(l - top)
		total += weight
		moment += weight * squares[i]
	}
	return math.Sqrt(moment / total / d)
}

// score is the mean truncated loss of normal residuals of a size, 1 at most.
func (a L1) score(size float64) float64 {
	return overNormal(size, func(r float64) float64 {
		u := min(1, a.Iota*r)
		return -math.Log(1-u+math.Pow(u, a.Theta)/a.Theta) / math.Log(a.Theta)
	})
}

// perturbation is the deviation that the linear term of objective perturbation
// gives a coordinate, by the curvature at its fixed point. A vector with density
// proportional to exp(-|b|/noise) has a mean square of noise^2 (d+1) a coordinate.
func (a L1) perturbation(s Shape, epsilon float64) float64 {
	ridge, noise := objpert.Params{Epsilon: epsilon, Clip: a.Clip, Smoothing: a.Smoothing}.Scales(s.D)
	d, deviation := float64(s.D), 0.0
	for range 30 {
		curvature := overNormal(math.Hypot(a.ResidualScale, deviation*math.Sqrt(d)), func(r float64) float64 {
			return a.Smoothing * a.Smoothing / math.Pow(math.Hypot(r, a.Smoothing), 3)
		})
		deviation = min(a.Radius/math.Sqrt(d), noise*math.Sqrt(d+1)/(float64(s.N)*curvature+ridge))
	}
	return deviation
}

// overNormal is the mean of f over the absolute values of normal residuals.
func overNormal(size float64, f func(r float64) float64) float64 {
	const nodes = 64
	total := 0.0
	for i := range nodes {
		total += f(size * math.Sqrt2 * math.Erfinv((float64(i)+0.5)/nodes))
	}
	return total / nodes
}
