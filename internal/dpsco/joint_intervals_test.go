package dpsco

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

func resultOf(t *testing.T, a plan.Algorithm, x table.Data, eps float64, seed uint64) release.Result {
	t.Helper()
	return plantest.Run(t, a, x, privacy.Budget{Epsilon: eps, Delta: 1e-6}, seed)
}

// The intercept is covered where one row in a hundred lies ten deviations above all others, which noise hides. Seeds are
// fixed; without FarGroup 68 % of such intervals cover.
func TestInterceptsAllowForAFarGroup(t *testing.T) {
	given, covered := 0, 0
	for seed := range uint64(40) {
		x := drawLaw("gauss", 20_000, 4, 300+seed)
		r := rand.New(rand.NewPCG(seed, 5))
		for i := range x.Y {
			if r.Float64() < 0.01 {
				x.Y[i] += 10
			}
		}
		const truth = 0.5 + 0.01*10
		if out := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed); out.Low != nil && !out.Withholds(0) {
			given++
			if out.Low[0] <= truth && truth <= out.High[0] {
				covered++
			}
		}
	}
	if given < 20 || covered < given*9/10 {
		t.Errorf("%d of %d intercepts are covered", covered, given)
	}
}

// Intervals cover the coefficients of the law. Of 120 intervals at a true coverage of
// 95 %, were they independent, 102 or fewer cover with probability 1e-5; seeds are
// fixed besides. A quarter of their width would be found.
func TestIntervalsCoverTheCoefficientsOfTheLaw(t *testing.T) {
	for _, kind := range []string{"gauss", "cond"} {
		truth := exactLeastSquares(drawLaw(kind, 600_000, 3, 777)).w
		tried, covered, quarter := 0, 0, 0
		for seed := range uint64(40) {
			r := resultOf(t, Regression{Loss: loss.Squared{}}, drawLaw(kind, 30_000, 3, 100+seed), 1, seed)
			for j := range r.StdErr {
				tried++
				middle, half := (r.Low[j]+r.High[j])/2, (r.High[j]-r.Low[j])/2
				if math.Abs(truth[j]-middle) <= half {
					covered++
				}
				if math.Abs(truth[j]-middle) <= half/4 {
					quarter++
				}
				if !(r.StdErr[j] > 0 && r.DF[j] >= 1 && half > 1.9*r.StdErr[j]) {
					t.Fatalf("%+v", r)
				}
			}
		}
		t.Logf("%s: %d of %d", kind, covered, tried)
		if tried < 100 || float64(covered) < 0.85*float64(tried) {
			t.Errorf("%s: %d of %d are covered", kind, covered, tried)
		}
		if float64(quarter) >= 0.85*float64(tried) {
			t.Errorf("%s: intervals of a quarter of the width cover %d of %d; the test has no power", kind, quarter, tried)
		}
	}
}

// Requests with many coefficients have intervals although second moments are noisy. Seeds are fixed.
func TestManyCoefficientsHaveIntervals(t *testing.T) {
	a := Regression{Loss: loss.Squared{}}
	truth := exactLeastSquares(drawLaw("gauss", 400_000, 12, 777)).w
	given, tried, covered := 0, 0, 0
	for seed := range uint64(8) {
		r := resultOf(t, a, drawLaw("gauss", 20_000, 12, 100+seed), 1, seed)
		if r.StdErr != nil {
			given++
		}
		for j := range r.StdErr {
			tried++
			if r.Low[j] <= truth[j] && truth[j] <= r.High[j] {
				covered++
			}
		}
	}
	t.Logf("%d of %d in %d of 8", covered, tried, given)
	if given < 6 || float64(covered) < 0.85*float64(tried) {
		t.Errorf("%d of %d are covered, in %d of 8", covered, tried, given)
	}
}

