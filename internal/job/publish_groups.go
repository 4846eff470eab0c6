package job

import (
	"context"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
)

// A release of fits by groups is the coefficients of one group after those of another.

// publishGroups releases the fits of all groups, once it is the time of the step.
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
		c.ID, c.Token, f.plan.Method, terms, coefficients, step, groupErrors(f.result.Groups, c.Model, c.terms()), groups, shares))
}

// groupErrors returns what is known of the errors of all groups, by column as errorColumns,
// with nil where nothing is. why_nulls says why of each coefficient, and why_null where it is
// the same for all; cut is whether a radius may have cut those of any group.
func groupErrors(groups []dpsco.Group, model string, terms []string) map[string]any {
	columns := map[string][]any{}
	for _, group := range groups {
		e := knownErrors(group.Result, model, terms)
		for name, values := range map[string][]any{
			"std_err": boxed(e.StdErr), "df": boxed(e.DF), "low": boxed(e.Low), "high": boxed(e.High), "p_value": boxed(e.PValue),
			"covariance": boxed(e.Covariance), "bias": boxed(e.Bias), "noise": boxed(e.Noise), "why_nulls": nil,
		} {
			if values == nil {
				values = make([]any, len(group.Coefficients))
			}
			columns[name] = append(columns[name], values...)
		}
		if e.WhyNull != "" {
			why := columns["why_nulls"]
			for j := range group.Coefficients {
				why[len(why)-1-j] = e.WhyNull
			}
		}
	}
	all := map[string]any{}
	for name, values := range columns {
		all[name] = values
	}
	all["cut"] = slices.ContainsFunc(groups, func(g dpsco.Group) bool { return g.Cut })
	if why := sameWhy(columns["why_nulls"]); why != "" {
		all["why_null"] = why
	}
	return all
}

// sameWhy is why no group has intervals, empty where one has or reasons differ.
func sameWhy(whys []any) string {
	for _, why := range whys {
		if why != whys[0] {
			return ""
		}
	}
	why, _ := whys[0].(string)
	return why
}

// boxed returns values as JSON lists take them; nil for none.
func boxed[T any](values []T) (list []any) {
	for _, v := range values {
		list = append(list, v)
	}
	return list
}
