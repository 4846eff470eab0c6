package dpsco

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"
)

// centres is the search for these columns by both histograms.
func centres(columns []numericColumn) centreSearch {
	return centreSearch{columns, positionShare, detailShare}
}

// standardisedFits are fits on standardised columns of a shape: the one with a target has it moved, too.
func standardisedFits(s table.Shape) map[string]standardised {
	var of []numericColumn
	for j := range s.Columns() {
		of = append(of, numericColumn{column: j})
	}
	ball := prox.L2Ball{Radius: 10}
	descent := Descent{Loss: loss.Squared{}, Psi: ball, Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 3, Rate: .1}}
	return map[string]standardised{
		"descent":       {Fit: descent, Centres: centreSearch{Columns: []numericColumn{{column: histogram.Target}}, Position: targetShare}},
		"Huber descent": {Fit: Centred{Descent: Descent{Loss: loss.Huber{Delta: 1}, Psi: prox.Zero{}, Mean: mean.Clip{Norm: 1}, Solver: descent.Solver}, Bound: 2, Ratio: 1}, Centres: centreSearch{Columns: []numericColumn{{column: histogram.Target}}, Position: targetShare}},
		"least squares": {Fit: JointMoments{Bound: 2, Scale: 1, Psi: ball, Meat: true}, Centres: centres(append(of[:len(of):len(of)], numericColumn{column: histogram.Target}))},
		"labels":        {Fit: Newton{Curve: logisticCurve{}, Bound: 2, Psi: ball, Intervals: true}, Centres: centres(of)},
		"Huber":         {Fit: Newton{Curve: huberCurve{delta: 1, cut: 2}, Bound: 2, Psi: ball, Intervals: true}, Centres: centres(append(of[:len(of):len(of)], numericColumn{column: histogram.Target, unit: true}))},
		"counts":        {Fit: Newton{Curve: poissonCurve{unit: 1, scale: 1, cut: 4}, Bound: 2, Psi: ball, Intervals: true}, Centres: centres(of)},
	}
}

// standardisedPlan is a plan that may release less than it charges: without a column near a value there is no
// second histogram.
func standardisedPlan(t *testing.T, a standardised, s table.Shape, z float64) *plan.Plan {
	p := planOf(t, a, s, z)
	p.Method = plantest.MayReleaseLess
	return p
}

// nearNeighbours are neighbours whose columns lie together near 1, but for one row, so that these are moved.
func nearNeighbours(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	a, _ = plantest.Neighbours(r, s, labels)
	other := r.IntN(s.N)
	for i := range s.N {
		y := a.Y[i]
		if i != other || r.IntN(2) == 0 {
			plantest.SetRow(a, i, func(j int) float64 { return 0.97 + 0.001*float64(i+max(j, 0)) })
		}
		if labels {
			a.Y[i] = y
		}
	}
	b = plantest.Clone(a)
	plantest.SetRow(b, other, func(int) float64 { return plantest.Hostile(r) })
	if labels {
		b.Y[other] = float64(r.IntN(2))
	}
	return a, b
}

// nearRecords are such neighbours with records of several rows.
func nearRecords(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	sizes, rows := make([]int, s.N), s
	rows.N = 0
	for u := range sizes {
		sizes[u] = 1 + r.IntN(plantest.MaxFellows)
		rows.N += sizes[u]
	}
	x, _ := nearNeighbours(r, rows, labels)
	rows.N = plantest.MaxFellows
	y, z := plantest.Neighbours(r, rows, labels)
	changed := r.IntN(s.N)
	return plantest.WithRecord(x, sizes, changed, y, 1+r.IntN(plantest.MaxFellows)), plantest.WithRecord(x, sizes, changed, z, 1+r.IntN(plantest.MaxFellows))
}

