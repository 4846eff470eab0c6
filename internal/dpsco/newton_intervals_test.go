package dpsco

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Intervals cover the coefficients of the law. Of 150 intervals at a true coverage of
// 95 %, were they independent, 127 or fewer cover with probability 4e-6, 125 or fewer with
// 5e-7; seeds are fixed besides. A quarter of their width would be found.
func TestNewtonsIntervalsCoverTheCoefficientsOfTheLaw(t *testing.T) {
	for _, c := range []struct {
		a    Regression
		kind string
	}{
		{Regression{Loss: loss.Logistic{}, Labels: true}, "gauss"}, {Regression{Loss: loss.Logistic{}, Labels: true}, "skew"},
		{Regression{Loss: loss.Huber{Delta: 1}}, "gauss"}, {Regression{Loss: loss.Huber{Delta: 1}}, "skew"},
	} {
		draw := func(n int, seed uint64) table.Data {
			if c.a.Labels {
				return labelLaw(c.kind, n, 3, seed)
			}
			return drawLaw(c.kind, n, 3, seed)
		}
		truth, _ := best(c.a.Loss, draw(600_000, 777))
		tried, covered, quarter := 0, 0, 0
		for seed := range uint64(50) {
			r := resultOf(t, c.a, draw(40_000, 100+seed), 1, seed)
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
		t.Logf("%T, %s: %d of %d", c.a.Loss, c.kind, covered, tried)
		if tried < 135 || float64(covered) < 0.84*float64(tried) {
			t.Errorf("%T, %s: %d of %d are covered", c.a.Loss, c.kind, covered, tried)
		}
		if float64(quarter) >= 0.84*float64(tried) {
			t.Errorf("%T, %s: intervals of a quarter of the width cover %d of %d; the test has no power", c.a.Loss, c.kind, quarter, tried)
		}
	}
}

// Where there is no interval there is a reason.
func TestNewtonsMissingIntervalsHaveAReason(t *testing.T) {
	gauss := labelLaw("gauss", 30_000, 3, 1)
	for name, c := range map[string]struct {
		a    Regression
		x    table.Data
		eps  float64
		says string
	}{
		"a penalty":       {Regression{Penalty: catalogue.PenaltyL2, Lambda: 0.1}, gauss, 1, "penalty"},
		"an active ball":  {Regression{Radius: 0.1}, gauss, 1, "radius"},
		"few rows":        {Regression{}, labelLaw("gauss", 500, 3, 1), 0.1, "low information"},
		"few, penalised":  {Regression{Penalty: catalogue.PenaltyL2, Lambda: 0.1}, labelLaw("gauss", 500, 3, 1), 0.1, "penalty"},
		"too little":      {Regression{Method: catalogue.MethodNewton}, labelLaw("gauss", 500, 3, 1), 0.3, "hides some direction"},
		"far from scale":  {Regression{Radius: 1e4}, farFromScale(gauss), 1, ""},
		"another method":  {Regression{Method: "gd"}, gauss, 1, noErrors},
		"whitened, asked": {Regression{Whitening: catalogue.WhiteningOff}, gauss, 1, noErrors},
	} {
		c.a.Loss, c.a.Labels = loss.Logistic{}, true
		r := resultOf(t, c.a, c.x, c.eps, 1)
		if r.WhyNull == "" || !strings.Contains(r.WhyNull, c.says) || r.StdErr != nil || r.DF != nil || r.Low != nil || r.High != nil || r.Covariance != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, gauss, 1, 1); r.WhyNull != "" || len(r.Low) != 3 || r.Covariance == nil {
		t.Errorf("%+v", r)
	}
}

// Where a feature counts up to 3 only and has a tail, of index 1.8 also, fits are about rows that are not long. Intervals allow for that: they
// are wide, and hold the best fit of the population. Of 24 tables of each kind all did at eps 1 but one. Seeds are fixed.
func TestIntervalsHoldWhereLongRowsCarryTheFit(t *testing.T) {
	const tables = 8
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		for _, tail := range []float64{1.8, 3.5} {
			truth, _ := best(a.Loss, bentLaw(a.Labels, tail, 3, 1_000_000, 777))
			held := 0
			for seed := range uint64(tables) {
				r := resultOf(t, a, bentLaw(a.Labels, tail, 3, 40_000, 200+seed), 1, seed)
				if r.Low != nil && r.Low[1] <= truth[1] && truth[1] <= r.High[1] && r.High[1]-r.Low[1] < 3 {
					held++
				}
			}
			if held < tables-1 {
				t.Errorf("%T, a tail of %v: %d of %d tables have an interval that holds %v", a.Loss, tail, held, tables, truth[1])
			}
		}
	}
}

