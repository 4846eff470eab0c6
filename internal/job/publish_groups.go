package job

import (
	"context"
	"slices"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/ledger"
)

// A release of fits by groups lists the coefficients of the groups one group after the other.

// publishGroups publishes the fits of all groups at the time of their step.
func (s *Sidecar) publishGroups(ctx context.Context, c *claim, f fitted, step int) error {
	var terms, groups []string
	var coefficients, shares []float64
	for g, fit := range f.result.Groups {
		for j, term := range c.terms() {
			terms, groups = append(terms, term), append(groups, c.groups()[g])
			coefficients, shares = append(coefficients, fit.Coefficients[j]), append(shares, fit.Share)
		}
	}
	return ledger.Explain(s.autocommit.exec(ctx, "SELECT dp_int.job_publish($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9)",
		c.ID, c.Token, f.plan.Method, terms, coefficients, step, c.naming().groupErrors(f.result.Groups), groups, shares))
}

// groupErrors concatenates the errors of all groups. Cut is set if a radius may have moved coefficients of
// any group, and HuberDelta is the least of the groups.
func (d naming) groupErrors(groups []release.Group) (all errorColumns) {
	for _, group := range groups {
		e := d.knownErrors(group.Result)
		if e.WhyNull != "" {
			e.WhyNulls = slices.Repeat([]any{e.WhyNull}, len(d.terms))
		}
		columns := e.columns()
		for k, column := range all.columns() {
			values := *columns[k]
			if values == nil {
				values = make([]any, len(d.terms))
			}
			*column = append(*column, values...)
		}
		all.Cut = all.Cut || e.Cut
		if all.HuberDelta == 0 || e.HuberDelta < all.HuberDelta {
			all.HuberDelta = e.HuberDelta
		}
	}
	all.WhyNull = sameWhy(all.WhyNulls)
	return all
}

// sameWhy returns the reason why groups lack intervals if it is the same for all coefficients; otherwise it
// returns the empty string.
func sameWhy(whys []any) string {
	for _, why := range whys {
		if why != whys[0] {
			return ""
		}
	}
	why, _ := whys[0].(string)
	return why
}