// One replaced row moves the integers of both histograms, and of all releases of the fit on columns that were
// moved, by no more than their noise is scaled to hide.
func TestStandardisedFitsReplay(t *testing.T) {
	moved := map[string]int{}
	replayStandardised(t, 31, standardisedFits, func(*rand.Rand, string, table.Data, table.Data) {}, func(name string, a standardised, z float64, x table.Data) bool {
		if look(t, a, x.Shape, z, x) != nil {
			moved[name]++
		}
		return false
	})
	for name := range standardisedFits(table.Shape{N: 1, D: 2}) {
		if moved[name] < 12 {
			t.Errorf("%s: columns were moved in %d of 160 pairs", name, moved[name])
		}
	}
}

// So it is where the target lies far beyond its scale, and is shifted by the first histogram alone.
func TestFitsOfFarTargetsReplay(t *testing.T) {
	far := map[string]int{}
	numbers := func(s table.Shape) map[string]standardised {
		fits := standardisedFits(s)
		delete(fits, "labels")
		delete(fits, "counts")
		return fits
	}
	replayStandardised(t, 33, numbers, func(_ *rand.Rand, _ string, x, y table.Data) { shiftBy(x.Y, 13); shiftBy(y.Y, 13) }, func(name string, a standardised, z float64, x table.Data) bool {
		if moved := look(t, a, x.Shape, z, x); moved != nil && moved.CentreY < -2 {
			far[name]++
		}
		return false
	})
	for name := range numbers(table.Shape{N: 1, D: 2}) {
		if far[name] < 12 {
			t.Errorf("%s: the target was shifted from afar in %d of 160 pairs", name, far[name])
		}
	}
}

// replayStandardised replays fits on 160 pairs of neighbours each, after change, and counts those that shows holds for.
func replayStandardised(t *testing.T, seed uint64, fits func(table.Shape) map[string]standardised, change func(r *rand.Rand, name string, x, y table.Data), shows func(name string, a standardised, z float64, x table.Data) bool) (count int) {
	t.Helper()
	largest := map[string]float64{}
	r := rand.New(rand.NewPCG(seed, 1))
	for k := range 160 {
		s := table.Shape{N: 1 + r.IntN(23), D: 2 + k%3, Intercept: true}
		of := fits(s)
		for _, name := range slices.Sorted(maps.Keys(of)) { // in one order: all draw from r
			a := of[name]
			made := []func(*rand.Rand, table.Shape, bool) (table.Data, table.Data){nearNeighbours, plantest.Neighbours, nearNeighbours, nearRecords}[k%4]
			x, y := made(r, s, name == "labels")
			if name == "counts" && k%4 < 2 {
				plantest.AsCounts(r, &x, &y)
			}
			change(r, name, x, y)
			z := []float64{0.005, 0.1, 3}[k%3]
			shares, err := plantest.Replay(t, func() *plan.Plan { return standardisedPlan(t, a, s, z) }, x, y)
			if err != nil {
				t.Fatalf("%s, pair %d: %v", name, k, err)
			}
			for kind, share := range shares {
				largest[kind] = max(largest[kind], share)
			}
			if shows(name, a, z, x) {
				count++
			}
		}
	}
	reachTheirBounds(t, largest)
	return count
}

// look returns where a fit at a noise multiplier moves columns.
func look(t *testing.T, a standardised, s table.Shape, z float64, x table.Data) *Scaled {
	if !standardises(a.Fit) && a.Fit != nil { // their noise is that of one estimate
		cost, err := privacy.Price(planOf(t, a.Fit, s, z).Event)
		if err != nil {
			t.Fatal(err)
		}
		return placement(plantest.Clone(x), a.Centres.Columns, mech.Gaussian{NoiseMultiplier: math.Sqrt((1 - a.Centres.Position) / (2 * cost.Rho * a.Centres.Position))}, nil, mechtest.Source(t, 1))
	}
	position, detail := mech.Gaussian{NoiseMultiplier: z / math.Sqrt(positionShare)}, mech.Gaussian{NoiseMultiplier: z / math.Sqrt(detailShare)}
	return placement(plantest.Clone(x), a.Centres.Columns, position, detail, mechtest.Source(t, 1))
}

