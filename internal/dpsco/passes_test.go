package dpsco

import (
	"fmt"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/describe"
	"dpsidecar/internal/dpsco/internal/hook"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/moments"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// passesOf runs a plan and returns how many passes it foretells and how many it made: the records
// that they went over, over all that there are.
func passesOf(t *testing.T, a plan.Algorithm, x table.Data, b privacy.Budget) (foretold int, made float64) {
	t.Helper()
	p := plantest.Plan(t, a, x.Shape, b, privacy.Concentrated{})
	records := 0
	hook.OnPass = func(n int) { records += n }
	defer func() { hook.OnPass = func(int) {} }()
	if _, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)); err != nil {
		t.Fatal(err)
	}
	return p.Passes, float64(records) / float64(x.N)
}

// Every method foretells how many passes it makes, but sample and aggregate, which copies rows.
func TestMethodsForetellTheirPasses(t *testing.T) {
	x := normalTable(1, 5000, 1, 2, -1, 0, 1)
	for name := range methods {
		spared := 1. // less than one pass, for that of a batch is a part of one
		if name == "svrg_pp" {
			spared++ // its first step is at its anchor
		}
		for _, a := range []Regression{
			{}, {Whitening: catalogue.WhiteningOff}, {Whitening: catalogue.WhiteningOn, Steps: 6}, {Steps: 6}, {Steps: 6, Batch: 700},
		} {
			if a.Loss, a.Method = lossOf(name), name; a.Batch > 0 && name != "svrg" && name != "svrg_pp" && name != "spgd_clip" {
				continue // one of those that take batches of gradients is enough
			}
			foretold, made := passesOf(t, a, x, privacy.Budget{Epsilon: 5, Delta: 1e-5})
			switch {
			case name == catalogue.MethodSampleAggregate && foretold == 0:
			case !(made > float64(foretold)-spared && made <= float64(foretold)):
				t.Errorf("%s of %+v: %d passes foretold, %v made", name, a, foretold, made)
			}
		}
	}
}

// So does what is no method of a regression with a loss, and some do so by number.
func TestPlansForetellTheirPasses(t *testing.T) {
	x := normalTable(1, 5000, 1, 2)
	grouped := plantest.Clone(x)
	grouped.GroupCount, grouped.Group = 3, make([]float64, x.N)
	counts := plantest.Clone(x)
	for i := range x.Y {
		grouped.Group[i], counts.Y[i] = float64(i%3), float64(i%5)
	}
	countsInGroups := counts
	countsInGroups.GroupCount, countsInGroups.Group = 3, grouped.Group
	w := []float64{1, 2}
	flags, levels, numbers := describers("ff"), describers("fl"), describers("fn")
	concentrated, pure := privacy.Budget{Epsilon: 5, Delta: 1e-5}, privacy.Budget{Epsilon: 5}
	for name, c := range map[string]struct {
		a    plan.Algorithm
		x    table.Data
		b    privacy.Budget
		want int
	}{
		"least squares":            {Regression{Loss: loss.Squared{}}, x, concentrated, 4},
		"least squares by groups":  {Regression{Loss: loss.Squared{}}, grouped, concentrated, 5},
		"Huber":                    {Regression{Loss: loss.Huber{Delta: 1}}, x, concentrated, 4},
		"counts":                   {Regression{Loss: loss.Poisson{}}, counts, concentrated, 4},
		"counts by groups":         {Regression{Loss: loss.Poisson{}}, countsInGroups, concentrated, 6},
		"score":                    {score.Metrics{Coefficients: w}, x, concentrated, 5},
		"score of labels":          {score.Metrics{Coefficients: w, Labels: true}, x, concentrated, 2},
		"score of counts":          {score.Metrics{Coefficients: w, Counts: true}, counts, concentrated, 5},
		"score without delta":      {score.Metrics{Coefficients: w}, x, pure, 3},
		"score without a scale":    {score.Metrics{Coefficients: w, TargetUnscaled: true}, x, concentrated, 6},
		"second moments":           {moments.Sums{}, x, concentrated, 1},
		"description of flags":     {flags[0], x, concentrated, 1},
		"scales of flags":          {flags[1], x, concentrated, 1},
		"description of levels":    {levels[0], x, pure, 2},
		"description, which sorts": {numbers[0], x, concentrated, 0},
		"median, which searches":   {L1{Method: catalogue.MethodStaged}, x, pure, 0},
	} {
		foretold, made := passesOf(t, c.a, c.x, c.b)
		if foretold != c.want || c.want > 0 && made != float64(c.want) {
			t.Errorf("%s: %d passes foretold, %v made, want %d", name, foretold, made, c.want)
		}
	}
}

// describers are of tables with numbers and with flags, the target among them.
func describers(kinds string) []plan.Algorithm {
	var columns []describe.Column
	for j, kind := range kinds {
		c := describe.Column{Name: fmt.Sprint("c", j), Flag: kind == 'f'}
		if kind == 'l' {
			c.Levels = []string{"a", "b", "c"}
		}
		columns = append(columns, c)
	}
	return []plan.Algorithm{describe.Figures{Columns: columns}, describe.Scales{Columns: slices.Clone(columns)}}
}
