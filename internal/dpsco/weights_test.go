package dpsco

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// weightedLaw are rows of a law that no linear model fits, so that weights matter, with weights
// from 0 to 4, which the features tell in part.
func weightedLaw(model string, n int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 17))
	x := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: table.NewColumns(2, n), Y: make([]float64, n), Weight: make([]float64, n)}
	for i := range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		x.X[0][i], x.X[1][i] = a, b
		x.Weight[i] = math.Floor(5 * sigmoid(a+r.NormFloat64()))
		mean := 0.5 + a - 0.5*b + 0.3*a*a
		switch model {
		case "logistic":
			if r.Float64() < sigmoid(mean) {
				x.Y[i] = 1
			}
		case "poisson":
			x.Y[i] = float64(poissonOf(r, math.Exp(min(mean-1, 2))))
		default: // skewed, so that a robust start has another level
			x.Y[i] = mean + (r.ExpFloat64()-1)*(1+0.3*math.Abs(a))
		}
	}
	return x
}

// poissonOf draws a count with a mean.
func poissonOf(r *rand.Rand, mean float64) (count int) {
	for left := r.ExpFloat64(); left < mean; left += r.ExpFloat64() {
		count++
	}
	return count
}

// maxWeight is the largest of a weightedLaw.
const maxWeight = 4

// repeated has every row as often as its weight says: a fit of them without weights is the
// weighted one.
func repeated(x table.Data) table.Data {
	out := table.Data{Shape: x.Shape, X: make([][]float64, len(x.X))}
	for i, w := range x.Weight {
		for range int(min(w, maxWeight)) {
			out.Y = append(out.Y, x.Y[i])
			for j, column := range x.X {
				out.X[j] = append(out.X[j], column[i])
			}
			if x.Offset != nil {
				out.Offset = append(out.Offset, x.Offset[i])
			}
		}
	}
	out.N = len(out.Y)
	return out
}

// withWeights is a model with weights, at a method.
func withWeights(model, method string) plan.Algorithm {
	given := map[string]any{"weight": "w", "max_weight": float64(maxWeight), "method": method}
	a, err := Recipe(model, given, []string{"a", "b"})
	if err != nil {
		panic(err)
	}
	return a
}

// weighedResult is a fit as jobs run it.
func weighedResult(t *testing.T, a plan.Algorithm, counts bool, x table.Data, b privacy.Budget, seed uint64) release.Result {
	t.Helper()
	return plantest.Run(t, Scaled{Algorithm: a, X: table.Repeat(1, x.Columns()), Y: 1, Counts: counts}, x, b, seed)
}

// With much budget a weighted fit is the exact one of rows that are repeated as often as their
// weights say, of every model, with and without an intercept and an offset.
func TestWeightsAreRepeatedRows(t *testing.T) {
	for model, within := range map[string]float64{"linear": 0.01, "logistic": 0.02, "huber": 0.02, "poisson": 0.04} {
		for k := range 4 {
			intercept, offset := k%2 == 0, k/2 == 1
			x := weightedLaw(model, 60_000, 1)
			if offset {
				x.Offset = make([]float64, x.N)
				for i := range x.Offset {
					x.Offset[i] = 0.7*x.X[1][i] - 1
				}
			}
			if !intercept {
				x.X, x.Intercept = append([][]float64{slices.Repeat([]float64{1}, x.N)}, x.X...), false
			}
			l := losses[model]
			if model == "huber" {
				l = loss.Huber{Delta: 1}
			}
			want, _ := best(l, repeated(x))
			for i := 0; i < x.N; i += 10 { // unusable rows, and weights above the largest one
				if x.Weight[i] == maxWeight {
					x.Weight[i] = 1e6
				}
				if x.Weight[i] == 0 {
					x.Weight[i] = []float64{math.NaN(), -3, math.Inf(1), math.Inf(-1), 0}[i/10%5]
				}
			}
			r := weighedResult(t, withWeights(model, catalogue.MethodAuto), model == "poisson", x, privacy.Budget{Epsilon: 1000, Delta: 1e-6}, 1)
			t.Logf("%s, intercept %t, offset %t: %.4f, want %.4f; %q", model, intercept, offset, r.Coefficients, want, r.WhyNull)
			for j, v := range r.Coefficients {
				if math.Abs(v-want[j]) > within {
					t.Errorf("%s, intercept %t, offset %t: %v, want %v", model, intercept, offset, r.Coefficients, want)
					break
				}
				if r.Low != nil && !(r.Low[j] <= v && v <= r.High[j]) {
					t.Errorf("%s: an interval from %v to %v around %v", model, r.Low[j], r.High[j], v)
				}
			}
		}
	}
}

