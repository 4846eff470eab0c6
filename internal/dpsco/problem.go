package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/privacy"
	"dpsidecar/internal/dpsco/solve"
)

// problem is a Regression with all of its public parameters decided: what the
// recipes are written in.
type problem struct {
	Regression
	Shape
	budget  privacy.Budget
	reserve float64 // of delta, for what mechanisms spend of it themselves
	rho     float64 // what the budget buys in zCDP
	rdp     bool    // the account prices batches by their amplification
	z       float64 // noise multiplier of one estimate, once it is known
	why     string
}

// pose checks the request and fills in what was not given.
func (a Regression) pose(s Shape, b privacy.Budget, accountant privacy.Accountant) (*problem, error) {
	if err := regressionFields.check(a); err != nil {
		return nil, err
	}
	switch {
	case !(b.Epsilon >= minEpsilon && b.Epsilon <= maxEpsilon):
		return nil, fmt.Errorf("%w: eps is %v; it must be a number from %g to %g", ErrParameter, b.Epsilon, minEpsilon, float64(maxEpsilon))
	case !(b.Delta > 0 && b.Delta < 1):
		return nil, fmt.Errorf("%w: delta is %v; it must be above 0 and below 1", ErrParameter, b.Delta)
	case s.N < 1 || s.D < 1:
		return nil, fmt.Errorf("%w: %d rows and %d coefficients; a regression needs one of each", ErrInfeasible, s.N, s.D)
	case a.Penalty == PenaltyGroupL1 && len(a.Groups) == 0:
		return nil, fmt.Errorf("%w: penalty %q needs option \"groups\"", ErrParameter, a.Penalty)
	case accountant == (privacy.PureSum{}):
		return nil, fmt.Errorf("%w: this data set has pure accounting, which has no delta to spend; dp_l1_regress needs none, and a steward can register the data with delta > 0", ErrInfeasible)
	case a.Labels && a.Positive == a.Negative && a.Positive != 0:
		return nil, fmt.Errorf("%w: positive_label and negative_label are both %v", ErrParameter, a.Positive)
	}
	budget := privacy.Budget{Epsilon: below(b.Epsilon), Delta: b.Delta - privacy.Reserve(b.Delta)}
	_, rdp := accountant.(privacy.AtOrder)
	p := &problem{Regression: a, Shape: s, budget: budget, reserve: b.Delta - budget.Delta, rho: privacy.ZCDPRho(budget.Epsilon, budget.Delta), rdp: rdp}
	p.defaults()
	return p, nil
}

// at is the problem at a noise multiplier.
func (p problem) at(z float64) *problem {
	p.z = z
	return &p
}

// defaults fills in what every method shares, then what its own tuning knows.
func (p *problem) defaults() {
	if p.Labels && p.Positive == p.Negative {
		p.Positive = 1
	}
	if _, ok := p.Loss.(loss.Huber); ok {
		set(&p.HuberDelta, 1)
		p.Loss = loss.Huber{Delta: p.HuberDelta}
	}
	if p.Method == "" {
		p.Method = MethodAuto
	}
	if p.Penalty == "" {
		p.Penalty = PenaltyNone
	}
	set(&p.L1Ratio, 0.5)
	set(&p.Radius, 10)
	set(&p.ResidualScale, min(1, p.Loss.Lipschitz()/2))
	set(&p.FeatureNorm, 1.5*math.Sqrt(p.d()))
	p.Whitening = p.chooseWhitening()
	if tune, ok := tunings[p.Method]; ok {
		tune(p)
	}
	p.tuneDescent()
}

// information is rows times the budget: the inverse of the noise, in records,
// of one sum that takes all of it.
func (p *problem) information() float64 { return float64(p.N) * math.Sqrt(2*p.rho) }

func (p *problem) d() float64 { return float64(p.D) }

// chooseWhitening decides whether a part of the budget goes to the second
// moments. auto whitens unless their noise would hide the smaller ones; the
// papers' methods do it when asked.
func (p *problem) chooseWhitening() string {
	switch {
	case p.Whitening == WhiteningOn || p.Whitening == WhiteningOff:
		return p.Whitening
	case p.Method == MethodAuto && p.momentNoise() <= 0.5:
		return WhiteningOn
	}
	return WhiteningOff
}

