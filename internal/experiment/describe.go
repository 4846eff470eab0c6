package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/describe"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

const describeNote = `Quartiles and scales of all columns of a table that a fit has, delta = %g.

- *rank error*: how many rows, in percent of all, lie between the median that dp_describe gives and the nearest value that is a median: the mean over columns and draws. *of Q1 and Q3*: the same of these.
- *given*: how many of the columns have quartiles.
- *covered*: how many intervals of quartiles hold the table's own quartile. They allow for the sampling of rows too, so that more than 95 %% do.
- *scales*: how many of the columns dp_scales gives a scale. *within 2*: how many of these lie within a factor of two of what it would give without noise.
`

const scaledNote = `
What a fit of least squares loses at eps 1: excess of the mean square over the least in percent, in the mean of the draws.

- *registered*: with the registered scales.
- *dp_scales*: with those that dp_scales gives at eps 0.1, where it finds one, and the registered ones else.
- *none*: where no scale is registered, so that the fit looks for all.
`

func (c Config) descriptions() []Figure {
	return []Figure{{
		Name: "describe", Title: "Quartiles of dp_describe and scales of dp_scales",
		Study: func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
			if err := c.writeDescriptions(ctx, w, did); err != nil {
				return err
			}
			return c.writeScaled(ctx, w, did)
		},
	}}
}

func (c Config) describeEpsilons() []float64 {
	if c.brief {
		return []float64{.3}
	}
	return []float64{.05, .1, .3, 1}
}

func (c Config) writeDescriptions(ctx context.Context, w io.Writer, did func(string)) error {
	fmt.Fprintf(w, "\n"+describeNote+"\n| table | rows | columns | eps | rank error | of Q1 and Q3 | given | covered | scales | within 2 |\n|---|---|---|---|---|---|---|---|---|---|\n", studyDelta)
	for _, s := range c.sources("linear", c.n(studyRows, studyRows)) {
		t, err := s.open()
		if err != nil {
			return err
		}
		for _, epsilon := range c.describeEpsilons() {
			did(fmt.Sprintf("%s at %g", s.name, epsilon))
			q, err := c.describeOnce(ctx, t, epsilon)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %d | %d | %g | %s | %s | %s | %s | %s | %s |\n", s.name, t.N, len(t.X)+1, epsilon, q.median, q.outer, q.given, q.covered, q.scales, q.near)
		}
	}
	return nil
}

// average is the mean of the added values.
type average struct{ sum, count float64 }

func (a *average) add(v float64) { a.sum, a.count = a.sum+v, a.count+1 }

func (a average) mean() float64 { return a.sum / a.count }

func (a average) String() string {
	if a.count == 0 {
		return "none"
	}
	return short(a.mean())
}

// count counts one case, good or not.
func (t *within) count(good bool) {
	t.all++
	if good {
		t.good++
	}
}

// quality holds measures of the accuracy of descriptions of a table.
type quality struct {
	median, outer                average // rank errors, in percent
	given, covered, scales, near *within
}

func (c Config) describeOnce(ctx context.Context, t *Table, epsilon float64) (quality, error) {
	q := quality{given: new(within), covered: new(within), scales: new(within), near: new(within)}
	all, exact := slices.Concat([][]float64{t.Y}, t.X), make([]release.Scale, 0)
	r, err := t.described(ctx, describe.Scales{Columns: t.columns()}, 1e4)
	if err != nil {
		return q, err
	}
	exact = append(exact, r.Scales...)
	for range c.draws() {
		r, err := t.described(ctx, describe.Figures{Columns: t.columns()}, epsilon)
		if err != nil {
			return q, err
		}
		for _, f := range r.Figures {
			percent, quartile := map[string]float64{"quartile_1": 25, "median": 50, "quartile_3": 75}[f.Statistic]
			if !quartile {
				continue
			}
			if q.given.count(f.Value != nil); f.Value == nil {
				continue
			}
			j := slices.IndexFunc(t.columns(), func(c describe.Column) bool { return c.Name == f.Column })
			if off := rankError(all[j], *f.Value, percent); percent == 50 {
				q.median.add(off)
			} else {
				q.outer.add(off)
			}
			if f.Low != nil {
				q.covered.count(rankError(all[j], *f.Low, percent, -1) == 0 && rankError(all[j], *f.High, percent, 1) == 0)
			}
		}
		if r, err = t.described(ctx, describe.Scales{Columns: t.columns()}, epsilon); err != nil {
			return q, err
		}
		for j, s := range r.Scales {
			if q.scales.count(s.Scale != nil); s.Scale != nil && exact[j].Scale != nil {
				ratio := *s.Scale / *exact[j].Scale
				q.near.count(ratio >= .5 && ratio <= 2)
			}
		}
	}
	return q, nil
}

