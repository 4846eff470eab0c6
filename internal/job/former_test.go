package job

import (
	"strings"
	"testing"

	"dpsidecar/internal/dpsco/plan"
)

// A previous release tells of a plan with the same method and similar noise, in proportion; any other
// forecast says why it is not known.
func TestWhatAFormerReleaseTells(t *testing.T) {
	planned := func(method string, z float64) *plan.Plan {
		return &plan.Plan{Method: method, Parameters: map[string]any{"noise_multiplier": z, "rows": 1000}}
	}
	auto := func(runs string) *plan.Plan {
		p := planned("auto", 20)
		p.ChosenMethod = runs
		return p
	}
	release := func(change func(*former)) *former {
		f := &former{Release: "R", Eps: 1, Method: "newton", Rows: 500, NoiseMultiplier: 10, Noise: map[string]float64{"age": 1}}
		change(f)
		return f
	}
	why := "too few rows"
	for name, c := range map[string]struct {
		f     *former
		plan  *plan.Plan
		ratio float64
		says  []string
	}{
		"twice the noise and twice the rows":      {release(func(*former) {}), planned("newton", 20), 1, nil},
		"a little more noise":                     {release(func(*former) {}), planned("newton", 28), 1.4, nil},
		"no release":                              {nil, planned("newton", 10), 0, []string{"not known", "no release of these coefficients tells"}},
		"a plan without noise of its own":         {release(func(*former) {}), &plan.Plan{Parameters: map[string]any{"rows": 1000}}, 0, []string{"no release of these coefficients tells"}},
		"a penalty":                               {release(func(*former) {}), &plan.Plan{Method: "newton", Parameters: map[string]any{"noise_multiplier": 10., "rows": 500, "penalty": "l2"}}, 0, []string{"not known: a penalty"}},
		"much more noise":                         {release(func(*former) {}), planned("newton", 40), 0, []string{"not known at this budget", "release R at eps 1", "1.5 times"}},
		"another method":                          {release(func(*former) {}), planned("gd", 20), 0, []string{"the method at this budget is gd", "newton"}},
		"what auto takes":                         {release(func(*former) {}), auto("newton"), 1, nil},
		"a release of auto":                       {release(func(f *former) { f.Method = "auto" }), planned("newton", 20), 1, nil},
		"a release of a descent that auto takes":  {release(func(f *former) { f.Method, f.Noise = "gd", nil }), auto("gd"), 0, []string{"release R at eps 1 does not tell"}},
		"auto takes a descent":                    {release(func(f *former) { f.Method = "auto" }), auto("centred descent"), 0, []string{"the method at this budget is centred descent, and release R at eps 1 is of a default method"}},
		"auto takes another method":               {release(func(f *former) { f.Method, f.Noise = "gd", nil }), auto("joint_moments"), 0, []string{"the method at this budget is joint_moments, and release R at eps 1 is of gd"}},
		"a release that does not tell":            {release(func(f *former) { f.Noise = nil }), planned("newton", 20), 0, []string{"release R at eps 1 does not tell", "this method never tells"}},
		"one that does not tell and has a reason": {release(func(f *former) { f.Noise, f.WhyNull = nil, &why }), planned("newton", 20), 0, []string{"release R at eps 1 does not tell", "of its intervals it says: too few rows"}},
	} {
		ratio, says := c.f.forecastRatio(c.plan)
		if ratio != c.ratio || (says == "") != (c.says == nil) {
			t.Errorf("%s: %v, %q", name, ratio, says)
		}
		for _, part := range c.says {
			if !strings.Contains(says, part) {
				t.Errorf("%s: %q does not say %q", name, says, part)
			}
		}
		if c.f != nil && c.f.WhyNull == nil && strings.Contains(says, "of its intervals") {
			t.Errorf("%s: %q", name, says)
		}
	}
}

// A term whose noise the release does not tell has a reason in place of a figure.
func TestTermsWithoutANoiseHaveAReason(t *testing.T) {
	f := &former{Noise: map[string]float64{"age": 0.25}}
	if got := f.forecast("age", 2); got != "0.5" {
		t.Errorf("age: %q", got)
	}
	if got := f.forecast("rare", 2); !strings.HasPrefix(got, "not known: ") {
		t.Errorf("rare: %q", got)
	}
}