// Weights that are all the largest one make no difference, but for rounding.
func TestEqualWeightsAreNone(t *testing.T) {
	for _, model := range regressions() {
		for _, method := range []string{catalogue.MethodAuto, "gd", "ksu", "spgd_kamath", "svrg", catalogue.MethodSampleAggregate} {
			if !fitsLoss(losses[model], method) {
				continue
			}
			x := weightedLaw(model, 4000, 2)
			x.Weight = slices.Repeat([]float64{maxWeight}, x.N)
			budget := privacy.Budget{Epsilon: 100, Delta: 1e-6}
			with := weighedResult(t, withWeights(model, method), model == "poisson", x, budget, 3)
			x.Weight = nil
			m, _ := catalogue.Find(model)
			a := regression(m)
			a.Method = method
			without := weighedResult(t, a, model == "poisson", x, budget, 3)
			for j, v := range with.Coefficients {
				if math.Abs(v-without.Coefficients[j]) > 0.02 { // rounding moves a limit by one bin, now and then
					t.Errorf("%s by %s: %v with weights, %v without", model, method, with.Coefficients, without.Coefficients)
					break
				}
			}
		}
	}
}

// Weights without their bound, or that a method does not take, are refused with what to do.
func TestWeightsAreRefused(t *testing.T) {
	s, b := table.Shape{N: 1000, D: 2, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	for name, a := range map[string]plan.Algorithm{
		"no bound":          Regression{Loss: loss.Squared{}, Weight: "w"},
		"no bound of l1":    L1{Weight: "w"},
		"exact sampler":     L1{MaxWeight: 1, Method: catalogue.MethodExponential},
		"bound of nothing":  Regression{Loss: loss.Squared{}, MaxWeight: -1},
		"too large a bound": Regression{Loss: loss.Squared{}, MaxWeight: 1e12},
	} {
		if _, pure := a.(L1); pure {
			b.Delta = 0
		} else {
			b.Delta = 1e-6
		}
		if _, err := a.Plan(s, b, privacy.Concentrated{}); !errors.Is(err, plan.ErrParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.GroupCount = 2
	for name, a := range map[string]plan.Algorithm{"groups": Regression{Loss: loss.Squared{}, MaxWeight: 1}, "groups of medians": L1{MaxWeight: 1}} {
		if b.Delta = 1e-6; name == "groups of medians" {
			b.Delta = 0
		}
		if _, err := a.Plan(s, b, privacy.Concentrated{}); !errors.Is(err, plan.ErrInfeasible) || !strings.Contains(err.Error(), "no weights") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for model, given := range map[string]map[string]any{"l1": {"max_weight": 3.}, "linear": {"max_weight": 3.}} {
		if _, err := Recipe(model, given, nil); !errors.Is(err, plan.ErrParameter) {
			t.Errorf("%s: %v", fmt.Sprint(model, given), err)
		}
	}
}

// weightNeighbours are tables with weights and offsets, of all kinds in the one row that
// differs: in some pairs by its weight alone, from none to the largest one.
func weightNeighbours(r *rand.Rand, s table.Shape, labels bool) (a, b table.Data) {
	a, b = plantest.Neighbours(r, s, labels)
	if r.IntN(3) == 0 {
		b = plantest.Clone(a)
	}
	give := func(old func() float64, kinds func(i int) (float64, float64), differs func(i int) bool) (v, w []float64) {
		v, w = make([]float64, s.N), make([]float64, s.N)
		for i := range s.N {
			if v[i] = old(); differs(i) {
				v[i], w[i] = kinds(i)
			} else {
				w[i] = v[i]
			}
		}
		return v, w
	}
	changed := r.IntN(s.N)
	for i := range s.N {
		if !sameRow(a, b, i) {
			changed = i
		}
	}
	differs := func(i int) bool { return i == changed }
	a.Weight, b.Weight = give(func() float64 { return []float64{0, 1, maxWeight, 1e9, math.NaN()}[r.IntN(5)] }, func(int) (float64, float64) {
		if r.IntN(2) == 0 {
			return 0, maxWeight
		}
		return plantest.Hostile(r), plantest.Hostile(r)
	}, differs)
	if r.IntN(2) == 0 {
		a.Offset, b.Offset = give(r.NormFloat64, func(int) (float64, float64) { return plantest.Hostile(r), plantest.Hostile(r) }, differs)
	}
	return a, b
}

// sameRow reports whether row i is the same in both, NaN being NaN.
func sameRow(a, b table.Data, i int) bool {
	equal := func(v, w float64) bool { return v == w || v != v && w != w }
	same := equal(a.Y[i], b.Y[i])
	for j := range a.X {
		same = same && equal(a.X[j][i], b.X[j][i])
	}
	return same
}

// Whatever weight, offset and values of a row become, the integers of every release move by no
// more than its noise is scaled to hide, and given the answers nothing else differs: of every
// method of every model, of rows and of persons with several. In some pair a weight that goes
// from none to the largest one moves a release by more than 40 % of what is hidden.
func TestReplaysOfWeights(t *testing.T) {
	largest := map[string]float64{}
	requests := replays()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		a, r := requests[name], rand.New(rand.NewPCG(7, uint64(len(name))))
		a.MaxWeight = maxWeight
		_, counts := a.Loss.(loss.Poisson)
		for k := range 4 {
			s := table.Shape{N: 23 * (1 + k/3), D: 2 + k%2, Intercept: k%3 == 0}
			scaled := Scaled{Algorithm: a, X: table.Repeat(2, s.Columns()), Y: 1, Counts: counts}
			x, y := weightNeighbours(r, s, a.Labels)
			if k == 3 {
				scaled.MaxRows = 2
				x, y = inPairs(x), inPairs(y)
				s = x.Shape
			}
			plan := func() *plan.Plan { return plantest.Plan(t, scaled, s, plantest.Generous, privacy.Concentrated{}) }
			shares, err := plantest.Replay(t, plan, x, y)
			if err != nil {
				t.Fatalf("%s, pair %d: %v", name, k, err)
			}
			for kind, share := range shares {
				largest[kind] = max(largest[kind], share)
			}
		}
	}
	for kind, share := range largest {
		t.Logf("%-60s %.3f", kind, share)
		if share < 0.4 && !strings.HasSuffix(kind, "Centre on [2]int") {
			t.Errorf("%s: no pair moves it by more than %v of what is allowed", kind, share)
		}
	}
}

// inPairs makes every two rows those of one person.
func inPairs(x table.Data) table.Data {
	pairs := make([]int, 0, x.N)
	for i := 0; i < x.N; i += 2 {
		pairs = append(pairs, min(2, x.N-i))
	}
	x = plantest.Grouped(x, pairs)
	x.MaxRows = 2
	return x
}

// The same of the stages of l1, also of another quantile, and of scores.
func TestReplaysOfWeightsInStagesAndScores(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for k := range 40 {
		s := table.Shape{N: 60, D: 2, Intercept: k%2 == 0}
		x, y := weightNeighbours(r, s, false)
		rows := 0
		if k%5 == 4 {
			x, y, rows = inPairs(x), inPairs(y), 2
			s = x.Shape
		}
		algorithms := map[string]plan.Algorithm{}
		for name, tau := range map[string]float64{"staged": 0.5, "staged, another quantile": 0.8} {
			algorithms[name] = Scaled{Algorithm: L1{Method: catalogue.MethodStaged, Tau: tau, MaxWeight: maxWeight}, X: table.Repeat(2, s.Columns()), Y: 1, MaxRows: rows}
		}
		for name, score := range map[string]score.Metrics{"score": {}, "score of labels": {Labels: true}, "score of counts": {Counts: true}} {
			score.Coefficients, score.MaxWeight, score.MaxRows = table.Repeat(0.5, s.D), maxWeight, rows
			algorithms[name] = score
		}
		for name, a := range algorithms {
			b := privacy.Budget{Epsilon: 60}
			if _, score := a.(score.Metrics); score && k%4 > 1 {
				b.Delta = 1e-2
			}
			_, err := plantest.Replay(t, func() *plan.Plan { return mayPlace(plantest.Plan(t, a, s, b, privacy.Concentrated{})) }, x, y)
			if err != nil {
				t.Fatalf("%s, pair %d: %v", name, k, err)
			}
		}
	}
}

// The same where all weights but that of one row are far below the largest that they may be: what a weight counts for follows from
// released numbers, and from no other row.
func TestReplaysOfLightWeightsInStages(t *testing.T) {
	r, largest := rand.New(rand.NewPCG(9, 8)), map[string]float64{}
	for k := range 40 {
		x := drawLaw("gauss", 60, 1+k%3, uint64(k))
		x.Weight = make([]float64, x.N)
		for i := range x.N {
			x.Weight[i] = .01 * maxWeight * float64(1+i%3)
		}
		y, i := plantest.Clone(x), r.IntN(x.N)
		x.Weight[i], y.Weight[i] = []float64{0, .02 * maxWeight, math.NaN()}[k%3], maxWeight
		y.Y[i] = plantest.Hostile(r)
		shares, err := plantest.Replay(t, func() *plan.Plan {
			a := L1{Method: catalogue.MethodStaged, Tau: []float64{.2, .9, .5}[k/3%3], MaxWeight: maxWeight}
			p := plantest.Plan(t, Scaled{Algorithm: a, X: table.Repeat(1, x.Columns()), Y: 1}, x.Shape, privacy.Budget{Epsilon: 100}, privacy.PureSum{})
			return mayPlace(p)
		}, x, y)
		if err != nil {
			t.Fatalf("pair %d: %v", k, err)
		}
		for kind, share := range shares {
			largest[kind] = max(largest[kind], share)
		}
	}
	if share := largest["mech.SignedQuantile on mech.MagnitudeContract"]; share <= .5 {
		t.Errorf("the shift to the quantile is moved by %v of its bound at most: %v", share, largest)
	}
}

// Every method of least squares goes to the weighted fit, in batches and of persons too: at
// much budget it ends far nearer to that than to the one without weights.
func TestEveryMethodTakesWeights(t *testing.T) {
	x := weightedLaw("linear", 20_000, 4)
	weighted, _ := best(loss.Squared{}, repeated(x))
	plain, _ := best(loss.Squared{}, weightless(x))
	apart := distance(weighted, plain)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if !fitsLoss(loss.Squared{}, method) {
			continue
		}
		for _, a := range []Regression{{Method: method}, {Method: method, Whitening: catalogue.WhiteningOn, Batch: 4000}} {
			a.Loss, a.MaxWeight, a.Clip = loss.Squared{}, maxWeight, 20
			for _, persons := range []bool{false, true} {
				data, rows := x, 0
				if persons {
					data, rows = plantest.Grouped(x, slices.Repeat([]int{2}, x.N/2)), 2
					data.MaxRows = 2
				}
				p := plantest.Plan(t, Scaled{Algorithm: a, X: table.Repeat(1, 2), Y: 1, MaxRows: rows}, data.Shape, privacy.Budget{Epsilon: 300, Delta: 1e-6}, privacy.Concentrated{})
				w, err := coefficients(p.Run(t.Context(), plantest.Clone(data), mechtest.Source(t, 5)))
				if err != nil {
					t.Fatal(err)
				}
				off := distance(w, weighted) / apart
				most := 0.25
				if slices.Contains([]string{"ksu", "ksu_axis", "spgd_kamath", "spgd_holland", "trimmed", "catoni"}, method) {
					most = 0.7 // they are robust, and errors are skewed
				}
				if off > most {
					t.Errorf("%s, whitening %q, persons %t: %v, want %v; without weights %v", method, a.Whitening, persons, w, weighted, plain)
				}
			}
		}
	}
}

// weightless are the same rows without weights.
func weightless(x table.Data) table.Data {
	x.Weight = nil
	return x
}

func distance(v, w []float64) float64 {
	d := slices.Clone(v)
	floats.Sub(d, w)
	return floats.Norm(d, 2)
}

// Labels with offsets far from their log-odds, as of a register whose zero is another: four steps of at most 1 do not get there.
func TestLabelsFindALevelFarFromTheirOffsets(t *testing.T) {
	const n = 20_000
	r := rand.New(rand.NewPCG(13, 8))
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n), Offset: make([]float64, n)}
	for i := range n {
		x.X[0][i] = r.NormFloat64()
		z := 0.5*x.X[0][i] + 0.3*r.NormFloat64()
		x.Offset[i] = 7 + z - 0.5*x.X[0][i]
		x.Y[i] = indicatorOf(r.Float64() < 1/(1+math.Exp(-z)))
	}
	a, err := Recipe("logistic", map[string]any{"offset": "o"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := resultOf(t, Scaled{Algorithm: a, X: []float64{1}, Y: 1}, x, 20, 1).Coefficients
	if math.Abs(w[0]+7) > 0.15 || math.Abs(w[1]-0.5) > 0.1 {
		t.Errorf("coefficients %v", w)
	}
}

// The weighted median is that of repeated rows, of both methods and of other quantiles.
func TestWeightedMediansAreThoseOfRepeatedRows(t *testing.T) {
	for _, tau := range []float64{0.5, 0.8} {
		for _, method := range []string{catalogue.MethodStaged, catalogue.MethodObjective} {
			for _, offset := range []bool{false, true} {
				x := weightedLaw("l1", 40_000, 6)
				if offset {
					x.Offset = slices.Clone(x.X[1])
				}
				fit := func(x table.Data, most float64) []float64 {
					p := plantest.Plan(t, Scaled{Algorithm: L1{Tau: tau, Method: method, MaxWeight: most}, X: table.Repeat(1, 2), Y: 1}, x.Shape, privacy.Budget{Epsilon: 200}, privacy.Concentrated{})
					w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 6)))
					if err != nil {
						t.Fatal(err)
					}
					return w
				}
				many := repeated(x)
				got, want := fit(x, maxWeight), fit(many, 0)
				if distance(got, want) > 0.05 || distance(got, want) > 0.2*distance(fit(weightless(x), 0), want) {
					t.Errorf("tau %g, %s: %v, want %v", tau, method, got, want)
				}
			}
		}
	}
}