// Every way to be wrong is found by a replay.
func TestStandardisedReplaysRefuteMutants(t *testing.T) {
	s := table.Shape{N: 20, D: 3, Intercept: true}
	a := standardisedFits(s)["least squares"]
	const z = 0.005
	refutePlacements(t, s, func() *plan.Plan { return standardisedPlan(t, a, s, z) }, func() *plan.Plan { return standardisedPlan(t, a, s, z/2) })
}

// refutePlacements breaks plans that begin with both histograms of positions, and checks that replays notice. less
// makes plans with half of the noise.
func refutePlacements(t *testing.T, s table.Shape, planned, less func() *plan.Plan) {
	t.Helper()
	for name, mutant := range map[string]func(p *plan.Plan){
		"nothing":           func(*plan.Plan) {},
		"half of the noise": func(p *plan.Plan) { p.WithRun(less().Run) },
		"not charged":       func(p *plan.Plan) { p.Event = p.Event.(privacy.Compose)[1:] },
		"details not charged": func(p *plan.Plan) {
			p.Event = append(p.Event.(privacy.Compose)[:1:1], p.Event.(privacy.Compose)[2:]...)
		},
		"moved by the data": func(p *plan.Plan) {
			p.Wrap(func(inner plan.RunFunc) plan.RunFunc {
				return func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
					if v := x.X[0][0]; math.Abs(v) < 1e3 {
						shiftBy(x.X[0], v)
					}
					return inner(ctx, x, src)
				}
			})
		},
	} {
		var found error
		r := rand.New(rand.NewPCG(32, 2))
		for range 60 {
			x, y := nearNeighbours(r, s, false)
			_, err := plantest.Replay(t, func() *plan.Plan {
				p := planned()
				mutant(p)
				return p
			}, x, y)
			if err != nil {
				found = err
				break
			}
		}
		if (found != nil) != (name != "nothing") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Columns whose values lie together, away from 0, are moved to where they lie; others stay.
func TestColumnsThatLieTogetherAreMoved(t *testing.T) {
	const n = 20_000
	for name, c := range map[string]struct {
		value  func(r *rand.Rand) float64
		zero   float64
		centre float64
		scale  float64 // 0: it stays
	}{
		"years":                     {func(r *rand.Rand) float64 { return float64(1995+r.IntN(20)) / 2000 }, 0, 1.002, 0.0039},
		"a pressure":                {func(r *rand.Rand) float64 { return 1.013 + 0.0075*r.NormFloat64() }, 0, 1.013, 0.009},
		"two years":                 {func(r *rand.Rand) float64 { return float64(1992+12*r.IntN(2)) / 2000 }, 0, 0.999, 0.003},
		"below a registered center": {func(r *rand.Rand) float64 { return -1.5 + 0.01*r.NormFloat64() }, -10, -1.5, 0.012},
		"about a registered center": {func(r *rand.Rand) float64 { return 0.01 * r.NormFloat64() }, -10, 0, 0.012},
		"normal":                    {func(r *rand.Rand) float64 { return r.NormFloat64() }, 0, 0, 0},
		"an age":                    {func(r *rand.Rand) float64 { return 0.2 + 0.6*r.Float64() }, 0, 0, 0},
		"amounts, mostly 0":         {func(r *rand.Rand) float64 { return max(0, r.ExpFloat64()-3) }, 0, 0, 0},
		"small amounts":             {func(r *rand.Rand) float64 { return 0.003 * r.ExpFloat64() }, 0, 0, 0},
		"mostly one value": {func(r *rand.Rand) float64 {
			return []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, r.Float64()}[r.IntN(10)]
		}, 0, 0, 0},
		"mostly one value, others near": {func(r *rand.Rand) float64 {
			return 1 + []float64{0, 0, 0, 0.03 * r.NormFloat64()}[r.IntN(4)]
		}, 0, 0, 0},
		"a tenth far away": {func(r *rand.Rand) float64 {
			return []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 0.2}[r.IntN(10)] + 0.005*r.NormFloat64()
		}, 0, 0, 0},
		"far out": {func(r *rand.Rand) float64 { return 2000 + 0.01*r.NormFloat64() }, 0, 0, 0},
	} {
		r := rand.New(rand.NewPCG(7, 7))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			x.X[0][i] = c.value(r)
		}
		got := look(t, standardised{Centres: centres([]numericColumn{{column: 0, zero: c.zero}})}, x.Shape, 4, x)
		switch {
		case got == nil && c.scale != 0 || got != nil && c.scale == 0:
			t.Errorf("%s: %+v", name, got)
		case got != nil && (math.Abs(got.CentreX[0]-c.centre) > 0.4*c.scale || math.Abs(got.X[0]/c.scale-1) > 0.35):
			t.Errorf("%s: center %v and scale %v, not %v and %v", name, got.CentreX[0], got.X[0], c.centre, c.scale)
		}
	}
}