// bentLaw has a feature that counts up to a value only, with a Pareto tail or a normal one.
func bentLaw(labels bool, tail, counts float64, n int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 97))
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: [][]float64{make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		v := 2 + r.NormFloat64()
		if tail > 0 {
			v = math.Pow(1-r.Float64(), -1/tail)
		}
		x.X[0][i] = v
		if x.Y[i] = min(v, counts) + r.NormFloat64(); labels {
			x.Y[i] = 0
			if r.Float64() < sigmoid(min(v, counts)-2) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// Intervals allow for a bias, by the matrix that goes with them. Where the outer shell shows that
// the model does not hold, it is larger. Seeds are fixed.
func TestNewtonsIntervalsAllowForBiasThatShellsShow(t *testing.T) {
	const tables = 10
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		shown := map[bool]float64{}
		for seed := range uint64(tables) {
			for _, holds := range []bool{true, false} {
				counts := 3.0
				if holds {
					counts = math.Inf(1)
				}
				r := resultOf(t, a, bentLaw(a.Labels, 0, counts, 200_000, 300+seed), 1, seed)
				if r.Bias == nil {
					t.Fatalf("%T: %s", a.Loss, r.WhyNull)
				}
				for j, v := range r.StdErr {
					bias := math.Sqrt(r.Bias.At(j, j))
					shown[holds] += bias / v
					if got, want := (r.High[j]-r.Low[j])/2, numeric.HalfWidth(v, r.DF[j], bias); math.Abs(got-want) > 1e-9*want {
						t.Errorf("%T: a half width of %v with a bias of %v, want %v", a.Loss, got, bias, want)
					}
				}
			}
		}
		if t.Logf("%T: %v", a.Loss, shown); !(shown[false] > 2*shown[true]) {
			t.Errorf("%T: biases of %v standard errors where the model does not hold, %v where it does", a.Loss, shown[false], shown[true])
		}
	}
}

// Where the outer shell shows which way long rows pull, the middles of intervals of Huber fits are nearer to the fit without weights than
// coefficients are, which go only as far as the shell is certain. Intervals hold it. Seeds are fixed.
func TestIntervalsMoveTowardTheFitWithoutWeights(t *testing.T) {
	const tables = 8
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		truth, _ := best(a.Loss, cappedLaw(a.Labels, 600_000, 777))
		middle, coefficient := 0.0, 0.0
		for seed := range uint64(tables) {
			r := resultOf(t, a, cappedLaw(a.Labels, 20_000, 400+seed), 1, seed)
			if r.Low == nil || !(r.Low[1] <= truth[1] && truth[1] <= r.High[1]) {
				t.Errorf("%T: an interval from %v to %v, want %v: %q", a.Loss, r.Low, r.High, truth, r.WhyNull)
				continue
			}
			middle += (r.Low[1]+r.High[1])/2 - truth[1]
			coefficient += r.Coefficients[1] - truth[1]
		}
		t.Logf("%T: middles are off by %v, the coefficients by %v", a.Loss, middle/tables, coefficient/tables)
		if !a.Labels && !(math.Abs(middle) < 0.6*math.Abs(coefficient)) {
			t.Errorf("%T: middles are off by %v, the coefficients by %v", a.Loss, middle, coefficient)
		}
	}
}

