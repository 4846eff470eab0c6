package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// Newton estimates the minimiser of a logistic, Huber or Poisson loss in few passes over the rows. The
// first pass releases joint moments of rows and targets, from which the whitening and a start follow. Each
// later pass releases the score and the curvature at the current fit, both with the same row weights, and
// makes a Newton step that is shrunk by the share of it that its noise explains. The last step has most of
// the budget; its length bounds the error that remains.
//
// Privacy: the composition of its releases, each a bounded sum with Gaussian noise (proof: newton.md).
//
// Source: one-step estimation is Bickel 1975; weights by leverage alone are Mallows', those by leverage and
// residual Schweppe's (Hampel et al. 1986); the sandwich is Huber 1967.
type Newton struct {
	Curve          curve
	Bound          float64        // largest length of a row in the first pass; longer ones are shortened
	LowInformation bool           // little information: small eigenvalues count as noise up to a higher threshold
	Psi            prox.Operator  // penalty and constraint
	Levels         []LevelColumns // as JointMoments.Levels
	Intervals      bool           // also release the second moments of the last scores, for intervals
	WhyNull        string         // why there are no intervals, if Intervals is false
	Pool           bool           // of fits by groups: estimates are shrunk toward their common mean
}

// mostSteps is the largest number of steps after the first pass.
const mostSteps = 4

// perStep are numbers of the steps of a fit, from the first on.
type perStep = [mostSteps]float64

// newtonShares are the number of steps and the shares of the zCDP budget of each release. They add up to 1;
// the share of a release that a fit does not make goes to the last score.
type newtonShares struct {
	steps                              int
	first, firstLengths, targets       float64 // targets: the histogram of counts, taken from the last score
	scores, curvatures, sizes, lengths perStep
	residuals                          perStep // the histograms of Huber residuals, taken from the last score
	meat                               float64
}

// usualShares are those of labels and counts. huberShares, of Huber fits, have more for the last score,
// since the start, least squares of clipped targets, is closer to the minimiser; they apply where the noise
// of second moments is small. There labels have labelShares: a fourth step, because the start knows only
// what is linear in labels, and less for all but the last score.
var (
	usualShares = newtonShares{
		steps: 3, first: 0.12, firstLengths: 0.015, targets: 0.015,
		scores:     perStep{0.07, 0.10, 0.425},
		curvatures: perStep{0.05, 0.06, 0.06},
		sizes:      perStep{0.01, 0.03},
		lengths:    perStep{0.01, 0.01},
		residuals:  perStep{0.01, 0.015},
		meat:       0.04,
	}
	huberShares = newtonShares{
		steps: 3, first: 0.08, firstLengths: 0.015,
		scores:     perStep{0.05, 0.06, 0.575},
		curvatures: perStep{0.04, 0.04, 0.05},
		sizes:      perStep{0.01, 0.03},
		lengths:    perStep{0.01, 0.01},
		residuals:  perStep{0.01, 0.015},
		meat:       0.03,
	}
	labelShares = newtonShares{
		steps: 4, first: 0.08, firstLengths: 0.015,
		scores:     perStep{0.02, 0.03, 0.08, 0.515},
		curvatures: perStep{0.02, 0.02, 0.04, 0.04},
		sizes:      perStep{0.01, 0.03, 0.03},
		lengths:    perStep{0.01, 0.01, 0.01},
		meat:       0.04,
	}
)

// newtonReleases is a Newton with the noise of each of its releases.
type newtonReleases struct {
	Newton
	shape                                   table.Shape
	firstNoise, firstLengthNoise, meatNoise mech.Gaussian
	groupNoise                              mech.Gaussian // of the histogram of group sizes
	targetNoise                             mech.Gaussian // of the histograms of counts, of all rows and by group
	steps                                   int
	scoreNoise, curvatureNoise              [mostSteps]mech.Gaussian
	sizeNoise, lengthNoise                  [mostSteps]mech.Gaussian // of histograms; the last step has none
	residualNoise                           [mostSteps]mech.Gaussian // of those of Huber residuals
}