// The logarithm of a price, 12 give or take 0.6 at a scale of 1, is shifted to where it lies. The mean square of residuals is
// then 0.002 and 0.03 % above the least in the median of nine draws; from 0 it was 1 and 50 % above by least squares and by
// Huber's loss. Fits of few rows, by a descent, are 0.9 % above it, and were 250 times the least. Seeds are fixed.
func TestATargetFarBeyondItsScaleIsFound(t *testing.T) {
	for _, c := range []struct {
		loss loss.Loss
		rows int
		most float64
	}{{loss.Squared{}, 20_000, 0.002}, {loss.Huber{}, 20_000, 0.002}, {loss.Squared{}, 1500, 0.05}, {loss.Huber{}, 1500, 0.05}} {
		r := rand.New(rand.NewPCG(4, 8))
		x := table.Data{Shape: table.Shape{N: c.rows, D: 8, Intercept: true}, X: table.NewColumns(7, c.rows), Y: make([]float64, c.rows)}
		least, true := 0.0, []float64{12}
		for j := range x.X {
			true = append(true, 0.2*float64(1-2*(j%2)))
		}
		for i := range x.Y {
			e := 0.3 * r.NormFloat64()
			x.Y[i] = true[0] + e
			for j := range x.X {
				x.X[j][i] = r.NormFloat64()
				x.Y[i] += true[1+j] * x.X[j][i]
			}
			least += e * e
		}
		var above []float64
		for seed := range uint64(9) {
			got := resultOf(t, Scaled{Algorithm: Regression{Loss: c.loss}, X: table.Repeat(1, 7), Y: 1}, x, 1, seed)
			sum := 0.0
			for i, y := range x.Y {
				fit := got.Coefficients[0]
				for j := range x.X {
					fit += got.Coefficients[j+1] * x.X[j][i]
				}
				sum += square(y - fit)
			}
			above = append(above, sum/least-1)
		}
		t.Logf("%T, %d rows: %.3g", c.loss, c.rows, above)
		if m := medianOf(above); !(m < c.most) {
			t.Errorf("%T, %d rows: the mean square is %v times the least above it", c.loss, c.rows, m)
		}
	}
}