// With few rows for the budget the meat is not released, and intervals cover all the same. Of 100 intervals at a true coverage of 95 %, were
// they independent, 75 or fewer cover with probability below 1e-10; seeds are fixed besides.
func TestIntervalsWithoutAMeatCover(t *testing.T) {
	truth := exactLeastSquares(drawLaw("gauss", 400_000, 5, 777)).w
	tried, covered, quarter := 0, 0, 0
	for seed := range uint64(20) {
		x := drawLaw("gauss", 20_000, 5, 100+seed)
		p, err := Regression{Loss: loss.Squared{}}.resolve(x.Shape, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil || p.enoughForMeat() || !p.enoughForJointMoments() {
			t.Fatal("the meat is released, or a descent serves", err)
		}
		r := resultOf(t, Regression{Loss: loss.Squared{}}, x, 0.3, seed)
		for j := range r.StdErr {
			if r.Withholds(j) {
				continue
			}
			tried++
			half := (r.High[j] - r.Low[j]) / 2
			if middle := r.Low[j] + half; math.Abs(truth[j]-middle) <= half {
				covered++
				if math.Abs(truth[j]-middle) <= half/8 {
					quarter++
				}
			}
		}
	}
	t.Logf("%d of %d, %d by an eighth of the width", covered, tried, quarter)
	if tried < 60 || float64(covered) < 0.75*float64(tried) || float64(quarter) > 0.8*float64(tried) {
		t.Errorf("%d of %d are covered, %d by an eighth of the width", covered, tried, quarter)
	}
}

// Where no bin of residuals is visible, everything follows the scale of the target, which may be far too small, and there
// are no intervals: of residuals ten times as large as it, they covered 3 of 72. Nor are there where none of products is
// visible, unless residuals are as small as the cut supposes.
func TestIntervalsAreWithheldWhereNoiseHidesSizes(t *testing.T) {
	tried, withheld := 0, 0
	for seed := range uint64(20) {
		x := drawLaw("gauss", 450, 2, seed)
		for i := range x.Y {
			x.Y[i] *= 10
		}
		r := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed)
		if tried++; r.WhyNull == hiddenSizes {
			withheld++
		}
	}
	if withheld < tried*3/4 {
		t.Errorf("%d of %d are withheld", withheld, tried)
	}
	r, err := JointMoments{Bound: 3, Scale: 1}.releases(table.Shape{N: 20_000, D: 3, Intercept: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := newJointFit(r)
	none := func() *magnitude.Histogram {
		return f.magnitudes(make([]float64, magnitude.Bins), r.productNoise, 1, math.Inf(1))
	}
	sized := func(size float64) *magnitude.Histogram {
		return magnitude.OfNormal(r.productNoise, size, 1, 20_000).AsRun()
	}
	for _, c := range []struct {
		residuals, products *magnitude.Histogram
		hides               bool
	}{
		{sized(1), sized(2), false},
		{sized(10), sized(20), false},
		{none(), sized(2), true},
		{none(), none(), true},
		{sized(10), none(), true},
		{sized(0.5), none(), false},
	} {
		f.residuals, f.products = c.residuals, c.products
		f.chooseCuts()
		if f.hidesSizes() != c.hides {
			t.Errorf("residuals of %v (%v) and products of %v (%v): %v", c.residuals.ExcessSquare(0), c.residuals.Seen(), c.products.ExcessSquare(0), c.products.Seen(), !c.hides)
		}
	}
}

// A target that is 1 in a few rows of a thousand, and 0 in all others, has intervals that cover: noise hides these rows in
// histograms of residuals, where nothing else is nearly as large. To take what is seen for all there is covered none of 90.
func TestIntervalsOfARareTargetCover(t *testing.T) {
	const share = 0.005
	truth := []float64{share, 0.4 * share, 0.4 * share}
	given, covered, worst := 0, 0, 0.0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 8))
		x := table.Data{Shape: table.Shape{N: 20_000, D: 3, Intercept: true}, X: table.NewColumns(2, 20_000), Y: make([]float64, 20_000)}
		for i := range x.Y {
			x.X[0][i], x.X[1][i] = numeric.ClampTo(r.NormFloat64(), 1.2), 2*r.Float64()-1
			if r.Float64() < truth[0]+truth[1]*x.X[0][i]+truth[2]*x.X[1][i] {
				x.Y[i] = 1
			}
		}
		fit := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed)
		worst += (fit.Coefficients[0] - share) / 30
		for j, low := range fit.Low {
			if given++; low <= truth[j] && truth[j] <= fit.High[j] {
				covered++
			}
		}
	}
	t.Logf("%d of %d, the intercept is off by %.2g on average", covered, given, worst)
	if given < 60 || float64(covered) < 0.85*float64(given) {
		t.Errorf("%d of %d are covered", covered, given)
	}
	if math.Abs(worst) > share/2 {
		t.Errorf("the share is off by %.2g on average", worst)
	}
}

