package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Medians by groups: the stages up to the rough fit see all rows. Then the residuals of each group are fitted by
// themselves, twice: with a wide smoothing, which finds groups wherever they are, and then, all of them being where
// residuals are small, with that of the last fit. The ridge of a fit holds a group back toward where it begins: the
// fit of all, or the first of its own. What is released of groups is released at the cost of one fit each (groups.md).

// fitGroups runs the stages on x, which it overwrites.
func (f staged) fitGroups(ctx context.Context, x Data, src *mech.Source) (Result, error) {
	common, x, t, err := f.start(ctx, x.one().unweighted().inGroups(), src)
	if err != nil {
		return Result{}, err
	}
	shares, sizes := x.groupSizes(mech.Laplace{Epsilon: below(f.shares.sizes)}, src)
	groups, fits := x.byGroup(), make([][]float64, f.shape.Levels)
	for g := range fits {
		fits[g] = common
	}
	apart := f.perturbation(f.shares.apart, f.spread(x.Y, src), f.firstClip(), 0)
	if fits, err = f.stepByGroup(ctx, fits, groups, sizes, apart, apartLevel, src); err != nil {
		return Result{}, err
	}
	for g, rows := range groups {
		for j, column := range rows.X {
			floats.AddScaled(rows.Y, common[j]-fits[g][j], column)
		}
	}
	aside := f.stepAside(x.Y, src)
	last := f.perturbation(f.shares.last, f.width(x.Y, src), f.clip, f.tilt())
	if fits, err = f.stepByGroup(ctx, fits, groups, sizes, last, f.level, src); err != nil {
		return Result{}, err
	}
	r := Result{}
	for g, fit := range fits {
		r.Groups = append(r.Groups, Group{shares[g], f.result(f.back(t, aside, fit))})
	}
	return r, nil
}

// apartLevel is the quantile of the sizes of residuals that the smoothing of the groups' first fits is, of all groups together.
const apartLevel = .75

// spread is that smoothing.
func (f staged) spread(residuals []float64, src *mech.Source) float64 {
	return f.sizeOf(residuals, mech.Quantile{Epsilon: below(f.shares.spread), Level: apartLevel, Most: apartLevel, Prior: 1}, src)
}

// stepByGroup adds to the fit of each group one of its residuals, which stay what they are; of level of them the sizes are
// within the smoothing.
func (f staged) stepByGroup(ctx context.Context, fits [][]float64, groups []Data, sizes []groupSize, p objpert.Params, level float64, src *mech.Source) ([][]float64, error) {
	var parts []objpert.Part
	for _, rows := range groups {
		part := objpert.Part{Y: slices.Clone(rows.Y)}
		for _, column := range rows.X {
			part.X = append(part.X, slices.Clone(column))
		}
		parts = append(parts, part)
	}
	steps, err := objpert.DrawParts(ctx, p, f.shape.N, f.shape.D, parts, src)
	if err != nil {
		return nil, err
	}
	return f.groupFits(fits, steps, sizes, p, level), nil
}

// groupFits adds steps of groups to where they began: lengthened by what the ridge took off or,
// where fits are pooled, by all that it did, and moved toward their mean.
func (f staged) groupFits(fits, steps [][]float64, sizes []groupSize, p objpert.Params, level float64) [][]float64 {
	pooled := f.Pool != catalogue.PoolNone
	var estimates []estimate
	for g, step := range steps {
		longer := heldBack(p, sizes[g].rows, level)
		if !pooled {
			longer = math.Min(mostLonger, longer)
		}
		w := slices.Clone(fits[g])
		for j, v := range step {
			w[j] += (1 + longer) * v
		}
		estimates = append(estimates, estimate{w, f.stepError(p, level, 1+longer, sizes[g].least)})
	}
	if pooled {
		return pool(estimates, identity(f.shape.D), fits[0])
	}
	return of(estimates, func(e estimate) []float64 { return e.w })
}

// stepError is the covariance, of sampling and of noise, of a fit of so many rows, lengthened by a
// factor, in whitened coordinates, at the curvature of residuals of which the share level is
// within the smoothing. Of few rows the ridge bounds it.
func (f staged) stepError(p objpert.Params, level, factor, rows float64) *mat.SymDense {
	ridge, noise := p.Scales(f.shape.D)
	variance := square(factor) * (float64(f.shape.D+1)*square(noise) + rows) / square(ridge+rows*level/p.Smoothing)
	covariance := mat.NewSymDense(f.shape.D, nil)
	for j := range f.shape.D {
		covariance.SetSym(j, j, variance)
	}
	return covariance
}
