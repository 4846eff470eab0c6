package dpsco

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// problem is a Regression with a shape and a budget, the receiver of all recipes.
type problem struct {
	Regression
	table.Shape
	budget       privacy.Budget
	reserve      float64 // part of delta that mechanisms spend themselves
	rho          float64 // zCDP parameter equivalent to the budget; alone in its account a fit may have somewhat more
	rdp          bool    // the accountant gives credit for sampling
	z            float64 // noise multiplier of one estimate; 0 before calibration
	why          string
	chosenMethod string // the choice of auto; empty: the method itself
	finds        finds

	radiusAsked, scaleAsked, deltaAsked bool // options radius, residual_scale and huber_delta are given
}

// resolve checks the request and fills in the parameters common to all methods.
func (a Regression) resolve(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*problem, error) {
	if err := regressionFields.check(a, optionsOf(slices.Collect(maps.Keys(losses))...)); err != nil {
		return nil, err
	}
	if err := errors.Join(plan.Check(s, b), checkWeights(a.Weight, a.MaxWeight)); err != nil {
		return nil, err
	}
	switch {
	case !(b.Delta > 0 && b.Delta < 1):
		return nil, fmt.Errorf("%w: delta is %v; it must be above 0 and below 1", plan.ErrParameter, b.Delta)
	case a.Penalty == catalogue.PenaltyGroupL1 && len(a.Groups) == 0:
		return nil, fmt.Errorf("%w: penalty %q needs option \"groups\"", plan.ErrParameter, a.Penalty)
	case s.GroupCount > 0 && a.MaxWeight > 0:
		return nil, errWeightsOfGroups
	case accountant == privacy.PureSum{}:
		return nil, fmt.Errorf("%w: the budget of this data set has no delta, which this model needs; ask dp_l1_regress, which needs none. A steward can register the data with a delta above 0 before its first charge, and not after", plan.ErrInfeasible)
	}
	reserve := privacy.Reserve(b.Delta)
	budget := privacy.Budget{Epsilon: plan.JustBelow(b.Epsilon), Delta: b.Delta - reserve}
	_, rdp := accountant.(privacy.AtOrder)
	p := &problem{Regression: a, Shape: s, budget: budget, reserve: reserve, rho: privacy.ZCDPRho(budget.Epsilon, budget.Delta), rdp: rdp, why: "asked for"}
	return p, p.defaults()
}

func (p *problem) defaults() error {
	if p.Labels && p.Negative == p.Positive {
		if p.Positive != 0 {
			return fmt.Errorf("%w: both labels are %v", plan.ErrParameter, p.Positive)
		}
		p.Positive = 1
	}
	if _, ok := p.Loss.(loss.Huber); ok {
		p.deltaAsked = p.HuberDelta != 0
		plan.SetDefault(&p.HuberDelta, 1)
		p.Loss = loss.Huber{Delta: p.HuberDelta}
	}
	p.Method = cmp.Or(p.Method, catalogue.MethodAuto)
	p.Penalty = cmp.Or(p.Penalty, catalogue.PenaltyNone)
	p.Pool = cmp.Or(p.Pool, catalogue.PoolShrink)
	if p.counts() && !fitsLoss(p.Loss, p.Method) {
		return fmt.Errorf("%w: method %q needs a bounded derivative, and that of a count's loss has no bound; ask for method %q", plan.ErrParameter, p.Method, catalogue.MethodAuto)
	}
	p.radiusAsked, p.scaleAsked = p.Radius != 0, p.ResidualScale != 0
	plan.SetDefault(&p.ResidualScale, min(1, p.Loss.Lipschitz()/2))
	p.chooseWhitening()
	plan.SetDefault(&p.Radius, p.usualRadius())
	return nil
}

// usualRadius returns the default radius of the ball of coefficients. In scaled units the
// coefficients of a regression are of order one, or ten times as large or more if scales are guessed
// that much too small. Log-odds have no such unit: the effects of a few strong features add up to
// more than ten, those of an age and its square to a hundred, and where features separate the labels
// they have no bound. Where rows and budget suffice for whitening, a ball that large was found to cost
// no accuracy; otherwise noise fills a ball of any size.
func (p *problem) usualRadius() float64 {
	whitened := p.Method == catalogue.MethodNewton || p.Method == catalogue.MethodJointMoments || p.Method == catalogue.MethodAuto && p.whitens()
	switch {
	case p.counts():
		return catalogue.CountRadius
	case !whitened:
		return 10
	case p.Labels:
		return catalogue.LabelRadius
	}
	return catalogue.WhitenedRadius
}

