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
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// newtonFits are the fits of each kind: all losses, with and without what intervals are
// made of, a penalty, an active ball, large and small units.
func newtonFits() map[string]Newton {
	return map[string]Newton{
		"labels":                  {Curve: logisticCurve{}, Bound: 2, Psi: prox.L2Ball{Radius: 10}, Intervals: true},
		"labels, four steps":      {Curve: logisticCurve{informed: true}, Bound: 2, Psi: prox.L2Ball{Radius: 10}, Intervals: true},
		"labels, little is known": {Curve: logisticCurve{}, Bound: 2, LowInformation: true, Psi: prox.L2Ball{Radius: 10}},
		"labels, a penalty":       {Curve: logisticCurve{}, Bound: 2, Psi: prox.Sum{A: prox.L1{Lambda: 0.1}, B: prox.L2Ball{Radius: 2}}},
		"labels, an active ball":  {Curve: logisticCurve{}, Bound: 0.01, Psi: prox.L2Ball{Radius: 0.1}, Intervals: true},
		"residuals":               {Curve: huberCurve{delta: 1, cut: 2}, Bound: 2, Intervals: true},
		"residuals, a penalty":    {Curve: huberCurve{delta: 1, cut: 2}, Bound: 2, Psi: prox.Sum{A: prox.L2{Lambda: 0.1}, B: prox.L2Ball{Radius: 2}}},
		"counts":                  {Curve: poissonCurve{unit: 1, scale: 1, cut: 4}, Bound: 2, Intervals: true},
		"counts, a penalty":       {Curve: poissonCurve{unit: 1, scale: 1, cut: 4}, Bound: 2, LowInformation: true, Psi: prox.Sum{A: prox.L1{Lambda: 0.1}, B: prox.L2Ball{Radius: 2}}},
		"residuals, large":        {Curve: huberCurve{delta: 1e6, cut: 1e7}, Bound: 5, Intervals: true},
		"residuals, small":        {Curve: huberCurve{delta: 1e-6, cut: 1, noisy: true}, Bound: 2, Psi: prox.L2Ball{Radius: 0.1}, Intervals: true},
	}
}

// One replaced row moves the integers of every release by no more than its noise
// is scaled to hide, exactly, and given the answers nothing else; every kind of
// release is moved by most of that by some pair.
func TestNewtonReplays(t *testing.T) {
	testReplays(t, newtonFits(), func(a Newton) bool { _, labels := a.Curve.(logisticCurve); return labels })
}

