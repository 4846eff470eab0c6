package dpsco

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/mat"
)

// pushedDown is a design whose rows are added up by the twins of statements. Its raw columns are the
// target, the features, the offset and the weight.
func pushedDown(x table.Data) table.Data {
	raw := append([][]float64{x.Y}, x.X...)
	e := &table.Pushdown{}
	for j := range x.X {
		e.Features = append(e.Features, table.Term{Column: 1 + j})
	}
	for _, beside := range []struct {
		column []float64
		place  *int
	}{{x.Offset, &e.Offset}, {x.Weight, &e.Weight}, {x.Exposure, &e.Exposure}} {
		if beside.column != nil {
			*beside.place = len(raw)
			raw = append(raw, beside.column)
		}
	}
	e.Totals = func(p sqlsum.Pass) (sqlsum.Totals, error) {
		t, add, row := p.Empty(), p.TwinForTests(), make([]float64, len(raw))
		for i := range x.Y {
			for j, column := range raw {
				row[j] = column[i]
			}
			add(t, row)
		}
		return t, nil
	}
	return table.Data{Shape: x.Shape, Pushdown: e}
}

// summable are the methods of which a database can compute the sums, by model.
var summable = map[string][]string{
	"linear":   {catalogue.MethodAuto, "plain auto", "gd", "accmd", "whitened gd"},
	"logistic": {catalogue.MethodAuto, "plain auto", "gd", "accmd", "whitened gd"},
	"huber":    {catalogue.MethodAuto, "plain auto", "gd", "accmd", "whitened gd"},
	"poisson":  {catalogue.MethodAuto},
}

// Rows that stay elsewhere give to every release what they give where they are, but for how they
// are rounded to steps: of every method that says so, with weights, offsets, scales and centres.
func TestPushdownGivesTheSame(t *testing.T) {
	for model, methods := range summable {
		for _, method := range methods {
			for k := range 8 {
				x := weightedLaw(model, 3000, uint64(k))
				for i := 0; i < x.N; i += 7 { // unusable rows, and far ones
					x.X[i%2][i] = []float64{math.NaN(), math.Inf(1), 30, -5, 40}[i/7%5]
					if k >= 4 {
						x.X[i%2][i] *= 1e7
					}
				}
				a := askedFor(t, model, method, k%2 == 0, &x)
				a.X, a.CentreX = []float64{2, 0.3}, []float64{0.1, -3}
				switch model {
				case "poisson":
					a.Y, a.Counts = 2, true
				case "logistic":
				default:
					a.Y, a.CentreY = 3, 0.5
				}
				if k == 0 { // coordinates of levels are those of any two columns
					a.Levels = []LevelColumns{{First: 0, Count: 2}}
				}
				switch k % 4 {
				case 1: // enough coefficients for features less their means
					x.X, x.D = append(x.X, slices.Clone(x.Y)), 4
					a.X, a.CentreX = append(a.X, 4), append(a.CentreX, -9)
				case 2, 3:
					x.X, x.Intercept = append([][]float64{x.X[0]}, x.X...), false
					a.X, a.CentreX, a.CentreY = []float64{1, 2, 0.3}, nil, 0
				}
				for i := 3; i < x.N/2; i += 7 { // nor do those without a target, of which features have another mean
					x.X[0][i], x.Y[i] = 9, math.NaN()
				}
				if k == 4 { // a column far from zero, which is moved
					for i, v := range x.X[0] {
						x.X[0][i] = 400 + numeric.ClampTo(v, 9)
					}
					a.X[0], a.CentreX[0] = 400, 0
				}
				if k == 5 || k == 6 { // columns without a scale; the target has one where there is an offset
					a.X, a.UnscaledX = table.Repeat(1, len(a.X)), []int{0, 1}
					a.CentreX, a.CentreY, a.NoScales = nil, 0, true
					for i := range x.X[0] {
						x.X[0][i] *= 1000
						x.X[1][i] /= 1000
					}
					if model == "linear" || model == "huber" {
						a.Y, a.UnscaledY = 1, k == 6
						if a.UnscaledY {
							scaleBy(x.Y, 1e5)
						}
					}
				}
				if k%2 == 1 {
					x.Offset = make([]float64, x.N)
					for i := range x.Offset {
						x.Offset[i] = numeric.ClampTo(x.X[1][i]/4-1, 30)
					}
				}
				if model == "poisson" && k > 0 {
					a.Exposure, x.Exposure = 0.5, make([]float64, x.N)
					for i := range x.Exposure {
						x.Exposure[i] = float64(i%5) / 2
					}
				}
				name := fmt.Sprintf("%s by %s, %d", model, method, k)
				here := taped(t, a, plantest.Clone(x), nil)
				there := taped(t, a, pushedDown(x), here)
				if len(here.Releases) != len(there.Releases) {
					t.Fatalf("%s: %d releases, elsewhere %d", name, len(here.Releases), len(there.Releases))
				}
				for r, release := range here.Releases {
					if !release.Matches(there.Releases[r]) {
						t.Fatalf("%s: release %d is another one: %+v, %+v", name, r, release, there.Releases[r])
					}
					if share := release.Share(there.Releases[r]); share > 0.02 {
						t.Errorf("%s: release %d of %T differs by %.3f of what a row may change", name, r, release.Contract, share)
					}
				}
			}
		}
	}
}

