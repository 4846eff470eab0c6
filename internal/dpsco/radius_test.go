package dpsco

import (
	"context"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// Where a radius cuts the coefficients the release says so, whatever the method, also where
// it is the mean of iterates that were projected; where it does not, nothing is said.
func TestCutCoefficientsSayIt(t *testing.T) {
	x := drawLaw("gauss", 30_000, 3, 1)
	for _, m := range catalogue.Models() {
		if m.Labels {
			continue
		}
		method, _ := m.Option("method")
		for _, name := range method.Choices {
			for _, radius := range []float64{0.2, 10} {
				a, x, b := plan.Algorithm(Regression{Loss: losses[m.Name], Method: name, Radius: radius}), x, privacy.Budget{Epsilon: 2, Delta: 1e-6}
				if m.Delta == 0 {
					a, x, b.Delta = L1{Method: name, Radius: radius}, drawLaw("gauss", 3000, 3, 1), 0
					b.Epsilon = 50
				}
				p := plantest.Plan(t, a, x.Shape, b, privacy.Concentrated{})
				r, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1))
				if err != nil {
					t.Fatal(err)
				}
				if said := strings.Contains(r.WhyNull, "larger"); said != (radius < 1) || r.Cut != said || said && r.StdErr != nil {
					t.Errorf("%s %s at radius %v: of norm %v, %q", m.Name, name, radius, floats.Norm(r.Coefficients, 2), r.WhyNull)
				}
			}
		}
	}
}

// A radius is that of coefficients, also where a descent is on features less their means, whose constant is the
// mean prediction: one that the best fit keeps within, .7 long here, cuts nothing, and of a smaller one the release says so.
func TestARadiusIsThatOfUncentredCoefficients(t *testing.T) {
	x := normalTable(1, 20_000, 0.3, 0.4, 0.4, 0.4)
	for i := range x.Y {
		x.Y[i]--
		for _, column := range x.X {
			column[i]++
			x.Y[i] += 0.4
		}
	}
	for _, radius := range []float64{0.5, 0.9, 10} {
		r := resultOf(t, Regression{Loss: loss.Squared{}, Whitening: catalogue.WhiteningOff, Radius: radius}, x, 5, 1)
		if r.Cut != (radius < 0.7) || !r.Cut && floats.Distance(r.Coefficients, []float64{0, 0.4, 0.4, 0.4}, 2) > 0.1 || floats.Norm(r.Coefficients, 2) > radius*(1+1e-12) {
			t.Errorf("radius %v: %v, cut %v", radius, r.Coefficients, r.Cut)
		}
	}
}

// A set that is a box cuts coordinates.
func TestCutCoordinatesSayIt(t *testing.T) {
	for _, c := range []struct {
		w   []float64
		set string
		cut bool
	}{{[]float64{8, 8}, catalogue.SetBox, false}, {[]float64{8, 8}, catalogue.SetBall, true}, {[]float64{-9.95, 1}, catalogue.SetBox, true}, {[]float64{-9.8, 1}, catalogue.SetBall, false}} {
		released := L1{Set: c.set, Radius: 10}.medians(func(context.Context, table.Data, *mech.Source) ([]float64, error) { return c.w, nil })
		if r, err := released(t.Context(), table.Data{}, nil); err != nil || strings.Contains(r.WhyNull, "larger") != c.cut {
			t.Errorf("%v in a %s: %q, %v", c.w, c.set, r.WhyNull, err)
		}
	}
}

// Coefficients have room where rows and budget suffice to whiten, log-odds less; noise has none.
func TestTheUsualRadius(t *testing.T) {
	for _, c := range []struct {
		a      Regression
		rows   int
		radius float64
	}{
		{Regression{Loss: loss.Logistic{}, Labels: true}, 50_000, 300},
		{Regression{Loss: loss.Logistic{}, Labels: true}, 500, 10},
		{Regression{Loss: loss.Logistic{}, Labels: true, Method: "gd"}, 50_000, 10},
		{Regression{Loss: loss.Logistic{}, Labels: true, Radius: 7}, 50_000, 7},
		{Regression{Loss: loss.Squared{}}, 50_000, 100},
		{Regression{Loss: loss.Squared{}}, 500, 10},
		{Regression{Loss: loss.Squared{}, Method: "joint_moments"}, 500, 100},
		{Regression{Loss: loss.Squared{}, Method: "catoni", Whitening: "on"}, 50_000, 10},
		{Regression{Loss: loss.Huber{}}, 50_000, 100},
		{Regression{Loss: loss.Huber{}}, 500, 10},
	} {
		p, err := c.a.Plan(table.Shape{N: c.rows, D: 5, Intercept: true}, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil || p.Parameters["radius"] != c.radius {
			t.Errorf("%+v: %v, %v", c.a, p.Parameters["radius"], err)
		}
	}
}

// The usual radius does not cut the best fit of a real table: without noise it is 10.9 long.
func TestTheUsualRadiusHoldsAdult(t *testing.T) {
	x := linearTask{file: "adult.csv.gz", target: scaledColumn{"income_gt_50k", 1}, features: []scaledColumn{
		{"age", 40}, {"education_num", 10}, {"hours_per_week", 40}, {"sex_male", 1}, {"married", 1}, {"capital_gain", 10000}}}.load(t)
	for _, radius := range []float64{0, 10} {
		r := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true, Radius: radius}, x, 1, 1)
		norm := floats.Norm(r.Coefficients, 2)
		t.Logf("radius %v: %v", radius, norm)
		if cut := strings.Contains(r.WhyNull, "larger"); cut != (radius == 10) || !cut && (norm < 10.4 || norm > 11.4) {
			t.Errorf("radius %v: norm %v, %q", radius, norm, r.WhyNull)
		}
	}
}