// Every way to be wrong is found by a replay.
func TestNewtonReplaysRefuteMutants(t *testing.T) {
	const z = 0.3
	largest := func(v []float64) float64 {
		most := 1e-3
		for _, y := range v {
			if math.Abs(y) <= 1e9 {
				most = max(most, math.Abs(y))
			}
		}
		return most
	}
	for name, mutant := range map[string]func(r *newtonReleases, x table.Data, p *plan.Plan) (twice bool){
		"nothing": func(*newtonReleases, table.Data, *plan.Plan) bool { return false },
		"half of the noise of a score": func(r *newtonReleases, _ table.Data, _ *plan.Plan) bool {
			r.scoreNoise[1].NoiseMultiplier /= 2
			return false
		},
		"half of the noise of residuals": func(r *newtonReleases, _ table.Data, _ *plan.Plan) bool {
			r.residualNoise[1].NoiseMultiplier /= 2
			return false
		},
		"half of the noise of the meat": func(r *newtonReleases, _ table.Data, _ *plan.Plan) bool {
			r.meatNoise.NoiseMultiplier /= 2
			return false
		},
		"a share used twice": func(*newtonReleases, table.Data, *plan.Plan) bool { return true },
		"a release is not charged": func(_ *newtonReleases, _ table.Data, p *plan.Plan) bool {
			p.Event = p.Event.(privacy.Compose)[1:]
			return false
		},
		"a bound read from the data": func(r *newtonReleases, x table.Data, _ *plan.Plan) bool {
			r.Bound = largest(x.X[0])
			return false
		},
		"a cut read from the data": func(r *newtonReleases, x table.Data, _ *plan.Plan) bool {
			r.Curve = huberCurve{delta: 1, cut: largest(x.Y)}
			return false
		},
		"a limit read from the data": func(r *newtonReleases, x table.Data, _ *plan.Plan) bool {
			r.Curve = huberCurve{delta: largest(x.Y), cut: 1}
			return false
		},
	} {
		a := Newton{Curve: huberCurve{delta: 1, cut: 2}, Bound: 2, Intervals: true}
		var found error
		r := rand.New(rand.NewPCG(2, 2))
		for range 60 {
			s := table.Shape{N: 23, D: 2}
			x, y := plantest.Neighbours(r, s, false)
			_, err := plantest.Replay(t, func() *plan.Plan {
				p := planOf(t, a, s, z)
				releases, err := a.releases(s, z)
				if err != nil {
					t.Fatal(err)
				}
				mutant(releases, x, p)
				p.WithRun(func(_ context.Context, x table.Data, src *mech.Source) (release.Result, error) {
					twice := mutant(releases, x, &plan.Plan{Event: p.Event})
					f := newNewtonParts(releases, x)
					f.fits[0].first(x, src)
					for t := range releases.steps {
						f.step(t, src)
					}
					if twice {
						f.step(releases.last(), src)
					}
					return f.finish(), nil
				})
				return p
			}, x, y)
			if err != nil {
				found = err
			}
		}
		if (found == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A row counts once in every sum: added twice it would move some by more than is
// allowed.
func TestARowTwiceInNewtonIsSeen(t *testing.T) {
	a := Newton{Curve: huberCurve{delta: 1, cut: 2}, Bound: 2, Intervals: true}
	s, double := table.Shape{N: 11, D: 2}, table.Shape{N: 22, D: 2}
	r := rand.New(rand.NewPCG(5, 5))
	caught := 0
	for range 40 {
		x, y := plantest.Neighbours(r, s, false)
		if _, err := plantest.Replay(t, func() *plan.Plan { return planOf(t, a, double, 0.3) }, twice(x), twice(y)); err != nil {
			caught++
		}
	}
	if caught == 0 {
		t.Error("two rows that change together pass for one")
	}
}

// minBounding is the common weight of recorded rows.
const minBounding = 0.3

// recorded are the rows that a part of a fit hands to a mechanism, as it computes them.
func recorded(c curve, x table.Data, p [][]float64, w []float64, limit, bound float64) *newtonRows {
	rows := newNewtonRows()
	rows.rowBlock = newRowBlock(x.D)
	rows.load(x, p, w)
	rows.weigh(c, limit, bound, minBounding)
	return rows
}

// What rows hand to a mechanism is within its contract before the mechanism cuts it, with
// one weight for score and curvature that, of labels, does not depend on the label.
func TestNewtonRowsKeepTheirContracts(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for k := range 6000 {
		s := table.Shape{N: 1, D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}
		labels := k%2 == 0
		x, _ := plantest.Neighbours(r, s, labels)
		var c curve = huberCurve{delta: math.Exp(r.NormFloat64()), cut: 1}
		switch {
		case labels:
			c, x.Y[0] = logisticCurve{}, float64(r.IntN(2))
		case k%4 == 1:
			c = poissonCurve{unit: 1, scale: 1, cut: math.Exp(r.NormFloat64())}
			plantest.AsCounts(r, &x, &table.Data{Shape: s, X: plantest.Clone(x).X, Y: []float64{x.Y[0] + 1}})
			x.Y[0] = math.Abs(x.Y[0])
		}
		p, w := make([][]float64, s.D), make([]float64, s.D)
		for j := range p {
			for range j + 1 {
				p[j] = append(p[j], r.NormFloat64())
			}
			w[j] = r.NormFloat64()
		}
		if k%3 == 0 {
			x.Weight = []float64{1 - r.Float64()}
		}
		limit, bound := math.Exp(3*r.NormFloat64()), math.Exp(3*r.NormFloat64())
		rows := recorded(c, x, p, w, limit, bound)
		if !(rows.length[0] > 1e-100 && rows.length[0] < 1e150) {
			continue // says nothing, or its square is out of range: the mechanism has the last word
		}
		weight := rows.weight[0]
		if score := weight * math.Abs(rows.score[0]) * rows.length[0]; !(weight > 0 && weight <= 1 && score <= limit*(1+1e-9)) {
			t.Fatalf("a score of %v in a limit of %v", score, limit)
		}
		for name, curvature := range map[string][]float64{"robust": rows.robust, "model": rows.model} {
			rows.addCurvature(mech.NewMoments(mech.MomentContract{Bound: 1, N: 1, D: s.D}), curvature, bound)
			length, want := 0.0, weight*curvature[0]*rows.ownWeight(0)*square(rows.length[0]/bound)
			for _, v := range rows.joint[:s.D] {
				length += v[0] * v[0]
			}
			if length > 1+1e-9 || name == "model" && math.Abs(length-want) > 1e-9*want+1e-100 {
				t.Fatalf("%s curvature of length %v, with the score's weight %v", name, length, want)
			}
		}
		if x.Weight != nil && x.Weight[0] < minBounding {
			x.Weight[0] *= r.Float64()
			if other := recorded(c, x, p, w, limit, bound); math.Abs(other.weight[0]-weight) > 1e-9*weight {
				t.Fatalf("a row is shortened to %v by one weight, to %v by a smaller one", weight, other.weight[0])
			}
		}
		if labels {
			x.Y[0] = 1 - x.Y[0]
			if other := recorded(c, x, p, w, limit, bound); math.Abs(other.weight[0]-weight) > 1e-9*weight || math.Abs(other.model[0]-rows.model[0]) > 1e-9 {
				t.Fatalf("weight %v with one label, %v with the other", weight, other.weight[0])
			}
		}
	}
}

// Whatever a fit releases, its shares are the whole budget: releases of noise multiplier z / sqrt(share) cost together what one of z does.
func TestNewtonsSharesAreTheBudget(t *testing.T) {
	const z = 3.0
	for _, c := range []curve{logisticCurve{}, logisticCurve{informed: true}, huberCurve{delta: 1, cut: firstCut}, huberCurve{delta: 1, cut: firstCut, noisy: true}, poissonCurve{unit: 1, scale: 1, cut: firstCount}} {
		for _, intervals := range []bool{true, false} {
			for _, levels := range []int{0, 4} {
				r, err := Newton{Curve: c, Bound: 2, Intervals: intervals}.releases(table.Shape{N: 10_000, D: 3, Intercept: true, GroupCount: levels}, z)
				if err != nil {
					t.Fatal(err)
				}
				total := 0.0
				for _, noise := range r.all() {
					total += square(z / noise.NoiseMultiplier)
				}
				if math.Abs(total-1) > 1e-12 {
					t.Errorf("%T, intervals %v, %d groups: shares add up to %v", c, intervals, levels, total)
				}
			}
		}
	}
}

// What is planned is what is spent, within the budget, under each accountant.
func TestNewtonCostsWhatItReleases(t *testing.T) {
	for _, share := range []newtonShares{usualShares, huberShares, labelShares} {
		total := share.first + share.firstLengths + share.meat
		for t := range share.steps {
			total += share.scores[t] + share.curvatures[t] + share.sizes[t] + share.lengths[t]
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("shares add up to %v", total)
		}
	}
	for name, a := range newtonFits() {
		for _, s := range []table.Shape{{N: 1000, D: 4, Intercept: true}, {N: 1000, D: 4, Intercept: false}} {
			p := planOf(t, a, s, 3)
			cost, err := privacy.Price(p.Event)
			if err != nil || math.Abs(cost.Rho*2*9-1) > 1e-9 {
				t.Errorf("%s: rho %v of %v, %v", name, cost.Rho, 1./18, err)
			}
		}
	}
	for _, accountant := range []privacy.Accountant{privacy.Concentrated{}, privacy.AtOrder{Order: 32, Renyi: new(privacy.Renyi)}} {
		for _, a := range []Regression{{Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{}}, {Loss: loss.Poisson{}}} {
			a.Method = catalogue.MethodNewton
			p := plantest.Plan(t, a, table.Shape{N: 30_000, D: 5, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, accountant)
			spent, err := accountant.Epsilon(p.Event, 1e-6-privacy.Reserve(1e-6))
			if err != nil || spent > 1 || spent < 0.999 {
				t.Errorf("%T: spends %v, %v", a.Loss, spent, err)
			}
		}
	}
}

// tableOf is a table that a fit is for.
func tableOf(c curve, law string, n, d int, seed uint64) table.Data {
	switch c.(type) {
	case logisticCurve:
		return labelLaw(law, n, d, seed)
	case poissonCurve:
		return countLaw(law, n, d, seed)
	}
	return drawLaw(law, n, d, seed)
}

func TestNewtonDoesNotDependOnCoresOrOrder(t *testing.T) {
	for name, a := range newtonFits() {
		x := tableOf(a.Curve, "gauss", 9000, 3, 1)
		x.X[0][17], x.Y[40], x.X[1][5000] = math.NaN(), math.NaN(), 1e300
		doesNotDependOnCoresOrOrder(t, name, a, x)
	}
}

// Rows that hold no numbers, or too large ones, are all the same row.
func TestRowsWithoutNumbersAreOneRowToNewton(t *testing.T) {
	for _, c := range []curve{logisticCurve{}, huberCurve{delta: 1, cut: 2}, poissonCurve{unit: 1, scale: 1, cut: 4}} {
		x := tableOf(c, "gauss", 4000, 3, 1)
		run := func(bad func(k int, x table.Data)) []float64 {
			data := plantest.Clone(x)
			for k := range 400 {
				bad(k, data)
			}
			w, err := coefficients(planOf(t, Newton{Curve: c, Bound: 2, Intervals: true}, x.Shape, 0.1).Run(t.Context(), data, mechtest.Source(t, 1)))
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		want := run(func(k int, x table.Data) { x.Y[k*10] = math.NaN() })
		for name, bad := range map[string]func(k int, x table.Data){
			"missing features": func(k int, x table.Data) { x.X[k%2][k*10] = math.NaN() },
			"infinite":         func(k int, x table.Data) { x.X[k%2][k*10] = math.Inf(1 - 2*(k%3)) },
			"overflow":         func(k int, x table.Data) { x.X[k%2][k*10] = 1e200 },
			"all of it":        func(k int, x table.Data) { x.Y[k*10], x.X[0][k*10], x.X[1][k*10] = math.NaN(), math.NaN(), math.Inf(1) },
		} {
			if got := run(bad); !slices.Equal(got, want) {
				t.Errorf("%T, %s: %v, want %v", c, name, got, want)
			}
		}
	}
}

// auto follows a public rule, and least squares has no such method.
func TestAutoChoosesNewtonByAPublicRule(t *testing.T) {
	labels, huber := Regression{Loss: loss.Logistic{}, Labels: true}, Regression{Loss: loss.Huber{}}
	penalised := Regression{Loss: loss.Huber{}, Penalty: catalogue.PenaltyL1, Lambda: 0.1}
	shortened := Regression{Loss: loss.Logistic{}, Labels: true, FeatureNorm: 1}
	for _, c := range []struct {
		a    Regression
		n, d int
		want string
		on   string
	}{
		{labels, 200_000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{huber, 200_000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{penalised, 200_000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{huber, 20_000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{penalised, 20_000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{huber, 2500, 5, "centred descent", catalogue.WhiteningOff},
		{penalised, 2500, 5, "centred descent", catalogue.WhiteningOff},
		{labels, 3000, 5, catalogue.MethodNewton, catalogue.WhiteningOn},
		{labels, 2000, 5, "accmd", catalogue.WhiteningOff},
		{labels, 1500, 2, catalogue.MethodNewton, catalogue.WhiteningOn}, // the score's noise alone would be too much
		{shortened, 2000, 5, "accmd", catalogue.WhiteningOff},            // second moments could be learned of short rows
		{labels, 20_000, 40, "accmd", catalogue.WhiteningOff},
	} {
		p, err := c.a.Plan(table.Shape{N: c.n, D: c.d, Intercept: true}, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil || p.ChosenMethod != c.want || p.Parameters["whitening"] != c.on || p.Method != catalogue.MethodAuto {
			t.Errorf("%T, %d rows, %d coefficients: %v, %v, %v", c.a.Loss, c.n, c.d, p.ChosenMethod, p.Parameters, err)
		}
	}
	_, err := Regression{Loss: loss.Squared{}, Method: catalogue.MethodNewton}.Plan(table.Shape{N: 1000, D: 5, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
	if !errors.Is(err, plan.ErrParameter) {
		t.Errorf("least squares: %v", err)
	}
	if _, err := Recipe("linear", map[string]any{"method": catalogue.MethodNewton}, nil); !errors.Is(err, plan.ErrParameter) {
		t.Errorf("linear: %v", err)
	}
}

// With hardly any noise a penalised fit, one within a small ball and one without an
// intercept are those of the exact problem.
func TestNewtonSolvesThePenalisedProblem(t *testing.T) {
	ball := prox.L2Ball{Radius: 100}
	for _, c := range []struct {
		curve curve
		loss  loss.Loss
		near  float64
	}{{logisticCurve{}, loss.Logistic{}, 0.01}, {huberCurve{delta: 1, cut: 4}, loss.Huber{Delta: 1}, 0.01}} { // the exact fit of counts is that of newton_poisson_test.go
		x := tableOf(c.curve, "skew", 20_000, 5, 3)
		ones := plantest.Clone(x)
		ones.X, ones.Intercept = append([][]float64{slices.Repeat([]float64{1}, x.N)}, ones.X...), false
		for name, psi := range map[string]prox.Operator{
			"l1":                        prox.ExceptFirst{Operator: prox.L1{Lambda: 0.02}},
			"l2":                        prox.ExceptFirst{Operator: prox.L2{Lambda: 0.1}},
			"elastic net":               prox.ExceptFirst{Operator: prox.ElasticNet{L1: 0.01, L2: 0.05}},
			"group l1":                  prox.ExceptFirst{Operator: prox.GroupL1{Lambda: 0.01, Groups: [][]int{{0, 1}, {2}}}},
			"an l1 that leaves nothing": prox.ExceptFirst{Operator: prox.L1{Lambda: 10}},
			"no penalty":                prox.Zero{},
			"a small ball":              prox.L2Ball{Radius: 0.7},
		} {
			want := exact(c.loss, psi, plantest.Clone(x))
			for layout, table := range map[string]table.Data{"intercept": x, "a column of ones": ones} {
				a := Newton{Curve: c.curve, Bound: 3.4, Psi: prox.Sum{A: psi, B: ball}}
				if small, ok := psi.(prox.L2Ball); ok {
					a.Psi = small
				}
				w, err := coefficients(planOf(t, a, table.Shape, 0x1p-10).Run(t.Context(), plantest.Clone(table), mechtest.Source(t, 1)))
				if err != nil {
					t.Fatal(err)
				}
				for j := range w {
					if math.Abs(w[j]-want[j]) > c.near {
						t.Errorf("%T, %s, %s: %v, want %v", c.curve, name, layout, w, want)
						break
					}
				}
			}
		}
	}
}

// Tables that leave nothing to fit are answered with finite numbers.
func TestNewtonOfDegenerateTables(t *testing.T) {
	for name, fill := range map[string]func(i, j int) float64{
		"no numbers":     func(i, j int) float64 { return math.NaN() },
		"all the same":   func(i, j int) float64 { return 1 },
		"all zero":       func(i, j int) float64 { return 0 },
		"very large":     func(i, j int) float64 { return 1e300 },
		"large":          func(i, j int) float64 { return 1e100 * float64(1+i%3) },
		"very small":     func(i, j int) float64 { return 1e-300 },
		"separable":      func(i, j int) float64 { return float64(i % 2) },
		"far from scale": func(i, j int) float64 { return 1e4 * float64(i%7) },
	} {
		for _, c := range []curve{logisticCurve{}, huberCurve{delta: 1, cut: 2}, poissonCurve{unit: 1, scale: 1, cut: 4}} {
			for _, z := range []float64{0x1p-10, 1, 100} {
				x := tableOf(c, "gauss", 3000, 3, 1)
				for i := range x.N {
					for j := range x.X {
						x.X[j][i] = fill(i, j)
					}
					if x.Y[i] = fill(i, -1); x.Y[i] != 0 && x.Y[i] != 1 {
						if _, labels := c.(logisticCurve); labels {
							x.Y[i] = float64(i % 2)
						}
					}
				}
				r, err := planOf(t, Newton{Curve: c, Bound: 2, Intervals: true}, x.Shape, z).Run(t.Context(), x, mechtest.Source(t, 1))
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range slices.Concat(r.Coefficients, r.StdErr, r.Low, r.High) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%T, %s, noise %v: %+v", c, name, z, r)
						break
					}
				}
			}
		}
	}
}