// askedFor is a model in the units of a table; without weights it takes them from x.
func askedFor(t *testing.T, model, method string, weights bool, x *table.Data) Scaled {
	t.Helper()
	options := map[string]any{"method": method}
	for prefix, choice := range map[string]string{"whitened ": catalogue.WhiteningOn, "plain ": catalogue.WhiteningOff} {
		if inner, ok := strings.CutPrefix(method, prefix); ok {
			options["method"], options["whitening"] = inner, choice
		}
	}
	if weights {
		options["weight"], options["max_weight"] = "w", float64(maxWeight)
	} else {
		x.Weight = nil
	}
	if method != catalogue.MethodAuto {
		options["steps"] = 5.
	}
	inner, err := Recipe(model, options, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	return Scaled{Algorithm: inner, X: []float64{1, 1}, Y: 1, Counts: model == "poisson"}
}

// taped runs a fit and notes its releases, answered as those of an earlier run if there is one.
func taped(t *testing.T, a Scaled, x table.Data, earlier *mechtest.Tape) *mechtest.Tape {
	t.Helper()
	p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 3, Delta: 1e-6}, privacy.Concentrated{})
	src, tape := mechtest.NewTape(t, 1, earlier)
	if _, err := p.Run(t.Context(), x, src); err != nil {
		t.Fatal(err)
	}
	return tape
}

// A pass that fails ends the fit with its error, and nothing is released.
func TestAFailedPassReleasesNothing(t *testing.T) {
	broken := errors.New("a node is gone")
	for pass := range 4 {
		x := weightedLaw("linear", 3000, 1)
		a := askedFor(t, "linear", catalogue.MethodAuto, false, &x)
		there := pushedDown(x)
		made, sums := 0, there.Pushdown.Totals
		there.Pushdown.Totals = func(p sqlsum.Pass) (sqlsum.Totals, error) {
			if made++; made > pass {
				return sqlsum.Totals{}, broken
			}
			return sums(p)
		}
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 3, Delta: 1e-6}, privacy.Concentrated{})
		if r, err := p.Run(t.Context(), there, mechtest.Source(t, 1)); !errors.Is(err, broken) || r.Coefficients != nil || made != pass+1 {
			t.Errorf("pass %d failed: %v, %v after %d passes", pass, r.Coefficients, err, made)
		}
	}
}

