package dpsco

import (
	"context"
	"errors"
	"fmt"
	"math"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Column is what is public about a column that is described.
type Column struct {
	Name   string
	Levels []string // of a category, whose values are positions among them, from 0; nil: it is none
	Flag   bool     // its values are false and true, 0 and 1
	Whole  bool     // its values are whole numbers
	Scale  float64  // a typical magnitude, from public knowledge; 1 where that is zero
}

// Describe tells of each column how many of its values can be used, their mean, median and
// quartiles, or which share of them is true, or is each level, and in how many rows no value is missing.
//
// Quartiles are selected on a public grid. A histogram of the distances from the median
// tells how far values reach; from it follow where the mean is cut, and which values lie
// as many rows away from a quartile as it may be off.
//
// Privacy: the event of the plan, which is that of its releases (proof: describe.md).
type Describe struct {
	Columns []Column
	MaxRows int // that are read of a person, of whom one is described; 0 where every row is a person's
}

// kind is how a column is described.
type kind int

const (
	number kind = iota
	flag
	category
)

func (c Column) kind() kind {
	switch {
	case c.Levels != nil:
		return category
	case c.Flag:
		return flag
	}
	return number
}

// SuggestScales tells of each column how large its values usually are, those that are zero left
// out, and where they lie if that is far from zero.
//
// Privacy: as Describe.
type SuggestScales struct {
	Columns []Column
	MaxRows int // as of Describe
}

// The releases of a description, in their order.
const (
	quartiles = "quartiles" // of each column of numbers
	distances = "distances" // histograms: of values about the median, in units of the distance of the quartiles, and of levels
	averages  = "averages"  // means: of which values are there, and of where they lie
)

// What the releases get of the budget, of zCDP or of epsilon.
var (
	describeShares = map[string]float64{quartiles: 0.5, distances: 0.2, averages: 0.3}
	scaleShares    = map[string]float64{quartiles: 0.8, averages: 0.2}
	levelShares    = map[string]float64{distances: 0.5, averages: 0.5} // where no column holds numbers
	flagShares     = map[string]float64{averages: 1}                   // nor levels, or they need no scale
)

// describing is a description with the noise of its releases.
type describing struct {
	columns   []Column
	maxRows   int
	numbers   []int // the columns that are neither flags nor categories
	levels    []int // the categories whose levels are counted
	nonzero   bool  // zeros count as missing among the numbers: for scales
	shape     Shape
	pure      bool
	quartiles mech.RankQuantiles // of one column
	distances release            // nil: not made
	averages  release
}

// percents are those of the quartiles.
var percents = []int{25, 50, 75}

// Plan chooses the noise of every release from public facts. The columns are the target, then
// the features.
//
// Errors: ErrParameter, ErrInfeasible.
func (a Describe) Plan(s Shape, b privacy.Budget, accountant privacy.Accountant) (*Plan, error) {
	g := describing{columns: a.Columns, maxRows: a.MaxRows, shape: s, pure: b.Delta == 0}
	return g.plan(b, accountant, describeShares, func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
		figures, err := g.describe(ctx, x, src)
		return Result{Figures: figures}, err
	})
}

// Plan is as that of Describe.
func (a SuggestScales) Plan(s Shape, b privacy.Budget, accountant privacy.Accountant) (*Plan, error) {
	g := describing{columns: a.Columns, maxRows: a.MaxRows, shape: s, pure: b.Delta == 0, nonzero: true}
	return g.plan(b, accountant, scaleShares, func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
		scales, err := g.suggest(ctx, x, src)
		return Result{Scales: scales}, err
	})
}

func (g *describing) plan(b privacy.Budget, accountant privacy.Accountant, split map[string]float64, run run) (*Plan, error) {
	for j := range g.columns {
		setDefault(&g.columns[j].Scale, 1)
		switch kind := g.columns[j].kind(); {
		case kind == number:
			g.numbers = append(g.numbers, j)
		case kind == category && !g.nonzero:
			g.levels = append(g.levels, j)
		}
	}
	switch {
	case len(g.numbers) > 0:
	case len(g.levels) > 0:
		split = levelShares
	default:
		split = flagShares
	}
	if err := g.check(b, accountant); err != nil {
		return nil, err
	}
	calibrate := g.concentrate
	if g.pure {
		calibrate = g.purify
	}
	event, err := calibrate(b, accountant, split)
	if err == nil {
		err = g.checkReleases()
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{Method: g.method(), Event: event, Parameters: g.parameters(), Seconds: g.seconds(), Passes: g.passes(), firstRow: true, shape: g.shape, run: func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
		return run(ctx, x.one(), src)
	}}
	return p, p.severalRows(g.maxRows)
}

// check refuses what cannot be described.
func (g *describing) check(b privacy.Budget, accountant privacy.Accountant) error {
	switch {
	case len(g.columns) != g.shape.Columns()+1:
		return fmt.Errorf("%w: %d columns for a target and %d features", ErrParameter, len(g.columns), g.shape.Columns())
	case !(b.Delta >= 0 && b.Delta < 1):
		return fmt.Errorf("%w: delta is %v; it must be at least 0 and below 1", ErrParameter, b.Delta)
	case b.Delta > 0 && accountant == privacy.PureSum{}:
		return fmt.Errorf("%w: the budget of this data set has no delta; ask with delta 0", ErrInfeasible)
	}
	return checkRequest(Shape{N: g.shape.N, D: len(g.columns)}, b)
}

