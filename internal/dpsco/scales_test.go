package dpsco

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// Scales of features that are guessed a hundred times too small, or of one feature a thousand times, cost little: the first
// pass shortens all rows to next to nothing, and says by how much. Without that the excess with all features is 1.4 % of
// least squares, 0.05 % of labels and 93 % of Huber's loss. Least squares sees scales that are 25 times too small as well. There is no interval. Seeds are fixed.
func TestScalesThatAreFarTooSmallCostLittle(t *testing.T) {
	for _, a := range []Regression{{Loss: loss.Squared{}}, {Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		cases := map[float64][]int{1000: {1}, 100: {0, 1, 2, 3}}
		if _, squares := a.Loss.(loss.Squared); squares {
			cases[25] = []int{0, 1, 2, 3}
		}
		for times, features := range cases {
			x := drawLaw("gauss", 30_000, 5, 1)
			if a.Labels {
				x = labelLaw("gauss", 30_000, 5, 1)
			}
			x.X = plantest.Clone(x).X
			for _, j := range features {
				for i := range x.X[j] {
					x.X[j][i] *= times
				}
			}
			least := 0.0
			if _, squares := a.Loss.(loss.Squared); squares {
				least = meanLoss(a.Loss, x, exactLeastSquares(x).w)
			} else {
				_, least = best(a.Loss, x)
			}
			e := excessLosses(t, a, x, least, 1, 9)
			t.Logf("%T, %d features, %g times: median excess %.4f%%", a.Loss, len(features), times, e[len(e)/2])
			if e[len(e)/2] > 0.015 {
				t.Errorf("expected at most 0.015%%")
			}
			if r := resultOf(t, a, x, 1, 1); r.Low != nil || r.WhyNull != farFromScales || r.NoiseCovariance != nil {
				t.Errorf("an interval, or %q", r.WhyNull)
			}
		}
	}
}

// findingFits are standardised fits of a shape that look for the scales of all columns.
func findingFits(s table.Shape) map[string]standardised {
	fits := standardisedFits(s)
	for name, a := range fits {
		columns := a.Centres.Columns
		for k := range columns {
			columns[k].unscaled = true
		}
		a.Scales = unscaled(columns, true)
		a.Scales.Share = minForScales
		if name == "counts" {
			a.Centres = centreSearch{} // a fit may look for scales alone
		}
		fits[name] = a
	}
	for _, name := range []string{"descent", "Huber descent"} {
		descent := fits[name]
		descent.Scales = fits["least squares"].Scales
		fits[name] = descent
	}
	return fits
}

// ofSizes multiplies the columns of neighbours, but for labels and counts, by sizes.
func ofSizes(r *rand.Rand, a, b table.Data, target bool) {
	for j := range a.X {
		size := math.Exp2(float64(r.IntN(61) - 30))
		scaleBy(a.X[j], size)
		scaleBy(b.X[j], size)
	}
	if target {
		scaleBy(a.Y, 0x1p20)
		scaleBy(b.Y, 0x1p20)
	}
}

func scaleBy(column []float64, size float64) {
	for i := range column {
		column[i] *= size
	}
}

// One replaced row moves the integers of the histogram of sizes, and of all releases of the fit on columns in the
// scales that it shows, by no more than their noise is scaled to hide.
func TestFitsThatFindScalesReplay(t *testing.T) {
	found := replayStandardised(t, 33, findingFits, func(r *rand.Rand, name string, x, y table.Data) {
		ofSizes(r, x, y, name != "labels" && name != "counts")
	}, func(name string, a standardised, z float64, x table.Data) bool {
		_, hidden := a.Scales.find(plantest.Clone(x), mech.Gaussian{NoiseMultiplier: z / math.Sqrt(a.Scales.Share)}, mechtest.Source(t, 1))
		return hidden == nil && standardises(a.Fit) // whose noise is that of one estimate
	})
	if found < 200 {
		t.Errorf("the scales of all features were found in %d of 640 pairs", found)
	}
}

// Every way to be wrong is found by a replay.
func TestReplaysOfFitsThatFindScalesRefuteMutants(t *testing.T) {
	s := table.Shape{N: 20, D: 3, Intercept: true}
	a := findingFits(s)["least squares"]
	const z = 0.005
	refutePlacements(t, s, func() *plan.Plan { return standardisedPlan(t, a, s, z) }, func() *plan.Plan { return standardisedPlan(t, a, s, z/2) })
	descent := findingFits(s)["descent"]
	refutePlacements(t, s, func() *plan.Plan { return standardisedPlan(t, descent, s, z) }, func() *plan.Plan { return standardisedPlan(t, descent, s, z/2) })
	refutePlacements(t, s, func() *plan.Plan { return seekingMedians(t, L1{}, s, 3000) }, func() *plan.Plan { return seekingMedians(t, L1{}, s, 6000) })
}

// seekingMedians is the plan of medians of columns without scales. It may release less than it charges, as
// standardisedPlan.
func seekingMedians(t *testing.T, a L1, s table.Shape, epsilon float64) *plan.Plan {
	t.Helper()
	a.Method = catalogue.MethodStaged
	p := plantest.Plan(t, a.withPublicFacts(withoutScales(a, s)), s, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
	p.Method = plantest.MayReleaseLess
	return p
}

// withoutScales is an algorithm on columns of a shape none of which has a scale.
func withoutScales(a plan.Algorithm, s table.Shape) Scaled {
	all := Scaled{Algorithm: a, X: table.Repeat(1, s.Columns()), Y: 1, NoScales: true}
	for j := range s.Columns() {
		all.UnscaledX = append(all.UnscaledX, j)
	}
	r, gradient := a.(Regression)
	_, counts := r.Loss.(loss.Poisson)
	all.Counts, all.UnscaledY = counts, !gradient || !r.Labels && !counts
	return all
}

// Medians hide a replaced row where they look for scales, by groups and with weights as well.
func TestMediansThatFindScalesReplay(t *testing.T) {
	found := replayMedians(t, 34, func(a L1, s table.Shape, epsilon float64) *plan.Plan { return seekingMedians(t, a, s, epsilon) }, func(r *rand.Rand, x, y table.Data) {
		ofSizes(r, x, y, true)
	}, func(a L1, epsilon float64, x table.Data) bool {
		f := newStaged(a.withPublicFacts(withoutScales(a, x.Shape)).(L1).withDefaults(x.Shape, epsilon), x.Shape, epsilon)
		scales, hidden := f.findScales(plantest.Clone(x).FirstRows(), mechtest.Source(t, 1))
		return scales != nil && hidden == nil
	})
	if found < 60 {
		t.Errorf("the scales of all features were found in %d of 240 pairs", found)
	}
}

// Fits of columns of very different sizes, none of which has a scale, are about as good as with scales that fit, of
// means, labels, counts and medians. Without the search the excess of each is above 5 %. Seeds are fixed.
func TestFitsFindScales(t *testing.T) {
	sizes := []float64{3e6, 2e-4, 700, 1}
	for _, a := range []plan.Algorithm{Regression{Loss: loss.Squared{}}, Regression{Loss: loss.Logistic{}, Labels: true}, Regression{Loss: loss.Poisson{}}, L1{}} {
		r, gradient := a.(Regression)
		var x table.Data
		target := 1.0
		switch {
		case gradient && r.Labels:
			x = labelLaw("gauss", 30_000, 5, 1)
		case gradient && r.Loss == loss.Loss(loss.Poisson{}):
			x = drawLaw("counts", 30_000, 5, 1)
		default:
			x, target = drawLaw("gauss", 30_000, 5, 1), 4e4
		}
		rows := plantest.Clone(x)
		for j, size := range sizes {
			scaleBy(rows.X[j], size)
		}
		scaleBy(rows.Y, target)
		fit := func(s Scaled, seed uint64) float64 {
			p := plantest.Plan(t, s, x.Shape, privacy.Budget{Epsilon: 1, Delta: map[bool]float64{true: 1e-6}[gradient]}, privacy.Concentrated{})
			w, err := coefficients(p.Run(t.Context(), plantest.Clone(rows), mechtest.Source(t, seed)))
			if err != nil {
				t.Fatal(err)
			}
			for j := range w {
				if w[j] /= target; j > 0 {
					w[j] *= sizes[j-1]
				}
			}
			if gradient {
				return meanLoss(r.Loss, x, w)
			}
			return risk(w, x)
		}
		unknown := withoutScales(a, x.Shape)
		known := Scaled{Algorithm: a, X: sizes, Y: target, Counts: unknown.Counts}
		nobody := Scaled{Algorithm: a, X: table.Repeat(1, 4), Y: 1, Counts: unknown.Counts, NoScales: true}
		means := func(s Scaled) (all []float64) {
			for seed := range uint64(5) {
				all = append(all, fit(s, seed))
			}
			slices.Sort(all)
			return all
		}
		finds, has, lacks := means(unknown)[2], means(known)[2], means(nobody)[2]
		t.Logf("%T: losses %v, with scales %v, nobody looks %v", a, finds, has, lacks)
		if finds > 1.002*has || lacks < 1.05*has {
			t.Errorf("%T: losses %v, with scales %v, nobody looks %v", a, finds, has, lacks)
		}
	}
}

// Noise alone shows a scale in few of many columns of zeros, and a column that has values in one row of a thousand,
// or one size alone, keeps the scale of what noise hides.
func TestNoiseAloneShowsNoScale(t *testing.T) {
	const n, columnsOf, times = 20_000, 40, 50
	x := table.Data{Shape: table.Shape{N: n, D: columnsOf + 1, Intercept: true}, X: table.NewColumns(columnsOf, n), Y: make([]float64, n)}
	for i := range 20 {
		x.X[0][i] = 1e5
	}
	s := unscaled(withNumbers(columnsOf), true)
	for name, noise := range map[string]mech.Mechanism{"Gaussian": mech.Gaussian{NoiseMultiplier: 20}, "Laplace": mech.Laplace{Epsilon: .5}} {
		tiny, ones, large := 0, 0, 0
		src := mechtest.Source(t, 5)
		for range times {
			scales, _ := s.find(plantest.Clone(x), noise, src)
			for _, scale := range scales.X {
				switch {
				case scale < .5:
					tiny++
				case scale <= 4:
					ones++
				case scale != unseenScale:
					large++
				}
			}
		}
		t.Logf("%s noise: %d scales below 1/2, %d up to 4, %d larger", name, tiny, ones, large)
		if tiny > 6 || ones > 140 || large > 40 { // of 2,000; seeds are fixed
			t.Errorf("%s noise alone: %d scales below 1/2, %d up to 4, %d larger", name, tiny, ones, large)
		}
	}
}

func withNumbers(n int) (of []numericColumn) {
	for j := range n {
		of = append(of, numericColumn{column: j, unscaled: true})
	}
	return of
}

// What a column is seen to be: the size that three quarters of its values other than 0 have at most twice of.
func TestSizesOfColumns(t *testing.T) {
	const n = 20_000
	for name, c := range map[string]struct {
		value func(r *rand.Rand) float64
		size  float64
	}{
		"normal":              {func(r *rand.Rand) float64 { return 1000 * r.NormFloat64() }, 1024},
		"years":               {func(r *rand.Rand) float64 { return float64(1995 + r.IntN(20)) }, 1024},
		"years, half of 2048": {func(r *rand.Rand) float64 { return float64(2047 + r.IntN(2)) }, 1024},
		"a flag of a tenth":   {func(r *rand.Rand) float64 { return math.Floor(1.1 * r.Float64()) }, 1},
		"lognormal":           {func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) }, 2},
		"very small":          {func(r *rand.Rand) float64 { return -0x1p-50 * (1 + r.Float64()) }, 0x1p-50},
		"two sizes":           {func(r *rand.Rand) float64 { return []float64{.001, .001, 1}[r.IntN(3)] }, 1},
		"a few very large":    {func(r *rand.Rand) float64 { return 1 + math.Floor(1.05*r.Float64())*1e12 }, 1},
		"beyond the last":     {func(r *rand.Rand) float64 { return 1e30 }, unseenScale},
		"zeros":               {func(r *rand.Rand) float64 { return 0 }, unseenScale},
		"not finite":          {func(r *rand.Rand) float64 { return []float64{math.NaN(), math.Inf(-1)}[r.IntN(2)] }, unseenScale},
	} {
		r := rand.New(rand.NewPCG(7, 7))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			x.X[0][i] = c.value(r)
		}
		for _, noise := range []mech.Mechanism{mech.Gaussian{NoiseMultiplier: 20}, mech.Laplace{Epsilon: .1}} {
			found, hidden := unscaled(withNumbers(1), true).find(plantest.Clone(x), noise, mechtest.Source(t, 3))
			if got := found.X[0]; (hidden != nil) != (got == unseenScale) || got != c.size && !(name == "years, half of 2048" && got == 2048) {
				t.Errorf("%s: %v, not %v", name, got, c.size)
			}
		}
	}
	for known, want := range map[bool]float64{true: 1, false: unseenScale} {
		if got := unscaled(withNumbers(1), !known).Unseen; got != want {
			t.Errorf("a hidden column where others have scales (%v): %v", known, got)
		}
	}
}

