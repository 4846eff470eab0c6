package job

import (
	"context"
	"fmt"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// What columns hold is told by jobs like fits: planned from public facts, charged, run once
// and published at a step of their ladder. That they have figures, or scales, in the place of
// coefficients is all that differs.

// What the database calls the two.
const (
	describeModel = "describe"
	scalesModel   = "scales"
)

func (c *claim) describes() bool { return c.Model == describeModel || c.Model == scalesModel }

// planDescription is the plan of a description, in the units of the table.
func (s *Sidecar) planDescription(c *claim, n int64) (*dpsco.Plan, error) {
	var columns []dpsco.Column
	for _, name := range c.columns() {
		columns = append(columns, dpsco.Column{
			Name: name, Levels: c.Request.Categories[name], Scale: c.unit(name).Scale,
			Flag: slices.Contains(c.Request.Flags, name), Whole: slices.Contains(c.Request.Whole, name),
		})
	}
	var description interface {
		Plan(dpsco.Shape, privacy.Budget, privacy.Accountant) (*dpsco.Plan, error)
	} = dpsco.Describe{Columns: columns, MaxRows: c.Dataset.MaxRows}
	if c.Model == scalesModel {
		description = dpsco.SuggestScales{Columns: columns, MaxRows: c.Dataset.MaxRows}
	}
	plan, err := description.Plan(c.shape(n), c.budget(), s.accountant(c))
	if err != nil {
		return nil, err
	}
	if needed, ok := plan.Parameters["values_needed"].(float64); ok && c.Model == scalesModel && float64(n) < needed {
		return nil, fmt.Errorf("%w: no column can have the %.0f values that a scale of it needs at this eps and for so many columns, for there are %d rows; ask for more eps", dpsco.ErrInfeasible, needed, n)
	}
	return plan, nil
}

// publishDescription releases figures or scales, once it is the time of their step.
func (s *Sidecar) publishDescription(ctx context.Context, c *claim, f fitted, step int) error {
	var entries any = f.result.Figures
	if c.Model == scalesModel {
		entries = f.result.Scales
	}
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish_description($1, $2, $3, $4, $5)",
		c.ID, c.Token, f.plan.Method, step, entries))
}
