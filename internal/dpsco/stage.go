package dpsco

import (
	"context"

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// fit is an algorithm whose cost is determined by one noise multiplier z and does not grow with z.
type fit interface {
	// at fixes the noise multiplier. The returned stage must not cost more for a larger z.
	at(s table.Shape, z float64) (*stage, error)
}

// stage is a fit with its noise fixed: its privacy event and the function that runs it.
type stage struct {
	event      privacy.Event
	arithmetic string
	seconds    float64
	passes     int  // as Plan.Passes
	statements int  // as Plan.statements
	sums       bool // as Plan.Sums
	run        run

	findsTargetScale bool // the fit is about a target in a scale that it finds
}

// run computes and releases a fit of x.
type run = func(ctx context.Context, x table.Data, src *mech.Source) (Result, error)

// noErrors is why most methods release coefficients alone.
const noErrors = "this method releases no standard errors"

// estimates is a run that releases coefficients alone.
func estimates(fit func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error)) run {
	return func(ctx context.Context, x table.Data, src *mech.Source) (Result, error) {
		w, err := fit(ctx, x, src)
		return Result{Coefficients: w, WhyNull: noErrors}, err
	}
}