// One row in fifty lies far from the others, where an effect ends: least squares is about these rows, and no single histogram shows them.
// All together say that there are such; without that intervals were given for 32 of 40 tables, and nearly always
// missed the slope. Fitted rows that are as long keep theirs: where a fit looks for scales, which takes a part of the budget, and at a larger eps
// the first bin beyond the visible ones stands out as a rule. Seeds are fixed.
func TestIntervalsAreWithheldWhereHiddenRowsStandOut(t *testing.T) {
	given := func(scaled bool, eps float64, feature func(r *rand.Rand) float64, effect func(v float64) float64) (tables int) {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 9))
			x := table.Data{Shape: table.Shape{N: 20_000, D: 5, Intercept: true}, X: table.NewColumns(4, 20_000), Y: make([]float64, 20_000)}
			for i := range x.Y {
				for j := range x.X {
					x.X[j][i] = r.NormFloat64()
				}
				x.X[0][i] = feature(r)
				x.Y[i] = effect(x.X[0][i]) + 0.3*(x.X[1][i]-x.X[2][i]) + r.NormFloat64()
			}
			a := plan.Algorithm(Regression{Loss: loss.Squared{}})
			if !scaled {
				a = withoutScales(a, x.Shape)
			}
			switch r := resultOf(t, a, x, eps, seed); {
			case r.Low != nil:
				tables++
			case !strings.Contains(r.WhyNull, "how far the longest rows") || !strings.Contains(r.WhyNull, "dp_huber_regress"): // what stands in the way, and what helps
				t.Errorf("the reason is %q", r.WhyNull)
			}
		}
		return tables
	}
	far := func(r *rand.Rand) float64 {
		if r.Float64() < 0.02 {
			return 3 + 3*r.ExpFloat64()
		}
		return r.NormFloat64()
	}
	linear := func(v float64) float64 { return 0.3 * v }
	for _, c := range []struct {
		name        string
		scaled      bool
		eps         float64
		feature     func(r *rand.Rand) float64
		effect      func(v float64) float64
		least, most int
	}{
		{"far", true, 1, far, func(v float64) float64 { return min(v, 3) }, 0, 20},
		{"exponential", true, 1, (*rand.Rand).ExpFloat64, linear, 36, 40},
		{"normal, a larger eps", true, 3, (*rand.Rand).NormFloat64, linear, 37, 40},
		{"exponential, no scales", false, 0.3, (*rand.Rand).ExpFloat64, linear, 30, 40},
	} {
		tables := given(c.scaled, c.eps, c.feature, c.effect)
		t.Logf("%s: %d of 40", c.name, tables)
		if tables < c.least || tables > c.most {
			t.Errorf("%s: %d of 40 tables have intervals", c.name, tables)
		}
	}
}

