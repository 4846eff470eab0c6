package dpsco

import (
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"
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
// nearer to the median (attainableLevel).
//
// Privacy: its shares of epsilon add up to epsilon (proof: l1_staged.md).
type staged struct {
	L1
	shape       table.Shape     // of the table that the mechanisms see
	constant    bool            // whether the first coefficient is the intercept; with weights a column represents it
	columns     []numericColumn // that may be shifted and scaled
	scales      scaleSearch
	shares      stagedShares
	usable      float64 // approximate share of usable rows, 1 until moments are released
	short, clip float64 // of the last fit: rows longer than short have a wider smoothing, and those longer than clip are shortened
	level       float64 // quantile of the absolute residuals that is the smoothing of the last fit
}

// staged plans the stages.
func (a L1) staged(s table.Shape, epsilon float64) (*plan.Plan, error) {
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
	planned := &plan.Plan{
		Event:        f.shares.event(f.shape.Columns()),
		Parameters:   parameters,
		Seconds:      f.seconds(),
		FindsScales:  f.shares.scales > 0,
		FindsCentres: f.shares.position > 0,
		Shape:        s,
	}
	return planned.WithRun(run), nil
}

// newStaged sets the parameters that follow from public facts: limits on rows that are wide if there are so many
// rows that noise does not matter, and the smallest smoothing that noise allows. Where the length of long rows is
// looked for, the limits are the widest, and measured sets others.
func newStaged(a L1, s table.Shape, epsilon float64) staged {
	f := staged{L1: a, shape: a.fitted(s), constant: s.Intercept, columns: a.movable(s), scales: a.seeks(s)}
	f.shares = newStagedShares(f.shape, epsilon, a.Tau, f.constant, len(f.scales.Columns), len(f.columns))
	return f.among(1)
}

// among returns f with the limits of a table of which that share of the rows is usable. They are at most those of a table
// without missing values, which check covers.
func (f staged) among(usable float64) staged {
	if usable == f.usable {
		return f
	}
	f.usable = usable
	informed := f.rowsOfLast() * f.shares.last
	if f.shape.GroupCount == 0 {
		informed *= f.beyondQuantile()
	}
	f.short = f.firstClip() * numeric.ClampBetween(.05*math.Sqrt(informed/float64(f.shape.D)), 1, 6)
	f.clip, f.level = f.short, f.levelAt(f.short)
	if f.shares.length > 0 {
		f.clip = numeric.ClampBetween(longestFor*math.Pow(informed*math.Sqrt(f.beyondQuantile()), .75), f.short, f.firstClip()*maxLength)
	}
	return f
}

// longestFor times the number of rows times epsilon of the last fit to the power .75 is the length beyond which rows
// are shortened even if many are longer: the noise, which grows with it, is to fall as rows are added. Far out, where
// few rows lie beyond the quantile, a wide smoothing of long rows is worse than shortening them. maxLength bounds it,
// in typical lengths.
const (
	longestFor = 1. / 60
	maxLength  = 1024
)

// measured returns f with short and clip set from the released length of long rows. short is at most that length: a
// larger one would add noise and smoothing and change no row. clip is typical · long^(1 + beyondQuantile/2), for medians
// typical · long^1.5, as far as it may be, because some rows are longer than the released length. Where long ≤
// commonlyLong, features are not skewed, and clip is kept so small that noise stays below the sampling error
// (besideSampling).
func (f staged) measured(x table.Data, src *mech.Source) staged {
	if f.shares.length == 0 {
		return f
	}
	lengths, typical := make([]float64, len(x.Y)), f.firstClip()
	for _, column := range x.X {
		for i, v := range column {
			lengths[i] += square(v / typical)
		}
	}
	level := 1 - min(longShare(f.shape, f.shares.length)/f.usable, maxLong)
	counts := mech.NewMagnitudes(mech.MagnitudeContract{Highest: maxMagnitude, N: len(lengths)})
	counts.Add(mapSlice(lengths, math.Sqrt))
	long := mech.Quantile{Epsilon: plan.JustBelow(f.shares.length), Level: level, Most: level, Prior: 1}.Release(counts, src)
	f.short = min(f.short, typical*long)
	most := f.clip
	if long <= commonlyLong {
		most = min(most, besideSampling*math.Sqrt(f.rowsOfLast()/float64(f.shape.D))*f.shares.last)
	}
	f.clip = numeric.ClampBetween(typical*math.Pow(long, 1+f.beyondQuantile()/2), f.short, max(f.short, most))
	f.level = f.levelAt(f.short)
	return f
}

// levelAt is the least level that the ridge allows if rows longer than short have a wider smoothing.
func (f staged) levelAt(short float64) float64 {
	lowering := f.beyondQuantile()
	if f.shape.GroupCount == 0 {
		lowering = math.Sqrt(lowering)
	}
	return min(f.maxLevel(), max(30*short*short/(f.rowsOfLast()*f.shares.last), f.minLevel())*lowering)
}

// beyondQuantile is twice the share of rows beyond the quantile.
func (f staged) beyondQuantile() float64 { return 1 - math.Abs(f.tilt()) }

// movable returns the columns that may be shifted and scaled: numbers without a center, and such a target unless
// rows have weights or offsets. Each column costs noise, and a steward who has registered a center has said where
// the values lie. A radius speaks of the unit of coefficients; where residual_scale is given, the target keeps
// its unit.
func (a L1) movable(s table.Shape) (columns []numericColumn) {
	if !s.Intercept || a.Radius != 0 || len(a.numericColumns) == 0 {
		return nil
	}
	for _, c := range a.numericColumns {
		if c.zero == 0 {
			columns = append(columns, c)
		}
	}
	if y := a.target; y.zero == 0 && a.Offset == "" && a.MaxWeight == 0 {
		y.unit = a.scaleAsked
		columns = append(columns, y)
	}
	if mech.CheckHistogram(positionBins.Bins, s.N, len(columns)) != nil {
		return nil // none, or more columns than such a histogram takes
	}
	return columns
}

// seeks returns the search for the scales of columns that have none, but for that of the target with an offset, which has
// its unit, or where residual_scale is given.
func (a L1) seeks(s table.Shape) (scales scaleSearch) {
	if a.Radius != 0 {
		return scales
	}
	columns := slices.Clone(a.numericColumns)
	if a.Offset == "" && !a.scaleAsked {
		columns = append(columns, a.target)
	}
	if scales = unscaled(columns, a.NoScales); mech.CheckHistogram(histogram.SizeBins.Bins, s.N, len(scales.Columns)) != nil {
		return scaleSearch{} // none, or more columns than such a histogram takes
	}
	return scales
}

// minLevel is the least share of rows within the smoothing of the last fit, for medians: with 90,000 rows
// at eps 10 it reduces the excess risk for a target with steps to two thirds. For other quantiles the share
// is smaller, as fewer rows lie beyond them. By groups, where there is the stage units, the smoothing must
// cover the error of the stage quantileShift, half a step of its grid: where the density of residuals is low, the
// ridge keeps the fit of a small group from going further, the more so the smaller the smoothing is.
func (f staged) minLevel() float64 {
	if f.shares.units > 0 {
		return .2
	}
	return .02
}

// firstClip is the length to which rows are shortened in the fits before the last: about their typical
// length.
func (f staged) firstClip() float64 { return math.Sqrt(float64(f.shape.D)) }

// maxLevel is the largest share of rows within the smoothing of the last fit, among rows that have a
// residual.
func (f staged) maxLevel() float64 { return .6 * f.beyondQuantile() }

// rowsOfLast is the approximate number of usable rows of the last fit, by groups that of a mean group.
func (f staged) rowsOfLast() float64 {
	return f.usable * float64(f.shape.N) / float64(max(1, f.shape.GroupCount))
}

// maxMagnitude is the largest magnitude of the grid, in half octaves: features are up to 4096 times their
// scale, residuals down to 1/4096 of theirs.
const maxMagnitude = 24

// check refuses parameters that the mechanism of a stage would refuse for any release of the earlier
// stages.
func (f staged) check() error {
	for _, smoothing := range []float64{roughSmoothing, math.Exp2(-maxMagnitude / 2), math.Exp2(maxMagnitude / 2)} {
		first := f.firstClip()
		for _, fit := range []struct{ epsilon, short, clip float64 }{
			{f.shares.rough, first, first}, {f.shares.groupFit, first, first}, {f.shares.refinement.fit, first, first}, {f.shares.last, first, f.clip}, {f.shares.last, f.short, f.short},
		} {
			if fit.epsilon == 0 {
				continue // there is no such stage
			}
			if err := f.perturbation(fit.epsilon, smoothing, fit.short, fit.clip, f.tilt()).Validate(f.shape.N, f.shape.D); err != nil {
				return fmt.Errorf("%w: %w", plan.ErrInfeasible, err)
			}
		}
	}
	for _, epsilon := range []float64{f.shares.scales, f.shares.position, f.shares.detail} {
		if err := (mech.Laplace{Epsilon: plan.JustBelow(epsilon)}).Check(); epsilon > 0 && err != nil {
			return fmt.Errorf("%w: %w", plan.ErrInfeasible, err)
		}
	}
	if err := checkGroupSizes(f.shape); err != nil {
		return err
	}
	for _, bound := range f.bounds() {
		if err := f.contract(bound).Check(); err != nil {
			return plan.Infeasible(err)
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
	return objpert.Params{Epsilon: plan.JustBelow(epsilon), Clip: clip, Smoothing: smoothing, Pitch: pitch, Tilt: tilt, Short: short}
}