// Scales are looked for where options do not speak of units that were registered: of numbers, and of a target of means
// and medians.
func TestWhichScalesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		a    plan.Algorithm
		want int
	}{
		"least squares":      {Regression{Loss: loss.Squared{}}, 3},
		"no intercept":       {Regression{Loss: loss.Huber{}}, 3},
		"weights":            {Regression{Loss: loss.Squared{}, Weight: "w", MaxWeight: 2}, 3},
		"an offset":          {Regression{Loss: loss.Squared{}, Offset: "o"}, 2},
		"a residual scale":   {Regression{Loss: loss.Squared{}, ResidualScale: 2}, 2},
		"a radius":           {Regression{Loss: loss.Squared{}, Radius: 5}, 0},
		"a penalty":          {Regression{Loss: loss.Squared{}, Penalty: catalogue.PenaltyL2, Lambda: 0.1}, 0},
		"Huber":              {Regression{Loss: loss.Huber{}}, 3},
		"a delta":            {Regression{Loss: loss.Huber{}, HuberDelta: 2}, 2},
		"labels":             {Regression{Loss: loss.Logistic{}, Labels: true}, 2},
		"counts":             {Regression{Loss: loss.Poisson{}}, 2},
		"a descent":          {Regression{Loss: loss.Squared{}, Method: "gd"}, 0},
		"newton":             {Regression{Loss: loss.Huber{}, Method: catalogue.MethodNewton}, 3},
		"medians":            {L1{}, 3},
		"medians, an offset": {L1{Offset: "o"}, 2},
		"medians, a scale":   {L1{ResidualScale: 2}, 2},
		"medians, a radius":  {L1{Radius: 2}, 0},
	} {
		shape := table.Shape{N: 20_000, D: 3, Intercept: true}
		if name == "no intercept" {
			shape = table.Shape{N: 20_000, D: 2}
		}
		facts := withoutScales(c.a, shape)
		var got scaleSearch
		switch a := c.a.(publicFactsUser).withPublicFacts(facts).(type) {
		case L1:
			got = newStaged(a.withDefaults(shape, 1), shape, 1).scales
		case Regression:
			p, err := a.resolve(shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
			if err != nil {
				t.Fatal(name, err)
			}
			f, err := p.withNoise(5).fit()
			if err != nil {
				t.Fatal(name, err)
			}
			s, _ := f.(standardised)
			got = s.Scales
		}
		if len(got.Columns) != c.want {
			t.Errorf("%s: scales of %v are looked for, not of %d columns", name, got.Columns, c.want)
		}
	}
}