// chooseWhitening decides whether part of the budget goes to the second moments. auto whitens unless
// their noise would hide the smaller ones; methods from papers whiten only if asked.
func (p *problem) chooseWhitening() {
	if _, squares := p.Loss.(loss.Squared); squares {
		p.chooseJointMoments()
		return
	}
	noise := 2 * math.Sqrt2 * p.featureNorm() * p.featureNorm() * math.Sqrt(p.d()/whiteningShare) / p.recordsPerNoise()
	few := (noise > 0.5 || p.Labels) && !p.newtonServes() // for labels whitened descent is less accurate than either
	if p.Method == catalogue.MethodAuto {
		switch {
		case p.counts():
			p.why = "Newton steps are what there is for counts"
		case few && p.Labels:
			p.why = "too few rows for this budget and so many coefficients for Newton steps: accelerated descent, in which long rows weigh less"
		case few:
			p.why = p.whyClipped()
		case p.newtonServes():
			p.why = "Newton steps from a start by joint moments: skewed, long and badly conditioned rows cost little"
		default:
			p.why = "whitening and a robust descent serve skewed and badly conditioned features"
		}
	}
	p.setWhitening(p.Method == catalogue.MethodNewton || p.Method == catalogue.MethodAuto && !few)
}

// setWhitening sets whether rows are whitened, unless the request says it.
func (p *problem) setWhitening(on bool) {
	switch {
	case p.Whitening == catalogue.WhiteningOn, p.Whitening == catalogue.WhiteningOff:
	case on:
		p.Whitening = catalogue.WhiteningOn
	default:
		p.Whitening = catalogue.WhiteningOff
	}
}

// withNoise returns the problem at a noise multiplier.
func (p problem) withNoise(z float64) *problem {
	p.z = z
	return &p
}

// recordsPerNoise returns N over the standard deviation of the noise, counted in records, of one sum
// that has the whole budget.
func (p *problem) recordsPerNoise() float64 { return float64(p.N) * math.Sqrt(2*p.rho) }

func (p *problem) d() float64 { return float64(p.D) }

func (p *problem) whitens() bool { return p.Whitening == catalogue.WhiteningOn }

// featureNorm returns the bound on row lengths for the second moments. A row has only one level of
// each category, so that each column of the table, not each coefficient, adds about 1 to its squared
// length.
func (p *problem) featureNorm() float64 {
	if p.FeatureNorm == 0 {
		return 1.5 * math.Sqrt(p.sources())
	}
	return p.FeatureNorm
}

// sources returns the number of columns of the table that features are made from.
func (p *problem) sources() float64 {
	if p.Sources == 0 {
		return p.d()
	}
	return float64(p.Sources)
}

// The largest noise in the first pass, relative to an eigenvalue of 1, at which requests with
// categories are whitened. The alternative, a clipped descent, hardly moves the coefficients of rare
// levels (docs/experiments/categories.md). dp_int.rows_for_intervals has them too.
const (
	maxCategoryMoments = 0.08
	maxLabelCategories = 0.06 // for labels
)

// fewSources reports whether rows are shorter than their number of coefficients suggests, because of
// categories, and short enough for whitening. It is a function of public facts.
func (p *problem) fewSources() bool {
	most := maxCategoryMoments
	if p.Labels {
		most = maxLabelCategories
	}
	return p.sources() < p.d() && p.sources()*math.Sqrt(p.d())/p.recordsPerNoise() <= most
}

// curvature bounds the second derivative of the loss in the prediction; for a loss with a kink it is 1.
func (p *problem) curvature() float64 { return min(1, p.Loss.Smoothness()) }

// smoothness bounds the curvature of the mean loss, for features of length sqrt(d).
func (p *problem) smoothness() float64 {
	if p.whitens() {
		return p.curvature()
	}
	return p.curvature() * p.d()
}

// gradientNorm returns the length of a typical row gradient.
func (p *problem) gradientNorm() float64 { return p.ResidualScale * math.Sqrt(p.d()) }

// parameters returns the parameters of the plan, all public.
func (p *problem) parameters() map[string]any {
	m := map[string]any{
		"rows": p.N, "coefficients": p.D, "intercept": p.Intercept, "penalty": p.Penalty, "whitening": p.Whitening, "why": p.why,
	}
	for name, v := range map[string]float64{
		"radius": p.Radius, "residual_scale": p.ResidualScale, "noise_multiplier": p.z, "feature_norm": p.FeatureNorm, "clip": p.Clip,
		"moment": p.Moment, "truncation": p.Truncation, "range": p.Range, "trim": p.Trim, "steps": p.Steps, "step_size": p.StepSize,
		"batch": p.Batch, "blocks": p.Blocks, "huber_delta": p.HuberDelta, "lambda": p.Lambda, "l1_ratio": p.L1Ratio,
	} {
		if v != 0 {
			m[name] = v
		}
	}
	if p.Aggregator != "" {
		m["aggregator"] = p.Aggregator
	}
	if p.Exposure != "" {
		m["exposure"] = p.Exposure
	}
	nameColumns(m, p.Weight, p.MaxWeight, p.Offset)
	if p.Penalty == catalogue.PenaltyGroupL1 {
		m["groups"] = p.Groups
	}
	if p.GroupCount > 0 {
		m["by"], m["by_levels"], m["pool"] = p.By, p.GroupCount, p.Pool
	}
	if p.Labels {
		m["positive_label"], m["negative_label"] = p.Positive, p.Negative
	}
	return m
}
