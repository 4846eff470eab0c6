package dpsco

import (
	"context"

	"dpsidecar/internal/dpsco/release"
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
	statements int  // as Plan.Statements
	sums       bool // as Plan.Sums
	run        func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error)

	findsTargetScale bool // the fit is about a target in a scale that it finds
}

// fitted is the release of a stage, with the units that it has found.
type fitted struct {
	release.Result
	found *Scaled // scales that a standardised fit has found, as released; nil: none
	moved *Scaled // the units, in these, of everything in Result; nil: those of the problem
}

// noErrors is why most methods release coefficients alone.
const noErrors = "this method releases no standard errors"

// estimates is a stage's run that releases coefficients alone.
func estimates(fit func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error)) func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
	return func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
		w, err := fit(ctx, x, src)
		return fitted{Result: release.Result{Coefficients: w, WhyNull: noErrors}}, err
	}
}