// Of rows that are few of all and have errors far from symmetric the level is corrected in full: by the mean
// of weights it is, by the rows that say something it would be less than a half.
func TestTheInterceptIsWeighted(t *testing.T) {
	x := weightedLaw("linear", 60_000, 9)
	for i := range x.Weight {
		if x.Weight[i] = 0.2 * maxWeight; i%3 > 0 {
			x.Weight[i] = 0
		}
	}
	want, _ := best(loss.Squared{}, table.Data{Shape: x.Shape, X: x.X, Y: x.Y})
	r := weighedResult(t, withWeights("linear", catalogue.MethodJointMoments), false, x, privacy.Budget{Epsilon: 1000, Delta: 1e-6}, 1)
	t.Log(r.Coefficients, want)
	if math.Abs(r.Coefficients[0]-want[0]) > 0.03 {
		t.Errorf("%v, want %v", r.Coefficients, want)
	}
}

// A score of rows with weights is that of repeated rows: with much budget the same, and with
// little it covers that.
func TestScoresAreWeighted(t *testing.T) {
	for model, score := range map[string]score.Metrics{"linear": {}, "logistic": {Labels: true, Positive: 1}, "poisson": {Counts: true}} {
		x := weightedLaw(model, 40_000, 10)
		score.Coefficients = []float64{0.2, 0.8, -0.3}
		many := repeated(x)
		for _, delta := range []float64{0, 1e-6} {
			metrics := func(x table.Data, most, eps float64) []release.Metric {
				score.MaxWeight = most
				p := plantest.Plan(t, score, x.Shape, privacy.Budget{Epsilon: eps, Delta: delta}, privacy.Concentrated{})
				r, err := p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 11))
				if err != nil {
					t.Fatal(err)
				}
				return r.Metrics
			}
			want, got, rough := metrics(many, 0, 1000), metrics(x, maxWeight, 1000), metrics(x, maxWeight, 1)
			for k, m := range want {
				if g := got[k]; g.Value == nil || math.Abs(*g.Value-*m.Value) > 0.01*math.Abs(*m.Value) {
					t.Errorf("%s, delta %v: %s is %v, want %v", model, delta, m.Name, g.Value, *m.Value)
				}
				if g := rough[k]; g.Low != nil && !(*g.Low <= *m.Value && *m.Value <= *g.High) {
					t.Errorf("%s, delta %v: %s from %v to %v, want %v", model, delta, m.Name, *g.Low, *g.High, *m.Value)
				}
			}
		}
	}
}