// Passes can be written, and no row makes them fail, whatever the numbers are that they are made of:
// all of those are public, or were released with noise.
func TestPassesAreTotalForAllPublicNumbers(t *testing.T) {
	extremes := []float64{math.Inf(1), 1e30, 1, 1e-30, math.NaN()}
	shape := table.Shape{N: 1000, D: 4, Intercept: true}
	passes := 0
	x := &table.Pushdown{Features: []table.Term{{Column: 1}, {Column: 2, Level: 3}, {Column: 3}}, Offset: 4, Weight: 5, Exposure: 6, Totals: func(p sqlsum.Pass) (sqlsum.Totals, error) {
		passes++
		p.SQL("t", []string{"a", "b", "c", "d", "e", "f", "g"})
		return p.Empty(), nil
	}}
	scaled := Scaled{X: []float64{1e300, 1, 1e-300}, Y: 1e-100, CentreX: []float64{1, 0, 1e-120}, CentreOffset: 1, Exposure: 1}
	scaled.express(x, shape, 1e100)
	counts := &table.Pushdown{Features: x.Features, Offset: 4, Weight: 5, Exposure: 6, Totals: x.Totals}
	scaled.Counts = true
	scaled.express(counts, table.Shape{D: 3}, 1e300)
	for _, a := range extremes {
		for _, b := range extremes {
			for _, c := range extremes {
				p, w := mat.NewDense(4, 4, nil), []float64{a, -b, c, a}
				for i := range 4 {
					for j := i; j < 4; j++ {
						p.Set(i, j, []float64{a, b, -c}[(i+j)%3])
					}
				}
				joint, err := JointMoments{Bound: 1, Scale: b, Meat: true}.releases(shape, 1)
				if err != nil {
					t.Fatal(err)
				}
				f := newJointFit(joint)
				f.p, f.w, f.bound, f.cut, f.restored = p, w, a, b, min(1, c)
				f.stepCuts, f.interceptCuts = cuts{inner: a, outer: b, share: 0.5}, cuts{inner: c, outer: a, share: 0.5}
				f.queryPilot(pilotPasses-1, x)
				f.queryStep(x)
				for _, curve := range []curve{logisticCurve{}, logisticCurve{informed: true}, huberCurve{delta: b, cut: c}, poissonCurve{unit: 1, cut: b}} {
					newton, err := Newton{Curve: curve, Bound: 1, Intervals: true}.releases(shape, 1)
					if err != nil {
						t.Fatal(err)
					}
					f := newNewtonFit(newton)
					f.p, f.w, f.limit, f.bound = p, w, a, b
					x := x
					if curve.counted() != nil {
						x = counts
					}
					f.queryFirst(x)
					f.queryStep(0, x)
					f.queryStep(f.last(), x)
				}
				for _, bound := range []float64{0x1p-400, 1, 0x1p400} { // that of svrg goes with the distance from its anchor
					contract := mech.Contract{Norm: mech.L2, Bound: bound, N: shape.N, D: 4}
					for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: c}} {
						gradients{l, table.Data{Shape: shape, Pushdown: x}, nil, w, []float64{c, a, b, -a}}.ask(contract, b)
					}
				}
			}
		}
	}
	askFar := func() { // of columns in units that a fit finds, in coordinates that are far too long
		newton, err := Newton{Curve: logisticCurve{}, Bound: 1}.releases(shape, 1)
		if err != nil {
			t.Fatal(err)
		}
		f := newNewtonFit(newton)
		f.p, f.w, f.limit, f.bound = mat.NewDense(4, 4, slices.Repeat([]float64{1e30}, 16)), []float64{1, 2, 3, 4}, 1, 1
		f.queryStep(0, x)
	}
	count := func(bins histogram.Bins, columns []int, centres []float64) {
		histogram.Count(table.Data{Shape: table.Shape{N: 1000}, Pushdown: x}, bins, columns, centres, mech.Gaussian{NoiseMultiplier: 1}, mechtest.Source(t, 1))
	}
	for _, a := range []float64{2, 1, 0x1p-11, 0} { // centers and scales that look finds lie between these
		moved := Scaled{X: []float64{0x1p-11, 1, 0x1p-4}, Y: 1, CentreX: []float64{a, -a, a}, CentreY: -a}
		moved.expressAgain(x)
		count(detailBins, []int{0, 2, histogram.Target}, []float64{moved.CentreX[0], moved.CentreX[2], moved.CentreY})
		askFar()
	}
	for _, a := range []float64{0x1p-59, 1, 0x1p59} { // as scales do that are found
		found := Scaled{X: []float64{a, 1, 1 / a}, Y: a}
		unscaled := []numericColumn{{column: 0}, {column: 2}, {column: histogram.Target}}
		count(histogram.SizeBins, positionsOf(unscaled), nil)
		found.expressUnscaled(x, unscaled)
		count(histogram.SizeBins, positionsOf(unscaled), nil)
		askFar()
	}
	if x.Err() != nil || passes != 125*(2+4*3+3*3)+4*4+3*7 {
		t.Errorf("%d passes, %v", passes, x.Err())
	}
}

// A row that is replaced by another one moves every release by what its noise hides, and no more:
// by rows at the ends of floating point, unusable rows, and ordinary ones.
func TestNeighboursOfPushdown(t *testing.T) {
	others := [][]float64{{math.NaN(), 1, 1}, {1e300, -1e300, 1}, {1, 1e9, -1e9}, {0, 0, 0}, {1, 5e-324, 1e-310}, {-1e18, 1e18, 1e-18}, {1, 40, -3}, {0, math.Inf(1), 1}}
	fullest := 0.0
	for model, methods := range summable {
		for _, method := range methods {
			x := weightedLaw(model, 400, 1)
			a := askedFor(t, model, method, method == catalogue.MethodAuto, &x)
			tape := taped(t, a, pushedDown(plantest.Clone(x)), nil)
			for k, other := range others {
				neighbour := plantest.Clone(x)
				neighbour.Y[k], neighbour.X[0][k], neighbour.X[1][k] = other[0], other[1], other[2]
				if neighbour.Weight != nil {
					neighbour.Weight[k] = maxWeight
				}
				for r, release := range taped(t, a, pushedDown(neighbour), tape).Releases {
					share := release.Share(tape.Releases[r])
					if fullest = max(fullest, share); share > 1 {
						t.Errorf("%s by %s: neighbour %d moves release %d by %v", model, method, k, r, share)
					}
				}
			}
		}
	}
	if fullest < 0.4 {
		t.Errorf("no neighbour moves a release by more than %v of what it may", fullest)
	}
}

// An answer is one text, and its length must not depend on rows: Huber fits with weights, whose histograms have the most bins that rows may
// lie in, sum fewer columns than others.
func TestAnswersFitAText(t *testing.T) {
	for features, stays := range map[int]bool{24: true, 25: false} {
		for _, weighted := range []bool{false, true} {
			a := Regression{Loss: loss.Huber{}}
			if weighted {
				a.Weight, a.MaxWeight = "w", 4
			}
			p := plantest.Plan(t, a, table.Shape{N: 10_000_000, D: features + 1, Intercept: true}, privacy.Budget{Epsilon: 10, Delta: 1e-6}, privacy.Concentrated{})
			if p.Sums != (stays || !weighted) || p.TooWide == p.Sums {
				t.Errorf("%d features, weighted %v: sums %v, too wide %v", features, weighted, p.Sums, p.TooWide)
			}
		}
	}
}
