package dpsco

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

var nan, inf = math.NaN(), math.Inf(1)

func TestL1ChoosesFromPublicFacts(t *testing.T) {
	for _, c := range []struct {
		algorithm L1
		n, d      int
		method    string
		why       string
	}{
		{L1{}, 10_000, 6, catalogue.MethodStaged, "is 680, and from 60 on"},
		{L1{Method: catalogue.MethodAuto}, 10_000_000, 20, catalogue.MethodStaged, "from 60 on"},
		{L1{NoScales: true}, 480, 4, catalogue.MethodStaged, "is 60,"},
		{L1{}, 479, 4, catalogue.MethodObjective, "is 59.9, too little for fits in stages; its expected error is smaller"},
		{L1{}, 1, 1, catalogue.MethodObjective, "smaller than that of the exponential mechanism"},
		{L1{NoScales: true}, 100, 2, catalogue.MethodObjective, "no scale is registered"},
		{L1{}, 1000, 20, catalogue.MethodObjective, "not practical"},
		{L1{Smoothing: 1e-3}, 100, 2, catalogue.MethodExponential, "smaller than that of objective perturbation"},
		{L1{Smoothing: 1e-3, Iota: 1e4}, 100, 2, catalogue.MethodObjective, "not practical"},
		{L1{Method: catalogue.MethodStaged}, 1, 1, catalogue.MethodStaged, "asked for"},
		{L1{Method: catalogue.MethodObjective}, 1_000_000, 2, catalogue.MethodObjective, "asked for"},
		{L1{Method: catalogue.MethodExponential}, 1_000_000, 6, catalogue.MethodExponential, "asked for"},
		{L1{NoScales: true, Method: catalogue.MethodExponential}, 100, 2, catalogue.MethodExponential, "asked for"},
	} {
		p, err := c.algorithm.Plan(table.Shape{N: c.n, D: c.d, Intercept: true}, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
		if err != nil {
			t.Errorf("%+v for %d rows, %d coefficients: %v", c.algorithm, c.n, c.d, err)
			continue
		}
		if why := p.Parameters["why"].(string); p.Method != c.method || !strings.Contains(why, c.why) {
			t.Errorf("%+v for %d rows, %d coefficients: %s, %s", c.algorithm, c.n, c.d, p.Method, why)
		}
		if e, simple := map[string]privacy.Event{catalogue.MethodExponential: privacy.BoundedRange{Epsilon: 1}, catalogue.MethodObjective: privacy.Pure{Epsilon: 1}}[p.Method]; simple && p.Event != e {
			t.Errorf("%s costs %#v", p.Method, p.Event)
		}
		if e, err := (privacy.PureSum{}).Epsilon(p.Event, 0); e != 1 || err != nil {
			t.Errorf("%s costs %v, %v", p.Method, e, err)
		}
	}
}

func TestL1RecordsEveryPublicParameter(t *testing.T) {
	s := table.Shape{N: 10_000, D: 4, Intercept: true}
	for _, c := range []struct {
		algorithm L1
		want      string
	}{
		{L1{}, `{"clip":9.76,"coefficients":4,"intercept":true,"residual_quantile":0.075,"residual_scale":1,"rows":10000,` +
			`"why":"rows times eps over coefficients to the power 1.5 is 1.25e+03, and from 60 on fits in stages err least"}`},
		{L1{Method: catalogue.MethodExponential}, `{"coefficients":4,"intercept":true,"iota":0.111,"pitch":0.00000763,"radius":10,"residual_scale":1,"rows":10000,"set":"ball","theta":2,` +
			`"why":"asked for"}`},
		{L1{Method: catalogue.MethodObjective, ResidualScale: 2, Pitch: .3, Set: catalogue.SetBox}, `{"clip":2.2,"coefficients":4,"intercept":true,"pitch":0.25,"radius":10,` +
			`"residual_scale":2,"rows":10000,"set":"box","smoothing":0.48,"why":"asked for"}`},
	} {
		p := plantest.Plan(t, c.algorithm, s, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
		for name, v := range p.Parameters {
			if f, ok := v.(float64); ok && f > 0 { // three digits are enough to recognise it
				scale := math.Pow(10, 2-math.Floor(math.Log10(f)))
				p.Parameters[name] = math.Round(f*scale) / scale
			}
		}
		if text, err := json.Marshal(p.Parameters); err != nil || string(text) != c.want {
			t.Errorf("got  %s, %v\nwant %s", text, err, c.want)
		}
	}
}

func TestL1RefusesInWords(t *testing.T) {
	one := privacy.Budget{Epsilon: 1}
	for _, c := range []struct {
		algorithm L1
		n, d      int
		budget    privacy.Budget
		kind      error
		text      string
	}{
		{L1{}, 10, 2, privacy.Budget{}, plan.ErrParameter, "eps is 0"},
		{L1{}, 10, 2, privacy.Budget{Epsilon: -1}, plan.ErrParameter, "eps is -1"},
		{L1{}, 10, 2, privacy.Budget{Epsilon: nan}, plan.ErrParameter, "eps is NaN"},
		{L1{}, 10, 2, privacy.Budget{Epsilon: inf}, plan.ErrParameter, "eps is +Inf; it must be a number from 1e-10 to 10000"},
		{L1{}, 10, 2, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrParameter, "delta is 1e-06"},
		{L1{Theta: 1}, 10, 2, one, plan.ErrParameter, `option "theta" is 1; it must be a number from 1.05 to 2`},
		{L1{Iota: nan}, 10, 2, one, plan.ErrParameter, `option "iota" is NaN`},
		{L1{Clip: inf}, 10, 2, one, plan.ErrParameter, `option "clip" is +Inf`},
		{L1{Smoothing: -1}, 10, 2, one, plan.ErrParameter, `option "smoothing" is -1`},
		{L1{Set: "cube"}, 10, 2, one, plan.ErrParameter, `option "set" is "cube"`},
		{L1{Method: "mcmc"}, 10, 2, one, plan.ErrParameter, `option "method" is "mcmc"`},
		{L1{}, 0, 2, one, plan.ErrInfeasible, "no rows"},
		{L1{}, 10, 0, one, plan.ErrInfeasible, "no coefficient"},
		{L1{Method: catalogue.MethodExponential, Radius: 1e9, Pitch: 1e-12}, 10, 2, one, plan.ErrInfeasible, "too fine for radius"},
		{L1{Method: catalogue.MethodExponential}, 10_000, 30, one, plan.ErrInfeasible, "ask for fewer features"},
	} {
		p, err := c.algorithm.Plan(table.Shape{N: c.n, D: c.d}, c.budget, privacy.PureSum{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v, %d rows, %d coefficients, %+v: %v, %v; want %q", c.algorithm, c.n, c.d, c.budget, p, err, c.text)
		}
	}
}

// Every shape and budget that is in range has a plan: the defaults never
// contradict each other.
func TestL1DefaultsAlwaysPlan(t *testing.T) {
	for _, n := range []int{1, 7, 1000, 1e6, 1e9} {
		for _, d := range []int{1, 4, 9, 64, 1000} {
			for _, eps := range []float64{plan.MinEpsilon, .1, 1, 100, plan.MaxEpsilon} {
				for _, a := range []L1{{}, {Theta: 1.05}, {ResidualScale: 1e-9}, {ResidualScale: 1e9}, {Radius: 1e-6}, {Radius: 1e9}, {Method: catalogue.MethodObjective}, {Method: catalogue.MethodStaged}} {
					if _, err := a.Plan(table.Shape{N: n, D: d, Intercept: true}, privacy.Budget{Epsilon: eps}, privacy.PureSum{}); err != nil {
						t.Errorf("%+v, n = %d, d = %d, eps = %g: %v", a, n, d, eps, err)
					}
				}
			}
		}
	}
}

func TestL1RunsOnDegenerateTables(t *testing.T) {
	for name, values := range map[string]struct{ x, y []float64 }{
		"one row":     {[]float64{1}, []float64{2}},
		"constant":    {[]float64{5, 5, 5, 5}, []float64{1, 1, 1, 1}},
		"all missing": {[]float64{nan, nan}, []float64{nan, nan}},
		"infinite":    {[]float64{inf, 1, 2}, []float64{1, -inf, 2}},
		"huge":        {[]float64{1e308, -1e308, 1}, []float64{1e308, math.MaxFloat64, 1}},
	} {
		for _, a := range []L1{{Method: catalogue.MethodExponential}, {Method: catalogue.MethodExponential, Set: catalogue.SetBox}, {Method: catalogue.MethodObjective}, {Method: catalogue.MethodObjective, Set: catalogue.SetBox, Radius: .1},
			{Method: catalogue.MethodStaged, Radius: 10}, {Method: catalogue.MethodStaged, Set: catalogue.SetBox, Radius: .1}} {
			s := table.Shape{N: len(values.y), D: 2, Intercept: true}
			p := plantest.Plan(t, a, s, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
			x := table.Data{Shape: s, X: [][]float64{append([]float64(nil), values.x...)}, Y: append([]float64(nil), values.y...)}
			w, err := coefficients(p.Run(context.Background(), x, mechtest.Source(t, 1)))
			if err != nil || len(w) != 2 || !inside(w, p.Parameters["radius"].(float64), a.Set) {
				t.Errorf("%s, %+v: %v, %v", name, a, w, err)
			}
		}
	}
}

func inside(w []float64, radius float64, set string) bool {
	square := 0.0
	for _, v := range w {
		square += v * v
		if !(math.Abs(v) <= radius) {
			return false
		}
	}
	return set == catalogue.SetBox || square <= radius*radius*(1+1e-9)
}

// A band is told where one holds for all data, in the table's units, and it is wider
// than what the noise is expected to do.
func TestL1TellsTheBandOfItsNoise(t *testing.T) {
	s, b := table.Shape{N: 10_000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1}
	for method, known := range map[string]bool{catalogue.MethodExponential: false, catalogue.MethodStaged: false, catalogue.MethodObjective: true} {
		inner := L1{Method: method}
		plain := plantest.Plan(t, inner, s, b, privacy.PureSum{})
		scaled := plantest.Plan(t, Scaled{Algorithm: inner, X: []float64{2, 5}, Y: 10}, s, b, privacy.PureSum{})
		if !known {
			if plain.Band != nil || scaled.Band != nil {
				t.Errorf("%s: bands %v, %v", method, plain.Band, scaled.Band)
			}
			continue
		}
		expected, err := Expect(inner, s, b, privacy.PureSum{})
		if err != nil {
			t.Fatal(err)
		}
		for j, unit := range []float64{10, 5, 2} {
			if plain.Band[j] <= expected.Deviation[j] || math.Abs(scaled.Band[j]/plain.Band[j]-unit) > 1e-12 {
				t.Errorf("band %v, in units %v, expected deviation %v", plain.Band[j], scaled.Band[j], expected.Deviation[j])
			}
		}
	}
}