// Costs of one row in ten spread over so many octaves that no bin of a histogram stands out, nor the three that a tail is taken to hide in:
// all bins beyond together do. Without that intervals were given for 38 of 40 tables. Costs that fall as a tail
// does keep theirs. Seeds are fixed.
func TestIntervalsAreWithheldWhereAThinTailStandsOut(t *testing.T) {
	given := func(cost func(r *rand.Rand) float64) (tables int) {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 10))
			x := table.Data{Shape: table.Shape{N: 10_000, D: 3, Intercept: true}, X: table.NewColumns(2, 10_000), Y: make([]float64, 10_000)}
			for i := range x.Y {
				x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
				if r.Float64() < 0.1*math.Exp(0.3*x.X[0][i]) {
					x.Y[i] = cost(r)
				}
			}
			if resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed).Low != nil {
				tables++
			}
		}
		return tables
	}
	thin := given(func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) })
	falls := given(func(r *rand.Rand) float64 { return r.ExpFloat64() })
	t.Logf("thin: %d of 40, exponential: %d of 40", thin, falls)
	if thin > 12 || falls < 28 {
		t.Errorf("thin tails: %d of 40 tables have intervals; exponential ones: %d", thin, falls)
	}
}

// Weights far below max_weight make residuals small, not a target rare: to take it for that made the error of these fits six times as large.
// Seeds are fixed.
func TestSmallWeightsMakeNoTargetRare(t *testing.T) {
	const n, draws = 20_000, 8
	truth := []float64{0, 0.5, -0.3}
	off := 0.0
	for seed := range uint64(draws) {
		r := rand.New(rand.NewPCG(seed, 4))
		x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n), Weight: table.Repeat(0.01, n)}
		for i := range x.Y {
			x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
			x.Y[i] = truth[1]*x.X[0][i] + truth[2]*x.X[1][i] + 0.3*r.NormFloat64()
		}
		off += square(floats.Distance(resultOf(t, Regression{Loss: loss.Squared{}, Weight: "w", MaxWeight: 1}, x, 1, seed).Coefficients, truth, 2)) / draws
	}
	if off = math.Sqrt(off); off > 0.03 {
		t.Errorf("coefficients are off by %.3f", off)
	}
}

// intervalOfSum is the interval of the sum of coefficients with weights c, as dp_predict_interval
// makes it.
func intervalOfSum(r release.Result, c []float64) (middle, half float64) {
	v, least := mat.NewVecDense(len(c), c), slices.Min(r.DF)
	for j := range c {
		middle += c[j] * (r.Low[j] + r.High[j]) / 2
	}
	return middle, numeric.HalfWidth(math.Sqrt(mat.Inner(v, r.Covariance, v)), least, math.Sqrt(mat.Inner(v, r.Bias, v)))
}

// Intervals cover the prediction of the law at rows of it, and are narrower than what the
// coefficients' own intervals add up to. Seeds are fixed: the test fails for a change, never
// by chance.
func TestIntervalsCoverPredictions(t *testing.T) {
	for _, kind := range []string{"gauss", "cond"} {
		truth := exactLeastSquares(drawLaw(kind, 600_000, 3, 777)).w
		tried, covered, tenth := 0, 0, 0
		width, sums := 0.0, 0.0
		for seed := range uint64(40) {
			x := drawLaw(kind, 30_000, 3, 100+seed)
			r := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed)
			if r.WhyNull != "" {
				continue
			}
			for i := range 5 {
				c := []float64{1, x.X[0][i], x.X[1][i]}
				middle, half := intervalOfSum(r, c)
				for j := range c {
					sums += math.Abs(c[j]) * (r.High[j] - r.Low[j]) / 2
				}
				width, tried = width+half, tried+1
				miss := math.Abs(floats.Dot(truth, c) - middle)
				if miss <= half {
					covered++
				}
				if miss <= half/10 {
					tenth++
				}
			}
		}
		t.Logf("%s: %d of %d, half width %.3g, by the coefficients' %.3g", kind, covered, tried, width/float64(tried), sums/float64(tried))
		if tried < 100 || float64(covered) < 0.85*float64(tried) {
			t.Errorf("%s: %d of %d are covered", kind, covered, tried)
		}
		if float64(tenth) >= 0.85*float64(tried) {
			t.Errorf("%s: intervals of a tenth of the width cover %d of %d; the test has no power", kind, tenth, tried)
		}
		if width > sums {
			t.Errorf("%s: intervals of predictions are wider than all of the coefficients' together", kind)
		}
	}
}