// Unusable rows leave the others what they are: a fit of which seven in ten have no
// target errs hardly more than one of the other three alone at the same budget. Of eight seeds, which
// are fixed, so that the test fails or not on each machine alike.
func TestUnusableRowsLeaveTheOthers(t *testing.T) {
	const n, seeds = 60_000, 8
	for _, model := range []string{"linear", "logistic", "huber"} {
		m, _ := catalogue.Find(model)
		l := losses[model]
		if model == "huber" {
			l = loss.Huber{Delta: 1}
		}
		alone, among := 0.0, 0.0
		for seed := range uint64(seeds) {
			x := weightless(weightedLaw(model, n, 100+seed))
			some := x.Pick(firsts(3 * n / 10))
			want, _ := best(l, some)
			for i := some.N; i < n; i++ {
				x.Y[i] = math.NaN()
			}
			b := privacy.Budget{Epsilon: 1, Delta: 1e-6}
			alone += distance(weighedResult(t, regression(m), false, some, b, seed).Coefficients, want) / seeds
			among += distance(weighedResult(t, regression(m), false, x, b, seed).Coefficients, want) / seeds
		}
		t.Logf("%s: off by %.4f, alone by %.4f", model, among, alone)
		if among > 1.6*alone {
			t.Errorf("%s: off by %v among unusable rows, by %v alone", model, among, alone)
		}
	}
}

