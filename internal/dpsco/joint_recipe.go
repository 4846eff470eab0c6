package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
)

// Thresholds of momentNoise. Above lowMoments JointMoments treats information as low and discards
// more of the sums between cuts as noise. Above nearMoments its last cuts are smaller as well, and
// Newton does not take budget from the second moments of a Huber fit with many coefficients.
const (
	lowMoments  = 0.006
	nearMoments = 0.01
)

// maxWhiten bounds moreForMoments. At the bound a fifth of the budget is left for the step and the intercept's step.
const maxWhiten = 2.3

// jointInformation is the information with which auto takes JointMoments.
var jointInformation = information{moments: 0.075, score: 0.0045, momentsAlone: 0.03}

// moreForMoments returns the factor by which JointMoments increases the budget of the second
// moments. Where their noise hides directions the loss is far larger than from noise of the step. It
// is a function of public facts.
func (p *problem) moreForMoments() float64 {
	if p.GroupCount > 0 {
		return 1
	}
	return numeric.ClampBetween(math.Sqrt(p.momentNoise()/nearMoments), 1, maxWhiten)
}

// momentNoise estimates the noise of second moments relative to an eigenvalue of 1 if they took the
// whole budget. It is a function of public facts.
func (p *problem) momentNoise() float64 { return math.Pow(p.d(), 1.5) / p.recordsPerNoise() }

// momentNoiseOfAFit is the same relative to the second moments of a group of mean size; without
// groups, momentNoise.
func (p *problem) momentNoiseOfAFit() float64 { return p.momentNoise() * float64(max(1, p.GroupCount)) }

// chooseJointMoments decides, for least squares, whether auto whitens, that is, uses JointMoments.
// Methods from papers whiten only if asked.
func (p *problem) chooseJointMoments() {
	enough := p.enoughForJointMoments()
	if p.Method == catalogue.MethodAuto {
		p.why = "joint moments of rows and residuals, then a step of least squares: skewed, long and badly conditioned rows cost little"
		if !enough {
			p.why = p.whyClipped()
		}
	}
	p.setWhitening(p.Method == catalogue.MethodJointMoments || p.Method == catalogue.MethodAuto && enough)
}

// enoughForJointMoments reports whether auto takes JointMoments, from public facts. Where it is asked for by name with
// less information there are no intervals: the few that noise would leave cover too seldom.
func (p *problem) enoughForJointMoments() bool { return p.enough(jointInformation) || p.fewSources() }

// jointMoments returns least squares from joint moments of rows and residuals.
func (p *problem) jointMoments() (fit, error) {
	if !fitsLoss(p.Loss, p.Method) {
		return nil, fmt.Errorf("%w: method %q is for least squares, which is dp_linear_regress; ask for another method", plan.ErrParameter, p.Method)
	}
	p.FeatureNorm, p.Whitening, p.Steps = p.featureNorm(), catalogue.WhiteningOn, 1
	why := ""
	switch {
	case p.Penalty != catalogue.PenaltyNone:
		why = "a penalty moves the coefficients on purpose"
	case !p.enoughForJointMoments():
		why = lowInformation
	}
	return JointMoments{
		Bound:              p.FeatureNorm,
		Scale:              p.ResidualScale,
		LowInformation:     p.momentNoiseOfAFit() > lowMoments,
		VeryLowInformation: p.momentNoiseOfAFit() > nearMoments,
		Whiten:             p.moreForMoments(),
		Levels:             p.Levels,
		Psi:                p.bounded(),
		Meat:               why == "" && p.enoughForMeat(),
		WhyNull:            why,
		Pool:               p.Pool == catalogue.PoolShrink,
	}, nil
}

// enoughForMeat reports whether the meat is released; with groups, by the noise in one of mean size.
func (p *problem) enoughForMeat() bool {
	if p.GroupCount > 0 {
		return p.momentNoiseOfAFit() <= lowMoments
	}
	return p.enough(meatOfJointMoments)
}

// fitsLoss reports whether a method supports a loss.
func fitsLoss(l loss.Loss, method string) bool {
	switch l.(type) {
	case loss.Squared:
		return method != catalogue.MethodNewton
	case loss.Poisson:
		return method == catalogue.MethodAuto || method == catalogue.MethodNewton
	}
	return method != catalogue.MethodJointMoments
}

// forecastJoint forecasts the standard deviation of the noise of the step and the intercept's step, at the cuts
// that histograms without noise would give; with groups, for one of mean size.
func (p *problem) forecastJoint(a JointMoments) (Forecast, error) {
	r, err := a.releases(p.Shape, p.z)
	if err != nil {
		return Forecast{}, err
	}
	f := newJointFit(r)
	f.perRow = float64(max(1, p.GroupCount))
	f.n /= f.perRow
	f.residuals = magnitude.OfNormal(r.residualNoise[pilotPasses-1], p.residual(), a.Scale, int(f.n)).AsRun()
	f.products = magnitude.OfNormal(r.productNoise, p.residual()*math.Sqrt(p.d()), a.Scale, int(f.n)).AsRun()
	f.chooseCuts()
	step, intercept := f.deviations()
	most := p.Radius / math.Sqrt(p.d())
	deviation := table.Repeat(min(most, f.stepCuts.outer*step), p.D)
	if p.Intercept {
		deviation[0] = min(most, math.Hypot(deviation[0], f.interceptCuts.outer*intercept))
	}
	return Forecast{Deviation: deviation}, nil
}
