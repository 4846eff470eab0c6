package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Medians by groups: the stages up to the rough fit use all rows. Then the residuals of each group are
// fitted separately, twice: with a wide smoothing, which works wherever the group is, and then, when most
// residuals of all groups are small, with the smoothing of the last fit. The ridge of a fit pulls a group
// back toward its starting point: the fit of all rows, or the group's first fit. For a quantile other than
// the median, the last fit starts at an estimate of that quantile for each group, in units of the spread of
// the group's residuals; without both, groups with a smaller or larger spread than most would start too far
// away. Each release of all groups costs as much as one release for all rows (groups.md).

// l1Groups holds the groups during a fit.
type l1Groups struct {
	rows  []table.Data // sensitive; targets are replaced by residuals
	sizes []groupSize
	fits  [][]float64
	units []float64 // units of the residuals
}

// fitGroups runs the stages on x, which it overwrites.
func (f staged) fitGroups(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
	x = x.FirstRows()
	columns := x.FeatureColumns() // without the constant, which start adds
	found, hidden := f.findScales(x, src)
	moved := f.place(x, src)
	common, x, t, usable, err := f.start(ctx, unweighted(x).InGroups(), nil, src)
	if err != nil {
		return release.Result{}, err
	}
	f = f.among(usable.known)
	shares, sizes := groupSizes(x, mech.Laplace{Epsilon: plan.JustBelow(f.shares.sizes)}, src)
	inGroups := 0.
	for _, s := range sizes {
		inGroups += s.rows
	}
	usableInGroups := min(1, f.usable*float64(f.shape.N)/inGroups) // unusable rows may have no group either
	for g := range sizes {
		sizes[g].rows *= usableInGroups
		sizes[g].least *= usableInGroups
	}
	groups := l1Groups{rows: x.ByGroup(), sizes: sizes}
	for range groups.rows {
		groups.fits, groups.units = append(groups.fits, common), append(groups.units, 1)
	}
	spread := f.groupSmoothing(x.Y, src)
	groupFit := f.perturbation(f.shares.groupFit, spread, f.firstClip(), f.firstClip(), 0)
	if err = f.stepByGroup(ctx, groups, groupFit, groupFitLevel, src); err != nil {
		return release.Result{}, err
	}
	for g, rows := range groups.rows {
		for j, column := range rows.X {
			floats.AddScaled(rows.Y, common[j]-groups.fits[g][j], column)
		}
	}
	f.changeUnits(groups, spread, src)
	f.shiftGroupsToQuantile(groups, t, src)
	last := f.perturbation(f.shares.last, f.width(x.Y, 1, src), f.short, f.clip, f.tilt())
	if err = f.stepByGroup(ctx, groups, last, f.level, src); err != nil {
		return release.Result{}, err
	}
	r := release.Result{}
	for g, fit := range groups.fits {
		w := f.toTableUnits(t, 0, fit)
		moved.restore(w)
		found.restore(w)
		r.Groups = append(r.Groups, release.Group{Share: shares[g], Result: f.resultOf(w, usable, hidden, columns)})
	}
	return r, nil
}

// groupFitLevel is the level of the quantile of the absolute residuals, of all groups together, that is the
// smoothing of the groups' first fits.
const groupFitLevel = .75

// groupSmoothing is the smoothing of the groups' first fits.
func (f staged) groupSmoothing(residuals []float64, src *mech.Source) float64 {
	return f.sizeOf(residuals, 1, mech.Quantile{Epsilon: plan.JustBelow(f.shares.spread), Level: groupFitLevel, Most: groupFitLevel, Prior: 1}, src)
}

// changeUnits divides residuals of each group by their typical size. The prior for that size is centred at
// the typical size for all rows, which is derived from spread, a larger quantile from before the groups'
// first fits.
func (f staged) changeUnits(groups l1Groups, spread float64, src *mech.Source) {
	if f.shares.units == 0 {
		return
	}
	typical := .6 * spread // for normal residuals, which near assumes as well
	sizes := groupMagnitudes{
		DisjointQuantile: mech.DisjointQuantile{Epsilon: plan.JustBelow(f.shares.units), Level: .5, Prior: .5},
		lowest:           -maxMagnitude,
		highest:          maxMagnitude,
		near:             .14,
	}
	units := sizes.release(groups, f.shape.N, func(r float64) float64 { return r / typical }, src)
	for g, rows := range groups.rows {
		groups.units[g] = typical * units[g]
		divide(rows.Y, groups.units[g])
	}
}

// shiftGroupsToQuantile subtracts from the residuals of each group an estimate of the distance of the group's
// quantile from its fit, and adds it to the fit.
func (f staged) shiftGroupsToQuantile(groups l1Groups, t rowCoordinates, src *mech.Source) {
	if f.shares.quantileShift == 0 {
		return
	}
	level := f.groupShiftLevel()
	sizes := groupMagnitudes{
		DisjointQuantile: mech.DisjointQuantile{Epsilon: plan.JustBelow(f.shares.quantileShift), Level: level, Prior: 1}, lowest: -maxQuantileShift, highest: maxQuantileShift, near: .35 * min(2*(1-level), level-.5),
	}
	for g, size := range sizes.release(groups, f.shape.N, f.beyond, src) {
		quantileShift := f.side() * size
		floats.AddConst(-quantileShift, groups.rows[g].Y)
		for j := range groups.fits[g] {
			groups.fits[g][j] += groups.units[g] * quantileShift * t.inverse.At(j, 0) // coordinates of a constant
		}
	}
}