// A target that lies together beyond 2 scales is shifted, also where a tenth of it is 0, and keeps its scale; a feature stays, and
// so does a target that spreads over octaves.
func TestWhatIsFarIsShiftedAlone(t *testing.T) {
	const n = 20_000
	var r *rand.Rand
	log := func() float64 { return 12 + 0.6*r.NormFloat64() }
	for name, c := range map[string]struct {
		value  func() float64
		column int
		zero   float64
		centre float64
	}{
		"a logarithm":          {log, histogram.Target, 0, 12},
		"below zero":           {func() float64 { return -log() }, histogram.Target, 0, -12},
		"some are 0":           {func() float64 { return log() * float64(min(1, r.IntN(10))) }, histogram.Target, 0, 12},
		"near and far":         {func() float64 { return 2 + 0.01*r.NormFloat64() }, histogram.Target, 0, 2},
		"amounts":              {func() float64 { return 12 * math.Exp(r.NormFloat64()) }, histogram.Target, 0, 0},
		"beyond all bins":      {func() float64 { return 2000 + 0.01*r.NormFloat64() }, histogram.Target, 0, 0},
		"a feature":            {log, 0, 0, 0},
		"about its own center": {func() float64 { return 0.9 + 0.6*r.NormFloat64() }, histogram.Target, -12, 0},
	} {
		r = rand.New(rand.NewPCG(5, 9)) // whatever the order
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			x.X[0][i], x.Y[i] = r.NormFloat64(), r.NormFloat64()
			if v := c.value(); c.column == histogram.Target {
				x.Y[i] = v
			} else {
				x.X[0][i] = v
			}
		}
		got := look(t, standardised{Centres: centres([]numericColumn{{column: c.column, zero: c.zero}})}, x.Shape, 4, x)
		switch {
		case got == nil && c.centre != 0 || got != nil && c.centre == 0:
			t.Errorf("%s: %+v", name, got)
		case got != nil && (math.Abs(got.CentreY-c.centre) > 0.6 || got.Y != 1 || got.X[0] != 1 || got.CentreX[0] != 0):
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A feature that lies together at the edge of the bins of one width is moved and rescaled as any other: a pressure of 1018
// give or take 7 with a scale of 512.
func TestAFeatureAtTheEdgeOfBinsIsMoved(t *testing.T) {
	const n = 20_000
	for _, sign := range []float64{1, -1} {
		r := rand.New(rand.NewPCG(5, 9))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			x.X[0][i], x.Y[i] = sign*(1018+7*r.NormFloat64())/512, r.NormFloat64()
		}
		got := look(t, standardised{Centres: centres([]numericColumn{{column: 0}})}, x.Shape, 4, x)
		if got == nil || math.Abs(got.CentreX[0]-sign*1018/512) > 0.05 || got.X[0] > 0.1 || got.Y != 1 {
			t.Errorf("at %v: %+v", sign*2, got)
		}
	}
}

// A column moves where options do not speak of its unit, and where there is a constant to take up its center.
func TestWhatIsStandardised(t *testing.T) {
	flags := func(flags ...int) Scaled { return Scaled{X: []float64{1, 1}, Y: 1, Flags: flags} }
	for name, c := range map[string]struct {
		a         Regression
		facts     Scaled
		intercept bool
		columns   int
	}{
		"least squares":    {Regression{Loss: loss.Squared{}}, flags(), true, 3},
		"a flag":           {Regression{Loss: loss.Squared{}}, flags(1), true, 2},
		"flags alone":      {Regression{Loss: loss.Squared{}}, flags(0, 1), true, 0},
		"an offset":        {Regression{Loss: loss.Squared{}, Offset: "o"}, flags(), true, 2},
		"weights":          {Regression{Loss: loss.Squared{}, Weight: "w", MaxWeight: 2}, flags(), true, 2},
		"a residual scale": {Regression{Loss: loss.Squared{}, ResidualScale: 2}, flags(), true, 3},
		"a radius":         {Regression{Loss: loss.Squared{}, Radius: 5}, flags(), true, 0},
		"a penalty":        {Regression{Loss: loss.Squared{}, Penalty: catalogue.PenaltyL2, Lambda: 0.1}, flags(), true, 0},
		"no intercept":     {Regression{Loss: loss.Squared{}}, flags(), false, 0},
		"Huber":            {Regression{Loss: loss.Huber{Delta: 1}}, flags(), true, 3},
		"labels":           {Regression{Loss: loss.Logistic{}, Labels: true}, flags(), true, 2},
		"counts":           {Regression{Loss: loss.Poisson{}}, flags(), true, 2},
		"a descent":        {Regression{Loss: loss.Squared{}, Method: "gd"}, flags(), true, 0},
		"no public facts":  {Regression{Loss: loss.Squared{}}, Scaled{}, true, 0},
	} {
		s := table.Shape{N: 20_000, D: 2, Intercept: c.intercept}
		if c.intercept {
			s.D++
		}
		p, err := c.a.withPublicFacts(c.facts).(Regression).resolve(s, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil {
			t.Fatal(name, err)
		}
		f, err := p.withNoise(5).fit()
		if err != nil {
			t.Fatal(name, err)
		}
		if a, _ := f.(standardised); len(a.Centres.Columns) != c.columns {
			t.Errorf("%s: columns %v are standardised, not %d", name, a.Centres.Columns, c.columns)
		}
	}
}

// Where there are too few rows for the other methods a descent looks where its target lies, unless a center says so, with as
// much of the budget as that takes, and not where noise would hide it; the histogram costs that share.
func TestDescentsLookWhereTheirTargetLies(t *testing.T) {
	for _, c := range []struct {
		rows   int
		eps    float64
		centre float64
		share  float64
	}{{2_000, 1, 0, 0.0259}, {1_500, 1, 0, 0.0460}, {5_000, .3, 0, 0.0398}, {1_200, 1, 0, targetShare}, {900, 1, 0, targetShare}, {500, 1, 0, 0}, {900, 1, 0.7, 0}} {
		facts := Scaled{X: table.Repeat(1, 9), Y: 1, CentreY: c.centre}
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{}} {
			a, first := standardisedOf(t, Regression{Loss: l}.withPublicFacts(facts).(Regression), table.Shape{N: c.rows, D: 10, Intercept: true}, privacy.Budget{Epsilon: c.eps, Delta: 1e-6})
			if math.Abs(a.Centres.Position-c.share) > 2e-3 || a.Centres.Detail != 0 || a.Fit != nil && standardises(a.Fit) {
				t.Errorf("%T, %d rows at eps %v: %v of the budget says where the target of %T lies, and not %v", l, c.rows, c.eps, a.Centres.Position, a.Fit, c.share)
			}
			if c.share > 0 && math.Abs(first-a.Centres.Position) > 1e-6 {
				t.Errorf("%d rows: the histogram has %v of the budget", c.rows, first)
			}
		}
	}
}

// A target of 7.5 give or take 0.27 at a scale of 10, of too few rows for other methods: least squares leaves 0.30 of its variance,
// and a descent from where most of it lies about as little. From 0 it left 0.50 to 1.9 in nine draws. Seeds are fixed.
func TestDescentsFindATargetFarFromZero(t *testing.T) {
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{}} {
		r := rand.New(rand.NewPCG(3, 8))
		x := table.Data{Shape: table.Shape{N: 3000, D: 6, Intercept: true}, X: table.NewColumns(5, 3000), Y: make([]float64, 3000)}
		mean, variance := 0.0, 0.0
		for i := range x.Y {
			x.Y[i] = 7.5
			for j := range x.X {
				x.X[j][i] = r.NormFloat64()
				x.Y[i] += 0.1 * x.X[j][i]
			}
			x.Y[i] += 0.15 * r.NormFloat64()
			mean += x.Y[i] / 3000
		}
		for _, y := range x.Y {
			variance += square(y-mean) / 3000
		}
		var errors []float64
		for seed := range uint64(9) {
			got := resultOf(t, Scaled{Algorithm: Regression{Loss: l}, X: table.Repeat(1, 5), Y: 10}, x, 0.3, seed)
			sum := 0.0
			for i, y := range x.Y {
				fit := got.Coefficients[0]
				for j := range x.X {
					fit += got.Coefficients[j+1] * x.X[j][i]
				}
				sum += square(y-fit) / 3000
			}
			errors = append(errors, sum/variance)
		}
		t.Logf("%T: %.3g", l, errors)
		if m := medianOf(errors); m > 0.4 {
			t.Errorf("%T: %v of the variance is left", l, m)
		}
	}
}

