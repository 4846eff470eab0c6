package plan

import (
	"context"
	"errors"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// tenRows are rows of one feature, and constant is a plan for them.
func tenRows() table.Data {
	return table.Data{Shape: table.Shape{N: 10, D: 2, Intercept: true}, X: table.NewColumns(1, 10), Y: make([]float64, 10)}
}

func constant() *Plan {
	p := &Plan{Shape: tenRows().Shape}
	return p.WithRun(func(context.Context, table.Data, *mech.Source) (release.Result, error) {
		return release.Result{Coefficients: []float64{1, 2}}, nil
	})
}

// A plan is of so many records, columns and groups, and of rows with or without weights: on others it does not run, for
// noise and sensitivity are of those.
func TestAPlanRunsOnItsRowsAlone(t *testing.T) {
	p := constant()
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
			other := tenRows()
			change(&other)
			_, _ = p.Run(t.Context(), other, mechtest.Source(t, 1))
		}()
	}
	if _, err := p.Run(t.Context(), tenRows(), mechtest.Source(t, 1)); err != nil {
		t.Error(err)
	}
}

// One charge pays for one run.
func TestAPlanRunsOnce(t *testing.T) {
	p := constant()
	if r, err := p.Run(t.Context(), tenRows(), mechtest.Source(t, 1)); err != nil || !slices.Equal(r.Coefficients, []float64{1, 2}) {
		t.Fatal(r, err)
	}
	if r, err := p.Run(t.Context(), tenRows(), mechtest.Source(t, 2)); !errors.Is(err, ErrAlreadyRun) || r.Coefficients != nil {
		t.Errorf("a second run: %v, %v", r, err)
	}
}
