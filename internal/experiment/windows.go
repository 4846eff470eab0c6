package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/moments"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Figures for a table that grows by a day at a time and is refitted every day for a year.

const windowsNote = `A table grows by so many rows a day, and least squares of its last days is to be refitted every day of a year, at an epsilon of 1 in total and delta = %g. The figures are the root mean square error of the 6 coefficients together, whose length is .80, over windows and draws; all scales are 1.

- *one account*: dp_linear_regress, each fit with 1/365 of the budget, as where all rows share one account.
- *blocks*: each fit with a share of every block's budget as large as one over the number of fits that read it, 28 for windows of 28 days.
- *daily moments*: dp_moments of each day at epsilon 1, once, and dp_linear_from_moments. *with close scales*: the features have the scale .6 and the target .9, about their standard deviations.
- *other target*: a feature on the other four and the target, from the same daily moments with close scales, at no cost.
`

// growing is a table of several days.
type growing struct {
	rows, days int // rows a day; days of the window
	beta       []float64
}

// yearly is the number of refits.
const yearly = 365

var growingCoefficients = []float64{.3, .5, -.4, .3, .2, .1}

// draw draws the rows of several days; features have a heavy tail on one side.
func (g growing) draw(r *rand.Rand, days int) *Table {
	n := g.rows * days
	t := &Table{Data: table.Data{Shape: table.Shape{N: n, D: len(g.beta), Intercept: true}, Y: make([]float64, n)}, TargetScale: 1}
	for range g.beta[1:] {
		t.X, t.Scales = append(t.X, make([]float64, n)), append(t.Scales, 1)
	}
	for i := range n {
		t.Y[i] = g.beta[0] + .7*r.NormFloat64()
		for j, column := range t.X {
			column[i] = math.Exp(.5*r.NormFloat64()) - 1
			t.Y[i] += g.beta[1+j] * column[i]
		}
	}
	return t
}

// part returns a table of the rows in [from, to).
func (t *Table) part(from, to int) *Table {
	p := &Table{Data: table.Data{Shape: t.Shape, Y: t.Y[from:to]}, Scales: t.Scales, TargetScale: t.TargetScale}
	p.N = to - from
	for _, column := range t.X {
		p.X = append(p.X, column[from:to])
	}
	return p
}

// yearlyBudget is the budget for the whole year.
var yearlyBudget = privacy.Budget{Epsilon: 1, Delta: studyDelta}

// shareOf returns the epsilon of one of the given number of equal requests that together cost the budget.
func shareOf(requests int) (float64, error) {
	delta := yearlyBudget.Delta - privacy.Reserve(yearlyBudget.Delta)
	z, err := privacy.Calibrate(privacy.Concentrated{}, privacy.Budget{Epsilon: yearlyBudget.Epsilon, Delta: delta}, func(z float64) (privacy.Event, error) {
		return privacy.Gaussian{NoiseMultiplier: z}, nil
	})
	if err != nil {
		return 0, err
	}
	return privacy.Concentrated{}.Epsilon(privacy.Gaussian{NoiseMultiplier: z * math.Sqrt(float64(requests))}, delta)
}

// dailyMoments are sums of daily second moments.
type dailyMoments struct {
	features, target float64 // scales
	sums             []float64
	variance         float64
	terms            int
}

// addDay releases the second moments of a day and adds them.
func (m *dailyMoments) addDay(ctx context.Context, t *Table) error {
	scales := make([]float64, len(t.X))
	for j := range scales {
		scales[j] = m.features
	}
	p, err := dpsco.Scaled{Algorithm: moments.Sums{}, X: scales, Y: m.target, Sources: t.D}.Plan(t.Shape, yearlyBudget, privacy.Concentrated{})
	if err != nil {
		return err
	}
	r, err := p.Run(ctx, t.copy(), mech.NewSource())
	if err != nil {
		return err
	}
	if m.sums == nil {
		m.sums, m.terms = make([]float64, len(r.Moments.Sums)), t.D+1
	}
	floats.Add(m.sums, r.Moments.Sums)
	m.variance += r.Moments.Noise * r.Moments.Noise
	return nil
}

// unit returns the unit of a term.
func (m *dailyMoments) unit(term int) float64 {
	switch term {
	case 0:
		return 1
	case m.terms - 1:
		return m.target
	}
	return m.features
}