// A target of which four in five are one value, and the others two thirds of the scale below it where a flag is true: the slope of the flag
// is found as where nobody looks (-0.90 of -1). In a unit as small as the bin of that value it was -0.11. Seeds are fixed.
func TestDescentsSeeBesideAnAtom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	x := table.Data{Shape: table.Shape{N: 3000, D: 6, Intercept: true}, X: table.NewColumns(5, 3000), Y: make([]float64, 3000)}
	for i := range x.Y {
		for j := range x.X {
			x.X[j][i] = r.NormFloat64()
		}
		if x.X[0][i], x.Y[i] = 0, 1.5; r.IntN(5) == 0 {
			x.X[0][i], x.Y[i] = 1, 0.5
		}
	}
	var slopes []float64
	for seed := range uint64(9) {
		slopes = append(slopes, resultOf(t, Scaled{Algorithm: Regression{Loss: loss.Squared{}}, X: table.Repeat(1, 5), Y: 1, Flags: []int{0}}, x, 0.3, seed).Coefficients[1])
	}
	if t.Logf("%.3g", slopes); medianOf(slopes) > -0.8 {
		t.Errorf("slopes %.3g of -1", slopes)
	}
}

// A descent on a target that is moved minimises the loss that was asked for: a tenth of the rows far above the others move the
// intercept of least squares by 0.08, and that of a delta of 0.2, in the unit of the scale, by 0.022.
func TestDescentsKeepTheirDelta(t *testing.T) {
	const n = 4000
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.2}} {
		r := rand.New(rand.NewPCG(4, 9))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range x.Y {
			x.X[0][i], x.Y[i] = r.NormFloat64(), 1+0.02*r.NormFloat64()
			if i%10 == 0 {
				x.Y[i] += 0.8
			}
		}
		descent := Descent{Loss: l, Psi: prox.L2Ball{Radius: 10}, Mean: mean.Clip{Norm: 50}, Solver: solve.GD{Steps: 400, Rate: 0.5}}
		g, err := standardised{Fit: descent, Centres: centreSearch{Columns: []numericColumn{{column: histogram.Target}}, Position: targetShare}}.at(x.Shape, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got.moved == nil {
			t.Fatalf("%T: the target is not moved", l)
		}
		got.moved.unscaleResult(&got.Result)
		_, huber := l.(loss.Huber)
		if off := got.Coefficients[0] - 1; math.Abs(off-map[bool]float64{false: 0.08, true: 0.0222}[huber]) > 0.003 {
			t.Errorf("%T: the intercept is 1 + %v", l, off)
		}
	}
}