// Where there is no interval there is a reason, and other methods have none.
func TestMissingIntervalsHaveAReason(t *testing.T) {
	gauss := drawLaw("gauss", 30_000, 3, 1)
	for name, c := range map[string]struct {
		a    Regression
		x    table.Data
		eps  float64
		says string
	}{
		"a penalty":         {Regression{Penalty: catalogue.PenaltyL2, Lambda: 0.1}, gauss, 1, "penalty"},
		"low information":   {Regression{}, drawLaw("gauss", 500, 3, 1), 0.1, "low information"},
		"a method":          {Regression{Method: "gd"}, gauss, 1, noErrors},
		"an active ball":    {Regression{Radius: 0.1}, gauss, 1, "radius"},
		"heavy-tailed rows": {Regression{}, drawLaw("heavy", 30_000, 3, 2), 0.3, "how far the longest rows"},
	} {
		c.a.Loss = loss.Squared{}
		r := resultOf(t, c.a, c.x, c.eps, 1)
		if r.WhyNull == "" || !strings.Contains(r.WhyNull, c.says) || r.StdErr != nil || r.DF != nil || r.Low != nil || r.High != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := resultOf(t, Regression{Loss: loss.Squared{}}, gauss, 1, 1); r.WhyNull != "" || len(r.Low) != 3 {
		t.Errorf("%+v", r)
	}
}

// Errors come in the table's units, as coefficients do.
func TestErrorsAreScaledBack(t *testing.T) {
	x := drawLaw("gauss", 30_000, 3, 1)
	a := Regression{Loss: loss.Squared{}, Radius: catalogue.WhitenedRadius} // given, so that columns stay where they are
	plain := resultOf(t, a, x, 1, 1)
	large := plantest.Clone(x)
	floats.Scale(8, large.X[0])
	floats.Scale(0.5, large.X[1])
	floats.Scale(4, large.Y)
	scaled := resultOf(t, Scaled{Algorithm: a, X: []float64{8, 0.5}, Y: 4}, large, 1, 1)
	factor := []float64{4, 0.5, 8}
	for j := range factor {
		for k := range factor {
			if one, other := plain.Covariance.At(j, k)*factor[j]*factor[k], scaled.Covariance.At(j, k); one != other {
				t.Errorf("covariance of %d and %d: %v and %v", j, k, one, other)
			}
			if one, other := plain.Bias.At(j, k)*factor[j]*factor[k], scaled.Bias.At(j, k); one != other {
				t.Errorf("bias of %d and %d: %v and %v", j, k, one, other)
			}
		}
		if v := scaled.Covariance.At(j, j); math.Sqrt(v) != scaled.StdErr[j] {
			t.Errorf("standard error of %d: %v, by the covariance %v", j, scaled.StdErr[j], math.Sqrt(v))
		}
		for name, v := range map[string][2]float64{
			"coefficients": {plain.Coefficients[j], scaled.Coefficients[j]}, "errors": {plain.StdErr[j], scaled.StdErr[j]},
			"low ends": {plain.Low[j], scaled.Low[j]}, "high ends": {plain.High[j], scaled.High[j]},
		} {
			if v[0]*factor[j] != v[1] {
				t.Errorf("%s: %v and %v", name, v[0], v[1])
			}
		}
		if plain.DF[j] != scaled.DF[j] {
			t.Errorf("degrees of freedom: %v and %v", plain.DF[j], scaled.DF[j])
		}
	}
}

// Intervals allow for what lies between the cuts of the step where it stands out from its noise, along its direction alone.
func TestIntervalsAllowForABentEffect(t *testing.T) {
	r, err := JointMoments{Bound: 3, Scale: 1, Meat: true}.releases(table.Shape{N: 20000, D: 3, Intercept: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := newJointFit(r)
	f.products = magnitude.OfNormal(r.productNoise, 1, 1, r.shape.N).AsRun()
	c := cuts{inner: 1, outer: 2, share: .64, uncut: .8}
	f.stepCuts, f.interceptCuts = c, c
	unit, unitRest := c.units()
	const clipped = .7
	intercept := 0.0
	shown := func(off float64) []float64 {
		f.interceptMeans = c.means([]float64{.8 / unit, (.2 + intercept) / unitRest}, 0, .24, 1)
		f.cutMeans = c.means([]float64{0, .8 / unit, 0, 0, (.2 + off) / unitRest, 0}, f.first(), .24, 1)
		return f.shownBias(linalg.Identity(3), clipped)
	}
	shown(0)
	deviation := f.cutMeans.between.deviation
	if want := math.Hypot(.4, .25*.3); math.Abs(deviation-want) > 1e-12 {
		t.Errorf("noise %v, want %v", deviation, want)
	}
	if v := shown(1.1 * deviation); v[1] != 0 {
		t.Errorf("noise is allowed for: %v", v)
	}
	if v := shown(-10 * deviation); v[0] != 0 || v[2] != 0 || !(v[1] < -shownParts*9*deviation && v[1] > -shownParts*20*deviation) {
		t.Errorf("a bent effect: %v of %v", v, deviation)
	}
	// Where skewed errors explain it, the allowance is all that is clipped, along the part between the cuts.
	if v := shown(1.9 * deviation); math.Abs(v[1]-f.cutMeans.keep*clipped) > 1e-12 || !(v[1] > .1*clipped) {
		t.Errorf("%v of %v that are clipped", v, clipped)
	}
	intercept = -11 * deviation
	if v := shown(10 * deviation); math.Abs(v[1]-f.cutMeans.keep*clipped) > 1e-12 {
		t.Errorf("skewed errors: %v of %v that are clipped", v, clipped)
	}
}

// A mean alone, without a feature, has an interval.
func TestTheMeanHasAnInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	x := table.Data{Shape: table.Shape{N: 40_000, D: 1, Intercept: true}, Y: make([]float64, 40_000)}
	for i := range x.Y {
		x.Y[i] = math.Exp(0.7 * r.NormFloat64())
	}
	truth := math.Exp(0.7 * 0.7 / 2)
	for seed := range uint64(5) {
		if fit := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed); fit.Low == nil || fit.Low[0] > truth || fit.High[0] < truth || !numeric.IsFinite(fit.Bias.At(0, 0)) {
			t.Errorf("%v to %v; %s", fit.Low, fit.High, fit.WhyNull)
		}
	}
}

// Where errors grow with a skewed feature, as costs do with the number of items, nearly all that is clipped lies on one
// side: the slope was covered by 58 of 78 intervals when half of it was allowed for, in any direction. Seeds are fixed.
func TestIntervalsAllowForErrorsThatGrow(t *testing.T) {
	const rows, spread = 20_000, 1.
	truth := []float64{.1, 1, .15}
	given, covered := 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 9))
		x := table.Data{Shape: table.Shape{N: rows, D: 3, Intercept: true}, X: table.NewColumns(2, rows), Y: make([]float64, rows)}
		for i := range x.Y {
			x.X[0][i], x.X[1][i] = (1+math.Floor(4*r.ExpFloat64()))/5, indicatorOf(r.Float64() < .4)
			x.Y[i] = (truth[0] + truth[1]*x.X[0][i] + truth[2]*x.X[1][i]) * math.Exp(spread*r.NormFloat64()-spread*spread/2)
		}
		if fit := resultOf(t, Regression{Loss: loss.Squared{}}, x, 1, seed); fit.Low != nil {
			if given++; fit.Low[1] <= truth[1] && truth[1] <= fit.High[1] {
				covered++
			}
		}
	}
	t.Logf("the slope is covered by %d of %d", covered, given)
	if given < 60 || float64(covered) < .82*float64(given) {
		t.Errorf("the slope is covered by %d of %d", covered, given)
	}
}