// momentNoise is how much noise adds to the smallest second moments, about.
func (p *problem) momentNoise() float64 {
	return 2 * math.Sqrt2 * p.FeatureNorm * p.FeatureNorm * math.Sqrt(p.d()/whiteningShare) / p.information()
}

func (p *problem) whitens() bool { return p.Whitening == WhiteningOn }

// curvature bounds that of a row's loss along the prediction; a loss with a kink
// counts as one that is smooth around it.
func (p *problem) curvature() float64 { return min(1, p.Loss.Smoothness()) }

// smoothness is that of the mean loss, for features of length sqrt(d).
func (p *problem) smoothness() float64 {
	if p.whitens() {
		return p.curvature()
	}
	return p.curvature() * p.d()
}

// gradientNorm is the length of a typical row gradient.
func (p *problem) gradientNorm() float64 { return p.ResidualScale * math.Sqrt(p.d()) }

// tuneDescent sets what a first-order method needs and nobody has set yet.
func (p *problem) tuneDescent() {
	steps := 100.0
	if p.whitens() {
		steps = 15
	}
	set(&p.Steps, steps)
	set(&p.StepSize, 1/p.smoothness())
	set(&p.Clip, p.gradientNorm())
	set(&p.Moment, p.ResidualScale*p.ResidualScale)
	set(&p.Range, 4*p.ResidualScale)
	set(&p.Batch, float64(p.N))
}

// tuneAuto sets what served best on generated and real tables
// (docs/experiments.md).
func (p *problem) tuneAuto() {
	switch {
	case !p.whitens():
	case p.Labels:
		set(&p.Steps, 40)
		set(&p.Clip, 0.7*math.Sqrt(p.d()))
	default:
		set(&p.Clip, 0.6*p.ResidualScale*p.leverage())
	}
}

func (p *problem) tuneTrimmed() {
	set(&p.Steps, 50)
	set(&p.StepSize, 2/p.smoothness())
	set(&p.Range, 8*p.ResidualScale)
}

func (p *problem) tuneKSU() {
	set(&p.Truncation, 2*p.gradientNorm())
}

func (p *problem) tuneAxis() {
	set(&p.Truncation, 2*p.ResidualScale)
}

func (p *problem) tuneMedian() {
	set(&p.Blocks, 7)
}

// tuneSVRG takes batches where the account prices them as such.
func (p *problem) tuneSVRG() {
	if p.rdp {
		set(&p.Batch, math.Ceil(max(256, float64(p.N)/200)))
	}
	set(&p.StepSize, 0.5/p.smoothness())
}

func (p *problem) tuneAccMD() {
	set(&p.Radius, 3)
}

// rows is how many an estimate on a batch reads.
func (p *problem) rows() int { return int(min(p.Batch, float64(p.N))) }

// batch is rows as solvers take it: 0 for all.
func (p *problem) batch() int {
	if p.rows() == p.N {
		return 0
	}
	return p.rows()
}

// facts are what the papers' rules for steps and step sizes take.
func (p *problem) facts() solve.Facts {
	norm := p.gradientNorm()
	return solve.Facts{
		Smoothness: p.smoothness(), Strong: p.smoothness() / 20, Diameter: 2 * p.Radius, Signal: norm,
		Noise: p.d() * 4 * norm * norm / (p.information() * p.information()), Excess: p.ResidualScale, Reach: 0.5,
	}
}

func (p *problem) parameters() map[string]any {
	m := map[string]any{
		"rows": p.N, "coefficients": p.D, "intercept": p.Intercept, "penalty": p.Penalty, "radius": p.Radius,
		"residual_scale": p.ResidualScale, "noise_multiplier": p.z, "whitening": p.Whitening, "why": p.why,
	}
	for name, v := range map[string]float64{
		"steps": p.Steps, "step_size": p.StepSize, "clip": p.Clip, "truncation": p.Truncation, "range": p.Range, "trim": p.Trim,
		"batch": p.Batch, "blocks": p.Blocks, "moment": p.Moment, "huber_delta": p.HuberDelta,
	} {
		if v != 0 {
			m[name] = v
		}
	}
	if p.Penalty != PenaltyNone {
		m["lambda"] = p.Lambda
	}
	if p.Labels {
		m["positive_label"], m["negative_label"] = p.Positive, p.Negative
	}
	return m
}
