package audit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Games returns a game for every method of a regression, named as in SQL, and for l1. Like a job, a game
// makes a plan from a recipe and runs it once. Two more games measure the time that a release takes.
//
// Errors: those of planning.
func Games() ([]Game, error) {
	var games []Game
	for _, c := range worstCases {
		g, err := c.game(auditBudget, auditBudget)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		games = append(games, g)
	}
	more, err := timingGames()
	return append(games, more...), err
}

// auditBudget is the budget of every worst case. Such a large delta is unsuitable for use; here it makes
// most runs count, so that small violations are detected.
var auditBudget = privacy.Budget{Epsilon: 2, Delta: 0.1}

// worstCase is a fit of a small table and of a neighbour. The pair is as hard to hide as any that is known.
type worstCase struct {
	name, model, pair string
	options           map[string]any
	tables            func() (a, b table.Data)
	pure              bool // delta is 0
	slowness          int  // as in Game
	sources           int  // number of columns that a row is made from, if it is not one for each coefficient
}

// game returns the fit that is planned for the budget gets, with the claim of a plan for the budget claims.
// The two differ for mutants only.
func (c worstCase) game(gets, claims privacy.Budget) (Game, error) {
	if c.pure {
		gets.Delta, claims.Delta = 0, 0
	}
	c.options["method"] = c.method()
	recipe, err := dpsco.Recipe(c.model, c.options, nil)
	if err != nil {
		return Game{}, err
	}
	algorithm := dpsco.Scaled{Algorithm: recipe, Sources: c.sources}.Inner()
	a, _ := c.tables()
	shape := a.Shape
	plan, err := algorithm.Plan(shape, claims, privacy.Concentrated{})
	if err != nil {
		return Game{}, err
	}
	var best privacy.Best
	claim := privacy.Budget{Delta: claims.Delta}
	if claim.Epsilon, err = best.Epsilon(plan.Event, claims.Delta); err != nil {
		return Game{}, err
	}
	return Game{Name: c.name, Pair: c.pair, Claim: claim, Slowness: c.slowness, Play: func(second bool, src *mech.Source) float64 {
		a, b := c.tables()
		if second {
			a = b
		}
		p, err := algorithm.Plan(shape, gets, privacy.Concentrated{})
		if err != nil {
			panic("audit: a plan that was made before: " + err.Error())
		}
		r, err := p.Run(context.Background(), a, src)
		if err != nil {
			panic("audit: a run failed: " + err.Error())
		}
		return shown(r)
	}}, nil
}

// shown returns the number that the game uses: the coefficient or, for two groups, the difference of their
// coefficients.
func shown(r release.Result) float64 {
	if len(r.Groups) == 2 {
		return r.Groups[0].Coefficients[0] - r.Groups[1].Coefficients[0]
	}
	return r.Coefficients[0]
}

// method returns the option method, by default the name of the case.
func (c worstCase) method() string {
	if method, ok := c.options["method"].(string); ok {
		return method
	}
	return c.name
}