// cappedLaw has an exponential feature that counts up to 2 only, and a normal one.
func cappedLaw(labels bool, n int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 98))
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = r.ExpFloat64(), r.NormFloat64()
		z := 0.8*min(x.X[0][i], 2) - 0.4*x.X[1][i] - 0.3
		if x.Y[i] = z + r.NormFloat64(); labels {
			x.Y[i] = 0
			if r.Float64() < sigmoid(z) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// shownFit is a fit of labels at a limit, whose histograms show rows of one length, about 1.2.
func shownFit(limit float64) *newtonFit {
	counts := make([]float64, magnitude.Bins)
	counts[1-magnitude.LowestOctave] = 1e6
	seen, one := magnitude.Read(counts, 1, 1, math.Inf(1), 1e6).Apart(), mat.NewSymDense(1, []float64{1})
	return &newtonFit{weights: 1, common: 1, own: 1,
		newtonReleases: &newtonReleases{Newton: Newton{Curve: logisticCurve{}}, shape: table.Shape{N: 1_000_000, D: 1}},
		scores:         seen, lengths: seen, firstLengths: seen, rescale: 1, rescaleScores: 1, limit: limit, bound: limit, meat: one, h: one, q: linalg.Identity(1), parts: make([]*mat.VecDense, scoreShells),
	}
}

// Where one row in twenty lies far away and counts no more there, the shell shows that the model does not hold, though not how
// much weights take away: no more than a fifth of tables have an interval that misses the slope. Before, all ten
// had one. Seeds are fixed.
func TestNewtonsIntervalsAllowForRowsFarAway(t *testing.T) {
	const tables = 10
	given, covered := slopesCovered(t, farLaw, 40_000, tables, 1)
	if missed := given - covered; missed > tables/5 {
		t.Errorf("%d of %d intervals miss the slope", missed, given)
	}
}

// slopesCovered is how many of so many tables of a law of labels have intervals, and how many of these hold the slope.
func slopesCovered(t *testing.T, law func(n int, seed uint64) table.Data, rows, tables int, eps float64) (given, covered int) {
	t.Helper()
	truth, _ := best(loss.Logistic{}, law(600_000, 777))
	for seed := range uint64(tables) {
		r := resultOf(t, Regression{Loss: loss.Logistic{}, Labels: true}, law(rows, 500+seed), eps, seed)
		if r.Low == nil {
			continue
		}
		if given++; r.Low[1] <= truth[1] && truth[1] <= r.High[1] {
			covered++
		}
	}
	t.Logf("%v: %d of %d given, %d cover", truth, given, tables, covered)
	return given, covered
}

// farLaw has labels and a feature of which one row in twenty lies far away; it counts up to 2 only.
func farLaw(n int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 99))
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range n {
		v := 2 * r.Float64()
		if r.Float64() < .05 {
			v = 2 + 3*r.ExpFloat64()
		}
		if x.X[0][i] = v; r.Float64() < sigmoid(.6*min(v, 2)) {
			x.Y[i] = 1
		}
	}
	return x
}

// A few rows lie far away, where the model is certain of the label and one label in seven is the other one: noise hides these
// scores, and intervals allow for as many as it may, as far away as the first pass has seen rows. Of 100 samples each 98, 100 and 96 had
// intervals, which held the slope in 96, 88 and 91 %. Where these rows were taken to be as far away as all beyond what is seen, and
// any that stood out withheld them, 98, 100 and 68 had them, with 60, 23 and 79 %. Seeds are fixed.
func TestNewtonsIntervalsAllowForLabelsWhoseScoresAreHidden(t *testing.T) {
	for name, c := range map[string]struct {
		law func(n int, seed uint64) table.Data
		eps float64
	}{
		"one in fifty at 10":       {certainLaw(.02, func(*rand.Rand) float64 { return 10 }), 1},
		"one in two hundred at 30": {certainLaw(.005, func(*rand.Rand) float64 { return 30 }), 10},
		"one in fifty, from 3 on":  {certainLaw(.02, func(r *rand.Rand) float64 { return 3 + 3*r.ExpFloat64() }), 1},
	} {
		if given, covered := slopesCovered(t, c.law, 20_000, 20, c.eps); given < 15 || covered < given*7/10 {
			t.Errorf("%s: %d of %d intervals hold the slope", name, covered, given)
		}
	}
}

