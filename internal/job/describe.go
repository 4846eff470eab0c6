package job

import (
	"context"
	"slices"

	"dpsidecar/internal/dpsco/describe"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// Descriptions and suggested scales of columns are jobs like fits: planned from public facts, charged, run
// once and published at a step of their ladder. They return figures or scales instead of coefficients.

// Names of the two models in the database.
const (
	describeModel = "describe"
	scalesModel   = "scales"
)

func (c *claim) describes() bool { return c.Model == describeModel || c.Model == scalesModel }

// planDescription returns the plan of a description or of suggested scales, in the units of the table.
func (s *Sidecar) planDescription(c *claim, n int64) (*plan.Plan, error) {
	var columns []describe.Column
	for _, name := range c.columns() {
		levels, _ := c.levels(name)
		columns = append(columns, describe.Column{
			Name: name, Levels: levels, Scale: c.unit(name).Scale,
			Flag: slices.Contains(c.Request.Flags, name), Whole: slices.Contains(c.Request.Whole, name),
		})
	}
	var description interface {
		Plan(table.Shape, privacy.Budget, privacy.Accountant) (*plan.Plan, error)
	} = describe.Figures{Columns: columns, MaxRows: c.Dataset.MaxRows}
	if c.Model == scalesModel {
		description = describe.Scales{Columns: columns, MaxRows: c.Dataset.MaxRows}
	}
	return description.Plan(c.shape(n), c.budget(), s.accountant(c))
}

// publishDescription publishes the figures or scales at the time of their step.
func (s *Sidecar) publishDescription(ctx context.Context, c *claim, f fitted, step int) error {
	var entries any = f.result.Figures
	if c.Model == scalesModel {
		entries = f.result.Scales
	}
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_description($1, $2, $3, $4, $5)",
		c.ID, c.Token, f.plan.Method, step, entries))
}