// worstCases has neighbours for every method. A fit has one step, because an answer contains the last
// iterate only.
var worstCases = []worstCase{
	linear("auto", "one row that is not zero changes sides; whitened", options{"whitening": "on", "feature_norm": 1.}, alone),
	linear("auto", "a target of 1e6 becomes -1e6", options{"steps": 1.}, flip),
	linear("joint_moments", "a target of 1e6 becomes -1e6", options{}, flip),
	linear("joint_moments", "the one row of a level, with a target of 1e6, changes level", options{}, moves).from(1),
	huber("a target of 1e6 becomes -1e6", options{}, flip),
	poisson("a count of 1e6 among fours becomes 0", options{}, count),
	linear("joint_moments", "a target of 1e6 moves to the other group", options{"by": "group", "pool": "none"}, move),
	huber("a target of 1e6 moves to the other group", options{"by": "group", "pool": "none"}, move),
	huber("a person's five rows of 1e6 move to the other group", options{"by": "group", "pool": "none"}, crowdMoves),
	linear("catoni", "a target of 1e6 becomes -1e6", options{"steps": 1., "truncation": 1.}, flip),
	linear("trimmed", "rows at both ends, one changes sides", options{"steps": 1., "trim": 2.}, halves(21)),
	linear("trimmed", "no spread, one row becomes 1e9", options{"steps": 1., "trim": 5.}, outlier),
	linear("ksu", "a target of 1e6 becomes -1e6", options{"steps": 1., "truncation": 1., "range": 1.}, flip),
	linear("ksu_axis", "a target of 1e6 becomes -1e6", options{"steps": 1., "truncation": 1., "range": 1.}, flip),
	linear("sample_aggregate", "blocks of one row; a target of 1e6 becomes -1e6", options{"blocks": 20., "radius": 100.}, flip),
	linear("sample_aggregate", "printed centre, fits at both ends, one changes sides",
		options{"aggregator": "centre", "blocks": 41., "radius": 1.}, halves(41)).slow(40),
	linear("spgd_clip", "a target of 1e6 becomes -1e6", options{"steps": 1.}, flip),
	linear("spgd_clip", "the same, in batches of half the rows", options{"steps": 1., "batch": 10.}, flip),
	linear("spgd_kamath", "the middle one of three blocks moves from end to end", options{"steps": 1., "blocks": 3.}, halves(3)),
	linear("spgd_holland", "a target of 1e6 becomes -1e6", options{"steps": 1., "truncation": 1.}, flip),
	linear("svrg", "a target of 1e6 becomes -1e6", options{"steps": 1., "step_size": .1}, flip),
	linear("svrg_pp", "a target of 1e6 becomes -1e6", options{"steps": 1., "step_size": .1}, flip).slow(4),
	linear("accmd", "a target of 1e6 becomes -1e6", options{"steps": 1., "step_size": .1}, flip),
	linear("gd", "a target of 1e6 becomes -1e6", options{"steps": 1.}, flip),
	linear("joint_moments", "a person's five rows of 1e6 become one of -1e6", options{}, crowd),
	huber("a person's five rows of 1e6 become one of -1e6", options{}, crowd),
	linear("spgd_clip", "a person's five rows of 1e6 become one of -1e6, in batches of half the persons", options{"steps": 1., "batch": 10.}, crowd),
	linear("gd", "a target of 1e6 gets the largest weight instead of none", options{"steps": 1., "weight": "w", "max_weight": 1.}, weighs),
	linear("joint_moments", "a target of 1e6 gets the largest weight instead of none", options{"weight": "w", "max_weight": 1.}, weighs),
	huber("a target of 1e6 gets the largest weight instead of none", options{"weight": "w", "max_weight": 1.}, weighs),
	{name: "l1", model: "l1", pair: "three points to choose from, one row changes sides", pure: true, tables: sides(2),
		options: options{"method": "exponential_mechanism", "radius": 1., "pitch": 1., "iota": 1.}},
	{name: "l1", model: "l1", pair: "objective perturbation, a target of 1e6 becomes -1e6", pure: true, tables: flip,
		options: options{"method": "objective_perturbation", "radius": 1e6}},
	{name: "l1", model: "l1", pair: "objective perturbation, a target of 1e6 gets the largest weight instead of none", pure: true, tables: weighs,
		options: options{"method": "objective_perturbation", "radius": 1e6, "weight": "w", "max_weight": 1.}},
	{name: "l1", model: "l1", pair: "fits in stages, a target of 1e6 becomes -1e6", pure: true, tables: flip,
		options: options{"method": "staged"}},
	{name: "l1", model: "l1", pair: "fits in stages, a target of 1e6 moves to the other group", pure: true, tables: move,
		options: options{"method": "staged", "by": "group", "pool": "none"}},
}

// slow returns the case with a slowness.
func (c worstCase) slow(times int) worstCase {
	c.slowness = times
	return c
}

// from returns the case with the number of columns that rows are made from.
func (c worstCase) from(sources int) worstCase {
	c.sources = sources
	return c
}

type options = map[string]any

// linear is a least squares fit. Unless options say otherwise it is not whitened, and the ball of
// coefficients is so large that no coefficients are projected.
func linear(name, pair string, o options, tables func() (a, b table.Data)) worstCase {
	if o["radius"] == nil {
		o["radius"] = 1e6
	}
	if o["whitening"] == nil {
		o["whitening"] = "off"
	}
	return worstCase{name: name, model: "linear", pair: pair, options: o, tables: tables}
}

// huber is a Huber fit by Newton's method with the same defaults.
func huber(pair string, o options, tables func() (a, b table.Data)) worstCase {
	c := linear("newton", pair, o, tables)
	c.model = "huber"
	return c
}

// poisson is a fit of counts, which is always whitened.
func poisson(pair string, o options, tables func() (a, b table.Data)) worstCase {
	o["radius"] = 1e6
	return worstCase{name: "newton", model: "poisson", pair: pair, options: o, tables: tables}
}

// oneFeature has one feature, always 1, and a target.
func oneFeature(y ...float64) table.Data {
	x := table.Data{Shape: table.Shape{N: len(y), D: 1}, X: [][]float64{make([]float64, len(y))}, Y: y}
	for i := range y {
		x.X[0][i] = 1
	}
	return x
}

