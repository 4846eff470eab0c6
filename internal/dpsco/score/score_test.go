package score

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// scores are one of every kind, for coefficients of two terms.
func scores() map[string]Metrics {
	return map[string]Metrics{
		"regression": {Coefficients: []float64{0.3, 0.9}, Scale: 2},
		"centred":    {Coefficients: []float64{0.3, 0.9}, Scale: 2, Centre: 2.5},
		"unscaled":   {Coefficients: []float64{0.3, 0.9}, TargetUnscaled: true},
		"labels":     {Coefficients: []float64{-0.2, 1.4}, Labels: true},
		"counts":     {Coefficients: []float64{-0.3, 0.5}, Counts: true},
	}
}

// table is one of n rows that a score is for: of counts with exposures, with a mean of e^(x/2 - .4) each.
func (a Metrics) table(seed uint64, n int) table.Data {
	x := plantest.Scored(seed, n, a.Labels)
	if a.Counts {
		src := rand.NewPCG(seed, 6)
		r := rand.New(src)
		x.Exposure = make([]float64, n)
		for i, v := range x.X[0] {
			x.Exposure[i] = 0.2 + r.Float64()
			x.Y[i] = distuv.Poisson{Lambda: x.Exposure[i] * math.Exp(v/2-.4), Src: src}.Rand()
		}
	}
	return x
}

// exactDeviances are the metrics of counts.
func exactDeviances(a Metrics, x table.Data) map[string]float64 {
	var n, y, exposure, deviance, alike float64
	for i, v := range x.Y {
		if !math.IsNaN(v) {
			n, y, exposure = n+1, y+v, exposure+x.Exposure[i]
		}
	}
	for i, v := range x.Y {
		if !math.IsNaN(v) {
			deviance += unitDeviance(v, x.Exposure[i]*math.Exp(a.Coefficients[0]+a.Coefficients[1]*x.X[0][i]))
			alike += unitDeviance(v, x.Exposure[i]*y/exposure)
		}
	}
	return map[string]float64{"deviance_explained": 1 - deviance/alike, "mean_deviance": deviance / n}
}

// exactMetrics are those of the rows in which nothing is missing.
func exactMetrics(a Metrics, x table.Data) map[string]float64 {
	if a.Counts {
		return exactDeviances(a, x)
	}
	var n, absolute, squares, y1, y2, losses, hits, brier float64
	for i, y := range x.Y {
		z := a.Coefficients[0] + a.Coefficients[1]*x.X[0][i]
		if math.IsNaN(y - z) {
			continue
		}
		e, margin := y-z, z*(2*y-1)
		n++
		absolute, squares, y1, y2 = absolute+math.Abs(e), squares+e*e, y1+y, y2+y*y
		losses, brier = losses+math.Log(1+math.Exp(-margin)), brier+square(1/(1+math.Exp(margin)))
		if (z >= 0) == (y == 1) {
			hits++
		}
	}
	if a.Labels {
		return map[string]float64{"log_loss": losses / n, "accuracy": hits / n, "brier_score": brier / n}
	}
	return map[string]float64{"r2": 1 - squares/(y2-y1*y1/n), "mean_absolute_error": absolute / n, "root_mean_squared_error": math.Sqrt(squares / n)}
}

