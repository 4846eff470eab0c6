package dpsco

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// countLaw has the features of drawLaw, exposures that differ, and counts whose mean a unit of exposure is a
// Poisson model's: near 1, or where they are "rare" near 1 in 20, or where they are "many" near 30. Those that
// "vary" have three times the variance of a Poisson count.
func countLaw(kind string, n, d int, seed uint64) table.Data {
	constant, features := -0.5, kind
	switch kind {
	case "rare":
		constant, features = -3, "gauss"
	case "many":
		constant, features = 3.4, "gauss"
	case "vary":
		features = "gauss"
	}
	x := drawLaw(features, n, d, seed)
	src := rand.NewPCG(seed, 96)
	r := rand.New(src)
	x.Offset = make([]float64, n)
	for i := range x.Y {
		x.Offset[i] = math.Log(1 - 0.95*r.Float64())
		mean := constant + x.Offset[i]
		for j, column := range x.X {
			mean += countSlope(kind, j, d) * column[i]
		}
		mean = math.Exp(min(mean, 8))
		if kind == "vary" { // of a Gamma of mean 1 and variance 2 / mean
			shape := mean / 2
			mean *= distuv.Gamma{Alpha: shape, Beta: shape, Src: src}.Rand()
		}
		x.Y[i] = distuv.Poisson{Lambda: max(mean, 1e-300), Src: src}.Rand()
	}
	return x
}

func countSlope(kind string, j, d int) float64 {
	slope := 0.7 / math.Sqrt(float64(d-1))
	switch {
	case kind == "flags" && j == d-2:
		return 1
	case j%2 == 1:
		return -slope
	}
	return slope
}

// meanDeviance is that of a Poisson model with a linear logarithm.
func meanDeviance(x table.Data, w []float64) (mean float64) {
	z := make([]float64, x.N)
	table.Predict(z, x, w)
	for i, y := range x.Y {
		mean += 2 * (math.Exp(z[i]) - y) / float64(x.N)
		if y > 0 {
			mean += 2 * y * (math.Log(y) - z[i]) / float64(x.N)
		}
	}
	return mean
}