// certainLaw has labels and a normal feature but for a share of rows, which lie far away; it counts up to 3 only.
func certainLaw(share float64, far func(r *rand.Rand) float64) func(n int, seed uint64) table.Data {
	return func(n int, seed uint64) table.Data {
		r := rand.New(rand.NewPCG(seed, 98))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
		for i := range n {
			v := r.NormFloat64()
			if r.Float64() < share {
				v = far(r)
			}
			if x.X[0][i] = v; r.Float64() < sigmoid(.6*min(v, 3)) {
				x.Y[i] = 1
			}
		}
		return x
	}
}

// Where rows far away are cut, and shells show that they obey another model, an interval allows for what is missing of these rows along the
// shell. By Huber's loss 16 of 20 intervals hold the slope of this law. Seeds are fixed.
func TestNewtonsIntervalsAllowForRowsThatAreCut(t *testing.T) {
	draw := func(n int, seed uint64) table.Data {
		r := rand.New(rand.NewPCG(seed, 95))
		x := table.Data{Shape: table.Shape{N: n, D: 5, Intercept: true}, X: table.NewColumns(4, n), Y: make([]float64, n)}
		for i := range n {
			for j := range x.X {
				x.X[j][i] = r.NormFloat64()
			}
			if r.Float64() < .005 {
				x.X[0][i] = 10
			}
			x.Y[i] = .6*min(x.X[0][i], 3) + r.NormFloat64()
		}
		return x
	}
	a := Regression{Loss: loss.Huber{Delta: 1}}
	truth, _ := best(a.Loss, draw(600_000, 777))
	given, covered := 0, 0
	for seed := range uint64(20) {
		r := resultOf(t, a, draw(40_000, 700+seed), 1, seed)
		if r.Low == nil {
			continue
		}
		if given++; r.Low[1] <= truth[1] && truth[1] <= r.High[1] {
			covered++
		}
	}
	if t.Logf("%d given, %d cover", given, covered); given < 10 || covered < given/2 {
		t.Errorf("%d of %d intervals hold the slope", covered, given)
	}
}

// Rare flags are long in the coordinates of the steps alone, and all about equally: intervals are given where shells do not show that
// the model does not hold, for 50 and 52 of 60 tables; else 7 and 1 had any. Seeds are fixed.
func TestRareFlagsLeaveNewtonItsIntervals(t *testing.T) {
	const tables = 16
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		truth, given, covered := []float64{.3, .4, -.4, .3, -.3}, 0, 0
		for seed := range uint64(tables) {
			r := resultOf(t, a, twoFlags(a.Labels, truth, 20_000, 600+seed), 1, seed)
			if r.Low == nil {
				continue
			}
			given++
			for j, low := range r.Low {
				if low <= truth[j] && truth[j] <= r.High[j] {
					covered++
				}
			}
		}
		if t.Logf("%T: %d of %d given, %d intervals cover", a.Loss, given, tables, covered); given < tables/2 || covered < 9*len(truth)*given/10 {
			t.Errorf("%T: %d of %d given, %d intervals cover", a.Loss, given, tables, covered)
		}
	}
}

