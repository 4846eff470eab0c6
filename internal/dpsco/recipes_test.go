package dpsco

import (
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRecipeSetsEveryOption(t *testing.T) {
	a, err := Recipe("l1", map[string]any{
		"tau": .25, "theta": 1.5, "iota": .2, "radius": 3.0, "pitch": .001, "residual_scale": 2.0, "clip": 4.0, "smoothing": .25,
		"set": "box", "method": "objective_perturbation", "by": "region", "pool": "none", "weight": "w", "max_weight": 5.0, "offset": "o",
	}, nil)
	want := L1{Tau: .25, Theta: 1.5, Iota: .2, Radius: 3, Pitch: .001, ResidualScale: 2, Clip: 4, Smoothing: .25, Set: catalogue.SetBox, Method: catalogue.MethodObjective, Weight: "w", MaxWeight: 5, Offset: "o", By: "region", Pool: catalogue.PoolNone}
	if err != nil || !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, %v; want %+v", a, err, want)
	}
	if n := len(optionsOf("l1")); n != 16 {
		t.Errorf("%d options; this test sets 15, and one says which rows there are", n)
	}
	if a, err := Recipe("l1", nil, nil); err != nil || !reflect.DeepEqual(a, L1{}) {
		t.Errorf("without options: %+v, %v", a, err)
	}
}

func TestRecipeRefusesByName(t *testing.T) {
	for _, c := range []struct {
		model   string
		options map[string]any
		text    string
	}{
		{"l7", nil, `unknown model "l7"; models are huber, l1, linear, logistic, poisson`},
		{"l1", map[string]any{"lambda": 1.0}, `unknown option "lambda"; options are tau, theta, iota, radius`},
		{"l1", map[string]any{"Theta": 2.0}, `unknown option "Theta"`},
		{"l1", map[string]any{"theta": "2"}, `option "theta" must be a number`},
		{"l1", map[string]any{"theta": nil}, `option "theta" must be a number`},
		{"l1", map[string]any{"theta": true}, `option "theta" must be a number`},
		{"l1", map[string]any{"set": 1.0}, `option "set" must be a string`},
		{"l1", map[string]any{"set": "cube"}, `option "set" is "cube"; it must be one of ball, box`},
		{"l1", map[string]any{"set": ""}, `option "set" is ""`},
		{"l1", map[string]any{"theta": 3.0}, `option "theta" is 3; it must be a number from 1.05 to 2`},
		{"l1", map[string]any{"iota": 0.0}, `option "iota" is 0; it must be a number from 1e-09 to 1e+09`},
		{"l1", map[string]any{"radius": -1.0}, `option "radius" is -1`},
	} {
		a, err := Recipe(c.model, c.options, nil)
		if !errors.Is(err, plan.ErrParameter) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Recipe(%q, %v) = %v, %v; want %q", c.model, c.options, a, err, c.text)
		}
	}
}
