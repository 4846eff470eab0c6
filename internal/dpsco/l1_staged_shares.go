package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// stagedShares are the epsilons of the stages. They are multiples of epsilon's last
// binary digit: the sum is exact in float64, in any order.
type stagedShares struct {
	scales             float64 // histogram of the sizes of columns without a scale; 0: there are none, or too few rows
	position, detail   float64 // both histograms of the positions of columns; 0: there are none
	reach              float64 // for each feature; 0: features count as large as their scales
	moments            [2]float64
	quantileShift      float64 // 0: the median is fitted, there is no intercept, or too few rows
	sizes              float64 // histogram of group sizes; 0: no groups
	spread, groupFit   float64 // smoothing of the groups' first fits, and these fits
	units              float64 // units of the groups' residuals; 0: no groups, or the median is fitted
	length             float64 // 0: by groups, or too few rows to see which are long
	rough, width, last float64

	typicalResidual float64                             // 0: there is no quantileShift, or fits are by groups
	refinement      struct{ width, fit, shift float64 } // 0: quantileShift does not look for the quantile itself, or few rows are beyond it
}

// stagedInformation is J = n epsilon / d^1.5, a signal-to-noise ratio of the stages.
func stagedInformation(s table.Shape, epsilon float64) float64 {
	return float64(s.N) * epsilon / math.Pow(float64(s.D), 1.5)
}

// enoughForStaged is the least J at which staged is the default, and enoughForReach the least J at which it
// has the stage reach. With less, that stage makes the excess risk 1.1 to 1.2 times as large; with more it
// reduces it by a twentieth, and by half where features are a hundred times their scales.
const (
	enoughForStaged = 60
	enoughForReach  = 400
)

// Positions of columns are looked for with as much of epsilon as lets the noise on a count of the first
// histogram deviate by positionNoise of all rows, at most maxForPositions of epsilon; and not at all if the
// deviation is then above maxPositionNoise. The second histogram, which shows rows far away, has forDetails of
// epsilon: with more rows and epsilon it shows ever fewer of them.
const (
	positionNoise    = .04
	maxPositionNoise = .09
	maxForPositions  = .06
	forDetails       = .024
)

// Scales of columns that have none are looked for with as much of epsilon as lets the noise on a count deviate by
// scaleNoise of all rows, so that those of a column that is 0 in nine rows of ten are found, at least fewForScales and
// at most forRareScales of epsilon; or as lets it deviate by maxScaleNoise, so that those of other columns are found,
// at most maxForScales of epsilon; and not at all if the deviation is then larger.
const (
	scaleNoise    = .002
	fewForScales  = .02
	forRareScales = .1
	maxScaleNoise = .03
)

// enoughForQuantileShift is the least number of rows beyond the quantile, times the stage's epsilon, for the stage
// quantileShift of a fit that is not by groups to look for that quantile. Noise moves the result of that stage by
// about that number of rows: with fewer rows it ends farther from the quantile than the rough fit. Then it looks for a
// level beyond which there are enoughForOtherLevel, and there is no such stage where these are more than half of the
// rows.
const (
	enoughForQuantileShift = 20
	enoughForOtherLevel    = 28
)

// attainableLevel returns the level that the stage quantileShift with that epsilon looks for among n rows: tau or,
// where few rows lie beyond that quantile, a level nearer to the median; 0 if there are too few rows for that. The
// last fit goes the rest of the way.
//
// With weights it is tau or 0: light rows count for less, by a factor that is only estimated.
func attainableLevel(tau, epsilon float64, n int, weighted bool) float64 {
	informed := epsilon * float64(n)
	if min(tau, 1-tau)*informed >= enoughForQuantileShift {
		return tau
	}
	if weighted || informed < 2*enoughForOtherLevel {
		return 0
	}
	beyond := enoughForOtherLevel / informed
	return numeric.ClampBetween(tau, beyond, 1-beyond)
}

// enoughForRefinement is the least J, times twice the share of rows beyond the quantile and the tilt, for the stage
// refinement. With less it made the excess risk of 17 real tables at the quantiles .05, .9 and .95 up to 1.9 times as
// large, with more .3 to .8 times; the nearer to the median, the less there is to gain.
const enoughForRefinement = 200

// The length of long rows is looked for with forLength of epsilon: the one that longRows over that epsilon exceed,
// and not at all where these would be more than maxLong of all rows.
const (
	forLength = .02
	longRows  = 8
	maxLong   = .25
)

// newStagedShares divides epsilon among the stages; the last fit gets the remainder. unscaled is the number of columns
// whose scales, and columns that of columns whose positions are looked for.
func newStagedShares(s table.Shape, epsilon, tau float64, constant bool, unscaled, columns int) stagedShares {
	a := allotment{shape: s, epsilon: epsilon, left: epsilon, tau: tau, constant: constant}
	var p stagedShares
	p.scales = a.forScales(unscaled)
	a.left -= p.scales // all other shares are shares of the rest
	p.position, p.detail = a.forPositions(columns)
	p.reach = a.forReach()
	p.moments, p.rough, p.width = [2]float64{a.part(.06), a.part(.12)}, a.part(.22), a.part(.06)
	var level float64
	p.quantileShift, level = a.forQuantileShift()
	if s.GroupCount > 0 {
		a.giveGroups(&p)
	} else {
		a.giveOneFit(&p, level)
	}
	p.last = a.left - p.position - p.detail - float64(s.Columns())*p.reach
	for _, share := range p.afterReach() {
		p.last -= share
	}
	return p
}