// releases divides among the releases the budget of a single release with noise multiplier z.
//
// Errors: ErrInfeasible.
func (a Newton) releases(s table.Shape, z float64) (*newtonReleases, error) {
	left := 1.0
	if s.GroupCount > 0 {
		left -= groupShare
	}
	part := func(share float64) mech.Gaussian {
		return mech.Gaussian{NoiseMultiplier: z / math.Sqrt(share*left)}
	}
	share := a.Curve.shares()
	last := share.steps - 1
	r := &newtonReleases{Newton: a, shape: s, steps: share.steps, firstNoise: part(share.first), firstLengthNoise: part(share.firstLengths)}
	if s.GroupCount > 0 {
		r.groupNoise = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(groupShare)}
	}
	if !a.Intervals {
		share.scores[last] += share.meat
	}
	if a.Curve.counted() != nil {
		r.targetNoise = part(share.targets)
		share.scores[last] += share.sizes[last-1] - share.sizes[0] // limits of counts follow lengths
		share.sizes[last-1] = share.sizes[0]
		share.scores[last] -= share.targets
		if s.GroupCount > 0 {
			share.scores[last] -= share.targets
		}
	}
	if r.huber() {
		for t := range last {
			r.residualNoise[t] = part(share.residuals[t])
			share.scores[last] -= share.residuals[t]
		}
	}
	for t := range r.steps {
		r.scoreNoise[t], r.curvatureNoise[t] = part(share.scores[t]), part(share.curvatures[t])
		if t < last {
			r.sizeNoise[t], r.lengthNoise[t] = part(share.sizes[t]), part(share.lengths[t])
		}
	}
	if a.Intervals {
		r.meatNoise = part(share.meat)
	}
	return r, r.check()
}

// last is the number of the last step, from 0.
func (r *newtonReleases) last() int { return r.steps - 1 }

// all lists the noises in the order of their releases.
func (r *newtonReleases) all() []mech.Gaussian {
	noises := []mech.Gaussian{r.firstNoise, r.firstLengthNoise}
	if r.Curve.counted() != nil {
		noises = append(noises, r.targetNoise)
	}
	for t := range r.steps {
		if t == firstGroupStep && r.shape.GroupCount > 0 {
			noises = append(noises, r.splitNoises()...)
		}
		noises = append(noises, r.scoreNoise[t], r.curvatureNoise[t])
		if t < r.last() {
			noises = append(noises, r.sizeNoise[t], r.lengthNoise[t])
			if r.huber() {
				noises = append(noises, r.residualNoise[t])
			}
		}
	}
	if r.Intervals {
		noises = append(noises, r.meatNoise)
	}
	return noises
}

// huber reports whether the loss is Huber's.
func (a Newton) huber() bool {
	_, huber := a.Curve.(huberCurve)
	return huber
}

// splitNoises returns the noise of the releases made when groups get their own fits: of the group sizes
// and, for counts, of the histograms of targets.
func (r *newtonReleases) splitNoises() []mech.Gaussian {
	if r.Curve.counted() == nil {
		return []mech.Gaussian{r.groupNoise}
	}
	return []mech.Gaussian{r.groupNoise, r.targetNoise}
}

// check reports whether every release can be made.
func (r *newtonReleases) check() error {
	if err := checkGroupSizes(r.shape); err != nil {
		return err
	}
	return checkReleases(r.shape.N, r.all(), r.firstContract(), r.curvatureContract())
}

// firstContract is the contract of the joint moments of a row and its target.
func (r *newtonReleases) firstContract() mech.MomentContract {
	return mech.MomentContract{Bound: jointBound, N: r.shape.N, D: r.shape.D + 1}
}

// scoreContract is the contract of the score of step t. Each shell is in units of the limit times the
// square root of the shell's width.
func (r *newtonReleases) scoreContract(t int) mech.Contract {
	return mech.Contract{Norm: mech.L2, Bound: 1, N: r.shape.N, D: r.shape.D * r.shells(t)}
}

// curvatureContract is the contract of a curvature, in units of its bound, and of the meat, in units of the
// score's limit.
func (r *newtonReleases) curvatureContract() mech.MomentContract {
	return mech.MomentContract{Bound: 1, N: r.shape.N, D: r.shape.D}
}

func (a Newton) at(s table.Shape, z float64) (*stage, error) {
	r, err := a.releases(s, z)
	if err != nil {
		return nil, err
	}
	_, sums := a.Curve.(exprCurve)
	return &stage{
		event:   composed(r.all()),
		seconds: a.seconds(s),
		sums:    sums,
		passes:  1 + r.steps + passesOfSplit(s)*len(r.splitNoises()),
		run: func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
			fits := newNewtonParts(r, x.InGroups())
			fits.fits[0].first(fits.parts[0], src)
			for t := range r.steps {
				if err := ctx.Err(); err != nil {
					return fitted{}, err
				}
				if t == firstGroupStep && s.GroupCount > 0 {
					fits.split(src)
				}
				fits.step(t, src)
			}
			return fitted{Result: fits.finish()}, nil
		},
	}, nil
}