// claims draws costs that a share of the rows has, lognormal with the given spread; their number grows with
// the first of two features. The truth is that of least squares of the population.
func claims(n int, share, spread float64, r *rand.Rand) (x table.Data, truth []float64) {
	const growth = 0.5
	x = table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range x.Y {
		x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
		if r.Float64() < share*math.Exp(growth*x.X[0][i]-growth*growth/2) {
			x.Y[i] = math.Exp(spread * r.NormFloat64())
		}
	}
	mean := share * math.Exp(spread*spread/2)
	return x, []float64{mean, growth * mean, 0}
}

// Where noise hides how large the few claims are no interval is given, for those that were hold in none of
// these tables. A flag that is as rare has intervals.
func TestIntervalsAreWithheldWhereNoiseHidesTheTargets(t *testing.T) {
	for seed := range uint64(20) {
		x, truth := claims(40_000, 0.01, 1.5, rand.New(rand.NewPCG(seed, 31)))
		request := Scaled{Algorithm: Regression{Loss: loss.Squared{}}, X: []float64{1, 1}, Y: 1}
		if fit := resultOf(t, request, x, 1, seed); fit.Low != nil && !(fit.Low[0] <= truth[0] && truth[0] <= fit.High[0]) {
			t.Errorf("seed %d: the mean %v is not in [%v, %v]", seed, truth[0], fit.Low[0], fit.High[0])
		} else if fit.Low == nil && !slices.Contains([]string{rareTarget, distantRows}, fit.WhyNull) {
			t.Errorf("seed %d: %q", seed, fit.WhyNull)
		}
		for i, y := range x.Y {
			x.Y[i] = math.Min(math.Ceil(y), 1)
		}
		request.FlagY = true
		if fit := resultOf(t, request, x, 1, seed); fit.WhyNull == rareTarget {
			t.Errorf("seed %d: a flag has no intervals: %q", seed, fit.WhyNull)
		}
	}
}

