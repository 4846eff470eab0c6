package dpsco

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// normalTable has normal features, an intercept, and targets 1 + x.w + noise.
func normalTable(seed uint64, n int, noise float64, w ...float64) table.Data {
	r := rand.New(rand.NewPCG(seed, 1))
	x := table.Data{Shape: table.Shape{N: n, D: len(w) + 1, Intercept: true}, X: table.NewColumns(len(w), n), Y: make([]float64, n)}
	for i := range x.Y {
		x.Y[i] = 1 + noise*r.NormFloat64()
		for j, v := range w {
			x.X[j][i] = r.NormFloat64()
			x.Y[i] += v * x.X[j][i]
		}
	}
	return x
}

// What is charged is what algorithms.md says, to the digit.
func TestDescentsCostWhatTheyRelease(t *testing.T) {
	s := table.Shape{N: 10_000, D: 5}
	gaussian := privacy.Gaussian{NoiseMultiplier: 3}
	halfBatch := privacy.Sampled{Rate: 0.05, Event: gaussian}
	rounding := func(calls int) privacy.Event { return privacy.Approx{Delta: mech.RoundingDelta(3, 500, 5, calls)} }
	for name, c := range map[string]struct {
		fit  fit
		want privacy.Compose
	}{
		"full batch": {Descent{Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 50}}, privacy.Compose{privacy.Repeat{Count: 50, Event: gaussian}}},
		"batches": {Descent{Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 50, Batch: 500}},
			privacy.Compose{privacy.Repeat{Count: 50, Event: halfBatch}, rounding(50)}},
		"a batch of all rows": {Descent{Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 50, Batch: 10_000}},
			privacy.Compose{privacy.Repeat{Count: 50, Event: gaussian}}},
		"svrg": {Descent{Mean: mean.Clip{Norm: 2}, Solver: solve.SVRG{Epochs: 3, Inner: 7, Growth: 1, Batch: 500, Smoothness: 1, Norm: 1}},
			privacy.Compose{privacy.Repeat{Count: 3, Event: gaussian}, privacy.Repeat{Count: 18, Event: halfBatch}, rounding(18)}},
		"svrg++": {Descent{Mean: mean.Clip{Norm: 2}, Solver: solve.SVRG{Epochs: 3, Inner: 4, Growth: 2, Batch: 500, Smoothness: 1, Norm: 1}},
			privacy.Compose{privacy.Repeat{Count: 3, Event: gaussian}, privacy.Repeat{Count: 14 * 4, Event: halfBatch}, rounding(56)}},
		"catoni": {Descent{Mean: mean.Catoni{Scale: 1, Beta: math.Inf(1)}, Solver: solve.GD{Steps: 9}}, privacy.Compose{privacy.Repeat{Count: 9, Event: gaussian}}},
		"ksu": {Descent{Mean: mean.KSU{Radius: 1, Range: 2}, Solver: solve.GD{Steps: 9}},
			privacy.Compose{privacy.Gaussian{NoiseMultiplier: 9}, privacy.Repeat{Count: 9, Event: gaussian}}},
		"whitened": {Whitened{Descent: Descent{Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 9}}, Bound: 3, Ratio: 0.5},
			privacy.Compose{privacy.Repeat{Count: 9, Event: gaussian}, privacy.Gaussian{NoiseMultiplier: 1.5}}},
		"centred": {Centred{Descent: Descent{Mean: mean.Clip{Norm: 1}, Solver: solve.GD{Steps: 9}}, Bound: 3, Ratio: 0.5},
			privacy.Compose{privacy.Repeat{Count: 9, Event: gaussian}, privacy.Gaussian{NoiseMultiplier: 1.5}}},
	} {
		g, err := c.fit.at(s, 3)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _ := privacy.MarshalEvent(g.event)
		want, _ := privacy.MarshalEvent(c.want)
		if string(got) != string(want) {
			t.Errorf("%s: charged %s, want %s", name, got, want)
		}
	}
}

