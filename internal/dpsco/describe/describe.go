// Package describe plans descriptions of columns, and suggests scales for them.
//
// Files:
//
//	describe        what is asked, and the noise of its releases
//	rows            the releases of the rows
//	quantiles       quartiles and their intervals
//	figures         the figures, and the scales
package describe

import (
	"context"
	"errors"
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Column holds the public facts about one column to be described.
type Column struct {
	Name   string
	Levels []string // of a category, whose values are positions in Levels, from 0; nil: the column is no category
	Flag   bool     // its values are booleans, 0 and 1
	Whole  bool     // it is described in whole numbers: integers, or seconds
	Scale  float64  // a typical magnitude, from public knowledge; 1 where that is zero
}

// Figures releases for each column the share of usable values and, of numbers, the mean, median and
// quartiles, of booleans the share of true, of categories the share of each level; and the share of
// rows without missing values.
//
// Quartiles are selected from a public grid. A histogram of the values about them determines
// where values are clamped for the mean, and the confidence intervals of the quartiles: the values
// as many rows away as the selected quartile may be off.
//
// Privacy: the plan's event, which is the composition of its releases (proof: describe.md).
//
// Source: mech.RankQuantiles has that of the selection.
type Figures struct {
	Columns []Column
	MaxRows int // rows read per person, of which one is described; 0 if every row is a different person's
}

// kind is how a column is described.
type kind int

const (
	numberColumn kind = iota
	flagColumn
	categoryColumn
)

func (c Column) kind() kind {
	switch {
	case c.Levels != nil:
		return categoryColumn
	case c.Flag:
		return flagColumn
	}
	return numberColumn
}

// Scales releases for each column of numbers the usual size of its nonzero values, and a
// centre if the values are far from zero.
//
// Privacy: as Figures.
type Scales struct {
	Columns []Column
	MaxRows int // as of Figures
}

// The releases of a description, in order.
const (
	quartilesRelease = "quartiles" // of each column of numbers
	distancesRelease = "distances" // histograms of values about the quartiles, and of levels
	averagesRelease  = "averages"  // means: of indicators that values are present, and of the clamped values
)

// The shares of the budget that the releases take, of zCDP or of epsilon.
var (
	figureShares = map[string]float64{quartilesRelease: 0.5, distancesRelease: 0.2, averagesRelease: 0.3}
	scaleShares  = map[string]float64{quartilesRelease: 0.8, averagesRelease: 0.2}
	levelShares  = map[string]float64{distancesRelease: 0.5, averagesRelease: 0.5} // without columns of numbers
	flagShares   = map[string]float64{averagesRelease: 1}                          // without both; for scales, without numbers
)

// describing is a description with the noise of its releases.
type describing struct {
	columns        []Column
	maxRows        int
	numericColumns []int // the columns that are neither flags nor categories
	levels         []int // the categories whose levels are counted
	nonzero        bool  // zeros count as missing in columns of numbers; for scales
	shape          table.Shape
	pure           bool
	quartiles      mech.RankQuantiles // of one column
	distances      mech.Mechanism     // nil: not released
	averages       mech.Mechanism
}

// percents are the percentages of the three quartiles.
var percents = []int{25, 50, 75}

// Plan chooses the noise of every release from public facts. The first column is the target, the
// others are the features.
//
// Errors: plan.ErrParameter, plan.ErrInfeasible.
func (a Figures) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	g := describing{columns: a.Columns, maxRows: a.MaxRows, shape: s, pure: b.Delta == 0}
	return g.plan(b, accountant, figureShares, func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		figures, err := g.describe(ctx, x, src)
		return release.Result{Figures: figures}, err
	})
}

// Plan is as Figures.Plan.
func (a Scales) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	g := describing{columns: a.Columns, maxRows: a.MaxRows, shape: s, pure: b.Delta == 0, nonzero: true}
	return g.plan(b, accountant, scaleShares, func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		scales, err := g.suggest(ctx, x, src)
		return release.Result{Scales: scales}, err
	})
}

func (g *describing) plan(b privacy.Budget, accountant privacy.Accountant, split map[string]float64, run plan.RunFunc) (*plan.Plan, error) {
	for j := range g.columns {
		plan.SetDefault(&g.columns[j].Scale, 1)
		switch kind := g.columns[j].kind(); {
		case kind == numberColumn:
			g.numericColumns = append(g.numericColumns, j)
		case kind == categoryColumn && !g.nonzero:
			g.levels = append(g.levels, j)
		}
	}
	switch {
	case len(g.numericColumns) > 0:
	case len(g.levels) > 0:
		split = levelShares
	default:
		split = flagShares
	}
	if err := g.check(b, accountant); err != nil {
		return nil, err
	}
	event, err := g.noise(b, accountant, split)
	if err != nil {
		return nil, err
	}
	if err := g.checkReleases(); err != nil {
		return nil, err
	}
	p := &plan.Plan{
		Method:     g.method(),
		Event:      event,
		Parameters: g.parameters(),
		Seconds:    g.seconds(),
		Passes:     g.passes(),
		FirstRow:   true,
		Shape:      g.shape,
	}
	p.WithRun(func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		return run(ctx, x.FirstRows(), src)
	})
	return p, p.SeveralRows(g.maxRows)
}

