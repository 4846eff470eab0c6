package dpsco

import (
	"errors"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// One charge pays for one run.
// A plan is of so many records, columns and groups, and of rows with or without weights: on others it does not run, for
// noise and sensitivity are of those.
func TestAPlanRunsOnItsRowsAlone(t *testing.T) {
	x := normalTable(1, 50, 1, 2)
	p, err := L1{Method: catalogue.MethodObjective}.Plan(x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(x *table.Data){
		"more records":   func(x *table.Data) { x.N++ },
		"fewer records":  func(x *table.Data) { x.N-- },
		"no intercept":   func(x *table.Data) { x.Intercept, x.D = false, x.D-1 },
		"another column": func(x *table.Data) { x.X = append(x.X, x.X[0]) },
		"groups":         func(x *table.Data) { x.GroupCount, x.Group = 2, make([]float64, x.N) },
		"levels alone":   func(x *table.Data) { x.Group = make([]float64, x.N) },
		"weights":        func(x *table.Data) { x.Weight = table.Repeat(1, x.N) },
		"rows from sums": func(x *table.Data) { x.X, x.Pushdown = nil, &table.Pushdown{Features: make([]table.Term, len(x.X))} },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			other := cloned(x)
			change(&other)
			_, _ = p.Run(t.Context(), other, mechtest.Source(t, 1))
		}()
	}
	if _, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 1))); err != nil {
		t.Error(err)
	}
}

func TestAPlanRunsOnce(t *testing.T) {
	x := normalTable(1, 50, 1, 2)
	p, err := L1{Method: catalogue.MethodObjective}.Plan(x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 1))); err != nil {
		t.Fatal(err)
	}
	if w, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 2))); !errors.Is(err, ErrAlreadyRun) || w != nil {
		t.Errorf("a second run: %v, %v", w, err)
	}
}
