package dpsco

import (
	"cmp"
	"context"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/objpert"
	"dpsidecar/internal/privacy"
)

// Forecast is an estimate, not a bound, of a fit's error from public facts. It assumes
// independent normal features with their registered scales around their centres, and normal
// residuals with the request's residual scale.
type Forecast struct {
	Deviation []float64 // standard deviation that the noise gives each coefficient; nil: it depends on the data
	Shrinkage float64   // fraction of the distance from zero to the minimum that the method leaves
}

// Expect forecasts a fit, in the table's units.
//
// Errors: those of Plan.
func Expect(a plan.Algorithm, s table.Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	if f, ok := a.(forecaster); ok {
		return f.expect(s, b, accountant)
	}
	return Forecast{}, nil
}

type forecaster interface {
	expect(s table.Shape, b privacy.Budget, a privacy.Accountant) (Forecast, error)
}

// RowsFor returns the least number of rows, to within about a tenth, for which the largest expected deviation
// and Forecast.Shrinkage are both at most share. It returns 0 if there is no forecast or the number is not below
// 2^40.
func RowsFor(share float64, a plan.Algorithm, s table.Shape, b privacy.Budget, accountant privacy.Accountant) int {
	const steps = 7 // per factor of two
	low, high := 0, 40*steps
	for low < high {
		middle := (low + high) / 2
		s.N = int(math.Exp2(float64(middle) / steps))
		expected, err := Expect(a, s, b, accountant)
		if err == nil && expected.Deviation == nil {
			return 0
		}
		if err == nil && expected.Shrinkage <= share && slices.Max(expected.Deviation) <= share {
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

func (a Scaled) expect(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	f, err := Expect(a.Inner(), s, b, accountant)
	a.unscaleDeviations(f.Deviation)
	return f, err
}

func (a Regression) expect(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (Forecast, error) {
	resolved, err := a.resolve(s, b, accountant)
	if err != nil {
		return Forecast{}, err
	}
	p, _, err := resolved.fix(accountant)
	if err != nil {
		return Forecast{}, err
	}
	f, err := p.fit()
	if err != nil {
		return Forecast{}, err
	}
	inner, z := withoutStandardising(f, p.z)
	p = p.withNoise(z)
	switch f := inner.(type) {
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
		return Forecast{Deviation: table.Repeat(p.scatter(f), p.D)}, nil
	}
	return Forecast{}, nil
}

// scatter returns the standard deviation that the noise of an Aggregator gives a coordinate, if the fits of
// the blocks vary as residuals of scale ResidualScale imply.
func (p *problem) scatter(a SampleAggregate) float64 {
	most := p.Radius / math.Sqrt(p.d())
	if r, ok := a.Aggregator.(RangeMean); ok { // the window is about two bins
		return min(most, p.z*2*math.Sqrt(p.d())*r.Bins.Width/float64(a.Blocks))
	}
	return min(most, p.centreScatter(a.Aggregator.(SmoothCentre), float64(a.Blocks)))
}

// centreScatter is scatter for a mech.Centre. The smooth bound on the spread of the blocks' fits is taken to be
// twice their typical distance from the truth, or twice the ball's diameter as reduced by the number of
// blocks, whichever is larger. The noise is that bound over shift. factor approximates, at eps 0.5 to 20, the
// ratio of the shift and decay that mech.Centre calibrates to those of the paper.
func (p *problem) centreScatter(c SmoothCentre, blocks float64) float64 {
	eps, tail, factor := c.Epsilon, math.Log(2/c.Delta), 2/(1+c.Epsilon/25)
	shift, decay := factor*eps/(5*math.Sqrt(2*tail)), factor*eps/(8*(p.d()+tail))
	spread := p.residual() / p.curvature() * math.Sqrt(blocks/float64(p.N)*p.d())
	return 2 * max(spread, 2*p.Radius*math.Exp(-decay*blocks/2)) / shift
}

// forecast forecasts a Descent. It finds the fixed point of deviation and curvature: noise in the coefficients
// makes residuals larger, fewer of which then lie within the clipping threshold, so that the curvature is
// smaller and the deviation larger.
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
	return Forecast{table.Repeat(deviation, p.D), remaining(d.Solver, curvature)}, nil
}

// residual returns the typical size of a residual. For a Huber loss ResidualScale is the scale of the
// derivative, which is about half of that.
func (p *problem) residual() float64 {
	if _, ok := p.Loss.(loss.Huber); ok {
		return 2 * p.ResidualScale
	}
	return p.ResidualScale
}

// slope returns the curvature of the mean loss after clipping by the estimator, for normal residuals of
// standard deviation size. Without labels it is the share of residuals within the clipping threshold.
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

// response returns the standard deviation of a solver's result on a quadratic of
// the given curvature when it starts at the minimum. Solvers are linear there, so
// the variances of the calls' noises add up: each call is made noisy alone, by one
// standard deviation, and the squared outputs are summed.
func response(s solve.Solver, curvature float64, noise []mean.Known) float64 {
	variance := 0.0
	for call := 0; ; call++ {
		o := &quadratic{curvature: curvature, noise: noise, left: call}
		w := make([]float64, 1)
		// Solve fails only when its context ends, and this context never does.
		_ = s.Solve(context.Background(), w, o, prox.Zero{})
		if o.left >= 0 {
			return math.Sqrt(variance)
		}
		variance += w[0] * w[0]
	}
}

// remaining returns the distance from the minimum of a quadratic at which a solver stops when
// it starts at distance 1.
func remaining(s solve.Solver, curvature float64) float64 {
	w := make([]float64, 1)
	_ = s.Solve(context.Background(), w, &quadratic{curvature: curvature, minimum: 1, left: -1}, prox.Zero{})
	return math.Abs(1 - w[0])
}

// quadratic is the solve.Oracle of a quadratic in one dimension. Its gradients are exact, except that one call
// adds one standard deviation of noise.
type quadratic struct {
	curvature float64
	minimum   float64
	noise     []mean.Known
	left      int // number of calls before the noisy one; negative after it
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

func (a L1) expect(s table.Shape, b privacy.Budget, _ privacy.Accountant) (Forecast, error) {
	if err := a.check(s, b); err != nil {
		return Forecast{}, err
	}
	a = a.withDefaults(s, b.Epsilon)
	method, _, err := a.bounded().choose(s, b.Epsilon)
	if err != nil {
		return Forecast{}, err
	}
	if method == catalogue.MethodStaged {
		deviation, shrinkage := newStaged(a, s, b.Epsilon).expect()
		return Forecast{table.Repeat(deviation, s.D), shrinkage}, nil
	}
	if a = a.bounded(); method == catalogue.MethodExponential {
		return Forecast{Deviation: table.Repeat(a.drawError(s, b.Epsilon), s.D)}, nil
	}
	deviation, shrinkage := a.perturbation(s, b.Epsilon)
	return Forecast{table.Repeat(deviation, s.D), shrinkage}, nil
}

// drawError returns the root mean square error of a coordinate of a draw of the exponential mechanism. For
// independent normal features the mean score depends on the distance r of the draw from the truth only, and r
// has a density proportional to r^(d-1) exp(-n epsilon score(r) / 2).
func (a L1) drawError(s table.Shape, epsilon float64) float64 {
	const nodes = 400
	d, top := float64(s.D), math.Inf(-1)
	var logs, squares [nodes]float64
	for i := range nodes {
		r := a.Radius * math.Pow(1e-6, float64(i)/nodes) // equally spaced in log r: dr is proportional to r
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

// score returns the mean truncated loss, at most 1, of normal residuals of standard deviation size.
func (a L1) score(size float64) float64 {
	return overNormal(size, func(r float64) float64 {
		u := min(1, a.Iota*r)
		return -math.Log(1-u+math.Pow(u, a.Theta)/a.Theta) / math.Log(a.Theta)
	})
}

// perturbation forecasts objective perturbation. deviation is the standard deviation that the random linear
// term gives a coordinate, the fixed point of deviation and curvature. A vector b with density proportional to
// exp(-|b|/noise) has a mean square of noise^2 (d+1) a coordinate. shrinkage is Forecast.Shrinkage, due to the ridge.
func (a L1) perturbation(s table.Shape, epsilon float64) (deviation, shrinkage float64) {
	ridge, noise := objpert.Params{Epsilon: epsilon, Clip: a.Clip, Smoothing: a.Smoothing, Tilt: a.tilt()}.Scales(s.D)
	d := float64(s.D)
	for range 30 {
		size := math.Hypot(a.ResidualScale, deviation*math.Sqrt(d))
		away := size * math.Sqrt2 * math.Erfinv(a.tilt()) // distance of the quantile from the median
		bend := func(r float64) float64 { return a.Smoothing * a.Smoothing / math.Pow(math.Hypot(r, a.Smoothing), 3) }
		curvature := overNormal(size, func(r float64) float64 { return (bend(r-away) + bend(r+away)) / 2 })
		total := float64(s.N)*curvature + ridge
		deviation, shrinkage = min(a.Radius/math.Sqrt(d), noise*math.Sqrt(d+1)/total), ridge/total
	}
	return deviation, shrinkage
}

// perturbationError returns the root mean square error of a coefficient of 1, in scaled units, that is due to
// noise and ridge.
func (a L1) perturbationError(s table.Shape, epsilon float64) float64 {
	deviation, shrinkage := a.perturbation(s, epsilon)
	return math.Hypot(deviation, shrinkage)
}

// expect forecasts the last fit by perturbation, with a smoothing at a quantile of the absolute residuals. The
// ridge of each of the two fits leaves a fraction of the remaining distance, so that shrinkage is the product of
// both. Of the noise of the shift to the quantile, which moves the intercept,
// and of the distance that this shift leaves, that of the last fit leaves its fraction.
func (f staged) expect() (deviation, shrinkage float64) {
	fit := f.L1
	if fit.Radius == 0 {
		fit.Radius = math.Inf(1)
	}
	fit.Clip, fit.Smoothing = math.Sqrt(float64(f.shape.D)), roughSmoothing*f.ResidualScale
	rough, left := fit.perturbation(f.shape, f.shares.rough)
	residual := math.Hypot(f.ResidualScale, rough*math.Sqrt(float64(f.shape.D)))
	thinner := math.Exp(square(math.Erfinv(f.tilt()))) // density of residuals at the median over that at quantile tau
	fit.Clip, fit.Smoothing = f.short, residual*math.Sqrt2*math.Erfinv(min(f.level*thinner, .9))
	of := f.shape
	of.N = int(f.rowsOfLast())
	deviation, shrinkage = fit.perturbation(of, f.shares.last)
	if share := cmp.Or(f.shares.refinement.shift, f.shares.quantileShift); share > 0 {
		noise := 6 * max(f.Tau, 1-f.Tau) / share                            // of the shift to the quantile, in rows
		rows := float64(of.N) / (math.Sqrt(2*math.Pi) * residual * thinner) // in a unit's length at the quantile
		deviation = math.Hypot(deviation, shrinkage*noise/rows/math.Sqrt(float64(f.shape.D)))
		if f.shape.GroupCount == 0 { // from the level that the shift looks for to tau
			far := residual * math.Sqrt2 * math.Abs(math.Erfinv(f.tilt())-math.Erfinv(2*f.shiftLevel()-1))
			deviation = math.Hypot(deviation, shrinkage*far/math.Sqrt(float64(f.shape.D)))
		}
	}
	return deviation, left * shrinkage
}

// overNormal returns the mean of f over the absolute values of normal residuals of standard deviation size.
func overNormal(size float64, f func(r float64) float64) float64 {
	const nodes = 64
	total := 0.0
	for i := range nodes {
		total += f(size * math.Sqrt2 * math.Erfinv((float64(i)+0.5)/nodes))
	}
	return total / nodes
}