// side is the sign of the quantile relative to the median: 1 above, -1 below.
func (f staged) side() float64 { return math.Copysign(1, f.tilt()) }

// groupShiftLevel is the share of residuals that are not beyond the quantile on that side.
func (f staged) groupShiftLevel() float64 { return max(f.Tau, 1-f.Tau) }

// beyond is the distance of a residual from 0 on that side, 0 on the other; NaN remains NaN.
func (f staged) beyond(residual float64) float64 { return max(0, f.side()*residual) }

// maxQuantileShift bounds the estimated distance of a quantile from the median, in half octaves of the group's
// unit: 2^-4 to 2^4. There are few rows beyond a high quantile to distinguish magnitudes there.
const maxQuantileShift = 8

// groupMagnitudes are quantiles of the absolute residuals of each group, on a grid of magnitudes. near is
// the approximate share of a group's rows in one step of the grid.
type groupMagnitudes struct {
	mech.DisjointQuantile
	lowest, highest int
	near            float64
}

// release returns, for each group, the quantile of the values of made at its residuals. Logarithms of the
// quantiles are shrunk toward their mean by the share of their variance that the grid and the noise
// explain; the noise is some 6 max(Level, 1 - Level)/Epsilon rows.
func (q groupMagnitudes) release(groups l1Groups, rows int, made func(residual float64) float64, src *mech.Source) []float64 {
	var counts []*mech.Magnitudes
	for _, rowsOfGroup := range groups.rows {
		m := mech.NewMagnitudes(mech.MagnitudeContract{Lowest: q.lowest, Highest: q.highest, N: rows})
		m.Add(mapSlice(rowsOfGroup.Y, made))
		counts = append(counts, m)
	}
	const step = .5 // step of the grid, in octaves
	logs, variances := mapSlice(q.Release(counts, src), math.Log2), []float64{}
	for _, size := range groups.sizes {
		variances = append(variances, square(step)/12+square(step*6*max(q.Level, 1-q.Level)/(q.Epsilon*size.least*q.near)))
	}
	towardTheMean(logs, variances, 0)
	return mapSlice(logs, math.Exp2)
}

// stepByGroup adds to the fit of each group a fit of its residuals, which stay as they are. level is the
// share of the absolute residuals below the smoothing.
func (f staged) stepByGroup(ctx context.Context, groups l1Groups, p objpert.Params, level float64, src *mech.Source) error {
	var parts []objpert.Part
	for _, rows := range groups.rows {
		part := objpert.Part{Y: slices.Clone(rows.Y)}
		for _, column := range rows.X {
			part.X = append(part.X, slices.Clone(column))
		}
		parts = append(parts, part)
	}
	steps, err := objpert.DrawParts(ctx, p, f.shape.N, f.shape.D, parts, src)
	if err == nil {
		f.addSteps(groups, steps, p, level)
	}
	return err
}

// addSteps adds the steps of groups to their starting points. Steps are lengthened to make up for the
// ridge, by at most maxLengthening unless fits are pooled; pooled fits are then shrunk toward their mean.
func (f staged) addSteps(groups l1Groups, steps [][]float64, p objpert.Params, level float64) {
	pooled := f.Pool != catalogue.PoolNone
	var estimates []estimate
	for g, step := range steps {
		longer := heldBack(p, groups.sizes[g].rows, level)
		if !pooled {
			longer = math.Min(maxLengthening, longer)
		}
		factor := groups.units[g] * (1 + longer)
		w := slices.Clone(groups.fits[g])
		floats.AddScaled(w, factor, step)
		estimates = append(estimates, estimate{w, f.stepError(p, level, factor, groups.sizes[g].least)})
	}
	if pooled {
		copy(groups.fits, pool(estimates, linalg.Identity(f.shape.D), groups.fits[0]))
		return
	}
	copy(groups.fits, mapSlice(estimates, func(e estimate) []float64 { return e.w }))
}

// stepError is the covariance, due to sampling and noise, of a lengthened fit of the given number of rows
// in whitened coordinates, if the share level of the residuals is within the smoothing. A score is 1 + t or
// t - 1 times its row, with mean 0 at the quantile, and so has variance 1 - t^2. With few rows the ridge bounds
// the error.
func (f staged) stepError(p objpert.Params, level, factor, rows float64) *mat.SymDense {
	ridge, noise := p.Scales(f.shape.D)
	variance := square(factor) * (float64(f.shape.D+1)*square(noise) + rows*(1-square(p.Tilt))) / square(ridge+rows*level/p.Smoothing)
	covariance := mat.NewSymDense(f.shape.D, nil)
	for j := range f.shape.D {
		covariance.SetSym(j, j, variance)
	}
	return covariance
}
