package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/mech/objpert"
	"dpsidecar/internal/privacy"
)

// Forecast is an estimate, not a bound, of a fit's error from public facts. It assumes
// independent normal features with their registered scales around their centres, and normal
// residuals with the request's residual scale.
type Forecast struct {
	Deviation []float64 // standard deviation that the noise gives each coefficient; nil: it depends on the data
	Short     float64   // share of the way from zero to the answer that the method does not go
}

// Expect forecasts a fit, in the table's units.
//
// Errors: those of Plan.
func Expect(a Algorithm, s Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	if f, ok := a.(forecaster); ok {
		return f.expect(s, b, accountant)
	}
	return Forecast{}, nil
}

type forecaster interface {
	expect(s Shape, b privacy.Budget, a privacy.Accountant) (Forecast, error)
}

// RowsFor returns about how many rows, within a tenth, would bring the largest
// expected deviation, and what is short of the way, down to a share; 0 when there
// is no forecast, or when 2^40 would not do.
func RowsFor(share float64, a Algorithm, s Shape, b privacy.Budget, accountant privacy.Accountant) int {
	const steps = 7 // to a factor of two
	low, high := 0, 40*steps
	for low < high {
		middle := (low + high) / 2
		s.N = int(math.Exp2(float64(middle) / steps))
		expected, err := Expect(a, s, b, accountant)
		if err == nil && expected.Deviation == nil {
			return 0
		}
		if err == nil && expected.Short <= share && largest(expected.Deviation) <= share {
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

func (a Scaled) expect(s Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	f, err := Expect(a.Inner(), s, b, accountant)
	a.unscaleDeviations(f.Deviation)
	return f, err
}

func (a Regression) expect(s Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	posed, err := a.pose(s, b, accountant)
	if err != nil {
		return Forecast{}, err
	}
	p, _, err := posed.fix(accountant)
	if err != nil {
		return Forecast{}, err
	}
	f, err := methods[p.Method](p)
	if err != nil {
		return Forecast{}, err
	}
	switch f := f.(type) {
	case Descent:
		return p.forecast(f)
	case Whitened:
		return p.forecast(f.Descent)
	case Centred:
		return p.forecast(f.Descent)
	case JointMoments:
		return p.forecastJoint(f)
	case Newton:
		return p.forecastNewton(f)
	case SampleAggregate:
		return Forecast{Deviation: repeat(p.scatter(f), p.D)}, nil
	}
	return Forecast{}, nil
}

// scatter is the deviation that the noise of an Aggregator gives a coordinate, when
// the fits of blocks spread as ResidualScale says.
func (p *problem) scatter(a SampleAggregate) float64 {
	most := p.Radius / math.Sqrt(p.d())
	if r, ok := a.Aggregator.(RangeMean); ok { // the window is about two bins
		return min(most, p.z*2*math.Sqrt(p.d())*r.Bins.Width/float64(a.Blocks))
	}
	return min(most, p.centreScatter(a.Aggregator.(SmoothCentre), float64(a.Blocks)))
}

// centreScatter is that of a mech.Centre: twice the distance that holds half of the
// blocks' fits, or twice what is left of the ball's diameter, whichever is more, over
// the shift that is hidden. The factor on the constants is what Centre was seen to
// find at eps 0.5 to 20.
func (p *problem) centreScatter(c SmoothCentre, blocks float64) float64 {
	eps, tail, factor := c.Epsilon, math.Log(2/c.Delta), 2/(1+c.Epsilon/25)
	shift, decay := factor*eps/(5*math.Sqrt(2*tail)), factor*eps/(8*(p.d()+tail))
	spread := p.residual() / p.curvature() * math.Sqrt(blocks/float64(p.N)*p.d())
	return 2 * max(spread, 2*p.Radius*math.Exp(-decay*blocks/2)) / shift
}

// forecast is the fixed point of the deviation with the curvature: what noise
// does to the predictions adds to the residuals, of which fewer then count.
func (p *problem) forecast(d Descent) (Forecast, error) {
	var noise []mean.Known
	for _, u := range d.Solver.Uses() {
		n := p.N
		if u.Batch > 0 {
			n = u.Batch
		}
		e, err := d.Mean.At(p.z, n, p.D)
		if err != nil {
			return Forecast{}, err
		}
		known, ok := e.(mean.Known)
		if !ok {
			return Forecast{}, nil
		}
		noise = append(noise, known)
	}
	most, deviation, curvature := p.Radius/math.Sqrt(p.d()), 0.0, 0.0
	for range 30 {
		curvature = p.slope(d, math.Hypot(p.residual(), deviation*math.Sqrt(p.d())))
		deviation = min(most, response(d.Solver, curvature, noise))
	}
	return Forecast{repeat(deviation, p.D), short(d.Solver, curvature)}, nil
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
// the given curvature when it starts at the minimum. Solvers are linear there, so
// the variances of the calls' noises add up: each call is made noisy alone, by one
// standard deviation, and the squared outputs are summed.
func response(s solve.Solver, curvature float64, noise []mean.Known) float64 {
	variance := 0.0
	for call := 0; ; call++ {
		o := &quadratic{curvature: curvature, noise: noise, left: call}
		w := make([]float64, 1)
		// The context's is the only error there is, and this one never ends.
		_ = s.Solve(context.Background(), w, o, prox.Zero{})
		if o.left >= 0 {
			return math.Sqrt(variance)
		}
		variance += w[0] * w[0]
	}
}

// short is the distance from the minimum of a quadratic at which a solver stops when
// it starts at distance 1.
func short(s solve.Solver, curvature float64) float64 {
	w := make([]float64, 1)
	_ = s.Solve(context.Background(), w, &quadratic{curvature: curvature, minimum: 1, left: -1}, prox.Zero{})
	return math.Abs(1 - w[0])
}

// quadratic answers with its gradient and, at one call, one standard deviation of
// noise.
type quadratic struct {
	curvature float64
	minimum   float64
	noise     []mean.Known
	left      int // calls before the noisy one; negative once it has been
}

// Gradient implements solve.Oracle.
func (o *quadratic) Gradient(dst []float64, q solve.Query) {
	for j, w := range q.W {
		origin := o.minimum
		if q.Anchor != nil {
			origin = q.Anchor[j]
		}
		dst[j] = o.curvature * (w - origin)
		if o.left == 0 {
			dst[j] += o.noise[q.Use].Noise(q.Norm)
		}
	}
	o.left--
}

func (a L1) expect(s Shape, b privacy.Budget, _ privacy.Accountant) (Forecast, error) {
	if err := a.check(s, b); err != nil {
		return Forecast{}, err
	}
	a = a.withDefaults(s, b.Epsilon)
	method, _, err := a.bounded().choose(s, b.Epsilon)
	if err != nil {
		return Forecast{}, err
	}
	if method == catalogue.MethodStaged {
		deviation, short := newStaged(a, s, b.Epsilon).expect()
		return Forecast{repeat(deviation, s.D), short}, nil
	}
	if a = a.bounded(); method == catalogue.MethodExponential {
		return Forecast{Deviation: repeat(a.spread(s, b.Epsilon), s.D)}, nil
	}
	deviation, short := a.perturbation(s, b.Epsilon)
	return Forecast{repeat(deviation, s.D), short}, nil
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
// The ridge holds back a share of the way.
func (a L1) perturbation(s Shape, epsilon float64) (deviation, short float64) {
	ridge, noise := objpert.Params{Epsilon: epsilon, Clip: a.Clip, Smoothing: a.Smoothing, Tilt: a.tilt()}.Scales(s.D)
	d := float64(s.D)
	for range 30 {
		size := math.Hypot(a.ResidualScale, deviation*math.Sqrt(d))
		away := size * math.Sqrt2 * math.Erfinv(a.tilt()) // of the quantile from the median
		bend := func(r float64) float64 { return a.Smoothing * a.Smoothing / math.Pow(math.Hypot(r, a.Smoothing), 3) }
		curvature := overNormal(size, func(r float64) float64 { return (bend(r-away) + bend(r+away)) / 2 })
		total := float64(s.N)*curvature + ridge
		deviation, short = min(a.Radius/math.Sqrt(d), noise*math.Sqrt(d+1)/total), ridge/total
	}
	return deviation, short
}

// perturbationError is the root mean square that noise and ridge together make a
// coefficient wrong, if it is as large as its scale.
func (a L1) perturbationError(s Shape, epsilon float64) float64 {
	deviation, short := a.perturbation(s, epsilon)
	return math.Hypot(deviation, short)
}

// expect is what perturbation says of the last fit, whose smoothing lies at a quantile of
// the residuals. Either fit holds back a share of the way that is left.
func (f staged) expect() (deviation, short float64) {
	fit := f.L1
	if fit.Radius == 0 {
		fit.Radius = math.Inf(1)
	}
	fit.Clip, fit.Smoothing = math.Sqrt(float64(f.shape.D)), roughSmoothing*f.ResidualScale
	rough, left := fit.perturbation(f.shape, f.shares.rough)
	residual := math.Hypot(f.ResidualScale, rough*math.Sqrt(float64(f.shape.D)))
	thinner := math.Exp(square(math.Erfinv(f.tilt()))) // than around the median are residuals there
	fit.Clip, fit.Smoothing = f.clip, residual*math.Sqrt2*math.Erfinv(min(f.level*thinner, .9))
	of := f.shape
	of.N = int(f.rowsOfLast())
	deviation, short = fit.perturbation(of, f.shares.last)
	return deviation, left * short
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