// twoFlags has flags of one and of three rows in a hundred, and two normal features.
func twoFlags(labels bool, w []float64, n int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 96))
	x := table.Data{Shape: table.Shape{N: n, D: 5, Intercept: true}, X: table.NewColumns(4, n), Y: make([]float64, n)}
	for i := range n {
		z := w[0]
		for j, column := range x.X {
			switch {
			case j >= 2:
				column[i] = r.NormFloat64()
			case r.Float64() < []float64{.01, .03}[j]:
				column[i] = 1
			}
			z += w[1+j] * column[i]
		}
		if x.Y[i] = z + r.NormFloat64(); labels {
			x.Y[i] = 0
			if r.Float64() < sigmoid(z) {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// Moments are of rows shortened to the bound, lengths of whole ones: of two normal features, of which one is 30 in one row in a hundred,
// lengths become those of scores by about what whitens them, 1.07 over the root of the curvature, and not by .4 of that for what the bound cuts off.
func TestFarRowsAreAsFarAwayAsLengthsSay(t *testing.T) {
	x := table.Data{Shape: table.Shape{N: 100_000, D: 2}, X: table.NewColumns(2, 100_000), Y: make([]float64, 100_000)}
	r := rand.New(rand.NewPCG(4, 4))
	for i := range x.N {
		x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
		if i%100 == 0 {
			x.X[0][i] = 30
		}
	}
	release, err := Newton{Curve: logisticCurve{}, Bound: 2, Intervals: true}.releases(x.Shape, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := newNewtonFit(release)
	f.first(x, mechtest.Source(t, 1))
	if got := f.firstScore * math.Sqrt(f.mean*(1+momentWeight)); !(got > 0.95 && got < 1.2) {
		t.Errorf("lengths become those of scores by %v over the root of the curvature", got)
	}
}

// A histogram that ends below the shell leaves nothing missing; where rows beyond all that it shows surely stand out, half of all that is
// taken away may pull, and along the shell a part of it where the model is certain not to hold.
func TestWhatIsMissingFollowsTheHistogram(t *testing.T) {
	f := shownFit(1)
	for limit, missing := range map[float64]bool{1: true, 8: false} {
		f.limit, f.bound = limit, limit
		if got := f.missing(expectedTail); (got > 0) != missing || math.IsNaN(got) {
			t.Errorf("limit %v: %v missing", limit, got)
		}
	}
	f.scoresAreKnown = true
	for limit, moves := range map[float64]bool{.6: true, 1.15: false} {
		if f.limit = limit; f.limitMoves() != moves {
			t.Errorf("limit %v, %v missing: it moves, %v", limit, f.missing(expectedTail), !moves)
		}
	}
	f.limit = 1.5
	for _, c := range []struct {
		name                  string
		beyond, missing, want float64
		certain               float64
	}{
		{"little is missing", 0, 0, 0, 0},
		{"much is missing", 0, 1, partHidden, 0},
		{"the model is certain not to hold", 0, 0, partHidden * whereSeen, 1},
		{"rows may stand out", 1.5, 1, partHidden, 0},
		{"rows stand out", 2.25, 0, .75 * partBeyond, 0},
		{"rows surely stand out", 3, 0, partBeyond, 0},
	} {
		f.scores = f.scores.Beyond(math.Sqrt2*c.beyond - f.scores.StandsOut()) // in both histograms
		f.firstLengths = f.scores.Beyond(-math.Inf(1))
		if got := f.pull(1, c.missing, extrapolation{certain: c.certain}); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: a pull of %v, want %v", c.name, got, c.want)
		}
	}
	off := mat.NewVecDense(1, []float64{1e-9})
	for certain, want := range map[float64]float64{0: 0, .5: 2, 1: 4} {
		if got := f.shownBias(linalg.Identity(1), 2, extrapolation{off: off, factor: 1, misfit: 1, certain: certain}).At(0, 0); math.Abs(got-want) > 1e-9 {
			t.Errorf("a bias of %v where the model is certain by %v not to hold, want %v", got, certain, want)
		}
	}
}

// The limit of the last step shortens no visible row where noise is far below sampling, and by Huber's loss only once residuals are known.
func TestTheLastLimitShortensNoRowWhereNoiseIsLow(t *testing.T) {
	for _, c := range []struct {
		z, spreads float64
		last, cuts bool
	}{{1e-3, 1, true, false}, {1e-3, 1, false, true}, {1e-3, 0, true, true}, {1e5, 1, true, true}, {100, 1, true, false}, {100, .5, true, true}} {
		f := shownFit(1)
		f.n, f.d, f.spreads, f.scoresAreKnown, f.steps = 1e6, 1, c.spreads, true, 2
		f.scoreNoise = [mostSteps]mech.Gaussian{{NoiseMultiplier: c.z}, {NoiseMultiplier: c.z}}
		step := f.last()
		if !c.last {
			step--
		}
		if limit := f.limitFor(f.scores, step); limit < f.scores.Edge() != c.cuts {
			t.Errorf("%+v: a limit of %v, rows up to %v", c, limit, f.scores.Edge())
		}
	}
}

// Huber fits of a target whose residuals are ten times its scale, and skewed, have intervals: the last step may be as long as a typical
// residual, however small delta is. Before, one to three of ten had one, at any eps. Seeds are fixed.
func TestIntervalsOfASmallDeltaAreGiven(t *testing.T) {
	const tables = 12
	law := func(n int, seed uint64) table.Data {
		x := drawLaw("skew", n, 3, seed)
		floats.Scale(10, x.Y)
		return x
	}
	truths, large := map[float64][]float64{}, law(300_000, 777)
	given, covered := 0, 0
	for seed := range uint64(tables) {
		r := resultOf(t, Regression{Loss: loss.Huber{}}, law(20_000, seed), 3, seed)
		if r.Low == nil {
			t.Log(r.WhyNull)
			continue
		}
		if truths[r.HuberDelta] == nil {
			truths[r.HuberDelta], _ = best(loss.Huber{Delta: r.HuberDelta}, large)
		}
		if given++; r.Low[1] <= truths[r.HuberDelta][1] && truths[r.HuberDelta][1] <= r.High[1] {
			covered++
		}
	}
	if t.Logf("%d given, %d cover, deltas %v", given, covered, truths); given < tables-2 || covered < given-3 {
		t.Errorf("of %d fits %d have intervals, which hold the slope in %d", tables, given, covered)
	}
}

// Huber fits of a target that lies thirty of its scales from 0 and is not moved there, as with weights: the last step is still long, and
// says less than the residuals of the step before, which were that distance. Of the intervals that were given when these counted as
// residuals 105 of 200 held; now all of 160 do. Seeds are fixed.
func TestIntervalsOfAFarTargetHold(t *testing.T) {
	const tables, rows = 40, 20_000
	truth := []float64{30, .3, -.3, .3, -.3, .3}
	given, held := 0, 0
	for seed := range uint64(tables) {
		r := rand.New(rand.NewPCG(seed, 51))
		t5, t2 := distuv.StudentsT{Sigma: 1, Nu: 5, Src: r}, distuv.StudentsT{Sigma: 1, Nu: 2, Src: r}
		x := table.Data{Shape: table.Shape{N: rows, D: len(truth), Intercept: true}, X: table.NewColumns(len(truth)-1, rows), Y: make([]float64, rows), Weight: make([]float64, rows)}
		for i := range x.Y {
			x.Y[i], x.Weight[i] = truth[0], 1
			for j := range x.X {
				x.X[j][i] = t5.Rand()
				if j == 1 {
					x.X[j][i] = x.X[0][i] + .2*x.X[j][i]
				}
				x.Y[i] += truth[j+1] * x.X[j][i]
			}
			x.Y[i] += (.4 + .5*math.Abs(x.X[0][i])) * t2.Rand()
		}
		out := resultOf(t, Regression{Loss: loss.Huber{}, Weight: "weight", MaxWeight: 1}, x, 10, seed)
		for j := 1; j < len(truth); j++ {
			if !out.Withholds(j) {
				given++
				if out.Low[j] <= truth[j] && truth[j] <= out.High[j] {
					held++
				}
			}
		}
	}
	if t.Logf("%d of %d hold", held, given); given < tables || float64(held) < .93*float64(given) {
		t.Errorf("of %d intervals %d hold", given, held)
	}
}

// Where residuals grow with the length of rows, scores are larger along long rows than on average.
func TestScoresAreLargerAlongAMisfit(t *testing.T) {
	for _, c := range []struct{ h, meat, want float64 }{{1, 1, 1}, {4, 4, 1}, {1, 3, math.Sqrt(1.5)}, {4, 2, 1}, {.01, 100, mostAlong}, {1, -1, 1}} {
		f := &newtonFit{newtonReleases: &newtonReleases{}, q: mat.NewDense(2, 2, []float64{1 / math.Sqrt(c.h), 0, 0, 1}), h: mat.NewSymDense(2, []float64{c.h, 0, 0, 1}), meat: mat.NewSymDense(2, []float64{c.meat, 0, 0, 1})}
		f.shape.D = 2
		if got := f.largerAlong(mat.NewVecDense(2, []float64{3, 0})); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("curvature %v and meat %v: %v times as large, want %v", c.h, c.meat, got, c.want)
		}
	}
}

// What the shell holds of a step that is left goes by the shell, as far as the score is more than noise; intervals allow for it along the score.
func TestIntervalsAllowForTheStepThatTheShellHolds(t *testing.T) {
	g := mat.NewVecDense(2, []float64{3, 4})
	part := func(share, across float64) *mat.VecDense {
		return mat.NewVecDense(2, []float64{3*share - 4*across, 4*share + 3*across})
	}
	for _, c := range []struct{ share, across, deviation, want float64 }{
		{.9, 0, 0, .9}, {.9, 7, 0, .9}, {1.5, 0, 0, 1}, {.2, 0, 0, .4}, {-1, 0, 0, .4},
		{.9, 0, 5 / math.Sqrt2, .4}, {.9, 0, 2.5, .65}, {.9, 0, 100, .4},
	} {
		f := &newtonFit{g: g, gDeviation: c.deviation, d: 2}
		if got := f.shareAlong(part(c.share, c.across), .4); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: a share of %v", c, got)
		}
	}
	f := &newtonFit{newtonReleases: &newtonReleases{Newton: Newton{Curve: huberCurve{}}}, g: g}
	f.shape.D = 2
	bias := f.shownBias(linalg.Identity(2), 2, extrapolation{off: part(0, 1), along: .5})
	if want := mat.NewSymDense(2, []float64{2.25, 3, 3, 4}); !mat.EqualApprox(bias, want, 1e-12) {
		t.Errorf("a bias of %v", mat.Formatted(bias))
	}
}

// farFromScale has separable labels and a feature a thousandth of its scale.
func farFromScale(x table.Data) table.Data {
	c := plantest.Clone(x)
	for i, v := range c.X[0] {
		c.Y[i] = 0
		if v > 0 {
			c.Y[i] = 1
		}
	}
	floats.Scale(1e-3, c.X[1])
	return c
}

// The squares of standard errors are the covariance's diagonal, and the covariance has no
// negative eigenvalue.
func TestNewtonsCovariance(t *testing.T) {
	for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{}}} {
		x := drawLaw("skew", 30_000, 5, 1)
		if a.Labels {
			x = labelLaw("skew", 30_000, 5, 1)
		}
		r := resultOf(t, a, x, 1, 1)
		for j, v := range r.StdErr {
			if math.Abs(v*v-r.Covariance.At(j, j)) > 1e-12*v*v {
				t.Errorf("%v, by the covariance %v", v, math.Sqrt(r.Covariance.At(j, j)))
			}
		}
		w := linalg.NewWhitener(r.Covariance, 0)
		if len(r.StdErr) != 5 || !(w.Values[0] > 0) || math.IsInf(w.Values[0], 0) {
			t.Errorf("%v", r)
		}
	}
}