// Counts of which most are 0, at a scale that is twenty times too large, have intervals once noise hides few of them.
func TestCountsAtALargeScaleHaveIntervals(t *testing.T) {
	given := 0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 33))
		x := table.Data{Shape: table.Shape{N: 20_000, D: 2, Intercept: true}, X: table.NewColumns(1, 20_000), Y: make([]float64, 20_000)}
		for i := range x.Y {
			x.X[0][i] = r.NormFloat64()
			x.Y[i] = float64(poissonOf(r, 0.2*math.Exp(0.2*x.X[0][i])))
		}
		if resultOf(t, Scaled{Algorithm: Regression{Loss: loss.Squared{}}, X: []float64{1}, Y: 10}, x, 3, seed).Low != nil {
			given++
		}
	}
	if given < 7 {
		t.Errorf("%d of 10 fits have intervals", given)
	}
}

// Of heavy-tailed costs at least three in five of the given intervals hold the mean (measured: 85 to 90 %
// at eps 1; 40 % with half the allowance for its bias), and of slopes four in five at eps .3 (measured:
// 94 %; 68 % without their flatter tail). Of some 55 fits with intervals fewer than 33 hold with
// probability 1e-7 if 87 % should.
func TestIntervalsOfHeavyTailedCostsCover(t *testing.T) {
	count := func(eps float64, fits int) (means, meansHold, slopes, slopesHold int) {
		for seed := range uint64(fits) {
			x, truth := claims(40_000, 0.3, 2, rand.New(rand.NewPCG(seed, 32)))
			fit := resultOf(t, Regression{Loss: loss.Squared{}}, x, eps, seed)
			for j, low := range fit.Low {
				hold := 0
				if low <= truth[j] && truth[j] <= fit.High[j] {
					hold = 1
				}
				if j == 0 {
					means, meansHold = means+1, meansHold+hold
				} else {
					slopes, slopesHold = slopes+1, slopesHold+hold
				}
			}
		}
		t.Logf("eps %v: %d of %d means, %d of %d slopes", eps, meansHold, means, slopesHold, slopes)
		return means, meansHold, slopes, slopesHold
	}
	if given, hold, _, _ := count(1, 80); given < 30 || 5*hold < 3*given {
		t.Errorf("%d of %d means hold", hold, given)
	}
	if _, _, given, hold := count(0.3, 120); given < 40 || 5*hold < 4*given {
		t.Errorf("%d of %d slopes hold", hold, given)
	}
}