// flip is 20 targets of 0, except one that is 1e6 or -1e6.
func flip() (a, b table.Data) {
	const n = 20
	y, z := make([]float64, n), make([]float64, n)
	y[0], z[0] = 1e6, -1e6
	return oneFeature(y...), oneFeature(z...)
}

// count is 100 counts of 4, except one that is 1e6 or 0. For these the last step is not shrunk to 0, so that
// its noise is visible.
func count() (a, b table.Data) {
	const n = 100
	y, z := slices.Repeat([]float64{4}, n), slices.Repeat([]float64{4}, n)
	y[0], z[0] = 1e6, 0
	return oneFeature(y...), oneFeature(z...)
}

// move is 20 targets of 0 in two groups, except one that is 1e6, in one group or in the other.
func move() (a, b table.Data) {
	a, _ = flip()
	b, _ = flip()
	for g, x := range []*table.Data{&a, &b} {
		x.GroupCount, x.Group = 2, make([]float64, len(x.Y))
		for i := range x.Group {
			x.Group[i] = float64(i % 2)
		}
		x.Group[0] = float64(g)
	}
	return a, b
}

// crowd is 20 persons with a target of 0 each, except one with five rows of 1e6, or one row of -1e6.
func crowd() (a, b table.Data) {
	const n, rows = 20, 5
	a, b = oneFeature(make([]float64, n-1+rows)...), oneFeature(make([]float64, n)...)
	for i := range rows {
		a.Y[i] = 1e6
	}
	b.Y[0] = -1e6
	a.N, a.MaxRows, a.First = n, rows, []int{0}
	b.MaxRows, b.First = rows, []int{0}
	for u := range n {
		a.First, b.First = append(a.First, u+rows), append(b.First, u+1)
	}
	return a, b
}

// crowdMoves is 20 persons in two groups. One of them has four rows of 1e6 in one group and a row of -1e6 in
// the other; the neighbour has the groups exchanged.
func crowdMoves() (a, b table.Data) {
	a, _ = crowd()
	b, _ = crowd()
	for g, x := range []*table.Data{&a, &b} {
		x.GroupCount, x.Group = 2, make([]float64, len(x.Y))
		for i := range x.Group {
			x.Group[i] = float64(i % 2)
		}
		for i := range x.First[1] {
			x.Group[i] = float64(g)
		}
		x.Group[x.First[1]-1], x.Y[x.First[1]-1] = float64(1-g), -1e6
	}
	return a, b
}

// weighs is 20 targets of 0 with weight 1, except one of 1e6 with weight 0 or 1.
func weighs() (a, b table.Data) {
	a, _ = flip()
	b, _ = flip()
	for k, x := range []*table.Data{&a, &b} {
		x.Weight = slices.Repeat([]float64{1}, len(x.Y))
		x.Weight[0] = float64(k)
	}
	return a, b
}

// halves is n targets, an odd number, alternately -1e6 and 1e6. One of the majority changes sides, and with
// it the majority.
func halves(n int) func() (a, b table.Data) {
	return func() (table.Data, table.Data) {
		y, z := make([]float64, n), make([]float64, n)
		for i := range y {
			y[i] = math.Copysign(1e6, float64(i%2)-.5)
			z[i] = y[i]
		}
		z[0] = -y[0]
		return oneFeature(y...), oneFeature(z...)
	}
}

// outlier is 100 targets of 0, of which one becomes 1e9.
func outlier() (a, b table.Data) {
	const n = 100
	y, z := make([]float64, n), make([]float64, n)
	z[0] = 1e9
	return oneFeature(y...), oneFeature(z...)
}

// sides is n long rows on a line of slope 1; one moves to the line of slope -1.
func sides(n int) func() (a, b table.Data) {
	return func() (table.Data, table.Data) {
		a, b := oneFeature(make([]float64, n)...), oneFeature(make([]float64, n)...)
		for i := range n {
			a.X[0][i], a.Y[i] = 1e6, 1e6
			b.X[0][i], b.Y[i] = 1e6, 1e6
		}
		b.Y[0] = -1e6
		return a, b
	}
}

// alone is 20 rows of zeros, except a long one whose target changes its sign.
func alone() (a, b table.Data) {
	a, b = flip()
	for _, x := range []table.Data{a, b} {
		clear(x.X[0])
		x.X[0][0] = 1e3
	}
	return a, b
}

// moves is 20 rows of a category with three levels, all of the first level, except one with a large target,
// which is of the second or the third.
func moves() (a, b table.Data) {
	const n = 20
	var tables [2]table.Data
	for k := range tables {
		x := oneFeature(make([]float64, n)...)
		clear(x.X[0])
		x.D, x.X = 2, append(x.X, make([]float64, n))
		x.Y[0], x.X[k][0] = 1e6, 1
		tables[k] = x
	}
	return tables[0], tables[1]
}
