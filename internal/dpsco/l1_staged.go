package dpsco

import (
	"context"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// staged is median regression, or that of another quantile, in private stages, each of which sees the rows
// through the releases of the earlier ones:
//
//	scales           columns without a registered scale are divided by the size that most of their values have
//	position         columns of numbers that lie together far from zero are shifted and scaled, as by standardised
//	reach            features that are far larger than their scales are divided by their reach
//	moments          twice: coordinates in which features, the constant among them, are uncorrelated and of size 1
//	rough            objective perturbation with a wide smoothing; rare features are kept smaller than the others
//	groupFit         by groups: the distance of each group from the fit of all rows (l1_groups.go)
//	units            by groups, another quantile than the median: the spread of the residuals of each group
//	typicalResidual  another quantile than the median, not by groups: the median absolute residual, near which the next two look
//	quantileShift    another quantile than the median: its distance from the rough fit; by groups, from each group's fit
//	refinement       another quantile of many rows, not by groups: objective perturbation of the residuals with a smoothing
//	                 that spans many of them, and the distance of the quantile from there
//	length           not by groups: of long rows, which the last fit counts in full
//	width            of the smoothing: near a low quantile of the absolute residuals
//	last             objective perturbation of the residuals, with that smoothing and a wide clip
//
// The stage quantileShift requires an intercept and enough rows. Where few of them lie beyond the quantile it looks for one
// nearer to the median (shiftLevel).
//
// Privacy: its shares of epsilon add up to epsilon (proof: l1_staged.md).
type staged struct {
	L1
	shape       Shape     // of the table that the mechanisms see
	constant    bool      // whether the first coefficient is the intercept; with weights a column represents it
	columns     []numeric // that may be shifted and scaled
	scales      scaleSearch
	shares      stagedShares
	short, clip float64 // of the last fit: rows longer than short have a wider smoothing, and those longer than clip are shortened
	level       float64 // quantile of the absolute residuals that is the smoothing of the last fit
}

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
func stagedInformation(s Shape, epsilon float64) float64 {
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
// histogram deviate by positionNoise of all rows, at most mostForPositions of epsilon; and not at all if the
// deviation is then above mostPositionNoise. The second histogram, which shows rows far away, has forDetails of
// epsilon: with more rows and epsilon it shows ever fewer of them.
const (
	positionNoise     = .04
	mostPositionNoise = .09
	mostForPositions  = .06
	forDetails        = .024
)

// Scales of columns that have none are looked for with as much of epsilon as lets the noise on a count deviate by
// scaleNoise of all rows, so that those of a column that is 0 in nine rows of ten are found, at least fewForScales and
// at most forRareScales of epsilon; or as lets it deviate by mostScaleNoise, so that those of other columns are found,
// at most mostForScales of epsilon; and not at all if the deviation is then larger.
const (
	scaleNoise     = .002
	fewForScales   = .02
	forRareScales  = .1
	mostScaleNoise = .03
)

// enoughForQuantileShift is the least number of rows beyond the quantile, times the stage's epsilon, for the stage
// quantileShift of a fit that is not by groups to look for that quantile. Noise moves the result of that stage by about that
// number of rows: with fewer rows it ends farther from the quantile than the rough fit. Then it looks for a level
// beyond which there are enoughForOtherLevel, and there is no such stage where these are more than half of the rows.
const (
	enoughForQuantileShift = 20
	enoughForOtherLevel    = 28
)

// shiftLevel returns the level that the stage quantileShift with that epsilon looks for among n rows: tau or, where few rows
// lie beyond that quantile, a level nearer to the median; 0 if there are too few rows for that. The last fit goes the rest of the way.
//
// With weights it is tau or 0: light rows count for less, by a factor that is only estimated.
func shiftLevel(tau, epsilon float64, n int, weighted bool) float64 {
	informed := epsilon * float64(n)
	if min(tau, 1-tau)*informed >= enoughForQuantileShift {
		return tau
	}
	if weighted || informed < 2*enoughForOtherLevel {
		return 0
	}
	beyond := enoughForOtherLevel / informed
	return clampBetween(tau, beyond, 1-beyond)
}

// enoughForRefinement is the least J, times twice the share of rows beyond the quantile and the tilt, for the stage refinement. With
// less it made the excess risk of 17 real tables at the quantiles .05, .9 and .95 up to 1.9 times as large, with more .3 to .8
// times; the nearer to the median, the less there is to gain.
const enoughForRefinement = 200

// The length of long rows is looked for with forLength of epsilon: the one that longRows over that epsilon exceed,
// and not at all where these would be more than mostLong of all rows.
const (
	forLength = .02
	longRows  = 8
	mostLong  = .25
)

// newStagedShares divides epsilon among the stages; the last fit gets the remainder. unscaled is the number of columns
// whose scales, and columns that of columns whose positions are looked for.
func newStagedShares(s Shape, epsilon, tau float64, constant bool, unscaled, columns int) stagedShares {
	median := tau == .5
	digit, left := math.Nextafter(epsilon, math.Inf(1))-epsilon, epsilon
	part := func(share float64) float64 { return math.Floor(share*left/digit) * digit }
	noise := func(columns int) float64 { // on a count, as a share of the rows, had a histogram all that is left
		return countStdDev(mech.Laplace{Epsilon: left}, columns, 1) / float64(s.N)
	}
	var p stagedShares
	if whole := noise(unscaled); unscaled > 0 && whole <= mostForScales*mostScaleNoise {
		p.scales = part(max(clampBetween(whole/scaleNoise, fewForScales, forRareScales), whole/mostScaleNoise))
		left -= p.scales // all other shares are shares of the rest
	}
	p.moments, p.rough, p.width = [2]float64{part(.06), part(.12)}, part(.22), part(.06)
	if stagedInformation(s, epsilon) >= enoughForReach && s.Columns() > 0 {
		p.reach = part(.03 / float64(s.Columns()))
	}
	if whole := noise(columns); columns > 0 && whole <= mostForPositions*mostPositionNoise {
		p.position, p.detail = part(min(mostForPositions, whole/positionNoise)), part(forDetails)
	}
	weighted := constant && !s.Intercept // a column represents the constant
	p.quantileShift = part(.06)
	level := shiftLevel(tau, p.quantileShift, s.N, weighted)
	if median || !constant || s.GroupCount == 0 && level == 0 {
		p.quantileShift = 0
	}
	if s.GroupCount > 0 {
		p.sizes = part(groupShare)
		p.rough, p.spread, p.groupFit, p.width = part(.1), part(.02), part(.12), part(.05)
		if !median {
			p.units = part(.05)
			p.quantileShift = min(p.quantileShift, p.units) // 0 without an intercept
		}
	}
	if p.quantileShift > 0 && s.GroupCount == 0 {
		p.typicalResidual = part(.02)
	}
	if s.GroupCount == 0 && longShare(s, forLength*left) <= mostLong {
		p.length = part(forLength)
	}
	if p.typicalResidual > 0 && level == tau && stagedInformation(s, epsilon)*2*min(tau, 1-tau)*math.Abs(2*tau-1) >= enoughForRefinement {
		p.rough = part(.18)
		p.refinement.width, p.refinement.fit, p.refinement.shift = part(.02), part(.15), part(.05)
	}
	p.last = left - p.position - p.detail - float64(s.Columns())*p.reach
	for _, share := range p.afterReach() {
		p.last -= share
	}
	return p
}

// commonlyLong is how many times as long as a typical row the long ones of features that are not skewed may be. Little
// is gained by counting these in full, so noise, which errs by (d clip/(n epsilon))^2 in excess risk, is to stay well below
// sampling, which errs by about d/n: clip is then at most besideSampling times sqrt(n/d) epsilon.
const (
	commonlyLong   = 3
	besideSampling = 0.4
)

// longShare is the share of rows that are longer than what the stage length looks for with that epsilon.
func longShare(s Shape, epsilon float64) float64 { return longRows / (epsilon * float64(s.N)) }

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

// staged plans the stages.
func (a L1) staged(s Shape, epsilon float64) (*Plan, error) {
	f := newStaged(a, s, epsilon)
	if err := f.check(); err != nil {
		return nil, err
	}
	parameters := map[string]any{
		"rows": s.N, "coefficients": s.D, "intercept": s.Intercept, "residual_scale": a.ResidualScale, "clip": f.clip, "residual_quantile": f.level,
	}
	if a.Radius != 0 {
		parameters["radius"], parameters["set"] = a.Radius, a.Set
	}
	a.nameQuantile(parameters)
	run := f.fit
	if s.GroupCount > 0 {
		parameters["by"], parameters["by_levels"], parameters["pool"] = a.By, s.GroupCount, a.Pool
		run = f.fitGroups
	}
	return &Plan{Event: f.shares.event(f.shape.Columns()), Parameters: parameters, Seconds: f.seconds(), FindsScales: f.shares.scales > 0, FindsCentres: f.shares.position > 0, shape: s, run: run}, nil
}

// newStaged sets the parameters that follow from public facts: limits on rows that are wide if there are so many
// rows that noise does not matter, and the smallest smoothing that noise allows. Where the length of long rows is
// looked for, the limits are the widest, and measured sets others.
func newStaged(a L1, s Shape, epsilon float64) staged {
	f := staged{L1: a, shape: a.fitted(s), constant: s.Intercept, columns: a.movable(s), scales: a.seeks(s)}
	f.shares = newStagedShares(f.shape, epsilon, a.Tau, f.constant, len(f.scales.Columns), len(f.columns))
	informed := f.rowsOfLast() * f.shares.last
	if s.GroupCount == 0 {
		informed *= f.beyondQuantile()
	}
	f.short = f.firstClip() * clampBetween(.05*math.Sqrt(informed/float64(s.D)), 1, 6)
	f.clip, f.level = f.short, f.levelAt(f.short)
	if f.shares.length > 0 {
		f.clip = clampBetween(longestFor*math.Pow(informed*math.Sqrt(f.beyondQuantile()), .75), f.short, f.firstClip()*mostLength)
	}
	return f
}

// longestFor times the number of rows times epsilon of the last fit to the power .75 is the length beyond which rows
// are shortened even if many are longer: the noise, which grows with it, is to fall as rows are added. Far out, where
// few rows lie beyond the quantile, a wide smoothing of long rows is worse than shortening them. mostLength bounds it, in typical lengths.
const (
	longestFor = 1. / 60
	mostLength = 1024
)

// measured returns f with the limits on rows that follow from the length of long ones. Limits that no row reaches
// would cost noise and smoothing and change nothing, and such that rows of features that are not skewed reach cost noise. Where long rows are far longer than the typical one, some are
// longer still, so for medians the length is multiplied with the root of that ratio, for other quantiles with less.
func (f staged) measured(x Data, src *mech.Source) staged {
	if f.shares.length == 0 {
		return f
	}
	lengths, typical := make([]float64, len(x.Y)), f.firstClip()
	for _, column := range x.X {
		for i, v := range column {
			lengths[i] += square(v / typical)
		}
	}
	level := 1 - longShare(f.shape, f.shares.length)
	counts := mech.NewMagnitudes(mech.MagnitudeContract{Highest: mostMagnitude, N: len(lengths)})
	counts.Add(of(lengths, math.Sqrt))
	long := mech.Quantile{Epsilon: below(f.shares.length), Level: level, Most: level, Prior: 1}.Release(counts, src)
	f.short = min(f.short, typical*long)
	most := f.clip
	if long <= commonlyLong {
		most = min(most, besideSampling*math.Sqrt(f.rowsOfLast()/float64(f.shape.D))*f.shares.last)
	}
	f.clip = clampBetween(typical*math.Pow(long, 1+f.beyondQuantile()/2), f.short, max(f.short, most))
	f.level = f.levelAt(f.short)
	return f
}

// levelAt is the least level that the ridge allows if rows longer than short have a wider smoothing.
func (f staged) levelAt(short float64) float64 {
	lowering := f.beyondQuantile()
	if f.shape.GroupCount == 0 {
		lowering = math.Sqrt(lowering)
	}
	return min(f.mostLevel(), max(30*short*short/(f.rowsOfLast()*f.shares.last), f.leastLevel())*lowering)
}

// beyondQuantile is twice the share of rows beyond the quantile.
func (f staged) beyondQuantile() float64 { return 1 - math.Abs(f.tilt()) }

// movable returns the columns that may be shifted and scaled: numbers without a center, and such a target unless
// rows have weights or offsets. Each column costs noise, and a steward who has registered a center has said where
// the values lie. A radius speaks of the unit of coefficients; where residual_scale is given, the target keeps
// its unit.
func (a L1) movable(s Shape) (columns []numeric) {
	if !s.Intercept || a.Radius != 0 || len(a.numbers) == 0 {
		return nil
	}
	for _, c := range a.numbers {
		if c.zero == 0 {
			columns = append(columns, c)
		}
	}
	if y := a.target; y.zero == 0 && a.Offset == "" && a.MaxWeight == 0 {
		y.unit = a.scaleAsked
		columns = append(columns, y)
	}
	if mech.CheckHistogram(positionBins, s.N, len(columns)) != nil {
		return nil // none, or more columns than such a histogram takes
	}
	return columns
}

// seeks returns the search for the scales of columns that have none, but for that of the target with an offset, which has
// its unit, or where residual_scale is given.
func (a L1) seeks(s Shape) (scales scaleSearch) {
	if a.Radius != 0 {
		return scales
	}
	columns := slices.Clone(a.numbers)
	if a.Offset == "" && !a.scaleAsked {
		columns = append(columns, a.target)
	}
	if scales = unscaled(columns, a.NoScales); mech.CheckHistogram(sizeBins, s.N, len(scales.Columns)) != nil {
		return scaleSearch{} // none, or more columns than such a histogram takes
	}
	return scales
}

// leastLevel is the least share of rows within the smoothing of the last fit, for medians: with 90,000 rows
// at eps 10 it reduces the excess risk for a target with steps to two thirds. For other quantiles the share
// is smaller, as fewer rows lie beyond them. By groups, where there is the stage units, the smoothing must
// cover the error of the stage quantileShift, half a step of its grid: where the density of residuals is low, the
// ridge keeps the fit of a small group from going further, the more so the smaller the smoothing is.
func (f staged) leastLevel() float64 {
	if f.shares.units > 0 {
		return .2
	}
	return .02
}

// firstClip is the length to which rows are shortened in the fits before the last: about their typical
// length.
func (f staged) firstClip() float64 { return math.Sqrt(float64(f.shape.D)) }

// mostLevel is the largest share of rows within the smoothing of the last fit, among rows that have a
// residual.
func (f staged) mostLevel() float64 { return .6 * f.beyondQuantile() }

// rowsOfLast is the number of rows of the last fit, by groups that of a mean group.
func (f staged) rowsOfLast() float64 { return float64(f.shape.N) / float64(max(1, f.shape.GroupCount)) }

// mostMagnitude is the largest magnitude of the grid, in half octaves: features are up to 4096 times their
// scale, residuals down to 1/4096 of theirs.
const mostMagnitude = 24

// check refuses parameters that the mechanism of a stage would refuse for any release of the earlier
// stages.
func (f staged) check() error {
	for _, smoothing := range []float64{roughSmoothing, math.Exp2(-mostMagnitude / 2), math.Exp2(mostMagnitude / 2)} {
		first := f.firstClip()
		for _, fit := range []struct{ epsilon, short, clip float64 }{
			{f.shares.rough, first, first}, {f.shares.groupFit, first, first}, {f.shares.refinement.fit, first, first}, {f.shares.last, first, f.clip}, {f.shares.last, f.short, f.short},
		} {
			if fit.epsilon == 0 {
				continue // there is no such stage
			}
			if err := f.perturbation(fit.epsilon, smoothing, fit.short, fit.clip, f.tilt()).Validate(f.shape.N, f.shape.D); err != nil {
				return fmt.Errorf("%w: %w", ErrInfeasible, err)
			}
		}
	}
	for _, epsilon := range []float64{f.shares.scales, f.shares.position, f.shares.detail} {
		if err := (mech.Laplace{Epsilon: below(epsilon)}).Check(); epsilon > 0 && err != nil {
			return fmt.Errorf("%w: %w", ErrInfeasible, err)
		}
	}
	if err := checkGroupSizes(f.shape); err != nil {
		return err
	}
	for _, bound := range f.bounds() {
		if err := f.contract(bound).Check(); err != nil {
			return infeasible(err)
		}
	}
	return nil
}

// roughSmoothing is the smoothing of the rough fit, in units of ResidualScale; roughQuantile is the assumed
// share of rows whose residuals are below it.
const (
	roughSmoothing = .4
	roughQuantile  = .4
)

// bounds are the lengths to which rows are shortened in the two passes of moments, before and after they
// are whitened.
func (f staged) bounds() [2]float64 {
	return [2]float64{math.Sqrt(f.sources(f.shape)), math.Sqrt(float64(f.shape.D))}
}

func (f staged) contract(bound float64) mech.MomentContract {
	return mech.MomentContract{Bound: bound, N: f.shape.N, D: f.shape.D}
}

// perturbation is the mechanism of a fit. Its grid is fine relative to the smoothing, but no finer than
// float64 can certify for this number of rows.
func (f staged) perturbation(epsilon, smoothing, short, clip, tilt float64) objpert.Params {
	certified := float64(f.shape.N) * math.Max(1, epsilon) * smoothing * clip / square(short) * 0x1p-47
	pitch := powerOfTwo(math.Max(10*smoothing*0x1p-29, certified))
	return objpert.Params{Epsilon: below(epsilon), Clip: clip, Smoothing: smoothing, Pitch: pitch, Tilt: tilt, Short: short}
}

// findScales divides columns without a scale by the scales that it finds, and returns these, nil if it does not look,
// and the features that noise hides.
func (f staged) findScales(x Data, src *mech.Source) (found *Scaled, hidden []int) {
	if f.shares.scales == 0 {
		return nil, nil
	}
	return f.scales.find(x, mech.Laplace{Epsilon: below(f.shares.scales)}, src)
}

// place shifts and scales columns that lie together far from zero, and returns how; nil if there are none.
func (f staged) place(x Data, src *mech.Source) *Scaled {
	if f.shares.position == 0 {
		return nil
	}
	moved := placement(x, f.columns, mech.Laplace{Epsilon: below(f.shares.position)}, mech.Laplace{Epsilon: below(f.shares.detail)}, src)
	if moved != nil {
		moved.scale(x)
	}
	return moved
}

// fit runs the stages on x, which it overwrites.
func (f staged) fit(ctx context.Context, x Data, src *mech.Source) (Result, error) {
	x = x.one()
	columns := x.columns() // without the constant, which start adds
	found, hidden := f.findScales(x, src)
	moved := f.place(x, src)
	weights := slices.Clone(x.Weight)
	u, x, t, err := f.start(ctx, x.unweighted(), weights, src)
	if err != nil {
		return Result{}, err
	}
	unit := f.typicalResidual(x.Y, src)
	quantileShift := f.shiftToQuantile(x.Y, weights, t, unit, f.shiftLevel(), f.shares.quantileShift, src)
	if f.shares.refinement.fit > 0 {
		smoothing, further, err := f.refine(ctx, u, x, weights, t, unit, src)
		if err != nil {
			return Result{}, err
		}
		quantileShift += further
		unit = smoothing
	}
	f = f.measured(x, src)
	last := f.perturbation(f.shares.last, f.width(x.Y, unit, src), f.short, f.clip, f.tilt())
	if err := f.step(ctx, u, x, last, f.level, src); err != nil {
		return Result{}, err
	}
	w := f.toTableUnits(t, quantileShift, u)
	moved.restore(w)
	found.restore(w)
	return f.resultOf(w, hidden, columns), nil
}

// resultOf is the release with the given coefficients, without features, of the given number of columns, that noise hides.
func (f staged) resultOf(w []float64, hidden []int, columns int) Result {
	r := f.result(w)
	r.leaveOut(hidden, columns)
	return r
}

// rowCoordinates is the matrix from coefficients of transformed rows to coefficients of the rows of the
// table, and its inverse.
type rowCoordinates struct{ matrix, inverse *mat.Dense }

// start runs the stages up to the rough fit. It returns that fit, the rows with residuals in place of
// targets, and the coordinates of these rows. x has been multiplied by its weights, if there are any.
func (f staged) start(ctx context.Context, x Data, weights []float64, src *mech.Source) (u []float64, rows Data, t rowCoordinates, err error) {
	t = f.bringBack(x, src)
	if len(f.Levels) > 0 { // a public map of each row
		p := levelCoordinates(Shape{D: f.shape.D, Intercept: f.constant}, f.Levels)
		var inverse mat.Dense
		_ = inverse.Inverse(p) // far from singular
		x = x.times(p.T())
		t.matrix.Mul(t.matrix, p)
		t.inverse.Mul(&inverse, t.inverse)
	}
	usable := 1.0
	for i, epsilon := range f.shares.moments {
		var p whitener
		p, usable = f.whitener(x, f.bounds()[i], epsilon, src)
		x = x.times(p.matrix)
		t.matrix.Mul(t.matrix, p.matrix)
		t.inverse.Mul(p.inverse().matrix, t.inverse)
	}
	divide(x.Y, f.ResidualScale)
	u = make([]float64, f.shape.D)
	weight := f.typicalWeight(t)
	rough := f.perturbation(f.shares.rough, roughSmoothing*weight, f.firstClip(), f.firstClip(), f.roughTilt())
	lower := f.lower()
	shift(x.Y, -lower, weights)
	if x, err = f.stepWhereRare(ctx, u, x, t, usable, rough, roughQuantile*usable, src); err != nil {
		return nil, x, t, err
	}
	shift(x.Y, lower, weights)
	return u, x, t, nil
}

// shift adds a constant to targets or residuals, multiplied by their weights where the rows have been.
func shift(y []float64, constant float64, weights []float64) {
	if weights == nil {
		floats.AddConst(constant, y)
		return
	}
	floats.AddScaled(y, constant, weights)
}

// typicalWeight estimates the root mean square of the weights that rows have been multiplied by: the rows
// are whitened by t, from which the second moment of the constant follows.
func (f staged) typicalWeight(t rowCoordinates) float64 {
	if f.MaxWeight == 0 || !f.constant {
		return 1
	}
	return clampBetween(mat.Norm(t.inverse.ColView(0), 2), leastTypicalWeight, 1)
}

// leastTypicalWeight keeps the smoothing of the rough fit within the range that check has covered.
const leastTypicalWeight = 0x1p-10

// toTableUnits converts a fit of the rows that start returned, and the shift of the residuals to the quantile, to
// coefficients of the table.
func (f staged) toTableUnits(t rowCoordinates, quantileShift float64, u []float64) []float64 {
	w := mat.NewVecDense(f.shape.D, nil)
	w.MulVec(t.matrix, mat.NewVecDense(f.shape.D, u))
	if quantileShift != 0 {
		w.SetVec(0, w.AtVec(0)+quantileShift)
	}
	w.ScaleVec(f.ResidualScale, w)
	f.project(w.RawVector().Data)
	return w.RawVector().Data
}

// bringBack divides each feature by its reach.
func (f staged) bringBack(x Data, src *mech.Source) rowCoordinates {
	t := rowCoordinates{identity(x.D), identity(x.D)}
	if f.shares.reach == 0 {
		return t
	}
	q := mech.Quantile{Epsilon: below(f.shares.reach), Level: .75, Most: .75, Prior: 2, Upward: true}
	for j, column := range x.X {
		counts := mech.NewMagnitudes(mech.MagnitudeContract{Highest: mostMagnitude, N: x.N})
		counts.Add(column)
		reach := q.Release(counts, src)
		divide(column, reach)
		k := x.D - len(x.X) + j
		t.matrix.Set(k, k, 1/reach)
		t.inverse.Set(k, k, reach)
	}
	return t
}

// whitener returns the whitener of the second moments of rows that are shortened to bound, with eigenvalues
// below the noise raised to it.
//
// usable is the approximate share of usable rows, or 1 if that is large. Where few rows are usable, whitening
// makes all of them longer than bound; they are then shortened to bound, and their mean square over all
// rows gives the share.
func (f staged) whitener(x Data, bound, epsilon float64, src *mech.Source) (w whitener, usable float64) {
	d := float64(x.D)
	noise := mech.MatrixLaplace{Epsilon: below(epsilon)}
	floor := .6 * bound * bound / (epsilon * float64(x.N)) * math.Sqrt(2*d*(d+1))
	h := secondMoments(x, f.contract(bound), noise, src)
	if usable = mat.Trace(h) / square(bound); usable > manyUsable {
		usable = 1
	}
	return newWhitener(h, floor), max(usable, leastUsable)
}

// A share of usable rows above manyUsable counts as 1, since the mean square of rows that are whitened and
// shortened is about .8 bound^2 if all are usable; a share below leastUsable counts as leastUsable.
const (
	manyUsable  = .6
	leastUsable = .01
)

// leastMoment is the value to which the second moment of a feature, in units of its scale, is raised for
// the rough fit and the refinement.
const leastMoment = .03

// rare returns the matrix that whitened rows are multiplied by for these fits, and whether it is needed.
// A feature that is 0 in most rows, such as a rare flag, is whitened as if its second moment were
// leastMoment, for rows with the typical weight. Its few rows are shortened to the clip in any case: the
// longer they were, the more the noise of its coefficient is magnified, and where the coefficient is far
// off, the ridge of the last fit keeps it there. The rows are whitened by t.
func (f staged) rare(t rowCoordinates, usable, weight float64) (w whitener, found bool) {
	raised := mat.NewSymDense(f.shape.D, nil)
	for j := range f.shape.D {
		raised.SetSym(j, j, 1/usable)
	}
	for j := range f.shape.D {
		if f.constant && j == 0 {
			continue
		}
		column := t.inverse.ColView(j)
		if missing := leastMoment*square(weight) - mat.Dot(column, column); missing > 0 {
			raised.SymRankOne(raised, missing, t.matrix.RowView(j))
			found = true
		}
	}
	return newWhitener(raised, 1), found || usable < 1 // no eigenvalue is below 1
}

// roughTilt is the tilt of the rough fit. Where the stage quantileShift follows, the rough fit goes only a part of the way
// to another quantile than the median: the farther beyond most rows it aims, the fewer of them determine it.
func (f staged) roughTilt() float64 {
	if f.shares.quantileShift == 0 || f.shape.GroupCount > 0 {
		return f.tilt()
	}
	return .6 * f.tilt()
}

// lower is the distance by which the rough fit of another quantile than the median aims below it: the
// minimum of the smoothed loss lies that far beyond residuals that are all equal. The stage quantileShift estimates
// the way back.
func (f staged) lower() float64 {
	if f.shares.quantileShift == 0 {
		return 0
	}
	return roughSmoothing * beyondEqual(f.roughTilt())
}

// beyondEqual is how far beyond residuals that are all equal the minimum of a smoothed loss lies, in units of the smoothing.
func beyondEqual(tilt float64) float64 { return tilt / math.Sqrt(1-tilt*tilt) }

// typicalResidual is the median absolute residual of the rough fit.
func (f staged) typicalResidual(residuals []float64, src *mech.Source) float64 {
	if f.shares.typicalResidual == 0 {
		return 1
	}
	return f.sizeOf(residuals, 1, mech.Quantile{Epsilon: below(f.shares.typicalResidual), Level: .5, Most: .5, Prior: 1}, src)
}

// shiftLevel is the level that the stage quantileShift looks for, 0 without that stage.
func (f staged) shiftLevel() float64 {
	return shiftLevel(f.Tau, f.shares.quantileShift, f.shape.N, f.MaxWeight > 0)
}

// shiftToQuantile subtracts from residuals the distance of their quantile of that level from zero, on either side, and
// returns it. It is looked for near unit: where many targets equal their largest or smallest one, all numbers beyond
// are quantiles. Weights count as ratios to twice the typical weight, so that the noise is a number of rows of
// typical weight, whatever MaxWeight is.
func (f staged) shiftToQuantile(residuals, weights []float64, t rowCoordinates, unit, level, epsilon float64, src *mech.Source) float64 {
	if epsilon == 0 {
		return 0
	}
	typical := f.typicalWeight(t)
	away, full := slices.Clone(residuals), min(1, 2*typical)
	unit /= typical
	for i, weight := range weights {
		away[i] /= weight
	}
	divide(away, unit)
	counts := mech.NewSignedMagnitudes(mech.MagnitudeContract{Lowest: -mostMagnitude, Highest: mostMagnitude, N: len(residuals)})
	counts.Add(away, of(weights, func(weight float64) float64 { return weight / full }))
	quantileShift := unit * mech.SignedQuantile{Epsilon: below(epsilon), Level: level, Prior: 1}.Release(counts, src)
	shift(residuals, -quantileShift, weights)
	return quantileShift
}

// refine adds to u a fit of the residuals in x to the quantile, with a smoothing that spans half of those that
// the last one may span, and returns the distance of the quantile from there, which it subtracts from the residuals.
// From the rough fit coefficients may be farther from those of the quantile than the last fit, with its small smoothing, can go.
func (f staged) refine(ctx context.Context, u []float64, x Data, weights []float64, t rowCoordinates, unit float64, src *mech.Source) (smoothing, quantileShift float64, err error) {
	level := f.mostLevel() / 2
	smoothing = f.sizeOf(x.Y, unit, mech.Quantile{Epsilon: below(f.shares.refinement.width), Level: level, Most: f.mostLevel(), Prior: 1}, src)
	lower := smoothing / f.typicalWeight(t) * beyondEqual(f.tilt())
	shift(x.Y, -lower, weights)
	if x, err = f.stepWhereRare(ctx, u, x, t, 1, f.perturbation(f.shares.refinement.fit, smoothing, f.firstClip(), f.firstClip(), f.tilt()), level, src); err != nil {
		return 0, 0, err
	}
	shift(x.Y, lower, weights)
	return smoothing, f.shiftToQuantile(x.Y, weights, t, smoothing, f.Tau, f.shares.refinement.shift, src), nil
}

// width is the smoothing of the last fit. It is looked for near unit.
func (f staged) width(residuals []float64, unit float64, src *mech.Source) float64 {
	return f.sizeOf(residuals, unit, mech.Quantile{Epsilon: below(f.shares.width), Level: f.level, Most: f.mostLevel(), Prior: 1}, src)
}

// sizeOf is a quantile of the absolute residuals, within the magnitudes that check covers. It is looked for near unit.
func (staged) sizeOf(residuals []float64, unit float64, q mech.Quantile, src *mech.Source) float64 {
	scaled := slices.Clone(residuals)
	divide(scaled, unit)
	counts := mech.NewMagnitudes(mech.MagnitudeContract{Lowest: -mostMagnitude, Highest: mostMagnitude, N: len(residuals)})
	counts.Add(scaled)
	return clampBetween(unit*q.Release(counts, src), math.Exp2(-mostMagnitude/2), math.Exp2(mostMagnitude/2))
}

// stepWhereRare makes a step on rows in which rare features are kept small, and returns them as they were.
func (f staged) stepWhereRare(ctx context.Context, u []float64, x Data, t rowCoordinates, usable float64, p objpert.Params, quantile float64, src *mech.Source) (Data, error) {
	rare, found := f.rare(t, usable, f.typicalWeight(t))
	if !found {
		return x, f.step(ctx, u, x, p, quantile, src)
	}
	x = x.times(rare.matrix)
	v := make([]float64, len(u))
	if err := f.step(ctx, v, x, p, quantile, src); err != nil {
		return x, err
	}
	floats.Add(u, rare.apply(v))
	return x.times(rare.inverse().matrix), nil
}

// step adds to u a fit of the targets in x and replaces these by its residuals. The fit is lengthened to
// make up for the ridge, assuming that the share quantile of the rows has residuals within the smoothing.
func (f staged) step(ctx context.Context, u []float64, x Data, p objpert.Params, quantile float64, src *mech.Source) error {
	columns := make([][]float64, len(x.X))
	for j, column := range x.X {
		columns[j] = slices.Clone(column)
	}
	v, err := objpert.Draw(ctx, p, columns, slices.Clone(x.Y), src)
	if err != nil {
		return err
	}
	longer := 1 + math.Min(mostLonger, heldBack(p, float64(x.N), quantile))
	for j := range v {
		u[j] += longer * v[j]
		floats.AddScaled(x.Y, -longer*v[j], x.X[j])
	}
	return nil
}

// mostLonger is the largest relative lengthening of a fit.
const mostLonger = .5

// heldBack is the approximate relative shortening of a fit by its ridge, if the share quantile of the rows
// has residuals within the smoothing.
func heldBack(p objpert.Params, rows, quantile float64) float64 {
	return 2 * p.Short * p.Short * (1 + math.Abs(p.Tilt)) / (p.Epsilon * rows * quantile)
}
