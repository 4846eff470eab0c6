package job

import (
	"context"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/moments"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/ledger"
)

// Second moments are released by jobs like fits, in the scales of their request. They return sums of
// products instead of coefficients.

// momentsModel is the name of the model in the database.
const momentsModel = "moments"

func (c *claim) sumsMoments() bool { return c.Model == momentsModel }

// atLeast returns n, but at least 1 (an empty record) for second moments of a window: each day must have a
// release, so that sums over days exist. It depends only on n, which is public.
func (c *claim) atLeast(n int64) int64 {
	if c.sumsMoments() && c.Dataset.Block != nil {
		return max(n, 1)
	}
	return n
}

// publishMoments publishes second moments at the time of their step.
func (s *Sidecar) publishMoments(ctx context.Context, c *claim, f fitted, step int) error {
	m := f.result.Moments
	terms := append(c.terms(), c.Request.Target)
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_moments($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		c.ID, c.Token, f.plan.Method, step, terms, m.Sums, m.Noise, m.Bound, m.Lost, m.LostNoise))
}

// recipe returns the algorithm of a request, without its scales.
func (c *claim) recipe() (plan.Algorithm, error) {
	if c.sumsMoments() {
		return moments.Sums{}, nil
	}
	return dpsco.Recipe(c.Model, c.options(), c.slopes())
}
