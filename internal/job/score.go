package job

import (
	"context"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/ledger"
)

// A score is a job like a fit: planned from public facts, charged, run once and published at a step of its
// ladder. It returns metrics instead of coefficients.

// scored is the release to be scored.
type scored struct {
	Model        string
	Coefficients []float64
	Parameters   struct {
		Positive any `json:"positive_label"` // a number, or a level of a category
		Negative any `json:"negative_label"`
		By       string
	}
}

// planScore returns the plan of a score, in the units of the table.
func (s *Sidecar) planScore(c *claim, n int64) (*plan.Plan, error) {
	score := score.Metrics{
		MaxRows:      c.Dataset.MaxRows,
		Coefficients: c.Scored.Coefficients, Labels: catalogue.Classifies(c.Scored.Model),
		Negative: c.label(c.Scored.Parameters.Negative), Positive: c.label(c.Scored.Parameters.Positive),
		Counts: catalogue.IsCount(c.Scored.Model),
	}
	if !score.Labels {
		target := c.unit(c.Request.Target)
		if score.Scale = target.Scale; !score.Counts {
			score.Centre, score.TargetUnscaled = target.Center, c.lacksScale(c.Request.Target)
		}
	}
	if score.MaxWeight, score.Exposure = c.maxWeight(), 1; c.column(catalogue.Exposure) != "" {
		score.Exposure = c.unit(c.column(catalogue.Exposure)).Scale
	}
	if offset := c.column(catalogue.Offset); offset != "" && score.Counts {
		score.CentreOffset = c.unit(offset).Center
	}
	plan, err := score.Plan(c.shape(n), c.budget(), s.accountant(c))
	if err == nil {
		plan.Parameters["release"] = c.Request.Release
	}
	return plan, err
}

// label returns the number that stands for a label of the scored release in the data read: a level's
// position, or the number itself.
func (c *claim) label(v any) float64 {
	if level, ok := v.(string); ok {
		return c.position(level)
	}
	number, _ := v.(float64)
	return number
}

// publishScore publishes the metrics of a score at the time of their step.
func (s *Sidecar) publishScore(ctx context.Context, c *claim, f fitted, step int) error {
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_score($1, $2, $3, $4, $5)",
		c.ID, c.Token, f.plan.Method, step, f.result.Metrics))
}