// The delta of a Huber fit whose target has no scale is in the table's units, and 1 in the scale that was found: the
// plan cannot tell it. A delta that is asked for is in the table's units already.
func TestDeltaOfATargetWithoutAScale(t *testing.T) {
	x := drawLaw("gauss", 20_000, 3, 1)
	scaleBy(x.Y, 3e5)
	for _, delta := range []float64{0, 3e5} {
		p := plantest.Plan(t, withoutScales(Regression{Loss: loss.Huber{}, HuberDelta: delta}, x.Shape), x.Shape, privacy.Budget{Epsilon: 3, Delta: 1e-6}, privacy.Concentrated{})
		r, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, told := p.Parameters["huber_delta"]; told != (delta != 0) || r.HuberDelta < 1e4 || r.HuberDelta > 6e5 {
			t.Errorf("asked for %v: the plan tells %v, the release %v", delta, p.Parameters["huber_delta"], r.HuberDelta)
		}
	}
}

// standardisedOf returns the fit that a regression makes, empty if it is not standardised, and the share of its budget that
// the first release has.
func standardisedOf(t *testing.T, r Regression, s table.Shape, b privacy.Budget) (a standardised, first float64) {
	t.Helper()
	p, err := r.resolve(s, b, privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	fixed, plan, err := p.fix(privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fixed.fit()
	if err != nil {
		t.Fatal(err)
	}
	a, _ = f.(standardised)
	all, err := privacy.Price(plan.event)
	if err != nil {
		t.Fatal(err)
	}
	release, err := privacy.Price(plan.event.(privacy.Compose)[0])
	if err != nil {
		t.Fatal(err)
	}
	return a, release.Rho / all.Rho
}

// Where there are too few rows for the other methods a descent has the scales that are found, with a share of the
// budget by which they are seen, and the histogram costs that share. With still fewer nobody looks.
func TestDescentsHaveScalesThatAreFound(t *testing.T) {
	for rows, share := range map[int]float64{100_000: minForScales, 20_000: .0895, 5_000: .159, 3_000: maxForScales, 700: 0} {
		x := drawLaw("gauss", rows, 9, 1)
		budget := privacy.Budget{Epsilon: .3, Delta: 1e-6}
		a, first := standardisedOf(t, withoutScales(Regression{Loss: loss.Squared{}}, x.Shape).Inner().(Regression), x.Shape, budget)
		if math.Abs(a.Scales.Share-share) > 2e-3 || (rows < 20_000) == standardises(a.Fit) && a.Fit != nil {
			t.Errorf("%d rows: a share of %v for the scales of %T", rows, a.Scales.Share, a.Fit)
		}
		if share > 0 && math.Abs(first-a.Scales.Share) > 1e-6 {
			t.Errorf("%d rows: the histogram has %v of the budget", rows, first)
		}
	}
	// A cost in cents and an income, which with a scale of 1 make a fit far worse than a constant.
	x := drawLaw("gauss", 3_000, 9, 1)
	scaleBy(x.Y, 1e5)
	scaleBy(x.X[0], 3e4)
	least := meanLoss(loss.Squared{}, x, exactLeastSquares(x).w)
	var all []float64
	for seed := range uint64(9) {
		w := resultOf(t, withoutScales(Regression{Loss: loss.Squared{}}, x.Shape), x, .3, seed).Coefficients
		all = append(all, 100*(meanLoss(loss.Squared{}, x, w)/least-1))
	}
	slices.Sort(all)
	t.Logf("excess %.3g %%", all)
	if all[4] > 6 {
		t.Errorf("the median excess is %v %%", all[4])
	}
}

// Medians by groups of columns without scales are in the table's units.
func TestMediansByGroupsFindScales(t *testing.T) {
	x := drawLaw("gauss", 20_000, 3, 1)
	want := leastDeviations(x)
	scaleBy(x.Y, 4e4)
	scaleBy(x.X[0], 3e6)
	scaleBy(x.X[1], 2e-4)
	x.GroupCount, x.Group = 2, make([]float64, x.N)
	for i := range x.Group {
		x.Group[i] = float64(i % 2)
	}
	p := plantest.Plan(t, withoutScales(L1{}, x.Shape), x.Shape, privacy.Budget{Epsilon: 3}, privacy.PureSum{})
	r, err := p.Run(t.Context(), x, mechtest.Source(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	for g, group := range r.Groups {
		for j, size := range []float64{1, 3e6, 2e-4} {
			if got := group.Coefficients[j] * size / 4e4; math.Abs(got-want[j]) > .1 {
				t.Errorf("group %d: coefficient %d is %v, not %v", g, j, got, want[j])
			}
		}
	}
}

// Of a target that few rows have, and whose size noise hides, nothing tells how far coefficients are off: of claims of one row in 300
// least squares without a scale had intervals of a hundred-thousandth of the intercept, none of which held it.
func TestAHiddenTargetHasNoErrors(t *testing.T) {
	x := drawLaw("gauss", 40_000, 3, 1)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range x.Y {
		if x.Y[i] = 0; i%300 == 0 {
			x.Y[i] = math.Exp(8 + 1.2*r.NormFloat64())
		}
	}
	for _, a := range []plan.Algorithm{Regression{Loss: loss.Squared{}}, Regression{Loss: loss.Huber{}}, L1{}} {
		bare := withoutScales(a, x.Shape)
		delta := 1e-6
		if _, pure := a.(L1); pure {
			delta = 0
		}
		for eps, want := range map[float64]bool{1: true, 200: false} {
			p := plantest.Plan(t, bare, x.Shape, privacy.Budget{Epsilon: eps, Delta: delta}, privacy.Concentrated{})
			r, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			if hidden := r.WhyNull == unseenTarget && r.Low == nil && r.NoiseCovariance == nil && r.Coefficients != nil; hidden != want {
				t.Errorf("%T, eps %v: %v, %q, noise %v", a, eps, r.Coefficients, r.WhyNull, r.NoiseCovariance)
			}
		}
	}
}

// A feature that noise hides, in a request without any scale, has the coefficient 0, and nothing has an interval or
// a figure of the noise: it would be that of a fit without the feature. Where another column has a scale it counts as 1.
func TestHiddenColumnsHaveNoErrors(t *testing.T) {
	x := drawLaw("gauss", 20_000, 3, 1)
	for i := range x.X[0] {
		if i%100 != 0 {
			x.X[0][i] = 0
		}
		x.Y[i] += 2 * x.X[0][i]
	}
	for _, a := range []plan.Algorithm{Regression{Loss: loss.Squared{}}, Regression{Loss: loss.Huber{}}, L1{}, L1{Weight: "w", MaxWeight: 1}, L1{By: "level"}} {
		x := x
		if l1, _ := a.(L1); l1.By != "" {
			x.GroupCount, x.Group = 1, table.Repeat(0, x.N)
		}
		if l1, _ := a.(L1); l1.MaxWeight > 0 {
			x.Weight = table.Repeat(1, x.N)
		}
		bare := withoutScales(a, x.Shape)
		some := bare
		some.UnscaledX, some.NoScales = []int{0}, false
		delta := map[bool]float64{true: 1e-6}
		_, gradient := a.(Regression)
		for name, s := range map[string]Scaled{"none": bare, "some": some} {
			p := plantest.Plan(t, s, x.Shape, privacy.Budget{Epsilon: .5, Delta: delta[gradient]}, privacy.Concentrated{})
			r, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			if r.Groups != nil {
				r = r.Groups[0].Result
			}
			if hidden := r.WhyNull == unseenColumn && slices.Equal(r.LeftOut, []int{1}) && r.Low == nil && r.NoiseCovariance == nil && r.Coefficients[1] == 0 && r.Coefficients[0] != 0 && r.Coefficients[2] != 0; hidden != (name == "none") {
				t.Errorf("%T, %s scales: %v, %q, noise %v", a, name, r.Coefficients, r.WhyNull, r.NoiseCovariance)
			}
		}
	}
}

// A fit that is stopped, after it has seen that a feature is hidden, ends with the error of its context.
func TestHiddenColumnsOfAStoppedFit(t *testing.T) {
	x := drawLaw("gauss", 20_000, 3, 1)
	clear(x.X[0])
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, a := range []plan.Algorithm{Regression{Loss: loss.Squared{}}, Regression{Loss: loss.Logistic{}, Labels: true}, L1{}} {
		_, gradient := a.(Regression)
		p := plantest.Plan(t, withoutScales(a, x.Shape), x.Shape, privacy.Budget{Epsilon: 1, Delta: map[bool]float64{true: 1e-6}[gradient]}, privacy.Concentrated{})
		if r, err := p.Run(stopped, plantest.Clone(x), mechtest.Source(t, 1)); !errors.Is(err, context.Canceled) || r.Coefficients != nil {
			t.Errorf("%T: %v, %v", a, r.Coefficients, err)
		}
	}
}