// check refuses requests that cannot be planned.
func (g *describing) check(b privacy.Budget, accountant privacy.Accountant) error {
	switch {
	case len(g.columns) != g.shape.Columns()+1:
		return fmt.Errorf("%w: %d columns for a target and %d features", plan.ErrParameter, len(g.columns), g.shape.Columns())
	case !(b.Delta >= 0 && b.Delta < 1):
		return fmt.Errorf("%w: delta is %v; it must be at least 0 and below 1", plan.ErrParameter, b.Delta)
	case b.Delta > 0 && accountant == privacy.PureSum{}:
		return fmt.Errorf("%w: the budget of this data set has no delta; ask with delta 0", plan.ErrInfeasible)
	}
	return plan.Check(table.Shape{N: g.shape.N, D: len(g.columns)}, b)
}

// noise chooses the noise of all releases, and returns the event of them together.
func (g *describing) noise(b privacy.Budget, accountant privacy.Accountant, split map[string]float64) (privacy.Event, error) {
	if g.pure {
		return g.laplaceNoise(b.Epsilon, split), nil
	}
	return g.gaussianNoise(b, accountant, split)
}

// gaussianNoise chooses the least noise that the accountant allows. With noise multiplier z for all
// releases together, a share f of rho = 1/(2 z^2) pays for m selections with epsilon 2/z sqrt(f/m)
// each, which cost epsilon^2/8.
func (g *describing) gaussianNoise(b privacy.Budget, accountant privacy.Accountant, split map[string]float64) (privacy.Event, error) {
	at := func(z float64) privacy.Event {
		g.quartiles = mech.RankQuantiles{Epsilon: 2 / z * math.Sqrt(split[quartilesRelease]/float64(g.selections())), Percents: percents}
		if split[distancesRelease] > 0 {
			g.distances = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(split[distancesRelease])}
		}
		g.averages = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(split[averagesRelease])}
		return g.event()
	}
	z, err := plan.Calibrate(accountant, b, "a description", at)
	if err != nil {
		return nil, err
	}
	return at(z), nil
}

// laplaceNoise divides epsilon among the releases. Every part is a multiple of epsilon's last binary
// digit, and their sum is slightly below epsilon (describe.md).
func (g *describing) laplaceNoise(epsilon float64, split map[string]float64) privacy.Event {
	digit := math.Nextafter(epsilon, math.Inf(1)) - epsilon
	part := func(share float64) float64 { return math.Floor(share*(1-0x1p-40)*epsilon/digit) * digit }
	g.quartiles = mech.RankQuantiles{Epsilon: part(split[quartilesRelease] / float64(g.selections())), Percents: percents}
	if split[distancesRelease] > 0 {
		g.distances = mech.Laplace{Epsilon: part(split[distancesRelease])}
	}
	g.averages = mech.Laplace{Epsilon: part(split[averagesRelease])}
	return privacy.Pure{Epsilon: epsilon}
}

// selections returns the number of quartiles to be selected. It is 1 rather than 0 without columns
// of numbers, to avoid a division by zero; nothing is charged then.
func (g *describing) selections() int { return max(1, len(percents)*len(g.numericColumns)) }

// event returns the composition of the events of all releases.
func (g *describing) event() (e privacy.Compose) {
	if len(g.numericColumns) > 0 {
		e = append(e, privacy.Repeat{Count: len(g.numericColumns), Event: g.quartiles.Event()})
	}
	if g.distances != nil {
		e = append(e, g.distances.Event())
	}
	return append(e, g.averages.Event())
}

// checkReleases reports whether every release is possible with these parameters.
func (g *describing) checkReleases() error {
	checks := []error{g.averages.Check(), g.contract().Check()}
	if len(g.numericColumns) > 0 {
		checks = append(checks, g.quartiles.Check(), g.rankContract(g.numericColumns[0]).Check())
	}
	if g.distances != nil {
		checks = append(checks, g.distances.Check(), mech.CheckHistogram(g.bins(), g.shape.N, g.histograms()))
	}
	if err := errors.Join(checks...); err != nil {
		return plan.Infeasible(err)
	}
	return nil
}

// fractionDigits is the number of digits of the grid for a column whose values need not be whole numbers. A finer grid
// would find the values less often that most rows are equal to, for those with many digits are so many.
const fractionDigits = 7

// rankContract returns the contract of the quartiles of a column: whole numbers are looked for exactly.
func (g *describing) rankContract(column int) mech.RankContract {
	c := mech.RankContract{N: g.shape.N, Digits: fractionDigits}
	if g.columns[column].Whole {
		c.Digits = mech.MaxDigits
	}
	return c
}

// contract is the contract of the means: every coordinate lies within [-1, 1].
func (g *describing) contract() mech.Contract {
	return mech.Contract{Norm: mech.LInf, Bound: 1, N: g.shape.N, D: g.layout().size}
}

func (g *describing) method() string {
	if g.pure {
		return "quantiles_laplace"
	}
	return "quantiles_gaussian"
}

// parameters returns the public parameters of the plan.
func (g *describing) parameters() map[string]any {
	names := make([]string, len(g.columns))
	for j, c := range g.columns {
		names[j] = c.Name
	}
	p := map[string]any{
		"rows": g.shape.N, "columns": names,
		"why": "quartiles are selected by their ranks; shares and means are released with noise",
	}
	if len(g.numericColumns) > 0 {
		p["values_needed"], p["rank_error"] = math.Ceil(g.quartiles.Needs(25)), 2/g.quartiles.Epsilon
	}
	return p
}

// passes returns the number of passes: one for the histograms and one for the means; 0 with columns
// of numbers, which are sorted as well.
func (g *describing) passes() int {
	switch {
	case len(g.numericColumns) > 0:
		return 0
	case g.distances != nil:
		return 2
	}
	return 1
}

// seconds estimates the time for sorting every column and for two passes over all columns.
func (g *describing) seconds() float64 {
	return 3e-7*float64(g.shape.N)*float64(len(g.columns)) + 5e-3
}