// The shells of a row's score add up to it, each no wider than its part of the limit, and
// keep the contract of the score together, for all rows and limits.
func TestShellsAreTheScore(t *testing.T) {
	widths := 0.0
	for k := range scoreShells {
		widths += shellWidth(k, scoreShells)
	}
	if widths != 1 || shellWidth(0, 1) != 1 {
		t.Fatalf("shells are %v of the limit wide together", widths)
	}
	r, fullest := rand.New(rand.NewPCG(8, 8)), 0.0
	for k := range 6000 {
		labels := k%2 == 0
		x, _ := plantest.Neighbours(r, table.Shape{N: 1, D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}, labels)
		var c curve = huberCurve{delta: math.Exp(r.NormFloat64()), cut: 1}
		if labels {
			c, x.Y[0] = logisticCurve{}, float64(r.IntN(2))
		}
		p, w := make([][]float64, x.D), make([]float64, x.D)
		for j := range p {
			for range j + 1 {
				p[j] = append(p[j], r.NormFloat64())
			}
			w[j] = r.NormFloat64()
		}
		limit := math.Exp(3 * r.NormFloat64())
		rows := recorded(c, x, p, w, limit, math.Exp(3*r.NormFloat64()))
		if !(rows.length[0] > 1e-100 && rows.length[0] < 1e150) {
			continue // says nothing, or its square is out of range: the mechanism has the last word
		}
		rows.addScore(mech.NewSum(mech.Contract{Norm: mech.L2, Bound: 1, N: 1, D: x.D * scoreShells}), limit, scoreShells)
		squares := 0.0
		for j := range x.D {
			sum, want := 0.0, rows.weight[0]*rows.score[0]*rows.z[j][0]
			for k := range scoreShells {
				v := rows.products[k*x.D+j][0]
				squares += v * v
				sum += v * limit * math.Sqrt(shellWidth(k, scoreShells))
			}
			if math.Abs(sum-want) > 1e-9*limit {
				t.Fatalf("shells add up to %v, the score is %v", sum, want)
			}
		}
		if fullest = max(fullest, squares); squares > 1+1e-9 {
			t.Fatalf("the shells of a row have squares of %v", squares)
		}
	}
	if fullest < 0.99 {
		t.Errorf("no row has shells beyond %v of their contract", fullest)
	}
}

