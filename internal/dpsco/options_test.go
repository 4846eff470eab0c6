package dpsco

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// The catalogue declares which options a method reads. Here the recipes are asked for
// fits with different values of every option: what is declared changes the fit, and
// what is not declared changes nothing, for few rows and for many.
func TestTheCatalogueDeclaresWhatRecipesRead(t *testing.T) {
	for _, model := range regressions() {
		m, _ := catalogue.Find(model)
		method, _ := m.Option("method")
		penalty, _ := m.Option("penalty")
		whitening, _ := m.Option("whitening")
		for _, name := range method.Choices {
			for _, p := range penalty.Choices {
				if p != catalogue.PenaltyNone && (model != "linear" || !slices.Contains([]string{catalogue.MethodAuto, "svrg", catalogue.MethodSampleAggregate}, name)) {
					continue // the penalty is one part, whatever the others
				}
				for _, w := range whitening.Choices {
					if slices.Contains([]string{catalogue.MethodSampleAggregate, catalogue.MethodJointMoments, catalogue.MethodNewton}, name) && w != catalogue.WhiteningOff {
						continue // refused as a whole
					}
					for _, o := range m.Options {
						given := map[string]any{"method": name, "penalty": p, "whitening": w}
						if _, chosen := given[o.Name]; chosen || slices.Contains([]string{"by", "pool", "weight", "max_weight", "offset", catalogue.SampleRows}, o.Name) { // TestOptionsOfGroups, and what is read of rows
							continue
						}
						given[o.Name] = sampleValues(o)[1]
						declared := m.Check(given) == nil
						if read := changesFit(regression(m), name, p, w, o); read != declared {
							t.Errorf("%s by %s, penalty %s, whitening %s: option %s is read: %t, declared: %t", model, name, p, w, o.Name, read, declared)
						}
					}
				}
			}
		}
	}
}

// sampleValues are two values of an option that differ.
func sampleValues(o catalogue.Option) [2]any {
	switch o.Kind {
	case catalogue.String:
		return [2]any{o.Choices[0], o.Choices[1]}
	case catalogue.Groups:
		return [2]any{[]any{[]any{"a"}}, []any{[]any{"b"}}}
	}
	return [2]any{max(o.Minimum, 0x1p-40), o.Maximum}
}

// changesFit reports whether an option changes the fit.
func changesFit(base Regression, method, penalty, whitening string, o catalogue.Option) bool {
	for _, rows := range []int{1 << 6, 1 << 30} {
		var first any
		for i, value := range sampleValues(o) {
			a := base
			a.Method, a.Penalty, a.Whitening = method, penalty, whitening
			a.Lambda, a.Groups, a.Blocks = 1, [][]int{{0}}, 999
			if err := regressionFields.set(&a, map[string]any{o.Name: value}, []string{"a", "b"}); err != nil {
				panic(err)
			}
			switch outcome := fitOf(a, rows); {
			case i == 0:
				first = outcome
			case !reflect.DeepEqual(outcome, first):
				return true
			}
		}
	}
	return false
}

// fitOf is all that a fit depends on, at some budget and noise.
func fitOf(a Regression, rows int) any {
	p := problem{
		Regression: a, Shape: table.Shape{N: rows, D: 3, Intercept: true},
		budget: privacy.Budget{Epsilon: 1, Delta: 1e-6}, reserve: privacy.Reserve(1e-6), rho: 0.02, z: 1,
	}
	if err := p.defaults(); err != nil {
		return err
	}
	f, err := methods[p.Method](&p)
	return []any{f, err, p.Radius, p.Positive, p.Negative} // settle and label serve every method
}

// Every method of the catalogue has its recipe, every model its loss, every option its field.
func TestTheCatalogueHasItsRecipes(t *testing.T) {
	for _, m := range catalogue.Models() {
		if m.Delta == 0 {
			continue
		}
		if losses[m.Name] == nil {
			t.Errorf("%s has no loss", m.Name)
		}
		o, _ := m.Option("method")
		fitting := 0
		for name := range methods {
			if fitsLoss(losses[m.Name], name) {
				fitting++
			}
		}
		if len(o.Choices) != fitting {
			t.Errorf("%s names %d methods, there are %d", m.Name, len(o.Choices), fitting)
		}
		for _, name := range o.Choices {
			if methods[name] == nil {
				t.Errorf("%s has no recipe for %s", m.Name, name)
			}
		}
	}
}