// firsts are the numbers below n.
func firsts(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// sampledCases are rows of a logistic law, or of a law of counts, of a level: all cases are kept, with weight 1, and of the
// others one in every, with that weight.
func sampledCases(counts bool, level float64, n int, every float64, seed uint64) (x table.Data, truth []float64) {
	r := rand.New(rand.NewPCG(seed, 18))
	x = table.Data{Shape: table.Shape{D: 3, Intercept: true}, X: make([][]float64, 2)}
	truth = []float64{level, 0.8, -0.5}
	for range n {
		a, b := r.NormFloat64(), r.ExpFloat64()-1
		y, z := 0.0, truth[0]+truth[1]*a+truth[2]*b
		switch {
		case counts:
			y = float64(poissonOf(r, math.Exp(z)))
		case r.Float64() < sigmoid(z):
			y = 1
		}
		weight := 1.0
		if y == 0 {
			if weight = every; r.Float64() > 1/every {
				continue
			}
		}
		x.X[0], x.X[1], x.Y, x.Weight = append(x.X[0], a), append(x.X[1], b), append(x.Y, y), append(x.Weight, weight)
		x.N++
	}
	return x, truth
}

// Where weights depend on the target, as where cases are kept and others are drawn, Newton is not biased and its
// intervals cover. Of 60 intervals of a fit at 95 %, were they independent, 45 or fewer cover with a probability of
// 1e-8; seeds are fixed besides. Bounded by its own weight, coefficients of a row are off by 0.4 and 0.6 at eps 1, and 50 and 56 of
// 120 intervals cover where cases are rare; where most rows of the sample are cases, intercepts of counts are off by 0.13 if rows of
// more than twice the mean weight are.
func TestWeightsMayDependOnTheTarget(t *testing.T) {
	for _, c := range []struct {
		counts bool
		level  float64
	}{{false, -2.3}, {false, 0.5}, {true, -1.3}, {true, -0.2}} {
		counts, a := c.counts, Regression{Loss: loss.Logistic{}, MaxWeight: 4}
		if counts {
			a.Loss = loss.Poisson{}
		}
		for _, eps := range []float64{1, 10} {
			given, covered, off := 0, 0, make([]float64, 3)
			for seed := range uint64(20) {
				x, truth := sampledCases(counts, c.level, 60_000, 4, seed)
				fit := resultOf(t, Scaled{Algorithm: a, X: []float64{1, 1}, Y: 1, Counts: counts}, x, eps, seed)
				for j, v := range fit.Coefficients {
					off[j] += (v - truth[j]) / 20
				}
				for j, low := range fit.Low {
					if given++; low <= truth[j] && truth[j] <= fit.High[j] {
						covered++
					}
				}
			}
			t.Logf("counts %v, level %v, eps %v: %d of %d, off by %.3f", counts, c.level, eps, covered, given, off)
			if given < 50 || 4*covered < 3*given || floats.Norm(off, math.Inf(1)) > 0.08 {
				t.Errorf("counts %v, eps %v: %d of %d intervals cover, coefficients are off by %.3f in the mean", counts, eps, covered, given, off)
			}
		}
	}
}

// Weights far below max_weight leave fits what they are, with an intercept and without, where the lengths of rows tell
// how large weights are. Bounded by max_weight all coefficients are 0, and the error is the length of the truth, 0.94.
func TestWeightsFarBelowTheLargestOne(t *testing.T) {
	truth := []float64{0.8, -0.5}
	for name, l := range map[string]loss.Loss{"logistic": loss.Logistic{}, "huber": loss.Huber{Delta: 1}, "poisson": loss.Poisson{}} {
		for _, intercept := range []bool{true, false} {
			missed := 0.0
			for seed := range uint64(6) {
				r := rand.New(rand.NewPCG(seed, 19))
				x := table.Data{Shape: table.Shape{N: 20_000, D: 2, Intercept: intercept}, X: table.NewColumns(2, 20_000), Y: make([]float64, 20_000), Weight: table.Repeat(0.01, 20_000)}
				for i := range x.Y {
					x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
					switch z := truth[0]*x.X[0][i] + truth[1]*x.X[1][i]; {
					case name == "huber":
						x.Y[i] = z + 0.7*r.NormFloat64()
					case name == "poisson":
						x.Y[i] = float64(poissonOf(r, math.Exp(z)))
					case r.Float64() < sigmoid(z):
						x.Y[i] = 1
					}
				}
				if intercept {
					x.D++
				}
				fit := resultOf(t, Scaled{Algorithm: Regression{Loss: l, MaxWeight: 1}, X: []float64{1, 1}, Y: 1, Counts: name == "poisson"}, x, 1, seed)
				slopes := fit.Coefficients[len(fit.Coefficients)-2:]
				missed += math.Hypot(slopes[0]-truth[0], slopes[1]-truth[1]) / 6
			}
			if t.Logf("%s, intercept %t: off by %.3f", name, intercept, missed); missed > 0.15 {
				t.Errorf("%s, intercept %t: slopes are off by %.3f in the mean", name, intercept, missed)
			}
		}
	}
}