// allotment is what the stages of a fit of a quantile have shares of.
type allotment struct {
	shape    table.Shape
	epsilon  float64 // of all stages
	left     float64 // what the stage scales has left of it
	tau      float64
	constant bool // there is an intercept, or a column that represents it
}

// part is a share of what is left, rounded down to a multiple of epsilon's last binary digit.
func (a allotment) part(share float64) float64 {
	digit := math.Nextafter(a.epsilon, math.Inf(1)) - a.epsilon
	return math.Floor(share*a.left/digit) * digit
}

// countNoise is the standard deviation of the noise on a count, as a share of the rows, had a histogram of so many
// columns all that is left.
func (a allotment) countNoise(columns int) float64 {
	return magnitude.CountStdDev(mech.Laplace{Epsilon: a.left}, columns, 1) / float64(a.shape.N)
}

// forScales is the share of the stage scales, 0 where no column or too few rows need it.
func (a allotment) forScales(unscaled int) float64 {
	whole := a.countNoise(unscaled)
	if unscaled == 0 || !(whole <= maxForScales*maxScaleNoise) {
		return 0
	}
	return a.part(max(numeric.ClampBetween(whole/scaleNoise, fewForScales, forRareScales), whole/maxScaleNoise))
}

// forPositions are the shares of the stages position and detail, both 0 where no column or too few rows need them.
func (a allotment) forPositions(columns int) (position, detail float64) {
	whole := a.countNoise(columns)
	if columns == 0 || !(whole <= maxForPositions*maxPositionNoise) {
		return 0, 0
	}
	return a.part(min(maxForPositions, whole/positionNoise)), a.part(forDetails)
}

// forReach is the share of the stage reach for each feature, 0 where there are too few rows.
func (a allotment) forReach() float64 {
	if stagedInformation(a.shape, a.epsilon) < enoughForReach || a.shape.Columns() == 0 {
		return 0
	}
	return a.part(.03 / float64(a.shape.Columns()))
}

// forQuantileShift is the share of the stage quantileShift, and the level that one of a fit that is not by groups looks
// for. It is 0 for the median, without a constant, and where there are too few rows, unless the fit is by groups.
func (a allotment) forQuantileShift() (share, level float64) {
	weighted := a.constant && !a.shape.Intercept // a column represents the constant
	share = a.part(.06)
	level = attainableLevel(a.tau, share, a.shape.N, weighted)
	if a.tau == .5 || !a.constant || a.shape.GroupCount == 0 && level == 0 {
		share = 0
	}
	return share, level
}

// giveGroups sets the shares of stages that only fits by groups have, and smaller ones of others.
func (a allotment) giveGroups(p *stagedShares) {
	p.sizes = a.part(groupShare)
	p.rough, p.spread, p.groupFit, p.width = a.part(.1), a.part(.02), a.part(.12), a.part(.05)
	if a.tau != .5 {
		p.units = a.part(.05)
		p.quantileShift = min(p.quantileShift, p.units) // 0 without an intercept
	}
}

// giveOneFit sets the shares of stages that fits by groups do not have. level is what the stage quantileShift looks for.
func (a allotment) giveOneFit(p *stagedShares, level float64) {
	if longShare(a.shape, forLength*a.left) <= maxLong {
		p.length = a.part(forLength)
	}
	if p.quantileShift == 0 {
		return
	}
	p.typicalResidual = a.part(.02)
	if level == a.tau && stagedInformation(a.shape, a.epsilon)*2*min(a.tau, 1-a.tau)*math.Abs(2*a.tau-1) >= enoughForRefinement {
		p.rough = a.part(.18)
		p.refinement.width, p.refinement.fit, p.refinement.shift = a.part(.02), a.part(.15), a.part(.05)
	}
}

// commonlyLong is how many times as long as a typical row the long ones of features that are not skewed may be. Little
// is gained by counting these in full, so noise, which errs by (d clip/(n epsilon))^2 in excess risk, is to stay well
// below sampling, which errs by about d/n: clip is then at most besideSampling times sqrt(n/d) epsilon.
const (
	commonlyLong   = 3
	besideSampling = 0.4
)

// longShare is the share of rows that are longer than what the stage length looks for with that epsilon.
func longShare(s table.Shape, epsilon float64) float64 { return longRows / (epsilon * float64(s.N)) }

// event composes the events of the stages, in their order.
func (p stagedShares) event(columns int) (e privacy.Compose) {
	if p.scales > 0 {
		e = append(e, privacy.Pure{Epsilon: p.scales})
	}
	if p.position > 0 {
		e = append(e, privacy.Pure{Epsilon: p.position}, privacy.Pure{Epsilon: p.detail})
	}
	if p.reach > 0 {
		e = append(e, privacy.Repeat{Count: columns, Event: privacy.Pure{Epsilon: p.reach}})
	}
	for _, epsilon := range append(p.afterReach(), p.last) {
		if epsilon > 0 {
			e = append(e, privacy.Pure{Epsilon: epsilon})
		}
	}
	return e
}

// afterReach are the shares of the stages between reach and last, in their order.
func (p stagedShares) afterReach() []float64 {
	return []float64{
		p.moments[0], p.moments[1], p.rough, p.sizes, p.spread, p.groupFit, p.units, p.typicalResidual, p.quantileShift, p.refinement.width, p.refinement.fit, p.refinement.shift, p.length, p.width,
	}
}