// What is refused, and what would use it, is said; and what whitens uses its options.
func TestIdleOptionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		model string
		given map[string]any
		text  string // none: it is used
	}{
		{"linear", map[string]any{"trim": 5.0}, `option "trim" does nothing with method "auto"; leave it out, or choose another method: trimmed`},
		{"linear", map[string]any{"l1_ratio": 0.2}, `option "l1_ratio" does nothing with method "auto" and penalty "none"; leave it out, or choose another penalty: elastic_net`},
		{"linear", map[string]any{"l1_ratio": 0.2, "penalty": "l1", "lambda": 1.0}, `and penalty "l1"; leave it out`},
		{"huber", map[string]any{"lambda": 0.2}, `choose another penalty: l1, l2, elastic_net, group_l1`},
		{"linear", map[string]any{"method": "gd", "feature_norm": 3.0}, `with method "gd" and whitening "auto"; leave it out, or choose another whitening: on`},
		{"linear", map[string]any{"whitening": "off", "feature_norm": 3.0}, `choose another whitening: auto, on`},
		{"logistic", map[string]any{"method": "sample_aggregate", "steps": 3.0}, `with method "sample_aggregate"; leave it out, or choose another method: auto, catoni`},
		{"linear", map[string]any{"aggregator": "centre"}, `option "aggregator" does nothing with method "auto"; leave it out, or choose another method: sample_aggregate`},
		{"linear", map[string]any{"method": "sample_aggregate", "residual_scale": 3.0}, ""},
		{"linear", map[string]any{"method": "sample_aggregate", "residual_scale": 3.0, "aggregator": "centre"}, `option "residual_scale" does nothing`},
		{"linear", map[string]any{"method": "sample_aggregate", "whitening": "on"}, `option "whitening" does nothing with method "sample_aggregate"`},
		{"linear", map[string]any{"penalty": "elastic_net", "lambda": 1.0, "l1_ratio": 0.0}, `option "l1_ratio" is 0; ask for penalty l2`},
		{"linear", map[string]any{"method": "gd", "feature_norm": 3.0, "whitening": "on"}, ""},
		{"linear", map[string]any{"method": "sample_aggregate", "whitening": "off"}, ""},
		{"linear", map[string]any{"lambda": 0.0, "whitening": "auto"}, ""},           // defaults, typed
		{"logistic", map[string]any{"residual_scale": 0.1, "feature_norm": 3.0}, ""}, // the one for few rows, the other for many
		{"logistic", map[string]any{"negative_label": -1.0, "clip": 3.0}, ""},
	} {
		_, err := Recipe(c.model, c.given, []string{"a"})
		if c.text == "" && err != nil || c.text != "" && (!errors.Is(err, plan.ErrParameter) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s, %v: %v; want %q", c.model, c.given, err, c.text)
		}
	}
}

// A scheduled request must not begin to fail when its table grows, or shrinks to less than
// its batches and blocks: those become all rows, and blocks of one.
func TestBatchesAndBlocksAreCutToTheRows(t *testing.T) {
	for _, c := range []struct {
		given    map[string]any
		rows     int
		cut      string
		want     float64
		kind     error
		contains string
	}{
		{map[string]any{"method": "spgd_clip", "batch": 1e12}, 900, "batch", 900, nil, ""},
		{map[string]any{"method": "svrg", "batch": 400.0}, 900, "batch", 400, nil, ""},
		{map[string]any{"method": "spgd_kamath", "blocks": 1e6}, 900, "blocks", 899, nil, ""},
		{map[string]any{"method": "spgd_kamath", "blocks": 9.0, "batch": 7.0}, 900, "blocks", 7, nil, ""},
		{map[string]any{"method": "spgd_kamath", "blocks": 9.0}, 1, "blocks", 1, nil, ""},
		{map[string]any{"method": "sample_aggregate", "blocks": 4000.0}, 900, "blocks", 900, nil, ""},
		{map[string]any{"method": "sample_aggregate", "blocks": 4000.0}, 9, "blocks", 9, nil, ""},
		{map[string]any{"method": "sample_aggregate", "aggregator": "centre", "blocks": 4000.0}, 9, "", 0, plan.ErrInfeasible, "9 blocks are too few for eps 1 and 3 coefficients; there must be 161 to 5000"},
		{map[string]any{"method": "sample_aggregate", "aggregator": "centre", "blocks": 99999.0}, 900, "", 0, plan.ErrInfeasible, "blocks is 99999; for eps 1 and 3 coefficients it must be from 161 to 5000"},
		{map[string]any{"method": "sample_aggregate", "aggregator": "centre", "blocks": 99999.0}, 1_000_000, "", 0, plan.ErrInfeasible, "blocks is 99999; "},
	} {
		a, err := Recipe("linear", c.given, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Plan(table.Shape{N: c.rows, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if c.kind != nil {
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.contains) {
				t.Errorf("%v of %d rows: %v; want %q", c.given, c.rows, err, c.contains)
			}
		} else if err != nil || p.Parameters[c.cut] != c.want {
			t.Errorf("%v of %d rows: %v; want %s %v", c.given, c.rows, err, c.cut, c.want)
		}
	}
}

// The least delta of the smooth centre is 1e-9 as typed, and it is asked for by that name.
func TestTheCentreNamesTheLeastDelta(t *testing.T) {
	a := centreRecipe(t, "linear", 10)
	for delta, ok := range map[float64]bool{1e-9: true, 1e-6: true, 9.999e-10: false, 1e-12: false} {
		_, err := a.Plan(table.Shape{N: 1_000_000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 5, Delta: delta}, privacy.Concentrated{})
		if (err == nil) != ok || !ok && (!errors.Is(err, plan.ErrInfeasible) || !strings.Contains(err.Error(), `delta of at least 1e-09`)) {
			t.Errorf("delta %v: %v", delta, err)
		}
	}
}

// A label that is not given is the catalogue's, whatever the other one is.
func TestALabelThatIsLeftOutHasItsDefault(t *testing.T) {
	for _, c := range []struct {
		given    map[string]any
		neg, pos float64
	}{
		{nil, 0, 1}, {map[string]any{"negative_label": -1.}, -1, 1}, {map[string]any{"positive_label": 2.}, 0, 2},
		{map[string]any{"negative_label": 2.}, 2, 1}, {map[string]any{"negative_label": 1., "positive_label": 0.}, 1, 0},
	} {
		a, err := Recipe("logistic", c.given, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := plantest.Plan(t, a, table.Shape{N: 1000, D: 2, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if p.Parameters["negative_label"] != c.neg || p.Parameters["positive_label"] != c.pos {
			t.Errorf("%v: %v and %v", c.given, p.Parameters["negative_label"], p.Parameters["positive_label"])
		}
	}
}
