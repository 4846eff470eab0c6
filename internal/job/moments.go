package job

import (
	"context"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
)

// Second moments are released by jobs like fits, in the scales of their request. That they
// have sums of products in the place of coefficients is all that differs.

// momentsModel is what the database calls them.
const momentsModel = "moments"

func (c *claim) sumsMoments() bool { return c.Model == momentsModel }

// atLeast is n, or of second moments of a window without a row 1, for an empty record: a day on
// which nobody came has its release too, or no sum could reach over it. It is a function of n, which is public.
func (c *claim) atLeast(n int64) int64 {
	if c.sumsMoments() && c.Dataset.Block != nil {
		return max(n, 1)
	}
	return n
}

// publishMoments releases second moments, once it is the time of their step.
func (s *Sidecar) publishMoments(ctx context.Context, c *claim, f fitted, step int) error {
	m := f.result.Moments
	terms := append(c.terms(), c.Request.Target)
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_moments($1, $2, $3, $4, $5, $6, $7, $8)",
		c.ID, c.Token, f.plan.Method, step, terms, m.Sums, m.Noise, m.Bound))
}

// recipe is the algorithm of a request, before its scales.
func (c *claim) recipe() (dpsco.Algorithm, error) {
	if c.sumsMoments() {
		return dpsco.SecondMoments{}, nil
	}
	return dpsco.Recipe(c.Model, c.options(), c.slopes())
}
