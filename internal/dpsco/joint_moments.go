package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
)

// JointMoments estimates least squares in few passes over the rows. Each of three pilot passes
// releases the second moments of rows and their clipped residuals in one matrix: the rows' part
// whitens, the mixed part gives a step of a robust regression, and both together cost the noise of
// one release. The last pass starts from that pilot fit and makes a step of least squares, in which
// only the length of residual times row is clipped, at two cuts chosen from a private histogram. The
// part between the cuts is released separately, and is discarded as far as noise explains it. With an
// intercept the last pass also releases the mean residual, the step of the intercept, which corrects the
// intercept.
//
// Privacy: the composition of its releases, each a bounded sum with Gaussian
// noise (proof: joint_moments.md).
//
// Source: one-step estimation from a robust pilot is Bickel 1975; the shrinkage
// is the positive-part James-Stein rule.
type JointMoments struct {
	Bound              float64        // of row lengths in the first pass; longer rows are shortened to it
	Scale              float64        // a typical residual
	LowInformation     bool           // little information: noise counts for more relative to bias from cuts
	VeryLowInformation bool           // very little information: cuts are smaller as well
	Whiten             float64        // factor for the budget of the second moments; below 1 counts as 1
	Levels             []LevelColumns // columns of categories, in whose coordinates the first pass begins
	Psi                prox.Operator  // penalty and constraint
	Meat               bool           // also release the meat of the sandwich covariance, for intervals; else these take that of errors independent of the features
	WhyNull            string         // why there are no intervals; empty if there are
	Pool               bool           // with groups: shrink their fits toward their mean
}

// pilotPasses is the number of passes that whiten and find the pilot fit.
const pilotPasses = 3

// jointShares are the shares of the zCDP budget that the releases take. They add up to 1; the share
// of a release that a fit does not make goes to the step. Whiten increases the shares of the second
// moments at the expense of the step and the intercept's step.
var jointShares = struct {
	moments, residuals, lengths     [pilotPasses]float64
	products, step, intercept, meat float64
}{
	moments:   [pilotPasses]float64{0.05, 0.11, 0.13},
	residuals: [pilotPasses]float64{0.015, 0.015, 0.03},
	lengths:   [pilotPasses]float64{0.01, 0.015, 0.02},
	products:  0.03, step: 0.445, intercept: 0.08, meat: 0.05,
}

// jointReleases holds the noise of every release of a JointMoments.
type jointReleases struct {
	JointMoments
	shape                                              table.Shape
	momentNoise, residualNoise, lengthNoise            [pilotPasses]mech.Gaussian
	productNoise, stepNoise, interceptNoise, meatNoise mech.Gaussian
	groupNoise                                         mech.Gaussian // of the sizes of groups
}

// releases divides the budget, that of one release of noise multiplier z, among all releases.
//
// Errors: ErrInfeasible.
func (a JointMoments) releases(s table.Shape, z float64) (*jointReleases, error) {
	left := 1.0
	if s.GroupCount > 0 {
		left -= groupShare
	}
	part := func(share float64) mech.Gaussian {
		return mech.Gaussian{NoiseMultiplier: z / math.Sqrt(share*left)}
	}
	r := &jointReleases{JointMoments: a, shape: s, productNoise: part(jointShares.products)}
	if s.GroupCount > 0 {
		r.groupNoise = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(groupShare)}
	}
	more := max(1, a.Whiten)
	for t := range pilotPasses {
		r.momentNoise[t], r.residualNoise[t], r.lengthNoise[t] = part(more*jointShares.moments[t]), part(jointShares.residuals[t]), part(jointShares.lengths[t])
	}
	less := 1 - (more-1)*floats.Sum(jointShares.moments[:])/(jointShares.step+jointShares.intercept)
	step, intercept := less*jointShares.step, less*jointShares.intercept
	if s.Intercept {
		r.interceptNoise = part(intercept)
	} else {
		step += intercept
	}
	if a.Meat {
		r.meatNoise = part(jointShares.meat)
	} else {
		step += jointShares.meat
	}
	r.stepNoise = part(step)
	return r, r.check()
}

// all lists the noises in the order of the releases.
func (r *jointReleases) all() (noises []mech.Gaussian) {
	for t := range pilotPasses {
		if t == firstGroupPass && r.shape.GroupCount > 0 {
			noises = append(noises, r.groupNoise)
		}
		noises = append(noises, r.momentNoise[t], r.residualNoise[t], r.lengthNoise[t])
	}
	noises = append(noises, r.productNoise, r.stepNoise)
	if r.shape.Intercept {
		noises = append(noises, r.interceptNoise)
	}
	if r.Meat {
		noises = append(noises, r.meatNoise)
	}
	return noises
}

// check reports whether all releases are possible.
func (r *jointReleases) check() error {
	if err := checkGroupSizes(r.shape); err != nil {
		return err
	}
	return checkReleases(r.shape.N, r.all(), r.pilotContract(), r.meatContract())
}

// pilotContract is the contract of the joint moments of a row and its residual.
func (r *jointReleases) pilotContract() mech.MomentContract {
	return mech.MomentContract{Bound: jointBound, N: r.shape.N, D: r.shape.D + 1}
}

// stepContract is the contract of the inner and outer sums of the step, in their units.
func (r *jointReleases) stepContract() mech.Contract {
	return mech.Contract{Norm: mech.L2, Bound: 1, N: r.shape.N, D: 2 * r.shape.D}
}

// interceptContract is the contract of the inner and outer sums of residuals, in their units.
func (r *jointReleases) interceptContract() mech.Contract {
	return mech.Contract{Norm: mech.L2, Bound: 1, N: r.shape.N, D: 2}
}

// meatContract is the contract of the second moments of a row's contributions to the step and, with
// an intercept, to the intercept's step, each at most 1 long.
func (r *jointReleases) meatContract() mech.MomentContract {
	if r.shape.Intercept {
		return mech.MomentContract{Bound: math.Sqrt2, N: r.shape.N, D: r.shape.D + 1}
	}
	return mech.MomentContract{Bound: 1, N: r.shape.N, D: r.shape.D}
}

func (a JointMoments) at(s table.Shape, z float64) (*stage, error) {
	r, err := a.releases(s, z)
	if err != nil {
		return nil, err
	}
	return &stage{
		event:   composed(r.all()),
		seconds: a.seconds(s),
		sums:    true,
		passes:  pilotPasses + 1 + passesOfSplit(s),
		run: func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
			fits := newJointParts(r, x.InGroups())
			for t := range pilotPasses {
				if err := ctx.Err(); err != nil {
					return fitted{}, err
				}
				if t == firstGroupPass && s.GroupCount > 0 {
					fits.split(src)
				}
				fits.pilot(t, src)
			}
			if err := ctx.Err(); err != nil {
				return fitted{}, err
			}
			fits.step(src)
			return fitted{Result: fits.finish()}, nil
		},
	}, nil
}