// A score of a table and one of its neighbour, given the same answers, do the same in
// public, and what they hide differs by what the noise is scaled to.
func TestReplaysOfScores(t *testing.T) {
	largest := map[string]float64{}
	for _, delta := range []float64{1e-2, 0} {
		for name, a := range scores() {
			r := rand.New(rand.NewPCG(3, 3))
			for k := range 60 {
				s := table.Shape{N: 23, D: 2 + k%2, Intercept: k%3 == 0}
				a.Coefficients = []float64{0.3, 0.9, -2}[:s.D]
				plan := func() *plan.Plan {
					return plantest.Plan(t, a, s, privacy.Budget{Epsilon: 20, Delta: delta}, privacy.Concentrated{})
				}
				x, y := plantest.Neighbours(r, s, a.Labels)
				if k%4 == 3 && !a.Counts {
					x, y = plantest.InGroups(r, x, y, 3)
					s, a.Coefficients = x.Shape, slices.Repeat(a.Coefficients, 3)
				}
				if a.Counts && k%5 > 0 {
					plantest.AsCounts(r, &x, &y)
					x.Exposure, y.Exposure = make([]float64, s.N), make([]float64, s.N)
					for i := range s.N {
						x.Exposure[i], y.Exposure[i] = math.Exp(x.Offset[i]), math.Exp(y.Offset[i])
					}
				}
				shares, err := plantest.Replay(t, plan, x, y)
				if err != nil {
					t.Fatalf("%s, delta %v, pair %d: %v", name, delta, k, err)
				}
				for kind, share := range shares {
					largest[kind] = max(largest[kind], share)
				}
			}
		}
	}
	if len(largest) != 5 {
		t.Errorf("mechanisms %v", largest)
	}
	plantest.ReachHalf(t, largest)
}

