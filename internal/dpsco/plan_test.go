package dpsco

import (
	"errors"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// One charge pays for one run.
func TestAPlanRunsOnce(t *testing.T) {
	x := normalTable(1, 50, 1, 2)
	p, err := L1{Method: catalogue.MethodObjective}.Plan(x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 1))); err != nil {
		t.Fatal(err)
	}
	if w, err := coefficients(p.Run(t.Context(), cloned(x), mechtest.Source(t, 2))); !errors.Is(err, ErrSpent) || w != nil {
		t.Errorf("a second run: %v, %v", w, err)
	}
}
