package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
)

// lowNewtonMoments is the noise of second moments, as momentNoise computes it, above which Newton treats
// more small eigenvalues as noise.
const lowNewtonMoments = 0.02

// fourthStep is the noise of second moments up to which fits of labels make a fourth step.
const fourthStep = 0.005

// information bounds the noise at which auto uses a whitening method: noise of second moments; of a score,
// as scoreNoise computes it; and momentsAlone, the noise of moments below which that of the score does not matter,
// as with one or two coefficients. dp_int.rows_for_intervals has the same bounds where fewer rows mean no intervals.
type information struct{ moments, score, momentsAlone float64 }

var (
	newtonOfLabels = information{moments: 0.12, score: 0.0125, momentsAlone: 0.03}
	newtonOfHuber  = information{moments: 0.07, score: 0.006, momentsAlone: 0.025}
)

// enough reports whether the noise is within those bounds, a function of public facts. By groups, for which
// descents make no fits, second moments alone decide. For least squares and Huber's loss scores decide:
// with many coefficients, noise masks some directions of the moments, but a descent on clipped gradients is
// farther off still. For labels it is not: both decide.
func (p *problem) enough(most information) bool {
	noise := p.momentNoise()
	switch {
	case noise <= most.momentsAlone:
		return true
	case p.GroupCount > 0:
		return noise <= most.moments
	}
	return p.scoreNoise() <= most.score && (noise <= most.moments || !p.Labels)
}

// scoreNoise is the approximate noise on a coordinate of a mean score with the whole budget: a function of
// public facts.
func (p *problem) scoreNoise() float64 { return math.Sqrt(p.d()) / p.recordsPerNoise() }

// newtonServes reports whether auto chooses Newton where it whitens: a function of public facts.
func (p *problem) newtonServes() bool {
	switch {
	case p.counts():
		return true // no other method takes counts
	case p.fewSources():
		return true
	case p.Labels:
		return p.enough(newtonOfLabels)
	}
	return p.enough(newtonOfHuber)
}

// counts reports whether the target is a count.
func (p *problem) counts() bool {
	_, counts := p.Loss.(loss.Poisson)
	return counts
}

// newton is a private Newton fit of a logistic, Huber or Poisson loss.
func (p *problem) newton() (fit, error) {
	c, err := p.curve()
	if err != nil {
		return nil, err
	}
	plan.SetDefault(&p.FeatureNorm, 1.2*math.Sqrt(p.sources()))
	p.Whitening, p.Steps = catalogue.WhiteningOn, float64(c.shares().steps)
	why := ""
	switch {
	case p.Penalty != catalogue.PenaltyNone:
		why = "a penalty moves the coefficients on purpose"
	case p.MaxWeight > 0 && !p.Intercept:
		why = "without an intercept nothing tells how large weights are on average"
	}
	return Newton{
		Curve:          c,
		Bound:          p.FeatureNorm,
		LowInformation: p.momentNoiseOfAFit() > lowNewtonMoments,
		Levels:         p.Levels,
		Psi:            p.bounded(),
		Intervals:      why == "",
		WhyNull:        why,
		Pool:           p.Pool == catalogue.PoolShrink,
	}, nil
}

// firstCut is the clipping threshold, in residual scales, of a Huber fit's targets in the first pass, and
// usualResidual the least residual scale for it that is not asked for.
const (
	firstCut      = 4
	usualResidual = 0.5
)

// manyCoefficients is the number of coefficients above which noise of second moments above nearMoments
// costs a Huber fit more accuracy than that of scores.
const manyCoefficients = 10

func (p *problem) curve() (curve, error) {
	switch l := p.Loss.(type) {
	case loss.Logistic:
		return logisticCurve{offset: p.Offset != "", informed: p.momentNoiseOfAFit() <= fourthStep}, nil
	case loss.Huber:
		target := p.ResidualScale
		if !p.scaleAsked {
			target = max(target, usualResidual) // a small delta says nothing of how large targets are
		}
		return huberCurve{delta: l.Delta, cut: firstCut * target, noisy: p.D > manyCoefficients && p.momentNoiseOfAFit() > nearMoments}, nil
	case loss.Poisson:
		c := poissonCurve{unit: 1, scale: p.countScale, cut: firstCount}
		plan.SetDefault(&c.scale, 1)
		if p.Offset == "" && p.MaxWeight == 0 { // otherwise nothing tells how large exposures, or weights, are without an intercept
			c.exposure = p.exposure
			plan.SetDefault(&c.exposure, 1)
		}
		return c, nil
	}
	return nil, fmt.Errorf("%w: method %q is for dp_logistic_regress, dp_huber_regress and dp_poisson_regress; ask for another method", plan.ErrParameter, p.Method)
}

// forecastNewton is the noise of the last score, over the curvature, at the limit that a histogram without
// noise would lead to; by groups, for a group of mean size.
func (p *problem) forecastNewton(a Newton) (Forecast, error) {
	r, err := a.releases(p.Shape, p.z)
	if err != nil {
		return Forecast{}, err
	}
	size, curvature := 0.5, 0.25
	switch c := a.Curve.(type) {
	case huberCurve: // row lengths vary less than sizes of normal numbers
		size, curvature = 0.75*c.delta, math.Erf(c.delta/p.residual()/math.Sqrt2)
	case poissonCurve: // the mean of a count is the square of a typical residual
		curvature = square(p.ResidualScale)
		size = max(1, curvature+2*p.ResidualScale)
	}
	f := newNewtonFit(r)
	f.n /= float64(max(1, p.GroupCount))
	f.mean, f.rescale, f.rescaleScores = curvature, 1, 1
	tails := magnitude.OfNormal(r.sizeNoise[r.last()-1], size*math.Sqrt(p.d()), size, int(f.n)).Apart()
	if tails.Seen() {
		f.scores, f.lengths, f.scoresAreKnown = tails, tails, true
		if a.Curve.counted() != nil { // the lengths are those of the bounds of scores
			f.perLength, f.kept = 1, 1
		}
	}
	f.choose(r.last())
	deviation := 2 * f.limit * r.scoreNoise[r.last()].NoiseMultiplier / f.n / curvature
	if !tails.Seen() { // the limit is then in whitened coordinates
		deviation *= math.Sqrt(curvature)
	}
	return Forecast{Deviation: table.Repeat(min(p.Radius/math.Sqrt(p.d()), deviation), p.D)}, nil
}
