package job

import (
	"context"
	"time"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
)

// Before has something happen before every fit.
func (s *Sidecar) Before(happen func(context.Context)) {
	s.runPlan = func(ctx context.Context, p *dpsco.Plan, x dpsco.Data, src *mech.Source) ([]float64, error) {
		happen(ctx)
		return runPlan(ctx, p, x, src)
	}
}

// Impatient is a mutant: it waits for no public time.
func (s *Sidecar) Impatient() {
	s.await = func(ctx context.Context, _ time.Time) error { return ctx.Err() }
}
