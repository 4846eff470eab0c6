package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
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

// newtonSteps is the number of steps after the first pass.
const newtonSteps = 3

// newtonShares are the shares of the zCDP budget of each release. They add up to 1; the share of a release
// that a fit does not make goes to the last score.
type newtonShares struct {
	first, firstLengths, targets       float64 // targets: the histogram of counts, taken from the last score
	scores, curvatures, sizes, lengths [newtonSteps]float64
	residuals                          [newtonSteps]float64 // the histograms of Huber residuals, taken from the last score
	meat                               float64
}

// usualShares are those of labels and counts. huberShares, of Huber fits, have more for the last score,
// since the start, least squares of clipped targets, is closer to the minimiser; they apply where the noise
// of second moments is small.
var (
	usualShares = newtonShares{
		first: 0.12, firstLengths: 0.015, targets: 0.015,
		scores:     [newtonSteps]float64{0.07, 0.10, 0.425},
		curvatures: [newtonSteps]float64{0.05, 0.06, 0.06},
		sizes:      [newtonSteps]float64{0.01, 0.03, 0},
		lengths:    [newtonSteps]float64{0.01, 0.01, 0},
		residuals:  [newtonSteps]float64{0.01, 0.015, 0},
		meat:       0.04,
	}
	huberShares = newtonShares{
		first: 0.08, firstLengths: 0.015,
		scores:     [newtonSteps]float64{0.05, 0.06, 0.575},
		curvatures: [newtonSteps]float64{0.04, 0.04, 0.05},
		sizes:      [newtonSteps]float64{0.01, 0.03, 0},
		lengths:    [newtonSteps]float64{0.01, 0.01, 0},
		residuals:  [newtonSteps]float64{0.01, 0.015, 0},
		meat:       0.03,
	}
)

// newtonReleases is a Newton with the noise of each of its releases.
type newtonReleases struct {
	Newton
	shape                                   table.Shape
	firstNoise, firstLengthNoise, meatNoise mech.Gaussian
	groupNoise                              mech.Gaussian // of the histogram of group sizes
	targetNoise                             mech.Gaussian // of the histograms of counts, of all rows and by group
	scoreNoise, curvatureNoise              [newtonSteps]mech.Gaussian
	sizeNoise, lengthNoise                  [newtonSteps]mech.Gaussian // of histograms; the last step has none
	residualNoise                           [newtonSteps]mech.Gaussian // of those of Huber residuals
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
	r := &newtonReleases{Newton: a, shape: s, firstNoise: part(share.first), firstLengthNoise: part(share.firstLengths)}
	if s.GroupCount > 0 {
		r.groupNoise = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(groupShare)}
	}
	if !a.Intervals {
		share.scores[newtonSteps-1] += share.meat
	}
	if a.Curve.counted() != nil {
		r.targetNoise = part(share.targets)
		share.scores[newtonSteps-1] += share.sizes[newtonSteps-2] - share.sizes[0] // limits of counts follow lengths
		share.sizes[newtonSteps-2] = share.sizes[0]
		share.scores[newtonSteps-1] -= share.targets
		if s.GroupCount > 0 {
			share.scores[newtonSteps-1] -= share.targets
		}
	}
	if r.huber() {
		for t := range newtonSteps - 1 {
			r.residualNoise[t] = part(share.residuals[t])
			share.scores[newtonSteps-1] -= share.residuals[t]
		}
	}
	for t := range newtonSteps {
		r.scoreNoise[t], r.curvatureNoise[t] = part(share.scores[t]), part(share.curvatures[t])
		if t < newtonSteps-1 {
			r.sizeNoise[t], r.lengthNoise[t] = part(share.sizes[t]), part(share.lengths[t])
		}
	}
	if a.Intervals {
		r.meatNoise = part(share.meat)
	}
	return r, r.check()
}

// all lists the noises in the order of their releases.
func (r *newtonReleases) all() []mech.Gaussian {
	noises := []mech.Gaussian{r.firstNoise, r.firstLengthNoise}
	if r.Curve.counted() != nil {
		noises = append(noises, r.targetNoise)
	}
	for t := range newtonSteps {
		if t == firstGroupStep && r.shape.GroupCount > 0 {
			noises = append(noises, r.splitNoises()...)
		}
		noises = append(noises, r.scoreNoise[t], r.curvatureNoise[t])
		if t < newtonSteps-1 {
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
	var event privacy.Compose
	for _, noise := range r.all() {
		event = append(event, noise.Event())
	}
	_, sums := a.Curve.(exprCurve)
	return &stage{
		event:   event,
		seconds: a.seconds(s),
		sums:    sums,
		passes:  1 + newtonSteps + passesOfSplit(s)*len(r.splitNoises()),
		run: func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
			fits := newNewtonParts(r, x.InGroups())
			fits.fits[0].first(fits.parts[0], src)
			for t := range newtonSteps {
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