// What is not one Gaussian on a batch, with a coordinate for each of the mean's, has
// no price here.
func TestBatchesRefuseWhatTheyCannotPrice(t *testing.T) {
	for name, c := range map[string]struct {
		mean  mean.Method
		batch int
	}{
		"two mechanisms":        {mean.KSU{Radius: 1, Range: 2}, 10},
		"no Gaussian":           {mean.TrimmedMean{Trim: 1, Low: -1, High: 1}, 10},
		"more rows than all of": {mean.Clip{Norm: 1}, 101},
	} {
		d := Descent{Mean: c.mean, Solver: solve.GD{Steps: 9, Batch: c.batch}}
		if _, err := d.at(table.Shape{N: 100, D: 2}, 3); !errors.Is(err, plan.ErrInfeasible) {
			t.Errorf("%s: got %v", name, err)
		}
		d.Solver = solve.GD{Steps: 9, Batch: 100}
		if _, err := d.at(table.Shape{N: 100, D: 2}, 3); err != nil {
			t.Errorf("%s, on all rows: %v", name, err)
		}
	}
}

// greedy declares one call less than it makes.
type greedy struct{ solve.GD }

func (g greedy) Uses() []solve.Use {
	uses := g.GD.Uses()
	uses[0].Calls--
	return uses
}

func TestAQueryBeyondTheChargeStopsTheProgram(t *testing.T) {
	x := normalTable(1, 100, 1, 2)
	g, err := Descent{Loss: loss.Squared{}, Psi: prox.Zero{}, Mean: mean.Clip{Norm: 1}, Solver: greedy{solve.GD{Steps: 3, Rate: 0.1}}}.at(x.Shape, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the fourth query was answered")
		}
	}()
	_, _ = g.run(t.Context(), x, mechtest.Source(t, 1))
}

// lossOf is a loss that a method is for.
func lossOf(method string) loss.Loss {
	if fitsLoss(loss.Squared{}, method) {
		return loss.Squared{}
	}
	return loss.Huber{Delta: 1}
}

// The answers do not depend on how many cores there are.
func TestCoresChangeNoBit(t *testing.T) {
	for name := range methods {
		plan := func() *plan.Plan {
			return plantest.Plan(t, Regression{Loss: lossOf(name), Method: name, Steps: 4}, table.Shape{N: 9000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 5, Delta: 1e-5}, privacy.Concentrated{})
		}
		x := normalTable(1, 9000, 1, 2, -1)
		many, _ := coefficients(plan().Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)))
		cores := runtime.GOMAXPROCS(1)
		one, _ := coefficients(plan().Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)))
		runtime.GOMAXPROCS(cores)
		if !slices.Equal(one, many) {
			t.Errorf("%s: %v on one core, %v on %d", name, one, many, cores)
		}
	}
}