// Limits are chosen by the middles of bins, and intervals read spread bins.
func TestIntervalsReadSpreadBins(t *testing.T) {
	size := func(v float64) float64 { return v }
	spread := func(m *magnitude.Histogram) bool { return m.Mean(size) == m.WithSpreadBins().Mean(size) }
	r := rand.New(rand.NewPCG(1, 2))
	x := table.Data{Shape: table.Shape{N: 4000, D: 2, Intercept: true}, X: [][]float64{make([]float64, 4000)}, Y: make([]float64, 4000)}
	for i := range x.Y {
		x.X[0][i] = r.NormFloat64()
		x.Y[i] = x.X[0][i] + r.NormFloat64()
	}
	releases, err := Newton{Curve: huberCurve{delta: 1, cut: 4}, Bound: 2, Intervals: true}.releases(x.Shape, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	a, src := newNewtonParts(releases, x), mechtest.Source(t, 1)
	f := a.fits[0]
	f.first(x, src)
	for step := range releases.steps {
		if f.scores == nil || spread(f.scores) || spread(f.lengths) {
			t.Errorf("step %d: a limit is chosen by spread bins, or by none", step)
		}
		a.step(step, src)
	}
	if !spread(f.scores) || !spread(f.lengths) {
		t.Error("intervals read the middles of bins")
	}
}
