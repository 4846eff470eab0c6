package dpsco

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"dpsidecar/internal/privacy"
)

// An option that does nothing is refused: it would make a request another one, charged
// anew, for the same fit. Which options a method uses is written in its recipe and
// nowhere else, so the recipe is asked for fits with different values.

// refuse reports an option that changes nothing beside the method, penalty and whitening
// of a, however many rows there are.
func (a Regression) refuse(f field[Regression]) error {
	switch {
	case f.Name == "l1_ratio" && a.L1Ratio == 0:
		return fmt.Errorf("%w: option %q is 0; ask for penalty %s, which is that, or for a share above 0", ErrParameter, f.Name, PenaltyL2)
	case f.number != nil && *f.number(&a) == 0: // the default
		return nil
	case f.Name == "whitening" && a.Whitening == WhiteningOff: // true of what does not whiten
		return nil
	case a.uses(f):
		return nil
	}
	beside := fmt.Sprintf("method %q", cmp.Or(a.Method, MethodAuto))
	for _, name := range []string{"whitening", "penalty", "method"} {
		c := regressionFields.named(name)
		var would []string
		for _, v := range c.Choices {
			b := a
			if *c.choice(&b) = v; b.uses(f) {
				would = append(would, v)
			}
		}
		if len(would) > 0 {
			if name != "method" {
				beside += fmt.Sprintf(" and %s %q", name, cmp.Or(*c.choice(&a), c.Choices[0]))
			}
			return fmt.Errorf("%w: option %q does nothing with %s; leave it out, or choose another %s: %s", ErrParameter, f.Name, beside, name, strings.Join(would, ", "))
		}
	}
	return fmt.Errorf("%w: option %q does nothing with %s; leave it out", ErrParameter, f.Name, beside)
}

// uses reports whether an option changes the fit, for few rows or for many: auto whitens
// many. Options that choose are as asked for; others are at some value, or their default.
func (a Regression) uses(f field[Regression]) bool {
	for _, rows := range []int{1 << 6, 1 << 30} {
		var first any
		for i, put := range f.samples() {
			b := Regression{Loss: a.Loss, Labels: a.Labels, Method: a.Method, Penalty: a.Penalty, Whitening: a.Whitening, Aggregator: a.Aggregator}
			b.Lambda, b.Groups, b.Blocks = 1, [][]int{{0}}, 999
			put(&b)
			switch outcome := b.outcome(rows); {
			case i == 0:
				first = outcome
			case !reflect.DeepEqual(outcome, first):
				return true
			}
		}
	}
	return false
}

// samples are ways to set an option to values that differ.
func (f field[A]) samples() (puts []func(*A)) {
	switch {
	case f.number != nil:
		for _, v := range []float64{f.Minimum, f.Maximum} {
			puts = append(puts, func(a *A) { *f.number(a) = v })
		}
	case f.choice != nil:
		for _, v := range f.Choices {
			puts = append(puts, func(a *A) { *f.choice(a) = v })
		}
	default:
		for j := range 2 {
			puts = append(puts, func(a *A) { *f.groups(a) = [][]int{{j}} })
		}
	}
	return puts
}

// outcome is all that a fit depends on, at some budget and noise.
func (a Regression) outcome(rows int) any {
	p := problem{
		Regression: a, Shape: Shape{N: rows, D: 3, Intercept: true},
		budget: privacy.Budget{Epsilon: 1, Delta: 1e-6}, reserve: privacy.Reserve(1e-6), rho: 0.02, z: 1,
	}
	if err := p.defaults(); err != nil {
		return err
	}
	f, err := methods[p.Method](&p)
	return []any{f, err, p.Radius, p.Positive, p.Negative} // settle and label serve every method
}