// A score costs its budget, and no more; the ledger books a pure one as what was asked for.
func TestAScoreCostsItsBudget(t *testing.T) {
	order := privacy.AtOrder{Order: 20, Renyi: new(privacy.Renyi)}
	for name, a := range scores() {
		for _, accountant := range []privacy.Accountant{privacy.Concentrated{}, order} {
			for _, b := range []privacy.Budget{{Epsilon: 0.1, Delta: 1e-6}, {Epsilon: 3, Delta: 1e-5}} {
				p, err := a.Plan(table.Shape{N: 1000, D: 2, Intercept: true}, b, accountant)
				if errors.Is(err, plan.ErrInfeasible) && accountant == order && b.Epsilon < 1 {
					continue // less than the order can prove
				}
				if err != nil {
					t.Fatal(err)
				}
				epsilon, err := accountant.Epsilon(p.Event, b.Delta-privacy.Reserve(b.Delta))
				if err != nil || epsilon > b.Epsilon || epsilon < b.Epsilon*(1-1e-6) {
					t.Errorf("%s, %T: eps %v of %v, %v", name, accountant, epsilon, b.Epsilon, err)
				}
			}
		}
		p, err := a.Plan(table.Shape{N: 1000, D: 2, Intercept: true}, privacy.Budget{Epsilon: 0.1}, privacy.PureSum{})
		if err != nil || p.Event != (privacy.Pure{Epsilon: 0.1}) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for _, epsilon := range []float64{0.1, 0.7, 1, 1.1, 3.3} { // of most of which .75 is no float64
		g, _, err := scores()["labels"].laplaceNoise(table.Shape{N: 1000, D: 2, Intercept: true}, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
		if err != nil {
			t.Fatal(err)
		}
		sum := new(big.Rat)
		for _, noise := range g.noises {
			sum.Add(sum, new(big.Rat).SetFloat64(noise.(mech.Laplace).Epsilon))
		}
		if sum.Cmp(new(big.Rat).SetFloat64(plan.JustBelow(epsilon))) > 0 {
			t.Errorf("at eps %v the releases cost %v", epsilon, sum.FloatString(25))
		}
	}
	for _, shares := range []map[string]float64{shares, labelShares, countShares, pureShares} {
		sum := 0.0
		for _, share := range shares {
			sum += share
		}
		if math.Abs(sum-1) > 1e-15 {
			t.Errorf("shares add up to %v", sum)
		}
	}
}

func TestWhatCannotBeScoredIsRefused(t *testing.T) {
	s, b := table.Shape{N: 100, D: 2, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	good := Metrics{Coefficients: []float64{1, 2}}
	for name, c := range map[string]struct {
		Metrics
		table.Shape
		privacy.Budget
		privacy.Accountant
		error
	}{
		"too few coefficients": {Metrics{Coefficients: []float64{1}}, s, b, privacy.Concentrated{}, plan.ErrParameter},
		"a coefficient of NaN": {Metrics{Coefficients: []float64{1, math.NaN()}}, s, b, privacy.Concentrated{}, plan.ErrParameter},
		"eps 0":                {good, s, privacy.Budget{Delta: 1e-6}, privacy.Concentrated{}, plan.ErrParameter},
		"delta 1":              {good, s, privacy.Budget{Epsilon: 1, Delta: 1}, privacy.Concentrated{}, plan.ErrParameter},
		"delta on a pure data": {good, s, b, privacy.PureSum{}, plan.ErrInfeasible},
		"no rows":              {good, table.Shape{N: 0, D: 2, Intercept: true}, b, privacy.Concentrated{}, plan.ErrInfeasible},
	} {
		if _, err := c.Metrics.Plan(c.Shape, c.Budget, c.Accountant); !errors.Is(err, c.error) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With little noise metrics are those of the table, whatever its units, and without the rows
// in which something is missing.
func TestScoresAreThoseOfTheTable(t *testing.T) {
	for name, a := range scores() {
		for _, delta := range []float64{1e-6, 0} {
			for _, missing := range []bool{false, true} {
				x := a.table(1, 20_000)
				for i := range x.Y {
					if missing && i%3 == 0 {
						x.Y[i] = []float64{math.NaN(), math.Inf(1)}[i%2]
					}
				}
				exact := exactMetrics(a, masked(x))
				for _, m := range plantest.Run(t, a, x, privacy.Budget{Epsilon: 500, Delta: delta}, 1).Metrics {
					if m.Value == nil || math.Abs(*m.Value-exact[m.Name]) > 4e-3 || m.Low == nil || *m.Low > *m.Value || *m.High < *m.Value {
						t.Errorf("%s, delta %v, missing %v: %s is %v, in the table %v; %s", name, delta, missing, m.Name, m.Value, exact[m.Name], m.WhyNull)
					}
				}
			}
		}
	}
}

// Offsets around 800 and a constant around -800 are a model like any other: e^800 is no number.
func TestAScoreOfCountsWithOffsetsFarFromZero(t *testing.T) {
	near := scores()["counts"]
	x := near.table(1, 20_000)
	exact := exactMetrics(near, x)
	far := near
	far.Coefficients, far.CentreOffset = []float64{near.Coefficients[0] - 800, near.Coefficients[1]}, 800.5
	x.Offset = table.Repeat(800, x.N)
	for _, m := range plantest.Run(t, far, x, privacy.Budget{Epsilon: 500, Delta: 1e-6}, 1).Metrics {
		if m.Value == nil || math.Abs(*m.Value-exact[m.Name]) > 4e-3 {
			t.Errorf("%s is %v, in the table %v; %s", m.Name, m.Value, exact[m.Name], m.WhyNull)
		}
	}
}

// masked makes infinities NaN.
func masked(x table.Data) table.Data {
	x = plantest.Clone(x)
	for i, y := range x.Y {
		if math.IsInf(y, 0) {
			x.Y[i] = math.NaN()
		}
	}
	return x
}

// A target far from zero has the R2 that it has at zero: 1970 and a spread of 1.4.
func TestAScoreFindsTheCentreOfTheTarget(t *testing.T) {
	a, x := Metrics{Coefficients: []float64{1967.3, 0.9}, Scale: 2000}, plantest.Scored(2, 50_000, false)
	for i := range x.Y {
		x.Y[i] += 1967
	}
	exact := exactMetrics(a, x)
	for _, m := range plantest.Run(t, a, x, privacy.Budget{Epsilon: 10, Delta: 1e-6}, 2).Metrics {
		if m.Value == nil || math.Abs(*m.Value-exact[m.Name]) > 0.05 {
			t.Errorf("%s is %v, in the table %v; %s", m.Name, m.Value, exact[m.Name], m.WhyNull)
		}
	}
}

// A target without a scale may be of any size, and far from zero; a registered scale of 1 leaves no value of most of these. By absolute
// residuals alone, without a delta, likewise. The error of a fit that predicts to a thousandth is found beside its target, and so are the few
// large errors of one that predicts most rows to nearly nothing.
func TestAScoreFindsScales(t *testing.T) {
	for _, c := range []struct{ times, constant, error float64 }{{4e4, 0, 1}, {1e-6, 0, 1}, {1e9, 3, 1}, {1, 2017, 1}, {1e6, 0, 1e-3}} {
		a, x := Metrics{Coefficients: []float64{c.times * (3 + c.constant), c.times}, TargetUnscaled: true}, plantest.Scored(3, 20_000, false)
		for i, v := range x.X[0] {
			x.Y[i] = c.times * (3 + c.constant + v + c.error*(x.Y[i]-3-v))
		}
		exact := exactMetrics(a, x)
		for _, b := range []privacy.Budget{{Epsilon: 3, Delta: 1e-6}, {Epsilon: 3}} {
			for _, m := range plantest.Run(t, a, x, b, 3).Metrics {
				if away := 0.1 * exact[m.Name]; m.Value == nil || math.Abs(*m.Value-exact[m.Name]) > away || m.Low == nil || *m.High-*m.Low > 3*away {
					t.Errorf("%+v, delta %v: %s is %v in [%v, %v], in the table %v; %s", c, b.Delta, m.Name, told(m.Value), told(m.Low), told(m.High), exact[m.Name], m.WhyNull)
				}
			}
		}
	}
}

// Few targets are far larger than all others, as claims are, and a model that says about 0 of all has tiny residuals but for these.
func TestAScoreOfTinyResidualsSeesTheLargeOnes(t *testing.T) {
	x := plantest.Scored(5, 60_000, false)
	for i := range x.Y {
		if x.Y[i] = 0; i%10 == 0 {
			x.Y[i] = 5000 * (1 + .3*x.X[0][i])
		}
	}
	for _, a := range []Metrics{{Coefficients: []float64{1e-3, 1e-3}, TargetUnscaled: true}, {Coefficients: []float64{1e-3, 1e-3}, Scale: 5000}} {
		exact := exactMetrics(a, x)
		for _, b := range []privacy.Budget{{Epsilon: 2, Delta: 1e-6}, {Epsilon: 2}} {
			for _, m := range plantest.Run(t, a, x, b, 3).Metrics {
				if m.Name == "mean_absolute_error" && (m.Value == nil || math.Abs(*m.Value/exact[m.Name]-1) > .1 || m.Low == nil) {
					t.Errorf("unscaled %t, delta %v: %v in [%v, %v], in the table %v; %s", a.TargetUnscaled, b.Delta, told(m.Value), told(m.Low), told(m.High), exact[m.Name], m.WhyNull)
				}
			}
		}
	}
}

// A price without a fitting scale is beyond all that the histogram holds: there is no figure, not a wrong one.
func TestAScoreWithAScaleFarTooSmallHasNoValue(t *testing.T) {
	x := plantest.Scored(5, 20_000, false)
	for i := range x.Y {
		x.Y[i] *= 1e6
	}
	for _, m := range plantest.Run(t, Metrics{Coefficients: []float64{0, 0}, Scale: 1}, x, privacy.Budget{Epsilon: 3, Delta: 1e-6}, 1).Metrics {
		if m.Value != nil || m.WhyNull != whyOutOfReach {
			t.Errorf("%s: %v, %q", m.Name, told(m.Value), m.WhyNull)
		}
	}
}

// told is a number that may be missing.
func told(v *float64) any {
	if v == nil {
		return "not told"
	}
	return *v
}

// Intervals cover the metrics of the law. Of 60 intervals at a true coverage of 95 %, 47
// or fewer cover with probability below 1e-7; seeds are fixed besides. A quarter of their
// width would be found.
func TestIntervalsOfScoresCoverTheLaw(t *testing.T) {
	const runs = 60
	for name, a := range scores() {
		law := exactMetrics(a, a.table(777, 1_000_000))
		for _, b := range []privacy.Budget{{Epsilon: 3, Delta: 1e-6}, {Epsilon: 3}} {
			tried, covered, quarter := map[string]int{}, map[string]int{}, map[string]int{}
			for seed := range uint64(runs) {
				for _, m := range plantest.Run(t, a, a.table(100+seed, 10_000), b, seed).Metrics {
					if m.Low == nil {
						continue
					}
					tried[m.Name]++
					middle, half := (*m.Low+*m.High)/2, (*m.High-*m.Low)/2
					if away := math.Abs(law[m.Name] - middle); away <= half {
						covered[m.Name]++
						if away <= half/4 {
							quarter[m.Name]++
						}
					}
				}
			}
			least := runs * 9 / 10
			if a.Counts { // deviances have longer tails, which noise may hide
				least = runs / 4
			}
			for metric, n := range tried {
				t.Logf("%s, delta %v: %s covered %d of %d", name, b.Delta, metric, covered[metric], n)
				if n < least || float64(covered[metric]) < 0.79*float64(n) {
					t.Errorf("%s, delta %v: %s covered %d of %d", name, b.Delta, metric, covered[metric], n)
				}
				if float64(quarter[metric]) >= 0.79*float64(n) {
					t.Errorf("%s: intervals of a quarter of the width cover %d of %d; the test has no power", metric, quarter[metric], n)
				}
			}
		}
	}
}

// What is rare has scores that cover: labels of which one in 400 is the positive one, claims of one row in 150, and a target that is 1 in
// three rows of a thousand and 0 elsewhere, or a lognormal claim in one of a hundred. Noise hides these rows in histograms, though nearly all of the loss is theirs. To take what is seen for all there is
// covered nothing.
func TestScoresOfWhatIsRareCover(t *testing.T) {
	for name, c := range map[string]struct {
		a     Metrics
		rate  func(x float64) float64
		least int     // of 40 scores have an interval
		level float64 // of the logarithm of claims; 0: what is rare is 1
	}{
		"labels":     {Metrics{Coefficients: []float64{-6, 0.5}, Labels: true}, func(x float64) float64 { return 1 / (1 + math.Exp(6-x/2)) }, 36, 0},
		"counts":     {Metrics{Coefficients: []float64{-5, 0.4}, Counts: true}, func(x float64) float64 { return math.Exp(0.4*x - 5) }, 0, 0},
		"regression": {Metrics{Coefficients: []float64{0.003, 0}}, func(float64) float64 { return 0.003 }, 20, 0},
		"claims":     {Metrics{Coefficients: []float64{0, 0}, Scale: 5000}, func(float64) float64 { return 0.01 }, 40, 8},
		"hidden":     {Metrics{Coefficients: []float64{0, 0}, TargetUnscaled: true}, func(float64) float64 { return 0.01 }, 0, 8},
		"unscaled":   {Metrics{Coefficients: []float64{0, 0}, TargetUnscaled: true}, func(float64) float64 { return 0.1 }, 30, 8},
	} {
		draw := func(seed uint64, n int) table.Data {
			x := plantest.Scored(seed, n, false)
			r := rand.New(rand.NewPCG(seed, 9))
			for i, v := range x.X[0] {
				if x.Y[i] = 0; r.Float64() < c.rate(v) {
					x.Y[i] = 1
					if c.level > 0 {
						x.Y[i] = math.Exp(c.level + 1.2*r.NormFloat64())
					}
				}
			}
			if c.a.Counts {
				x.Exposure = table.Repeat(1, n)
			}
			return x
		}
		law := exactMetrics(c.a, draw(777, 2_000_000))
		for _, delta := range []float64{1e-6, 0} {
			given, missed := map[string]int{}, map[string]int{}
			for seed := range uint64(40) {
				for _, m := range plantest.Run(t, c.a, draw(100+seed, 20_000), privacy.Budget{Epsilon: 1, Delta: delta}, seed).Metrics {
					if m.Low == nil {
						continue
					}
					if given[m.Name]++; *m.Low > law[m.Name] || law[m.Name] > *m.High {
						missed[m.Name]++
					}
				}
			}
			t.Logf("%s, delta %v: given %v, missed %v", name, delta, given, missed)
			for metric, n := range missed {
				if n > 6 {
					t.Errorf("%s, delta %v: %s missed in %d of %d", name, delta, metric, n, given[metric])
				}
			}
			if tells := map[string]string{"labels": "log_loss", "regression": "mean_absolute_error", "claims": "mean_absolute_error", "unscaled": "mean_absolute_error"}[name]; tells != "" && given[tells] < c.least {
				t.Errorf("%s, delta %v: %s is given in %d of 40", name, delta, tells, given[tells])
			}
		}
	}
}

// The least count beyond all that is seen is found at once, however far that is.
func TestTheLeastCountBeyondIsFound(t *testing.T) {
	for _, c := range []struct{ mean, edge, want float64 }{{.1, 0, 1}, {.1, 2.5, 1}, {.1, 3, 2}, {.1, 8.4, 3}, {3, 20, 14}} {
		if got := devianceBeyond(c.mean, c.edge); got != unitDeviance(c.want, c.mean) {
			t.Errorf("mean %v, edge %v: %v, that of %v is %v", c.mean, c.edge, got, c.want, unitDeviance(c.want, c.mean))
		}
	}
	for edge := 1.; edge < 1e300; edge *= 10 {
		for _, mean := range []float64{1e-300, 1e-3, edge / 3, edge * 100} {
			if got := devianceBeyond(mean, edge); !(got > edge) {
				t.Errorf("mean %v, edge %v: %v", mean, edge, got)
			}
		}
	}
}

// Intervals of the mean deviance allow for counts that noise hides. Seeds are fixed.
func TestMeanDeviancesCoverHiddenCounts(t *testing.T) {
	for name, c := range map[string]struct {
		mean, scale float64
		rate        func(normal float64) float64
		rows        int
		epsilon     float64
		least       int // of 40 scores have an interval
	}{
		// Three claims in ten policies that have any are 2 and more, of which noise shows none, with deviances far beyond those
		// of 0 and 1. Allowed for as for a tail that begins at a count of 1, 1 of 40 and 16 of 33 covered.
		"rare": {.076, 1, func(v float64) float64 { return .076 * v * v }, 30_000, .3, 30},
		// One in a thousand is above 1,000, as of appearances of comic characters. Where hidden deviances counted as hardly
		// larger than that of the least hidden count, 0 and 3 of 40 covered.
		"heavy": {17, 10, func(v float64) float64 { return 3 * math.Exp(1.85*v) }, 15_000, 1, 20},
	} {
		a := Metrics{Coefficients: []float64{math.Log(c.mean)}, Counts: true, Scale: c.scale}
		draw := func(seed uint64, n int) table.Data {
			src := rand.NewPCG(seed, 9)
			r := rand.New(src)
			x := table.Data{Shape: table.Shape{N: n, D: 1, Intercept: true}, Y: make([]float64, n)}
			for i := range x.Y {
				x.Y[i] = distuv.Poisson{Lambda: c.rate(r.NormFloat64()), Src: src}.Rand()
			}
			return x
		}
		truth := 0.0
		population := draw(1000, 2_000_000)
		for _, y := range population.Y {
			truth += unitDeviance(y, c.mean) / float64(population.N)
		}
		for _, delta := range []float64{0, 1e-6} {
			given, covered := 0, 0
			for seed := range uint64(40) {
				for _, m := range plantest.Run(t, a, draw(seed, c.rows), privacy.Budget{Epsilon: c.epsilon, Delta: delta}, seed).Metrics {
					if m.Name == "mean_deviance" && m.Low != nil {
						if given++; *m.Low <= truth && truth <= *m.High {
							covered++
						}
					}
				}
			}
			t.Logf("%s, delta %v: %d of %d cover %.3f", name, delta, covered, given, truth)
			if given < c.least || float64(covered) < .88*float64(given) {
				t.Errorf("%s, delta %v: %d of %d cover", name, delta, covered, given)
			}
		}
	}
}

// Where one row in a hundred lies 4 to 40 scales away, a few in each of many bins, most of the squares are theirs. At eps 1 noise hides
// each bin and not all of them together: there is hardly an interval. With normal residuals alone there is one in nearly all scores.
// Seeds are fixed. Without the rule 37 of 40 root mean squares, and all mean absolute errors, were given; 37 of each missed.
func TestScoresOfSpreadRowsHaveNoIntervals(t *testing.T) {
	a := Metrics{Coefficients: []float64{0, 0}}
	draw := func(seed uint64, n int, share float64) table.Data {
		x, r := plantest.Scored(seed, n, false), rand.New(rand.NewPCG(seed, 12))
		for i := range x.Y {
			if x.Y[i] = 0.5 * r.NormFloat64(); r.Float64() < share {
				x.Y[i] = math.Copysign(4*math.Pow(10, r.Float64()), x.Y[i])
			}
		}
		return x
	}
	for _, share := range []float64{0.01, 0} {
		given, missed, law := map[string]int{}, map[string]int{}, exactMetrics(a, draw(777, 1_000_000, share))
		for seed := range uint64(40) {
			for _, m := range plantest.Run(t, a, draw(100+seed, 20_000, share), privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Metrics {
				if m.Low == nil {
					continue
				}
				if given[m.Name]++; *m.Low > law[m.Name] || law[m.Name] > *m.High {
					missed[m.Name]++
				}
			}
		}
		t.Logf("%v far away: given %v, missed %v", share, given, missed)
		const name = "root_mean_squared_error"
		if share > 0 && missed[name] > 5 || share == 0 && (given[name] < 36 || missed[name] > 5) {
			t.Errorf("%v far away: %d are given and %d missed", share, given[name], missed[name])
		}
	}
}

// Whatever a table holds, a score ends with numbers, or says why not.
func TestScoresOfAwkwardTables(t *testing.T) {
	fills := map[string]func(i int) float64{
		"missing": func(int) float64 { return math.NaN() }, "zero": func(int) float64 { return 0 }, "constant": func(int) float64 { return 7 },
		"huge": func(i int) float64 { return math.Copysign(math.MaxFloat64, float64(i%2)-.5) }, "tiny": func(int) float64 { return 5e-324 },
		"infinite": func(int) float64 { return math.Inf(-1) },
	}
	for kind, a := range scores() {
		for name, fill := range fills {
			for _, delta := range []float64{1e-6, 0} {
				for _, n := range []int{1, 5000} {
					x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
					for i := range n {
						plantest.SetRow(x, i, func(int) float64 { return fill(i) })
					}
					for _, m := range plantest.Run(t, a, x, privacy.Budget{Epsilon: 1, Delta: delta}, 1).Metrics {
						if (m.Value == nil || m.Low == nil) != (m.WhyNull != "") || (m.Low == nil) != (m.High == nil) {
							t.Errorf("%s, %s: %+v", kind, name, m)
						}
					}
				}
			}
		}
	}
}

// A column that is positive is rounded to the nearest step of the grid, so that no part of
// it is lost: truncation would take half a step from every row.
func TestStepsOfScoresAreRounded(t *testing.T) {
	const n = 200_000
	g := &scoring{Metrics: Metrics{Scale: 1}, shape: table.Shape{N: n, D: 1}, noises: map[string]mech.Mechanism{momentsRelease: mech.Gaussian{NoiseMultiplier: 0x1p-10}}}
	m := &measured{scoring: g, cut: 1, squareCut: 1, deviationCut: 1}
	step := g.momentContract().Step() / g.weight()
	rows := scoredRows{table.Data{Shape: table.Shape{N: n, D: 1}, X: table.NewColumns(1, n), Y: make([]float64, n)}}
	for i := range n {
		rows.X[0][i] = 0.25 + step*(float64(i)+0.5)/n
	}
	released := m.releaseMoments(rows, mechtest.Source(t, 1))
	got, want := released.value(released.form(0, 1, 0, 0, 0)), 0.25+step/2
	if math.Abs(got-want) > step/8 {
		t.Errorf("%v steps off", (got-want)/step)
	}
}

func TestMetricsAreNamed(t *testing.T) {
	for _, c := range []struct {
		labels, counts bool
		delta          float64
		names          []string
	}{
		{false, false, 1e-6, []string{"r2", "mean_absolute_error", "root_mean_squared_error"}},
		{false, false, 0, []string{"mean_absolute_error"}},
		{true, false, 1e-6, []string{"log_loss", "accuracy", "brier_score"}},
		{true, false, 0, []string{"log_loss", "accuracy"}},
		{false, true, 1e-6, []string{"deviance_explained", "mean_deviance"}},
		{false, true, 0, []string{"mean_deviance"}},
	} {
		a := Metrics{Coefficients: []float64{0, 1}, Labels: c.labels, Counts: c.counts}
		var names []string
		for _, m := range plantest.Run(t, a, a.table(3, 100), privacy.Budget{Epsilon: 1, Delta: c.delta}, 1).Metrics {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, c.names) {
			t.Errorf("%v, want %v", names, c.names)
		}
	}
}

// A root mean square is at least the mean of absolute values, whatever the noise is.
func TestRootsOfMeanSquaresAreNotBelowMeans(t *testing.T) {
	a := Metrics{Coefficients: []float64{0, 1}}
	both := 0
	for seed := range uint64(60) {
		metrics := plantest.Run(t, a, a.table(3, 400), privacy.Budget{Epsilon: 0.5, Delta: 1e-6}, seed).Metrics
		mean, root := metrics[1], metrics[2]
		if mean.Value == nil || root.Value == nil {
			continue
		}
		both++
		if *root.Value < *mean.Value || root.Low != nil && (*root.Low > *root.Value || *root.High < *root.Value || mean.Low != nil && *root.Low < *mean.Low) {
			t.Errorf("seed %d: %v beside %v", seed, *root.Value, *mean.Value)
		}
	}
	if both == 0 {
		t.Error("none has both")
	}
}

// The mean of a heavy tail has no interval where noise hides so much of each bin that the tail may be anywhere, and has one where it is
// seen. The mean of squares of such a tail has none, for its second moment may not exist.
func TestHeavyTailsOfScores(t *testing.T) {
	const rows = 20_000
	for sd, want := range map[float64]string{20: "", 60: "", 200: whyHeavyTail} {
		counts := make([]float64, magnitude.Bins)
		for k, left := 10, float64(rows); k < magnitude.Bins; k, left = k+1, left/1.3 { // an index of .76
			counts[k] = left * 0.3 / 1.3
		}
		seen := magnitude.Read(counts, sd, 1, math.Inf(1), rows).AsRun()
		if got := magnitude.MeanIndex.Refuses(seen, whyHeavyTail); got != want {
			t.Errorf("noise of %v rows: %q, want %q", sd, got, want)
		}
		if got := squareIndex.Refuses(seen, whyHeavyTail); got != whyHeavyTail {
			t.Errorf("noise of %v rows: the mean of squares has an interval", sd)
		}
	}
}