// All methods find the coefficients when privacy costs nothing. Seeds are fixed.
func TestMethodsConvergeAtLargeBudgets(t *testing.T) {
	want := []float64{1, 2, -1, 0.5}
	for name := range methods {
		for _, whitening := range []string{catalogue.WhiteningOff, catalogue.WhiteningOn} {
			x := normalTable(1, 60_000, 0.5, want[1:]...)
			a := Regression{Loss: lossOf(name), Method: name, Whitening: whitening, Steps: 120, Clip: 20, Truncation: 40, Range: 40}
			if name == catalogue.MethodAuto {
				a.Clip = 0 // it limits residuals
			}
			p, err := a.Plan(x.Shape, privacy.Budget{Epsilon: 2000, Delta: 1e-5}, privacy.Concentrated{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			w, err := coefficients(p.Run(t.Context(), x, mechtest.Source(t, 1)))
			if err != nil {
				t.Fatal(err)
			}
			for j := range want {
				if !(math.Abs(w[j]-want[j]) < 0.06) { // the sampling error is 0.002
					t.Errorf("%s, whitening %s: %v, want %v", name, whitening, w, want)
					break
				}
			}
		}
	}
}

func TestTheCentreIsFound(t *testing.T) {
	x := normalTable(1, 120_000, 0.5, 2)
	p := plantest.Plan(t, Regression{Loss: loss.Squared{}, Method: "sample_aggregate", Aggregator: catalogue.AggregatorCentre, Radius: 4}, x.Shape, privacy.Budget{Epsilon: 20, Delta: 1e-5}, privacy.Concentrated{})
	w, err := coefficients(p.Run(t.Context(), x, mechtest.Source(t, 1)))
	if err != nil || math.Abs(w[0]-1) > 0.3 || math.Abs(w[1]-2) > 0.3 {
		t.Errorf("%v, %v", w, err)
	}
}

// Rows that hold no numbers contribute nothing, however many columns they spoil.
func TestRowsWithoutNumbersAreNeutral(t *testing.T) {
	clean := normalTable(1, 400, 1, 2, -1)
	for i := range 40 { // rows that contribute nothing and are finite: all zero, at residual zero
		clean.Y[i*10] = 0
		for j := range clean.X {
			clean.X[j][i*10] = 0
		}
	}
	clean.Intercept, clean.D = false, 2
	spoilt := plantest.Clone(clean)
	for i := range 40 {
		spoilt.X[i%2][i*10] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308}[i%4]
		if i%4 == 3 {
			spoilt.Y[i*10] = math.NaN() // 1e308 alone is a row like others
		}
	}
	for name := range methods {
		switch name {
		case "sample_aggregate", "trimmed", "spgd_kamath", "ksu", "ksu_axis":
			continue // to them nothing is the middle or the centre, not zero
		case catalogue.MethodAuto, catalogue.MethodJointMoments, catalogue.MethodNewton:
			continue // a row of zeros counts as one; TestRowsWithoutNumbersAreOneRowToJointMoments, ToNewton
		}
		run := func(x table.Data) []float64 {
			p := plantest.Plan(t, Regression{Loss: loss.Squared{}, Method: name, Steps: 5}, x.Shape, privacy.Budget{Epsilon: 50, Delta: 1e-5}, privacy.Concentrated{})
			w, _ := coefficients(p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 3)))
			return w
		}
		if got, want := run(spoilt), run(clean); !slices.Equal(got, want) {
			t.Errorf("%s: %v with rows that are no numbers, %v without", name, got, want)
		}
	}
}

func TestLabelsArePublic(t *testing.T) {
	x := normalTable(1, 5000, 1, 2)
	for i, y := range x.Y {
		x.Y[i] = 7
		if y > 1 {
			x.Y[i] = -3
		}
	}
	run := func(a Regression, y []float64) []float64 {
		a.Loss, a.Labels = loss.Logistic{}, true
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 10, Delta: 1e-5}, privacy.Concentrated{})
		c := plantest.Clone(x)
		copy(c.Y, y)
		w, _ := coefficients(p.Run(t.Context(), c, mechtest.Source(t, 1)))
		return w
	}
	binary := slices.Clone(x.Y)
	for i, y := range x.Y {
		binary[i] = 0
		if y == -3 {
			binary[i] = 1
		}
	}
	if got, want := run(Regression{Negative: 7, Positive: -3}, x.Y), run(Regression{}, binary); !slices.Equal(got, want) || got[1] < 1 {
		t.Errorf("%v with labels 7 and -3, %v with 0 and 1", got, want)
	}
	// Labels that are neither say nothing: the data do not choose what is released.
	if got := run(Regression{}, x.Y); math.Abs(got[1]) > 0.5 {
		t.Errorf("foreign labels gave %v", got)
	}
}

func TestPlansNameWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		a      Regression
		s      table.Shape
		b      privacy.Budget
		kind   error
		phrase string
	}{
		{Regression{}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1}, plan.ErrParameter, "delta is 0"},
		{Regression{}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: math.NaN(), Delta: 1e-6}, plan.ErrParameter, "eps is NaN"},
		{Regression{}, table.Shape{N: 0, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrInfeasible, "no rows"},
		{Regression{Steps: 2.5}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrParameter, `"steps" is 2.5`},
		{Regression{Steps: 501}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrParameter, `"steps" is 501`},
		{Regression{Penalty: catalogue.PenaltyGroupL1, Lambda: 1}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrParameter, "groups"},
		{Regression{Method: "sample_aggregate", Aggregator: catalogue.AggregatorCentre}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrInfeasible, "16 blocks are too few"},
		{Regression{Method: "sample_aggregate"}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrInfeasible, "1000 rows are too few for eps 1 and 3 coefficients"},
		{Regression{Method: "spgd_kamath", Blocks: 4}, table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrInfeasible, "blocks is 4"},
		{Regression{Method: "trimmed"}, table.Shape{N: 10, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, plan.ErrInfeasible, "Trim"},
	} {
		c.a.Loss = loss.Squared{}
		_, err := c.a.Plan(c.s, c.b, privacy.Concentrated{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.phrase) || strings.Contains(err.Error(), "mech:") {
			t.Errorf("%+v: %v; want %q", c.a, err, c.phrase)
		}
	}
	_, err := Regression{Loss: loss.Squared{}}.Plan(table.Shape{N: 1000, D: 3, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.PureSum{})
	if !errors.Is(err, plan.ErrInfeasible) || !strings.Contains(err.Error(), "the budget of this data set has no delta, which this model needs") {
		t.Errorf("under pure accounting: %v", err)
	}
}

// Every method plans at its defaults from 1e5 rows, 7 features and eps 1 on,
// under each accountant, and spends no more than was asked for.
func TestDefaultsPlan(t *testing.T) {
	renyi := new(privacy.Renyi)
	accountants := map[string]privacy.Accountant{"zcdp": privacy.Concentrated{}, "rdp": privacy.AtOrder{Order: 32, Renyi: renyi}}
	for _, model := range regressions() {
		for name := range methods {
			if !fitsLoss(losses[model], name) {
				continue
			}
			for mode, accountant := range accountants {
				for _, c := range []struct {
					n, d int
					eps  float64
				}{{100_000, 8, 1}, {100_000, 1, 1}, {2_000_000, 8, 5}} {
					m, _ := catalogue.Find(model)
					a := regression(m)
					a.Method = name
					p, err := a.Plan(table.Shape{N: c.n, D: c.d, Intercept: true}, privacy.Budget{Epsilon: c.eps, Delta: 1e-6}, accountant)
					where := fmt.Sprintf("%s by %s under %s, n = %d, d = %d", model, name, mode, c.n, c.d)
					if err != nil {
						t.Errorf("%s: %v", where, err)
						continue
					}
					spent, err := accountant.Epsilon(p.Event, 1e-6-privacy.Reserve(1e-6))
					if err != nil || spent > c.eps || spent < 0.999*c.eps {
						t.Errorf("%s: spends %v, %v", where, spent, err)
					}
				}
			}
		}
	}
}

// The smooth centre costs what its theorem says, and no noise is calibrated.
func TestTheCentrePlans(t *testing.T) {
	for _, d := range []int{1, 8} {
		p := plantest.Plan(t, centreRecipe(t, "linear", 10), table.Shape{N: 100_000, D: d, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if want := (privacy.Approx{Epsilon: plan.JustBelow(1), Delta: privacy.Reserve(1e-6)}); p.Event != want || p.Arithmetic != mech.Float64Grid || p.Parameters["noise_multiplier"] != nil {
			t.Errorf("%v, marked %q, with %v", p.Event, p.Arithmetic, p.Parameters)
		}
	}
}

func TestADescentEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := normalTable(1, 100, 1, 2)
	for _, name := range []string{"gd", catalogue.MethodAuto, "svrg", "accmd"} {
		p := plantest.Plan(t, Regression{Loss: loss.Squared{}, Method: name}, x.Shape, privacy.Budget{Epsilon: 10, Delta: 1e-5}, privacy.Concentrated{})
		if w, err := coefficients(p.Run(ctx, plantest.Clone(x), mechtest.Source(t, 1))); !errors.Is(err, context.Canceled) || w != nil {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

// An epsilon that the account cannot prove, however much noise there is, is named.
func TestAnEpsilonThatNoNoiseReachesIsNamed(t *testing.T) {
	for _, method := range []string{catalogue.MethodJointMoments, catalogue.MethodNewton, catalogue.MethodSampleAggregate, "gd"} {
		a := Regression{Loss: lossOf(method), Method: method}
		if method == catalogue.MethodSampleAggregate {
			a.Blocks = 50
		}
		_, err := a.Plan(table.Shape{N: 1000, D: 3}, privacy.Budget{Epsilon: 1e-5, Delta: 1e-6}, privacy.AtOrder{Order: 32, Renyi: new(privacy.Renyi)})
		if !errors.Is(err, plan.ErrInfeasible) || !strings.Contains(err.Error(), "cannot keep within eps") {
			t.Errorf("%s: %v", method, err)
		}
	}
}
