package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"

	"gonum.org/v1/gonum/mat"
)

// Medians by groups: all stages but the last see all rows. The last one fits the residuals of
// each group by themselves, so that its ridge holds a group back toward the fit of all. What is
// released of groups is released at the cost of one fit (groups.md).

// fitGroups runs the stages on x, which it overwrites.
func (f staged) fitGroups(ctx context.Context, x Data, src *mech.Source) (Result, error) {
	u, x, back, err := f.start(ctx, x.one().unweighted().inGroups(), src)
	if err != nil {
		return Result{}, err
	}
	shares, sizes := x.groupSizes(mech.Laplace{Epsilon: below(f.shares.sizes)}, src)
	last := f.perturbation(f.shares.last, f.width(x.Y, src), f.clip, f.tilt())
	var parts []objpert.Part
	for _, part := range x.byGroup() {
		parts = append(parts, objpert.Part{X: part.X, Y: part.Y})
	}
	steps, err := objpert.DrawParts(ctx, last, f.shape.N, f.shape.D, parts, src)
	if err != nil {
		return Result{}, err
	}
	r := Result{}
	for g, fit := range f.groupFits(u, steps, sizes, last) {
		r.Groups = append(r.Groups, Group{shares[g], f.result(back(fit))})
	}
	return r, nil
}

// groupFits adds steps of groups to the fit of all: lengthened by what the ridge took off or,
// where fits are pooled, by all that it did, and moved toward their mean.
func (f staged) groupFits(u []float64, steps [][]float64, sizes []groupSize, p objpert.Params) [][]float64 {
	pooled := f.Pool != catalogue.PoolNone
	var estimates []estimate
	for g, step := range steps {
		longer := heldBack(p, sizes[g].rows, f.level)
		if !pooled {
			longer = math.Min(mostLonger, longer)
		}
		w := slices.Clone(u)
		for j, v := range step {
			w[j] += (1 + longer) * v
		}
		estimates = append(estimates, estimate{w, f.stepError(p, 1+longer, sizes[g].least)})
	}
	if pooled {
		return pool(estimates, identity(f.shape.D), u)
	}
	return of(estimates, func(e estimate) []float64 { return e.w })
}

// stepError is the covariance, of sampling and of noise, of a fit of so many rows, lengthened by a
// factor, in whitened coordinates, at the curvature of residuals of which the share level is
// within the smoothing. Of few rows the ridge bounds it.
func (f staged) stepError(p objpert.Params, factor, rows float64) *mat.SymDense {
	ridge, noise := p.Scales(f.shape.D)
	variance := square(factor) * (float64(f.shape.D+1)*square(noise) + rows) / square(ridge+rows*f.level/p.Smoothing)
	covariance := mat.NewSymDense(f.shape.D, nil)
	for j := range f.shape.D {
		covariance.SetSym(j, j, variance)
	}
	return covariance
}
