package dpsco

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/privacy"
)

// serves tells which methods use an option that not all do, at any penalty, as the papers
// have it. A method asked for with another whitening than its own stands in servesWhitened.
var serves = map[string][]string{
	"feature_norm": {"auto", "joint_moments"},
	"clip":         {"auto", "spgd_clip", "svrg", "svrg_pp", "accmd", "gd"},
	"moment":       {"catoni", "spgd_holland"},
	"truncation":   {"catoni", "spgd_holland", "ksu", "ksu_axis"},
	"range":        {"trimmed", "spgd_kamath", "ksu", "ksu_axis"},
	"trim":         {"trimmed"},
	"batch":        {"spgd_clip", "spgd_kamath", "spgd_holland", "svrg", "svrg_pp"},
	"blocks":       {"spgd_kamath", "sample_aggregate"},
}

func TestIdleOptionsAreRefused(t *testing.T) {
	penalties := map[string]string{"lambda": "any", "l1_ratio": PenaltyElasticNet, "groups": PenaltyGroupL1}
	for _, model := range regressions() {
		r := models[model].(options[Regression])
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			if !fitsLoss(r.start.Loss, method) {
				continue
			}
			for _, penalty := range regressionFields.named("penalty").Choices {
				if penalty != PenaltyNone && (model != "linear" || !slices.Contains([]string{MethodAuto, "svrg", "sample_aggregate"}, method)) {
					continue // the penalty is one part, whatever the others
				}
				for _, f := range r.fields {
					given := map[string]any{"method": method, "penalty": penalty}
					if penalty != PenaltyNone {
						given["lambda"] = 0.1
					}
					if penalty == PenaltyGroupL1 {
						given["groups"] = []any{[]any{"a"}}
					}
					var value any = []any{[]any{"b"}}
					switch {
					case f.number != nil:
						value = min(f.Maximum, max(1, f.Minimum))
					case f.choice != nil:
						value = f.Choices[1]
					}
					if _, chosen := given[f.Name]; !chosen {
						given[f.Name] = value
					}
					want := method != "sample_aggregate" || !slices.Contains([]string{"steps", "step_size", "residual_scale", "whitening"}, f.Name)
					if method == MethodJointMoments && slices.Contains([]string{"steps", "step_size", "whitening"}, f.Name) {
						want = false
					}
					if some, ok := serves[f.Name]; ok {
						want = slices.Contains(some, method)
					}
					if p, ok := penalties[f.Name]; ok {
						want = penalty == p || p == "any" && penalty != PenaltyNone
					}
					_, err := Recipe(model, given, []string{"a", "b"})
					if (err == nil) != want || err != nil && !errors.Is(err, ErrParameter) {
						t.Errorf("%s, %v: used %t, want %t: %v", model, given, err == nil, want, err)
					}
					if err != nil && !strings.Contains(err.Error(), `option "`+f.Name+`" does nothing`) {
						t.Errorf("%s, %v: %v", model, given, err)
					}
				}
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
		{"linear", map[string]any{"method": "sample_aggregate", "whitening": "on"}, `option "whitening" does nothing with method "sample_aggregate"`},
		{"linear", map[string]any{"penalty": "elastic_net", "lambda": 1.0, "l1_ratio": 0.0}, `option "l1_ratio" is 0; ask for penalty l2`},
		{"linear", map[string]any{"method": "gd", "feature_norm": 3.0, "whitening": "on"}, ""},
		{"linear", map[string]any{"method": "sample_aggregate", "whitening": "off"}, ""},
		{"linear", map[string]any{"lambda": 0.0, "radius": 10.0, "whitening": "auto"}, ""}, // defaults, typed
		{"logistic", map[string]any{"residual_scale": 0.1, "feature_norm": 3.0}, ""},       // the one for few rows, the other for many
		{"logistic", map[string]any{"negative_label": -1.0, "clip": 3.0}, ""},
	} {
		_, err := Recipe(c.model, c.given, []string{"a"})
		if c.text == "" && err != nil || c.text != "" && (!errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), c.text)) {
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
		{map[string]any{"method": "sample_aggregate", "blocks": 4000.0}, 9, "", 0, ErrInfeasible, "9 blocks are too few for eps 1 and 3 coefficients; there must be 161 to 5000"},
		{map[string]any{"method": "sample_aggregate", "blocks": 99999.0}, 900, "", 0, ErrInfeasible, "blocks is 99999; for eps 1 and 3 coefficients it must be from 161 to 5000"},
		{map[string]any{"method": "sample_aggregate", "blocks": 99999.0}, 1_000_000, "", 0, ErrInfeasible, "blocks is 99999; "},
	} {
		a, err := Recipe("linear", c.given, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Plan(Shape{N: c.rows, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if c.kind != nil {
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.contains) {
				t.Errorf("%v of %d rows: %v; want %q", c.given, c.rows, err, c.contains)
			}
		} else if err != nil || p.Parameters[c.cut] != c.want {
			t.Errorf("%v of %d rows: %v; want %s %v", c.given, c.rows, err, c.cut, c.want)
		}
	}
}

// The least delta of sample_aggregate is 1e-9 as typed, and it is asked for by that name.
func TestSampleAggregateNamesTheLeastDelta(t *testing.T) {
	a := mustRecipe(t, "linear", "sample_aggregate")
	for delta, ok := range map[float64]bool{1e-9: true, 1e-6: true, 9.999e-10: false, 1e-12: false} {
		_, err := a.Plan(Shape{N: 1_000_000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 5, Delta: delta}, privacy.Concentrated{})
		if (err == nil) != ok || !ok && (!errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), `delta of at least 1e-09`)) {
			t.Errorf("delta %v: %v", delta, err)
		}
	}
}
