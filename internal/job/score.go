package job

import (
	"context"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
)

// A score is a job like a fit: planned from public facts, charged, run once and published
// at a step of its ladder. That it has metrics in the place of coefficients is all that
// differs.

// scored is the release that a job scores.
type scored struct {
	Model        string
	Coefficients []float64
	Parameters   struct {
		Positive any `json:"positive_label"` // a number, or a level
		Negative any `json:"negative_label"`
		By       string
	}
}

// planScore is the plan of a score, in the units of the table.
func (s *Sidecar) planScore(c *claim, n int64) (*dpsco.Plan, error) {
	score := dpsco.Score{
		MaxRows:      c.Dataset.MaxRows,
		Coefficients: c.Scored.Coefficients, Labels: catalogue.Classifies(c.Scored.Model),
		Negative: c.label(c.Scored.Parameters.Negative), Positive: c.label(c.Scored.Parameters.Positive),
		Counts: catalogue.IsCount(c.Scored.Model),
	}
	if !score.Labels {
		target := c.unit(c.Request.Target)
		if score.Scale = target.Scale; !score.Counts {
			score.Centre = target.Center
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

// label is what a label of the scored release is among the values that are read.
func (c *claim) label(v any) float64 {
	if level, ok := v.(string); ok {
		return c.position(level)
	}
	number, _ := v.(float64)
	return number
}

// publishScore releases the metrics of a score, once it is the time of its step.
func (s *Sidecar) publishScore(ctx context.Context, c *claim, f fitted, step int) error {
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_score($1, $2, $3, $4, $5)",
		c.ID, c.Token, f.plan.Method, step, f.result.Metrics))
}