// What is charged at a noise multiplier is what one release with it costs.
func TestStandardisedFitsCostWhatTheyRelease(t *testing.T) {
	s := table.Shape{N: 1000, D: 4, Intercept: true}
	for _, fits := range []map[string]standardised{standardisedFits(s), findingFits(s)} {
		for name, a := range fits {
			if !standardises(a.Fit) {
				continue
			}
			cost, err := privacy.Price(planOf(t, a, s, 3).Event)
			if err != nil || math.Abs(cost.Rho*2*9-1) > 1e-9 {
				t.Errorf("%s: rho %v of %v, %v", name, cost.Rho, 1./18, err)
			}
		}
	}
}

// The default ball has the registered unit of a target that is moved: slopes of 1, or of 100 in the unit of the
// moved target, are within it.
func TestTheBallKeepsItsUnit(t *testing.T) {
	const n = 20_000
	r := rand.New(rand.NewPCG(9, 9))
	x := table.Data{Shape: table.Shape{N: n, D: 4, Intercept: true}, X: table.NewColumns(3, n), Y: make([]float64, n)}
	for i := range n {
		x.Y[i] = 0.97 + 0.005*r.NormFloat64()
		for j := range x.X {
			x.X[j][i] = 0.02 * r.Float64()
			x.Y[i] += x.X[j][i]
		}
	}
	a := Scaled{Algorithm: Regression{Loss: loss.Squared{}}, X: []float64{1, 1, 1}, Y: 1}
	got := resultOf(t, a, x, 10, 1)
	if got.Cut || got.Low == nil {
		t.Errorf("cut: %v, %s", got.Cut, got.WhyNull)
	}
	for j, v := range got.Coefficients[1:] {
		if math.Abs(v-1) > 0.05 {
			t.Errorf("slope %d is %v", j, v)
		}
	}
}