// rankError returns how many values, in percent of all, lie between v and the nearest quantile of a
// percentage. With a side it counts only if v is not below (-1) or not above (1) the quantile.
func rankError(values []float64, v, percent float64, side ...int) float64 {
	below, above := 0., 0.
	for _, x := range values {
		if x < v {
			below++
		} else if x > v {
			above++
		}
	}
	n := float64(len(values))
	over, under := 100*below/n-percent, 100*above/n-(100-percent)
	switch {
	case len(side) > 0 && side[0] < 0:
		return math.Max(over, 0)
	case len(side) > 0:
		return math.Max(under, 0)
	}
	return math.Max(math.Max(over, under), 0)
}

// columns returns the columns of a table, the target first.
func (t *Table) columns() []describe.Column {
	all := []describe.Column{{Name: "c0", Whole: areWhole(t.Y), Scale: t.TargetScale}}
	for j, s := range t.Scales {
		all = append(all, describe.Column{Name: fmt.Sprint("c", j+1), Whole: areWhole(t.X[j]), Scale: s})
	}
	return all
}

// areWhole reports whether all values are whole numbers, so that a database would use an integer column.
func areWhole(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return x != math.Trunc(x) })
}

// described runs a description at an epsilon.
func (t *Table) described(ctx context.Context, a interface {
	Plan(table.Shape, privacy.Budget, privacy.Accountant) (*plan.Plan, error)
}, epsilon float64) (release.Result, error) {
	x := t.copy()
	x.Shape = table.Shape{N: t.N, D: len(t.X)}
	p, err := a.Plan(x.Shape, privacy.Budget{Epsilon: epsilon, Delta: studyDelta}, privacy.Concentrated{})
	if err != nil {
		return release.Result{}, err
	}
	return p.Run(ctx, x, mech.NewSource())
}

func (c Config) writeScaled(ctx context.Context, w io.Writer, did func(string)) error {
	fmt.Fprint(w, scaledNote+"\n| table | registered | dp_scales | none |\n|---|---|---|---|\n")
	for _, s := range c.sources("linear", c.n(studyRows, studyRows)) {
		t, err := s.open()
		if err != nil {
			return err
		}
		least := t.meanSquare(t.fitLinear())
		var lost [3]average
		for range c.draws() {
			did(s.name + ", scaled")
			suggested, err := t.rescaled(ctx, .1)
			if err != nil {
				return err
			}
			for k, u := range []*Table{t, suggested, t.unscaled()} {
				fit, _, err := Request(1, nil)(ctx, &Task{Model: "linear", Delta: studyDelta}, u)
				if err != nil {
					return err
				}
				lost[k].add(percentAbove(u.meanSquare(fit), least))
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", s.name, lost[0], lost[1], lost[2])
	}
	return nil
}

// rescaled returns the table with the scales that dp_scales suggests, and its columns moved to the
// suggested centres.
func (t *Table) rescaled(ctx context.Context, epsilon float64) (*Table, error) {
	r, err := t.described(ctx, describe.Scales{Columns: t.columns()}, epsilon)
	if err != nil {
		return nil, err
	}
	u := &Table{Data: t.copy(), Scales: slices.Clone(t.Scales), TargetScale: t.TargetScale}
	for j, column := range slices.Concat([][]float64{u.Y}, u.X) {
		s := r.Scales[j]
		if s.Scale == nil {
			continue
		}
		for i := range column {
			column[i] -= *s.Center
		}
		if j == 0 {
			u.TargetScale = *s.Scale
		} else {
			u.Scales[j-1] = *s.Scale
		}
	}
	return u, nil
}

// unscaled returns the table without registered scales.
func (t *Table) unscaled() *Table {
	u := &Table{Data: t.copy(), TargetScale: 1, bare: true}
	for range t.Scales {
		u.Scales = append(u.Scales, 1)
	}
	return u
}