// concentrate is as much noise as the accountant asks for. With a multiplier z for the whole,
// a share of 1/(2 z^2) buys m selections of epsilon 2/z sqrt(share/m) each, at epsilon^2/8.
func (g *describing) concentrate(b privacy.Budget, accountant privacy.Accountant, split map[string]float64) (privacy.Event, error) {
	at := func(z float64) privacy.Event {
		g.quartiles = mech.RankQuantiles{Epsilon: 2 / z * math.Sqrt(split[quartiles]/float64(g.selections())), Percents: percents}
		if split[distances] > 0 {
			g.distances = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(split[distances])}
		}
		g.averages = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(split[averages])}
		return g.event()
	}
	budget := privacy.Budget{Epsilon: below(b.Epsilon), Delta: b.Delta - privacy.Reserve(b.Delta)}
	z, err := privacy.Calibrate(accountant, budget, func(z float64) (privacy.Event, error) {
		if z > mostNoise {
			return nil, privacy.ErrNoFit
		}
		return at(z), nil
	})
	switch {
	case errors.Is(err, privacy.ErrNoFit) || errors.Is(err, privacy.ErrUnsupported):
		return nil, fmt.Errorf("%w: a description cannot keep within eps %v and delta %v; ask for more", ErrInfeasible, b.Epsilon, b.Delta)
	case err != nil:
		return nil, err
	}
	return at(z), nil
}

// purify shares out epsilon. What each release has is a multiple of epsilon's last binary
// digit, and all together are a little less than epsilon (describe.md).
func (g *describing) purify(b privacy.Budget, _ privacy.Accountant, split map[string]float64) (privacy.Event, error) {
	digit := math.Nextafter(b.Epsilon, math.Inf(1)) - b.Epsilon
	part := func(share float64) float64 { return math.Floor(share*(1-0x1p-40)*b.Epsilon/digit) * digit }
	g.quartiles = mech.RankQuantiles{Epsilon: part(split[quartiles] / float64(g.selections())), Percents: percents}
	if split[distances] > 0 {
		g.distances = mech.Laplace{Epsilon: part(split[distances])}
	}
	g.averages = mech.Laplace{Epsilon: part(split[averages])}
	return privacy.Pure{Epsilon: b.Epsilon}, nil
}

// selections is how many quartiles are selected; 1 where there is none, for there is none to
// pay for.
func (g *describing) selections() int { return max(1, len(percents)*len(g.numbers)) }

// event composes the events of the releases.
func (g *describing) event() (e privacy.Compose) {
	if len(g.numbers) > 0 {
		e = append(e, privacy.Repeat{Count: len(g.numbers), Event: g.quartiles.Event()})
	}
	if g.distances != nil {
		e = append(e, g.distances.Event())
	}
	return append(e, g.averages.Event())
}

// checkReleases reports whether every release can be made.
func (g *describing) checkReleases() error {
	checks := []error{g.averages.Check(), g.contract().Check()}
	if len(g.numbers) > 0 {
		checks = append(checks, g.quartiles.Check(), g.rankContract().Check())
	}
	if g.distances != nil {
		checks = append(checks, g.distances.Check(), mech.CheckHistogram(g.bins(), g.shape.N, g.histograms()))
	}
	if err := errors.Join(checks...); err != nil {
		return infeasible(err)
	}
	return nil
}

func (g *describing) rankContract() mech.RankContract { return mech.RankContract{N: g.shape.N} }

// contract is that of the means, each of a number within [-1, 1].
func (g *describing) contract() mech.Contract {
	return mech.Contract{Norm: mech.LInf, Bound: 1, N: g.shape.N, D: g.layout().size}
}

func (g *describing) method() string {
	if g.pure {
		return "quantiles_laplace"
	}
	return "quantiles_gaussian"
}

// parameters are public.
func (g *describing) parameters() map[string]any {
	names := make([]string, len(g.columns))
	for j, c := range g.columns {
		names[j] = c.Name
	}
	p := map[string]any{
		"rows": g.shape.N, "columns": names,
		"why": "quartiles are selected by their ranks; shares and means are released with noise",
	}
	if len(g.numbers) > 0 {
		p["values_needed"], p["rank_error"] = math.Ceil(g.quartiles.Needs(25)), 2/g.quartiles.Epsilon
	}
	return p
}

// passes are those of levels and means; numbers are sorted.
func (g *describing) passes() int {
	switch {
	case len(g.numbers) > 0:
		return 0
	case g.distances != nil:
		return 2
	}
	return 1
}

// seconds are those of sorting every column and of two passes over all.
func (g *describing) seconds() float64 {
	return 3e-7*float64(g.shape.N)*float64(len(g.columns)) + 5e-3
}