// fit returns the coefficients that dp_linear_from_moments computes from the sums (second_moments.md), for
// the target with this number among terms, in the table's units.
func (m *dailyMoments) fit(target int) []float64 {
	var order []int
	for i := range m.terms {
		if i != target {
			order = append(order, i)
		}
	}
	full := mat.NewSymDense(m.terms, nil)
	for i, k := 0, 0; i < m.terms; i++ {
		for j := i; j < m.terms; j++ {
			full.SetSym(i, j, m.sums[k])
			k++
		}
	}
	h, g := mat.NewSymDense(len(order), nil), mat.NewVecDense(len(order), nil)
	for i, a := range order {
		g.SetVec(i, full.At(a, target))
		for j, b := range order[:i+1] {
			h.SetSym(i, j, full.At(a, b))
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(h, true) {
		panic("experiment: no eigenvalues")
	}
	var v mat.Dense
	eigen.VectorsTo(&v)
	var along, fit mat.VecDense
	along.MulVec(v.T(), g)
	for k, value := range eigen.Values(nil) {
		along.SetVec(k, along.AtVec(k)*max(value, 0)/(value*value+m.variance*float64(m.terms)))
	}
	fit.MulVec(&v, &along)
	for i, term := range order {
		fit.SetVec(i, fit.AtVec(i)*m.unit(target)/m.unit(term))
	}
	return fit.RawVector().Data
}

// distances collects the squared errors of several ways to fit.
type distances map[string]*average

func (d distances) add(way string, got, want []float64) {
	if d[way] == nil {
		d[way] = new(average)
	}
	d[way].add(math.Pow(floats.Distance(got, want, 2), 2))
}

func (d distances) root(way string) string {
	if d[way] == nil {
		return "none"
	}
	return short(math.Sqrt(d[way].mean()))
}

func (c Config) windows() Figure {
	return Figure{Name: "windows", Title: "Refits of a growing table", Study: func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
		return c.writeWindows(ctx, w, did)
	}}
}

func (c Config) writeWindows(ctx context.Context, w io.Writer, did func(string)) error {
	fmt.Fprintf(w, "\n"+windowsNote+"\n| rows a day | window | without privacy | one account | blocks | daily moments | with close scales | other target | without privacy |\n|---|---|---|---|---|---|---|---|---|\n", studyDelta)
	for _, row := range []struct{ rows, days, windows int }{{500, 7, 8}, {500, 28, 24}, {500, yearly, 2}, {5000, 28, 4}} {
		if c.brief {
			row.rows, row.days, row.windows = 50, 3, 1
		}
		found := distances{}
		for draw := range c.draws() {
			r := rand.New(rand.NewPCG(uint64(draw), 15))
			for range row.windows {
				did(fmt.Sprintf("%d rows a day, %d days", row.rows, row.days))
				g := growing{row.rows, row.days, growingCoefficients}
				if err := g.compare(ctx, r, found); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(w, "| %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", row.rows, row.days, found.root("exact"), found.root("account"), found.root("blocks"),
			found.root("moments"), found.root("close moments"), found.root("close other"), found.root("exact other"))
	}
	return nil
}

// compare fits one window in all ways.
func (g growing) compare(ctx context.Context, r *rand.Rand, found distances) error {
	window := g.draw(r, g.days)
	found.add("exact", window.fitLinear(), g.beta)
	for way, requests := range map[string]int{"account": yearly, "blocks": g.days} {
		epsilon, err := shareOf(requests)
		if err != nil {
			return err
		}
		fit, _, err := Request(epsilon, nil)(ctx, &Task{Model: "linear", Delta: studyDelta}, window)
		if err != nil {
			return err
		}
		found.add(way, fit, g.beta)
	}
	other := g.otherRelation()
	found.add("exact other", window.otherWay().fitLinear(), other)
	for way, m := range map[string]*dailyMoments{"": {features: 1, target: 1}, "close ": {features: .6, target: .9}} {
		for day := range g.days {
			if err := m.addDay(ctx, window.part(day*g.rows, (day+1)*g.rows)); err != nil {
				return err
			}
		}
		found.add(way+"moments", m.fit(m.terms-1), g.beta)
		found.add(way+"other", m.fit(1), other)
	}
	return nil
}

// otherWay returns the table with its first feature as the target, and the target as the last feature.
func (t *Table) otherWay() *Table {
	return &Table{Data: table.Data{Shape: t.Shape, X: append(append([][]float64(nil), t.X[1:]...), t.Y), Y: t.X[0]}, Scales: t.Scales, TargetScale: t.TargetScale}
}

// otherRelation returns the coefficients of x1 on the constant, the other features and y. Features are
// independent, with mean e^(1/8) - 1 and variance e^(1/4) (e^(1/4) - 1).
func (g growing) otherRelation() []float64 {
	mean, variance := math.Exp(.125)-1, math.Exp(.25)*(math.Exp(.25)-1)
	slope := g.beta[1] * variance / (g.beta[1]*g.beta[1]*variance + .49) // slope of x1 on y without the other features' part
	other := []float64{mean - slope*(g.beta[0]+g.beta[1]*mean)}
	for _, b := range g.beta[2:] {
		other = append(other, -slope*b)
	}
	return append(other, slope)
}