// excessDeviance is the median of draws over that of the best fit, in percent.
func excessDeviance(t *testing.T, x table.Data, eps float64, draws int) float64 {
	w, _ := best(loss.Poisson{}, x)
	least := meanDeviance(x, w)
	var all []float64
	for seed := range draws {
		all = append(all, 100*(meanDeviance(x, resultOf(t, Regression{Loss: loss.Poisson{}}, plantest.Clone(x), eps, uint64(seed)).Coefficients)/least-1))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Median excess deviance on laws with exposures that differ by a factor of twenty, at
// eps 1: it goes to zero as rows grow. The bounds are about twice what is reached.
func TestPoissonFitsAreAccurateOnLaws(t *testing.T) {
	for kind, percent := range map[string]float64{"gauss": .09, "skew": .12, "rare": .7, "vary": .25, "many": 4} {
		few, many := excessDeviance(t, countLaw(kind, 20_000, 4, 1), 1, 7), excessDeviance(t, countLaw(kind, 200_000, 4, 1), 1, 3)
		t.Logf("%s: %.4f%% with 20,000 rows, %.5f%% with 200,000", kind, few, many)
		if few > percent || many > percent/10 {
			t.Errorf("%s: expected at most %g%%, and a tenth", kind, percent)
		}
	}
}

// unscaledCounts are counts by schooling, experience and a flag of 1 %, of means and exposures that may be far from their scale of 1.
func unscaledCounts(n int, mean, exposure float64, seed uint64) table.Data {
	src := rand.NewPCG(seed, 4)
	r := rand.New(src)
	x := table.Data{Shape: table.Shape{N: n, D: 4, Intercept: true}, X: table.NewColumns(3, n), Y: make([]float64, n), Offset: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i], x.X[2][i] = float64(8+r.IntN(12))/12, 2*r.Float64(), indicatorOf(r.Float64() < .01)
		x.Offset[i] = math.Log(exposure * (.1 + .9*r.Float64()))
		z := math.Log(mean/exposure) + .9*(x.X[0][i]-1) + .4*(x.X[1][i]-1) + .1*x.X[2][i]
		x.Y[i] = distuv.Poisson{Lambda: math.Exp(z + x.Offset[i]), Src: src}.Rand()
	}
	return x
}

// The scale of a target, and of an exposure, may be missing: where a fit begins is told by the sizes of counts. From the mean of
// counts that are cut at 4, or from the least rate a unit of exposure that moments show, three steps did not arrive: the
// median excess was 3,939, 1.1 and 76 %, and with means near 15 the flag's coefficient was up to 2 off. Seeds are fixed.
func TestCountsFarFromTheirScale(t *testing.T) {
	for _, c := range []struct{ mean, exposure, percent float64 }{{300, 1, .8}, {15, 1, .2}, {.1, 365, 2.5}} {
		x := unscaledCounts(40_000, c.mean, c.exposure, 1)
		e := excessDeviance(t, x, 1, 15)
		t.Logf("mean %g, exposure %g: median excess %.4f%%", c.mean, c.exposure, e)
		if e > c.percent {
			t.Errorf("expected at most %g%%", c.percent)
		}
	}
}

// Where noise hides the rate a fit began at three deviations of the noise, and stayed there: the median deviance was 8.8, 4.6, 4.2 and 1.6
// times that of one rate for all.
func TestCountsThatNoiseHidesAreNotFarAboveTheirScale(t *testing.T) {
	for _, c := range []struct {
		n, features     int
		rate, eps, most float64
	}{{500, 12, .8, .3, 1.5}, {500, 12, .3, 1, 1.8}, {3000, 20, .3, .2, 1.8}, {4000, 6, .05, .3, 1.1}} {
		src := rand.NewPCG(uint64(c.n), 6)
		r := rand.New(src)
		x := table.Data{Shape: table.Shape{N: c.n, D: 1 + c.features, Intercept: true}, X: table.NewColumns(c.features, c.n), Y: make([]float64, c.n), Offset: make([]float64, c.n)}
		mean, exposures := 0., 0.
		for i := range c.n {
			z := 0.
			for j := range c.features {
				x.X[j][i] = r.NormFloat64()
				z += .3 * x.X[j][i] / math.Sqrt(float64(c.features))
			}
			exposure := .1 + .9*r.Float64()
			x.Offset[i] = math.Log(exposure)
			x.Y[i] = distuv.Poisson{Lambda: c.rate * exposure * math.Exp(z), Src: src}.Rand()
			mean, exposures = mean+x.Y[i], exposures+exposure
		}
		constant := make([]float64, x.D)
		constant[0] = math.Log(mean / exposures)
		var all []float64
		for seed := range 15 {
			all = append(all, meanDeviance(x, resultOf(t, Regression{Loss: loss.Poisson{}}, plantest.Clone(x), c.eps, uint64(seed)).Coefficients)/meanDeviance(x, constant))
		}
		slices.Sort(all)
		t.Logf("%d rows, %d features, rate %g, eps %g: %.3f times the deviance of one rate", c.n, c.features, c.rate, c.eps, all[7])
		if all[7] > c.most {
			t.Errorf("expected at most %g", c.most)
		}
	}
}

// Visits of 4,400 patients, 5 in the mean, whose sizes noise hides but for zeros: cut at one, which is all that the scale
// says, 25 of 30 fits had less than a third of the rate. Seeds are fixed.
func TestCountsBesideZerosAreNotCutAtTheirScale(t *testing.T) {
	const n, draws = 4400, 30
	src := rand.NewPCG(3, 6)
	r := rand.New(src)
	x := table.Data{Shape: table.Shape{N: n, D: 5, Intercept: true}, X: table.NewColumns(4, n), Y: make([]float64, n)}
	for i := range x.Y {
		z := 1.5
		for j := range x.X {
			x.X[j][i] = r.NormFloat64()
			z += 0.15 * x.X[j][i]
		}
		x.Y[i] = distuv.Poisson{Lambda: max(math.Exp(z)*distuv.Gamma{Alpha: 0.8, Beta: 0.8, Src: src}.Rand(), 1e-300), Src: src}.Rand()
	}
	w, _ := best(loss.Poisson{}, x)
	far := 0
	for seed := range draws {
		fit := resultOf(t, Regression{Loss: loss.Poisson{}}, plantest.Clone(x), 0.3, uint64(seed)).Coefficients
		if fit[0] < w[0]-1 {
			far++
		}
	}
	t.Logf("%d of %d fits have less than a third of the rate", far, draws)
	if far > 8 {
		t.Errorf("expected at most 8")
	}
}

// fremtpl is claims of policies, by the year.
func fremtpl(t testing.TB) table.Data {
	folder := os.Getenv("DPSIDECAR_DATA")
	if folder == "" {
		t.Skip("DPSIDECAR_DATA names no folder with the data sets")
	}
	task := medianTask{"claims", "fremtpl2_policies", []string{"claim_nb", "veh_power", "veh_age", "driv_age", "bonus_malus", "density", "gas_diesel"}, []float64{1, 6, 10, 50, 60, 1000, 1}, false}
	x := task.load(t, folder)
	for _, v := range readCSV(t, filepath.Join(folder, task.file+".csv.gz"))["exposure"] {
		x.Offset = append(x.Offset, math.Log(v))
	}
	return x
}

// The best model explains 3.0 % of the deviance of claims. The bounds are about twice what
// is reached. DPSIDECAR_EXPERIMENTS=full draws more often.
func TestPoissonFitsOfClaims(t *testing.T) {
	x := fremtpl(t)
	draws := 3
	if full {
		draws = 20
	}
	for eps, percent := range map[float64]float64{.1: .2, .3: .08, 1: .03} {
		e := excessDeviance(t, x, eps, draws)
		t.Logf("| %g | %.4f |", eps, e)
		if e > percent {
			t.Errorf("eps %g: expected at most %g%%", eps, percent)
		}
	}
}

// Where one row in 200 has a claim, noise hides all but zeros among the sizes of counts. Claims are as large as their scale all the same: to cut
// them at the smallest size made the rate a sixth of what it is.
func TestCountsThatNoiseHidesAreNotCut(t *testing.T) {
	const draws = 9
	var off []float64
	for seed := range uint64(draws) {
		r := rand.New(rand.NewPCG(seed, 4))
		x := table.Data{Shape: table.Shape{N: 20_000, D: 2, Intercept: true}, X: table.NewColumns(1, 20_000), Y: make([]float64, 20_000), Offset: make([]float64, 20_000)}
		for i := range x.Y {
			exposure := 0.01 + 0.99*r.Float64()
			x.X[0][i], x.Offset[i] = r.NormFloat64(), math.Log(exposure)
			if r.Float64() < 0.01*exposure*math.Exp(0.4*x.X[0][i]) {
				x.Y[i] = 1
			}
		}
		off = append(off, resultOf(t, Regression{Loss: loss.Poisson{}}, x, 1, seed).Coefficients[0]-math.Log(0.01))
	}
	slices.Sort(off)
	t.Logf("the logarithm of the rate is off by %.2f", off)
	if math.Abs(off[draws/2]) > 0.5 {
		t.Errorf("the median is %.2f", off[draws/2])
	}
}

// Intervals cover the coefficients of the law. Of 200 intervals at a true coverage of
// 93 %, were they independent, 160 or fewer cover with probability 1e-9; seeds are fixed
// besides. A quarter of their width would be found.
func TestPoissonIntervalsCoverTheCoefficientsOfTheLaw(t *testing.T) {
	all, quarter := 0, 0
	for kind, constant := range map[string]float64{"gauss": -.5, "rare": -3, "vary": -.5} {
		tried, covered := 0, 0
		for seed := range uint64(20) {
			r := resultOf(t, Regression{Loss: loss.Poisson{}}, countLaw(kind, 150_000, 3, 300+seed), 1, seed)
			for j := range r.StdErr {
				truth := constant
				if j > 0 {
					truth = countSlope(kind, j-1, 3)
				}
				tried++
				middle, half := (r.Low[j]+r.High[j])/2, (r.High[j]-r.Low[j])/2
				if math.Abs(truth-middle) <= half {
					covered++
				}
				if math.Abs(truth-middle) <= half/4 {
					quarter++
				}
			}
		}
		t.Logf("%s: %d of %d", kind, covered, tried)
		if all += tried; tried < 30 || float64(covered) < .8*float64(tried) {
			t.Errorf("%s: %d of %d are covered", kind, covered, tried)
		}
	}
	if float64(quarter) >= .8*float64(all) {
		t.Errorf("a quarter of the width covers %d of %d", quarter, all)
	}
}

// Units of target, features and exposure change coefficients as they must, with an intercept
// and without; rows whose exposure is no positive number, and negative counts, say nothing.
func TestUnitsOfCounts(t *testing.T) {
	for _, intercept := range []bool{true, false} {
		x := countLaw("gauss", 50_000, 3, 5)
		if !intercept {
			x.X, x.Intercept = append([][]float64{slices.Repeat([]float64{1}, x.N)}, x.X...), false
		}
		want, _ := best(loss.Poisson{}, x)
		for _, c := range []Scaled{
			{X: []float64{1, 1, 1}, Y: 1, Exposure: 1}, {X: []float64{1, 2, 3}, Y: 2, Exposure: .5},
		} {
			raw := plantest.Clone(x)
			raw.Offset, raw.Exposure = nil, raw.Offset
			for i := range raw.Exposure {
				raw.Exposure[i] = math.Exp(raw.Exposure[i])
				switch {
				case i%10 == 0: // unusable rows
					raw.Exposure = append(raw.Exposure, []float64{0, -1, math.NaN(), math.Inf(1)}[i/10%4])
					raw.Y = append(raw.Y, 5)
				case i%10 == 1:
					raw.Exposure = append(raw.Exposure, 1)
					raw.Y = append(raw.Y, []float64{-1, math.NaN(), math.Inf(1)}[i/10%3])
				}
			}
			raw.N = len(raw.Y)
			for j := range raw.X {
				raw.X[j] = append(raw.X[j], slices.Repeat([]float64{1}, raw.N-x.N)...)
			}
			c.Algorithm, c.Counts, c.X = Regression{Loss: loss.Poisson{}}, true, c.X[:raw.Columns()]
			p := plantest.Plan(t, c, raw.Shape, privacy.Budget{Epsilon: 1000, Delta: 1e-6}, privacy.Concentrated{})
			r, err := p.Run(t.Context(), raw, mechtest.Source(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			for j, v := range r.Coefficients {
				if math.Abs(v-want[j]) > .02 || r.Low != nil && !(r.Low[j] < v && v < r.High[j]) {
					t.Errorf("intercept %v, scales %v, %v, %v: %v (%v to %v), want %v", intercept, c.X, c.Y, c.Exposure, r.Coefficients, r.Low, r.High, want)
					break
				}
			}
		}
	}
}

// stepLaw has counts whose mean jumps where the first of two normal features changes its sign.
func stepLaw(n int, seed uint64) table.Data {
	src := rand.NewPCG(seed, 95)
	r := rand.New(src)
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
		x.Y[i] = distuv.Poisson{Lambda: math.Exp(math.Copysign(0.4, x.X[0][i]) - 0.3*x.X[1][i]), Src: src}.Rand()
	}
	return x
}

// Where the budget is large, weights of counts are no reason for intervals to miss the best fit. With limits and
// allowances by histograms of scores alone 1 of 12 slopes was covered, and 22 of 36 coefficients. Of 36 at a true coverage of 93 %, were they independent, 24
// or fewer cover with probability 4e-7; seeds are fixed besides.
func TestPoissonIntervalsWhereTheModelDoesNotHold(t *testing.T) {
	truth, _ := best(loss.Poisson{}, stepLaw(1_000_000, 777))
	slopes, all := 0, 0
	for seed := range uint64(12) {
		r := resultOf(t, Regression{Loss: loss.Poisson{}}, stepLaw(40_000, 500+seed), 10, seed)
		for j, low := range r.Low {
			if low <= truth[j] && truth[j] <= r.High[j] {
				if all++; j == 1 {
					slopes++
				}
			}
		}
	}
	if t.Logf("%d of 36, %d of 12 slopes", all, slopes); all <= 24 || slopes < 8 {
		t.Errorf("%d of 36 are covered, %d of 12 slopes", all, slopes)
	}
}

// sizeLaw has the features and exposures of countLaw, and counts whose mean goes with the size of the first of four
// features, scale times as large and divided by scale.
func sizeLaw(n int, seed uint64, scale float64) table.Data {
	src := rand.NewPCG(seed, 94)
	x := countLaw("gauss", n, 5, seed)
	for i := range n {
		mean := 0.3 + 0.6*math.Abs(x.X[0][i]) - 0.3*x.X[1][i] + 0.3*x.X[2][i] - 0.3*x.X[3][i]
		x.Y[i] = distuv.Poisson{Lambda: scale * math.Exp(mean+x.Offset[i]), Src: src}.Rand() / scale
	}
	return x
}

// The registered scale of counts reaches the fit.
func TestFitsOfCountsKnowTheirScale(t *testing.T) {
	for _, y := range []float64{1, 50} {
		a := Scaled{Algorithm: Regression{Loss: loss.Poisson{}}, Y: y, Counts: true}.Inner().(Regression)
		s := table.Shape{N: 40_000, D: 3, Intercept: true}
		p, err := a.resolve(s, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.curve()
		if err != nil || c.(poissonCurve).scale != y {
			t.Errorf("scale %v: %+v, %v", y, c, err)
		}
	}
}

// Where means go up at both ends of a feature, weights move the intercept alone, and both shells hold the same of most rows.
// Overdispersion makes its interval wide, and not those of slopes: without it those are as wide, in standard errors. Of 13 intercepts
// at a true coverage of 95 %, were they independent, 6 or fewer are covered with probability 1e-6; seeds are fixed besides.
// Counts at a large scale vary less about their means, and bend as much.
func TestInterceptsOfCountsThatBend(t *testing.T) {
	for _, scale := range []float64{1, 50} {
		truth, _ := best(loss.Poisson{}, sizeLaw(1_000_000, 777, scale))
		given, covered, ratio := 0, 0, 0.0
		for seed := range uint64(24) {
			r := resultOf(t, Regression{Loss: loss.Poisson{}, countScale: scale}, sizeLaw(40_000, 900+seed, scale), 1, seed)
			if r.Low == nil {
				continue
			}
			if given++; r.Low[0] <= truth[0] && truth[0] <= r.High[0] {
				covered++
			}
			ratio += (r.High[0] - r.Low[0]) / r.StdErr[0] / (r.High[1] - r.Low[1]) * r.StdErr[1]
		}
		ratio /= float64(given)
		t.Logf("scale %g: %d of %d intercepts are covered, intervals %.2f times as wide as of slopes", scale, covered, given, ratio)
		if given < 10 || 2*covered <= given || ratio < 1.25 {
			t.Errorf("scale %g: %d of %d intercepts are covered, intervals are %v times as wide as of slopes", scale, covered, given, ratio)
		}
	}
}

// What weights keep of counts is known about, the mean weight at the last step, and so is how much squares of scores
// are above what the model says. Seeds are fixed.
func TestWeightsOfCountsAreKnown(t *testing.T) {
	for _, c := range []struct {
		law   string
		eps   float64
		small bool
		over  float64 // by which squares of scores are larger, about
	}{{"gauss", 1, true, 0}, {"gauss", 10, false, 0}, {"vary", 1, true, 2}, {"vary", 10, false, 2}} {
		x := countLaw(c.law, 40_000, 4, 9)
		f := fitOfCounts(t, x, c.eps)
		kept, all, squares, model := weightedSquares(f, x)
		got, over := f.evenly(), squares/model-1
		t.Logf("%s, eps %g: weights keep %.3f, taken for %.3f; squares are larger by %.2f, taken for %.2f", c.law, c.eps, kept/all, got, over, f.overdispersion())
		if math.Abs(got-kept/all) > 0.12 || (kept/all < 0.7) != c.small {
			t.Errorf("%s, eps %g: weights keep %.3f of the curvature, and are taken to keep %.3f", c.law, c.eps, kept/all, got)
		}
		if math.Abs(over-c.over) > 0.4 || math.Abs(math.Log((1+f.overdispersion())/(1+over))) > 0.5 {
			t.Errorf("%s, eps %g: squares of scores are larger by %.2f, and taken for %.2f", c.law, c.eps, over, f.overdispersion())
		}
		if len(f.indices) != f.last() {
			t.Errorf("%s, eps %g: %d passes have seen tails", c.law, c.eps, len(f.indices))
		}
	}
}

// fitOfCounts makes all steps of a fit.
func fitOfCounts(t *testing.T, x table.Data, eps float64) *newtonFit {
	resolved, err := Regression{Loss: loss.Poisson{}}.resolve(x.Shape, privacy.Budget{Epsilon: eps, Delta: 1e-6}, privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := resolved.fix(privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.newton()
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.(Newton).releases(x.Shape, p.z)
	if err != nil {
		t.Fatal(err)
	}
	parts, src := newNewtonParts(r, x), mechtest.Source(t, 1)
	parts.fits[0].first(x, src)
	for step := range r.steps {
		parts.step(step, src)
	}
	parts.fits[0].whiten()
	return parts.fits[0]
}

// weightedSquares is what the weights of the last step keep of the trace of the curvature, and the trace without weights; and the
// trace of the meat, and what the model says of it.
func weightedSquares(f *newtonFit, x table.Data) (kept, all, squares, model float64) {
	var one sync.Mutex
	scan(x, f.p, f.w, func() func(int, *rowBlock) {
		rows := newNewtonRows()
		return func(_ int, r *rowBlock) {
			rows.rowBlock = r
			rows.weigh(f.Curve, f.limit, f.bound, f.common)
			one.Lock()
			defer one.Unlock()
			for i, length := range rows.length[:rows.n] {
				v, w := rows.model[i]*length*length, rows.weight[i]
				kept, all = kept+w*v, all+v
				squares, model = squares+square(w*rows.score[i]*length), model+w*w*v
			}
		}
	})
	return kept, all, squares, model
}

// Scales fifty times too small make the first pass shorten rows by that, and a start goes by how long they are without:
// else predictions spread by fifty times as much as a start may, and slopes were off by .5. Seeds are fixed.
func TestStartsOfCountsGoByHowLongRowsAre(t *testing.T) {
	x := countLaw("gauss", 20_000, 4, 1)
	for _, column := range x.X {
		for i := range column {
			column[i] *= 50
		}
	}
	off := 0.0 // of a slope, over what the scale says, in the mean
	for seed := range uint64(12) {
		w := resultOf(t, Regression{Loss: loss.Poisson{}}, x, 1, seed).Coefficients
		for k, v := range w[1:] {
			off += math.Abs(50*v-countSlope("gauss", k, 4)) / 12 / 3
		}
	}
	if t.Logf("off by %.3f", off); off > 0.1 {
		t.Error("expected at most .1")
	}
}

// Tails of counts are judged by all passes together: there are no intervals where they are heavy and the model is certain not to hold.
func TestTailsOfCountsInAllPasses(t *testing.T) {
	f := shownFit(1.5)
	f.Curve = poissonCurve{unit: 1, scale: 1}
	for _, c := range []struct {
		indices  []float64
		certain  float64
		withheld bool
	}{{[]float64{2.9, 2.1}, .5, false}, {[]float64{2.6, 2.1}, .5, true}, {[]float64{2.6, 2.1}, 0, false}, {[]float64{1.6, 1.2}, 0, false}, {[]float64{1.6, 1.2}, .1, true}} {
		f.indices = c.indices
		x := extrapolation{off: mat.NewVecDense(1, []float64{1}), factor: 1, misfit: 1, certain: c.certain}
		if bias, why := f.weighing(linalg.Identity(1), x); (why != "") != c.withheld || (bias == nil) != c.withheld {
			t.Errorf("%v, certain %v: %v, %q", c.indices, c.certain, bias, why)
		}
	}
}

// Rows of a rare flag, and where counts are rare those that have one, are far from all others and about equally long: that is no heavy
// tail, and took the intervals of 19 of 20 fits each. Of 45 at a true coverage of 93 %, were they independent, 30
// or fewer hold with probability 1e-7; seeds are fixed besides.
func TestAGroupOfCountsFarFromOthersHasIntervals(t *testing.T) {
	for _, c := range []struct{ mean, eps float64 }{{.03, 1}, {15, 10}} {
		const draws = 20
		given, covered := 0, 0
		for seed := range uint64(draws) {
			x := unscaledCounts(40_000, c.mean, 1, 50+seed)
			if c.mean < 1 { // without the flag
				x.X, x.D = x.X[:2], 3
			}
			r := resultOf(t, Regression{Loss: loss.Poisson{}}, x, c.eps, seed)
			if r.Low == nil {
				continue
			}
			given++
			for j, truth := range []float64{math.Log(c.mean) - 1.3, .9, .4, .1}[:x.D] {
				if r.Low[j] <= truth && truth <= r.High[j] {
					covered++
				}
			}
		}
		all := given * 4
		if c.mean < 1 {
			all = given * 3
		}
		t.Logf("mean %g: %d of %d have intervals, and %d of %d hold", c.mean, given, draws, covered, all)
		if given < draws/2 || 4*covered < 3*all {
			t.Errorf("mean %g: %d of %d have intervals, and %d of %d hold", c.mean, given, draws, covered, all)
		}
	}
}

// Where noise hides the tail of counts, each release cuts them elsewhere, and tells nothing of its noise. Without the rule
// most of these tell, and figures are too small. Seeds are fixed.
func TestHeavyCountsDoNotTellTheirNoise(t *testing.T) {
	const draws = 20
	x, told := countLaw("vary", 20_000, 3, 600), 0
	for seed := range uint64(draws) {
		if resultOf(t, Regression{Loss: loss.Poisson{}}, x, 0.15, seed).NoiseCovariance != nil {
			told++
		}
	}
	if t.Logf("%d of %d tell", told, draws); told > draws/5 {
		t.Errorf("%d of %d tell", told, draws)
	}
}

// Weights keep little of nearly all rows of counts, and the penalty is about as strong as it says nevertheless: at the
// best fit the mean gradient along the slopes is minus the penalty's, and it was 1.5 to 2.6 times as much. Beside a rare flag,
// of whose few rows they keep less, it was .8 times. Seeds are fixed.
func TestPenaltiesOfCountsAreAsStrongAsTheySay(t *testing.T) {
	const draws = 6
	for law, c := range map[string]struct{ eps, least, most float64 }{"gauss": {1, .75, 1.4}, "skew": {1, .75, 1.4}, "vary": {1, .75, 1.4}, "flags": {30, .9, 1.1}} {
		x := countLaw(law, 20_000, 5, 1)
		for _, a := range []Regression{{Penalty: catalogue.PenaltyL2, Lambda: .1}, {Penalty: catalogue.PenaltyL1, Lambda: .03}} {
			a.Loss = loss.Poisson{}
			gradient, penalty := 0.0, 0.0
			for seed := range uint64(draws) {
				w := resultOf(t, a, x, c.eps, seed).Coefficients
				z := make([]float64, x.N)
				table.Predict(z, x, w)
				for i, v := range z {
					for j, column := range x.X {
						gradient -= a.Loss.Deriv(v, x.Y[i]) * column[i] * w[j+1] / float64(x.N)
					}
				}
				for _, slope := range w[1:] {
					if a.Penalty == catalogue.PenaltyL2 {
						penalty += a.Lambda * slope * slope
					} else {
						penalty += a.Lambda * math.Abs(slope)
					}
				}
			}
			t.Logf("%s, %s: %.2f times as strong", law, a.Penalty, gradient/penalty)
			if times := gradient / penalty; times < c.least || times > c.most {
				t.Errorf("%s: the penalty %s is %.2f times as strong as it says", law, a.Penalty, times)
			}
		}
	}
}

// missing makes that share of rows unusable, by their target or a feature.
func missing(x table.Data, share float64) table.Data {
	r := rand.New(rand.NewPCG(7, 93))
	for i := range x.N {
		if r.Float64() < share {
			if j := r.IntN(len(x.X) + 1); j < len(x.X) {
				x.X[j][i] = math.NaN()
			} else {
				x.Y[i] = math.NaN()
			}
		}
	}
	return x
}

// usableRows are those without missing values.
func usableRows(x table.Data) table.Data {
	u := table.Data{Shape: x.Shape, X: make([][]float64, len(x.X))}
	for i, y := range x.Y {
		whole := y
		for _, column := range x.X {
			whole += column[i]
		}
		if math.IsNaN(whole) {
			continue
		}
		for j, column := range x.X {
			u.X[j] = append(u.X[j], column[i])
		}
		u.Y = append(u.Y, y)
		if x.Offset != nil {
			u.Offset = append(u.Offset, x.Offset[i])
		}
	}
	u.N = len(u.Y)
	return u
}

// Where nine rows in ten lack a value a fit of counts begins at the rate of the others. Moments are means over all rows, and
// with theirs it began at ten times that rate, from where three steps do not arrive: the median excess was 2.9 and 1.6 % whatever
// the budget. Seeds are fixed; with others one fit in 10,000 is above the bound, and most of nine with probability 1e-17.
func TestCountsOfWhichMostRowsLackAValue(t *testing.T) {
	for _, offsets := range []bool{false, true} {
		x := countLaw("gauss", 40_000, 4, 1)
		if !offsets {
			x.Offset = nil
			x.Y = atLevel(x, 0, 3)
		}
		x = missing(x, .9)
		rows := usableRows(x)
		w, _ := best(loss.Poisson{}, rows)
		least := meanDeviance(rows, w)
		var all []float64
		for seed := range uint64(9) {
			all = append(all, 100*(meanDeviance(rows, resultOf(t, Regression{Loss: loss.Poisson{}}, x, 10, seed).Coefficients)/least-1))
		}
		slices.Sort(all)
		if t.Logf("offsets %v: median excess %.4f%%", offsets, all[4]); all[4] > .3 {
			t.Errorf("offsets %v: median excess %.3f%%, expected at most .3%%", offsets, all[4])
		}
	}
}

// atLevel are counts by a Poisson model with that logarithm of the mean at features of 0, and slopes of countLaw.
func atLevel(x table.Data, level float64, seed uint64) []float64 {
	src, y := rand.NewPCG(seed, 92), make([]float64, x.N)
	for i := range y {
		z := level
		for j, column := range x.X {
			z += countSlope("gauss", j, len(x.X)+1) * column[i]
		}
		y[i] = distuv.Poisson{Lambda: math.Exp(z), Src: src}.Rand()
	}
	return y
}

// Weights a hundredth of max_weight cost counts little: the rate that a fit begins with, and the noise of its scores, go by the
// weights. With limits that did not, and rates that were corrected for a clipping that weights undo, the median excess at eps 1 was
// 1.7 and 2.5 %, and one fit in five was off by more than 30 %. Seeds are fixed; with others one fit in 1,000 is above the bound,
// and most of eleven with probability 1e-15.
func TestCountsOfSmallWeights(t *testing.T) {
	a, err := Recipe("poisson", map[string]any{"weight": "w", "max_weight": 1.}, []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, offsets := range []bool{false, true} {
		x := countLaw("gauss", 40_000, 4, 1)
		if !offsets {
			x.Offset = nil
			x.Y = atLevel(x, 0, 3)
		}
		w, _ := best(loss.Poisson{}, x)
		least := meanDeviance(x, w)
		x.Weight = slices.Repeat([]float64{.006}, x.N)
		var all []float64
		for seed := range uint64(11) {
			r := weighedResult(t, a, true, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed)
			all = append(all, 100*(meanDeviance(x, r.Coefficients)/least-1))
		}
		slices.Sort(all)
		if t.Logf("offsets %v: median excess %.4f%%", offsets, all[5]); all[5] > .15 {
			t.Errorf("offsets %v: median excess %.3f%%, expected at most .15%%", offsets, all[5])
		}
	}
}

// Limits go with the root of weights that all rows have alike, from the first step on, for labels and Huber's loss too: a score has its
// bounding weight, which is twice the mean where noise is large, and a length the root of it.
func TestFirstLimitsGoByWeights(t *testing.T) {
	limit := func(c curve, x table.Data) float64 {
		r, err := Newton{Curve: c, Bound: 3, Psi: prox.L2Ball{Radius: 30}}.releases(x.Shape, 10)
		if err != nil {
			t.Fatal(err)
		}
		f := newNewtonFit(r)
		f.first(plantest.Clone(x), mechtest.Source(t, 1))
		f.choose(0)
		return f.limit
	}
	for _, c := range []struct {
		curve curve
		x     table.Data
	}{{logisticCurve{}, labelLaw("gauss", 5000, 3, 1)}, {huberCurve{delta: 1, cut: 4}, drawLaw("gauss", 5000, 3, 1)}, {poissonCurve{unit: 1, scale: 1, cut: 4}, countLaw("gauss", 5000, 3, 1)}} {
		x := plantest.Clone(c.x)
		x.Weight = table.Repeat(.01, x.N)
		if ratio := limit(c.curve, x) / limit(c.curve, c.x); ratio < .1 || ratio > .1*minCommon {
			t.Errorf("%T: %.3f of the limit without weights, expected .1 to .2", c.curve, ratio)
		}
	}
}

// Without an intercept a fit begins at the level of counts, along what features explain of a constant: a column of ones, two
// positive features, or the indicators of levels. From a mean of one scale unit three steps do not reach a logarithm above 2 or so:
// the excess was 16 to 80,000 % whatever the budget. Units of counts and of exposures are told apart. Seeds are fixed; with others one
// fit in 1,000 is above the bound, and most of seven with probability 1e-10.
func TestCountsFarFromOneWithoutAnIntercept(t *testing.T) {
	const n = 30_000
	features := map[string]func(r *rand.Rand, row []float64, level float64) float64{
		"ones": func(r *rand.Rand, row []float64, level float64) float64 {
			row[0], row[1], row[2] = 1, r.NormFloat64(), r.NormFloat64()
			return level + .4*row[1] - .4*row[2]
		},
		"positive": func(r *rand.Rand, row []float64, level float64) float64 {
			row[0], row[1], row[2] = .5+.5*r.Float64(), .5+.5*r.Float64(), r.NormFloat64()
			return level*(.8*row[0]+.54*row[1]) + .3*row[2]
		},
		"levels": func(r *rand.Rand, row []float64, level float64) float64 {
			k := r.IntN(3)
			row[k] = 1
			return level + float64(k) - 1
		},
	}
	for name, feature := range features {
		for _, c := range []struct{ level, unit, exposure float64 }{{3, 1, 0}, {6, 1, 0}, {4.5, 20, 0}, {3, 2, .1}} {
			src := rand.NewPCG(5, 91)
			r, row := rand.New(src), make([]float64, 3)
			x := table.Data{Shape: table.Shape{N: n, D: 3}, X: table.NewColumns(3, n), Y: make([]float64, n)}
			for i := range n {
				clear(row)
				z := feature(r, row, c.level)
				if c.exposure > 0 {
					x.Offset = append(x.Offset, math.Log(c.exposure*(.5+r.Float64())))
					z += x.Offset[i] - math.Log(c.exposure)
				}
				for j, v := range row {
					x.X[j][i] = v
				}
				x.Y[i] = distuv.Poisson{Lambda: math.Exp(z), Src: src}.Rand()
			}
			w, _ := best(loss.Poisson{}, x)
			least := meanDeviance(x, w)
			given := plantest.Clone(x)
			given.Offset, given.Exposure = nil, given.Offset
			for i, v := range given.Exposure {
				given.Exposure[i] = math.Exp(v)
			}
			scaled := Scaled{Algorithm: Regression{Loss: loss.Poisson{}}, X: table.Repeat(1, 3), Y: c.unit, Counts: true, Exposure: c.exposure}
			var all []float64
			for seed := range uint64(7) {
				p := plantest.Plan(t, scaled, x.Shape, privacy.Budget{Epsilon: 10, Delta: 1e-6}, privacy.Concentrated{})
				result, err := p.Run(t.Context(), plantest.Clone(given), mechtest.Source(t, seed))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, 100*(meanDeviance(x, result.Coefficients)/least-1))
			}
			slices.Sort(all)
			if t.Logf("%s, %+v: median excess %.4f%%", name, c, all[3]); all[3] > 1 {
				t.Errorf("%s, %+v: median excess %.3f%%, expected at most 1%%", name, c, all[3])
			}
		}
	}
}

// Of drinks a day, 2.3 in the mean with a long tail, noise hides how many are beyond what histograms show. Cut by what they
// show alone, 11 of 60 intervals missed. Seeds are fixed.
func TestIntervalsOfCountsAllowForATailThatNoiseHides(t *testing.T) {
	const n, draws = 27_000, 20
	r := rand.New(rand.NewPCG(5, 6))
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range x.Y {
		x.X[0][i], x.X[1][i] = r.Float64(), float64(r.IntN(2))
		mean := math.Exp(1.1 - 0.7*x.X[0][i] - 0.4*x.X[1][i] + 0.6*r.NormFloat64() - 0.18)
		if r.IntN(50) == 0 {
			mean *= 6
		}
		x.Y[i] = float64(1 + poissonOf(r, mean))
	}
	w, _ := best(loss.Poisson{}, x)
	missed, given := 0, 0
	for seed := range draws {
		r := resultOf(t, Scaled{Algorithm: Regression{Loss: loss.Poisson{}}, X: []float64{1, 1}, Y: 3, Flags: []int{1}, Counts: true}, plantest.Clone(x), 0.5, uint64(seed))
		for j := range r.Low {
			given++
			if w[j] < r.Low[j] || w[j] > r.High[j] {
				missed++
			}
		}
	}
	t.Logf("%d of %d intervals miss", missed, given)
	if given < 48 || missed > 5 {
		t.Errorf("%d of %d intervals miss", missed, given)
	}
}

// Counts of a rare flag whose rows have twenty times as many come near its coefficient. Seeds are fixed; with steps that
// are measured by the curvature that noise leaves, 11 of 60 fits miss it by more than .5.
func TestCountsOfAFlagWithManyArrive(t *testing.T) {
	const rows, flag = 20_000, 0.02
	slopes := []float64{3, -.3, .3, .3}
	r := rand.New(rand.NewPCG(7, 9))
	x := table.Data{Shape: table.Shape{N: rows, D: 5, Intercept: true}, X: [][]float64{make([]float64, rows), make([]float64, rows), make([]float64, rows), make([]float64, rows)}, Y: make([]float64, rows)}
	for i := range rows {
		if r.Float64() < flag {
			x.X[0][i] = 1
		}
		prediction := .3 + slopes[0]*x.X[0][i]
		for j := 1; j < 4; j++ {
			x.X[j][i] = r.NormFloat64()
			prediction += slopes[j] * x.X[j][i]
		}
		x.Exposure = append(x.Exposure, 1-.95*r.Float64())
		x.Y[i] = distuv.Poisson{Lambda: x.Exposure[i] * math.Exp(prediction), Src: r}.Rand()
	}
	a := Scaled{Algorithm: Regression{Loss: loss.Poisson{}}, X: table.Repeat(1, 4), Y: 1, Counts: true, Exposure: 1}
	missed := 0
	for seed := range uint64(60) {
		if out := resultOf(t, a, x, 3, seed); math.Abs(out.Coefficients[1]-slopes[0]) > 0.5 {
			missed++
		}
	}
	if t.Logf("%d of 60 miss", missed); missed > 6 {
		t.Errorf("%d of 60 fits miss the coefficient", missed)
	}
}

// Counts by years with a scale of 1 and no center are far from their fit at any eps: the reason why there are no intervals is the scale.
func TestCountsSayThatScalesAreFarTooSmall(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		scale float64
		wrong bool
	}{{1, true}, {2015, false}} {
		r := rand.New(rand.NewPCG(1, 99))
		x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
		for i := range n {
			year := float64(2005 + r.IntN(16))
			x.X[0][i], x.X[1][i] = year/c.scale, r.NormFloat64()
			x.Y[i] = float64(poissonOf(r, math.Exp(0.2+0.05*(year-2012.5)+0.5*x.X[1][i])))
		}
		fit := resultOf(t, Regression{Loss: loss.Poisson{}}, x, 5, 1)
		if is := fit.WhyNull == farFromScales; is != c.wrong {
			t.Errorf("scale %g: %q", c.scale, fit.WhyNull)
		}
	}
	// Features about 0, fifty times as large as their scales, cost counts nothing: these fits have intervals.
	r := rand.New(rand.NewPCG(2, 99))
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = 50*r.NormFloat64(), 50*r.NormFloat64()
		x.Y[i] = float64(poissonOf(r, math.Exp(0.2+0.005*x.X[0][i]+0.01*x.X[1][i])))
	}
	if fit := resultOf(t, Regression{Loss: loss.Poisson{}}, x, 5, 1); fit.Low == nil {
		t.Errorf("fifty times the scales: %q", fit.WhyNull)
	}
}