// A ladder leaves time for every statement that a database is asked, also those of columns that are moved.
func TestStatementsOfPositionsAreForeseen(t *testing.T) {
	x := normalTable(3, 4000, 1, 2, 3, 4)
	for _, column := range append(x.X, x.Y) {
		for i := range column {
			column[i] = 1 + column[i]/100
		}
	}
	algorithm := Scaled{Algorithm: Regression{Loss: loss.Huber{Delta: 1}}, X: table.Repeat(1, len(x.X)), Y: 1}
	p, err := algorithm.Plan(x.Shape, privacy.Budget{Epsilon: 8, Delta: 1e-6}, privacy.Concentrated{})
	if err != nil || !p.Sums {
		t.Fatal(p, err)
	}
	there, made := pushedDown(x), 0
	totals := there.Pushdown.Totals
	there.Pushdown.Totals = func(pass sqlsum.Pass) (sqlsum.Totals, error) {
		made++
		return totals(pass)
	}
	if _, err := p.Run(t.Context(), there, mechtest.Source(t, 2)); err != nil {
		t.Fatal(err)
	}
	p.InDatabase = true
	if took := time.Duration(float64(made) * plan.SecondsPerStatement * float64(time.Second)); made <= p.Passes || p.Duration() < took {
		t.Errorf("%d statements where %d passes are foretold; the ladder is for %v", made, p.Passes, p.Duration())
	}
}

// How often a fit misses the center of a year that has none: its slope is then far from those of other draws, by ten
// times their median deviation: where the noise of one count looks like values far away (standsFar). With enough rows that is
// hardly ever so; at 1.6 deviations it was one draw in fifteen, at any number of rows. Seeds are fixed.
// DPSIDECAR_EXPERIMENTS=full prints what docs/experiments/forecasts.md says.
func TestHowOftenACentreIsMissed(t *testing.T) {
	draws, tables := 100, []int{20_000}
	if full {
		draws, tables = 200, []int{5000, 10_000, 20_000, 50_000}
	}
	for _, n := range tables {
		r := rand.New(rand.NewPCG(uint64(n), 5))
		x := table.Data{Shape: table.Shape{N: n, D: 5, Intercept: true}, X: table.NewColumns(4, n), Y: make([]float64, n)}
		for i := range x.Y {
			x.X[0][i], x.X[1][i], x.X[2][i], x.X[3][i] = math.Floor(2005+20*r.Float64()), 20+50*r.Float64(), 1000*math.Exp(r.NormFloat64()), float64(r.IntN(2))
			x.Y[i] = 9000 + 40*(x.X[0][i]-2015) + 5*x.X[1][i] + 200*r.NormFloat64()
		}
		for _, eps := range []float64{0.3, 1} {
			if !full && eps < 1 {
				continue
			}
			var slopes []float64
			for seed := range uint64(draws) {
				p, err := withoutScales(Regression{Loss: loss.Squared{}}, x.Shape).Plan(x.Shape, privacy.Budget{Epsilon: eps, Delta: 1e-6}, privacy.Concentrated{})
				if err != nil || !p.FindsScales {
					t.Fatalf("%v: %+v", err, p)
				}
				fit, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, seed))
				if err != nil {
					t.Fatal(err)
				}
				slopes = append(slopes, fit.Coefficients[1])
			}
			off := make([]float64, draws)
			middle := medianOf(slopes)
			for k, w := range slopes {
				off[k] = math.Abs(w - middle)
			}
			usual, missed := medianOf(off), 0
			for _, d := range off {
				if d > 10*usual {
					missed++
				}
			}
			if t.Logf("%d rows, eps %v: slope %.3g, median deviation %.2g, %d of %d draws beyond ten of these, at most %.2g", n, eps, middle, usual, missed, draws, slices.Max(off)); n >= 20_000 && eps == 1 && missed > draws/50 {
				t.Errorf("%d of %d", missed, draws)
			}
		}
	}
}
